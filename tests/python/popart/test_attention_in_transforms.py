"""Attention in programs that transforms change: found in all of them, with the bits of the plain program."""

import re

import numpy as np
import popart
import pytest

from tests.python.popart.test_off_chip import KINDS, off_chip
from tests.python.popart.training_runs import kernels_of, ready, saved_state, training_session

BATCH, LENGTH, WIDTH, HEADS, LAYERS = 4, 24, 32, 4, 4
RULES = popart.RecomputationType


def model(scales="scores", marks=False):
    """Layers of causal attention with a residual path.

    `scales`: what is multiplied, the scores, or both operands of the product as PyTorch's exporters write it.
    `marks`: the softmax and the steps in front of it are marked to be computed again.
    """
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
        k = o.transpose([k], [0, 1, 3, 2])
        if scales == "operands":
            root = o.constant(np.array(0.6, np.float32))
            scores = o.matmul([o.mul([q, root]), o.div([k, o.constant(np.array(1.7, np.float32))])])
        else:
            scores = o.mul([o.matmul([q, k]), o.constant(np.array(0.35, np.float32))])
        masked = o.add([scores, mask])
        probabilities = o.softmax([masked], 3)
        if marks:
            builder.recomputeOutputInBackwardPass(masked)
            builder.recomputeOutputInBackwardPass(probabilities)
        y = o.matmul([probabilities, v])
        h = o.add([h, product(o.reshape([o.transpose([y], [0, 2, 1, 3]), joined]), f"o{i}")])
    loss = builder.aiGraphcore.l1loss([h], 0.5, reduction=popart.ReductionType.Sum)
    return builder.getModelProto(), loss


def session_of(kinds=(), factor=1, ipus=1, change=None, scales="scores", marks=False, **given):
    proto, loss = model(scales, marks)
    options = off_chip(*kinds, factor=factor, **given)
    if change:
        change(options)
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": ipus})
    adam = popart.Adam({"defaultLearningRate": (0.01, False)})
    return ready(training_session(proto, loss, adam, options, batches=2, device=device)), loss


def trained(folder, factor=1, **given):
    """Losses of three runs, and all that is saved."""
    session, loss = session_of(factor=factor, **given)
    kernels = kernels_of(session)
    assert {"FusedAttention", "FusedAttentionGrad"} <= kernels and not {"Softmax", "SoftmaxGrad"} & kernels
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
        {"kinds": ("activation",), "autoRecomputation": RULES.Standard},
        {"factor": 4, "ipus": 2, "change": pipelined},
        {"factor": 8, "ipus": 4, "change": pipelined},
        {"factor": 4, "ipus": 2, "change": pipelined, "autoRecomputation": RULES.Pipeline},
        {"change": in_parts},
        {"ipus": 2, "change": in_phases},
        {"change": half_of_memory},
        {"marks": True},
    ],
    ids=lambda given: "-".join(getattr(v, "__name__", str(v)) for v in given.values()),
)
@pytest.mark.parametrize("scales", ["scores", "operands"])
def test_the_bits_of_the_plain_program(tmp_path, given, scales):
    losses, state = trained(tmp_path, given.get("factor", 1), scales=scales)
    other_losses, other_state = trained(tmp_path, scales=scales, **given)
    assert np.array_equal(other_losses, losses)
    assert other_state == state
