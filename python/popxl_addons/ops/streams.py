"""Streams for single tensors."""

from typing import Any

import numpy as np
import popxl
import popxl.ops as popxl_ops
from popxl.utils import to_numpy


def host_load(t: Any, dtype: popxl.dtype, name: str) -> tuple[np.ndarray, popxl.HostToDeviceStream, popxl.Tensor]:
    """Make a stream for host data and load it.

    Args:
        t: array or torch tensor.
        dtype: element type of the stream.
        name: name of the loaded tensor; the stream is called ``<name>_stream``.

    Returns:
        (data converted to dtype, stream, loaded tensor).
    """
    data = to_numpy(t, dtype)
    stream = popxl.h2d_stream(data.shape, dtype, f"{name}_stream")
    return data, stream, popxl_ops.host_load(stream, name)


def host_store(t: popxl.Tensor) -> popxl.DeviceToHostStream:
    """Make a stream ``<t.name>_stream`` and store t to it."""
    stream = popxl.d2h_stream(t.shape, t.dtype, f"{t.name}_stream")
    popxl_ops.host_store(stream, t)
    return stream
