"""batch_serialise: runs a graph step by step in a device loop that loads its inputs and stores its outputs.

Step i of row r has entry row * steps + i of a remote buffer: a buffer is a matrix of rows (layers) and steps
(micro-batches).
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import popxl
from popxl import ops
from popxl.ops import collectives
from popxl.transforms.autodiff import ExpectedConnectionType

from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.remote import create_remote_buffer
from popxl_addons.rts import gather_replica_sharded_tensor
from popxl_addons.transforms.serial_loop import SerialLoop
from popxl_addons.utils import suffix_graph_name, tiles

RowOffset = int | None | Callable[[popxl.Tensor], popxl.Tensor]

_MODES = ("compute", "io", "io_overlapped")


@dataclass
class RemoteHandle:
    """A row of a remote buffer, which holds a tensor for each step.

    Args:
        buffer: the buffer.
        row_offset: a number that is added to the row; None: the first row for all; or a function of the row (int32,
            scalar) that returns the row of the buffer.
        shard_group: replicas that hold the parts of the tensor; None: it is not sharded.
    """

    buffer: popxl.RemoteBuffer
    row_offset: RowOffset = 0
    shard_group: popxl.ReplicaGrouping | None = None

    @property
    def is_sharded(self) -> bool:
        """Whether the buffer holds parts of tensors."""
        return self.shard_group is not None and self.shard_group.group_size != 1

    def row_of(self, row: popxl.Tensor) -> popxl.Tensor | None:
        """Add ops that compute the row of the buffer from the loop's `row`; None: the first row."""
        if self.row_offset is None:
            return None
        return self.row_offset(row) if callable(self.row_offset) else row + int(self.row_offset)

    def reserve(self, steps: int, rows: int) -> None:
        """Enlarge the buffer to at least the entries for `rows` rows of `steps` steps."""
        needed = 1 if self.row_offset is None else rows if callable(self.row_offset) else rows + int(self.row_offset)
        self.buffer.entries = max(self.buffer.entries, steps * needed)


LoadHandle = popxl.HostToDeviceStream | RemoteHandle | tuple
LoadHandles = dict[popxl.Tensor, LoadHandle]
StoreStreams = Mapping[popxl.Tensor, popxl.DeviceToHostStream]
StoreBuffers = dict[popxl.Tensor, RemoteHandle | tuple]


@dataclass
class BatchSerialResult:
    """A batch-serialised graph.

    Args:
        graph: the graph; its inputs are the row, the seed if there is one, and the inputs that are passed through.
        stored_buffers: tensor of the original graph → where it is stored.
        remap_dict: input of the original graph → input of the graph.
    """

    graph: GraphWithNamedArgs
    stored_buffers: dict[popxl.Tensor, RemoteHandle]
    remap_dict: dict[popxl.Tensor, popxl.Tensor]

    def remap_tensors(self, named_tensors: NamedTensors) -> NamedTensors:
        """Return the tree with every input of the original graph replaced by that of this graph.

        Args:
            named_tensors: tree of inputs that are passed through.

        Returns:
            Tensors of the graph under the same names.

        Raises:
            KeyError: an input is not passed through.
        """
        return named_tensors.remap(self.remap_dict)


def batch_serial_buffer(
    t: popxl.Tensor, steps: int = 1, rows: int = 1, shard_group: popxl.ReplicaGrouping | None = None
) -> popxl.RemoteBuffer:
    """Make a remote buffer for a tensor of every step of every row.

    Args:
        t: tensor (or spec) of one step.
        steps: number of steps.
        rows: number of rows.
        shard_group: replicas that hold the parts of each entry; None: not sharded.

    Returns:
        The buffer, with steps * rows entries.

    Raises:
        ValueError: the number of elements is not a multiple of the group size.
    """
    parts = 1 if shard_group is None else shard_group.group_size
    return create_remote_buffer(t, steps * rows, shard_group, parts)


