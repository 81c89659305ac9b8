"""A program with a loop, and the same work without it; both are ours, so it needs no peer.

``gpt_repeat_train_b8``: the character model of ``gpt_train_b8`` in popxl, trained by SGD. ``ours`` runs one block six
times with `popxl.ops.repeat`: its weights are slices of stacked variables, and automatic differentiation handles
the loop. ``unrolled`` has six blocks with separate variables.

`inline_compile_us` measures the time to compile a graph that is called many times.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import implementations
import numpy as np
import popxl
import popxl.ops as ops
from popxl.transforms import autodiff

SEED, RATE = 7, 0.05


@dataclass(frozen=True)
class Gpt:
    """Sizes of the character model; the defaults are those of ``gpt_train_b8``."""

    layers: int = 6
    width: int = 384
    heads: int = 6
    context: int = 256
    vocabulary: int = 65
    batch: int = 8

    def block_shapes(self) -> dict[str, tuple[int, ...]]:
        """Weights of one block by name."""
        square, bias = (self.width, self.width), (self.width,)
        products = {f"{name}_{part}": shape for name in "qkvo" for part, shape in (("w", square), ("b", bias))}
        norms = {f"norm{i}_{part}": bias for i in (1, 2) for part in "wb"}
        inner = 4 * self.width
        up_down = {"up_w": (self.width, inner), "up_b": (inner,), "down_w": (inner, self.width), "down_b": bias}
        return products | norms | up_down

    def outer_shapes(self) -> dict[str, tuple[int, ...]]:
        """Weights around the blocks by name."""
        return {
            "tokens": (self.vocabulary, self.width),
            "positions": (self.context, self.width),
            "norm_w": (self.width,),
            "norm_b": (self.width,),
            "head_w": (self.width, self.vocabulary),
            "head_b": (self.vocabulary,),
        }

    def values(self) -> dict[str, np.ndarray]:
        """First values of all weights; those of blocks have one row per block."""
        rng = np.random.default_rng(SEED)

        def first(name: str, shape: tuple[int, ...]) -> np.ndarray:
            if len(shape) - (name in self.block_shapes()) == 1:
                return np.full(shape, float("norm" in name and name.endswith("_w")), np.float32)
            return rng.normal(scale=0.02, size=shape).astype(np.float32)

        blocks = {name: first(name, (self.layers, *shape)) for name, shape in self.block_shapes().items()}
        return blocks | {name: first(name, shape) for name, shape in self.outer_shapes().items()}


Weights = dict[str, popxl.Tensor]


def block(gpt: Gpt, x: popxl.Tensor, mask: popxl.Tensor, w: Weights) -> popxl.Tensor:
    """One transformer block with layer norms before its branches; x: ``(batch · context, width)``."""
    split = (gpt.batch, gpt.context, gpt.heads, gpt.width // gpt.heads)

    def heads(t: popxl.Tensor, name: str, order: tuple[int, ...]) -> popxl.Tensor:
        return ops.transpose(ops.reshape(t @ w[f"{name}_w"] + w[f"{name}_b"], split), order)

    h = ops.layer_norm(x, w["norm1_w"], w["norm1_b"])
    q, k, v = heads(h, "q", (0, 2, 1, 3)), heads(h, "k", (0, 2, 3, 1)), heads(h, "v", (0, 2, 1, 3))
    scores = (q @ k) * float((gpt.width // gpt.heads) ** -0.5) + mask
    mixed = ops.transpose(ops.softmax(scores, -1) @ v, (0, 2, 1, 3))
    x = x + (ops.reshape(mixed, x.shape) @ w["o_w"] + w["o_b"])
    h = ops.layer_norm(x, w["norm2_w"], w["norm2_b"])
    return x + (ops.geluerf(h @ w["up_w"] + w["up_b"]) @ w["down_w"] + w["down_b"])


def repeated_blocks(gpt: Gpt, x: popxl.Tensor, mask: popxl.Tensor, stacked: Weights) -> popxl.Tensor:
    """The blocks as one loop; weights: ``(layers, …)``."""
    names = list(stacked)

    def body(x: popxl.Tensor, layer: popxl.Tensor, mask: popxl.Tensor, *stacks: popxl.Tensor) -> tuple:
        def own(stack: popxl.Tensor) -> popxl.Tensor:
            return ops.reshape(ops.dynamic_slice(stack, layer, [0], [1], no_overlap=True), stack.shape[1:])

        w = {name: own(stack) for name, stack in zip(names, stacks, strict=True)}
        return block(gpt, x, mask, w), layer + popxl.constant(np.ones(1, np.uint32))

    layer = popxl.constant(np.zeros(1, np.uint32))
    graph = popxl.gcg().ir.create_graph(body, x, layer, mask, *stacked.values())
    return ops.repeat(graph, gpt.layers, x, layer, mask, *stacked.values())[0]


def loss_of(gpt: Gpt, repeated: bool, tokens: popxl.Tensor, labels: popxl.Tensor, w: Weights) -> popxl.Tensor:
    """Mean cross entropy of the next characters."""
    blocks = list(gpt.block_shapes())
    future = np.triu(np.full((gpt.context, gpt.context), -1e9, np.float32), 1)
    mask = popxl.constant(future, name="mask")
    rows = (gpt.batch * gpt.context, gpt.width)
    x = ops.reshape(ops.gather(w["tokens"], tokens, axis=0) + w["positions"], rows)
    if repeated:
        x = repeated_blocks(gpt, x, mask, {name: w[name] for name in blocks})
    else:
        for i in range(gpt.layers):
            x = block(gpt, x, mask, {name: w[f"{name}{i}"] for name in blocks})
    x = ops.layer_norm(x, w["norm_w"], w["norm_b"])
    return ops.nll_loss(ops.softmax(x @ w["head_w"] + w["head_b"], -1), labels, reduction="mean")


class GptTraining(implementations.Runner):
    """A training step of the character model in popxl."""

    def __init__(self, implementation: str, gpt: Gpt = Gpt()) -> None:
        self.gpt, self.repeated = gpt, implementation == "ours"
        rng = np.random.default_rng(SEED)
        self.inputs = rng.integers(0, gpt.vocabulary, (2, gpt.batch, gpt.context)).astype(np.int32)

    def _variables(self) -> Weights:
        values = self.gpt.values()
        if not self.repeated:
            for name in self.gpt.block_shapes():
                values |= {f"{name}{i}": row for i, row in enumerate(values.pop(name))}
        return {name: popxl.variable(value, name=name) for name, value in values.items()}

    def open(self) -> None:
        """Build the program and compile it."""
        ir = popxl.Ir()
        with ir.main_graph, popxl.in_sequence():
            labels = (self.gpt.batch * self.gpt.context,)
            self.streams = [
                popxl.h2d_stream(self.inputs[0].shape, popxl.int32, "tokens"),
                popxl.h2d_stream(labels, popxl.int32, "labels"),
            ]
            loaded = [ops.host_load(stream) for stream in self.streams]
            weights = self._variables()
            names = list(weights)

            def forward(tokens: popxl.Tensor, labels: popxl.Tensor, *w: popxl.Tensor) -> popxl.Tensor:
                return loss_of(self.gpt, self.repeated, tokens, labels, dict(zip(names, w, strict=True)))

            graph = ir.create_graph(forward, *loaded, *weights.values())
            gradient = autodiff(graph, grads_required=graph.inputs[2:])
            site = ops.call_with_info(graph, *loaded, *weights.values())
            loss = site.outputs[0]  # the other outputs are read by the gradient graph
            start = popxl.constant(np.float32(1))
            grad_site = ops.call_with_info(gradient.graph, start, inputs_dict=gradient.inputs_dict(site))
            for weight, grad in gradient.fwd_parent_ins_to_grad_parent_outs(site, grad_site).items():
                ops.scaled_add_(weight, grad, b=-RATE)
            self.loss = popxl.d2h_stream((), popxl.float32, "loss")
            ops.host_store(self.loss, loss)
        self.session = popxl.Session(ir, "cpu")
        self.session.__enter__()
        self.values = {stream: v.reshape(stream.shape) for stream, v in zip(self.streams, self.inputs, strict=True)}

    def call(self) -> np.ndarray:
        """Run one step; returns its loss."""
        return self.session.run(self.values)[self.loss]


RUNNERS = {"gpt_repeat_train_b8": GptTraining}


def inline_compile_us(calls: int) -> float:
    """Microseconds of compiling a chain of calls of one graph, by operator that results from inlining it."""

    def body(x: popxl.Tensor, w: popxl.Tensor, b: popxl.Tensor) -> popxl.Tensor:
        h = ops.layer_norm(x, b, b)
        h = ops.gelu(h @ w + b)
        return x + ops.tanh(h @ w + b)

    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        source = popxl.h2d_stream((16, 32), popxl.float32)
        x = ops.host_load(source)
        w, b = popxl.variable(np.ones((32, 32), np.float32)), popxl.variable(np.ones(32, np.float32))
        graph = ir.create_graph(body, x, w, b)
        for _ in range(calls):
            (x,) = ops.call(graph, x, w, b)
        ops.host_store(popxl.d2h_stream(x.shape, x.dtype), x)
    start = time.perf_counter()
    popxl.Session(ir, "cpu")
    elapsed = time.perf_counter() - start
    return elapsed * 1e6 / (calls * len(graph._pb_graph.getOps()))
