"""The programs in the older style print what they promise, with every way of spreading the work."""

import importlib.util
import re
import sys

import numpy as np
import onnxruntime
import pytest

import onnx
from tests.examples.test_python_examples import EXAMPLES, numbers_after, run

MNIST = ("--epochs", 2, "--images", 2000, "--micro-batch-size", 5)


def epochs(printed):
    """Training loss, validation loss and accuracy of each epoch."""
    found = re.findall(r"Training loss=([\d.]+), .*\n +Loss=([\d.]+)\n +Accuracy=([\d.]+)%", printed)
    return np.array(found, dtype=float)


@pytest.fixture(scope="module")
def plain_mnist(tmp_path_factory):
    """The plain program, which learns; 8 micro-batches per update stand for one of all their images."""
    printed = run("mnist.py", tmp_path_factory.mktemp("mnist"), *MNIST, "--gradient-accumulation", 8)
    assert printed.count("Epoch #") == 2
    assert len(re.findall(r"Throughput=\d+ images/s", printed)) == 2
    found = epochs(printed)
    assert found[1, 0] < 0.5 * found[0, 0] and found[1, 2] > 80
    return found


@pytest.mark.parametrize(
    "words",
    [
        "--num-shards 4 --gradient-accumulation 8",
        "--num-shards 2 --pipeline --gradient-accumulation 8 --recompute Pipeline --simulation",
        "--replication-factor 2 --gradient-accumulation 4 --recompute Standard",
        "--replication-factor 2 --num-shards 2 --pipeline --gradient-accumulation 4",
    ],
)
def test_mnist_learns_the_same_however_it_is_spread(tmp_path, plain_mnist, words):
    printed = run("mnist.py", tmp_path, *MNIST, *words.split())
    np.testing.assert_allclose(epochs(printed), plain_mnist, atol=2e-3)


def test_mnist_trains_on_files(tmp_path):
    rng = np.random.default_rng(0)
    for part, count in (("train", 400), ("t10k", 200)):
        labels = rng.integers(0, 10, count, dtype=np.uint8)
        images = (labels[:, None, None] * 20 + rng.integers(0, 9, (count, 28, 28))).astype(np.uint8)
        header = bytes((0, 0, 8, 3)) + np.array(images.shape, ">u4").tobytes()
        (tmp_path / f"{part}-images-idx3-ubyte").write_bytes(header + images.tobytes())
        header = bytes((0, 0, 8, 1)) + np.array(labels.shape, ">u4").tobytes()
        (tmp_path / f"{part}-labels-idx1-ubyte").write_bytes(header + labels.tobytes())
    words = ["--epochs", "2", "--validation-final-epoch", "--data-folder"]
    printed = run("mnist.py", tmp_path, *words, tmp_path)
    assert "Training on 400 images, 2 steps per epoch" in printed
    assert printed.count("Training loss=") == 2 and printed.count("   Loss=") == 1


def test_mnist_without_the_hosts_data_prints_no_losses(tmp_path):
    printed = run("mnist.py", tmp_path, "--epochs", 1, "--syn-data-type", "RandomUniform")
    assert "Throughput=" in printed and "Loss" not in printed and "Accuracy" not in printed


def test_mnist_shows_its_graph(tmp_path, monkeypatch):
    monkeypatch.setenv("POPART_LOG_DEST", "stdout")
    printed = run("mnist.py", tmp_path, "--epochs", 1, "--log-graph-trace")
    assert re.search(r"popart:ir .* T: .*layer0/weight", printed)


@pytest.mark.parametrize("words", ["", "--prefetch 0", "--replicas 2 --accumulation 3 --prefetch 2"])
def test_callbacks_train_as_arrays_do(tmp_path, words):
    printed = run("callbacks.py", tmp_path, *words.split())
    assert printed.count("the losses of arrays") == 3 and "OTHER" not in printed


def test_callbacks_are_asked_ahead(tmp_path):
    words = ["--show", "--steps", "1", "--batches-per-step", "4"]
    alone, ahead = (run("callbacks.py", tmp_path, *words, "--prefetch", depth) for depth in (0, 2))
    for printed in (alone, ahead):
        for number in range(4):
            for name in ("data", "label"):
                assert printed.count(f"Input callback called {name}, number {number}") == 1
        assert printed.count("Output complete callback called") == 4
    assert "prefetching" not in alone and "prefetching" in ahead


@pytest.mark.parametrize("words", ["--num-ipus 4", "--num-ipus 4 --sharded"])
def test_several_devices_serve_as_one(tmp_path, words):
    printed = run("multi_device_inference.py", tmp_path, "--requests", 10, *words.split())
    assert "Results are equal" in printed
    served = [int(count) for count in re.findall(r"Device \d+: \d IPUs, (\d+) requests", printed)]
    assert sum(served) == 10 and len(served) == (1 if "--sharded" in words else 4)


@pytest.mark.parametrize("kind", ["conv", "lstm"])
@pytest.mark.parametrize(
    "words", ["", "--half --mode train", "--mode train --syn-data-type RandomNormal --report-hw-cycle-count"]
)
def test_layer_benchmark_prints_its_steps(tmp_path, kind, words):
    printed = run("layer_benchmark.py", tmp_path, kind, "--steps", 2, *words.split())
    assert len(re.findall(r"\d/2  Duration: [\d.]+ ms  [\d.]+ items/sec  [\d.]+ TFLOPS", printed)) == 2
    assert re.search(r"Average: [\d.]+ items/sec", printed)
    assert ("Result: shape" in printed) == ("--syn-data-type" not in words)
    assert (numbers_after("per 'run':", printed) > [0]) == ("--report-hw-cycle-count" in words)


@pytest.mark.parametrize(
    "words",
    [
        "conv",
        "conv --stride 2 --norm-type BATCH --activation-type SIGMOID",
        "lstm --layers 3",
    ],
)
def test_layer_benchmark_computes_what_onnx_says(tmp_path, monkeypatch, words):
    """Its model in ONNX Runtime, without the loss, which ONNX does not know."""
    monkeypatch.setattr(sys, "argv", ["layer_benchmark.py", *words.split()])
    program = load("layer_benchmark")
    options = program.parse()
    made = program.create_model(options)
    model = onnx.load_from_string(made.proto)
    del model.graph.node[-1]
    for node in model.graph.node:
        node.ClearField("name")  # scopes; ONNX Runtime wants them unique
    del model.opset_import[[entry.domain for entry in model.opset_import].index("ai.graphcore")]
    data = np.random.default_rng(1).normal(size=[2, *made.shape]).astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {made.data: data[-1]})
    printed = run("layer_benchmark.py", tmp_path, *words.split())
    assert f"Result: shape {list(expected.shape)}" in printed
    np.testing.assert_allclose(numbers_after("mean", printed), [expected.mean()], atol=1e-5)


def load(name):
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
