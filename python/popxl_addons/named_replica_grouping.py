"""Trees of replica groupings."""

from typing import Iterable, Optional

import popxl
from popxl_addons.dot_tree import DotTree


class NamedReplicaGrouping(DotTree[popxl.ReplicaGrouping]):
    """Tree of replica groupings."""

    @classmethod
    def build_groups(cls, names: Iterable[str], value: popxl.ReplicaGrouping) -> "NamedReplicaGrouping":
        """Return the same grouping for every name."""
        return cls.from_dict({name: value for name in names})


def fill_none_group(group: Optional[popxl.ReplicaGrouping]) -> popxl.ReplicaGrouping:
    """Return `group`, or the grouping of all replicas of the current Ir."""
    return popxl.gcg().ir.replica_grouping() if group is None else group
