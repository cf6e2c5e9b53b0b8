"""The training tool, linked with one model."""

load("@rules_cc//cc:defs.bzl", "cc_binary")

def tessera_train(name, model, **kwargs):
    """Makes a program that trains a model.

    Args:
      name: of the cc_binary.
      model: a library that defines tessera::ThisModel() (core/train/model.h).
      **kwargs: what else a cc_binary takes.
    """
    cc_binary(
        name = name,
        data = [
            "//strategies:plugins",
            "//third_party/bible_kjv:text",
        ],
        deps = [
            # The main function asks for the model, so it stands before it on the linker's line.
            "//tools/train:main",
            model,
        ],
        **kwargs
    )
