"""Initial values of variables whose shape is known before the values are computed.

A factory calls other sources once as a check, and again for the first variable (variable_factory.py). For these sources
it knows which random numbers the check would use. It skips them, so that variables get the same numbers, and no values
are computed only to be discarded. Values are computed when a variable takes them, in its element type.
"""

import math
import operator
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from popart_core import _random

_FEW = 1 << 14  # below this, drawing is faster than copying the generator's state


class Drawn(Protocol):
    """Values whose random numbers are reserved and that are not computed yet."""

    def make(self, dtype: Any) -> np.ndarray:
        """Return the values as a new array of an element type of NumPy."""
        ...


class FirstValues:
    """A source of initial values.

    Attributes:
        shape: their shape.
        dtype: NumPy element type of the result of a call.
    """

    shape: tuple[int, ...]
    dtype: np.dtype

    def __call__(self) -> np.ndarray:
        """Return the next values, as a new array."""
        return self.draw(0).make(self.dtype)

    def draw(self, skipped: int) -> Drawn:
        """Take the next values, after those of `skipped` variables. Sources override this.

        Raises:
            TypeError, ValueError: as NumPy, for an invalid shape.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `draw`.")

    @cached_property
    def _size(self) -> int:
        """The number of values."""
        if self.shape and min(self.shape) < 0:
            raise ValueError(f"negative dimensions are not allowed: got shape {self.shape}")
        return operator.index(math.prod(self.shape))


class Filled(FirstValues):
    """One number everywhere.

    Args:
        shape: shape of the values.
        number: the number.
        dtype: NumPy element type of the result of a call.
    """

    def __init__(self, shape: tuple[int, ...], number: int, dtype: Any) -> None:
        self.shape, self.dtype, self._number = shape, np.dtype(dtype), number

    def draw(self, skipped: int) -> Drawn:
        """See `FirstValues.draw`."""
        _ = self._size  # raises for an invalid shape
        return self

    def make(self, dtype: Any) -> np.ndarray:
        """See `Drawn.make`."""
        if not self._number:
            return np.zeros(self.shape, dtype)  # costs no memory until it is written
        result = np.empty(self.shape, dtype)
        result.fill(self._number)
        return result


class CutNormal(FirstValues):
    """Normal numbers, truncated at two standard deviations on both sides.

    They equal ``scipy.stats.truncnorm.rvs(-2, 2, scale=deviation)`` up to the last bits, computed from the same random
    numbers of NumPy.

    Args:
        shape: shape of the values.
        deviation: their standard deviation before truncation.
    """

    def __init__(self, shape: tuple[int, ...], deviation: float) -> None:
        self.shape, self.dtype, self._deviation = shape, _DOUBLE, deviation

    def draw(self, skipped: int) -> Drawn:
        """See `FirstValues.draw`."""
        size = self._size
        drawn = None if size <= _FEW else self._draw_many(skipped, size)
        if drawn is None:
            first = skipped * size
            drawn = np.random.random_sample(first + size)[first:]
        return _DrawnNormal(self.shape, self._deviation, drawn)

    def _draw_many(self, skipped: int, size: int) -> Any:
        """Reserve numbers that are computed later; None if NumPy's generator is not MT19937."""
        generator = getattr(np.random, "get_bit_generator", lambda: None)()  # since NumPy 1.24
        if not isinstance(generator, np.random.MT19937):
            return None
        with generator.lock:
            state = generator.state
            words = state["state"]
            drawn, words["pos"] = _random.drawNormal(words["key"], words["pos"], skipped * size, size)
            generator.state = state
        return drawn


class _DrawnNormal:
    """Normal numbers, stored as the uniform numbers from which they are computed, or as numbers of the core."""

    __slots__ = ("_deviation", "_drawn", "_shape")

    def __init__(self, shape: tuple[int, ...], deviation: float, drawn: Any) -> None:
        self._shape, self._deviation, self._drawn = shape, deviation, drawn

    def make(self, dtype: Any) -> np.ndarray:
        of_core = dtype in _OF_CORE
        result = np.empty(self._shape, dtype if of_core else _DOUBLE)
        if isinstance(self._drawn, np.ndarray):
            _random.normalOfUniform(self._drawn, self._deviation, result)
        else:
            self._drawn.make(self._deviation, result)
        return result if of_core else result.astype(dtype)


_DOUBLE = np.dtype(np.float64)
_OF_CORE = (np.dtype(np.float32), _DOUBLE)
