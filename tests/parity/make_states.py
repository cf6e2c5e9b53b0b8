#!/usr/bin/env python3
"""Makes the PyTorch reference states that the engine is held against.

The models are written out in plain torch over a dictionary of parameters that
carries the engine's own paths as names (that of VGG in vgg_model.py). Everything
is computed in float64; a second pass in float32 measures how far PyTorch's own
float32 lands from it, and for VGG a third one how far its bf16 does. README.md
beside this file says what a file holds.

    make_states.py                 write states/<case>.safetensors
    make_states.py --check         recompute and compare with those files
    make_states.py --out DIR       another folder than states/
    make_states.py --verbose       also print the distances
"""

import argparse
import contextlib
import json
import math
import pathlib
import sys

import numpy as np
import safetensors
import safetensors.numpy
import torch
import torch.nn.functional as F
import vgg_model

FORMAT = 1
STEPS = 10  # of language models; VGG's cases have their own
WARMUP = 3
MIN_LR_RATIO = 0.1
IGNORE_INDEX = vgg_model.IGNORE_INDEX
LN_EPS = 1e-5
TOP_K = (1, 5)  # VGG's metrics

# VGG's runs in bfloat16 are several, each from another first batch. A single one is
# close or far by luck: an input of relu on the other side of 0 sends it elsewhere.
FIRST_BATCHES = [0, 5, 10, 15]
INPUT_NAMES = {False: ("tokens", "targets"), True: ("pictures", "labels")}  # by is_vgg()

# No input of relu is as close to 0, and no two largest elements of a pool's window
# as close to each other. VGG has so many that one must be closer.
NEAR = 2e-5
VGG_NEAR = {"sgd": 1e-6, "adamw": 1e-10}

# A gradient's distance is taken against at least this share of the norm of all
# gradients together.
GRAD_FLOOR = 1e-6

SGD = {
    "lr": 0.1,
    "momentum": 0.9,
    "dampening": 0.0,
    "nesterov": False,
    "weight_decay": 0.01,
}
ADAMW = {
    "lr": 3e-3,
    "betas": [0.9, 0.95],
    "eps": 1e-8,
    "weight_decay": 0.1,
}

# VGG11 with few channels, at sizes that are nowhere even, and without the last
# pool: so the flat layers read pictures of 2 x 3.
VGG = {
    "kind": "vgg",
    "height": 35,
    "width": 51,
    "channels": 3,
    "layers": [3, 0, 5, 0, 7, 7, 0, 9, 9, 0, 9, 9],
    "hidden": [13, 11],
    "classes": 11,
    "activation": "relu",
    "batch_norm": None,
}
VGG_BN = {**VGG, "batch_norm": {"eps": 1e-5, "momentum": 0.1, "groups": 1}}
VGG_BN_GROUPS = {**VGG, "batch_norm": {"eps": 1e-5, "momentum": 0.1, "groups": 3}}

