"""Draws the settings of a seed: model, sizes, ranks, network, and the Plans that are compared."""

import random

from plans import draw_plans

# In the order of the page. `bytes_per_second` is the rate of an emulated link.
NETWORKS = {
    "one process": {"ranks": 1, "threads": 2},
    "shm": {"ranks": 2, "threads": 1, "backend": "shm"},
    "tcp": {"ranks": 2, "threads": 1, "backend": "tcp"},
    "1 Gbit/s": {"ranks": 2, "threads": 1, "rate": "1gbit", "bytes_per_second": 1e9 / 8},
    "200 Mbit/s": {"ranks": 2, "threads": 1, "rate": "200mbit", "bytes_per_second": 2e8 / 8},
}
SETTINGS = 8
FOUR_RANKS_NETWORKS = ["shm", "tcp"]

CORES = 2
MAX_PARAMETERS = 8_000_000
# A guess of the seconds that a step computes, and the most that it sends over an emulated link.
COMPUTATION_SECONDS = (0.06, 0.5)
MAX_NETWORK_SECONDS = 0.6


class Draw:
    """Random choices that depend on the seed alone, whichever version of Python makes them."""

    def __init__(self, seed):
        # Only random() is the same in all versions.
        self.uniform = random.Random(seed).random

    def integer(self, low, high):
        return low + int(self.uniform() * (high - low + 1))

    def spread_out(self, low, high):
        """Returns a number whose logarithm is uniform."""
        return low * (high / low) ** self.uniform()

    def one_of(self, choices):
        return choices[self.integer(0, len(choices) - 1)]

    def some(self, choices, count):
        """Returns `count` of the choices, in their order."""
        left = list(range(len(choices)))
        while len(left) > count:
            del left[self.integer(0, len(left) - 1)]
        return [choices[i] for i in left]


def draw_gpt(draw):
    heads = draw.integer(2, 8)
    return {
        "layers": draw.integer(1, 6),
        "heads": heads,
        "channels": heads * draw.one_of([16, 20, 24, 32, 40, 48, 64]),
        "vocabulary": int(draw.spread_out(100, 12000)),
        "context": int(draw.spread_out(24, 256)),
    }


def draw_mlp(draw):
    return {
        "window": int(draw.spread_out(4, 32)),
        "channels": draw.integer(8, 64),
        "hidden": [int(draw.spread_out(96, 1200)) for _ in range(draw.integer(1, 3))],
        "vocabulary": int(draw.spread_out(100, 6000)),
    }


def tokens_of_sequence(model, sizes):
    return sizes["context" if model == "gpt" else "window"]


def weights_of(model, sizes):
    """Returns the elements of weights by which each token, or window, is multiplied."""
    if model == "gpt":
        return 12 * sizes["layers"] * sizes["channels"] ** 2 + (
            sizes["vocabulary"] * sizes["channels"]
        )
    widths = [sizes["window"] * sizes["channels"], *sizes["hidden"], sizes["vocabulary"]]
    return sum(inputs * outputs for inputs, outputs in zip(widths, widths[1:]))


def parameters_of(model, sizes):
    """Returns the number of parameters."""
    if model == "mlp":
        biases = sum(sizes["hidden"])
        return weights_of(model, sizes) + sizes["vocabulary"] * sizes["channels"] + biases
    channels = sizes["channels"]
    return (
        weights_of(model, sizes)
        + 13 * sizes["layers"] * channels
        + (sizes["context"] + 2) * channels
    )


def computation_seconds(model, sizes):
    """Returns a guess, for the cores together, of the seconds of one sequence.

    Products of few channels reach a smaller part of a core's rate, here 60 GFLOP/s.
    """
    width = sizes["channels"] if model == "gpt" else min(sizes["hidden"])
    rows = sizes["context"] if model == "gpt" else 1
    flops = 6 * rows * weights_of(model, sizes)
    if model == "gpt":
        flops += 6 * sizes["layers"] * rows**2 * sizes["channels"]
    return flops / (CORES * 60e9 * width / (width + 64))


def network_bytes(model, sizes, batch):
    """Returns about how many bytes a rank of two sends in a step: FSDP, or tensor parallel."""
    if model == "gpt":
        values = batch * sizes["context"] * sizes["channels"] * (4 * sizes["layers"] + 2)
    else:
        values = 2 * batch * (sizes["window"] * sizes["channels"] + sum(sizes["hidden"]))
    return 4 * max(1.5 * parameters_of(model, sizes), values)


def draw_model(draw, network, ranks):
    """Returns a model, its sizes and a batch with which a step takes a time that is wanted."""
    while True:
        model = "mlp" if draw.uniform() < 0.25 else "gpt"
        sizes = draw_gpt(draw) if model == "gpt" else draw_mlp(draw)
        target = draw.spread_out(*COMPUTATION_SECONDS)
        batch = round(target / computation_seconds(model, sizes))
        if ranks == 1:
            batch += batch % 2  # for two micro-batches
        rate = network.get("bytes_per_second")
        slow = rate and network_bytes(model, sizes, batch) / rate > MAX_NETWORK_SECONDS
        least, most = (2 * ranks, 128) if model == "gpt" else (64, 8192)
        if least <= batch <= most and parameters_of(model, sizes) <= MAX_PARAMETERS and not slow:
            return model, sizes, batch


def draw_setting(draw, name, ranks):
    network = NETWORKS[name]
    model, sizes, batch = draw_model(draw, network, ranks)
    rate = network.get("bytes_per_second")
    seconds = batch * computation_seconds(model, sizes)
    if rate:
        seconds += network_bytes(model, sizes, batch) / rate
    return {
        "network": name,
        "ranks": ranks,
        "threads": network["threads"],
        "model": model,
        "sizes": sizes,
        "batch": batch,
        "sequence": tokens_of_sequence(model, sizes),
        "clip_norm": draw.integer(0, 1),
        "parameters": parameters_of(model, sizes),
        "guessed_seconds": round(seconds, 3),
        "plans": draw_plans(draw, model, sizes, ranks),
    }


def draw_settings(seed):
    """Returns the settings of a seed, and those of four ranks."""
    draw = Draw(seed)
    names = list(NETWORKS)
    drawn = names + [draw.one_of(names) for _ in range(SETTINGS - len(names))]
    drawn.sort(key=names.index)
    settings = [draw_setting(draw, name, NETWORKS[name]["ranks"]) for name in drawn]
    four_ranks = [draw_setting(draw, name, 4) for name in FOUR_RANKS_NETWORKS]
    return settings, four_ranks


def short_settings():
    """Returns one tiny setting, for a quick look."""
    sizes = {"layers": 1, "heads": 2, "channels": 32, "vocabulary": 101, "context": 16}
    return [
        {
            "network": "shm",
            "ranks": 2,
            "threads": 1,
            "model": "gpt",
            "sizes": sizes,
            "batch": 5,
            "sequence": 16,
            "clip_norm": 1,
            "parameters": parameters_of("gpt", sizes),
            "guessed_seconds": 0.01,
            "plans": draw_plans(Draw(0), "gpt", sizes, 2),
        }
    ]
