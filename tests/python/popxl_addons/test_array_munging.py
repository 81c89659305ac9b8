"""Arrays cut for replicas and shards. Oracle: index arithmetic."""

import numpy as np
import popxl_addons as addons
import pytest
from popxl_addons.array_munging import tensor_parallel_output

X = np.arange(24).reshape(4, 6)


def test_shard():
    assert addons.shard(X, 3, 1).shape == (3, 4, 2)
    np.testing.assert_array_equal(addons.shard(X, 3, 1)[2], X[:, 4:])
    for axis in (0, 1, -1):
        np.testing.assert_array_equal(addons.unshard(addons.shard(X, 2, axis), axis), X)
    np.testing.assert_array_equal(addons.unshard_arrays([X[None, :, :3], X[None, :, 3:]], 1), X)
    with pytest.raises(ValueError, match="split"):
        addons.shard(X, 4, 1)


def test_repeat():
    assert addons.repeat(X, 3).shape == (3, 4, 6) and addons.repeat(X, 3, 1).shape == (4, 3, 6)
    np.testing.assert_array_equal(addons.repeat(X, 3, 1)[:, 2], X)
    np.testing.assert_array_equal(addons.repeat_axis(X, 2, 1), np.tile(X, (1, 2)))
    np.testing.assert_array_equal(addons.repeat_axis(X, 2), np.tile(X, (2, 1)))


def test_two_axes():
    parts = addons.split2D(X, 2, 3, 0, 1)
    np.testing.assert_array_equal(parts[1][2], X[2:, 4:])
    sharded = addons.shard2D(X, 2, 3, 0, 1)
    assert sharded.shape == (6, 2, 2)
    np.testing.assert_array_equal(sharded[1 * 3 + 2], X[2:, 4:])
    np.testing.assert_array_equal(addons.unshard2D(sharded, 2, 3, 0, 1), X)
    with pytest.raises(AssertionError, match="6"):
        addons.unshard2D(sharded, 2, 2, 0, 1)


@pytest.mark.parametrize(
    ("repeats", "shards", "kind", "order"),
    [
        *[(2, 2, "contiguous", "0101"), (2, 2, "strided", "0011"), (1, 3, "strided", "012")],
        *[(3, 2, "contiguous", "010101"), (3, 2, "strided", "010101"[0::3] + "010101"[1::3] + "010101"[2::3])],
    ],
)
def test_repeat_shard(repeats, shards, kind, order):
    got = addons.repeat_shard(X, repeats, shards, 1, kind)
    pieces = np.split(X, shards, 1)
    np.testing.assert_array_equal(got, np.stack([pieces[int(i)] for i in order]))


def test_repeat_shard_of_an_unknown_order():
    with pytest.raises(ValueError, match="'other'"):
        addons.repeat_shard(X, 2, 2, 1, "other")


@pytest.mark.parametrize(("tp", "rf"), [(1, 1), (2, 2), (2, 4), (4, 4), (1, 4)])
def test_tensor_parallel_data(tp, rf):
    samples = 4
    data = np.arange(samples * 3).reshape(samples, 3)
    full = np.repeat(data, tp, 0).reshape(samples * tp // rf, rf, 3)
    got = addons.tensor_parallel_input(data, tp, rf)
    np.testing.assert_array_equal(got, full.reshape([n for n in full.shape[:2] if n > 1] + [3]))
    transfers = samples * tp // rf
    np.testing.assert_array_equal(tensor_parallel_output(got, transfers, tp, rf, (3,)), data)
    every = tensor_parallel_output(got, transfers, tp, rf, (3,), tp_identical=False)
    np.testing.assert_array_equal(every, np.repeat(data[:, None], tp, 1))
    cut = tensor_parallel_output(got, transfers, tp, rf, (3,), true_num_host_transfers=1)
    np.testing.assert_array_equal(cut, data[: rf // tp])


def test_tensor_parallel_data_that_differs():
    data = np.arange(4)
    got = addons.tensor_parallel_input(data, 2, 2, lambda copy, i: copy + 100 * i)
    np.testing.assert_array_equal(got, np.stack([data, data + 100], 1))
    for tp, rf in ((4, 2), (3, 4)):
        with pytest.raises(ValueError, match="tp"):
            addons.tensor_parallel_input(data, tp, rf)


def test_axes():
    np.testing.assert_array_equal(addons.pad_axis(X, 6, 0), np.vstack([X, np.zeros((2, 6))]))
    np.testing.assert_array_equal(addons.pad_axis(X, 7, -1, 5)[:, 6], [5] * 4)
    with pytest.raises(AssertionError, match="at least 6"):
        addons.pad_axis(X, 5, 1)
    y = np.zeros((1, 2, 1, 3))
    assert [addons.squeeze_safe(y, a).shape for a in (None, 0, 1, (0, 1), -2)] == [
        *[(2, 3), (2, 1, 3), (1, 2, 1, 3), (2, 1, 3), (1, 2, 3)],
    ]
    assert [addons.handle_negative_axis(X, a) for a in (0, 1, -1, -2)] == [0, 1, 1, 0]
    for x, axis in ((X, 2), (X, -3), (np.zeros(()), 0)):
        with pytest.raises(IndexError):
            addons.handle_negative_axis(x, axis)
