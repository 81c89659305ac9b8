"""examples/demo.py: complete outputs on few images, and PyTorch's accuracy on all of them."""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from tests.models.examples import load_example

ROOT = Path(__file__).resolve().parents[2]
SEEDS = range(5)

pytestmark = pytest.mark.models

demo = load_example("demo")
import popart.data  # noqa: E402

needs_images = pytest.mark.skipif(not demo.FASHION_MNIST.is_dir(), reason="needs Debian's dataset-fashion-mnist")


def arguments(out, seed=0, images=None):
    """Arguments as the command line gives them."""
    return argparse.Namespace(data=None, images=images, epochs=1, seed=seed, device="cpu", out=out)


def train_in_torch(seed, images=None):
    """Test accuracy of the demo's network in PyTorch: same weights, same data, same order."""
    train, test = (popart.data.load_images(demo.FASHION_MNIST, part) for part in ("train", "test"))
    if images:
        train, test = train.first(images), test.first(images)
    norm = popart.data.Normalisation.of(train.images)
    layers = []
    for name, value in demo.initial_weights(seed).items():
        if name.endswith("weight"):
            layers += [torch.nn.Linear(*value.shape), torch.nn.GELU(approximate="tanh")]
            layers[-2].weight.data = torch.tensor(value.T).contiguous()
        else:
            layers[-2].bias.data = torch.tensor(value)
    net = torch.nn.Sequential(torch.nn.Flatten(), *layers[:-1])
    optimizer = torch.optim.SGD(net.parameters(), lr=demo.LEARNING_RATE)
    losses = []
    for batch, labels in popart.data.Batches(train, demo.TRAIN_BATCH, seed=seed, normalisation=norm).epoch(0):
        loss = torch.nn.functional.cross_entropy(net(torch.from_numpy(batch[0])), torch.from_numpy(labels[0]).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    pixels = torch.from_numpy(norm.table()[test.images])
    with torch.no_grad():
        return float((net(pixels).argmax(1).numpy() == test.labels).mean()), np.array(losses)


@needs_images
def test_demo_on_few_images_writes_everything_and_follows_torch(tmp_path):
    results = demo.run(arguments(tmp_path, images=1600))
    accuracy, _ = train_in_torch(0, images=1600)
    assert abs(results["test_accuracy"] - accuracy) <= 0.01
    assert set(results["files"]) == {"model.onnx", "loss.png", "summary.txt"}
    assert Path(results["files"]["loss.png"]).read_bytes().startswith(b"\x89PNG")
    assert f"{100 * results['test_accuracy']:.2f} %" in Path(results["files"]["summary.txt"]).read_text()

    test = popart.data.load_images(demo.FASHION_MNIST, "test").first(1600)
    norm = popart.data.Normalisation.of(popart.data.load_images(demo.FASHION_MNIST, "train").first(1600).images)
    runtime = onnxruntime.InferenceSession(results["files"]["model.onnx"], providers=["CPUExecutionProvider"])
    (probabilities,) = runtime.run(None, {"images": norm.table()[test.images]})
    assert abs(results["test_accuracy"] - (probabilities.argmax(1) == test.labels).mean()) <= 1 / 1600


@needs_images
def test_command_line_writes_json(tmp_path):
    command = [sys.executable, ROOT / "examples" / "demo.py", "--images", "400", "--json", tmp_path / "figures.json"]
    result = subprocess.run([*map(str, command), "--out", str(tmp_path)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    figures = json.loads((tmp_path / "figures.json").read_text())
    for key in ("test_accuracy", "train_it_per_s", "train_step_it_per_s", "validate_it_per_s"):
        assert figures[key] > 0, key
    assert figures["train_step_it_per_s"] >= figures["train_it_per_s"]
    assert all(Path(name).is_file() for name in figures["files"].values())


def test_missing_folder_says_where_images_come_from(tmp_path):
    command = [sys.executable, ROOT / "examples" / "demo.py", "--data", tmp_path / "absent"]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert result.returncode != 0
    assert "--data DIR" in result.stderr
    assert "Traceback" not in result.stderr


@needs_images
@pytest.mark.slow
def test_accuracy_equals_torch_over_five_seeds(tmp_path):
    ours = [demo.run(arguments(tmp_path / str(seed), seed))["test_accuracy"] for seed in SEEDS]
    theirs = [train_in_torch(seed)[0] for seed in SEEDS]
    assert abs(statistics.mean(ours) - statistics.mean(theirs)) <= 0.005, (ours, theirs)
