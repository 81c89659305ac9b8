"""Host data ahead of the program: who is asked what and when, the same bits, failures, options and refusals."""

import gc
import os
import signal
import threading
import time

import numpy as np
import popart
import pytest

RNG = np.random.default_rng(34)
W1, W2 = (RNG.standard_normal(shape).astype(np.float32) for shape in ((6, 5), (5, 4)))
JustInTime, InnerLoop = popart.ExchangeStrategy.JustInTime, popart.ExchangeStrategy.OverlapInnerLoop
Loops, Step = popart.ExchangeStrategy.OverlapLoops, popart.ExchangeStrategy.OverlapStep


def options(**settings):
    given = popart.SessionOptions()
    for name, value in settings.items():
        setattr(given, name, value)
    return given


def ahead(depth, **settings):
    """Inputs and results so many values ahead."""
    return options(defaultBufferingDepth=depth, rearrangeAnchorsOnHost=False, **settings)


def explicit(mode=popart.VirtualGraphMode.Auto, **settings):
    """With what overlapped exchanges ask for."""
    given = options(virtualGraphMode=mode, **settings)
    given.enableExplicitIR(True)
    return given


class Doubler:
    """y = x + x in an inference session."""

    def __init__(self, batches, user=None, settings=None, returns=None):
        builder = popart.Builder()
        info = popart.TensorInfo("FLOAT", [2])
        if settings is None:
            self.x = builder.addInputTensor(info, "x")
        else:
            self.x = builder.addInputTensor(info, settings, "x")
        self.y = builder.aiOnnx.add([self.x, self.x], "y")
        self.session = popart.InferenceSession(
            builder.getModelProto(),
            popart.DataFlow(batches, {self.y: returns or popart.AnchorReturnType("All")}),
            popart.DeviceManager().createCpuDevice(),
            userOptions=user or popart.SessionOptions(),
        )
        self.session.prepareDevice()

    def run(self, host):
        self.session.run(host.stepio())
        return host


class Host:
    """Gives 1, 2, 3 … for each input, keeps results, and writes down all calls.

    "x0" is the first value of x, "x1?" the second one, asked for ahead of need, "x0." its end; "y0" and "y0." those of
    a result. `at` names what is called at one of them.
    """

    def __init__(self, missing=(), at=None, make=lambda name, number: np.full(2, number + 1, np.float32)):
        self.calls, self.counts, self.results = [], {}, {}
        self.missing, self.at, self.make = set(missing), at or {}, make
        self.threads = set()

    def note(self, what):
        self.calls.append(what)
        self.threads.add(threading.get_ident())
        if what in self.at:
            self.at[what]()

    def give(self, name, is_prefetch):
        number = self.counts.setdefault(name, 0)
        what = f"{name}{number}" + "?" * is_prefetch
        self.note(what)
        if what in self.missing:
            self.missing.remove(what)
            return None
        self.counts[name] += 1
        self.held = self.make(name, number)
        return self.held

    def given(self, name):
        self.note(f"{name}{self.counts[name] - 1}.")
        self.held[...] = 99  # the memory may be used again

    def take(self, name):
        values = self.results.setdefault(name, [])
        self.note(f"y{len(values)}")
        values.append(np.zeros(2, np.float32))
        return values[-1]

    def taken(self, name):
        self.note(f"y{len(self.results[name]) - 1}.")

    def stepio(self):
        return popart.PyStepIOCallback(self.give, self.given, self.take, self.taken)

    def order(self):
        """Calls without those that say that a value is done; they must follow the value's own at once."""
        kept = []
        for before, call in zip(["", *self.calls], [*self.calls, ""], strict=True):
            if call.endswith("."):
                assert call[:-1] == before.rstrip("?"), self.calls
            elif call:
                kept.append(call)
        return " ".join(kept)


def check_doubled(host, count):
    ((_, results),) = host.results.items()
    np.testing.assert_array_equal(results, np.repeat(2.0 * np.arange(1, count + 1), 2).reshape(-1, 2))


# ---- order of calls


