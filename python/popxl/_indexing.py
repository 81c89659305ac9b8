"""Tensor indexing: integers and slices become slice, subsample and squeeze; tensors become gather or where."""

from typing import Any

import numpy as np

import popxl.ops as ops
from popxl._operators import operators
from popxl.tensor import Tensor, _is_torch, constant


def get_item(t: Tensor, key: Any) -> Tensor:
    """Return ``t[key]`` (`Tensor.__getitem__`)."""
    if isinstance(key, (bool, np.bool_, str)) or key is None or key is Ellipsis:
        raise TypeError(f"A tensor cannot be indexed with {key!r} of type {type(key).__name__}.")
    if isinstance(key, (int, np.integer, slice)):
        return _slices(t, (key,))
    if isinstance(key, tuple) and all(isinstance(k, (int, np.integer, slice)) and not isinstance(k, bool) for k in key):
        return _slices(t, key)
    if isinstance(key, (Tensor, np.ndarray, list)) or _is_torch(key):
        return _by_tensor(t, key)
    raise TypeError(f"A tensor cannot be indexed with a {type(key).__name__}: use integers, slices, or a tensor.")


def _slices(t: Tensor, key: tuple) -> Tensor:
    if len(key) > t.rank:
        raise ValueError(f"Too many indices for {t}: got {len(key)}, expected at most {t.rank}.")
    starts: list[int | None] = []
    stops: list[int | None] = []
    steps: list[int | None] = []
    strides: list[int] = []
    removed: list[int] = []
    for axis, k in enumerate(key):
        if isinstance(k, slice):
            step = 1 if k.step is None else k.step
            if step == 0:
                raise ValueError("The step of a slice cannot be 0.")
            starts.append(k.start), stops.append(k.stop), steps.append(1 if step > 0 else -1)
            strides.append(abs(step))
        else:
            size = t.shape[axis]
            if not -size <= k < size:
                raise IndexError(f"Index {k} is out of range for axis {axis} of {t}.")
            start = int(k) + (size if k < 0 else 0)
            starts.append(start), stops.append(start + 1), steps.append(1), strides.append(1)
            removed.append(axis)
    out = ops.slice(t, starts, stops, steps)
    if any(s != 1 for s in strides):
        out = ops.subsample(out, strides)
    return ops.squeeze(out, removed) if removed else out


def _by_tensor(t: Tensor, key: Any) -> Tensor:
    if not isinstance(key, Tensor):
        key = constant(key)
    if key.dtype.is_int:
        return ops.gather(t, key)
    if key.dtype.name == "bool":
        return ops.where(key, t, constant(0, t.dtype))
    raise TypeError(f"A tensor can be indexed with integers or booleans: got {key.dtype}.")


operators.get_item = get_item
