"""Attention in programs that transforms change: found in all of them, with the bits of the plain program."""

import re

import numpy as np
import popart
import pytest

from tests.python.popart.test_off_chip import KINDS, off_chip
from tests.python.popart.training_runs import ready, saved_state, training_session

BATCH, LENGTH, WIDTH, HEADS, LAYERS = 4, 24, 32, 4, 4
RULES = popart.RecomputationType


def model():
    """Layers of causal attention with a residual path."""
    rng, builder = np.random.default_rng(1), popart.Builder()
    o = builder.aiOnnx
    h = builder.addInputTensor("FLOAT", [BATCH, LENGTH, WIDTH], "x")
    split = o.constant(np.array([BATCH, LENGTH, HEADS, WIDTH // HEADS]))
    joined = o.constant(np.array([BATCH, LENGTH, WIDTH]))
    mask = o.constant(np.triu(np.full((LENGTH, LENGTH), -np.inf, np.float32), 1))

    def product(t, name):
        values = rng.normal(0, 0.2, (WIDTH, WIDTH)).astype(np.float32)
        return o.matmul([t, builder.addInitializedInputTensor(values, name)])

    for i in range(LAYERS):
        q, k, v = (o.transpose([o.reshape([product(h, f"{n}{i}"), split])], [0, 2, 1, 3]) for n in "qkv")
        scores = o.mul([o.matmul([q, o.transpose([k], [0, 1, 3, 2])]), o.constant(np.array(0.35, np.float32))])
        y = o.matmul([o.softmax([o.add([scores, mask])], 3), v])
        h = o.add([h, product(o.reshape([o.transpose([y], [0, 2, 1, 3]), joined]), f"o{i}")])
    loss = builder.aiGraphcore.l1loss([h], 0.5, reduction=popart.ReductionType.Sum)
    return builder.getModelProto(), loss


def session_of(kinds=(), factor=1, ipus=1, change=None, **given):
    proto, loss = model()
    options = off_chip(*kinds, factor=factor, **given)
    if change:
        change(options)
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": ipus})
    adam = popart.Adam({"defaultLearningRate": (0.01, False)})
    return ready(training_session(proto, loss, adam, options, batches=2, device=device)), loss


def trained(folder, factor=1, **given):
    """Losses of three runs, and all that is saved."""
    session, loss = session_of(factor=factor, **given)
    anchors, rng, losses = session.initAnchorArrays(), np.random.default_rng(3), []
    for _ in range(3):
        data = rng.normal(size=(2, factor, BATCH, LENGTH, WIDTH)).astype(np.float32)
        session.run(popart.PyStepIO({"x": data}, anchors))
        losses.append(anchors[loss].copy())
    return np.stack(losses), saved_state(session, folder)


def pipelined(options):
    options.enablePipelining = True
    options.virtualGraphMode = popart.VirtualGraphMode.Auto


def in_parts(options):
    options.batchSerializationSettings.factor = 2
    options.batchSerializationSettings.transformContext = popart.BatchSerializationTransformContext.Bwd


def in_phases(options):
    options.executionPhaseSettings.phases = 2
    options.virtualGraphMode = popart.VirtualGraphMode.ExecutionPhases


def half_of_memory(options):
    total = re.search(r"total: (\d+)", session_of()[0].getSummaryReport())
    options.engineOptions = {"max_memory": str(int(total[1]) * 6 // 10)}


@pytest.mark.parametrize(
    "given",
    [
        {"autoRecomputation": RULES.Standard},
        {"autoRecomputation": RULES.RecomputeAll},
        {"kinds": KINDS},
        {"kinds": ("activation",)},
        {"factor": 4, "ipus": 2, "change": pipelined},
        {"factor": 8, "ipus": 4, "change": pipelined},
        {"factor": 4, "ipus": 2, "change": pipelined, "autoRecomputation": RULES.Pipeline},
        {"change": in_parts},
        {"ipus": 2, "change": in_phases},
        {"change": half_of_memory},
    ],
    ids=lambda given: "-".join(getattr(v, "__name__", str(v)) for v in given.values()),
)
def test_the_bits_of_the_plain_program(tmp_path, given):
    losses, state = trained(tmp_path, given.get("factor", 1))
    other_losses, other_state = trained(tmp_path, **given)
    assert np.array_equal(other_losses, losses)
    assert other_state == state
