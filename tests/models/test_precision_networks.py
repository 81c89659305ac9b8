"""Option precision on smaller networks of the benchmarks: losses follow the FLOAT run, and memory is less."""

import io
import re
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


def resnet18(_length):
    """ResNet-18 for images of 32x32 with five classes."""
    return torchvision.models.resnet18(weights=None, num_classes=5)


def gpt(length):
    """Two layers of width 48."""
    return networks.gpt(layers=2, width=48, heads=4, context=length)


def bert_tiny(length):
    """Two layers of width 48, with a head over 65 words."""
    return networks.Transformer(2, 48, 4, 192, length, CLASSES, causal=False, head=True)


NETWORKS = {"gpt": gpt, "resnet18": resnet18, "bert_tiny": bert_tiny}
OPTIMIZERS = {
    "gpt": lambda: popart.optim.AdamW(lr=1e-3, weight_decay=0.01),
    "resnet18": lambda: popart.optim.SGD(lr=2e-4, momentum=0.9),
    "bert_tiny": lambda: popart.optim.Adam(lr=1e-3),
}
# Largest difference of a loss from the FLOAT run's, as a share of the first loss. FLOAT16: an update that overflows
# while the loss scale is sought is left out, and the run is one update behind. ResNet-18: batch norms over 8 samples of
# one pixel divide by small deviations, in 20 layers.
BOUND = {
    ("gpt", "bfloat16"): 5e-4,
    ("gpt", "float16"): 3e-2,
    ("bert_tiny", "bfloat16"): 5e-4,
    ("bert_tiny", "float16"): 3e-2,
    ("resnet18", "bfloat16"): 1.5e-1,
    ("resnet18", "float16"): 2e-1,
}


# Samples and length of sequences so that activations take most of the memory, and the largest share of the FLOAT run's.
MEMORY_SIZES = {"gpt": (32, 64), "resnet18": (512, 1), "bert_tiny": (32, 64)}
MEMORY = {"gpt": 0.6, "resnet18": 0.68, "bert_tiny": 0.6}


class Flat(torch.nn.Module):
    """The network with one row of logits per label."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network(x).flatten(0, -2)


def data_of(name, batch=BATCH, length=LENGTH):
    """Inputs and labels of each update: images with a pattern of their class, words that follow by a rule."""
    rng = np.random.default_rng(4)
    if name == "resnet18":
        labels = rng.integers(0, 5, (STEPS, batch)).astype(np.int32)
        patterns = rng.normal(size=(5, 3, 32, 32))
        return (patterns[labels] + rng.normal(size=(STEPS, batch, 3, 32, 32))).astype(np.float32), labels
    sequences = [rng.integers(0, CLASSES, (STEPS, batch))]
    for _ in range(length):
        sequences.append((sequences[-1] * 3 + 1) % CLASSES)
    words = np.stack(sequences, -1).astype(np.int32)
    return words[..., :-1].copy(), words[..., 1:].reshape(STEPS, -1).copy()


def model_of(name, batch=BATCH, length=LENGTH):
    torch.manual_seed(0)
    x, labels = data_of(name, batch, length)
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Flat(NETWORKS[name](length)).train(), (torch.from_numpy(x[0]),), file, dynamo=False, opset_version=17,
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
        session.run(popart.PyStepIO({"x": x[i], "labels": labels[i]}, anchors))
        result.append(float(anchors[loss]))
    return np.array(result)


@pytest.mark.parametrize("name", NETWORKS)
def test_losses_follow_the_float_run(name):
    expected = losses(name, "")
    assert expected[-4:].mean() < expected[:4].mean()
    for precision in ("bfloat16", "float16"):
        found = losses(name, precision)
        assert not np.array_equal(found, expected)
        bound = BOUND[name, precision] * expected[0]
        np.testing.assert_allclose(found, expected, rtol=0, atol=bound, err_msg=precision)


def planned_bytes(name, precision):
    """What the session plans to hold on the device: weights, optimizer state, activations."""
    proto, loss = model_of(name, *MEMORY_SIZES[name])
    session = ready(training_session(proto, loss, OPTIMIZERS[name](), options_with(precision=precision)))
    return int(re.search(r"total: (\d+) bytes", session.getSummaryReport())[1])


@pytest.mark.parametrize("name", NETWORKS)
def test_activations_take_about_half_of_the_memory(name):
    assert planned_bytes(name, "bfloat16") <= MEMORY[name] * planned_bytes(name, "")
