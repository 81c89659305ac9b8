"""Det against NumPy, with gradients against PyTorch."""

import numpy as np
import popart
import pytest
import torch

from tests.python.onnx.single_node import Node, check_gradients, gradients, values

RNG = np.random.default_rng(1)


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (5, 5), (2, 3, 4, 4), (0, 3, 3)])
@pytest.mark.parametrize("opset", [11, 22])
def test_values_and_gradients(shape, opset):
    node = Node("Det", [RNG.standard_normal(shape).astype(np.float32)], opset=opset)
    (got,) = values(node)
    expected = np.linalg.det(node.inputs[0])
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    if got.size:
        check_gradients(node, [0])


def test_pivots_that_are_zero():
    x = np.array([[0, 2, 1], [3, 0, 1], [0, 0, 4]], np.float64)
    weights = np.array(1.0)
    np.testing.assert_allclose(values(Node("Det", [x]))[0], -24)
    t = torch.from_numpy(x.copy()).requires_grad_()
    torch.linalg.det(t).backward()
    np.testing.assert_allclose(gradients(Node("Det", [x]), [0], [weights])[0], t.grad.numpy(), atol=1e-12)


def test_singular_matrices():
    x = np.array([[1, 2], [2, 4]], np.float64)
    assert values(Node("Det", [x]))[0] == 0
    np.testing.assert_allclose(gradients(Node("Det", [x]), [0], [np.array(1.0)])[0], [[4, -2], [-2, 1]])
    assert values(Node("Det", [np.zeros((3, 3), np.float32)]))[0] == 0


def test_other_shapes_are_refused():
    for shape in ((3,), (2, 3)):
        with pytest.raises(popart.popart_exception, match="two dimensions must be equal"):
            values(Node("Det", [np.zeros(shape, np.float32)]))
