"""Streams between host and device.

A stream is a tensor of the main graph; equality and hash are those of the tensor.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from popart._arrays import as_shape

from popxl.context import get_main_graph
from popxl.dtypes import dtype
from popxl.tensor import Tensor, TensorSpec

if TYPE_CHECKING:
    from popxl.ir import Ir


class Stream:
    """Base class of the two directions; has no constructor."""

    def __init__(self) -> None:
        raise NotImplementedError("Cannot create a stream directly; use popxl.h2d_stream or popxl.d2h_stream.")

    @classmethod
    def _create(cls, shape: Iterable[int], element_type: dtype, name: str) -> Any:
        graph = get_main_graph()
        core = dtype._require(element_type, f"Stream '{name}'")._core
        self = object.__new__(cls)
        pb_tensor = graph._pb_graph.addStream(graph._create_tensor_id(name), core, as_shape(shape, f"Stream '{name}'"))
        self._stream_tensor = graph.ir._tensor(graph, pb_tensor)
        self._hash = hash(self._stream_tensor)
        graph.ir._streams[self._stream_tensor.id] = self
        return self

    @property
    def _ir(self) -> "Ir":
        return self._stream_tensor.ir

    @property
    def dtype(self) -> dtype:
        """Element type."""
        return self._stream_tensor.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one transfer on one replica."""
        return self._stream_tensor.shape

    @property
    def spec(self) -> TensorSpec:
        """Shape and dtype of one transfer."""
        return self._stream_tensor.spec

    @property
    def tensor_id(self) -> str:
        """Id of the stream's tensor."""
        return self._stream_tensor.id

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Stream) and self._stream_tensor == other._stream_tensor)

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return f"{type(self).__name__} {self._stream_tensor}"


class HostToDeviceStream(Stream):
    """Stream that `ops.host_load` reads."""


class DeviceToHostStream(Stream):
    """Stream that `ops.host_store` writes."""


def h2d_stream(shape: Iterable[int], dtype: dtype, name: str | None = None) -> HostToDeviceStream:
    """Make a stream from host to device in the main graph.

    Args:
        shape: shape of one transfer on one replica.
        dtype: element type.
        name: name, default ``"h2d_stream"``.

    Returns:
        The stream.

    Raises:
        TypeError: `dtype` is not a popxl dtype, or a dimension size is not an integer.
        RuntimeError: there is no current graph, or a Session exists for its Ir.
    """
    return HostToDeviceStream._create(shape, dtype, name or "h2d_stream")


def d2h_stream(shape: Iterable[int], dtype: dtype, name: str | None = None) -> DeviceToHostStream:
    """Make a stream from device to host in the main graph.

    Args:
        shape: shape of one transfer on one replica.
        dtype: element type.
        name: name, default ``"d2h_stream"``.

    Returns:
        The stream.

    Raises:
        TypeError: `dtype` is not a popxl dtype, or a dimension size is not an integer.
        RuntimeError: there is no current graph, or a Session exists for its Ir.
    """
    return DeviceToHostStream._create(shape, dtype, name or "d2h_stream")


__all__ = ["DeviceToHostStream", "HostToDeviceStream", "Stream", "Tensor", "d2h_stream", "h2d_stream"]
