"""Conformance tests of strategy plugins."""

load("@rules_cc//cc:defs.bzl", "cc_test")

# Of the repository that this file is in.
_MAIN = str(Label("//strategies/conformance:main"))

def strategy_conformance_test(name, plugin, options = [""], models = [], data = [], size = "medium", **kwargs):
    """Makes a test that checks a plugin with each set of options.

    Args:
      name: of the test.
      plugin: the label of the plugin, NAME.so.
      options: sets of options, "name=value,..." each; "" are the defaults.
      models: names of the models to check it on; none: all.
      data: files that the plugin reads.
      size: of the test.
      **kwargs: what else a cc_test takes.
    """
    flags = ["--models=" + ",".join(models)] if models else []
    cc_test(
        name = name,
        size = size,
        args = flags + ["$(location %s)" % plugin] + ["'%s'" % option for option in options],
        data = [plugin] + data,
        deps = [_MAIN],
        **kwargs
    )
