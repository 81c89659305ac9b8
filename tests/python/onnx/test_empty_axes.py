"""Reductions over an empty list of axes reduce nothing in the opsets of PopART (to 11).

Later ones reduce all axes, as ONNX Runtime does, unless noop_with_empty_axes says otherwise.
"""

import itertools

import numpy as np
import onnxruntime
import popart
import pytest

from onnx import AttributeProto, TensorProto, helper, numpy_helper

REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")


def model(reduction, opset, keepdims, noop):
    """Reduce x over no axes: a list of the attribute, or an input from the opset on that has one."""
    as_input = opset >= 18 or (reduction == "Sum" and opset >= 13)
    node = helper.make_node(f"Reduce{reduction}", ["x", "axes"][: 2 if as_input else 1], ["y"], keepdims=keepdims)
    if noop:
        node.attribute.append(helper.make_attribute("noop_with_empty_axes", 1))
    if not as_input:
        node.attribute.append(helper.make_attribute("axes", [], attr_type=AttributeProto.INTS))
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array([], np.int64), "axes")] if as_input else [],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


X = np.random.default_rng(0).uniform(0.5, 2, (2, 3, 4)).astype(np.float32)


@pytest.mark.parametrize(("reduction", "opset"), list(itertools.product(REDUCTIONS, (12, 13, 18, 20))))
def test_empty_axes_are_all_axes(reduction, opset):
    for keepdims, noop in itertools.product((0, 1), (0, 1)):
        if noop and not (opset >= 18 or (reduction == "Sum" and opset >= 13)):
            continue  # the attribute came with the input
        proto = model(reduction, opset, keepdims, noop).SerializeToString()
        session = popart.InferenceSession(proto, popart.DataFlow(1, ["y"]), popart.DeviceManager().createCpuDevice())
        session.prepareDevice()
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO({"x": X}, anchors))
        if noop:
            assert anchors["y"].shape == X.shape
            continue
        (expected,) = onnxruntime.InferenceSession(proto, providers=["CPUExecutionProvider"]).run(None, {"x": X})
        assert anchors["y"].shape == expected.shape
        np.testing.assert_allclose(anchors["y"], expected, rtol=1e-5)


# What a reduction does with each element when it sums nothing, and its derivative (popart-ops.md, "Deviations").
ELEMENT_WISE = {
    "L1": (np.abs, np.sign),
    "L2": (np.abs, np.sign),
    "LogSum": (np.log, lambda x: 1 / x),
    "SumSquare": (np.square, lambda x: 2 * x),
}


def over_no_axes(name):
    return ELEMENT_WISE.get(name, (lambda x: x, np.ones_like))


@pytest.mark.parametrize(("reduction", "opset"), list(itertools.product(REDUCTIONS, (7, 11))))
def test_empty_axes_of_older_models_are_none(reduction, opset):
    for keepdims in (0, 1):
        proto = model(reduction, opset, keepdims, False).SerializeToString()
        session = popart.InferenceSession(proto, popart.DataFlow(1, ["y"]), popart.DeviceManager().createCpuDevice())
        session.prepareDevice()
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO({"x": X - 1}, anchors))
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(anchors["y"], over_no_axes(reduction)[0](X - 1), rtol=1e-5)


def gradient_and_value(build):
    builder = popart.Builder()
    w = builder.addInitializedInputTensor(X, "w")
    y = build(builder, w)
    assert builder.getTensorShape(y) == list(X.shape)
    loss = builder.aiGraphcore.identityloss([y], 0)
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, [y, "Gradient___w"]),
        loss,
        popart.ConstSGD(0.1),
        popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({}, anchors))
    return anchors[y], anchors["Gradient___w"]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("keepdims", [0, 1])
def test_builder_and_gradients_over_no_axes(reduction, keepdims):
    value, derivative = over_no_axes(reduction)
    y, dw = gradient_and_value(
        lambda b, w: getattr(b.aiOnnx, f"reduce{reduction.lower()}")([w], axes=[], keepdims=keepdims)
    )
    np.testing.assert_allclose(y, value(X), rtol=1e-5)
    np.testing.assert_allclose(dw, derivative(X), rtol=1e-5)


def test_the_median_over_no_axes():
    y, dw = gradient_and_value(lambda b, w: b.aiGraphcore.reducemedian([w], axes=[])[0])
    np.testing.assert_array_equal(y, X)
    np.testing.assert_array_equal(dw, np.ones_like(X))
