"""Gradients of tied arguments and at kinks of functions equal those of PyTorch (docs/decisions/0086).

The gradients of tied elements add up to the gradient of the result. Inputs have few different numbers: ties are common.
"""

import itertools

import numpy as np
import popart
import pytest
import torch

from onnx import TensorProto, helper, numpy_helper
from tests.python.onnx.single_node import Node, gradients, output_weights, values
from tests.python.popart.training_runs import ready, training_session

RNG = np.random.default_rng(3)
TYPES = [np.float32, np.float16, np.float64]


def few(*shape, dtype=np.float32):
    """Numbers from -1 to 1 in halves."""
    return (RNG.integers(-2, 3, shape) / 2).astype(dtype)


def equals_torch(node, wanted, function, tolerance=1e-6):
    """Gradients of the inputs `wanted` are those of `function` of all inputs in PyTorch."""
    tensors = [torch.tensor(x, requires_grad=i in wanted) for i, x in enumerate(node.inputs)]
    y = function(*tensors)
    (got,) = values(node)
    np.testing.assert_allclose(got, y.detach().numpy(), rtol=tolerance, atol=tolerance)
    weights = output_weights(node, [got])
    (y * torch.tensor(weights[0])).sum().backward()
    for i, gradient in zip(wanted, gradients(node, wanted, weights), strict=True):
        np.testing.assert_allclose(gradient, tensors[i].grad.numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("kind", "torch_name"), [("ReduceMax", "amax"), ("ReduceMin", "amin")])
@pytest.mark.parametrize(("shape", "axes"), [((3,), [0]), ((4, 37), [1]), ((4, 5, 6), [0, 2]), ((9, 8), [0, 1])])
@pytest.mark.parametrize("keeps", [0, 1])
def test_reductions_share_evenly(kind, torch_name, shape, axes, keeps, dtype):
    node = Node(kind, [few(*shape, dtype=dtype), np.array(axes)], {"keepdims": keeps}, opset=18, constant=(1,))
    x = torch.tensor(node.inputs[0], requires_grad=True)
    y = getattr(torch, torch_name)(x, axes, keepdim=bool(keeps))
    weights = output_weights(node, [y.detach().numpy()])
    (y * torch.tensor(weights[0])).sum().backward()
    tolerance = 1e-3 if dtype == np.float16 else 1e-6
    (got,) = gradients(node, [0], weights)
    np.testing.assert_allclose(got, x.grad.numpy(), rtol=tolerance, atol=tolerance)


def test_many_ties_in_float16():
    """More than float16 can count."""
    x = np.ones(100_000, np.float16)
    (got,) = gradients(Node("ReduceMax", [x], {"keepdims": 0}, opset=13), [0], [np.float16([60000])])
    np.testing.assert_allclose(got, 0.6, rtol=1e-3)


def shares(x, reduce):
    """Each element's share of the gradient: 1 / number of elements equal to the extreme, 0 for all others."""
    all_of = np.broadcast_arrays(*x)
    is_tied = np.stack(all_of) == reduce(np.stack(all_of), 0)
    return is_tied / is_tied.sum(0)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("kind", "torch_name"), [("Max", "maximum"), ("Min", "minimum")])
@pytest.mark.parametrize(("a", "b"), [((67,), (67,)), ((4, 1, 5), (3, 1)), ((2, 3), ()), ((1,), (40, 3))])
def test_two_arguments_share_evenly(kind, torch_name, a, b, dtype):
    node = Node(kind, [few(*a, dtype=dtype), few(*b, dtype=dtype)], opset=13)
    equals_torch(node, [0, 1], getattr(torch, torch_name), 4e-2 if dtype == np.float16 else 1e-5)


@pytest.mark.parametrize(("kind", "reduce"), [("Max", np.max), ("Min", np.min)])
@pytest.mark.parametrize("count", [1, 3, 5])
def test_many_arguments_share_evenly(kind, reduce, count):
    inputs = [few(6, 7), few(7), few(6, 1), few(), few(6, 7)][:count]
    weights = RNG.standard_normal(np.broadcast_shapes(*(x.shape for x in inputs))).astype(np.float32)
    all_shares = shares(inputs, reduce) * weights
    for i, gradient in enumerate(gradients(Node(kind, inputs, opset=13), range(count), [weights])):
        size = (1,) * (weights.ndim - inputs[i].ndim) + inputs[i].shape
        axes = tuple(d for d in range(weights.ndim) if size[d] == 1 and weights.shape[d] != 1)
        expected = all_shares[i].sum(axes).reshape(inputs[i].shape)
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-5)


