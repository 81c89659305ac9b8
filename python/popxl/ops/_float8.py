"""Checks for the float8 functions."""

from popxl import dtypes
from popxl.context import get_current_graph
from popxl.ops.utils import check_in_graph
from popxl.tensor import Tensor

FLOAT8 = (dtypes.float8_143, dtypes.float8_152)


def check_scaled(function: str, log2_scale: Tensor, **operands: Tensor) -> None:
    """Check the operands of a product of float8 tensors.

    Raises:
        TypeError: an operand is not a float8 tensor, or the scale is not int32.
        ValueError: the scale is not a scalar.
    """
    check_in_graph(get_current_graph(), log2_scale=log2_scale, **operands)
    for name, t in operands.items():
        if t.dtype not in FLOAT8:
            raise TypeError(f"{function}: argument `{name}` must be a float8 tensor: got {t.dtype}.")
    check_log2_scale(function, log2_scale)


def check_log2_scale(function: str, log2_scale: Tensor) -> None:
    """Check that a scale is an int32 scalar.

    Raises:
        TypeError: the dtype is not int32.
        ValueError: the tensor is not a scalar.
    """
    if log2_scale.nelms != 1:
        raise ValueError(f"{function}: log2_scale must be a scalar: got shape {log2_scale.shape}.")
    if log2_scale.dtype != dtypes.int32:
        raise TypeError(f"{function}: log2_scale must be an int32 tensor: got {log2_scale.dtype}.")
