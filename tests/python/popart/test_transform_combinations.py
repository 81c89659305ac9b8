"""Transforms that keep the numbers, together: the bits of the plain program, whatever is combined."""

import itertools
import re

import numpy as np
import popart
import pytest

from tests.python.popart.test_off_chip import KINDS, OFF, off_chip
from tests.python.popart.training_runs import ready, saved_state, training_session

WIDTH, LAYERS, BATCH, STEPS, RUNS = 16, 5, 4, 2, 2


def model(batch=BATCH):
    """Products, batch-free norms, dropout and a residual path: what the transforms treat in different ways."""
    rng = np.random.default_rng(11)
    builder = popart.Builder()
    h = builder.addInputTensor("FLOAT", [batch, WIDTH], "x")
    for i in range(LAYERS):
        w = builder.addInitializedInputTensor(rng.normal(0, 0.3, (WIDTH, WIDTH)).astype(np.float32), f"w{i}")
        b = builder.addInitializedInputTensor(rng.normal(0, 0.1, WIDTH).astype(np.float32), f"b{i}")
        scale = builder.addInitializedInputTensor(np.ones(WIDTH, np.float32), f"scale{i}")
        shift = builder.addInitializedInputTensor(np.zeros(WIDTH, np.float32), f"shift{i}")
        y = builder.aiOnnx.add([builder.aiOnnx.matmul([h, w]), b])
        y = builder.aiGraphcore.groupnormalization([y, scale, shift], 1)[0]
        (y,) = builder.aiOnnx.dropout([builder.aiOnnx.tanh([y])], 1, 0.25)
        h = builder.aiOnnx.add([h, y])
    loss = builder.aiGraphcore.l1loss([h], 0.5, reduction=popart.ReductionType.Sum)
    return builder.getModelProto(), loss


ADAM = popart.Adam({"defaultLearningRate": (0.01, False), "defaultWeightDecay": (0.02, True)})
OPTIMIZERS = {
    "sgd": popart.SGD({"defaultLearningRate": (0.01, False)}),
    "momentum": popart.SGD({"defaultLearningRate": (0.01, False), "defaultMomentum": (0.9, True)}),
    "adam": ADAM,
}


def session_of(kinds, factor, replicas, given, batch=BATCH, device=None, optimizer=ADAM):
    proto, loss = model(batch)
    options = off_chip(*kinds, factor=factor, replicas=replicas, **given)
    return ready(training_session(proto, loss, optimizer, options, batches=STEPS, device=device), seed=7), loss


def trained(tmp_path, kinds, factor, replicas, given, batch=BATCH, device=None, optimizer=ADAM, runs=RUNS):
    """Losses, and all that is saved."""
    session, loss = session_of(kinds, factor, replicas, given, batch, device, optimizer)
    anchors = session.initAnchorArrays()
    rng, losses = np.random.default_rng(3), []
    for _ in range(runs):
        data = rng.normal(size=(STEPS, factor, replicas, batch, WIDTH)).astype(np.float32)
        session.run(popart.PyStepIO({"x": data}, anchors))
        losses.append(anchors[loss].copy())
    return np.stack(losses), saved_state(session, tmp_path)


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("factor", [1, 2])
def test_the_bits_of_the_plain_program(tmp_path, replicas, factor):
    rules = popart.RecomputationType
    losses, state = trained(tmp_path, (), factor, replicas, {"enableOutlining": False})
    assert np.isfinite(losses).all()
    moved = ((), KINDS, ("optimizerState", "activation"))
    repeated = (rules.NoRecompute, rules.Standard, rules.RecomputeAll)
    for kinds, rule, outlines, decomposes in itertools.product(moved, repeated, (False, True), (False, True)):
        given = {"autoRecomputation": rule, "enableOutlining": outlines, "decomposeGradSum": decomposes}
        other_losses, other_state = trained(tmp_path, kinds, factor, replicas, given)
        assert np.array_equal(other_losses, losses), (kinds, given)
        assert other_state == state, (kinds, given)


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("factor", [1, 2])
def test_a_memory_limit_on_top_keeps_the_bits(tmp_path, replicas, factor):
    rules = popart.RecomputationType
    batch = 64  # activations are most of the memory
    losses, state = trained(tmp_path, (), factor, replicas, {"enableOutlining": False}, batch)
    for kinds, rule, outlines in itertools.product(
        ((), ("optimizerState",)), (rules.NoRecompute, rules.NormOnly), (False, True)
    ):
        given = {"autoRecomputation": rule, "enableOutlining": outlines}
        report = session_of(kinds, factor, replicas, given, batch)[0].getSummaryReport()
        given["engineOptions"] = {"max_memory": str(int(0.85 * int(re.search(r"total: (\d+)", report)[1])))}
        limited, _ = session_of(kinds, factor, replicas, given, batch)
        assert limited.memoryFit() is not None
        other_losses, other_state = trained(tmp_path, kinds, factor, replicas, given, batch)
        assert np.array_equal(other_losses, losses), (kinds, given)
        assert other_state == state, (kinds, given)


