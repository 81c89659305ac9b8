"""What sessions say of their runs (statistics, getCycleCount), and buffers that are sent alone."""

import time

import numpy as np
import popart
import popxl
import pytest
from popxl import ops

from tests.python.popart.training_runs import inference_session

Outer = popart.Instrumentation.Outer


def scaled(options=None, training=False, batches=1, device=None):
    """Y = x * w + b: the session and the id of y."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [4], "x")
    w = builder.addInitializedInputTensor(np.full(4, 2, np.float32), "w")
    b = builder.addInitializedInputTensor(np.full(4, 1, np.float32), "b")
    y = builder.aiOnnx.add([builder.aiOnnx.mul([x, w]), b])
    rest = {"deviceInfo": device or popart.DeviceManager().createCpuDevice(), "userOptions": options}
    flow = popart.DataFlow(batches, [y])
    if training:
        loss = builder.aiGraphcore.identityloss([y], reduction=popart.ReductionType.Sum)
        made = popart.TrainingSession(builder.getModelProto(), flow, loss, popart.ConstSGD(0.5), **rest)
    else:
        made = popart.InferenceSession(builder.getModelProto(), flow, **rest)
    return made, y


def run(session, y, rows=1):
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": np.ones((rows, 4), np.float32)}, anchors))
    return anchors[y]


def facts(session):
    found = session.statistics()
    return found.runs, found.transfersFromHost, found.bytesFromHost, found.transfersToHost, found.bytesToHost


# ---- statistics
@pytest.mark.parametrize("timed", [True, False])
def test_statistics_count_runs_and_transfers(timed):
    session, y = scaled(instrumented(Outer) if timed else None, batches=3)
    assert facts(session) == (0, 0, 0, 0, 0)
    session.prepareDevice()
    assert session.statistics().seconds == (0 if timed else None)
    start = time.perf_counter()
    for _ in range(5):
        run(session, y, 3)
    elapsed = time.perf_counter() - start
    assert facts(session) == (5, 15, 15 * 16, 15, 15 * 16)
    seconds = session.statistics().seconds
    assert 0 < seconds < elapsed if timed else seconds is None
    assert repr(session.statistics()).startswith("RunStatistics(runs=5, transfersFromHost=15, bytesFromHost=240, ")
    session.prepareDevice()
    assert facts(session) == (0, 0, 0, 0, 0)


def test_statistics_count_all_replicas():
    options = popart.SessionOptions()
    options.enableReplicatedGraphs = True
    options.replicatedGraphCount = 2
    options.enableGradientAccumulation = True
    options.accumulationFactor = 3
    session, y = scaled(options, training=True)
    session.prepareDevice()
    session.weightsFromHost()
    run(session, y, 6)
    assert facts(session) == (1, 6, 96, 6, 96)


def test_runs_that_end_early_are_not_counted():
    session, y = scaled(instrumented(Outer), batches=3)
    session.prepareDevice()
    given = []

    def give(*_):
        given.append(1)
        if len(given) == 3:
            raise ValueError("no more data")
        return np.ones(4, np.float32)

    take = lambda _name: np.zeros(4, np.float32)  # noqa: E731
    with pytest.raises(Exception, match="no more data"):
        session.run(popart.PyStepIOCallback(give, lambda _n: None, take, lambda _n: None))
    assert facts(session) == (0, 2, 32, 2, 32)
    assert session.statistics().seconds == 0
    run(session, y, 3)
    assert session.statistics().runs == 1


def test_popxl_sessions_have_statistics():
    ir = popxl.Ir(replication=2)
    with ir.main_graph:
        given = popxl.h2d_stream((3,), popxl.float32, name="given")
        taken = popxl.d2h_stream((3,), popxl.float32, name="taken")
        ops.host_store(taken, ops.host_load(given, "value") * 2)
    with popxl.Session(ir, "cpu") as session:
        session.run({given: np.ones((2, 3), np.float32)})
        session.run({given: np.ones((2, 3), np.float32)})
        assert facts(session) == (2, 4, 48, 4, 48)
        assert session.statistics().seconds > 0


# ---- cycles
def instrumented(*counters):
    options = popart.SessionOptions()
    options.instrumentWithHardwareCycleCounter = True
    options.hardwareInstrumentations = set(counters)
    return options


@pytest.mark.parametrize("kind", ["cpu", "virtual"])
def test_cycles_are_nanoseconds_of_the_last_run(kind):
    manager = popart.DeviceManager()
    device = manager.createCpuDevice() if kind == "cpu" else manager.acquireAvailableDevice(1)
    session, y = scaled(instrumented(Outer), batches=50, device=device)
    session.prepareDevice()
    counts = []
    for _ in range(3):
        before = session.statistics().seconds
        run(session, y, 50)
        counts.append(session.getCycleCount())
        assert counts[-1] == pytest.approx((session.statistics().seconds - before) * 1e9, abs=2)
    assert min(counts) > 0


def test_cycles_need_the_option_and_a_run():
    session, y = scaled()
    session.prepareDevice()
    run(session, y)
    with pytest.raises(popart.popart_runtime_error, match="instrumentWithHardwareCycleCounter"):
        session.getCycleCount()
    session, y = scaled(instrumented(Outer))
    session.prepareDevice()
    with pytest.raises(popart.popart_runtime_error, match="before the first run"):
        session.getCycleCount()
    run(session, y)
    with pytest.raises(popart.popart_runtime_error, match="no such counter"):
        session.getCycleCount("inner_ipu_0")
    session, y = scaled(instrumented())
    session.prepareDevice()
    run(session, y)
    with pytest.raises(popart.popart_runtime_error, match="no such counter"):
        session.getCycleCount()


# ---- buffers
def with_buffers(*ids, constant=True):
    options = popart.SessionOptions()
    options.updatableNamedBuffers = list(ids)
    options.constantWeights = constant
    return options


@pytest.mark.parametrize("send", ["method", "program"])
@pytest.mark.parametrize("constant", [True, False])
def test_named_buffers_are_sent_alone(constant, send):
    session, y = scaled(with_buffers("b", constant=constant))
    session.prepareDevice()
    np.testing.assert_array_equal(run(session, y), np.full(4, 3))
    new = {"b": np.full(4, 10, np.float32)}
    if not constant:
        new["w"] = np.full(4, 5, np.float32)
    session.writeWeights(popart.PyWeightsIO(new))
    np.testing.assert_array_equal(run(session, y), np.full(4, 3))
    if send == "method":
        session.buffersFromHost()
    else:
        session.run("copyNamedBuffers", popart.PyStepIO({}, {}))
    np.testing.assert_array_equal(run(session, y), np.full(4, 12))
    if not constant:
        session.weightsFromHost()
        np.testing.assert_array_equal(run(session, y), np.full(4, 15))


def test_training_sends_named_buffers_and_keeps_the_rest():
    session, y = scaled(with_buffers("b"), training=True)
    session.prepareDevice()
    session.weightsFromHost()
    run(session, y)
    session.buffersFromHost()
    weights = {"w": np.empty(4, np.float32), "b": np.empty(4, np.float32)}
    session.weightsToHost()
    session.readWeights(popart.PyWeightsIO(weights))
    np.testing.assert_array_equal(weights["w"], np.full(4, 1.5))
    np.testing.assert_array_equal(weights["b"], np.full(4, 1))


def test_integer_buffers_can_be_sent():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [4], "x")
    picked = builder.addInitializedInputTensor(np.array([0, 1], np.int32), "picked")
    y = builder.aiOnnx.gather([x, picked])
    session = inference_session(builder.getModelProto(), [y], with_buffers("picked"))  # fmt: skip
    session.prepareDevice()
    session.writeWeights(popart.PyWeightsIO({"picked": np.array([3, 2], np.int32)}))
    session.buffersFromHost()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": np.arange(4, dtype=np.float32)}, anchors))
    np.testing.assert_array_equal(anchors[y], [3, 2])


def test_programs_and_buffers_that_do_not_exist_are_refused():
    with pytest.raises(popart.popart_exception, match=r"updatableNamedBuffers: 'bb' is not a weight.*b"):
        scaled(with_buffers("bb"))
    with pytest.raises(popart.popart_exception, match="updatableNamedBuffers: 'x'"):
        scaled(with_buffers("x"))
    session, _y = scaled()
    session.prepareDevice()
    with pytest.raises(popart.popart_runtime_error, match="updatableNamedBuffers"):
        session.buffersFromHost()
    with pytest.raises(popart.popart_runtime_error, match=r"unknown program.*updatableNamedBuffers"):
        session.run("copyNamedBuffers", popart.PyStepIO({}, {}))
    session, _y = scaled(with_buffers("b"))
    session.prepareDevice()
    with pytest.raises(popart.popart_runtime_error, match=r"unknown program.*'copyNamedBuffers'"):
        session.run("another", popart.PyStepIO({}, {}))
    with pytest.raises(popart.popart_runtime_error, match="no variable of that name"):
        session.writeWeights(popart.PyWeightsIO({"w": np.zeros(4, np.float32)}))
