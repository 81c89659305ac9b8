"""Patterns of hand-written programs."""

import popart
import popxl

_LEVELS = {"no_patterns": "NoPatterns", "minimal": "Minimal", "default": "Default", "all": "All"}


def apply_patterns(graph: popxl.Graph, level: str = "default") -> None:
    """Set the patterns of the graph's Ir and rewrite the graph as they say.

    Args:
        graph: the graph; its inputs and outputs stay the same tensors.
        level: ``"no_patterns"``, ``"minimal"``, ``"default"`` or ``"all"``.

    Raises:
        KeyError: another level.
    """
    pb_ir = graph.ir._pb_ir
    pb_ir.setPatterns(popart.Patterns(getattr(popart.PatternsLevel, _LEVELS[level])))
    pb_ir.applyPreAliasPatterns(graph._pb_graph)


def apply_pre_alias_patterns(ir: popxl.Ir, level: str = "default") -> None:
    """Set the patterns of a program and rewrite its graphs as they say.

    Inputs and outputs of graphs, variables and call sites stay valid. A tensor that is the same as another one may be
    gone afterwards, as the result of a reshape to the same shape is; asking it for anything raises `popart_exception`.
    Whether the function is called or not, a session makes the same of the program.

    Args:
        ir: the program.
        level: ``"no_patterns"``, ``"minimal"``, ``"default"`` or ``"all"``.

    Raises:
        KeyError: another level.
    """
    for pb_graph in ir._pb_ir.getAllGraphs():
        apply_patterns(popxl.Graph._from_pb(pb_graph), level)
