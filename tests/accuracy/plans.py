"""The Plans that a setting may draw: entries of compare's --strategies, or texts of Plans."""

SPLIT_BATCH = 'store { path: "tokens|targets" layout: "data: S(0)" }'
BUCKETS = "pass { bucket_gradients { cap_mib: 4 first_mib: 1 } }"
GATHERS = "pass { prefetch_gathers { distance: 1 } } pass { limit_gathers { in_flight: 2 } }"


def entry(kind, name):
    """Returns a strategy with options, or a Plan of docs/plans."""
    return {"kind": kind, "name": name, "entry": name}


def text(kind, name, *choices, mesh=""):
    """Returns a Plan that is written to a file."""
    lines = "".join(f"  {each}\n" for each in (mesh, *choices) if each)
    return {"kind": kind, "name": name, "text": "stages {\n" + lines + "}\n"}


def store(path, layout):
    return f'store {{ path: "{path}" layout: "{layout}" }}'


def compute(path, signature):
    return f'compute {{ path: "{path}" signature: "{signature}" }}'


def one_process(model, sizes):
    """Returns Plans without a mesh: how one process computes the same steps."""
    scope = "blocks" if model == "gpt" else "layers"
    layers = sizes["layers"] if model == "gpt" else len(sizes["hidden"])
    blocks = [f'recompute: "{scope}.{i}"' for i in range(layers)]
    weights = "blocks.*.mlp.*.weight" if model == "gpt" else "layers.*.weight"

    def train(*settings):
        return 'parts { graph: "train" ' + " ".join(settings) + " }"

    kind = "one process"
    return [
        text(kind, "plain"),
        text(kind, "recompute", train(*blocks)),
        text(kind, "micro_batches", train("micro_batches: 2")),
        text(kind, "kept_logits", train("logits: KEPT")),
        text(kind, "recomputed_logits", train("logits: RECOMPUTED")),
        text(kind, "sliced", f'slice {{ path: "{weights}" dimension: 0 count: 2 }}'),
        text(kind, "offloaded", "pass { offload { distance: 1 } }"),
        text(kind, "no_passes", train('passes: "none"')),
        text(kind, "bf16", "precision { parameters: BF16 }"),
    ]


def split_vocabulary(model, axis):
    """Returns choices that split the head's rows over an axis."""
    table = "wte" if model == "gpt" else "head"
    choices = [
        store(f"{table}.weight", f"{axis}: S(0)"),
        compute("loss.linear_log_sum_exp", f"{axis}: B, S(0), B -> P(lse), P"),
    ]
    if model == "gpt":
        choices.append(compute("embed.embedding", f"{axis}: S(0), B -> P"))
    return choices


def split_gpt_mlp(axis):
    """Returns choices that split the MLPs of GPT by their hidden units."""
    return [
        store("blocks.*.mlp.fc.*", f"{axis}: S(0)"),
        compute("blocks.*.mlp.fc.matmul", f"{axis}: B, S(0) -> S(2)"),
        store("blocks.*.mlp.proj.weight", f"{axis}: S(1)"),
        compute("blocks.*.mlp.proj.matmul", f"{axis}: S(2), S(1) -> P"),
    ]


def split_mlp_layers(layers, axis):
    """Returns choices that split layers of the MLP, one by its units and the next by its inputs."""
    choices = []
    for i in range(layers):
        if i % 2 == 0:
            choices.append(store(f"layers.{i}.*", f"{axis}: S(0)"))
            choices.append(compute(f"layers.{i}.matmul", f"{axis}: B, S(0) -> S(1)"))
        else:
            choices.append(store(f"layers.{i}.weight", f"{axis}: S(1)"))
            choices.append(compute(f"layers.{i}.matmul", f"{axis}: S(1), S(1) -> P"))
    return choices


def tensor_parallel(model, sizes):
    if model == "gpt":
        return entry("tensor parallel", "tensor_parallel")
    return text(
        "tensor parallel",
        "tensor_parallel",
        *split_mlp_layers(len(sizes["hidden"]), "model"),
        *split_vocabulary(model, "model"),
        mesh='mesh { name: "model" }',
    )


def data_tensor_parallel(model, sizes):
    if model == "gpt":
        return entry("mixed", "data_tensor_parallel")
    return text(
        "mixed",
        "data_tensor_parallel",
        SPLIT_BATCH,
        *split_mlp_layers(len(sizes["hidden"]), "model"),
        *split_vocabulary(model, "model"),
        mesh='mesh { name: "data" size: 2 } mesh { name: "model" }',
    )


def mixed(model):
    """Returns Plans that treat some parameters otherwise than others, along one axis."""
    scope = "blocks" if model == "gpt" else "layers"
    mesh = 'mesh { name: "data" }'
    plans = [
        text(
            "mixed",
            f"sharded_{scope}",
            SPLIT_BATCH,
            f'group {{ path: "{scope}.*" each: true over: "data" }}',
            GATHERS,
            BUCKETS,
            mesh=mesh,
        ),
        text(
            "mixed",
            "split_vocabulary",
            SPLIT_BATCH,
            *split_vocabulary(model, "data"),
            BUCKETS,
            mesh=mesh,
        ),
    ]
    if model == "gpt":
        plans.append(entry("mixed", "sliced"))
        plans.append(
            text("mixed", "split_mlp", SPLIT_BATCH, *split_gpt_mlp("data"), BUCKETS, mesh=mesh)
        )
    return plans


def ddp():
    return [
        entry("DDP", name)
        for name in (
            "ddp",
            "ddp:bucket=1MiB",
            "ddp:bucket=0",
            "ddp:embedding=gathered",
            "ddp:reduce=bf16",
        )
    ]


def fsdp(ranks):
    modes = ["fsdp", "fsdp:reshard=no", "fsdp:shard=optimizer", "fsdp:prefetch=0"]
    if ranks == 4:
        modes += ["fsdp:reshard=2", "fsdp:replicas=2"]
    return [entry("FSDP", name) for name in modes]


def draw_plans(draw, model, sizes, ranks):
    """Returns the Plans of a setting: five, of each kind that so many ranks can have."""
    if ranks == 1:
        plain, *others = one_process(model, sizes)
        return [plain] + draw.some(others, 4)
    mixtures = [data_tensor_parallel(model, sizes)] if ranks == 4 else mixed(model)
    return (
        draw.some(ddp(), 1)
        + draw.some(fsdp(ranks), 2)
        + [tensor_parallel(model, sizes)]
        + draw.some(mixtures, 1)
    )
