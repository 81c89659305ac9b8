"""The networks of the benchmark in PyTorch, with fixed random weights, inputs and labels.

Every implementation starts from these weights and inputs; `BENCHMARKS` lists the names. Training networks return
logits with classes last; their loss is the mean cross entropy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from typing import Any

import second_set
import third_set
import torch
from torch import nn
from torch.nn import functional

SEED = 7


@dataclass(frozen=True)
class Optimizer:
    """Rule of the weight update.

    Attributes:
        kind: ``sgd``, ``adam`` or ``adamw``.
        lr: Learning rate.
        momentum: Momentum of SGD.
        weight_decay: Decoupled weight decay of AdamW.
    """

    kind: str
    lr: float
    momentum: float = 0.0
    weight_decay: float = 0.0


@dataclass(frozen=True)
class Benchmark:
    """One measured name.

    Attributes:
        network: Makes the module.
        inputs: Makes the input tensor.
        classes: Number of classes of the labels; 0 for inference and for networks that compute their loss.
        optimizer: Rule of the update; None for inference.
        trainable: Patterns of the parameters that train; empty: all.
    """

    network: Callable[[], nn.Module]
    inputs: Callable[[], torch.Tensor]
    classes: int = 0
    optimizer: Optimizer | None = None
    labels: tuple[int, ...] | None = None  # shape of the labels, if it is not that of tokens or of the batch
    own_loss: bool = False  # the network returns its loss
    trainable: tuple[str, ...] = ()

    @property
    def training(self) -> bool:
        """Whether an optimizer step is measured."""
        return self.optimizer is not None


class Mlp(nn.Sequential):
    """784-512-512-512-10 with exact GELU: ``(N, 784)`` to ``(N, 10)``."""

    def __init__(self) -> None:
        layers: list[nn.Module] = []
        for rows, columns in ((784, 512), (512, 512), (512, 512)):
            layers += [nn.Linear(rows, columns), nn.GELU()]
        super().__init__(*layers, nn.Linear(512, 10))


class AddOne(nn.Module):
    """One tiny operator: adds a weight to its input, ``(1,)``."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply the module."""
        return x + self.weight


