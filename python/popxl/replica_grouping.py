"""ReplicaGrouping: groups of replicas. It is fixed when it is made, from the replication factor of the Ir.

A grouping with a constant stride is described by (stride, group_size); any other one by its assignment list. Invariant:
`assignment[r]` is the group of replica r, groups are numbered by first appearance.
"""

import itertools
from math import gcd
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from popxl.ir import Ir


def _regular_assignment(replicas: int, stride: int, group_size: int) -> list[int]:
    return [(r % stride) + stride * (r // (stride * group_size)) for r in range(replicas)]


def _renumber(labels: list[int]) -> list[int]:
    order: dict = {}
    return [order.setdefault(label, len(order)) for label in labels]


def _members(assignment: list[int]) -> list[list[int]]:
    groups: list[list[int]] = [[] for _ in range(max(assignment) + 1)]
    for replica, group in enumerate(assignment):
        groups[group].append(replica)
    return groups


class ReplicaGrouping:
    """Groups of replicas; made by `Ir.replica_grouping` and `Ir.replica_grouping_from_assignments` only."""

    __hash__ = None

    def __init__(self) -> None:
        raise RuntimeError("Cannot create a ReplicaGrouping directly; use Ir.replica_grouping.")

    @classmethod
    def _make(cls, ir: "Ir", assignment: list[int], stride: int | None, group_size: int) -> "ReplicaGrouping":
        self = object.__new__(cls)
        self._ir = ir
        self._assignment = assignment
        self._stride = stride
        self._group_size = group_size
        self._num_groups = len(assignment) // group_size
        self._fills_replicas = stride is None or len(assignment) % (stride * group_size) == 0
        return self

    @classmethod
    def _regular(cls, ir: "Ir", stride: int, group_size: int | None) -> "ReplicaGrouping":
        replicas = ir.replication_factor
        if not 1 <= stride <= replicas:
            raise ValueError(f"stride: got {stride}, expected 1 to {replicas} (the replication factor).")
        if replicas % stride:
            raise ValueError(f"stride: got {stride}, expected a divisor of {replicas} (the replication factor).")
        group_size = replicas // stride if group_size is None else group_size
        if not 1 <= group_size <= replicas:
            raise ValueError(f"group_size: got {group_size}, expected 1 to {replicas} (the replication factor).")
        stride = 1 if group_size == 1 else stride
        return cls._make(ir, _regular_assignment(replicas, stride, group_size), stride, group_size)

    @classmethod
    def _from_assignment(cls, ir: "Ir", assignment: list[int]) -> "ReplicaGrouping":
        assignment = list(assignment)
        replicas = ir.replication_factor
        if len(assignment) != replicas:
            raise ValueError(
                f"assignment: got {len(assignment)} entries, expected {replicas} (the replication factor)."
            )
        if set(assignment) != set(range(len(set(assignment)))):
            raise ValueError(f"assignment: groups must be numbered 0, 1, …: got {assignment}.")
        if _renumber(assignment) != assignment:
            raise ValueError(f"assignment: groups must be numbered in order of first appearance: got {assignment}.")
        members = _members(assignment)
        sizes = {len(m) for m in members}
        if len(sizes) != 1:
            raise ValueError(f"assignment: groups must have equal size: got sizes {[len(m) for m in members]}.")
        size = sizes.pop()
        gaps = {b - a for m in members for a, b in itertools.pairwise(m)}
        if len(gaps) <= 1:
            stride = gaps.pop() if gaps else 1
            if _regular_assignment(replicas, stride, size) == assignment:
                return cls._make(ir, assignment, stride, size)
        return cls._make(ir, assignment, None, size)

    def _require_whole_groups(self) -> None:
        """Check that the groups fill the replicas.

        Raises:
            ValueError: stride and group size leave a group incomplete.
        """
        if not self._fills_replicas:
            raise ValueError(
                f"{self}: stride times group size must divide the replication factor {len(self._assignment)}: got "
                f"{self._stride * self._group_size}."
            )

    @property
    def stride(self) -> int:
        """Distance between neighbours in a group.

        Raises:
            NotImplementedError: the grouping has no constant stride.
        """
        if self._stride is None:
            raise NotImplementedError(f"{self} has no constant stride.")
        return self._stride

    @property
    def group_size(self) -> int:
        """Replicas per group."""
        return self._group_size

    @property
    def num_groups(self) -> int:
        """Number of groups."""
        return self._num_groups

    @property
    def assignment(self) -> list[int]:
        """Group number of each replica."""
        return list(self._assignment)

    @property
    def is_const(self) -> bool:
        """Whether the grouping has a constant stride."""
        return self._stride is not None

    @property
    def const_rg(self) -> "ReplicaGrouping":
        """The grouping itself, or a grouping with a constant stride whose groups add up to its groups."""
        if self._stride is not None:
            return self
        members = _members(self._assignment)
        stride = min(b - a for m in members for a, b in itertools.pairwise(m))
        runs: list[list[int]] = []
        for m in members:
            runs.append([m[0]])
            for a, b in itertools.pairwise(m):
                runs[-1].append(b) if b - a == stride else runs.append([b])
        size = 0
        for run in runs:
            size = gcd(size, len(run))
        return ReplicaGrouping._regular(self._ir, 1 if size == 1 else stride, size)

    @property
    def to_device_map(self) -> list[int] | None:
        """For each group of `const_rg` in order of appearance, the user's group of that replica; None when constant."""
        return None if self.is_const else self._map(self.const_rg._assignment, self._assignment)

    @property
    def to_host_map(self) -> list[int] | None:
        """For each user's group in order of appearance, the group of `const_rg` of that replica; None when constant."""
        return None if self.is_const else self._map(self._assignment, self.const_rg._assignment)

    @staticmethod
    def _map(keys: list[int], values: list[int]) -> list[int]:
        result: dict = {}
        for key, value in zip(keys, values):
            result.setdefault(key, value)
        return list(result.values())

    def transpose(self) -> "ReplicaGrouping":
        """Return the grouping whose group i holds the i-th member of every group."""
        replicas = len(self._assignment)
        if self._stride is not None and (self._stride == 1 or self._stride * self._group_size == replicas):
            return ReplicaGrouping._regular(self._ir, self._group_size if self._stride == 1 else 1, self.num_groups)
        labels = [0] * replicas
        for m in _members(self._assignment):
            for position, replica in enumerate(m):
                labels[replica] = position
        return ReplicaGrouping._from_assignment(self._ir, _renumber(labels))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ReplicaGrouping):
            raise TypeError(
                f"A ReplicaGrouping can only be compared with a ReplicaGrouping: got {type(other).__name__}."
            )
        return self._ir == other._ir and self._assignment == other._assignment

    def __repr__(self) -> str:
        if self._stride is None:
            return f"ReplicaGrouping(assignment={self._assignment})"
        return (
            f"ReplicaGrouping(num_replicas={len(self._assignment)}, stride={self._stride}, "
            f"group_size={self._group_size}, num_groups={self.num_groups})"
        )