# max_norm is set per case and optimizer so that some of the ten steps clip and
# some do not; verify() holds it to that.
CASES = {
    "gpt_tied": {
        "seed": 1001,
        "batch": 3,
        "seq": 11,
        "model": {
            "kind": "gpt2",
            "vocab": 61,
            "context": 13,
            "layers": 2,
            "heads": 3,
            "head_dim": 5,
            "activation": "gelu_tanh",
            "tied": True,
            "ln_eps": LN_EPS,
        },
        "max_norm": {"sgd": 2.3, "adamw": 2.5},
    },
    "gpt_untied": {
        "seed": 1002,
        "batch": 5,
        "seq": 17,
        "model": {
            "kind": "gpt2",
            "vocab": 67,
            "context": 17,
            "layers": 2,
            "heads": 2,
            "head_dim": 7,
            "activation": "gelu_erf",
            "tied": False,
            "ln_eps": LN_EPS,
        },
        "max_norm": {"sgd": 1.15, "adamw": 1.2},
    },
    "mlp_relu": {
        "seed": 1003,
        "batch": 9,
        "seq": 5,
        "model": {
            "kind": "mlp",
            "vocab": 37,
            "window": 5,
            "embed_dim": 7,
            "hidden": [19, 23],
            "activation": "relu",
        },
        "max_norm": {"sgd": 0.64, "adamw": 0.67},
    },
    "mlp_gelu": {
        "seed": 1004,
        "batch": 7,
        "seq": 3,
        "model": {
            "kind": "mlp",
            "vocab": 41,
            "window": 3,
            "embed_dim": 5,
            "hidden": [17],
            "activation": "gelu_erf",
        },
        "max_norm": {"sgd": 0.62, "adamw": 0.63},
    },
    "vgg11": {
        "seed": 1007,
        "batch": 4,
        "steps": 20,
        "ignored": 1,
        "model": VGG,
        "max_norm": {"sgd": 2.8, "adamw": 3.0},
        "sgd": {"lr": 0.02},
        "adamw": {"lr": 1e-3},
    },
    "vgg11_bn": {
        "seed": 1005,
        "batch": 4,
        "steps": 20,
        "ignored": 1,
        "model": VGG_BN,
        "max_norm": {"sgd": 6.8, "adamw": 8.2},
        "sgd": {"lr": 0.02},
        "adamw": {"lr": 1e-3},
    },
    "vgg11_bn_groups": {
        "seed": 1007,
        "batch": 6,
        "steps": 20,
        "ignored": 2,
        "model": VGG_BN_GROUPS,
        "max_norm": {"sgd": 7.0, "adamw": 11.0},
        "sgd": {"lr": 0.02},
        "adamw": {"lr": 1e-3},
    },
}


def is_vgg(case):
    return case["model"]["kind"] == "vgg"


def steps_of(case):
    return case.get("steps", STEPS)


def optimizer_settings(case, name):
    return {**(SGD if name == "sgd" else ADAMW), **case.get(name, {})}


# ---------------------------------------------------------------- models


def activate(x, name):
    if name == "relu":
        return F.relu(x)
    if name == "gelu_erf":
        return F.gelu(x, approximate="none")
    if name == "gelu_tanh":
        return F.gelu(x, approximate="tanh")
    raise ValueError(name)


def gpt2_shapes(m):
    c = m["heads"] * m["head_dim"]
    shapes = {"wte.weight": (m["vocab"], c), "wpe.weight": (m["context"], c)}
    for i in range(m["layers"]):
        b = f"blocks.{i}."
        shapes[b + "ln1.weight"] = (c,)
        shapes[b + "ln1.bias"] = (c,)
        shapes[b + "attn.qkv.weight"] = (m["heads"], 3, m["head_dim"], c)
        shapes[b + "attn.qkv.bias"] = (m["heads"], 3, m["head_dim"])
        shapes[b + "attn.proj.weight"] = (c, c)
        shapes[b + "attn.proj.bias"] = (c,)
        shapes[b + "ln2.weight"] = (c,)
        shapes[b + "ln2.bias"] = (c,)
        shapes[b + "mlp.fc.weight"] = (4 * c, c)
        shapes[b + "mlp.fc.bias"] = (4 * c,)
        shapes[b + "mlp.proj.weight"] = (c, 4 * c)
        shapes[b + "mlp.proj.bias"] = (c,)
    shapes["ln_f.weight"] = (c,)
    shapes["ln_f.bias"] = (c,)
    if not m["tied"]:
        shapes["head.weight"] = (m["vocab"], c)
    return shapes


