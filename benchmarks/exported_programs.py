"""The exported programs of the benchmark as files, and sessions on them, without PyTorch in the process.

A `Program` is an ONNX model, the id of its loss and its optimizer rule (both absent for inference). `save` and `load`
write and read it with its inputs in a folder, so that memory and bits can be measured in a process that has no other
data.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import popart


@dataclass(frozen=True)
class Program:
    """One program.

    Attributes:
        model: Serialised ONNX model with outputs of the network and, for training, the loss.
        loss: Id of the loss; empty for inference.
        rule: Fields of `networks.Optimizer`; None for inference.
        trainable: Patterns of the tensors that train; empty: the classification decides.
    """

    model: bytes
    loss: str = ""
    rule: dict[str, Any] | None = None
    trainable: tuple[str, ...] = ()


def save(program: Program, inputs: dict[str, np.ndarray], folder: Path) -> None:
    """Write ``model.onnx``, ``inputs.npz`` and ``program.json``."""
    (folder / "model.onnx").write_bytes(program.model)
    np.savez(folder / "inputs.npz", **inputs)
    facts = {"loss": program.loss, "rule": program.rule, "trainable": program.trainable}
    (folder / "program.json").write_text(json.dumps(facts))


def load(folder: Path) -> tuple[Program, dict[str, np.ndarray]]:
    """Read the files of `save`."""
    facts = json.loads((folder / "program.json").read_text())
    with np.load(folder / "inputs.npz") as file:
        inputs = dict(file)
    model = (folder / "model.onnx").read_bytes()
    return Program(model, facts["loss"], facts["rule"], tuple(facts["trainable"])), inputs


def optimizer(rule: Mapping[str, Any], further: Mapping[str, Any], **settings: Any) -> popart.Optimizer:
    """The rule of a program as PopART's optimizer, with further values and settings of the class by name."""
    values = {"defaultLearningRate": (rule["lr"], True), **further}
    if rule["kind"] == "sgd":
        return popart.SGD(values | {"defaultMomentum": (rule["momentum"], True)}, **settings)
    constants = {"defaultBeta1": (0.9, True), "defaultBeta2": (0.999, True), "defaultEps": (1e-8, True)}
    return popart.Adam(values | constants | {"defaultWeightDecay": (rule["weight_decay"], True)}, **settings)


def leave(options: popart.SessionOptions) -> None:
    """Change no options."""


def training_session(
    program: Program,
    *,
    prepare: bool = True,
    load: bool = True,
    batches: int = 1,
    micro_batches: int = 1,
    replicas: int = 1,
    rule: popart.Optimizer | None = None,
    returns: popart.AnchorReturnType | None = None,
    adapt: Callable[[popart.SessionOptions], None] = leave,
) -> popart.TrainingSession:
    """A prepared session; the caller sends the weights. Without `load` it is only compiled.

    Args:
        program: The program that it trains.
        prepare: Whether it is compiled; otherwise the caller compiles it.
        load: Whether it allocates memory on the device.
        batches: Weight updates of one run.
        micro_batches: Micro-batches of one update; gradients are means over them and over replicas.
        replicas: Replicas that take part in each update.
        rule: The optimizer; None: that of the program.
        returns: How the loss is returned; None: for every micro-batch.
        adapt: Sets further options.
    """
    assert program.rule
    options = popart.SessionOptions()
    options.enableGradientAccumulation = micro_batches > 1
    options.accumulationFactor = micro_batches
    options.enableReplicatedGraphs = replicas > 1
    options.replicatedGraphCount = replicas
    options.accumulationAndReplicationReductionType = popart.ReductionType.Mean
    adapt(options)
    session = popart.TrainingSession(
        program.model,
        popart.DataFlow(batches, {program.loss: returns or popart.AnchorReturnType("All")}),
        program.loss,
        rule or optimizer(program.rule, {}),
        popart.DeviceManager().createCpuDevice(),
        userOptions=options,
        trainable=list(program.trainable) or None,
    )
    if prepare:
        session.prepareDevice(loadEngine=load)
    return session


def inference_session(program: Program, *, prepare: bool = True, load: bool = True) -> popart.InferenceSession:
    """A session that returns the tensor ``output``, made like `training_session`."""
    session = popart.InferenceSession(
        program.model, popart.DataFlow(1, ["output"]), popart.DeviceManager().createCpuDevice()
    )
    if prepare:
        session.prepareDevice(loadEngine=load)
    return session


def open_session(program: Program) -> popart.TrainingSession | popart.InferenceSession:
    """A prepared session with its weights on the device."""
    if program.rule is None:
        return inference_session(program)
    session = training_session(program)
    session.weightsFromHost()
    return session
