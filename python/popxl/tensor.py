"""Tensors of a program: intermediate values, variables and constants, and the functions that make them.

Each wrapper belongs to one tensor of one graph. Equality compares id and Ir; it is never element-wise.
"""

from collections.abc import Iterable, Iterator
from collections.abc import Mapping as _MappingBase
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Union

import numpy as np
from popart._arrays import as_shape
from popart_core import TensorLocation, TensorStorage

from popxl import dtypes
from popxl._operators import operators
from popxl._programs import tensor_of
from popxl.context import _CURRENT_CONTEXT, get_current_context, get_current_graph, get_main_graph
from popxl.dtypes import dtype
from popxl.errors import UndefinedValue
from popxl.remote_variables import (
    Row,
    remote_replica_sharded_variable,
    remote_variable,
    replica_sharded_buffer,
)
from popxl.replica_grouping import ReplicaGrouping
from popxl.utils import _is_torch, host_array, to_numpy
from popxl.variables import Holding, bytes_view, replica_sharded_variable, variable

if TYPE_CHECKING:
    from popxl.graph import Graph
    from popxl.ir import Ir

host_tensor_types: tuple[type, ...] = (np.ndarray, Iterable)  # torch tensors are iterable

ScalarType = int | float | bool
HostTensor = np.ndarray | Iterable[ScalarType]
HostScalarTensor = ScalarType | HostTensor
TensorLike = Union["Tensor", HostScalarTensor]


class TensorByRef:
    """Annotation of a graph parameter whose in-place changes reach the caller's tensor."""

    def __init__(self) -> None:
        raise NotImplementedError("TensorByRef is an annotation; it has no instances.")


class TensorSpec(_MappingBase):
    """Shape, dtype and unsharded shape of a tensor; a read-only mapping with these three keys.

    Args:
        shape: dimension sizes.
        dtype: element type.
        meta_shape: unsharded shape of a replica-sharded tensor, else ``()``.

    Raises:
        TypeError: a dimension size is not an integer.
    """

    def __init__(self, shape: Iterable[int], dtype: dtype, meta_shape: Iterable[int] = ()) -> None:
        self._shape = as_shape(shape, "TensorSpec")
        self._dtype = dtype
        self._meta_shape = as_shape(meta_shape, "TensorSpec: meta_shape")

    @property
    def shape(self) -> tuple[int, ...]:
        """Dimension sizes."""
        return self._shape

    @property
    def dtype(self) -> dtype:
        """Element type."""
        return self._dtype

    @property
    def meta_shape(self) -> tuple[int, ...]:
        """Unsharded shape, or ``()``."""
        return self._meta_shape

    def to_dict(self) -> dict:
        """Return the three entries as a dict."""
        return {"shape": self._shape, "dtype": self._dtype, "meta_shape": self._meta_shape}

    def to_tuple(self) -> tuple:
        """Return (shape, dtype, meta_shape)."""
        return (self._shape, self._dtype, self._meta_shape)

    def __getitem__(self, key: str) -> Any:
        return self.to_dict()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(("shape", "dtype", "meta_shape"))

    def __len__(self) -> int:
        return 3

    def __hash__(self) -> int:
        return hash(self.to_tuple())

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self._shape}, dtype={self._dtype}, meta_shape={self._meta_shape})"


class _CoreTensor:
    """Attribute of a tensor: the core's object with its facts, made at the first use; ops need only the index."""

    def __get__(self, t: "Tensor | None", owner: type) -> Any:
        if t is None:
            return self
        t._pb_tensor = made = t._graph._pb_graph.tensorAt(t._index, t._id)
        return made


