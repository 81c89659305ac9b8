"""route_tensor_into_graph: makes a tensor of a graph available in graphs that it calls.

Every graph on the way gets an additional input, and every op that calls it an additional operand:

    main { x; call f(a) }   f(a) { call g(a) }   g(a) { … }      before
    main { x; call f(a, x) }   f(a, x) { call g(a, x) }   g(a, x) { … }      x routed into g
"""

from collections.abc import Iterable
from typing import Any

import popxl

__all__ = ["is_subgraph", "route_tensor_into_graph"]


def is_subgraph(parent: popxl.Graph, subgraph: popxl.Graph) -> bool:
    """Return whether a graph is `parent` itself, or is called by it directly or indirectly.

    Args:
        parent: the graph that calls.
        subgraph: the graph that may be called.

    Returns:
        True or False.
    """
    return parent == subgraph or any(is_subgraph(called, subgraph) for called in parent.called_graphs)


def called_graph_paths(parent: popxl.Graph, subgraph: popxl.Graph) -> set[tuple[str, ...]]:
    """Return the paths from a graph to one that it calls.

    Args:
        parent: first graph of the paths.
        subgraph: last graph of the paths.

    Returns:
        For each path the ids of its graphs, including those of `parent` and `subgraph`.
    """
    if parent == subgraph:
        return {(parent.id,)}
    below = (called_graph_paths(called, subgraph) for called in parent.called_graphs)
    return {(parent.id, *path) for paths in below for path in paths}


def route_tensor_into_graph(
    tensor: popxl.Tensor, graph: popxl.Graph | None = None, modified: bool | Iterable[Any] = False
) -> popxl.Tensor:
    """Make a tensor of a graph available in a graph that it calls, directly or through others.

    Args:
        tensor: the tensor.
        graph: graph that needs the tensor, default the current graph.
        modified: whether in-place changes in the graph change the tensor: a bool, or regions
            (`popart._internal.ir.view.Region`); a region with elements counts as True.

    Returns:
        The input of the graph that has the value of the tensor: an existing one, if every call passes the tensor to it,
        or a new one. If the tensor belongs to this graph, the tensor itself. Repeats pass new inputs unchanged to each
        iteration.

    Raises:
        ValueError: the graph of the tensor does not call `graph`; a graph on the way is also called by an op that
            cannot access the tensor; or it is called by an op that is neither a call nor a repeat.
        RuntimeError: a Session exists for the Ir.
    """
    graph = popxl.gcg() if graph is None else graph
    source = tensor._graph
    if source == graph:
        return tensor
    if not is_subgraph(source, graph):
        raise ValueError(
            f"route_tensor_into_graph: {tensor} is in {source!r}, which does not call {graph!r}. Expected a tensor of "
            "this graph or of one that calls it."
        )
    graph.ir._check_open("its graphs")
    by_reference = modified if isinstance(modified, bool) else any(not region.isEmpty() for region in modified)
    return connect_tensor_to_ops_on_path(tensor, graph, by_reference)


def connect_tensor_to_ops_on_path(tensor: popxl.Tensor, graph: popxl.Graph, modified: bool) -> popxl.Tensor:
    """Connect all ops on all paths from the graph of a tensor to `graph`; see `route_tensor_into_graph`."""
    source, ir = tensor._graph, graph.ir
    graphs = [ir._graph(g) for g in ir._pb_ir.getAllGraphs()]
    found: dict[popxl.Graph, popxl.Tensor] = {source: tensor}

    def sites(called: popxl.Graph) -> list[tuple[popxl.Graph, Any]]:
        """Return the ops that call a graph, each with the graph that contains it."""
        result = [
            (caller, op)
            for caller in graphs
            for op in caller._pb_graph.getOps()
            if any(g.id == called.id for g in op.getCalledGraphs())
        ]
        for caller, op in result:
            if op.opType() not in _CONNECT or not is_subgraph(source, caller):
                raise ValueError(
                    f"route_tensor_into_graph: {called!r} is called by {op.debugName()} in {caller!r}: expected calls "
                    f"and repeats in graphs that {source!r} calls."
                )
        return result

    def inside(called: popxl.Graph) -> popxl.Tensor:
        if called not in found:
            given = [(op, inside(caller)) for caller, op in sites(called)]
            index = _shared_input(given, modified)
            if index is None:
                found[called] = _add_input(called, tensor, modified)
                for op, outer in given:
                    _CONNECT[op.opType()](op, outer, len(called.inputs) - 1, modified)
            else:
                found[called] = called.inputs[index]
        return found[called]

    return inside(graph)


def connect_call_op(op: Any, tensor: popxl.Tensor, index: int, modified: bool) -> None:
    """Connect a tensor to an input of a call.

    Args:
        op: the call.
        tensor: tensor of its graph.
        index: number of the called graph's input.
        modified: the called graph changes the tensor.
    """
    op.connectInTensor(index, tensor.id)
    if modified:
        op.addModified(index)


def connect_loop_op(op: Any, tensor: popxl.Tensor, index: int, modified: bool) -> None:
    """Connect a tensor to an input of a repeat, after those that it carries; see `connect_call_op`."""
    connect_call_op(op, tensor, index, modified)


_CONNECT = {"Call": connect_call_op, "Loop": connect_loop_op}


def _shared_input(given: list[tuple[Any, popxl.Tensor]], modified: bool) -> int | None:
    """Return the existing input that gets the tensor from each op, and is the same in each iteration."""
    shared: set[int] | None = None
    for op, outer in given:
        first = op.getNumExplicitInputs() if op.opType() == "Loop" else 0
        known = set(op.getModified())
        own = {
            i for i, t in op.getInputIndexMap().items() if t == outer.id and i >= first and (not modified or i in known)
        }
        shared = own if shared is None else shared & own
    return min(shared) if shared else None


def _add_input(graph: popxl.Graph, tensor: popxl.Tensor, by_reference: bool) -> popxl.Tensor:
    pb = graph._pb_graph
    shape, meta_shape = list(tensor.shape), list(tensor.meta_shape)
    made = pb.addInput(pb.uniqueId(tensor.name), tensor.dtype._core, shape, meta_shape, by_reference)
    wrapped = graph.ir._tensor(graph, made)
    if by_reference:
        graph._by_ref_inputs.add(wrapped)
    return wrapped
