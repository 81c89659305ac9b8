"""Chains of matrix products in float16 and bfloat16 train with every optimizer and follow float32."""

import ml_dtypes
import numpy as np
import popart
import pytest

import onnx
from onnx import TensorProto, helper
from tests.python.popart.training_runs import ready, training_session

OPTIMIZERS = {
    "sgd": lambda: popart.SGD({"defaultLearningRate": (0.02, True)}),
    "sgd that changes": lambda: popart.SGD({"defaultLearningRate": (0.02, False)}),
    "decay": lambda: popart.SGD({"defaultLearningRate": (0.02, True), "defaultWeightDecay": (0.01, True)}),
    "momentum": lambda: popart.SGD({"defaultLearningRate": (0.01, True), "defaultMomentum": (0.5, True)}),
    "velocity": lambda: popart.SGD(
        {"defaultLearningRate": (0.01, True), "defaultMomentum": (0.5, True)},
        accumulatorAndMomentum=popart.SGDAccumulatorAndMomentum.Separate,
    ),
    "adam": lambda: popart.Adam({"defaultLearningRate": (0.01, True)}),
    "lamb": lambda: popart.Adam({"defaultLearningRate": (0.01, True)}, mode=popart.AdamMode.Lamb),
    "rmsprop": lambda: popart.Adaptive({"defaultLearningRate": (0.005, True)}),
}
TYPES = {
    "float32": (TensorProto.FLOAT, np.float32),
    "float16": (TensorProto.FLOAT16, np.float16),
    "bfloat16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
}
BATCH = 4


def chain(seed, type_name):
    """A random chain: 2 to 4 products, some with a bias, a residual or a factor between them, and a loss."""
    rng = np.random.default_rng(seed)
    onnx_type, dtype = TYPES[type_name]
    count = int(rng.integers(2, 5))
    sizes = [int(n) for n in rng.choice([4, 8, 16], count + 1)]
    rank = int(rng.integers(2, 4))
    nodes, weights = [], []

    def weight(name, shape, scale):
        value = (rng.standard_normal(shape) * scale).astype(np.float32).astype(dtype)
        weights.append(helper.make_tensor(name, onnx_type, shape, value.tobytes(), raw=True))
        return name

    last = "x"
    for i in range(count):
        nodes.append(
            helper.make_node("MatMul", [last, weight(f"w{i}", (sizes[i], sizes[i + 1]), 0.4)], [f"product{i}"])
        )
        last = f"product{i}"
        choice = rng.integers(0, 4)
        if choice == 1:
            nodes.append(helper.make_node("Add", [last, weight(f"b{i}", (sizes[i + 1],), 0.1)], [f"sum{i}"]))
            last = f"sum{i}"
        elif choice == 2:
            nodes.append(helper.make_node("Add", [last, last], [f"double{i}"]))
            last = f"double{i}"
    kind = ("identityloss", "l1", "square")[int(rng.integers(0, 3))]
    if kind == "square":
        nodes.append(helper.make_node("Mul", [last, last], ["square"]))
        last = "square"
    nodes.append(
        helper.make_node("L1", [last], ["loss"], domain="ai.graphcore", **{"lambda": 0.5})
        if kind == "l1"
        else helper.make_node("IdentityLoss", [last], ["loss"], domain="ai.graphcore", reduction=1)
    )
    shape = [BATCH, sizes[0]] if rank == 2 else [BATCH, 3, sizes[0]]
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", onnx_type, shape)],
        [onnx.ValueInfoProto(name="loss")],
        weights,
    )
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("ai.graphcore", 1)]
    x = rng.standard_normal(shape).astype(np.float32).astype(dtype)
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString(), x


def losses(seed, type_name, optimizer, steps=6):
    model, x = chain(seed, type_name)
    session = ready(training_session(model, "loss", OPTIMIZERS[optimizer]()))
    anchors = session.initAnchorArrays()
    found = []
    for _ in range(steps):
        session.run(popart.PyStepIO({"x": x}, anchors))
        found.append(float(anchors["loss"]))
    return np.array(found)


# Momentum held with the gradient (Combined) is for FLOAT and FLOAT16 only.
PAIRS = [(t, o) for t in ("float16", "bfloat16") for o in OPTIMIZERS if (t, o) != ("bfloat16", "momentum")]


@pytest.mark.parametrize(("type_name", "optimizer"), PAIRS)
def test_chains_of_products_follow_float32(type_name, optimizer):
    """The loss differs by the rounding of values and by updates too small for the type, no more."""
    rounding, lost_updates = {"float16": (0.02, 0.2), "bfloat16": (0.05, 0.6)}[type_name]
    for seed in range(12):
        wide = losses(seed, "float32", optimizer)
        narrow = losses(seed, type_name, optimizer)
        allowed = rounding * np.abs(wide).max() + lost_updates * np.abs(wide - wide[0]).max()
        np.testing.assert_allclose(narrow, wide, atol=allowed, rtol=0, err_msg=f"seed {seed}")
