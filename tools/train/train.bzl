"""The training tool, linked with one model."""

load("@rules_cc//cc:defs.bzl", "cc_binary")

def tessera_train(name, srcs, model, **kwargs):
    """Makes a program that trains a model.

    Args:
      name: of the cc_binary.
      srcs: a main function that calls tessera::TrainMain with the model's definition.
      model: the library of the model.
      **kwargs: what else a cc_binary takes.
    """
    cc_binary(
        name = name,
        srcs = srcs,
        data = [
            "//docs:clusters",
            "//strategies:plugins",
            "//third_party/bible_kjv:text",
        ],
        deps = [
            model,
            "//tools/train:train_main",
        ],
        **kwargs
    )
