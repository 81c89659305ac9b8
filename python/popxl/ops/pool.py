"""Pooling over windows on data of shape (N, C, spatial…).

Features that ONNX's operators do not have are composed: for `in_dilations` the elements of the input are spread before
the pool; `out_pads` adds windows after the end of the padding.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from popart_core import popart_exception

from popxl.ops.conv import _PAD_TYPES
from popxl.ops.shape import reshape, slice
from popxl.ops.utils import emit_one
from popxl.tensor import Tensor, constant


@dataclass
class _Window:
    """Windows along each spatial axis; elements of the input are `apart` positions apart."""

    kernel: list[int]
    stride: list[int]
    dilation: list[int]
    apart: list[int]
    lower: list[int]
    upper: list[int]
    size: list[int]  # of the input after its elements are spread
    count: list[int]  # number of windows

    def covered(self, axis: int, apart: int) -> np.ndarray:
        """Number of elements in each window of an axis, at positions that are multiples of `apart`."""
        starts = np.arange(self.count[axis])[:, None] * self.stride[axis] - self.lower[axis]
        at = starts + np.arange(self.kernel[axis]) * self.dilation[axis]
        return ((at >= 0) & (at < self.size[axis]) & (at % apart == 0)).sum(1)


def _checked(what: str, name: str, values: Iterable[int] | None, rank: int, default: int, least: int) -> list[int]:
    given = [default] * rank if values is None else [int(v) for v in values]
    if len(given) != rank or any(v < least for v in given):
        raise popart_exception(f"{what}: {name}: got {given}, expected {rank} numbers of at least {least}.")
    return given


def _resolved(
    what: str,
    t: Tensor,
    kernel: list[int],
    stride: Iterable[int] | None,
    padding: Iterable[int] | None,
    dilation: Iterable[int] | None,
    in_dilations: Iterable[int] | None,
    out_pads: Iterable[int] | None,
    auto_pad: str,
    ceil_mode: bool,
) -> _Window:
    """Explicit padding of a pool whose input is dilated or whose result is padded."""
    rank = len(kernel)
    if t.rank != rank + 2:
        raise popart_exception(f"{what}: kernel_size: got {kernel} for {t.name} of shape {t.shape}.")
    pads = _checked(what, "padding", padding or None, 2 * rank, 0, 0)
    w = _Window(
        kernel,
        _checked(what, "stride", stride or None, rank, 1, 1),
        _checked(what, "dilation", dilation or None, rank, 1, 1),
        _checked(what, "in_dilations", in_dilations, rank, 1, 1),
        pads[:rank],
        pads[rank:],
        [],
        [],
    )
    further = _checked(what, "out_pads", out_pads, rank, 0, 0)
    for i, d in enumerate(t.shape[2:]):
        w.size.append(w.apart[i] * (d - 1) + 1)
        extent = (kernel[i] - 1) * w.dilation[i] + 1
        if auto_pad.startswith("same"):
            count = -(-w.size[i] // w.stride[i])
            total = max((count - 1) * w.stride[i] + extent - w.size[i], 0)
            w.lower[i] = total // 2 if auto_pad == "same_upper" else total - total // 2
        else:
            if auto_pad == "valid":
                w.lower[i] = w.upper[i] = 0
            room = w.size[i] + w.lower[i] + w.upper[i] - extent
            if room < 0:
                raise popart_exception(
                    f"{what}: kernel_size: got {kernel}, which does not fit into {t.name} {t.shape}."
                )
            count = room // w.stride[i] + 1
            if ceil_mode and room % w.stride[i] and count * w.stride[i] < w.size[i] + w.lower[i]:
                count += 1  # but no window that starts after the end of the input
        w.count.append(count + further[i])
        w.upper[i] = max((w.count[i] - 1) * w.stride[i] + extent - w.size[i] - w.lower[i], 0)
    return w


def _drawn_apart(t: Tensor, apart: Sequence[int], between: float) -> Tensor:
    """Spread elements along spatial axes to be `apart`, with `between` in the gaps, but not after the last one."""
    for axis, step in enumerate(apart, 2):
        if step == 1:
            continue
        shape = t.shape
        t = reshape(t, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
        pads = [0] * (2 * t.rank)
        pads[t.rank + axis + 1] = step - 1
        t = emit_one("Pad", {"t": t}, "pad_out", {"pads": pads, "mode": "constant", "value": between})
        t = reshape(t, (*shape[:axis], shape[axis] * step, *shape[axis + 1 :]))
        t = slice(t, 0, step * (shape[axis] - 1) + 1, axis=axis)
    return t


def _attributes(
    kernel: list[int],
    stride: Iterable[int] | None,
    padding: Iterable[int] | None,
    dilation: Iterable[int] | None,
    auto_pad: str,
    ceil_mode: bool,
) -> dict[str, Any]:
    pad = _PAD_TYPES[auto_pad]
    attributes = {
        "kernel_shape": kernel,
        "strides": list(stride) if stride else [1] * len(kernel),
        "dilations": list(dilation) if dilation else [1] * len(kernel),
        "auto_pad": pad,
        "ceil_mode": int(ceil_mode),
    }
    if pad == "NOTSET":
        attributes["pads"] = list(padding) if padding else [0] * (2 * len(kernel))
    return attributes


def _is_plain(out_pads: Iterable[int] | None, in_dilations: Iterable[int] | None) -> bool:
    return not any(out_pads or ()) and all(d == 1 for d in in_dilations or ())


def average_pool(
    t: Tensor,
    kernel_size: Iterable[int],
    stride: Iterable[int] | None = None,
    padding: Iterable[int] | None = None,
    out_pads: Iterable[int] | None = None,
    dilation: Iterable[int] | None = None,
    in_dilations: Iterable[int] | None = None,
    auto_pad: str = "not_set",
    ceil_mode: bool = False,
) -> Tensor:
    """Average over windows. Only elements of the input count; the average of an empty window is 0.

    Args:
        t: tensor of shape (N, C, spatial…).
        kernel_size: window along each spatial axis.
        stride: step of windows along each spatial axis, default 1.
        padding: padding around the spatial axes: all numbers before, then all after.
        out_pads: additional windows at the end of each spatial axis.
        dilation: distance between the elements of a window along each spatial axis.
        in_dilations: distance between the elements of the input along each spatial axis; positions between them are
            padding.
        auto_pad: as `pad_type` of `conv`.
        ceil_mode: round sizes up.

    Returns:
        Tensor of shape (N, C, spatial…) and the dtype of t (floats; ONNX AveragePool-19).

    Raises:
        KeyError: unknown auto_pad.
        popart_exception: an argument has not one number for each spatial axis, or a window is larger than the input.
    """
    kernel = list(kernel_size)
    if _is_plain(out_pads, in_dilations):
        attributes = _attributes(kernel, stride, padding, dilation, auto_pad, ceil_mode)
        return emit_one("AveragePool", {"t": t}, "averagepool_out", {**attributes, "count_include_pad": 0})
    _PAD_TYPES[auto_pad]
    given = (kernel, stride, padding, dilation, in_dilations, out_pads, auto_pad, ceil_mode)
    w = _resolved("average_pool", t, *given)
    attributes = _attributes(kernel, w.stride, [*w.lower, *w.upper], w.dilation, "not_set", False)
    apart = _drawn_apart(t, w.apart, 0.0)
    drawn = max(w.apart) > 1
    name = "averagepool_apart" if drawn else "averagepool_out"
    y = emit_one("AveragePool", {"t": apart}, name, {**attributes, "count_include_pad": 0})
    if not drawn:
        return y
    # The pool has counted the zeros between elements, so its averages are too small by a constant factor.
    factors = np.ones(())
    for axis in range(len(kernel)):
        own = w.covered(axis, w.apart[axis])
        factor = w.covered(axis, 1) / np.maximum(own, 1)
        factors = factors[..., None] * factor
    return emit_one("Mul", {"y": y, "factors": constant(factors, y.dtype)}, "averagepool_out")


def max_pool(
    t: Tensor,
    kernel_size: Iterable[int],
    stride: Iterable[int] | None = None,
    padding: Iterable[int] | None = None,
    out_pads: Iterable[int] | None = None,
    dilation: Iterable[int] | None = None,
    in_dilations: Iterable[int] | None = None,
    auto_pad: str = "not_set",
    ceil_mode: bool = False,
    storage_order: str = "row",
) -> Tensor:
    """Maximum over windows; the maximum of a window without elements of the input is minus infinity.

    Args:
        t: tensor of shape (N, C, spatial…).
        kernel_size: window along each spatial axis.
        stride: step of windows along each spatial axis, default 1.
        padding: padding around the spatial axes: all numbers before, then all after.
        out_pads: additional windows at the end of each spatial axis.
        dilation: distance between the elements of a window along each spatial axis.
        in_dilations: distance between the elements of the input along each spatial axis; positions between them are
            padding.
        auto_pad: as `pad_type` of `conv`.
        ceil_mode: round sizes up.
        storage_order: order of elements; only "row" is supported.

    Returns:
        Tensor of shape (N, C, spatial…) and the dtype of t (floats, int8 and uint8; ONNX MaxPool-12). For integers the
        maximum of an empty window is the smallest number of the type.

    Raises:
        KeyError: unknown auto_pad.
        popart_exception: storage_order is not ``"row"``, or as `average_pool`.
    """
    if storage_order != "row":
        raise popart_exception(f"max_pool: storage_order: got {storage_order!r}, expected 'row'.")
    kernel = list(kernel_size)
    if _is_plain(out_pads, in_dilations):
        attributes = _attributes(kernel, stride, padding, dilation, auto_pad, ceil_mode)
    else:
        _PAD_TYPES[auto_pad]
        given = (kernel, stride, padding, dilation, in_dilations, out_pads, auto_pad, ceil_mode)
        w = _resolved("max_pool", t, *given)
        attributes = _attributes(kernel, w.stride, [*w.lower, *w.upper], w.dilation, "not_set", False)
        kind = t.dtype.as_numpy()
        t = _drawn_apart(t, w.apart, -np.inf if t.dtype.is_floating_point else float(np.iinfo(kind).min))
    return emit_one("MaxPool", {"t": t}, "maxpool_out", {**attributes, "storage_order": 0})
