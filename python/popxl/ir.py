"""popxl.Ir, the program: graphs, wrappers of graphs and tensors, host values of variables."""

import inspect
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
from popart._internal import ir as _members_of_the_core  # noqa: F401
from popart_core import SessionOptions
from popart_core import _ir as _core

from popxl import _session_options
from popxl._collector import collector_paused
from popxl._programs import PROGRAMS, program
from popxl.errors import BuildError
from popxl.graph import Graph
from popxl.module import Module
from popxl.remote_buffer import RemoteBuffer
from popxl.replica_grouping import ReplicaGrouping
from popxl.streams import DeviceToHostStream, HostToDeviceStream
from popxl.tensor import Constant, Tensor, TensorByRef, TensorSpec, Variable

_VARIABLE, _CONSTANT = 4, 1


class Ir:
    """A program with one main graph and any number of sub-graphs.

    Args:
        replication: number of replicas, or ``"popdist"`` to take it from the launcher.
    """

    _graph_class = Graph
    _tensor_classes = (Tensor, Variable, Constant)

    def __init__(self, replication: int | Literal["popdist"] = 1) -> None:
        self._pb_ir = _core.Ir()
        self._options: SessionOptions = _session_options.get_session_options(self._pb_ir)
        self._graphs: dict[str, Graph] = {}
        self._variable_data: dict[str, np.ndarray] = {}  # host values: one entry per replica group
        self._replica_data: dict[str, np.ndarray] = {}  # values of all replicas, for variables that return all
        self._variables: dict[str, Variable] = {}
        self._read_only_memmap = False
        self._host_is_stale = False  # the device has newer values of variables
        self._streams: dict[str, Any] = {}
        self._remote_buffers: dict[int, RemoteBuffer] = {}
        self._num_host_transfers = 1
        self._graphs_of_moved_ops: set[str] = set()  # ids of graphs that transforms copied from other graphs
        self._whole_groupings: dict[int, ReplicaGrouping] = {}  # groupings of all replicas, by number of replicas
        self._is_prepared = False
        PROGRAMS[self._pb_ir.getId()] = self
        self._until_collected = self  # keeps it alive until `with popxl.Ir().main_graph:` is entered
        if replication == "popdist":
            import popdist

            total, local = popdist.getNumTotalReplicas(), popdist.getNumLocalReplicas()
            _session_options.set_distributed_replicas(self._options, total, local, popdist.getGlobalReplicaOffset())
        else:
            self.replication_factor = replication

    @classmethod
    def _from_id(cls, ir_id: int) -> "Ir":
        return program(ir_id)

    @classmethod
    def _from_pb(cls, pb_ir: Any) -> "Ir":
        return cls._from_id(pb_ir.getId())

    # ---- wrappers
    def _graph(self, pb_graph: Any) -> Graph:
        graph = self._graphs.get(pb_graph.id)
        if graph is None:
            graph = self._graphs[pb_graph.id] = self._graph_class._make(self, pb_graph)
        return graph

    def _tensor(self, graph: Graph, pb_tensor: Any) -> Tensor:
        tensor = graph._tensors.get(pb_tensor.id)
        if tensor is None:
            kind = pb_tensor.tensorType()
            plain, variable, constant = self._tensor_classes
            cls = variable if kind == _VARIABLE else constant if kind == _CONSTANT else plain
            tensor = Tensor._make(cls, graph, pb_tensor.index, pb_tensor.id)
        return tensor

    def _variable(
        self, graph: Graph, index: int, tensor_id: str, host: np.ndarray, grouping: ReplicaGrouping, mode: str
    ) -> Variable:
        """Wrap a new variable."""
        made = Tensor._make(self._tensor_classes[1], graph, index, tensor_id)
        made.replica_grouping, made.retrieval_mode = grouping, mode
        self._variables[tensor_id], self._variable_data[tensor_id] = made, host
        return made

    # ---- facts
    @property
    def id(self) -> int:
        """Number of the Ir, unique in the process."""
        return self._pb_ir.getId()

    @property
    def main_graph(self) -> Graph:
        """The main graph."""
        return self._graph(self._pb_ir.getMainGraph())

    def _check_open(self, what: str) -> None:
        """Raise an error if a Session has compiled the program, which forbids to change `what`.

        Raises:
            BuildError: a Session exists.
        """
        if self._is_prepared:
            raise BuildError(
                f"{self!r}: {what} cannot change after a popxl.Session was made for it: the session would not see it. "
                "Complete the program first, or make a new Ir."
            )

    @property
    def replication_factor(self) -> int:
        """Number of replicas in all processes. Setting it sets the number of replicas of this process.

        Raises:
            RuntimeError: on setting, when a Session exists.
            TypeError: on setting, the value is not an integer.
            ValueError: on setting, the value is below 1.
        """
        return _session_options.global_replicas(self._options)

    @replication_factor.setter
    def replication_factor(self, value: int) -> None:
        self._check_open("its replication factor")
        if not isinstance(value, (int, np.integer)):
            raise TypeError(f"replication_factor: got {value!r}, expected a whole number (popxl.Ir also: 'popdist').")
        if value < 1:
            raise ValueError(f"replication_factor: got {value}, expected at least 1.")
        _session_options.set_replicas(self._options, int(value))

    @property
    def instance_replication_factor(self) -> int:
        """Number of replicas of this process."""
        return _session_options.local_replicas(self._options)

    @property
    def num_host_transfers(self) -> int:
        """Number of values of each stream in one `Session.run`.

        Raises:
            RuntimeError: on setting, when a Session exists.
        """
        return self._num_host_transfers

    @num_host_transfers.setter
    def num_host_transfers(self, value: int) -> None:
        self._check_open("num_host_transfers")
        self._num_host_transfers = value

    def replica_grouping(self, stride: int = 1, group_size: int | None = None) -> ReplicaGrouping:
        """Group replicas with a constant stride (`ReplicaGrouping`).

        Returns:
            The grouping.

        Raises:
            ValueError: stride or group_size does not fit the replication factor.
        """
        if stride != 1 or group_size is not None:
            return ReplicaGrouping._regular(self, stride, group_size)
        replicas = _session_options.global_replicas(self._options)
        if replicas not in self._whole_groupings:
            self._whole_groupings[replicas] = ReplicaGrouping._regular(self, 1, None)
        return self._whole_groupings[replicas]

    def replica_grouping_from_assignments(self, assignment: list[int]) -> ReplicaGrouping:
        """Group replicas by a list with the group number of each replica.

        Args:
            assignment: group number of each replica, one per replica.

        Returns:
            The grouping.

        Raises:
            ValueError: groups of different size, wrong numbering or wrong length.
        """
        return ReplicaGrouping._from_assignment(self, assignment)

    def get_all_h2d_streams(self) -> set[HostToDeviceStream]:
        """Return the host-to-device streams that at least one host load uses."""
        return {self._streams[i] for i in self._pb_ir.usedStreams("HostLoad")}

    def get_all_d2h_streams(self) -> set[DeviceToHostStream]:
        """Return the device-to-host streams that at least one host store uses."""
        return {self._streams[i] for i in self._pb_ir.usedStreams("HostStore")}

    def dot_checkpoint(self, check: str, save_dir: Path | str | None = None) -> None:
        """Write every graph as a DOT file ``<check>_<graph>.dot``.

        Nothing is written if the session option dotChecks or POPART_DOT_CHECKS name only other checkpoints.

        Args:
            check: name of the checkpoint.
            save_dir: folder, created if it does not exist; it becomes the session option logDir. Default: logDir.
        """
        if save_dir is not None:
            Path(save_dir).mkdir(parents=True, exist_ok=True)
            self._options.logDir = str(save_dir)
        checks = _session_options.dot_checks(self._options)
        if not checks:
            self._options.dotChecks = {"ALL"}
        elif not checks & {"ALL", check.upper()}:
            return
        folder = Path(self._options.logDir)
        for graph in self._pb_ir.getAllGraphs():
            name = "".join(c if c.isalnum() or c in "_-" else "_" for c in graph.id) or "main"
            (folder / f"{check}_{name}.dot").write_text(graph.toDot())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ir):
            raise TypeError(f"A popxl.Ir can only be compared with a popxl.Ir: got {type(other).__name__}.")
        return self is other or self.id == other.id

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"Ir[id={self.id}]"

    def _repr_html_(self) -> str:
        """A table of the graphs in a notebook."""
        from popart._notebook import rows_html

        graphs = [self._graph(graph) for graph in self._pb_ir.getAllGraphs()]
        rows = [
            (graph.id or "main", len(graph._pb_graph.getOpIds()), len(graph.inputs), len(graph.outputs))
            for graph in graphs
        ]
        title = f"Ir {self.id}" + (f", {self.replication_factor} replicas" if self.replication_factor > 1 else "")
        return rows_html(title, ("graph", "ops", "inputs", "outputs"), rows)

    # ---- graphs
    def create_empty_graph(self, name: str | None = None) -> Graph:
        """Make a graph without inputs, ops and outputs; its id is ``<name>_subgraph(<n>)``."""
        return self._new_graph(name or "graph")

    def _new_graph(self, base: str) -> Graph:
        self._check_open("its graphs")
        return self._graph(self._pb_ir.createGraph(self._pb_ir.createUniqueSubgraphId(base)))

    def create_graph(self, fn: Callable[..., Any] | Module, *args: Any, **kwargs: Any) -> Graph:
        """Make a graph by calling `fn` with graph inputs instead of its tensor arguments.

        Args:
            fn: function, method or `popxl.Module`.
            *args: arguments of `fn`; tensors, tensor specs and lists of them become graph inputs.
            **kwargs: as `args`.

        Returns:
            The graph; its outputs are what `fn` returned.

        Raises:
            TypeError: `fn` has no name, or a container mixes tensors with other values.
            ValueError: the arguments do not fit the signature, or `fn` returns something else than
                tensors of the graph.
        """
        name, signature, annotations = _describe(fn)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as e:
            raise ValueError(f"The arguments do not match the signature of the function `{name}`: {e}.") from e
        bound.apply_defaults()
        graph = self.create_empty_graph(name)
        with graph, collector_paused():
            for param in signature.parameters.values():
                if param.name in bound.arguments:
                    value = bound.arguments[param.name]
                    bound.arguments[param.name] = _bind_parameter(graph, param, value, annotations.get(param.name))
            result = fn(*bound.args, **bound.kwargs)
            for tensor in _as_outputs(result):
                if tensor not in graph:
                    raise ValueError(f"Tensor {tensor} returned by `{name}` is not in the graph {graph.id}.")
                graph._mark_output(tensor)
        return graph


