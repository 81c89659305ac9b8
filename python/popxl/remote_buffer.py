"""RemoteBuffer: `entries` slots of one tensor each, in memory outside the device."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from popart._arrays import as_shape

from popxl.context import get_ir
from popxl.dtypes import dtype

if TYPE_CHECKING:
    from popxl.ir import Ir
    from popxl.tensor import Tensor


class RemoteBuffer:
    """Slots for tensors of one shape and type.

    Args:
        tensor_shape: shape of the tensor in each slot.
        tensor_dtype: its element type.
        entries: number of slots.

    Raises:
        RuntimeError: there is no current graph.
        TypeError: `tensor_dtype` is not a popxl dtype, or a dimension size is not an integer.
        ValueError: `entries` is below 1.
    """

    def __init__(self, tensor_shape: Iterable[int], tensor_dtype: dtype, entries: int) -> None:
        ir = get_ir()
        self._set_up(ir, max(ir._remote_buffers, default=0) + 1, tensor_shape, tensor_dtype, entries)

    @classmethod
    def _with_id(
        cls, ir: "Ir", number: int, tensor_shape: Iterable[int], tensor_dtype: dtype, entries: int
    ) -> "RemoteBuffer":
        """Make the buffer with this number of a program."""
        self = cls.__new__(cls)
        self._set_up(ir, number, tensor_shape, tensor_dtype, entries)
        return self

    def _set_up(self, ir: "Ir", number: int, tensor_shape: Iterable[int], tensor_dtype: dtype, entries: int) -> None:
        self._ir, self._id = ir, number
        self._meta_shape: tuple[int, ...] = ()
        self._in_program = False
        self.set_remote_buffer_info(tensor_dtype, tensor_shape, entries)
        ir._remote_buffers[number] = self

    def set_remote_buffer_info(self, tensor_dtype: dtype, tensor_shape: Iterable[int], entries: int) -> None:
        """Redefine type, shape and number of slots.

        Args:
            tensor_dtype: element type of a slot.
            tensor_shape: shape of a slot.
            entries: number of slots, 1 or more.

        Raises:
            TypeError: `tensor_dtype` is not a popxl dtype, or a dimension size is not an integer.
            ValueError: `entries` is below 1.
            BuildError: the program uses the buffer, and a Session exists.
        """
        self._require_open()
        self._tensor_dtype = dtype._require(tensor_dtype, f"Remote buffer {self._id}")
        self._tensor_shape = as_shape(tensor_shape, f"Remote buffer {self._id}")
        self.entries = entries

    @property
    def remote_buffer_id(self) -> int:
        """Number of the buffer in its Ir, from 1."""
        return self._id

    @property
    def tensor_shape(self) -> tuple[int, ...]:
        """Shape of the tensor in each slot."""
        return self._tensor_shape

    @property
    def tensor_dtype(self) -> dtype:
        """Element type of the tensor in each slot."""
        return self._tensor_dtype

    @property
    def entries(self) -> int:
        """Number of slots."""
        return self._entries

    @entries.setter
    def entries(self, value: int) -> None:
        if value < 1:
            raise ValueError(f"entries: got {value}, expected at least 1.")
        self._require_open()
        self._entries = value
        self._state_size()

    @property
    def _core_id(self) -> str:
        """Name of the remote variable that the program has for the buffer; added at the first use."""
        if not self._in_program:
            self._in_program = True
            self._state_size()
        return self._core_name

    @property
    def _core_name(self) -> str:
        return f"RemoteBuffer/{self._id}"

    def _require_open(self) -> None:
        """Raise an error if the program of the buffer is compiled, so that it cannot change.

        Raises:
            BuildError: the program uses the buffer, and a Session exists.
        """
        if self._in_program:
            self._ir._check_open("its remote buffers")

    def _state_size(self) -> None:
        if self._in_program:
            shape = [self._entries, *self._tensor_shape]
            main = self._ir._pb_ir.getMainGraph()
            main.setRemoteBuffer(self._core_name, self._tensor_dtype._core, shape, list(self._meta_shape))

    def _require_entry(self, offset: int) -> None:
        """Check that the buffer has an entry.

        Raises:
            ValueError: it has no such entry.
        """
        if not 0 <= offset < self._entries:
            raise ValueError(
                f"Remote buffer {self._id} has no entry {offset}: expected 0 to {self._entries - 1}. Make it with more "
                "entries."
            )

    @property
    def meta_shape(self) -> tuple[int, ...]:
        """Unsharded shape of a sharded tensor, else ``()``."""
        return self._meta_shape

    @meta_shape.setter
    def meta_shape(self, value: Iterable[int]) -> None:
        self._require_open()
        self._meta_shape = as_shape(value, f"Remote buffer {self._id}: meta_shape")
        self._state_size()

    def validate_tensor_matches_buffer(self, t: "Tensor", num_shards: int = 1) -> None:
        """Check that `t` fits into a slot.

        Args:
            t: the tensor.
            num_shards: number of parts that the replicas hold; 1: the tensor is whole.

        Raises:
            ValueError: shape or dtype differ.
        """
        expected = self._tensor_shape if num_shards == 1 else self._meta_shape
        shape = t.shape if num_shards == 1 else (t.meta_shape or t.shape)
        if tuple(shape) != expected:
            raise ValueError(f"Tensor {t} does not match the remote buffer: got shape {shape}, expected {expected}.")
        self._require_type_of(t)

    def _require_type_of(self, t: "Tensor") -> None:
        """Check that `t` has the element type of a slot.

        Raises:
            ValueError: it has another element type.
        """
        if t.dtype != self._tensor_dtype:
            raise ValueError(
                f"Tensor {t} does not match the remote buffer: got {t.dtype}, expected {self._tensor_dtype}."
            )

    def __hash__(self) -> int:
        return hash((self._ir, self._id))

    def __eq__(self, other: object) -> bool:
        return self is other


def remote_buffer(tensor_shape: Iterable[int], tensor_dtype: dtype, entries: int = 1) -> RemoteBuffer:
    """Make a remote buffer (`RemoteBuffer`).

    Args:
        tensor_shape: shape of a slot.
        tensor_dtype: element type of a slot.
        entries: number of slots, 1 or more.

    Returns:
        The buffer.
    """
    return RemoteBuffer(tensor_shape, tensor_dtype, entries)
