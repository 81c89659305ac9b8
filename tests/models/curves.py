"""Trains one network in PyTorch and here, step by step on the same batches, and returns both loss curves."""

import io
import warnings
from collections.abc import Callable

import numpy as np
import popart
import torch

Batch = tuple[torch.Tensor, torch.Tensor]

# Our optimizer and PyTorch's for the same rule.
OPTIMIZERS: dict[str, tuple[Callable[[], object], Callable[..., torch.optim.Optimizer]]] = {
    "sgd": (
        lambda: popart.SGD({"defaultLearningRate": (0.02, True)}),
        lambda weights: torch.optim.SGD(weights, lr=0.02),
    ),
    "momentum": (
        lambda: popart.SGD({"defaultLearningRate": (0.01, True), "defaultMomentum": (0.9, True)}),
        lambda weights: torch.optim.SGD(weights, lr=0.01, momentum=0.9),
    ),
    "adam": (
        lambda: popart.Adam({"defaultLearningRate": (1e-3, True), "defaultEps": (1e-8, True)}),
        lambda weights: torch.optim.Adam(weights, lr=1e-3),
    ),
    "adamw": (
        lambda: popart.Adam(
            {
                "defaultLearningRate": (1e-3, True),
                "defaultEps": (1e-8, True),
                "defaultWeightDecay": (0.05, True),
            }
        ),
        lambda weights: torch.optim.AdamW(weights, lr=1e-3, weight_decay=0.05),
    ),
}


class _Probabilities(torch.nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        logits = self.network(x)
        return torch.softmax(logits.reshape(-1, logits.shape[-1]), -1)


def export(network: torch.nn.Module, inputs: torch.Tensor) -> bytes:
    """The network with softmax over its last axis, one row per label, in training mode."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _Probabilities(network),
            (inputs,),
            file,
            dynamo=False,
            training=torch.onnx.TrainingMode.TRAINING,
            do_constant_folding=False,
            opset_version=20,
            input_names=["input"],
            output_names=["output"],
        )
    return file.getvalue()


def our_curve(model: bytes, optimizer: object, batches: list[Batch]) -> np.ndarray:
    """Losses of a TrainingSession on the batches."""
    builder = popart.Builder(model)
    rows = batches[0][1].numel()
    labels = builder.addInputTensor("INT32", [rows], "labels")
    loss = builder.aiGraphcore.nllloss(["output", labels], popart.ReductionType.Mean, debugContext="loss")
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(len(batches), [loss]),
        loss,
        optimizer,
        popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    inputs = np.stack([x.numpy() for x, _ in batches])
    targets = np.stack([y.numpy().reshape(-1) for _, y in batches]).astype(np.int32)
    session.run(popart.PyStepIO({"input": inputs, "labels": targets}, anchors))
    return anchors[loss].copy()


def torch_curve(network: torch.nn.Module, optimizer: torch.optim.Optimizer, batches: list[Batch]) -> np.ndarray:
    """Losses of PyTorch on the batches."""
    losses = []
    for x, y in batches:
        logits = network(x)
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


def both_curves(network: torch.nn.Module, batches: list[Batch], rule: str) -> tuple[np.ndarray, np.ndarray]:
    """(our losses, PyTorch's losses) of one optimizer of `OPTIMIZERS`; checks that training changes the losses."""
    network.train()
    frozen = torch_curve(network, torch.optim.SGD(network.parameters(), lr=0.0), batches)
    ours, theirs = OPTIMIZERS[rule]
    # The exporter in training mode moves batch norm's running statistics, which no loss depends on.
    model = export(network, batches[0][0])
    expected = torch_curve(network, theirs(network.parameters()), batches)
    assert np.abs(expected - frozen).max() > 1e-2 * np.abs(frozen).max()
    return our_curve(model, ours(), batches), expected
