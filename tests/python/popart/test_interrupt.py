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
import popxl_addons as addons
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


def test_an_endless_loop_with_callbacks(on_alarm):
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


def test_one_replica_waits_while_another_one_loops(on_alarm):
    """The first one, on whose thread signals are seen, waits for the other in its update or at its end."""
    training = Training(1, 2, 1)
    x, n = np.ones((2, 2, 4), np.float32), np.array([1, FOREVER], np.int64)
    for _ in range(2):
        on_alarm(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            training.run(x, n)
    training.run(x, np.ones_like(n))
    np.testing.assert_array_equal(training.anchors["z"], 0.5)


@pytest.mark.parametrize("endless", [0, 1])
def test_a_loop_in_a_collective_of_replicas(on_alarm, endless):
    """One replica computes for ever in front of a collective; the other one is there."""
    ir = popxl.Ir(replication=2)
    with ir.main_graph, popxl.in_sequence():
        trips = popxl.h2d_stream((), popxl.bool, "loops")
        loops = ops.host_load(trips)
        x = popxl.variable(np.ones(2, np.float32))
        total = ops.conditional(
            loops,
            ir.create_graph(_looped, x),
            ir.create_graph(lambda t: t + 0, x),
            then_inputs=[x],
            else_inputs=[x],
        )[0]
        sink = popxl.d2h_stream((2,), popxl.float32)
        ops.host_store(sink, ops.collectives.replicated_all_reduce(total))
    with popxl.Session(ir, "ipu_model") as session:
        which = np.arange(2) == endless
        on_alarm(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            session.run({trips: which})
        np.testing.assert_array_equal(session.run({trips: np.zeros(2, bool)})[sink], np.full((2, 2), 2.0))


def _looped(t):
    def body(v):
        return v * 1.0

    return ops.repeat(popxl.gcg().ir.create_graph(body, t), 2**40, t)[0]


@pytest.mark.parametrize("endless", [0, 1])
def test_a_loop_in_one_of_several_stages(on_alarm, monkeypatch, endless):
    """Two stages at the same time: the calling thread computes one of them, and waits for the other."""
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", '{"pipeline.concurrent": "always"}')
    monkeypatch.setenv("POPART_NUM_THREADS", "2")
    ir = popxl.Ir()
    ir.num_host_transfers = 4
    with ir.main_graph, popxl.in_sequence():
        source, sink = popxl.h2d_stream((2,), popxl.float32), popxl.d2h_stream((2,), popxl.float32)
        with addons.pipelined_execution(4) as pipeline:
            with pipeline.stage(0), popxl.ipu(0):
                x = ops.host_load(source)
                h = (_looped(x) if endless == 0 else x * 2).copy_to_ipu(1)
            with pipeline.stage(1), popxl.ipu(1):
                ops.host_store(sink, _looped(h) if endless == 1 else h * 2)
    with popxl.Session(ir, "cpu") as session:
        for _ in range(2):
            on_alarm(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                session.run({source: np.ones((4, 2), np.float32)})


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
