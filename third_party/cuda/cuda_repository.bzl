"""@cuda: the CUDA toolkit of this machine, or targets of the same names with nothing in them.

The toolkit is in $CUDA_HOME or /usr/local/cuda; cuDNN and NCCL may also lie where Debian puts them.
`@cuda//:available` is the config_setting that code selects on. --@cuda//:enabled=false builds as
on a machine without a toolkit.
"""

_LIBRARIES = {
    "cublas": "cublas_v2.h",
    "cublaslt": "cublasLt.h",
    "cudart": "cuda_runtime.h",
    "cudnn": "cudnn.h",
    "nccl": "nccl.h",
}
_LINK_NAMES = {"cublaslt": "cublasLt"}
_SYSTEM_INCLUDES = [
    "/usr/include",
    "/usr/include/aarch64-linux-gnu",
    "/usr/include/x86_64-linux-gnu",
]

def _find(rctx):
    """The toolkit's folder, or None and what is missing."""
    home = rctx.path(rctx.os.environ.get("CUDA_HOME") or "/usr/local/cuda")
    if not home.get_child("bin").get_child("nvcc").exists:
        return None, "%s/bin/nvcc" % home
    for header in _LIBRARIES.values():
        folders = [str(home.get_child("include"))] + _SYSTEM_INCLUDES
        if not [f for f in folders if rctx.path(f + "/" + header).exists]:
            return None, header
    return home, None

def _library(name, home):
    linkopts = [
        "-L%s/lib64" % home,
        "-Wl,-rpath,%s/lib64" % home,
        "-l" + _LINK_NAMES.get(name, name),
    ]
    return """
cc_library(
    name = "{name}",
    deps = select({{":available": [":{name}_found"], "//conditions:default": []}}),
)

cc_library(
    name = "{name}_found",
    hdrs = {hdrs},
    defines = {defines},
    includes = ["include"],
    linkopts = {linkopts},
)
""".format(
        name = name,
        # Not all of include/: 2000 headers of cccl would be looked at in every build.
        hdrs = "glob(%r)" % [
            "include/*.h",
            "include/*.hpp",
            "include/crt/**",
            "include/cooperative_groups/**",
            "include/cccl/nv/**",
            "include/nccl_device/**",
        ] if home else "[]",
        defines = ["TESSERA_CUDA=1"] if home else [],
        linkopts = linkopts if home else [],
    )

def _cuda_repository_impl(rctx):
    home, missing = _find(rctx)
    if home:
        rctx.symlink(home.get_child("include"), "include")
    elif rctx.os.environ.get("CUDA_HOME"):
        fail("CUDA_HOME is set, but %s is not there" % missing)
    rctx.symlink(Label("//third_party/cuda:enabled_flag.bzl"), "enabled_flag.bzl")
    rctx.file("BUILD.bazel", """
load(":enabled_flag.bzl", "enabled_flag")

package(default_visibility = ["//visibility:public"])

enabled_flag(name = "enabled", build_setting_default = {found})

config_setting(name = "available", flag_values = {{":enabled": "true"}})
""".format(found = home != None) + "".join([_library(name, home) for name in _LIBRARIES]))
    rctx.file("toolkit.bzl", 'HOME = "%s"\n' % (home or ""))

cuda_repository = repository_rule(
    implementation = _cuda_repository_impl,
    environ = ["CUDA_HOME"],
    local = True,
)
