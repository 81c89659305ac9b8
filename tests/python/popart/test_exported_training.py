"""Models of the torch.export exporter train their parameters, not the numbers of the program (decisions/0078)."""

import copy
import tempfile
from pathlib import Path

import numpy as np
import popart
import pytest
import torch
from torch import nn
from torch.nn import functional

import onnx
from onnx import numpy_helper

pytest.importorskip("onnxscript")
SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"
STEPS, RATE = 4, 0.01


class Attention(nn.Module):
    """Weights stored transposed; a scale, an exponent and a mask are initializers."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(8, 24)
        self.out = nn.Linear(8, 8, bias=False)

    def forward(self, x):
        q, k, v = self.project(x).view(2, 5, 3, 2, 4).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return ((self.out(y.transpose(1, 2).reshape(2, 5, 8)) * 0.5) ** 2).mean()


class Normed(nn.Module):
    """Scale and shift of the group norm are stored reshaped, beside the ones and zeros of its inner normalization."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 6, 3, padding=1)
        self.norm = nn.GroupNorm(3, 6)
        self.temperature = nn.Parameter(torch.tensor(0.7))
        self.register_buffer("offset", torch.linspace(-1, 1, 6).reshape(6, 1, 1))

    def forward(self, x):
        y = functional.silu(self.norm(self.conv(x))) * self.temperature + self.offset
        return (y * y).mean()


def exported(module, x):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        torch.onnx.export(module, (x,), str(path), dynamo=True, verbose=False, external_data=False)
        return onnx.load(path)


def trainer(model):
    """A session for a model with one input and a scalar output, and its loss."""
    builder = popart.Builder(model.SerializeToString())
    loss = builder.aiGraphcore.identityloss(builder.getOutputTensorIds())
    return session_of(builder.getModelProto(), loss), loss


def session_of(model, loss):
    session = popart.TrainingSession(
        fnModel=model,
        dataFlow=popart.DataFlow(1, [loss]),
        loss=loss,
        optimizer=popart.SGD({"defaultLearningRate": (RATE, False), "defaultMomentum": (0.9, True)}),
        deviceInfo=popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    session.weightsFromHost()
    return session


def losses_of(session, loss, name, x):
    anchors = session.initAnchorArrays()
    values = []
    for _ in range(STEPS):
        session.run(popart.PyStepIO({name: x.numpy()}, anchors))
        values.append(float(anchors[loss]))
    return values


def peer_losses(module, x):
    module = copy.deepcopy(module)
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE, momentum=0.9)
    values = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        value = module(x)
        value.backward()
        optimizer.step()
        values.append(value.item())
    return values


def older_signature(text):
    """The metadata as PyTorch 2.5 prints it."""
    specs = [line.split(": PARAMETER target=") for line in text.splitlines() if ": PARAMETER " in line]
    inner = ", ".join(
        f"InputSpec(kind=<InputKind.PARAMETER: 2>, arg=TensorArgument(name='{name}'), target={target}, persistent=None)"
        for name, target in specs
    )
    return f"ExportGraphSignature(input_specs=[{inner}], output_specs=[])"


@pytest.mark.parametrize("form", ["as_exported", "older_signature"])
@pytest.mark.parametrize(("module", "shape"), [(Attention, (2, 5, 8)), (Normed, (2, 2, 5, 4))])
def test_training_follows_pytorch(module, shape, form):
    torch.manual_seed(0)
    network, x = module(), torch.randn(*shape)
    model = exported(network, x)
    (signature,) = [entry for entry in model.graph.metadata_props if entry.key == SIGNATURE]
    if form == "older_signature":
        signature.value = older_signature(signature.value)
    session, loss = trainer(model)
    losses = losses_of(session, loss, model.graph.input[0].name, x)
    np.testing.assert_allclose(losses, peer_losses(network, x), rtol=1e-5)
    assert losses[-1] < losses[0]


def test_numbers_keep_their_values_and_weights_go_back_and_forth(tmp_path):
    torch.manual_seed(0)
    network, x = Normed(), torch.randn(2, 2, 5, 4)
    model = exported(network, x)
    session, loss = trainer(model)
    name = model.graph.input[0].name
    losses_of(session, loss, name, x)
    session.modelToHost(str(tmp_path / "trained.onnx"))
    before = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    after = {t.name: numpy_helper.to_array(t) for t in onnx.load(tmp_path / "trained.onnx").graph.initializer}
    changed = {key for key, value in before.items() if not np.array_equal(value, after[key])}
    assert {"conv.weight", "conv.bias", "temperature"} <= changed
    assert "offset" in before and "offset" not in changed
    assert len(changed) == len(list(network.parameters()))

    first = losses_of(session, loss, name, x)
    resumed = session_of(str(tmp_path / "trained.onnx"), loss)
    np.testing.assert_array_equal(losses_of(resumed, loss, name, x), first)

    session.resetHostWeights(str(tmp_path / "trained.onnx"))
    session.weightsFromHost()
    np.testing.assert_array_equal(losses_of(session, loss, name, x), first)


def test_without_metadata_the_operands_decide():
    torch.manual_seed(0)
    network, x = Attention(), torch.randn(2, 5, 8)
    model = exported(network, x)
    del model.graph.metadata_props[:]
    for value in model.graph.value_info:
        del value.metadata_props[:]
    session, loss = trainer(model)
    losses = losses_of(session, loss, model.graph.input[0].name, x)
    np.testing.assert_allclose(losses, peer_losses(network, x), rtol=1e-5)


class Tied(nn.Module):
    """One parameter read as a table and, transposed, as a matrix."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 4)

    def forward(self, ids):
        return functional.linear(torch.tanh(self.table(ids)), self.table.weight).square().mean()


def test_a_parameter_stored_twice_stays_one(tmp_path):
    torch.manual_seed(0)
    network, ids = Tied(), torch.tensor([[0, 3, 3]])
    model = exported(network, ids)
    values = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    (copy_name,) = [name for name, value in values.items() if value.shape == (4, 5)]
    session, loss = trainer(model)
    name = model.graph.input[0].name
    np.testing.assert_allclose(losses_of(session, loss, name, ids), peer_losses(network, ids), rtol=1e-5)

    session.modelToHost(str(tmp_path / "trained.onnx"))
    first = losses_of(session, loss, name, ids)
    after = {t.name: numpy_helper.to_array(t) for t in onnx.load(tmp_path / "trained.onnx").graph.initializer}
    assert not np.array_equal(after["table.weight"], values["table.weight"])
    np.testing.assert_array_equal(after[copy_name], after["table.weight"].T)
    resumed = session_of(str(tmp_path / "trained.onnx"), loss)
    np.testing.assert_array_equal(losses_of(resumed, loss, name, ids), first)
    session.resetHostWeights(str(tmp_path / "trained.onnx"))
    session.weightsFromHost()
    np.testing.assert_array_equal(losses_of(session, loss, name, ids), first)
