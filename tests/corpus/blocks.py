"""Blocks of image and token networks in the forms that today's model libraries have them, each as a small network."""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from tests.models.circulation.network import Inputs, Network, image

WIDTH = 16


def rows(length: int = 9, width: int = WIDTH) -> Callable[[], Inputs]:
    """One batch of rows of features."""
    return lambda: (torch.randn(2, length, width),)


class Classifier(nn.Module):
    """A stem of convolutions, a block on its planes, the mean of the planes, classes."""

    def __init__(self, block: nn.Module, width: int = WIDTH) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, WIDTH, 3, 2, 1)
        self.block = block
        self.head = nn.Linear(width, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.block(self.stem(x)).mean((2, 3)))


class SqueezeExcite(nn.Module):
    """Planes weighed by a gate of their means."""

    def __init__(self, gate: nn.Module) -> None:
        super().__init__()
        self.reduce, self.expand, self.gate = nn.Conv2d(WIDTH, 4, 1), nn.Conv2d(4, WIDTH, 1), gate

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        means = x.mean((2, 3), keepdim=True)
        return x * self.gate(self.expand(functional.relu(self.reduce(means))))


class EfficientChannels(nn.Module):
    """A gate by a convolution over neighbouring planes."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(1, 1, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        means = x.mean((2, 3))[:, None]
        return x * self.convolution(means).sigmoid().transpose(1, 2)[..., None]


class ChannelsAndSpace(nn.Module):
    """Gates by plane and by place, of means and largest values."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Sequential(nn.Conv2d(WIDTH, 4, 1, bias=False), nn.ReLU(), nn.Conv2d(4, WIDTH, 1, bias=False))
        self.place = nn.Conv2d(2, 1, 7, padding=3, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = self.shared(functional.adaptive_avg_pool2d(x, 1)) + self.shared(functional.adaptive_max_pool2d(x, 1))
        x = x * gate.sigmoid()
        both = torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], 1)
        return x * self.place(both).sigmoid()


