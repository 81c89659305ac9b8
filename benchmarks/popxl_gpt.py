"""The GPT of examples/popxl, trained with popxl_addons, and the same network in other forms.

``popxl_gpt_train``: a step of Adam. ``ours`` is the program of the example; ``onnx`` is the same network exported by
PyTorch and trained by `popart.TrainingSession`; ``torch_step`` is PyTorch with forward pass, backward pass and update
in one compiled graph. All start from the same weights.

The layers of a program may be calls of one graph, as in the example, or follow each other in one graph.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path

import implementations
import networks
import numpy as np
import popxl
import popxl_addons as addons
import torch
from popxl import ops
from popxl_addons.patterns import apply_pre_alias_patterns
from torch import nn
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "popxl"))

import gpt as example
import training

RULE = networks.Optimizer("adam", 1e-3)
BETAS, EPSILON = implementations.BETAS, implementations.EPSILON
FORMS = ("onnx", "torch_step")


@dataclass(frozen=True)
class Sizes:
    """Sizes of the network; the defaults are those of ``gpt_train_b8``."""

    layers: int = 6
    hidden: int = 384
    heads: int = 6
    length: int = 256
    vocabulary: int = 65
    batch: int = 8

    def benchmark(self) -> networks.Benchmark:
        """The network in PyTorch with its inputs and the rule of its update."""
        words = networks.tokens(self.batch, self.length, self.vocabulary)
        return networks.Benchmark(lambda: Gpt2(self), words, self.vocabulary, RULE)

    def config(self) -> example.GptConfig:
        """The same for the example."""
        return example.GptConfig(self.vocabulary, self.length, self.hidden, self.heads, self.layers)


class Projection(nn.Module):
    """``x @ weight + bias`` with the weight in GPT-2's form: ``(columns of x, columns)``."""

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, columns) * 0.02)
        self.bias = nn.Parameter(torch.zeros(columns))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply the module."""
        return x @ self.weight + self.bias


class Layer(nn.Module):
    """A layer of GPT-2: ``(N, T, hidden)`` to the same; modules have the names of the package transformers."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        hidden = sizes.hidden
        self.heads = sizes.heads
        self.ln_1, self.ln_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.attn = nn.ModuleDict({"c_attn": Projection(hidden, 3 * hidden), "c_proj": Projection(hidden, hidden)})
        self.mlp = nn.ModuleDict({"c_fc": Projection(hidden, 4 * hidden), "c_proj": Projection(4 * hidden, hidden)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply the module."""
        n, t, hidden = x.shape
        split = (n, t, self.heads, hidden // self.heads)
        q, k, v = (part.reshape(split).transpose(1, 2) for part in self.attn["c_attn"](self.ln_1(x)).chunk(3, -1))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn["c_proj"](mixed.transpose(1, 2).reshape(n, t, hidden))
        up = functional.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh")
        return x + self.mlp["c_proj"](up)


class Gpt2(nn.Module):
    """Words ``(N, T)`` to logits ``(N, T, vocabulary)``; the table of words is the projection to them."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        layers = nn.ModuleList([Layer(sizes) for _ in range(sizes.layers)])
        words, positions = nn.Embedding(sizes.vocabulary, sizes.hidden), nn.Embedding(sizes.length, sizes.hidden)
        for table in (words, positions):
            nn.init.normal_(table.weight, std=0.02)
        parts = {"wte": words, "wpe": positions, "h": layers, "ln_f": nn.LayerNorm(sizes.hidden)}
        self.transformer = nn.ModuleDict(parts)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Apply the module."""
        parts = self.transformer
        x = parts["wte"](words) + parts["wpe"].weight[: words.shape[1]]
        for layer in parts["h"]:
            x = layer(x)
        return parts["ln_f"](x) @ parts["wte"].weight.t()


class OneGraph(example.LanguageModel):
    """The network of the example with all layers in one graph."""

    def __init__(self, config: example.GptConfig) -> None:
        super().__init__(config)
        self.layers = [example.DecoderLayer(config) for _ in range(config.layers)]
        for i, layer in enumerate(self.layers):
            setattr(self.decoder, str(i), layer)

    def build(self, words: popxl.Tensor, labels: popxl.Tensor) -> popxl.Tensor:
        """(batch, sequence) integers → scalar."""
        x = self.embeddings(words)
        for layer in self.layers:
            x = layer(x, words)
        return self.head(x, self.embeddings.word.weight, labels)


class PopxlGpt(implementations.Runner):
    """A training step of the example's network in popxl.

    Attributes:
        parts_ms: Milliseconds that `open` took for each part of building.
    """

    def __init__(self, sizes: Sizes, network: type[example.LanguageModel] = example.LanguageModel) -> None:
        self.sizes, self._network = sizes, network
        peer, words, labels = networks.instantiate(sizes.benchmark())
        self.inputs = [t.numpy().astype(np.int32).reshape(words.shape) for t in (words, labels)]
        self._weights = {name: p.detach().numpy() for name, p in peer.named_parameters()}
        self.parts_ms: dict[str, float] = {}

    def open(self) -> None:
        """Build the program and compile it."""
        self.parts_ms, self._part_began = {}, time.perf_counter()
        ir = popxl.Ir()
        with ir.main_graph, popxl.in_sequence():
            loss = self._build()
            self.loss = popxl.d2h_stream((), loss.dtype)
            ops.host_store(self.loss, loss)
        apply_pre_alias_patterns(ir)
        self.session = popxl.Session(ir, "cpu")
        self._ends("prepare")
        self.session.__enter__()
        self._ends("attach")

    def _build(self) -> popxl.Tensor:
        shape = (self.sizes.batch, self.sizes.length)
        self._streams = addons.InputStreams(words=(shape, popxl.int32), labels=(shape, popxl.int32))
        words, labels = (ops.host_load(stream) for stream in self._streams)
        factories, graph = self._network(self.sizes.config()).create_graph(words, labels)
        self._variables = factories.init()
        self._ends("build")
        loss, gradients = training.loss_and_gradients(graph, self._variables, words, labels)
        self._ends("autodiff")
        numbers = {"beta1": BETAS[0], "beta2": BETAS[1], "eps": EPSILON, "weight_decay": RULE.weight_decay}
        training.Optimizer(RULE.lr, first_order_dtype=popxl.float32, **numbers).update(self._variables, gradients)
        self._ends("optimizer")
        return loss

    def _ends(self, part: str) -> None:
        now = time.perf_counter()
        self.parts_ms[part] = (now - self._part_began) * 1e3
        self._part_began = now

    def check(self, training: bool) -> np.ndarray:
        """The losses of the first steps from the initial weights of the other forms."""
        arrays = example.language_model_arrays(self._weights, self.sizes.config())
        given = {v: arrays[name] for name, v in self._variables.to_dict().items() if name in arrays}
        self.session.write_variables_data({v: np.ascontiguousarray(a, np.float32) for v, a in given.items()})
        return super().check(training)

    def call(self) -> np.ndarray:
        """Run one step; returns its loss."""
        return self.session.run(dict(zip(self._streams, self.inputs, strict=True)))[self.loss]


def runner(implementation: str, sizes: Sizes = Sizes()) -> implementations.Runner:
    """One form of the network."""
    if implementation == "onnx":
        return implementations.OursTraining(sizes.benchmark())
    return implementations.TorchStep(sizes.benchmark()) if implementation == "torch_step" else PopxlGpt(sizes)


RUNNERS = {"popxl_gpt_train": runner}
