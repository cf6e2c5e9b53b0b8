"""Conformance tests of strategy plugins."""

load("@rules_cc//cc:defs.bzl", "cc_test")

# A label in the repository that contains this file.
_MAIN = str(Label("//strategies/conformance:main"))

def strategy_conformance_test(name, plugin, options = [], values = {}, models = [], data = [], pairwise = True, size = "medium", **kwargs):
    """Makes a test that checks a plugin, with its options combined in pairs.

    The target NAME_product, which is manual, checks all combinations. Sets of options that are
    checked on all models take a minute each; with pairwise = False a test checks these alone.

    Args:
      name: of the test.
      plugin: the label of the plugin, NAME.so.
      options: further sets of options, "name=value,..." each, checked on all models.
      values: the values to try of options that are no choices and no bools, by name; the default
        is always tried.
      models: names of the models to check it on; none: all.
      data: files that the plugin reads.
      pairwise: whether the options are combined.
      size: of the test.
      **kwargs: what else a cc_test takes.
    """
    flags = ["--models=" + ",".join(models)] if models else []
    flags += ["'--try=%s=%s'" % (option, value) for option in values for value in values[option]]
    strategy = "$(location %s)" % plugin
    cc_test(
        name = name,
        size = size,
        args = flags + (["--pairwise"] if pairwise else []) + [strategy] + ["'%s'" % option for option in options],
        data = [plugin] + data,
        deps = [_MAIN],
        **kwargs
    )
    if not pairwise:
        return
    cc_test(
        name = name + "_product",
        size = "enormous",
        args = flags + ["--product", strategy],
        data = [plugin] + data,
        tags = ["manual"],
        deps = [_MAIN],
    )
