"""Option precision on the networks of the benchmarks, smaller: losses of 20 updates follow those of the FLOAT run."""

import io
import sys
import warnings
from pathlib import Path

import numpy as np
import popart
import pytest
import torch

from tests.python.popart.training_runs import options_with, ready, training_session

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
pytest.importorskip("torchvision")
import networks
import torchvision

pytestmark = pytest.mark.models
BATCH, LENGTH, CLASSES, STEPS = 8, 16, 65, 20


def resnet18():
    """ResNet-18 for images of 32x32 with five classes."""
    return torchvision.models.resnet18(weights=None, num_classes=5)


def gpt():
    """Two layers of width 48."""
    return networks.gpt(layers=2, width=48, heads=4, context=LENGTH)


def bert_tiny():
    """Two layers of width 48, with a head over 65 words."""
    return networks.Transformer(2, 48, 4, 192, LENGTH, CLASSES, causal=False, head=True)


NETWORKS = {"gpt": gpt, "resnet18": resnet18, "bert_tiny": bert_tiny}
OPTIMIZERS = {
    "gpt": lambda: popart.optim.AdamW(lr=1e-3, weight_decay=0.01),
    "resnet18": lambda: popart.optim.SGD(lr=1e-3, momentum=0.9),
    "bert_tiny": lambda: popart.optim.Adam(lr=1e-3),
}
# Largest difference of a loss from that of the FLOAT run, as a share of the first loss. ResNet-18: batch norms over 8
# samples of one pixel divide by small deviations in 20 layers, and a batch is learned by heart in five updates.
BOUND = {
    ("gpt", "bfloat16"): 5e-4,
    ("gpt", "float16"): 2e-4,
    ("bert_tiny", "bfloat16"): 5e-4,
    ("bert_tiny", "float16"): 2e-4,
    ("resnet18", "bfloat16"): 1e-1,
    ("resnet18", "float16"): 3e-2,
}


class Flat(torch.nn.Module):
    """The network with one row of logits per label."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network(x).flatten(0, -2)


def data_of(name):
    """Inputs and labels of each batch; each is trained five times, so that the loss falls."""
    rng = np.random.default_rng(4)
    batches = STEPS // 5
    if name == "resnet18":
        x = rng.normal(size=(batches, BATCH, 3, 32, 32)).astype(np.float32)
        return x, rng.integers(0, 5, (batches, BATCH)).astype(np.int32)
    tokens = rng.integers(0, CLASSES, (batches, BATCH, LENGTH + 1)).astype(np.int32)
    return tokens[..., :-1].copy(), tokens[..., 1:].reshape(batches, -1).copy()


def model_of(name):
    torch.manual_seed(0)
    x, labels = data_of(name)
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Flat(NETWORKS[name]()).train(), (torch.from_numpy(x[0]),), file, dynamo=False, opset_version=17,
            input_names=["x"], output_names=["logits"], training=torch.onnx.TrainingMode.TRAINING,
            do_constant_folding=False,
        )  # fmt: skip
    builder = popart.Builder(file.getvalue())
    given = builder.addInputTensor("INT32", list(labels[0].shape), "labels")
    loss = popart.losses.cross_entropy(builder, "logits", given)
    return builder.getModelProto(), loss


def losses(name, precision):
    proto, loss = model_of(name)
    session = ready(training_session(proto, loss, OPTIMIZERS[name](), options_with(precision=precision)), 7)
    anchors, result = session.initAnchorArrays(), []
    x, labels = data_of(name)
    for i in range(STEPS):
        session.run(popart.PyStepIO({"x": x[i // 5], "labels": labels[i // 5]}, anchors))
        result.append(float(anchors[loss]))
    return np.array(result)


@pytest.mark.parametrize("name", NETWORKS)
def test_losses_follow_the_float_run(name):
    expected = losses(name, "")
    assert expected[4] < expected[0]  # five updates with one batch
    for precision in ("bfloat16", "float16"):
        found = losses(name, precision)
        assert not np.array_equal(found, expected)
        bound = BOUND[name, precision] * expected[0]
        np.testing.assert_allclose(found, expected, rtol=0, atol=bound, err_msg=precision)
