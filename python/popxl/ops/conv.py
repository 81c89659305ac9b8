"""Convolutions and pooling on data of shape (N, C, spatial…)."""

from collections.abc import Iterable, Sequence
from typing import Any

from popart_core import popart_exception

from popxl import dtypes
from popxl.context import get_current_graph
from popxl.ops._float8 import check_scaled
from popxl.ops.utils import check_in_graph, check_memory_proportion, emit_one
from popxl.tensor import Tensor

_PAD_TYPES = {"not_set": "NOTSET", "same_upper": "SAME_UPPER", "same_lower": "SAME_LOWER", "valid": "VALID"}
_PARTIALS_NAMES = ("half", "float", "float16", "float32")


def _pad_attributes(pad_type: str, padding: Sequence[int]) -> dict[str, Any]:
    if pad_type not in _PAD_TYPES:
        raise ValueError(f"pad_type: got {pad_type!r}, expected one of {', '.join(_PAD_TYPES)}.")
    explicit = {"pads": list(padding)} if pad_type == "not_set" else {}
    return {"auto_pad": _PAD_TYPES[pad_type], **explicit}


def _conv_attributes(
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    pad_type: str,
    proportions: list[float] | None,
    partials: list[Any] | None,
) -> dict[str, Any]:
    """Check the arguments of `conv` and `conv_transpose`; hints change no result.

    Returns:
        The attributes.

    Raises:
        ValueError: unknown pad_type, a proportion outside (0, 1], or an unknown partials type.
        popart_exception: groups below 1.
    """
    for value in proportions or []:
        check_memory_proportion(value)
    for value in partials or []:
        if value not in (dtypes.float16, dtypes.float32, *_PARTIALS_NAMES):
            raise ValueError(
                f"partials_types: got {value!r}, expected popxl.float16, popxl.float32 or one of {_PARTIALS_NAMES}."
            )
    if groups < 1:
        raise popart_exception(f"groups: got {groups}, expected 1 or more.")
    pads = _pad_attributes(pad_type, padding)
    return {"strides": list(stride), "dilations": list(dilation), "group": groups, **pads}


def conv(
    t: Tensor,
    weight: Tensor,
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0, 0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    pad_type: str = "not_set",
    available_memory_proportions: list[float] | None = None,
    partials_types: list[Any] | None = None,
    enable_conv_dithering: list[int] | None = None,
) -> Tensor:
    """Convolve (cross-correlation, no bias).

    Args:
        t: tensor of shape (N, C_in, spatial…).
        weight: tensor of shape (C_out, C_in / groups, kernel…).
        stride: step per spatial dimension.
        padding: all lower, then all upper pads.
        dilation: distance of kernel elements.
        groups: channel groups.
        pad_type: ``"not_set"``, ``"same_upper"``, ``"same_lower"`` or ``"valid"``.
        available_memory_proportions: hint.
        partials_types: hint; dtypes, or the names "half" and "float".
        enable_conv_dithering: hint.

    Returns:
        Tensor of shape (N, C_out, spatial…) and the dtype of t (floats; ONNX Conv-11).

    Raises:
        popart_exception: channels do not match.
        ValueError: unknown pad_type, a proportion outside (0, 1], or an unknown partials type.
    """
    attributes = _conv_attributes(
        stride, padding, dilation, groups, pad_type, available_memory_proportions, partials_types
    )
    return emit_one("Conv", {"t": t, "weight": weight}, "conv_out", attributes)


def conv_transpose(
    t: Tensor,
    weight: Tensor,
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0, 0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    pad_type: str = "not_set",
    output_padding: Sequence[int] = (),
    output_shape: Sequence[int] = (),
    available_memory_proportions: list[float] | None = None,
    partials_types: list[Any] | None = None,
    enable_conv_dithering: list[int] | None = None,
) -> Tensor:
    """Transposed convolution (ONNX ConvTranspose-11); see `conv` for the common arguments.

    Args:
        t: tensor of shape (N, C_in, spatial…).
        weight: tensor of shape (C_in, C_out / groups, kernel…).
        stride: step per spatial dimension.
        padding: all lower, then all upper pads.
        dilation: distance of kernel elements.
        groups: channel groups.
        pad_type: as in `conv`.
        output_padding: added to the output size.
        output_shape: requested output size; it determines the pads.
        available_memory_proportions: hint.
        partials_types: hint.
        enable_conv_dithering: hint.

    Returns:
        Tensor of shape (N, C_out, spatial…) and the dtype of t (floats).

    Raises:
        ValueError: as `conv`.
        popart_exception: channels do not match, a dilation is not 1, or output_shape with pad_type ``"valid"``.
    """
    attributes = _conv_attributes(
        stride, padding, dilation, groups, pad_type, available_memory_proportions, partials_types
    )
    attributes = _transposed("conv_transpose", t, weight, attributes, tuple(output_padding), tuple(output_shape))
    return emit_one("ConvTranspose", {"t": t, "weight": weight}, "convtranspose_out", attributes)


