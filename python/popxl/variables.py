"""Variables of the main graph. Every replica holds the whole value, or each holds a part of it."""

import math
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Optional

import numpy as np
from popart_core import getLogger, popart_exception

from popxl import dtypes
from popxl.context import _CURRENT_CONTEXT
from popxl.dtypes import dtype
from popxl.replica_grouping import _members
from popxl.utils import to_numpy

if TYPE_CHECKING:
    from popxl.graph import Graph
    from popxl.ir import Ir
    from popxl.remote_variables import Row
    from popxl.replica_grouping import ReplicaGrouping
    from popxl.tensor import HostScalarTensor, Tensor, Variable


_FIRST_BYTES = 4096  # non-zero values nearly always have a non-zero byte here


def main_graph() -> "Graph":
    """Return the current graph; it must be the main graph, the only one with variables.

    Raises:
        RuntimeError: there is no current graph.
        ValueError: it is not the main graph.
    """
    graph = _CURRENT_CONTEXT.graph
    if graph._id != "":
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
    graph = main_graph()
    array = own_array(data, dtype, downcast, log2_scale, nan_on_overflow)
    return make_variable(graph, array, name, replica_grouping, retrieval_mode)


def own_array(
    data: "HostScalarTensor", dtype: dtype | None, downcast: bool, log2_scale: int | None, nan_on_overflow: bool | None
) -> np.ndarray:
    """Return `to_numpy` of data in memory that is not shared; a memory map is returned as it is.

    Zeros, such as initial states of optimizers, become memory that is not touched until it is written: it costs
    nothing.
    """
    array = to_numpy(data, dtype, downcast, copy=False, log2_scale=log2_scale, nan_on_overflow=nan_on_overflow)
    if array is not data and isinstance(data, np.ndarray) and not np.may_share_memory(array, data):
        return array
    if isinstance(array, np.memmap):
        return array
    if array.nbytes > _FIRST_BYTES:
        content = bytes_view(array)
        if not content[:_FIRST_BYTES].any() and not content.any():
            return np.zeros(array.shape, array.dtype)
    return array.copy()


