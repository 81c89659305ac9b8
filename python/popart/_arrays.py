"""Arrays of other libraries as NumPy's, without a copy where NumPy can use their memory."""

from typing import Any

import numpy as np


def as_array(value: Any) -> np.ndarray:
    """A NumPy array of anything that is one: of NumPy, PyTorch, with ``__array__``, DLPack, or nested lists of numbers.

    Returns:
        The same memory, except for lists, ``__array__`` that copies, and memory of other devices.
    """
    if type(value) is np.ndarray:
        return value
    if hasattr(type(value), "__dlpack__"):
        if getattr(value, "requires_grad", False):
            value = value.detach()  # PyTorch lends no memory of tensors that need a gradient
        if not hasattr(type(value), "__array__"):
            return np.from_dlpack(value)
    return np.asarray(value)