def _to_handles(handles: dict[popxl.Tensor, Any], allowed: tuple[type, ...], name: str) -> None:
    """Convert tuples in place.

    Raises:
        TypeError: a handle has the wrong type.
    """
    for t, handle in handles.items():
        if isinstance(handle, tuple):
            handles[t] = handle = RemoteHandle(*handle)
        if not isinstance(handle, allowed):
            expected = ", ".join(kind.__name__ for kind in allowed)
            raise TypeError(f"{name}: handle of {t}: got {type(handle).__name__}, expected {expected} or a tuple.")


def _checked_mode(ir: popxl.Ir, steps: int, rows: int, io_mode: str) -> str:
    """Return the mode to use, after a check of the arguments.

    Raises:
        ValueError: unknown mode, no IO tiles, or a number below 1.
    """
    if io_mode not in _MODES:
        raise ValueError(f"io_mode: got {io_mode!r}, expected {', '.join(map(repr, _MODES))}.")
    for name, value in (("rows", rows), ("steps", steps)):
        if value < 1:
            raise ValueError(f"{name}: got {value}, expected at least 1.")
    tiles = ir._pb_ir.getSessionOptions().numIOTiles
    if io_mode != "compute" and tiles < 1:
        raise ValueError(
            f"io_mode: {io_mode!r} needs IO tiles: numIOTiles is {tiles}, expected at least 1. Set "
            "ir._pb_ir.getSessionOptions().numIOTiles, or take io_mode='compute'."
        )
    if io_mode == "io_overlapped" and steps < 2:
        logging.warning("batch_serialise: io_mode 'io_overlapped' needs 2 steps or more: got %s. Taking 'io'.", steps)
        return "io"
    return io_mode


class _Step:
    """The loads, the computation and the stores of each step."""

    def __init__(
        self, graph: popxl.Graph, loads: LoadHandles, streams: StoreStreams, buffers: StoreBuffers, use_io_tiles: bool
    ) -> None:
        own = {*graph.inputs, *graph.outputs}
        self.graph = graph
        self.loads = {t: handle for t, handle in loads.items() if t in graph.inputs}
        self.streams = {t: stream for t, stream in streams.items() if t in own}
        loaded = {t: h for t, h in self.loads.items() if isinstance(h, RemoteHandle)}
        self.stored_buffers = {t: loaded.get(t, handle) for t, handle in buffers.items() if t in own}
        self.buffers = {t: handle for t, handle in self.stored_buffers.items() if t not in loaded}
        self._tiles = use_io_tiles

    @property
    def handles(self) -> list[RemoteHandle]:
        """All remote handles."""
        return [h for h in (*self.loads.values(), *self.buffers.values()) if isinstance(h, RemoteHandle)]

    @property
    def stored(self) -> list[popxl.Tensor]:
        """Tensors of the graph that are stored, each once."""
        return list(dict.fromkeys([*self.streams, *self.buffers]))

    def load(self, entry: Callable[[RemoteHandle], popxl.Tensor]) -> list[popxl.Tensor]:
        """Load the inputs of a step."""
        loaded = []
        for t, handle in self.loads.items():
            if isinstance(handle, RemoteHandle):
                at = self._to_tiles(entry(handle))
                with tiles(self._tiles):
                    value = ops.remote_load(handle.buffer, at, t.name)
                if handle.is_sharded:
                    loaded.append(gather_replica_sharded_tensor(value, self._tiles, handle.shard_group))
                    continue
            else:
                with tiles(self._tiles):
                    value = ops.host_load(handle, t.name)
            loaded.append(self._to_tiles(value))
        return loaded

    def compute(self, loaded: list[popxl.Tensor], others: Mapping[popxl.Tensor, popxl.Tensor]) -> list[popxl.Tensor]:
        """Call the graph; return the tensors to store."""
        given = {**dict(zip(self.loads, loaded)), **others}
        values = {**given, **dict(zip(self.graph.outputs, ops.call(self.graph, inputs_dict=given)))}
        return [values[t] for t in self.stored]

    def store(self, results: list[popxl.Tensor], entry: Callable[[RemoteHandle], popxl.Tensor]) -> None:
        """Store the results of a step."""
        for t, value in zip(self.stored, results):
            if t in self.streams:
                moved = self._to_tiles(value)
                with tiles(self._tiles):
                    ops.host_store(self.streams[t], moved)
            if t in self.buffers:
                handle = self.buffers[t]
                part = collectives.replica_sharded_slice(value, handle.shard_group) if handle.is_sharded else value
                at, moved = self._to_tiles(entry(handle)), self._to_tiles(part)
                with tiles(self._tiles):
                    ops.remote_store(handle.buffer, at, moved)

    def _to_tiles(self, t: popxl.Tensor) -> popxl.Tensor:
        """Copy between compute and IO tiles, if IO tiles are used."""
        return ops.io_tile_copy(t) if self._tiles else t