class Holding:
    """How replicas store a variable: each group of replicas has one value; each member has all of it, or a part.

    Parts are 1-D: member i of a group holds part ``i % shard_over`` of the flattened elements; the last part is padded
    with zeros.

    Args:
        grouping: replicas that share a value.
        shape: shape of the whole value.
        shard_over: number of parts; None: each member holds the whole value.
    """

    def __init__(self, grouping: "ReplicaGrouping", shape: tuple[int, ...], shard_over: int | None = None) -> None:
        self.is_sharded = shard_over is not None
        self._shape, self._parts, self._grouping = shape, shard_over or 1, grouping
        self.part_shape = (-(-math.prod(shape) // self._parts),) if self.is_sharded else shape

    @cached_property
    def _members(self) -> list[list[int]]:
        return _members(self._grouping.assignment)

    def split(self, host: np.ndarray) -> np.ndarray:
        """Return what each replica holds. `host`: the value, or one value for each group."""
        length = math.prod(self.part_shape)
        result = np.zeros((sum(map(len, self._members)), length), host.dtype)
        for members, value in zip(self._members, host.reshape(len(self._members), -1), strict=True):
            padded = np.zeros((self._parts, length), host.dtype)
            padded.reshape(-1)[: value.size] = value
            result[members] = padded[np.arange(len(members)) % self._parts]
        return result.reshape(-1, *self.part_shape)

    def join(self, held: np.ndarray, host: np.ndarray) -> None:
        """Write the value, or one value for each group, from what the replicas hold."""
        for members, value in zip(self._members, host.reshape(len(self._members), -1), strict=True):
            value[:] = held[members[: self._parts]].reshape(-1)[: value.size]

    def join_by_replica(self, held: np.ndarray) -> np.ndarray:
        """Return the value of each replica: its own part, joined with those that other replicas hold."""
        size = math.prod(self._shape)
        result = np.empty((len(held), size), held.dtype)
        for members in self._members:
            for first in range(0, len(members), self._parts):
                holders = members[first : first + self._parts]
                result[holders] = held[holders].reshape(-1)[:size]
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

    Programs read and update the part; `ops.collectives.replicated_all_gather` returns the whole value. The host reads
    and writes whole values.

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
        ValueError: the current graph is not the main graph, there is one replica, shard_over is not a divisor of the
            group size, or the retrieval mode is unknown.
        popart_exception: the leading dimension is not the number of groups.
    """
    graph = main_graph()
    require_replicas(graph.ir, "replica_sharded_variable")
    grouping = replica_grouping or graph.ir.replica_grouping()
    parts = number_of_parts(grouping, shard_over)
    array = own_array(data, dtype, downcast, log2_scale, nan_on_overflow)
    made = make_variable(graph, array, name, grouping, retrieval_mode, parts)
    return made, made


def require_replicas(ir: "Ir", what: str) -> None:
    """Check that there are several replicas, so that a value can be sharded.

    Raises:
        ValueError: there is only one replica.
    """
    if ir.replication_factor <= 1:
        raise ValueError(f"{what}: there is one replica. Make the Ir with replication=2 or more.")


def number_of_parts(grouping: "ReplicaGrouping", shard_over: int | None) -> int:
    """Return the number of parts of a sharded value, by default one for each member of a group.

    Raises:
        ValueError: it does not divide the group size.
    """
    parts = grouping.group_size if shard_over is None else shard_over
    if parts < 1 or grouping.group_size % parts:
        raise ValueError(f"shard_over: got {parts}, expected a divisor of the group size {grouping.group_size}.")
    return parts


def make_variable(
    graph: "Graph",
    array: np.ndarray,
    name: str | None,
    replica_grouping: Optional["ReplicaGrouping"],
    retrieval_mode: str | None,
    shard_over: int | None = None,
    row: Optional["Row"] = None,
) -> "Variable":
    """Add a variable.

    Args:
        graph: the main graph.
        array: the initial value, which becomes the host value (`own_array`).
        name: name, default ``"t"``.
        replica_grouping: replicas that share a value; default all of them.
        retrieval_mode: ``"one_per_group"`` (default) or ``"all_replicas"``.
        shard_over: number of parts; None: whole.
        row: its place in remote memory.

    Returns:
        The variable.

    Raises:
        ValueError: the retrieval mode is unknown.
        popart_exception: the leading dimension is not the number of groups.
    """
    if retrieval_mode is not None and retrieval_mode not in ("one_per_group", "all_replicas"):
        raise ValueError(f"Unknown retrieval_mode: got {retrieval_mode!r}, expected 'one_per_group' or 'all_replicas'.")
    ir, mode = graph.ir, retrieval_mode or "one_per_group"
    grouping = replica_grouping or ir.replica_grouping()
    grouping._require_whole_groups()
    groups = grouping._num_groups
    if groups > 1 and (array.ndim == 0 or array.shape[0] != groups):
        raise popart_exception(
            f"variable '{name or 't'}': wrong leading dimension: got shape {array.shape}, expected one value for "
            f"each of {groups} replica groups. Stack the values of the groups along the first dimension."
        )
    shape = array.shape if groups == 1 else array.shape[1:]
    holding = None if shard_over is None else Holding(grouping, shape, shard_over)
    host = array
    if isinstance(array, np.memmap):
        ir._read_only_memmap |= array.mode == "r"
        if not grouping.is_const:
            getLogger("python").warn(
                f"variable '{name or 't'}': the memory map (np.memmap) of {array.filename} is copied: replicas are "
                f"grouped irregularly, {grouping!r}"
            )
    if row is None and holding is None:
        first = host if groups == 1 else np.ascontiguousarray(host[0]).reshape(shape)
        (result,) = _add_whole(graph, [first], [name], [grouping], mode)
        if groups > 1 or mode == "all_replicas":
            on_device = grouping.const_rg
            result._pb_tensor.setReplicaGroups(on_device.stride, on_device.group_size, mode == "all_replicas")
            ir._variable_data[result._id] = host
        return result
    ir._check_open("its tensors")
    core, add, scoped = dtypes.of_array(array)._core_value, graph._pb_graph, _CURRENT_CONTEXT._scoped(name)
    part, meta = (shape, ()) if holding is None else (holding.part_shape, shape)
    if row is not None:
        pb_tensor = add.addHostTensor(add.uniqueId(scoped), core, part, meta)
    else:
        pb_tensor = add.addVariable(add.uniqueId(scoped), core, part, bytes_view(holding.split(host)[0]), meta)
        pb_tensor.setReplicaGroups(1, 1, False)  # each replica has its own part
    result = ir._variable(graph, pb_tensor.index, pb_tensor.id, host, grouping, mode)
    if holding is not None:
        result._holding = holding
    if row is not None:
        result._row = row
    return result


def make_shared_variables(
    arrays: list[np.ndarray], names: list[str | None], groupings: "list[ReplicaGrouping]"
) -> "list[Variable]":
    """Add several variables at once, as `make_variable` adds one; every replica holds the whole value.

    Args:
        arrays: the initial values, which become the host values.
        names: their names.
        groupings: the grouping of each variable; its groups must include all replicas.

    Returns:
        The variables.

    Raises:
        RuntimeError: there is no current graph.
        ValueError: it is not the main graph, or a grouping leaves replicas out.
    """
    for grouping in {id(g): g for g in groupings}.values():  # nearly always only one
        grouping._require_whole_groups()
    return _add_whole(main_graph(), arrays, names, groupings, "one_per_group")


def _add_whole(
    graph: "Graph", arrays: list[np.ndarray], names: list[str | None], groupings: "list[ReplicaGrouping]", mode: str
) -> "list[Variable]":
    """Add variables that every replica holds completely; `arrays`: values on a replica."""
    ir, scope = graph.ir, "/".join(_CURRENT_CONTEXT.name_scopes)
    if ir._is_prepared:
        ir._check_open("its tensors")
    types = [dtypes.of_array(array)._core_value for array in arrays]
    made = graph._pb_graph.newVariables([name or "t" for name in names], scope, types, arrays)
    return [
        ir._variable(graph, index, tensor_id, array, grouping, mode)
        for (index, tensor_id), array, grouping in zip(made, arrays, groupings)
    ]


def bytes_view(array: np.ndarray) -> np.ndarray:
    """Return the memory of a C-contiguous array as bytes, whatever its element type."""
    return array.reshape(-1).view(np.uint8)
