"""Collectives of hosts: operations on NumPy arrays by the instances of a job, or some of them.

Inside `execute_on_instances`, only its instances take part. Each collective first compares the members' calls: the
operation, element type and shape. It raises the same error on all of them if one differs.

In a job of several instances every collective waits for its members, for at most ``POPDIST_TIMEOUT`` seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from popart_core import _popdist

_REDUCTIONS = {str(how.name): how for how in _popdist.Reduction}


def synchronize() -> None:
    """Wait until all instances have called it; returns at once in a plain process.

    Raises:
        ValueError: another instance calls another collective.
        popart_runtime_error: instances do not call it in time (the message names them), or communication has ended.
            All collectives raise it, on all instances.
    """
    _popdist.synchronize(defaultCommunicatorId())


def execute_on_instances(instances: set[int], func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function on some instances; collectives inside are restricted to them. All instances must call it.

    Args:
        instances: their numbers.
        func: the function.
        *args: its arguments.
        **kwargs: its keyword arguments.

    Returns:
        The result of the function; None on other instances.

    Raises:
        ValueError: there are no such instances, or, inside another call, they are not among the instances of that call.
    """
    with _popdist.InstanceScope(list(instances)) as is_member:
        return func(*args, **kwargs) if is_member else None


def defaultCommunicatorId() -> int:
    """Number of the communicator that collectives use by default: all instances, unless it was registered."""
    return _popdist.defaultCommunicatorId()


def registerCommunicator(participants: set[int], communicator_id: int = _popdist.defaultCommunicatorId()) -> None:
    """Register a communicator of some instances. All instances must call it, with the same arguments.

    Args:
        participants: numbers of the instances.
        communicator_id: its number for collectives; replaces an existing communicator.

    Raises:
        ValueError: there are no such instances.
    """
    _popdist.registerCommunicator(list(participants), communicator_id)


def allReduce(array: Any, op: str = "sum", communicator: int | None = None) -> np.ndarray:
    """Combine arrays of all instances element by element. The bits are the same on all of them.

    Sums are those of a balanced binary tree over the members, like sums of gradients over replicas.

    Args:
        array: array of this instance; one element type and shape on all.
        op: ``"sum"``, ``"mean"`` (the sum divided by the number of members), ``"min"`` or ``"max"``.
        communicator: number that `registerCommunicator` was given, default all instances.

    Returns:
        A new array of that shape.

    Raises:
        ValueError: another `op`; calls, types or shapes that differ; an unknown communicator, or one without this
            instance.
        TypeError: elements of the array cannot be combined this way: objects, texts, times; booleans in a sum, complex
            numbers in a minimum or maximum.
    """
    if op not in _REDUCTIONS:
        raise ValueError(f"allReduce: op: got {op!r}, expected one of {', '.join(map(repr, _REDUCTIONS))}.")
    value, number = _numbers(array, f"allReduce '{op}'"), _number(communicator)
    data = _popdist.allReduce(value.tobytes(), _text(value), value.dtype.name, _REDUCTIONS[op], number)
    joined = _array(data, value)
    return np.asarray(joined / _popdist.members(number)) if op == "mean" else joined


def allGather(array: Any, communicator: int | None = None) -> np.ndarray:
    """Stack the arrays of all instances, in member order.

    Args:
        array: array of this instance; one element type and shape on all.
        communicator: number that `registerCommunicator` was given, default all instances.

    Returns:
        An array of shape ``(members, *shape)``.

    Raises:
        ValueError: as `allReduce`.
        TypeError: the array has objects as elements.
    """
    value = _numbers(array, "allGather")
    return np.stack(
        [_array(data, value) for data in _popdist.allGather(value.tobytes(), _text(value), _number(communicator))]
    )


def broadcast(array: Any, root: int = 0, communicator: int | None = None) -> np.ndarray:
    """Send the array of one instance to all instances.

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
    value = _numbers(array, f"broadcast from {root}")
    return _array(_popdist.broadcast(value.tobytes(), _text(value), root, _number(communicator)), value)


def _number(communicator: int | None) -> int:
    return defaultCommunicatorId() if communicator is None else communicator


def _numbers(array: Any, call: str) -> np.ndarray:
    """The array, unless its elements are objects."""
    value = np.asarray(array)
    if value.dtype.hasobject:
        raise TypeError(f"{call}: got an array of {value.dtype}, expected one of numbers.")
    return value


def _text(value: np.ndarray) -> str:
    """Description of an array in messages; members compare it."""
    return f"{value.dtype} {list(value.shape)}"


def _array(data: bytes, like: np.ndarray) -> np.ndarray:
    return np.frombuffer(bytearray(data), like.dtype).reshape(like.shape)
