"""Option precision: 16-bit products and activations with FLOAT weights, state, norms, losses and softmax."""

import io
import warnings

import numpy as np
import popart
import pytest
import torch

from tests.python.popart.training_runs import graphs_of, inference_session, options_with, ready, training_session

BATCH, CLASSES, STEPS = 16, 5, 20
# Largest relative difference of a loss of the first 20 updates from that of the FLOAT run, by type. BFLOAT16 has 8 bits
# of precision, FLOAT16 11: a loss is a mean over 16 samples of values that went through at most 8 rounded operators.
BOUND = {"bfloat16": 2e-2, "float16": 4e-3}


class Perceptron(torch.nn.Module):
    """Linear layers with a layer norm and the exact GELU."""

    shape = (BATCH, 12)

    def __init__(self):
        super().__init__()
        self.hidden, self.norm = torch.nn.Linear(12, 32), torch.nn.LayerNorm(32)
        self.out = torch.nn.Linear(32, CLASSES)

    def forward(self, x):
        return self.out(torch.nn.functional.gelu(self.norm(self.hidden(x))))


class Convolutional(torch.nn.Module):
    """Convolutions with batch norms, a residual connection and a global mean."""

    shape = (BATCH, 3, 12, 12)

    def __init__(self):
        super().__init__()
        self.first, self.norm = torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.BatchNorm2d(16)
        self.second, self.out = torch.nn.Conv2d(16, 16, 3, padding=1), torch.nn.Linear(16, CLASSES)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        x = torch.nn.functional.max_pool2d(x + torch.relu(self.second(x)), 2)
        return self.out(x.mean((2, 3)))


class Attentive(torch.nn.Module):
    """One layer of attention whose scores are masked, with a residual connection."""

    shape = (BATCH, 6, 16)

    def __init__(self):
        super().__init__()
        self.qkv, self.norm = torch.nn.Linear(16, 48), torch.nn.LayerNorm(16)
        self.out = torch.nn.Linear(16, CLASSES)
        self.register_buffer("mask", torch.full((6, 6), -1e9).triu(1))

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        scores = q @ k.transpose(1, 2) / 4.0 + self.mask
        return self.out((x + torch.softmax(scores, -1) @ v).mean(1))


NETWORKS = [Perceptron, Convolutional, Attentive]


def exported(network, mode=torch.onnx.TrainingMode.TRAINING):
    torch.manual_seed(0)
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network(), (torch.zeros(network.shape),), file, dynamo=False, opset_version=17, input_names=["x"],
            output_names=["logits"], training=mode, do_constant_folding=False,
        )  # fmt: skip
    return file.getvalue()


def with_loss(model, scale=1.0):
    """The model with the mean cross entropy of its logits, times a number."""
    builder = popart.Builder(model)
    labels = builder.addInputTensor("INT32", [BATCH], "labels")
    loss = popart.losses.cross_entropy(builder, "logits", labels)
    if scale != 1.0:
        loss = builder.aiGraphcore.scale([loss], scale)
    return builder.getModelProto(), loss


def data(network):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(STEPS, *network.shape)).astype(np.float32)
    return x, rng.integers(0, CLASSES, (STEPS, BATCH)).astype(np.int32)


def adam(**more):
    return popart.Adam({"defaultLearningRate": (3e-3, False), **more})


def sgd(**more):
    return popart.SGD({"defaultLearningRate": (0.1, False), "defaultMomentum": (0.9, True), **more})


def session_of(network, precision, optimizer, anchors=(), scale=1.0, **options):
    proto, loss = with_loss(exported(network), scale)
    given = options_with(precision=precision, **options)
    return training_session(proto, loss, optimizer, given, anchors=[loss, *anchors]), loss


def losses(network, precision, optimizer, scale=1.0, steps=range(STEPS), **options):
    session, loss = session_of(network, precision, optimizer, scale=scale, **options)
    ready(session, 7)
    anchors, result = session.initAnchorArrays(), []
    x, labels = data(network)
    for i in steps:
        session.run(popart.PyStepIO({"x": x[i], "labels": labels[i]}, anchors))
        result.append(float(anchors[loss]))
    return np.array(result)


def types_by_operator(session):
    """Element types of what each type of operator writes."""
    types = {}
    for ops in graphs_of(session).values():
        for op in ops:
            for output in op["outputs"]:
                types.setdefault(op["type"], set()).add(session.getInfo(output["name"]).data_type())
    return types


@pytest.mark.parametrize("make", [sgd, adam])
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
@pytest.mark.parametrize("network", NETWORKS)
def test_losses_follow_the_float_run(network, precision, make):
    expected = losses(network, "", make())
    found = losses(network, precision, make())
    assert expected[-1] < expected[0] * 1.5  # the run is one that can be followed
    assert not np.array_equal(found, expected)
    np.testing.assert_allclose(found, expected, rtol=BOUND[precision])


