"""GPT-2 in plain PyTorch, and the optimizer that it is trained with here."""

import dataclasses

import torch
import torch.nn.functional as F
from torch import nn


@dataclasses.dataclass(frozen=True)
class Sizes:
    layers: int
    channels: int
    heads: int
    vocabulary: int
    context: int


class Block(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        channels = sizes.channels
        self.heads = sizes.heads
        self.ln1 = nn.LayerNorm(channels)
        self.qkv = nn.Linear(channels, 3 * channels)
        self.proj = nn.Linear(channels, channels)
        self.ln2 = nn.LayerNorm(channels)
        self.fc = nn.Linear(channels, 4 * channels)
        self.fc_proj = nn.Linear(4 * channels, channels)

    def forward(self, x):
        rows, tokens, channels = x.shape
        heads = [
            part.view(rows, tokens, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.ln1(x)).split(channels, dim=2)
        ]
        attended = F.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.proj(attended.transpose(1, 2).reshape(rows, tokens, channels))
        return x + self.fc_proj(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.wte = nn.Embedding(sizes.vocabulary, sizes.channels)
        self.wpe = nn.Embedding(sizes.context, sizes.channels)
        self.blocks = nn.ModuleList(Block(sizes) for _ in range(sizes.layers))
        self.ln_f = nn.LayerNorm(sizes.channels)
        self.head = nn.Linear(sizes.channels, sizes.vocabulary, bias=False)
        self.head.weight = self.wte.weight
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, targets):
        """Returns the mean cross-entropy."""
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln_f(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def count_parameters(model):
    return sum(parameter.numel() for parameter in model.parameters())


def make_optimizer(model):
    return torch.optim.AdamW(
        model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True
    )
