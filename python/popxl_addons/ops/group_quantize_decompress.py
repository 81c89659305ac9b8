"""Weights in four bits: groups of elements share a scale and a bias."""

import numpy as np
import popxl
from popxl import ops
from popxl.ops.utils import emit_one

_LARGEST_ID = 15
_PLACES = np.array([12, 8, 4, 0], np.uint16)  # bit positions; the first number has the highest bits


def group_quantize_compress_numpy(
    t: np.ndarray, group_size: int, dim: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Round each group to 16 numbers between its smallest and largest element.

    Args:
        t: array of finite numbers.
        group_size: consecutive elements of a group, a multiple of 4 that divides the axis.
        dim: axis along which groups are formed; it becomes the last one.

    Returns:
        (packed uint16 of shape (…, groups, group_size / 4), scale and bias in float16 of shape (…, groups, 1)): four
        numbers in each uint16, the first in the highest bits.

    Raises:
        ValueError: an element is not finite, or the group size does not divide the axis.
    """
    t = np.asarray(t)
    if not np.all(np.isfinite(t)):
        raise ValueError("group_quantize_compress_numpy: t has elements that are not finite.")
    if dim != -1:
        t = np.moveaxis(t, dim, -1)
    if t.shape[-1] % group_size or group_size % 4:
        raise ValueError(
            f"group_quantize_compress_numpy: group_size: got {group_size} for an axis of {t.shape[-1]} elements, "
            "expected a multiple of 4 that divides it."
        )
    groups = t.reshape(*t.shape[:-1], t.shape[-1] // group_size, group_size)
    smallest = groups.min(-1, keepdims=True).astype(np.float16)
    largest = groups.max(-1, keepdims=True).astype(np.float16)
    scale = ((largest - smallest) / _LARGEST_ID).astype(np.float16)
    wide = scale.astype(np.float32)
    steps = (groups.astype(np.float32) - smallest) / np.where(wide == 0, 1, wide)
    ids = np.clip(np.rint(steps), 0, _LARGEST_ID).astype(np.uint16)
    digits = ids.reshape(*ids.shape[:-1], group_size // 4, 4) << _PLACES
    return np.bitwise_or.reduce(digits, -1), scale, smallest


def group_quantize_decompress_numpy(
    t: np.ndarray, group_scale: np.ndarray, group_bias: np.ndarray, dim: int
) -> np.ndarray:
    """Return ``ids scale + bias``, the rounded values of `group_quantize_compress_numpy`.

    Args:
        t: packed uint16 of shape (…, groups, group_size / 4).
        group_scale: shape (…, groups, 1).
        group_bias: shape (…, groups, 1).
        dim: position of the axis of the groups in the result; -1: the last one.

    Returns:
        The array, with the groups joined to one axis.
    """
    ids = (t[..., None] >> _PLACES) & _LARGEST_ID
    ids = ids.reshape(*t.shape[:-1], t.shape[-1] * 4).astype(np.float16)
    values = ids * group_scale + group_bias
    values = values.reshape(*values.shape[:-2], values.shape[-2] * values.shape[-1])
    return values if dim == -1 else np.moveaxis(values, -1, dim)


def group_quantize_decompress(
    t: popxl.Tensor, group_scale: popxl.Tensor, group_bias: popxl.Tensor, dim: int = -1
) -> popxl.Tensor:
    """As `group_quantize_decompress_numpy`, on the device.

    Args:
        t: packed uint16 tensor of shape (rows, groups, group_size / 4).
        group_scale: float tensor of shape (rows, groups) or (rows, groups, 1).
        group_bias: as group_scale.
        dim: -1: the elements of a row are the last axis; else they are the first one.

    Returns:
        Tensor of the dtype of group_scale, of shape (rows, elements), transposed if dim is not -1. It has no
        gradient.

    Raises:
        NotImplementedError: t is not of rank 3.
        ValueError: scale or bias has a wrong rank or a wrong number of rows or groups.
    """
    if t.rank != 3:
        raise NotImplementedError(f"group_quantize_decompress: t: got shape {t.shape}, expected (rows, groups, ids).")
    inputs = {"t": t, "group_scale": group_scale, "group_bias": group_bias}
    for name in ("group_scale", "group_bias"):
        inputs[name] = _per_group(name, inputs[name], t)
    values = emit_one("GroupQuantizeDecompress", inputs, f"{t.name}_decompressed")
    return values if dim == -1 else ops.transpose(values)


def _per_group(name: str, factor: popxl.Tensor, t: popxl.Tensor) -> popxl.Tensor:
    if factor.rank not in (2, 3) or factor.shape[:2] != t.shape[:2] or factor.shape[2:] not in ((), (1,)):
        raise ValueError(
            f"group_quantize_decompress: {name}: got shape {factor.shape}, expected {t.shape[:2]} with or without a "
            "further dimension of 1."
        )
    return factor if factor.rank == 3 else ops.reshape(factor, (*factor.shape, 1))


__all__ = ["group_quantize_compress_numpy", "group_quantize_decompress", "group_quantize_decompress_numpy"]
