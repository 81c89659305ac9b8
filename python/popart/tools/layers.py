"""The layers of a model, as Keras' ``summary`` shows them: output shape, parameters and floating-point operations.

A layer is what the operators of one ONNX node became, before they are fused with others. Their operations are those of
the compiler's cost model: two for each multiplication with its addition, by default one for each element of an
operator's largest operand. Loops count their trips, and of an If all branches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import popart_core
from popart_core import DataFlow, DeviceManager, SessionOptions

from popart.session import InferenceSession
from popart.tools import files


@dataclass
class Layer:
    """What the operators of one node became.

    Attributes:
        name: Of the node; where it has none, that of its first result.
        kinds: Types of the operators, in the order in which they run.
        shape: Of the last result.
        parameters: Elements of the initializers that no layer before it reads. An initializer that the file stores once
            for several equal weights counts once.
        flops: Floating-point operations of one run.
    """

    name: str
    kinds: list[str] = field(default_factory=list)
    shape: list[int] = field(default_factory=list)
    parameters: int = 0
    flops: float = 0.0


def layers_of(model: Path, shapes: dict[str, Any]) -> list[Layer]:
    """The layers of a model for given shapes of its inputs, in the order in which they run.

    Args:
        model: The file.
        shapes: Type and shape of each input, see `files.input_shapes`.

    Returns:
        The layers.

    Raises:
        popart_exception: The model is refused.
    """
    options = SessionOptions()
    options.constantWeights = False  # weights stay tensors of their own, with their names
    options.enableOutlining = False
    infos = files.shape_infos(shapes)
    outputs = list(files.tensors_of_outputs(model, infos, options))
    session = InferenceSession(
        str(model), DataFlow(1, outputs), DeviceManager().createCpuDevice(), infos, userOptions=options,
        name="popart-inspect",
    )  # fmt: skip
    ir = session.getIr()
    sources = {t.name: t.source for t in popart_core.trainable_tensors(str(model), [], [])}
    counted: set[str] = set()
    layers: dict[str, Layer] = {}
    for op, times in _operators(ir.getMainGraph(), 1.0):
        results = [op.outTensor(i) for i in op.getOutputIndexMap()]
        if not results:
            continue
        layer = layers.setdefault(op.name() or results[0].id, Layer(op.name() or results[0].id))
        kind = _kind(op)
        if kind not in layer.kinds:
            layer.kinds.append(kind)
        layer.shape = list(results[-1].shape())
        layer.flops += 0.0 if op.getCalledGraphs() else times * op._flops()
        for tensor in op.getInputTensors():
            source = sources.get(tensor.id)
            if source is not None and source not in counted:
                counted.add(source)
                layer.parameters += tensor.nelms()
    return [layer for layer in layers.values() if set(layer.kinds) - {"HostLoad"}]


def _operators(graph: Any, times: float) -> Iterator[tuple[Any, float]]:
    """The operators of a graph and of those that it calls, in the order in which they run, with how often they run."""
    for op in graph.getOpSchedule():
        yield op, times
        trips = op.attributes().get("trip_count", 1) if op.opType() == "Loop" else 1
        for called in op.getCalledGraphs():
            yield from _operators(called, times * max(trips, 1))


def _kind(op: Any) -> str:
    """The type of an operator, whether it writes into an operand or not."""
    return re.sub(r"(Lhs|Rhs)?Inplace$", "", op.opType())


def rolled_up(layers: list[Layer], depth: int) -> list[Layer]:
    """Layers whose names begin with the same scopes as one.

    Args:
        layers: In the order in which they run.
        depth: Scopes (parts of the name between ``/``) that a row keeps, 1 or more.

    Returns:
        A row for each scope, in the order of its first layer.
    """
    rows: dict[str, Layer] = {}
    for layer in layers:
        name = popart_core._scopeOf(layer.name, depth)
        row = rows.setdefault(name, Layer(name))
        row.kinds += [kind for kind in layer.kinds if kind not in row.kinds]
        row.shape = layer.shape
        row.parameters += layer.parameters
        row.flops += layer.flops
    return list(rows.values())


def layer_rows(layers: list[Layer]) -> list[dict[str, Any]]:
    """The layers as a result has them, each with its "share" of all operations."""
    total = sum(layer.flops for layer in layers) or 1.0
    return [
        {
            "layer": layer.name,
            "operators": layer.kinds,
            "outputShape": layer.shape,
            "parameters": layer.parameters,
            "flops": layer.flops,
            "share": layer.flops / total,
        }
        for layer in layers
    ]