def gpt2_logits(m, p, tokens):
    batch, seq = tokens.shape
    heads, dim = m["heads"], m["head_dim"]
    c = heads * dim
    future = torch.ones(seq, seq, dtype=torch.bool).triu(1)

    def layer_norm(x, path):
        return F.layer_norm(
            x, (c,), p[path + ".weight"], p[path + ".bias"], m["ln_eps"]
        )

    def linear(x, path):
        return x @ p[path + ".weight"].T + p[path + ".bias"]

    x = p["wte.weight"][tokens] + p["wpe.weight"][:seq]
    for i in range(m["layers"]):
        b = f"blocks.{i}."

        h = layer_norm(x, b + "ln1")
        qkv = h @ p[b + "attn.qkv.weight"].reshape(3 * c, c).T
        qkv = qkv + p[b + "attn.qkv.bias"].reshape(3 * c)
        # [B,T,heads,3,dim] -> [3,B,heads,T,dim]
        q, k, v = qkv.reshape(batch, seq, heads, 3, dim).permute(3, 0, 2, 1, 4)
        scores = (q @ k.transpose(-1, -2)) * (1.0 / math.sqrt(dim))
        weights = scores.masked_fill(future, -math.inf).softmax(-1)
        h = (weights @ v).transpose(1, 2).reshape(batch, seq, c)
        x = x + linear(h, b + "attn.proj")

        h = layer_norm(x, b + "ln2")
        h = activate(linear(h, b + "mlp.fc"), m["activation"])
        x = x + linear(h, b + "mlp.proj")

    head = p["wte.weight"] if m["tied"] else p["head.weight"]
    return layer_norm(x, "ln_f") @ head.T


def mlp_shapes(m):
    shapes = {"embed.weight": (m["vocab"], m["embed_dim"])}
    width = m["window"] * m["embed_dim"]
    for i, hidden in enumerate(m["hidden"]):
        shapes[f"layers.{i}.weight"] = (hidden, width)
        shapes[f"layers.{i}.bias"] = (hidden,)
        width = hidden
    shapes["head.weight"] = (m["vocab"], width)
    return shapes


def mlp_logits(m, p, tokens, watch=None):
    x = p["embed.weight"][tokens].reshape(tokens.shape[0], -1)
    for i in range(len(m["hidden"])):
        x = x @ p[f"layers.{i}.weight"].T + p[f"layers.{i}.bias"]
        if watch is not None:
            watch.relu(x)
        x = activate(x, m["activation"])
    return x @ p["head.weight"].T


def forward(m, p, inputs, targets, states=None, watch=None):
    """(logits, mean cross-entropy over the targets that are not ignored), in training

    `inputs` are tokens, or pictures; `states` are VGG's running statistics, which
    are updated. Logits of VGG are those of an evaluation alone, and None here.
    """
    if m["kind"] == "vgg":
        return None, vgg_model.loss(m, p, inputs, targets, states, watch)
    if m["kind"] == "gpt2":
        logits = gpt2_logits(m, p, inputs)
    else:
        logits = mlp_logits(m, p, inputs, watch)
        targets = targets[:, -1]
    loss = F.cross_entropy(
        logits.reshape(-1, m["vocab"]),
        targets.reshape(-1),
        ignore_index=IGNORE_INDEX,
        reduction="mean",
    )
    return logits, loss


# ---------------------------------------------------------------- inputs


def draw(path, shape, rng):
    """Normal values, for qkv in the order of the fused weight of PyTorch's models

    That order is [3, heads, head_dim, C]; the engine's has the heads first.
    """
    if ".attn.qkv." not in path:
        return rng.standard_normal(shape)
    heads, three, *rest = shape
    return np.ascontiguousarray(rng.standard_normal((three, heads, *rest)).swapaxes(0, 1))


def make_parameters(case, rng):
    m = case["model"]
    if is_vgg(case):
        return vgg_model.draw(m, rng)
    shapes = gpt2_shapes(m) if m["kind"] == "gpt2" else mlp_shapes(m)
    params = {}
    for path, shape in shapes.items():
        std = 0.5 if path == "embed.weight" else 0.2
        value = std * draw(path, shape, rng)
        layer = path.split(".")[-2]
        if layer in ("ln1", "ln2", "ln_f") and path.endswith(".weight"):
            value = value + 1.0
        params[path] = value
    return params


