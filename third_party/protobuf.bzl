"""Protobuf, from libprotobuf-dev and protobuf-compiler, as the native proto rules expect it."""

load("//third_party:system_repository.bzl", "cc_target", "system_repository")

_WELL_KNOWN = ["any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers"]

# The generated code of the well-known types is in libprotobuf: cc_proto_library must not make it
# again. The attribute that says so has another name since Bazel 5; Debian's Bazel 4 has no version.
_BUILD = """
sh_binary(
    name = "protoc",
    srcs = ["protoc_link"],
    visibility = ["//visibility:public"],
)

proto_lang_toolchain(
    name = "cc_toolchain",
    {listed} = {well_known},
    command_line = "--cpp_out=$(OUT)",
    runtime = ":protobuf",
    visibility = ["//visibility:public"],
)
"""

_PROTO = """
proto_library(
    name = "{name}_proto",
    srcs = ["src/google/protobuf/{name}.proto"],
    strip_import_prefix = "src",
    visibility = ["//visibility:public"],
)
"""

def protobuf_repository(name):
    old = not native.bazel_version or native.bazel_version.startswith("4.")
    build = (
        _BUILD.format(
            listed = "blacklisted_protos" if old else "denylisted_protos",
            well_known = repr([":%s_proto" % proto for proto in _WELL_KNOWN]),
        ) +
        cc_target("protobuf", ["-lprotobuf", "-pthread"]) +
        cc_target("protobuf_lite", ["-lprotobuf-lite", "-pthread"]) +
        "".join([_PROTO.format(name = proto) for proto in _WELL_KNOWN])
    )
    symlinks = {
        "src/google/protobuf/%s.proto" % proto: "/usr/include/google/protobuf/%s.proto" % proto
        for proto in _WELL_KNOWN
    }
    symlinks["protoc_link"] = "/usr/bin/protoc"
    system_repository(
        name = name,
        debian_package = "libprotobuf-dev and protobuf-compiler",
        files = {"BUILD.bazel": build},
        symlinks = symlinks,
        version_header = "google/protobuf/port_def.inc",
    )
