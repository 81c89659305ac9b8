"""Quantised convolutions and products as exporters write them, against ONNX Runtime and exact sums."""

import itertools

import numpy as np
import onnxruntime
import popart
import popart.backend
import pytest

from onnx import ModelProto, TensorProto, helper, numpy_helper
from tests.python.onnx.single_node import Node, runtime_int8_range, runtime_values, values
from tests.python.popart.training_runs import ready

RNG = np.random.default_rng(21)
RANGES = {np.uint8: (0, 255), np.int8: (-128, 127)}
WEIGHT_RANGES = RANGES | {np.int8: runtime_int8_range()}
TENSORS = {np.uint8: TensorProto.UINT8, np.int8: TensorProto.INT8}


def integers(dtype, *shape, ranges=RANGES):
    low, high = ranges[dtype]
    array = RNG.integers(low, high + 1, shape).astype(dtype)
    array.flat[: min(2, array.size)] = (low, high)[: array.size]
    return array


def weights(dtype, *shape):
    return integers(dtype, *shape, ranges=WEIGHT_RANGES)


def scales(count, size=0.01):
    return (RNG.uniform(0.5, 1.5, count) * size).astype(np.float32)


CONVOLUTIONS = [
    ((2, 5, 9, 11), (7, 5, 3, 3), {"pads": [1, 2, 0, 1]}),
    ((1, 64, 14, 14), (64, 64, 3, 3), {"pads": [1, 1, 1, 1]}),
    ((2, 24, 7, 7), (50, 24, 1, 1), {}),
    ((1, 24, 9, 8), (50, 24, 1, 1), {"strides": [2, 2]}),
    ((1, 3, 19, 17), (16, 3, 7, 7), {"strides": [2, 2], "pads": [3, 3, 3, 3]}),
    ((2, 33, 8, 9), (33, 1, 3, 3), {"group": 33, "pads": [1, 1, 1, 1]}),
    ((1, 16, 10, 9), (16, 1, 5, 5), {"group": 16, "strides": [2, 1], "dilations": [1, 2]}),
    ((2, 12, 6, 6), (20, 3, 3, 3), {"group": 4, "pads": [1, 1, 1, 1]}),
    ((1, 96, 5, 5), (64, 48, 3, 3), {"group": 2, "dilations": [2, 2], "pads": [2, 2, 2, 2]}),
    ((2, 6, 31), (8, 6, 4), {"pads": [2, 1]}),
]


@pytest.mark.parametrize("each", [False, True], ids=["one", "each"])
@pytest.mark.parametrize(("x_type", "w_type"), list(itertools.product(RANGES, RANGES)))
@pytest.mark.parametrize(("x_shape", "w_shape", "settings"), CONVOLUTIONS, ids=str)
def test_quantised_convolutions_are_those_of_onnx_runtime(x_shape, w_shape, settings, x_type, w_type, each):
    """To the bit; zero points are ends of the types."""
    x, w = integers(x_type, *x_shape), weights(w_type, *w_shape)
    count = w_shape[0] if each else ()
    w_zero = np.zeros(count, w_type) if w_type == np.int8 else np.full(count, 255, w_type)
    inputs = [
        x, np.float32(0.02), x_type(RANGES[x_type][1]), w, scales(count), w_zero, np.float32(0.9 * w[0].size ** 0.5),
        x_type(RANGES[x_type][0] + 3), RNG.integers(-9999, 9999, w_shape[0]).astype(np.int32),
    ]  # fmt: skip
    node = Node("QLinearConv", inputs, settings, opset=10, constant=range(1, 9))
    (got,) = values(node)
    assert got.dtype == x_type
    if (x_type, w_type) == (np.int8, np.uint8):  # which ONNX Runtime does not have
        moved = [x.astype(np.int16) + 128, *inputs[1:]]
        moved[0], moved[2], moved[7] = moved[0].astype(np.uint8), np.uint8(255), np.uint8(3)
        shifted = Node("QLinearConv", moved, settings, opset=10, constant=range(1, 9))
        expected = runtime_values(shifted, TensorProto.UINT8)[0].astype(np.int16) - 128
    else:
        (expected,) = runtime_values(node, TENSORS[x_type])
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("each", [False, True], ids=["one", "each"])
@pytest.mark.parametrize(("a_type", "b_type"), [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)])
@pytest.mark.parametrize("shapes", [((5, 7), (7, 9)), ((2, 13, 1030), (1030, 70)), ((2, 3, 8), (2, 8, 33))], ids=str)
def test_quantised_products_are_those_of_onnx_runtime(shapes, a_type, b_type, each):
    a, b = integers(a_type, *shapes[0]), weights(b_type, *shapes[1])
    count = shapes[1][-1] if each and len(shapes[1]) == 2 else ()
    inputs = [
        a, np.float32(0.02), a_type(RANGES[a_type][1]), b, scales(count), np.full(count, 5, b_type),
        np.float32(0.9 * shapes[1][-2] ** 0.5), a_type(RANGES[a_type][0]),
    ]  # fmt: skip
    node = Node("QLinearMatMul", inputs, opset=10, constant=range(1, 8))
    np.testing.assert_array_equal(values(node)[0], runtime_values(node, TENSORS[a_type])[0])


