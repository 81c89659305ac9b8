"""Operators of ai.graphcore that are written with others, by the Builder, against formulas in NumPy and PyTorch."""

import itertools

import numpy as np
import popart
import pytest
import torch

from tests.python.onnx.single_node import Node, check_gradients, values
from tests.python.popart.training_runs import inference_session, ready

RNG = np.random.default_rng(9)
OPSET = 13


def graphcore(type, inputs, attributes=None, outputs="y"):
    return Node(type, inputs, attributes or {}, outputs, OPSET, "ai.graphcore")


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("image", [normal(2, 4, 3), RNG.integers(0, 256, (2, 5, 4, 3)).astype(np.uint8)])
def test_normalize_image(image):
    offsets, scales = normal(3), normal(3)
    (got,) = values(graphcore("NormalizeImage", [image, offsets, scales], {"scale": 0.25}))
    expected = (image.astype(np.float32) * np.float32(0.25) - offsets) * scales
    np.testing.assert_allclose(got[..., :3], expected, rtol=1e-6)
    assert got.shape == (*image.shape[:-1], 4)
    assert not got[..., 3].any()


def test_normalize_image_refuses_other_channels():
    with pytest.raises(popart.popart_exception, match="last dimension"):
        values(graphcore("NormalizeImage", [normal(2, 4), normal(3), normal(3)]))


def test_tensorremap_keeps_the_value():
    x = normal(2, 3)
    node = graphcore("TensorRemap", [x], {"remap_type": 0})
    np.testing.assert_array_equal(values(node)[0], x)
    check_gradients(node, [0])


def knot_function(degree, k, v):
    """Value at v + degree - k of the B-spline of this degree, by its recursion (Cox and de Boor)."""

    def spline(p, x):
        if p == 0:
            return ((x >= 0) & (x < 1)).astype(float)
        return x / p * spline(p - 1, x) + (p + 1 - x) / p * spline(p - 1, x - 1)

    return spline(degree, v + degree - k)


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
@pytest.mark.parametrize("opened", [(1, 1), (0, 1)])
def test_splinebasis(degree, opened):
    edges, sizes = 7, np.array([5, 6], np.int32)
    pseudo = RNG.uniform(0, 0.99, (edges, 2)).astype(np.float32)
    got, index = values(
        graphcore("SplineBasis", [pseudo, sizes, np.array(opened, np.uint8)], {"degree": degree}, outputs="bi")
    )
    scaled = pseudo * (sizes - degree * np.array(opened))
    first, rest = np.floor(scaled).astype(int), scaled - np.floor(scaled)
    for s, (k1, k0) in enumerate(itertools.product(range(degree + 1), repeat=2)):
        expected = knot_function(degree, k0, rest[:, 0]) * knot_function(degree, k1, rest[:, 1])
        np.testing.assert_allclose(got[:, s], expected, rtol=1e-4, atol=1e-6)
        np.testing.assert_array_equal(index[:, s], (first[:, 0] + k0) % 5 + (first[:, 1] + k1) % 6 * 5)
    assert index.dtype == np.int32


def test_splineweighting():
    x, weight, basis = normal(6, 3), normal(5, 3, 4), normal(6, 2)
    index = RNG.integers(0, 5, (6, 2)).astype(np.int32)
    node = graphcore("SplineWeighting", [x, weight, basis, index])
    expected = np.einsum("es,ei,esio->eo", basis, x, weight[index])
    np.testing.assert_allclose(values(node)[0], expected, rtol=1e-4, atol=1e-5)
    check_gradients(node, [0, 1, 2])


@pytest.mark.parametrize("zero", [0, 1])
def test_sequenceslice(zero):
    source, destination = normal(7, 2, 3), normal(9, 2, 3)
    sizes, begin, at = (np.array(v, np.uint32) for v in ([2, 3, 1], [1, 4, 0], [5, 0, 8]))
    node = graphcore("SequenceSlice", [source, destination, sizes, begin, at], {"zeroUnused": zero})
    expected = destination * (1 - zero)
    for n, s, d in zip(sizes, begin, at, strict=True):
        expected[d : d + n] = source[s : s + n]
    np.testing.assert_array_equal(values(node)[0], expected)
    check_gradients(node, [0] if zero else [0, 1])


