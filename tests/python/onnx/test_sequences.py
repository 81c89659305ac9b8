"""ReverseSequence, CumProd, CenterCropPad, Col2Im, LpNormalization and MeanVarianceNormalization."""

import itertools

import numpy as np
import popart
import pytest
import torch

from tests.python.onnx.single_node import Node, check_gradients, gradients, output_weights, values

RNG = np.random.default_rng(2)


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("time", [0, 1])
@pytest.mark.parametrize("rest", [(), (3, 2)])
def test_reverse_sequence(time, rest):
    x = normal(4, 5, *rest)
    lengths = RNG.integers(0, x.shape[time] + 1, x.shape[1 - time])
    node = Node("ReverseSequence", [x, lengths], {"time_axis": time, "batch_axis": 1 - time}, opset=10)
    expected = x.copy()
    for sample, length in enumerate(lengths):
        place = (slice(0, length), sample) if time == 0 else (sample, slice(0, length))
        expected[place] = x[place][::-1]
    np.testing.assert_array_equal(values(node)[0], expected)
    check_gradients(node, [0])


@pytest.mark.parametrize(("exclusive", "reverse", "axis"), itertools.product((0, 1), (0, 1), (0, -1)))
def test_cumulative_product(exclusive, reverse, axis):
    x = normal(5, 7)
    x[1, 2] = x[3, 2] = 0  # gradients at zeros are not quotients
    attributes = {"exclusive": exclusive, "reverse": reverse}
    node = Node("CumProd", [x, np.array(axis)], attributes, opset=26, constant=[1])

    def formula(t):
        t = t.flip(axis) if reverse else t
        if exclusive:
            t = torch.cat([torch.ones_like(t.narrow(axis, 0, 1)), t.narrow(axis, 0, t.shape[axis] - 1)], axis)
        y = t.cumprod(axis)
        return y.flip(axis) if reverse else y

    np.testing.assert_allclose(values(node)[0], formula(torch.from_numpy(x)).numpy(), rtol=1e-5, atol=1e-7)
    node = node.in_double()
    t = torch.from_numpy(node.inputs[0].copy()).requires_grad_()
    y = formula(t)
    (weights,) = output_weights(node, [y.detach().numpy()])
    (y * torch.from_numpy(weights)).sum().backward()
    np.testing.assert_allclose(gradients(node, [0], [weights])[0], t.grad.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float64, np.float16])
def test_cumulative_products_of_types(dtype):
    x = np.array([[1, 2, 3, 4, 5, 1, 2]]).astype(dtype)
    (got,) = values(Node("CumProd", [x, np.array(1)], opset=26, constant=[1]))
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, np.cumprod(x, 1, dtype=dtype))


@pytest.mark.parametrize("length", [0, 1])
def test_cumulative_product_of_nothing(length):
    (got,) = values(Node("CumProd", [normal(length, 3), np.array(0)], opset=26, constant=[1]))
    assert got.shape == (length, 3)


@pytest.mark.parametrize("sizes", [(3, 9), (4, 4), (7, 1), (5, 8)])
def test_center_crop_pad(sizes):
    x = normal(2, 5, 8)
    node = Node("CenterCropPad", [x, np.array(sizes)], {"axes": [-2, 2]}, opset=18, constant=[1])
    expected = x
    for axis, size in zip((1, 2), sizes, strict=True):
        have = expected.shape[axis]
        if size < have:
            expected = expected.take(range((have - size) // 2, (have - size) // 2 + size), axis)
        else:
            before = (size - have) // 2
            pads = [(0, 0)] * 3
            pads[axis] = (before, size - have - before)
            expected = np.pad(expected, pads)
    np.testing.assert_array_equal(values(node)[0], expected)
    check_gradients(node, [0])


@pytest.mark.parametrize(
    ("image", "block", "attributes"),
    [
        ((5, 6), (2, 3), {}),
        ((6, 7), (3, 2), {"strides": [2, 2], "pads": [1, 0, 1, 0]}),
        ((7, 8), (2, 2), {"dilations": [2, 3], "pads": [1, 2, 1, 2], "strides": [2, 1]}),
    ],
)
def test_col2im(image, block, attributes):
    """PyTorch's fold."""
    pads = attributes.get("pads", [0] * 4)
    options = {
        "dilation": attributes.get("dilations", 1),
        "padding": tuple(pads[:2]),
        "stride": attributes.get("strides", 1),
    }
    columns = torch.nn.functional.unfold(torch.zeros(2, 3, *image), block, **options)
    x = normal(*columns.shape)
    node = Node("Col2Im", [x, np.array(image), np.array(block)], attributes, opset=18, constant=[1, 2])
    expected = torch.nn.functional.fold(torch.from_numpy(x), image, block, **options)
    np.testing.assert_allclose(values(node)[0], expected.numpy(), rtol=1e-5, atol=1e-5)
    check_gradients(node, [0])


@pytest.mark.parametrize(("p", "axis"), itertools.product((1, 2), (0, 1, -1)))
def test_lp_normalization(p, axis):
    x = normal(3, 4, 5)
    node = Node("LpNormalization", [x], {"p": p, "axis": axis}, opset=22)
    expected = torch.nn.functional.normalize(torch.from_numpy(x), p, axis).numpy()
    np.testing.assert_allclose(values(node)[0], expected, rtol=1e-5, atol=1e-6)
    check_gradients(node, [0])


def test_rows_of_zeros_stay_zeros():
    node = Node("LpNormalization", [np.zeros((2, 3), np.float32)], opset=22)
    np.testing.assert_array_equal(values(node)[0], 0)
    np.testing.assert_array_equal(np.isfinite(gradients(node, [0], [np.ones((2, 3), np.float32)])[0]), True)


@pytest.mark.parametrize("axes", [None, [1], [0, 2]])
def test_mean_variance_normalization(axes):
    x = normal(3, 2, 4, 5)
    node = Node("MeanVarianceNormalization", [x], {} if axes is None else {"axes": axes}, opset=13)
    over = (0, 2, 3) if axes is None else tuple(axes)
    expected = (x - x.mean(over, keepdims=True)) / x.std(over, keepdims=True)
    np.testing.assert_allclose(values(node)[0], expected, rtol=1e-4, atol=1e-5)
    check_gradients(node, [0])


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (Node("ReverseSequence", [normal(2, 3), np.array([1, 1, 1])], {"time_axis": 1}, opset=10), "time_axis"),
        (
            Node("ReverseSequence", [np.ones((2, 3), np.float32), np.array([1, -1, 1])], opset=10),
            "out of range: got -1",
        ),
        (Node("ReverseSequence", [np.ones((2, 3), np.float32), np.array([1, 3, 1])], opset=10), "out of range: got 3"),
        (
            Node("ReverseSequence", [np.ones((2, 3), np.float32), np.array([1, -1, 1])], opset=10, constant=(1,)),
            r"sequence_lens. has a length out of range: got \[1, -1, 1\], expected 0 to 2",
        ),
        (Node("CumProd", [normal(2, 3), np.array(2)], opset=26, constant=[1]), "axis"),
        (Node("CenterCropPad", [normal(2, 3), np.array([1])], opset=18, constant=[1]), "shape"),
        (Node("Col2Im", [normal(1, 5, 3), np.array([4]), np.array([2])], opset=18, constant=[1, 2]), "input"),
        (Node("LpNormalization", [normal(2, 3)], {"p": 3}, opset=22), "attribute p"),
    ],
)
def test_refusals(node, text):
    with pytest.raises(popart.popart_exception, match=text):
        values(node)
