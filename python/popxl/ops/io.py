"""Ops that make, print and place tensors, and exchange them with the host or remote memory."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from popart._arrays import as_shape

from popxl import dtypes
from popxl.context import _set, get_current_graph, ipu
from popxl.dtypes import dtype
from popxl.errors import UndefinedValue
from popxl.graph import Graph
from popxl.ops.elementwise import _ONNX_NUMBER
from popxl.ops.utils import check_in_graph, emit, emit_one
from popxl.remote_buffer import RemoteBuffer
from popxl.streams import DeviceToHostStream, HostToDeviceStream
from popxl.tensor import Tensor, constant

_INIT_TYPES = {"undef": 0, "zero": 1}
_FLOAT_FORMATS = {"auto": 0, "fixed": 1, "scientific": 2, "none": 3}


def _require(function: str, name: str, value: Any, kind: type) -> None:
    """Check an argument that belongs to a program.

    Raises:
        TypeError: it has a wrong type.
        ValueError: it belongs to another Ir than the current graph.
    """
    if not isinstance(value, kind):
        raise TypeError(f"{function}: {name}: got {value!r}, expected a popxl.{kind.__name__}.")
    its, current = value._ir, get_current_graph().ir
    if its != current:
        raise ValueError(f"{function}: {name}: got {value!r} of {its!r}, expected one of {current!r}.")


def init(
    shape: Iterable[int],
    dtype: dtype,
    name: str | None = None,
    init_type: str = "zero",
    meta_shape: Iterable[int] | None = None,
) -> Tensor:
    """Make a tensor of zeros or of undefined content.

    Args:
        shape: dimension sizes.
        dtype: element type.
        name: name, default ``"t"``.
        init_type: ``"zero"`` or ``"undef"``.
        meta_shape: shape of the whole tensor if the result is a replica's part of it.

    Returns:
        Tensor of that shape, dtype and meta shape (ai.graphcore Init-1).

    Raises:
        TypeError: `dtype` is not a popxl dtype.
        ValueError: unknown init_type.
    """
    if init_type not in _INIT_TYPES:
        raise ValueError(f"init_type: got {init_type!r}, expected 'zero' or 'undef'.")
    dtypes.dtype._require(dtype, "init")
    attributes = {
        "shape": list(as_shape(shape, "init")),
        "dtype": _ONNX_NUMBER[dtype.name],
        "init_type": _INIT_TYPES[init_type],
    }
    attributes["meta_shape"] = list(meta_shape) if meta_shape else None
    return emit_one("Init", {}, name or "t", attributes)


def host_load(h2d_stream: HostToDeviceStream, name: str | None = None) -> Tensor:
    """Load the next value of a stream.

    Args:
        h2d_stream: stream to read.
        name: name, default that of the stream.

    Returns:
        Tensor of the stream's shape and dtype.

    Raises:
        TypeError: `h2d_stream` is not a stream from the host.
        ValueError: it belongs to another Ir.
    """
    _require("host_load", "h2d_stream", h2d_stream, HostToDeviceStream)
    name = name or h2d_stream.tensor_id
    target = init(h2d_stream.shape, h2d_stream.dtype, f"{name}_init", "undef")
    return emit_one("HostLoad", {"t": target}, f"{name}_hostload", {"stream": h2d_stream.tensor_id})


def host_store(d2h_stream: DeviceToHostStream, t: Tensor) -> None:
    """Store a tensor as the next value of a stream.

    Args:
        d2h_stream: stream to the host.
        t: the tensor.

    Raises:
        TypeError: `d2h_stream` is not a stream to the host.
        ValueError: shape or dtype differ from the stream, or it belongs to another Ir.
    """
    _require("host_store", "d2h_stream", d2h_stream, DeviceToHostStream)
    check_in_graph(get_current_graph(), t=t)
    if t.dtype != d2h_stream.dtype:
        raise ValueError(f"host_store: dtypes differ: got {t.dtype}, expected {d2h_stream.dtype} ({d2h_stream}).")
    if t.shape != d2h_stream.shape:
        raise ValueError(f"host_store: shapes differ: got {t.shape}, expected {d2h_stream.shape} ({d2h_stream}).")
    emit("HostStore", {"t": t}, [], {"stream": d2h_stream.tensor_id})


def ipu_copy(t: Tensor, destination: int, source: int | None = None) -> Tensor:
    """Copy a tensor to another IPU.

    Args:
        t: tensor.
        destination: IPU to copy to.
        source: IPU of t; default: that of its producer or consumers.

    Returns:
        Tensor of the shape and dtype of t, on IPU `destination`.

    Raises:
        ValueError: the source is unknown.
    """
    check_in_graph(get_current_graph(), t=t)
    if source is None:
        try:
            source = t.ipu
        except UndefinedValue as e:
            raise ValueError(f"ipu_copy: the IPU of {t} is unknown. Pass `source`.") from e
    with ipu(destination):
        return emit_one("IpuCopy", {"t": t}, f"{t.name}_c{destination}", {"source": source, "destination": destination})


def io_tile_copy(t: Tensor) -> Tensor:
    """Copy a tensor to the other tile set: from IO tiles to compute tiles, otherwise to IO tiles.

    Args:
        t: the tensor.

    Returns:
        Tensor of the shape and dtype of t.
    """
    check_in_graph(get_current_graph(), t=t)
    try:
        source = t.tile_set
    except UndefinedValue:
        source = "compute"
    with _set("io_tile_set", "compute" if source == "io" else "io"):
        return emit_one("IoTileCopy", {"t": t}, f"{t.name}_iotilecopy")


def print_tensor(
    t: Tensor,
    title: str | None = None,
    print_self: bool = True,
    print_gradient: bool = False,
    summarise_threshold: int = 1000,
    edge_items: int = 3,
    max_line_width: int = 75,
    digits: int = 8,
    float_format: str = "auto",
    separator: str = " ",
    open_bracket: str = "[",
    close_bracket: str = "]",
) -> Tensor:
    """Print a tensor on standard error each time it executes, and return a copy.

    Args:
        t: tensor to print.
        title: text before the value, default ``print_<t.name>``.
        print_self: print the value.
        print_gradient: print the gradient under the title ``<title>_gradient``.
        summarise_threshold: number of elements from which on only the edges are printed.
        edge_items: elements at each edge.
        max_line_width: characters per line.
        digits: significant digits.
        float_format: ``"auto"``, ``"fixed"``, ``"scientific"`` or ``"none"``.
        separator: one character between elements.
        open_bracket: one character.
        close_bracket: one character.

    Returns:
        Tensor of the shape and dtype of t; use it instead of t: an op whose result is unused may be removed.

    Raises:
        ValueError: a separator or bracket is not one character.
        KeyError: unknown float_format.
    """
    check_in_graph(get_current_graph(), t=t)
    for name, value in (("separator", separator), ("open_bracket", open_bracket), ("close_bracket", close_bracket)):
        if len(value) != 1:
            raise ValueError(f"print_tensor: {name}: got {value!r}, expected one character.")
    attributes = {
        "title": title or f"print_{t.name}",
        "print_self": int(print_self),
        "print_gradient": int(print_gradient),
        "summariseThreshold": summarise_threshold,
        "edgeItems": edge_items,
        "maxLineWidth": max_line_width,
        "digits": digits,
        "floatFormat": _FLOAT_FORMATS[float_format],
        "separator": separator,
        "openBracket": open_bracket,
        "closeBracket": close_bracket,
    }
    return emit_one("PrintTensor", {"t": t}, "print_out", attributes)


def code_copy(*args: Any, **kwargs: Any) -> None:
    """Copy code between devices; not implemented.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError("popxl.ops.io.code_copy: code is not copied between devices.")


