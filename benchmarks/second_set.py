"""Networks that were not used for tuning: the second set of names, in addition to those of `networks`.

Those that train return logits with classes last, or (`ConvolutionalVae`) their loss.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional


class OutputOf(nn.Module):
    """One entry of a network's result, which is a dictionary."""

    def __init__(self, network: nn.Module, key: str) -> None:
        super().__init__()
        self.network, self.key = network, key

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply the module."""
        return self.network(x)[self.key]


def googlenet() -> nn.Module:
    """The network of torchvision without the heads for training."""
    import torchvision

    return torchvision.models.googlenet(weights=None, aux_logits=False, init_weights=False)


def fcn_resnet50() -> nn.Module:
    """Segmentation head on ResNet-50: ``(N, 3, H, W)`` to ``(N, 21, H, W)``."""
    import torchvision

    return OutputOf(torchvision.models.segmentation.fcn_resnet50(weights=None, weights_backbone=None), "out")


def convnext_tiny() -> nn.Module:
    """The network of torchvision without layers that are skipped at random."""
    import torchvision

    return torchvision.models.convnext_tiny(weights=None, stochastic_depth_prob=0.0)


class SpeechFeatures(nn.Sequential):
    """Seven 1-d convolutions over samples, as speech models begin: ``(N, 1, samples)`` to ``(N, 512, frames)``."""

    def __init__(self) -> None:
        layers: list[nn.Module] = [nn.Conv1d(1, 512, 10, 5, bias=False), nn.GroupNorm(512, 512), nn.GELU()]
        for size in (3, 3, 3, 3, 2, 2):
            layers += [nn.Conv1d(512, 512, size, 2, bias=False), nn.GELU()]
        super().__init__(*layers)


class Gru(nn.Module):
    """Two gated recurrent layers of 256: ``(N, T, 80)`` to ``(N, T, 256)``."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.GRU(80, 256, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply the module."""
        return self.layers(x)[0]


class GruLanguageModel(nn.Module):
    """Characters ``(N, T)`` to logits ``(N, T, 65)`` through a gated recurrent layer of 256."""

    def __init__(self) -> None:
        super().__init__()
        self.characters, self.layer = nn.Embedding(65, 128), nn.GRU(128, 256, batch_first=True)
        self.head = nn.Linear(256, 65)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Apply the module."""
        return self.head(self.layer(self.characters(tokens))[0])


class CachedDecoder(nn.Module):
    """One step of a decoder of 6 layers, width 512, with the keys and values of the T positions before it.

    The input has them and the hidden state in one tensor: ``(13, 8, T, 64)``, in whose last part the first 512 values
    are the hidden state; the result is the hidden state after the last layer, ``(1, 512)``.
    """

    def __init__(self, layers: int = 6, width: int = 512, heads: int = 8) -> None:
        super().__init__()
        self.heads, self.width = heads, width
        make = nn.ModuleList
        self.project = make([nn.Linear(width, 3 * width) for _ in range(layers)])
        self.out = make([nn.Linear(width, width) for _ in range(layers)])
        self.up = make([nn.Linear(width, 4 * width) for _ in range(layers)])
        self.down = make([nn.Linear(4 * width, width) for _ in range(layers)])
        self.norms = make([nn.LayerNorm(width) for _ in range(2 * layers)])

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        """Apply the module."""
        layers = len(self.project)
        x = state[2 * layers].reshape(-1)[: self.width].reshape(1, self.width)
        for i in range(layers):
            parts = self.project[i](self.norms[2 * i](x)).reshape(3, self.heads, 1, -1)
            keys = torch.cat([state[2 * i], parts[1]], 1)
            values = torch.cat([state[2 * i + 1], parts[2]], 1)
            scores = (parts[0] @ keys.transpose(1, 2)) * (self.width // self.heads) ** -0.5
            x = x + self.out[i]((scores.softmax(-1) @ values).reshape(1, self.width))
            x = x + self.down[i](functional.gelu(self.up[i](self.norms[2 * i + 1](x))))
        return x


class ConvolutionalVae(nn.Module):
    """Variational autoencoder of 28x28 images; returns its loss.

    The input is ``(N, 784 + 16)``: pixels, and the random numbers of the hidden state. Networks must not draw these
    here, because all implementations must get the same ones.
    """

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(), nn.Flatten()
        )
        self.mean, self.spread = nn.Linear(3136, 16), nn.Linear(3136, 16)
        self.begin = nn.Linear(16, 3136)
        self.decoder = nn.Sequential(
            nn.ReLU(), nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(32, 1, 4, 2, 1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Mean over the batch of reconstruction error and divergence from the normal distribution."""
        pixels, noise = x[:, :784].sigmoid(), x[:, 784:]
        hidden = self.encoder(pixels.reshape(-1, 1, 28, 28))
        mean, spread = self.mean(hidden), self.spread(hidden)
        z = mean + noise * (0.5 * spread).exp()
        y = self.decoder(self.begin(z).reshape(-1, 64, 7, 7)).reshape(-1, 784)
        error = functional.softplus(y) - y * pixels
        divergence = 0.5 * (mean * mean + spread.exp() - spread - 1.0)
        return error.sum(1).mean() + divergence.sum(1).mean()


class Recommender(nn.Module):
    """Eight features of 20,000 values each, ``(N, 8)``, through embeddings and their products to two classes."""

    def __init__(self, features: int = 8, values: int = 20000, width: int = 32) -> None:
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(values, width) for _ in range(features)])
        pairs = features * width + features * features
        self.top = nn.Sequential(nn.Linear(pairs, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 2))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Apply the module."""
        rows = torch.stack([table(features[:, i]) for i, table in enumerate(self.tables)], 1)
        products = rows @ rows.transpose(1, 2)
        return self.top(torch.cat([rows.flatten(1), products.flatten(1)], 1))


class Segmentation(nn.Module):
    """Encoder and decoder with skip connections: ``(N, 3, H, W)`` to logits ``(N, H, W, 8)``."""

    def __init__(self, widths: tuple[int, ...] = (32, 64, 128)) -> None:
        super().__init__()

        def block(before: int, after: int) -> nn.Sequential:
            layers: list[nn.Module] = []
            for channels in (before, after):
                layers += [nn.Conv2d(channels, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
            return nn.Sequential(*layers)

        self.down = nn.ModuleList([block(b, a) for b, a in zip((3, *widths), widths, strict=False)])
        self.rise = nn.ModuleList([nn.ConvTranspose2d(a, b, 2, 2) for b, a in pairwise(widths)])
        self.join = nn.ModuleList([block(2 * b, b) for b in widths[:-1]])
        self.head = nn.Conv2d(widths[0], 8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply the module."""
        kept = []
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else functional.max_pool2d(x, 2))
            kept.append(x)
        for i in reversed(range(len(self.join))):
            x = self.join[i](torch.cat([kept[i], self.rise[i](x)], 1))
        return self.head(x).permute(0, 2, 3, 1)
