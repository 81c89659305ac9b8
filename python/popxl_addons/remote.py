"""Trees of remote buffers, and graphs that load and store all tensors of a tree."""

from collections.abc import Mapping
from math import prod

import popxl
from popxl import ops
from popxl.transforms import merge_exchange

from popxl_addons.dot_tree import DotTree
from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.named_replica_grouping import fill_none_group
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.utils import tiles
from popxl_addons.variable_factory import NamedVariableFactories, VariableFactory

ShardOver = bool | int | Mapping[str, int]


class NamedRemoteBuffers(DotTree[popxl.RemoteBuffer]):
    """Tree of remote buffers."""


def create_remote_buffer(
    spec: popxl.Tensor | popxl.TensorSpec,
    entries: int = 1,
    replica_group: popxl.ReplicaGrouping | None = None,
    shard_over: int | None = None,
) -> popxl.RemoteBuffer:
    """Make a remote buffer for tensors of one shape and dtype.

    Args:
        spec: shape, dtype and meta shape of one replica's tensor. A tensor with a meta shape is already a part.
        entries: number of entries, 1 or more.
        replica_group: replicas that share a value, default all.
        shard_over: number of parts; None or 0: the size of the group.

    Returns:
        The buffer; its entries are parts if there are several, else whole tensors.

    Raises:
        RuntimeError: there is no current graph.
        ValueError: the number of elements is not a multiple of the number of parts, or `entries` is below 1.
    """
    group = fill_none_group(replica_group)
    parts = shard_over or group.group_size
    if spec.meta_shape or parts <= 1:
        buffer = popxl.remote_buffer(spec.shape, spec.dtype, entries)
        buffer.meta_shape = spec.meta_shape
        return buffer
    if prod(spec.shape) % parts:
        raise ValueError(
            f"create_remote_buffer: a tensor of shape {tuple(spec.shape)} cannot be cut into {parts} equal parts. Give "
            "shard_over=1, or a divisor of its number of elements."
        )
    groups = () if group.num_groups == 1 else (group.num_groups,)
    return popxl.replica_sharded_buffer((*groups, *spec.shape), spec.dtype, group, parts, entries)


def named_variable_buffers(
    factories: NamedVariableFactories, entries: int = 1, shard_over_dict: ShardOver = True
) -> NamedRemoteBuffers:
    """Make a remote buffer for the variable of each factory.

    Args:
        factories: tree of factories.
        entries: number of entries of each buffer.
        shard_over_dict: number of parts: True: the size of a factory's group; False: not sharded; a number for all; or
            numbers by name, where a missing name means the size of the group. Factories that are sharded already keep
            their parts in any case.

    Returns:
        The buffers under the names of the factories.

    Raises:
        ValueError: a number is below 1 or above the size of a group, or does not divide the number of elements.
    """
    made = {}
    for name, factory in factories.to_dict().items():
        parts = _number_of_parts(name, factory, shard_over_dict)
        spec = popxl.TensorSpec(factory.shape, factory.dtype, factory.meta_shape or ())
        made[name] = create_remote_buffer(spec, entries, factory.replica_grouping, parts)
    return NamedRemoteBuffers.from_dict(made)


def _number_of_parts(name: str, factory: VariableFactory, given: ShardOver) -> int:
    size = factory.replica_grouping.group_size
    if given is True:
        return size
    if given is False:
        return 1
    parts = given.get(name, size) if isinstance(given, Mapping) else given
    if not isinstance(parts, int) or not 1 <= parts <= size:
        raise ValueError(
            f"named_variable_buffers: parts of '{name}': got {parts!r}, expected a number from 1 to {size}."
        )
    return parts


def named_buffers(tensors: NamedTensors, entries: int = 1) -> NamedRemoteBuffers:
    """Make a remote buffer for each tensor, of its shape, dtype and meta shape.

    Args:
        tensors: tree of tensors.
        entries: number of entries of each buffer.

    Returns:
        The buffers under the names of the tensors.
    """
    return NamedRemoteBuffers.from_dict(
        {name: create_remote_buffer(t.spec, entries, shard_over=1) for name, t in tensors.to_dict().items()}
    )


