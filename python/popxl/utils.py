"""Conversion of host data to NumPy and small text tools.

Every function that accepts host data calls `to_numpy`, which alone decides how user data is narrowed.
"""

import sys
from collections.abc import Iterable, Sequence
from numbers import Number
from typing import Any

import numpy as np
from popart._arrays import as_array

from popxl import dtypes
from popxl.dtypes import dtype
from popxl.fp8_utils import host_pow2scale_cast_from_fp8, host_pow2scale_cast_to_fp8

HW_DEVICE_CONNECTION_TIMEOUT = int(1e4)

downcast_np_dtypes: dict[np.dtype, np.dtype] = {
    np.dtype("int64"): np.dtype("int32"),
    np.dtype("uint64"): np.dtype("uint32"),
    np.dtype("float64"): np.dtype("float32"),
}


_FLOAT8 = (dtypes.float8_143._core_value, dtypes.float8_152._core_value)


def _is_torch(value: Any) -> bool:
    """Whether `value` is a torch tensor; torch is not imported for the test."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def to_numpy(
    x: Any,
    dtype: dtype | None = None,
    downcast: bool = True,
    copy: bool = True,
    log2_scale: int | None = None,
    nan_on_overflow: bool | None = None,
) -> np.ndarray:
    """Convert host data to a C-contiguous NumPy array.

    Args:
        x: scalar, nested sequence, NumPy array, memory map, torch tensor or anything with DLPack, of any shape.
        dtype: type of the result; None keeps the type of arrays, in native byte order, and infers that of
            other data.
        downcast: with `dtype` None, narrow 64-bit types to 32 bits.
        copy: always make a new array.
        log2_scale: fp8 targets only: multiply by 2^log2_scale before rounding.
        nan_on_overflow: fp8 targets only: overflow becomes NaN (True) or the largest value.

    Returns:
        Array of the same shape.

    Raises:
        RuntimeError: an fp8 argument is given for another type.
        TypeError: the data are not numbers.
        ValueError: a memory map would need a conversion, or nested sequences have unequal lengths.
    """
    if dtype is not None and not isinstance(dtype, dtypes.dtype):
        dtypes.dtype._require(dtype, "Host data")
    is_fp8 = dtype is not None and dtype._core_value in _FLOAT8
    if not is_fp8 and (log2_scale is not None or nan_on_overflow is not None):
        raise RuntimeError("log2_scale and nan_on_overflow apply to float8 types only: "
                           f"got dtype {dtype}. Remove them or set dtype to a float8 type.")  # fmt: skip
    if not is_fp8 and type(x) is np.ndarray and x.dtype in dtypes._NP_TO_POPXL:
        array = x
    else:
        if _is_torch(x):
            x = x.detach().cpu().numpy()
        if isinstance(x, np.memmap):
            return _check_memmap(x, dtype, downcast)
        if is_fp8:
            return _to_fp8(x, dtype, log2_scale, nan_on_overflow)
        array = host_array(x)
    if dtype is not None:
        target = dtype.as_numpy()
    else:
        target = array.dtype if array.dtype.isnative else array.dtype.newbyteorder("=")
        if downcast:
            target = downcast_np_dtypes.get(target, target)
    result = array if array.dtype == target else array.astype(target)
    if not result.flags.c_contiguous:
        result = np.ascontiguousarray(result)
    return result.copy() if copy and result is array else result


def host_array(x: Any) -> np.ndarray:
    """Return host data as an array of numbers, in the same memory if possible.

    Raises:
        TypeError: the data are not numbers, but for example text, None or tensors of a graph.
        ValueError: nested sequences have unequal lengths.
    """
    try:
        array = as_array(x)
    except TypeError as e:
        raise TypeError(_no_numbers(x)) from e
    if array.dtype.kind in "SUMm" or (array.dtype == object and not all(map(_is_number, array.flat))):
        raise TypeError(_no_numbers(x))
    return array


def _is_number(value: Any) -> bool:
    return isinstance(value, (Number, np.generic))


def _no_numbers(x: Any) -> str:
    kind = type(x).__name__
    if isinstance(x, (list, tuple)):
        kind = f"a {kind} of {', '.join(sorted({type(item).__name__ for item in x}))}"
    return f"Host data must be numbers: got {kind}, expected a number, an array, a torch tensor or lists of numbers."


def _to_fp8(x: Any, target: dtype, log2_scale: int | None, nan_on_overflow: bool | None) -> np.ndarray:
    array = np.asarray(x)
    if array.dtype == target.as_numpy():
        return np.ascontiguousarray(array).reshape(array.shape)
    if array.dtype not in (np.float16, np.float32, np.float64):
        raise TypeError(f"Cannot convert data of type {array.dtype} to {target}; expected float16, float32 or float64.")
    return host_pow2scale_cast_to_fp8(
        array, target, log2_scale or 0, True if nan_on_overflow is None else nan_on_overflow
    )


def _check_memmap(x: np.memmap, target: dtype | None, downcast: bool) -> np.memmap:
    if target is not None and target.as_numpy() != x.dtype:
        raise ValueError(f"A memory map cannot be converted: got dtype={target}, expected that of the map, {x.dtype}.")
    if not x.flags.c_contiguous:
        raise ValueError("A memory map must be C-contiguous. Write the data in C order.")
    if not x.flags.aligned:
        raise ValueError("A memory map must be aligned. Map the file at an offset that its elements divide.")
    if target is None and downcast and x.dtype in downcast_np_dtypes:
        raise ValueError(
            f"A memory map of {x.dtype} cannot be downcast to {downcast_np_dtypes[x.dtype]}: got dtype={target}. Pass "
            "its own dtype, or downcast=False."
        )
    return x


def table_to_string(rows: Sequence[Iterable[Any]], delimiter: str = " | ", header: bool = True) -> str:
    """Format rows as left-justified columns, with a rule under the first row when `header`.

    Args:
        rows: rows of equal length; cells are converted with `str`.
        delimiter: text between columns.
        header: whether the first row is a heading.

    Returns:
        The rows joined by newlines.
    """
    cells = [[str(cell) for cell in row] for row in rows]
    if not cells:
        return ""
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = [delimiter.join(cell.ljust(width) for cell, width in zip(row, widths)) for row in cells]
    if header and len(lines) > 1:
        lines.insert(1, "-" * (len(lines[0]) + 1))
    return "\n".join(lines)


__all__ = [
    "HW_DEVICE_CONNECTION_TIMEOUT",
    "downcast_np_dtypes",
    "host_pow2scale_cast_from_fp8",
    "host_pow2scale_cast_to_fp8",
    "table_to_string",
    "to_numpy",
]
