"""Trains an ONNX file from a PyTorch DataLoader: validation, schedule, checkpoints, and resuming where a run stopped.

Run it again with more epochs and the same checkpoint: it goes on with the bits of training that never stopped.
"""

import argparse
from pathlib import Path

import numpy as np
import popart
import torch
from torch.utils.data import DataLoader, TensorDataset

FEATURES, CLASSES = 20, 4


def save_network(path: Path) -> None:
    """A classifier with one hidden layer; its output is logits."""
    rng = np.random.default_rng(0)
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [16, FEATURES], "x")
    w1 = builder.addInitializedInputTensor(rng.normal(0, 0.3, (FEATURES, 32)).astype(np.float32), "w1")
    w2 = builder.addInitializedInputTensor(rng.normal(0, 0.3, (32, CLASSES)).astype(np.float32), "w2")
    h = builder.aiOnnx.relu([builder.aiOnnx.matmul([x, w1])])
    builder.addOutputTensor(builder.aiOnnx.matmul([h, w2]))
    path.write_bytes(builder.getModelProto())


def data(count: int, seed: int) -> TensorDataset:
    """Points whose largest of the first coordinates is their class."""
    points = torch.randn(count, FEATURES, generator=torch.Generator().manual_seed(seed))
    return TensorDataset(points, points[:, :CLASSES].argmax(1))


def batches_of(epoch: int) -> DataLoader:
    """Shuffled, in each epoch the same way: what a resumed run needs. The last batch is smaller."""
    order = torch.Generator().manual_seed(epoch)
    return DataLoader(data(792, 1), 16, shuffle=True, generator=order)


def main() -> None:
    """Train, and print the loss and accuracy of each epoch."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--checkpoint", type=Path, default=Path("run"))
    options = parser.parse_args()
    save_network(Path("network.onnx"))
    trainer = popart.Trainer("network.onnx", loss="cross_entropy", optimizer=popart.optim.AdamW(lr=0.01), seed=0)
    updates = []
    trainer.fit(
        batches_of,
        epochs=options.epochs,
        validate=DataLoader(data(100, 2), 16),
        metrics=["accuracy"],
        schedule=popart.optim.constant(warmup=20),
        checkpoint=options.checkpoint,
        on_step=updates.append,
        on_epoch=lambda row: print(f"epoch {row['epoch']}: loss {row['loss']:.6f}, accuracy {row['val_accuracy']:.2f}"),
    )
    trainer.save("trained.onnx")
    print(f"{len(updates)} steps")


if __name__ == "__main__":
    main()
