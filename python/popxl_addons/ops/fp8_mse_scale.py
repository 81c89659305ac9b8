"""The power of two with the least error when a tensor is rounded to a float8 format."""

import popxl
from popxl.ops.utils import emit_one

from popxl_addons.ops.fp8_amax_scale import check_fp8_source


def fp8_mse_scale(src: popxl.Tensor, dtype: popxl.dtype = popxl.float8_143) -> popxl.Tensor:
    """Return the scale with the smallest mean squared error, estimated from a histogram of the exponents.

    Args:
        src: float16 or float32 tensor of any shape.
        dtype: float8_143 or float8_152.

    Returns:
        int32 scalar, the `log2_scale` of `ops.pow2scale_cast_to_fp8`; of several scales with the same error the middle
        one.

    Raises:
        RuntimeError: src or dtype has another type.
    """
    check_fp8_source("fp8_mse_scale", src, dtype)
    return emit_one("Fp8Scale", {"src": src}, f"{src.name}_fp8_scale", {"format": dtype._core})


__all__ = ["fp8_mse_scale"]
