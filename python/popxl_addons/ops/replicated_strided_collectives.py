"""Collectives over groups of replicas with a stride, with the gradients that tensor parallelism needs.

The members of a group are ``o * stride * size + i + j * stride`` for j = 0 … size - 1; member j is rank j.
"""

import popxl
from popxl import ops
from popxl.ops.collectives.collectives import _group_attributes
from popxl.ops.utils import emit_one

from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.utils import tiles

Group = popxl.ReplicaGrouping | None


def members_of(group: Group) -> dict[str, int]:
    """Return the attributes of an op for the replicas of a group (default all), without an operator."""
    return {name: value for name, value in _group_attributes("add", group).items() if name != "op"}


def all_reduce_with_gradient(op_type: str, t: popxl.Tensor, op: str, group: Group, hint: str = "") -> popxl.Tensor:
    """Add an all-reduce of this type whose gradient is the same all-reduce, unless `hint` says otherwise."""
    attributes = {**_group_attributes(op, group), **({hint: 1} if hint else {})}
    return emit_one(op_type, {"t": t}, f"{t.name}_all_reduce", attributes)


def replicated_all_reduce_strided(t: popxl.Tensor, op: str = "add", group: Group = None) -> popxl.Tensor:
    """Reduce over the replicas of each group; the gradient is the same reduction of the gradients.

    Args:
        t: tensor of any shape.
        op: ``"add"`` or ``"mean"``.
        group: replicas that take part, default all.

    Returns:
        Tensor of the shape and dtype of t.

    Raises:
        ValueError: unknown operator.
        popart_exception: the operator has no gradient.
    """
    return all_reduce_with_gradient("ReplicatedAllReduceStrided", t, op, group)


def replicated_all_reduce_strided_identical_inputs(
    t: popxl.Tensor, op: str = "add", group: Group = None
) -> popxl.Tensor:
    """Return t, which is equal on the replicas of a group; gradients are reduced (start of a tensor-parallel part)."""
    return all_reduce_with_gradient("ReplicatedAllReduceStrided", t, op, group, "identical_inputs")


def replicated_all_reduce_strided_identical_grad_inputs(
    t: popxl.Tensor, op: str = "add", group: Group = None
) -> popxl.Tensor:
    """Reduce over each group; equal gradients pass unchanged (end of a tensor-parallel part)."""
    return all_reduce_with_gradient("ReplicatedAllReduceStrided", t, op, group, "identical_grad_inputs")


def replicated_all_gather_strided(t: popxl.Tensor, group: Group = None) -> popxl.Tensor:
    """Collect the flattened tensors of a group in the order of rank.

    Args:
        t: tensor of any shape, or a part with a meta shape.
        group: replicas that take part, default all.

    Returns:
        Tensor of shape (size * nelms,); for a part the whole tensor, without padding.
    """
    attributes = _group_attributes("add", group)
    if t.meta_shape:
        attributes["shape"] = list(t.meta_shape)
    return emit_one("ReplicatedAllGatherStrided", {"t": t}, f"{t.name}_all_gathered", attributes)


def replicated_reduce_scatter_strided(
    t: popxl.Tensor,
    op: str = "add",
    group: Group = None,
    configure_output_for_replicated_tensor_sharding: bool = False,
) -> popxl.Tensor:
    """Reduce the flattened tensor over each group; rank j gets chunk j, padded with zeros.

    Args:
        t: tensor of any shape.
        op: ``"add"`` or ``"mean"``.
        group: replicas that take part, default all.
        configure_output_for_replicated_tensor_sharding: store the shape of t as meta shape of the result.

    Returns:
        Tensor of shape (ceil(nelms / size),).

    Raises:
        ValueError: unknown operator.
        popart_exception: the operator is neither ``"add"`` nor ``"mean"``.
    """
    attributes = _group_attributes(op, group)
    if configure_output_for_replicated_tensor_sharding:
        attributes["meta_shape"] = list(t.shape)
    return emit_one("ReplicatedReduceScatterStrided", {"t": t}, f"{t.name}_reduce_scattered", attributes)


def replicated_all_reduce_strided_graph(
    tensors: NamedTensors, op: str = "add", group: Group = None, use_io_tiles: bool = False
) -> tuple[GraphWithNamedArgs, list[str]]:
    """Make a graph that reduces every tensor of a tree.

    Args:
        tensors: tensors by name.
        op: ``"add"`` or ``"mean"``.
        group: replicas that take part, default all.
        use_io_tiles: copy the inputs to IO tiles and reduce there.

    Returns:
        The graph ``replica_reduce``, with an input and an output for each name, and the names in order of the outputs.
    """
    from popxl_addons.rts import graph_over

    def reduce(name: str, t: popxl.Tensor) -> popxl.Tensor:
        if use_io_tiles:
            t = ops.io_tile_copy(t)
        with tiles(use_io_tiles):
            return replicated_all_reduce_strided(t, op, group)

    return graph_over("replica_reduce", tensors, reduce)


__all__ = [
    "replicated_all_gather_strided",
    "replicated_all_reduce_strided",
    "replicated_all_reduce_strided_graph",
    "replicated_all_reduce_strided_identical_grad_inputs",
    "replicated_all_reduce_strided_identical_inputs",
    "replicated_reduce_scatter_strided",
]
