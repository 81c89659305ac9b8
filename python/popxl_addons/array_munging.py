"""Split arrays for replicas and shards, and join them again. NumPy only."""

from collections.abc import Callable, Iterable

import numpy as np

__all__ = [
    "handle_negative_axis",
    "pad_axis",
    "repeat",
    "repeat_axis",
    "repeat_shard",
    "shard",
    "shard2D",
    "split2D",
    "squeeze_safe",
    "tensor_parallel_input",
    "unshard",
    "unshard2D",
    "unshard_arrays",
]


def shard(x: np.ndarray, n: int, axis: int) -> np.ndarray:
    """Split an axis into equal pieces.

    Args:
        x: array of shape (…, N, …).
        n: number of pieces, a divisor of N.
        axis: the axis of N.

    Returns:
        Array of shape (n, …, N / n, …).

    Raises:
        ValueError: n does not divide N.
    """
    return np.stack(np.split(x, n, axis))


def unshard(x: np.ndarray, axis: int) -> np.ndarray:
    """Join the pieces of `shard`.

    Args:
        x: array of shape (n, …, N / n, …).
        axis: the axis of N in the result.

    Returns:
        Array of shape (…, N, …).
    """
    return np.concatenate(list(x), axis)


def unshard_arrays(xs: Iterable[np.ndarray], axis: int) -> np.ndarray:
    """Join pieces that are arrays of shape (1, …, N / n, …).

    Args:
        xs: the pieces in order.
        axis: the axis of N in the result.

    Returns:
        Array of shape (…, N, …).
    """
    return unshard(np.concatenate(list(xs)), axis)


def repeat(x: np.ndarray, n: int, axis: int = 0) -> np.ndarray:
    """Copy an array along a new axis.

    Args:
        x: array of any shape.
        n: number of copies.
        axis: position of the new axis in the result.

    Returns:
        Array with one axis of size n more.
    """
    return np.repeat(np.expand_dims(x, axis), n, axis)


def repeat_axis(x: np.ndarray, n: int, axis: int = 0) -> np.ndarray:
    """Concatenate copies of an array along one of its axes.

    Args:
        x: array of shape (…, N, …).
        n: number of copies.
        axis: the axis of N.

    Returns:
        Array of shape (…, n N, …).
    """
    return np.concatenate([x] * n, axis)


def split2D(x: np.ndarray, n_1: int, n_2: int, axis_1: int, axis_2: int) -> list[list[np.ndarray]]:
    """Split two axes.

    Args:
        x: the array.
        n_1: number of pieces of `axis_1`.
        n_2: number of pieces of `axis_2`.
        axis_1: first axis to split.
        axis_2: second axis to split.

    Returns:
        n_1 lists of n_2 pieces.

    Raises:
        ValueError: the size of an axis is not a multiple of the number of pieces.
    """
    return [np.split(part, n_2, axis_2) for part in np.split(x, n_1, axis_1)]


def shard2D(x: np.ndarray, n_1: int, n_2: int, axis_1: int, axis_2: int) -> np.ndarray:
    """Split two axes; arguments as `split2D`.

    Args:
        x: the array.
        n_1: number of pieces of `axis_1`.
        n_2: number of pieces of `axis_2`.
        axis_1: first axis to split, the outer one in the result.
        axis_2: second axis to split.

    Returns:
        Array of shape (n_1 n_2, …).

    Raises:
        ValueError: the size of an axis is not a multiple of the number of pieces.
    """
    return np.stack([piece for row in split2D(x, n_1, n_2, axis_1, axis_2) for piece in row])


def unshard2D(x: np.ndarray, n_1: int, n_2: int, axis_1: int, axis_2: int) -> np.ndarray:
    """Join the pieces of `shard2D`.

    Args:
        x: array of shape (n_1 n_2, …).
        n_1: number of pieces along `axis_1`.
        n_2: number of pieces along `axis_2`.
        axis_1: first split axis, in the result.
        axis_2: second split axis, in the result.

    Returns:
        The whole array.

    Raises:
        AssertionError: x does not have n_1 n_2 pieces.
    """
    assert x.shape[0] == n_1 * n_2, f"unshard2D: x: got {x.shape[0]} pieces, expected n_1 * n_2 = {n_1 * n_2}."
    rows = [unshard(x[i * n_2 : (i + 1) * n_2], axis_2) for i in range(n_1)]
    return np.concatenate(rows, axis_1)