def make_batches(case, rng):
    """tokens and targets, int32 [STEPS,B,T], or pictures and labels (vgg_model.py)

    Targets are the next tokens. Three in four tokens follow from the one before,
    so that there is something to learn.
    """
    if is_vgg(case):
        return vgg_model.batches(
            case["model"], steps_of(case), case["batch"], case["ignored"], rng
        )
    vocab, batch, seq = case["model"]["vocab"], case["batch"], case["seq"]
    text = np.empty((STEPS, batch, seq + 1), dtype=np.int32)
    text[..., 0] = rng.integers(vocab, size=(STEPS, batch))
    for t in range(seq):
        follows = (3 * text[..., t] + 2) % vocab
        other = rng.integers(vocab, size=(STEPS, batch))
        text[..., t + 1] = np.where(rng.random((STEPS, batch)) < 0.75, follows, other)
    tokens = text[..., :-1].copy()
    targets = text[..., 1:].copy()

    for k in range(STEPS):
        # One position in six, anywhere.
        targets[k][rng.random((batch, seq)) < 1 / 6] = IGNORE_INDEX
        rows = rng.permutation(batch)
        # The last position is the only one the MLP reads: one row has a target
        # there and nowhere before it, another has it ignored though the
        # positions before it are not.
        targets[k, rows[0], :-1] = IGNORE_INDEX
        targets[k, rows[0], -1] = text[k, rows[0], -1]
        targets[k, rows[1], :-1] = text[k, rows[1], 1:-1]
        targets[k, rows[1], -1] = IGNORE_INDEX
        # A whole row, in every fourth batch.
        if k % 4 == 0:
            targets[k, rows[2], :] = IGNORE_INDEX
    return tokens, targets


# ---------------------------------------------------------------- runs


def leaves(params, dtype):
    # torch.tensor rounds float64 to float32 once, to nearest.
    return {
        path: torch.tensor(value, dtype=torch.float64).to(dtype).requires_grad_()
        for path, value in params.items()
    }


def as_float64(tensor):
    return tensor.detach().to(torch.float64).numpy().copy()


def learning_rate(base, step, steps):
    """The rate of step 1..steps: linear warm-up, then cosine."""
    if step <= WARMUP:
        return base * step / WARMUP
    low = MIN_LR_RATIO * base
    turn = math.pi * (step - WARMUP) / (steps - WARMUP)
    return low + (base - low) * 0.5 * (1 + math.cos(turn))


def is_decayed(path, value):
    # attn.qkv.bias has three dimensions and is a bias all the same.
    return value.ndim >= 2 and not path.endswith(".bias")


def make_optimizer(name, s, p):
    decayed = [t for path, t in p.items() if is_decayed(path, t)]
    plain = [t for path, t in p.items() if not is_decayed(path, t)]
    groups = [
        {"params": decayed, "weight_decay": s["weight_decay"]},
        {"params": plain, "weight_decay": 0.0},
    ]
    if name == "sgd":
        return torch.optim.SGD(
            groups,
            lr=s["lr"],
            momentum=s["momentum"],
            dampening=s["dampening"],
            nesterov=s["nesterov"],
            foreach=False,
            fused=False,
        )
    return torch.optim.AdamW(
        groups,
        lr=s["lr"],
        betas=tuple(s["betas"]),
        eps=s["eps"],
        amsgrad=False,
        foreach=False,
        fused=False,
    )


def states_of(case, dtype):
    initial = vgg_model.initial_states(case["model"]) if is_vgg(case) else {}
    return {path: torch.tensor(value).to(dtype) for path, value in initial.items()}


def precision(dtype):
    """The dtype of parameters, and where forward passes run: bfloat16 is autocast's"""
    if dtype != torch.bfloat16:
        return dtype, contextlib.nullcontext()
    # Without its cache, which keeps what it has cast until it is left.
    return torch.float32, torch.autocast("cpu", dtype=dtype, cache_enabled=False)


def train(case, params, inputs, targets, name, dtype):
    m = case["model"]
    stored, autocast = precision(dtype)
    p, states = leaves(params, stored), states_of(case, stored)
    settings = optimizer_settings(case, name)
    optimizer = make_optimizer(name, settings, p)
    watch = vgg_model.Watch()
    losses, norms, lrs = [], [], []
    for step in range(1, steps_of(case) + 1):
        lr = learning_rate(settings["lr"], step, steps_of(case))
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.zero_grad()
        with autocast:
            _, loss = forward(
                m, p, inputs[step - 1], targets[step - 1], states, watch=watch
            )
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(
            p.values(), case["max_norm"][name], foreach=False
        )
        optimizer.step()
        losses.append(loss.item())
        norms.append(norm.item())
        lrs.append(lr)
    return {
        "losses": np.array(losses),
        "grad_norms": np.array(norms),
        "lrs": np.array(lrs),
        "param": {path: as_float64(t) for path, t in p.items()},
        "state": {path: as_float64(t) for path, t in states.items()},
        "watch": watch,
    }


