"""syntheticDataMode: inputs are made once, the step IO is not looked at, anchors stay as they were."""

import numpy as np
import popart
import pytest

from tests.python.popart.training_runs import inference_session, ready, training_session

Modes = popart.SyntheticDataMode
ROWS, WIDTH = 64, 32


def session_for(mode, kind="FLOAT", replicas=1, factor=1, steps=1):
    """Train the sum of x w at rate 1: each micro-batch of each replica takes x away from w, which is 0 at first."""
    builder = popart.Builder()
    x = builder.addInputTensor(kind, [ROWS, WIDTH], "x")
    w = builder.addInitializedInputTensor(np.zeros((ROWS, WIDTH), np.float32), "w")
    y = builder.aiOnnx.mul([builder.aiOnnx.cast([x], "FLOAT"), w])
    loss = builder.aiGraphcore.identityloss([y], reduction=popart.ReductionType.Sum)
    options = popart.SessionOptions()
    options.syntheticDataMode = mode
    options.enableReplicatedGraphs = replicas > 1
    options.replicatedGraphCount = replicas
    options.enableGradientAccumulation = factor > 1
    options.accumulationFactor = factor
    session = ready(training_session(builder.getModelProto(), loss, popart.ConstSGD(1.0), options, batches=steps))
    return session


def never(*_):
    raise AssertionError("the step IO was called back")


def inputs_of(session, runs=1):
    """What the program added up of its input, read off its weight."""
    for _ in range(runs):
        session.run(popart.PyStepIOCallback(never, never, never, never))
    session.weightsToHost()
    weight = np.empty((ROWS, WIDTH), np.float32)
    session.readWeights(popart.PyWeightsIO({"w": weight}))
    return -weight


def test_zeros():
    np.testing.assert_array_equal(inputs_of(session_for(Modes.Zeros)), np.zeros((ROWS, WIDTH)))


@pytest.mark.parametrize("kind", ["FLOAT", "FLOAT16"])
def test_random_numbers_have_their_distribution(kind):
    normal = inputs_of(session_for(Modes.RandomNormal, kind))
    error = 4 / np.sqrt(ROWS * WIDTH)  # four deviations of the mean of N(0, 1)
    assert abs(normal.mean()) < error
    assert abs(normal.var() - 1) < 2 * error
    assert abs(np.mean(normal < 1) - 0.8413) < error


TYPES = {
    "BOOL": (0, 1), "INT8": (-128, 127), "UINT8": (0, 255), "INT16": (-(2**15), 2**15 - 1), "UINT16": (0, 2**16 - 1),
    "INT32": (-(2**31), 2**31 - 1), "UINT32": (0, 2**32 - 1), "INT64": (-(2**63), 2**63 - 1), "UINT64": (0, 2**64 - 1),
    "FLOAT16": (-65504, 65504), "BFLOAT16": (-3.3895314e38, 3.3895314e38),
    "FLOAT": (-float(np.finfo(np.float32).max), float(np.finfo(np.float32).max)),
}  # fmt: skip


@pytest.mark.parametrize("kind", TYPES)
def test_uniform_numbers_span_their_type(kind):
    low, high = TYPES[kind]
    share = (inputs_of(session_for(Modes.RandomUniform, kind)).astype(np.float64) - low) / (high - low)
    assert share.min() >= 0 and share.max() <= 1
    assert share.min() < 0.01 and share.max() > 0.99
    error = 4 / np.sqrt(ROWS * WIDTH)
    assert abs(share.mean() - 0.5) < error / 2
    assert abs(share.var() - (0.25 if kind == "BOOL" else 1 / 12)) < error / 4


@pytest.mark.parametrize("kind", ["INT8", "INT32", "UINT8", "BOOL"])
def test_normal_integers_are_rounded(kind):
    values = inputs_of(session_for(Modes.RandomNormal, kind))
    if kind == "BOOL":
        np.testing.assert_array_equal(values, np.ones((ROWS, WIDTH)))
        return
    error = 4 / np.sqrt(ROWS * WIDTH)
    assert (values == np.rint(values)).all()
    assert abs(np.mean(values == 1) - 0.2417) < error  # of N(0, 1) between 0.5 and 1.5
    assert abs(np.mean(values == -1) - (0 if kind == "UINT8" else 0.2417)) < error


@pytest.mark.parametrize("kind", ["INT32", "BOOL", "FLOAT"])
def test_zeros_of_every_type(kind):
    np.testing.assert_array_equal(inputs_of(session_for(Modes.Zeros, kind)), np.zeros((ROWS, WIDTH)))


def test_every_micro_batch_reads_the_same_values():
    once = inputs_of(session_for(Modes.RandomNormal))
    many = inputs_of(session_for(Modes.RandomNormal, replicas=2, factor=3, steps=2), runs=2)
    np.testing.assert_allclose(many, 24 * once, rtol=1e-5)


def test_streams_differ():
    builder = popart.Builder()
    inputs = [builder.addInputTensor("FLOAT", [ROWS, WIDTH]) for _ in range(2)]
    w = builder.addInitializedInputTensor(np.zeros((ROWS, WIDTH), np.float32), "w")
    difference = builder.aiOnnx.mul([builder.aiOnnx.sub(inputs), w])
    loss = builder.aiGraphcore.identityloss([difference], reduction=popart.ReductionType.Sum)
    options = popart.SessionOptions()
    options.syntheticDataMode = Modes.RandomNormal
    session = training_session(builder.getModelProto(), loss, popart.ConstSGD(1.0), options, [])  # fmt: skip
    session.prepareDevice()
    session.weightsFromHost()
    assert abs(inputs_of(session).var() - 2) < 0.5


def test_arrays_are_neither_checked_nor_written():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT16", [4], "x")
    y = builder.aiOnnx.exp([x])
    options = popart.SessionOptions()
    options.syntheticDataMode = Modes.Zeros
    session = inference_session(builder.getModelProto(), [y], options, batches=3)
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    anchors[y][:] = 7
    session.run(popart.PyStepIO({x: np.ones(5, np.int32)}, anchors))
    np.testing.assert_array_equal(anchors[y], np.full((3, 4), 7))
    session.run(popart.PyStepIO({}, {}))
    figures = session.statistics()
    assert figures.runs == 2
    assert figures.transfersFromHost == figures.transfersToHost == figures.bytesFromHost == figures.bytesToHost == 0
