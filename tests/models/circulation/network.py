"""What the table of networks in circulation says about one network."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

Inputs = tuple[torch.Tensor, ...]
Outputs = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Network:
    """One network.

    Attributes:
        family: What it is made for; of each family one network trains as well.
        make: Makes it, with random weights.
        inputs: Makes its inputs, positional, of fixed shapes.
        slow: It takes more than a second or two in all and is left to `-m slow`.
        trains: Loss with which it trains as its family's example: "classes" (cross entropy, classes last), "planes"
            (cross entropy, classes second) or "squares" (mean squared difference); None if another one does.
            A model file knows no buffers: each of its float initializers with a gradient trains, so that networks
            which add a buffer to a result differ from PyTorch.
        oldest: Oldest opset in which PyTorch's exporter can write it.
    """

    family: str
    make: Callable[[], nn.Module]
    inputs: Callable[[], Inputs]
    slow: bool = False
    trains: str | None = None
    oldest: int = 11


class Flat(nn.Module):
    """A network whose outputs are tensors in a flat tuple, as both exporters name them alike."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network

    def forward(self, *inputs):
        return flat(self.network(*inputs))


def flat(value) -> Outputs:
    """The tensors of nested tuples, lists and mappings, in order; what is no tensor is left out."""
    if isinstance(value, torch.Tensor):
        return (value,)
    if hasattr(value, "to_tuple"):
        value = value.to_tuple()
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple | list):
        return tuple(tensor for part in value for tensor in flat(part))
    return ()


def image(side: int, channels: int = 3, batch: int = 1) -> Callable[[], Inputs]:
    """One batch of square images."""
    return lambda: (torch.randn(batch, channels, side, side),)


def tokens(length: int, vocabulary: int = 99, batch: int = 2) -> Callable[[], Inputs]:
    """One batch of token sequences."""
    return lambda: (torch.randint(2, vocabulary, (batch, length)),)
