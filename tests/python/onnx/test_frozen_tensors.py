"""What the caller says of training: names and patterns, constant learning rates of 0, and what frozen tensors cost."""

import copy
import json

import numpy as np
import popart
import pytest
import torch

from onnx import numpy_helper
from tests.python.onnx.trained_models import RATE, model_of, node, step, trainer, trains, with_square_loss

W = np.random.default_rng(0).normal(size=(3, 2)).astype(np.float32)
C = np.random.default_rng(1).normal(size=3).astype(np.float32)


def two_layers():
    nodes = [
        node("MatMul", ["x", "body.weight"], "h"),
        node("Add", ["h", "body.bias"], "i"),
        node("MatMul", ["i", "head.weight"], "j"),
        node("Add", ["j", "head.bias"], "k"),
        node("Mul", ["k", "two"], "y"),
    ]
    weights = {
        "body.weight": W,
        "body.bias": C[:2],
        "head.weight": W[:2] @ np.float32([[1, 0, 1], [0, 1, 1]]),
        "head.bias": C,
        "two": np.float32([2, 2, 2]),
    }
    return model_of(nodes, {"x": [4, 3]}, ["y"], weights), weights


SAID = {
    "only_the_head": ({"trainable": "head.*"}, {"head.weight", "head.bias"}),
    "without_biases": ({"frozen": "*.bias"}, {"body.weight", "head.weight", "two"}),
    "both": ({"trainable": ["head.*"], "frozen": ["head.bias"]}, {"head.weight"}),
    "classes": ({"frozen": "[bh]*.weight"}, {"body.bias", "head.bias", "two"}),
    "by_name": ({"trainable": ["two"]}, {"two"}),
}


@pytest.mark.parametrize("name", list(SAID))
def test_names_and_patterns_of_the_caller(name):
    model, weights = two_layers()
    said, expected = SAID[name]
    session = trainer(model, **said)
    table = {t.name: t for t in session.trainableTensors()}
    assert {key for key, t in table.items() if t.trains} == expected
    step(session, {"x": np.ones((4, 3), np.float32)})
    arrays = {key: np.zeros_like(value) for key, value in weights.items()}
    session.weightsToHost()
    session.readWeights(popart.PyWeightsIO(arrays))
    assert {key for key, array in arrays.items() if not np.array_equal(array, weights[key])} == expected
    assert set(session._variableIds()) >= expected
    assert not set(session._variableIds()) & (set(weights) - expected)


@pytest.mark.parametrize("said", [{"trainable": "head.weigth"}, {"frozen": ["body.weights"]}])
def test_names_that_match_nothing_are_refused_with_the_nearest(said):
    model, _ = two_layers()
    with pytest.raises(popart.popart_exception, match=r"matches no floating-point initializer.*(head|body)\."):
        trainer(model, **said)


def test_options_are_copied_and_say_the_same():
    model, _ = two_layers()
    options = popart.SessionOptions()
    options.frozenTensors = ["body.*"]
    session = trainer(model, userOptions=options, frozen="two")
    assert {t.name for t in session.trainableTensors() if t.trains} == {"head.weight", "head.bias"}
    assert options.frozenTensors == ["body.*"]


def test_a_constant_learning_rate_of_0_freezes():
    model, _ = two_layers()
    optimizer = popart.SGD({"defaultLearningRate": (RATE, True), "defaultMomentum": (0.9, True)})
    optimizer.insertSpecific("body.weight", {"learningRate": (0.0, True)})
    session = trainer(model, optimizer=optimizer)
    (frozen,) = [t for t in session.trainableTensors() if t.name == "body.weight"]
    assert not frozen.trains and "learning rate" in frozen.reason
    step(session, {"x": np.ones((4, 3), np.float32)})
    assert not [name for name in session._variableIds() if "body.weight" in name]


def products_of(session):
    graphs = json.loads(session._serializeIr(popart.IrSerializationFormat.JSON))
    return sum("MatMul" in op["type"] for ops in graphs.values() for op in ops)


def test_what_only_frozen_tensors_need_of_the_backward_pass_is_gone():
    model, _ = two_layers()
    assert products_of(trainer(model)) == 5  # two, their weights' gradients, and what comes back to the first layer
    assert products_of(trainer(model, trainable="head.*")) == 3
    assert products_of(trainer(model, trainable="body.*")) == 4


def test_a_frozen_tensor_with_other_values_is_not_taken_from_another_file(tmp_path):
    model, weights = two_layers()
    session = trainer(model, frozen="body.*")
    other = copy.deepcopy(with_square_loss(model))
    session.resetHostWeights(other.SerializeToString())
    other.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights["body.weight"] + 1, "body.weight"))
    with pytest.raises(popart.popart_runtime_error, match=r"body\.weight.*constant"):
        session.resetHostWeights(other.SerializeToString())


def test_a_scale_of_quantisation_trains_where_it_is_asked_for():
    weights = {"w": W, "s": np.float32(0.02), "z": np.int8(0)}
    nodes = [
        node("QuantizeLinear", ["w", "s", "z"], "q"),
        node("DequantizeLinear", ["q", "s", "z"], "d"),
        node("MatMul", ["x", "d"], "y"),
    ]
    model = model_of(nodes, {"x": [4, 3]}, ["y"], weights)
    assert trains(model, trainable=["w", "s"]) == {"w": True, "s": True}
    session = trainer(model, trainable=["w", "s"])
    x = np.random.default_rng(5).normal(size=(4, 3)).astype(np.float32)
    step(session, {"x": x})
    weight, scale = torch.tensor(W, requires_grad=True), torch.tensor(weights["s"], requires_grad=True)
    rounded = weight / scale + (torch.round(weight / scale) - weight / scale).detach()
    y = torch.tensor(x) @ (rounded.clamp(-128, 127) * scale)
    y.square().mean().backward()
    values = {"s": np.zeros((), np.float32), "w": np.zeros_like(W)}
    session.weightsToHost()
    session.readWeights(popart.PyWeightsIO(values))
    np.testing.assert_allclose(values["s"], weights["s"] - RATE * scale.grad.numpy(), rtol=1e-4)
    np.testing.assert_allclose(values["w"], W - RATE * weight.grad.numpy(), rtol=1e-3, atol=1e-6)
