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
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.nn.parallel import DistributedDataParallel
from torch_gpt import Block, Gpt, Sizes, count_parameters, make_optimizer

SIZES = Sizes(layers=8, channels=448, heads=7, vocabulary=16384, context=512)


def make_model(mode):
    torch.manual_seed(1)
    model = Gpt(SIZES)
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
        self.optimizer = make_optimizer(self.model)
        self.batch = torch.randint(SIZES.vocabulary, (2, rows, tokens))

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
        result["parameters"] = count_parameters(Gpt(SIZES))
    if dist.get_rank() == 0:
        print(json.dumps(result), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
