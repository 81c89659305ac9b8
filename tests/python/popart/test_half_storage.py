"""Networks in float16: computed in float32, rounded once per op, on the vectorised kernels."""

import io
import warnings

import ml_dtypes
import numpy as np
import popart
import pytest
import torch

from tests.python.popart.training_runs import inference_session, ready, training_session

SHAPE = (4, 3, 10, 10)


class Small(torch.nn.Module):
    """Convolution, batch norm, pooling, layer norm, linear layers, softmax."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.hidden = torch.nn.Linear(200, 32)
        self.layer_norm = torch.nn.LayerNorm(32)
        self.out = torch.nn.Linear(32, 5)

    def forward(self, x):
        x = torch.nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)
        x = self.layer_norm(torch.nn.functional.gelu(self.hidden(x.flatten(1))))
        return torch.softmax(self.out(x), 1)


def network():
    torch.manual_seed(1)
    result = Small().eval()
    with torch.no_grad():
        result.norm.running_mean.uniform_(-0.2, 0.2)
        result.norm.running_var.uniform_(0.5, 1.5)
    return result


def half_model():
    """The network as a float16 ONNX model."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network().half(), (torch.zeros(SHAPE, dtype=torch.float16),), file, dynamo=False, opset_version=17,
            input_names=["input"], output_names=["output"],
        )  # fmt: skip
    return file.getvalue()


@pytest.fixture
def informed():
    """The module that compiles says more while a test runs."""
    popart.getLogger("devicex").setLevel("INFO")
    yield
    popart.getLogger("devicex").setLevel("WARN")


@pytest.mark.usefixtures("informed")
def test_inference_follows_torch_on_vectorised_kernels(capfd):
    x = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    session = ready(inference_session(half_model(), ["output"]))
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"input": x.astype(np.float16)}, anchors))
    assert anchors["output"].dtype == np.float16
    expected = network()(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(anchors["output"].astype(np.float32), expected, atol=5e-3)
    assert "reference" not in capfd.readouterr().err


@pytest.mark.usefixtures("informed")
def test_a_fallback_is_said_in_the_log(capfd):
    builder = popart.Builder()
    x = builder.addInputTensor("DOUBLE", [2, 2])
    y = builder.aiOnnx.matmul([x, x])
    session = inference_session(builder.getModelProto(), [y])
    session.prepareDevice()
    assert "runs on the reference backend" in capfd.readouterr().err


def test_training_in_float16_lowers_the_loss():
    """The float16 weights follow float32 training while steps are larger than their rounding."""
    builder = popart.Builder(half_model())
    labels = builder.addInputTensor("INT32", [4], "labels")
    loss = builder.aiGraphcore.nllloss(["output", labels], popart.ReductionType.Mean)
    session = ready(training_session(builder.getModelProto(), loss, popart.SGD({"defaultLearningRate": (0.02, False)})))
    anchors = session.initAnchorArrays()
    x = np.random.default_rng(0).normal(size=SHAPE).astype(np.float16)
    y = np.array([0, 3, 1, 4], np.int32)
    losses = []
    for _ in range(12):
        session.run(popart.PyStepIO({"input": x, "labels": y}, anchors))
        losses.append(float(anchors[loss]))
    module = network()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.02)
    expected = []
    for _ in range(12):
        value = torch.nn.functional.nll_loss(module(torch.tensor(x, dtype=torch.float32)).log(), torch.tensor(y).long())
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        expected.append(value.item())
    np.testing.assert_allclose(losses, expected, rtol=0.03, atol=0.01)
    assert losses[-1] < 0.7 * losses[0]


def test_weights_of_an_unlucky_value_round_once():
    """1 + 2^-11 is no float16: a product computed in float32 rounds to even once."""
    weights = np.full((64, 1), 1 / 64, np.float16)
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT16", [1, 64])
    w = builder.addInitializedInputTensor(weights)
    y = builder.aiOnnx.matmul([x, w])
    session = ready(inference_session(builder.getModelProto(), [y]))
    anchors = session.initAnchorArrays()
    values = np.linspace(0.5, 2.0, 64).astype(np.float16)[None]
    session.run(popart.PyStepIO({x: values}, anchors))
    exact = (values.astype(np.float64) @ weights.astype(np.float64)).astype(np.float16)
    np.testing.assert_array_equal(anchors[y], exact)


