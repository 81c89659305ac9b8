"""Type aliases for the forms of graphs and gradient infos, and conversions between them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Union

import popxl
from popxl.transforms import GradGraphInfo

if TYPE_CHECKING:
    from popxl_addons.graph import BoundGraph, GraphWithNamedArgs

GraphLike = Union[popxl.Graph, "GraphWithNamedArgs", "BoundGraph"]
GradGraphInfoLike = Union[GradGraphInfo, "GraphWithNamedArgs"]
CalledGraphsGradInfo = Mapping[popxl.Graph, GradGraphInfo]
CalledGraphsGradInfoLike = Mapping[GraphLike, GradGraphInfoLike]


def to_graph(graph: GraphLike) -> popxl.Graph:
    """Return the popxl graph of a graph in any form.

    Raises:
        TypeError: it is not a graph.
    """
    found = graph if isinstance(graph, popxl.Graph) else getattr(graph, "graph", None)
    if not isinstance(found, popxl.Graph):
        raise TypeError(
            f"Expected a popxl.Graph, a GraphWithNamedArgs or a BoundGraph: got {type(graph).__name__}. "
            "Module.create_graph returns (factories, graph)."
        )
    return found


def to_grad_graph_info(info: GradGraphInfoLike) -> GradGraphInfo:
    """Return the popxl gradient info of a gradient info in any form."""
    return info if isinstance(info, GradGraphInfo) else info.grad_graph_info


def to_called_graphs_grad_info(infos: CalledGraphsGradInfoLike | None) -> dict[popxl.Graph, GradGraphInfo]:
    """Convert the keys and values of a mapping; None becomes an empty one."""
    return {to_graph(graph): to_grad_graph_info(info) for graph, info in (infos or {}).items()}


class GradInfos(dict[popxl.Graph, GradGraphInfo]):
    """Gradient infos by graph; keys and values may have any form."""

    def __setitem__(self, graph: GraphLike, info: GradGraphInfoLike) -> None:
        super().__setitem__(to_graph(graph), to_grad_graph_info(info))

    def update(self, *infos: Any, **others: Any) -> None:
        """Add the entries of mappings, as `dict.update`."""
        for graph, info in dict(*infos, **others).items():
            self[graph] = info