@pytest.mark.parametrize("network", NETWORKS)
def test_products_have_16_bits_losses_and_softmax_do_not(network):
    session, _ = session_of(network, "bfloat16", adam())
    types = types_by_operator(session)
    assert types["MatMul"] == {"BFLOAT16"} if "MatMul" in types else types["Conv"] == {"BFLOAT16"}
    for name in ("Softmax", "SoftmaxCrossEntropyLoss", "Nll", "LogSoftmax", "NllWithSoftmaxGradDirect"):
        assert types.get(name, {"FLOAT"}) == {"FLOAT"}, name


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_weights_gradients_and_state_are_float(precision, tmp_path):
    session, _ = session_of(Perceptron, precision, adam(), anchors=["hidden.weight", "Gradient___hidden.weight"])
    for name in ("hidden.weight", "Gradient___hidden.weight", "Accl1___hidden.weight", "logits"):
        assert session.getInfo(name).data_type() == "FLOAT", name


def test_float32_and_no_precision_are_the_model_as_it_is():
    plain, _ = session_of(Perceptron, "", adam())
    named, _ = session_of(Perceptron, "float32", adam())
    assert graphs_of(plain) == graphs_of(named)


def test_another_precision_is_refused():
    with pytest.raises(popart.popart_exception, match="precision must be 'bfloat16', 'float16', 'float32' or empty"):
        session_of(Perceptron, "half", adam())


@pytest.mark.parametrize("network", NETWORKS)
def test_gradients_below_the_range_of_float16_are_scaled(network):
    """Gradients of a loss times 2^-20 are zeros in FLOAT16; the loss scale finds its way up."""
    tiny = 2.0**-20
    optimizer = {"defaultEps": (1e-14, True)}
    expected = losses(network, "", adam(**optimizer), tiny, [0] * STEPS) / tiny
    found = losses(network, "float16", adam(**optimizer), tiny, [0] * STEPS) / tiny
    assert expected[-1] < expected[0]
    np.testing.assert_allclose(found[:4], expected[:4], rtol=0.1)
    assert found[-1] < found[0]


def test_a_loss_scale_of_the_optimizer_is_kept():
    session, _ = session_of(Perceptron, "float16", adam(lossScaling=(128.0, True)))
    assert not any("lossScaleUpdateFactor" in name for name in session.getTensorIds())
    session, _ = session_of(Perceptron, "float16", adam())
    assert any("lossScaleUpdateFactor" in name for name in session.getTensorIds())


def test_the_learning_rate_changes_while_the_scale_follows():
    session, _ = session_of(Perceptron, "float16", adam())
    ready(session, 1)
    session.updateOptimizerFromHost(adam())


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
@pytest.mark.parametrize("network", NETWORKS)
def test_inference_follows_pytorch(network, precision):
    torch.manual_seed(0)
    module = network().eval()
    x = data(network)[0][0]
    expected = module(torch.from_numpy(x)).detach().numpy()
    model = exported(network, torch.onnx.TrainingMode.EVAL)
    session = ready(inference_session(model, ["logits"], options_with(precision=precision)))
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": x}, anchors))
    assert anchors["logits"].dtype == np.float32
    np.testing.assert_allclose(anchors["logits"], expected, atol=np.abs(expected).max() * BOUND[precision])


# Programs whose updates are those of a mean over four micro-batches, or two, of half and quarter batches.
PIPELINE = {
    "enablePipelining": True,
    "virtualGraphMode": popart.VirtualGraphMode.Auto,
    "virtualGraphSplitRatios": [0.5, 0.5],
}
PROGRAMS = {
    "accumulation": {"factor": 2},
    "replicas": {"replicas": 2},
    "accumulation and replicas": {"factor": 2, "replicas": 2},
    "recomputation": {"autoRecomputation": popart.RecomputationType.RecomputeAll},
    "recomputation and accumulation": {"factor": 2, "autoRecomputation": popart.RecomputationType.Standard},
    "pipeline": {"factor": 4, **PIPELINE},
    "pipeline and recomputation": {"factor": 4, "autoRecomputation": popart.RecomputationType.Pipeline, **PIPELINE},
    "pipeline and replicas": {"factor": 4, "replicas": 2, **PIPELINE},
}


def mean_losses(network, precision, program, make=sgd):
    """The mean loss of each update, whose micro-batches are full batches of the data."""
    options = PROGRAMS[program] if program else {}
    lead = [options[key] for key in ("factor", "replicas") if key in options]
    session, loss = session_of(network, precision, make(), anchors=(), **options)
    ready(session, 7)
    anchors, result = session.initAnchorArrays(), []
    x, labels = data(network)
    for i in range(STEPS):
        at = (i + np.arange(np.prod(lead, dtype=int))) % STEPS
        batch = {"x": x[at], "labels": labels[at]}
        session.run(popart.PyStepIO({k: v.reshape(*lead, *v.shape[1:]) for k, v in batch.items()}, anchors))
        result.append(float(np.mean(anchors[loss])))
    return np.array(result)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_losses_follow_in_every_program(program, network, precision):
    expected = mean_losses(network, "", program, adam)
    found = mean_losses(network, precision, program, adam)
    assert not np.array_equal(found, expected)
    np.testing.assert_allclose(found, expected, rtol=BOUND[precision])


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
@pytest.mark.parametrize("network", [Perceptron, Convolutional])
@pytest.mark.parametrize(
    ("program", "same"),
    [("recomputation", None), ("recomputation and accumulation", "accumulation"),
     ("pipeline and recomputation", "pipeline")],
)  # fmt: skip
def test_recomputation_gives_the_same_bits(program, same, network, precision):
    """Attention is another kernel where it is computed again, which rounds its scores no more than once."""
    np.testing.assert_array_equal(mean_losses(network, precision, program), mean_losses(network, precision, same))
