"""Scan against its meaning written in NumPy, with gradients by finite differences."""

import numpy as np
import popart
import pytest

from onnx import TensorProto, helper
from tests.python.onnx.single_node import Node, check_gradients, values

STEPS, WIDTH = 4, 3
RNG = np.random.default_rng(6)


def normal(*shape):
    return (RNG.standard_normal(shape) * 0.6).astype(np.float32)


def body(outer=False):
    """(state, x, other) → (tanh(state + x) * other [* outer], that + x, state)."""
    nodes = [
        helper.make_node("Add", ["state", "x"], ["sum"]),
        helper.make_node("Tanh", ["sum"], ["turned"]),
        helper.make_node("Mul", ["turned", "other"], ["plain"]),
        helper.make_node("Mul", ["plain", "in3"], ["next"]) if outer else helper.make_node("Neg", ["plain"], ["next"]),
        helper.make_node("Add", ["next", "x"], ["seen"]),
        helper.make_node("Identity", ["state"], ["before"]),
    ]

    def infos(names):
        return [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in names]

    return helper.make_graph(nodes, "body", infos(["state", "x", "other"]), infos(["next", "seen", "before"]))


def formula(state, xs, others):
    seen, before = [], []
    for x, other in zip(xs, others, strict=True):
        before.append(state)
        state = -np.tanh(state + x) * other
        seen.append(state + x)
    return state, np.stack(seen), np.stack(before)


def scan(inputs, opset=11, **attributes):
    attributes = {"body": body(), "num_scan_inputs": 2} | attributes
    return Node("Scan", inputs, attributes, "abc", opset)


@pytest.mark.parametrize("opset", [9, 11, 16, 23])
def test_values_and_gradients(opset):
    node = scan([normal(WIDTH), normal(STEPS, WIDTH), normal(STEPS, WIDTH)], opset)
    for got, expected in zip(values(node), formula(*node.inputs), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    check_gradients(node, range(3))


def test_axes_and_directions():
    state, xs, others = normal(WIDTH), normal(STEPS, WIDTH), normal(STEPS, WIDTH)
    node = scan(
        [state, np.ascontiguousarray(xs.T), others[::-1].copy()],
        scan_input_axes=[-1, 0],
        scan_input_directions=[0, 1],
        scan_output_axes=[1, -2],
        scan_output_directions=[0, 1],
    )
    last, seen, before = formula(state, xs, others)
    for got, expected in zip(values(node), (last, seen.T, before[::-1]), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    check_gradients(node, range(3))


def test_values_from_around_the_body():
    """A body reads a tensor of the graph that holds the node."""
    inputs = [normal(WIDTH), normal(STEPS, WIDTH), normal(STEPS, WIDTH)]
    factor = normal(WIDTH)
    model = scan(inputs, body=body(outer=True)).model(variables=False)
    model.graph.input.append(helper.make_tensor_value_info("in3", TensorProto.FLOAT, [WIDTH]))
    got = popart.backend.prepare(model).run([*inputs, factor])
    expected = formula(inputs[0], inputs[1], -inputs[2] * factor)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("lengths", [None, [4, 0, 2]])
def test_version_8_has_samples(lengths):
    """Each sample has a length; what lies beyond is zero."""
    inputs = [normal(3, WIDTH), normal(3, STEPS, WIDTH), normal(3, STEPS, WIDTH)]
    given = None if lengths is None else np.array(lengths)
    node = Node(
        "Scan", [given, *inputs], {"body": body(), "num_scan_inputs": 2, "directions": [0, 0]}, "abc", 8, constant=[0]
    )
    got = values(node)
    for b, length in enumerate(lengths or [STEPS] * 3):
        if length == 0:
            np.testing.assert_array_equal(got[0][b], inputs[0][b])
            np.testing.assert_array_equal(got[1][b], 0)
            continue
        expected = formula(inputs[0][b], inputs[1][b, :length], inputs[2][b, :length])
        np.testing.assert_allclose(got[0][b], expected[0], rtol=1e-5, atol=1e-6)
        for y, whole in zip(expected[1:], got[1:], strict=True):
            np.testing.assert_allclose(whole[b, :length], y, rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(whole[b, length:], 0)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"num_scan_inputs": 0}, "num_scan_inputs"),
        ({"scan_input_directions": [0, 2]}, "directions"),
        ({"scan_input_axes": [0]}, "scan_input_axes"),
        ({"scan_output_axes": [0, 5]}, "axes"),
    ],
)
def test_refusals(change, text):
    with pytest.raises(popart.popart_exception, match=text):
        values(scan([normal(WIDTH), normal(STEPS, WIDTH), normal(STEPS, WIDTH)], **change))


def test_inputs_of_different_lengths_are_refused():
    with pytest.raises(popart.popart_exception, match="one length"):
        values(scan([normal(WIDTH), normal(STEPS, WIDTH), normal(STEPS + 1, WIDTH)]))
