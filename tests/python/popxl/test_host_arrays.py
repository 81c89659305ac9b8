"""Sessions of PopXL read and write the arrays of a run where they lie."""

import numpy as np
import popxl
import pytest
from popxl import ops


def program(build, shape):
    """A program ``build(stream) -> tensors``, and its streams."""
    ir = popxl.Ir()
    outputs = []
    with ir.main_graph, popxl.in_sequence():
        stream = popxl.h2d_stream(shape, popxl.float32)
        for y in build(stream):
            outputs.append(popxl.d2h_stream(y.shape, y.dtype))
            ops.host_store(outputs[-1], y)
    return ir, stream, outputs


def random(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(3,), (16, 16), (300, 100)])
def test_inputs_keep_their_values(shape):
    ir, stream, (first, second) = program(lambda s: (lambda x: (ops.relu(x), x * 2.0))(ops.host_load(s)), shape)
    x = random(*shape)
    before = x.copy()
    with popxl.Session(ir, "cpu") as session:
        for _ in range(2):
            results = session.run({stream: x})
            np.testing.assert_array_equal(results[first], np.maximum(before, 0))
            np.testing.assert_array_equal(results[second], before * 2)
    np.testing.assert_array_equal(x, before)


def test_results_of_runs_are_arrays_of_their_own():
    ir, stream, (output,) = program(lambda s: [ops.host_load(s) + 1.0], (64, 64))
    with popxl.Session(ir, "cpu") as session:
        results = [session.run({stream: np.full((64, 64), i, np.float32)})[output] for i in range(4)]
    assert [float(result[0, 0]) for result in results] == [1, 2, 3, 4]


def test_one_array_is_input_and_result():
    ir, stream, (output,) = program(lambda s: (lambda x: [x @ x])(ops.host_load(s)), (32, 32))
    state = random(32, 32) / 6
    expected = state.copy()
    with popxl.Session(ir, "cpu") as session:
        for _ in range(3):
            session.run_with_outputs({stream: state}, {output: state})
            expected = (expected.astype(np.float64) @ expected).astype(np.float32)
            np.testing.assert_allclose(state, expected, rtol=1e-4, atol=1e-5)


def test_several_values_of_one_stream():
    """Each store of a stream has a place of its own in the array."""
    ir = popxl.Ir()
    ir.num_host_transfers = 2
    with ir.main_graph, popxl.in_sequence():
        stream, output = popxl.h2d_stream((16, 16), popxl.float32), popxl.d2h_stream((16, 16), popxl.float32)
        first, second = ops.host_load(stream), ops.host_load(stream)
        a, b = first * second, first - second
        ops.host_store(output, a)
        ops.host_store(output, b)
    x = random(2, 16, 16)
    with popxl.Session(ir, "cpu") as session:
        result = session.run({stream: x})[output]
    np.testing.assert_array_equal(result, np.stack([x[0] * x[1], x[0] - x[1]]))


def test_values_of_a_loop():
    ir = popxl.Ir()
    ir.num_host_transfers = 3
    with ir.main_graph, popxl.in_sequence():
        stream, output = popxl.h2d_stream((16, 16), popxl.float32), popxl.d2h_stream((16, 16), popxl.float32)

        def body():
            x = ops.host_load(stream)
            ops.host_store(output, ops.relu(x) - x)

        ops.repeat(ir.create_graph(body), 3)
    x = random(3, 16, 16)
    with popxl.Session(ir, "cpu") as session:
        for _ in range(2):
            np.testing.assert_array_equal(session.run({stream: x})[output], np.maximum(x, 0) - x)


LAYOUTS = {
    "C": lambda: np.zeros((3, 4), np.float32),
    "Fortran": lambda: np.zeros((3, 4), np.float32, order="F"),
    "columns": lambda: np.zeros((3, 8), np.float32)[:, ::2],
    "backwards": lambda: np.zeros((3, 4), np.float32)[::-1, ::-1],
    "inside": lambda: np.zeros((5, 6), np.float32)[1:4, 1:5],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_outputs_of_any_layout_are_filled(layout):
    ir, stream, (output,) = program(lambda s: [ops.host_load(s) * 2.0], (3, 4))
    x, y = random(3, 4), LAYOUTS[layout]()
    with popxl.Session(ir, "cpu") as session:
        session.run_with_outputs({stream: x}, {output: y})
    np.testing.assert_array_equal(y, x * 2)


def test_outputs_that_share_memory_are_refused():
    """Each output has memory of its own; interleaved views have."""
    ir, stream, (first, second) = program(lambda s: (lambda x: (x * 2.0, x * 3.0))(ops.host_load(s)), (4,))
    x, base = random(4), np.zeros(9, np.float32)
    with popxl.Session(ir, "cpu") as session:
        for one, other in [(base[:4], base[4:8]), (base[:8:2], base[1:8:2]), (base[3::-1], base[4:8])]:
            session.run_with_outputs({stream: x}, {first: one, second: other})
            np.testing.assert_array_equal(one, x * 2)
            np.testing.assert_array_equal(other, x * 3)
        for one, other in [(base[:4], base[:4]), (base[:4], base[3:7]), (base[:7:2], base[2:9:2])]:
            with pytest.raises(ValueError, match="shares memory"):
                session.run_with_outputs({stream: x}, {first: one, second: other})
        repeated = np.lib.stride_tricks.as_strided(base, (4,), (0,))
        with pytest.raises(ValueError, match="elements of the array share memory"):
            session.run_with_outputs({stream: x}, {first: base[:4], second: repeated})


def test_an_output_may_be_an_input():
    """The input is read before the output overwrites it, whenever the program loads it."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        stream = popxl.h2d_stream((3,), popxl.float32)
        early, late = (popxl.d2h_stream((3,), popxl.float32) for _ in range(2))
        ops.host_store(early, popxl.constant(np.full(3, 7, np.float32)))
        ops.host_store(late, ops.host_load(stream))
    x = random(3)
    array, y = x.copy(), np.zeros(3, np.float32)
    with popxl.Session(ir, "cpu") as session:
        session.run_with_outputs({stream: array}, {early: array, late: y})
    np.testing.assert_array_equal(array, 7)
    np.testing.assert_array_equal(y, x)