def evaluate(case, trained, inputs, targets, dtype):
    """The losses and counts of right answers of all batches, and the logits of the first

    `trained` has parameters and running statistics.
    """
    stored, autocast = precision(dtype)
    p, states = leaves(trained["param"], stored), leaves(trained["state"], stored)
    losses, correct, logits_of = [], {k: [] for k in TOP_K}, []
    with torch.no_grad(), autocast:
        for x, labels in zip(inputs, targets):
            logits = vgg_model.logits(case["model"], p, x, states)
            loss = F.cross_entropy(logits, labels, ignore_index=IGNORE_INDEX)
            losses.append(loss.item())
            logits_of.append(as_float64(logits))
            valid = labels != IGNORE_INDEX
            for k, counts in correct.items():
                best = logits.topk(k).indices
                counts.append(float((best == labels[:, None])[valid].sum()))
    return {
        "losses": np.array(losses),
        "logits": np.stack(logits_of),
        "correct": {k: np.array(counts) for k, counts in correct.items()},
    }


def run(case, params, inputs, targets, dtype, optimizers=("sgd", "adamw")):
    inputs = torch.from_numpy(inputs)
    inputs = inputs if is_vgg(case) else inputs.long()
    targets = torch.from_numpy(targets).long()
    stored, autocast = precision(dtype)
    p = leaves(params, stored)
    with autocast:
        logits, loss = forward(
            case["model"], p, inputs[0], targets[0], states_of(case, stored)
        )
    loss.backward()
    out = {
        "loss": as_float64(loss).reshape(1),
        "logits": None if logits is None else as_float64(logits),
        "grad": {path: as_float64(t.grad) for path, t in p.items()},
    }
    for name in optimizers:
        out[name] = train(case, params, inputs, targets, name, dtype)
    return out


def flat(tensors):
    return np.concatenate([t.ravel() for t in tensors.values()])


def without_key_bias(params):
    """All parameters but the key part of every attn.qkv.bias, as one vector"""
    return flat(
        {
            path: np.delete(v, 1, axis=1) if path.endswith("attn.qkv.bias") else v
            for path, v in params.items()
        }
    )


def norm(x):
    # Correctly rounded sum: no dependence on the order it is taken in.
    return math.sqrt(math.fsum((np.asarray(x, dtype=np.float64) ** 2).ravel()))


def distance(a, b, floor=0.0):
    return np.array([norm(a - b) / max(norm(b), floor)])


def config_of(name, params):
    case = CASES[name]
    rows = {} if is_vgg(case) else {"seq": case["seq"]}
    return {
        "format": FORMAT,
        "case": name,
        "seed": case["seed"],
        "torch": torch.__version__.split("+")[0],
        "model": case["model"],
        "batch": case["batch"],
        **rows,
        "ignore_index": IGNORE_INDEX,
        "steps": steps_of(case),
        "schedule": {
            "kind": "warmup_cosine",
            "warmup": WARMUP,
            "min_lr_ratio": MIN_LR_RATIO,
        },
        "decayed": [path for path, v in params.items() if is_decayed(path, v)],
        **({"first_batches": FIRST_BATCHES} if is_vgg(case) else {}),
        "clip_eps": 1e-6,
        **{
            opt: {**optimizer_settings(case, opt), "max_norm": case["max_norm"][opt]}
            for opt in ("sgd", "adamw")
        },
        "grad_floor": GRAD_FLOOR,
    }


