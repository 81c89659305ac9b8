"""Signals end a run that loops: Ctrl-C and whatever else a handler raises; the session runs on."""

import os
import signal
import threading
import time

import numpy as np
import onnx.parser
import popart
import popxl
import popxl.ops as ops
import pytest

LOOP = """<ir_version: 8, opset_import: ["" : 17]> g (int64 n, float[4] x) => (float[4] y) {
  true = Constant <value = bool[1] {1}> ()
  go = Squeeze (true)
  y = Loop (n, go, x) <body = b (int64 i, bool c, float[4] v) => (bool d, float[4] w) {
    d = Identity (c)
    half = Constant <value = float {0.5}> ()
    w = Mul (v, half)
  }>
}"""
FOREVER = 2**62
PATIENCE_S = 20.0


class Alarm(Exception):
    """What the handlers of these tests raise."""


@pytest.fixture(autouse=True)
def interrupts():
    """Ctrl-C raises: a shell starts what runs in its background with the signal ignored, and runs would not end."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def on_alarm():
    """Send this process a signal after a moment: a function of the signal's number."""
    timers = []

    def send(number):
        timers.append(threading.Timer(0.3, os.kill, (os.getpid(), number)))
        timers[-1].start()

    def raise_alarm(*_):
        raise Alarm

    before = signal.signal(signal.SIGALRM, raise_alarm), signal.signal(signal.SIGINT, signal.default_int_handler)
    yield send
    for timer in timers:
        timer.join()
    signal.signal(signal.SIGALRM, before[0])
    signal.signal(signal.SIGINT, before[1])


def halving():
    """A function that halves four numbers n times, in a popart session."""
    model = onnx.parser.parse_model(LOOP)
    session = popart.InferenceSession(
        model.SerializeToString(), popart.DataFlow(1, ["y"]), popart.DeviceManager().createCpuDevice()
    )
    session.prepareDevice()
    anchors = session.initAnchorArrays()

    def run(n):
        session.run(popart.PyStepIO({"n": np.array(n, np.int64), "x": np.ones(4, np.float32)}, anchors))
        return anchors["y"].copy()

    return run


