"""autodiff: gradient graphs of graphs with named arguments."""

from collections.abc import Iterable

import popxl
from popxl import ops
from popxl.transforms import autodiff as popxl_autodiff
from popxl.transforms.autodiff import ExpectedConnection, GradGraphInfo

from popxl_addons.dot_tree import sanitise
from popxl_addons.first_values import Filled
from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.graph_common import CalledGraphsGradInfoLike, to_called_graphs_grad_info, to_graph
from popxl_addons.named_replica_grouping import NamedReplicaGrouping
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.patterns import apply_patterns
from popxl_addons.variable_factory import NamedVariableFactories, VariableFactory, add_variable_input


def autodiff(
    graph: GraphWithNamedArgs | popxl.Graph,
    grads_provided: Iterable[popxl.Tensor] | None = None,
    grads_required: Iterable[popxl.Tensor] | None = None,
    called_graphs_grad_info: CalledGraphsGradInfoLike | None = None,
) -> GraphWithNamedArgs:
    """Make the gradient graph; the forward graph gets its activations as extra outputs.

    The patterns of the Ir are set to level Default, and applied to every new gradient graph.

    Args:
        graph: graph to differentiate.
        grads_provided: outputs whose gradients are given, default all.
        grads_required: inputs whose gradients to compute, default all, including variables.
        called_graphs_grad_info: gradient infos of called graphs; they replace those of `graph`.

    Returns:
        The gradient graph, with `grad_graph_info`.

    Raises:
        popart_exception: as `popxl.transforms.autodiff`.
    """
    own = graph.called_graphs_grad_info if isinstance(graph, GraphWithNamedArgs) else {}
    known = {**own, **to_called_graphs_grad_info(called_graphs_grad_info)}
    forward = to_graph(graph)
    infos = popxl_autodiff(
        forward, grads_provided, grads_required, called_graphs_grad_info=known, return_all_grad_graphs=True
    )
    for info in infos.values():
        if info.forward_graph not in known:
            apply_patterns(info.graph)
    return GraphWithNamedArgs.from_grad_graph(infos[forward])


def autodiff_with_accumulation(
    graph: GraphWithNamedArgs,
    tensors_to_accumulate_grads: Iterable[popxl.Tensor],
    grads_provided: Iterable[popxl.Tensor] | None = None,
    grads_required: Iterable[popxl.Tensor] | None = None,
    called_graphs_grad_info: CalledGraphsGradInfoLike | None = None,
    replica_groupings: NamedReplicaGrouping | None = None,
) -> tuple[NamedVariableFactories, GraphWithNamedArgs]:
    """Make a gradient graph that stores the mean of some gradients in accumulators, which are inputs by reference.

    In call number k, from 0: ``accum = accum k / (k + 1) + gradient / (k + 1)``. Setting the counter to zero starts a
    new mean.

    Args:
        graph: graph to differentiate.
        tensors_to_accumulate_grads: inputs whose gradients are accumulated instead of being outputs.
        grads_provided: outputs whose gradients are given, default all.
        grads_required: inputs whose gradients are outputs, default none.
        called_graphs_grad_info: gradient infos of called graphs.
        replica_groupings: replicas that share an accumulator, by name; default all.

    Returns:
        The factories of counter and accumulators, and the gradient graph with these as named inputs:
        ``mean_accum_counter`` and ``accum.<name of the input>``.

    Raises:
        popart_exception: as `popxl.transforms.autodiff`.
    """
    tensors, required = list(tensors_to_accumulate_grads), list(grads_required or ())
    gradient = autodiff(graph, grads_provided, [*required, *tensors], called_graphs_grad_info)
    names = {t: name for name, t in graph.args.to_dict().items()}
    groupings = {} if replica_groupings is None else replica_groupings.to_dict()
    positions = {c.fwd_tensor: i for i, c in enumerate(gradient.grad_graph_info.expected_outputs)}
    accumulated = [positions[t] for t in tensors]
    inputs: dict[str, popxl.Tensor] = {}
    factories: dict[str, VariableFactory] = {}

    def add(name: str, spec: popxl.TensorSpec, group: popxl.ReplicaGrouping | None) -> popxl.Tensor:
        zeros = Filled(spec.shape, 0, spec.dtype.as_numpy())
        inputs[name], factories[name] = add_variable_input(name, zeros, spec.dtype, by_ref=True, replica_grouping=group)
        return inputs[name]

    with gradient.graph, popxl.in_sequence(True):
        outputs = gradient.graph.outputs
        counter = add("mean_accum_counter", popxl.TensorSpec((), popxl.float32), None)
        with popxl.in_sequence(False):
            for t, position in zip(tensors, accumulated):
                name = names.get(t) or sanitise(t.name)
                accumulator = add(f"accum.{name}", t.spec, groupings.get(name))
                ops.var_updates.accumulate_mean_(accumulator, outputs[position], counter)
        ops.add_(counter, popxl.constant(1, popxl.float32))
    for position in sorted(set(accumulated), reverse=True):
        gradient.graph._pb_graph.removeOutput(position)
    gradient.args = NamedTensors.from_dict(inputs)
    return NamedVariableFactories.from_dict(factories), gradient


def remap_grad_info(grad_info: GradGraphInfo, forward_graph: popxl.Graph, backward_graph: popxl.Graph) -> GradGraphInfo:
    """Copy `grad_info` for another pair of graphs, whose inputs and outputs have the same positions.

    Args:
        grad_info: description of a gradient graph.
        forward_graph: replaces its forward graph.
        backward_graph: replaces its gradient graph.

    Returns:
        The description.
    """
    before = grad_info.forward_graph
    new = dict(zip((*before.outputs, *before.inputs), (*forward_graph.outputs, *forward_graph.inputs)))

    def remap(connections: Iterable[ExpectedConnection]) -> list[ExpectedConnection]:
        return [ExpectedConnection._make(new[c.fwd_tensor], c.connection_type) for c in connections]

    inputs, outputs = remap(grad_info.expected_inputs), remap(grad_info.expected_outputs)
    return GradGraphInfo._make(backward_graph, forward_graph, inputs, outputs)