def test_scales_of_rows():
    """QLinearMatMul with a scale and a zero point for each row of a."""
    a, b = integers(np.uint8, 4, 6), integers(np.uint8, 6, 5)
    a_scale, a_zero = scales(4), integers(np.uint8, 4)
    inputs = [a, a_scale, a_zero, b, np.float32(0.5), np.uint8(7), np.float32(0.25), np.uint8(100)]
    (got,) = values(Node("QLinearMatMul", inputs, opset=10, constant=range(1, 8)))
    sums = (a.astype(int) - a_zero[:, None]) @ (b.astype(int) - 7)
    ratio = (a_scale * np.float32(0.5) / np.float32(0.25))[:, None]
    np.testing.assert_array_equal(got, np.clip(np.rint(sums.astype(np.float32) * ratio) + 100, 0, 255).astype(np.uint8))


class Writer:
    """A model with QuantizeLinear and DequantizeLinear around what computes, as exporters write it."""

    def __init__(self) -> None:
        self.nodes, self.constants, self.count = [], [], 0

    def constant(self, value):
        self.constants.append(numpy_helper.from_array(np.asarray(value), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def node(self, kind, inputs, **attributes):
        self.count += 1
        self.nodes.append(helper.make_node(kind, inputs, [f"t{self.count}"], **attributes))
        return f"t{self.count}"

    def dequantised(self, name, scale, zero, **attributes):
        return self.node("DequantizeLinear", [name, self.constant(scale), self.constant(zero)], **attributes)

    def around(self, name, scale, zero):
        quantised = self.node("QuantizeLinear", [name, self.constant(scale), self.constant(zero)])
        return self.dequantised(quantised, scale, zero)

    def model(self, x, y) -> ModelProto:
        x_info, y_info = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", x), (y, None)))
        graph = helper.make_graph(self.nodes, "g", [x_info], [y_info], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def integer_products(model: ModelProto) -> int:
    """How many products of integers the program of a model has."""
    y = model.graph.output[0].name
    session = ready(
        popart.InferenceSession(
            model.SerializeToString(), popart.DataFlow(1, {y: popart.AnchorReturnType("All")}),
            popart.DeviceManager().createCpuDevice(),
        )
    )  # fmt: skip
    text = session._serializeIr(popart.IrSerializationFormat.JSON)
    return text.count('"IntegerConv"') + text.count('"IntegerMatMul"')


def same_within_a_step(model: ModelProto, x, step, share=0.01, steps=1):
    """Results are those of ONNX Runtime in FLOAT, but for roundings at halves, which a second product may add up."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    (got,) = popart.backend.run_model(model, [x])
    (expected,) = session.run(None, {"x": x})
    assert np.abs(got - expected).max() <= steps * step * 1.001
    assert np.mean(np.abs(got - expected) > step / 2) <= share
    assert np.unique(expected).size > 20


@pytest.mark.parametrize("bias", ["none", "float", "integer"])
@pytest.mark.parametrize(("x_type", "w_type"), [(np.uint8, np.int8), (np.int8, np.int8), (np.uint8, np.uint8)])
@pytest.mark.parametrize("between", ["", "Relu"])
def test_convolutions_between_dequantised_and_quantised(x_type, w_type, bias, between):
    """One product of integers each, two in a row."""
    to, low = Writer(), RANGES[x_type][0]
    scale, step = np.float32(0.05), np.float32(0.4)
    y = to.around("x", scale, x_type(low + 100))
    for channels, last in (((20, 6, 3, 3), step), ((9, 20, 1, 1), np.float32(0.3))):
        w_scale = scales(channels[0])
        w_zero = np.zeros(channels[0], w_type) if w_type == np.int8 else np.full(channels[0], 130, w_type)
        inputs = [y, to.dequantised(to.constant(weights(w_type, *channels)), w_scale, w_zero, axis=0)]
        if bias == "float":
            inputs.append(to.constant(RNG.standard_normal(channels[0]).astype(np.float32)))
        if bias == "integer":
            whole = to.constant(RNG.integers(-999, 999, channels[0]).astype(np.int32))
            inputs.append(to.dequantised(whole, scale * w_scale, np.zeros(channels[0], np.int32), axis=0))
        y = to.node("Conv", inputs, pads=[1, 1, 1, 1])
        y = to.around(to.node(between, [y]) if between else y, last, x_type(low if between else low + 90))
        scale = last
    model = to.model((2, 6, 8, 9), y)
    assert integer_products(model) == 2
    same_within_a_step(model, (RNG.standard_normal((2, 6, 8, 9)) * 4).astype(np.float32), 0.3, 0.02, steps=2)


@pytest.mark.parametrize("kind", ["MatMul", "Gemm"])
def test_matrix_products_between_dequantised_and_quantised(kind):
    to = Writer()
    y = to.around("x", np.float32(0.05), np.int8(3))
    shape, axis = ((30, 17), 1) if kind == "MatMul" else ((17, 30), 0)
    w = to.dequantised(to.constant(weights(np.int8, *shape)), scales(17), np.zeros(17, np.int8), axis=axis)
    if kind == "MatMul":
        y = to.node("Add", [to.node("MatMul", [y, w]), to.constant(scales(17, 1))])
    else:
        y = to.node("Gemm", [y, w, to.constant(scales(17, 1))], transB=1)
    model = to.model((11, 30), to.around(y, np.float32(0.2), np.int8(-4)))
    assert integer_products(model) == 1
    same_within_a_step(model, (RNG.standard_normal((11, 30)) * 3).astype(np.float32), 0.2)


@pytest.mark.parametrize("kind", ["bound", "bias", "half"])
def test_what_integers_do_not_give_stays_in_float(kind):
    """A Relu above the least number, a bias of the run, an operand that is not dequantised."""
    to = Writer()
    x = to.around("x", np.float32(0.05), np.uint8(120))
    w = to.dequantised(to.constant(weights(np.int8, 6, 6, 1, 1)), np.float32(0.01), np.int8(0))
    bias = [to.node("ReduceMean", ["x"], axes=[0, 2, 3], keepdims=0)] if kind == "bias" else []
    y = to.node("Conv", ["x" if kind == "half" else x, w, *bias])
    y = to.around(to.node("Relu", [y]) if kind == "bound" else y, np.float32(0.05), np.uint8(50))
    model = to.model((1, 6, 5, 5), y)
    assert integer_products(model) == 0
    same_within_a_step(model, (RNG.standard_normal((1, 6, 5, 5)) * 3).astype(np.float32), 0.05)
