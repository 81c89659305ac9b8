"""Reductions, gathers and slices over the replicas of a group."""

from collections.abc import Iterable
from typing import Any, Literal

from popart_core import popart_exception

from popxl.context import get_current_graph
from popxl.errors import UndefinedValue
from popxl.ops.shape import flatten, reshape, transpose
from popxl.ops.utils import check_in_graph, checked_axis, emit, emit_one
from popxl.replica_grouping import ReplicaGrouping
from popxl.tensor import Tensor

CollectiveOps = Literal["add", "mean", "mul", "min", "max", "and", "or", "square_add"]

# compat: "mul" is the mean upstream (tests/python/popxl/test_collectives.py::test_mul_is_mean)
_OPERATORS = {
    "add": "Add", "mean": "Mean", "mul": "Mean", "min": "Min", "max": "Max", "and": "LogicalAnd", "or": "LogicalOr",
    "square_add": "SquareAdd",
}  # fmt: skip


def to_collective_op(op: str) -> str:
    """Return the core's name of a collective operator.

    Raises:
        ValueError: unknown operator.
    """
    if op not in _OPERATORS:
        raise ValueError(f"op: got {op!r}, expected one of {', '.join(_OPERATORS)}.")
    return _OPERATORS[op]


def _members(group: ReplicaGrouping | None) -> dict[str, Any]:
    group = group or get_current_graph().ir.replica_grouping()
    group._require_whole_groups()
    return {"group_size": group.group_size, "stride": group.stride}


def _group_attributes(op: str, group: ReplicaGrouping | None) -> dict[str, Any]:
    return {"op": to_collective_op(op), **_members(group)}


def replicated_all_reduce(t: Tensor, op: str = "add", group: ReplicaGrouping | None = None) -> Tensor:
    """Reduce over the replicas of each group; every replica gets the result.

    Args:
        t: tensor of any shape.
        op: ``"add"``, ``"mean"``, ``"mul"``, ``"min"``, ``"max"``, ``"and"``, ``"or"`` or ``"square_add"``.
        group: replicas that take part, default all.

    Returns:
        Tensor of the shape and dtype of t.

    Raises:
        ValueError: unknown operator.
    """
    check_in_graph(get_current_graph(), t=t)
    return emit_one("ReplicatedAllReduce", {"t": t}, f"{t.name}_all_reduce", _group_attributes(op, group))


def replicated_all_reduce_(t: Tensor, op: str = "add", group: ReplicaGrouping | None = None) -> Tensor:
    """As `replicated_all_reduce`, but the result replaces t, in the same memory."""
    check_in_graph(get_current_graph(), t=t)
    return emit_one("ReplicatedAllReduceInplace", {"t": t}, f"{t.name}_all_reduce", _group_attributes(op, group))


def replicated_reduce_scatter(
    t: Tensor,
    op: str = "add",
    group: ReplicaGrouping | None = None,
    configure_output_for_replicated_tensor_sharding: bool = False,
) -> Tensor:
    """Reduce the flattened tensor; member i of a group gets chunk i.

    Args:
        t: tensor of any shape.
        op: as in `replicated_all_reduce`.
        group: replicas that take part, default all.
        configure_output_for_replicated_tensor_sharding: store the shape of t as meta shape of the result.

    Returns:
        Tensor of shape (ceil(nelms / group size),).
    """
    check_in_graph(get_current_graph(), t=t)
    attributes = _group_attributes(op, group)
    if configure_output_for_replicated_tensor_sharding:
        attributes["meta_shape"] = list(t.shape)
    return emit_one("ReplicatedReduceScatter", {"t": t}, f"{t.name}_reduce_scattered", attributes)


def replica_sharded_slice(t: Tensor, group: ReplicaGrouping | None = None) -> Tensor:
    """Return each replica's own chunk of t, with the meta shape set; see `replicated_reduce_scatter`."""
    check_in_graph(get_current_graph(), t=t)
    attributes = {**_group_attributes("add", group), "op": "Local", "meta_shape": list(t.shape)}
    return emit_one("ReplicatedReduceScatter", {"t": t}, f"{t.name}_sharded_slice", attributes)


