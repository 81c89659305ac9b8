"""Ops that change the arrangement of elements. Ops with a trailing underscore share memory with their input."""

from collections.abc import Iterable, Sequence
from math import prod

from popart._arrays import as_shape
from popart_core import popart_exception

from popxl.context import get_current_graph
from popxl.ops.utils import check_in_graph, checked_axis, emit, emit_one, handle_negative_axis
from popxl.tensor import Tensor


def _resolved(t: Tensor, shape: Iterable[int]) -> list[int]:
    shape = list(as_shape(shape, "reshape"))
    if any(n == 0 or n < -1 for n in shape) or shape.count(-1) > 1:
        raise ValueError(f"reshape: got shape {tuple(shape)}, expected positive sizes and at most one -1.")
    if -1 in shape:
        known = prod(n for n in shape if n != -1)
        if t.nelms % known == 0:
            shape[shape.index(-1)] = t.nelms // known
    return shape


def _reshape(op_type: str, t: Tensor, shape: Iterable[int]) -> Tensor:
    check_in_graph(get_current_graph(), t=t)
    return emit_one(op_type, {"t": t}, f"{t.name}_reshaped", {"shape": _resolved(t, shape)})


def reshape(t: Tensor, shape: Iterable[int]) -> Tensor:
    """Return t with another shape and the same elements in the same order.

    Args:
        t: tensor of any shape.
        shape: sizes; one may be -1 and is inferred.

    Returns:
        Tensor of that shape, any dtype (ONNX Reshape-13).

    Raises:
        TypeError: a size is not an integer.
        ValueError: a size is 0 or below -1, or two are -1.
        popart_exception: the number of elements differs.
    """
    return _reshape("Reshape", t, shape)


def reshape_(t: Tensor, shape: Iterable[int]) -> Tensor:
    """As `reshape`, but the result shares the memory of t.

    Args:
        t: the tensor.
        shape: dimension sizes.

    Returns:
        The result.
    """
    return _reshape("ReshapeInplace", t, shape)


def flatten(t: Tensor) -> Tensor:
    """Return t as a 1-D tensor; a scalar gives shape (1,)."""
    return reshape(t, (-1,))


def flatten_(t: Tensor) -> Tensor:
    """As `flatten`, sharing the memory of t."""
    return reshape_(t, (-1,))


def squeeze(t: Tensor, axes: Iterable[int] | None = None) -> Tensor:
    """Remove axes of size 1.

    Args:
        t: tensor of any shape.
        axes: axes to remove; None: all of size 1.

    Returns:
        Tensor without those axes, any dtype (ONNX Squeeze-13, as a Reshape).

    Raises:
        ValueError: an axis repeats, is out of range or has another size.
    """
    check_in_graph(get_current_graph(), t=t)
    if axes is None:
        removed = [i for i, n in enumerate(t.shape) if n == 1]
    else:
        given = list(axes)
        if any(not -t.rank <= a < t.rank for a in given):
            raise ValueError(f"squeeze: axes {given} out of range for a tensor of shape {t.shape}.")
        removed = [handle_negative_axis(t, a) for a in given]
        if len(set(removed)) != len(removed):
            raise ValueError(f"squeeze: axes must be different: got {given}.")
        if any(t.shape[a] != 1 for a in removed):
            raise ValueError(f"squeeze: axes {given} must have size 1 in shape {t.shape}.")
    return reshape(t, [n for i, n in enumerate(t.shape) if i not in removed])


def _transpose(op_type: str, t: Tensor, permutation: Iterable[int] | None) -> Tensor:
    check_in_graph(get_current_graph(), t=t)
    perm = list(reversed(range(t.rank))) if permutation is None else [int(p) for p in permutation]
    if any(p >= t.rank for p in perm):
        raise ValueError(f"transpose: permutation {perm} does not fit a tensor of rank {t.rank}.")
    return emit_one(op_type, {"t": t}, f"{t.name}_T", {"perm": perm})


def transpose(t: Tensor, permutation: Iterable[int] | None = None) -> Tensor:
    """Permute the axes.

    Args:
        t: tensor of any shape.
        permutation: axis of t for each axis of the result; None: reversed.

    Returns:
        Tensor with permuted sizes, any dtype (ONNX Transpose-13).

    Raises:
        ValueError: an entry is not an axis.
        popart_exception: entries repeat or are missing.
    """
    return _transpose("Transpose", t, permutation)


def transpose_(t: Tensor, permutation: Iterable[int] | None = None) -> Tensor:
    """As `transpose`, but the result shares the memory of t.

    Args:
        t: the tensor.
        permutation: new order of the axes; default: reversed.

    Returns:
        The result.
    """
    return _transpose("TransposeInplace", t, permutation)


def _concat(op_type: str, ts: Iterable[Tensor], axis: int) -> Tensor:
    ts = list(ts)
    check_in_graph(get_current_graph(), **{f"ts_{i}": t for i, t in enumerate(ts)})
    if len({t.dtype.name for t in ts}) > 1:
        raise TypeError(f"concat: the tensors must have one dtype: got {[t.dtype for t in ts]}.")
    if ts:
        axis = checked_axis("concat", ts[0], axis)
    return emit_one(op_type, {f"ts_{i}": t for i, t in enumerate(ts)}, "concat_out", {"axis": axis})


