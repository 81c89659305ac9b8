"""Variables of the main graph: whole on every replica, or of which each replica holds a part."""

import math
from typing import TYPE_CHECKING, Literal, Optional

import numpy as np
from popart_core import popart_exception

from popxl import dtypes
from popxl.context import get_current_graph
from popxl.dtypes import dtype
from popxl.replica_grouping import _members
from popxl.utils import to_numpy

if TYPE_CHECKING:
    from popxl.graph import Graph
    from popxl.replica_grouping import ReplicaGrouping
    from popxl.tensor import HostScalarTensor, Tensor, Variable


def _main_graph() -> "Graph":
    graph = get_current_graph()
    if graph.id != "":
        raise ValueError(
            "Variables can only be made with the main graph current. Make it there and pass it as a graph input."
        )
    return graph


def variable(
    data: "HostScalarTensor",
    dtype: dtype | None = None,
    name: str | None = None,
    downcast: bool = True,
    replica_grouping: Optional["ReplicaGrouping"] = None,
    retrieval_mode: Literal["one_per_group", "all_replicas"] | None = None,
    log2_scale: int | None = None,
    nan_on_overflow: bool | None = None,
) -> "Variable":
    """Make a variable in the main graph.

    Args:
        data: initial value; with G > 1 replica groups the first dimension is G.
        dtype: element type; None infers it.
        name: name, default ``"t"``.
        downcast: narrow inferred 64-bit types to 32 bits.
        replica_grouping: replicas that share a value; default all of them.
        retrieval_mode: ``"one_per_group"`` (default) or ``"all_replicas"``.
        log2_scale: fp8 only, see `popxl.utils.to_numpy`.
        nan_on_overflow: fp8 only, see `popxl.utils.to_numpy`.

    Returns:
        The variable; with replica groups the shape is that of one replica.

    Raises:
        RuntimeError: there is no current graph.
        ValueError: the current graph is not the main graph, or the retrieval mode is unknown.
        popart_exception: the leading dimension is not the number of groups.
    """
    graph = _main_graph()
    array = to_numpy(data, dtype, downcast, copy=False, log2_scale=log2_scale, nan_on_overflow=nan_on_overflow)
    return _make_variable(graph, array, name, replica_grouping, retrieval_mode)


