"""Data parallel training of an image classifier in several processes, in the style of programs written for PopART.

    poprun --num-replicas 2 --num-instances 2 python examples/processes_mnist.py

Each instance takes its share of every batch. Losses and weights have the same bits for any number of instances that
have as many replicas in all: `--num-instances 1` trains in one process. A plain process has one replica.
"""

import argparse
from pathlib import Path

import numpy as np
import popart
import popart.data
import popdist
import popdist.popart

FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")
PIXELS, HIDDEN, CLASSES = 28 * 28, 128, 10


def network(rows: int) -> tuple[bytes, str]:
    """The classifier of so many images as ONNX, and the name of its scores; the same on all instances."""
    rng = np.random.default_rng(0)
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [rows, PIXELS], "images")
    builder.addInputTensor("INT32", [rows], "labels")
    for i, (before, after) in enumerate([(PIXELS, HIDDEN), (HIDDEN, CLASSES)]):
        values = rng.normal(0, np.sqrt(2 / before), (before, after)).astype(np.float32)
        w = builder.addInitializedInputTensor(values, f"weight{i}")
        b = builder.addInitializedInputTensor(np.zeros(after, np.float32), f"bias{i}")
        x = builder.aiOnnx.gemm([x if i == 0 else builder.aiOnnx.relu([x]), w, b])
    probabilities = builder.aiOnnx.softmax([x])
    builder.addOutputTensor(probabilities)
    return builder.getModelProto(), probabilities


def options_of_the_job() -> popart.SessionOptions:
    """Session options for the replicas of this instance in the job."""
    options = popdist.popart.configureSessionOptions(popart.SessionOptions())
    options.accumulationAndReplicationReductionType = popart.ReductionType.Mean
    return options


def share(batch: np.ndarray) -> np.ndarray:
    """What the replicas of this instance take of a batch of all replicas, ``(1, replicas here, rows, …)``."""
    first, count = popdist.getReplicaIndexOffset(), popdist.getNumLocalReplicas()
    parts = batch.reshape(popdist.getNumTotalReplicas(), -1, *batch.shape[1:])
    return np.ascontiguousarray(parts[None, first : first + count])


def train(data: popart.data.Batches, rows: int, epochs: int, model: str) -> None:
    """Train, print losses of the whole job, and save the model from one instance."""
    proto, probabilities = network(rows)
    builder = popart.Builder(proto)
    loss = builder.aiGraphcore.nllloss([probabilities, "labels"], popart.ReductionType.Mean)
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, [loss]),
        loss,
        popart.SGD({"defaultLearningRate": (0.05, False), "defaultMomentum": (0.9, True)}),
        popdist.popart.getDevice(),
        userOptions=options_of_the_job(),
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    for epoch in range(epochs):
        losses = []
        for images, labels in data.epoch(epoch):
            inputs = {"images": share(images[0].reshape(-1, PIXELS)), "labels": share(labels[0])}
            session.run(popart.PyStepIO(inputs, anchors))
            losses.append(anchors[loss].reshape(-1).copy())
        mean = popdist.allGather(np.stack(losses)).mean(dtype=np.float64)  # over all replicas of the job
        if popdist.getInstanceIndex() == 0:
            print(f"epoch {epoch + 1}: loss {mean:.8f}", flush=True)
    popdist.execute_on_instances({0}, session.modelToHost, model)
    popdist.synchronize()


def test(data: popart.data.Batches, rows: int, model: str) -> float:
    """Accuracy of the saved model; each instance tests its share of the images."""
    _, probabilities = network(rows)
    session = popart.InferenceSession(
        model,
        popart.DataFlow(1, [probabilities]),
        popdist.popart.getDevice(),
        userOptions=options_of_the_job(),
    )
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    right = np.zeros(2, np.int64)  # and all
    for images, labels in data.epoch():
        session.run(
            popart.PyStepIO({"images": share(images[0].reshape(-1, PIXELS)), "labels": share(labels[0])}, anchors)
        )
        found = anchors[probabilities].reshape(-1, CLASSES).argmax(1)
        right += [np.sum(found == share(labels[0]).reshape(-1)), found.size]
    right, count = popdist.allReduce(right)
    return right / count


def main() -> None:
    """Train and test."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=FASHION_MNIST, help="folder with MNIST's files")
    parser.add_argument("--images", type=int, default=20000, help="training images to use (default: 20000)")
    parser.add_argument("--batch", type=int, default=64, help="images of all replicas in one update (default: 64)")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--model", default="processes_mnist.onnx", help="file for the trained model")
    args = parser.parse_args()
    popdist.init()
    replicas = popdist.getNumTotalReplicas()
    if args.batch % replicas:
        parser.error(f"--batch: got {args.batch}, expected a multiple of the {replicas} replicas")
    rows = args.batch // replicas
    images = popart.data.load_images(args.data, "train").first(args.images)
    normalisation = popart.data.Normalisation.of(images.images)
    data = popart.data.Batches(images, args.batch, seed=0, normalisation=normalisation)
    train(data, rows, args.epochs, args.model)
    tests = popart.data.load_images(args.data, "test").first(2000)
    accuracy = test(popart.data.Batches(tests, args.batch, normalisation=normalisation), rows, args.model)
    if popdist.getInstanceIndex() == 0:
        print(f"accuracy {100 * accuracy:.1f} %", flush=True)


if __name__ == "__main__":
    main()
