"""The core's classes under the names that published programs import as ``popart._internal.ir``.

The graphs, ops and tensors are those of the program that a session compiles, not copies.
"""

from enum import IntEnum

from popart_core import *  # noqa: F403
from popart_core._ir import BwdGraphInfo, Graph, Ir, Op, Settings, Tensor

from popart._internal.ir import op, patterns, programs, view
from popart._internal.ir.members import Consumers, TopoCons


class TensorType(IntEnum):
    """Role of a tensor."""

    ActGrad = 0
    Const = 1
    Stream = 2
    Unknown = 3
    Variable = 4
    N = 5


class ExpectedConnectionType(IntEnum):
    """What an input or output of a gradient graph is."""

    Fwd = 0
    FwdGrad = 1


class ExpectedConnection:
    """Links an input or output of a gradient graph to a tensor of the forward graph: the tensor or its gradient.

    Args:
        fwdId: id of the tensor.
        type: whether it is the tensor or its gradient.
    """

    def __init__(self, fwdId: str, type: ExpectedConnectionType) -> None:
        self.fwdId = fwdId
        self.type = ExpectedConnectionType(type)


__all__ = [
    "BwdGraphInfo",
    "Consumers",
    "ExpectedConnection",
    "ExpectedConnectionType",
    "Graph",
    "Ir",
    "Op",
    "Settings",
    "Tensor",
    "TensorType",
    "TopoCons",
    "op",
    "patterns",
    "programs",
    "view",
]
