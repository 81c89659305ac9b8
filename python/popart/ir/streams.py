"""Streams of the older interface: `tensor_id` is a method, and streams are made with the main graph current."""

from collections.abc import Iterable
from typing import Any

import popxl.streams as _streams
from popxl.context import get_current_graph

from popart.ir.dtypes import dtype


class _Id(str):
    """Id of a stream's tensor; calling it returns it."""

    def __call__(self) -> str:
        return str(self)


class _LegacyStream:
    @property
    def tensor_id(self) -> _Id:
        """Id of the stream's tensor."""
        return _Id(super().tensor_id)

    @classmethod
    def _create(cls, shape: Iterable[int], dtype: dtype, name: str) -> Any:
        if get_current_graph().id != "":
            raise ValueError("Streams can only be made with the main graph current.")
        return super()._create(shape, dtype, name)


class HostToDeviceStream(_LegacyStream, _streams.HostToDeviceStream):
    """Stream that `ops.host_load` reads."""


class DeviceToHostStream(_LegacyStream, _streams.DeviceToHostStream):
    """Stream that `ops.host_store` writes."""


def h2d_stream(shape: Iterable[int], dtype: dtype, name: str | None = None) -> HostToDeviceStream:
    """Make a stream from host to device.

    Args:
        shape: dimension sizes of one value.
        dtype: element type.
        name: name.

    Returns:
        The stream.

    Raises:
        ValueError: the current graph is not the main graph.
        RuntimeError: there is no current graph.
        TypeError: `dtype` is not a popart.ir dtype.
    """
    return HostToDeviceStream._create(shape, dtype, name or "h2d_stream")


def d2h_stream(shape: Iterable[int], dtype: dtype, name: str | None = None) -> DeviceToHostStream:
    """Make a stream from device to host.

    Args:
        shape: dimension sizes of one value.
        dtype: element type.
        name: name.

    Returns:
        The stream.

    Raises:
        ValueError: the current graph is not the main graph.
        RuntimeError: there is no current graph.
        TypeError: `dtype` is not a popart.ir dtype.
    """
    return DeviceToHostStream._create(shape, dtype, name or "d2h_stream")
