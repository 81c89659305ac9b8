"""The transforms that `./dev bench --transforms` measures, as a table: the change, and the form it is compared with.

A row names two forms of training (`training_forms`) that both give the same updates: `ours` with the transform and
`plain` without it. ``recompute_gpt`` is the row ``recompute`` on the network of ``gpt_train_b8``. Rows belong to a
topic, and every topic has rows on the three networks of `ALL`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import popart
from exported_programs import optimizer
from figures import largest_difference
from model_edits import (
    in_bfloats,
    in_halves,
    marked_for_recomputation,
    products_in_parts,
    with_overlapped_inputs,
)
from training_forms import Form, Training, planned_bytes

# The network of each short name, a key of `networks.BENCHMARKS`.
NETWORKS = {
    "gpt": "gpt_train_b8",
    "resnet18": "resnet18_train_b8",
    "bert_tiny": "bert_tiny_train_b8",
    "mlp": "mlp_train_b80",
    "layers20": "layers20_train_b2",
}
ALL = ("gpt", "resnet18", "bert_tiny")
# Largest difference of a loss, relative to the largest one.
BITS, ROUNDING, HALVES, BFLOATS = 0.0, 1e-3, 2e-2, 8e-2  # BFLOAT16 has three bits fewer than FLOAT16
FLOORED = 8e-2  # in FLOAT16 probabilities below 6.1e-5 are raised to it: the loss of a label is at most 9.7
CHECKED_UPDATES = 4


@dataclass(frozen=True)
class Row:
    """One transform.

    Attributes:
        name: Name of the row.
        ours: The form with the transform.
        plain: The form without it; measured in turns with `ours`.
        bound: Largest difference of the losses, relative; 0: the same bits; None: they are not comparable.
        expected: The form whose losses ours must have, if it is not `plain`.
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
EIGHT_ACCUMULATED = Form("eight in one update", micro_batches=8)
TWO_REPLICAS = Form("two replicas", replicas=2, share=2)
TWO_ACCUMULATING = Form("two replicas, one update", replicas=2, micro_batches=4, share=2)
PLAIN_HALVES = Form("FLOAT16", edits=(in_halves,))
# The scale may change in each update; a power of two leaves the bits of the others.
# Squares of gradients are numbers of FLOAT16 at this scale.
LIFTED = replace(PLAIN_HALVES, name="FLOAT16, scale 16384", optimizer={"lossScaling": (16384.0, True)})
SCALED = replace(PLAIN_HALVES, name="FLOAT16, scale 128", optimizer={"lossScaling": (128.0, False)})
# A run of eight batches; the host needs as long to provide each as the program needs to compute it.
IN_TURN = Form("host in turn", batches=8, slow_host=True, options={"enablePrefetchDatastreams": False})
NOT_OUTLINED = Form("not outlined", options={"enableOutlining": False})


def located(location: popart.TensorLocation, *kinds: str) -> dict[str, Any]:
    """The locations of tensors of these kinds; small ones are not moved."""
    return {f"{kind}TensorLocationSettings": popart.TensorLocationSettings(location, 2, 8192) for kind in kinds}


REMOTE = popart.TensorLocation(popart.TensorStorage.OffChip)
OFF_CHIP = located(REMOTE, "weight", "optimizerState", "activation")
IN_PARTS = popart.TensorLocation(popart.TensorStorage.OnChip, popart.ReplicatedTensorSharding.On)
STATE_IN_PARTS = located(IN_PARTS, "optimizerState")
ALL_IN_PARTS = located(IN_PARTS, "weight", "optimizerState", "accumulator")


def sharded(count: int) -> dict[str, Any]:
    """Virtual graphs of equal cost."""
    return {"virtualGraphMode": popart.VirtualGraphMode.Auto, "virtualGraphSplitRatios": [1.0 / count] * count}


def stages(count: int) -> dict[str, Any]:
    """A pipeline of `count` stages of equal cost."""
    return {"enablePipelining": True, **sharded(count)}


TWO_STAGES = replace(ACCUMULATED, name="two stages", options=stages(2))
IN_ORDER = replace(TWO_STAGES, name="two stages in turn", engine={"pipeline.concurrent": "never"})


def phases(count: int) -> dict[str, Any]:
    """Execution phases of equal work on one device, all tensors off chip between them."""
    settings = popart.ExecutionPhaseSettings()
    settings.phases, settings.stages = count, 1
    mode = popart.VirtualGraphMode.ExecutionPhases
    return {"virtualGraphMode": mode, "executionPhaseSettings": settings, **OFF_CHIP}


