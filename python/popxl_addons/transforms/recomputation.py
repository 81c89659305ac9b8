"""recompute_graph: gradient graphs that recompute the activations they read."""

import popxl
from popxl import ops
from popxl.transforms.autodiff import ExpectedConnection, ExpectedConnectionType, GradGraphInfo

from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.named_tensors import TensorMap
from popxl_addons.utils import suffix_graph_name


def add_recompute_inputs(grad_info: GradGraphInfo) -> tuple[TensorMap, TensorMap, list[ExpectedConnection]]:
    """Add inputs to the current graph for calls of a forward graph and its gradient graph.

    The inputs are, in this order: gradients and forward inputs that the gradient graph reads, in its own order; the
    other forward inputs by name; inputs of the gradient graph that are unrelated to the forward graph, by name.

    Args:
        grad_info: what `autodiff` returned.

    Returns:
        Forward graph input → new input, gradient graph input → new input, and the meaning of each new input, except
        those of the last kind.

    Raises:
        RuntimeError: there is no current graph.
    """
    forward, gradient = grad_info.forward_graph, grad_info.graph
    fwd_input_map: dict[popxl.Tensor, popxl.Tensor] = {}
    grad_input_map: dict[popxl.Tensor, popxl.Tensor] = {}
    expected: list[ExpectedConnection] = []

    def add(t: popxl.Tensor, connection: ExpectedConnection) -> popxl.Tensor:
        expected.append(connection)
        return popxl.graph_input(t.shape, t.dtype, t.name)

    known = list(zip(gradient.inputs, grad_info.expected_inputs))
    for grad_input, connection in known:
        if connection.connection_type is ExpectedConnectionType.FwdGrad:
            grad_input_map[grad_input] = add(grad_input, connection)
        elif connection.fwd_tensor in forward.inputs:
            fwd_input_map[connection.fwd_tensor] = grad_input_map[grad_input] = add(connection.fwd_tensor, connection)
    for t in sorted(forward.inputs, key=lambda t: t.name):
        if t not in fwd_input_map:
            fwd_input_map[t] = add(t, ExpectedConnection._make(t, ExpectedConnectionType.Fwd))
    for t in sorted(gradient.inputs[len(known) :], key=lambda t: t.name):
        by_ref = t in gradient._by_ref_inputs
        grad_input_map[t] = popxl.graph_input(t.shape, t.dtype, t.name, by_ref=by_ref, meta_shape=t.meta_shape)
    return fwd_input_map, grad_input_map, expected


def recompute_graph(grad_graph: GraphWithNamedArgs) -> GraphWithNamedArgs:
    """Make a graph that calls the forward graph and then its gradient graph.

    Its calls return the gradients without the activations of the first forward call, which need not be kept.

    Args:
        grad_graph: the gradient graph, with its `grad_graph_info`.

    Returns:
        The graph. Its outputs are those of `grad_graph`; its named inputs are those that it shares with `grad_graph`;
        its `grad_graph_info` describes its other inputs.

    Raises:
        AttributeError: `grad_graph` is not a gradient graph.
    """
    info = grad_graph.grad_graph_info
    graph = grad_graph.graph.ir.create_empty_graph(suffix_graph_name(grad_graph.graph.name, "recomp"))
    with graph, popxl.in_sequence(False):
        fwd_input_map, grad_input_map, expected = add_recompute_inputs(info)
        forward_call = ops.call_with_info(info.forward_graph, inputs_dict=fwd_input_map)
        forward_call._mark_recomputed()
        given = {
            grad_input: forward_call.graph_to_parent(connection.fwd_tensor)
            for grad_input, connection in zip(info.graph.inputs, info.expected_inputs)
            if grad_input not in grad_input_map
        }
        for t in ops.call_with_info(info.graph, inputs_dict={**given, **grad_input_map}).outputs:
            popxl.graph_output(t)
    return GraphWithNamedArgs(
        graph,
        grad_graph.args.map(lambda t: grad_input_map.get(t, t)),
        GradGraphInfo._make(graph, info.forward_graph, expected, list(info.expected_outputs)),
    )
