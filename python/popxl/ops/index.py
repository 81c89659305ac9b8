"""Ops that read or write elements at positions given by a tensor."""

from collections.abc import Iterable

import numpy as np
from popart_core import popart_exception

from popxl.context import get_current_graph
from popxl.ops.utils import check_in_graph, check_memory_proportion, emit_one
from popxl.tensor import Constant, Tensor

_REDUCTIONS = {"sum": "Sum", "min": "Min", "max": "Max", "none": "None"}


def gather(
    t: Tensor, indices: Tensor, axis: int = 0, available_memory_proportion: float | None = None, zero_OOR: bool = False
) -> Tensor:
    """Take slices along an axis. Source: ONNX Gather-13.

    Args:
        t: tensor of any shape.
        indices: integer tensor of any shape.
        axis: axis of t.
        available_memory_proportion: hint in (0, 1].
        zero_OOR: an index below 0 or past the end returns zeros. Otherwise negative ones count from the end, and the
            run
            ends with an error at an index that is out of range.

    Returns:
        Tensor of shape ``t.shape[:axis] + indices.shape + t.shape[axis+1:]``.

    Raises:
        popart_exception: the axis is out of range.
    """
    check_memory_proportion(available_memory_proportion)
    return emit_one("Gather", {"t": t, "indices": indices}, "gather_out", {"axis": axis, "zero_OOR": int(zero_OOR)})


def tied_gather(
    t: Tensor, indices: Tensor, axis: int = 0, available_memory_proportion: float | None = None, zero_OOR: bool = False
) -> Tensor:
    """As `gather` (ai.graphcore PopartTiedGather-1); hints that t is also used by a matmul.

    Args:
        t: the tensor.
        indices: positions along the axis.
        axis: the axis.
        available_memory_proportion: hint for tiles; no effect.
        zero_OOR: return zeros for positions out of range instead of raising an error.

    Returns:
        The result.
    """
    check_memory_proportion(available_memory_proportion)
    return emit_one(
        "PopartTiedGather", {"t": t, "indices": indices}, "tiedgather_out", {"axis": axis, "zero_OOR": int(zero_OOR)}
    )


def scatter(
    t: Tensor, indices: Tensor, values: Tensor, axis: int = 0, available_memory_proportion: float | None = None
) -> Tensor:
    """Return t with ``out[…, indices[p], …] = values[p]`` along an axis (ONNX Scatter-9).

    Args:
        t: tensor of any shape.
        indices: integer tensor of the rank of t; except along `axis` its sizes are at most those of t.
        values: tensor of the shape of indices and the dtype of t.
        axis: axis of t.
        available_memory_proportion: hint in (0, 1].

    Returns:
        Tensor of the shape of t.
    """
    check_memory_proportion(available_memory_proportion)
    inputs = {"t": t, "indices": indices, "values": values}
    return emit_one("Scatter", inputs, "scatter_out", {"axis": axis})


def scatter_reduce(
    data: Tensor,
    indices: Tensor,
    reduction: str,
    initial_values: Tensor | None = None,
    axis: int = 0,
    axis_size: int | None = None,
    enable_index_broadcast: bool = True,
    available_memory_proportion: float | None = None,
) -> Tensor:
    """Combine the slices of `data` that have the same index. Source: ai.graphcore ScatterReduce-1.

    Args:
        data: tensor of any shape.
        indices: integer tensor of the shape of data, or a vector along `axis`.
        reduction: ``"sum"``, ``"min"``, ``"max"`` or ``"none"`` (overwrite).
        initial_values: values that take part in the reduction.
        axis: axis of data.
        axis_size: size of that axis in the result; needed without initial values.
        enable_index_broadcast: allow a vector of indices.
        available_memory_proportion: hint in (0, 1].

    Returns:
        Tensor of the shape of data, with `axis_size` at `axis`; elements without an index have the initial value, or 0.

    Raises:
        ValueError: unknown reduction, or neither initial_values nor axis_size.
    """
    return grouped_scatter_reduce(
        data,
        indices,
        reduction,
        initial_values,
        axis,
        axis_size,
        1,
        enable_index_broadcast,
        available_memory_proportion,
    )


def grouped_scatter_reduce(
    data: Tensor,
    indices: Tensor,
    reduction: str,
    initial_values: Tensor | None = None,
    axis: int = 0,
    axis_size: int | None = None,
    group_size: int = 1,
    enable_index_broadcast: bool = True,
    available_memory_proportion: float | None = None,
) -> Tensor:
    """Combine slices as `scatter_reduce` in each group; with group_size g > 1 dimension 0 of the inputs is the group.

    Returns:
        As `scatter_reduce`, with the group dimension first.

    Raises:
        ValueError: as `scatter_reduce`.
        popart_exception: the axis is the group dimension.
    """
    check_memory_proportion(available_memory_proportion)
    if reduction not in _REDUCTIONS:
        raise ValueError(f"reduction: got {reduction!r}, expected one of {tuple(_REDUCTIONS)}.")
    if initial_values is None and axis_size is None:
        raise ValueError("scatter_reduce needs initial_values or axis_size.")
    attributes = {
        "axis": axis,
        "axis_size": axis_size if axis_size is not None else initial_values.shape[axis],
        "reduction": _REDUCTIONS[reduction],
        "enable_index_broadcast": int(enable_index_broadcast),
        "group_size": group_size,
    }
    inputs = {"data": data, "indices": indices}
    if initial_values is not None:
        inputs["initial_values"] = initial_values
    return emit_one("ScatterReduce", inputs, "scatterreduce_out", attributes)


