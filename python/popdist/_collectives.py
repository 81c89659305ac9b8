"""Collectives of hosts: what the instances of a job, or some of them, do together on NumPy arrays.

Inside `execute_on_instances` they are those of its instances. Each collective first compares what the members called
and with which element type and shape, and raises the same error on all of them when one differs.

In a job of several instances every collective waits for its members, for at most ``POPDIST_TIMEOUT`` seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any

import numpy as np

from popdist._backend import Group, world

_DEFAULT_COMMUNICATOR = 0
_REDUCTIONS = {"sum": np.add, "mean": np.add, "min": np.minimum, "max": np.maximum}

_narrowed: ContextVar[Group | None] = ContextVar("_narrowed", default=None)  # inside execute_on_instances


def synchronize() -> None:
    """Wait until all instances have called it; returns at once in a plain process.

    Raises:
        ValueError: another instance calls another collective.
        popart_runtime_error: instances do not come in time, which the message names, or communication has ended. All
            collectives raise it, on all instances.
    """
    _agree(_group(None), "synchronize")


def execute_on_instances(instances: set[int], func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function on some instances; collectives inside are restricted to them. All instances call it.

    Args:
        instances: their numbers.
        func: the function.
        *args: its arguments.
        **kwargs: its keyword arguments.

    Returns:
        What the function returns; None on other instances.

    Raises:
        ValueError: there are no such instances, or, inside another call, they are not among those of that one.
    """
    group = _subset(_group(None), instances, "execute_on_instances: instances")
    if group is None:
        return None
    token = _narrowed.set(group)
    try:
        return func(*args, **kwargs)
    finally:
        _narrowed.reset(token)


def defaultCommunicatorId() -> int:
    """Number of the communicator that collectives use when none is named: all instances, unless it was registered."""
    return _DEFAULT_COMMUNICATOR


def registerCommunicator(participants: set[int], communicator_id: int = _DEFAULT_COMMUNICATOR) -> None:
    """Give some instances a number that collectives can name. All instances call it, with the same arguments.

    Args:
        participants: numbers of the instances.
        communicator_id: the number; one that is registered is replaced.

    Raises:
        ValueError: there are no such instances.
    """
    group = world()
    group.named[communicator_id] = _subset(group, participants, "registerCommunicator: participants")


def allReduce(array: Any, op: str = "sum", communicator: int | None = None) -> np.ndarray:
    """Join arrays of all instances, element by element. Bits are the same on all of them.

    Sums are those of a balanced binary tree over the members, as gradients of replicas are summed.

    Args:
        array: array of this instance; one element type and shape on all.
        op: ``"sum"``, ``"mean"`` (the sum divided by the number of members), ``"min"`` or ``"max"``.
        communicator: number that `registerCommunicator` was given, default all instances.

    Returns:
        A new array of that shape.

    Raises:
        ValueError: another `op`; calls, types or shapes that differ; an unknown communicator, or one without this
            instance.
        TypeError: the array has objects as elements, or a sum of booleans is asked for.
    """
    if op not in _REDUCTIONS:
        raise ValueError(f"allReduce: op: got {op!r}, expected one of {', '.join(map(repr, _REDUCTIONS))}.")
    group, value = _agreed(communicator, array, f"allReduce '{op}'")
    if value.dtype == bool and op in ("sum", "mean"):
        raise TypeError(f"allReduce: got booleans for '{op}', expected numbers. Use 'min' or 'max', or convert them.")
    joined = group.communicator.reduce(value, _REDUCTIONS[op], f"allReduce '{op}'")
    return np.asarray(joined / group.communicator.size) if op == "mean" else joined


def allGather(array: Any, communicator: int | None = None) -> np.ndarray:
    """Put the arrays of all instances together, in member order.

    Args:
        array: array of this instance; one element type and shape on all.
        communicator: number that `registerCommunicator` was given, default all instances.

    Returns:
        An array of shape ``(members, *shape)``.

    Raises:
        ValueError: as `allReduce`.
        TypeError: the array has objects as elements.
    """
    group, value = _agreed(communicator, array, "allGather")
    return np.stack([_array(data, value) for data in group.communicator.gather(value.tobytes(), "allGather")])


def broadcast(array: Any, root: int = 0, communicator: int | None = None) -> np.ndarray:
    """Give all instances the array of one.

    Args:
        array: array of this instance; one element type and shape on all.
        root: number of the member whose array it is, in member order.
        communicator: number that `registerCommunicator` was given, default all instances.

    Returns:
        A new array.

    Raises:
        ValueError: as `allReduce`; or there is no member `root`.
        TypeError: the array has objects as elements.
    """
    group, value = _agreed(communicator, array, f"broadcast from {root}")
    if not 0 <= root < len(group.members):
        raise ValueError(f"broadcast: root: got {root}, expected a member of 0 to {len(group.members) - 1}.")
    return _array(group.communicator.broadcast(value.tobytes(), root, f"broadcast from {root}"), value)


def _group(communicator: int | None) -> Group:
    """The instances that a collective is for."""
    narrowed = _narrowed.get()
    around = narrowed or world()
    number = _DEFAULT_COMMUNICATOR if communicator is None else communicator
    if number == _DEFAULT_COMMUNICATOR and (narrowed is not None or number not in around.named):
        return around
    if number not in around.named:
        known = ", ".join(map(str, sorted({_DEFAULT_COMMUNICATOR, *around.named})))
        raise ValueError(f"communicator: got {number}, expected one that is registered: {known}.")
    group = around.named[number]
    if group is None:
        raise ValueError(f"communicator: got {number}, which this instance is not a member of.")
    if not set(group.members) <= set(around.members):
        raise ValueError(
            f"communicator: got {number} of instances {list(group.members)}, expected some of the instances "
            f"{list(around.members)} of execute_on_instances."
        )
    return group


def _subset(group: Group, instances: Iterable[int], what: str) -> Group | None:
    """Some instances of a group; None when this one is not among them."""
    wanted = sorted(set(instances))
    if not wanted or not set(wanted) <= set(group.members):
        raise ValueError(f"{what}: got {wanted}, expected some of {list(group.members)}.")
    communicator = group.communicator.subset([group.members.index(instance) for instance in wanted])
    return None if communicator is None else Group(communicator, tuple(wanted), group.named)


def _agreed(communicator: int | None, array: Any, call: str) -> tuple[Group, np.ndarray]:
    """The group, and this instance's array, when all members make the same call."""
    group, value = _group(communicator), np.asarray(array)
    if value.dtype.hasobject:
        raise TypeError(f"{call}: got an array of {value.dtype}, expected one of numbers.")
    _agree(group, f"{call} of {value.dtype} {list(value.shape)}")
    return group, value


def _agree(group: Group, mine: str) -> None:
    """Compare what the members call."""
    calls = [text.decode() for text in group.communicator.gather(mine.encode(), mine)]
    for instance, other in zip(group.members, calls):
        if other != calls[0]:
            raise ValueError(
                f"Instance {instance} calls {other}, but instance {group.members[0]} calls {calls[0]}. Call the same "
                "collectives in the same order, with arrays of one type and shape."
            )


def _array(data: bytes, like: np.ndarray) -> np.ndarray:
    return np.frombuffer(bytearray(data), like.dtype).reshape(like.shape)
