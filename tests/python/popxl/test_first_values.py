"""Host values of variables belong to the program alone, whatever they were made of."""

import numpy as np
import popxl
import popxl.ops as ops
import pytest


def stored(data, **options):
    """The host value of a variable, after the data that it was made of has changed."""
    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable(data, **options)
        if isinstance(data, np.ndarray):
            data[...] = 7
        result = popxl.d2h_stream(v.shape, v.dtype)
        ops.host_store(result, v)
    with popxl.Session(ir, "cpu") as session:
        assert session.run()[result].tobytes() == session.get_tensor_data(v).tobytes()
        return session.get_tensor_data(v)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int64, np.uint8])
@pytest.mark.parametrize("value", [0, 1])
def test_later_changes_of_the_data_do_not_reach_a_variable(dtype, value):
    """With and without a conversion, and of zeros, which are kept as memory that was never written."""
    assert np.all(stored(np.full((3, 2000), value, dtype)) == value)


def test_other_layouts_are_copied():
    data = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(stored(data.T), np.arange(12, dtype=np.float32).reshape(3, 4).T)
    np.testing.assert_array_equal(stored(np.arange(12, dtype=np.float32)[::2]), np.arange(0, 12, 2))


def test_what_only_begins_with_zeros_keeps_its_values():
    data = np.zeros(5000, np.float32)
    data[-1] = 3
    assert stored(data)[-1] == 3


def test_negative_zeros_keep_their_sign():
    assert np.all(np.signbit(stored(np.full(5, -0.0, np.float32))))


def test_zeros_become_other_values():
    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable(np.zeros((2, 3), np.float32))
        ops.scaled_add_(v, popxl.constant(np.ones((2, 3), np.float32)), b=2.0)
    with popxl.Session(ir, "cpu") as session:
        session.run()
    np.testing.assert_array_equal(session.get_tensor_data(v), np.full((2, 3), 2, np.float32))


@pytest.mark.parametrize("data", [np.zeros(()), np.float32(0), 0.0, [0.0, 0.0]])
def test_small_zeros_keep_their_shape(data):
    assert stored(data).shape == np.shape(data)
