"""Compress, NonZero, Unique and NonMaxSuppression of known values, and sizes that depend on data of the run."""

import numpy as np
import popart
import popart.backend
import pytest

from onnx import TensorProto
from tests.python.onnx.single_node import Node, check_gradients, runtime_values, values

RNG = np.random.default_rng(2)


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_compress_with_a_known_condition(axis):
    x = normal(3, 4, 2)
    condition = np.array([False, True, False, True, True][: None if axis is None else x.shape[axis]])
    attributes = {} if axis is None else {"axis": axis}
    node = Node("Compress", [x, condition], attributes, opset=11, constant=[1])
    np.testing.assert_array_equal(values(node)[0], np.compress(condition, x, axis))
    check_gradients(node, [0])


def test_compress_takes_no_row_that_is_not_there():
    node = Node("Compress", [normal(2, 3), np.array([True, False, True])], {"axis": 0}, opset=11, constant=[1])
    with pytest.raises(popart.popart_exception, match="condition takes row 2 of 2"):
        values(node)


def test_the_condition_of_compress_is_a_list():
    node = Node("Compress", [normal(2, 2), np.array([[True, False], [True, True]])], opset=11, constant=[1])
    with pytest.raises(popart.popart_exception, match=r"condition must have one dimension: got bool\[2, 2\]"):
        values(node)


@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (2, 3, 2)])
def test_positions_of_a_known_value(shape):
    x = np.asarray(RNG.integers(-1, 2, shape), np.float32)
    node = Node("NonZero", [x], opset=13, constant=[0])
    expected = np.stack(np.nonzero(np.atleast_1d(x)))
    got = values(node)[0]
    assert got.dtype == np.int64
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint64, np.float16])
def test_different_rows_of_a_known_value(dtype, axis, order):
    """NumPy's; rows in the order of the first of each where they are not sorted."""
    x = RNG.integers(0, 2, (6, 3, 2)).astype(dtype)
    if dtype == np.uint64:
        x *= np.uint64(2**63 + 1)
    attributes = {"sorted": order, **({} if axis is None else {"axis": axis})}
    got = values(Node("Unique", [x], attributes, "yijc", opset=11, constant=[0]))
    y, first, inverse, counts = np.unique(x, True, True, True, axis)
    rank = np.arange(len(first)) if order else np.argsort(first)
    expected = [np.take(y, rank, axis or 0), first[rank], np.argsort(rank)[inverse.reshape(-1)], counts[rank]]
    for a, b in zip(got, expected, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def test_nan_is_one_value():
    x = np.array([np.nan, 1, np.nan, -np.inf], np.float32)
    y, first = values(Node("Unique", [x], {}, "yi", opset=11, constant=[0]))
    np.testing.assert_array_equal(y, np.unique(x))
    np.testing.assert_array_equal(first, [3, 1, 0])


@pytest.mark.parametrize("centred", [0, 1])
@pytest.mark.parametrize(
    ("most", "share", "least"), [(3, 0.2, 0.4), (100, 0.5, None), (2, None, None), (None, None, None)]
)
def test_boxes_that_do_not_overlap_better_ones(centred, most, share, least):
    boxes = RNG.random((2, 30, 4)).astype(np.float32)
    scores = (RNG.integers(0, 20, (2, 3, 30)) / 20).astype(np.float32)  # some are equal
    inputs = [boxes, scores, None if most is None else np.array([most])]
    inputs += [None if v is None else np.array([v], np.float32) for v in (share, least)]
    node = Node("NonMaxSuppression", inputs, {"center_point_box": centred}, opset=11, constant=[0, 1, 2, 3, 4])
    np.testing.assert_array_equal(values(node)[0], runtime_values(node, TensorProto.INT64)[0])


def test_more_boxes_than_a_build_may_compare_are_refused():
    count = 100_000
    inputs = [np.zeros((1, count, 4), np.float32), np.zeros((1, 1, count), np.float32), np.array([2**62])]
    node = Node("NonMaxSuppression", inputs, opset=11, constant=[0, 1, 2])
    with pytest.raises(popart.popart_exception, match="compares too many boxes while the graph is built: got 100000"):
        values(node)


def session_outputs(proto, anchors, **feeds):
    """Arrays of one inference session, which has one program for all runs."""
    flow, device = popart.DataFlow(1, anchors), popart.DeviceManager().createCpuDevice()
    session = popart.InferenceSession(fnModel=proto.SerializeToString(), dataFlow=flow, deviceInfo=device)
    session.prepareDevice()
    arrays = session.initAnchorArrays()
    session.run(popart.PyStepIO(feeds, arrays))
    return arrays


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.bool_])
@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 2)])
def test_positions_in_a_value_of_the_run(shape, dtype):
    """One program for all values: positions, then zeros, and how many there are."""
    node = Node("NonZero", [np.ones(shape, dtype)], opset=13)
    for low in (-1, 0, 1):  # some, fewer, all
        x = RNG.integers(low, 2, shape).astype(dtype)
        got = session_outputs(node.model(False), ["y", "y/length"], in0=x)
        expected = np.stack(np.nonzero(x))
        assert got["y"].shape == (x.ndim, x.size)
        assert got["y/length"] == expected.shape[1]
        np.testing.assert_array_equal(got["y"][:, : expected.shape[1]], expected)
        assert not got["y"][:, expected.shape[1] :].any()
        np.testing.assert_array_equal(popart.backend.prepare(node.model(False)).run([x])[0], expected)


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("left", [0, 1])
def test_compress_with_a_condition_of_the_run(axis, left):
    x = normal(3, 4, 2)
    size = (x.size if axis is None else x.shape[axis]) - left
    node = Node("Compress", [x, np.zeros(size, bool)], {} if axis is None else {"axis": axis}, opset=11)
    prepared = popart.backend.prepare(node.model(False))
    for condition in (RNG.random(size) < 0.5, np.zeros(size, bool), np.ones(size, bool)):
        (got,) = prepared.run([x, condition])
        np.testing.assert_array_equal(got, np.compress(condition, x, axis))


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("order", [0, 1])
def test_different_rows_of_a_value_of_the_run(axis, order):
    """One program for all values, here with several and with one different row."""
    attributes = {"sorted": order, **({} if axis is None else {"axis": axis})}
    node = Node("Unique", [np.zeros((6, 3, 2), np.float32)], attributes, "yijc", opset=11)
    prepared = popart.backend.prepare(node.model(False))
    for high in (2, 1, 4):
        x = RNG.integers(0, high, (6, 3, 2)).astype(np.float32)
        y, first, inverse, counts = np.unique(x, True, True, True, axis)
        rank = np.arange(len(first)) if order else np.argsort(first)
        expected = [np.take(y, rank, axis or 0), first[rank], np.argsort(rank)[inverse.reshape(-1)], counts[rank]]
        got = prepared.run([x])
        assert not prepared._constants
        for a, b in zip(got, expected, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)
