"""Replica-sharded tensors: gathering parts to whole tensors, and reducing whole tensors to parts."""

from collections.abc import Callable, Iterable

import popxl
from popxl import ops
from popxl.ops import collectives

from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.named_replica_grouping import NamedReplicaGrouping, fill_none_group
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.utils import tiles


def replica_sharded_spec(t: popxl.Tensor, shard_over: popxl.ReplicaGrouping) -> popxl.TensorSpec:
    """Return the spec of a replica's part of a tensor.

    Args:
        t: the tensor.
        shard_over: replicas that hold the parts.

    Returns:
        A flat part with the shape of t as meta shape. The spec of t if it is already sharded, if there is only one
        replica, or if the number of its elements is not a multiple of the number of replicas.
    """
    if t.meta_shape or shard_over.group_size == 1 or t.nelms % shard_over.group_size:
        return t.spec
    return popxl.TensorSpec((t.nelms // shard_over.group_size,), t.dtype, t.shape)


def gather_replica_sharded_tensor(
    t: popxl.Tensor, use_io_tiles: bool = False, replica_group: popxl.ReplicaGrouping | None = None
) -> popxl.Tensor:
    """Return the whole tensor from the parts of a group; a tensor that is not sharded is returned as it is.

    Args:
        t: the part of this replica.
        use_io_tiles: gather on IO tiles and copy the result.
        replica_group: replicas that hold the parts, default all.

    Returns:
        The whole tensor, of the meta shape of t.
    """
    with tiles(use_io_tiles):
        whole = collectives.replicated_all_gather(t, group=fill_none_group(replica_group)) if t.meta_shape else t
    return ops.io_tile_copy(whole) if use_io_tiles else whole


def reduce_replica_sharded_tensor(
    t: popxl.Tensor,
    op: str = "add",
    replica_group: popxl.ReplicaGrouping | None = None,
    shard_group: popxl.ReplicaGrouping | None = None,
) -> popxl.Tensor:
    """Reduce a tensor over replicas, and return this replica's part of the result.

    Args:
        t: whole tensor.
        op: ``"add"`` or ``"mean"``.
        replica_group: replicas whose values are reduced, default all.
        shard_group: replicas that hold the parts, default replica_group. If it has one member, or if its size does not
            divide the number of elements, the result is not sharded.

    Returns:
        The part, 1-D with the shape of t as meta shape, or the whole tensor.
    """
    replica_group = fill_none_group(replica_group)
    shard_group = replica_group if shard_group is None else shard_group
    shards = shard_group.group_size > 1 and t.nelms % shard_group.group_size == 0
    if shards and shard_group == replica_group:
        return collectives.replicated_reduce_scatter(
            t, op, replica_group, configure_output_for_replicated_tensor_sharding=True
        )
    if replica_group.group_size > 1:
        t = collectives.replicated_all_reduce(t, op, replica_group)
    return collectives.replica_sharded_slice(t, shard_group) if shards else t


def all_gather_replica_sharded_graph(
    tensors: NamedTensors, use_io_tiles: bool = False, replica_groups: NamedReplicaGrouping | None = None
) -> tuple[GraphWithNamedArgs, list[str]]:
    """Make a graph that gathers every tensor of a tree.

    Args:
        tensors: parts and whole tensors by name.
        use_io_tiles: gather on IO tiles.
        replica_groups: replicas that hold the parts, by name; default all.

    Returns:
        The graph, with an input and an output for each name, and the names in the order of the outputs.

    Raises:
        KeyError: a name has no grouping.
    """
    groups = None if replica_groups is None else replica_groups.to_dict()

    def gather(name: str, t: popxl.Tensor) -> popxl.Tensor:
        return gather_replica_sharded_tensor(t, use_io_tiles, None if groups is None else groups[name].const_rg)

    return graph_over("all_gather", tensors, gather)


def reduce_replica_sharded_graph(
    tensors: NamedTensors,
    op: str = "add",
    use_io_tiles: bool = False,
    shard_groups: NamedReplicaGrouping | None = None,
    replica_group: popxl.ReplicaGrouping | None = None,
) -> tuple[GraphWithNamedArgs, list[str]]:
    """Make a graph that reduces every tensor of a tree to parts (`reduce_replica_sharded_tensor`).

    Args:
        tensors: whole tensors by name.
        op: ``"add"`` or ``"mean"``.
        use_io_tiles: copy the inputs to IO tiles and reduce there.
        shard_groups: replicas that hold the parts, by name; a name without one: replica_group.
        replica_group: replicas whose values are reduced, default all.

    Returns:
        The graph, with an input and an output for each name, and the names in the order of the outputs.
    """
    groups = {} if shard_groups is None else shard_groups.to_dict()

    def reduce(name: str, t: popxl.Tensor) -> popxl.Tensor:
        if use_io_tiles:
            t = ops.io_tile_copy(t)
        with tiles(use_io_tiles):
            return reduce_replica_sharded_tensor(t, op, replica_group, groups.get(name))

    return graph_over("replica_reduce", tensors, reduce)


def graph_over(
    graph_name: str, tensors: NamedTensors, build: Callable[[str, popxl.Tensor], popxl.Tensor]
) -> tuple[GraphWithNamedArgs, list[str]]:
    """Make a graph with an input and an output ``build(name, input)`` for each tensor of a tree, by name."""
    graph = popxl.gcg().ir.create_empty_graph(graph_name)
    by_name: Iterable[tuple[str, popxl.Tensor]] = sorted(tensors.to_dict().items())
    args: dict[str, popxl.Tensor] = {}
    with graph, popxl.in_sequence(False):
        for name, t in by_name:
            args[name] = popxl.graph_input(t.shape, t.dtype, name, meta_shape=t.meta_shape)
        for name, _ in by_name:
            popxl.graph_output(build(name, args[name]))
    return GraphWithNamedArgs(graph, NamedTensors.from_dict(args)), list(args)


__all__ = [
    "all_gather_replica_sharded_graph",
    "gather_replica_sharded_tensor",
    "reduce_replica_sharded_graph",
    "reduce_replica_sharded_tensor",
    "replica_sharded_spec",
]
