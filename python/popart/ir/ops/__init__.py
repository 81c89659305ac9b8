"""Operators of the older interface: those of popxl, with older argument orders and defaults."""

from collections.abc import Iterable
from enum import Enum
from typing import Any

import popxl.ops as _ops
from popart_core import ReductionType, popart_exception
from popxl.context import get_ir
from popxl.ops import (
    add,
    cast,
    detach,
    div,
    dropout,
    dynamic_slice,
    dynamic_update,
    dynamic_update_,
    flatten,
    flatten_,
    gelu,
    group_norm,
    host_store,
    increment_mod,
    increment_mod_,
    io_tile_copy,
    ipu_copy,
    layer_norm,
    logical_and,
    logical_not,
    logical_or,
    mul,
    negate,
    random_normal,
    random_uniform,
    reshape,
    reshape_,
    scaled_add,
    scaled_add_,
    scatter,
    slice,
    slice_,
    softmax,
    split,
    squeeze,
    sub,
    transpose,
    transpose_,
)
from popxl.ops.io import entry_tensor
from popxl.ops.utils import emit_one

from popart.ir.dtypes import dtype
from popart.ir.ops import collectives, var_updates
from popart.ir.ops.call import CallInfo, call, call_with_info, repeat
from popart.ir.remote_buffer_handle import RemoteBufferHandle
from popart.ir.tensor import Tensor


class SerialiseMode(Enum):
    """The dimension along which a matmul is split into smaller ones; it changes no result."""

    NoSerialisation = "none"
    ReducingDim = "reducing_dim"
    InputChannels = "input_channels"
    OutputChannels = "output_channels"


def detach_(x: Tensor) -> Tensor:
    """Return x, sharing memory; no gradient passes through."""
    return _ops.detach_(x)


def init(shape: Iterable[int], dtype: dtype, name: str | None = None) -> Tensor:
    """Make a tensor of zeros.

    Args:
        shape: dimension sizes.
        dtype: element type.
        name: name of the result.

    Returns:
        The result.
    """
    return _ops.init(shape, dtype, name, "zero")


def host_load(h2d_stream: Any, name: str | None = None) -> Tensor:
    """Load the next value of a stream.

    Args:
        h2d_stream: stream from the host.
        name: name of the result.

    Returns:
        The result.
    """
    return _ops.host_load(h2d_stream, name)


def gather(t: Tensor, indices: Tensor, axis: int = 0, available_memory_proportion: float | None = None) -> Tensor:
    """Take slices along an axis.

    Args:
        t: the tensor.
        indices: positions along the axis.
        axis: the axis.
        available_memory_proportion: hint for tiles; no effect.

    Returns:
        The result.
    """
    return _ops.gather(t, indices, axis, available_memory_proportion)


def tied_gather(t: Tensor, indices: Tensor, axis: int = 0, available_memory_proportion: float | None = None) -> Tensor:
    """As `gather`, for a tensor that a matmul reads too.

    Args:
        t: the tensor.
        indices: positions along the axis.
        axis: the axis.
        available_memory_proportion: hint for tiles; no effect.

    Returns:
        The result.
    """
    return _ops.tied_gather(t, indices, axis, available_memory_proportion)


def matmul(
    lhs: Tensor,
    rhs: Tensor,
    available_memory_proportion: float | None = None,
    serialise_mode: SerialiseMode = SerialiseMode.NoSerialisation,
    serialise_factor: int = 1,
    output_type: dtype | None = None,
    partials_type: dtype | None = None,
) -> Tensor:
    """Return the matrix product.

    Args:
        lhs: tensor of shape (…, M, K).
        rhs: tensor of shape (…, K, N).
        available_memory_proportion: hint in (0, 1].
        serialise_mode: dimension to split; it is checked, but the product stays one operation.
        serialise_factor: number of parts; divides that dimension.
        output_type: dtype of the result.
        partials_type: dtype of partial sums.

    Raises:
        TypeError: `serialise_mode` is no SerialiseMode.
        popart_exception: the factor does not divide the dimension.
    """
    if not isinstance(serialise_mode, SerialiseMode):
        raise TypeError(f"matmul: serialise_mode: got {serialise_mode!r}, expected a member of SerialiseMode.")
    if serialise_mode is not SerialiseMode.NoSerialisation:
        sizes = {
            SerialiseMode.ReducingDim: lhs.shape[-1],
            SerialiseMode.InputChannels: lhs.shape[-2],
            SerialiseMode.OutputChannels: rhs.shape[-1],
        }
        if serialise_factor < 1 or sizes[serialise_mode] % serialise_factor:
            raise popart_exception(
                f"matmul: serialise_factor {serialise_factor} does not divide the dimension of size "
                f"{sizes[serialise_mode]} ({serialise_mode.name})."
            )
    return _ops.matmul(lhs, rhs, available_memory_proportion, output_type, partials_type)


