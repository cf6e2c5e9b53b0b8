"""Plugins: dynamic libraries that export one symbol."""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library")

# A label in the repository that contains this file.
_EXPORTS = str(Label("//strategies/api:plugin.lds"))

def strategy_plugin(name, srcs, deps = [], testonly = False, **kwargs):
    """Makes the plugin NAME.so.

    Args:
      name: of the strategy.
      srcs: sources, one of which defines `tessera_strategy` (or uses TESSERA_STRATEGY).
      deps: what they use; //strategies/api:kit or //strategies/api:strategy.
      testonly: whether only tests may use it.
      **kwargs: what else a cc_binary takes.
    """
    cc_library(
        name = name + "_lib",
        testonly = testonly,
        srcs = srcs,
        visibility = ["//visibility:private"],
        deps = deps,
        alwayslink = True,
    )
    cc_binary(
        name = name + ".so",
        testonly = testonly,
        additional_linker_inputs = [_EXPORTS],
        # Bazel prefers gold, the only linker with --start-lib. But gold exports symbols that the
        # script makes local if a shared library uses them too.
        features = ["-supports_start_end_lib"],
        linkopts = [
            "-fuse-ld=bfd",
            "-Wl,--version-script=$(location %s)" % _EXPORTS,
        ],
        linkshared = True,
        deps = [name + "_lib"],
        **kwargs
    )
