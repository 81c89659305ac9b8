"""Networks in circulation give equal numbers with any pass off that may be, in inference and in training."""

import numpy as np
import popart
import pytest
import torch

import onnx
from tests.differential.runs import Program, problems_of
from tests.models.circulation.exporting import Form, export
from tests.models.circulation.network import Flat
from tests.models.circulation.test_circulation import NETWORKS, RATE, TRAINED, Loss, batches_of, made

pytestmark = [pytest.mark.models, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
USUAL, NEWEST = Form(False, 17), Form(True, 24)
# Sums of up to sixty layers, each in another order.
DEEP = 8.0
# Softmax takes no notice of a bias of keys, whose gradient is what rounding leaves of a sum that cancels.
CANCELS = 1e-6


def inference(name, form):
    """The network as a program of its inputs."""
    network, inputs = made(name)
    model = export(network, inputs, form)
    proto = onnx.load_from_string(model)
    feeds = {value.name: inputs[int(value.name.removeprefix("in"))].numpy() for value in proto.graph.input}
    outputs = [value.name for value in proto.graph.output]
    return Program(lambda: (model, None, outputs), feeds, rounding=DEEP, runs=1)


def training(name):
    """Two updates of the network."""
    torch.manual_seed(1)
    network = Loss(Flat(NETWORKS[name].make()), NETWORKS[name].trains).train()
    batch = batches_of(network, name)[0]
    model = export(network, batch, USUAL, training=True)
    feeds = {f"in{i}": np.ascontiguousarray(value.numpy()) for i, value in enumerate(batch)}
    return Program(
        lambda: (model, "loss", []), feeds, lambda: popart.ConstSGD(RATE), rounding=DEEP, floor=CANCELS, batches=2
    )


@pytest.mark.parametrize("form", [USUAL, NEWEST], ids=str)
@pytest.mark.parametrize("name", NETWORKS)
def test_inference(name, form):
    problems, _ = problems_of(inference(name, form))
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", TRAINED)
def test_training(name):
    problems, _ = problems_of(training(name))
    assert not problems, "\n".join(problems)
