"""Trains the tutorial's network on real 28x28 images, validates it and writes what it learned. Run it with ./dev demo.

The network (784-512-512-512-10, GELU in its tanh form) is an ONNX model with an open batch size. A TrainingSession
trains it with batches of 8 and plain gradient descent; the trained weights then go into an ONNX file and from there
into an InferenceSession with batches of 80, which classifies the test images.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import popart
import popart.data
from tqdm import tqdm

import onnx
from onnx import TensorProto, helper, numpy_helper

FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")
SIZES = (784, 512, 512, 512, 10)
WEIGHT_STD = 0.02
TRAIN_BATCH, TEST_BATCH = 8, 80
LEARNING_RATE = 0.05
MAX_BATCHES_PER_STEP = 100


@dataclass
class Timing:
    """Time of a loop over batches.

    Attributes:
        batches: Batches so far.
        total_s: Seconds, with the loading of data.
        session_s: Seconds inside ``session.run`` alone.
    """

    batches: int = 0
    total_s: float = 0.0
    session_s: float = 0.0
    started: float = field(default_factory=time.perf_counter)

    def add(self, session_s: float, batches: int) -> None:
        """Count one step."""
        self.batches += batches
        self.session_s += session_s
        self.total_s = time.perf_counter() - self.started

    @property
    def per_s(self) -> float:
        """Batches per second with data loading."""
        return self.batches / self.total_s

    @property
    def session_per_s(self) -> float:
        """Batches per second without data loading."""
        return self.batches / self.session_s


def initial_weights(seed: int) -> dict[str, np.ndarray]:
    """Weights N(0, 0.02) of shape ``(in, out)`` and zero biases ``(out,)`` by name."""
    rng = np.random.default_rng(seed)
    weights = {}
    for layer, (rows, columns) in enumerate(pairwise(SIZES), start=1):
        weights[f"fc{layer}.weight"] = rng.normal(0, WEIGHT_STD, (rows, columns)).astype(np.float32)
        weights[f"fc{layer}.bias"] = np.zeros(columns, np.float32)
    return weights


def network(weights: dict[str, np.ndarray], image_shape: tuple[int, int]) -> onnx.ModelProto:
    """The classifier as an ONNX model: ``images (N, H, W)`` to ``logits (N, 10)``, with any N."""
    nodes = [helper.make_node("Reshape", ["images", "pixels"], ["layer1"])]
    constants = [numpy_helper.from_array(np.array([-1, SIZES[0]]), "pixels")]
    layers = len(SIZES) - 1
    for layer in range(1, layers + 1):
        nodes.append(helper.make_node("MatMul", [f"layer{layer}", f"fc{layer}.weight"], [f"product{layer}"]))
        sums = f"sum{layer}" if layer < layers else "logits"
        nodes.append(helper.make_node("Add", [f"product{layer}", f"fc{layer}.bias"], [sums]))
        if layer < layers:
            nodes.append(helper.make_node("Gelu", [sums], [f"layer{layer + 1}"], approximate="tanh"))
    images = helper.make_tensor_value_info("images", TensorProto.FLOAT, ["N", *image_shape])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", SIZES[-1]])
    tensors = constants + [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "classifier", [images], [logits], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    return model


def image_shapes(batch_size: int, image_shape: tuple[int, int]) -> popart.InputShapeInfo:
    """Fixes the open batch size of the model."""
    shapes = popart.InputShapeInfo()
    shapes.add("images", popart.TensorInfo("FLOAT", [batch_size, *image_shape]))
    return shapes


def make_device(name: str) -> popart.DeviceInfo:
    """The device that ``--device`` names."""
    manager = popart.DeviceManager()
    return manager.createCpuDevice() if name == "cpu" else manager.createIpuModelDevice({})


def training_session(
    model: onnx.ModelProto, batches_per_step: int, image_shape: tuple[int, int], device: str
) -> tuple[popart.TrainingSession, str]:
    """Compile the training program; returns the session and the id of its loss."""
    builder = popart.Builder(model.SerializeToString())
    labels = builder.addInputTensor("INT32", [TRAIN_BATCH], "labels")
    loss = popart.losses.cross_entropy(builder, "logits", labels)
    session = popart.TrainingSession(
        builder.getModelProto(),
        dataFlow=popart.DataFlow(batches_per_step, {loss: popart.AnchorReturnType("All")}),
        loss=loss,
        optimizer=popart.SGD({"defaultLearningRate": (LEARNING_RATE, True)}),
        inputShapeInfo=image_shapes(TRAIN_BATCH, image_shape),
        deviceInfo=make_device(device),
    )
    session.prepareDevice()
    session.weightsFromHost()
    return session, loss


def train(
    session: popart.TrainingSession, loss: str, batches: popart.data.Batches, epochs: int
) -> tuple[np.ndarray, Timing]:
    """Train; returns the loss of every batch and the timing."""
    anchors = session.initAnchorArrays()
    losses = []
    timing = Timing()
    for epoch in range(epochs):
        with tqdm(total=len(batches) * anchors[loss].size, unit="it", desc=f"epoch {epoch + 1}/{epochs}") as bar:
            for images, labels in batches.epoch(epoch):
                start = time.perf_counter()
                session.run(popart.PyStepIO({"images": images, "labels": labels}, anchors))
                timing.add(time.perf_counter() - start, len(labels))
                losses.append(anchors[loss].reshape(-1).copy())
                bar.update(len(labels))
                bar.set_postfix_str(f"loss {losses[-1].mean():.4f}")
    return np.concatenate(losses), timing


def trained_weights(session: popart.TrainingSession, weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The session's weights, read back from the device."""
    session.weightsToHost()
    values = {name: np.empty_like(value) for name, value in weights.items()}
    session.readWeights(popart.PyWeightsIO(values))
    return values


