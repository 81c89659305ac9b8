"""Programs run with all patterns off where no kernel needs them: operators that the importer composes among them."""

import numpy as np
import onnx.parser
import popart
import pytest

from tests.python.popart.training_runs import ready, training_session

HEADER = '<ir_version: 10, opset_import: ["" : {}, "ai.graphcore" : 1]> g (float[{}] x) => (float[{}] y) <{}> {{ {} }}'
# Operators that are composed, with weights that train: opset, shapes of input and result, weights, nodes.
COMPOSED = {
    "gru": (14, "5, 2, 4", "5, 1, 2, 3", {"w": (1, 9, 4), "r": (1, 9, 3)}, "y = GRU <hidden_size = 3> (x, w, r)"),
    "gru_before_reset": (
        14,
        "5, 2, 4",
        "5, 1, 2, 3",
        {"w": (1, 9, 4), "r": (1, 9, 3), "b": (1, 18)},
        "y = GRU <hidden_size = 3, linear_before_reset = 1> (x, w, r, b)",
    ),
    "lstm": (14, "5, 2, 4", "5, 1, 2, 3", {"w": (1, 12, 4), "r": (1, 12, 3)}, "y = LSTM <hidden_size = 3> (x, w, r)"),
    "lstm_input_forget": (
        14,
        "5, 2, 4",
        "5, 1, 2, 3",
        {"w": (1, 12, 4), "r": (1, 12, 3)},
        "y = LSTM <hidden_size = 3, input_forget = 1> (x, w, r)",
    ),
    "rnn": (
        14,
        "5, 2, 4",
        "5, 2, 2, 3",
        {"w": (2, 3, 4), "r": (2, 3, 3)},
        'y = RNN <hidden_size = 3, direction = "bidirectional"> (x, w, r)',
    ),
    "layer_normalization": (17, "4, 6", "4, 6", {"w": (6,), "b": (6,)}, "y = LayerNormalization (x, w, b)"),
    "rms_normalization": (23, "4, 6", "4, 6", {"w": (6,)}, "y = RMSNormalization (x, w)"),
    "attention": (23, "2, 2, 4, 6", "2, 2, 4, 6", {"w": (6, 6)}, "q = MatMul (x, w) y = Attention (q, q, q)"),
    "mish": (18, "4, 6", "4, 6", {"w": (6,)}, "z = Mul (x, w) y = Mish (z)"),
}


def model(name):
    opset, read, written, weights, nodes = COMPOSED[name]
    rng = np.random.default_rng(1)
    declared = ", ".join(
        f"float[{', '.join(map(str, shape))}] {w} = {{{', '.join(map(str, rng.normal(0, 0.3, shape).ravel()))}}}"
        for w, shape in weights.items()
    )
    text = HEADER.format(opset, read, written, declared, nodes)
    return onnx.parser.parse_model(text).SerializeToString(), tuple(map(int, read.split(", "))), list(weights)


def trained(proto, shape, weights, patterns):
    """Results, gradients of the weights and losses of two steps."""
    builder = popart.Builder(proto)
    loss = builder.aiGraphcore.l1loss(["y"], 0.5, reduction=popart.ReductionType.Sum)
    names = ["y", loss, *(popart.reservedGradientPrefix() + w for w in weights)]
    session = training_session(builder.getModelProto(), loss, popart.ConstSGD(0.1), None, names, patterns=patterns)
    ready(session)
    results = []
    for seed in range(2):
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO({"x": np.random.default_rng(seed).normal(size=shape).astype(np.float32)}, anchors))
        results += [anchors[n].copy() for n in names]
    return results


def off():
    return popart.Patterns(popart.PatternsLevel.NoPatterns).enableRuntimeAsserts(False)


@pytest.mark.parametrize("name", COMPOSED)
def test_composed_operators_train_without_patterns(name):
    proto, shape, weights = model(name)
    with_patterns = trained(proto, shape, weights, popart.Patterns())
    without = trained(proto, shape, weights, off())
    assert all(np.abs(value).max() > 0 for value in with_patterns)
    for got, expected in zip(without, with_patterns, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("nodes", "pattern"),
    [
        ("y = Sub (x, w)", "SubtractArg1GradOp"),
        ("z = Exp (w) y = Mul (x, z)", "ExpGradOp"),
        ("z = Sqrt (w) y = Mul (x, z)", "SqrtGradOp"),
    ],
)
def test_operators_of_the_file_still_need_theirs(nodes, pattern):
    proto = onnx.parser.parse_model(HEADER.format(14, "2", "2", "float[2] w = {1, 2}", nodes)).SerializeToString()
    trained(proto, (2,), ["w"], popart.Patterns())
    with pytest.raises(popart.popart_exception, match=f"the pattern '{pattern}', which expands this operator, is off"):
        trained(proto, (2,), ["w"], off())
