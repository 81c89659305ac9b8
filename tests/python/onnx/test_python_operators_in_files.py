"""Operators of Python (`popxl.define_op`) in files that PyTorch exported with a domain of their own."""

import io
import warnings

import numpy as np
import popart
import popxl
import pytest
import torch

import onnx
from tests.python.popart.training_runs import ready, training_session

DOMAIN, BATCH, CLASSES = "tests.files", 6, 3
CLOSE = {"rtol": 2e-5, "atol": 2e-6}


class Bend(torch.autograd.Function):
    """Slope below zero, written to a file as one node."""

    @staticmethod
    def forward(ctx, x, slope):
        ctx.save_for_backward(x)
        ctx.slope = slope
        return torch.where(x > 0, x, slope * x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return torch.where(x > 0, g, ctx.slope * g), None

    @staticmethod
    def symbolic(g, x, slope):
        return g.op(f"{DOMAIN}::Bend", x, slope_f=slope).setType(x.type())


class Turn(torch.autograd.Function):
    """Cosine and sine of x, scaled by a parameter: two results and two gradients."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return w * torch.cos(x), w * torch.sin(x)

    @staticmethod
    def backward(ctx, g, h):
        x, w = ctx.saved_tensors
        return w * (h * torch.cos(x) - g * torch.sin(x)), (g * torch.cos(x) + h * torch.sin(x)).sum(0)

    @staticmethod
    def symbolic(g, x, w):
        first, second = g.op(f"{DOMAIN}::Turn", x, w, outputs=2)
        return first.setType(x.type()), second.setType(x.type())


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(5, 4), torch.nn.Linear(8, CLASSES)
        self.scale = torch.nn.Parameter(torch.linspace(0.5, 2.0, 4))

    def forward(self, x):
        return self.last(torch.cat(Turn.apply(Bend.apply(self.first(x), 0.25), self.scale), 1))


def define(framework="numpy"):
    if framework == "torch":
        popxl.define_op("Bend", lambda x, slope: torch.where(x > 0, x, slope * x), domain=DOMAIN, framework="torch")
        popxl.define_op(
            "Turn", lambda x, w: [w * torch.cos(x), w * torch.sin(x)], shapes=lambda x, w: [x, x], domain=DOMAIN,
            framework="torch",
        )  # fmt: skip
        return
    popxl.define_op(
        "Bend",
        lambda x, slope: np.where(x > 0, x, np.float32(slope) * x),
        lambda g, x, slope: np.where(x > 0, g, np.float32(slope) * g),
        domain=DOMAIN,
    )
    popxl.define_op(
        "Turn",
        lambda x, w: [w * np.cos(x), w * np.sin(x)],
        lambda g, h, x, w: [w * (h * np.cos(x) - g * np.sin(x)), (g * np.cos(x) + h * np.sin(x)).sum(0)],
        shapes=lambda x, w: [x, x],
        domain=DOMAIN,
    )


def exported(module):
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module, (torch.zeros(BATCH, 5),), file, dynamo=False, opset_version=17, input_names=["x"],
            output_names=["logits"], training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
            custom_opsets={DOMAIN: 1},
        )  # fmt: skip
    nodes = {node.op_type: node.domain for node in onnx.load_from_string(file.getvalue()).graph.node}
    assert nodes["Bend"] == nodes["Turn"] == DOMAIN
    return file.getvalue()


def data(steps):
    rng = np.random.default_rng(12)
    x = rng.normal(size=(steps, BATCH, 5)).astype(np.float32)
    return x, rng.integers(0, CLASSES, (steps, BATCH)).astype(np.int32)


def network():
    torch.manual_seed(2)
    return Network()


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_such_a_file_infers_as_pytorch(framework):
    define(framework)
    module = network()
    x, _ = data(1)
    found = popart.load(exported(module))(x[0])
    np.testing.assert_allclose(found, module(torch.tensor(x[0])).detach(), **CLOSE)


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_such_a_file_trains_as_pytorch(framework):
    define(framework)
    module = network()
    builder = popart.Builder(exported(module))
    labels = builder.addInputTensor("INT32", [BATCH], "labels")
    loss = popart.losses.cross_entropy(builder, "logits", labels)
    rate = popart.SGD({"defaultLearningRate": (0.2, False), "defaultMomentum": (0.9, True)})
    session = ready(training_session(builder.getModelProto(), loss, rate))
    names = {name for name, _ in module.named_parameters()}
    assert {t.name for t in session.trainableTensors() if t.trains} == names
    theirs = torch.optim.SGD(module.parameters(), 0.2, momentum=0.9)
    anchors, (x, y) = session.initAnchorArrays(), data(5)
    for i in range(5):
        session.run(popart.PyStepIO({"x": x[i], "labels": y[i]}, anchors))
        theirs.zero_grad()
        expected = torch.nn.functional.cross_entropy(module(torch.tensor(x[i])), torch.tensor(y[i]).long())
        expected.backward()
        theirs.step()
        np.testing.assert_allclose(anchors[loss], expected.detach(), **CLOSE)
    found = {name: np.empty(tuple(p.shape), np.float32) for name, p in module.named_parameters()}
    session.weightsToHost()
    session.readWeights(popart.PyWeightsIO(found))
    for name, parameter in module.named_parameters():
        np.testing.assert_allclose(found[name], parameter.detach(), **CLOSE, err_msg=name)


def test_the_trained_file_is_read_again(tmp_path):
    define()
    module = network()
    trainer = popart.Trainer(exported(module), loss="cross_entropy", optimizer=popart.optim.SGD(lr=0.1))
    x, y = data(2)
    trainer.step((x[0], y[0]))
    path = str(tmp_path / "tuned.onnx")
    trainer.save(path)
    domains = {node.op_type: node.domain for node in onnx.load(path).graph.node}
    assert domains["Bend"] == domains["Turn"] == DOMAIN
    assert {o.domain: o.version for o in onnx.load(path).opset_import}[DOMAIN] == 1
    np.testing.assert_allclose(popart.load(path)(x[1]), trainer.predict(x[1]), **CLOSE)


def test_an_operator_that_is_not_defined_is_named():
    module = network()
    model = exported(module).replace(b"tests.files", b"tests.filez")
    with pytest.raises(popart.popart_exception, match=r"tests\.filez"):
        popart.load(model)(data(1)[0][0])
