"""Ops that share memory: what is written through one tensor is seen through the others."""

import numpy as np
import popxl
import popxl.ops as ops
from programs import evaluate

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def number(value: float) -> popxl.Tensor:
    return popxl.constant(value, popxl.float32)


def test_writing_a_concatenation_changes_its_parts():
    @popxl.in_sequence()
    def build(x):
        a, b = x + 0.0, x * 2.0
        joined = ops.concat_([a, b], 1)
        part = ops.slice_(joined, 3, 6, 1, 1)
        ops.add_(part, number(10.0))
        return a + 0.0, b + 0.0, joined + 0.0

    expected = np.concatenate([X, X * 2], 1)
    expected[:, 3:6] += 10
    a, b, joined = evaluate(build, X)
    np.testing.assert_array_equal(joined, expected)
    np.testing.assert_array_equal(a, expected[:, :4])
    np.testing.assert_array_equal(b, expected[:, 4:])


def test_writing_a_part_changes_the_concatenation():
    @popxl.in_sequence()
    def build(x):
        a, b = x + 0.0, x * 2.0
        joined = ops.concat_([a, b])
        before = joined + 0.0
        ops.add_(b, number(1.0))
        between = joined + 0.0
        ops.add_(a, number(2.0))
        return before, between, joined + 0.0

    before, between, after = evaluate(build, X)
    np.testing.assert_array_equal(before, np.concatenate([X, X * 2]))
    np.testing.assert_array_equal(between, np.concatenate([X, X * 2 + 1]))
    np.testing.assert_array_equal(after, np.concatenate([X + 2, X * 2 + 1]))


def test_parts_may_be_views_of_variables():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        v, u = popxl.variable(X, name="v"), popxl.variable(X * 2, name="u")
        inner = ops.concat_([ops.slice_(v, 0, 2, 1, 0), u.T_.T_], 0)
        flat = ops.concat_([inner], -1).reshape_((20,))
        ops.add_(flat, number(3.0))
    with popxl.Session(ir) as session:
        session.run()
        np.testing.assert_array_equal(session.get_tensor_data(v), X + np.array([[3], [3], [0]]))
        np.testing.assert_array_equal(session.get_tensor_data(u), X * 2 + 3)


def test_calls_and_loops_write_through_a_concatenation():
    def add_one(t: popxl.TensorByRef):
        ops.add_(t, number(1.0))

    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        v, u = popxl.variable(X, name="v"), popxl.variable(X * 2, name="u")
        joined = ops.concat_([v, u], -1)
        graph = ir.create_graph(add_one, joined)
        ops.call(graph, joined)
        ops.add_(v, number(1.0))
        ops.repeat(graph, 3, joined)
    with popxl.Session(ir) as session:
        session.run()
        np.testing.assert_array_equal(session.get_tensor_data(v), X + 5)
        np.testing.assert_array_equal(session.get_tensor_data(u), X * 2 + 4)


def test_a_loop_takes_one_tensor_by_reference_twice():
    def body(a: popxl.TensorByRef, b: popxl.TensorByRef):
        ops.add_(a, number(1.0))
        ops.add_(b, number(2.0))

    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        v, u = popxl.variable(X, name="v"), popxl.variable(X, name="u")
        graph = ir.create_graph(body, v, u)
        ops.repeat(graph, 4, v, u)
    with popxl.Session(ir) as session:
        session.run()
        np.testing.assert_array_equal(session.get_tensor_data(v), X + 4)
        np.testing.assert_array_equal(session.get_tensor_data(u), X + 8)