def _transposed(
    function: str, t: Tensor, weight: Tensor, attributes: dict[str, Any], extra: Sequence[int], shape: Sequence[int]
) -> dict[str, Any]:
    """Return the attributes of a transposed convolution; an output shape is converted to pads by the rule of ONNX 1.6.

    Raises:
        popart_exception: a dilation is not 1, or an output shape is given with pad_type ``"valid"`` or has the wrong
            length.
    """
    check_in_graph(get_current_graph(), t=t, weight=weight)
    if any(d != 1 for d in attributes["dilations"]):
        raise popart_exception(f"{function}: dilation: got {attributes['dilations']}, expected 1 along each axis.")
    if not shape:
        return attributes | {"output_padding": list(extra) or None}
    if attributes["auto_pad"] == "VALID":
        raise popart_exception(
            f"{function}: output_shape decides the padding: got pad_type 'valid' too. Leave one out."
        )
    sizes, kernel = t.shape[2:], weight.shape[2:]
    wanted = list(shape[2:] if len(shape) == t.rank else shape)
    rest = list(extra) or [0] * len(sizes)
    lengths = {len(part) for part in (sizes, kernel, wanted, rest, attributes["strides"])}
    if len(lengths) > 1:
        raise popart_exception(
            f"{function}: output_shape, output_padding and stride need one entry for each of the {len(sizes)} spatial "
            f"axes: got {tuple(shape)}, {tuple(extra)} and {attributes['strides']}."
        )
    first, last = [], []
    for i, (d, k, s, out) in enumerate(zip(sizes, kernel, attributes["strides"], wanted, strict=True)):
        total = s * (d - 1) + rest[i] + k - out
        rest[i] -= min(total, 0)
        half, larger = max(total, 0) // 2, max(total, 0) - max(total, 0) // 2
        upper = attributes["auto_pad"] == "SAME_UPPER"
        first.append(larger if upper else half)
        last.append(half if upper else larger)
    return attributes | {"auto_pad": "NOTSET", "pads": [*first, *last], "output_padding": rest}


def conv_pow2scaled(
    t: Tensor,
    weight: Tensor,
    log2_scale: Tensor,
    stride: Iterable[int] = (1, 1),
    padding: Iterable[int] = (0, 0, 0, 0),
    dilation: Iterable[int] = (1, 1),
    groups: int = 1,
    pad_type: str = "not_set",
    available_memory_proportions: Iterable[float] | None = None,
    enable_conv_dithering: Iterable[int] | None = None,
) -> Tensor:
    """Convolve float8 tensors of either format; see `conv` for the common arguments.

    Args:
        t: float8 tensor of shape (N, C_in, spatial…).
        weight: float8 tensor of shape (C_out, C_in / groups, kernel…).
        log2_scale: int32 scalar: the result is multiplied by 2 to this power, -32 to 31.
        stride: step along each spatial axis.
        padding: zeros around the spatial axes: all numbers before, then all after.
        dilation: distance between the elements of a window along each spatial axis.
        groups: groups of channels.
        pad_type: as in `conv`.
        available_memory_proportions: hint for tiles; no effect.
        enable_conv_dithering: hint for tiles; no effect.

    Returns:
        The float16 tensor of shape (N, C_out, spatial…); sums are float32 and rounded once. It has no gradient.

    Raises:
        TypeError: an operand is not a float8 tensor, or log2_scale is not int32.
        ValueError: log2_scale is not a scalar, or as `conv`.
        popart_exception: channels do not match.
    """
    check_scaled("conv_pow2scaled", log2_scale, t=t, weight=weight)
    attributes = _conv_attributes(stride, padding, dilation, groups, pad_type, available_memory_proportions, None)
    inputs = {"t": t, "weight": weight, "log2_scale": log2_scale}
    return emit_one("Conv", inputs, "conv_pow2scaled_out", attributes)


def conv_transpose_pow2scaled(
    t: Tensor,
    weight: Tensor,
    log2_scale: Tensor,
    stride: Iterable[int] = (1, 1),
    padding: Iterable[int] = (0, 0, 0, 0),
    dilation: Iterable[int] = (1, 1),
    groups: int = 1,
    pad_type: str = "not_set",
    output_padding: Iterable[int] = (),
    output_shape: Iterable[int] = (),
    available_memory_proportions: Iterable[float] | None = None,
    enable_conv_dithering: Iterable[int] | None = None,
) -> Tensor:
    """Transposed convolution of float8 tensors; see `conv_transpose` for the common arguments.

    Args:
        t: float8 tensor of shape (N, C_in, spatial…).
        weight: float8 tensor of shape (C_in, C_out / groups, kernel…).
        log2_scale: int32 scalar: the result is multiplied by 2 to this power, -32 to 31.
        stride: step along each spatial axis.
        padding: zeros around the spatial axes: all numbers before, then all after.
        dilation: distance between the elements of a window along each spatial axis.
        groups: groups of channels.
        pad_type: as in `conv`.
        output_padding: elements added at the end of each spatial axis.
        output_shape: spatial sizes of the result.
        available_memory_proportions: hint for tiles; no effect.
        enable_conv_dithering: hint for tiles; no effect.

    Returns:
        The float16 tensor of shape (N, C_out, spatial…); sums are float32 and rounded once. It has no gradient.

    Raises:
        TypeError: an operand is not a float8 tensor, or log2_scale is not int32.
        ValueError: log2_scale is not a scalar, or as `conv`.
        popart_exception: channels do not match.
    """
    check_scaled("conv_transpose_pow2scaled", log2_scale, t=t, weight=weight)
    attributes = _conv_attributes(stride, padding, dilation, groups, pad_type, available_memory_proportions, None)
    given = (tuple(output_padding), tuple(output_shape))
    attributes = _transposed("conv_transpose_pow2scaled", t, weight, attributes, *given)
    inputs = {"t": t, "weight": weight, "log2_scale": log2_scale}
    return emit_one("ConvTranspose", inputs, "convtranspose_pow2scaled_out", attributes)