def distances(low, truth, optimizers):
    """The distances of a run of fewer bits, by name"""
    floor = GRAD_FLOOR * norm(flat(truth["grad"]))
    out = {"loss": distance(low["loss"], truth["loss"])}
    if truth["logits"] is not None:
        out["logits"] = distance(low["logits"], truth["logits"])
    for path, grad in truth["grad"].items():
        out[f"grad/{path}"] = distance(low["grad"][path], grad, floor)
    for opt in optimizers:
        a, b = low[opt], truth[opt]
        out[f"{opt}/losses"] = distance(a["losses"], b["losses"])
        out[f"{opt}/params"] = distance(flat(a["param"]), flat(b["param"]))
        if opt == "sgd":
            for kind in ("param", "state"):
                for path, value in b[kind].items():
                    out[f"sgd/{kind}/{path}"] = distance(a[kind][path], value)
        else:
            # AdamW divides a gradient by its own size, so it turns the rounding
            # noise in the key biases' zero gradient into steps of up to a full
            # learning rate, and those are most of the distance above.
            out["adamw/params_without_key_bias"] = distance(
                without_key_bias(a["param"]), without_key_bias(b["param"])
            )
    return out


def make(name):
    """(tensors by name, config) of one case"""
    case = CASES[name]
    rng = np.random.Generator(np.random.PCG64(case["seed"]))
    params = make_parameters(case, rng)
    inputs, targets = make_batches(case, rng)
    truth = run(case, params, inputs, targets, torch.float64)
    verify(name, case, params, inputs, targets, truth)

    out = dict(zip(INPUT_NAMES[is_vgg(case)], (inputs, targets)))
    out["loss"] = truth["loss"]
    if truth["logits"] is not None:
        out["logits"] = truth["logits"]
    for path in params:
        out[f"param/{path}"] = params[path]
        out[f"grad/{path}"] = truth["grad"][path]
    for opt in ("sgd", "adamw"):
        for key in ("losses", "grad_norms", "lrs"):
            out[f"{opt}/{key}"] = truth[opt][key]
        for kind in ("param", "state"):
            for path, value in truth[opt][kind].items():
                out[f"{opt}/{kind}/{path}"] = value

    if is_vgg(case):
        add_vgg(name, case, params, inputs, targets, truth, out)
    else:
        low = run(case, params, inputs, targets, torch.float32)
        for key, value in distances(low, truth, ("sgd", "adamw")).items():
            out[f"fp32/{key}"] = value
    return out, config_of(name, params)


def train_from(first, case, params, inputs, targets, dtype):
    """The losses of SGD whose first batch is `first`; the last one is that before it"""
    order = np.roll(np.arange(steps_of(case)), -first)
    x, labels = torch.from_numpy(inputs[order]), torch.from_numpy(targets[order]).long()
    return train(case, params, x, labels, "sgd", dtype)["losses"]


def add_vgg(name, case, params, inputs, targets, truth, out):
    """Adds an evaluation after the steps of SGD, and the distances of float32 and bfloat16"""
    x, labels = torch.from_numpy(inputs), torch.from_numpy(targets).long()
    trained = truth["sgd"]
    evaluated = evaluate(case, trained, x, labels, torch.float64)
    verify_evaluation(name, case, evaluated)
    out["eval/losses"] = evaluated["losses"]
    out["eval/logits"] = evaluated["logits"][0]
    for k, counts in evaluated["correct"].items():
        out[f"eval/correct_{k}"] = counts
    for path, value in vgg_model.initial_states(case["model"]).items():
        out[f"state/{path}"] = value
    for prefix, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        # AdamW divides every gradient by its own size, small ones with their
        # rounding too: only the reference backend, in float64, is held to it.
        low = run(case, params, inputs, targets, dtype, ("sgd",))
        for key, value in distances(low, truth, ("sgd",)).items():
            out[f"{prefix}/{key}"] = value
        if prefix == "bf16":
            args = (case, params, inputs, targets)
            exact = [train_from(k, *args, torch.float64) for k in FIRST_BATCHES]
            low_losses = [train_from(k, *args, dtype) for k in FIRST_BATCHES]
            out["rotated/losses"] = np.stack(exact)
            out["bf16/rotated/losses"] = np.mean(
                [distance(a, b) for a, b in zip(low_losses, exact)], axis=0
            )
        low = evaluate(case, trained, x, labels, dtype)
        out[f"{prefix}/eval/losses"] = distance(low["losses"], evaluated["losses"])
        out[f"{prefix}/eval/logits"] = distance(low["logits"][0], evaluated["logits"][0])


