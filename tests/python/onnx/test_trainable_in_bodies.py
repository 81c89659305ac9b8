"""What trains in the bodies of Loop, Scan and If: PyTorch's updates of the same recurrences (decisions/0078)."""

import numpy as np
import popart
import torch

from onnx import TensorProto, helper, numpy_helper
from tests.python.onnx.trained_models import FLOAT, RATE, model_of, node, saved, step, trainer, trains, values_of


def body_of(weight):
    return helper.make_graph(
        [node("MatMul", ["h", "v"], "p"), node("Tanh", ["p"], "n"), node("Identity", ["goes"], "on")],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("goes", TensorProto.BOOL, []),
            helper.make_tensor_value_info("h", FLOAT, [4, 3]),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("n", FLOAT, [4, 3]),
        ],
        [numpy_helper.from_array(weight, "v")],
    )


def test_initializers_of_bodies_train_and_are_saved_where_they_were(tmp_path):
    weight = np.random.default_rng(3).normal(size=(3, 3)).astype(np.float32)
    model = model_of(
        [node("Loop", ["trips", "", "x"], "y", body=body_of(weight))],
        {"x": [4, 3]},
        {"y": [4, 3]},
        {"trips": np.array(3, np.int64)},
    )
    assert trains(model) == {"v": True}
    own = torch.tensor(weight, requires_grad=True)
    x = torch.randn(4, 3)
    h = x
    for _ in range(3):
        h = torch.tanh(h @ own)
    h.square().mean().backward()
    session = trainer(model)
    step(session, {"x": x.numpy()})
    trained = saved(session, tmp_path)
    assert set(values_of(trained)) == {"trips"}
    after = numpy_helper.to_array(trained.graph.node[0].attribute[0].g.initializer[0])
    np.testing.assert_allclose(after, weight - RATE * own.grad.numpy(), rtol=1e-4, atol=1e-6)
    first = step(session, {"x": x.numpy()})
    session.resetHostWeights(str(tmp_path / "trained.onnx"))
    session.weightsFromHost()
    assert step(session, {"x": x.numpy()}) == first


def test_initializers_of_scans_train(capfd):
    """The body of a Scan multiplies its state by a weight, and adds one row of xs in each iteration."""
    weight = np.random.default_rng(4).normal(size=(3, 3)).astype(np.float32)
    body = helper.make_graph(
        [node("MatMul", ["h", "v"], "p"), node("Add", ["p", "row"], "q"), node("Tanh", ["q"], "n")],
        "body",
        [helper.make_tensor_value_info(name, FLOAT, [3]) for name in ("h", "row")],
        [helper.make_tensor_value_info("n", FLOAT, [3])],
        [numpy_helper.from_array(weight, "v")],
    )
    model = model_of(
        [node("Scan", ["x", "xs"], "y", body=body, num_scan_inputs=1)], {"x": [3], "xs": [4, 3]}, {"y": [3]}, {}
    )
    assert trains(model) == {"v": True}
    own = torch.tensor(weight, requires_grad=True)
    x, xs = torch.randn(3), torch.randn(4, 3)
    h = x
    for row in xs:
        h = torch.tanh(h @ own + row)
    h.square().mean().backward()
    popart.getLogger("session").setLevel("INFO")
    try:
        session = trainer(model)
    finally:
        popart.getLogger("session").setLevel("WARN")
    assert "1 of 1 floating-point initializers train, 9 of 9 numbers" in "".join(capfd.readouterr())
    step(session, {"x": x.numpy(), "xs": xs.numpy()})
    values = {"v": np.empty((3, 3), np.float32)}
    session.weightsToHost()
    session.readWeights(popart.PyWeightsIO(values))
    np.testing.assert_allclose(values["v"], weight - RATE * own.grad.numpy(), rtol=1e-4, atol=1e-6)


def branch(name, weight):
    return helper.make_graph(
        [node("MatMul", ["x", "v"], name)],
        name,
        [],
        [helper.make_tensor_value_info(name, FLOAT, [4, 3])],
        [numpy_helper.from_array(weight, "v")],
    )


def test_initializers_of_one_name_in_two_branches_are_two_tensors():
    weights = np.random.default_rng(3).normal(size=(2, 3, 3)).astype(np.float32)
    model = model_of(
        [
            node("ReduceSum", ["x"], "sum", keepdims=0),
            node("Greater", ["sum", "zero"], "positive"),
            node("If", ["positive"], "y", then_branch=branch("a", weights[0]), else_branch=branch("b", weights[1])),
        ],
        {"x": [4, 3]},
        ["y"],
        {"zero": np.float32(0)},
    )
    found = trains(model)
    assert found.pop("zero") is False
    assert len(found) == 2 and all(found.values())
    session = trainer(model)
    first = step(session, {"x": np.ones((4, 3), np.float32)})
    assert step(session, {"x": np.ones((4, 3), np.float32)}) < first
    other = step(session, {"x": -np.ones((4, 3), np.float32)})
    np.testing.assert_allclose(other, np.mean((np.ones((4, 3)) @ weights[1]) ** 2), rtol=1e-5)