def batch_parts(
    context: popart.BatchSerializationTransformContext,
    method: popart.BatchSerializationMethod = popart.BatchSerializationMethod.UnrollStatic,
    **further: Any,
) -> dict[str, Any]:
    """The samples of a batch in two halves, one after the other."""
    return {
        "batchSerializationSettings": popart.BatchSerializationSettings(2, True, True, True, context, method),
        **further,
    }


def with_options(name: str, options: Mapping[str, Any], **row: Any) -> Row:
    """A row whose transform consists of session options."""
    plain = row.pop("plain", PLAIN)
    return Row(name, replace(plain, name=name, options={**plain.options, **options}), plain, **row)


def on_threads(count: int) -> Form:
    """The plain form on `count` threads; 0: on all cores."""
    return replace(PLAIN, name=f"threads: {count}", threads=count) if count else PLAIN


def replicas(count: int, threads: int = 0) -> Row:
    """Replicas that share batch and threads; losses are those of the same number of micro-batches on one replica."""
    name = f"replicas{count}_threads{threads}" if threads else f"replicas{count}"
    ours = Form(name, replicas=count, share=count, threads=threads)
    if count == 1:
        return Row(name, ours, PLAIN)
    expected = Form(f"{count} micro-batches", micro_batches=count, share=count)
    return Row(name, ours, on_threads(threads), ROUNDING, expected, ALL if threads else (*ALL, "mlp"))


def merged_updates(kind: popart.MergeVarUpdateType, mebibytes: int) -> dict[str, Any]:
    """Updates of this many mebibytes of weights at once."""
    return {"mergeVarUpdate": kind, "mergeVarUpdateMemThreshold": mebibytes << 20}


def clipped(rule: Mapping[str, Any], values: Mapping[str, Any]) -> popart.Optimizer:
    """The optimizer of the network with a limit on the norm of all gradients, which is never reached."""
    return optimizer(rule, values, clip_norm_settings=[popart.ClipNormSettings.clipAllWeights(1e30)])


def state_in_halves(rule: Mapping[str, Any], values: Mapping[str, Any]) -> popart.Optimizer:
    """The optimizer of the network with its state in FLOAT16, scaled by the loss scale for Adam."""
    if rule["kind"] == "sgd":
        return optimizer(rule, values, accl1Type=popart.DataType.FLOAT16)
    types = dict.fromkeys(("accl1_type", "accl2_type"), popart.DataType.FLOAT16)
    return optimizer(rule, values, scaled_optimizer_state=True, **types)


def state_in_floats(rule: Mapping[str, Any], values: Mapping[str, Any]) -> popart.Optimizer:
    """The same in FLOAT."""
    names = ("accl1Type", "accumType") if rule["kind"] == "sgd" else ("accl1_type", "accl2_type", "accum_type")
    return optimizer(rule, values, **dict.fromkeys(names, popart.DataType.FLOAT))


def other_optimizer(name: str, make: Any, **settings: Any) -> Row:
    """Another optimizer than that of the network; it is compared with itself with merged updates."""

    def made(rule: Mapping[str, Any], values: Mapping[str, Any]) -> popart.Optimizer:
        return make({"defaultLearningRate": (rule["lr"] / 10, True), **values}, **settings)

    ours = Form(name, make_optimizer=made)
    merged = replace(ours, name=f"{name}, merged", options={"mergeVarUpdate": popart.MergeVarUpdateType.All})
    return Row(name, ours, PLAIN, ROUNDING, merged)


def momentum(values: Mapping[str, Any], **settings: Any) -> popart.SGD:
    """SGD with momentum."""
    return popart.SGD({**values, "defaultMomentum": (0.9, True)}, **settings)


CONTEXTS = popart.BatchSerializationTransformContext
METHODS = popart.BatchSerializationMethod
RECOMPUTATION = popart.RecomputationType
RUNNING = {"meanAccumulationAndReplicationReductionStrategy": popart.MeanReductionStrategy.Running}
LOSS_SCALING = popart.AutomaticLossScalingSettings()
LOSS_SCALING.enabled = True
OVERLAPPED = {
    "enableExplicitMainLoops": True,
    "useHostCopyOps": True,
    "explicitRecomputation": True,
    "numIOTiles": 32,
    "virtualGraphMode": popart.VirtualGraphMode.Auto,
}
RETURNED_LATER = popart.AnchorReturnType("All", popart.TileSet.IO, popart.ExchangeStrategy.OverlapInnerLoop)
AHEAD = {"enablePrefetchDatastreams": True}