def test_an_argument_given_twice_gets_all():
    """Each of the two positions gets one half."""
    nodes = [helper.make_node("Max", ["x", "x"], ["m"]), helper.make_node("ReduceSum", ["m"], ["loss"], keepdims=0)]
    loss = helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])
    graph = helper.make_graph(nodes, "g", [], [loss], [numpy_helper.from_array(few(5), "x")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    session = ready(
        training_session(model.SerializeToString(), "loss", popart.ConstSGD(0.1), anchors=["Gradient___x", "loss"])
    )
    arrays = session.initAnchorArrays()
    session.run(popart.PyStepIO({}, arrays))
    np.testing.assert_array_equal(arrays["Gradient___x"], np.ones(5))


SCATTER = {"max": "amax", "min": "amin", "mul": "prod"}


@pytest.mark.parametrize("reduction", SCATTER)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("smaller", [False, True])
def test_scatter_elements(reduction, axis, smaller):
    """Ties share the gradient evenly; the gradient of a factor is the product of the others, also with zeros."""
    data, updates = few(4, 5), few(3, 5) if axis == 0 else few(4, 6)
    indices = RNG.integers(0, data.shape[axis], updates.shape)
    if smaller:
        indices = indices[:2, :3]
    node = Node("ScatterElements", [data, indices, updates], {"axis": axis, "reduction": reduction}, opset=18)

    def scatter(d, i, u):
        used = u[: i.shape[0], : i.shape[1]]
        return d.scatter_reduce(axis, i, used, SCATTER[reduction], include_self=True)

    equals_torch(node, [0, 2], scatter, 1e-5)


@pytest.mark.parametrize("reduction", SCATTER)
def test_scatter_of_tuples(reduction):
    """ScatterND is ScatterElements along an axis where a tuple names a row."""
    data, updates, rows = few(5, 6), few(7, 6), RNG.integers(-5, 5, (7, 1))
    node = Node("ScatterND", [data, rows, updates], {"reduction": reduction}, opset=18)

    def scatter(d, i, u):
        return d.scatter_reduce(0, (i % 5).expand(7, 6), u, SCATTER[reduction], include_self=True)

    equals_torch(node, [0, 2], scatter, 1e-5)


@pytest.mark.parametrize("values_", [(1e-30, 2e-30, 3e-30), (1e30, 2e30, 1e-35), (0.0, 2.0, 3.0), (0.0, 0.0, 3.0)])
def test_products_of_tiny_and_huge_factors(values_):
    """The gradient of each factor is the product of the others, also if the product of all underflows."""
    a, b, c = (float(np.float32(v)) for v in values_)
    expected = np.array([b * c, a * c, a * b])
    expected[np.abs(expected) > np.finfo(np.float32).max] = np.inf
    node = Node(
        "ScatterElements",
        [np.float32([a]), np.array([0, 0]), np.float32([b, c])],
        {"reduction": "mul"},
        opset=18,
    )
    got = np.concatenate(gradients(node, [0, 2], [np.float32([1])]))
    np.testing.assert_allclose(got, expected.astype(np.float32), rtol=1e-6)


@pytest.mark.parametrize("reduction", ["Max", "Min"])
@pytest.mark.parametrize("initial", [False, True])
def test_scatter_reduce(reduction, initial):
    src, indices = few(9, 4), RNG.integers(0, 3, (9, 4)).astype(np.int32)
    inputs = [src, indices] + ([few(3, 4)] if initial else [])
    attributes = {"axis": 0, "axis_size": 3, "reduction": {"Max": 1, "Min": 2}[reduction]}
    node = Node("ScatterReduce", inputs, attributes, opset=11, domain="ai.graphcore")
    tensors = [torch.tensor(x, requires_grad=i != 1) for i, x in enumerate(inputs)]
    base = tensors[2] if initial else torch.full((3, 4), 9.0)  # PyTorch counts it as tied
    name = {"Max": "amax", "Min": "amin"}[reduction]
    y = base.scatter_reduce(0, tensors[1].long(), tensors[0], name, include_self=initial)
    weights = RNG.standard_normal((3, 4)).astype(np.float32)
    (y * torch.tensor(weights)).sum().backward()
    wanted = [0, 2] if initial else [0]
    for i, gradient in zip(wanted, gradients(node, wanted, [weights]), strict=True):
        np.testing.assert_allclose(gradient, tensors[i].grad.numpy(), rtol=1e-5, atol=1e-6)


# ---- functions that select elements


@pytest.mark.parametrize("layout", ["contiguous", "overlapping", "dilated"])
@pytest.mark.parametrize("size", [(8, 8), (9, 33)])
def test_maxima_of_windows_go_to_the_first(layout, size):
    kernel, stride, pad, dilation = {
        "contiguous": (2, 2, 0, 1),
        "overlapping": (3, 1, 1, 1),
        "dilated": (3, 2, 1, 2),
    }[layout]
    attributes = {
        "kernel_shape": [kernel] * 2,
        "strides": [stride] * 2,
        "pads": [pad] * 4,
        "dilations": [dilation] * 2,
    }
    node = Node("MaxPool", [few(2, 17, *size)], attributes, opset=12)
    equals_torch(node, [0], lambda x: torch.nn.functional.max_pool2d(x, kernel, stride, pad, dilation), 1e-5)


def test_maximum_of_all_goes_to_the_first():
    node = Node("GlobalMaxPool", [few(2, 3, 5, 7)], opset=13)
    equals_torch(node, [0], lambda x: torch.nn.functional.adaptive_max_pool2d(x, 1))


@pytest.mark.parametrize("k", [1, 3])
def test_the_largest_ones_of_a_row_are_picked(k):
    """Each selected element gets the gradient of the output that it went to, so the sums are equal."""
    node = Node("TopK", [few(6, 9), np.array([k])], {"axis": 1}, outputs="y-", opset=11, constant=(1,))
    weights = RNG.standard_normal((6, k)).astype(np.float32)
    (got,) = gradients(node, [0], [weights])
    np.testing.assert_allclose(got.sum(1), weights.sum(1), rtol=1e-5)
    assert (np.count_nonzero(got, 1) == k).all()


# ---- kinks

RELU, SELU = torch.nn.functional.relu, torch.nn.functional.selu
KINKS = {
    "Relu": ({}, [0.0, -0.0], RELU),
    "Abs": ({}, [0.0, -0.0], torch.abs),
    "LeakyRelu": ({"alpha": 0.1}, [0.0, -0.0], lambda x: torch.nn.functional.leaky_relu(x, 0.1)),
    "Elu": ({"alpha": 2.0}, [0.0, -0.0], lambda x: torch.nn.functional.elu(x, 2.0)),
    "Selu": ({}, [0.0, -0.0], SELU),
    "Celu": ({"alpha": 2.0}, [0.0, -0.0], lambda x: torch.nn.functional.celu(x, 2.0)),
    "ThresholdedRelu": ({"alpha": 1.0}, [1.0], lambda x: torch.nn.functional.threshold(x, 1.0, 0.0)),
    "HardSigmoid": ({"alpha": 1 / 6}, [3.0, -3.0], torch.nn.functional.hardsigmoid),
    "HardSwish": ({}, [3.0, -3.0], torch.nn.functional.hardswish),
    "Softsign": ({}, [0.0, -0.0], torch.nn.functional.softsign),
    "Shrink": ({"lambd": 0.5, "bias": 0.5}, [0.5, -0.5], lambda x: torch.nn.functional.softshrink(x, 0.5)),
    "Sign": ({}, [0.0], torch.sign),
    "Round": ({}, [0.5, 1.5], torch.round),
    "Floor": ({}, [1.0], torch.floor),
    "Ceil": ({}, [1.0], torch.ceil),
}


@pytest.mark.parametrize(("kind", "length"), list(itertools.product(KINKS, [1, 40])))
def test_kinks_are_those_of_pytorch(kind, length):
    attributes, points, function = KINKS[kind]
    x = np.resize(np.float32(points), length * len(points))
    node = Node(kind, [x], attributes, opset=22 if kind != "Shrink" else 9)
    tensor = torch.tensor(x, requires_grad=True)
    function(tensor).sum().backward()
    (got,) = gradients(node, [0], [np.ones_like(x)])
    np.testing.assert_allclose(got, tensor.grad.numpy(), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("dtype", TYPES)
def test_bounds_that_are_tensors_share(dtype):
    """As Max and Min do: x equal to a bound gets half of the gradient."""
    x = np.array([-2, -1, 0, 1, 2, 3], dtype)
    equals_torch(Node("Clip", [x, dtype(-1), dtype(1)], opset=13), [0, 1, 2], torch.clamp)


def test_clip_passes_at_bounds_that_are_numbers():
    """At a bound the gradient is 1, as inside; the one-sided derivatives are 0 and 1."""
    node = Node("Clip", [np.float32([-2, -1, 0, 1, 2, 3])], {"min": -1.0, "max": 1.0}, opset=6)
    (got,) = gradients(node, [0], [np.ones(6, np.float32)])
    np.testing.assert_array_equal(got, [0, 1, 1, 1, 0, 0])


def test_slopes_of_prelu():
    x, slope = np.float32([[0, -1, 2, 0]]), np.float32([0.5, 3, 0.25, 7])
    node = Node("PRelu", [x, slope], opset=16)
    equals_torch(node, [0, 1], torch.nn.functional.prelu)
