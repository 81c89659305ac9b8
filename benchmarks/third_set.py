"""The third set of names: classes of layers that the second set (`second_set`) does not have, from PyTorch's modules.

Sizes are the usual ones of such networks. Weights are random; those of convolutions are large enough that deep layers
still affect the result.
"""

from __future__ import annotations

import second_set
import torch
from torch import nn
from torch.nn import functional


def convolution(before: int, after: int, size: int = 1, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    """Convolution that keeps the size except for its stride, and BatchNorm."""
    return [nn.Conv2d(before, after, size, stride, size // 2, groups=groups, bias=False), nn.BatchNorm2d(after)]


def with_large_weights(network: nn.Module, factor: float = 1.0) -> nn.Module:
    """The network; its convolutions have weights that keep the variance of activations after ReLU, times `factor`."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
            nn.init.kaiming_normal_(module.weight)
            module.weight.data *= factor
    return network


class SqueezeExcite(nn.Module):
    """Scales each channel by a function of the means of all channels."""

    def __init__(self, channels: int, inner: int) -> None:
        super().__init__()
        self.squeeze, self.excite = nn.Conv2d(channels, inner, 1), nn.Conv2d(inner, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply the module."""
        mean = functional.adaptive_avg_pool2d(x, 1)
        return x * self.excite(functional.silu(self.squeeze(mean))).sigmoid()


class InvertedBottleneck(nn.Module):
    """1x1 convolution to `expand` times the channels, depthwise and 1x1 convolution; residual if shapes are equal."""

    def __init__(
        self, before: int, after: int, expand: int, size: int, stride: int, act: type[nn.Module], squeeze: bool
    ) -> None:
        super().__init__()
        inner = before * expand
        layers = [] if expand == 1 else [*convolution(before, inner), act()]
        layers += [*convolution(inner, inner, size, stride, inner), act()]
        layers += [SqueezeExcite(inner, before // 4)] if squeeze else []
        self.branch = nn.Sequential(*layers, *convolution(inner, after))
        self.residual = stride == 1 and before == after

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply the module."""
        return x + self.branch(x) if self.residual else self.branch(x)


# Expansion, channels, repeats, stride of the first, size of the depthwise window.
_RELU6_STAGES = [
    *((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 32, 3, 2, 3), (6, 64, 4, 2, 3)),
    *((6, 96, 3, 1, 3), (6, 160, 3, 2, 3), (6, 320, 1, 1, 3)),
]
_SILU_STAGES = [
    *((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3)),
    *((6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)),
]


def _bottlenecks(stages: list[tuple[int, ...]], act: type[nn.Module], squeeze: bool) -> nn.Sequential:
    layers, channels = [*convolution(3, 32, 3, 2), act()], 32
    for expand, after, repeats, stride, size in stages:
        for i in range(repeats):
            layers.append(InvertedBottleneck(channels, after, expand, size, 1 if i else stride, act, squeeze))
            channels = after
    layers += [*convolution(channels, 1280), act(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000)]
    return nn.Sequential(*layers)


def bottlenecks_relu6() -> nn.Module:
    """17 inverted bottlenecks with ReLU6: ``(N, 3, H, W)`` to ``(N, 1000)``."""
    return with_large_weights(_bottlenecks(_RELU6_STAGES, nn.ReLU6, squeeze=False))


def bottlenecks_silu() -> nn.Module:
    """16 inverted bottlenecks with SiLU and squeeze-and-excite: ``(N, 3, H, W)`` to ``(N, 1000)``."""
    return with_large_weights(_bottlenecks(_SILU_STAGES, nn.SiLU, squeeze=True), 1.12)


class DenseLayer(nn.Module):
    """Appends `growth` channels, which two convolutions compute from all earlier channels."""

    def __init__(self, before: int, growth: int) -> None:
        super().__init__()
        inner = 4 * growth
        first = [nn.BatchNorm2d(before), nn.ReLU(), nn.Conv2d(before, inner, 1, bias=False)]
        second = [nn.BatchNorm2d(inner), nn.ReLU(), nn.Conv2d(inner, growth, 3, padding=1, bias=False)]
        self.layers = nn.Sequential(*first, *second)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply the module."""
        return torch.cat([x, self.layers(x)], 1)


def densely_connected(repeats: tuple[int, ...] = (6, 12, 24, 16), growth: int = 32) -> nn.Module:
    """121 layers, each of which reads all earlier ones in its block: ``(N, 3, H, W)`` to ``(N, 1000)``."""
    channels = 2 * growth
    layers: list[nn.Module] = [*convolution(3, channels, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    for block, count in enumerate(repeats):
        if block:
            layers += [nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, channels // 2, 1, bias=False)]
            layers.append(nn.AvgPool2d(2))
            channels //= 2
        layers += [DenseLayer(channels + i * growth, growth) for i in range(count)]
        channels += count * growth
    layers += [nn.BatchNorm2d(channels), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000)]
    return with_large_weights(nn.Sequential(*layers))


class JointBlock(nn.Module):
    """Transformer block, normalised before its branches; one product computes queries, keys and values."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.joint, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply the module."""
        n, t, width = x.shape
        parts = self.joint(self.norm1(x)).reshape(n, t, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(y.transpose(1, 2).reshape(n, t, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class PatchEncoder(nn.Module):
    """Patches of 16x16 pixels as tokens, and another one that is classified: ``(N, 3, 224, 224)`` to ``(N, 1000)``."""

    def __init__(self, layers: int = 12, width: int = 768, heads: int = 12) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.first = nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, 14 * 14 + 1, width))
        self.blocks = nn.Sequential(*(JointBlock(width, heads, causal=False) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Apply the module."""
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(len(images), -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


def encoder_decoder() -> nn.Module:
    """Convolutions of 64 to 512 channels with skip connections: ``(N, 3, H, W)`` to ``(N, H, W, 8)``."""
    return with_large_weights(second_set.Segmentation((64, 128, 256, 512)))


class TiedDecoder(nn.Module):
    """Tokens ``(N, T)`` to logits ``(N, T, vocabulary)``; the head's weight is the table of the tokens."""

    def __init__(self, layers: int = 12, width: int = 768, heads: int = 12, vocabulary: int = 50257) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(1024, width)
        self.blocks = nn.Sequential(*(JointBlock(width, heads, causal=True) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Apply the module."""
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        return self.head(self.norm(self.blocks(x)))


class Lstm(nn.Module):
    """Two recurrent layers with cells of 512: ``(N, T, 80)`` to ``(N, T, 512)``."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.LSTM(80, 512, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply the module."""
        return self.layers(x)[0]


class LstmLanguageModel(nn.Module):
    """Characters ``(N, T)`` to logits ``(N, T, 65)`` through two recurrent layers with cells of 256."""

    def __init__(self) -> None:
        super().__init__()
        self.characters, self.layers = nn.Embedding(65, 128), nn.LSTM(128, 256, 2, batch_first=True)
        self.head = nn.Linear(256, 65)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Apply the module."""
        return self.head(self.layers(self.characters(tokens))[0])
