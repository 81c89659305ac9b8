"""Reductions over an explicitly empty list of axes reduce all of them, unless noop_with_empty_axes says otherwise."""

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


@pytest.mark.parametrize(("reduction", "opset"), list(itertools.product(REDUCTIONS, (7, 11, 12, 13, 18, 20))))
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


@pytest.mark.parametrize("reduction", [name.lower() for name in REDUCTIONS])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_gradients_over_empty_axes_are_those_over_all(reduction, keepdims):
    found = []
    for axes in ([], [0, 1, 2]):
        builder = popart.Builder()
        w = builder.addInitializedInputTensor(X, "w")
        y = getattr(builder.aiOnnx, f"reduce{reduction}")([w], axes=axes, keepdims=keepdims)
        assert builder.getTensorShape(y) == [1, 1, 1] * keepdims
        loss = builder.aiGraphcore.identityloss([y])
        session = popart.TrainingSession(
            builder.getModelProto(),
            popart.DataFlow(1, [loss, "Gradient___w"]),
            loss,
            popart.ConstSGD(0.1),
            popart.DeviceManager().createCpuDevice(),
        )
        session.prepareDevice()
        session.weightsFromHost()
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO({}, anchors))
        found.append(anchors["Gradient___w"])
    np.testing.assert_array_equal(*found)