def need(condition, what):
    """Ends this program if a case lacks what makes it worth comparing with"""
    if not condition:
        raise SystemExit(f"error: {what}")


def verify_targets(name, m, tokens, targets):
    read = targets if m["kind"] == "gpt2" else targets[..., -1:]
    need((read[0] == IGNORE_INDEX).sum() >= 2, f"{name}: batch 0 ignores too few labels")
    need(
        ((read != IGNORE_INDEX).sum(axis=(1, 2)) >= 2).all(),
        f"{name}: a batch has too few labels",
    )
    need(
        (targets == IGNORE_INDEX).all(axis=2).any(), f"{name}: no row is ignored whole"
    )
    need(
        tokens.min() >= 0 and tokens.max() < m["vocab"],
        f"{name}: a token is out of range",
    )
    need(len(np.unique(tokens[0])) < tokens[0].size, f"{name}: batch 0 repeats no token")


def verify_kinks(name, case, truth):
    """Rejects a relu or a pool that rounding could decide otherwise, which is no rounding"""
    for opt in ("sgd", "adamw"):
        watch = truth[opt]["watch"]
        # VGG's AdamW is compared in float64 alone.
        near = VGG_NEAR[opt] if is_vgg(case) else NEAR
        kink, tie = min(watch.kinks, default=1), min(watch.ties, default=1)
        need(kink > near, f"{name}: relu of {kink} with {opt}")
        need(tie > near, f"{name}: two elements of a window differ by {tie} with {opt}")


def verify_evaluation(name, case, evaluated):
    """Holds an evaluation to answers that rounding does not change"""
    m = case["model"]
    logits = np.sort(evaluated["logits"].reshape(-1, m["classes"]))
    for k in TOP_K:
        gap = (logits[:, -k] - logits[:, -k - 1]).min()
        need(gap > 1e-5, f"{name}: the {k} best classes are {gap} from the next")
        right = evaluated["correct"][k].sum()
        need(0 < right < logits.shape[0], f"{name}: all or none of the {k} best are right")


def verify(name, case, params, tokens, targets, truth):
    """Holds a case to what makes it worth comparing with."""
    m = case["model"]
    if not is_vgg(case):
        verify_targets(name, m, tokens, targets)
    grads = truth["grad"]
    total = norm(flat(grads))
    for path, grad in grads.items():
        need(norm(grad) > 1e-3 * total, f"{name}: the gradient of {path} is close to zero")
        if path.endswith("attn.qkv.bias"):
            # Softmax does not see what is added to all its scores.
            query, key, value = (norm(grad[:, part]) for part in range(3))
            need(key < 1e-12 * total, f"{name}: the key part of {path} is not zero")
            need(query > 1e-3 * total, f"{name}: the query part of {path} is zero")
            need(value > 1e-3 * total, f"{name}: the value part of {path} is zero")
    for opt in ("sgd", "adamw"):
        ratio = truth[opt]["grad_norms"] / case["max_norm"][opt]
        clips = 2 <= (ratio > 1).sum() <= len(ratio) - 2
        need(clips, f"{name}: {opt}: all or no steps clip: {ratio}")
        same = truth[opt]["losses"][0] == truth["loss"][0]
        need(same, f"{name}: {opt}: another first loss")
    verify_kinks(name, case, truth)

    # The gradient against a central difference of the loss along one direction.
    rng = np.random.Generator(np.random.PCG64(case["seed"] + 1))
    direction = {path: rng.standard_normal(v.shape) for path, v in params.items()}
    slope = sum((grads[path] * direction[path]).sum() for path in params)
    # So small that few inputs of relu change their sign.
    h = 1e-7

    def loss_at(t):
        p = leaves({k: params[k] + t * direction[k] for k in params}, torch.float64)
        with torch.no_grad():
            return forward(
                m,
                p,
                torch.from_numpy(tokens[0] if is_vgg(case) else tokens[0].astype(np.int64)),
                torch.from_numpy(targets[0]).long(),
                states_of(case, torch.float64),
            )[1].item()

    measured = (loss_at(h) - loss_at(-h)) / (2 * h)
    need(
        abs(measured - slope) < 1e-6 * total * norm(flat(direction)),
        f"{name}: the gradient is off: {slope} along a direction, measured {measured}",
    )


