"""PyTorch functions as oracles of operator cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch


def with_torch(function: Callable[..., Any], **arguments: Any) -> Callable[..., Any]:
    """Return the NumPy form of a function of tensors.

    Args:
        function: Takes tensors (None stays None), returns a tensor or a tuple of tensors and None.
        arguments: Keyword arguments for every call.

    Returns:
        Function of arrays that returns an array or a tuple of arrays and None.
    """

    def run(*arrays: np.ndarray | None) -> Any:
        tensors = [None if a is None else torch.from_numpy(np.array(a, order="C")) for a in arrays]
        result = function(*tensors, **arguments)
        if isinstance(result, tuple):
            return tuple(None if r is None else r.detach().numpy() for r in result)
        return result.detach().numpy()

    return run
