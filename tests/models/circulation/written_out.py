"""Networks that no package has, in the forms users write them: recurrent, generative, recommending, on graphs."""

import torch
from torch import nn
from torch.nn import functional

from tests.models.circulation.network import Network, image, tokens


class Recurrent(nn.Module):
    """Embedded tokens through two recurrent layers in both directions."""

    def __init__(self, kind):
        super().__init__()
        self.embedding = nn.Embedding(99, 16)
        self.layers = kind(16, 24, num_layers=2, bidirectional=True, batch_first=True)
        self.out = nn.Linear(48, 10)

    def forward(self, ids):
        return self.out(self.layers(self.embedding(ids))[0])


class Spectrogram(nn.Module):
    """1-d convolutions with strides and dilation over sound, gated, then classes of each frame."""

    def __init__(self):
        super().__init__()
        self.front = nn.Sequential(nn.Conv1d(1, 16, 9, 4, 4), nn.GroupNorm(4, 16), nn.GELU())
        self.gated = nn.ModuleList(nn.Conv1d(16, 32, 3, padding=2**i, dilation=2**i) for i in range(3))
        self.out = nn.Conv1d(16, 12, 1)

    def forward(self, x):
        x = self.front(x)
        for layer in self.gated:
            x = x + functional.glu(layer(x), 1)
        return self.out(x)


class SubPixel(nn.Module):
    """Super-resolution: features, pixel shuffle, added to the enlarged image."""

    def __init__(self, mode):
        super().__init__()
        self.mode = mode
        self.body = nn.Sequential(nn.Conv2d(3, 16, 5, padding=2), nn.PReLU(16), nn.Conv2d(16, 12, 3, padding=1))

    def forward(self, x):
        settings = {} if self.mode == "nearest" else {"align_corners": False}
        return nn.PixelShuffle(2)(self.body(x)) + functional.interpolate(x, scale_factor=2, mode=self.mode, **settings)


class Residual(nn.Module):
    """Residual block of a diffusion network, moved by the embedding of time."""

    def __init__(self, inner, outer):
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(1, inner), nn.SiLU(), nn.Conv2d(inner, outer, 3, padding=1))
        self.time = nn.Linear(32, outer)
        self.second = nn.Sequential(nn.GroupNorm(4, outer), nn.SiLU(), nn.Conv2d(outer, outer, 3, padding=1))
        self.skip = nn.Conv2d(inner, outer, 1)

    def forward(self, x, time):
        h = self.first(x) + self.time(functional.silu(time))[:, :, None, None]
        return self.skip(x) + self.second(h)


class DiffusionUNet(nn.Module):
    """Down, attention over pixels, up, with skips and an embedding of time by sines."""

    def __init__(self):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 32))
        self.down = Residual(3, 16)
        self.shrink = nn.Conv2d(16, 16, 3, 2, 1)
        self.middle = Residual(16, 32)
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.up = Residual(48, 16)
        self.out = nn.Conv2d(16, 3, 3, padding=1)

    def forward(self, x, time):
        rates = torch.exp(-torch.arange(8) * 0.5)
        angles = time[:, None] * rates
        t = self.time(torch.cat([angles.sin(), angles.cos()], 1))
        fine = self.down(x, t)
        h = self.middle(self.shrink(fine), t)
        rows = h.flatten(2).transpose(1, 2)
        h = h + self.attention(rows, rows, rows, need_weights=False)[0].transpose(1, 2).reshape(h.shape)
        h = functional.interpolate(h, scale_factor=2.0, mode="nearest")
        return self.out(self.up(torch.cat([h, fine], 1), t))


class Recommender(nn.Module):
    """Embeddings of categories and dense features, their pairwise products, an MLP (DLRM)."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(50, 8) for _ in range(4))
        self.dense = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(18, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, categories, features):
        dense = self.dense(features)
        rows = torch.stack([dense, *(table(categories[:, i]) for i, table in enumerate(self.tables))], 1)
        products = rows @ rows.transpose(1, 2)
        i, j = torch.tril_indices(5, 5, -1)
        return self.top(torch.cat([dense, products[:, i, j]], 1))


class GraphNetwork(nn.Module):
    """Messages along edges are gathered, summed by node (scatter), normed by degree; two rounds."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 16), nn.Linear(16, 16)])
        self.out = nn.Linear(16, 5)

    def forward(self, x, edges):
        source, target = edges[0], edges[1]
        ones = torch.ones(edges.shape[1])
        degree = torch.zeros(x.shape[0]).scatter_add(0, target, ones).clamp(min=1)
        for layer in self.layers:
            messages = layer(x)[source]
            where = target[:, None].expand(-1, messages.shape[1])
            total = torch.zeros(x.shape[0], messages.shape[1]).scatter_add(0, where, messages)
            x = functional.relu(total / degree[:, None])
        return self.out(x)


class Autoencoder(nn.Module):
    """Convolutions down, transposed convolutions up."""

    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.ELU(), nn.Conv2d(8, 16, 3, 2, 1), nn.InstanceNorm2d(16))
        self.up = nn.Sequential(
            nn.ConvTranspose2d(16, 8, 3, 2, 1, output_padding=1), nn.LeakyReLU(0.1), nn.ConvTranspose2d(8, 1, 4, 2, 1)
        )

    def forward(self, x):
        return torch.sigmoid(self.up(self.down(x)))


class TorchTransformer(nn.Module):
    """torch.nn's own encoder and decoder layers."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(99, 32)
        self.body = nn.Transformer(32, 4, 1, 1, 64, dropout=0.0, batch_first=True)
        self.out = nn.Linear(32, 99)

    def forward(self, ids):
        x = self.embedding(ids)
        return self.out(self.body(x, x))


def samples_of_recommender():
    return torch.randint(0, 50, (4, 4)), torch.randn(4, 6)


NETWORKS = {
    "lstm": Network("recurrent", lambda: Recurrent(nn.LSTM), tokens(9)),
    "gru": Network("recurrent", lambda: Recurrent(nn.GRU), tokens(9), trains="classes"),
    "rnn": Network("recurrent", lambda: Recurrent(nn.RNN), tokens(9)),
    "spectrogram": Network("speech", Spectrogram, lambda: (torch.randn(2, 1, 200),), trains="planes"),
    "super_resolution_nearest": Network("super-resolution", lambda: SubPixel("nearest"), image(12)),
    "super_resolution_linear": Network("super-resolution", lambda: SubPixel("bilinear"), image(12), trains="squares"),
    "super_resolution_cubic": Network("super-resolution", lambda: SubPixel("bicubic"), image(12)),
    "diffusion_unet": Network(
        "diffusion",
        DiffusionUNet,
        lambda: (*image(16, batch=2)(), torch.tensor([3.0, 40.0])),
        trains="squares",
        oldest=13,
    ),
    "autoencoder": Network("generative", Autoencoder, image(16, channels=1, batch=2), trains="squares"),
    "recommender": Network("recommender", Recommender, samples_of_recommender, trains="classes"),
    "graph_network": Network(
        "graph", GraphNetwork, lambda: (torch.randn(10, 8), torch.randint(0, 10, (2, 30))), trains="classes"
    ),
    "torch_transformer": Network("encoder-decoder", TorchTransformer, tokens(8), oldest=13),
}