def entry_tensor(remote_buffer: RemoteBuffer, offset: int | Tensor, function: str) -> Tensor:
    """Return the number of an entry of a remote buffer as a tensor.

    Raises:
        TypeError: `remote_buffer` is not a remote buffer, or the offset is neither integer nor tensor.
        ValueError: the buffer has no such entry or belongs to another Ir, or the tensor is not one element of uint32 or
            int32.
    """
    _require(function, "remote_buffer", remote_buffer, RemoteBuffer)
    if isinstance(offset, (int, np.integer)):
        remote_buffer._require_entry(offset)
        return constant(offset, dtypes.uint32, "offset")
    check_in_graph(get_current_graph(), offset=offset)
    if offset.dtype not in (dtypes.uint32, dtypes.int32) or offset.nelms != 1:
        raise ValueError(
            f"{function}: offset: got {offset.dtype} of shape {offset.shape}, expected one element of uint32 or int32."
        )
    return offset


def remote_load(remote_buffer: RemoteBuffer, offset: int | Tensor, name: str | None = None) -> Tensor:
    """Load an entry of a remote buffer into a new tensor.

    Args:
        remote_buffer: the buffer.
        offset: its entry, an integer or a tensor of one uint32 or int32 element.
        name: name, default: derived from buffer and offset.

    Returns:
        Tensor of the buffer's shape and dtype, with its meta shape (ai.graphcore RemoteLoad-1).

    Raises:
        TypeError: `remote_buffer` is not a remote buffer, or the offset is neither integer nor tensor.
        ValueError: the buffer has no such entry or belongs to another Ir, or the offset tensor has a wrong type or
            size. An offset tensor whose value is out of range ends the run with popart_runtime_error.
    """
    offset = entry_tensor(remote_buffer, offset, "remote_load")
    name = name or f"id_{remote_buffer.remote_buffer_id}_offset_{offset.name}"
    whole = remote_buffer.meta_shape
    target = init(remote_buffer.tensor_shape, remote_buffer.tensor_dtype, f"{name}_remote_load", "undef", whole)
    inputs = {"t": target, "offset": offset}
    attributes = {"remote_buffer": remote_buffer._core_id}
    return emit_one("RemoteLoad", inputs, f"{name}_remote_loaded", attributes, same_placement=False)


