"""The programs of the process by number: from the core's objects to the Python objects of programs."""

from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from popxl.graph import Graph
    from popxl.ir import Ir
    from popxl.tensor import Tensor

PROGRAMS: "WeakValueDictionary[int, Ir]" = WeakValueDictionary()


def program(number: int) -> "Ir":
    """Return the Ir with this number.

    Raises:
        RuntimeError: it no longer exists.
    """
    ir = PROGRAMS.get(number)
    if ir is None:
        raise RuntimeError(f"The Ir with id {number} no longer exists. Keep a reference to it.")
    return ir


def graph_of(pb_graph: Any) -> "Graph":
    """Return the wrapper of a graph of the core."""
    return program(pb_graph.getIrId())._graph(pb_graph)


def tensor_of(pb_tensor: Any) -> "Tensor":
    """Return the wrapper of a tensor of the core."""
    graph = graph_of(pb_tensor.getGraph())
    return graph.ir._tensor(graph, pb_tensor)