def concat(ts: Iterable[Tensor], axis: int = 0) -> Tensor:
    """Join tensors along an axis.

    Args:
        ts: one or more tensors of one rank and dtype.
        axis: axis along which they are joined; negative ones count from the end.

    Returns:
        Tensor whose size along `axis` is the sum of theirs (ONNX Concat-13).

    Raises:
        TypeError: dtypes differ.
        popart_exception: other sizes differ, or there is no tensor.
    """
    return _concat("Concat", ts, axis)


def concat_(ts: Iterable[Tensor], axis: int = 0) -> Tensor:
    """As `concat`, but the result shares memory with all inputs.

    Args:
        ts: the tensors.
        axis: the axis.

    Returns:
        The result.
    """
    return _concat("ConcatInplace", ts, axis)


def split(t: Tensor, splits: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Split a tensor along an axis.

    Args:
        t: tensor of any shape.
        splits: number of equal parts, or the size of each part.
        axis: axis along which to split.

    Returns:
        One tensor per part, any dtype (ONNX Split-13).

    Raises:
        ValueError: the size of the axis is not a multiple of the number of parts.
        popart_exception: sizes do not add up.
    """
    check_in_graph(get_current_graph(), t=t)
    axis = checked_axis("split", t, axis)
    if isinstance(splits, int):
        if splits < 1 or t.shape[axis] % splits:
            raise ValueError(f"split: axis {axis} of size {t.shape[axis]} does not divide into {splits} equal parts.")
        splits = [t.shape[axis] // splits] * splits
    names = [f"{t.name}_split_{i}" for i in range(len(splits))]
    return emit("Split", {"t": t}, names, {"axis": axis, "split": list(splits)})


Index = int | Sequence[int | None] | None
_END = 2**31 - 1


def _slice(op_type: str, t: Tensor, start: Index, stop: Index, step: Index, axis: Index) -> Tensor:
    check_in_graph(get_current_graph(), t=t)
    if start is None and stop is None and step is None:
        return t
    given = {"start": start, "stop": stop, "step": step, "axis": axis}
    lists = {k: [v] if isinstance(v, int) else list(v) for k, v in given.items() if v is not None}
    count = len(next(iter(lists.values())))
    for name, values in lists.items():
        if len(values) != count:
            raise ValueError(f"slice: `{name}` has {len(values)} entries, the others have {count}.")
    steps = [1 if s is None else s for s in lists.get("step", [1] * count)]
    starts = [(0 if s > 0 else -1) if v is None else v for v, s in zip(lists.get("start", [None] * count), steps)]
    stops = [(_END if s > 0 else -_END) if v is None else v for v, s in zip(lists.get("stop", [None] * count), steps)]
    if any(s not in (1, -1) for s in steps):
        raise popart_exception(f"slice: steps must be 1 or -1: got {steps}. Use ops.subsample for other strides.")
    axes = lists.get("axis", list(range(count)))
    if any(not 0 <= a < t.rank for a in axes):
        raise popart_exception(f"slice: axis: got {axes} for {t.name} of rank {t.rank}, expected 0 to {t.rank - 1}.")
    attributes = {"starts": starts, "ends": stops, "axes": axes, "steps": steps}
    return emit_one(op_type, {"t": t}, "slice_out", attributes)


def slice(t: Tensor, start: Index = None, stop: Index = None, step: Index = None, axis: Index = None) -> Tensor:
    """Return a range along each of several axes. Source: ONNX Slice-11.

    Args:
        t: tensor of any shape.
        start: first index per axis; None: the first one in the direction of the step.
        stop: index after the last; None: to the end.
        step: 1, or -1 to reverse.
        axis: axes, default the leading ones.

    Returns:
        The range; `t` itself when start, stop and step are all None.

    Raises:
        ValueError: the lists have different lengths.
        popart_exception: a step is neither 1 nor -1, or an axis is negative.
    """
    return _slice("Slice", t, start, stop, step, axis)


def slice_(t: Tensor, start: Index = None, stop: Index = None, step: Index = None, axis: Index = None) -> Tensor:
    """As `slice`, but the result shares the memory of t.

    Args:
        t: the tensor.
        start: first position; default: the beginning.
        stop: position after the last; default: the end.
        step: distance of positions.
        axis: the axis.

    Returns:
        The result.
    """
    return _slice("SliceInplace", t, start, stop, step, axis)


def subsample(t: Tensor, strides: int | list[int]) -> Tensor:
    """Keep every stride-th element of each axis.

    Args:
        t: tensor of any shape.
        strides: stride of each axis; missing ones are 1; an int applies to axis 0.

    Returns:
        Tensor of sizes ceil(size / stride), any dtype (ai.graphcore Subsample-1).

    Raises:
        ValueError: more strides than axes.
        popart_exception: a stride is 0.
    """
    check_in_graph(get_current_graph(), t=t)
    strides = [strides] if isinstance(strides, int) else list(strides)
    if len(strides) > t.rank:
        raise ValueError(f"subsample: got {len(strides)} strides for a tensor of rank {t.rank}.")
    strides += [1] * (t.rank - len(strides))
    return emit_one("Subsample", {"t": t}, "subsample_out", {"strides": strides})
