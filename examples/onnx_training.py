"""Trains a small convolutional network that comes from PyTorch as an ONNX file.

The builder continues the file with labels and a loss; the trained file runs in an InferenceSession.
"""

import io
import warnings

import numpy as np
import popart
import torch
from torch import nn

BATCH, STEPS, CLASSES = 16, 60, 4


def exported_network() -> bytes:
    """A classifier of 12x12 images as ONNX: its output are logits."""
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * 36, CLASSES),
    )
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network,
            (torch.randn(BATCH, 1, 12, 12),),
            file,
            dynamo=False,
            training=torch.onnx.TrainingMode.TRAINING,
            do_constant_folding=False,
            input_names=["images"],
            output_names=["logits"],
        )
    return file.getvalue()


def make_batch(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Noise with one bright quarter; the class says which."""
    labels = rng.integers(0, CLASSES, BATCH).astype(np.int32)
    images = rng.normal(0, 0.5, (BATCH, 1, 12, 12)).astype(np.float32)
    for image, label in zip(images, labels, strict=True):
        row, column = divmod(int(label), 2)
        image[0, 6 * row : 6 * row + 6, 6 * column : 6 * column + 6] += 1
    return images, labels


def main() -> None:
    """Train, save, run."""
    builder = popart.Builder(exported_network())
    labels = builder.addInputTensor("INT32", [BATCH], "labels")
    loss = popart.losses.cross_entropy(builder, "logits", labels)
    device = popart.DeviceManager().createCpuDevice()
    session = popart.TrainingSession(
        builder.getModelProto(),
        dataFlow=popart.DataFlow(1, [loss, "logits"]),
        loss=loss,
        optimizer=popart.SGD({"defaultLearningRate": (0.1, False), "defaultMomentum": (0.9, True)}),
        deviceInfo=device,
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    rng = np.random.default_rng(0)
    for step in range(STEPS):
        images, targets = make_batch(rng)
        session.run(popart.PyStepIO({"images": images, labels: targets}, anchors))
        if step % 20 == 0 or step == STEPS - 1:
            print(f"step {step}: loss {anchors[loss]:.4f}")

    session.modelToHost("trained.onnx")
    inference = popart.InferenceSession("trained.onnx", popart.DataFlow(1, ["logits"]), device)
    inference.prepareDevice()
    results = inference.initAnchorArrays()
    images, targets = make_batch(rng)
    inference.run(popart.PyStepIO({"images": images, labels: targets}, results))
    print(f"accuracy on a new batch: {(results['logits'].argmax(1) == targets).mean():.2f}")


if __name__ == "__main__":
    main()
