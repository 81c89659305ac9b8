"""Updates where replicas meet: one memory for weights and state of all replicas, and the numbers of separate ones."""

import re

import numpy as np
import popart
import pytest

from tests.python.popart.test_accumulation import CASES
from tests.python.popart.training_runs import options_with, ready, training_session

ROWS, COLUMNS, BATCH = 160, 128, 3  # a weight of 80 KiB, which no other gradient joins
RATE = 0.125


def model(anchored=False):
    """|x w| summed: the gradient is known in closed form. Anchored: the weight is sent to the host, too."""
    rng = np.random.default_rng(5)
    weight = rng.normal(0, 0.1, (ROWS, COLUMNS)).astype(np.float32)
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [BATCH, ROWS], "x")
    w = builder.addInitializedInputTensor(weight, "w")
    loss = builder.aiGraphcore.l1loss([builder.aiOnnx.matmul([x, w])], 1.0, reduction=popart.ReductionType.Sum)
    return builder.getModelProto(), [loss, w] if anchored else [loss], weight


def session_of(optimizer, replicas, batches=1, factor=1, anchored=False):
    proto, anchors, weight = model(anchored)
    options = options_with(factor, replicas)
    return ready(training_session(proto, anchors[0], optimizer, options, anchors, batches)), weight


def bytes_of(session, what):
    return int(re.search(rf"{what}: (\d+) bytes", session.getSummaryReport())[1])


def read_weight(session):
    session.weightsToHost()
    weight = np.empty((ROWS, COLUMNS), np.float32)
    session.readWeights(popart.PyWeightsIO({"w": weight}))
    return weight


@pytest.mark.parametrize("replicas", [2, 3])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_the_weight_is_there_once(replicas, optimizer):
    make = {"sgd": lambda: popart.ConstSGD(RATE), "adam": lambda: popart.Adam({"defaultLearningRate": (RATE, True)})}
    session, _ = session_of(make[optimizer](), replicas)
    per_replica = bytes_of(session, "activations") + bytes_of(session, "scratch")
    total = bytes_of(session, "constants") + replicas * per_replica + bytes_of(session, "variables")
    assert total <= bytes_of(session, "total") <= total + 64 * replicas  # step counters are each replica's own


@pytest.mark.parametrize("replicas", [2, 4])
def test_a_memory_limit_counts_what_replicas_share_once(replicas):
    def limited(most):
        proto, anchors, _ = model()
        options = options_with(1, replicas, engineOptions={"max_memory": str(most)} if most else {})
        optimizer = popart.Adam({"defaultLearningRate": (RATE, True)})
        session = training_session(proto, anchors[0], optimizer, options, anchors, 1)
        session.prepareDevice()
        return session

    total = bytes_of(limited(None), "total")
    assert limited(total).memoryFit() is None  # nothing has to be moved or computed again
    # What is moved off chip is shared no more, so that nothing helps; of each replica's share the message speaks.
    with pytest.raises(popart.OutOfMemoryException, match=f"got {total // replicas} bytes") as refusal:
        limited(total - 1024 * replicas)
    assert f"allow {total // replicas * replicas} bytes" in str(refusal.value)


@pytest.mark.parametrize("batches", [1, 3])
def test_plain_descent_by_hand(batches):
    replicas = 2
    session, weight = session_of(popart.ConstSGD(RATE), replicas, batches)
    x = np.random.default_rng(6).normal(size=(batches, replicas, BATCH, ROWS)).astype(np.float32)
    session.run(popart.PyStepIO({"x": x if batches > 1 else x[0]}, session.initAnchorArrays()))
    expected = weight.astype(np.float64)
    for batch in x.astype(np.float64):
        expected -= RATE * sum(
            sample.T @ np.sign(sample @ expected) for sample in batch
        )  # the default reduction: a sum
    np.testing.assert_allclose(read_weight(session), expected, rtol=0, atol=1e-5)


def test_every_replica_reads_the_new_weight_and_that_of_the_host():
    session, weight = session_of(popart.SGD({"defaultLearningRate": (0.0, False)}), 2, anchored=True)
    anchors = session.initAnchorArrays()
    x = np.ones((2, BATCH, ROWS), np.float32)
    for value in (weight, weight + 1):
        session.writeWeights(popart.PyWeightsIO({"w": value}))
        session.weightsFromHost()
        session.run(popart.PyStepIO({"x": x}, anchors))
        np.testing.assert_array_equal(anchors["w"], np.stack([value, value]))
        np.testing.assert_array_equal(read_weight(session), value)


@pytest.mark.parametrize("optimizer", sorted(CASES))
def test_a_failure_of_one_replica_leaves_a_weight_to_go_on_with(optimizer):
    session, _ = session_of(CASES[optimizer][0](), 2, batches=3)
    calls = []

    def give(_name, _prefetch):
        calls.append(1)
        if len(calls) == 4:
            raise ValueError("the data are gone")
        return np.ones((BATCH, ROWS), np.float32)

    losses = np.zeros(1, np.float32)
    with pytest.raises(Exception, match="the data are gone"):
        session.run(popart.PyStepIOCallback(give, lambda _n: None, lambda _n: losses, lambda _n: None))
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": np.ones((3, 2, BATCH, ROWS), np.float32)}, anchors))
    assert all(np.isfinite(value).all() for value in anchors.values())
    assert np.isfinite(read_weight(session)).all()
