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
    if retrieval_mode not in (None, "one_per_group", "all_replicas"):
        raise ValueError(f"Unknown retrieval_mode: got {retrieval_mode!r}, expected 'one_per_group' or 'all_replicas'.")
    grouping = replica_grouping or graph.ir.replica_grouping()
    array = to_numpy(data, dtype, downcast, copy=False, log2_scale=log2_scale, nan_on_overflow=nan_on_overflow)
    return _make_variable(graph, array, name, grouping, retrieval_mode or "one_per_group")


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
        retrieval_mode: as in `popxl.variable`; the host gets the whole value of each group.
        log2_scale: fp8 only, see `popxl.utils.to_numpy`.
        nan_on_overflow: fp8 only, see `popxl.utils.to_numpy`.

    Returns:
        The variable, and the part of a replica: 1-D, with the shape of the value as meta shape.

    Raises:
        RuntimeError: there is no current graph.
        ValueError: the current graph is not the main graph, there is one replica, or shard_over is no divisor of the
            group size.
        popart_exception: the leading dimension is not the number of groups.
    """
    graph = _main_graph()
    grouping = replica_grouping or graph.ir.replica_grouping()
    if graph.ir.replication_factor <= 1:
        raise ValueError("replica_sharded_variable: there is one replica. Make the Ir with replication=2 or more.")
    parts = shard_over or grouping.group_size
    if parts < 1 or grouping.group_size % parts:
        raise ValueError(f"shard_over: got {parts}, expected a divisor of the group size {grouping.group_size}.")
    array = to_numpy(data, dtype, downcast, copy=False, log2_scale=log2_scale, nan_on_overflow=nan_on_overflow)
    whole = array.shape if grouping.num_groups == 1 else array.shape[1:]
    sharding = Sharding(grouping, parts, whole)
    made = _make_variable(graph, array, name, grouping, retrieval_mode or "one_per_group", sharding)
    return made, made


def _make_variable(
    graph: "Graph",
    array: np.ndarray,
    name: str | None,
    grouping: "ReplicaGrouping",
    mode: str,
    sharding: Sharding | None = None,
) -> "Variable":
    ir = graph.ir
    groups = grouping.num_groups
    shape = array.shape if groups == 1 else array.shape[1:]
    if groups > 1 and (array.ndim == 0 or array.shape[0] != groups):
        raise popart_exception(
            f"variable '{name or 't'}': wrong leading dimension: got shape {array.shape}, expected one value for "
            f"each of {groups} replica groups. Stack the values of the groups along the first dimension."
        )
    if isinstance(array, np.memmap):
        host = array
        ir._read_only_memmap |= array.mode == "r"
    else:
        host = np.array(array, order="C", copy=True).reshape(array.shape)
    core = dtypes.dtype.as_dtype(array.dtype)._core
    first = np.ascontiguousarray(host[0]).reshape(shape) if groups > 1 else host
    tensor_id = graph._create_tensor_id(name)
    meta: list[int] = []
    if sharding is not None:
        first, shape, meta = sharding.split(host)[0], sharding.part_shape, list(shape)
    pb_tensor = graph._pb_graph.addVariable(tensor_id, core, list(shape), bytes_view(first), meta)
    result = ir._tensor(graph, pb_tensor)
    result.replica_grouping = grouping
    result.retrieval_mode = mode
    result._sharding = sharding
    on_device = grouping.const_rg
    if sharding is not None:
        pb_tensor.setReplicaGroups(1, 1, False)
    elif on_device.num_groups > 1 or mode == "all_replicas":
        result._pb_tensor.setReplicaGroups(on_device.stride, on_device.group_size, mode == "all_replicas")
    ir._variable_data[result.id] = host
    ir._variables[result.id] = result
    return result


def bytes_view(array: np.ndarray) -> np.ndarray:
    """Return the memory of a C-contiguous array as bytes, whatever its element type."""
    return array.reshape(-1).view(np.uint8) if array.dtype.names is None else array.reshape(-1).view("u1")