class ResponseNorm(nn.Module):
    """ConvNeXt's second version: a norm by the planes' sizes, channels last."""

    def __init__(self) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(WIDTH, WIDTH, 7, padding=3, groups=WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6)
        self.wide, self.narrow = nn.Linear(WIDTH, 32), nn.Linear(32, WIDTH)
        self.gamma, self.beta = nn.Parameter(torch.zeros(1, 1, 1, 32)), nn.Parameter(torch.zeros(1, 1, 1, 32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.gelu(self.wide(self.norm(self.depthwise(x).permute(0, 2, 3, 1))))
        size = y.square().sum((1, 2), keepdim=True).sqrt()
        y = self.gamma * (y * (size / (size.mean(-1, keepdim=True) + 1e-6))) + self.beta + y
        return x + self.narrow(y).permute(0, 3, 1, 2)


class ThreeBranches(nn.Module):
    """RepVGG before its branches are joined: convolutions of two sizes and a batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.large = nn.Sequential(nn.Conv2d(WIDTH, WIDTH, 3, padding=1, bias=False), nn.BatchNorm2d(WIDTH))
        self.small = nn.Sequential(nn.Conv2d(WIDTH, WIDTH, 1, bias=False), nn.BatchNorm2d(WIDTH))
        self.same = nn.BatchNorm2d(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.large(x) + self.small(x) + self.same(x))


class Inverted(nn.Module):
    """A wide depthwise convolution with batch norms, added to what came in."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(WIDTH, 32, 1, bias=False), nn.BatchNorm2d(32), nn.SiLU(),
            nn.Conv2d(32, 32, 3, padding=1, groups=32, bias=False), nn.BatchNorm2d(32), nn.Hardswish(),
            nn.Conv2d(32, WIDTH, 1, bias=False), nn.BatchNorm2d(WIDTH),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x)


class GhostPlanes(nn.Module):
    """Half of the planes by a convolution, half by a cheap one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.cheap = nn.Conv2d(WIDTH, 8, 1), nn.Conv2d(8, 8, 3, padding=1, groups=8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = functional.relu(self.first(x))
        return torch.cat([first, functional.relu(self.cheap(first))], 1)


class SelectiveKernels(nn.Module):
    """Two dilations, weighed by a softmax over them."""

    def __init__(self) -> None:
        super().__init__()
        self.paths = nn.ModuleList(nn.Conv2d(WIDTH, WIDTH, 3, padding=d, dilation=d, groups=4) for d in (1, 2))
        self.reduce, self.choose = nn.Conv2d(WIDTH, 8, 1), nn.Conv2d(8, 2 * WIDTH, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        both = torch.stack([path(x) for path in self.paths], 1)
        chosen = self.choose(functional.relu(self.reduce(both.sum(1).mean((2, 3), keepdim=True))))
        weights = chosen.view(x.shape[0], 2, WIDTH, 1, 1).softmax(1)
        return (both * weights).sum(1)


class PoolMixer(nn.Module):
    """PoolFormer: tokens are mixed by a mean of neighbours, branches scaled by plane."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.second = nn.GroupNorm(1, WIDTH), nn.GroupNorm(1, WIDTH)
        self.layers = nn.Sequential(nn.Conv2d(WIDTH, 32, 1), nn.GELU(), nn.Conv2d(32, WIDTH, 1))
        self.scale, self.scale_second = (nn.Parameter(torch.full((WIDTH, 1, 1), 1e-5)) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        x = x + self.scale * (functional.avg_pool2d(y, 3, 1, 1, count_include_pad=False) - y)
        return x + self.scale_second * self.layers(self.second(x))


class AntiAliased(nn.Module):
    """A stride by a fixed filter, which is a buffer, over mirrored borders."""

    def __init__(self) -> None:
        super().__init__()
        taps = torch.tensor([1.0, 2.0, 1.0]) / 4
        self.register_buffer("filter", (taps[:, None] * taps).expand(WIDTH, 1, 3, 3).contiguous())
        self.layer = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.pad(functional.relu(self.layer(x)), (1, 1, 1, 1), mode="reflect")
        return functional.conv2d(y, self.filter, stride=2, groups=WIDTH)


class StandardisedWeights(nn.Module):
    """A convolution whose weight is standardised in each run, with a gain."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH, 3, 3) / 12)
        self.gain, self.bias = nn.Parameter(torch.ones(WIDTH, 1, 1, 1)), nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = self.weight.mean((1, 2, 3), keepdim=True)
        spread = (self.weight - mean).square().mean((1, 2, 3), keepdim=True)
        weight = (self.weight - mean) / (spread + 1e-6).sqrt() * self.gain
        return functional.silu(functional.conv2d(x, weight, self.bias, padding=1)) * 1.7


class Coordinates(nn.Module):
    """Places as two more planes, a buffer."""

    def __init__(self) -> None:
        super().__init__()
        line = torch.linspace(-1, 1, 8)
        self.register_buffer("places", torch.stack(torch.meshgrid(line, line, indexing="ij"))[None])
        self.layer = nn.Conv2d(WIDTH + 2, WIDTH, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.elu(self.layer(torch.cat([x, self.places.expand(x.shape[0], -1, -1, -1)], 1)))


class Normalised(nn.Module):
    """Images less their mean and divided by their spread, which are buffers, before the network."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1))
        self.register_buffer("spread", torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1))
        self.network = Classifier(nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.network((x - self.mean) / self.spread)


class Tokens(nn.Module):
    """A block on rows of features, a norm, classes of their mean."""

    def __init__(self, block: nn.Module, width: int = WIDTH) -> None:
        super().__init__()
        self.block, self.norm, self.head = block, nn.LayerNorm(width), nn.Linear(width, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.block(x)).mean(1))


def heads_of(x: torch.Tensor, count: int = 4) -> torch.Tensor:
    """(N, L, C) as (N, heads, L, C / heads)."""
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


class Attention(nn.Module):
    """Attention of timm, with one linear layer for queries, keys and values.

    Options are norms of queries and keys, a scale of the branch, and mixing of heads before and after the softmax.
    """

    def __init__(self, norms: bool = False, scaled: bool = False, talking: bool = False) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.q_norm, self.k_norm = (nn.LayerNorm(4) if norms else nn.Identity() for _ in range(2))
        self.gamma = nn.Parameter(torch.ones(WIDTH)) if scaled else None
        self.before, self.after = (nn.Linear(4, 4) if talking else None for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).reshape(*x.shape[:2], 3, 4, 4).permute(2, 0, 3, 1, 4).unbind(0)
        scores = (self.q_norm(q) * 0.5) @ self.k_norm(k).transpose(-2, -1)
        if self.before is not None:
            scores = self.before(scores.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        scores = scores.softmax(-1)
        if self.after is not None:
            scores = self.after(scores.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        y = self.out((scores @ v).transpose(1, 2).flatten(2))
        return x + (y if self.gamma is None else self.gamma * y)


class CrossCovariance(nn.Module):
    """XCiT: attention between features of unit length, with a temperature for each head."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.temperature = nn.Linear(WIDTH, 3 * WIDTH), nn.Parameter(torch.ones(4, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (heads_of(part).transpose(2, 3) for part in self.qkv(x).chunk(3, -1))
        q, k = functional.normalize(q, dim=-1), functional.normalize(k, dim=-1)
        y = (q @ k.transpose(-2, -1) * self.temperature).softmax(-1) @ v
        return x + y.permute(0, 3, 1, 2).flatten(2)


class RelativeBias(nn.Module):
    """Attention with a learned bias by distance, picked from a table by a buffer of indices."""

    def __init__(self, length: int = 9) -> None:
        super().__init__()
        self.qkv, self.table = nn.Linear(WIDTH, 3 * WIDTH), nn.Parameter(torch.zeros(2 * length - 1, 4))
        places = torch.arange(length)
        self.register_buffer("distance", places[:, None] - places + length - 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (heads_of(part) for part in self.qkv(x).chunk(3, -1))
        bias = self.table[self.distance.view(-1)].view(*self.distance.shape, 4).permute(2, 0, 1)
        return x + (((q * 0.5) @ k.transpose(-2, -1) + bias).softmax(-1) @ v).transpose(1, 2).flatten(2)


class Rotary(nn.Module):
    """Attention whose queries and keys are turned by position; cosines and sines are buffers."""

    def __init__(self, length: int = 9) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        angles = torch.arange(length)[:, None] * torch.tensor([1.0, 0.1]).repeat(2)
        self.register_buffer("cosines", angles.cos(), persistent=False)
        self.register_buffer("sines", angles.sin(), persistent=False)

    def turned(self, x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, -1)
        return x * self.cosines + torch.cat([-second, first], -1) * self.sines

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (heads_of(part) for part in self.qkv(x).chunk(3, -1))
        scores = (self.turned(q) * 0.5) @ self.turned(k).transpose(-2, -1)
        return x + (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


class ClassToken(nn.Module):
    """A learned first token and learned places, and attention of the first token alone (CaiT)."""

    def __init__(self, length: int = 9) -> None:
        super().__init__()
        self.token, self.places = nn.Parameter(torch.zeros(1, 1, WIDTH)), nn.Parameter(torch.zeros(1, length, WIDTH))
        self.embed, self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), self.embed(x) + self.places], 1)
        y = functional.scaled_dot_product_attention(
            heads_of(self.q(x[:, :1])), heads_of(self.k(x)), heads_of(self.v(x))
        )
        return x[:, :1] + y.transpose(1, 2).flatten(2)


class Mixer(nn.Module):
    """MLP-Mixer: a layer over tokens, a layer over features."""

    def __init__(self, length: int = 9) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.tokens = nn.Sequential(nn.Linear(length, 12), nn.GELU(approximate="tanh"), nn.Linear(12, length))
        self.features = nn.Sequential(nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.tokens(self.first(x).transpose(1, 2)).transpose(1, 2)
        return x + self.features(self.second(x))


class SpatialGate(nn.Module):
    """gMLP: half of the features gate the other half, after a layer over tokens."""

    def __init__(self, length: int = 9) -> None:
        super().__init__()
        self.wide, self.narrow, self.norm = nn.Linear(WIDTH, 32), nn.Linear(16, WIDTH), nn.LayerNorm(16)
        self.places = nn.Linear(length, length)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        u, v = functional.gelu(self.wide(x)).chunk(2, -1)
        return x + self.narrow(u * self.places(self.norm(v).transpose(1, 2)).transpose(1, 2))


class Affine(nn.Module):
    """ResMLP: a scale and a shift of features take the place of norms."""

    def __init__(self) -> None:
        super().__init__()
        self.alpha, self.beta = nn.Parameter(torch.ones(1, 1, WIDTH)), nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layer(torch.addcmul(self.beta, self.alpha, x))


class ShuffledPlanes(nn.Module):
    """A convolution in groups whose planes are then dealt to other groups."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(WIDTH, WIDTH, 1, groups=4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, c, h, w = x.shape
        return functional.elu(self.layer(x).view(n, 4, c // 4, h, w).transpose(1, 2).reshape(n, c, h, w))


class RootMeanSquare(nn.Module):
    """A norm by the root of the mean square, in the nodes that language models have."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class GatedUnit(nn.Module):
    """A root-mean-square norm and a gated layer, one weight for gate and value."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.both, self.out = RootMeanSquare(), nn.Linear(WIDTH, 64, bias=False), nn.Linear(32, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, value = self.both(self.norm(x)).chunk(2, -1)
        return x + self.out(functional.silu(gate) * value)


class Experts(nn.Module):
    """All experts as one product by einsum, weighed by a softmax of a router."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, 3)
        self.first, self.second = (nn.Parameter(torch.randn(3, *s) / 4) for s in [(WIDTH, 24), (24, WIDTH)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.einsum("nld,edh->nleh", x, self.first).relu()
        each = torch.einsum("nleh,ehd->nled", hidden, self.second)
        return x + (each * self.router(x).softmax(-1)[..., None]).sum(2)


class StateSpace(nn.Module):
    """Features decayed along the tokens by learned rates, as a product of all pairs of places."""

    def __init__(self, length: int = 9) -> None:
        super().__init__()
        self.gain, self.rate = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))
        self.register_buffer("ages", (torch.arange(length)[:, None] - torch.arange(length)).clamp(min=0).float())
        self.register_buffer("seen", torch.ones(length, length).tril())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kernel = torch.exp(-functional.softplus(self.rate) * self.ages[..., None]) * self.seen[..., None]
        return x + self.gain * torch.einsum("ijd,njd->nid", kernel, x)


class TiedTokens(nn.Module):
    """Embedded tokens whose table is the weight of the last layer too."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.layer = nn.Embedding(40, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 40, bias=False)
        self.head.weight = self.table.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.layer(self.table(ids))))


class CosineClasses(nn.Module):
    """Classes by cosines with learned rows, times a learned scale."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.rows = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 7, bias=False)
        self.scale = nn.Parameter(torch.tensor([2.3, 2.9, 3.3, 2.7, 3.1, 2.5, 2.2]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        lengths = x.square().sum(-1, keepdim=True).sqrt() + 1e-6
        return self.rows(self.layer(x / lengths)) * self.scale


def _planes(make: Callable[[], nn.Module], width: int = WIDTH, oldest: int = 11) -> Network:
    return Network("planes", lambda: Classifier(make(), width), image(16, batch=2), oldest=oldest)


def _tokens(make: Callable[[], nn.Module], oldest: int = 11) -> Network:
    return Network("tokens", lambda: Tokens(make()), rows(), oldest=oldest)


NETWORKS: dict[str, Network] = {
    "squeeze_excite": _planes(lambda: SqueezeExcite(nn.Sigmoid())),
    "squeeze_excite_hard": _planes(lambda: SqueezeExcite(nn.Hardsigmoid()), oldest=14),
    "efficient_channels": _planes(EfficientChannels),
    "channels_and_space": _planes(ChannelsAndSpace),
    "response_norm": _planes(ResponseNorm),
    "three_branches": _planes(ThreeBranches),
    "inverted": _planes(Inverted, oldest=14),
    "ghost_planes": _planes(GhostPlanes),
    "selective_kernels": _planes(SelectiveKernels),
    "pool_mixer": _planes(PoolMixer),
    "anti_aliased": _planes(AntiAliased),
    "standardised_weights": _planes(StandardisedWeights),
    "coordinates": _planes(Coordinates),
    "mish_and_prelu": _planes(lambda: nn.Sequential(nn.PReLU(WIDTH), nn.Conv2d(WIDTH, WIDTH, 1), nn.Mish())),
    "shuffled": _planes(ShuffledPlanes),
    "normalised_images": Network("planes", Normalised, image(16, batch=2)),
    "attention": _tokens(Attention),
    "attention_with_norms": _tokens(lambda: Attention(norms=True, scaled=True), oldest=13),
    "talking_heads": _tokens(lambda: Attention(talking=True)),
    "cross_covariance": _tokens(CrossCovariance, oldest=13),
    "relative_bias": _tokens(RelativeBias, oldest=13),
    "rotary": _tokens(Rotary, oldest=13),
    "class_token": _tokens(ClassToken, oldest=14),
    "mixer": _tokens(Mixer),
    "spatial_gate": _tokens(SpatialGate),
    "affine": _tokens(Affine),
    "gated_unit": _tokens(GatedUnit),
    "experts": _tokens(Experts, oldest=12),
    "state_space": _tokens(StateSpace, oldest=12),
    "tied_tokens": Network("tokens", TiedTokens, lambda: (torch.randint(0, 40, (2, 9)),)),
    "cosine_classes": Network("tokens", CosineClasses, lambda: (torch.randn(4, WIDTH),)),
}
