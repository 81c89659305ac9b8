"""Initial values of the variables of layers, and values taken from PyTorch's layers.

Sources have no state, so layers of equal size share one.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import popxl
from popxl.utils import to_numpy

from popxl_addons.first_values import CutNormal, Filled, FirstValues
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.utils import WeightsDict


@cache
def normal(*shape: int) -> FirstValues:
    """Return a source of normal numbers with standard deviation 0.02, truncated at two deviations."""
    return CutNormal(shape, 0.02)


@cache
def ones(*shape: int) -> FirstValues:
    """Return a source of ones."""
    return Filled(shape, 1, np.float64)


@cache
def zeros(*shape: int, dtype: Any = np.float32) -> FirstValues:
    """Return a source of zeros."""
    return Filled(shape, 0, dtype)


def torch_weights(
    variables: NamedTensors, dtype: popxl.dtype, change: Callable[[str, Any], Any], **parameters: Any
) -> WeightsDict:
    """Return the arrays of parameters of a PyTorch layer by variable.

    Args:
        variables: variables of our layer; parameters without a variable of the same name are ignored.
        dtype: element type of the variables.
        change: function of name and array that converts an array to the form of our layer.
        **parameters: parameters by name; None: the layer has none.

    Returns:
        Variable → array.

    Raises:
        ValueError: the shape or dtype is not that of the variable.
    """
    found = {name: p for name, p in parameters.items() if name in variables and p is not None}
    return WeightsDict({variables[name]: change(name, to_numpy(p.detach(), dtype)) for name, p in found.items()})