@pytest.mark.parametrize(
    ("user", "order"),
    [
        (lambda: options(enablePrefetchDatastreams=False), "x0 y0 x1 y1 x2 y2 x3 y3"),
        (lambda: options(), "x0 x1? y0 x2? y1 x3? y2 y3"),
        (lambda: ahead(1), "x0 x1? y0 x2? y1 x3? y2 y3"),
        (lambda: ahead(2), "x0 x1? x2? y0 x3? y1 y2 y3"),
        (lambda: ahead(3), "x0 x1? x2? x3? y0 y1 y2 y3"),
        (lambda: options(bufferingDepthMap={"x": 2}), "x0 x1? x2? y0 x3? y1 y2 y3"),
        (lambda: ahead(3, rearrangeStreamsOnHost=True), "x0 x1? y0 x2? y1 x3? y2 y3"),
    ],
)
def test_order_of_calls(user, order):
    doubler = Doubler(4, user())
    for _ in range(3):
        host = doubler.run(Host())
        assert host.order() == order
        assert host.threads == {threading.get_ident()}
        check_doubled(host, 4)


def test_nothing_is_ahead_of_one_batch():
    doubler = Doubler(1, ahead(3))
    for _ in range(2):
        host = doubler.run(Host())
        assert host.order().split()[0] == "x0"
        assert len(host.calls) == 4


def test_a_value_that_is_not_there_yet_is_asked_for_again_when_it_is_needed():
    host = Doubler(4).run(Host(missing=["x1?", "x3?"]))
    assert [call for call in host.order().split() if call.startswith("x")] == ["x0", "x1?", "x1", "x2?", "x3?", "x3"]
    check_doubled(host, 4)


def test_no_value_when_it_is_needed_is_an_error():
    doubler = Doubler(3)
    with pytest.raises(popart.popart_runtime_error, match=r"input 'x': No tensor provided.*Return an array"):
        doubler.run(Host(missing=["x1?", "x1"]))
    check_doubled(doubler.run(Host()), 3)


class Network:
    """Two layers, their loss and Adam, or only the layers; inputs are x and labels."""

    def __init__(self, batches, training=True, stages=False, replicas=1, broadcasts=False, **settings):
        builder = popart.Builder()
        mode = popart.ReplicatedStreamMode.Broadcast if broadcasts else popart.ReplicatedStreamMode.Replicate
        x = builder.addInputTensor(popart.TensorInfo("FLOAT", [8, 6]), popart.InputSettings(mode), "x")
        w1, w2 = (builder.addInitializedInputTensor(w, name) for w, name in ((W1, "w1"), (W2, "w2")))
        with builder.virtualGraph(0):
            hidden = builder.aiOnnx.relu([builder.aiOnnx.matmul([x, w1])])
        with builder.virtualGraph(1):
            probs = builder.aiOnnx.softmax([builder.aiOnnx.matmul([hidden, w2])])
            labels = builder.addInputTensor("INT32", [8], "labels")
            loss = builder.aiGraphcore.nllloss([probs, labels], debugContext="loss")
        user = options(enableReplicatedGraphs=replicas > 1, replicatedGraphCount=replicas, **settings)
        if stages:
            user.enablePipelining, user.virtualGraphMode = True, popart.VirtualGraphMode.Manual
        if settings.get("accumulationFactor", 1) > 1:
            user.enableGradientAccumulation = True
        self.anchors = {loss: popart.AnchorReturnType("All"), probs: popart.AnchorReturnType("All")}
        self.loss, self.replicas = loss, replicas
        self.session = popart.TrainingSession(
            fnModel=builder.getModelProto(),
            dataFlow=popart.DataFlow(batches, self.anchors),
            loss=loss,
            optimizer=popart.Adam({"defaultLearningRate": (0.1, False)}),
            deviceInfo=popart.DeviceManager().createIpuModelDevice({"numIPUs": str(2 * replicas)}),
            userOptions=user,
        )
        self.session.prepareDevice()
        self.session.weightsFromHost()

    def weights(self):
        read = {"w1": np.empty_like(W1), "w2": np.empty_like(W2)}
        self.session.weightsToHost()
        self.session.readWeights(popart.PyWeightsIO(read))
        return [value.tobytes() for value in read.values()]


