"""The transforms that `./dev bench --transforms` measures, as a table: what each changes, and what stands beside it.

A row names two forms of training (`training_forms`) of which both give the same updates: `ours` with the transform and
`plain` without. ``recompute_gpt`` is the row ``recompute`` on the network of ``gpt_train_b8``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import popart
from figures import largest_difference
from training_forms import Form, Training, in_halves, planned_bytes, products_in_parts

# The network of each short name, as `networks.BENCHMARKS` has it.
NETWORKS = {
    "gpt": "gpt_train_b8",
    "resnet18": "resnet18_train_b8",
    "bert_tiny": "bert_tiny_train_b8",
    "mlp": "mlp_train_b80",
    "layers20": "layers20_train_b2",
}
ALL = ("gpt", "resnet18", "bert_tiny")
TRANSFORMERS = ("gpt", "bert_tiny")
# Largest difference of a loss, relative to the largest one.
BITS, ROUNDING, HALVES = 0.0, 1e-3, 2e-2
CHECKED_UPDATES = 4


@dataclass(frozen=True)
class Row:
    """One transform.

    Attributes:
        name: Of the row.
        ours: With the transform.
        plain: Without; measured beside it.
        bound: Largest difference of the losses, relative; 0: the same bits; None: they are not comparable.
        expected: Whose losses ours must have, where it is not `plain`.
        networks: Short names.
    """

    name: str
    ours: Form
    plain: Form
    bound: float | None = BITS
    expected: Form | None = None
    networks: tuple[str, ...] = ALL


PLAIN = Form("plain")
FOUR_STEPS = Form("four steps", batches=4)
ACCUMULATED = Form("one update", micro_batches=4)
TWO_REPLICAS = Form("two replicas", replicas=2, share=2)
PLAIN_HALVES = Form("FLOAT16", edits=(in_halves,))
# The scale may change in each update; a power of two leaves the bits of the others.
SCALED = replace(PLAIN_HALVES, name="FLOAT16, scale 128", optimizer={"lossScaling": (128.0, False)})
# A run of eight batches, each of which the host takes as long to give as the program to compute.
IN_TURN = Form("host in turn", batches=8, slow_host=True, options={"enablePrefetchDatastreams": False})
NOT_OUTLINED = Form("not outlined", options={"enableOutlining": False})


def located(location: popart.TensorLocation, *kinds: str) -> dict[str, Any]:
    """Where tensors of these kinds are; small ones stay."""
    return {f"{kind}TensorLocationSettings": popart.TensorLocationSettings(location, 2, 8192) for kind in kinds}


OFF_CHIP = located(popart.TensorLocation(popart.TensorStorage.OffChip), "weight", "optimizerState", "activation")
IN_PARTS = popart.TensorLocation(popart.TensorStorage.OnChip, popart.ReplicatedTensorSharding.On)
STATE_IN_PARTS = located(IN_PARTS, "optimizerState")
ALL_IN_PARTS = located(IN_PARTS, "weight", "optimizerState", "accumulator")


def stages(count: int) -> dict[str, Any]:
    """A pipeline of so many stages of equal cost."""
    equal = [1.0 / count] * count
    auto = popart.VirtualGraphMode.Auto
    return {"enablePipelining": True, "virtualGraphMode": auto, "virtualGraphSplitRatios": equal}


def phases(count: int) -> dict[str, Any]:
    """Execution phases of equal work on one device, all tensors off chip between them."""
    settings = popart.ExecutionPhaseSettings()
    settings.phases, settings.stages = count, 1
    mode = popart.VirtualGraphMode.ExecutionPhases
    return {"virtualGraphMode": mode, "executionPhaseSettings": settings, **OFF_CHIP}


def batch_parts(context: popart.BatchSerializationTransformContext, **further: Any) -> dict[str, Any]:
    """The samples of a batch in two halves, one after the other."""
    method = popart.BatchSerializationMethod.UnrollStatic
    return {
        "batchSerializationSettings": popart.BatchSerializationSettings(2, True, True, True, context, method),
        **further,
    }


def with_options(name: str, options: Mapping[str, Any], **row: Any) -> Row:
    """A row whose transform is session options alone."""
    plain = row.pop("plain", PLAIN)
    return Row(name, replace(plain, name=name, options={**plain.options, **options}), plain, **row)


def replicas(count: int, threads: int = 0) -> Row:
    """Replicas that share batch and threads; the losses are those of as many micro-batches on one replica."""
    name = f"replicas{count}_threads{threads}" if threads else f"replicas{count}"
    ours = Form(name, replicas=count, share=count, threads=threads)
    plain = replace(PLAIN, name=f"threads: {threads}", threads=threads) if threads else PLAIN
    expected = Form(f"{count} micro-batches", micro_batches=count, share=count)
    return Row(name, ours, plain, ROUNDING, expected, ALL if threads else (*ALL, "mlp"))


CONTEXTS = popart.BatchSerializationTransformContext
STANDARD = popart.RecomputationType.Standard
LOSS_SCALING = popart.AutomaticLossScalingSettings()
LOSS_SCALING.enabled = True

ROWS = (
    *(replicas(count, threads) for count in (2, 4) for threads in (0, 1, 4)),
    with_options(
        "merged_collectives",
        {"replicatedCollectivesSettings": popart.ReplicatedCollectivesSettings(True, True, True, True)},
        plain=TWO_REPLICAS,
    ),
    with_options("sharded_state", STATE_IN_PARTS, plain=TWO_REPLICAS),
    with_options("sharded", ALL_IN_PARTS, plain=TWO_REPLICAS),
    # Of weights that are off chip or watched, a product of few rows adds up in another order (decision 0029).
    with_options("off_chip", OFF_CHIP, bound=ROUNDING, networks=(*ALL, "layers20")),
    with_options("recompute", {"autoRecomputation": STANDARD}),
    Row("max_memory", Form("half of all memory", spared=0.5), PLAIN),
    Row("half_activations", Form("half of the activations", spared_activations=0.5), PLAIN),
    Row("accumulation4", ACCUMULATED, FOUR_STEPS, ROUNDING, networks=(*ALL, "mlp")),
    with_options("pipeline2", stages(2), plain=ACCUMULATED, networks=(*ALL, "mlp")),
    with_options("prefetch", {"enablePrefetchDatastreams": True}, plain=IN_TURN, networks=(*ALL, "mlp")),
    Row("products_in_parts", Form("in parts", edits=(products_in_parts,)), PLAIN, ROUNDING, networks=TRANSFORMERS),
    with_options("batch_in_parts", batch_parts(CONTEXTS.Bwd)),
    with_options("forward_in_parts", batch_parts(CONTEXTS.Fwd, autoRecomputation=STANDARD), bound=ROUNDING),
    with_options("phases4", phases(4)),
    with_options("outlining", {"enableOutlining": True}, plain=NOT_OUTLINED),
    with_options("merge_updates", {"mergeVarUpdate": popart.MergeVarUpdateType.All}),
    Row("float16", PLAIN_HALVES, PLAIN, HALVES),
    with_options("stochastic_rounding", {"enableStochasticRounding": True}, plain=PLAIN_HALVES, bound=HALVES),
    with_options("loss_scaling", {"automaticLossScalingSettings": LOSS_SCALING}, plain=SCALED, bound=HALVES),
    with_options("check_floats", {"enableFloatingPointChecks": True}, bound=ROUNDING),
    # Zeros in the place of all inputs: the losses are others.
    with_options("synthetic_data", {"syntheticDataMode": popart.SyntheticDataMode.Zeros}, bound=None),
)


class Pair:
    """Both forms of a row on a network, ready to run."""

    def __init__(self, row: Row, network: str, folder: Path) -> None:
        """Takes the programs from the folder of exported networks."""
        self._row = row
        plain = Training(row.plain, *row.plain.load(folder, network))
        self._plain_plan = planned_bytes(plain.session)
        self._limit = row.ours.limit(self._plain_plan)
        ours = Training(row.ours, *row.ours.load(folder, network), self._limit)
        self.sides = {"ours": ours, "plain": plain}
        self._expected = plain
        if row.expected:
            self._expected = Training(row.expected, *row.expected.load(folder, network))

    def facts(self) -> dict[str, Any]:
        """What both plan to hold, the memory limit if there is one, and how far the first losses differ."""
        losses = [training.losses(CHECKED_UPDATES) for training in (self.sides["ours"], self._expected)]
        self._expected = self.sides["plain"]  # what only the check needs is gone
        difference = largest_difference(*(list(of_form) for of_form in losses))
        plans = {side: planned_bytes(training.session) for side, training in self.sides.items()}
        return {**plans, "limit": self._limit, "difference": difference, "bound": self._row.bound}


BY_NAME = {row.name: row for row in ROWS}
# "recompute_gpt" and so on: row and network.
NAMES = {f"{row.name}_{network}": (row, network) for row in ROWS for network in row.networks}
