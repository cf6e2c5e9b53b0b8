"""Trains GPT-2 with PyTorch in one process, and prints the times of steps as JSON.

    torch_one_process.py --dtype=bf16 --steps=5

Steps are eager, with the fused AdamW; bf16 is autocast's. Every step has new random tokens.
"""

import argparse
import dataclasses
import json
import time

import torch
from torch_gpt import Gpt, Sizes, count_parameters, make_optimizer


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sizes = Sizes(layers=12, channels=768, heads=12, vocabulary=50257, context=1024)
    for name, size in dataclasses.asdict(sizes).items():
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--rows", type=int, default=4, help="sequences of a step")
    parser.add_argument("--tokens", type=int, default=256, help="tokens of a sequence")
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--untimed", type=int, default=3, help="steps before those that are timed")
    parser.add_argument("--steps", type=int, default=5, help="timed steps")
    args = parser.parse_args()
    sizes = Sizes(**{name: getattr(args, name) for name in dataclasses.asdict(sizes)})

    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    model = Gpt(sizes)
    optimizer = make_optimizer(model)

    def step():
        batch = torch.randint(sizes.vocabulary, (2, args.rows, args.tokens))
        # Frees the gradients of the last step.
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.dtype == "bf16"):
            loss = model(*batch)
        loss.backward()
        optimizer.step()
        return loss.item()

    seconds = []
    for _ in range(args.untimed + args.steps):
        begin = time.perf_counter()
        loss = step()
        seconds.append(time.perf_counter() - begin)
    print(
        json.dumps(
            {
                "torch": torch.__version__,
                "parameters": count_parameters(model),
                "loss": loss,
                "seconds": seconds[args.untimed :],
            }
        )
    )


if __name__ == "__main__":
    main()
