"""First values of the variables of layers, and values taken from PyTorch's layers."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import prod
from typing import Any

import numpy as np
import popxl
from popxl.utils import to_numpy
from scipy.special import ndtr, ndtri

from popxl_addons.named_tensors import NamedTensors
from popxl_addons.utils import WeightsDict

_DEVIATION, _CUT = 0.02, 2.0
_BELOW = float(ndtr(-_CUT))
_PIECE = 1 << 14  # elements that stay in a core's cache
_SHARE = 1 << 18  # elements of a thread at a time


class _Normal:
    """Normal numbers of a shape, cut on both sides.

    They are those of ``scipy.stats.truncnorm.rvs(-2, 2, scale=0.02)`` up to the last bit, from the same random numbers
    of NumPy, without its many passes over logarithms of probabilities. The numbers are drawn in order; threads turn
    them into normal ones.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape

    def __call__(self) -> np.ndarray:
        result = np.empty(self._shape)
        flat = result.reshape(-1)
        if flat.size <= _SHARE:
            self._draw(flat)
            self._shape_normally(flat)
            return result
        shares = [flat[start : start + _SHARE] for start in range(0, flat.size, _SHARE)]
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
            done = []
            for share in shares:
                self._draw(share)
                done.append(threads.submit(self._shape_normally, share))
        for share_done in done:
            share_done.result()
        return result

    @staticmethod
    def _draw(share: np.ndarray) -> None:
        """Equally distributed numbers from 0 to 1."""
        for start in range(0, share.size, _PIECE):
            piece = share[start : start + _PIECE]
            piece[:] = np.random.random_sample(piece.size)

    @staticmethod
    def _shape_normally(share: np.ndarray) -> None:
        """Numbers from 0 to 1 → the normal numbers with as much probability below them."""
        for start in range(0, share.size, _PIECE):
            piece = share[start : start + _PIECE]
            piece *= 1 - 2 * _BELOW
            piece += _BELOW
            ndtri(piece, out=piece)
            piece *= _DEVIATION

    def skip(self) -> None:
        """Draw and forget: the next numbers are those after a call."""
        for start in range(0, size := prod(self._shape), _PIECE):
            np.random.random_sample(min(_PIECE, size - start))


def normal(*shape: int) -> Callable[[], np.ndarray]:
    """Return a source of normal numbers with deviation 0.02, cut at two deviations."""
    return _Normal(shape)


def ones(*shape: int) -> Callable[[], np.ndarray]:
    """Return a source of ones."""
    return partial(np.ones, shape)


def zeros(*shape: int, dtype: Any = np.float32) -> Callable[[], np.ndarray]:
    """Return a source of zeros."""
    return partial(np.zeros, shape, dtype)


def torch_weights(
    variables: NamedTensors, dtype: popxl.dtype, change: Callable[[str, Any], Any], **parameters: Any
) -> WeightsDict:
    """Return the arrays of parameters of a PyTorch layer by variable.

    Args:
        variables: variables of our layer; a parameter without one of its name is left out.
        dtype: element type of the variables.
        change: name and array → array of the form that our layer has.
        **parameters: parameters by name; None: the layer has none.

    Returns:
        Variable → array.

    Raises:
        ValueError: shape or dtype are not those of the variable.
    """
    found = {name: p for name, p in parameters.items() if name in variables and p is not None}
    return WeightsDict({variables[name]: change(name, to_numpy(p.detach(), dtype)) for name, p in found.items()})
