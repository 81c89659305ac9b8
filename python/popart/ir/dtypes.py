"""Element types; equal to those of popxl, printed as ``popart.ir.dtypes.float32``."""

from typing import Any

from popxl import dtypes as _dtypes


class dtype(_dtypes.dtype):
    """Element type of a tensor. Use the module-level singletons."""

    def __repr__(self) -> str:
        return f"popart.ir.dtypes.{self._name}"

    __str__ = __repr__

    @classmethod
    def as_dtype(cls, type_value: Any) -> "dtype":
        """Convert a name, Python or NumPy type, or anything with a ``dtype`` attribute.

        Returns:
            The type.

        Raises:
            ValueError: `type_value` names no type.
        """
        return _convert(_dtypes.dtype.as_dtype(type_value))


_CONVERTED: dict = {}


def _convert(plain: _dtypes.dtype) -> dtype:
    made = _CONVERTED.get(plain._core)
    if made is None:
        made = dtype.__new__(dtype)
        made.__dict__.update(plain.__dict__)
        _CONVERTED[plain._core] = made
    return made


bool = _convert(_dtypes.bool)
int8 = _convert(_dtypes.int8)
int16 = _convert(_dtypes.int16)
int32 = _convert(_dtypes.int32)
int64 = _convert(_dtypes.int64)
uint8 = _convert(_dtypes.uint8)
uint16 = _convert(_dtypes.uint16)
uint32 = _convert(_dtypes.uint32)
uint64 = _convert(_dtypes.uint64)
float16 = half = _convert(_dtypes.float16)
float32 = float = _convert(_dtypes.float32)
float64 = double = _convert(_dtypes.float64)
complex64 = _convert(_dtypes.complex64)
complex128 = _convert(_dtypes.complex128)