def batch_serialise(
    graph: GraphWithNamedArgs,
    steps: int,
    load_handles: LoadHandles,
    store_streams: StoreStreams,
    store_buffers: StoreBuffers,
    seed_input: popxl.Tensor | None = None,
    rows: int = 1,
    io_mode: str = "io",
) -> BatchSerialResult:
    """Make a graph that runs another one `steps` times, with inputs from and outputs to streams or remote buffers.

    Args:
        graph: the graph.
        steps: number of steps.
        load_handles: input of the graph → stream or remote handle; tuples (buffer, row_offset[, shard_group]) are
            converted in this dictionary.
        store_streams: input or output → stream.
        store_buffers: input or output → remote handle or tuple. Inputs loaded from a remote buffer are not stored.
        seed_input: input (uint32, two elements) that gets a different seed in each step.
        rows: number of rows of the buffers: different values of the result's first input.
        io_mode: ``"compute"``: load and store on compute tiles; ``"io"``: on IO tiles; ``"io_overlapped"``: on IO
            tiles, where one step is loaded and another stored while a third computes. The results are the same.

    Returns:
        The graph, called as ``result.graph.bind(args).call(row[, seed])``: row is an int32 scalar.

    Raises:
        TypeError: a handle has the wrong type.
        ValueError: unknown mode, a mode with IO tiles although there are none, rows or steps below 1.
        KeyError: a named input is loaded.
    """
    inner = graph.graph
    io_mode = _checked_mode(inner.ir, steps, rows, io_mode)
    _to_handles(load_handles, (popxl.HostToDeviceStream, RemoteHandle), "load_handles")
    _to_handles(store_buffers, (RemoteHandle,), "store_buffers")
    for t, stream in store_streams.items():
        if not isinstance(stream, popxl.DeviceToHostStream):
            raise TypeError(f"store_streams: {t}: got {type(stream).__name__}, expected a DeviceToHostStream.")
    step = _Step(inner, load_handles, store_streams, store_buffers, io_mode != "compute")
    for handle in step.handles:
        handle.reserve(steps, rows)
    outer = inner.ir.create_empty_graph(suffix_graph_name(inner.name, "_repeat_graph"))
    with outer, popxl.in_sequence(True):
        row = popxl.graph_input((), popxl.int32, "batch_serial_loop_index")
        seed = None if seed_input is None else popxl.graph_input((2,), popxl.uint32, "batch_serial_random_seed")
        passed = {
            t: popxl.graph_input(t.shape, t.dtype, t.name, t in inner._by_ref_inputs, t.meta_shape)
            for t in inner.inputs
            if t not in step.loads and t != seed_input
        }
        loop = SerialLoop(step, steps, row, seed_input, seed, passed)
        (loop.overlapped if io_mode == "io_overlapped" else loop.plain)()
    args = graph.args.remap(passed)
    return BatchSerialResult(GraphWithNamedArgs(outer, args), step.stored_buffers, passed)


