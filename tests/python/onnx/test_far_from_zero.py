"""Gradients where values are far from zero: what is saved for the backward pass keeps the digits that it needs.

A saved number that is the sum of a large and a small one (the logarithm of a sum of exponentials, for one) has lost the
small one. Oracle: PyTorch in float64 on the same float32 inputs.
"""

import numpy as np
import pytest
import torch

from tests.python.onnx.single_node import Node, gradients, output_weights, values

RNG = np.random.default_rng(11)
FLOAT = np.finfo(np.float32)
BASE = RNG.integers(-8, 9, (6, 40)) / 4
ROWS = {
    "near zero": BASE,
    "thousands": BASE + 4096,
    "millions": BASE + 2**20,
    "all -1e9": np.full((6, 40), -1e9),
    "all lowest": np.full((6, 40), FLOAT.min),
    "one row lowest": np.where(np.arange(6)[:, None] == 3, FLOAT.min, BASE),
    "one is far above": np.where(np.arange(40) == 7, 1e30, BASE),
    "huge": BASE * 1e30,
    "tiny": BASE * 1e-38,
}


def equals_torch(node, function, tolerance):
    """Value and gradient of input 0, within `tolerance` of the largest one."""
    x = torch.tensor(node.inputs[0].astype(np.float64), requires_grad=True)
    y = function(x)
    (got,) = values(node)
    weights = output_weights(node, [got])
    (y * torch.tensor(weights[0].astype(np.float64))).sum().backward()
    expected = x.grad.numpy()
    (gradient,) = gradients(node, [0], weights)
    np.testing.assert_allclose(got, y.detach().numpy().astype(got.dtype), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=tolerance * max(np.abs(expected).max(), 1e-30))


def log_sum_exp(t, axis):
    """torch.logsumexp, whose gradient begins with the rounded result."""
    most = t.amax(axis, keepdim=True).detach()
    return (t - most).exp().sum(axis).log() + most.squeeze(axis)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax", "ReduceLogSumExp"])
@pytest.mark.parametrize("rows", ROWS)
def test_exponentials_of_rows(rows, kind, axis, dtype):
    with np.errstate(over="ignore"):
        x = np.clip(ROWS[rows], np.finfo(dtype).min, np.finfo(dtype).max).astype(dtype)
    if kind == "ReduceLogSumExp":
        node = Node(kind, [x], {"axes": [axis], "keepdims": 0}, opset=13)
        function = lambda t: log_sum_exp(t, axis)  # noqa: E731
    else:
        node = Node(kind, [x], {"axis": axis}, opset=13)
        function = lambda t: {"Softmax": torch.softmax, "LogSoftmax": torch.log_softmax}[kind](t, axis)  # noqa: E731
    if rows == "huge" and dtype == np.float16:
        return
    equals_torch(node, function, 3e-3 if dtype == np.float16 else 2e-5)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_logarithms_of_sums(scale):
    """The logarithm of a sum has fewer digits than the sum."""
    x = ((np.abs(BASE) + 0.25) * scale).astype(np.float32)
    equals_torch(Node("ReduceLogSum", [x], {"axes": [1]}, opset=13), lambda t: t.sum(1, keepdim=True).log(), 3e-7)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("rows", ROWS)
def test_cross_entropy(rows, reduction):
    labels = RNG.integers(0, 40, 6)
    node = Node("SoftmaxCrossEntropyLoss", [ROWS[rows].astype(np.float32), labels], {"reduction": reduction}, opset=13)
    loss = torch.nn.functional.cross_entropy
    equals_torch(node, lambda t: loss(t, torch.tensor(labels), reduction=reduction), 2e-5)


FUNCTIONS = {
    "Softplus": torch.nn.functional.softplus,
    "Sigmoid": torch.sigmoid,
    "Tanh": torch.tanh,
    "Mish": torch.nn.functional.mish,
    "Gelu": torch.nn.functional.gelu,
    "Swish": torch.nn.functional.silu,
    "Elu": torch.nn.functional.elu,
    "Selu": torch.nn.functional.selu,
    "Softsign": torch.nn.functional.softsign,
    "HardSwish": torch.nn.functional.hardswish,
    "Erf": torch.erf,
    "Atan": torch.atan,
    "Asinh": torch.asinh,
}


