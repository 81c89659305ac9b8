"""Case: one use of one operator as data. The checks that follow from it are in run_cases.py."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray
FLOATS = ("float32", "float16", "float64")


def seeded(label: str) -> np.random.Generator:
    """Return a generator whose numbers depend on `label` alone."""
    return np.random.default_rng(zlib.crc32(label.encode()))


def floats(*shape: int, low: float = -2.0, high: float = 2.0) -> Array:
    """Return float32 numbers of `shape` spread over [low, high), no two alike and none near zero or an integer.

    Args:
        shape: Dimension sizes.
        low: Smallest number.
        high: Bound that no number reaches.

    Returns:
        Array of `shape`; the same for the same arguments.
    """
    count = int(np.prod(shape, dtype=np.int64))
    values = low + (high - low) * (np.arange(count) + 0.37) / max(count, 1)
    near = np.abs(values - np.round(values)) < 0.02
    values = np.where(near, values + 0.03, values)
    return seeded(f"{shape}{low}{high}").permutation(values).reshape(shape).astype(np.float32)


def ints(*shape: int, low: int = -5, high: int = 6, dtype: str = "int32") -> Array:
    """Return integers of `shape` in [low, high); the same for the same arguments."""
    return seeded(f"{shape}{low}{high}").integers(low, high, shape).astype(dtype)


def bools(*shape: int) -> Array:
    """Return booleans of `shape`; the same for the same shape."""
    return seeded(f"bools{shape}").integers(0, 2, shape).astype(bool)


@dataclass(frozen=True)
class Case:
    """One use of an operator.

    Attributes:
        type: Operator type in the catalog, for example "Gelu".
        inputs: Input arrays; None is an absent optional input. float32 inputs are converted to each of `dtypes`.
        attributes: Attributes of the op.
        expected: Function of the inputs (float ones as float64) that returns the output array or a tuple of them; None
            among them is not compared. Absent: the forward result is only checked between backends.
        gradients: Inputs whose gradient is checked against finite differences in float64.
        dtypes: Element types the float32 inputs are tried with; empty when there are no float32 inputs.
        outputs: Number of outputs to ask for; -1: all that are not optional.
        refuses: Part of the message with which the case must be refused; nothing else is checked then.
        fails: Part of the message with which every run must end because of the values; nothing else is checked then.
        tolerance: Factor on the tolerance of the element type, with the reason in a comment beside it.
        name: Distinguishes cases of one type in test names.
    """

    type: str
    inputs: Sequence[Array | None] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    expected: Callable[..., Any] | None = None
    gradients: Sequence[int] = ()
    dtypes: Sequence[str] = FLOATS
    outputs: int = -1
    refuses: str | None = None
    fails: str | None = None
    tolerance: float = 1.0
    name: str = ""

    @property
    def label(self) -> str:
        """Name of the case in test reports: type, shapes and attributes, or the name given."""
        if self.name:
            return f"{self.type}-{self.name}"
        shapes = ",".join("-" if a is None else "x".join(map(str, a.shape)) + kind(a) for a in self.inputs)
        attributes = ",".join(
            f"{key}={np.array2string(np.asarray(value), separator=',')}" for key, value in self.attributes.items()
        )
        return f"{self.type}-{shapes}" + (f"-{attributes}" if attributes else "")

    @property
    def types(self) -> tuple[str, ...]:
        """Element types to try: `dtypes`, or one empty text when no input is float32."""
        convertible = any(a is not None and a.dtype == np.float32 for a in self.inputs)
        return tuple(self.dtypes) if convertible else ("",)

    def arrays(self, dtype: str) -> list[Array | None]:
        """Return the inputs with float32 converted to `dtype` (unchanged for the empty text)."""
        return [a.astype(dtype) if a is not None and dtype and a.dtype == np.float32 else a for a in self.inputs]


def kind(array: Array) -> str:
    """Return "" for float32, else a short mark of the element type."""
    return "" if array.dtype == np.float32 else f"({array.dtype})"
