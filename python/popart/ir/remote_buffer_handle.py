"""RemoteBufferHandle: a process-wide registry of remote buffers by id."""

from collections.abc import Iterable
from typing import Any, ClassVar

from popxl.remote_buffer import RemoteBuffer

from popart.ir.dtypes import dtype
from popart.ir.tensor import Tensor


class RemoteBufferHandle:
    """A remote buffer; constructing an existing id returns the same object.

    Args:
        remote_buffer_id: id, None takes the next free one.
        tensor_shape: shape of the tensor in each slot, may be set later, once.
        tensor_dtype: element type, may be set later, once.
        repeats: number of slots; 1 leaves those of a buffer that exists as they are.

    Raises:
        ValueError: a shape or dtype that differs from the one set before, or repeats below 1.
        NotImplementedError: id -1.
    """

    _buffers: ClassVar[dict[int, "RemoteBufferHandle"]] = {}

    def __new__(
        cls,
        remote_buffer_id: int | None = None,
        tensor_shape: Iterable[int] | None = None,
        tensor_dtype: dtype | None = None,
        repeats: int = 1,
    ) -> "RemoteBufferHandle":
        """Return the buffer of this id, making it on first use."""
        if remote_buffer_id == -1:
            raise NotImplementedError("remote_buffer_id -1 (automatic) is not supported.")
        if remote_buffer_id is None:
            remote_buffer_id = next(i for i in range(1, len(cls._buffers) + 2) if i not in cls._buffers)
        if remote_buffer_id in cls._buffers:
            return cls._buffers[remote_buffer_id]
        self = super().__new__(cls)
        self._id, self._shape, self._dtype, self._repeats = remote_buffer_id, None, None, 1
        cls._buffers[remote_buffer_id] = self
        return self

    def __init__(
        self,
        remote_buffer_id: int | None = None,
        tensor_shape: Iterable[int] | None = None,
        tensor_dtype: dtype | None = None,
        repeats: int = 1,
    ) -> None:
        if tensor_shape is not None:
            self.tensor_shape = tensor_shape
        if tensor_dtype is not None:
            self.tensor_dtype = tensor_dtype
        if repeats != 1:
            self.repeats = repeats

    @classmethod
    def _for_tensor(cls, t: Tensor, handle: "RemoteBufferHandle | None") -> "RemoteBufferHandle":
        """Return the handle, or the first one for tensors like t, or a new one; it then has the shape and dtype of t.

        Raises:
            ValueError: it has others.
        """
        if handle is None:
            alike = (b for b in cls._buffers.values() if (b._shape, b._dtype) == (t.shape, t.dtype))
            handle = next(alike, None) or cls()
        handle.tensor_shape, handle.tensor_dtype = t.shape, t.dtype
        return handle

    def _buffer_of(self, ir: Any) -> RemoteBuffer:
        """Return the buffer of the handle in a program."""
        buffer = ir._remote_buffers.get(self._id)
        if buffer is None:
            buffer = RemoteBuffer._with_id(ir, self._id, self._shape, self._dtype, self._repeats)
        buffer.entries = max(buffer.entries, self._repeats)
        return buffer

    @property
    def remote_buffer_id(self) -> int:
        """Id of the buffer."""
        return self._id

    @property
    def tensor_shape(self) -> tuple[int, ...] | None:
        """Shape of the tensor in each slot."""
        return self._shape

    @tensor_shape.setter
    def tensor_shape(self, value: Iterable[int]) -> None:
        value = tuple(value)
        if self._shape not in (None, value):
            raise ValueError(f"Cannot reset the shape of remote buffer {self._id}: got {value}, it is {self._shape}.")
        self._shape = value

    @property
    def tensor_dtype(self) -> dtype | None:
        """Element type of the tensor in each slot."""
        return self._dtype

    @tensor_dtype.setter
    def tensor_dtype(self, value: dtype) -> None:
        if self._dtype is not None and self._dtype != value:
            raise ValueError(f"Cannot reset the dtype of remote buffer {self._id}: got {value}, it is {self._dtype}.")
        self._dtype = value

    @property
    def repeats(self) -> int:
        """Number of slots."""
        return self._repeats

    @repeats.setter
    def repeats(self, value: int) -> None:
        if value < 1:
            raise ValueError(f"repeats: got {value}, expected at least 1.")
        self._repeats = value
