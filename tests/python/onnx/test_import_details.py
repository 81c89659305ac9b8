"""Single nodes whose attributes say something unusual, against ONNX's reference implementation or its text."""

import numpy as np
import popart
import pytest

from onnx import GraphProto, TensorProto, helper, numpy_helper
from tests.inference import infer

NUMBERS = np.array([[-1.5, 2.0, -0.25], [3.0, -4.5, 0.5]], np.float32)


def run(node, inputs, opset, constants=()):
    """Results of a model of one node."""
    values = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    outputs = [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in node.output]
    graph = helper.make_graph([node], "one", values, outputs, [numpy_helper.from_array(a, n) for n, a in constants])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return infer(model.SerializeToString(), inputs, list(node.output))


OVER_NOTHING = {
    "ReduceSum": lambda x: x,
    "ReduceMax": lambda x: x,
    "ReduceL1": np.abs,
    "ReduceL2": np.abs,
    "ReduceSumSquare": np.square,
    "ReduceLogSum": np.log,
    "ReduceLogSumExp": lambda x: x,
}


@pytest.mark.parametrize("axes", ["absent", "empty"])
@pytest.mark.parametrize("type", OVER_NOTHING)
def test_reductions_over_no_axes_still_do_their_other_steps(type, axes):
    """noop_with_empty_axes = 1: "composite-reduction operators will still perform the non-reduction steps"."""
    node = helper.make_node(type, ["x", "axes"][: 1 if axes == "absent" else 2], ["y"], noop_with_empty_axes=1)
    x = np.abs(NUMBERS) if type == "ReduceLogSum" else NUMBERS
    (y,) = run(node, {"x": x}, 18, [] if axes == "absent" else [("axes", np.zeros(0, np.int64))])
    np.testing.assert_allclose(y, OVER_NOTHING[type](x), rtol=1e-6)


def body_of(inputs: list[str], outputs: list[str]) -> GraphProto:
    """A body that gives a constant for each of `outputs`."""
    make = helper.make_tensor_value_info
    nodes = [helper.make_node("Constant", [], [name], value_float=1.0) for name in outputs]
    infos = [make(name, TensorProto.FLOAT, []) for name in outputs]
    return helper.make_graph(nodes, "body", [make(name, TensorProto.FLOAT, None) for name in inputs], infos)


@pytest.mark.parametrize("operator", ["Loop", "SequenceMap", "NonZero", "Unique", "NonMaxSuppression"])
def test_nodes_of_damaged_models_without_outputs_are_refused(operator):
    """Their rules name tensors after the first output."""
    make = helper.make_tensor_value_info
    graphs = {
        "Loop": {"body": body_of(["i", "go", "a"], ["g", "b"])},
        "SequenceMap": {"body": body_of(["a"], ["b"])},
    }
    inputs = {"Loop": ["", "", "list"], "SequenceMap": ["list"], "NonMaxSuppression": ["x", "x"]}
    nodes = [
        helper.make_node("SequenceConstruct", ["x"], ["list"]),
        helper.make_node(operator, inputs.get(operator, ["x"]), [], **graphs.get(operator, {})),
        helper.make_node("Identity", ["x"], ["y"]),
    ]
    shaped = [make("x", TensorProto.FLOAT, [1, 4, 4])]
    graph = helper.make_graph(nodes, "damaged", shaped, [make("y", TensorProto.FLOAT, [1, 4, 4])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    flow, device = popart.DataFlow(1, ["y"]), popart.DeviceManager().createCpuDevice()
    with pytest.raises(popart.popart_exception, match="output"):
        popart.InferenceSession(fnModel=model.SerializeToString(), dataFlow=flow, deviceInfo=device)
