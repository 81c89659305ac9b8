"""One operator of `op_rows` in three implementations and one process, for ./dev bench --ops.

Forward: the operator on inputs; weights of convolutions, products and norms are constants. Training: a step of forward
pass, backward pass and plain SGD on all float operands, with the mean squared distance to a target as loss. All
implementations start from the same numbers; the results are compared before anything is timed.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from figures import figures, largest_difference
from implementations import THREADS, programs
from op_rows import Row
from torch import nn
from worker import measure
from written_rows import ROWS

RATE = 1e-3
TOLERANCE = 2e-4
PAUSE_S = 0.03
STEPS = 3


class Operator(nn.Module):
    """A row as a module: operands that vary are its inputs, the others its parameters."""

    def __init__(self, row: Row, size: str, training: bool) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.row, self.size = row, size
        self.function, operands = row.make(size)
        self.fixed: list[nn.Parameter | None] = []
        self.inputs = []
        weights = nn.ParameterList()
        for i, operand in enumerate(operands):
            kept = operand.is_floating_point() and (training or (row.weights and i > 0))
            self.fixed.append(nn.Parameter(operand) if kept else None)
            if kept:
                weights.append(self.fixed[-1])
            else:
                self.inputs.append(operand)
        self.weights, self.training_step = weights, training
        if training:
            with torch.no_grad():
                self.inputs.append(torch.randn(self.result(self.inputs).shape))

    def result(self, inputs: list[torch.Tensor] | tuple[torch.Tensor, ...]) -> torch.Tensor:
        """The operator's result."""
        given = iter(inputs)
        return self.function(*(weight if weight is not None else next(given) for weight in self.fixed))

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """The result, or the loss."""
        result = self.result(inputs)
        return ((result - inputs[-1]) ** 2).mean() if self.training_step else result


for _name in ("Sinh", "Cosh", "Asinh", "Acosh", "Atanh"):  # which the exporter does not have
    torch.onnx.register_custom_op_symbolic(f"aten::{_name.lower()}", lambda g, x, name=_name: g.op(name, x), 9)


