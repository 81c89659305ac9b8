"""popart-convert: names of values in converted models."""

import numpy as np
import onnxruntime
import pytest

import onnx
from onnx import TensorProto, helper
from tests.python.tools.test_onnx_tools import run, small


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("keep", [[], ["--keep-io"]])
def test_convert_gives_every_value_a_name_of_its_own(tmp_path, kind, keep):
    """Operators that take no 16-bit type follow one another, a branch reads an output, and names are taken."""
    value, node = helper.make_tensor_value_info, helper.make_node
    branches = [
        helper.make_graph([node(op, ["y"], [op])], op, [], [value(op, TensorProto.FLOAT, [2])]) for op in ("Neg", "Exp")
    ]
    nodes = [
        node("Relu", ["x"], ["h"]),  # of operator set 10, whose operators have no bfloat16
        node("Tanh", ["h"], ["h/float32"]),
        node("Add", ["h", "h/float32"], ["y"]),
        node("If", ["c"], ["z"], then_branch=branches[0], else_branch=branches[1]),
    ]
    inputs = [value("x", TensorProto.FLOAT, [2]), value("c", TensorProto.BOOL, [])]
    path = small(
        tmp_path / "m.onnx",
        nodes,
        inputs,
        [value("y", TensorProto.FLOAT, [2]), value("z", TensorProto.FLOAT, [2])],
        opset=10,
    )
    exact = kind == "float16"
    out, twice = tmp_path / "out.onnx", tmp_path / "twice.onnx"
    run("convert", path, out, f"--{kind}", *keep)
    onnx.checker.check_model(onnx.load(out), full_check=exact)  # Cast-10 has no bfloat16 yet
    if not keep:
        return
    run("convert", out, twice, f"--{kind}", *keep)
    x = np.array([0.5, -2], np.float32)
    feeds = {"x": x, "c": np.array(True)}
    y = np.maximum(x, 0) + np.tanh(np.maximum(x, 0))
    for file in (out, twice):
        onnx.checker.check_model(onnx.load(file), full_check=exact)
        if exact:
            results = onnxruntime.InferenceSession(str(file)).run(None, feeds)
            np.testing.assert_allclose(results, [y, -y], rtol=2e-3)