class LeNet(nn.Sequential):
    """Convolutions of LeNet-5 with ReLU and max pooling: ``(N, 1, 28, 28)`` to ``(N, 10)``."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(1, 6, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(400, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, 10),
        )


class Attention(nn.Module):
    """Multi-head self-attention: ``(N, T, width)`` to the same."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply the module."""
        n, t, width = x.shape
        q, k, v = (
            layer(x).reshape(n, t, self.heads, width // self.heads).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(n, t, width))


class Block(nn.Module):
    """Transformer block; layer norm before (GPT) or after (BERT) each residual branch."""

    def __init__(self, width: int, heads: int, inner: int, causal: bool) -> None:
        super().__init__()
        self.norm_first = causal
        self.attention = Attention(width, heads, causal)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply the module."""
        if self.norm_first:
            x = x + self.attention(self.norm1(x))
            return x + self.down(functional.gelu(self.up(self.norm2(x))))
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.down(functional.gelu(self.up(x))))


class Transformer(nn.Module):
    """Tokens ``(N, T)`` to hidden states ``(N, T, width)``, or to logits ``(N, T, vocabulary)`` with a head."""

    def __init__(
        self,
        layers: int,
        width: int,
        heads: int,
        inner: int,
        context: int,
        vocabulary: int,
        *,
        causal: bool,
        head: bool,
    ) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList([Block(width, heads, inner, causal) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.causal = causal
        self.head = nn.Linear(width, vocabulary) if head else None
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Apply the module."""
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        x = x if self.causal else self.norm(x)  # BERT normalises the embeddings, GPT the last hidden state
        for block in self.blocks:
            x = block(x)
        x = self.norm(x) if self.causal else x
        return self.head(x) if self.head is not None else x


def torchvision_network(name: str) -> Callable[[], nn.Module]:
    """Maker of a network of torchvision without pretrained weights."""

    def make() -> nn.Module:
        import torchvision

        return getattr(torchvision.models, name)(weights=None)

    return make


def gpt(layers: int = 6, width: int = 384, heads: int = 6, context: int = 256) -> Transformer:
    """Language model of 65 characters."""
    return Transformer(layers, width, heads, 4 * width, context, 65, causal=True, head=True)


def bert_tiny() -> Transformer:
    """4 layers, width 312, with a head over the whole vocabulary."""
    return Transformer(4, 312, 12, 1200, 128, 30522, causal=False, head=True)


def bert_base() -> Transformer:
    """12 layers, width 768, hidden states without pooler."""
    return Transformer(12, 768, 12, 3072, 128, 30522, causal=False, head=False)


def floats(*shape: int) -> Callable[[], torch.Tensor]:
    """Maker of normally distributed inputs."""
    return lambda: torch.randn(*shape)


def tokens(batch: int, length: int, vocabulary: int) -> Callable[[], torch.Tensor]:
    """Maker of random tokens, int32 ``(batch, length)``."""
    return lambda: torch.randint(vocabulary, (batch, length), dtype=torch.int32)


def convolutions(*layers: tuple[int, int, int, int, int]) -> Callable[[], nn.Module]:
    """Maker of a chain of convolutions with ReLU that ends in the mean of each channel.

    Args:
        layers: Channels in and out, size of the window, stride and groups of each.
    """

    def make() -> nn.Module:
        modules: list[nn.Module] = []
        for before, after, size, stride, groups in layers:
            modules.append(nn.Conv2d(before, after, size, stride, size // 2, groups=groups))
            modules.append(nn.ReLU())
        return nn.Sequential(*modules, nn.AdaptiveAvgPool2d(1), nn.Flatten())

    return make


_MOMENTUM = Optimizer("sgd", 0.01, momentum=0.9)
_ADAMW = Optimizer("adamw", 1e-3, weight_decay=0.01)
# Classes of convolutions in common networks: input channels, input size, layers.
_CONVOLUTIONS = {
    "stem7x7": (3, 224, [(3, 64, 7, 2, 1)]),
    "3x3_56": (64, 56, [(64, 64, 3, 1, 1)] * 4),
    "3x3_28": (128, 28, [(128, 128, 3, 1, 1)] * 4),
    "3x3_14": (256, 14, [(256, 256, 3, 1, 1)] * 4),
    "3x3_7": (512, 7, [(512, 512, 3, 1, 1)] * 4),
    "3x3_stride2": (64, 56, [(64, 128, 3, 2, 1), (128, 256, 3, 2, 1)]),
    "1x1_56": (256, 56, [(256, 64, 1, 1, 1), (64, 256, 1, 1, 1)] * 2),
    "1x1_28": (512, 28, [(512, 128, 1, 1, 1), (128, 512, 1, 1, 1)] * 2),
    "1x1_14": (1024, 14, [(1024, 256, 1, 1, 1), (256, 1024, 1, 1, 1)] * 2),
    "1x1_7": (2048, 7, [(2048, 512, 1, 1, 1), (512, 2048, 1, 1, 1)] * 2),
    "groups32_28": (256, 28, [(256, 256, 3, 1, 32)] * 4),
    "depthwise_28": (192, 28, [(192, 192, 3, 1, 192)] * 4),
}
BENCHMARKS = {
    "mlp_b1": Benchmark(Mlp, floats(1, 784)),
    "mlp_b8": Benchmark(Mlp, floats(8, 784)),
    "mlp_b80": Benchmark(Mlp, floats(80, 784)),
    "alexnet_b1": Benchmark(torchvision_network("alexnet"), floats(1, 3, 224, 224)),
    "resnet50_b1": Benchmark(torchvision_network("resnet50"), floats(1, 3, 224, 224)),
    "resnet50_b8": Benchmark(torchvision_network("resnet50"), floats(8, 3, 224, 224)),
    "bert_base_s128_b1": Benchmark(bert_base, tokens(1, 128, 30522)),
    "mlp_train_b8": Benchmark(Mlp, floats(8, 784), 10, Optimizer("sgd", 0.05)),
    "mlp_train_b80": Benchmark(Mlp, floats(80, 784), 10, Optimizer("sgd", 0.05)),
    "lenet_train_b32": Benchmark(LeNet, floats(32, 1, 28, 28), 10, _MOMENTUM),
    "resnet18_train_b8": Benchmark(torchvision_network("resnet18"), floats(8, 3, 224, 224), 1000, _MOMENTUM),
    "resnet18_head_train_b8": Benchmark(
        torchvision_network("resnet18"), floats(8, 3, 224, 224), 1000, _MOMENTUM, trainable=("fc.*",)
    ),
    "gpt_train_b8": Benchmark(gpt, tokens(8, 256, 65), 65, _ADAMW),
    "layers20_train_b2": Benchmark(
        partial(gpt, layers=20, width=512, heads=8, context=128), tokens(2, 128, 65), 65, _ADAMW
    ),
    "bert_tiny_train_b8": Benchmark(bert_tiny, tokens(8, 128, 30522), 30522, Optimizer("adam", 1e-3)),
    "call_overhead": Benchmark(AddOne, floats(1)),
}
BENCHMARKS |= {
    "convnext_tiny_b1": Benchmark(second_set.convnext_tiny, floats(1, 3, 224, 224)),
    "shufflenet_v2_b1": Benchmark(torchvision_network("shufflenet_v2_x1_0"), floats(1, 3, 224, 224)),
    "swin_t_b1": Benchmark(torchvision_network("swin_t"), floats(1, 3, 224, 224)),
    "googlenet_b1": Benchmark(second_set.googlenet, floats(1, 3, 224, 224)),
    "fcn_resnet50_b1": Benchmark(second_set.fcn_resnet50, floats(1, 3, 224, 224)),
    "wav2vec_features_b1": Benchmark(second_set.SpeechFeatures, floats(1, 1, 16000)),
    "gru_s64_b1": Benchmark(second_set.Gru, floats(1, 64, 80)),
    "decoder_cached_b1": Benchmark(second_set.CachedDecoder, floats(13, 8, 256, 64)),
    "convnext_tiny_train_b8": Benchmark(second_set.convnext_tiny, floats(8, 3, 224, 224), 1000, _ADAMW),
    "gru_train_b16": Benchmark(second_set.GruLanguageModel, tokens(16, 64, 65), 65, _ADAMW),
    "conv_vae_train_b64": Benchmark(
        second_set.ConvolutionalVae, floats(64, 800), optimizer=Optimizer("adam", 1e-3), own_loss=True
    ),
    "recommender_train_b512": Benchmark(
        second_set.Recommender, tokens(512, 8, 20000), 2, Optimizer("adam", 1e-3), labels=(512,)
    ),
    "segmentation_train_b2": Benchmark(
        second_set.Segmentation, floats(2, 3, 128, 128), 8, _MOMENTUM, labels=(2, 128, 128)
    ),
}
BENCHMARKS |= {
    "bottlenecks_relu6_b1": Benchmark(third_set.bottlenecks_relu6, floats(1, 3, 224, 224)),
    "bottlenecks_silu_b1": Benchmark(third_set.bottlenecks_silu, floats(1, 3, 224, 224)),
    "densely_connected_b1": Benchmark(third_set.densely_connected, floats(1, 3, 224, 224)),
    "patch_encoder_b1": Benchmark(third_set.PatchEncoder, floats(1, 3, 224, 224)),
    "encoder_decoder_256_b1": Benchmark(third_set.encoder_decoder, floats(1, 3, 256, 256)),
    "decoder_s64_b1": Benchmark(third_set.TiedDecoder, tokens(1, 64, 50257)),
    "lstm_s100_b1": Benchmark(third_set.Lstm, floats(1, 100, 80)),
    # With a rate of 0.01 the losses of float32 and float64 differ by 1e-3 after two updates in PyTorch too.
    "bottlenecks_relu6_train_b8": Benchmark(
        third_set.bottlenecks_relu6, floats(8, 3, 224, 224), 1000, Optimizer("sgd", 1e-3, momentum=0.9)
    ),
    "patch_encoder_train_b8": Benchmark(
        partial(third_set.PatchEncoder, layers=6, width=384, heads=6), floats(8, 3, 224, 224), 1000, _ADAMW
    ),
    "lstm_train_b8": Benchmark(third_set.LstmLanguageModel, tokens(8, 100, 65), 65, _ADAMW),
}
for _class, (_channels, _size, _layers) in _CONVOLUTIONS.items():
    _input = floats(8, _channels, _size, _size)
    BENCHMARKS[f"conv_{_class}_b8"] = Benchmark(convolutions(*_layers), _input)
    BENCHMARKS[f"conv_{_class}_train_b8"] = Benchmark(convolutions(*_layers), _input, _layers[-1][1], _MOMENTUM)


def instantiate(benchmark: Benchmark) -> tuple[nn.Module, torch.Tensor, torch.Tensor | None]:
    """Network, input and labels (int64, one per row of logits), the same in every process."""
    torch.manual_seed(SEED)
    network = benchmark.network()
    for name, parameter in network.named_parameters():
        trains = not benchmark.trainable or any(fnmatch(name, pattern) for pattern in benchmark.trainable)
        parameter.requires_grad_(trains)
    inputs = benchmark.inputs()
    if not benchmark.training:
        return network.eval(), inputs, None
    if benchmark.own_loss:
        return network.train(), inputs, None
    rows = inputs.shape if not inputs.is_floating_point() else inputs.shape[:1]
    return network.train(), inputs, torch.randint(benchmark.classes, benchmark.labels or rows)


def loss_of(logits: torch.Tensor, labels: torch.Tensor | None) -> torch.Tensor:
    """Mean cross entropy over all rows; without labels the network has returned its loss."""
    if labels is None:
        return logits
    return functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


def torch_optimizer(rule: Optimizer, network: nn.Module, fused: bool = False) -> torch.optim.Optimizer:
    """The rule as PyTorch's optimizer; fused: its kernels for all weights at once."""
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
    if rule.kind == "sgd":
        return torch.optim.SGD(parameters, lr=rule.lr, momentum=rule.momentum, fused=fused)
    if rule.kind == "adam":
        return torch.optim.Adam(parameters, lr=rule.lr, fused=fused)
    return torch.optim.AdamW(parameters, lr=rule.lr, weight_decay=rule.weight_decay, fused=fused)


def _convolution_gradient_flops(
    result: Any, x: Any, weight: Any, _bias: Any, _stride: Any, _padding: Any, _dilation: Any, transposed: bool,
    _output_padding: Any, _groups: int, wanted: Any, **_: Any,
) -> int:  # fmt: skip
    """For each gradient of the input and the weights, the operations of the convolution (from shapes of its operands).

    PyTorch's count treats the weights of groups as dense ones.
    """
    return 2 * math.prod(x if transposed else result) * math.prod(weight[1:]) * (bool(wanted[0]) + bool(wanted[1]))


def flops_of(benchmark: Benchmark) -> int:
    """Floating-point operations of matrix products and convolutions in one measured call."""
    from torch.utils.flop_counter import FlopCounterMode

    network, inputs, labels = instantiate(benchmark)
    rules = {torch.ops.aten.convolution_backward: _convolution_gradient_flops}
    # With mkldnn an LSTM is one operator, which the counter does not know; without, it is products.
    mkldnn = not any(isinstance(module, nn.LSTM) for module in network.modules())
    with (
        torch.backends.mkldnn.flags(enabled=mkldnn),
        FlopCounterMode(display=False, custom_mapping=rules) as counter,
        torch.set_grad_enabled(benchmark.training),
    ):
        result = network(inputs)
        if benchmark.training:
            loss_of(result, labels).backward()
    return counter.get_total_flops()


def bytes_of(benchmark: Benchmark) -> int:
    """The least number of bytes of weights and optimizer state that one measured call must read or write.

    Inference reads every weight once; of an embedding only the rows in use, unless a product reads it too. Training
    reads and writes weights and optimizer state once, as an update fused into the backward pass could.
    """
    network, inputs, _ = instantiate(benchmark)
    everything = sum(parameter.nbytes for parameter in network.parameters())
    if benchmark.optimizer:
        rule = benchmark.optimizer
        states = 2 if rule.kind != "sgd" else int(rule.momentum != 0)
        trained = sum(parameter.nbytes for parameter in network.parameters() if parameter.requires_grad)
        return everything - trained + trained * 2 * (1 + states)
    in_products = {id(module.weight) for module in network.modules() if isinstance(module, nn.Linear)}
    for module in network.modules():
        if isinstance(module, nn.Embedding) and id(module.weight) not in in_products:
            rows = min(inputs.numel(), module.num_embeddings)
            everything -= module.weight.nbytes - rows * module.weight[0].nbytes
    return everything
