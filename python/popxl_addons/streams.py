"""Named collections of streams, and helpers to load and store single tensors."""

from typing import Any, Iterable, Iterator, List, Tuple, Union

import numpy as np

import popxl
import popxl.ops as popxl_ops
from popxl.utils import to_numpy
from popxl_addons.utils import OrderedDict

Spec = Tuple[Tuple[int, ...], popxl.dtype]


class _Streams(OrderedDict):
    """Ordered dict name → stream; iterating gives the streams."""

    def __init__(self, **specs: Spec):
        super().__init__()
        for name, (shape, dtype) in specs.items():
            self[name] = self._make(shape, dtype, name)

    @staticmethod
    def _make(shape: Tuple[int, ...], dtype: popxl.dtype, name: str) -> Any:
        raise NotImplementedError

    @classmethod
    def from_streams(cls, streams: Iterable[Any]) -> "_Streams":
        """Return a collection of existing streams, named by their tensor ids."""
        result = cls()
        for stream in streams:
            result[stream.tensor_id] = stream
        return result

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self.keys():
            raise AttributeError(f"No attribute '{name}'. Available: {list(self.keys())}.")
        return self[name]

    def __getitem__(self, key: Union[str, int, slice]) -> Union[Any, List[Any]]:
        if isinstance(key, (int, slice)):
            return list(self.values())[key]
        if key not in self.keys():
            raise KeyError(f"No key '{key}'. Available: {list(self.keys())}.")
        return super().__getitem__(key)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values())

    def keys(self) -> Any:
        """Return the names."""
        return list(super().__iter__())

    def values(self) -> List[Any]:
        """Return the streams."""
        get = super().__getitem__
        return [get(name) for name in self.keys()]

    def items(self) -> List[Tuple[str, Any]]:
        """Return (name, stream) pairs."""
        return list(zip(self.keys(), self.values()))


class InputStreams(_Streams):
    """Streams to the device; arguments ``name=(shape, dtype)``."""

    @staticmethod
    def _make(shape: Tuple[int, ...], dtype: popxl.dtype, name: str) -> popxl.HostToDeviceStream:
        return popxl.h2d_stream(shape, dtype, name)


class OutputStreams(_Streams):
    """Streams from the device; arguments ``name=(shape, dtype)``."""

    @staticmethod
    def _make(shape: Tuple[int, ...], dtype: popxl.dtype, name: str) -> popxl.DeviceToHostStream:
        return popxl.d2h_stream(shape, dtype, name)


def host_load(t: Any, dtype: popxl.dtype, name: str) -> Tuple[np.ndarray, popxl.HostToDeviceStream, popxl.Tensor]:
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
