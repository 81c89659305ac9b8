"""Session options of PopXL programs: rounding at random, its state, and types of partial sums."""

import numpy as np
import popart_core
import popxl
import pytest
from popxl import ops

N = 4096


def make(loop=False, **options):
    """A program that adds a small step to a float16 weight, three times in a loop if asked, and returns it."""
    ir = popxl.Ir()
    for name, value in options.items():
        setattr(ir._pb_ir.getSessionOptions(), name, value)
    with ir.main_graph:
        w = popxl.variable(np.ones(N, np.float16), name="w")
        step = popxl.constant(np.full(N, 1e-4, np.float16))

        def update(w: popxl.TensorByRef, step: popxl.Tensor):
            ops.var_updates.accumulate_(w, step)

        d2h = popxl.d2h_stream(w.shape, w.dtype)
        with popxl.in_sequence():
            if loop:
                ops.repeat(ir.create_graph(update, w, step), 3, w, step)
            else:
                update(w, step)
            ops.host_store(d2h, w)
    return ir, w, d2h


@pytest.mark.parametrize("loop", [False, True])
def test_small_steps_make_progress(loop):
    ir, _, d2h = make(loop, enableStochasticRounding=True)
    with popxl.Session(ir, "cpu") as session:
        for _ in range(20):
            got = session.run()[d2h].astype(np.float64)
    steps = 60 if loop else 20
    spread = 5 * np.sqrt(steps * 0.1 * 0.9 / N) * 2**-10
    assert abs(got.mean() - 1 - steps * 1e-4) < spread + steps * 1e-7
    ir, _, d2h = make(loop)
    with popxl.Session(ir, "cpu") as session:
        np.testing.assert_array_equal(session.run()[d2h], np.ones(N))


def test_iterations_draw_anew():
    ir, _, d2h = make(True, enableStochasticRounding=True)
    with popxl.Session(ir, "cpu") as session:
        got = session.run()[d2h]
    assert len(np.unique(got)) > 2  # the same draws thrice would move an element by none or three steps


def test_the_state_goes_on():
    options = {"enableStochasticRounding": True, "enableLoadAndOffloadRNGState": True}
    ir, w, d2h = make(**options)
    with popxl.Session(ir, "cpu") as session:
        session._pb_session.setRandomSeed(2**40 + 5)
        session.run()
        state, weight = session._pb_session.getRNGState(), session.get_tensor_data(w).copy()
        expected = session.run()[d2h]
        session._pb_session.setRNGState(state)
        session.write_variable_data(w, weight)
        np.testing.assert_array_equal(session.run()[d2h], expected)
        with pytest.raises(popart_core.popart_runtime_error, match="got 1, expected 2"):
            session._pb_session.setRNGState([1])
    ir, _, _ = make(enableStochasticRounding=True)
    with (
        popxl.Session(ir, "cpu") as session,
        pytest.raises(popart_core.popart_runtime_error, match="enableLoadAndOffloadRNGState"),
    ):
        session._pb_session.getRNGState()


@pytest.mark.parametrize("partials", ["", "half", "FLOAT"])
def test_partials_change_no_bit(partials):
    rng = np.random.default_rng(1)
    a, b = (rng.normal(size=s).astype(np.float16) for s in ((16, 300), (300, 8)))
    ir = popxl.Ir()
    ir._pb_ir.getSessionOptions().partialsTypeMatMuls = partials
    with ir.main_graph:
        out = ops.matmul(popxl.variable(a), popxl.variable(b))
        d2h = popxl.d2h_stream(out.shape, out.dtype)
        ops.host_store(d2h, out)
    with popxl.Session(ir, "cpu") as session:
        got = session.run()[d2h]
    np.testing.assert_allclose(got, a.astype(np.float64) @ b.astype(np.float64), rtol=2**-10, atol=1e-4)


def test_unknown_partials_are_refused():
    ir = popxl.Ir()
    ir._pb_ir.getSessionOptions().partialsTypeMatMuls = "double"
    with ir.main_graph, pytest.raises(ValueError, match="partialsTypeMatMuls: got 'double'"):
        ops.matmul(popxl.variable(np.ones((2, 2))), popxl.variable(np.ones((2, 2))))
