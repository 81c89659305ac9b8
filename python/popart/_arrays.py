"""Conversion of arrays of other libraries to NumPy's, if possible without a copy; shapes as Python integers."""

import operator
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np


def as_array(value: Any) -> np.ndarray:
    """Convert a value to a NumPy array: NumPy, PyTorch, ``__array__``, DLPack, or nested lists of numbers.

    Returns:
        An array in the same memory, except for lists, an ``__array__`` that copies, and memory of other devices.
    """
    if type(value) is np.ndarray:
        return value
    if hasattr(type(value), "__dlpack__"):
        if getattr(value, "requires_grad", False):
            value = value.detach()  # PyTorch refuses to share memory of tensors that need a gradient
        if not hasattr(type(value), "__array__"):
            return np.from_dlpack(value)
    return np.asarray(value)


def as_input(value: Any) -> np.ndarray:
    """Convert a value as `as_array` does; bfloat16 of PyTorch, which NumPy does not have, becomes float32.

    Returns:
        The array.
    """
    return as_array(value.float() if str(getattr(value, "dtype", "")) == "torch.bfloat16" else value)


def as_shape(shape: Iterable[int], what: str) -> tuple[int, ...]:
    """Dimension sizes as Python's integers.

    Args:
        shape: Integers of any kind, such as those of NumPy or ``torch.Size``.
        what: Whose shape it is, for the message.

    Returns:
        The sizes.

    Raises:
        TypeError: `shape` is not a list of sizes, or a size is not an integer; a float is never an integer.
    """
    try:
        return tuple(map(operator.index, shape))
    except TypeError:
        raise TypeError(
            f"{what}: the shape has sizes that are not integers: got {shape!r}. Convert the sizes with int()"
        ) from None


def require_apart(arrays: Mapping[str, np.ndarray], what: str) -> None:
    """Check that no two elements of the arrays that a run fills share memory, in one array or in two.

    Args:
        arrays: The arrays by name.
        what: The name of the caller, for the message.

    Raises:
        ValueError: Elements share memory.
    """
    spans = []
    for name, array in arrays.items():
        if array.size == 0:
            continue
        steps = [(abs(stride), size - 1) for stride, size in zip(array.strides, array.shape, strict=True) if size > 1]
        reach = array.itemsize
        for step, count in sorted(steps):
            if step < reach:
                raise ValueError(
                    f"{what} '{name}': elements of the array share memory: got strides {array.strides} for shape "
                    f"{array.shape}. Give an array with memory for each element"
                )
            reach += step * count
        before = sum(stride * (size - 1) for stride, size in zip(array.strides, array.shape, strict=True) if stride < 0)
        first = array.__array_interface__["data"][0] + before
        spans.append((first, first + reach, name, array))
    spans.sort(key=lambda span: span[0])
    for i, (_, end, name, array) in enumerate(spans):
        for first, _, other, second in spans[i + 1 :]:
            if first >= end:
                break
            if np.shares_memory(array, second):
                raise ValueError(
                    f"{what} '{name}': its array shares memory with that of '{other}': one would overwrite the other. "
                    "Give each an array of its own"
                )