def groupedgather(
    t: Tensor,
    indices: Tensor,
    axis: int = 0,
    group_size: int = 1,
    available_memory_proportion: float | None = None,
    zero_OOR: bool = False,
) -> Tensor:
    """Gather in each group; with group_size g > 1 dimension 0 of both inputs is the group.

    Args:
        t: the tensor.
        indices: positions along the axis.
        axis: the axis.
        group_size: number of groups, the size of dimension 0.
        available_memory_proportion: hint for tiles; no effect.
        zero_OOR: return zeros for positions out of range instead of raising an error.

    Returns:
        As `gather` for each group, with the group dimension first (ONNX Gather-13 per group).

    Raises:
        popart_exception: the axis is the group dimension.
    """
    check_memory_proportion(available_memory_proportion)
    attributes = {"axis": axis, "group_size": group_size, "zero_OOR": int(zero_OOR)}
    return emit_one("Gather", {"t": t, "indices": indices}, "gather_out", attributes)


def onehot(t: Tensor, num_classes: Tensor, values: Tensor, axis: int) -> Tensor:
    """Expand class numbers into vectors along a new axis.

    Args:
        t: integer tensor of any shape.
        num_classes: scalar integer constant.
        values: tensor [off, on], whose dtype the result has.
        axis: position of the new axis, -1 for the last.

    Returns:
        Tensor of the shape of t with num_classes at `axis`: "on" at the class number, "off" elsewhere. Negative numbers
        count from the end; a number outside [-num_classes, num_classes) makes all elements "off" (ONNX OneHot-11).

    Raises:
        popart_exception: num_classes is not a constant.
    """
    check_in_graph(get_current_graph(), t=t, num_classes=num_classes, values=values)
    if not isinstance(num_classes, Constant):
        raise popart_exception(
            f"onehot: num_classes must be a constant: got {num_classes}. Make it with popxl.constant."
        )
    depth = int(np.frombuffer(num_classes._pb_tensor.bytes(), num_classes.dtype.as_numpy()).reshape(()))
    return emit_one("OneHot", {"t": t, "values": values}, "onehot_out", {"axis": axis, "depth": depth})


def _region(axes: Iterable[int], sizes: Iterable[int], no_overlap: bool) -> dict:
    return {"axes": list(axes), "sizes": list(sizes), "noOverlap": int(no_overlap)}


def dynamic_slice(t: Tensor, index: Tensor, axes: Iterable[int], sizes: Iterable[int], no_overlap: bool) -> Tensor:
    """Return the region of t that starts at `index` and has `sizes` along `axes`.

    Args:
        t: the tensor.
        index: position of the slice along each axis.
        axes: the axes.
        sizes: sizes along the axes.
        no_overlap: the caller says that slices of different calls do not overlap; changes no result.

    Returns:
        The result.
    """
    return emit_one("DynamicSlice", {"t": t, "index": index}, "dynamic_slice_out", _region(axes, sizes, no_overlap))


def dynamic_update(
    t: Tensor, index: Tensor, t_update: Tensor, axes: Iterable[int], sizes: Iterable[int], no_overlap: bool
) -> Tensor:
    """Return t with the region that starts at `index` replaced by t_update.

    Args:
        t: the tensor.
        index: position of the slice along each axis.
        t_update: the slice.
        axes: the axes.
        sizes: sizes along the axes.
        no_overlap: the caller says that slices of different calls do not overlap; changes no result.

    Returns:
        The result.
    """
    inputs = {"t": t, "index": index, "t_update": t_update}
    return emit_one("DynamicUpdate", inputs, "dynamic_update_out", _region(axes, sizes, no_overlap))


def dynamic_update_(
    t: Tensor, index: Tensor, t_update: Tensor, axes: Iterable[int], sizes: Iterable[int], no_overlap: bool
) -> Tensor:
    """Replace the region of t that starts at `index` by t_update; as `dynamic_update`, but in the memory of t.

    Args:
        t: the tensor.
        index: position of the slice along each axis.
        t_update: the slice.
        axes: the axes.
        sizes: sizes along the axes.
        no_overlap: the caller says that slices of different calls do not overlap; changes no result.

    Returns:
        t, updated.
    """
    inputs = {"t": t, "index": index, "t_update": t_update}
    return emit_one("DynamicUpdateInplace", inputs, "dynamicupdateinplace_out", _region(axes, sizes, no_overlap))
