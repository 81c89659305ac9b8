"""Quantised operators of com.microsoft against ONNX Runtime."""

import numpy as np
import pytest

from onnx import TensorProto
from tests.python.onnx.microsoft_node import check_like_runtime, microsoft
from tests.python.onnx.single_node import runtime_int8_range, runtime_values, values

UINT8, INT8, INT32, FLOAT = TensorProto.UINT8, TensorProto.INT8, TensorProto.INT32, TensorProto.FLOAT
TYPES = {np.uint8: UINT8, np.int8: INT8}


def floats(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def numbers(dtype, *shape, seed=0):
    low, high = runtime_int8_range() if dtype == np.int8 else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return np.random.default_rng((seed, *shape)).integers(low, high + 1, shape).astype(dtype)


def scale(value):
    return np.array(value, np.float32)


def zero(dtype, value):
    return np.array(value, dtype)


EITHER = pytest.mark.parametrize("dtype", [np.uint8, np.int8])


@EITHER
@pytest.mark.parametrize("operator", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("other", [(2, 3, 8), (8,), (1, 3, 1)])
def test_binary(dtype, operator, other):
    a, b = numbers(dtype, 2, 3, 8), numbers(dtype, *other, seed=1)
    z = [zero(dtype, v) for v in (5, 9, 3)]
    inputs = [a, scale(0.02), z[0], b, scale(0.03), z[1], scale(0.05), z[2]]
    check_like_runtime(microsoft(operator, inputs), element=TYPES[dtype], steps=1)


@pytest.mark.parametrize("operator", ["QLinearAdd", "QLinearMul"])
def test_binary_without_zero_points(operator):
    """ONNX Runtime refuses those, though its page has them optional: its values with zeros."""
    a, b = numbers(np.uint8, 2, 3, 8), numbers(np.uint8, 2, 3, 8, seed=1)

    def node(point):
        return microsoft(operator, [a, scale(0.02), point, b, scale(0.03), point, scale(0.05), point])

    expected = runtime_values(node(zero(np.uint8, 0)), UINT8)[0].astype(int)
    assert np.abs(values(node(None))[0] - expected).max() <= 1


@EITHER
@pytest.mark.parametrize(("operator", "attributes"), [("QLinearSigmoid", {}), ("QLinearLeakyRelu", {"alpha": 0.2})])
@pytest.mark.parametrize("points", [False, True])
def test_unary(dtype, operator, attributes, points):
    z = [zero(dtype, v) if points else None for v in (7, 2)]
    inputs = [numbers(dtype, 4, 50), scale(0.03), z[0], scale(0.01), z[1]]
    check_like_runtime(microsoft(operator, inputs, attributes), element=TYPES[dtype], steps=1)


@EITHER
@pytest.mark.parametrize(("opset", "axis"), [(12, 1), (12, -1), (13, 1), (13, -1)])
def test_softmax(dtype, opset, axis):
    inputs = [numbers(dtype, 2, 3, 8), scale(0.02), zero(dtype, 4), scale(1 / 256), zero(dtype, 0)]
    node = microsoft("QLinearSoftmax", inputs, {"opset": opset, "axis": axis})
    check_like_runtime(node, element=TYPES[dtype], steps=1)


@EITHER
@pytest.mark.parametrize("axis", [1, -1])
def test_concat(dtype, axis):
    a, b = numbers(dtype, 2, 3, 4), numbers(dtype, 2, 3, 4, seed=1)
    inputs = [scale(0.04), zero(dtype, 3), a, scale(0.02), zero(dtype, 5), b, scale(0.04), zero(dtype, 3)]
    node = microsoft("QLinearConcat", inputs, {"axis": axis}, constant=[0, 1, 3, 4, 6, 7])
    check_like_runtime(node, element=TYPES[dtype], steps=1)


@EITHER
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize(
    "attributes",
    [
        {"kernel_shape": [2, 2]},
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2], "count_include_pad": 1},
        {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1},
    ],
)
def test_average_pool(dtype, last, attributes):
    x = numbers(dtype, 2, 7, 7, 3) if last else numbers(dtype, 2, 3, 7, 7)
    inputs = [x, scale(0.02), zero(dtype, 4), scale(0.015), zero(dtype, 7)]
    node = microsoft("QLinearAveragePool", inputs, {"channels_last": last, **attributes}, constant=[1, 2, 3, 4])
    check_like_runtime(node, element=TYPES[dtype], steps=1)


@EITHER
@pytest.mark.parametrize("last", [0, 1])
def test_global_average_pool(dtype, last):
    inputs = [numbers(dtype, 2, 5, 6, 4), scale(0.02), zero(dtype, 4), scale(0.005), zero(dtype, 7)]
    node = microsoft("QLinearGlobalAveragePool", inputs, {"channels_last": last}, constant=[1, 2, 3, 4])
    check_like_runtime(node, element=TYPES[dtype], steps=1)


