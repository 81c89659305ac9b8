"""Host conversion to and from the two 8-bit floating point formats.

No infinities and no negative zero; byte 0x80 is the only NaN. float8_143: 4 exponent bits, bias 8, largest 240;
float8_152: 5 exponent bits, bias 16, largest 57344. A stored value v with scale s means v * 2^s: casting to fp8
multiplies by 2^log2_scale before rounding (to nearest, ties to even), casting from fp8 multiplies afterwards.
"""

from typing import Any

import ml_dtypes
import numpy as np

from popxl import dtypes
from popxl.dtypes import dtype as _dtype

# the type of ml_dtypes
_TYPES = {"float8_143": ml_dtypes.float8_e4m3fnuz, "float8_152": ml_dtypes.float8_e5m2fnuz}


def _type_of(dtype: Any) -> type:
    if not isinstance(dtype, _dtype) or dtype.name not in _TYPES:
        raise RuntimeError(f"Expected float8_143 or float8_152: got {dtype}.")
    return _TYPES[dtype.name]


def host_pow2scale_cast_to_fp8(
    src: Any, dtype: _dtype = None, log2_scale: int = 0, nan_on_overflow: bool = True
) -> np.ndarray:
    """Round ``src * 2^log2_scale`` to fp8.

    Args:
        src: float16, float32 or float64 data of any shape.
        dtype: float8_143 (default) or float8_152.
        log2_scale: power of two applied before rounding.
        nan_on_overflow: overflow becomes NaN (True) or the largest value; infinities always become NaN.

    Returns:
        Structured array of the same shape.

    Raises:
        RuntimeError: unsupported source or target type.
    """
    dtype = dtypes.float8_143 if dtype is None else dtype
    kind = _type_of(dtype)
    array = np.asarray(src.detach().cpu().numpy() if hasattr(src, "detach") else src)
    if array.dtype not in (np.float16, np.float32, np.float64):
        raise RuntimeError(f"Expected float16, float32 or float64 data: got {array.dtype}.")
    scaled = array.astype(np.float64) * 2.0**log2_scale
    facts = ml_dtypes.finfo(kind)
    with np.errstate(invalid="ignore", over="ignore"):
        # not by ml_dtypes, which rounds float64 to float32 first
        spacing = np.ldexp(1.0, np.maximum(np.frexp(scaled)[1] - 1, facts.minexp) - facts.nmant)
        rounded = np.rint(scaled / spacing) * spacing
        if not nan_on_overflow:
            largest = float(facts.max)
            rounded = np.where(np.isinf(rounded), rounded, np.clip(rounded, -largest, largest))
        codes = rounded.astype(kind)
    return codes.view(np.uint8).view(dtype.as_numpy()).reshape(array.shape)


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
    if names[0] not in _TYPES:
        raise RuntimeError(f"Expected an array of float8: got {given or type(src).__name__}.")
    values = src.view(np.uint8).view(_TYPES[names[0]]).astype(np.float64)
    return (values * 2.0**log2_scale).astype(dtype.as_numpy())


# first exponent of the first window and width of a window, for the estimate in host_fp8_mse_scale
_WINDOWS = {"float8_143": (85, 18), "float8_152": (78, 33)}


def host_fp8_mse_scale(src: Any, dtype: _dtype = None) -> tuple[float, int]:
    """Estimate the power of two with the least error when `src` is rounded to fp8, from a histogram of exponents.

    For scale 31 - j the estimate assumes that the magnitudes of n exponents from lo = s + j on are kept, with the
    relative error of rounding, smaller ones become 0 and larger ones are clipped::

        mse_j = (b_0 / 2)^2 + sum_{k < lo} h_k b_k^2 + sum_{lo <= k < lo + n} q h_k b_k^2
                + sum_{k >= lo + n} h_k (b_{j + n - 1} - b_k)^2

    with b_k = 2^(k - 126), k = 0 to 252, h_k the share of elements with b_k <= abs(x) < b_{k + 1} (the last without
    upper end), q = 4^(m8 - m), m and m8 the mantissa bits of source and fp8. For float8_143 s = 85 and n = 18, for
    float8_152 78 and 33. The device's ``popxl_addons.ops.fp8_mse_scale`` finds the same scale.

    Args:
        src: float16 or float32 data of any shape.
        dtype: float8_143 (default) or float8_152.

    Returns:
        (least mse_j, log2 scale in -31 to 31; if several j have that error, the middle one).

    Raises:
        RuntimeError: the source is neither float16 nor float32, or the target is not a float8 type.
    """
    dtype = dtypes.float8_143 if dtype is None else dtype
    mantissa_bits = ml_dtypes.finfo(_type_of(dtype)).nmant
    array = np.asarray(src.detach().cpu().numpy() if hasattr(src, "detach") else src)
    if array.dtype not in (np.float16, np.float32):
        raise RuntimeError(f"Expected float16 or float32 data: got {array.dtype}.")
    first, width = _WINDOWS[dtype.name]
    levels = np.exp2(np.arange(253) - 126.0)
    magnitude = np.abs(array.astype(np.float64).reshape(-1))
    counts, _ = np.histogram(magnitude, [*levels, np.inf])
    shares = counts / max(array.size, 1)
    kept = 4.0 ** (mantissa_bits - (23 if array.dtype == np.float32 else 10))
    errors = []
    for j in range(63):
        k, low = np.arange(253), first + j
        # compat: the largest value kept is that of level j + n - 1, not lo + n - 1 (test_the_scale_of_a_histogram)
        clipped = (levels[j + width - 1] - levels) ** 2
        lost = np.where(k < low, levels**2, np.where(k < low + width, kept * levels**2, clipped))
        errors.append(levels[0] ** 2 / 4 + float(np.sum(shares * lost)))
    least = np.flatnonzero(np.array(errors) == min(errors))
    return float(min(errors)), 31 - int(least[len(least) // 2])


def host_fp8_mse_scale_pb(src: Any, dtype: _dtype) -> int:
    """Return the log2 scale of `host_fp8_mse_scale`."""
    return host_fp8_mse_scale(src, dtype)[1]
