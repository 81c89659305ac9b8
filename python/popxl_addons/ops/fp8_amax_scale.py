"""The power of two that scales the largest magnitude of a tensor to the end of a float8 format's range."""

import numpy as np
import popxl
from popxl import ops

from popxl_addons.ops.fp8_utils import float8_143_def, float8_152_def

_LARGEST = {popxl.float8_143: float8_143_def.max_value, popxl.float8_152: float8_152_def.max_value}
_LARGEST_SCALE = 31


def check_fp8_source(function: str, src: popxl.Tensor, dtype: popxl.dtype) -> None:
    """Check the arguments of a function that finds a scale.

    Raises:
        RuntimeError: src is neither float16 nor float32, or dtype is not a float8 type.
    """
    if src.dtype not in (popxl.float16, popxl.float32):
        raise RuntimeError(f"{function}: src: got {src.dtype}, expected float16 or float32.")
    if dtype not in _LARGEST:
        raise RuntimeError(f"{function}: dtype: got {dtype}, expected float8_143 or float8_152.")


def fp8_amax_scale(src: popxl.Tensor, dtype: popxl.dtype = popxl.float8_143) -> popxl.Tensor:
    """Return ``clip(floor(log2(largest / max|src|)), -31, 31)``, with the largest value of the format.

    Args:
        src: float16 or float32 tensor of any shape.
        dtype: float8_143 (largest value 240) or float8_152 (57344).

    Returns:
        int32 scalar, the `log2_scale` of `ops.pow2scale_cast_to_fp8`; 31 for a tensor of zeros.

    Raises:
        RuntimeError: src or dtype has another type.
    """
    check_fp8_source("fp8_amax_scale", src, dtype)
    magnitude = ops.max(ops.cast(ops.abs(src), popxl.float32))
    # Count the scales that keep the largest magnitude in range; this is exact, where a logarithm would be rounded.
    scales = np.arange(-_LARGEST_SCALE + 1, _LARGEST_SCALE + 1)
    scaled = magnitude * popxl.constant(np.exp2(scales).astype(np.float32))
    too_large = ops.greater(scaled, popxl.constant(_LARGEST[dtype], popxl.float32))
    return _LARGEST_SCALE - ops.cast(ops.sum(ops.cast(too_large, popxl.float32)), popxl.int32)