def _describe(fn: Any) -> tuple[str, inspect.Signature, dict[str, Any]]:
    if isinstance(fn, Module):
        target, name = fn.build, type(fn).__qualname__
    else:
        target, name = fn, getattr(fn, "__qualname__", None)
    if not callable(fn) or name is None:
        raise TypeError(f"create_graph needs a function, a method or a popxl.Module: got {type(fn).__name__}.")
    signature = inspect.signature(target)
    return name.replace(".<locals>", ""), signature, {p.name: p.annotation for p in signature.parameters.values()}


def _is_tensor(value: Any) -> bool:
    return isinstance(value, (Tensor, TensorSpec))


def _bind_parameter(graph: Graph, param: inspect.Parameter, value: Any, annotation: Any) -> Any:
    def add(name: str, spec: Any, by_ref: bool) -> Tensor:
        return graph._add_input(tuple(spec.shape), spec.dtype, name, by_ref, tuple(spec.meta_shape))

    def all_tensors(values: list[Any]) -> bool:
        tensors = [_is_tensor(v) for v in values]
        if any(tensors) and not all(tensors):
            raise TypeError(f"Argument `{param.name}` mixes tensors and other values; pass them separately.")
        return bool(tensors) and all(tensors)

    by_ref = annotation is TensorByRef
    if _is_tensor(value):
        return add(param.name, value, by_ref)
    if param.kind is inspect.Parameter.VAR_KEYWORD:
        if not all_tensors(list(value.values())):
            return value
        return OrderedDict((key, add(key, spec, by_ref)) for key, spec in value.items())
    if isinstance(value, (list, tuple)):
        if not all_tensors(list(value)):
            return value
        if param.kind is not inspect.Parameter.VAR_POSITIONAL:
            by_ref = _is_by_ref_container(annotation)
        result = [add(f"{param.name}_{i}", spec, by_ref) for i, spec in enumerate(value)]
        return tuple(result) if param.kind is inspect.Parameter.VAR_POSITIONAL else result
    return value


def _is_by_ref_container(annotation: Any) -> bool:
    return getattr(annotation, "__origin__", None) in (list, tuple) and getattr(annotation, "__args__", ()) == (
        TensorByRef,
    )


def _as_outputs(result: Any) -> list[Tensor]:
    if result is None:
        return []
    if isinstance(result, Tensor):
        return [result]
    try:
        outputs = list(result)
    except TypeError:
        outputs = [result]
    for out in outputs:
        if not isinstance(out, Tensor):
            raise ValueError(f"A graph function returns None, a tensor or tensors: got {type(out).__name__}.")
    return outputs