def validate(
    model: onnx.ModelProto, trained: Path, test: popart.data.ImageSet, norm: popart.data.Normalisation, device: str
) -> tuple[float, Timing]:
    """Classify the test images with the weights of the file `trained`; returns the accuracy (0..1) and the timing."""
    batches_per_step = min(MAX_BATCHES_PER_STEP, -(-len(test) // TEST_BATCH))
    options = popart.SessionOptions()
    options.constantWeights = False  # the weights come from a file after compilation
    session = popart.InferenceSession(
        model.SerializeToString(),
        dataFlow=popart.DataFlow(batches_per_step, {"logits": popart.AnchorReturnType("All")}),
        inputShapeInfo=image_shapes(TEST_BATCH, test.images.shape[1:]),
        userOptions=options,
        deviceInfo=make_device(device),
    )
    session.prepareDevice()
    session.resetHostWeights(str(trained))
    session.weightsFromHost()
    batches = popart.data.Batches(test, TEST_BATCH, batches_per_step, normalisation=norm, last="repeat")
    anchors = session.initAnchorArrays()
    hits = []
    timing = Timing()
    for images, labels in tqdm(batches.epoch(), total=len(batches), desc="validation", unit="step"):
        start = time.perf_counter()
        session.run(popart.PyStepIO({"images": images}, anchors))
        timing.add(time.perf_counter() - start, len(labels))
        classes = anchors["logits"].reshape(-1, SIZES[-1]).argmax(1)
        hits.append(classes == labels.reshape(-1))
    return float(np.concatenate(hits)[: len(test)].mean()), timing


def summary(results: dict[str, float], args: argparse.Namespace, data: Path, losses: np.ndarray) -> str:
    """Text of the run for people."""
    tail = losses[-max(1, len(losses) // 75) :].mean()
    layers = "-".join(map(str, SIZES))
    return "\n".join(
        [
            f"network           {layers}, GELU (tanh), {sum(a * b + b for a, b in pairwise(SIZES))} parameters",
            f"data              {data}",
            f"training          {args.epochs} epoch(s), {len(losses)} batches of {TRAIN_BATCH}, SGD {LEARNING_RATE}, "
            f"seed {args.seed}, device {args.device}",
            f"loss              {losses[0]:.4f} at the start, {tail:.4f} at the end",
            f"test accuracy     {100 * results['test_accuracy']:.2f} %",
            f"training it/s     {results['train_it_per_s']:.1f} with data loading, "
            f"{results['train_step_it_per_s']:.1f} without",
            f"validation it/s   {results['validate_it_per_s']:.1f} with data loading, "
            f"{results['validate_step_it_per_s']:.1f} without (batches of {TEST_BATCH})",
            f"compilation       {1000 * results['compile_s']:.0f} ms for the training program",
        ]
    )


def data_folder(given: Path | None) -> Path:
    """Folder of the image files, or an error that says where to get them."""
    folder = given or FASHION_MNIST
    if not folder.is_dir():
        raise SystemExit(
            f"demo: image set: got no folder '{folder}'. Install Debian's package dataset-fashion-mnist, or give "
            "the folder of MNIST's own files with --data DIR."
        )
    return folder


def run(args: argparse.Namespace) -> dict[str, object]:
    """Train, validate and write the files; returns what ``--json`` stores."""
    folder = data_folder(args.data)
    sets = [popart.data.load_images(folder, part) for part in ("train", "test")]
    data, test = (part.first(args.images) if args.images else part for part in sets)
    norm = popart.data.Normalisation.of(data.images)
    batches_per_step = max(
        n for n in range(1, MAX_BATCHES_PER_STEP + 1) if n == 1 or (len(data) // TRAIN_BATCH) % n == 0
    )
    batches = popart.data.Batches(data, TRAIN_BATCH, batches_per_step, seed=args.seed, normalisation=norm)
    weights = initial_weights(args.seed)
    shape = data.images.shape[1:]
    start = time.perf_counter()
    session, loss = training_session(network(weights, shape), batches_per_step, shape, args.device)
    compile_s = time.perf_counter() - start
    losses, timing = train(session, loss, batches, args.epochs)

    args.out.mkdir(parents=True, exist_ok=True)
    files = {name: args.out / name for name in ("model.onnx", "loss.png", "summary.txt")}
    onnx.save(network(trained_weights(session, weights), shape), files["model.onnx"])
    accuracy, validation = validate(network(weights, shape), files["model.onnx"], test, norm, args.device)
    popart.plot.losses(losses, files["loss.png"])
    results = {
        "test_accuracy": accuracy,
        "train_it_per_s": timing.per_s,
        "train_step_it_per_s": timing.session_per_s,
        "validate_it_per_s": validation.per_s,
        "validate_step_it_per_s": validation.session_per_s,
        "compile_s": compile_s,
        "final_loss": float(losses[-max(1, len(losses) // 75) :].mean()),
    }
    text = summary(results, args, folder, losses)
    files["summary.txt"].write_text(text + "\n")
    print(text)
    print("written           " + ", ".join(str(path) for path in files.values()))
    return {**results, "files": {name: str(path) for name, path in files.items()}}


def positive(text: str) -> int:
    """An integer of at least 1, for argparse."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"got {value}, expected at least 1")
    return value


def options() -> Iterator[tuple[str, dict[str, Any]]]:
    """Flags of the command line."""
    yield "--data", {"type": Path, "help": f"folder with MNIST's files (default: {FASHION_MNIST})"}
    yield "--images", {"type": positive, "help": "use only the first N images of each part"}
    yield "--epochs", {"type": positive, "default": 1, "help": "passes over the training images (default: 1)"}
    yield "--seed", {"type": int, "default": 0, "help": "seed of weights and shuffling (default: 0)"}
    yield "--device", {"choices": ["cpu", "ipu_model"], "default": "cpu", "help": "where to run (default: cpu)"}
    yield "--out", {"type": Path, "default": Path("out/demo"), "help": "folder for results (default: out/demo)"}
    yield "--json", {"type": Path, "help": "also write the figures to this file"}


def main() -> None:
    """Command line of the demo."""
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__.split("\n", 1)[0])
    for name, settings in options():
        parser.add_argument(name, **settings)
    args = parser.parse_args()
    results = run(args)
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