class Tensor:
    """A value in a graph. Made by ops, `variable`, `constant` and `graph_input`; has no constructor."""

    _pb_tensor = _CoreTensor()
    _row: Row | None  # for variables in remote memory
    __array_ufunc__ = None  # with a NumPy array on the left, Python calls the reflected method
    __iter__ = None
    __contains__ = None

    def __init__(self) -> None:
        raise RuntimeError(
            f"Cannot create a popxl.{type(self).__name__} directly; use ops, popxl.variable or popxl.constant."
        )

    @staticmethod
    def _make(cls: type, graph: "Graph", index: int, tensor_id: str) -> "Tensor":
        self = object.__new__(cls)
        self._graph = graph
        self._index = index
        self._id = tensor_id
        self._row = None
        graph._tensors[tensor_id] = self
        return self

    @classmethod
    def _from_pb_tensor(cls, pb_tensor: Any) -> "Tensor":
        return tensor_of(pb_tensor)

    # ---- facts
    @property
    def id(self) -> str:
        """Full id: graph prefix and name."""
        return self._pb_tensor.id

    @property
    def name(self) -> str:
        """Id without the graph prefix; name scopes stay."""
        prefix, whole = self._graph.id, self.id
        return whole[len(prefix) + 1 :] if prefix and whole.startswith(prefix + "/") else whole

    @property
    def scope(self) -> str:
        """Scope of the graph."""
        return self._graph.id

    @property
    def dtype(self) -> dtype:
        """Element type."""
        found = self._graph._pb_graph.dataTypeAt(self._index)
        return dtypes._CORE_TO_POPXL[self._pb_tensor.dataType() if found is None else found]

    @property
    def shape(self) -> tuple[int, ...]:
        """Dimension sizes on one replica."""
        found = self._graph._pb_graph.shapeAt(self._index)
        return self._pb_tensor.shape() if found is None else found  # raises an error if the tensor was erased

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def nelms(self) -> int:
        """Number of elements."""
        return self._pb_tensor.nelms()

    @property
    def meta_shape(self) -> tuple[int, ...]:
        """Unsharded shape of a replica-sharded tensor, else ``()``."""
        return self._pb_tensor.metaShape()

    @property
    def spec(self) -> TensorSpec:
        """Shape, dtype and meta shape."""
        return TensorSpec(self.shape, self.dtype, self.meta_shape)

    @property
    def ir(self) -> "Ir":
        """Owning Ir."""
        return self._graph.ir

    @property
    def location_info(self) -> TensorLocation:
        """Where the tensor is stored, as `popart.TensorLocation`: on chip, except for remote variables."""
        return TensorLocation()

    @property
    def in_sync_with_ipu(self) -> bool:
        """Whether the host copy is up to date; for variables not between a run and the next copy of weights."""
        return True

    @property
    def ipu(self) -> int:
        """IPU of the producer, else of the first consumer.

        Raises:
            UndefinedValue: nothing determines it.
        """
        ipu, _ = self._placement()
        if ipu is None:
            raise UndefinedValue(f"The IPU of {self} is undefined: no op with an IPU produces or consumes it.")
        return ipu

    @property
    def tile_set(self) -> Literal["compute", "io"]:
        """Tile set of the producer, else of the first consumer.

        Raises:
            UndefinedValue: nothing determines it.
        """
        _, tile_set = self._placement()
        if tile_set is None:
            raise UndefinedValue(f"The tile set of {self} is undefined: no op produces or consumes it.")
        return tile_set

    def _placement(self) -> tuple[int | None, Literal["compute", "io"] | None]:
        """IPU and tile set; None for one that nothing determines."""
        return self._pb_tensor.placement(self.ir._graphs_of_moved_ops)

    def strides(self, shape: Iterable[int] | None = None) -> tuple[int, ...]:
        """Return byte strides of `shape` (default: the tensor's) in C order."""
        step = self.dtype.as_numpy().itemsize
        result: list[int] = []
        for size in reversed(tuple(self.shape if shape is None else shape)):
            result.insert(0, step)
            step *= size
        return tuple(result)

    # ---- methods that make ops
    @property
    def T(self) -> "Tensor":
        """The tensor with all axes reversed."""
        return self.transpose()

    @property
    def T_(self) -> "Tensor":
        """As `T`, sharing memory."""
        return self.transpose_()

    def transpose(self, permutation: Iterable[int] | None = None) -> "Tensor":
        """See `popxl.ops.transpose`; `permutation`: new order of the axes, reversed by default."""
        return operators.transpose(self, permutation)

    def transpose_(self, permutation: Iterable[int] | None = None) -> "Tensor":
        """See `popxl.ops.transpose_`; `permutation`: new order of the axes, reversed by default."""
        return operators.transpose_(self, permutation)

    def reshape(self, shape: Iterable[int]) -> "Tensor":
        """See `popxl.ops.reshape`; `shape`: new dimension sizes, one may be -1."""
        return operators.reshape(self, shape)

    def reshape_(self, shape: Iterable[int]) -> "Tensor":
        """See `popxl.ops.reshape_`; `shape`: new dimension sizes, one may be -1."""
        return operators.reshape_(self, shape)

    def flatten(self) -> "Tensor":
        """See `popxl.ops.flatten`."""
        return operators.flatten(self)

    def flatten_(self) -> "Tensor":
        """See `popxl.ops.flatten_`."""
        return operators.flatten_(self)

    def detach(self) -> "Tensor":
        """See `popxl.ops.detach`."""
        return operators.detach(self)

    def detach_(self) -> "Tensor":
        """See `popxl.ops.detach_`."""
        return operators.detach_(self)

    def diag(self) -> "Tensor":
        """Return the diagonal of a matrix: every (columns + 1)-th element of the flattened tensor.

        Raises:
            ValueError: the tensor is not 2-D.
        """
        if self.rank != 2:
            raise ValueError(f"diag needs a 2-D tensor: got shape {self.shape}.")
        return operators.subsample(self.flatten(), self.shape[1] + 1)

    def copy_to_ipu(self, destination: int, source: int | None = None) -> "Tensor":
        """See `popxl.ops.ipu_copy`; `destination`, `source`: IPU numbers."""
        return operators.ipu_copy(self, destination, source)

    # ---- operators
    def __len__(self) -> int:
        if self.rank == 0:
            raise ValueError("A scalar tensor has no length.")
        return self.shape[0]

    def __hash__(self) -> int:
        return hash(self._id)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Tensor) and self._id == other._id and self._graph._ir_id == other._graph._ir_id
        )

    def __repr__(self) -> str:
        return f"Tensor[{self.id} {self.dtype} {self.shape}]"

    def _operand(self, value: TensorLike) -> "Tensor":
        if isinstance(value, Tensor):
            return value
        if _holds_tensors(value):
            raise TypeError(f"An operand must be a tensor or host data: {_TUPLE_OF_A_CALL}")
        array = host_array(value.detach().cpu().numpy() if _is_torch(value) else value)
        if array.size == 0:
            raise ValueError(f"An operand must not be empty: got {value!r}.")
        return constant(array, self.dtype)

    def __add__(self, other: TensorLike) -> "Tensor":
        return operators.add(self, self._operand(other))

    def __radd__(self, other: TensorLike) -> "Tensor":
        return operators.add(self._operand(other), self)

    def __iadd__(self, other: TensorLike) -> "Tensor":
        operators.add_(self, self._operand(other))
        return self

    def __sub__(self, other: TensorLike) -> "Tensor":
        return operators.sub(self, self._operand(other))

    def __rsub__(self, other: TensorLike) -> "Tensor":
        return operators.sub(self._operand(other), self)

    def __mul__(self, other: TensorLike) -> "Tensor":
        return operators.mul(self, self._operand(other))

    def __rmul__(self, other: TensorLike) -> "Tensor":
        return operators.mul(self._operand(other), self)

    def __truediv__(self, other: TensorLike) -> "Tensor":
        return operators.div(self, self._operand(other))

    def __rtruediv__(self, other: TensorLike) -> "Tensor":
        return operators.div(self._operand(other), self)

    def __mod__(self, other: TensorLike) -> "Tensor":
        return operators.fmod(self, self._operand(other))

    def __rmod__(self, other: TensorLike) -> "Tensor":
        return operators.fmod(self._operand(other), self)

    def __matmul__(self, other: TensorLike) -> "Tensor":
        return operators.matmul(self, self._operand(other))

    def __rmatmul__(self, other: TensorLike) -> "Tensor":
        return operators.matmul(self._operand(other), self)

    def __pow__(self, other: TensorLike) -> "Tensor":
        return operators.pow(self, other if isinstance(other, Tensor) else constant(other))

    def __rpow__(self, other: TensorLike) -> "Tensor":
        return operators.pow(other if isinstance(other, Tensor) else constant(other), self)

    def __neg__(self) -> "Tensor":
        return operators.negate(self)

    def __and__(self, other: TensorLike) -> "Tensor":
        return operators.logical_and(self, self._operand(other))

    def __rand__(self, other: TensorLike) -> "Tensor":
        return operators.logical_and(self._operand(other), self)

    def __or__(self, other: TensorLike) -> "Tensor":
        return operators.logical_or(self, self._operand(other))

    def __ror__(self, other: TensorLike) -> "Tensor":
        return operators.logical_or(self._operand(other), self)

    def __invert__(self) -> "Tensor":
        return operators.logical_not(self)

    def __getitem__(self, key: Any) -> "Tensor":
        """Index with integers and slices, with an integer tensor (gather) or with a boolean tensor (zero where false).

        Returns:
            Tensor of the shape that NumPy returns; for a boolean tensor the shape of this one.

        Raises:
            TypeError: the key has a wrong type.
        """
        return operators.get_item(self, key)