# That the loss and its gradient count; BFLOAT16 has the range of FLOAT.
LEAST = {np.float16: (6.104e-5, 6.104e-5), np.float32: (1e-7, 1e-10), ml_dtypes.bfloat16: (1e-7, 1e-10)}


@pytest.mark.parametrize("softmax", [False, True])
@pytest.mark.parametrize("dtype", LEAST)
def test_a_probability_counts_as_at_least_what_its_type_says(dtype, softmax):
    given = np.array(
        [[0, -20, 0], [-60, 0, 0], [0, -30, -1]] if softmax else [[0, 1, 0], [2e-5, 0, 1], [0.5, 0, 0]], dtype
    )
    labels = np.array([1, 0, 1] if softmax else [0, 0, 0], np.int32)
    builder = popart.Builder()
    types = {np.float16: "FLOAT16", np.float32: "FLOAT", ml_dtypes.bfloat16: "BFLOAT16"}
    rounding = 1e-2 if dtype == ml_dtypes.bfloat16 else 1e-3
    x = builder.addInputTensor(types[dtype], given.shape, "x")
    y = builder.addInputTensor("INT32", labels.shape, "y")
    probabilities = builder.aiOnnx.softmax([x]) if softmax else x
    each = builder.aiGraphcore.nllloss([probabilities, y], popart.ReductionType.NoReduction)
    gradient = popart.reservedGradientPrefix() + x
    total = builder.aiGraphcore.identityloss([each], popart.ReductionType.Sum)
    session = training_session(builder.getModelProto(), total, popart.ConstSGD(0.1), anchors=[each, gradient])
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({x: given, y: labels}, anchors))
    p = np.exp(given.astype(np.float64))
    p = p / p.sum(1, keepdims=True) if softmax else given.astype(np.float64)
    rows = np.arange(3)
    of_loss, of_gradient = LEAST[dtype]
    np.testing.assert_allclose(
        anchors[each].astype(np.float64), -np.log(np.maximum(p[rows, labels], of_loss)), rtol=rounding
    )
    if not softmax:
        expected = -(np.eye(3)[labels] / np.maximum(p[rows, labels], of_gradient)[:, None])
        np.testing.assert_allclose(anchors[gradient].astype(np.float64), expected, rtol=rounding)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("rows", [1, 8, 31, 40])
def test_products_of_bfloat16_are_summed_in_float_and_round_once(rows, constant):
    """The bound of docs/decisions/0028, whether or not the processor multiplies BFLOAT16; depth and columns are odd."""
    depth, columns = 775, 67
    rng = np.random.default_rng(rows)
    x = rng.normal(size=(rows, depth)).astype(ml_dtypes.bfloat16)
    w = rng.normal(size=(depth, columns)).astype(ml_dtypes.bfloat16)
    builder = popart.Builder()
    left = builder.addInputTensor("BFLOAT16", x.shape)
    if constant:
        right = builder.aiOnnx.cast([builder.addInitializedInputTensor(w.astype(np.float32))], "BFLOAT16")
    else:
        right = builder.addInputTensor("BFLOAT16", w.shape)
    y = builder.aiOnnx.matmul([left, right])
    session = ready(inference_session(builder.getModelProto(), [y]))
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({left: x} if constant else {left: x, right: w}, anchors))
    wide = [m.astype(np.float64) for m in (x, w)]
    exact, magnitudes = wide[0] @ wide[1], np.abs(wide[0]) @ np.abs(wide[1])
    of_sum = depth * 2.0**-24 * magnitudes
    of_rounding = 2.0**-8 * (np.abs(exact) + of_sum)
    assert np.all(np.abs(anchors[y].astype(np.float64) - exact) <= of_sum + of_rounding)