@pytest.mark.parametrize("keep", [0, 1])
def test_reduce_mean(keep):
    """No kernel of ONNX Runtime's CPU provider: the mean of the values, quantised."""
    x = numbers(np.uint8, 2, 3, 8)
    inputs = [x, scale(0.02), zero(np.uint8, 4), scale(0.005), zero(np.uint8, 7)]
    mean = ((x.astype(np.float64) - 4) * 0.02).mean((0, 2), keepdims=bool(keep))
    expected = np.clip(np.rint(mean / 0.005) + 7, 0, 255)
    (y,) = values(microsoft("QLinearReduceMean", inputs, {"axes": [0, 2], "keepdims": keep}))
    assert y.shape == expected.shape and np.abs(y - expected).max() <= 1


@EITHER
def test_where(dtype):
    condition = np.random.default_rng(0).random((2, 3, 8)) < 0.5
    inputs = [condition, numbers(dtype, 3, 8), scale(0.02), zero(dtype, 5), numbers(dtype, 2, 1, 8), scale(0.03)]
    inputs += [zero(dtype, 1), scale(0.04), zero(dtype, 9)]
    node = microsoft("QLinearWhere", inputs, constant=[2, 3, 5, 6, 7, 8])
    check_like_runtime(node, element=TYPES[dtype], steps=1)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("each", [False, True])
def test_convolution(last, bias, each):
    x = numbers(np.uint8, 2, 6, 6, 3) if last else numbers(np.uint8, 2, 3, 6, 6)
    w_scale = np.linspace(0.001, 0.004, 4).astype(np.float32) if each else scale(0.002)
    w_zero = np.zeros(4, np.int8) if each else zero(np.int8, 0)
    inputs = [x, scale(0.02), zero(np.uint8, 9), numbers(np.int8, 4, 3, 3, 3), w_scale, w_zero]
    inputs += [scale(0.05), zero(np.uint8, 100)]
    if bias:
        inputs.append(np.array([100, -200, 300, 0], np.int32))
    attributes = {"channels_last": last, "pads": [1, 1, 1, 1], "strides": [2, 1], "kernel_shape": [3, 3]}
    node = microsoft("QLinearConv", inputs, attributes, constant=range(1, len(inputs)))
    check_like_runtime(node, element=UINT8, steps=1)


@pytest.mark.parametrize(
    ("dtype", "element"),
    [(np.uint8, UINT8), (np.int8, INT8), (np.uint16, TensorProto.UINT16), (np.int16, TensorProto.INT16)],
)
@pytest.mark.parametrize("axis", [None, 1])
def test_quantise_and_back(dtype, element, axis):
    x = floats(3, 4)
    s = scale(0.01) if axis is None else np.array([0.01, 0.02, 0.03, 0.04], np.float32)
    z = zero(dtype, 3) if axis is None else np.array([1, 2, 3, 4], dtype)
    attributes = {} if axis is None else {"axis": axis}
    check_like_runtime(microsoft("QuantizeLinear", [x, s, z], attributes), element=element)
    check_like_runtime(microsoft("DequantizeLinear", [numbers(dtype, 3, 4), s, z], attributes))


@pytest.mark.parametrize("b_type", [np.uint8, np.int8])
@pytest.mark.parametrize("turned", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("addend", [None, "row", "matrix"])
@pytest.mark.parametrize("result", ["float", "bytes"])
def test_gemm(b_type, turned, addend, result):
    a = numbers(np.uint8, *((6, 4) if turned[0] else (4, 6)))
    b = numbers(b_type, *((5, 6) if turned[1] else (6, 5)), seed=1)
    c = {
        None: None,
        "row": np.arange(5, dtype=np.int32) * 100,
        "matrix": np.arange(20, dtype=np.int32).reshape(4, 5) * 50,
    }
    inputs = [a, scale(0.02), zero(np.uint8, 11), b, scale(0.01), zero(b_type, 3), c[addend]]
    if result == "bytes":
        inputs += [scale(0.3), zero(np.uint8, 120)]
    attributes = {"transA": turned[0], "transB": turned[1], "alpha": 0.5}
    check_like_runtime(microsoft("QGemm", inputs, attributes), element=UINT8 if result == "bytes" else FLOAT, steps=1)


def test_gemm_with_a_scale_for_each_column():
    inputs = [numbers(np.uint8, 4, 6), scale(0.02), zero(np.uint8, 11), numbers(np.int8, 6, 5)]
    inputs += [np.linspace(0.01, 0.05, 5).astype(np.float32), np.zeros(5, np.int8)]
    check_like_runtime(microsoft("QGemm", inputs))


@pytest.mark.parametrize(("a_type", "b_type"), [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)])
@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_product_to_float(a_type, b_type, each, bias):
    inputs = [numbers(a_type, 2, 4, 6), numbers(b_type, 6, 5), scale(0.02)]
    inputs += [np.linspace(0.01, 0.05, 5).astype(np.float32) if each else scale(0.01), zero(a_type, 3)]
    inputs += [np.arange(5).astype(b_type) if each else zero(b_type, 2), floats(5) if bias else None]
    check_like_runtime(microsoft("MatMulIntegerToFloat", inputs), rtol=1e-4)


