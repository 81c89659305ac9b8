"""Arrays cut for replicas and shards, and joined again. NumPy only."""

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
    """Cut an axis into equal pieces.

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
        axis: place of the new axis in the result.

    Returns:
        Array with one axis of size n more.
    """
    return np.repeat(np.expand_dims(x, axis), n, axis)


def repeat_axis(x: np.ndarray, n: int, axis: int = 0) -> np.ndarray:
    """Put copies of an array behind one another along one of its axes.

    Args:
        x: array of shape (…, N, …).
        n: number of copies.
        axis: the axis of N.

    Returns:
        Array of shape (…, n N, …).
    """
    return np.concatenate([x] * n, axis)


def split2D(x: np.ndarray, n_1: int, n_2: int, axis_1: int, axis_2: int) -> list[list[np.ndarray]]:
    """Cut two axes.

    Args:
        x: the array.
        n_1: number of pieces of `axis_1`.
        n_2: number of pieces of `axis_2`.
        axis_1: first axis to cut.
        axis_2: second axis to cut.

    Returns:
        n_1 lists of n_2 pieces.

    Raises:
        ValueError: an axis does not divide.
    """
    return [np.split(part, n_2, axis_2) for part in np.split(x, n_1, axis_1)]


def shard2D(x: np.ndarray, n_1: int, n_2: int, axis_1: int, axis_2: int) -> np.ndarray:
    """Cut two axes; arguments as `split2D`.

    Args:
        x: the array.
        n_1: number of pieces of `axis_1`.
        n_2: number of pieces of `axis_2`.
        axis_1: first axis to cut, the slower one in the result.
        axis_2: second axis to cut.

    Returns:
        Array of shape (n_1 n_2, …).

    Raises:
        ValueError: an axis does not divide.
    """
    return np.stack([piece for row in split2D(x, n_1, n_2, axis_1, axis_2) for piece in row])


def unshard2D(x: np.ndarray, n_1: int, n_2: int, axis_1: int, axis_2: int) -> np.ndarray:
    """Join the pieces of `shard2D`.

    Args:
        x: array of shape (n_1 n_2, …).
        n_1: number of pieces along `axis_1`.
        n_2: number of pieces along `axis_2`.
        axis_1: first cut axis, in the result.
        axis_2: second cut axis, in the result.

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
    """Cut an axis and repeat the pieces, one for each replica.

    Args:
        x: the array.
        n_repeats: copies of each piece.
        n_shards: number of pieces.
        shard_axis: axis to cut.
        sharded_tensor: ``"contiguous"``: s0 s1 … s0 s1 …; ``"strided"``: the pieces of the former order seen as
            (n_shards, n_repeats), transposed: for two of both s0 s0 s1 s1.

    Returns:
        Array of shape (n_repeats n_shards, …).

    Raises:
        ValueError: another order, or the axis does not divide.
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
    """Arrange samples for replicas of which `tp` neighbours work on the same one.

    Args:
        input_data: samples, of shape (n, *d).
        tp: replicas that share a sample.
        rf: number of replicas.
        repeat_fn: ``repeat_fn(samples, i)`` changes or returns the data of replica i among those that share.

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
    """Arrange what replicas stored by sample; the opposite of `tensor_parallel_input`.

    Args:
        output_data: what `Session.run` returned for a stream.
        num_host_transfers: transfers of a run.
        tp: replicas that share a sample.
        rf: number of replicas.
        data_shape: shape of one transfer of one replica.
        tp_identical: replicas that share a sample stored the same, of which one is returned.
        true_num_host_transfers: transfers with valid data, default all.

    Returns:
        Array of shape (samples, *data_shape), with an axis of size tp behind the first unless `tp_identical`.
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
        value: what is put there.

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
    """Drop axes of size 1; as `numpy.squeeze`, but axes of another size stay.

    Args:
        x: the array.
        axis: axes to drop, default all.

    Returns:
        The array with fewer axes.
    """
    if axis is None:
        return np.squeeze(x)
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    return np.squeeze(x, tuple(a for a in axes if x.shape[a] == 1))


def handle_negative_axis(x: np.ndarray, axis: int) -> int:
    """Return `axis` counted from the front.

    Args:
        x: the array.
        axis: axis, negative ones counted from the end.

    Returns:
        A number from 0 to the rank - 1.

    Raises:
        IndexError: x has no such axis.
    """
    if not -x.ndim <= axis < x.ndim:
        raise IndexError(f"axis: got {axis} for an array of shape {x.shape}, expected {-x.ndim} to {x.ndim - 1}.")
    return axis % x.ndim
