"""repeat_graph: runs all ops of a graph several times."""

import popxl
from popxl import ops
from popxl._fragments import FROM_HOST, TO_HOST
from popxl._graph_copy import GraphCopy


def repeat_graph(graph: popxl.Graph, repeat_count: int) -> popxl.Graph:
    """Move all ops of a graph into a new graph, and run it by one repeat.

    Variables stay in the graph and are passed by reference. Host loads and stores run once in every iteration, so the
    Ir's num_host_transfers has to count them. Loads and stores of weight fragments (`seed_variable`) are not moved.
    Outputs of the graph are those of the last iteration.

    Args:
        graph: the graph; it may be the main graph.
        repeat_count: number of iterations; 1 or less changes nothing.

    Returns:
        The new graph, or `graph`.
    """
    if repeat_count <= 1:
        return graph
    body = GraphCopy(graph, "repeat_graph")
    moved = [op for op in graph._pb_graph.getOps() if op.executionContext() not in (FROM_HOST, TO_HOST)]
    ids = [op.id for op in moved]
    made = {graph.get_tensor(i) for op in moved for i in op.getOutputIds()}
    outputs = graph.outputs
    carried = [t for t in dict.fromkeys(outputs) if t in made]
    specs = [t.spec for t in carried]
    for spec in specs:
        body.add_input(spec, "before_repeat")
    for op in moved:
        body.copy(op)
    for t in carried:
        body.mark_output(t)
    body.finish(len(carried))
    for _ in outputs:
        graph._pb_graph.removeOutput(0)
    graph._erase_ops(ids)
    with graph:
        before = [ops.init(spec.shape, spec.dtype, "before_repeat") for spec in specs]
        results = dict(zip(carried, ops.repeat(body.graph, repeat_count, *before, *body.inputs)))
        for t in outputs:
            popxl.graph_output(results.get(t, t))
    return body.graph
