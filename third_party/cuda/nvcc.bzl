"""cuda_library: CUDA sources, compiled by nvcc, that C++ targets depend on as on a cc_library."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load("@cuda//:enabled_flag.bzl", "EnabledInfo")
load("@cuda//:toolkit.bzl", "HOME")

# Machine code for A100 and H100 (whose own instructions need the `a`); PTX for what comes after.
_ARCHITECTURES = [
    "-gencode=arch=compute_80,code=[compute_80,sm_80]",
    "-gencode=arch=compute_90a,code=sm_90a",
]

def _compile(ctx, toolchain, context, source):
    object = ctx.actions.declare_file("_objs/%s/%s.o" % (ctx.label.name, source.basename))
    args = ctx.actions.args()
    args.add_all(["-c", "-O3", "-std=c++20", "--expt-relaxed-constexpr"])
    args.add_all(["-Xcompiler", "-fPIC,-Wall"])
    args.add_all(_ARCHITECTURES + ctx.attr.copts)
    args.add_all([".", ctx.bin_dir.path], before_each = "-I")
    args.add_all(context.defines, before_each = "-D")
    args.add_all(context.includes, before_each = "-I")
    args.add_all(context.quote_includes, before_each = "-I")
    args.add_all(context.system_includes, before_each = "-isystem")
    args.add_all(["-ccbin", toolchain.compiler_executable, source, "-o", object])
    ctx.actions.run_shell(
        # nvcc names its temporary files after its process number; sandboxes share these and /tmp.
        command = 'export TMPDIR=$(mktemp -d) && trap "rm -rf $TMPDIR" EXIT && "$@"',
        arguments = [HOME + "/bin/nvcc", args],
        inputs = depset(ctx.files.srcs + ctx.files.hdrs, transitive = [context.headers]),
        outputs = [object],
        mnemonic = "CudaCompile",
        progress_message = "Compiling %s" % source.short_path,
        use_default_shell_env = True,
    )
    return object

def _cuda_library_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    deps = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps])
    enabled = ctx.attr._enabled[EnabledInfo].enabled
    objects = depset([
        _compile(ctx, toolchain, deps.compilation_context, source)
        for source in ctx.files.srcs
        if enabled
    ])
    linking, _ = cc_common.create_linking_context_from_compilation_outputs(
        actions = ctx.actions,
        name = ctx.label.name,
        feature_configuration = features,
        cc_toolchain = toolchain,
        compilation_outputs = cc_common.create_compilation_outputs(
            objects = objects,
            pic_objects = objects,
        ),
        linking_contexts = [deps.linking_context],
        disallow_dynamic_library = True,
        alwayslink = ctx.attr.alwayslink,
    )
    own = CcInfo(
        compilation_context = cc_common.create_compilation_context(
            headers = depset(ctx.files.hdrs),
        ),
        linking_context = linking,
    )
    return [DefaultInfo(files = objects), cc_common.merge_cc_infos(cc_infos = [own, deps])]

cuda_library = rule(
    implementation = _cuda_library_impl,
    doc = "Where there is no toolkit, or it is switched off, it holds its headers, nothing else.",
    attrs = {
        "alwayslink": attr.bool(),
        "copts": attr.string_list(),
        "deps": attr.label_list(providers = [CcInfo]),
        "hdrs": attr.label_list(allow_files = [".h", ".cuh"]),
        "srcs": attr.label_list(allow_files = [".cu"]),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
        "_enabled": attr.label(default = "@cuda//:enabled"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
