"""All repositories but our own. None is downloaded: each is over a package of the system."""

load("//third_party:absl.bzl", "absl_repository")
load("//third_party/cuda:cuda_repository.bzl", "cuda_repository")
load("//third_party:protobuf.bzl", "protobuf_repository")
load(
    "//third_party:system_repository.bzl",
    "cc_target",
    "simple_system_library",
    "system_repository",
)

def tessera_repositories(root = ""):
    """Declares them.

    Args:
      root: the folder of Tessera, with a "/" at its end, if it is another one's repository.
    """
    _bazel_repositories(root)
    absl_repository(name = "com_google_absl")
    protobuf_repository(name = "com_google_protobuf")
    system_repository(
        name = "com_google_googletest",
        debian_package = "libgtest-dev and libgmock-dev",
        files = {"BUILD.bazel": cc_target("gtest", ["-lgmock", "-lgtest", "-pthread"]) +
                                cc_target("gtest_main", ["-lgmock_main"], [":gtest"])},
        version_header = "gmock/gmock.h",
    )
    system_repository(
        name = "com_google_benchmark",
        debian_package = "libbenchmark-dev",
        files = {"BUILD.bazel": cc_target("benchmark", ["-lbenchmark", "-pthread"]) +
                                cc_target("benchmark_main", ["-lbenchmark_main"], [":benchmark"])},
        version_header = "benchmark/benchmark.h",
    )
    simple_system_library("onednn", "onednn", "libdnnl-dev", "dnnl_version.h", ["-ldnnl"])
    simple_system_library("highway", "hwy", "libhwy-dev", "hwy/highway.h", ["-lhwy"])
    simple_system_library("nlohmann_json", "json", "nlohmann-json3-dev", "nlohmann/json.hpp")
    simple_system_library("xxhash", "xxhash", "libxxhash-dev", "xxhash.h", ["-lxxhash"])
    simple_system_library("utfcpp", "utfcpp", "libutfcpp-dev", "utf8.h")
    simple_system_library("openssl", "crypto", "libssl-dev", "openssl/opensslv.h", ["-lcrypto"])
    simple_system_library(
        "tcmalloc",
        "tcmalloc_minimal",
        "libgoogle-perftools-dev",
        "gperftools/tcmalloc.h",
        ["-ltcmalloc_minimal"],
    )
    simple_system_library("elfutils", "elf", "libelf-dev", "elfutils/version.h", ["-lelf"])
    simple_system_library("zlib", "zlib", "zlib1g-dev", "zlib.h", ["-lz"])
    simple_system_library("gloo", "gloo", "libgloo-dev", "gloo/config.h", ["-lgloo"])
    simple_system_library("openmpi", "openmpi", "libopenmpi-dev", "mpi/mpi.h", ["-lmpi"])
    native.local_repository(name = "openmp", path = root + "third_party/openmp")
    cuda_repository(name = "cuda")

def _bazel_repositories(root):
    """What Bazel's own rules ask for, and would download."""
    native.local_repository(name = "rules_cc", path = root + "third_party/rules_cc")
    native.local_repository(
        name = "remote_coverage_tools",
        path = root + "third_party/remote_coverage_tools",
    )

    # Debian's Bazel has no version, and has these in packages of their own. Later ones bring them.
    if not native.bazel_version or native.bazel_version.startswith("4."):
        native.local_repository(name = "platforms", path = "/usr/share/bazel/tools/platforms")
        native.local_repository(name = "bazel_skylib", path = "/usr/share/bazel/tools/skylib")
        native.local_repository(name = "rules_java", path = "/usr/share/bazel/rules/java")