def repeat_shard(
    x: np.ndarray, n_repeats: int, n_shards: int, shard_axis: int, sharded_tensor: str = "contiguous"
) -> np.ndarray:
    """Split an axis and repeat the pieces, so that there is one for each replica.

    Args:
        x: the array.
        n_repeats: copies of each piece.
        n_shards: number of pieces.
        shard_axis: axis to split.
        sharded_tensor: ``"contiguous"``: s0 s1 … s0 s1 …; ``"strided"``: these pieces, viewed as (n_shards, n_repeats)
            and transposed; with two of both s0 s0 s1 s1.

    Returns:
        Array of shape (n_repeats n_shards, …).

    Raises:
        ValueError: the order is unknown, or the size of the axis is not a multiple of the number of pieces.
    """
    if sharded_tensor not in ("contiguous", "strided"):
        raise ValueError(f"repeat_shard: sharded_tensor: got {sharded_tensor!r}, expected 'contiguous' or 'strided'.")
    pieces = repeat_axis(shard(x, n_shards, shard_axis), n_repeats)
    if sharded_tensor == "contiguous":
        return pieces
    # compat: the view has n_shards first although it is the faster index (test_array_munging.py::test_repeat_shard)
    return pieces.reshape(n_shards, n_repeats, *pieces.shape[1:]).swapaxes(0, 1).reshape(pieces.shape)


def tensor_parallel_input(
    input_data: np.ndarray,
    tp: int,
    rf: int,
    repeat_fn: Callable[[np.ndarray, int], np.ndarray] | None = None,
) -> np.ndarray:
    """Arrange samples for replicas; each group of `tp` neighbours works on the same sample.

    Args:
        input_data: samples, of shape (n, *d).
        tp: replicas that share a sample.
        rf: number of replicas.
        repeat_fn: ``repeat_fn(samples, i)`` changes or returns the data of replica i of a group.

    Returns:
        Array of shape (n tp / rf, rf, *d) without leading axes of size 1: what a host load of all transfers reads.

    Raises:
        ValueError: tp is larger than rf or does not divide it.
    """
    if tp > rf or rf % tp:
        raise ValueError(f"tensor_parallel_input: tp: got {tp}, expected a divisor of rf = {rf}.")
    copies = [input_data.copy() for _ in range(tp)]
    if repeat_fn is not None:
        changed = [repeat_fn(copy, i) for i, copy in enumerate(copies)]
        copies = [copy if result is None else result for copy, result in zip(copies, changed)]
    data = np.stack(copies, 1)  # (n, tp, *d)
    data = data.reshape(-1, rf, *input_data.shape[1:])
    return squeeze_safe(data, (0, 1))


def tensor_parallel_output(
    output_data: np.ndarray,
    num_host_transfers: int,
    tp: int,
    rf: int,
    data_shape: Iterable[int],
    tp_identical: bool = True,
    true_num_host_transfers: int | None = None,
) -> np.ndarray:
    """Arrange the results of replicas by sample; the inverse of `tensor_parallel_input`.

    Args:
        output_data: what `Session.run` returned for a stream.
        num_host_transfers: number of transfers in a run.
        tp: replicas that share a sample.
        rf: number of replicas.
        data_shape: shape of one transfer of one replica.
        tp_identical: replicas that share a sample stored equal values; one of them is returned.
        true_num_host_transfers: number of transfers with valid data, default all.

    Returns:
        Array of shape (samples, *data_shape), with a second axis of size tp unless `tp_identical`.
    """
    shape = tuple(data_shape)
    data = output_data.reshape(num_host_transfers, rf // tp, tp, *shape)[:true_num_host_transfers]
    data = data.reshape(-1, tp, *shape)
    return data[:, 0] if tp_identical else data


def pad_axis(x: np.ndarray, n: int, axis: int, value: float = 0) -> np.ndarray:
    """Pad the end of an axis.

    Args:
        x: the array.
        n: size of the axis in the result.
        axis: the axis.
        value: value of the padding.

    Returns:
        Array with n elements along the axis.

    Raises:
        AssertionError: the axis has more than n elements.
    """
    missing = n - x.shape[axis]
    assert missing >= 0, f"pad_axis: n: got {n}, expected at least {x.shape[axis]}, the size of axis {axis}."
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, missing)
    return np.pad(x, widths, constant_values=value)


def squeeze_safe(x: np.ndarray, axis: int | tuple[int, ...] | None = None) -> np.ndarray:
    """Remove axes of size 1, as `numpy.squeeze`, but keep axes of another size instead of raising an error.

    Args:
        x: the array.
        axis: axes to remove, default all.

    Returns:
        The array with fewer axes.
    """
    if axis is None:
        return np.squeeze(x)
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    return np.squeeze(x, tuple(a for a in axes if x.shape[a] == 1))


def handle_negative_axis(x: np.ndarray, axis: int) -> int:
    """Return a negative `axis` as a number from the front.

    Args:
        x: the array.
        axis: the axis; a negative one counts from the end.

    Returns:
        A number from 0 to the rank - 1.

    Raises:
        IndexError: x has no such axis.
    """
    if not -x.ndim <= axis < x.ndim:
        raise IndexError(f"axis: got {axis} for an array of shape {x.shape}, expected {-x.ndim} to {x.ndim - 1}.")
    return axis % x.ndim
