#!/usr/bin/env python3
"""Makes the PyTorch reference states that the engine is held against.

The models are written out in plain torch over a dictionary of parameters that
carries the engine's own paths as names. Everything is computed in float64; a
second pass in float32 measures how far PyTorch's own float32 lands from it.
README.md beside this file says what a file holds.

    make_states.py                 write states/<case>.safetensors
    make_states.py --check         recompute and compare with those files
    make_states.py --out DIR       another folder than states/
    make_states.py --verbose       also print the distances
"""

import argparse
import json
import math
import pathlib
import sys

import numpy as np
import safetensors
import safetensors.numpy
import torch
import torch.nn.functional as F

FORMAT = 1
STEPS = 10
WARMUP = 3
MIN_LR_RATIO = 0.1
IGNORE_INDEX = -100
LN_EPS = 1e-5

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
}


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


def mlp_logits(m, p, tokens, preactivations=None):
    x = p["embed.weight"][tokens].reshape(tokens.shape[0], -1)
    for i in range(len(m["hidden"])):
        x = x @ p[f"layers.{i}.weight"].T + p[f"layers.{i}.bias"]
        if preactivations is not None:
            preactivations.append(x.detach())
        x = activate(x, m["activation"])
    return x @ p["head.weight"].T


def forward(m, p, tokens, targets):
    """(logits, mean cross-entropy over the targets that are not ignored)"""
    if m["kind"] == "gpt2":
        logits = gpt2_logits(m, p, tokens)
    else:
        logits = mlp_logits(m, p, tokens)
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
    """tokens and targets, int32 [STEPS,B,T]; targets are the next tokens.

    Three in four tokens follow from the one before, so that there is something
    to learn.
    """
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


def learning_rate(base, step):
    """The rate of step 1..STEPS: linear warm-up, then cosine."""
    if step <= WARMUP:
        return base * step / WARMUP
    low = MIN_LR_RATIO * base
    turn = math.pi * (step - WARMUP) / (STEPS - WARMUP)
    return low + (base - low) * 0.5 * (1 + math.cos(turn))


def is_decayed(path, value):
    # attn.qkv.bias has three dimensions and is a bias all the same.
    return value.ndim >= 2 and not path.endswith(".bias")


def make_optimizer(name, p):
    s = SGD if name == "sgd" else ADAMW
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


def train(case, params, tokens, targets, name, dtype, on_step=None):
    m = case["model"]
    p = leaves(params, dtype)
    optimizer = make_optimizer(name, p)
    base = (SGD if name == "sgd" else ADAMW)["lr"]
    losses, norms, lrs = [], [], []
    for step in range(1, STEPS + 1):
        lr = learning_rate(base, step)
        for group in optimizer.param_groups:
            group["lr"] = lr
        if on_step is not None:
            on_step(p, tokens[step - 1])
        optimizer.zero_grad()
        _, loss = forward(m, p, tokens[step - 1], targets[step - 1])
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
    }


def run(case, params, tokens, targets, dtype, on_step=None):
    tokens = torch.from_numpy(tokens).long()
    targets = torch.from_numpy(targets).long()
    p = leaves(params, dtype)
    logits, loss = forward(case["model"], p, tokens[0], targets[0])
    loss.backward()
    out = {
        "loss": as_float64(loss).reshape(1),
        "logits": as_float64(logits),
        "grad": {path: as_float64(t.grad) for path, t in p.items()},
    }
    for name in ("sgd", "adamw"):
        out[name] = train(case, params, tokens, targets, name, dtype, on_step)
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
    return {
        "format": FORMAT,
        "case": name,
        "seed": case["seed"],
        "torch": torch.__version__.split("+")[0],
        "model": case["model"],
        "batch": case["batch"],
        "seq": case["seq"],
        "ignore_index": IGNORE_INDEX,
        "steps": STEPS,
        "schedule": {
            "kind": "warmup_cosine",
            "warmup": WARMUP,
            "min_lr_ratio": MIN_LR_RATIO,
        },
        "decayed": [path for path, v in params.items() if is_decayed(path, v)],
        "clip_eps": 1e-6,
        "sgd": {**SGD, "max_norm": case["max_norm"]["sgd"]},
        "adamw": {**ADAMW, "max_norm": case["max_norm"]["adamw"]},
        "grad_floor": GRAD_FLOOR,
    }


