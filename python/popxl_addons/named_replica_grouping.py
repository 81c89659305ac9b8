"""Trees of replica groupings, and the parts of a grouping inside one process or inside one link domain."""

import json
import logging
import os
from collections.abc import Iterable
from functools import cache

import popxl
from popxl.context import _CURRENT_CONTEXT

from popxl_addons.dot_tree import DotTree

_LINK_DOMAIN = 64  # default number of IPUs


class NamedReplicaGrouping(DotTree[popxl.ReplicaGrouping]):
    """Tree of replica groupings."""

    @classmethod
    def build_groups(cls, names: Iterable[str], value: popxl.ReplicaGrouping) -> "NamedReplicaGrouping":
        """Return the same grouping for every name."""
        return cls.from_dict({name: value for name in names})


def fill_none_group(
    rg: popxl.ReplicaGrouping | None, none_value: popxl.ReplicaGrouping | None = None
) -> popxl.ReplicaGrouping:
    """Return `rg`; if it is None, `none_value`; if that is None too, the grouping of all replicas of the Ir."""
    rg = none_value if rg is None else rg
    return _CURRENT_CONTEXT.ir.replica_grouping() if rg is None else rg


def is_cross_instance(rg: popxl.ReplicaGrouping) -> bool:
    """Whether groups extend over more than one process."""
    return rg.group_size * rg.stride > popxl.gir().instance_replication_factor


def get_instance_replica_grouping(rg: popxl.ReplicaGrouping | None = None) -> popxl.ReplicaGrouping:
    """Return the part of a grouping that is inside one process.

    Args:
        rg: the grouping, default all replicas.

    Returns:
        The grouping itself, or one of the same stride with smaller groups. For a grouping without constant stride, the
        grouping with a constant stride whose groups add up to its groups.

    Raises:
        ValueError: the stride is larger than a process, or processes are grouped differently.
    """
    return _inside(fill_none_group(rg), popxl.gir().instance_replication_factor, "replicas of one process")


def get_ild_size_from_popdist() -> int:
    """Return the size of a link domain: ``ipuLinkDomainSize`` of POPLAR_TARGET_OPTIONS, else at most 64."""
    options = json.loads(os.environ.get("POPLAR_TARGET_OPTIONS") or "{}")
    if "ipuLinkDomainSize" in options:
        return int(options["ipuLinkDomainSize"])
    if "POPDIST_NUM_TOTAL_REPLICAS" in os.environ:
        _warn_once()
    return min(popxl.gir().replication_factor, _LINK_DOMAIN)


def get_ild_replica_grouping(rg: popxl.ReplicaGrouping | None = None) -> popxl.ReplicaGrouping:
    """Return the part of a grouping that is inside one link domain; as `get_instance_replica_grouping`.

    Args:
        rg: the grouping, default all replicas.

    Returns:
        The part.

    Raises:
        ValueError: the stride is not below the size of the domain, or domains are grouped differently.
    """
    rg, size = fill_none_group(rg), get_ild_size_from_popdist()
    if rg.is_const and rg.stride >= size and rg.group_size > 1:
        raise ValueError(f"{rg}: stride: got {rg.stride}, expected less than {size} (replicas of one link domain).")
    return _inside(rg, size, "replicas of one link domain")


def is_cross_ild(rg: popxl.ReplicaGrouping) -> bool:
    """Whether groups extend over more than one link domain."""
    return rg.group_size * rg.stride > get_ild_size_from_popdist()


def _inside(rg: popxl.ReplicaGrouping, size: int, what: str) -> popxl.ReplicaGrouping:
    if rg.is_const:
        if rg.stride > size:
            raise ValueError(f"{rg}: stride: got {rg.stride}, expected at most {size} ({what}).")
        if rg.group_size * rg.stride <= size:
            return rg
        return popxl.gir().replica_grouping(rg.stride, size // rg.stride)
    parts = [rg.assignment[i : i + size] for i in range(0, len(rg.assignment), size)]
    if any([g - min(part) for g in part] != [g - min(parts[0]) for g in parts[0]] for part in parts):
        raise ValueError(f"{rg}: the assignment must repeat for every {size} {what}: got {rg.assignment}.")
    return rg.const_rg


@cache
def _warn_once() -> None:
    logging.warning("POPLAR_TARGET_OPTIONS does not state ipuLinkDomainSize; taking at most %s.", _LINK_DOMAIN)
