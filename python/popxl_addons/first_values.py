"""First values of variables whose shape is known before they are made.

A factory of other values calls its source as a check and again for the first variable (variable_factory.py). Of these
it knows what a call would give, so that random numbers are drawn in the same order, and none is made to be thrown away.
They are made when a variable takes them, in its element type.
"""

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from popart_core import _random

Made = Callable[[Any], np.ndarray]
"""Function of an element type of NumPy that gives the values as a new array of it."""

_FEW = 1 << 14  # random numbers that NumPy draws as fast as the state of its generator is copied


class FirstValues(ABC):
    """A source of first values.

    Args:
        shape: their shape.
        dtype: element type of NumPy that a call gives.
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape, self.dtype = shape, np.dtype(dtype)

    def __call__(self) -> np.ndarray:
        """Return the next values, as a new array."""
        return self.draw(0)(self.dtype)

    @abstractmethod
    def draw(self, skipped: int) -> Made:
        """Take the next values after some others: of as many variables as `skipped` says.

        Raises:
            TypeError, ValueError: as NumPy for a shape that is none.
        """

    def _size(self) -> int:
        """Return the number of values."""
        if self.shape and min(self.shape) < 0:
            raise ValueError(f"negative dimensions are not allowed: got shape {self.shape}")
        return operator.index(math.prod(self.shape))


class Filled(FirstValues):
    """One number everywhere.

    Args:
        shape: shape of the values.
        number: the number.
        dtype: element type of NumPy that a call gives.
    """

    def __init__(self, shape: tuple[int, ...], number: int, dtype: Any) -> None:
        super().__init__(shape, dtype)
        self._number = number

    def draw(self, skipped: int) -> Made:
        """See `FirstValues.draw`."""
        self._size()
        return self._made

    def _made(self, dtype: Any) -> np.ndarray:
        if not self._number:
            return np.zeros(self.shape, dtype)  # memory that takes none until it is written
        result = np.empty(self.shape, dtype)
        result.fill(self._number)
        return result


class CutNormal(FirstValues):
    """Normal numbers, cut at two deviations on both sides.

    They are those of ``scipy.stats.truncnorm.rvs(-2, 2, scale=deviation)`` up to the last bits, from the same random
    numbers of NumPy.

    Args:
        shape: shape of the values.
        deviation: their deviation before the cut.
    """

    def __init__(self, shape: tuple[int, ...], deviation: float) -> None:
        super().__init__(shape, np.float64)
        self._deviation = deviation

    def draw(self, skipped: int) -> Made:
        """See `FirstValues.draw`."""
        size = self._size()
        drawn = None if size <= _FEW else self._draw_many(skipped, size)
        if drawn is None:
            first = skipped * size
            uniform = np.random.random_sample(first + size)[first:]

            def fill(result: np.ndarray) -> None:
                _random.normalOfUniform(uniform, self._deviation, result)
        else:

            def fill(result: np.ndarray) -> None:
                drawn.make(self._deviation, result)

        def made(dtype: Any) -> np.ndarray:
            of_core = dtype in _OF_CORE
            result = np.empty(self.shape, dtype if of_core else np.float64)
            fill(result)
            return result if of_core else result.astype(dtype)

        return made

    def _draw_many(self, skipped: int, size: int) -> Any:
        """Draw numbers that are made later; None where NumPy's functions have another generator than MT19937."""
        generator = getattr(np.random, "get_bit_generator", lambda: None)()  # since NumPy 1.24
        if not isinstance(generator, np.random.MT19937):
            return None
        with generator.lock:
            state = generator.state
            words = state["state"]
            drawn, words["pos"] = _random.drawNormal(words["key"], words["pos"], skipped * size, size)
            generator.state = state
        return drawn


_OF_CORE = (np.dtype(np.float32), np.dtype(np.float64))
