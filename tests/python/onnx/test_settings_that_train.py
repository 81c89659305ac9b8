"""Gradients of operands that are usually settings: the constant of Pad has one; others are refused if asked for."""

import numpy as np
import popart
import pytest
import torch

from onnx import helper
from tests.python.onnx.test_gradient_operator import gradient, run
from tests.python.onnx.trained_models import RATE, model_of, node, step, trainer, trains

X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
V, W = np.float32(0.3), np.random.default_rng(1).normal(size=(6, 2)).astype(np.float32)
PADS = np.int64([1, 0, 0, 2])


def weights_after(session, weights):
    arrays = {name: np.zeros_like(value) for name, value in weights.items()}
    session.weightsToHost()
    session.readWeights(popart.PyWeightsIO(arrays))
    return arrays


def padded_model(**weights):
    nodes = [node("Pad", ["x", "pads", "v"], "p"), node("MatMul", ["p", "w"], "y")]
    return model_of(nodes, {"x": [3, 4]}, ["y"], {"v": V, "w": W, "pads": PADS, **weights})


@pytest.mark.parametrize("shape", [(), (1,)], ids=str)
def test_the_constant_of_a_pad_trains_as_in_pytorch(shape):
    value = np.full(shape, V)
    session = trainer(padded_model(v=value), trainable=["v", "w"])
    v, w = (torch.tensor(one, requires_grad=True) for one in (value, W))
    optimizer = torch.optim.SGD([v, w], lr=RATE)
    mask = torch.nn.functional.pad(torch.zeros(3, 4), (0, 2, 1, 0), value=1.0)
    for _ in range(3):
        padded = torch.nn.functional.pad(torch.tensor(X), (0, 2, 1, 0)) + v * mask
        loss = (padded @ w).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert step(session, {"x": X}) == pytest.approx(loss.item(), rel=1e-5)
    trained = weights_after(session, {"v": value, "w": W})
    np.testing.assert_allclose(trained["v"], v.detach(), rtol=1e-4)
    np.testing.assert_allclose(trained["w"], w.detach(), rtol=1e-4)
    assert abs(trained["v"] - V).max() > 1e-3


def test_the_constant_of_a_pad_is_a_setting_unless_asked_for():
    assert trains(padded_model()) == {"v": False, "w": True}
    session = trainer(padded_model())
    step(session, {"x": X})
    assert weights_after(session, {"v": np.array(V)})["v"] == V


@pytest.mark.parametrize(("mode", "pads", "axes"), [
    ("constant", [1, 0, 0, 2], None),
    ("constant", [1, 2], [1]),
    ("constant", [-1, 2], [1]),
    ("edge", [1, 1], [0]),
])  # fmt: skip
def test_constants_that_the_run_gives(mode, pads, axes):
    """Values and derivatives against NumPy and differences; other modes do not read the constant."""
    inputs = ["x", "pads", "v"] + ["axes"] * (axes is not None)
    more = {"pads": np.int64(pads)} | ({"axes": np.int64(axes)} if axes else {})
    nodes = [node("Pad", inputs, "p", mode=mode), node("Mul", ["p", "p"], "q")]
    nodes.append(node("ReduceSum", ["q"], "y", keepdims=0))
    nodes.append(gradient(["x", "v"], ["dx", "dv"], ["x", "v"], "y"))

    def padded(x, v):
        before, after = np.array(pads).reshape(2, -1)
        full = np.zeros((2, 2), np.int64)
        full[:, list(axes) if axes else [0, 1]] = before, after
        low = np.maximum(-full, 0)
        cut = x[low[0, 0] : x.shape[0] - low[1, 0], low[0, 1] : x.shape[1] - low[1, 1]]
        widths = np.maximum(full, 0).T
        return np.pad(cut, widths, mode, **({"constant_values": v} if mode == "constant" else {}))

    def value(x, v):
        return np.square(padded(x, v)).sum()

    x, v = X.astype(np.float64), np.float64(0.7)
    p, y, dx, dv = run(nodes, {"x": x, "v": v}, ["p", "y", "dx", "dv"], more)
    np.testing.assert_allclose(p, padded(x, v))
    assert y == pytest.approx(value(x, v))
    assert dv == pytest.approx((value(x, v + 1e-5) - value(x, v - 1e-5)) / 2e-5, abs=1e-6)
    for place in np.ndindex(x.shape):
        moved = np.zeros_like(x)
        moved[place] = 1e-5
        assert dx[place] == pytest.approx((value(x + moved, v) - value(x - moved, v)) / 2e-5, abs=1e-6)


