"""Element types of popxl tensors.

Each type is a singleton (``popxl.float32``); aliases are the same object. The compiled part identifies it by its number
in the core's ``DataType`` enumeration.
Invariant: for every singleton ``d``, ``dtype.from_name(d.name) is d``.
"""

import builtins
import functools
import sys
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

if TYPE_CHECKING:
    import torch


np_dtype_float8_143 = np.dtype([("float8_143", "u1")])
np_dtype_float8_152 = np.dtype([("float8_152", "u1")])

_NAME_TO_POPXL: dict[str, "dtype"] = {}
_NP_TO_POPXL: dict[np.dtype, "dtype"] = {}
_PY_TO_POPXL: dict[Any, "dtype"] = {}
_NO_TORCH = ("uint16", "uint32", "uint64", "float8_143", "float8_152")
_CORE_TO_POPXL: dict[int, "dtype"] = {}


class dtype:
    """Element type of a tensor. Use the module-level singletons; the class cannot be instantiated."""

    def __init__(self) -> None:
        raise TypeError(f"Cannot create {type(self).__name__} instances; use popxl.float32 and the other singletons.")

    @property
    def name(self) -> str:
        """Canonical name, for example ``"float32"``."""
        return self._name

    @property
    def is_int(self) -> builtins.bool:
        """True for the signed and unsigned integer types (not for bool)."""
        return self._is_int

    @property
    def is_floating_point(self) -> builtins.bool:
        """True for float8, float16, float32 and float64."""
        return self._is_floating_point

    @property
    def is_complex(self) -> builtins.bool:
        """True for complex64 and complex128."""
        return self._is_complex

    @property
    def is_signed(self) -> builtins.bool:
        """True when negative values can be represented."""
        return self._is_signed

    def __repr__(self) -> str:
        return f"popxl.dtypes.{self._name}"

    __str__ = __repr__

    @classmethod
    def from_name(cls, name: str) -> "dtype":
        """Return the type with this canonical name.

        Raises:
            ValueError: no type has this name.
        """
        try:
            return _NAME_TO_POPXL[name]
        except (KeyError, TypeError):
            raise ValueError(f"There is no popxl dtype named {name!r}. Names: {', '.join(_NAME_TO_POPXL)}.") from None

    @classmethod
    def as_dtype(cls, type_value: Any) -> "dtype":
        """Convert a name, Python type, NumPy or torch type, or anything with a ``dtype`` attribute.

        Returns:
            The type.

        Raises:
            ValueError: `type_value` names no popxl type.
        """
        if isinstance(type_value, str) and type_value in _NAME_TO_POPXL:
            return _NAME_TO_POPXL[type_value]
        if isinstance(type_value, dtype):
            raise ValueError(f"{type_value} is already a popxl dtype.")
        found = cls._from_known_type(type_value)
        if found is not None:
            return found
        try:
            return _NP_TO_POPXL[np.dtype(type_value)]
        except (TypeError, ValueError, KeyError):  # NumPy raises a ValueError for a torch tensor
            pass
        inner = getattr(type_value, "dtype", None)
        if inner is not None and inner is not type_value:
            return cls.as_dtype(inner)
        raise ValueError(f"There is no popxl dtype for {type_value!r}.")

    @classmethod
    def _require(cls, value: Any, what: str) -> "dtype":
        """Return `value`.

        Raises:
            TypeError: `value` is not a popxl dtype.
        """
        if isinstance(value, cls):
            return value
        raise TypeError(
            f"{what}: the dtype is not a popxl dtype: got {value!r}, expected one of "
            f"{', '.join(f'popxl.{name}' for name in _NAME_TO_POPXL)}. Convert other types with popxl.dtype.as_dtype."
        )

    @staticmethod
    def _from_known_type(type_value: Any) -> Optional["dtype"]:
        try:
            if type_value in _PY_TO_POPXL:
                return _PY_TO_POPXL[type_value]
            if "torch" in sys.modules and type_value in _torch_types():
                return _torch_types()[type_value]
        except TypeError:
            pass
        core_value = getattr(type_value, "value", None)
        if type(type_value).__name__ == "DataType" and core_value in _CORE_TO_POPXL:
            return _CORE_TO_POPXL[core_value]
        return None

    @classmethod
    def _from_core(cls, value: int) -> "dtype":
        return _CORE_TO_POPXL[value]

    @property
    def _core(self) -> int:
        return self._core_value

    def as_numpy(self) -> np.dtype:
        """Return the NumPy type.

        Raises:
            TypeError: NumPy has no counterpart.
        """
        if self._np is None:
            raise TypeError(f"{self} does not have an equivalent NumPy type.")
        return self._np

    def as_torch(self) -> "torch.dtype":
        """Return the torch type.

        Raises:
            ModuleNotFoundError: torch is not installed.
            TypeError: torch has no counterpart.
        """
        types = {popxl_type: torch_type for torch_type, popxl_type in _torch_types().items()}
        if self not in types:
            raise TypeError(f"{self} does not have an equivalent torch type.")
        return types[self]

    def __eq__(self, other: object) -> builtins.bool:
        return self is other or (isinstance(other, dtype) and self._core_value == other._core_value)

    def __hash__(self) -> int:
        return self._core_value

    def __copy__(self) -> "dtype":
        return self

    def __deepcopy__(self, memo: dict) -> "dtype":
        return self

    def __reduce__(self) -> tuple:
        return (dtype.from_name, (self._name,))


