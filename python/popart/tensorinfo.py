"""TensorInfo with NumPy types."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import popart_core

from popart._arrays import as_shape

_NUMPY_TO_POPART: dict[type, "popart_core.DataType"] = {
    np.uint8: popart_core.DataType.UINT8,
    np.uint16: popart_core.DataType.UINT16,
    np.uint32: popart_core.DataType.UINT32,
    np.uint64: popart_core.DataType.UINT64,
    np.int8: popart_core.DataType.INT8,
    np.int16: popart_core.DataType.INT16,
    np.int32: popart_core.DataType.INT32,
    np.int64: popart_core.DataType.INT64,
    np.float16: popart_core.DataType.FLOAT16,
    np.float32: popart_core.DataType.FLOAT,
    np.float64: popart_core.DataType.DOUBLE,
    np.bool_: popart_core.DataType.BOOL,
}


def _of_ml_dtypes(scalar: type) -> "popart_core.DataType":
    """Return the counterpart of a scalar type of the package ml_dtypes (``bfloat16``, ``float8_e5m2``, ``int4``, …)."""
    if scalar.__module__ != "ml_dtypes":
        raise KeyError(scalar)
    return popart_core._TensorInfoCore(scalar.__name__, []).dataType()


class TensorInfo(popart_core._TensorInfoCore):
    """Element type and shape of a tensor.

    ``TensorInfo(dtype, shape)`` takes a popart type name (``"FLOAT"``), a ``popart.DataType``, a NumPy dtype or a NumPy
    scalar type; ``TensorInfo(array)`` takes both from an array.
    """

    def __init__(self, *args: Any) -> None:
        """Make the info.

        Args:
            *args: ``(dtype, shape)`` or ``(array,)``.

        Raises:
            TypeError: The number or type of the arguments is wrong, or a dimension size is not an integer.
            KeyError: The type has no counterpart in popart.
        """
        if len(args) == 2:
            dtype: Any = args[0]
            shape: Iterable[int] = args[1]
        elif len(args) == 1 and isinstance(args[0], np.ndarray):
            dtype = args[0].dtype
            shape = args[0].shape
        else:
            raise TypeError(f"TensorInfo: got {len(args)} arguments, expected (dtype, shape) or one NumPy array")
        if isinstance(dtype, np.dtype):
            dtype = dtype.type
        if isinstance(dtype, type):
            dtype = _NUMPY_TO_POPART.get(dtype) or _of_ml_dtypes(dtype)
        elif not isinstance(dtype, str | popart_core.DataType):
            raise TypeError(f"TensorInfo: dtype must be a type name, popart.DataType or NumPy type, got {type(dtype)}")
        super().__init__(dtype, as_shape(shape, "TensorInfo"))
