"""popart-convert --fold: constant expressions of a model."""

from __future__ import annotations

import numpy as np
import onnx.reference
from popart.tools import constants

from onnx import TensorProto, helper, numpy_helper
from tests.python.tools.test_onnx_tools import expected, facts, run, small


def test_convert_folds_constants(tmp_path):
    value, node = helper.make_tensor_value_info, helper.make_node
    nodes = [
        node("Constant", [], ["two"], value=numpy_helper.from_array(np.float32(2))),
        node("Transpose", ["w"], ["t"], perm=[1, 0]),
        node("Mul", ["t", "two"], ["scaled"]),
        node("MatMul", ["x", "scaled"], ["y"]),
        node("ConstantOfShape", ["large"], ["zeros"]),
        node("ReduceSum", ["zeros"], ["sum"], keepdims=0),
        node("Add", ["y", "sum"], ["z"]),
    ]
    weight = np.arange(6, dtype=np.float32).reshape(2, 3)
    weights = [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(np.array([1000, 1000]), "large")]
    path = small(
        tmp_path / "m.onnx", nodes,
        [value("x", TensorProto.FLOAT, ["n", 3])], [value("z", TensorProto.FLOAT, ["n", 2])], weights,
    )  # fmt: skip
    out = tmp_path / "folded.onnx"
    found = facts("convert", path, out, "--fold", "--max-folded-bytes", "10000")
    written = onnx.load(out).graph
    assert found["folded"] == 3
    assert [n.op_type for n in written.node] == ["MatMul", "ConstantOfShape", "ReduceSum", "Add"]
    folded = {t.name: numpy_helper.to_array(t) for t in written.initializer}
    assert folded.keys() == {"scaled", "large"}
    np.testing.assert_array_equal(folded["scaled"], weight.T * 2)
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(expected(out, x), expected(path, x))


def test_convert_names_constants_that_nobody_computes(tmp_path):
    """What cannot be computed stays, with all that reads it; the other constants are folded."""
    nodes = [
        helper.make_node("Reshape", ["w", "shape"], ["r"]),
        helper.make_node("Neg", ["r"], ["n"]),
        helper.make_node("Neg", ["w"], ["m"]),
        helper.make_node("Sum", ["x", "n", "m"], ["y"]),
    ]
    value = helper.make_tensor_value_info
    weights = [numpy_helper.from_array(np.ones(4, np.float32), "w"), numpy_helper.from_array(np.array([3]), "shape")]
    path = small(
        tmp_path / "m.onnx", nodes, [value("x", TensorProto.FLOAT, [4])], [value("y", TensorProto.FLOAT, None)], weights
    )
    done = run("convert", path, tmp_path / "out.onnx", "--fold")
    assert "--fold: Reshape 'r' stays: onnx: " in done.stderr and done.stderr.count("stays") == 1
    written = onnx.load(tmp_path / "out.onnx").graph
    assert [n.op_type for n in written.node] == ["Reshape", "Neg", "Sum"]
    folded = {t.name: numpy_helper.to_array(t) for t in written.initializer}
    assert folded.keys() == {"w", "shape", "m"}
    np.testing.assert_array_equal(folded["m"], -np.ones(4))


def test_convert_folds_what_only_we_compute(tmp_path, monkeypatch):
    """An operator that onnx's reference evaluator refuses is computed by our own evaluator."""

    class Refusing:
        def __init__(self, part):
            self.part = part

        def run(self, names, feeds):
            raise NotImplementedError("no such kernel")

    monkeypatch.setattr(onnx.reference, "ReferenceEvaluator", Refusing)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["a", "b"], ["c"]), helper.make_node("Add", ["x", "c"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 2])],
        [numpy_helper.from_array(np.arange(4, dtype=np.float32).reshape(2, 2), name) for name in "ab"],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert constants.folded(made, onnx, 1 << 20) == (1, [])
    (tensor,) = made.graph.initializer
    square = np.arange(4, dtype=np.float32).reshape(2, 2)
    np.testing.assert_array_equal(numpy_helper.to_array(tensor), square @ square)
