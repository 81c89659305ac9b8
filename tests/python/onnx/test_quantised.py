"""Quantised operators: integers exactly, against NumPy."""

import ml_dtypes
import numpy as np
import onnxruntime
import popart
import popart.backend
import pytest
from onnx.reference import ReferenceEvaluator

from onnx import TensorProto, helper, numpy_helper
from tests.python.onnx.single_node import (
    Node,
    gradients,
    output_weights,
    runtime_int8_range,
    runtime_values,
    values,
)

RNG = np.random.default_rng(8)
TYPES = {np.uint8: (0, 255), np.int8: (-128, 127), np.uint16: (0, 65535), np.int16: (-32768, 32767)}


def normal(*shape, scale=1.0):
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def integers(dtype, *shape):
    low, high = TYPES[dtype]
    return RNG.integers(low, high + 1, shape).astype(dtype)


def quantised(x, scale, zero, dtype):
    low, high = TYPES[dtype]
    return np.clip(np.rint(x / scale) + np.float32(zero), low, high).astype(dtype)


@pytest.mark.parametrize(
    ("dtype", "opset"), [(t, v) for t in TYPES for v in (10, 13, 19, 21, 23) if v >= 21 or t in (np.uint8, np.int8)]
)
def test_one_scale(dtype, opset):
    """Types of 16 bits from version 21 on."""
    x = np.concatenate([normal(50, scale=30), np.float32([0.25, 0.75, 1.25, 1e9, -1e9, np.inf, -np.inf])])
    zero = integers(dtype)
    scale = np.float32(0.5)
    (got,) = values(Node("QuantizeLinear", [x, scale, zero], opset=opset))
    np.testing.assert_array_equal(got, quantised(x, scale, zero, dtype))
    (back,) = values(Node("DequantizeLinear", [got, scale, zero], opset=opset))
    np.testing.assert_allclose(back, (got.astype(np.float64) - zero) * scale, rtol=1e-6)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_scale_per_index(axis):
    x = normal(3, 4, 5, scale=20)
    count = x.shape[axis]
    shape = [1, 1, 1]
    shape[axis] = count
    scale, zero = RNG.uniform(0.1, 2, count).astype(np.float32), integers(np.int8, count)
    (got,) = values(Node("QuantizeLinear", [x, scale, zero], {"axis": axis}, opset=13))
    np.testing.assert_array_equal(got, quantised(x, scale.reshape(shape), zero.reshape(shape), np.int8))
    node = Node("DequantizeLinear", [got, scale, zero], {"axis": axis}, opset=13)
    expected = (got.astype(np.float32) - zero.reshape(shape)) * scale.reshape(shape)
    np.testing.assert_allclose(values(node)[0], expected, rtol=1e-6)
    (weights,) = output_weights(node, [expected])
    over = tuple(d for d in range(3) if d != axis % 3)
    slope = (weights * (got.astype(np.float32) - zero.reshape(shape))).sum(over)
    np.testing.assert_allclose(gradients(node, [1], [weights])[0], slope, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("block", [2, 3])
def test_blocks(block):
    """The last block may be shorter."""
    x = normal(2, 7, 3, scale=20)
    count = -(-7 // block)
    scale, zero = RNG.uniform(0.1, 2, (2, count, 3)).astype(np.float32), integers(np.uint8, 2, count, 3)
    each = [np.repeat(a, block, 1)[:, :7] for a in (scale, zero)]
    attributes = {"axis": 1, "block_size": block}
    (got,) = values(Node("QuantizeLinear", [x, scale, zero], attributes, opset=21))
    np.testing.assert_array_equal(got, quantised(x, *each, np.uint8))
    (back,) = values(Node("DequantizeLinear", [got, scale, zero], attributes, opset=21))
    np.testing.assert_allclose(back, (got.astype(np.float32) - each[1]) * each[0], rtol=1e-6)


def test_types_of_results():
    x, scale = normal(4), np.float32(0.1)
    assert values(Node("QuantizeLinear", [x, scale], opset=13))[0].dtype == np.uint8
    asked = Node("QuantizeLinear", [x, scale], {"output_dtype": TensorProto.INT16}, opset=21)
    np.testing.assert_array_equal(values(asked)[0], quantised(x, scale, 0, np.int16))
    half = Node("DequantizeLinear", [integers(np.int8, 4), np.float16(0.5)], opset=19)
    assert values(half)[0].dtype == np.float16


@pytest.mark.parametrize("x", [normal(20, scale=5), np.abs(normal(20)), np.zeros(3, np.float32)])
def test_dynamic(x):
    y, scale, zero = values(Node("DynamicQuantizeLinear", [x], outputs="yab", opset=11))
    assert (y.dtype, scale.dtype, zero.dtype) == (np.uint8, np.float32, np.uint8)
    np.testing.assert_allclose((y.astype(np.float32) - zero) * scale, x, atol=float(scale) * 0.51)


def awkward(*shape):
    """Numbers of which one in three lies at a half of steps of 1/4, some too large for every type."""
    x = normal(*shape, scale=40).reshape(-1)
    x[::3] = np.rint(x[::3] * 8) / 8
    x[1:60:7] = np.resize(np.float32([3e6, -3e6, -0.0, 1e-40, 0.125]), x[1:60:7].shape)
    return x.reshape(shape)


def reference_values(node):
    """As ONNX's reference evaluator computes them."""
    model = node.model(variables=False)
    names = [i.name for i in model.graph.input]
    return ReferenceEvaluator(model).run(None, dict(zip(names, node.streams(), strict=True)))


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("shape", "axis"), [((7, 1500), 0), ((7, 1500), 1), ((3, 40, 7), 1), ((2, 3, 130), -1), ((2111,), None)]
)
def test_bits_of_the_reference(shape, axis, dtype, constant):
    """Halves go to even, saturation, rows that are no whole vectors; scales known before the run and in it."""
    count = [] if axis is None else [shape[axis]]
    scale, zero = np.array(RNG.uniform(0.05, 2, count), np.float32), np.array(integers(dtype, *count))
    scale.reshape(-1)[0] = 0.25
    attributes = {} if axis is None else {"axis": axis}
    fixed = (1, 2) if constant else ()
    node = Node("QuantizeLinear", [awkward(*shape), scale, zero], attributes, opset=21, constant=fixed)
    (got,) = values(node)
    np.testing.assert_array_equal(got, reference_values(node)[0])
    node = Node("DequantizeLinear", [got, scale, zero], attributes, opset=21, constant=fixed)
    np.testing.assert_array_equal(values(node)[0], reference_values(node)[0])


@pytest.mark.parametrize("size", [8, 96, 500, 5])
def test_bits_of_blocks(size):
    """Blocks along every axis, and a last one that is shorter."""
    for axis, length in ((0, size * 2), (1, size * 3), (1, size * 3 - 2)):
        shape = (length, 6) if axis == 0 else (4, length, 3)
        counts = tuple(-(-n // size) if d == axis else n for d, n in enumerate(shape))
        scale, zero = RNG.uniform(0.1, 2, counts).astype(np.float32), integers(np.int8, *counts)
        attributes = {"axis": axis, "block_size": size}
        node = Node("QuantizeLinear", [awkward(*shape), scale, zero], attributes, opset=21, constant=(1, 2))
        each = [np.repeat(a, size, axis).take(range(length), axis) for a in (scale, zero.astype(np.float32))]
        (got,) = values(node)
        np.testing.assert_array_equal(got, quantised(node.inputs[0], each[0], each[1], np.int8))
        node = Node("DequantizeLinear", [got, scale, zero], attributes, opset=21, constant=(1, 2))
        np.testing.assert_array_equal(values(node)[0], (got.astype(np.float32) - each[1]) * each[0])


@pytest.mark.parametrize("shape", [(1,), (5, 7), (300, 411), (2, 3, 50001)])
@pytest.mark.parametrize("shift", [-60, 0, 3])
def test_dynamic_bits(shape, shift):
    """Also where all numbers have one sign."""
    node = Node("DynamicQuantizeLinear", [normal(*shape, scale=20) + np.float32(shift)], outputs="yab", opset=11)
    for got, expected in zip(values(node), reference_values(node), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_quantised_in_between():
    """Between other operators: rounded values are read, too, and go back to floats in the same loop."""
    x, scale, zero = awkward(40, 70), np.float32(0.25), np.int8(-7)
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("QuantizeLinear", ["r", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("Add", ["d", "x"], ["y"]),
    ]
    for results in (["y"], ["q", "y"], ["q", "d", "y"]):
        constants = [numpy_helper.from_array(np.asarray(a), n) for n, a in (("s", scale), ("z", zero))]
        info = helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)
        kinds = {"q": TensorProto.INT8}
        outputs = [helper.make_tensor_value_info(n, kinds.get(n, TensorProto.FLOAT), x.shape) for n in results]
        graph = helper.make_graph(nodes, "g", [info], outputs, constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        for got, expected in zip(
            popart.backend.run_model(model, [x]), ReferenceEvaluator(model).run(None, {"x": x}), strict=True
        ):
            np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("length", [3, 300, 2000])
@pytest.mark.parametrize("zeros", [False, True])
def test_integer_products_are_exact(length, zeros):
    """Extreme values, longer than the whole numbers of a float allow in one sum."""
    for a_type, b_type in ((np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)):
        a, b = integers(a_type, 2, 4, length), integers(b_type, length, 5)
        a[0], b[:, 0] = TYPES[a_type][1], TYPES[b_type][1]
        inputs = [a, b]
        expected = [x.astype(np.int64) for x in (a, b)]
        if zeros:
            inputs += [integers(a_type), integers(b_type, 5)]
            expected = [x - np.int64(z) for x, z in zip(expected, inputs[2:], strict=True)]
        (got,) = values(Node("MatMulInteger", inputs, opset=10))
        np.testing.assert_array_equal(got, (expected[0] @ expected[1]).astype(np.int32))


def test_zero_points_of_rows():
    a, b, zero = integers(np.uint8, 4, 6), integers(np.uint8, 6, 3), integers(np.uint8, 4)
    (got,) = values(Node("MatMulInteger", [a, b, zero], opset=10))
    np.testing.assert_array_equal(got, (a.astype(int) - zero[:, None]) @ b.astype(int))


@pytest.mark.parametrize("b_type", [np.uint8, np.int8])
@pytest.mark.parametrize("a_type", [np.uint8, np.int8])
@pytest.mark.parametrize("length", [1, 5, 768, 2050])
def test_constant_weights(a_type, b_type, length):
    """Weights that are initializers give what ONNX Runtime gives, the weights' zero points for each column."""
    a, b = integers(a_type, 2, 9, length), integers(b_type, length, 70)
    a[0], b[:, 0] = TYPES[a_type][0], TYPES[b_type][1]
    inputs = [a, b, integers(a_type), integers(b_type, 70)]
    node = Node("MatMulInteger", inputs, opset=10, constant=(1, 3))
    expected = (a.astype(np.int64) - inputs[2]) @ (b.astype(np.int64) - inputs[3])
    np.testing.assert_array_equal(values(node)[0], expected)
    # ONNX Runtime has no products of INT8 and UINT8, and sums of those of UINT8 and INT8 may overflow in it.
    if a_type == b_type or (a_type == np.uint8 and runtime_int8_range() == TYPES[np.int8]):
        np.testing.assert_array_equal(runtime_values(node, TensorProto.INT32)[0], expected)


def test_dynamically_quantised_product():
    """As quantised transformers have it: activations are quantised in the run, weights before."""
    low, high = runtime_int8_range()
    x, w = normal(4, 96), RNG.integers(low, high + 1, (96, 33)).astype(np.int8)
    scale, zero = np.float32(0.02), np.int8(4)
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("MatMulInteger", ["q", "w", "z", "wz"], ["p"]),
        helper.make_node("Cast", ["p"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["s", "ws"], ["m"]),
        helper.make_node("Mul", ["f", "m"], ["y"]),
    ]
    constants = [numpy_helper.from_array(np.asarray(a), n) for a, n in ((w, "w"), (zero, "wz"), (scale, "ws"))]
    x_info, y_info = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", x.shape), ("y", None)))
    graph = helper.make_graph(nodes, "g", [x_info], [y_info], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (got,) = popart.backend.run_model(model, [x])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(got, session.run(None, {"x": x})[0], rtol=1e-5, atol=1e-4)


def direct_convolution(x, w, group, pad):
    x = np.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    height, width = (x.shape[d] - w.shape[d] + 1 for d in (2, 3))
    y = np.zeros((x.shape[0], w.shape[0], height, width), np.int64)
    each = w.shape[0] // group
    for m in range(w.shape[0]):
        channels = slice(m // each * w.shape[1], (m // each + 1) * w.shape[1])
        for i in range(height):
            for j in range(width):
                part = x[:, channels, i : i + w.shape[2], j : j + w.shape[3]]
                y[:, m, i, j] = (part * w[m]).sum((1, 2, 3))
    return y


@pytest.mark.parametrize(
    ("channels", "group", "size"), [(3, 1, 3), (80, 1, 3), (80, 2, 3), (4, 4, 3), (2, 1, 17)], ids=str
)
def test_integer_convolutions_are_exact(channels, group, size):
    x, w = integers(np.uint8, 2, channels, 18, 18), integers(np.int8, 4, channels // group, size, size)
    x[0], w[0] = 255, 127
    x_zero, w_zero = np.uint8(3), integers(np.int8, 4)
    node = Node("ConvInteger", [x, w, x_zero, w_zero], {"group": group, "pads": [1, 1, 1, 1]}, opset=10)
    expected = direct_convolution(x.astype(int) - 3, w.astype(int) - w_zero.reshape(4, 1, 1, 1), group, 1)
    np.testing.assert_array_equal(values(node)[0], expected)


@pytest.mark.parametrize("settings", [
    {"pads": [1, 1, 1, 1]},
    {"strides": [2, 3], "auto_pad": "SAME_UPPER"},
    {"dilations": [2, 2], "group": 2},
], ids=str)  # fmt: skip
def test_integer_convolutions_against_onnx_runtime(settings):
    """Weights that are initializers; padding is the zero point of x."""
    x, w = integers(np.uint8, 2, 6, 13, 15), integers(np.uint8, 8, 6 // settings.get("group", 1), 3, 3)
    node = Node(
        "ConvInteger", [x, w, np.array(9, np.uint8), np.array(200, np.uint8)], settings, opset=10, constant=(1, 3)
    )
    np.testing.assert_array_equal(values(node)[0], runtime_values(node, TensorProto.INT32)[0])


def test_quantised_matrix_product():
    a, b = integers(np.uint8, 2, 3, 40), integers(np.uint8, 2, 40, 4)
    scales = [np.float32(s) for s in (0.02, 0.03, 0.9)]
    zeros = [np.uint8(z) for z in (120, 130, 100)]
    node = Node("QLinearMatMul", [a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2], zeros[2]], opset=10)
    exact = (a.astype(int) - 120) @ (b.astype(int) - 130) * (0.02 * 0.03 / 0.9)
    expected = np.clip(np.rint(exact) + 100, 0, 255)
    assert np.abs(values(node)[0].astype(int) - expected).max() <= 1
    assert np.mean(values(node)[0] != expected) < 0.05


def test_quantised_convolution():
    x, w = integers(np.uint8, 1, 3, 6, 7), integers(np.uint8, 4, 3, 3, 3)
    w_scale, bias = RNG.uniform(0.01, 0.05, 4).astype(np.float32), RNG.integers(-99, 99, 4).astype(np.int32)
    inputs = [
        x,
        np.float32(0.03),
        np.uint8(128),
        w,
        w_scale,
        integers(np.uint8, 4),
        np.float32(0.4),
        np.uint8(120),
        bias,
    ]
    node = Node("QLinearConv", inputs, {"pads": [1, 1, 1, 1], "strides": [1, 1]}, opset=10)
    exact = direct_convolution(x.astype(int) - 128, w.astype(int) - inputs[5].astype(int).reshape(4, 1, 1, 1), 1, 1)
    exact = (exact + bias.reshape(4, 1, 1)) * (0.03 * w_scale.astype(float) / 0.4).reshape(4, 1, 1)
    expected = np.clip(np.rint(exact) + 120, 0, 255)
    got = values(node)[0]
    assert np.abs(got.astype(int) - expected).max() <= 1
    assert np.mean(got != expected) < 0.05


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (Node("QuantizeLinear", [normal(2, 3), np.ones(2, np.float32)], opset=13), "scale"),
        (Node("QuantizeLinear", [normal(3), np.float32(1), np.int32(0)], opset=13), "UINT8"),
        (Node("DequantizeLinear", [integers(np.int8, 3), np.float32(1), np.uint8(0)], opset=13), "one type"),
        (Node("MatMulInteger", [integers(np.int16, 2, 3), integers(np.int8, 3, 2)], opset=10), "UINT8 or INT8"),
        (Node("MatMulInteger", [integers(np.int8, 2, 3), integers(np.int8, 4, 2)], opset=10), "do not fit"),
    ],
)
def test_refusals(node, text):
    with pytest.raises(popart.popart_exception, match=text):
        values(node)


@pytest.mark.parametrize("shapes", [((5,), (5, 3)), ((2, 5), (5,)), ((5,), (5,)), ((4, 1, 2, 5), (3, 5, 2))], ids=str)
def test_matrix_products_take_lists_and_stacks(shapes):
    """As NumPy's matmul."""
    a, b = integers(np.uint8, *shapes[0]), integers(np.int8, *shapes[1])
    (got,) = values(Node("MatMulInteger", [a, b, np.uint8(7), np.int8(-3)], opset=10))
    np.testing.assert_array_equal(got, np.matmul(a.astype(int) - 7, b.astype(int) + 3))


def test_products_of_float8_are_rounded_once():
    """QLinearMatMul-21 of FLOAT8: values times scales, without zero points."""
    dtype = ml_dtypes.float8_e4m3fn
    a, b = (np.linspace(-4, 4, 12).astype(dtype).reshape(shape) for shape in ((3, 4), (4, 3)))
    zero, scales = np.zeros((), dtype), [np.float32(s) for s in (0.5, 0.25, 2)]
    node = Node("QLinearMatMul", [a, scales[0], zero, b, scales[1], zero, scales[2], zero], opset=21)
    exact = a.astype(np.float32) @ b.astype(np.float32) * np.float32(0.5 * 0.25 / 2)
    np.testing.assert_array_equal(values(node)[0].astype(np.float32), exact.astype(dtype).astype(np.float32))