def remote_load_(remote_buffer: RemoteBuffer, offset: int | Tensor, t: Tensor) -> Tensor:
    """Load an entry of a remote buffer into a tensor, in place.

    Args:
        remote_buffer: the buffer.
        offset: its entry, an integer or a tensor of one uint32 or int32 element.
        t: the tensor to overwrite, of the buffer's shape and dtype.

    Returns:
        The tensor with its new value (ai.graphcore RemoteLoadInplace-1).

    Raises:
        TypeError: as `remote_load`.
        ValueError: as `remote_load`, and when shape or dtype differ from the buffer's.
    """
    check_in_graph(get_current_graph(), t=t)
    offset = entry_tensor(remote_buffer, offset, "remote_load_")
    remote_buffer.validate_tensor_matches_buffer(t)
    inputs = {"t": t, "offset": offset}
    attributes = {"remote_buffer": remote_buffer._core_id}
    return emit_one("RemoteLoadInplace", inputs, "remote_load_inplace_out", attributes, same_placement=False)


def remote_store(remote_buffer: RemoteBuffer, offset: int | Tensor, t: Tensor) -> None:
    """Store a tensor in an entry of a remote buffer.

    Args:
        remote_buffer: the buffer.
        offset: its entry, an integer or a tensor of one uint32 or int32 element.
        t: the tensor, of the buffer's shape and dtype.

    Raises:
        TypeError: as `remote_load`.
        ValueError: as `remote_load_`.
    """
    offset = entry_tensor(remote_buffer, offset, "remote_store")
    check_in_graph(get_current_graph(), t=t)
    remote_buffer.validate_tensor_matches_buffer(t)
    attributes = {"remote_buffer": remote_buffer._core_id}
    emit("RemoteStore", {"t": t, "offset": offset}, [], attributes, same_placement=False)


def remote_code_load(graph: Graph, destination: str) -> None:
    """Load the code of a graph before its call. Devices with one memory do nothing; the op appears in printed programs.

    Args:
        graph: graph whose code is loaded.
        destination: ``"executable"``.

    Raises:
        TypeError: `graph` is not a graph, or `destination` is not text.
        ValueError: the graph is the current one, or belongs to another Ir.
        NotImplementedError: the destination is not ``"executable"``.
    """
    _require("remote_code_load", "graph", graph, Graph)
    if graph == get_current_graph():
        raise ValueError(f"remote_code_load: graph: got {graph!r}, the current graph, expected another one.")
    if not isinstance(destination, str):
        raise TypeError(f"remote_code_load: destination: got {destination!r}, expected 'executable'.")
    if destination != "executable":
        raise NotImplementedError(f"remote_code_load: destination: got {destination!r}, expected 'executable'.")
    emit("RemoteCodeLoad", {}, [], {"graph": graph.id, "destination": destination})
