"""Limits of a run that loops: iterations of one loop, and seconds; the session runs on."""

import json
import time

import numpy as np
import onnx.parser
import popart
import popxl
import popxl.ops as ops
import pytest

from tests.python.popart.test_interrupt import FOREVER, LOOP, Training

WHILE = """<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y) {
  none = Constant <value = int64 {9223372036854775807}> ()
  true = Constant <value = bool[1] {1}> ()
  go = Squeeze (true)
  y = Loop (none, go, x) <body = b (int64 i, bool c, float[4] v) => (bool d, float[4] w) {
    one = Constant <value = float {1}> ()
    w = Sub (v, one)
    high = ReduceMax <keepdims = 0> (w)
    zero = Constant <value = float {0}> ()
    d = Greater (high, zero)
  }>
}"""


def session_of(text, engine_options, batches=1):
    options = popart.SessionOptions()
    options.engineOptions = engine_options
    session = popart.InferenceSession(
        onnx.parser.parse_model(text).SerializeToString(),
        popart.DataFlow(batches, {"y": popart.AnchorReturnType("Final")}),
        popart.DeviceManager().createCpuDevice(),
        userOptions=options,
    )
    session.prepareDevice()
    return session


def runner(text, engine_options, batches=1):
    """A function that runs the model on inputs by name."""
    session = session_of(text, engine_options, batches)

    def run(**inputs):
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO(inputs, anchors))
        return anchors["y"]

    return run


ONES = np.ones(4, np.float32)
TOO_MANY = r"Loop.*: the loop continues after as many iterations as max_loop_iterations allows: got more than 5\. "


def test_a_loop_of_too_many_iterations_is_ended_and_the_session_runs_on():
    run = runner(LOOP, {"max_loop_iterations": "5"})
    for _ in range(2):
        np.testing.assert_array_equal(run(n=np.array(5), x=ONES), ONES / 32)
        for n in (6, FOREVER):
            with pytest.raises(popart.popart_runtime_error, match=TOO_MANY):
                run(n=np.array(n), x=ONES)


def test_a_loop_that_a_condition_ends_is_limited_too():
    run = runner(WHILE, {"max_loop_iterations": "5"})
    np.testing.assert_array_equal(run(x=5 * ONES), 0 * ONES)
    for value in (6, np.inf):
        with pytest.raises(popart.popart_runtime_error, match=TOO_MANY):
            run(x=value * ONES)


def test_batches_are_iterations_of_a_loop():
    relu = '<ir_version: 8, opset_import: ["" : 17]> g (float[1] x) => (float[1] y) { y = Relu(x) }'
    run = runner(relu, {"max_loop_iterations": "5"}, batches=6)
    with pytest.raises(popart.popart_runtime_error, match="max_loop_iterations"):
        run(x=np.ones((6, 1), np.float32))
    np.testing.assert_array_equal(runner(relu, {"max_loop_iterations": "6"}, batches=6)(x=np.ones((6, 1), "f")), [1])


@pytest.mark.parametrize("text", [LOOP, WHILE], ids=["counted", "while"])
def test_a_run_of_too_many_seconds_is_ended_and_the_session_runs_on(text):
    run = runner(text, {"max_run_seconds": "0.2"})
    long = {"n": np.array(FOREVER), "x": ONES} if text is LOOP else {"x": np.inf * ONES}
    short = {"n": np.array(2), "x": ONES} if text is LOOP else {"x": 2 * ONES}
    for _ in range(2):
        start = time.monotonic()
        with pytest.raises(popart.popart_runtime_error, match=r"longer than max_run_seconds: got more than 0\.2 s"):
            run(**long)
        assert 0.2 <= time.monotonic() - start < 20
        np.testing.assert_array_equal(run(**short), ONES / 4 if text is LOOP else 0 * ONES)


@pytest.mark.parametrize("replicas", [1, 2])
def test_training_is_limited_on_every_replica(monkeypatch, replicas):
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", json.dumps({"max_run_seconds": 0.2}))
    training, x = Training(1, replicas, 2), np.ones((2, replicas, 2, 4), np.float32)
    with pytest.raises(popart.popart_runtime_error, match="max_run_seconds"):
        training.run(x, np.full((2, replicas), FOREVER))
    training.run(x, np.full((2, replicas), 2))


def test_popxl_programs_are_limited(monkeypatch):
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", json.dumps({"max_loop_iterations": 7}))
    ir = popxl.Ir()
    with ir.main_graph:
        count = popxl.variable(np.zeros((), np.float32), name="count")

        @popxl.in_sequence()
        def body(n: popxl.TensorByRef):
            ops.var_updates.accumulate_(n, popxl.constant(np.ones((), np.float32)))

        ops.repeat(ir.create_graph(body, count), 2**40, count)
    with popxl.Session(ir, "cpu") as session, pytest.raises(popart.popart_runtime_error, match="more than 7"):
        session.run()


@pytest.mark.parametrize(
    ("option", "value"),
    [("max_loop_iterations", value) for value in ("0", "-1", "1.5", "", "many", "9223372036854775808")]
    + [("max_run_seconds", value) for value in ("0", "-1", "", "nan", "inf", "1e30", "1 s")],
)
def test_bad_limits_are_refused(option, value):
    with pytest.raises(popart.popart_exception, match=f"engineOptions: bad {option}: got '{value}', expected a "):
        session_of(LOOP, {option: value})
