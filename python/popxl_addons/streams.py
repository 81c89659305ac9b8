"""Named collections of streams."""

from collections import OrderedDict
from collections.abc import ItemsView, Iterable, Iterator, KeysView, ValuesView
from typing import Any

import popxl

from popxl_addons import utils

Spec = tuple[tuple[int, ...], popxl.dtype]


class _Streams(OrderedDict):
    """Ordered dict name → stream; iterating yields the streams.

    A name that is not a method of dict is also an attribute.
    """

    __repr__ = utils.OrderedDict.__repr__

    def __init__(self, **specs: Spec) -> None:
        super().__init__()
        for name, (shape, dtype) in specs.items():
            self[name] = self._make(shape, dtype, name)

    @staticmethod
    def _make(shape: tuple[int, ...], dtype: popxl.dtype, name: str) -> Any:
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

    def __getitem__(self, key: str | int | slice) -> Any | list[Any]:
        if isinstance(key, (int, slice)):
            return list(self.values())[key]
        if key not in self.keys():
            raise KeyError(f"No key '{key}'. Available: {list(self.keys())}.")
        return super().__getitem__(key)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values())

    def _as_dict(self) -> dict[str, Any]:
        get = super().__getitem__
        return {name: get(name) for name in super().__iter__()}

    def keys(self) -> KeysView:
        """Return the names."""
        return self._as_dict().keys()

    def values(self) -> ValuesView:
        """Return the streams."""
        return self._as_dict().values()

    def items(self) -> ItemsView:
        """Return (name, stream) pairs."""
        return self._as_dict().items()


class InputStreams(_Streams):
    """Streams to the device; arguments ``name=(shape, dtype)``."""

    @staticmethod
    def _make(shape: tuple[int, ...], dtype: popxl.dtype, name: str) -> popxl.HostToDeviceStream:
        return popxl.h2d_stream(shape, dtype, name)


class OutputStreams(_Streams):
    """Streams from the device; arguments ``name=(shape, dtype)``."""

    @staticmethod
    def _make(shape: tuple[int, ...], dtype: popxl.dtype, name: str) -> popxl.DeviceToHostStream:
        return popxl.d2h_stream(shape, dtype, name)


__all__ = ["InputStreams", "OutputStreams"]