def written(operator: Operator) -> tuple[bytes, dict[str, np.ndarray]]:
    """The ONNX model with the node of a row, followed by the loss in training, and its inputs."""
    from onnx import ValueInfoProto, helper, numpy_helper

    node = operator.row.node(operator.size)
    given = iter(operator.inputs)
    operands = {
        name: (weight is None, (next(given) if weight is None else weight.detach()).numpy())
        for name, weight in zip(node.inputs.split(), operator.fixed, strict=False)
    }
    feeds = {name: array for name, (varies, array) in operands.items() if varies}
    kept = {name: array for name, (varies, array) in operands.items() if not varies} | operator.row.constants
    result = "result" if operator.training_step else "output"
    nodes = [helper.make_node(node.type, node.inputs.split(), [result], domain=node.domain, **node.attributes)]
    if operator.training_step:
        feeds["target"] = next(given).numpy()
        nodes += [helper.make_node("Sub", ["result", "target"], ["difference"])]
        nodes += [helper.make_node("Mul", ["difference", "difference"], ["square"])]
        nodes += [helper.make_node("ReduceMean", ["square"], ["output"], keepdims=0)]
    graph = helper.make_graph(
        nodes,
        "rows",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in feeds.items()],
        [ValueInfoProto(name="output")],
        [numpy_helper.from_array(x, n) for n, x in kept.items()],
    )
    opsets = [helper.make_opsetid("", operator.row.opset), helper.make_opsetid("ai.graphcore", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString(), feeds


def exported(operator: Operator) -> tuple[bytes, dict[str, np.ndarray]]:
    """The ONNX model and its inputs."""
    if operator.row.node:
        return written(operator)
    import io

    file = io.BytesIO()
    names = [f"in{i}" for i in range(len(operator.inputs))]
    mode = torch.onnx.TrainingMode.TRAINING if operator.training_step else torch.onnx.TrainingMode.EVAL
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            operator, tuple(operator.inputs), file, dynamo=False, training=mode, opset_version=20,
            do_constant_folding=not operator.training_step, input_names=names, output_names=["output"],
        )  # fmt: skip
    return file.getvalue(), {name: x.numpy() for name, x in zip(names, operator.inputs, strict=True)}


def trained(operator: Operator, model: bytes) -> tuple[str, ...]:
    """The initializers of our model that are parameters of the row: those of ordinary operands must be named.

    Statistics of batch norms are left out: a training step updates them and they have no gradient.
    """
    import popart

    row, names = operator.row, [f"weights.{i}" for i in range(len(operator.weights))]
    if row.node:
        inputs = zip(row.node(operator.size).inputs.split(), operator.fixed, strict=False)
        names = [name for name, weight in inputs if weight is not None]
    there = {t.name for t in popart.trainable_tensors(model) if not t.reason.startswith("statistic")}
    return tuple(name for name in names if name in there)


def ours(operator: Operator | None, model: bytes, feeds: dict[str, np.ndarray]) -> Callable[[], np.ndarray]:
    """This repository."""
    import popart

    if operator is not None and operator.training_step:
        rule = {"kind": "sgd", "lr": RATE, "momentum": 0.0}
        session: Any = programs.training_session(programs.Program(model, "output", rule, trained(operator, model)))
        session.weightsFromHost()
    else:
        session = programs.inference_session(programs.Program(model))
    anchors = session.initAnchorArrays()
    # inputs that the exporter found unused are not in the model
    step = popart.PyStepIO({name: np.ascontiguousarray(x) for name, x in feeds.items()}, anchors)

    def call() -> np.ndarray:
        session.run(step)
        return anchors["output"]

    return call


def onnx_runtime(operator: Operator | None, model: bytes, feeds: dict[str, np.ndarray]) -> Callable[[], np.ndarray]:
    """ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, feeds)[0]


def torch_eager(operator: Operator, model: bytes, feeds: dict[str, np.ndarray]) -> Callable[[], np.ndarray]:
    """PyTorch, operator by operator."""
    torch.set_num_threads(THREADS)
    if not operator.training_step:

        def forward() -> np.ndarray:
            with torch.inference_mode():
                return operator(*operator.inputs).numpy()

        return forward
    optimizer = torch.optim.SGD(operator.parameters(), lr=RATE, fused=True)

    def step() -> np.ndarray:
        loss = operator(*operator.inputs)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach().numpy()

    return step


MAKERS = {"torch_eager": torch_eager, "onnxruntime": onnx_runtime, "ours": ours}


def implementations_of(row: Row, size: str, training: bool) -> list[str]:
    """The implementations that run a row: ONNX Runtime does not train, and does not have ai.graphcore."""
    absent = set()
    if row.model is not None or row.make(size)[0] is None:
        absent.add("torch_eager")
    if training or (row.node is not None and row.node(size).domain):
        absent.add("onnxruntime")
    return [name for name in MAKERS if name not in absent]


def compared(row: Row, size: str, training: bool, seconds: float, warm_up: float, rounds: int) -> dict[str, Any]:
    """The times of one row in one size, or the reason why an implementation has none."""
    calls: dict[str, Callable[[], np.ndarray]] = {}
    entry: dict[str, Any] = {"results": {}}
    expected: np.ndarray | None = None
    for name, make in MAKERS.items():
        if name not in implementations_of(row, size, training):
            continue
        try:
            operator = None if row.model is not None else Operator(row, size, training)
            model, feeds = row.model(size) if operator is None else exported(operator)
            call = make(operator, model, feeds)
            results = np.array([float(call()) for _ in range(STEPS)] if training else call(), dtype=np.float64)
        except Exception as problem:  # any exception of three libraries
            entry["results"][name] = {
                "error": f"{type(problem).__name__}: {str(problem).strip().splitlines()[:1]}"[:300]
            }
            continue
        expected = results if expected is None else expected
        difference = largest_difference(results, expected)
        if difference > TOLERANCE:
            entry["results"][name] = {"error": f"wrong result: differs by {difference:.2g}"}
            continue
        calls[name] = call
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            time.sleep(PAUSE_S)  # until threads of the previous one stop spinning
            measure(call, warm_up)
            times[name] += measure(call, seconds)
    entry["results"] |= {name: figures(found) for name, found in times.items()}
    return entry


def operator_times(name: str, size: str, kind: str, seconds: float, warm_up: float, rounds: int) -> dict[str, Any]:
    """The worker's answer to one request."""
    row = next(row for row in ROWS if row.name == name)
    return compared(row, size, kind == "training", seconds, warm_up, rounds)