# ---------------------------------------------------------------- files


def serialize(tensors, config):
    # One metadata key: the order of several is not defined.
    metadata = {"config": json.dumps(config, sort_keys=True)}
    arrays = {}
    for name, value in tensors.items():
        if value.dtype not in (np.float64, np.int32, np.uint8):
            raise SystemExit(f"{name}: {value.dtype}")
        arrays[name] = np.ascontiguousarray(value)
    return safetensors.numpy.save(arrays, metadata=metadata)


def load(path):
    with safetensors.safe_open(path, framework="numpy") as f:
        config = json.loads(f.metadata()["config"])
        return {name: f.get_tensor(name) for name in f.keys()}, config


def difference(name, new, old):
    """What is wrong with a committed tensor, or None.

    Inputs are the same to the bit. Results may differ by what another CPU's
    order of summation does: float64 ones by far less than float32 resolves (the
    most, about 1e-11, in the key biases after AdamW), the measured float32
    distances by a small factor.
    """
    if new.dtype != old.dtype or new.shape != old.shape:
        return f"is {old.dtype}{list(old.shape)}, not {new.dtype}{list(new.shape)}"
    if new.dtype != np.float64 or name.startswith(("param/", "state/")):
        return None if np.array_equal(new, old) else "differs"
    if not np.isfinite(old).all():
        return "is not finite"
    if name.startswith(("fp32/", "bf16/")):
        a, b = float(new[0]), float(old[0])
        small = 2.0**-22 if name.startswith("fp32/") else 2.0**-7
        if max(a, b) <= small or max(a, b) <= 8 * min(a, b):
            return None
        return f"is {b:.3g}, recomputed {a:.3g}"
    d = float(distance(new, old)[0])
    return None if d <= 1e-9 else f"differs by {d:.3g}"


def check(path, tensors, config):
    """The complaints about a committed file"""
    if not path.is_file():
        return ["is missing"]
    old, old_config = load(path)
    wrong = []
    if old_config != config:
        wrong.append(f"config is {old_config}, not {config}")
    wrong += [f"lacks {n}" for n in sorted(tensors.keys() - old.keys())]
    wrong += [f"has {n} besides" for n in sorted(old.keys() - tensors.keys())]
    for name in sorted(tensors.keys() & old.keys()):
        what = difference(name, tensors[name], old[name])
        if what is not None:
            wrong.append(f"{name} {what}")
    return wrong


def describe(tensors, config):
    for opt in ("sgd", "adamw"):
        print(f"  {opt}/losses", np.round(tensors[f"{opt}/losses"], 4))
        print(
            f"  {opt}/grad_norms",
            np.round(tensors[f"{opt}/grad_norms"], 4),
            "max_norm",
            config[opt]["max_norm"],
        )
    for name in sorted(tensors):
        if name.startswith(("fp32/", "bf16/", "eval/")):
            print(f"  {name} {tensors[name].flat[0]:.3g}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        default=pathlib.Path(__file__).resolve().parent / "states",
        metavar="DIR",
        help="folder of the files (default: states/ beside this program)",
    )
    parser.add_argument("--verbose", action="store_true", help="print the distances")
    args = parser.parse_args()

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)

    failed = False
    if not args.check:
        args.out.mkdir(parents=True, exist_ok=True)
    for name in CASES:
        tensors, config = make(name)
        data = serialize(tensors, config)
        path = args.out / f"{name}.safetensors"
        if args.check:
            wrong = check(path, tensors, config)
            for what in wrong:
                print(f"{path.name}: {what}")
            if wrong:
                failed = True
            else:
                same = path.read_bytes() == data
                print(f"{path.name}: ok" + (", identical" if same else ""))
        else:
            path.write_bytes(data)
            print(f"{path.name}: {len(tensors)} tensors, {len(data)} bytes")
        if args.verbose:
            describe(tensors, config)
    if args.check:
        known = {f"{name}.safetensors" for name in CASES}
        for path in sorted(args.out.glob("*.safetensors")):
            if path.name not in known:
                print(f"{path.name}: belongs to no case")
                failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