def make(name):
    """(tensors by name, config) of one case"""
    case = CASES[name]
    rng = np.random.Generator(np.random.PCG64(case["seed"]))
    params = make_parameters(case, rng)
    tokens, targets = make_batches(case, rng)

    preactivations = []

    def watch(p, step_tokens):
        if case["model"]["kind"] == "mlp":
            mlp_logits(case["model"], p, step_tokens, preactivations)

    truth = run(case, params, tokens, targets, torch.float64, watch)
    low = run(case, params, tokens, targets, torch.float32)
    verify(name, case, params, tokens, targets, truth, preactivations)

    out = {"tokens": tokens, "targets": targets}
    out["loss"] = truth["loss"]
    out["logits"] = truth["logits"]
    for path in params:
        out[f"param/{path}"] = params[path]
        out[f"grad/{path}"] = truth["grad"][path]
    for opt in ("sgd", "adamw"):
        for key in ("losses", "grad_norms", "lrs"):
            out[f"{opt}/{key}"] = truth[opt][key]
        for path in params:
            out[f"{opt}/param/{path}"] = truth[opt]["param"][path]

    floor = GRAD_FLOOR * norm(flat(truth["grad"]))
    out["fp32/loss"] = distance(low["loss"], truth["loss"])
    out["fp32/logits"] = distance(low["logits"], truth["logits"])
    for path in params:
        out[f"fp32/grad/{path}"] = distance(
            low["grad"][path], truth["grad"][path], floor
        )
        out[f"fp32/sgd/param/{path}"] = distance(
            low["sgd"]["param"][path], truth["sgd"]["param"][path]
        )
    for opt in ("sgd", "adamw"):
        out[f"fp32/{opt}/losses"] = distance(low[opt]["losses"], truth[opt]["losses"])
        out[f"fp32/{opt}/params"] = distance(
            flat(low[opt]["param"]), flat(truth[opt]["param"])
        )
    # AdamW divides a gradient by its own size, so it turns the rounding noise in
    # the key biases' zero gradient into steps of up to a full learning rate, and
    # those are most of the distance above.
    out["fp32/adamw/params_without_key_bias"] = distance(
        without_key_bias(low["adamw"]["param"]),
        without_key_bias(truth["adamw"]["param"]),
    )
    return out, config_of(name, params)


def verify(name, case, params, tokens, targets, truth, preactivations):
    """Holds a case to what makes it worth comparing with."""

    def need(condition, what):
        if not condition:
            raise SystemExit(f"{name}: {what}")

    m = case["model"]
    read = targets if m["kind"] == "gpt2" else targets[..., -1:]
    need((read[0] == IGNORE_INDEX).sum() >= 2, "batch 0 ignores too few labels")
    need(
        ((read != IGNORE_INDEX).sum(axis=(1, 2)) >= 2).all(),
        "a batch has too few labels",
    )
    need((targets == IGNORE_INDEX).all(axis=2).any(), "no row is ignored whole")
    need(tokens.min() >= 0 and tokens.max() < m["vocab"], "a token is out of range")
    need(len(np.unique(tokens[0])) < tokens[0].size, "batch 0 repeats no token")

    grads = truth["grad"]
    total = norm(flat(grads))
    for path, grad in grads.items():
        need(norm(grad) > 1e-3 * total, f"the gradient of {path} is close to zero")
        if path.endswith("attn.qkv.bias"):
            # Softmax does not see what is added to all its scores.
            query, key, value = (norm(grad[:, part]) for part in range(3))
            need(key < 1e-12 * total, f"the key part of {path} is not zero")
            need(query > 1e-3 * total, f"the query part of {path} is zero")
            need(value > 1e-3 * total, f"the value part of {path} is zero")
    for opt in ("sgd", "adamw"):
        ratio = truth[opt]["grad_norms"] / case["max_norm"][opt]
        need(2 <= (ratio > 1).sum() <= STEPS - 2, f"{opt}: all or no steps clip: {ratio}")
        need(truth[opt]["losses"][0] == truth["loss"][0], f"{opt}: another first loss")
    if m["activation"] == "relu":
        # A unit that float32 puts on the other side of the kink is no rounding.
        z = np.abs(np.concatenate([t.numpy().ravel() for t in preactivations]))
        need(z.min() > 2e-5, f"a pre-activation is too close to the kink: {z.min()}")

    # The gradient against a central difference of the loss along one direction.
    rng = np.random.Generator(np.random.PCG64(case["seed"] + 1))
    direction = {path: rng.standard_normal(v.shape) for path, v in params.items()}
    slope = sum((grads[path] * direction[path]).sum() for path in params)
    h = 1e-5

    def loss_at(t):
        p = leaves({k: params[k] + t * direction[k] for k in params}, torch.float64)
        with torch.no_grad():
            return forward(
                m,
                p,
                torch.from_numpy(tokens[0]).long(),
                torch.from_numpy(targets[0]).long(),
            )[1].item()

    measured = (loss_at(h) - loss_at(-h)) / (2 * h)
    need(
        abs(measured - slope) < 1e-6 * total * norm(flat(direction)),
        f"the gradient is off: {slope} along a direction, measured {measured}",
    )


# ---------------------------------------------------------------- files


def serialize(tensors, config):
    # One metadata key: the order of several is not defined.
    metadata = {"config": json.dumps(config, sort_keys=True)}
    arrays = {}
    for name, value in tensors.items():
        if value.dtype not in (np.float64, np.int32):
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
    if new.dtype == np.int32 or name.startswith("param/"):
        return None if np.array_equal(new, old) else "differs"
    if not np.isfinite(old).all():
        return "is not finite"
    if name.startswith("fp32/"):
        a, b = float(new[0]), float(old[0])
        small = 2.0**-22
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
        if name.startswith("fp32/"):
            print(f"  {name} {tensors[name][0]:.3g}")


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
