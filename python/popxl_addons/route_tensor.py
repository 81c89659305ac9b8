"""route_tensor_into_graph: tensors of a graph made available in graphs that it calls."""

import popxl

__all__ = ["is_subgraph"]


def is_subgraph(parent: popxl.Graph, subgraph: popxl.Graph) -> bool:
    """Whether a graph is `parent` itself or is reached from it through calls.

    Args:
        parent: the graph that calls.
        subgraph: the graph that may be called.

    Returns:
        Whether it is.
    """
    if parent == subgraph:
        return True
    return any(is_subgraph(called, subgraph) for called in parent.called_graphs)
