"""Variable factories: descriptions from which variables are made.

A module collects them while a sub-graph is built; `init` then makes the variables in the main graph.

A random initialiser is called once as a check and the result is discarded, so the second call fills the first variable.
The initialisers of our layers (first_values.py) skip the random numbers of the check instead.
"""

from collections.abc import Callable, Iterable
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import popdist
import popxl
import popxl.ops as ops
from popxl._collector import collector_paused
from popxl.context import _CURRENT_CONTEXT
from popxl.tensor import HostTensor, Variable, host_tensor_types
from popxl.utils import to_numpy
from popxl.variables import make_shared_variables

from popxl_addons.dot_tree import DotTree
from popxl_addons.first_values import Drawn, FirstValues
from popxl_addons.named_replica_grouping import NamedReplicaGrouping, fill_none_group
from popxl_addons.named_tensors import NamedTensors

if TYPE_CHECKING:
    from popxl_addons.remote import NamedRemoteBuffers

DataIter = Callable[[], HostTensor] | Iterable[HostTensor]


class _Peekable:
    """Iterator whose next item can be read without removing it.

    Args:
        take: function that returns the next item.
    """

    _seen: list | None = None

    def __init__(self, take: Callable[[], HostTensor]) -> None:
        self._take = take

    def peek(self) -> HostTensor:
        """Return the next item without removing it.

        Raises:
            StopIteration: there are no more items.
        """
        if not self._seen:
            self._seen = [self._take()]
        return self._seen[0]

    def __iter__(self) -> "_Peekable":
        return self

    def __next__(self) -> HostTensor:
        return self._seen.pop() if self._seen else self._take()


class _Drawn(_Peekable):
    """Iterator over the values of a source, after those that a check would have used."""

    def __init__(self, source: FirstValues) -> None:
        self._source = source
        self._drawn: Drawn | None = source.draw(1)

    def _take(self) -> HostTensor:
        return self._next_of(self._source.dtype)

    def next_as(self, dtype: np.dtype) -> np.ndarray:
        """Return the next values in an element type, as a new array."""
        return self._seen.pop().astype(dtype) if self._seen else self._next_of(dtype)

    def _next_of(self, dtype: np.dtype) -> np.ndarray:
        drawn, self._drawn = self._drawn or self._source.draw(0), None
        return drawn.make(dtype)


def _as_iterator(data_iter: DataIter) -> _Peekable:
    try:
        if isinstance(data_iter, FirstValues):
            return _Drawn(data_iter)
        if callable(data_iter):
            data_iter()
            return _Peekable(data_iter)
    except Exception as e:
        raise ValueError("Passed callable via `data_iter` throws error.") from e
    if not hasattr(data_iter, "__iter__"):
        raise ValueError(f"`data_iter` must be an iterable or callable: got {type(data_iter).__name__}.")
    return _Peekable(iter(data_iter).__next__)


