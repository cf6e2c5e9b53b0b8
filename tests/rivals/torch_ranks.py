"""Trains GPT with PyTorch on the ranks of a job, over gloo, and prints times or memory as JSON.

    torchrun --nproc_per_node=2 torch_ranks.py --rows=1 --tokens=64 --modes=ddp,fsdp2,fsdp1,alone

Modes: ddp (DistributedDataParallel), fsdp2 (fully_shard of each block and of the model), fsdp1
(FullyShardedDataParallel, a unit for each block), alone (each rank by itself, no communication).
"""

import argparse
import gc
import json
import threading
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.nn.parallel import DistributedDataParallel

VOCABULARY, CONTEXT, LAYERS, HEADS, CHANNELS = 16384, 512, 8, 7, 448


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1 = nn.LayerNorm(CHANNELS)
        self.qkv = nn.Linear(CHANNELS, 3 * CHANNELS)
        self.proj = nn.Linear(CHANNELS, CHANNELS)
        self.ln2 = nn.LayerNorm(CHANNELS)
        self.fc = nn.Linear(CHANNELS, 4 * CHANNELS)
        self.fc_proj = nn.Linear(4 * CHANNELS, CHANNELS)

    def forward(self, x):
        rows, tokens, _ = x.shape
        heads = [
            part.view(rows, tokens, HEADS, -1).transpose(1, 2)
            for part in self.qkv(self.ln1(x)).split(CHANNELS, dim=2)
        ]
        attended = F.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.proj(attended.transpose(1, 2).reshape(rows, tokens, CHANNELS))
        return x + self.fc_proj(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(VOCABULARY, CHANNELS)
        self.wpe = nn.Embedding(CONTEXT, CHANNELS)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(CHANNELS)
        self.head = nn.Linear(CHANNELS, VOCABULARY, bias=False)
        self.head.weight = self.wte.weight
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln_f(x))
        return F.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))


def make_model(mode):
    torch.manual_seed(1)
    model = Gpt()
    if mode == "ddp":
        return DistributedDataParallel(model)
    if mode == "fsdp1":
        return FullyShardedDataParallel(
            model, auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=torch.device("cpu")
        )
    if mode == "fsdp2":
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    return model


class Training:
    def __init__(self, mode, rows, tokens):
        self.model = make_model(mode)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True
        )
        self.batch = torch.randint(VOCABULARY, (2, rows, tokens))

    def step(self):
        self.optimizer.zero_grad()
        loss = self.model(*self.batch)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def timed_step(self):
        """Returns the seconds of the slowest rank."""
        dist.barrier()
        begin = time.perf_counter()
        self.step()
        seconds = torch.tensor(time.perf_counter() - begin)
        dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
        return seconds.item()


def times(args):
    result = {}
    for mode in args.modes.split(","):
        training = Training(mode, args.rows, args.tokens)
        for _ in range(args.untimed):
            training.step()
        result[mode] = [training.timed_step() for _ in range(args.steps)]
        del training
        gc.collect()
    return result


def proportional_bytes():
    with open("/proc/self/smaps_rollup") as file:
        for line in file:
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/smaps_rollup has no Pss")


def peak_bytes(mode, args):
    """Returns what all ranks use at their peaks, less what they use before the model exists."""
    dist.barrier()
    before = proportional_bytes()
    dist.barrier()
    peak, done = [before], threading.Event()

    def sample():
        while not done.wait(0.01):
            peak.append(max(peak.pop(), proportional_bytes()))

    sampler = threading.Thread(target=sample)
    sampler.start()
    training = Training(mode, args.rows, args.tokens)
    for _ in range(args.steps):
        training.step()
    done.set()
    sampler.join()
    total = torch.tensor(peak[0] - before)
    dist.all_reduce(total)
    return total.item()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1, help="sequences of a rank")
    parser.add_argument("--tokens", type=int, default=64, help="tokens of a sequence")
    parser.add_argument("--modes", default="ddp,fsdp2,fsdp1,alone")
    parser.add_argument("--untimed", type=int, default=2, help="steps before those that are timed")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--memory", action="store_true", help="memory of one mode, not times")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    dist.barrier()
    result = {"torch": torch.__version__}
    if args.memory:
        result["bytes"] = peak_bytes(args.modes, args)
    else:
        result["seconds"] = times(args)
        result["parameters"] = sum(parameter.numel() for parameter in Gpt().parameters())
    if dist.get_rank() == 0:
        print(json.dumps(result), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