class Feeder:
    """The same numbers by callback as in whole arrays, in one buffer per input; notes the inputs that are asked for."""

    def __init__(self, data, shapes):
        self.data, self.shapes = data, shapes
        self.asked, self.flags, self.results = [], {}, {}
        self.buffers = {name: np.empty_like(values[0]) for name, values in data.items()}

    def give(self, name, is_prefetch):
        number = sum(asked == name for asked in self.asked)
        self.asked.append(name)
        self.flags.setdefault(name, []).append(is_prefetch)
        self.buffers[name][...] = self.data[name][number]
        return self.buffers[name]

    def given(self, name):
        self.buffers[name][...] = 0

    def take(self, name):
        self.results.setdefault(name, []).append(np.empty(self.shapes[name], np.float32))
        return self.results[name][-1]

    def stepio(self):
        return popart.PyStepIOCallback(self.give, self.given, self.take, lambda _name: None)


def feed(network, micro_batches, runs=3, broadcasts=False, handle=None):
    """Results and weights after some runs by callback; the calls of the last one."""
    rng = np.random.default_rng(5)
    shapes = {name: tuple(network.session.getInfo(name).shape()) for name in network.anchors}
    bits = []
    for _ in range(runs):
        count = micro_batches * network.replicas
        data = {
            "x": rng.standard_normal((micro_batches if broadcasts else count, 8, 6)).astype(np.float32),
            "labels": rng.integers(0, 4, (count, 8)).astype(np.int32),
        }
        feeder = Feeder(data, shapes)
        if handle:
            network.session.run(handle, feeder.stepio())
        else:
            network.session.run(feeder.stepio())
        bits += [value.tobytes() for name in sorted(feeder.results) for value in feeder.results[name]]
    return bits + network.weights(), feeder


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("accumulation", [1, 3])
def test_training_gives_the_same_bits_and_asks_in_the_same_order(depth, accumulation):
    plain, plainly = feed(
        Network(4, accumulationFactor=accumulation, enablePrefetchDatastreams=False), 4 * accumulation
    )
    settings = {"defaultBufferingDepth": depth, "rearrangeAnchorsOnHost": False}
    early, feeder = feed(Network(4, accumulationFactor=accumulation, **settings), 4 * accumulation)
    assert early == plain
    assert feeder.asked == plainly.asked == ["x", "labels"] * 4 * accumulation
    assert not any(plainly.flags["x"] + plainly.flags["labels"])
    assert feeder.flags["x"] == [False] + [True] * (4 * accumulation - 1)


def test_arrays_give_the_same_bits():
    network, other = Network(4), Network(4)
    early, _ = feed(network, 4)
    rng, bits = np.random.default_rng(5), []
    for _ in range(3):
        x = rng.standard_normal((4, 8, 6)).astype(np.float32)
        labels = rng.integers(0, 4, (4, 8)).astype(np.int32)
        anchors = other.session.initAnchorArrays()
        other.session.run(popart.PyStepIO({"x": x, "labels": labels}, anchors))
        bits += [value.tobytes() for name in sorted(anchors) for value in anchors[name]]
    assert early == bits + other.weights()


@pytest.mark.parametrize("depth", [1, 2])
def test_pipelines(depth):
    plain, plainly = feed(Network(2, stages=True, accumulationFactor=4, enablePrefetchDatastreams=False), 8)
    early, feeder = feed(Network(2, stages=True, accumulationFactor=4, defaultBufferingDepth=depth), 8)
    assert early == plain
    assert feeder.asked == plainly.asked
    assert sum(feeder.flags["x"]) == 7
    assert feeder.asked.count("x") == feeder.asked.count("labels") == 8


@pytest.mark.parametrize("broadcasts", [False, True])
@pytest.mark.parametrize("depth", [1, 3])
def test_replicas(depth, broadcasts):
    settings = {"replicas": 2, "broadcasts": broadcasts, "accumulationFactor": 2}
    plain, _ = feed(Network(3, enablePrefetchDatastreams=False, **settings), 6, broadcasts=broadcasts)
    early, feeder = feed(Network(3, defaultBufferingDepth=depth, **settings), 6, broadcasts=broadcasts)
    assert early == plain
    x = ["x"] if broadcasts else ["x", "x"]
    assert feeder.asked == (x + ["labels"] * 2) * 6
    assert feeder.flags["x"] == [False] + [True] * (len(x) * 6 - 1)


def test_the_program_of_forward_passes():
    def network(**settings):
        return Network(2, stages=True, accumulationFactor=4, createImplicitPipeliningFwdOnlyProgram=True, **settings)

    handle = "implicitPipeliningFwdOnly"
    plain, plainly = feed(network(enablePrefetchDatastreams=False), 8, handle=handle)
    early, feeder = feed(network(), 8, handle=handle)
    assert early == plain
    assert feeder.asked == plainly.asked
    assert sum(feeder.flags["x"]) == 7


