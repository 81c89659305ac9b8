"""Values outside their domain in PopXL programs: the run ends with an error and the session runs on."""

import numpy as np
import popart
import popxl
import popxl.ops as ops
import pytest

TABLE = np.arange(15, dtype=np.float32).reshape(5, 3)


def session_of(fn, *infos):
    """A session that runs `fn` on streams of these shapes and types, and a function that runs it on arrays."""
    ir = popxl.Ir()
    with ir.main_graph:
        streams = [popxl.h2d_stream(shape, dtype, f"in{i}") for i, (shape, dtype) in enumerate(infos)]
        result = fn(*[ops.host_load(s) for s in streams])
        out = popxl.d2h_stream(result.shape, result.dtype, "out")
        ops.host_store(out, result)
    session = popxl.Session(ir, "cpu")

    def run(*arrays):
        with session:
            return session.run(dict(zip(streams, arrays, strict=True)))[out]

    return session, run


def test_gather_ends_the_run_and_the_session_runs_on():
    _, run = session_of(lambda i: ops.gather(popxl.variable(TABLE), i), ((2,), popxl.int32))
    for _ in range(2):
        np.testing.assert_array_equal(run(np.array([4, -5], np.int32)), TABLE[[4, 0]])
        with pytest.raises(popart.popart_runtime_error, match="got 5 at element 1 of input 1, expected -5 to 4"):
            run(np.array([0, 5], np.int32))


def test_zero_out_of_range_asks_for_zeros():
    _, run = session_of(lambda i: ops.gather(popxl.variable(TABLE), i, zero_OOR=True), ((3,), popxl.int32))
    np.testing.assert_array_equal(run(np.array([4, 5, -1], np.int32)), np.stack([TABLE[4], 0 * TABLE[0], 0 * TABLE[0]]))


def test_a_repeated_graph_stops_at_the_failing_iteration():
    """Every variable has a value it had before the failing step; within a loop that may be the one before the loop."""
    ir = popxl.Ir()
    with ir.main_graph:
        memory = popxl.variable(np.zeros(6, np.float32), name="memory")
        stream = popxl.h2d_stream((), popxl.uint32, "stride")
        stride = ops.host_load(stream)

        @popxl.in_sequence()
        def body(at, stride, memory: popxl.TensorByRef):
            ops.dynamic_update_(memory, ops.reshape(at, (1,)), popxl.constant(np.ones(1, np.float32)), [0], [1], True)
            return ops.add(at, stride)

        start = popxl.constant(0, popxl.uint32)
        ops.repeat(ir.create_graph(body, start, stride, memory), 5, start, stride, memory)
    session = popxl.Session(ir, "cpu")
    with session:
        session.run({stream: np.array(1, np.uint32)})
        np.testing.assert_array_equal(session.get_tensor_data(memory), [1, 1, 1, 1, 1, 0])
        session.write_variable_data(memory, np.zeros(6, np.float32))
        with pytest.raises(popart.popart_runtime_error, match="got 6 at element 0 of input 1, expected 0 to 5"):
            session.run({stream: np.array(2, np.uint32)})
        assert list(session.get_tensor_data(memory)) in ([0, 0, 0, 0, 0, 0], [1, 0, 1, 0, 1, 0])
        session.write_variable_data(memory, np.zeros(6, np.float32))
        session.run({stream: np.array(1, np.uint32)})
        np.testing.assert_array_equal(session.get_tensor_data(memory), [1, 1, 1, 1, 1, 0])


def test_loss_with_gradient_reports_the_label():
    def program(x, labels):
        return ops.nll_loss_with_softmax_grad(ops.softmax(x, -1), labels, popxl.constant(1.0), reduction="mean")[1]

    _, run = session_of(program, ((2, 3), popxl.float32), ((2,), popxl.int32))
    x = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    p = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    expected = (p - np.eye(3, dtype=np.float32)[[2, 0]]) / 2
    np.testing.assert_allclose(run(x, np.array([2, 0], np.int32)), expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(popart.popart_runtime_error, match="a label is out of range: got 3 at element 0"):
        run(x, np.array([3, 0], np.int32))
    np.testing.assert_allclose(run(x, np.array([2, 0], np.int32)), expected, rtol=1e-5, atol=1e-6)
