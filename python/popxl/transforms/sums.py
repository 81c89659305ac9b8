"""decompose_sum: gradient sums as chains of additions."""

from popxl.graph import Graph


def decompose_sum(graph: Graph) -> Graph:
    """Rewrite n-ary sums of gradients as additions in place to an accumulator that starts at zero.

    Args:
        graph: graph to change.

    Returns:
        The same graph.

    Raises:
        TypeError: `graph` is not a graph.
        RuntimeError: a Session exists for the Ir.
    """
    if not isinstance(graph, Graph):
        raise TypeError(f"decompose_sum: graph: got {graph!r}, expected a popxl.Graph.")
    graph.ir._check_open("its ops")
    graph._pb_graph.decomposeSums()
    return graph