@pytest.mark.parametrize(("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGALRM, Alarm)])
def test_a_signal_ends_an_endless_loop_and_the_session_runs_on(on_alarm, number, raised):
    run = halving()
    np.testing.assert_array_equal(run(3), np.full(4, 0.125, np.float32))
    start = time.monotonic()
    on_alarm(number)
    with pytest.raises(raised):
        run(FOREVER)
    assert time.monotonic() - start < PATIENCE_S
    np.testing.assert_array_equal(run(2), np.full(4, 0.25, np.float32))


def test_a_handler_that_does_not_raise_lets_the_run_go_on(on_alarm):
    seen = []
    signal.signal(signal.SIGALRM, lambda *_: seen.append(time.monotonic()))
    run = halving()
    on_alarm(signal.SIGALRM)
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run(FOREVER)
    ended = time.monotonic()
    timer.join()
    assert len(seen) == 1 and ended - seen[0] > 0.3


def test_an_endless_loop_beside_callbacks(on_alarm):
    model = onnx.parser.parse_model(LOOP)
    session = popart.InferenceSession(
        model.SerializeToString(), popart.DataFlow(3, ["y"]), popart.DeviceManager().createCpuDevice()
    )
    session.prepareDevice()

    def run(trips, started=lambda: None):
        asked, results = [], []

        def give(name, _prefetch):
            asked.append(name)
            if asked.count("n") == 2 and name == "n":  # ahead: the first batch goes on
                started()
            return np.array(trips, np.int64) if name == "n" else np.ones(4, np.float32)

        def take(_name):
            results.append(np.empty(4, np.float32))
            return results[-1]

        session.run(popart.PyStepIOCallback(give, lambda _n: None, take, lambda _n: None))
        return results

    with pytest.raises(KeyboardInterrupt):
        run(FOREVER, lambda: on_alarm(signal.SIGINT))
    np.testing.assert_array_equal(run(2), np.full((3, 4), 0.25, np.float32))


def test_many_batches_per_step_can_be_interrupted(on_alarm):
    batches = 5_000_000
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [1], "x")
    y = builder.aiOnnx.relu([x])
    builder.addOutputTensor(y)
    session = popart.InferenceSession(
        builder.getModelProto(),
        popart.DataFlow(batches, {y: popart.AnchorReturnType("Final")}),
        popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    data, anchors = np.ones(batches, np.float32), session.initAnchorArrays()
    on_alarm(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        for _ in range(1000):
            session.run(popart.PyStepIO({x: data}, anchors))
    session.run(popart.PyStepIO({x: data}, anchors))
    assert anchors[y] == 1.0


def test_a_popxl_loop_can_be_interrupted(on_alarm):
    ir = popxl.Ir()
    with ir.main_graph:
        count = popxl.variable(np.zeros((), np.float32), name="count")

        @popxl.in_sequence()
        def body(n: popxl.TensorByRef):
            ops.var_updates.accumulate_(n, popxl.constant(np.ones((), np.float32)))

        ops.repeat(ir.create_graph(body, count), 2**40, count)
    with popxl.Session(ir, "cpu") as session:
        for _ in range(2):
            start = time.monotonic()
            on_alarm(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                session.run()
            assert time.monotonic() - start < PATIENCE_S
        session.write_variable_data(count, np.full((), 3, np.float32))
        assert session.get_tensor_data(count) == 3


TRAINING = """<ir_version: 8, opset_import: ["" : 17, "ai.graphcore": 1]>
g (float[2, 4] x, int64 n) => (float[2, 3] y, float[4] z) <float[4, 3] w = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}> {
  y = MatMul (x, w)
  true = Constant <value = bool[1] {1}> ()
  go = Squeeze (true)
  start = Constant <value = float[4] {1, 1, 1, 1}> ()
  z = Loop (n, go, start) <body = b (int64 i, bool c, float[4] v) => (bool d, float[4] u) {
    d = Identity (c)
    half = Constant <value = float {0.5}> ()
    u = Mul (v, half)
  }>
}"""


class Training:
    """Updates of one weight, each with a loop beside it that takes as many iterations as the input n says."""

    def __init__(self, batches, replicas, accumulation):
        builder = popart.Builder(onnx.parser.parse_model(TRAINING).SerializeToString())
        loss = builder.aiGraphcore.l1loss(["y"], 0.1)
        options = popart.SessionOptions()
        options.enableReplicatedGraphs, options.replicatedGraphCount = replicas > 1, replicas
        options.enableGradientAccumulation, options.accumulationFactor = accumulation > 1, accumulation
        self.session = popart.TrainingSession(
            builder.getModelProto(),
            popart.DataFlow(batches, {"z": popart.AnchorReturnType("All")}),
            loss,
            popart.SGD({"defaultLearningRate": (0.1, False), "defaultMomentum": (0.9, True)}),
            popart.DeviceManager().createIpuModelDevice({"numIPUs": replicas}),
            userOptions=options,
        )
        self.session.prepareDevice()
        self.session.weightsFromHost()
        self.anchors = self.session.initAnchorArrays()

    def run(self, x, n):
        self.session.run(popart.PyStepIO({"x": np.ascontiguousarray(x), "n": n}, self.anchors))

    def weight(self):
        self.session.weightsToHost()
        weight = np.empty((4, 3), np.float32)
        self.session.readWeights(popart.PyWeightsIO({"w": weight}))
        return weight


def interrupt_when(begun):
    """Send SIGINT to this process as soon as the condition holds, from a thread, which is returned."""

    def watch():
        while not begun():
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    watcher = threading.Thread(target=watch)
    watcher.start()
    return watcher


@pytest.mark.parametrize(("replicas", "accumulation"), [(1, 1), (1, 2), (2, 1), (2, 2)])
def test_a_step_of_a_hundred_batches_ends_within_the_batch(replicas, accumulation):
    """The step would never end by itself: one batch of it loops for ever, and the signal comes when it has begun."""
    batches, endless = 100, 50
    x = np.random.default_rng(0).normal(size=(batches, accumulation, replicas, 2, 4)).astype(np.float32)
    n = np.ones((batches, accumulation, replicas), np.int64)
    n[endless] = FOREVER
    training = Training(batches, replicas, accumulation)
    results = training.anchors["z"].reshape(batches, -1)
    results[:] = -1

    watcher = interrupt_when(lambda: results[endless - 1, -1] != -1)
    with pytest.raises(KeyboardInterrupt):
        training.run(x, n)
    watcher.join()
    assert (results[:endless] == 0.5).all() and (results[endless:] == -1).all()

    alone = Training(1, replicas, accumulation)  # the same updates, one by one
    for batch in range(endless):
        alone.run(x[batch], np.ones_like(n[0]))
    np.testing.assert_array_equal(training.weight(), alone.weight())
    n[endless] = 1
    training.run(x, n)
    for batch in range(batches):
        alone.run(x[batch], np.ones_like(n[0]))
    np.testing.assert_array_equal(training.weight(), alone.weight())


def test_popxl_reads_the_device_after_an_interrupted_run():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        steps = popxl.variable(np.zeros((), np.float32), name="steps")
        count = popxl.variable(np.zeros((), np.float32), name="count")
        seen = popxl.d2h_stream((), popxl.float32)
        ops.var_updates.accumulate_(steps, popxl.constant(np.ones((), np.float32)))
        ops.host_store(seen, steps)

        @popxl.in_sequence()
        def body(n: popxl.TensorByRef):
            ops.var_updates.accumulate_(n, popxl.constant(np.ones((), np.float32)))

        ops.repeat(ir.create_graph(body, count), 2**40, count)
    with popxl.Session(ir, "cpu") as session:
        for runs in (1, 2):
            outputs = session.create_host_outputs()
            watcher = interrupt_when(lambda made=outputs[seen], runs=runs: made == runs)
            with pytest.raises(KeyboardInterrupt):
                session.run_with_outputs({}, outputs)
            watcher.join()
            assert session.get_tensor_data(steps) == runs
