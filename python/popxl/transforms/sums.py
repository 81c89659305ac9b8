"""decompose_sum: gradient sums as chains of additions."""

from popxl.graph import Graph


def decompose_sum(graph: Graph) -> Graph:
    """Rewrite n-ary sums of gradients: a zero accumulator to which every term is added in place.

    Args:
        graph: graph to change.

    Returns:
        The same graph.
    """
    graph._pb_graph.decomposeSums()
    return graph