def load_remote(buffers: NamedRemoteBuffers, entry: int | popxl.Tensor = 0, use_io_tiles: bool = False) -> NamedTensors:
    """Load an entry of every buffer into new tensors.

    Args:
        buffers: tree of buffers.
        entry: the entry, as `popxl.ops.remote_load` takes it.
        use_io_tiles: load on IO tiles and copy the results.

    Returns:
        The tensors under the names of the buffers.
    """
    loaded = {}
    with merge_exchange(), popxl.in_sequence(False):
        for name, buffer in buffers.to_dict().items():
            with tiles(use_io_tiles):
                loaded[name] = ops.remote_load(buffer, entry, name)
    if use_io_tiles:
        loaded = {name: ops.io_tile_copy(t) for name, t in loaded.items()}
    return NamedTensors.from_dict(loaded)


def store_remote(
    buffers: NamedRemoteBuffers, tensors: NamedTensors, entry: int | popxl.Tensor = 0, use_io_tiles: bool = False
) -> None:
    """Store tensors in an entry of the buffers with the same names.

    Args:
        buffers: tree of buffers.
        tensors: tree of tensors; names that only one of the trees has are ignored.
        entry: the entry, as `popxl.ops.remote_store` takes it.
        use_io_tiles: copy the tensors to IO tiles and store there.
    """
    given = tensors.to_dict()
    shared = {name: (buffer, given[name]) for name, buffer in buffers.to_dict().items() if name in given}
    if use_io_tiles:
        shared = {name: (buffer, ops.io_tile_copy(t)) for name, (buffer, t) in shared.items()}
    with merge_exchange(), popxl.in_sequence(False):
        for buffer, t in shared.values():
            with tiles(use_io_tiles):
                ops.remote_store(buffer, entry, t)


def load_remote_graph(
    buffers: NamedRemoteBuffers, entries: int = 1, use_io_tiles: bool = False
) -> tuple[GraphWithNamedArgs, list[str]]:
    """Make a graph that loads an entry of every buffer.

    Args:
        buffers: tree of buffers; each gets at least `entries` entries.
        entries: least number of entries.
        use_io_tiles: load on IO tiles and copy the results.

    Returns:
        The graph, with the entry (int32, scalar) as its input and an output for each name; and the names in the order
        of the outputs.
    """
    ordered = _sorted_with_entries(buffers, entries)
    graph = popxl.gcg().ir.create_empty_graph("load_remote")
    with graph, popxl.in_sequence(False):
        index = popxl.graph_input((), popxl.int32, "load_index")
        for t in load_remote(ordered, index, use_io_tiles).to_dict().values():
            popxl.graph_output(t)
    return GraphWithNamedArgs(graph), list(ordered.to_dict())


def store_remote_graph(buffers: NamedRemoteBuffers, entries: int = 1, use_io_tiles: bool = False) -> GraphWithNamedArgs:
    """Make a graph that stores a tensor in an entry of every buffer.

    Args:
        buffers: tree of buffers; each gets at least `entries` entries.
        entries: least number of entries.
        use_io_tiles: copy the tensors to IO tiles and store there.

    Returns:
        The graph: the entry (int32, scalar) is its first input, then come the tensors by name.
    """
    ordered = _sorted_with_entries(buffers, entries)
    graph = popxl.gcg().ir.create_empty_graph("store_remote")
    with graph, popxl.in_sequence(False):
        index = popxl.graph_input((), popxl.int32, "store_index")
        tensors = NamedTensors.from_dict(
            {
                name: popxl.graph_input(b.tensor_shape, b.tensor_dtype, name, meta_shape=b.meta_shape)
                for name, b in ordered.to_dict().items()
            }
        )
        store_remote(ordered, tensors, index, use_io_tiles)
    return GraphWithNamedArgs(graph, tensors)


def _sorted_with_entries(buffers: NamedRemoteBuffers, entries: int) -> NamedRemoteBuffers:
    ordered = dict(sorted(buffers.to_dict().items()))
    for buffer in ordered.values():
        buffer.entries = max(buffer.entries, entries)
    return NamedRemoteBuffers.from_dict(ordered)


__all__ = [
    "NamedRemoteBuffers",
    "create_remote_buffer",
    "load_remote",
    "load_remote_graph",
    "named_buffers",
    "named_variable_buffers",
    "store_remote",
    "store_remote_graph",
]
