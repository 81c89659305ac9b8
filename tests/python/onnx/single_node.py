"""One ONNX node as a model: its values, those of ONNX Runtime, its gradients and finite differences of its values."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnxruntime
import popart
import popart.backend

from onnx import ModelProto, TensorProto, helper, numpy_helper
from tests.python.popart.training_runs import ready, training_session

Array = np.ndarray
STEP, DIRECTIONS = 1e-5, 3
IR_VERSION = 10


@dataclass(frozen=True)
class Node:
    """One node; `None` among the inputs is one left out.

    Attributes:
        type: Operator.
        inputs: Values of the inputs.
        attributes: As in ONNX.
        outputs: A letter for each output, "-" where it is left out.
        opset: Of ai.onnx.
        domain: Of the operator.
        constant: Positions of inputs that are initializers in every model (shapes, axes).
    """

    type: str
    inputs: Sequence[Array | None]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: str = "y"
    opset: int = 22
    domain: str = ""
    constant: Sequence[int] = ()

    def names(self) -> list[str]:
        """Names of the inputs, empty where one is left out."""
        return ["" if a is None else f"in{i}" for i, a in enumerate(self.inputs)]

    def in_double(self) -> Node:
        """The same with float32 inputs as float64, but for those that are constant."""
        inputs = [
            a.astype(np.float64) if a is not None and a.dtype == np.float32 and i not in self.constant else a
            for i, a in enumerate(self.inputs)
        ]
        return Node(self.type, inputs, self.attributes, self.outputs, self.opset, self.domain, self.constant)

    def model(self, variables: bool, weights: Sequence[Array] = ()) -> ModelProto:
        """The node as a model.

        Args:
            variables: Whether inputs are initializers; else they are inputs of the graph (constant ones never are).
            weights: Factors of the outputs; with them the only output is the sum of all products, "loss".
        """
        outputs = ["" if c == "-" else c for c in self.outputs]
        nodes = [helper.make_node(self.type, self.names(), outputs, domain=self.domain, **self.attributes)]
        given = [(n, a) for n, a in zip(self.names(), self.inputs, strict=True) if a is not None]
        fixed = {self.names()[i] for i in self.constant} | ({n for n, _ in given} if variables else set())
        initializers = [numpy_helper.from_array(np.asarray(a), n) for n, a in given if n in fixed]
        inputs = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in given
            if n not in fixed
        ]
        named = [o for o in outputs if o]
        if weights:
            parts = []
            for o, w in zip(named, weights, strict=True):
                initializers.append(numpy_helper.from_array(w.reshape(-1), f"w_{o}"))
                initializers.append(numpy_helper.from_array(np.array([-1]), f"shape_{o}"))
                nodes.append(helper.make_node("Reshape", [o, f"shape_{o}"], [f"flat_{o}"]))
                nodes.append(helper.make_node("Mul", [f"flat_{o}", f"w_{o}"], [f"product_{o}"]))
                nodes.append(helper.make_node("ReduceSum", [f"product_{o}"], [f"part_{o}"], keepdims=0))
                parts.append(f"part_{o}")
            nodes.append(helper.make_node("Sum", parts, ["loss"]))
            named = ["loss"]
        results = [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in named]
        for result in results:
            result.ClearField("type")
        graph = helper.make_graph(nodes, "one_node", inputs, results, initializers)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(self.domain or "ai.graphcore", 1)]
        return helper.make_model(graph, opset_imports=opsets[: 1 + (self.domain != "")], ir_version=IR_VERSION)

    def streams(self) -> list[Array]:
        """Values of the inputs that models with variables=False take."""
        return [a for i, a in enumerate(self.inputs) if a is not None and i not in self.constant]


def values(node: Node) -> list[Array]:
    """The node's outputs as this library computes them."""
    return list(popart.backend.prepare(node.model(variables=False)).run(node.streams()))


def runtime_values(node: Node, element: int | Sequence[int] = TensorProto.FLOAT) -> list[Array]:
    """The node's outputs, of one element type or one each, as ONNX Runtime computes them."""
    model = node.model(variables=False)
    outputs = model.graph.output
    elements = [element] * len(outputs) if isinstance(element, int) else element
    for output, own in zip(outputs, elements, strict=True):  # ONNX Runtime infers shapes, but wants element types
        output.type.tensor_type.elem_type = own
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = dict(zip([i.name for i in session.get_inputs()], node.streams(), strict=True))
    return list(session.run(None, feeds))


@functools.cache
def runtime_int8_range() -> tuple[int, int]:
    """The INT8 weights that ONNX Runtime multiplies by any UINT8 numbers without overflow: all, or those of 7 bits.

    On x86 without VNNI it adds two products in 16 bits.
    """
    a, b = np.full((1, 4), 255, np.uint8), np.full((4, 16), -128, np.int8)
    (found,) = runtime_values(Node("MatMulInteger", [a, b], opset=10, constant=(1,)), TensorProto.INT32)
    return (-128, 127) if (found == 4 * 255 * -128).all() else (-64, 63)


def runtime_takes_seven_bits() -> bool:
    """Whether weights must have 7 bits for ONNX Runtime: `reduce_range` of its quantizer."""
    return runtime_int8_range() != (-128, 127)


def gradients(node: Node, wanted: Sequence[int], weights: Sequence[Array]) -> list[Array]:
    """Gradients of the sum of the outputs times `weights` for the inputs `wanted`."""
    model = node.model(variables=True, weights=weights)
    anchors = ["loss", *(f"Gradient___in{i}" for i in wanted)]
    optimizer = popart.SGD({"defaultLearningRate": (0.0, False)})
    session = ready(training_session(model.SerializeToString(), "loss", optimizer, anchors=anchors))
    arrays = session.initAnchorArrays()
    session.run(popart.PyStepIO({}, arrays))
    return [arrays[a].copy() for a in anchors[1:]]


def output_weights(node: Node, outputs: Sequence[Array]) -> list[Array]:
    """A factor for each element of the outputs; the same for the same node."""
    rng = np.random.default_rng(zlib.crc32(f"{node.type}{node.attributes}".encode()))
    return [rng.standard_normal(y.shape).astype(y.dtype) for y in outputs]


def check_gradients(node: Node, wanted: Sequence[int], tolerance: float = 1e-6) -> None:
    """Gradients in float64 agree with central differences along random directions."""
    node = node.in_double()
    rep = popart.backend.prepare(node.model(variables=False))
    weights = output_weights(node, values(node))

    def loss(moved: int, value: Array) -> float:
        streams = [
            value if i == moved else a for i, a in enumerate(node.inputs) if a is not None and i not in node.constant
        ]
        return sum(float((y * w).sum()) for y, w in zip(rep.run(streams), weights, strict=True))

    rng = np.random.default_rng(5)
    for i, gradient in zip(wanted, gradients(node, wanted, weights), strict=True):
        base = node.inputs[i]
        assert gradient.shape == base.shape
        for _ in range(DIRECTIONS):
            direction = rng.standard_normal(base.shape)
            slope = (loss(i, base + STEP * direction) - loss(i, base - STEP * direction)) / (2 * STEP)
            got = float((gradient * direction).sum())
            assert abs(got - slope) <= tolerance * max(1.0, abs(slope), float(np.abs(gradient).max(initial=0))), (
                f"{node.type}: gradient of input {i} along a direction: got {got}, finite differences {slope}"
            )
