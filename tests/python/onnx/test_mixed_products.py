"""Mul of FLOAT16 and one FLOAT number, which PopART takes: the product in FLOAT, rounded once."""

import numpy as np
import pytest

from tests.python.onnx.single_node import Node, gradients, values

X = np.float16([[1.5, -2, 0.25], [3, 1e-3, 60000]])


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (1, 1, 1)])
@pytest.mark.parametrize("number", [3.0, 1e-9, 1e-3, 70000.0])
@pytest.mark.parametrize("swapped", [False, True])
def test_values_and_gradients(shape, number, swapped):
    """Numbers that float16 does not hold are taken as they are."""
    factor = np.full(shape, number, np.float32)
    inputs = [factor, X] if swapped else [X, factor]
    node = Node("Mul", inputs, opset=11)
    with np.errstate(over="ignore"):
        expected = (X.astype(np.float64) * np.float64(np.float32(number))).astype(np.float16)
    (got,) = values(node)
    assert got.dtype == np.float16 and got.shape == np.broadcast_shapes(X.shape, shape)
    np.testing.assert_array_equal(got.reshape(X.shape), expected)
    if number > 10:
        return
    weights = np.float16([[1, 2, 3], [4, 5, 0.5]]).reshape(got.shape)
    of_x, of_factor = gradients(node, [1, 0] if swapped else [0, 1], [weights])
    assert of_x.dtype == np.float16 and of_factor.dtype == np.float32 and of_factor.shape == shape
    np.testing.assert_allclose(of_x, weights.reshape(X.shape) * np.float32(number), rtol=2e-3, atol=1e-7)
    np.testing.assert_allclose(of_factor.sum(), (X.astype(float) * weights.reshape(X.shape)).sum(), rtol=1e-3)