class Variable(Tensor):
    """A tensor of the main graph that keeps its value between runs; the host can read and write it."""

    replica_grouping: ReplicaGrouping
    retrieval_mode: str

    @cached_property
    def _holding(self) -> Holding:
        return Holding(self.replica_grouping, self.shape)

    @property
    def location_info(self) -> TensorLocation:
        """Where the tensor is stored, as `popart.TensorLocation`: off chip for remote variables."""
        return TensorLocation(TensorStorage.OffChip) if self._row is not None else TensorLocation()

    @property
    def in_sync_with_ipu(self) -> bool:
        """Whether the host copy is up to date."""
        return not self.ir._host_is_stale

    @property
    def shape_on_host(self) -> tuple[int, ...]:
        """Shape of the host data: with more than one replica group, the number of groups comes first."""
        groups = self.replica_grouping.num_groups
        shape = tuple(self.meta_shape or self.shape)
        return shape if groups == 1 else (groups, *shape)

    @property
    def shape_on_replica(self) -> tuple[int, ...]:
        """Shape on one replica."""
        return self.shape

    def copy_to_ipu(self, dst: int, src: int) -> Tensor:
        """See `popxl.ops.ipu_copy`; the source must be given."""
        return operators.ipu_copy(self, dst, src)

    @property
    def _returns_all_replicas(self) -> bool:
        return self.retrieval_mode == "all_replicas" and self.replica_grouping.group_size > 1

    def _groups_on_device(self, host: np.ndarray) -> np.ndarray:
        """Return the host value with one entry for each group of the device's grouping."""
        if self._holding.is_sharded:
            return self._holding.split(host)
        on_device = self.replica_grouping.to_device_map
        return host if on_device is None else np.ascontiguousarray(host[on_device])