def phases(count):
    settings = popart.ExecutionPhaseSettings()
    settings.phases, settings.stages = count, 1
    return settings


IN_PARTS = popart.TensorLocationSettings(
    popart.TensorLocation(popart.TensorStorage.OnChip, popart.ReplicatedTensorSharding.On), 2, 2
)
OFF_CHIP = popart.TensorLocationSettings(OFF, 2, 8192)
HALVES = popart.BatchSerializationSettings(
    2,
    True,
    True,
    True,
    popart.BatchSerializationTransformContext.Bwd,
    popart.BatchSerializationMethod.UnrollStatic,
)
FEATURES = {
    "sharded": {"weightTensorLocationSettings": IN_PARTS, "accumulatorTensorLocationSettings": OFF_CHIP},
    "state_off_chip": {"optimizerStateTensorLocationSettings": OFF_CHIP},
    "activations_off_chip": {"activationTensorLocationSettings": OFF_CHIP},
    "merged": {"mergeVarUpdate": popart.MergeVarUpdateType.All},
    "batch_in_parts": {"batchSerializationSettings": HALVES},
    "phases": {
        "virtualGraphMode": popart.VirtualGraphMode.ExecutionPhases,
        "executionPhaseSettings": phases(2),
    },
    "pipelined": {"enablePipelining": True, "virtualGraphMode": popart.VirtualGraphMode.Auto},
    "recomputed": {"autoRecomputation": popart.RecomputationType.Pipeline},
}


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_features_together_give_the_bits_of_the_plain_program(tmp_path, replicas, size):
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 2 * replicas})
    losses, state = trained(tmp_path, (), 4, replicas, {}, device=device)
    for names in itertools.combinations(FEATURES, size):
        given = {option: value for name in names for option, value in FEATURES[name].items()}
        if {"phases", "pipelined"} <= set(names):
            with pytest.raises(popart.popart_exception, match="requires virtualGraphMode ExecutionPhases"):
                trained(tmp_path, (), 4, replicas, given, device=device)
            continue
        other_losses, other_state = trained(tmp_path, (), 4, replicas, given, device=device)
        assert np.array_equal(other_losses, losses), names
        assert other_state == state, names


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_each_feature_gives_the_bits_of_the_plain_program_for_twenty_updates(tmp_path, optimizer, replicas):
    collectives = popart.ReplicatedCollectivesSettings(True, True, True, True)
    features = FEATURES | {
        "stages_at_the_same_time": FEATURES["pipelined"] | {"engineOptions": {"pipeline.concurrent": "always"}},
        "stages_in_turn": FEATURES["pipelined"] | {"engineOptions": {"pipeline.concurrent": "never"}},
        "collectives_merged": {"replicatedCollectivesSettings": collectives},
        "outlined": {"enableOutlining": True},
        "gradients_added_one_by_one": {"decomposeGradSum": True},
    }
    how = {
        "device": popart.DeviceManager().createIpuModelDevice({"numIPUs": 2 * replicas}),
        "optimizer": OPTIMIZERS[optimizer],
        "runs": 20 // STEPS,
    }
    losses, state = trained(tmp_path, (), 4, replicas, {"enableOutlining": False}, **how)
    for name, given in features.items():
        other_losses, other_state = trained(tmp_path, (), 4, replicas, given, **how)
        assert np.array_equal(other_losses, losses), name
        assert other_state == state, name
