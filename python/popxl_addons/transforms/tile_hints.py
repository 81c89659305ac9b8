"""Hints for planning tile memory on IPUs. They are stored with the ops, and change neither results nor speed."""

from collections.abc import Iterable, Iterator

import popxl

_PLANNED = ("MatMul", "Conv", "ConvTranspose", "MultiConv", "LSTM", "GRU")
_INDEXED = ("Gather", "PopartTiedGather", "Scatter", "ScatterReduce")


def _called(graph: popxl.Graph) -> Iterator[popxl.Graph]:
    seen, stack = {graph}, [graph]
    while stack:
        current = stack.pop()
        yield current
        for called in current.called_graphs:
            if called not in seen:
                seen.add(called)
                stack.append(called)


def _graphs(ir: popxl.Ir) -> list[popxl.Graph]:
    return [ir._graph(g) for g in ir._pb_ir.getAllGraphs()]


def _record(graphs: Iterable[popxl.Graph], proportions: Iterable[float]) -> None:
    table = dict(enumerate(proportions))
    for graph in graphs:
        for op in graph._pb_graph.getOps():
            if op.opType() in _PLANNED + _INDEXED:
                ipu = op.getVirtualGraphId() if op.hasVirtualGraphId() else 0
                value = table[ipu if ipu is not None and ipu >= 0 else 0]
                if "Conv" in op.opType():
                    options = op.getConvOptions()
                    options.availableMemoryProportions = [value]
                    op.setConvOptions(options)
                else:
                    op.setAvailableMemoryProportion(value)


def set_available_memory_proportion_by_ipu(ir: popxl.Ir, proportions: Iterable[float]) -> None:
    """Record the share of tile memory that ops of each IPU may use.

    Args:
        ir: the program.
        proportions: share of each IPU.

    Raises:
        KeyError: an op is on an IPU without a share.
    """
    _record(_graphs(ir), proportions)


def set_graph_available_memory_proportion_by_ipu(graph: popxl.Graph, proportions: Iterable[float]) -> None:
    """As `set_available_memory_proportion_by_ipu`, for a graph and the graphs that it calls.

    Args:
        graph: the graph.
        proportions: share of each IPU.

    Raises:
        KeyError: an op is on an IPU without a share.
    """
    _record(_called(graph), proportions)


def _set_fc_pass(ir: popxl.Ir, on: bool) -> None:
    for graph in _graphs(ir):
        for op in graph._pb_graph.getOps():
            if op.opType() == "MatMul":
                op.setUseFullyConnectedPass(on)


def enable_fc_pass(ir: popxl.Ir) -> None:
    """Record for all matrix products of a program that a layer's training passes may be planned together.

    Args:
        ir: the program.
    """
    _set_fc_pass(ir, True)


def disable_fc_pass(ir: popxl.Ir) -> None:
    """Record for all matrix products of a program that a layer's training passes are planned separately.

    Args:
        ir: the program.
    """
    _set_fc_pass(ir, False)
