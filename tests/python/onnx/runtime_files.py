"""Small networks as files that ONNX Runtime's optimizer and quantizer saved."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from onnxruntime import quantization

import onnx

Array = np.ndarray
LEVELS = {
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}
HIDDEN, HEADS, LENGTH, WORDS = 32, 4, 12, 40


class SelfAttention(torch.nn.Module):
    """Attention of BERT (an additive mask) or GPT (causal)."""

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (torch.nn.Linear(HIDDEN, HIDDEN) for _ in range(4))
        self.causal = causal

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        def heads(y: torch.Tensor) -> torch.Tensor:
            return y.view(y.size(0), y.size(1), HEADS, HIDDEN // HEADS).permute(0, 2, 1, 3)

        q, k, v = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        scores = torch.matmul(q, k.transpose(-1, -2)) / (HIDDEN // HEADS) ** 0.5 + mask
        y = torch.matmul(torch.softmax(scores, -1), v).permute(0, 2, 1, 3).contiguous()
        return self.out(y.view(y.size(0), y.size(1), HIDDEN))


class Bert(torch.nn.Module):
    """Embeddings and two encoder blocks, as BERT has them."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.positions = torch.nn.Embedding(WORDS, HIDDEN), torch.nn.Embedding(LENGTH, HIDDEN)
        self.segments, self.norm = torch.nn.Embedding(2, HIDDEN), torch.nn.LayerNorm(HIDDEN)
        self.blocks = torch.nn.ModuleList(torch.nn.ModuleList([
            SelfAttention(False), torch.nn.LayerNorm(HIDDEN), torch.nn.Linear(HIDDEN, 64), torch.nn.Linear(64, HIDDEN),
            torch.nn.LayerNorm(HIDDEN)]) for _ in range(2))  # fmt: skip

    def forward(self, ids: torch.Tensor, seen: torch.Tensor, segments: torch.Tensor) -> torch.Tensor:
        x = self.words(ids) + self.positions(torch.arange(LENGTH)[None]) + self.segments(segments)
        x = self.norm(x)
        mask = (1.0 - seen[:, None, None, :].float()) * -10000.0
        for attention, first, wide, narrow, second in self.blocks:
            x = first(attention(x, mask) + x)
            x = second(narrow(torch.nn.functional.gelu(wide(x))) + x)
        return x


class Gpt(torch.nn.Module):
    """Two blocks with the norm in front and the tanh form of gelu."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.positions = torch.nn.Embedding(WORDS, HIDDEN), torch.nn.Embedding(LENGTH, HIDDEN)
        self.blocks = torch.nn.ModuleList(torch.nn.ModuleList([
            torch.nn.LayerNorm(HIDDEN), SelfAttention(True), torch.nn.LayerNorm(HIDDEN), torch.nn.Linear(HIDDEN, 64),
            torch.nn.Linear(64, HIDDEN)]) for _ in range(2))  # fmt: skip
        self.head = torch.nn.Linear(HIDDEN, WORDS, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids) + self.positions(torch.arange(LENGTH)[None])
        mask = torch.full((LENGTH, LENGTH), -1e9).triu(1)
        for first, attention, second, wide, narrow in self.blocks:
            x = x + attention(first(x), mask)
            x = x + narrow(torch.nn.functional.gelu(wide(second(x)), approximate="tanh"))
        return self.head(x)


class RmsBlock(torch.nn.Module):
    """The norm and the gated layer of Llama."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.rand(HIDDEN) + 0.5)
        self.gate, self.up, self.down = (torch.nn.Linear(*s, bias=False) for s in [(HIDDEN, 64)] * 2 + [(64, HIDDEN)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.scale * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))
        return x + self.down(torch.nn.functional.silu(self.gate(y)) * self.up(y))


def convolutions() -> torch.nn.Module:
    """Convolutions with activations, pools and a classifier."""
    layers = [
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(8, 16, 3, stride=2),
        torch.nn.LeakyReLU(0.1),
        torch.nn.Conv2d(16, 16, 3, padding=1, groups=16),
        torch.nn.Sigmoid(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(16, 10),
    ]
    return torch.nn.Sequential(*layers)


class Residual(torch.nn.Module):
    """A sum behind a convolution, and a concatenation."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(4, 4, 3, padding=1), torch.nn.Conv2d(4, 4, 3, padding=1)
        self.pool, self.last = torch.nn.AvgPool2d(2), torch.nn.Conv2d(8, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.second(torch.relu(self.first(x))) + x)
        return self.last(self.pool(torch.cat([y, x * torch.sigmoid(y)], 1)))


def inputs_of(name: str, seed: int = 0) -> list[Array]:
    """Inputs for the network of that name."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, WORDS, (2, LENGTH))
    if name == "bert":
        return [ids, (np.arange(LENGTH) < [[LENGTH], [7]]).astype(np.int64), rng.integers(0, 2, (2, LENGTH))]
    if name == "gpt":
        return [ids]
    shape = {"rms": (2, LENGTH, HIDDEN), "convolutions": (2, 3, 20, 20), "residual": (2, 4, 8, 8)}[name]
    return [rng.standard_normal(shape).astype(np.float32)]


NETWORKS: dict[str, Callable[[], torch.nn.Module]] = {
    "bert": Bert,
    "gpt": Gpt,
    "rms": RmsBlock,
    "convolutions": convolutions,
    "residual": Residual,
}


def exported(name: str, path: Path, opset: int = 17, dynamo: bool = False) -> Path:
    """The network as PyTorch's exporter writes it; the weights are the same each time."""
    torch.manual_seed(0)
    network = NETWORKS[name]().eval()
    given = tuple(torch.from_numpy(a) for a in inputs_of(name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(network, given, str(path), opset_version=opset, dynamo=dynamo)
    return path


def optimized(model: Path, level: str, path: Path) -> Path:
    """The model as ONNX Runtime saves it at a level of optimization."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = LEVELS[level]
    options.optimized_model_filepath = str(path)
    options.log_severity_level = 3
    onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return path


class Samples(quantization.CalibrationDataReader):
    """A few inputs, from which ranges are measured."""

    def __init__(self, model: Path, name: str) -> None:
        names = [i.name for i in onnx.load(str(model)).graph.input]
        self.samples = iter([dict(zip(names, inputs_of(name, seed), strict=True)) for seed in range(4)])

    def get_next(self) -> dict[str, Array] | None:
        return next(self.samples, None)


def operators(path: Path) -> set[str]:
    """Operators of the model, with the domain where it is another than ai.onnx."""

    def walk(nodes: Sequence[onnx.NodeProto]) -> Iterator[str]:
        for node in nodes:
            yield f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type

    return set(walk(onnx.load(str(path)).graph.node))


def run(path: Path, inputs: Sequence[Array]) -> list[Array]:
    """Outputs as ONNX Runtime computes them, from the file as it is."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(zip([i.name for i in session.get_inputs()], inputs, strict=True))))
