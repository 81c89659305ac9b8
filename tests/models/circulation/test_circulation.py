"""Networks in circulation: inference equal to ONNX Runtime, and of each family one that trains as PyTorch does.

No operator of theirs runs on the reference backend.

The networks are in of_torchvision.py, of_transformers.py and written_out.py. Weights are random, so no value is written
down here.
"""

import numpy as np
import onnxruntime
import popart
import popart.backend
import pytest
import torch
from torch.nn import functional

import onnx
from tests.inference import on_reference, prepare, run_once
from tests.models.circulation import of_torchvision, of_transformers, written_out
from tests.models.circulation.exporting import FORMS, Form, export
from tests.models.circulation.network import Flat

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore")]
NETWORKS = written_out.NETWORKS | of_transformers.NETWORKS | of_torchvision.NETWORKS
TRAINED = {name: network for name, network in NETWORKS.items() if network.trains}
USUAL = Form(False, 17)
FORMS_OF_TRAINED = [Form(False, 11), USUAL, Form(True, 24)]
# Networks of up to sixty layers, each of which sums in another order than ONNX Runtime; relative to the largest value
# of an output, because single values are sums that cancel.
ORDER_OF_SUMMATION = 2e-5
# A difference of rounding grows by a small factor in every step of training; 20 steps stay far below this.
ORDER_OVER_STEPS = 1e-4
# Each draws a number or two for a whole step: the only operators that may run on the reference.
SEEDS = ("GetRandomSeed", "ModifyRandomSeed")
STEPS = 20
RATE = 0.02


def cases():
    """Every network in every form; always run are one form of the small ones and three of those that train."""
    for name, network in NETWORKS.items():
        for form in FORMS:
            if form.opset < network.oldest:
                continue
            often = FORMS_OF_TRAINED if network.trains else [USUAL]
            slow = network.slow or form not in often
            yield pytest.param(name, form, id=f"{name}-{form}", marks=[pytest.mark.slow] if slow else [])


def made(name):
    """A network for inference and its inputs."""
    torch.manual_seed(0)
    return Flat(NETWORKS[name].make()).eval(), NETWORKS[name].inputs()


def compare(ours, theirs, name):
    """Assert equal types and shapes, and values equal up to the order of summation."""
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), name
    largest = np.abs(theirs).max(initial=0)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=ORDER_OF_SUMMATION * largest, err_msg=name)


@pytest.mark.parametrize("name, form", list(cases()))
def test_inference_equals_onnx_runtime(name, form):
    network, inputs = made(name)
    model = export(network, inputs, form)
    peer = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    arrays = [x.numpy() for x in inputs]
    feeds = {value.name: arrays[int(value.name.removeprefix("in"))] for value in peer.get_inputs()}
    names = [value.name for value in peer.get_outputs()]
    session = prepare(model, names)
    assert not on_reference(session)
    for output, ours, theirs in zip(names, run_once(session, feeds, names), peer.run(None, feeds), strict=True):
        compare(ours, theirs, output)


@pytest.mark.parametrize("name", TRAINED)
def test_backend_equals_onnx_runtime(name):
    network, inputs = made(name)
    model = export(network, inputs, USUAL)
    peer = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    feeds = {value.name: inputs[int(value.name.removeprefix("in"))].numpy() for value in peer.get_inputs()}
    outputs = popart.backend.prepare(onnx.load_from_string(model), "CPU").run(list(feeds.values()))
    for value, ours, theirs in zip(peer.get_outputs(), outputs, peer.run(None, feeds), strict=True):
        compare(ours, theirs, value.name)


class Loss(torch.nn.Module):
    """A network with its loss, as users export it for training: the last inputs are the targets of its outputs."""

    def __init__(self, network, kind):
        super().__init__()
        self.network = network
        self.kind = kind

    def forward(self, *inputs):
        # A target is asked for by each output; the network takes what is before.
        outputs = self.network(*inputs[: len(inputs) - self.targets])
        return sum(self.one(*pair) for pair in zip(outputs, inputs[len(inputs) - self.targets :], strict=True))

    def one(self, output, target):
        if self.kind == "squares":
            return functional.mse_loss(output, target)
        if self.kind == "planes":
            output = output.movedim(1, -1)
        return functional.cross_entropy(output.reshape(-1, output.shape[-1]), target)

    def draw(self, outputs):
        """Random targets for outputs of these shapes."""
        self.targets = len(outputs)
        if self.kind == "squares":
            return tuple(torch.randn(output.shape) for output in outputs)
        axis = 1 if self.kind == "planes" else -1
        return tuple(torch.randint(x.shape[axis], (x.numel() // x.shape[axis],)) for x in outputs)


def batches_of(network, name):
    """The batches of all steps, each with targets."""
    samples = [NETWORKS[name].inputs() for _ in range(STEPS)]
    with torch.no_grad():
        outputs = network.network(*samples[0])
    return [(*sample, *network.draw(outputs)) for sample in samples]


def our_losses(model, batches):
    """Losses of a training session on the batches."""
    session = popart.TrainingSession(
        model,
        popart.DataFlow(STEPS, ["loss"]),
        "loss",
        popart.ConstSGD(RATE),
        popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    assert not [op for op in on_reference(session) if not op.startswith(SEEDS)]
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    feeds = {f"in{i}": np.stack([x.numpy() for x in column]) for i, column in enumerate(zip(*batches))}
    session.run(popart.PyStepIO(feeds, anchors))
    return anchors["loss"].copy()


def their_losses(network, batches):
    """Losses of PyTorch on the batches."""
    optimizer = torch.optim.SGD(network.parameters(), lr=RATE)
    losses = []
    for batch in batches:
        loss = network(*batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


@pytest.mark.parametrize("name", TRAINED)
def test_training_follows_torch(name):
    torch.manual_seed(1)
    network = Loss(Flat(NETWORKS[name].make()), NETWORKS[name].trains).train()
    batches = batches_of(network, name)
    model = export(network, batches[0], USUAL, training=True)
    ours = our_losses(model, batches)
    np.testing.assert_allclose(ours, their_losses(network, batches), rtol=ORDER_OVER_STEPS)