def loss_model(kind, weights_from=None):
    """A loss with class weights `c`, or weights that a node computes from `c`."""
    nodes = [] if weights_from is None else [node(weights_from, ["c"], "computed")]
    nodes += [node("MatMul", ["x", "w"], "h")]
    is_likelihood = kind.startswith("Negative")
    nodes.append(node("LogSoftmax", ["h"], "scores", axis=1) if is_likelihood else node("Identity", ["h"], "scores"))
    nodes.append(node(kind, ["scores", "t", "computed" if weights_from else "c"], "y", reduction="mean"))
    weights = {"c": np.float32([1, 2]), "w": W[:4], "t": np.int64([0, 1, 1])}
    return model_of(nodes, {"x": [3, 4]}, {"y": []}, weights)


@pytest.mark.parametrize("kind", ["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"])
def test_class_weights_are_refused(kind):
    model = loss_model(kind)
    assert trains(model)["c"] is False
    with pytest.raises(popart.popart_exception, match=rf"trainable 'c': cannot train: no gradient .*{kind}.*Leave"):
        trainer(model, trainable=["c", "w"])
    step(trainer(model, trainable="w"), {"x": X})
    with pytest.raises(popart.popart_exception, match=rf"{kind}.*weights by class have no gradient"):
        trainer(loss_model(kind, "Exp"), trainable=["c", "w"])
    step(trainer(loss_model(kind, "Exp"), trainable=["w"]), {"x": X})


def test_class_weights_of_a_builder_stay():
    """All initializers of such a model train, but for those that have no gradient."""
    builder = popart.Builder(opsets={"ai.onnx": 13, "ai.graphcore": 1})
    x, t = builder.addInputTensor("FLOAT", [3, 4], "x"), builder.addInputTensor("INT64", [3], "t")
    w = builder.addInitializedInputTensor(W[:4], "w")
    c = builder.addInitializedInputTensor(np.float32([1, 2]), "c")
    loss = builder.aiOnnx.softmaxcrossentropyloss([builder.aiOnnx.matmul([x, w]), t, c], 1)
    builder.addOutputTensor(loss[0] if isinstance(loss, list) else loss)
    table = {one.name: one for one in popart.trainable_tensors(builder.getModelProto())}
    assert table["w"].trains and not table["c"].trains


def test_numbers_of_a_range_are_refused():
    nodes = [node("Range", ["a", "b", "d"], "r"), node("Mul", ["x", "r"], "h"), node("MatMul", ["h", "w"], "y")]
    numbers = {"a": np.float32(0.5), "b": np.float32(4.5), "d": np.float32(1)}
    model = model_of(nodes, {"x": [3, 4]}, ["y"], {**numbers, "w": W[:4]})
    assert not any(trains(model)[name] for name in numbers)
    for name in numbers:
        with pytest.raises(popart.popart_exception, match=rf"trainable '{name}': cannot train: no gradient .*Range"):
            trainer(model, trainable=[name, "w"])
    step(trainer(model), {"x": X})


def test_derivatives_by_settings_are_refused():
    """Of models that hold their derivatives, and by initializers too."""
    node_of = helper.make_node
    nodes = [node_of("Range", ["a", "b", "d"], ["r"]), node_of("ReduceSum", ["r"], ["y"], keepdims=0)]
    nodes.append(gradient(["a"], ["da"], ["a"], "y"))
    numbers = {"a": np.float32(0), "b": np.float32(4), "d": np.float32(1)}
    with pytest.raises(popart.popart_exception, match=r"Range|'a'"):
        run(nodes, {}, ["da"], numbers)
