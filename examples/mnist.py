"""Classifies 28x28 images with a network written by the Builder, in the style of programs written for PopART.

Options spread it over several IPUs (sharding), let these work at the same time (pipelining), copy it (replication),
compute activations again, accumulate gradients and leave out the host's data. Without a folder of MNIST's files the
program makes images of its own: a fixed pattern for each digit, shifted, with noise.
"""

import argparse
import itertools
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import popart

SIZE, CLASSES, LAYERS = 28, 10, 4


class Session(NamedTuple):
    """A session with its anchors and the shape of what a step reads in front of a sample."""

    session: popart.TrainingSession | popart.InferenceSession
    anchors: dict[str, np.ndarray]
    lead: tuple[int, ...]


def read_images(folder: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Images float32 ``(N, 784)`` in 0..1 and labels int32 ``(N,)`` from two of MNIST's unpacked files."""
    with (folder / f"{part}-images-idx3-ubyte").open("rb") as file:
        _, count, rows, columns = struct.unpack(">IIII", file.read(16))
        images = np.fromfile(file, dtype=np.uint8).reshape(count, rows * columns)
    with (folder / f"{part}-labels-idx1-ubyte").open("rb") as file:
        file.seek(8)
        labels = np.fromfile(file, dtype=np.uint8)
    return (images / 255.0).astype(np.float32), labels.astype(np.int32)


def make_images(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """As `read_images`: a pattern per class, moved by up to two pixels, with noise."""
    coarse = np.random.default_rng(0).random((CLASSES, 7, 7)) > 0.55
    patterns = coarse.repeat(4, axis=1).repeat(4, axis=2).astype(np.float32)
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, count).astype(np.int32)
    shifts = rng.integers(-2, 3, (count, 2))
    images = [np.roll(patterns[label], shift, (0, 1)) for label, shift in zip(labels, shifts)]
    noise = rng.normal(0, 0.3, (count, SIZE, SIZE))
    return np.clip(images + noise, 0, 1).astype(np.float32).reshape(count, SIZE * SIZE), labels


class DataSet:
    """Steps of samples: each is as many as one `run` reads."""

    def __init__(self, images: np.ndarray, labels: np.ndarray, lead: tuple[int, ...], shuffle: bool) -> None:
        self.images, self.labels, self.lead, self.shuffle = images, labels, lead, shuffle
        self.rng = np.random.default_rng(1)
        self.per_step = int(np.prod(lead))

    def __len__(self) -> int:
        return len(self.labels) // self.per_step

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        order = np.arange(len(self.labels))
        if self.shuffle:
            self.rng.shuffle(order)
        for step in range(len(self)):
            chosen = order[step * self.per_step : (step + 1) * self.per_step]
            yield self.images[chosen].reshape(*self.lead, SIZE * SIZE), self.labels[chosen].reshape(self.lead)


def create_model(opts: argparse.Namespace) -> tuple[bytes, dict[str, str]]:
    """The network as ONNX, its layers spread evenly over the IPUs of a replica."""
    rng = np.random.default_rng(opts.seed)
    builder = popart.Builder(opsets={"ai.onnx": 10, "ai.onnx.ml": 1, "ai.graphcore": 1})
    names = {
        "image": builder.addInputTensor(popart.TensorInfo("FLOAT", [opts.micro_batch_size, SIZE * SIZE]), "image"),
        "label": builder.addInputTensor(popart.TensorInfo("INT32", [opts.micro_batch_size]), "label"),
    }

    def place(output: str, layer: int) -> None:
        """Put the operation that makes `output` where its layer is."""
        if opts.num_shards > 1:
            builder.virtualGraph(output, layer * opts.num_shards // LAYERS)
            if opts.pipeline:
                builder.pipelineStage(output, layer * opts.num_shards // LAYERS)

    x = names["image"]
    widths = [SIZE * SIZE, *[opts.hidden] * (LAYERS - 1), CLASSES]
    for layer, (rows, columns) in enumerate(itertools.pairwise(widths)):
        with builder.nameScope(f"layer{layer}"):
            scale = np.sqrt(2 / rows)
            w = builder.addInitializedInputTensor(rng.normal(0, scale, (rows, columns)).astype(np.float32), "weight")
            b = builder.addInitializedInputTensor(np.zeros(columns, np.float32), "bias")
            x = builder.aiOnnx.gemm([x, w, b], debugContext="linear")
            place(x, layer)
            if layer < LAYERS - 1:
                x = builder.aiOnnx.relu([x], "relu")
                place(x, layer)
    names["prob"] = builder.aiOnnx.softmax([x], axis=1, debugContext="prob")
    place(names["prob"], LAYERS - 1)
    names["loss"] = builder.aiGraphcore.nllloss(
        [names["prob"], names["label"]], reduction=popart.ReductionType.Mean, debugContext="loss"
    )
    place(names["loss"], LAYERS - 1)
    builder.addOutputTensor(names["prob"])
    return builder.getModelProto(), names


def create_options(opts: argparse.Namespace, training: bool) -> popart.SessionOptions:
    """Session options from the command line's."""
    options = popart.SessionOptions()
    if opts.num_shards > 1:
        options.virtualGraphMode = popart.VirtualGraphMode.Manual
        options.enablePipelining = opts.pipeline
    if opts.replication_factor > 1:
        options.enableReplicatedGraphs = True
        options.replicatedGraphCount = opts.replication_factor
    if training and opts.gradient_accumulation > 1:
        options.enableGradientAccumulation = True
        options.accumulationFactor = opts.gradient_accumulation
    if training:
        options.accumulationAndReplicationReductionType = popart.ReductionType.Mean
        options.autoRecomputation = getattr(popart.RecomputationType, opts.recompute)
    else:
        options.constantWeights = False  # validation gets those of training
    options.syntheticDataMode = getattr(popart.SyntheticDataMode, opts.syn_data_type)
    return options


def create_device(opts: argparse.Namespace) -> popart.DeviceInfo:
    """A device with enough IPUs: attached, or a model of them."""
    ipus = opts.num_shards * opts.replication_factor
    manager = popart.DeviceManager()
    device = (
        manager.createIpuModelDevice({"numIPUs": ipus}) if opts.simulation else manager.acquireAvailableDevice(ipus)
    )
    if device is None:
        raise SystemExit(f"no device with {ipus} IPUs")
    return device


def create_session(
    opts: argparse.Namespace, model: bytes, names: dict[str, str], device: popart.DeviceInfo, training: bool
) -> Session:
    """A prepared session that returns loss and probabilities of each batch."""
    flow = popart.DataFlow(
        opts.batches_per_step,
        {names["loss"]: popart.AnchorReturnType("All"), names["prob"]: popart.AnchorReturnType("All")},
    )
    common = {"deviceInfo": device, "userOptions": create_options(opts, training)}
    if training:
        optimizer = popart.SGD(
            {"defaultLearningRate": (opts.learning_rate, False), "defaultMomentum": (opts.momentum, True)}
        )
        session = popart.TrainingSession(model, flow, names["loss"], optimizer, **common)
    else:
        session = popart.InferenceSession(model, flow, **common)
    print(f"Compiling the {'training' if training else 'validation'} graph")
    session.prepareDevice()
    if training:
        session.weightsFromHost()
    accumulation = opts.gradient_accumulation if training else 1
    lead = (opts.batches_per_step, accumulation, opts.replication_factor, opts.micro_batch_size)
    return Session(session, session.initAnchorArrays(), lead)


def run_epoch(made: Session, data: DataSet, names: dict[str, str]) -> tuple[float, float]:
    """Run all steps of a data set; returns the mean loss and the accuracy in percent."""
    losses, right = 0.0, 0
    for images, labels in data:
        made.session.run(popart.PyStepIO({names["image"]: images, names["label"]: labels}, made.anchors))
        losses += float(np.mean(made.anchors[names["loss"]]))
        right += int(np.sum(made.anchors[names["prob"]].reshape(*labels.shape, CLASSES).argmax(-1) == labels))
    return losses / len(data), 100 * right / (len(data) * data.per_step)


def validate(opts: argparse.Namespace, trained: Session, names: dict[str, str], data: DataSet, made: Session) -> None:
    """Run the images of the test part with the weights that training has now."""
    trained.session.modelToHost("mnist.onnx")
    made.session.resetHostWeights("mnist.onnx", ignoreWeightsInModelWithoutCorrespondingHostWeight=True)
    made.session.weightsFromHost()
    loss, accuracy = run_epoch(made, data, names)
    if opts.syn_data_type == "Off":
        print(f"   Loss={loss:.4f}")
        print(f"   Accuracy={accuracy:.2f}%")


def train(opts: argparse.Namespace) -> None:
    """Train for some epochs, with a validation after each or after the last."""
    model, names = create_model(opts)
    device = create_device(opts)
    training = create_session(opts, model, names, device, training=True)
    validation = create_session(opts, model, names, device, training=False)
    if opts.data_folder:
        parts = read_images(opts.data_folder, "train"), read_images(opts.data_folder, "t10k")
    else:
        parts = make_images(opts.images, 2), make_images(max(opts.images // 5, int(np.prod(validation.lead))), 3)
    train_data = DataSet(*parts[0], training.lead, shuffle=True)
    test_data = DataSet(*parts[1], validation.lead, shuffle=False)
    if min(len(train_data), len(test_data)) == 0:
        raise SystemExit(
            f"{train_data.per_step} images are needed for a step of training, {test_data.per_step} of validation"
        )
    print(f"Training on {len(train_data) * train_data.per_step} images, {len(train_data)} steps per epoch")
    for epoch in range(opts.epochs):
        print(f"Epoch #{epoch + 1}")
        start = time.perf_counter()
        loss, accuracy = run_epoch(training, train_data, names)
        seconds = time.perf_counter() - start
        print(f"   Throughput={len(train_data) * train_data.per_step / seconds:.0f} images/s")
        if opts.syn_data_type == "Off":
            print(f"   Training loss={loss:.4f}, accuracy={accuracy:.2f}%")
        if epoch == opts.epochs - 1 or not opts.validation_final_epoch:
            validate(opts, training, names, test_data, validation)
    device.detach()


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-folder", type=Path, help="MNIST's unpacked files (default: images made here)")
    parser.add_argument("--images", type=int, default=4000, help="how many to make (default: 4000)")
    parser.add_argument("--micro-batch-size", type=int, default=10, help="images of one replica at a time")
    parser.add_argument("--batches-per-step", type=int, default=20, help="weight updates in one run")
    parser.add_argument("--gradient-accumulation", type=int, default=1, help="micro-batches of one weight update")
    parser.add_argument("--replication-factor", type=int, default=1, help="copies of the program")
    parser.add_argument("--num-shards", type=int, default=1, choices=[1, 2, 4], help="IPUs of one copy")
    parser.add_argument("--pipeline", action="store_true", help="shards work at the same time")
    parser.add_argument("--recompute", default="NoRecompute", choices=list(popart.RecomputationType.__members__))
    parser.add_argument("--syn-data-type", default="Off", choices=list(popart.SyntheticDataMode.__members__))
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--learning-rate", type=float, default=0.02)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--hidden", type=int, default=64, help="width of the hidden layers")
    parser.add_argument("--seed", type=int, default=1984)
    parser.add_argument("--simulation", action="store_true", help="on a model of the IPUs")
    parser.add_argument("--validation-final-epoch", action="store_true", help="only after the last epoch")
    parser.add_argument("--log-graph-trace", action="store_true", help="print the prepared graph")
    opts = parser.parse_args()
    if opts.pipeline and opts.num_shards == 1:
        parser.error("--pipeline needs --num-shards above 1")
    return opts


if __name__ == "__main__":
    opts = parse()
    if opts.log_graph_trace:
        popart.getLogger().setLevel("CRITICAL")
        popart.getLogger("ir").setLevel("TRACE")
    train(opts)