class Sharding:
    """How replicas hold the parts of a variable.

    Each group of `grouping` has one value; member i holds part ``i % shard_over`` of its flattened elements, the last
    one with zeros behind its end.

    Args:
        grouping: replicas that share a value.
        shard_over: number of parts.
        shape: of the whole value.
    """

    def __init__(self, grouping: "ReplicaGrouping", shard_over: int, shape: tuple[int, ...]) -> None:
        self._shape, self._parts = shape, shard_over
        self._members = _members(grouping.assignment)
        self.part_shape = (-(-math.prod(shape) // shard_over),)

    def split(self, host: np.ndarray) -> np.ndarray:
        """Return the part of each replica; host: the value, or one value per group."""
        replicas = sum(map(len, self._members))
        result = np.zeros((replicas, *self.part_shape), host.dtype)
        for members, value in zip(self._members, host.reshape(len(self._members), -1), strict=True):
            padded = np.zeros((self._parts, *self.part_shape), host.dtype)
            padded.reshape(-1)[: value.size] = value
            result[members] = padded[np.arange(len(members)) % self._parts]
        return result

    def join(self, parts: np.ndarray, host: np.ndarray) -> None:
        """Fill the value, or one value per group, from the parts of the replicas."""
        for members, value in zip(self._members, host.reshape(len(self._members), -1), strict=True):
            value[:] = parts[members[: self._parts]].reshape(-1)[: value.size]

    def join_by_replica(self, parts: np.ndarray) -> np.ndarray:
        """Return the whole value as each replica and those that hold the other parts have it."""
        size = math.prod(self._shape)
        result = np.empty((len(parts), size), parts.dtype)
        for members in self._members:
            for first in range(0, len(members), self._parts):
                holders = members[first : first + self._parts]
                result[holders] = parts[holders].reshape(-1)[:size]
        return result.reshape(-1, *self._shape)


def replica_sharded_variable(
    data: "HostScalarTensor",
    dtype: dtype | None = None,
    name: str | None = None,
    downcast: bool = True,
    replica_grouping: Optional["ReplicaGrouping"] = None,
    shard_over: int | None = None,
    retrieval_mode: Literal["one_per_group", "all_replicas"] | None = "one_per_group",
    log2_scale: int | None = None,
    nan_on_overflow: bool | None = None,
) -> "tuple[Variable, Tensor]":
    """Make a variable of which each replica holds a part.

    Programs read and update the part; `ops.collectives.replicated_all_gather` gives the whole value. The host sees
    whole values.

    Args:
        data: initial value; with G > 1 replica groups the first dimension is G.
        dtype: element type; None infers it.
        name: name, default ``"t"``.
        downcast: narrow inferred 64-bit types to 32 bits.
        replica_grouping: replicas that share a value; default all of them.
        shard_over: number of parts, a divisor of the group size; default the group size.
        retrieval_mode: as in `popxl.variable`; ``"all_replicas"`` joins the value of each replica from its own part
            and those of its neighbours.
        log2_scale: fp8 only, see `popxl.utils.to_numpy`.
        nan_on_overflow: fp8 only, see `popxl.utils.to_numpy`.

    Returns:
        The variable, and the part of a replica: 1-D, with the shape of the value as meta shape.

    Raises:
        RuntimeError: there is no current graph.
        ValueError: the current graph is not the main graph, there is one replica, shard_over is no divisor of the
            group size, or the retrieval mode is unknown.
        popart_exception: the leading dimension is not the number of groups.
    """
    graph = _main_graph()
    if graph.ir.replication_factor <= 1:
        raise ValueError("replica_sharded_variable: there is one replica. Make the Ir with replication=2 or more.")
    grouping = replica_grouping or graph.ir.replica_grouping()
    parts = grouping.group_size if shard_over is None else shard_over
    if parts < 1 or grouping.group_size % parts:
        raise ValueError(f"shard_over: got {parts}, expected a divisor of the group size {grouping.group_size}.")
    array = to_numpy(data, dtype, downcast, copy=False, log2_scale=log2_scale, nan_on_overflow=nan_on_overflow)
    made = _make_variable(graph, array, name, grouping, retrieval_mode, parts)
    return made, made


def _make_variable(
    graph: "Graph",
    array: np.ndarray,
    name: str | None,
    replica_grouping: Optional["ReplicaGrouping"],
    retrieval_mode: str | None,
    shard_over: int | None = None,
) -> "Variable":
    """Add a variable; without `shard_over` each replica holds it whole."""
    if retrieval_mode not in (None, "one_per_group", "all_replicas"):
        raise ValueError(f"Unknown retrieval_mode: got {retrieval_mode!r}, expected 'one_per_group' or 'all_replicas'.")
    ir, mode = graph.ir, retrieval_mode or "one_per_group"
    grouping = replica_grouping or ir.replica_grouping()
    groups = grouping.num_groups
    if groups > 1 and (array.ndim == 0 or array.shape[0] != groups):
        raise popart_exception(
            f"variable '{name or 't'}': wrong leading dimension: got shape {array.shape}, expected one value for "
            f"each of {groups} replica groups. Stack the values of the groups along the first dimension."
        )
    shape = array.shape if groups == 1 else array.shape[1:]
    sharding = None if shard_over is None else Sharding(grouping, shard_over, shape)
    if isinstance(array, np.memmap):
        host = array
        ir._read_only_memmap |= array.mode == "r"
    else:
        host = np.array(array, order="C", copy=True).reshape(array.shape)
    core = dtypes.dtype.as_dtype(array.dtype)._core
    tensor_id = graph._create_tensor_id(name)
    if sharding is None:
        first = host if groups == 1 else np.ascontiguousarray(host[0]).reshape(shape)
        pb_tensor = graph._pb_graph.addVariable(tensor_id, core, list(shape), bytes_view(first), [])
        on_device = grouping.const_rg
        if on_device.num_groups > 1 or mode == "all_replicas":
            pb_tensor.setReplicaGroups(on_device.stride, on_device.group_size, mode == "all_replicas")
    else:
        first = sharding.split(host)[0]
        pb_tensor = graph._pb_graph.addVariable(tensor_id, core, list(first.shape), bytes_view(first), list(shape))
        pb_tensor.setReplicaGroups(1, 1, False)  # each replica has a part of its own
    result = ir._tensor(graph, pb_tensor)
    result.replica_grouping = grouping
    result.retrieval_mode = mode
    result._sharding = sharding
    ir._variable_data[result.id] = host
    ir._variables[result.id] = result
    return result


def bytes_view(array: np.ndarray) -> np.ndarray:
    """Return the memory of a C-contiguous array as bytes, whatever its element type."""
    return array.reshape(-1).view(np.uint8)
