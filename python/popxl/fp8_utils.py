"""Host conversion to and from the two 8-bit floating point formats.

No infinities and no negative zero; byte 0x80 is the only NaN. float8_143: 4 exponent bits, bias 8, largest 240;
float8_152: 5 exponent bits, bias 16, largest 57344. A stored value v with scale s stands for v * 2^s: casting to fp8
multiplies by 2^log2_scale before rounding (to nearest, ties to even), casting from fp8 multiplies afterwards.
"""

from typing import Any

import numpy as np

from popxl import dtypes
from popxl.dtypes import dtype as _dtype

# mantissa bits, exponent bias, largest value
_FORMATS = {"float8_143": (3, 8, 240.0), "float8_152": (2, 16, 57344.0)}


def _format(dtype: Any) -> tuple[int, int, float]:
    if not isinstance(dtype, _dtype) or dtype.name not in _FORMATS:
        raise RuntimeError(f"Expected float8_143 or float8_152: got {dtype}.")
    return _FORMATS[dtype.name]


def _decode_table(dtype: _dtype) -> np.ndarray:
    mantissa_bits, bias, _ = _format(dtype)
    codes = np.arange(256)
    exponent = (codes & 0x7F) >> mantissa_bits
    mantissa = codes & ((1 << mantissa_bits) - 1)
    fraction = mantissa / (1 << mantissa_bits)
    value = np.where(exponent == 0, fraction * 2.0 ** (1 - bias), (1 + fraction) * 2.0 ** (exponent - bias))
    value = np.where(codes >= 0x80, -value, value)
    value[0x80] = np.nan
    return value


def host_pow2scale_cast_to_fp8(
    src: Any, dtype: _dtype = None, log2_scale: int = 0, nan_on_overflow: bool = True
) -> np.ndarray:
    """Round ``src * 2^log2_scale`` to fp8.

    Args:
        src: float16, float32 or float64 data of any shape.
        dtype: float8_143 (default) or float8_152.
        log2_scale: power of two applied before rounding.
        nan_on_overflow: overflow gives NaN (True) or the largest value; infinities are NaN in any case.

    Returns:
        Structured array of the same shape.

    Raises:
        RuntimeError: unsupported source or target type.
    """
    dtype = dtypes.float8_143 if dtype is None else dtype
    mantissa_bits, bias, largest = _format(dtype)
    array = np.asarray(src.detach().cpu().numpy() if hasattr(src, "detach") else src)
    if array.dtype not in (np.float16, np.float32, np.float64):
        raise RuntimeError(f"Expected float16, float32 or float64 data: got {array.dtype}.")
    scaled = array.astype(np.float64) * 2.0**log2_scale
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        magnitude = np.abs(scaled)
        exponent = np.maximum(np.floor(np.log2(np.where(magnitude > 0, magnitude, 1.0))), 1 - bias)
        rounded = np.rint(magnitude / 2.0 ** (exponent - mantissa_bits)) * 2.0 ** (exponent - mantissa_bits)
    codes = np.searchsorted(
        _decode_table(dtype)[:128], np.minimum(np.nan_to_num(rounded, nan=0.0, posinf=largest), largest)
    )
    codes = np.where((scaled < 0) & (codes != 0), codes + 128, codes)
    overflow = rounded > largest
    codes = np.where(~np.isfinite(scaled) | (overflow & nan_on_overflow), 0x80, codes)
    return codes.astype(np.uint8).view(dtype.as_numpy()).reshape(array.shape)


def host_pow2scale_cast_from_fp8(src: np.ndarray, dtype: _dtype = None, log2_scale: int = 0) -> np.ndarray:
    """Return ``src * 2^log2_scale`` as float16, float32 (default) or float64.

    Raises:
        RuntimeError: unsupported source or target type.
    """
    dtype = dtypes.float32 if dtype is None else dtype
    if dtype not in (dtypes.float16, dtypes.float32, dtypes.float64):
        raise RuntimeError(f"Expected float16, float32 or float64: got {dtype}.")
    given = getattr(src, "dtype", None)
    names = getattr(given, "names", None) or ("",)
    if names[0] not in _FORMATS:
        raise RuntimeError(f"Expected an array of float8: got {given or type(src).__name__}.")
    table = _decode_table(_dtype.from_name(names[0]))
    return (table[src.view(np.uint8).reshape(src.shape)] * 2.0**log2_scale).astype(dtype.as_numpy())


def host_fp8_mse_scale(src: Any, dtype: _dtype = None) -> tuple[float, int]:
    """Find the power of two that loses least when `src` is rounded to fp8.

    Of scales that lose the same, the one that brings the data nearest to the middle of the exponent range.

    Returns:
        (mean square error, log2 scale in -31..31).

    Raises:
        RuntimeError: the source is neither float16 nor float32.
    """
    dtype = dtypes.float8_143 if dtype is None else dtype
    array = np.asarray(src)
    if array.dtype not in (np.float16, np.float32):
        raise RuntimeError(f"Expected float16 or float32 data: got {array.dtype}.")
    reference = array.astype(np.float64)
    exponents = np.log2(np.abs(reference[np.isfinite(reference) & (reference != 0)]))
    middle = (exponents.max() + exponents.min()) / 2 if exponents.size else 0.0  # normal exponents are -e to e
    best = (np.inf, np.inf, 0)
    for scale in sorted(range(-31, 32), key=abs):
        cast = host_pow2scale_cast_to_fp8(reference, dtype, scale, nan_on_overflow=False)
        error = float(np.mean((host_pow2scale_cast_from_fp8(cast, dtypes.float64, -scale) - reference) ** 2))
        best = min(best, (error, abs(middle + scale), scale), key=lambda found: found[:2])
    return best[0], best[2]


def host_fp8_mse_scale_pb(src: Any, dtype: _dtype) -> int:
    """Return the log2 scale of `host_fp8_mse_scale`."""
    return host_fp8_mse_scale(src, dtype)[1]