def test_sequenceslice_ends_the_run_beyond_the_source():
    lists = [np.array([v], np.uint32) for v in (4, 5, 0)]
    with pytest.raises(popart.popart_exception, match=r"Gather|index"):
        values(graphcore("SequenceSlice", [normal(7, 2), normal(9, 2), *lists]))


def multiconv_builder():
    builder = popart.Builder()
    operands = [normal(2, 4, 6, 7), normal(6, 2, 3, 3), normal(2, 4, 6), normal(2, 4, 3), normal(2)]
    ids = [builder.addInitializedInputTensor(a) for a in operands]
    return builder, ids, [torch.from_numpy(a) for a in operands]


def test_multiconv():
    """Ranks, groups and biases may differ; the second has zeros between its elements and after its result."""
    builder, ids, (x2, w2, x1, w1, b1) = multiconv_builder()
    outputs = builder.aiGraphcore.multiconv(
        [ids[:2], ids[2:]],
        strides=[[1, 2], [2]],
        dilations=[[2, 1], [1]],
        pads=[[1, 0, 1, 1], [1, 1]],
        inDilations=[[1, 1], [2]],
        outPads=[[0, 0, 0, 0], [0, 1]],
    )
    for out in outputs:
        builder.addOutputTensor(out)
    session = ready(inference_session(builder.getModelProto(), list(outputs)))
    arrays = session.initAnchorArrays()
    session.run(popart.PyStepIO({}, arrays))
    first = torch.nn.functional.conv2d(
        torch.nn.functional.pad(x2, (0, 1, 1, 1)), w2, stride=(1, 2), dilation=(2, 1), groups=2
    )
    spread = torch.zeros(2, 4, 11)
    spread[:, :, ::2] = x1
    second = torch.nn.functional.pad(torch.nn.functional.conv1d(spread, w1, b1, stride=2, padding=1), (0, 1))
    for out, expected in zip(outputs, (first, second), strict=True):
        np.testing.assert_allclose(arrays[out], expected.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"strides": [[1, 1]]}, "strides has 1 entries.*2 convolutions"),
        ({"strides": [[1, 1, 1], [1]]}, r"strides of convolution 0: got 3 numbers, expected 2"),
        ({"dilations": [[1, 1], [1, 1]]}, r"dilations of convolution 1: got 2 numbers, expected 1"),
        ({"planType": "other"}, "planType"),
    ],
)
def test_multiconv_refusals_come_when_it_is_added(arguments, text):
    builder, ids, _ = multiconv_builder()
    with pytest.raises(popart.popart_exception, match=text):
        builder.aiGraphcore.multiconv([ids[:2], ids[2:]], **arguments)


def test_ctcloss_by_the_builder_is_that_of_pytorch():
    """The gradient of the logits below a log softmax is the same as PyTorch's."""
    builder = popart.Builder()
    logits, targets = normal(6, 2, 4), np.array([[1, 2], [3, 3]], np.uint32)
    lengths, sizes = np.array([6, 5], np.uint32), np.array([2, 2], np.uint32)
    x = builder.addInitializedInputTensor(logits)
    transposed = builder.aiOnnx.logsoftmax([x], axis=2)
    others = [builder.aiOnnx.constant(a, False) for a in (targets, lengths, sizes)]
    loss = builder.aiGraphcore.ctcloss([transposed, *others], popart.ReductionType.Mean)
    assert builder.getTensorShape(loss) == []
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, [loss, popart.reservedGradientPrefix() + x]),
        loss,
        popart.ConstSGD(0.1),
        popart.DeviceManager().createCpuDevice(),
    )
    arrays = ready(session).initAnchorArrays()
    session.run(popart.PyStepIO({}, arrays))
    t = torch.from_numpy(logits).requires_grad_()
    expected = torch.nn.functional.ctc_loss(
        t.log_softmax(-1), *(torch.from_numpy(a.astype(np.int64)) for a in (targets, lengths, sizes))
    )
    expected.backward()
    np.testing.assert_allclose(arrays[loss], expected.detach().numpy(), rtol=1e-5)
    np.testing.assert_allclose(arrays[f"Gradient___{x}"], t.grad.numpy(), rtol=1e-4, atol=1e-6)