@pytest.mark.parametrize("b_type", [np.uint8, np.int8])
@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_product_of_floats_that_are_quantised(b_type, each, bias):
    inputs = [floats(4, 6), numbers(b_type, 6, 5)]
    inputs += [np.linspace(0.01, 0.05, 5).astype(np.float32) if each else scale(0.01)]
    inputs += [np.arange(5).astype(b_type) if each else zero(b_type, 2), floats(5) if bias else None]
    check_like_runtime(microsoft("DynamicQuantizeMatMul", inputs), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("unidirectional", [0, 1])
@pytest.mark.parametrize("mask", [None, [3, 5]])
@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("w_type", [np.uint8, np.int8])
def test_attention(unidirectional, mask, past, w_type):
    batch, length, heads, size = 2, 5, 2, 4
    inputs = [
        numbers(np.uint8, batch, length, 6),
        numbers(w_type, 6, 3 * heads * size),
        floats(3 * heads * size),
        scale(0.01),
        scale(0.01),
        None if mask is None else np.array(mask, np.int32) + (3 if past else 0),
        zero(np.uint8, 128),
        zero(w_type, 1),
    ]
    if past:
        inputs.append(floats(2, batch, heads, 3, size))
    node = microsoft(
        "QAttention", inputs, {"num_heads": heads, "unidirectional": unidirectional}, "yp", constant=[1, 3, 4, 6, 7]
    )
    check_like_runtime(node, rtol=1e-4, atol=1e-4)


def test_integers_of_16_bits():
    a, b = numbers(np.int16, 3, 4) // 16, numbers(np.int16, 4, 5) // 16
    check_like_runtime(microsoft("MatMulInteger16", [a, b]), element=INT32)


def test_integer_operators_of_other_providers():
    a, b = numbers(np.uint8, 3, 4), numbers(np.uint8, 3, 4, seed=1)
    (y,) = values(microsoft("MulInteger", [a, zero(np.uint8, 3), b, zero(np.uint8, 7)]))
    np.testing.assert_array_equal(y, (a.astype(np.int32) - 3) * (b.astype(np.int32) - 7))
    (y,) = values(microsoft("ReduceSumInteger", [a], {"axes": [1], "keepdims": 0}))
    np.testing.assert_array_equal(y, a.astype(np.uint32).sum(1))


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("w_type", [np.uint8, np.int8])
@pytest.mark.parametrize("each", [False, True])
def test_lstm(direction, w_type, each):
    """One sample: with more of them, ONNX Runtime's threads quantise the states of some samples by themselves."""
    steps, size, hidden, directions = 4, 6, 5, 1 + (direction == "bidirectional")
    shape = (directions, 4 * hidden) if each else (directions,)
    s = np.full(shape, 0.005, np.float32)
    z = np.full(shape, 128 if w_type == np.uint8 else 0, w_type)
    inputs = [
        floats(steps, 1, size),
        numbers(w_type, directions, size, 4 * hidden),
        numbers(w_type, directions, hidden, 4 * hidden, seed=1),
        floats(directions, 8 * hidden),
        None,
        floats(directions, 1, hidden),
        floats(directions, 1, hidden, seed=2),
        floats(directions, 3 * hidden),
        *(s, z, s, z),
    ]
    attributes = {"hidden_size": hidden, "direction": direction}
    node = microsoft("DynamicQuantizeLSTM", inputs, attributes, "yhc", constant=[1, 2, 8, 9, 10, 11])
    check_like_runtime(node, rtol=1e-3, atol=1e-3)


@EITHER
@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("mask", [False, True])
def test_embed_layer_norm(dtype, segments, mask):
    tables = [numbers(dtype, 5, 8), numbers(dtype, 6, 8), numbers(dtype, 2, 8) if segments else None]
    tables += [numbers(dtype, 8), numbers(dtype, 8, seed=1)]
    scales = [scale(v) if t is not None else None for v, t in zip((0.02, 0.03, 0.01, 0.01, 0.005), tables, strict=True)]
    zeros = [zero(dtype, v) if t is not None else None for v, t in zip((5, 9, 3, 1, 2), tables, strict=True)]
    inputs = [
        np.array([[1, 4, 2], [0, 3, 3]], np.int32),
        np.array([[0, 0, 1], [1, 0, 1]], np.int32) if segments else None,
        *tables,
        np.array([[1, 1, 0], [1, 0, 0]], np.int32) if mask else None,
        *scales,
        *zeros,
    ]
    node = microsoft("QEmbedLayerNormalization", inputs, {"epsilon": 1e-4}, "ym", constant=range(8, 18))
    check_like_runtime(node, element=[FLOAT, INT32])
