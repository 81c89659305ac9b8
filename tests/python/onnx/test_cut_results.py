"""Results whose size depends on data come back cut to their size, whatever operator decides it: as in ONNX Runtime."""

import numpy as np
import popart
import popart.backend
import pytest

import onnx
from onnx import TensorProto, helper, numpy_helper

runtime = pytest.importorskip("onnxruntime")

X = np.array([[3, 0, 1, 2]], np.float32)
CONSTANTS = {"one": np.array([1], np.int64), "zero": np.array([0], np.int64), "four": np.array([4], np.int64)}
COUNT = [  # the largest number of x, as a number and as a list of one
    helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
    helper.make_node("Cast", ["m"], ["number"], to=TensorProto.INT64),
    helper.make_node("Reshape", ["number", "one"], ["count"]),
]


def branch(name, *nodes):
    return helper.make_graph(list(nodes), name, [], [onnx.ValueInfoProto(name=name)])


IF = helper.make_node(
    "If",
    ["is_large"],
    ["y"],
    then_branch=branch("t", helper.make_node("Slice", ["x", "zero", "one", "one"], ["t"])),
    else_branch=branch("e", helper.make_node("Identity", ["x"], ["e"])),
)
NODES = {
    "non_zero": [helper.make_node("NonZero", ["x"], ["y"])],
    "non_zero_transposed": [helper.make_node("NonZero", ["x"], ["a"]), helper.make_node("Transpose", ["a"], ["y"])],
    "unique": [helper.make_node("Unique", ["x"], ["y"])],
    "compress": [
        helper.make_node("Cast", ["x"], ["b"], to=TensorProto.BOOL),
        helper.make_node("Reshape", ["b", "four"], ["c"]),
        helper.make_node("Compress", ["x", "c"], ["y"], axis=1),
    ],
    "slice_to": [*COUNT, helper.make_node("Slice", ["x", "zero", "count", "one"], ["y"])],
    "slice_from": [*COUNT, helper.make_node("Slice", ["x", "count", "four", "one"], ["y"])],
    "top_k": [*COUNT, helper.make_node("TopK", ["x", "count"], ["y", "i"])],
    "if": [
        *COUNT,
        helper.make_node("Constant", [], ["three"], value_int=3),
        helper.make_node("GreaterOrEqual", ["number", "three"], ["is_large"]),
        IF,
    ],
}


@pytest.mark.parametrize("declared", [True, False], ids=["as_tensor", "without_type"])
@pytest.mark.parametrize("name", NODES)
def test_results_are_cut(name, declared):
    output = onnx.ValueInfoProto(name="y")
    if declared:
        output.type.tensor_type.elem_type = TensorProto.INT64 if "non_zero" in name else TensorProto.FLOAT
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])
    weights = [numpy_helper.from_array(value, key) for key, value in CONSTANTS.items()]
    graph = helper.make_graph(NODES[name], "g", [x], [output], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    output.type.tensor_type.elem_type = TensorProto.INT64 if "non_zero" in name else TensorProto.FLOAT
    with_type = onnx.ModelProto()
    with_type.CopyFrom(model)
    with_type.graph.output[0].CopyFrom(output)
    oracle = runtime.InferenceSession(with_type.SerializeToString(), providers=["CPUExecutionProvider"])
    ours = popart.backend.prepare(model)
    for x in (X, X[:, ::-1].copy(), np.array([[0, 1, 0, 0]], np.float32), X):
        (expected,) = oracle.run(None, {"x": x})
        (result,) = ours.run([x])
        assert result.shape == expected.shape
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("name", sorted(NODES.keys() - {"top_k"}))  # k from the run is for the backend alone
def test_inner_tensors_are_cut(name, tmp_path):
    """A tensor inside of the model that a run returns comes cut as outputs do."""
    from popart.tools import run

    kind = TensorProto.INT64 if "non_zero" in name else TensorProto.FLOAT
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])
    weights = [numpy_helper.from_array(value, key) for key, value in CONSTANTS.items()]
    nodes = [*NODES[name], helper.make_node("ReduceSum", ["y"], ["z"], keepdims=0)]
    outputs = [helper.make_tensor_value_info("z", kind, [])]
    opsets = [helper.make_opsetid("", 18)]

    def made(outputs):
        return helper.make_model(
            helper.make_graph(nodes, "g", [x], outputs, weights), opset_imports=opsets, ir_version=8
        )

    path, arrays = tmp_path / "m.onnx", tmp_path / "found.npz"
    onnx.save(made(outputs), path)
    np.save(tmp_path / "x.npy", X)
    words = [str(path), "--input", f"x={tmp_path / 'x.npy'}", "--anchor", "y", "--output", str(arrays)]
    assert run.command(words) == 0
    everything = made([*outputs, helper.make_tensor_value_info("y", kind, None)])
    total, inner = runtime.InferenceSession(everything.SerializeToString()).run(None, {"x": X})
    found = np.load(arrays)
    assert sorted(found.files) == ["y", "z"]
    np.testing.assert_array_equal(found["y"], inner)
    np.testing.assert_array_equal(found["z"], total)


def test_sessions_give_lengths_of_inner_tensors():
    """As for outputs: zeros behind the values, and NAME/length."""
    nodes = [*NODES["compress"], helper.make_node("Exp", ["y"], ["e"]), helper.make_node("ReduceSum", ["e"], ["z"])]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])
    weights = [numpy_helper.from_array(value, key) for key, value in CONSTANTS.items()]
    graph = helper.make_graph(nodes, "g", [x], [onnx.ValueInfoProto(name="z")], weights)
    opsets = [helper.make_opsetid("", 18)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    wanted = ["y", "y/length", "e", "e/length", "z"]
    session = popart.InferenceSession(model, popart.DataFlow(1, wanted), popart.DeviceManager().createCpuDevice())
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": X}, anchors))
    np.testing.assert_array_equal(anchors["y"], [[3, 1, 2, 0]])
    np.testing.assert_allclose(anchors["e"], [[*np.exp([3, 1, 2]), 0]], rtol=1e-6)
    assert anchors["y/length"] == anchors["e/length"] == 3
    np.testing.assert_allclose(anchors["z"].reshape(()), np.exp([3, 1, 2]).sum(), rtol=1e-6)
