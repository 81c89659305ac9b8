"""Trains one network in PyTorch and here, step by step on the same batches, and compares the loss curves.

Rounding differences grow with training. How fast is measured in PyTorch itself, by runs from slightly changed weights.
Ours must be as close as PyTorch is to itself.
"""

import copy
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass

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


def our_gradients(model: bytes, names: list[str], batch: Batch) -> dict[str, np.ndarray]:
    """Gradients of the loss for the weights `names` of the model, on one batch."""
    builder = popart.Builder(model)
    labels = builder.addInputTensor("INT32", [batch[1].numel()], "labels")
    loss = builder.aiGraphcore.nllloss(["output", labels], popart.ReductionType.Mean, debugContext="loss")
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, [popart.reservedGradientPrefix() + name for name in names]),
        loss,
        popart.ConstSGD(0.01),
        popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    targets = batch[1].numpy().reshape(-1).astype(np.int32)
    session.run(popart.PyStepIO({"input": batch[0].numpy(), "labels": targets}, anchors))
    return {name: anchors[popart.reservedGradientPrefix() + name] for name in names}


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


UNIT_OF_LAST_PLACE = 1e-7


def changed_torch_curve(
    network: torch.nn.Module, rule: str, batches: list[Batch], rounding: float, seed: int
) -> np.ndarray:
    """PyTorch's losses from weights changed at random by a relative `rounding`."""
    network = copy.deepcopy(network)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in network.parameters():
            weight.mul_(1 + rounding * torch.randn(weight.shape, generator=generator))
    return torch_curve(network, OPTIMIZERS[rule][1](network.parameters()), batches)


@dataclass(frozen=True)
class Comparison:
    """Curves of one network, rule and list of batches.

    Attributes:
        ours: Losses of our session.
        theirs: Losses of PyTorch.
        spread: Largest relative difference, up to each step, of PyTorch's runs from slightly changed weights.
    """

    ours: np.ndarray
    theirs: np.ndarray
    spread: np.ndarray

    TOLERANCE = 1e-4
    CHAOS = 3e-5  # PyTorch's own error from which on a curve says nothing about 1e-4

    @property
    def steps_before_chaos(self) -> int:
        """Steps in which PyTorch agrees with itself to `CHAOS`."""
        return int(np.searchsorted(self.spread > self.CHAOS, True))

    def check(self, least_steps: int) -> None:
        """Assert errors of at most 1e-4 before chaos, of at most ten times PyTorch's own from there on.

        Args:
            least_steps: Steps that must be before chaos.
        """
        assert np.isfinite(self.ours).all()
        assert self.steps_before_chaos >= least_steps, (self.steps_before_chaos, self.spread)
        errors = np.abs(self.ours - self.theirs) / np.abs(self.theirs)
        before = np.arange(len(errors)) < self.steps_before_chaos
        allowed = np.where(before, self.TOLERANCE, np.maximum(self.TOLERANCE, 10 * self.spread))
        late = np.flatnonzero(errors > allowed)
        assert late.size == 0, f"steps {late}: errors {errors[late]}, PyTorch's {self.spread[late]}"


def compare(
    network: torch.nn.Module, batches: list[Batch], rule: str, rounding: float = UNIT_OF_LAST_PLACE, changed: int = 3
) -> Comparison:
    """Train with one optimizer of `OPTIMIZERS` here and in PyTorch; checks that training changes the losses.

    Args:
        network: Makes the logits, classes last.
        batches: One per step.
        rule: Key of `OPTIMIZERS`.
        rounding: Relative change of weights that stands for rounding in the whole network.
        changed: Runs of PyTorch from changed weights. More find rarer forks, such as an element that crosses zero at a
            ReLU in one run of twelve.
    """
    network.train()
    # The exporter in training mode moves batch norm's running statistics, which no loss depends on.
    ours = our_curve(export(copy.deepcopy(network), batches[0][0]), OPTIMIZERS[rule][0](), batches)
    still = torch.optim.SGD(network.parameters(), lr=0.0)
    untrained = torch_curve(copy.deepcopy(network), still, batches[-10:])
    runs = [changed_torch_curve(network, rule, batches, rounding, seed) for seed in range(changed)]
    theirs = torch_curve(network, OPTIMIZERS[rule][1](network.parameters()), batches)
    assert np.abs(theirs[-10:] - untrained).max() > 1e-2 * untrained.max()
    spread = np.maximum.accumulate(np.max([np.abs(run - theirs) / np.abs(theirs) for run in runs], axis=0))
    return Comparison(ours, theirs, spread)