def nll_loss_with_softmax_grad(
    probs: Tensor,
    labels: Tensor,
    loss_grad: float | Tensor = 1,
    reduction: ReductionType = ReductionType.Mean,
    ignore_index: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the loss and the gradient of the softmax's input.

    Args:
        probs: output of a softmax, shape (…, C).
        labels: integers of shape (…).
        loss_grad: factor of the gradient.
        reduction: `popart.ReductionType`.
        ignore_index: rows with this label are ignored.

    Raises:
        TypeError: `reduction` is no ReductionType.
    """
    if not isinstance(reduction, ReductionType):
        raise TypeError(
            f"nll_loss_with_softmax_grad: reduction: got {reduction!r}, expected a member of popart.ReductionType."
        )
    text = {"Mean": "mean", "Sum": "sum", "NoReduction": "none"}[reduction.name]
    return _ops.nll_loss_with_softmax_grad(probs, labels, loss_grad, ignore_index, text)


def print_tensor(t: Tensor, title: str | None = None, print_self: bool = True, print_gradient: bool = False) -> Tensor:
    """Print a tensor each time it executes and return a copy; the default title is ``print<name>``.

    Args:
        t: the tensor.
        title: first word of a line.
        print_self: print the tensor.
        print_gradient: print its gradient.

    Returns:
        The result.
    """
    return _ops.print_tensor(t, title or f"print{t.name}", print_self, print_gradient)


def _remote_buffer(t: Tensor, handle: RemoteBufferHandle | None) -> Any:
    """Return popxl's buffer of a handle; if the handle has no shape and dtype yet, it gets those of t."""
    return RemoteBufferHandle._for_tensor(t, handle)._buffer_of(get_ir())


def remote_load(t: Tensor, offset: Any = None, remote_buffer_handle: RemoteBufferHandle | None = None) -> Tensor:
    """Load from a remote buffer into a new tensor.

    Args:
        t: tensor of the shape and dtype to load.
        offset: entry of the buffer, an integer or a tensor of one element; default 0.
        remote_buffer_handle: the buffer; default: the first one with this shape and dtype, else a new one.

    Returns:
        Tensor of the shape and dtype of t.

    Raises:
        ValueError: shape or dtype differ from the buffer's, or it has no such entry.
    """
    buffer = _remote_buffer(t, remote_buffer_handle)
    inputs = {"t": None, "offset": entry_tensor(buffer, 0 if offset is None else offset, "remote_load")}
    return emit_one("RemoteLoad", inputs, "remote_load_out", {"remote_buffer": buffer._core_id}, optional=("t",))


def remote_load_(t: Tensor, offset: Any = None, remote_buffer_handle: RemoteBufferHandle | None = None) -> Tensor:
    """Load from a remote buffer into a tensor, in place.

    Args:
        t: the tensor to overwrite.
        offset: entry of the buffer, an integer or a tensor of one element; default 0.
        remote_buffer_handle: the buffer; default: the first one with this shape and dtype, else a new one.

    Returns:
        The tensor with its new value.

    Raises:
        ValueError: shape or dtype differ from the buffer's, or it has no such entry.
    """
    return _ops.remote_load_(_remote_buffer(t, remote_buffer_handle), 0 if offset is None else offset, t)


def remote_store(t: Tensor, offset: Any = None, remote_buffer_handle: RemoteBufferHandle | None = None) -> None:
    """Store to a remote buffer.

    Args:
        t: the tensor.
        offset: entry of the buffer, an integer or a tensor of one element; default 0.
        remote_buffer_handle: the buffer; default: the first one with this shape and dtype, else a new one.

    Raises:
        ValueError: shape or dtype differ from the buffer's, or it has no such entry.
    """
    _ops.remote_store(_remote_buffer(t, remote_buffer_handle), 0 if offset is None else offset, t)


__all__ = [
    "CallInfo",
    "SerialiseMode",
    "add",
    "call",
    "call_with_info",
    "cast",
    "collectives",
    "detach",
    "detach_",
    "div",
    "dropout",
    "dynamic_slice",
    "dynamic_update",
    "dynamic_update_",
    "flatten",
    "flatten_",
    "gather",
    "gelu",
    "group_norm",
    "host_load",
    "host_store",
    "increment_mod",
    "increment_mod_",
    "init",
    "io_tile_copy",
    "ipu_copy",
    "layer_norm",
    "logical_and",
    "logical_not",
    "logical_or",
    "matmul",
    "mul",
    "negate",
    "nll_loss_with_softmax_grad",
    "print_tensor",
    "random_normal",
    "random_uniform",
    "remote_load",
    "remote_load_",
    "remote_store",
    "repeat",
    "reshape",
    "reshape_",
    "scaled_add",
    "scaled_add_",
    "scatter",
    "slice",
    "slice_",
    "softmax",
    "split",
    "squeeze",
    "sub",
    "tied_gather",
    "transpose",
    "transpose_",
    "var_updates",
]