def _make(name: str, core: int, np_type: Any, *, kind: str, signed: builtins.bool, py_type: Any = None) -> dtype:
    d = dtype.__new__(dtype)
    d._name, d._core_value, d._is_signed = name, core, signed
    d._is_int, d._is_floating_point, d._is_complex = kind == "int", kind == "float", kind == "complex"
    d._np = np.dtype(np_type)
    _NAME_TO_POPXL[name] = d
    _NP_TO_POPXL[d._np] = d
    _CORE_TO_POPXL[core] = d
    if py_type is not None:
        _PY_TO_POPXL[py_type] = d
    return d


def of_array(array: np.ndarray) -> dtype:
    """Return the element type of an array.

    Raises:
        ValueError: popxl has no such type.
    """
    return _NP_TO_POPXL.get(array.dtype) or dtype.as_dtype(array.dtype)


@functools.cache
def _torch_types() -> dict[Any, dtype]:
    """Return torch type → popxl type; imports torch."""
    import torch

    return {getattr(torch, name): d for name, d in _NAME_TO_POPXL.items() if name not in _NO_TORCH}


def __getattr__(name: str) -> Any:
    if name == "_PT_TO_POPXL":
        return _torch_types()
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


bool = _make("bool", 10, np.bool_, kind="bool", signed=False, py_type=builtins.bool)
int8 = _make("int8", 1, np.int8, kind="int", signed=True)
int16 = _make("int16", 5, np.int16, kind="int", signed=True)
int32 = _make("int32", 6, np.int32, kind="int", signed=True)
int64 = _make("int64", 7, np.int64, kind="int", signed=True)
uint8 = _make("uint8", 0, np.uint8, kind="int", signed=False)
uint16 = _make("uint16", 4, np.uint16, kind="int", signed=False)
uint32 = _make("uint32", 8, np.uint32, kind="int", signed=False)
uint64 = _make("uint64", 9, np.uint64, kind="int", signed=False)
float8_143 = _make("float8_143", 2, np_dtype_float8_143, kind="float", signed=True)
float8_152 = _make("float8_152", 3, np_dtype_float8_152, kind="float", signed=True)
float16 = _make("float16", 12, np.float16, kind="float", signed=True)
float32 = _make("float32", 11, np.float32, kind="float", signed=True, py_type=builtins.float)
float64 = _make("float64", 14, np.float64, kind="float", signed=True)
complex64 = _make("complex64", 15, np.complex64, kind="complex", signed=True)
complex128 = _make("complex128", 16, np.complex128, kind="complex", signed=True)

half = float16
float = float32
double = float64

__all__ = [
    "bool",
    "complex64",
    "complex128",
    "double",
    "dtype",
    "float",
    "float8_143",
    "float8_152",
    "float16",
    "float32",
    "float64",
    "half",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]
