"""What models declare about their outputs: what the nodes give, or less, is accepted."""

import numpy as np
import popart
import pytest

from onnx import TensorProto, helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def run(nodes, output):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", FLOAT, [2, 3])], [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    session = popart.InferenceSession(
        model.SerializeToString(), popart.DataFlow(1, ["y"]), popart.DeviceManager().createCpuDevice()
    )
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": np.array([[1, 5, 2], [9, 0, 3]], np.float32)}, anchors))
    return anchors["y"]


def untyped():
    output = helper.make_empty_tensor_value_info("y")
    output.ClearField("type")
    return output


@pytest.mark.parametrize(
    "output",
    [
        helper.make_tensor_value_info("y", FLOAT, [2, 3]),
        helper.make_tensor_value_info("y", FLOAT, ["batch", 3]),
        helper.make_tensor_value_info("y", FLOAT, [None, None]),
        helper.make_tensor_value_info("y", FLOAT, None),
        helper.make_tensor_value_info("y", TensorProto.UNDEFINED, [2, 3]),
        untyped(),
    ],
)
def test_outputs_declared_as_they_are_or_left_open(output):
    assert run([helper.make_node("Relu", ["x"], ["y"])], output).shape == (2, 3)


def test_positions_are_int32_where_onnx_declares_int64():
    node = helper.make_node("ArgMax", ["x"], ["y"], axis=1, keepdims=0)
    np.testing.assert_array_equal(run([node], helper.make_tensor_value_info("y", INT64, [2])), [1, 0])


def test_attributes_added_after_the_output_was_marked():
    """The builder infers shapes when a node is added; an attribute that comes later may change them."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 3], "x")
    y = builder.aiOnnx.transpose([x])
    builder.addOutputTensor(y)
    builder.addNodeAttribute("perm", [0, 1], {y})
    session = popart.InferenceSession(
        builder.getModelProto(), popart.DataFlow(1, [y]), popart.DeviceManager().createCpuDevice()
    )
    assert session.getInfo(y).shape() == [2, 3]