@pytest.mark.parametrize("kind", FUNCTIONS)
@pytest.mark.parametrize("rows", ["near zero", "thousands", "tiny"])
def test_functions_of_one_number(rows, kind):
    x = ROWS[rows].astype(np.float32)
    equals_torch(Node(kind, [x], opset=24 if kind == "Swish" else 22), FUNCTIONS[kind], 2e-6)


@pytest.mark.parametrize("zeros", [0, 1, 2])
@pytest.mark.parametrize("kind", ["ReduceProd", "CumProd"])
def test_products(kind, zeros):
    """Slopes are products of the other factors, huge and tiny ones and zeros among them."""
    x = np.float32([[2, 1e-20, 1e25, -3, 0.5, 7]])
    x[0, 1 : 1 + zeros] = 0
    if kind == "CumProd":
        node = Node(kind, [x, np.int64(1)], opset=26, constant=(1,))
        return equals_torch(node, lambda t: torch.cumprod(t, 1), 1e-5)
    return equals_torch(Node(kind, [x], {"axes": [1]}, opset=13), lambda t: t.prod(1, keepdim=True), 1e-5)


NORMS = {
    "LayerNormalization": (17, {}, lambda t: torch.nn.functional.layer_norm(t, (5,))),
    "InstanceNormalization": (6, {}, torch.nn.functional.instance_norm),
    "GroupNormalization": (21, {"num_groups": 4}, lambda t: torch.nn.functional.group_norm(t, 4)),
    "BatchNormalization": (
        15,
        {"training_mode": 1},
        lambda t: torch.nn.functional.batch_norm(t, None, None, training=True),
    ),
}


@pytest.mark.parametrize("mean", [0, 2**10, 2**20])
@pytest.mark.parametrize("kind", NORMS)
def test_norms_with_large_means(kind, mean):
    """As PyTorch in float32: the mean is rounded to float32, which moves values by `mean` 6e-8 of their deviation."""
    opset, attributes, function = NORMS[kind]
    row = np.tile([-2.0, -1, 0, 1, 2.25], (4, 8, 6, 1))
    x = (RNG.permuted(row, axis=3) + mean).astype(np.float32)
    size = 5 if kind == "LayerNormalization" else 8
    inputs = [x, np.ones(size, np.float32), np.zeros(size, np.float32)]
    if kind == "BatchNormalization":
        inputs += [np.zeros(8, np.float32), np.ones(8, np.float32)]
    equals_torch(Node(kind, inputs, attributes, opset=opset), function, 1e-5 + mean * 6e-8)


@pytest.mark.parametrize("kind", ["LayerNormalization", "InstanceNormalization"])
def test_norms_of_equal_values(kind):
    """There is no deviation: epsilon alone divides."""
    x = np.full((4, 8, 6, 5), 3.0, np.float32)
    size = 5 if kind == "LayerNormalization" else 8
    inputs = [x, np.ones(size, np.float32), np.zeros(size, np.float32)]
    opset, _, function = NORMS[kind]
    equals_torch(Node(kind, inputs, opset=opset), function, 1e-4)


@pytest.mark.parametrize("scale", [1.0, 100.0, 3000.0])
def test_ctc(scale):
    """Likelihoods far below the smallest float32."""
    steps, batch, classes = 30, 3, 7
    x = (RNG.standard_normal((steps, batch, classes)) * scale).astype(np.float32)
    labels = RNG.integers(1, classes, (batch, 8)).astype(np.uint32)
    lengths = np.uint32([steps, steps - 5, 12]), np.uint32([8, 3, 5])
    logs = torch.tensor(x).double().log_softmax(2).numpy()
    given = [logs.astype(np.float32), labels, *lengths]
    node = Node("Ctc", given, {"reduction": 1}, opset=11, domain="ai.graphcore", constant=(1, 2, 3))
    (got,) = gradients(node, [0], [np.float32(1)])
    t = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    target, of_steps, of_labels = (torch.tensor(a.astype(np.int64)) for a in (labels, *lengths))
    loss = torch.nn.functional.ctc_loss(t.log_softmax(2), target, of_steps, of_labels, reduction="mean")
    loss.backward()
    np.testing.assert_allclose(values(node)[0], loss.item(), rtol=1e-5)
    of_logits = got - np.exp(logs) * got.sum(2, keepdims=True)  # PyTorch's gradient holds for normalised logarithms
    np.testing.assert_allclose(of_logits, t.grad.numpy(), rtol=0, atol=1e-4 * t.grad.abs().max().item())