class VariableFactory:
    """Description from which one variable is made.

    Args:
        data_iter: callable without arguments, or iterable, that returns the value of each instance.
        dtype: element type, default that of the data.
        name: name of the variable.
        by_ref: the graph input is by reference.
        replica_grouping: replicas that share a value, default all.
        shard_over: number of replicas that each hold a shard; 1: not sharded.

    Raises:
        ValueError: `data_iter` has a wrong type, fails, or does not return host tensors.
        AttributeError: it returns Python numbers or lists.
        AssertionError: shard_over is larger than the group.
    """

    def __init__(
        self,
        data_iter: DataIter,
        dtype: popxl.dtype | None = None,
        name: str | None = None,
        by_ref: bool = False,
        replica_grouping: popxl.ReplicaGrouping | None = None,
        shard_over: int = 1,
    ) -> None:
        self.data_iter = _as_iterator(data_iter)
        self.name = name
        self.by_ref = by_ref
        self.replica_sharded = shard_over > 1
        self.replica_grouping = fill_none_group(replica_grouping)
        if isinstance(data_iter, FirstValues):
            first, found = data_iter, data_iter.dtype
        else:
            first = found = self._checked_first()
        self.dtype = popxl.dtype.as_dtype(found) if dtype is None else dtype
        self.meta_shape: tuple[int, ...] | None = None
        self.shape = tuple(first.shape)
        if self.replica_sharded:
            assert shard_over <= self.replica_grouping.group_size, "shard_over must not exceed the group size"
            self.meta_shape = self.shape
            self.shape = (prod(self.meta_shape) // shard_over,)

    def _checked_first(self) -> HostTensor:
        """Return the first value.

        Raises:
            ValueError, AttributeError: it is not a host tensor.
        """
        first = self.data_iter.peek()
        if isinstance(first, str) or not isinstance(first, (*host_tensor_types, np.generic, int, float)):
            raise ValueError(f"`data_iter` must give arrays or torch tensors: got {type(first).__name__}.")
        if not hasattr(first, "shape"):
            # compat: numbers and lists have another exception (test_variable_factory.py::test_data_of_other_kinds)
            raise AttributeError(f"`data_iter`: a {type(first).__name__} has no shape. Give arrays: numpy.array(…).")
        return first

    def create_input(self, prefix: str | None = None) -> popxl.Tensor:
        """Add an input for the variable to the current graph.

        Args:
            prefix: put before the name, with a dot.

        Returns:
            The graph input.
        """
        name = self.name if prefix is None else f"{prefix}.{self.name}"
        return _CURRENT_CONTEXT.graph._add_input(self.shape, self.dtype, name, self.by_ref, self.meta_shape or ())

    def next_data(self, empty: bool = False) -> np.ndarray:
        """Return the value of the next instance; with several groups, one value for each, stacked.

        Args:
            empty: return uninitialised arrays instead of data.
        """
        groups = self.replica_grouping.num_groups
        if empty:
            shape = self.shape if self.meta_shape is None else self.meta_shape
            return np.empty(shape if groups == 1 else (groups, *shape), self.dtype.as_numpy())
        if groups == 1:
            return next(self.data_iter)
        return np.stack([to_numpy(next(self.data_iter), downcast=False) for _ in range(groups)])

    def next_memmap(
        self, memmap_dir: str, name: str, empty: bool = False, read_only_if_exists: bool = False
    ) -> np.memmap:
        """As `next_data`, in a raw file ``<memmap_dir>/<name>.npy``; an existing file is opened.

        In a job of several instances the first one makes the file, and the others wait for it. All of them must call
        this.

        Args:
            memmap_dir: folder of the files.
            name: name of the file.
            empty: do not fill a new file.
            read_only_if_exists: open an existing file read-only.

        Returns:
            The values; with several groups, the number of groups is the leading dimension.

        Raises:
            ValueError: an existing file has another size.
            popart_runtime_error: the other instances do not call this within ``POPDIST_TIMEOUT`` seconds.
        """
        path = Path(memmap_dir) / f"{name}.npy"
        groups = self.replica_grouping.num_groups
        shape = self.shape if self.meta_shape is None else self.meta_shape
        shape = shape if groups == 1 else (groups, *shape)
        made = None
        if popdist.getInstanceIndex() == 0 and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_name(path.name + ".partial")  # no reader opens a file of this name
            made = np.memmap(partial, self.dtype.as_numpy(), "w+", shape=shape)
            if not empty:
                made[...] = to_numpy(self.next_data(), self.dtype)
                made.flush()
            partial.replace(path)
            made.filename = path.resolve()
        popdist.synchronize()
        if made is not None:
            return made
        found, expected = path.stat().st_size, prod(shape) * self.dtype.as_numpy().itemsize
        if found != expected:
            raise ValueError(
                f"{path}: got {found} bytes, expected {expected} for {self.dtype} of shape {shape}: the values alone, "
                "without a header. Remove the file, or name another folder."
            )
        return np.memmap(path, self.dtype.as_numpy(), "r" if read_only_if_exists else "r+", shape=shape)

    def _makes_shared_variable(self) -> bool:
        """Whether the next values come from a source, all replicas share them, and NumPy can convert them."""
        dtype = self.dtype
        return (
            isinstance(self.data_iter, _Drawn)
            and self.replica_grouping._num_groups == 1
            and isinstance(dtype, popxl.dtype)
            and dtype._np.names is None
            and type(self).create_tensor is VariableFactory.create_tensor
        )

    def _next_values(self, name: str, empty: bool, memmap_dir: str | None, read_only_if_exists: bool) -> np.ndarray:
        """Return the values of the next variable, in a file if a folder is given."""
        if memmap_dir:
            return self.next_memmap(memmap_dir, name, empty, read_only_if_exists)
        return self.next_data(empty)

    def create_tensor(
        self,
        name: str | None = None,
        empty: bool = False,
        memmap_dir: str | None = None,
        read_only_if_exists: bool = False,
    ) -> Variable:
        """Make the variable; the main graph must be current.

        Args:
            name: name, default that of the factory.
            empty: uninitialised value.
            memmap_dir: keep the value in a file of this folder.
            read_only_if_exists: open an existing file read-only.

        Returns:
            The variable.
        """
        name = name or self.name
        if not (empty or memmap_dir) and self._makes_shared_variable():
            array = self.data_iter.next_as(self.dtype._np)
            return make_shared_variables([array], [name], [self.replica_grouping])[0]
        data = self._next_values(name, empty, memmap_dir, read_only_if_exists)
        return popxl.variable(data, self.dtype, name, True, self.replica_grouping)

    def create_remote_tensor(
        self,
        buffer: popxl.RemoteBuffer,
        entry: int,
        name: str | None = None,
        empty: bool = False,
        memmap_dir: str | None = None,
        read_only_if_exists: bool = False,
    ) -> Variable:
        """Make the variable in an entry of a remote buffer; the main graph must be current.

        Args:
            buffer: the buffer; one with a meta shape holds parts.
            entry: its entry.
            name: name, default that of the factory.
            empty: uninitialised value.
            memmap_dir: keep the value in a file of this folder.
            read_only_if_exists: open an existing file read-only.

        Returns:
            The variable.
        """
        name = name or self.name
        data = self._next_values(name, empty, memmap_dir, read_only_if_exists)
        make = popxl.remote_replica_sharded_variable if buffer.meta_shape else popxl.remote_variable
        return make(data, buffer, entry, self.dtype, name, replica_grouping=self.replica_grouping)


def add_variable_input(
    name: str,
    data_iter: DataIter,
    dtype: popxl.dtype | None = None,
    by_ref: bool = False,
    replica_grouping: popxl.ReplicaGrouping | None = None,
) -> tuple[popxl.Tensor, VariableFactory]:
    """Add an input to the current graph and return it with the factory of its variable.

    Args:
        name: key of the input.
        data_iter: callable or iterable that returns values.
        dtype: element type; default: that of the values.
        by_ref: in-place changes reach the variable.
        replica_grouping: replicas that share one value.

    Returns:
        The input and the factory.
    """
    factory = VariableFactory(data_iter, dtype, name, by_ref, replica_grouping)
    return factory.create_input(), factory


def add_replica_sharded_variable_input(
    name: str,
    data_iter: DataIter,
    dtype: popxl.dtype | None = None,
    by_ref: bool = False,
    replica_grouping: popxl.ReplicaGrouping | None = None,
    shard_over: int | None = None,
) -> tuple[popxl.Tensor, VariableFactory]:
    """As `add_variable_input`, for a variable sharded over `shard_over` replicas (default: the whole group).

    Args:
        name: key of the input.
        data_iter: callable or iterable that returns values.
        dtype: element type; default: that of the values.
        by_ref: in-place changes reach the variable.
        replica_grouping: replicas that share one value.
        shard_over: number of replicas that each hold a part; default: the whole group.

    Returns:
        The input and the factory.
    """
    factory = sharded_factory(name, data_iter, dtype, by_ref, replica_grouping, shard_over)
    return factory.create_input(), factory


def sharded_factory(
    name: str,
    data_iter: DataIter,
    dtype: popxl.dtype | None,
    by_ref: bool,
    replica_grouping: popxl.ReplicaGrouping | None,
    shard_over: int | None,
) -> VariableFactory:
    """Make the factory of a variable sharded over `shard_over` replicas; None or 0: the whole group."""
    group = fill_none_group(replica_grouping)
    return VariableFactory(data_iter, dtype, name, by_ref, group, shard_over or group.group_size)


class NamedVariableFactories(DotTree[VariableFactory]):
    """Tree of factories."""

    def init(
        self,
        prefix: str | None = None,
        empty: bool = False,
        memmap_dir: str | None = None,
        read_only_if_exists: bool = False,
    ) -> NamedTensors:
        """Make all variables in the order of their dotted names; the main graph must be current.

        Args:
            prefix: put before the names of the variables, with a dot.
            empty: uninitialised values.
            memmap_dir: keep the values in files of this folder.
            read_only_if_exists: open existing files read-only.

        Returns:
            The variables under the names of the factories.
        """

        def make(factories: dict[str, VariableFactory], names: list[str]) -> list[Variable]:
            given = factories.values()
            if not (empty or memmap_dir) and all(f._makes_shared_variable() for f in given):
                arrays = [f.data_iter.next_as(f.dtype._np) for f in given]
                return make_shared_variables(arrays, names, [f.replica_grouping for f in given])
            return [f.create_tensor(n, empty, memmap_dir, read_only_if_exists) for f, n in zip(given, names)]

        return self._init(prefix, make)

    def init_remote(
        self,
        buffers: "NamedRemoteBuffers",
        entry: int = 0,
        prefix: str | None = None,
        empty: bool = False,
        memmap_dir: str | None = None,
        read_only_if_exists: bool = False,
    ) -> NamedTensors:
        """Make all variables in the remote buffers of their names; the main graph must be current.

        Args:
            buffers: tree of buffers with at least the names of the factories.
            entry: entry of each buffer.
            prefix: put before the names of the variables, with a dot.
            empty: uninitialised values.
            memmap_dir: keep the values in files of this folder.
            read_only_if_exists: open existing files read-only.

        Returns:
            The variables under the names of the factories.

        Raises:
            KeyError: a factory has no buffer.
        """
        by_name = buffers.to_dict()

        def make(factories: dict[str, VariableFactory], names: list[str]) -> list[Variable]:
            return [
                f.create_remote_tensor(by_name[key], entry, name, empty, memmap_dir, read_only_if_exists)
                for (key, f), name in zip(factories.items(), names)
            ]

        return self._init(prefix, make)

    def _init(
        self, prefix: str | None, make: Callable[[dict[str, VariableFactory], list[str]], list[Variable]]
    ) -> NamedTensors:
        """Return the tree of the results of `make` for all factories, with their dotted names and variable names."""
        with collector_paused():
            factories: dict[str, VariableFactory] = {}
            places: list[tuple[dict[str, Any], str]] = []
            entries = self._list_sorted("", factories, places)
            names = [f"{prefix}.{name}" for name in factories] if prefix else list(factories)
            for (place, key), made in zip(places, make(factories, names)):
                place[key] = made
            return NamedTensors._of(entries)

    def _list_sorted(
        self, path: str, factories: dict[str, VariableFactory], places: list[tuple[dict[str, Any], str]]
    ) -> dict[str, Any]:
        """List the factories in the order of their dotted names, each with the place for its result.

        Returns:
            The entries of the new tree, without empty subtrees; results are later stored at their places.
        """
        entries: dict[str, Any] = {}
        for key, entry in sorted(self._map.items()):  # a dot sorts before all characters of keys
            if not isinstance(entry, NamedVariableFactories):
                entries[key], factories[path + key] = None, entry
                places.append((entries, key))
            elif below := entry._list_sorted(f"{path}{key}.", factories, places):
                entries[key] = NamedTensors._of(below)
        return entries

    def _init_in_graph(self, init_type: str) -> NamedTensors:
        flat = self.to_dict().items()
        return NamedTensors.from_dict({name: ops.init(f.shape, f.dtype, name, init_type) for name, f in flat})

    def init_zero(self) -> NamedTensors:
        """Make tensors of zeros in the current graph."""
        return self._init_in_graph("zero")

    def init_undef(self) -> NamedTensors:
        """Make tensors of undefined content in the current graph."""
        return self._init_in_graph("undef")

    @property
    def replica_groupings(self) -> NamedReplicaGrouping:
        """Replica grouping of each factory."""
        return NamedReplicaGrouping.from_dict({name: f.replica_grouping for name, f in self.to_dict().items()})
