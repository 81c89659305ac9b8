"""Loops whose results, carried values and by-reference inputs are the same or old tensors."""

import numpy as np
import popxl
import popxl.ops as ops
from programs import evaluate

X = np.array([1.0, -2.0, 3.0, -4.0], np.float32)


def after_repeats(body, times):
    """The variable v, at first X, after `times` runs of body(v)."""
    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable(X, name="v")
        ops.repeat(ir.create_graph(body, v), times, v)
    with popxl.Session(ir) as session:
        session.run()
        return session.get_tensor_data(v)


def test_a_carry_takes_an_input_that_stays_the_same():
    """The loop's result is not read, so that nothing but the input itself keeps its memory."""

    @popxl.in_sequence()
    def inner(a, b: popxl.TensorByRef, c):
        ops.add_(a, b)
        return b

    @popxl.in_sequence()
    def outer(x: popxl.TensorByRef):
        squared = ops.tanh(x * x)
        ops.relu_(x)
        ops.repeat(popxl.gir().create_graph(inner, x, x, x), 1, squared, x, squared)

    np.testing.assert_array_equal(after_repeats(outer, 1), np.maximum(X, 0))


def test_a_loop_without_iterations_keeps_what_a_carry_would_take():
    def build(x):
        graph = popxl.gir().create_graph(lambda a, b: b, x, x)
        new = x * 3.0
        return ops.repeat(graph, 0, x + 1.0, new)[0], ops.repeat(graph, 1, x + 1.0, new)[0], new

    none, once, new = evaluate(build, X)
    np.testing.assert_array_equal(none, X + 1)
    np.testing.assert_array_equal(once, X * 3)
    np.testing.assert_array_equal(new, X * 3)


def test_two_carries_take_one_value():
    """Only one of them is read afterwards."""

    @popxl.in_sequence()
    def inner(a: popxl.TensorByRef, b: popxl.TensorByRef):
        ops.relu_(a)
        ops.var_updates.copy_var_update_(b, a)

    @popxl.in_sequence()
    def outer(x: popxl.TensorByRef):
        twice = x * 2.0
        ops.var_updates.accumulator_scale_(x, 0.5)
        ops.repeat(popxl.gir().create_graph(inner, twice, x), 3, twice, x)

    np.testing.assert_array_equal(after_repeats(outer, 3), np.maximum(X * 8, 0))


def test_updates_of_copies_and_of_their_source_are_ordered():
    @popxl.in_sequence()
    def body(a, b, c):
        ops.var_updates.copy_var_update_(c, b)
        return c

    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        v = popxl.variable(X, name="v")
        view = ops.transpose_(v, (0,))
        (copy,) = ops.call(ir.create_graph(body, v, v, v), view, view, view)
        ops.var_updates.accumulator_scale_(view.reshape_((4,)), 0.5)
        outs = [popxl.d2h_stream(X.shape, popxl.float32) for _ in range(3)]
        for stream, t in zip(outs, (v, view, copy), strict=True):
            ops.host_store(stream, t)
    with popxl.Session(ir) as session:
        got = session.run()
        np.testing.assert_array_equal(session.get_tensor_data(v), X / 2)
    for stream, expected in zip(outs, (X / 2, X / 2, X), strict=True):
        np.testing.assert_array_equal(got[stream], expected)