def batch_serialise_fwd_and_grad(
    forward_graph: GraphWithNamedArgs,
    gradient_graph: GraphWithNamedArgs,
    named_inputs_for_grad_graph: NamedTensors,
    steps: int,
    load_handles: LoadHandles,
    store_streams: StoreStreams,
    store_buffers: dict[popxl.Tensor, RemoteHandle | tuple | popxl.ReplicaGrouping],
    seed_input: popxl.Tensor | None = None,
    rows: int = 1,
    io_mode: str = "io",
) -> tuple[BatchSerialResult, BatchSerialResult]:
    """Batch-serialise a graph and its gradient graph; activations are passed to the second through remote buffers.

    Args:
        forward_graph: the graph.
        gradient_graph: its gradient graph, with grad_graph_info. Its args get the named activations.
        named_inputs_for_grad_graph: forward inputs that also become named inputs of the gradient result, usually
            ``forward_graph.args``.
        steps: as in `batch_serialise`.
        load_handles: for inputs of both graphs; they must include every gradient that the gradient graph reads.
        store_streams: for both graphs.
        store_buffers: for both graphs; a ReplicaGrouping shards an activation that is stored automatically.
        seed_input: input of the forward graph.
        rows: as in `batch_serialise`.
        io_mode: as in `batch_serialise`.

    Returns:
        Results for the forward graph and for the gradient graph.

    Raises:
        ValueError: a gradient is not in load_handles; and as `batch_serialise`.
        TypeError: as `batch_serialise`.
        AttributeError: `gradient_graph` is not a gradient graph.
    """
    info = gradient_graph.grad_graph_info
    _to_handles(load_handles, (popxl.HostToDeviceStream, RemoteHandle), "load_handles")
    _to_handles(store_buffers, (RemoteHandle, popxl.ReplicaGrouping), "store_buffers")
    groups = {t: g for t, g in store_buffers.items() if isinstance(g, popxl.ReplicaGrouping)}
    buffers: dict[popxl.Tensor, Any] = {t: h for t, h in store_buffers.items() if t not in groups}
    names = {t: name for name, t in named_inputs_for_grad_graph.to_dict().items()}
    named: dict[str, popxl.Tensor] = {}
    grad_loads = dict(load_handles)
    for t, connection in zip(gradient_graph.graph.inputs, info.expected_inputs):
        activation = connection.fwd_tensor
        if connection.connection_type is ExpectedConnectionType.FwdGrad:
            if t not in load_handles:
                raise ValueError(
                    f"load_handles: {t}, the gradient of {activation}, is missing. Say where it is loaded from."
                )
        elif activation in names:
            named[names[activation]] = t
        else:
            grad_loads[t] = _activation_handle(activation, load_handles, buffers, groups, steps, rows)
    gradient_graph.args = NamedTensors.from_dict({**named, **gradient_graph.args.to_dict()})
    forward = batch_serialise(forward_graph, steps, load_handles, store_streams, buffers, seed_input, rows, io_mode)
    gradient = batch_serialise(gradient_graph, steps, grad_loads, store_streams, buffers, None, rows, io_mode)
    gradient.graph.grad_graph_info = info
    return forward, gradient


def _activation_handle(
    activation: popxl.Tensor,
    loads: LoadHandles,
    buffers: dict[popxl.Tensor, Any],
    groups: Mapping[popxl.Tensor, popxl.ReplicaGrouping],
    steps: int,
    rows: int,
) -> RemoteHandle:
    """Return the handle from which the gradient graph loads an activation; add a buffer to `buffers` if needed."""
    loaded = loads.get(activation)
    if isinstance(loaded, RemoteHandle):
        return loaded
    if activation not in buffers:
        group = groups.get(activation)
        buffers[activation] = RemoteHandle(batch_serial_buffer(activation.spec, steps, rows, group), 0, group)
    return buffers[activation]
