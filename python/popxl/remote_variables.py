"""Variables in remote memory: the host reads and writes their values, programs load and store them."""

from typing import TYPE_CHECKING, Literal, NamedTuple, Optional

from popxl.context import get_ir
from popxl.dtypes import dtype
from popxl.remote_buffer import RemoteBuffer
from popxl.variables import Holding, main_graph, make_variable, number_of_parts, own_array, require_replicas

if TYPE_CHECKING:
    from popxl.replica_grouping import ReplicaGrouping
    from popxl.tensor import HostScalarTensor, Variable


class Row(NamedTuple):
    """The buffer and entry in which a remote variable is stored."""

    buffer: RemoteBuffer
    offset: int


def remote_variable(
    data: "HostScalarTensor",
    remote_buffer: RemoteBuffer,
    offset: int = 0,
    dtype: dtype | None = None,
    name: str | None = None,
    downcast: bool = True,
    replica_grouping: Optional["ReplicaGrouping"] = None,
    retrieval_mode: Literal["one_per_group", "all_replicas"] | None = "one_per_group",
    log2_scale: int | None = None,
    nan_on_overflow: bool | None = None,
) -> "Variable":
    """Make a variable in an entry of a remote buffer.

    Programs access it with `popxl.ops.remote_load` and `popxl.ops.remote_store`, the host like any variable.

    Args:
        data: initial value, of the buffer's shape; with G replica groups the first dimension is G, which may be left
            out when G is 1.
        remote_buffer: the buffer.
        offset: entry of the buffer.
        dtype: element type; None infers it.
        name: name, default ``"t"``.
        downcast: narrow inferred 64-bit types to 32 bits.
        replica_grouping: replicas that share a value; default all of them.
        retrieval_mode: as in `popxl.variable`.
        log2_scale: fp8 only, see `popxl.utils.to_numpy`.
        nan_on_overflow: fp8 only, see `popxl.utils.to_numpy`.

    Returns:
        The variable; with replica groups the shape is that of one replica.

    Raises:
        RuntimeError: there is no current graph.
        ValueError: the current graph is not the main graph, the buffer has no such entry or another shape or dtype, or
            the retrieval mode is unknown.
        popart_exception: the leading dimension is not the number of groups.
    """
    graph = main_graph()
    remote_buffer._require_entry(offset)
    array = own_array(data, dtype, downcast, log2_scale, nan_on_overflow)
    row = Row(remote_buffer, offset)
    variable = make_variable(graph, array, name, replica_grouping, retrieval_mode, row=row)
    if variable.shape == (1, *remote_buffer.tensor_shape):  # one group, with a leading dimension like several groups
        remote_buffer._require_type_of(variable)
    else:
        remote_buffer.validate_tensor_matches_buffer(variable)
    return variable


def remote_replica_sharded_variable(
    data: "HostScalarTensor",
    remote_buffer: RemoteBuffer,
    offset: int = 0,
    dtype: dtype | None = None,
    name: str | None = None,
    downcast: bool = True,
    replica_grouping: Optional["ReplicaGrouping"] = None,
    retrieval_mode: Literal["one_per_group", "all_replicas"] | None = "one_per_group",
    log2_scale: int | None = None,
    nan_on_overflow: bool | None = None,
) -> "Variable":
    """Make a variable in an entry of a remote buffer; each replica holds a part of it.

    Args:
        data: initial value, not divided; with G > 1 replica groups the first dimension is G.
        remote_buffer: the buffer, whose entries are parts (`popxl.replica_sharded_buffer`). A buffer without meta shape
            gets that of the value.
        offset: entry of the buffer.
        dtype: element type; None infers it.
        name: name, default ``"t"``.
        downcast: narrow inferred 64-bit types to 32 bits.
        replica_grouping: replicas that share a value; default all of them.
        retrieval_mode: as in `popxl.variable`.
        log2_scale: fp8 only, see `popxl.utils.to_numpy`.
        nan_on_overflow: fp8 only, see `popxl.utils.to_numpy`.

    Returns:
        The variable: 1-D, with the shape of the value as meta shape.

    Raises:
        RuntimeError: there is no current graph.
        ValueError: the current graph is not the main graph, there is one replica, the buffer has no such entry or does
            not hold parts of such a value, or the retrieval mode is unknown.
        popart_exception: the leading dimension is not the number of groups.
    """
    graph = main_graph()
    require_replicas(graph.ir, "remote_replica_sharded_variable")
    remote_buffer._require_entry(offset)
    array = own_array(data, dtype, downcast, log2_scale, nan_on_overflow)
    grouping = replica_grouping or graph.ir.replica_grouping()
    shape = array.shape if grouping.num_groups == 1 else array.shape[1:]
    if not remote_buffer.meta_shape:
        remote_buffer.meta_shape = shape
    parts = _parts_of_buffer(remote_buffer, grouping, shape)
    row = Row(remote_buffer, offset)
    variable = make_variable(graph, array, name, grouping, retrieval_mode, parts, row)
    remote_buffer.validate_tensor_matches_buffer(variable, parts)
    return variable


def _parts_of_buffer(buffer: RemoteBuffer, grouping: "ReplicaGrouping", shape: tuple[int, ...]) -> int:
    """Return the number of members of a group that share a value: the largest number that fits the buffer's entries."""
    size = grouping.group_size
    for parts in range(size, 0, -1):
        if size % parts == 0 and Holding(grouping, shape, parts).part_shape == buffer.tensor_shape:
            return parts
    raise ValueError(
        f"remote_replica_sharded_variable: entries of shape {buffer.tensor_shape} are not parts of a value of shape "
        f"{shape} over groups of {size} replicas. Make the buffer with popxl.replica_sharded_buffer."
    )


def replica_sharded_buffer(
    shape: tuple[int, ...],
    dtype: dtype,
    replica_grouping: Optional["ReplicaGrouping"] = None,
    shard_over: int | None = None,
    entries: int = 1,
) -> RemoteBuffer:
    """Make a remote buffer for variables of which each replica holds a part.

    Args:
        shape: shape of the host's data; with G > 1 replica groups the first dimension is G.
        dtype: element type.
        replica_grouping: replicas that share a value; default all of them.
        shard_over: number of parts, a divisor of the group size; default the group size.
        entries: number of entries, 1 or more.

    Returns:
        The buffer: entries of ``(ceil(elements / shard_over),)`` elements, with the whole shape as meta shape.

    Raises:
        RuntimeError: there is no current graph.
        ValueError: shard_over is not a divisor of the group size, or entries is below 1.
    """
    grouping = replica_grouping or get_ir().replica_grouping()
    whole = tuple(shape) if grouping.num_groups == 1 else tuple(shape)[1:]
    holding = Holding(grouping, whole, number_of_parts(grouping, shard_over))
    buffer = RemoteBuffer(holding.part_shape, dtype, entries)
    buffer.meta_shape = whole
    return buffer
