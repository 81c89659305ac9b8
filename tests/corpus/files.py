"""One file of the corpus: how a current tool makes it, and what is expected of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from torch import nn

import onnx
from onnx import ModelProto, TensorProto, numpy_helper

Array = np.ndarray
Feeds = dict[str, Array]

# Layers sum in another order than ONNX Runtime; relative to the largest value of an output, because single values are
# sums that cancel.
ORDER_OF_SUMMATION = 2e-5
# Quantised networks round what other sums gave: a value near a half of a step goes either way, and all later layers
# see it.
STEPS_OF_QUANTISATION = 0.05
# Values of 16 bits keep 8 (bfloat16) or 11 (float16) bits, and ONNX Runtime rounds at other places.
ROUNDING_16_BITS = 0.02


@dataclass
class Made:
    """A file that was made, and what it is compared with.

    Attributes:
        model: Bytes of the model.
        draw: Draws values for its inputs.
        network: The module in evaluation mode whose outputs the file computes; its parameters are what trains. None:
            the file comes from no module.
        path: The file on disk, if it has external data.
        as_it_is: ONNX Runtime computes the file without rewriting it: otherwise it refuses some of its own files, and
            computes others with another rounding.
        reference: A model of the same meaning that ONNX Runtime computes, where it does not take the file.
    """

    model: bytes
    draw: Callable[[], Feeds]
    network: nn.Module | None = None
    path: Path | None = None
    as_it_is: bool = False
    reference: bytes | None = None

    @property
    def source(self) -> bytes | str:
        """The file as readers get it: its name if it has external data, otherwise its bytes."""
        return self.model if self.path is None else str(self.path)


@dataclass(frozen=True)
class File:
    """One row of the corpus.

    Attributes:
        name: Of the file; no two rows have the same.
        tool: What made it: one row of the report.
        make: Makes it in an empty folder.
        near: Bound of the difference from ONNX Runtime, relative to the largest value of each output.
        trains: Whether it is a network of floats that trains: three steps are compared with the module.
        frozen: Names or patterns of buffers that nothing in the file tells from weights; the training must name them.
        fixed: Parameters of the module that the file holds as settings of operators; they do not train.
        lost: Names or patterns of parameters that the file holds as functions of themselves alone: they do not train,
            and a warning names each of them or what is stored of it.
        slow: It takes more than a second or two and is left to `-m slow`.
    """

    name: str
    tool: str
    make: Callable[[Path], Made]
    near: float = ORDER_OF_SUMMATION
    trains: bool = False
    frozen: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    slow: bool = False


@dataclass
class Stored:
    """The floating-point initializers of a model, those of bodies included."""

    values: dict[str, Array] = field(default_factory=dict)

    @classmethod
    def of(cls, source: bytes | str) -> "Stored":
        model = onnx.load(source) if isinstance(source, str) else onnx.load_from_string(source)
        stored = cls()
        stored._add(model.graph)
        return stored

    def _add(self, graph: onnx.GraphProto) -> None:
        for tensor in graph.initializer:
            if tensor.data_type in (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE):
                self.values[tensor.name] = numpy_helper.to_array(tensor).astype(np.float64)
        for node in graph.node:
            if (
                node.op_type == "Identity" and node.input[0] in self.values
            ):  # of two parameters with equal values one is
                self.values[node.output[0]] = self.values[node.input[0]]  # stored, and the other one is its Identity
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    self._add(attribute.g)


def graph_inputs(model: ModelProto | bytes) -> list[str]:
    """Names of the inputs that are no initializers."""
    if isinstance(model, bytes):
        model = onnx.load_from_string(model)
    held = {tensor.name for tensor in model.graph.initializer}
    return [value.name for value in model.graph.input if value.name not in held]