def _to_front(t: Tensor, axis: int) -> Tensor:
    return t if axis == 0 else transpose(t, [axis, *(i for i in range(t.rank) if i != axis)])


def _from_front(t: Tensor, axis: int) -> Tensor:
    return t if axis == 0 else transpose(t, [*range(1, axis + 1), 0, *range(axis + 1, t.rank)])


def _divided_axis(what: str, t: Tensor, axis: int, size: int) -> int:
    axis = checked_axis(what, t, axis)
    if t.shape[axis] % size:
        raise ValueError(f"{what}: axis {axis} of size {t.shape[axis]} does not divide by the group size {size}.")
    return axis


def replicated_slice(t: Tensor, axis: int = 0, group: ReplicaGrouping | None = None) -> Tensor:
    """Return each replica's own part of t along an axis; an axis of length 1 is removed.

    Returns:
        Tensor with size / group size along `axis`.

    Raises:
        ValueError: the size of the axis is not a multiple of the group size.
        popart_exception: t has no such axis.
    """
    check_in_graph(get_current_graph(), t=t)
    attributes = {**_group_attributes("add", group), "op": "Local"}
    size = attributes["group_size"]
    axis = _divided_axis("replicated_slice", t, axis, size)
    front = _to_front(t, axis)
    part = emit_one("ReplicatedReduceScatter", {"t": flatten(front)}, f"{t.name}_replicated_slice", attributes)
    shape = (t.shape[axis] // size, *front.shape[1:])
    if shape[0] == 1:
        return reshape(part, shape[1:])
    return _from_front(reshape(part, shape), axis)


def replicated_all_gather(
    t: Tensor, axis: int = 0, group: ReplicaGrouping | None = None, output_shape: str = "auto"
) -> Tensor:
    """Collect the tensors of all replicas of a group.

    Args:
        t: tensor of any shape.
        axis: axis along which they are joined.
        group: replicas that take part, default all.
        output_shape: ``"concat"``, ``"new_axis"``, ``"meta_shape"`` or ``"auto"`` (meta shape if t has one, else
            concat).

    Returns:
        Tensor with size * group size along `axis`, a new axis of the group size, or the meta shape.

    Raises:
        ValueError: unknown output_shape, ``"meta_shape"`` for a tensor without one, or an axis that is not an int.
        popart_exception: the result has no such axis.
    """
    check_in_graph(get_current_graph(), t=t)
    if output_shape not in ("auto", "concat", "new_axis", "meta_shape"):
        raise ValueError(f"output_shape: got {output_shape!r}, expected 'auto', 'concat', 'new_axis' or 'meta_shape'.")
    if not isinstance(axis, int):
        raise ValueError(f"axis: got {axis!r}, expected an int.")
    if output_shape == "auto":
        output_shape = "meta_shape" if t.meta_shape else "concat"
    attributes = {**_group_attributes("add", group), "op": "Local"}
    size, name = attributes["group_size"], f"{t.name}_all_gathered"
    if output_shape == "meta_shape" and not t.meta_shape:
        raise ValueError(f"replicated_all_gather: output_shape: got 'meta_shape', but {t} has none. Use 'concat'.")
    if output_shape == "meta_shape":
        return emit_one("ReplicatedAllGather", {"t": t}, name, {**attributes, "shape": list(t.meta_shape)})
    rank = t.rank + 1 if output_shape == "new_axis" else max(t.rank, 1)
    if not -rank <= axis < rank:
        raise popart_exception(f"replicated_all_gather: axis: got {axis}, expected {-rank} to {rank - 1} for {t}.")
    axis %= rank
    if output_shape == "new_axis":
        gathered = emit_one("ReplicatedAllGather", {"t": flatten(t)}, name, attributes)
        return _from_front(reshape(gathered, (size, *t.shape)), axis)
    front = _to_front(t, axis) if t.rank else flatten(t)
    gathered = emit_one("ReplicatedAllGather", {"t": flatten(front)}, name, attributes)
    return _from_front(reshape(gathered, (size * front.shape[0], *front.shape[1:])), axis)


def replicated_all_to_all(t: Tensor, axis: int = 0, group: ReplicaGrouping | None = None) -> Tensor:
    """Send each replica of a group its part of every member's tensor.

    Part i of t along the axis goes to member i, which joins the parts of all members in their order. The gradient is
    the same exchange in the other direction.

    Args:
        t: tensor with the axis.
        axis: axis along which t is split into one part for each replica of the group, and parts are joined.
        group: replicas that take part, default all.

    Returns:
        Tensor of the shape and dtype of t.

    Raises:
        ValueError: the size of the axis is not a multiple of the group size.
        popart_exception: t has no such axis.
    """
    check_in_graph(get_current_graph(), t=t)
    members = _members(group)
    axis = _divided_axis("replicated_all_to_all", t, axis, members["group_size"])
    return _from_front(emit_one("ReplicatedAllToAll", {"t": _to_front(t, axis)}, f"{t.name}_all_to_all", members), axis)


def replicated_broadcast(t: Tensor, root: int = 0, group: ReplicaGrouping | None = None) -> Tensor:
    """Copy the tensor of one replica to all replicas of its group.

    The gradient of the root's tensor is the sum of all members' gradients; that of other tensors is zero.

    Args:
        t: tensor of any shape.
        root: index of the member in the group.
        group: replicas that take part, default all.

    Returns:
        Tensor of the shape and dtype of t.

    Raises:
        ValueError: root is not a member of the group.
    """
    check_in_graph(get_current_graph(), t=t)
    members = _members(group)
    if not 0 <= root < members["group_size"]:
        raise ValueError(f"replicated_broadcast: root: got {root}, expected 0 to {members['group_size'] - 1}.")
    return emit_one("ReplicatedBroadcast", {"t": t}, f"{t.name}_broadcast", {**members, "root": root})


def _ipu_of(t: Tensor) -> int:
    try:
        return t.ipu
    except UndefinedValue as e:
        raise ValueError(f"all_reduce: the IPU of {t} is unknown. Pass `ipus`.") from e


def _all_reduce(ts: Iterable[Tensor], ipus: list[int] | None, op: str, **hints: int) -> list[Tensor]:
    ts = list(ts)
    named = {f"ts_{i}": t for i, t in enumerate(ts)}
    check_in_graph(get_current_graph(), **named)
    if ipus is not None and len(ipus) != len(ts):
        raise ValueError(f"all_reduce: got {len(ipus)} IPUs for {len(ts)} tensors.")
    attributes = {
        "op": to_collective_op(op),
        "ipus": [_ipu_of(t) for t in ts] if ipus is None else [int(i) for i in ipus],
        **hints,
    }
    names = [f"all_reduce_out_{i}" for i in range(len(ts))]
    return emit("AllReduce", named, names, attributes, same_placement=False)


def all_reduce(ts: Iterable[Tensor], ipus: list[int] | None = None, op: CollectiveOps | str = "add") -> list[Tensor]:
    """Reduce over the IPUs of one replica: tensor i is on IPU i, every result has the reduced value.

    Args:
        ts: tensors of one shape and dtype.
        ipus: IPU of each tensor, default: where it is.
        op: as in `replicated_all_reduce`; only ``"add"`` has a gradient.

    Returns:
        One tensor per input, of its shape and dtype.

    Raises:
        ValueError: unknown operator, an unknown IPU, or the number of IPUs is not that of the tensors.
        popart_exception: shapes or dtypes differ.
    """
    return _all_reduce(ts, ipus, op)


def all_reduce_identical_inputs(
    ts: Iterable[Tensor], ipus: list[int] | None = None, op: CollectiveOps | str = "add"
) -> list[Tensor]:
    """As `all_reduce` for inputs that are equal on all IPUs: the result is the input; gradients are reduced."""
    return _all_reduce(ts, ipus, op, identical_inputs=1)


def all_reduce_identical_grad_inputs(
    ts: Iterable[Tensor], ipus: list[int] | None = None, op: CollectiveOps | str = "add"
) -> list[Tensor]:
    """As `all_reduce`; gradients are equal on all IPUs, and pass unchanged."""
    return _all_reduce(ts, ipus, op, identical_grad_inputs=1)