# ---- one thread, where it can pay


def threads():
    gc.collect()  # sessions of other tests
    return len(os.listdir("/proc/self/task"))


def test_a_thread_is_there_once_callbacks_are_used():
    doubler, single, plain = Doubler(3), Doubler(1), Doubler(3, options(enablePrefetchDatastreams=False))
    before = threads()
    for session in (doubler, single, plain):
        anchors = session.session.initAnchorArrays()
        data = np.zeros(anchors[session.y].shape, np.float32)
        session.session.run(popart.PyStepIO({"x": data}, anchors))
    single.run(Host())
    plain.run(Host())
    assert threads() == before
    doubler.run(Host())
    doubler.run(Host())
    assert threads() == before + 1
    del doubler, session
    assert threads() <= before


# ---- failures


def fails(what):
    def fail():
        raise LookupError(what)

    return fail


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize(
    ("broken", "first"),
    [
        (["x2?"], "x2?"),
        (["x2?."], "x2?."),
        (["x0"], "x0"),
        (["y1"], "y1"),
        (["y1."], "y1."),
        (["x2?", "y0"], "y0"),
        (["x1?", "y1"], "x1?"),
        (["x3?", "y1.", "y2"], "y1."),
    ],
)
def test_the_first_failure_in_the_order_of_the_program_ends_the_run(depth, broken, first):
    doubler = Doubler(5, ahead(depth))
    calls = set()
    for _ in range(5):
        host = Host(at={what.replace("?.", "."): fails(what) for what in broken})
        with pytest.raises(LookupError) as raised:
            doubler.run(host)
        assert raised.value.args == (first,)
        calls.add(tuple(host.calls))
    assert len(calls) == 1  # whichever thread is faster
    check_doubled(doubler.run(Host()), 5)


def test_wrong_values_ahead_of_need_are_refused_where_they_are_needed():
    doubler = Doubler(3)
    host = Host(make=lambda name, number: np.full(2 + (number == 1), 1, np.float32))
    with pytest.raises(popart.popart_runtime_error, match=r"'x': the callback returned a wrong number of elements"):
        doubler.run(host)
    assert host.order().split()[2:] == [host.order().split()[2]]  # the result of the first batch, and nothing more
    host = Host(make=lambda name, number: np.full(2, 1, np.float64 if number else np.float32))
    with pytest.raises(popart.popart_runtime_error, match="type discrepancy"):
        doubler.run(host)
    check_doubled(doubler.run(Host()), 3)


def interrupts():
    raise KeyboardInterrupt


@pytest.mark.parametrize("when", ["x0", "x2?", "y1", "y2."])
def test_an_interrupt_in_a_callback(when):
    doubler = Doubler(5)
    with pytest.raises(KeyboardInterrupt):
        doubler.run(Host(at={when: interrupts}))
    check_doubled(doubler.run(Host()), 5)


def test_a_signal_while_a_callback_waits():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    waiting = threading.Event()
    timer = threading.Thread(target=lambda: (waiting.wait(), os.kill(os.getpid(), signal.SIGINT)))
    timer.start()

    def wait():
        waiting.set()
        while True:  # a wait without end would miss a signal that comes just before it
            time.sleep(0.01)

    doubler = Doubler(5)
    with pytest.raises(KeyboardInterrupt):
        doubler.run(Host(at={"x1?": wait}))
    timer.join()
    signal.signal(signal.SIGINT, before)
    check_doubled(doubler.run(Host()), 5)


def test_callbacks_cannot_run_the_session():
    doubler = Doubler(3)
    with pytest.raises(popart.popart_runtime_error, match="another run is going on"):
        doubler.run(Host(at={"x1?": lambda: doubler.run(Host())}))
    check_doubled(doubler.run(Host()), 3)


# ---- exchange strategies


def io(strategy):
    return popart.InputSettings(popart.TileSet.IO, strategy)