TOPICS: dict[str, tuple[Row, ...]] = {
    "replicas": (
        *(replicas(1, threads) for threads in (1, 4)),
        *(replicas(count, threads) for count in (2, 4) for threads in (0, 1, 4)),
        with_options(
            "merged_collectives",
            {"replicatedCollectivesSettings": popart.ReplicatedCollectivesSettings(True, True, True, True)},
            plain=TWO_REPLICAS,
        ),
        Row(
            "replicas2_accumulation4",
            TWO_ACCUMULATING,
            ACCUMULATED,
            ROUNDING,
            Form("eight halves", micro_batches=8, share=2),
        ),
    ),
    "state_in_parts": (
        with_options("sharded_state", STATE_IN_PARTS, plain=TWO_REPLICAS),
        with_options("sharded", ALL_IN_PARTS, plain=TWO_REPLICAS),
        # Accumulators in parts add data that replicas have in common (decision 0025).
        with_options("sharded_accumulation4", ALL_IN_PARTS, plain=TWO_ACCUMULATING, bound=ROUNDING),
    ),
    "remote_memory": (
        # For weights that are off chip or watched, a product of few rows adds in another order (decision 0029).
        with_options("off_chip", OFF_CHIP, bound=ROUNDING, networks=(*ALL, "layers20")),
        with_options("off_chip_state", located(REMOTE, "optimizerState")),
        Row(
            "off_chip_file",
            Form("file", options=OFF_CHIP, environment={"POPART_REMOTE_MEMORY": tempfile.gettempdir()}),
            PLAIN,
            ROUNDING,
        ),
        with_options("phases4", phases(4)),
    ),
    "recomputation": (
        with_options("recompute", {"autoRecomputation": RECOMPUTATION.Standard}),
        with_options("recompute_norms", {"autoRecomputation": RECOMPUTATION.NormOnly}),
        with_options("recompute_all", {"autoRecomputation": RECOMPUTATION.RecomputeAll}),
        Row("recompute_marked", Form("marked", edits=(marked_for_recomputation,)), PLAIN),
        Row("max_memory", Form("half of all memory", spared=0.5), PLAIN),
        Row("half_activations", Form("half of the activations", spared_activations=0.5), PLAIN),
    ),
    "accumulation": (
        Row("accumulation4", ACCUMULATED, FOUR_STEPS, ROUNDING, networks=(*ALL, "mlp")),
        with_options("accumulation4_running", RUNNING, plain=ACCUMULATED, bound=ROUNDING),
        with_options("decompose_sums", {"decomposeGradSum": True}, bound=ROUNDING),
        with_options("merge_updates", {"mergeVarUpdate": popart.MergeVarUpdateType.All}),
        with_options("merge_updates_tight", merged_updates(popart.MergeVarUpdateType.AutoTight, 1)),
        with_options("merge_updates_loose", merged_updates(popart.MergeVarUpdateType.AutoLoose, 1)),
    ),
    "stages": (
        with_options("sharding2", sharded(2)),
        with_options("pipeline2", stages(2), plain=ACCUMULATED, networks=(*ALL, "mlp")),
        with_options("pipeline4", stages(4), plain=EIGHT_ACCUMULATED),
        with_options("pipeline2_recompute", {"autoRecomputation": RECOMPUTATION.Pipeline}, plain=TWO_STAGES),
        Row(
            "pipeline2_together",
            replace(TWO_STAGES, name="at the same time", engine={"pipeline.concurrent": "always"}),
            IN_ORDER,
        ),
        with_options("forward_program", {"createImplicitPipeliningFwdOnlyProgram": True}, plain=TWO_STAGES),
    ),
    "serialisation": (
        Row("products_in_parts", Form("in parts", edits=(products_in_parts,)), PLAIN, ROUNDING),
        with_options("batch_in_parts", batch_parts(CONTEXTS.Bwd)),
        with_options("batch_in_dynamic_parts", batch_parts(CONTEXTS.Bwd, METHODS.UnrollDynamic)),
        # Attention and its gradient may be in different loops (docs/decisions/0061).
        with_options("batch_in_a_loop", batch_parts(CONTEXTS.Bwd, METHODS.Loop), bound=ROUNDING),
        with_options(
            "forward_in_parts",
            batch_parts(CONTEXTS.Fwd, autoRecomputation=RECOMPUTATION.Standard),
            bound=ROUNDING,
        ),
        with_options("outlining", {"enableOutlining": True}, plain=NOT_OUTLINED),
    ),
    "host_data": (
        with_options("prefetch", AHEAD, plain=IN_TURN, networks=(*ALL, "mlp")),
        with_options(
            "prefetch4", {**AHEAD, "defaultBufferingDepth": 4, "rearrangeAnchorsOnHost": False}, plain=IN_TURN
        ),
        Row(
            "overlap",
            replace(
                IN_TURN,
                name="overlap",
                options={**IN_TURN.options, **OVERLAPPED},
                edits=(with_overlapped_inputs,),
                returns=RETURNED_LATER,
            ),
            IN_TURN,
        ),
        # All inputs are replaced by zeros: the losses differ.
        with_options("synthetic_data", {"syntheticDataMode": popart.SyntheticDataMode.Zeros}, bound=None),
        with_options("cycle_counter", {"instrumentWithHardwareCycleCounter": True}),
    ),
    "low_precision": (
        Row("float16", PLAIN_HALVES, PLAIN, FLOORED),
        Row("bfloat16", Form("BFLOAT16", edits=(in_bfloats,)), PLAIN, BFLOATS),
        Row(
            "float16_state",
            replace(LIFTED, name="FLOAT16, state too", make_optimizer=state_in_halves),
            replace(LIFTED, name="FLOAT16, state in FLOAT", make_optimizer=state_in_floats),
            HALVES,
        ),
        # For a model of FLOAT operators.
        with_options("precision_bfloat16", {"precision": "bfloat16"}, bound=BFLOATS),
        with_options("precision_float16", {"precision": "float16"}, bound=FLOORED),
        with_options("stochastic_rounding", {"enableStochasticRounding": True}, plain=PLAIN_HALVES, bound=HALVES),
        with_options("loss_scaling", {"automaticLossScalingSettings": LOSS_SCALING}, plain=SCALED, bound=HALVES),
        with_options("check_floats", {"enableFloatingPointChecks": True}, bound=ROUNDING),
    ),
    "optimizers": (
        Row("clipping", Form("clipped", make_optimizer=clipped), PLAIN, ROUNDING),
        other_optimizer("sgd", popart.SGD),
        other_optimizer("momentum", momentum),
        other_optimizer(
            "momentum_separate", momentum, accumulatorAndMomentum=popart.SGDAccumulatorAndMomentum.Separate
        ),
        other_optimizer("adam", popart.Adam),
        other_optimizer("adamax", popart.Adam, mode=popart.AdamMode.AdaMax),
        other_optimizer("lamb", popart.Adam, mode=popart.AdamMode.Lamb),
        other_optimizer("rmsprop", popart.Adaptive),
        other_optimizer("centered_rmsprop", popart.Adaptive, mode=popart.AdaptiveMode.CenteredRMSProp),
        other_optimizer("adagrad", popart.Adaptive, mode=popart.AdaptiveMode.AdaGrad),
        other_optimizer("adadelta", popart.Adaptive, mode=popart.AdaptiveMode.AdaDelta),
    ),
}
ROWS = tuple(row for rows in TOPICS.values() for row in rows)


class Pair:
    """Both forms of a row on a network, ready to run."""

    def __init__(self, row: Row, network: str, folder: Path) -> None:
        """Read the programs from the folder of exported networks."""
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
        """The memory plans of both, the memory limit if there is one, and the difference of the first losses."""
        losses = [training.losses(CHECKED_UPDATES) for training in (self.sides["ours"], self._expected)]
        self._expected = self.sides["plain"]  # the form for the check is dropped
        difference = largest_difference(*(list(of_form) for of_form in losses))
        plans = {side: planned_bytes(training.session) for side, training in self.sides.items()}
        return {**plans, "limit": self._limit, "difference": difference, "bound": self._row.bound}


BY_NAME = {row.name: row for row in ROWS}
# "recompute_gpt" and so on: row and network.
NAMES = {f"{row.name}_{network}": (row, network) for row in ROWS for network in row.networks}


def chosen(rows: list[str], networks: list[str]) -> list[str]:
    """Names of rows on networks; `rows`: names of rows and topics, all if there are none."""
    wanted = {row.name for name in rows for row in TOPICS.get(name, ())} | set(rows)
    return [name for name, (row, network) in NAMES.items() if network in networks and (not rows or row.name in wanted)]
