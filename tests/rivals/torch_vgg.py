"""VGG16 in plain PyTorch, channels last, and the optimizer that it is trained with here."""

import torch
import torch.nn.functional as F
from torch import nn

LAYERS = [64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0]
CLASSES = 1000


class Vgg(nn.Module):
    def __init__(self, height, width, hidden):
        super().__init__()
        layers, channels = [], 3
        for out in LAYERS:
            if out == 0:
                height, width = height // 2, width // 2
                layers.append(nn.MaxPool2d(2))
            else:
                layers += [nn.Conv2d(channels, out, 3, padding=1), nn.ReLU(inplace=True)]
                channels = out
        layers.append(nn.Flatten())
        inputs = channels * height * width
        for units in hidden:
            layers += [nn.Linear(inputs, units), nn.ReLU(inplace=True)]
            inputs = units
        layers.append(nn.Linear(inputs, CLASSES))
        self.layers = nn.Sequential(*layers)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.kaiming_normal_(parameter, nonlinearity="relu")
            else:
                nn.init.zeros_(parameter)
        self.to(memory_format=torch.channels_last)

    def forward(self, pictures, labels):
        """Returns the mean cross-entropy. Pictures are bytes [rows, height, width, channels]."""
        x = (pictures.float() * (2 / 255) - 1).permute(0, 3, 1, 2)  # channels last
        return F.cross_entropy(self.layers(x), labels)


def make_optimizer(model):
    return torch.optim.SGD(
        model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4, fused=True
    )