@pytest.mark.parametrize(
    ("strategy", "prefetches", "order"),
    [
        (JustInTime, False, "x0 y0 x1 y1 x2 y2 x3 y3"),
        (InnerLoop, False, "x0 x1 y0 x2 y1 x3 y2 y3"),
        (Loops, False, "x0 x1 y0 x2 y1 x3 y2 y3"),
        (JustInTime, True, "x0 x1? y0 x2? y1 x3? y2 y3"),
        (InnerLoop, True, "x0 x1? x2? y0 x3? y1 y2 y3"),
        (Loops, True, "x0 x1? x2? y0 x3? y1 y2 y3"),
    ],
)
def test_exchange_strategies_of_inputs(strategy, prefetches, order):
    doubler = Doubler(4, explicit(enablePrefetchDatastreams=prefetches), io(strategy))
    host = doubler.run(Host())
    assert host.order() == order
    check_doubled(host, 4)


def test_tiles_for_transfers_change_nothing():
    orders = set()
    for tiles in (0, 32):
        for settings in (None, io(JustInTime), popart.InputSettings(popart.TileSet.Compute, Loops)):
            host = Doubler(4, explicit(numIOTiles=tiles), settings).run(Host())
            check_doubled(host, 4)
            orders.add(host.order())
    assert len(orders) == 1


@pytest.mark.parametrize("strategy", [InnerLoop, Loops])
def test_exchange_strategies_of_anchors(strategy):
    """The program goes on while a result waits; inputs are not ahead, so that the order is the plain one."""
    returns = popart.AnchorReturnType("All", popart.TileSet.IO, strategy)
    host = Doubler(4, explicit(enablePrefetchDatastreams=False), returns=returns).run(Host())
    assert host.order() == "x0 y0 x1 y1 x2 y2 x3 y3"
    check_doubled(host, 4)


# ---- refusals


@pytest.mark.parametrize(
    ("user", "settings", "returns", "message"),
    [
        (lambda: options(defaultBufferingDepth=0), None, None, "defaultBufferingDepth must be 1 or more"),
        (
            lambda: options(bufferingDepthMap={"x": 0}),
            None,
            None,
            "bufferingDepthMap: buffering depths must be 1 or more",
        ),
        (
            lambda: options(bufferingDepthMap={"x": 2}, rearrangeStreamsOnHost=True),
            None,
            None,
            "'x' is rearranged on the host: got buffering depth 2, expected 1",
        ),
        (
            lambda: options(bufferingDepthMap={"Add:0": 2}),
            None,
            None,
            "'Add:0' is rearranged on the host: got buffering depth 2, expected 1",
        ),
        (
            lambda: options(),
            lambda: io(Loops),
            None,
            "Input 'x': .*OverlapLoops requires explicit main loops.*useHostCopyOps off",
        ),
        (
            lambda: explicit(popart.VirtualGraphMode.Off),
            lambda: io(InnerLoop),
            None,
            "Input 'x': .*OverlapInnerLoop requires virtual graphs: got virtualGraphMode Off",
        ),
        (lambda: explicit(), lambda: io(Step), None, "Input 'x': .*OverlapStep is not supported"),
        (
            lambda: options(),
            None,
            lambda: popart.AnchorReturnType("All", popart.TileSet.IO, InnerLoop),
            "Anchor 'Add:0': .*OverlapInnerLoop requires explicit main loops",
        ),
        (
            lambda: explicit(),
            None,
            lambda: popart.AnchorReturnType("All", popart.TileSet.IO, Step),
            "Anchor 'Add:0': .*OverlapStep",
        ),
        (
            lambda: explicit(),
            None,
            lambda: popart.AnchorReturnType("EveryN", 2),
            "'Add:0' returns EveryN, which explicit main loops",
        ),
    ],
)
def test_refusals(user, settings, returns, message):
    with pytest.raises(popart.popart_exception, match=message):
        Doubler(4, user(), settings and settings(), returns and returns())


def test_values_on_their_way_are_part_of_the_predicted_peak():
    def bytes_of(row, user):
        lines = Doubler(8, user).session.getSummaryReport().splitlines()
        found = [line for line in lines if line.strip().startswith(f"{row}:")]
        return int(found[0].split()[-2]) if found else 0

    in_turn = options(enablePrefetchDatastreams=False)
    slots = 2 * 4 * 2 * 4  # of x and of y, each with four values of two floats
    assert (bytes_of("host data ahead", in_turn), bytes_of("host data ahead", ahead(4))) == (0, slots)
    assert bytes_of("predicted peak", ahead(4)) == bytes_of("predicted peak", in_turn) + slots
