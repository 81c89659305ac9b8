"""How long popxl takes to build programs, in this process; each program is run and compared before its time counts.

`operators` and `modules` return microseconds of Python for each operator (modules also for each variable).
`transformer` returns milliseconds for each part of a training program: its graphs and variables, automatic
differentiation, the optimizer, and the session.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import networks
import numpy as np
import popxl
import popxl.ops as ops
import popxl_addons as addons
import popxl_gpt
from figures import largest_difference
from popxl_addons.layers import LayerNorm, Linear

TOLERANCE = 1e-3
ROWS, WIDTH = 4, 8
# GPT-2 small except for its vocabulary.
TWELVE_LAYERS = popxl_gpt.Sizes(layers=12, hidden=768, heads=12, length=128, vocabulary=512, batch=1)
NETWORKS = {"calls": popxl_gpt.example.LanguageModel, "one_graph": popxl_gpt.OneGraph}


class WrongResult(Exception):
    """The built program computes a wrong result."""


def compare(what: str, result: np.ndarray, expected: np.ndarray) -> None:
    """Check a result.

    Raises:
        WrongResult: it differs by more than `TOLERANCE` of the largest value.
    """
    difference = largest_difference(result.reshape(-1).tolist(), expected.reshape(-1).tolist())
    if not difference <= TOLERANCE:
        raise WrongResult(f"{what}: wrong result: differs by {difference:.2g}, allowed {TOLERANCE:.2g}")


def operators(count: int, ordered: bool) -> float:
    """Microseconds for each of about `count` element-wise operators and products; ordered: in sequence."""
    rng = np.random.default_rng(7)
    half = (np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0] / 2).astype(np.float32)
    first = rng.uniform(-1, 1, (ROWS, WIDTH)).astype(np.float32)
    ir, made = popxl.Ir(), 0
    with ir.main_graph, popxl.in_sequence(True if ordered else "pass"):
        x = scale = popxl.variable(first)
        w = popxl.variable(half)
        start = time.process_time()
        for _ in range(0, count, 5):
            x = ops.tanh(x @ w + scale) * scale - scale
            made += 5
        elapsed = time.process_time() - start
        result = popxl.d2h_stream(x.shape, x.dtype)
        ops.host_store(result, x)
    with popxl.Session(ir, "cpu") as session:
        built = session.run()[result]
    expected = first
    for _ in range(0, count, 5):
        expected = np.tanh(expected @ half + first) * first - first
    compare("operators", built, expected)
    return elapsed * 1e6 / made


class Block(addons.Module):
    """A layer norm, then a linear layer, and a residual: ``(rows, width)`` to the same shape."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = LayerNorm(), Linear(WIDTH)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Make the layer."""
        return x + ops.tanh(self.linear(self.norm(x)))


class Blocks(addons.Module):
    """Blocks one after the other, with their operators in one graph."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.blocks = addons.Module.from_list([Block() for _ in range(count)])
        self.count = count

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Make the layers."""
        for i in range(self.count):
            x = self.blocks[i](x)
        return x


def modules(count: int) -> tuple[float, float]:
    """Microseconds for each of about `count` operators of a graph of modules, and for each variable of these."""
    first = np.random.default_rng(7).uniform(-1, 1, (ROWS, WIDTH)).astype(np.float32)
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x = popxl.variable(first)
        start = time.process_time()
        factories, graph = Blocks(-(-count // 5)).create_graph(x)
        built = time.process_time()
        variables = factories.init()
        finished = time.process_time()
        (y,) = graph.bind(variables).call(x)
        result = popxl.d2h_stream(y.shape, y.dtype)
        ops.host_store(result, y)
    with popxl.Session(ir, "cpu") as session:
        found = session.run()[result]
        arrays = session.get_tensors_data(variables.tensors)
    expected = first
    for i in range(-(-count // 5)):
        block = variables.blocks[i]
        norm, linear = ({n: arrays[v] for n, v in part.to_dict().items()} for part in (block.norm, block.linear))
        centred = expected - expected.mean(1, keepdims=True)
        normed = centred / np.sqrt(expected.var(1, keepdims=True) + 1e-5) * norm["weight"] + norm["bias"]
        expected = expected + np.tanh(normed @ linear["weight"] + linear["bias"])
    compare("modules", found, expected)
    return (built - start) * 1e6 / len(graph.graph._pb_graph.getOps()), (finished - built) * 1e6 / len(arrays)


OPERATORS: dict[str, Callable[[int], float]] = {
    "operators": lambda count: operators(count, ordered=False),
    "in_sequence": lambda count: operators(count, ordered=True),
    "modules": lambda count: modules(count)[0],
    "variables": lambda count: modules(count)[1],
}


def popxl_build(kind: str, count: str, repetitions: str) -> dict[str, Any]:
    """Microseconds by operator, or by variable, of building a program of `count` operators."""
    times = []
    for _ in range(int(repetitions)):
        gc.collect()  # destroying the previous program must not be timed here
        times.append(OPERATORS[kind](int(count)))
    return {"microseconds": times}


def popxl_transformer12(
    kind: str, repetitions: str, sizes: popxl_gpt.Sizes = TWELVE_LAYERS
) -> dict[str, dict[str, list[float]]]:
    """Milliseconds of each part of building and compiling a training program, in fresh programs.

    ``total`` is their sum; ``attach`` comes after it: memory, threads and the transfer of the first weights.
    """
    network, words, labels = networks.instantiate(sizes.benchmark())
    times: dict[str, list[float]] = {}
    for repetition in range(int(repetitions)):
        runner = popxl_gpt.PopxlGpt(sizes, NETWORKS[kind])
        gc.collect()
        runner.open()
        if not repetition:
            expected = networks.loss_of(network(words), labels).detach().numpy()
            compare("first loss", runner.check(training=True)[:1], expected)
        runner.session.__exit__(None, None, None)
        attach = runner.parts_ms.pop("attach")
        for part, elapsed in {**runner.parts_ms, "total": sum(runner.parts_ms.values()), "attach": attach}.items():
            times.setdefault(part, []).append(elapsed)
    return {"parts_ms": times}
