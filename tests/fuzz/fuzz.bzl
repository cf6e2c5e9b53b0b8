"""Fuzz targets, for tests and for libFuzzer."""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library", "cc_test")

def fuzz_test(name, srcs, deps):
    """Makes of a source that defines LLVMFuzzerTestOneInput a test and a fuzzer.

    The test runs the inputs in corpus/<name> and some thousand mutations of them, always the same.
    <name>_fuzzer is libFuzzer's program; it needs --config=fuzz, and tests/fuzz/run runs it.

    Args:
      name: of the cc_test.
      srcs: of it.
      deps: of it.
    """
    corpus = native.glob(["corpus/" + name + "/*"])
    cc_library(
        name = name + "_target",
        testonly = True,
        srcs = srcs,
        visibility = ["//visibility:private"],
        deps = deps,
        alwayslink = True,
    )
    cc_test(
        name = name,
        size = "small",
        args = ["$(location %s)" % file for file in corpus],
        data = corpus,
        deps = [
            ":" + name + "_target",
            ":replay",
        ],
    )
    cc_binary(
        name = name + "_fuzzer",
        testonly = True,
        linkopts = ["-fsanitize=fuzzer"],
        tags = [
            "fuzzer",
            "manual",
        ],
        deps = [":" + name + "_target"],
    )
