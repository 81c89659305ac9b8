"""Training steps with a transform beside the same steps without it; both are ours, so these names need no peer.

``recompute_gpt``, ``recompute_resnet18``, ``recompute_bert_tiny``: the networks of ``gpt_train_b8`` and so on with
``autoRecomputation`` Standard; ``plain`` keeps all activations. ``off_chip_gpt``: weights, optimizer state and
activations in remote memory; ``off_chip_layers20``: the same of a transformer of 20 layers, whose weights and Adam
state are more than four times what it then holds on the device. ``max_memory_gpt``, ``max_memory_resnet18``,
``max_memory_bert_tiny``: under a limit of half of what ``plain`` plans to hold; ``half_activations_gpt``,
``half_activations_resnet18``: under one that leaves half of its activations. ``merge_updates_…``, ``batch_in_parts_…``,
``check_floats_…``: ``mergeVarUpdate`` All, a batch in two halves, floating point checks. Both sides report what they
plan to hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import exported_programs as programs
import implementations
import networks
import numpy as np
import popart

Adapt = Callable[[programs.Program, popart.SessionOptions], None]


def recompute(_: programs.Program, options: popart.SessionOptions) -> None:
    """Activations between checkpoints are computed again."""
    options.autoRecomputation = popart.RecomputationType.Standard


def move_off_chip(_: programs.Program, options: popart.SessionOptions) -> None:
    """Weights, optimizer state and activations lie in remote memory."""
    location = popart.TensorLocation(popart.TensorStorage.OffChip)
    for kind in ("weight", "optimizerState", "activation"):
        setattr(options, f"{kind}TensorLocationSettings", popart.TensorLocationSettings(location, 2, 8192))


def merge_updates(_: programs.Program, options: popart.SessionOptions) -> None:
    """Weights that no product reads are updated together."""
    options.mergeVarUpdate = popart.MergeVarUpdateType.All


def batch_in_parts(_: programs.Program, options: popart.SessionOptions) -> None:
    """The samples of a batch go through forward and backward pass in two halves."""
    context, method = popart.BatchSerializationTransformContext.Bwd, popart.BatchSerializationMethod.UnrollStatic
    options.batchSerializationSettings = popart.BatchSerializationSettings(2, True, True, True, context, method)


def check_floats(_: programs.Program, options: popart.SessionOptions) -> None:
    """Every value is watched for NaN and infinities."""
    options.enableFloatingPointChecks = True


def planned_bytes(session: popart.TrainingSession) -> dict[str, Any]:
    """What a session plans to hold: activations, and all that is on the device."""
    report = session.getSummaryReport()
    found = {what: re.search(rf"{what}: (\d+) bytes", report) for what in ("activations", "total")}
    return {f"planned_{what}_bytes": int(match[1]) for what, match in found.items() if match}


def limit(activations: float = 0, total: float = 0) -> Adapt:
    """A limit of memory that lacks these shares of what the plain program plans."""

    def adapt(program: programs.Program, options: popart.SessionOptions) -> None:
        plan = planned_bytes(programs.training_session(program))
        all_bytes = plan["planned_total_bytes"]
        most = all_bytes - activations * plan["planned_activations_bytes"] - total * all_bytes
        options.engineOptions = {**options.engineOptions, "max_memory": str(int(most))}

    return adapt


class Transformed(implementations.Runner):
    """One optimizer step of a network; ``ours`` with the transform, ``plain`` without."""

    def __init__(
        self,
        implementation: str,
        benchmark: networks.Benchmark,
        transform: Adapt,
    ) -> None:
        self._program, self._inputs = implementations.training_program(benchmark)
        self._adapt = partial(transform, self._program) if implementation == "ours" else programs.leave

    def open(self) -> None:
        """Construct the session."""
        self.session = programs.training_session(self._program, adapt=self._adapt)
        self.session.weightsFromHost()
        anchors = self.session.initAnchorArrays()
        self.loss = anchors[self._program.loss]
        self._stepio = popart.PyStepIO(self._inputs, anchors)

    def call(self) -> np.ndarray:
        """Run one step; returns its loss."""
        self.session.run(self._stepio)
        return self.loss

    def facts(self) -> dict[str, Any]:
        """Planned bytes of activations, and of all that is on the device."""
        return planned_bytes(self.session)


@dataclass(frozen=True)
class Transform:
    """A network and what is done with it."""

    benchmark: networks.Benchmark
    options: Adapt


LAYERS_20 = networks.Benchmark(
    partial(networks.gpt, layers=20, width=512, heads=8, context=128),
    networks.tokens(2, 128, 65),
    65,
    networks.Optimizer("adamw", 1e-3, weight_decay=0.01),
)
TRANSFORMS = {
    "recompute_gpt": Transform(networks.BENCHMARKS["gpt_train_b8"], recompute),
    "recompute_resnet18": Transform(networks.BENCHMARKS["resnet18_train_b8"], recompute),
    "recompute_bert_tiny": Transform(networks.BENCHMARKS["bert_tiny_train_b8"], recompute),
    "off_chip_gpt": Transform(networks.BENCHMARKS["gpt_train_b8"], move_off_chip),
    "off_chip_layers20": Transform(LAYERS_20, move_off_chip),
    **{
        f"max_memory_{name}": Transform(networks.BENCHMARKS[f"{name}_train_b8"], limit(total=0.5))
        for name in ("gpt", "resnet18", "bert_tiny")
    },
    **{
        f"half_activations_{name}": Transform(networks.BENCHMARKS[f"{name}_train_b8"], limit(activations=0.5))
        for name in ("gpt", "resnet18")
    },
    **{
        f"{transform.__name__}_{name}": Transform(networks.BENCHMARKS[f"{name}_train_b8"], transform)
        for transform in (merge_updates, batch_in_parts, check_floats)
        for name in ("gpt", "resnet18", "bert_tiny")
    },
}
RUNNERS = {name: partial(Transformed, benchmark=t.benchmark, transform=t.options) for name, t in TRANSFORMS.items()}
