"""Attention whose masks hide whole rows trains from exported files as the module does.

PyTorch's operator gives 0 in such rows; exporters write a softmax, which gives NaN there, and replace NaN by 0.
"""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

import onnx
from tests.models.circulation.exporting import Form, export
from tests.python.onnx.trained_models import FLOAT, RATE, node, saved, step, trainer, values_of

LENGTH, WIDTH = 6, 8


def mask(form):
    """Which keys each query sees: the first two rows none, the others those before them."""
    seen = torch.ones(LENGTH, LENGTH).tril(-1).bool()
    seen[1] = False
    if form == "boolean":
        return seen
    low = float("-inf") if form == "infinite" else torch.finfo(torch.float32).min
    return torch.zeros(LENGTH, LENGTH).masked_fill(~seen, low)


class Masked(nn.Module):
    """PyTorch's operator, with a constant mask."""

    def __init__(self, form):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.register_buffer("mask", mask(form), persistent=False)

    def attention(self, q, k, v):
        return functional.scaled_dot_product_attention(q, k, v, self.mask)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (2, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        return self.out(self.attention(q, k, v).transpose(1, 2).flatten(2))


class Filled(Masked):
    """Scores and probabilities filled by hand."""

    def attention(self, q, k, v):
        hidden = ~self.mask
        scores = (q @ k.transpose(-2, -1) / 2).masked_fill(hidden, float("-inf"))
        return scores.softmax(-1).masked_fill(hidden, 0) @ v


CASES = {
    "boolean": (lambda: Masked("boolean"), 14),
    "infinite": (lambda: Masked("infinite"), 14),
    "lowest": (lambda: Masked("lowest"), 14),
    "filled": (lambda: Filled("boolean"), 13),
}
# Other files do not compute what the module does: exporters write the lowest number for a boolean mask, or NaN.
RIGHT = {
    "boolean": {"torchscript-14", "torchscript-17", "torchscript-20", "dynamo-23"},
    "infinite": {"dynamo-23"},
}
FORMS = [Form(False, 13), Form(False, 14), Form(False, 17), Form(False, 20), Form(True, 18), Form(True, 23)]


RIGHT_FILES = [
    (name, form)
    for name, (_, oldest) in CASES.items()
    for form in FORMS
    if form.opset >= oldest and str(form) in RIGHT.get(name, {str(form)})
]


@pytest.mark.parametrize(("name", "form"), RIGHT_FILES, ids=str)
def test_losses_of_training_equal_the_modules(name, form):
    torch.manual_seed(1)
    network = CASES[name][0]()
    xs = [torch.randn(2, LENGTH, WIDTH) for _ in range(3)]
    model = onnx.load_from_string(export(network, (xs[0],), form))
    session = trainer(model)
    losses = [step(session, {"in0": x.numpy()}) for x in xs]
    optimizer = torch.optim.SGD(network.parameters(), lr=RATE)
    for x, loss in zip(xs, losses, strict=True):
        optimizer.zero_grad()
        with sdpa_kernel(SDPBackend.MATH):  # other kernels take the lowest number for minus infinity
            expected = network(x).square().mean()
        expected.backward()
        optimizer.step()
        np.testing.assert_allclose(loss, expected.item(), rtol=1e-5)


def gradient_by_differences(function, x):
    """Of the sum of squares, in float64; 0 for elements that are minus infinity."""
    gradient = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        if np.isinf(x[at]):
            continue
        sides = []
        for d in (1e-6, -1e-6):
            moved = x.copy()
            moved[at] += d
            sides.append(np.square(function(moved)).sum())
        gradient[at] = (sides[0] - sides[1]) / 2e-6
    return gradient


@pytest.mark.parametrize("type", [np.float32, np.float16])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax"])
def test_what_replaces_nan_has_gradient_zero(kind, axis, type, tmp_path):
    """Rows of minus infinity, along the last axis and others; a weight is the scores."""
    rng = np.random.default_rng(2)
    w = rng.normal(size=(3, 40, 5)).astype(np.float16).astype(np.float64)
    rows = np.moveaxis(w, axis, -1)
    rows[0, 1], rows[-1, 0] = -np.inf, -np.inf

    def function(x):
        with np.errstate(invalid="ignore"):
            y = torch.from_numpy(x).softmax(axis) if kind == "Softmax" else torch.from_numpy(x).log_softmax(axis)
        return np.nan_to_num(y.numpy(), nan=0.0)

    element = FLOAT if type == np.float32 else onnx.TensorProto.FLOAT16
    graph = onnx.helper.make_graph(
        [
            node("Softmax" if kind == "Softmax" else "LogSoftmax", ["w"], "y", axis=axis),
            node("IsNaN", ["y"], "bad"),
            node("Where", ["bad", "zero", "y"], "good"),
            node("Cast", ["good"], "wide", to=FLOAT),
            node("Mul", ["wide", "x"], "z"),
        ],
        "g",
        [onnx.helper.make_tensor_value_info("x", FLOAT, list(w.shape))],
        [onnx.helper.make_tensor_value_info("z", FLOAT, list(w.shape))],
        [
            onnx.numpy_helper.from_array(w.astype(type), "w"),
            onnx.numpy_helper.from_array(np.zeros((), type), "zero"),
        ],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    assert element == graph.initializer[0].data_type
    session = trainer(model, rate=1.0, trainable=["w"])
    x = np.abs(rng.normal(size=w.shape)).astype(np.float32)
    step(session, {"x": x})
    after = values_of(saved(session, tmp_path))["w"].astype(np.float64)
    right = gradient_by_differences(lambda v: function(v) * x, w) / w.size
    finite = np.isfinite(w)
    assert (after[~finite] == -np.inf).all()
    near = 1e-6 if type == np.float32 else 2e-3
    np.testing.assert_allclose((w - after)[finite], right[finite], atol=near * max(1, np.abs(w[finite]).max()))
    assert np.abs(right).max() > 20 * 1e-6
