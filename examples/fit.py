"""Trains from a PyTorch DataLoader with `fit`: progress, checkpoints, and resuming where the last run stopped.

Run it again with more epochs and the same checkpoint: it goes on with the bits of training that never stopped.
"""

import argparse
from pathlib import Path

import numpy as np
import popart
import torch
from popart.fitting import fit
from torch.utils.data import DataLoader, TensorDataset

BATCH, FEATURES, CLASSES = 16, 20, 4


def make_session() -> popart.TrainingSession:
    """A classifier with one hidden layer, ready to train; each run takes 5 batches."""
    rng = np.random.default_rng(0)
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [BATCH, FEATURES], "x")
    labels = builder.addInputTensor("INT32", [BATCH], "labels")
    w1 = builder.addInitializedInputTensor(rng.normal(0, 0.3, (FEATURES, 32)).astype(np.float32), "w1")
    w2 = builder.addInitializedInputTensor(rng.normal(0, 0.3, (32, CLASSES)).astype(np.float32), "w2")
    h = builder.aiOnnx.relu([builder.aiOnnx.matmul([x, w1])])
    loss = builder.aiGraphcore.nllloss([builder.aiOnnx.softmax([builder.aiOnnx.matmul([h, w2])]), labels])
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(5, [loss]),
        loss,
        popart.Adam({"defaultLearningRate": (0.01, False)}),
        popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    session.weightsFromHost()
    return session


def batches_of(epoch: int) -> DataLoader:
    """Shuffled, in each epoch the same way: what a resumed run needs."""
    data = torch.randn(800, FEATURES, generator=torch.Generator().manual_seed(1))
    labels = data[:, :CLASSES].argmax(1)
    order = torch.Generator().manual_seed(epoch)
    return DataLoader(TensorDataset(data, labels), BATCH, shuffle=True, drop_last=True, generator=order)


def main() -> None:
    """Train, and print the loss after each epoch."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--checkpoint", type=Path, default=Path("fit.npz"))
    options = parser.parse_args()

    def show(epoch: int, step: int, anchors: dict[str, np.ndarray]) -> None:
        if step == 9:
            print(f"epoch {epoch + 1}: loss {np.mean(next(iter(anchors.values()))):.6f}")

    inputs = ["x", "labels"]
    steps = fit(
        make_session(), batches_of, inputs=inputs, epochs=options.epochs, checkpoint=options.checkpoint, on_step=show
    )
    print(f"{steps} steps")


if __name__ == "__main__":
    main()
