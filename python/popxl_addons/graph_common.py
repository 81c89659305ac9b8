"""Type aliases for the several forms of graphs and gradient infos, and their conversion."""

from typing import TYPE_CHECKING, Dict, Mapping, Optional, Union

import popxl
from popxl.transforms import GradGraphInfo

if TYPE_CHECKING:
    from popxl_addons.graph import BoundGraph, GraphWithNamedArgs

GraphLike = Union[popxl.Graph, "GraphWithNamedArgs", "BoundGraph"]
GradGraphInfoLike = Union[GradGraphInfo, "GraphWithNamedArgs"]
CalledGraphsGradInfo = Mapping[popxl.Graph, GradGraphInfo]
CalledGraphsGradInfoLike = Mapping[GraphLike, GradGraphInfoLike]


def to_graph(graph: GraphLike) -> popxl.Graph:
    """Return the popxl graph of any form."""
    return graph if isinstance(graph, popxl.Graph) else graph.graph


def to_grad_graph_info(info: GradGraphInfoLike) -> GradGraphInfo:
    """Return the popxl gradient info of any form."""
    return info if isinstance(info, GradGraphInfo) else info.grad_graph_info


def to_called_graphs_grad_info(infos: Optional[CalledGraphsGradInfoLike]) -> Dict[popxl.Graph, GradGraphInfo]:
    """Convert keys and values of a mapping; None gives an empty one."""
    return {to_graph(graph): to_grad_graph_info(info) for graph, info in (infos or {}).items()}
