"""Reductions over axes, and ops that order or count elements."""

import itertools
from collections.abc import Iterable
from typing import Any

from popart_core import popart_exception

from popxl import dtypes
from popxl.context import get_current_graph
from popxl.ops.utils import check_in_graph, check_memory_proportion, checked_axis, emit, emit_one
from popxl.tensor import Tensor, constant

Axes = int | Iterable[int] | None
_INT32 = 6  # ONNX type number of the indices


def _attributes(axis: Axes, keepdims: bool) -> dict[str, Any]:
    axes = None if axis is None else [axis] if isinstance(axis, int) else [int(a) for a in axis]
    return {"axes": axes, "keepdims": int(keepdims)}


def _reduce(op_type: str, t: Tensor, axis: Axes, keepdims: bool, output: str) -> Tensor:
    check_in_graph(get_current_graph(), t=t)
    return emit_one(op_type, {"t": t}, output, _attributes(axis, keepdims))


def sum(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return the sum over `axis`, numeric (ONNX ReduceSum-18).

    Args:
        t: tensor of any shape.
        axis: axes to reduce; None: all, an empty list: none. Negative ones count from the end.
        keepdims: keep the reduced axes with size 1.

    Returns:
        Tensor of the dtype of t.

    Raises:
        popart_exception: an axis repeats or is out of range, or the dtype is not supported.
    """
    return _reduce("ReduceSum", t, axis, keepdims, "sum_out")


def mean(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return the mean over `axis`, numeric (ONNX ReduceMean-18); see `sum` for the arguments.

    Args:
        t: the tensor.
        axis: the axis.
        keepdims: keep the reduced axes with size 1.

    Returns:
        The result.
    """
    return _reduce("ReduceMean", t, axis, keepdims, "mean_out")


def max(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return the maximum over `axis`, numeric and bool (ONNX ReduceMax-18); see `sum` for the arguments.

    Args:
        t: the tensor.
        axis: the axis.
        keepdims: keep the reduced axes with size 1.

    Returns:
        The result.
    """
    return _reduce("ReduceMax", t, axis, keepdims, "max_out")


def min(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return the minimum over `axis`, numeric and bool (ONNX ReduceMin-18); see `sum` for the arguments.

    Args:
        t: the tensor.
        axis: the axis.
        keepdims: keep the reduced axes with size 1.

    Returns:
        The result.
    """
    return _reduce("ReduceMin", t, axis, keepdims, "min_out")


def prod(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return the product over `axis`, numeric (ONNX ReduceProd-18); see `sum` for the arguments.

    Args:
        t: the tensor.
        axis: the axis.
        keepdims: keep the reduced axes with size 1.

    Returns:
        The result.
    """
    return _reduce("ReduceProd", t, axis, keepdims, "prod_out")


def l1(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return the sum of absolute values over `axis`, numeric (ONNX ReduceL1-18); see `sum` for the arguments.

    Args:
        t: the tensor.
        axis: the axis.
        keepdims: keep the reduced axes with size 1.

    Returns:
        The result.
    """
    return _reduce("ReduceL1", t, axis, keepdims, "l1_out")


def l2(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return the root of the sum of squares over `axis`, numeric (ONNX ReduceL2-18); see `sum` for the arguments.

    Args:
        t: the tensor.
        axis: the axis.
        keepdims: keep the reduced axes with size 1.

    Returns:
        The result.
    """
    return _reduce("ReduceL2", t, axis, keepdims, "l2_out")


def logsum(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return the logarithm of the sum over `axis`, numeric (ONNX ReduceLogSum-18); see `sum` for the arguments.

    Args:
        t: the tensor.
        axis: the axis.
        keepdims: keep the reduced axes with size 1.

    Returns:
        The result.
    """
    return _reduce("ReduceLogSum", t, axis, keepdims, "logsum_out")


def logsumexp(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return log(sum(e^t)) over `axis`, stabilised (ONNX ReduceLogSumExp-18); see `sum` for the arguments.

    Args:
        t: the tensor.
        axis: the axis.
        keepdims: keep the reduced axes with size 1.

    Returns:
        The result.
    """
    return _reduce("ReduceLogSumExp", t, axis, keepdims, "logsumexp_out")


def sumsquare(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return the sum of squares over `axis`, numeric (ONNX ReduceSumSquare-18); see `sum` for the arguments.

    Args:
        t: the tensor.
        axis: the axis.
        keepdims: keep the reduced axes with size 1.

    Returns:
        The result.
    """
    return _reduce("ReduceSumSquare", t, axis, keepdims, "sumsquare_out")


def median(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return the lower median over `axis`, numeric (ai.graphcore ReduceMedian-1); see `sum` for the arguments.

    Args:
        t: the tensor.
        axis: the axis.
        keepdims: keep the reduced axes with size 1.

    Returns:
        The result.
    """
    names = ["median_out", "median_indices_out"]
    return emit("ReduceMedian", {"t": t}, names, _attributes(axis, keepdims))[0]


def argmax(t: Tensor, dim: int = 0, keepdim: bool = False) -> Tensor:
    """Return the int32 index of the first maximum along `dim`, numeric (ONNX ArgMax-13).

    Args:
        t: the tensor.
        dim: the axis.
        keepdim: keep the reduced axis with size 1.

    Returns:
        The result.
    """
    return _arg("ArgMax", t, dim, keepdim, "argmax_out")


def argmin(t: Tensor, dim: int = 0, keepdim: bool = False) -> Tensor:
    """Return the int32 index of the first minimum along `dim`, numeric (ONNX ArgMin-13).

    Args:
        t: the tensor.
        dim: the axis.
        keepdim: keep the reduced axis with size 1.

    Returns:
        The result.
    """
    return _arg("ArgMin", t, dim, keepdim, "argmin_out")


def _arg(op_type: str, t: Tensor, dim: int, keepdim: bool, output: str) -> Tensor:
    return emit_one(op_type, {"t": t}, output, {"axis": dim, "keepdims": int(keepdim), "index_type": _INT32})


def topk(
    t: Tensor,
    k: int,
    axis: int,
    largest: bool,
    sorted: bool,
    available_memory_proportion: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the k largest (or smallest) elements along `axis` and their int32 indices (ONNX TopK-11).

    Args:
        t: numeric tensor of any shape.
        k: number of elements.
        axis: axis along which to search.
        largest: the largest ones, else the smallest.
        sorted: sort the results by value, equal ones by index.
        available_memory_proportion: hint in (0, 1].

    Returns:
        (values, indices), size k along `axis`.

    Raises:
        popart_exception: k is larger than the axis.
    """
    check_memory_proportion(available_memory_proportion)
    attributes = {"k": k, "axis": axis, "largest": int(largest), "sorted": int(sorted), "index_type": _INT32}
    values, indices = emit("TopK", {"t": t}, ["topk_out_value", "topk_out_indices"], attributes)
    return values, indices


def cumsum(t: Tensor, dim: int = 0) -> Tensor:
    """Return inclusive sums along `dim`, numeric (ONNX CumSum-14); same shape and dtype.

    Args:
        t: the tensor.
        dim: the axis.

    Returns:
        The result.

    Raises:
        popart_exception: the axis is out of range.
    """
    check_in_graph(get_current_graph(), t=t)
    attributes = {"axis": checked_axis("cumsum", t, dim), "exclusive": 0, "reverse": 0}
    return emit_one("CumSum", {"t": t, "dim": constant(dim, dtypes.int64, "dim")}, "cumsum_out", attributes)


def histogram(t: Tensor, levels: list[float], absolute_of_input: bool) -> Tensor:
    """Count elements between levels.

    Args:
        t: float tensor of any shape.
        levels: increasing bin borders.
        absolute_of_input: count |t|.

    Returns:
        uint32 tensor of shape (len(levels) + 1,): below the first level, between neighbours, from the last level on.

    Raises:
        ValueError: levels are not strictly increasing.
        popart_exception: t is not a float tensor, or there are no levels.
    """
    if any(b <= a for a, b in itertools.pairwise(levels)):
        raise ValueError(f"levels must be strictly increasing: got {levels}.")
    check_in_graph(get_current_graph(), t=t)
    if not t.dtype.is_floating_point:
        raise popart_exception(f"histogram: '{t.name}' must hold floats: got {t.dtype}. Cast it first.")
    attributes = {"levels": [float(v) for v in levels], "absoluteOfInput": int(absolute_of_input)}
    return emit_one("Histogram", {"t": t}, "histogram_out", attributes, function="histogram")


def lamb_square(t: Tensor) -> Tensor:
    """Return the sum of squares of a float tensor as a float32 scalar (You et al. 2020).

    Args:
        t: the tensor.

    Returns:
        The result.
    """
    return emit_one("LambSquare", {"t": t}, "lamb_square_out")
