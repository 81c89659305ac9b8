"""Tensors of the older interface."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import popxl.tensor as _tensor
from popxl.tensor import TensorByRef

from popart.ir import dtypes


class Tensor(_tensor.Tensor):
    """A value in a graph."""

    @property
    def dtype(self) -> dtypes.dtype:
        """Element type."""
        return dtypes._convert(super().dtype)

    def __repr__(self) -> str:
        return f"Tensor[name={self.name} type={self.dtype} shape={self.shape}]"

    def __getitem__(self, key: Any) -> "Tensor":
        parts = key if isinstance(key, tuple) else (key,)
        whole = isinstance(key, Tensor) and key.dtype.is_int
        if not whole and not all(isinstance(k, (int, slice)) and not isinstance(k, bool) for k in parts):
            raise IndexError(f"A tensor can be indexed with integers, slices and integer tensors: got {key!r}.")
        return super().__getitem__(key)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator["Tensor"]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return _tensor.Tensor.__eq__(self, other)

    __hash__ = _tensor.Tensor.__hash__

    def __iadd__(self, other: Any) -> "Tensor":
        return self + other  # nothing changes in place

    def _not_offered(self, other: Any) -> Any:
        return NotImplemented

    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rmatmul__ = _not_offered
    __mod__ = __rmod__ = __pow__ = __rpow__ = __and__ = __rand__ = __or__ = __ror__ = _not_offered

    def __invert__(self) -> "Tensor":
        raise TypeError("~: popart.ir has no such operator. Use ops.logical_not.")


class Variable(Tensor, _tensor.Variable):
    """A tensor of the main graph that keeps its value between runs."""


class Constant(Tensor, _tensor.Constant):
    """A tensor whose value never changes."""


def variable(data: Any, dtype: dtypes.dtype | None = None, name: str | None = None, downcast: bool = True) -> Variable:
    """Make a variable in the main graph.

    Args:
        data: initial value.
        dtype: element type; None infers it.
        name: name, default ``"t"``.
        downcast: narrow inferred 64-bit types to 32 bits.

    Returns:
        The variable.

    Raises:
        ValueError: the current graph is not the main graph.
    """
    return _tensor.variable(np.asarray(data), dtype, name, downcast)


def constant(data: Any, dtype: dtypes.dtype | None = None, name: str | None = None, downcast: bool = True) -> Constant:
    """Make a constant in the current graph; arguments as for `variable`.

    Args:
        data: the values, as NumPy array, nested lists or a number.
        dtype: element type; default: that of `data`.
        name: name, default ``"t"``.
        downcast: float64 and int64 become 32-bit types.

    Returns:
        The constant.
    """
    return _tensor.constant(np.asarray(data), dtype, name, downcast)


def subgraph_input(shape: Iterable[int], dtype: dtypes.dtype, name: str | None = None, by_ref: bool = False) -> Tensor:
    """Add an input to the current graph.

    Args:
        shape: dimension sizes.
        dtype: element type.
        name: name, default ``"t"``.
        by_ref: in-place changes reach the caller's tensor.

    Returns:
        The input, after those the graph has.
    """
    return _tensor.graph_input(shape, dtype, name, by_ref)


def subgraph_output(t: Tensor) -> None:
    """Mark `t` as the next output of the current graph.

    Raises:
        ValueError: `t` is not in the current graph.
    """
    _tensor.graph_output(t)


__all__ = ["Constant", "Tensor", "TensorByRef", "Variable", "constant", "subgraph_input", "subgraph_output", "variable"]
