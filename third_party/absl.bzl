"""Abseil, from libabsl-dev, under the labels of Abseil's own Bazel build."""

load("//third_party:system_repository.bzl", "ALL_LIBRARIES", "cc_target", "system_repository")

_PACKAGES = {
    "algorithm": ["algorithm", "container"],
    "base": ["base", "config", "core_headers", "dynamic_annotations", "endian", "log_severity"],
    "cleanup": ["cleanup"],
    "container": [
        "btree",
        "fixed_array",
        "flat_hash_map",
        "flat_hash_set",
        "inlined_vector",
        "node_hash_map",
        "node_hash_set",
    ],
    "debugging": ["failure_signal_handler", "leak_check", "stacktrace", "symbolize"],
    "flags": [
        "commandlineflag",
        "config",
        "flag",
        "marshalling",
        "parse",
        "program_name",
        "reflection",
        "usage",
        "usage_internal",
    ],
    "functional": ["any_invocable", "bind_front", "function_ref"],
    "hash": ["hash"],
    "memory": ["memory"],
    "meta": ["type_traits"],
    "numeric": ["bits", "int128"],
    "random": ["bit_gen_ref", "distributions", "random", "seed_sequences"],
    "status": ["status", "statusor"],
    "strings": ["cord", "str_format", "strings"],
    "synchronization": ["synchronization"],
    "time": ["time"],
    "types": ["any", "compare", "optional", "span", "variant"],
    "utility": ["utility"],
}

def absl_repository(name):
    # Abseil is some 80 small libraries that need each other, and each release has other ones. Every
    # target links all that are installed, and --as-needed keeps of them what is used.
    linkopts = ["-Wl,--push-state,--as-needed", ALL_LIBRARIES, "-Wl,--pop-state", "-pthread"]
    files = {"BUILD.bazel": cc_target("all", linkopts)}
    for package, targets in _PACKAGES.items():
        files["absl/%s/BUILD.bazel" % package] = "".join(
            [cc_target(target, deps = ["//:all"]) for target in targets],
        )
    system_repository(
        name = name,
        debian_package = "libabsl-dev",
        files = files,
        library_prefix = "libabsl_",
        version_header = "absl/base/config.h",
    )
