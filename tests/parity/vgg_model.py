"""VGG in plain torch over a dictionary of parameters, which have the engine's paths and order.

Pictures are [batch, height, width, channels] here; torch's functions take them with the channels
first.
"""

import numpy as np
import torch
import torch.nn.functional as F

IGNORE_INDEX = -100

# Running statistics, and their initial values
NORM_STATES = {"running_mean": 0.0, "running_variance": 1.0}


def has_norm(m):
    return m["batch_norm"] is not None


def sizes_left(m):
    """The height, width and channels that the flat layers read"""
    height, width, channels = m["height"], m["width"], m["channels"]
    for layer in m["layers"]:
        if layer == 0:
            height, width = height // 2, width // 2
        else:
            channels = layer
    return height, width, channels


def shapes(m):
    result = {}
    channels = m["channels"]
    for i, out in enumerate(layer for layer in m["layers"] if layer > 0):
        b = f"features.{i}."
        result[b + "weight"] = (out, 3, 3, channels)
        if has_norm(m):
            result[b + "norm.weight"] = (out,)
            result[b + "norm.bias"] = (out,)
        else:
            result[b + "bias"] = (out,)
        channels = out
    inputs = sizes_left(m)
    for i, units in enumerate(m["hidden"]):
        result[f"hidden.{i}.weight"] = (units, *inputs)
        result[f"hidden.{i}.bias"] = (units,)
        inputs = (units,)
    result["head.weight"] = (m["classes"], int(np.prod(inputs)))
    result["head.bias"] = (m["classes"],)
    return result


def initial_states(m):
    """The running statistics before the first step"""
    if not has_norm(m):
        return {}
    return {
        f"features.{i}.norm.{name}": np.full(out, value)
        for i, out in enumerate(layer for layer in m["layers"] if layer > 0)
        for name, value in NORM_STATES.items()
    }


def draw(m, rng):
    """Initial parameters: weights of He et al. 2015 by fan-in, and biases near zero"""
    result = {}
    for path, shape in shapes(m).items():
        if path.endswith("bias"):
            value = 0.1 * rng.standard_normal(shape)
        elif path.endswith("norm.weight"):
            value = 1 + 0.1 * rng.standard_normal(shape)
        else:
            value = np.sqrt(2 / np.prod(shape[1:])) * rng.standard_normal(shape)
        result[path] = value
    return result


def batches(m, steps, batch, ignored, rng):
    """pictures u8 [steps, B, H, W, C] and labels i32 [steps, B]

    `ignored` of the labels of a step are -100.
    A picture is its class's one, which is of large blocks, under noise, so that a
    few steps learn something. Low classes are more frequent.
    """
    height, width = m["height"], m["width"]
    blocks = rng.integers(0, 256, (m["classes"], 4, 5, m["channels"]))
    rows, columns = np.arange(height) * 4 // height, np.arange(width) * 5 // width
    classes = blocks[:, rows][:, :, columns]
    frequency = 0.7 ** np.arange(m["classes"])
    drawn = rng.choice(m["classes"], (steps, batch), p=frequency / frequency.sum())
    labels = drawn.astype(np.int32)
    noise = rng.integers(0, 256, (steps, batch, height, width, m["channels"]))
    pictures = ((3 * classes[labels] + noise) // 4).astype(np.uint8)
    for k in range(steps):
        labels[k, rng.permutation(batch)[:ignored]] = IGNORE_INDEX
    return pictures, labels


class Watch:
    """Collects how close a run comes to what float32 could decide otherwise"""

    def __init__(self):
        self.kinks = []  # how far inputs of relu are from 0
        self.ties = []  # by how much the largest in a window is larger than the second

    def relu(self, z):
        self.kinks.append(z.detach().abs().min().item())

    def pool(self, x):
        windows = F.unfold(x.detach().flatten(0, 1).unsqueeze(1), 2, stride=2)
        first, second = windows.topk(2, dim=1).values.unbind(1)
        # Nothing flows back through a window of zeros. Other elements are equal where all inputs
        # of their convolution are 0, in any precision, and the first one is the largest.
        gaps = (first - second)[(first > 0) & (first > second)]
        self.ties.append(gaps.min().item())


def normalize(m, p, states, path, z, groups):
    """Batch norm, with statistics of each group of rows; then updates `states`

    `groups` are the group of each row. Without them, it evaluates.
    """
    norm = m["batch_norm"]
    weight, bias = p[path + "weight"], p[path + "bias"]
    if groups is None:
        running = (states[path + name] for name in NORM_STATES)
        return F.batch_norm(z, *running, weight, bias, False, 0.0, norm["eps"])
    result, batch = [], {name: [] for name in NORM_STATES}
    for group in groups.unique():
        # With a momentum of 1, they become the mean and the unbiased variance of the group.
        own = [torch.zeros_like(weight, requires_grad=False) for _ in NORM_STATES]
        rows = z[groups == group]
        result.append(F.batch_norm(rows, *own, weight, bias, True, 1.0, norm["eps"]))
        for values, value in zip(batch.values(), own):
            values.append(value)
    momentum = norm["momentum"]
    for name, values in batch.items():
        old = states[path + name]
        states[path + name] = (1 - momentum) * old + momentum * torch.stack(values).mean(0)
    return torch.cat(result)


def logits(m, p, pictures, states, groups=None, watch=None):
    """[rows, classes]; `groups` as for normalize()"""
    dtype = p["head.weight"].dtype
    x = (pictures.to(dtype) * (2.0 / 255) - 1).permute(0, 3, 1, 2)

    def relu(z):
        if watch is not None:
            watch.relu(z)
        return F.relu(z)

    i = 0
    for layer in m["layers"]:
        if layer == 0:
            if watch is not None:
                watch.pool(x)
            x = F.max_pool2d(x, 2)
            continue
        b = f"features.{i}."
        weight = p[b + "weight"].permute(0, 3, 1, 2)
        x = F.conv2d(x, weight, p.get(b + "bias"), padding=1)
        if has_norm(m):
            x = normalize(m, p, states, b + "norm.", x, groups)
        x = relu(x)
        i += 1
    x = x.flatten(1)
    for i in range(len(m["hidden"])):
        weight = p[f"hidden.{i}.weight"]
        if i == 0:
            # Its inputs are [height, width, channels] in the engine.
            weight = weight.permute(0, 3, 1, 2).flatten(1)
        x = relu(F.linear(x, weight, p[f"hidden.{i}.bias"]))
    return F.linear(x, p["head.weight"], p["head.bias"])


def loss(m, p, pictures, labels, states, watch=None):
    """The mean cross-entropy in training; updates `states`

    Pictures without a label count in no statistic of batch norm, so they are left out.
    """
    valid = labels != IGNORE_INDEX
    groups = None
    if has_norm(m):
        rows = len(labels) // m["batch_norm"]["groups"]
        groups = (torch.arange(len(labels)) // rows)[valid]
    return F.cross_entropy(
        logits(m, p, pictures[valid], states, groups, watch), labels[valid]
    )