class Constant(Tensor):
    """A tensor whose value never changes."""

    def copy_to_ipu(self, dst: int, src: int) -> Tensor:
        """See `popxl.ops.ipu_copy`; the source must be given."""
        return operators.ipu_copy(self, dst, src)


_TUPLE_OF_A_CALL = "got a tuple or list of tensors. A call gives a tuple: take one of it, as `y, = graph.call(x)` does."


def _holds_tensors(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and any(isinstance(item, Tensor) for item in value)


def check_in_graph(graph: "Graph", **tensors: Tensor) -> None:
    """Check that every argument is a tensor of `graph`.

    Raises:
        TypeError: an argument is not a tensor.
        ValueError: a tensor belongs to another graph, or is a remote variable.
    """
    for name, tensor in tensors.items():
        if isinstance(tensor, Tensor) and tensor._graph is graph and tensor._row is None:
            continue
        if not isinstance(tensor, Tensor):
            found = _TUPLE_OF_A_CALL if _holds_tensors(tensor) else f"got {type(tensor).__name__}."
            raise TypeError(f"Argument `{name}` must be a popxl.Tensor: {found}")
        if tensor._graph is not graph:
            raise ValueError(
                f"Tensor {tensor} (argument `{name}`) is not in the current graph {graph!r}, but in {tensor._graph!r}. "
                "Pass it as an input of the graph."
            )
        raise ValueError(f"Tensor {tensor} (argument `{name}`) is a remote variable. Load it with ops.remote_load.")


def constant(
    data: HostScalarTensor,
    dtype: dtype | None = None,
    name: str | None = None,
    downcast: bool = True,
    log2_scale: int | None = None,
    nan_on_overflow: bool | None = None,
) -> Constant:
    """Make a constant in the current graph.

    Args:
        data: value of any shape.
        dtype: element type; None infers it.
        name: name, default ``"t"``.
        downcast: narrow inferred 64-bit types to 32 bits.
        log2_scale: fp8 only, see `popxl.utils.to_numpy`.
        nan_on_overflow: fp8 only, see `popxl.utils.to_numpy`.

    Returns:
        The constant.

    Raises:
        TypeError: fp8 data without an explicit `dtype`.
        RuntimeError: there is no current graph.
    """
    graph = get_current_graph()
    if dtype is None and isinstance(data, np.ndarray) and data.dtype.names is not None:
        raise TypeError("float8 data needs an explicit dtype: pass dtype=popxl.float8_143 or popxl.float8_152.")
    array = to_numpy(data, dtype, downcast, copy=False, log2_scale=log2_scale, nan_on_overflow=nan_on_overflow)
    core = dtypes.dtype.as_dtype(array.dtype)._core
    pb_tensor = graph._pb_graph.addConstant(graph._create_tensor_id(name), core, list(array.shape), bytes_view(array))
    return graph.ir._tensor(graph, pb_tensor)


def graph_input(
    shape: Iterable[int],
    dtype: dtype,
    name: str | None = None,
    by_ref: bool = False,
    meta_shape: Iterable[int] | None = None,
) -> Tensor:
    """Add an input to the current graph.

    Args:
        shape: dimension sizes.
        dtype: element type.
        name: name, default ``"t"``.
        by_ref: in-place changes reach the caller's tensor.
        meta_shape: unsharded shape of a replica-sharded tensor.

    Returns:
        The input; it follows the existing ones.

    Raises:
        RuntimeError: there is no current graph.
    """
    sizes, whole = as_shape(shape, "graph_input"), as_shape(meta_shape or (), "graph_input: meta_shape")
    return _CURRENT_CONTEXT.graph._add_input(sizes, dtype, name, by_ref, whole)


def graph_output(t: Tensor) -> None:
    """Mark `t` as the next output of the current graph.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    graph = get_current_graph()
    check_in_graph(graph, t=t)
    graph._mark_output(t)


__all__ = [
    "Constant",
    "HostScalarTensor",
    "HostTensor",
    "ScalarType",
    "Tensor",
    "TensorByRef",
    "TensorLike",
    "TensorSpec",
    "Variable",
    "check_in_graph",
    "constant",
    "get_current_context",
    "get_main_graph",
    "graph_input",
    "graph_output",
    "host_tensor_types",
    "remote_replica_sharded_variable",
    "remote_variable",
    "replica_sharded_buffer",
    "replica_sharded_variable",
    "variable",
]
