"""Trains GPT-2 or VGG16 with PyTorch in one process, and prints the times of steps as JSON.

    torch_one_process.py --model=gpt --dtype=bf16 --steps=5

Steps are eager, with fused optimizers; bf16 is autocast's. Every step has a new random batch.
"""

import argparse
import dataclasses
import json
import time

import torch
import torch_gpt
import torch_vgg


def prepare_gpt(args):
    """Returns the model, its optimizer and a function that draws a batch."""
    names = [field.name for field in dataclasses.fields(torch_gpt.Sizes)]
    sizes = torch_gpt.Sizes(**{name: getattr(args, name) for name in names})
    model = torch_gpt.Gpt(sizes)
    size = (2, args.rows, args.tokens)
    return model, torch_gpt.make_optimizer(model), lambda: torch.randint(sizes.vocabulary, size)


def prepare_vgg(args):
    hidden = [int(units) for units in args.hidden.strip("[]").split(",")]
    model = torch_vgg.Vgg(args.height, args.width, hidden)
    size = (args.rows, args.height, args.width, 3)

    def draw():
        pictures = torch.randint(256, size, dtype=torch.uint8)
        return pictures, torch.randint(torch_vgg.CLASSES, (args.rows,))

    return model, torch_vgg.make_optimizer(model), draw


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=["gpt", "vgg16"], default="gpt")
    sizes = torch_gpt.Sizes(layers=12, channels=768, heads=12, vocabulary=50257, context=1024)
    for name, size in dataclasses.asdict(sizes).items():
        parser.add_argument(f"--{name}", type=int, default=size, help="of GPT-2")
    parser.add_argument("--height", type=int, default=224, help="of a picture")
    parser.add_argument("--width", type=int, default=224, help="of a picture")
    parser.add_argument("--hidden", default="[4096,4096]", help="units of VGG's flat layers")
    parser.add_argument("--rows", type=int, default=4, help="sequences or pictures of a step")
    parser.add_argument("--tokens", type=int, default=256, help="tokens of a sequence")
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--untimed", type=int, default=3, help="steps before those that are timed")
    parser.add_argument("--steps", type=int, default=5, help="timed steps")
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    prepare = prepare_gpt if args.model == "gpt" else prepare_vgg
    model, optimizer, draw_batch = prepare(args)

    def step():
        batch = draw_batch()
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
                "parameters": sum(parameter.numel() for parameter in model.parameters()),
                "loss": loss,
                "seconds": seconds[args.untimed :],
            }
        )
    )


if __name__ == "__main__":
    main()
