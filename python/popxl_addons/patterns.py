"""Patterns for programs written op by op."""

import popart
import popxl

_LEVELS = {"no_patterns": "NoPatterns", "minimal": "Minimal", "default": "Default", "all": "All"}


def apply_patterns(graph: popxl.Graph, level: str = "default") -> None:
    """Set the patterns of the graph's Ir, and apply them to the graph.

    Args:
        graph: the graph; its inputs and outputs stay the same tensors.
        level: ``"no_patterns"``, ``"minimal"``, ``"default"`` or ``"all"``.

    Raises:
        KeyError: the level is unknown.
    """
    pb_ir = graph.ir._pb_ir
    pb_ir.setPatterns(popart.Patterns(getattr(popart.PatternsLevel, _LEVELS[level])))
    pb_ir.applyPreAliasPatterns(graph._pb_graph)


def apply_pre_alias_patterns(ir: popxl.Ir, level: str = "default") -> None:
    """Set the patterns of a program, and apply them to its graphs.

    Inputs and outputs of graphs, variables and call sites stay valid. A tensor that equals another one, such as the
    result of a reshape to the same shape, may disappear; any later use of it raises `popart_exception`. A session makes
    the same program with or without this call.

    Args:
        ir: the program.
        level: ``"no_patterns"``, ``"minimal"``, ``"default"`` or ``"all"``.

    Raises:
        KeyError: the level is unknown.
    """
    for pb_graph in ir._pb_ir.getAllGraphs():
        apply_patterns(popxl.Graph._from_pb(pb_graph), level)
