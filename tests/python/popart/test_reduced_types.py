"""Training with weights, accumulators and optimizer state in every mix of FLOAT, FLOAT16 and BFLOAT16."""

import itertools

import ml_dtypes
import numpy as np
import popart
import pytest

import onnx
from onnx import TensorProto, helper
from tests.python.popart.training_runs import ready, training_session

D = popart.DataType
TYPES = {
    "FLOAT16": (D.FLOAT16, TensorProto.FLOAT16, np.float16),
    "BFLOAT16": (D.BFLOAT16, TensorProto.BFLOAT16, ml_dtypes.bfloat16),
    "FLOAT": (D.FLOAT, TensorProto.FLOAT, np.float32),
}
UPDATES = 12
RNG = np.random.default_rng(77)
DATA = RNG.normal(size=(UPDATES, 2, 5, 6))
W = RNG.normal(size=(6, 4)) * 0.5


def adam(mode):
    return lambda s, first, second: popart.Adam(
        {"defaultLearningRate": (0.01, True), "defaultEps": (1e-3, True)},
        mode=getattr(popart.AdamMode, mode),
        accum_type=s,
        accl1_type=first,
        accl2_type=second,
    )


def adaptive(mode, rate=0.01):
    return lambda s, first, second: popart.Adaptive(
        {"defaultLearningRate": (rate, True), "defaultEps": (1e-2, True), "defaultMomentum": (0.5, True)},
        mode=getattr(popart.AdaptiveMode, mode),
        accum_type=s,
        accl1_type=first,
        accl2_type=first,
        accl3_type=second,
    )


def sgd(momentum, kind="Combined"):
    return lambda s, first, _: popart.SGD(
        {"defaultLearningRate": (0.05, True), "defaultMomentum": (momentum, True)},
        accumulatorAndMomentum=getattr(popart.SGDAccumulatorAndMomentum, kind),
        accumType=s,
        accl1Type=first,
    )


OPTIMIZERS = {
    "sgd": sgd(0.0),
    "combined": sgd(0.6),
    "separate": sgd(0.6, "Separate"),
    **{mode: adam(mode) for mode in ("Adam", "AdamNoBias", "AdaMax", "Lamb", "LambNoBias")},
    **{mode: adaptive(mode) for mode in ("AdaGrad", "RMSProp", "CenteredRMSProp")},
    "AdaDelta": adaptive("AdaDelta", 0.1),
}


def model(weight, compute):
    """Half the squares of tanh(x w); w is kept in one type and multiplied in another."""
    _, onnx_type, dtype = TYPES[weight]
    nodes = [
        helper.make_node("Cast", ["w"], ["w_"], to=TYPES[compute][1]),
        helper.make_node("MatMul", ["x", "w_"], ["h"]),
        helper.make_node("Tanh", ["h"], ["y"]),
        helper.make_node("Mul", ["y", "y"], ["square"]),
        helper.make_node("IdentityLoss", ["square"], ["loss"], domain="ai.graphcore", reduction=0),
    ]
    w = helper.make_tensor("w", onnx_type, W.shape, W.astype(dtype).tobytes(), raw=True)
    x = helper.make_tensor_value_info("x", TYPES[compute][1], [5, 6])
    graph = helper.make_graph(nodes, "reduced", [x], [onnx.ValueInfoProto(name="loss")], [w])
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("ai.graphcore", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def train(optimizer, weight, compute, states, path=None):
    """Losses; ``states``: types of the accumulator, the first and the last other state."""
    options = popart.SessionOptions()
    options.enableGradientAccumulation = True
    options.accumulationFactor = 2
    session = ready(training_session(model(weight, compute), "loss", OPTIMIZERS[optimizer](*states), options))
    anchors = session.initAnchorArrays()
    losses = []
    for update in range(UPDATES):
        session.run(popart.PyStepIO({"x": DATA[update].astype(TYPES[compute][2])}, anchors))
        losses.append(anchors["loss"].astype(np.float64).sum())
    if path:
        session.modelToHost(path)
    return np.array(losses)


@pytest.fixture(scope="module")
def exact():
    return {name: train(name, "FLOAT", "FLOAT", [D.FLOAT] * 3) for name in OPTIMIZERS}


@pytest.mark.parametrize("state", ["FLOAT", "FLOAT16", "BFLOAT16", None])
@pytest.mark.parametrize("weight", ["FLOAT16", "BFLOAT16", "FLOAT"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_losses_follow_float32_and_state_has_its_type(name, weight, state, exact, tmp_path):
    compute = "FLOAT16" if weight == "FLOAT" else weight  # FLOAT: masters of 16-bit computing
    path = str(tmp_path / "trained.onnx")
    state_type = TYPES[state][0] if state else D.UNDEFINED  # None: that of the weight
    losses = train(name, weight, compute, [state_type] * 3, path)
    coarse = "BFLOAT16" in (weight, state)
    moved = np.abs(exact[name] - exact[name][0]).max()
    np.testing.assert_allclose(
        losses, exact[name], rtol=0.04 if coarse else 0.01, atol=(0.3 if coarse else 0.05) * moved
    )
    found = {
        i.name: i.data_type
        for i in onnx.load(path).graph.initializer
        if i.name.startswith("Acc") and i.name.endswith("___w")
    }
    expected = TYPES[weight if name == "combined" else state or weight][1]  # combined: what the weight has
    assert found, "no accumulator"
    assert set(found.values()) == {expected}, found


@pytest.mark.parametrize("weight", TYPES)
@pytest.mark.parametrize("name", ["separate", "Adam", "AdaMax", "Lamb", "CenteredRMSProp", "AdaDelta"])
def test_accumulators_and_moments_have_types_of_their_own(name, weight, exact, tmp_path):
    """Every mix of three types that are not the same one."""
    compute = "FLOAT16" if weight == "FLOAT" else weight
    moved = np.abs(exact[name] - exact[name][0]).max()
    for types in itertools.product(TYPES, repeat=3):
        if len(set(types)) == 1:
            continue
        path = str(tmp_path / "trained.onnx")
        losses = train(name, weight, compute, [TYPES[t][0] for t in types], path)
        coarse = "BFLOAT16" in (weight, *types)
        np.testing.assert_allclose(
            losses, exact[name], rtol=0.04 if coarse else 0.01, atol=(0.3 if coarse else 0.05) * moved
        )
        found = {i.name: i.data_type for i in onnx.load(path).graph.initializer}
        wanted = {"Accum___w": types[0], "Accl1___w": types[1]}
        if name != "separate":
            wanted["Accl2___w"] = types[2] if name in ("Adam", "AdaMax", "Lamb") else types[1]
        if "Accl3___w" in found:
            wanted["Accl3___w"] = types[2]
        assert {key: found[key] for key in wanted} == {key: TYPES[kind][1] for key, kind in wanted.items()}, types
