"""Collectives of the older interface: operators are enumeration members, groups are CommGroup objects."""

from enum import Enum
from typing import Any

import popxl.ops.collectives as _collectives
from popart_core import CommGroup, CommGroupType

from popart.ir.tensor import Tensor


class CollectiveOperator(Enum):
    """How values of replicas are combined."""

    Add = 0
    Mean = 1
    Mul = 2
    Min = 3
    Max = 4
    LogicalAnd = 5
    LogicalOr = 6
    SquareAdd = 7


_NAMES = {
    "Add": "add", "Mean": "mean", "Mul": "mul", "Min": "min", "Max": "max", "LogicalAnd": "and", "LogicalOr": "or",
    "SquareAdd": "square_add",
}  # fmt: skip


def _name(op: CollectiveOperator) -> str:
    if not isinstance(op, CollectiveOperator):
        raise TypeError(f"Collectives: op: got {op!r}, expected a member of CollectiveOperator.")
    return _NAMES[op.name]


def _group(t: Tensor, group: CommGroup | None) -> Any:
    ir = t.ir
    if group is None or group.type == CommGroupType.All:
        return ir.replica_grouping()
    if group.type == CommGroupType.Consecutive:
        return ir.replica_grouping(1, group.replicaGroupSize)
    return ir.replica_grouping(ir.replication_factor // group.replicaGroupSize, group.replicaGroupSize)


def replicated_all_reduce(
    t: Tensor, op: CollectiveOperator = CollectiveOperator.Add, group: CommGroup | None = None
) -> Tensor:
    """Reduce over the replicas of each group; every replica gets the result."""
    return _collectives.replicated_all_reduce(t, _name(op), _group(t, group))


def replicated_all_reduce_(
    t: Tensor, op: CollectiveOperator = CollectiveOperator.Add, group: CommGroup | None = None
) -> Tensor:
    """As `replicated_all_reduce`, replacing t."""
    return _collectives.replicated_all_reduce_(t, _name(op), _group(t, group))


def replicated_reduce_scatter(
    t: Tensor,
    op: CollectiveOperator = CollectiveOperator.Add,
    group: CommGroup | None = None,
    configure_output_for_replicated_tensor_sharding: bool = False,
) -> Tensor:
    """Reduce the flattened tensor; member i of a group gets chunk i."""
    return _collectives.replicated_reduce_scatter(
        t, _name(op), _group(t, group), configure_output_for_replicated_tensor_sharding
    )


def replicated_all_gather(t: Tensor, group: CommGroup | None = None) -> Tensor:
    """Return the flattened tensors of all replicas of a group, one after the other."""
    return _collectives.replicated_all_gather(t.reshape((t.nelms,)), 0, _group(t, group), "concat")


__all__ = [
    "CollectiveOperator",
    "CommGroup",
    "CommGroupType",
    "replicated_all_gather",
    "replicated_all_reduce",
    "replicated_all_reduce_",
    "replicated_reduce_scatter",
]
