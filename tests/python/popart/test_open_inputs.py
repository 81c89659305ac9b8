"""Inputs of the Builder with named dimensions: the ONNX file leaves them open, and sessions take their sizes."""

import json
import subprocess
import sys

import numpy as np
import onnxruntime
import popart
import pytest

import onnx
from tests.docs.pages import tool

RNG = np.random.default_rng(7)
WEIGHT = RNG.normal(size=(12, 5)).astype(np.float32)


def dimensions(value):
    """Sizes and names as the file has them; None: neither."""
    shape = value.type.tensor_type.shape.dim
    return [getattr(d, d.WhichOneof("value")) if d.WhichOneof("value") else None for d in shape]


def a_model():
    """Products of rows of 3 times 4 numbers, with their sums; a second input of the same batch."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", ["batch", 3, 4], "x")
    scale = builder.addInputTensor("FLOAT", ["batch", 1], "scale")
    w = builder.addInitializedInputTensor(WEIGHT, "w")
    flat = builder.aiOnnx.flatten([x])
    y = builder.aiOnnx.mul([builder.aiOnnx.matmul([flat, w], "product"), scale], "y")
    total = builder.aiOnnx.reducesum([y], keepdims=False, debugContext="total")
    for name in (y, total):
        builder.addOutputTensor(name)
    return builder, y, total


def expected(x, scale):
    return x.reshape(len(x), 12) @ WEIGHT * scale


def arrays(batch):
    return RNG.normal(size=(batch, 3, 4)).astype(np.float32), RNG.normal(size=(batch, 1)).astype(np.float32)


def test_the_file_has_the_names_and_is_one_for_others():
    builder, y, total = a_model()
    model = onnx.load_from_string(builder.getModelProto())
    onnx.checker.check_model(model, full_check=True)
    assert [dimensions(value) for value in model.graph.input][:2] == [["batch", 3, 4], ["batch", 1]]
    assert [(v.name, dimensions(v)) for v in model.graph.output] == [(y, ["batch", 5]), (total, [])]
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for batch in (1, 7):
        x, scale = arrays(batch)
        got = session.run(None, {"x": x, "scale": scale})
        np.testing.assert_allclose(got[0], expected(x, scale), rtol=1e-4, atol=1e-5)


def test_a_model_takes_any_batch():
    builder, y, total = a_model()
    model = popart.load(builder.getModelProto())
    for batch in (1, 7):
        x, scale = arrays(batch)
        got = model({"x": x, "scale": scale})
        np.testing.assert_allclose(got[y], expected(x, scale), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(got[total], expected(x, scale).sum(), rtol=1e-3, atol=1e-3)


def test_a_session_asks_for_the_size_and_takes_it():
    builder, y, _ = a_model()
    device = popart.DeviceManager().createCpuDevice()
    flow = popart.DataFlow(1, {y: popart.AnchorReturnType("All")})
    wrong = r"'x': dimension 0 is not fixed: got symbol 'batch'.*InputShapeInfo"
    with pytest.raises(popart.popart_exception, match=wrong):
        popart.InferenceSession(builder.getModelProto(), flow, device)
    shapes = popart.InputShapeInfo()
    shapes.add("x", popart.TensorInfo("FLOAT", [6, 3, 4]))  # which says how many rows "scale" has
    session = popart.InferenceSession(builder.getModelProto(), flow, device, shapes)
    session.prepareDevice()
    x, scale = arrays(6)
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": x, "scale": scale}, anchors))
    np.testing.assert_allclose(anchors[y], expected(x, scale), rtol=1e-4, atol=1e-5)


def test_commands_take_the_size_by_its_name(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(a_model()[0].getModelProto())
    command = [sys.executable, "-m", "popart", "inspect", path, "--dim", "batch=9", "--json", "--file-only"]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert found["shapes"] == {"x": [9, 3, 4], "scale": [9, 1]}
    text = subprocess.run([tool("popart-opt"), path, "--dim", "batch=9"], capture_output=True, text=True, check=True)
    assert "float32[9, 3, 4]" in text.stdout and "float32[9, 5]" in text.stdout


def test_a_training_model_has_an_open_batch():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", ["batch", 12], "x")
    w = builder.addInitializedInputTensor(WEIGHT, "w")
    builder.addOutputTensor(builder.aiOnnx.matmul([x, w], "logits"))
    trainer = popart.Trainer(builder.getModelProto(), loss="cross_entropy", optimizer=popart.optim.SGD(lr=0.1))
    for batch in (4, 9):
        data = RNG.normal(size=(batch, 12)).astype(np.float32)
        labels = RNG.integers(0, 5, batch)
        logits = (data @ trainer.weights["w"] if batch > 4 else data @ WEIGHT).astype(np.float64)
        shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        assert trainer.step((data, labels)) == pytest.approx(-np.log(shares[np.arange(batch), labels]).mean(), rel=1e-4)


def test_dimensions_that_are_computed_have_no_name():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT16", ["batch", "length", 8], "x")
    joined = builder.aiOnnx.concat([x, x], 0, "joined")
    flat = builder.aiOnnx.flatten([x], 2, "flat")
    turned = builder.aiOnnx.transpose([x], [1, 2, 0], "turned")
    for name in (joined, flat, turned):
        builder.addOutputTensor(name)
    model = onnx.load_from_string(builder.getModelProto())
    onnx.checker.check_model(model, full_check=True)
    shapes = {value.name: dimensions(value) for value in model.graph.output}
    assert shapes == {joined: [None, "length", 8], flat: [None, 8], turned: ["length", 8, "batch"]}
    assert {value.type.tensor_type.elem_type for value in model.graph.output} == {onnx.TensorProto.FLOAT16}


def test_there_is_no_shape_before_the_session():
    builder, y, _ = a_model()
    for name in ("x", y):
        with pytest.raises(popart.popart_exception, match="'x' has open dimensions: the shape is given when"):
            builder.getTensorShape(name)


@pytest.mark.parametrize("shape", [["", 3], [-1, 3], ["batch", -1]])
def test_a_dimension_is_a_size_or_has_a_name(shape):
    with pytest.raises(popart.popart_exception, match=r"addInputTensor: got shape .*expected sizes of 0 or more"):
        popart.Builder().addInputTensor("FLOAT", shape)


def test_sizes_are_integers():
    with pytest.raises(TypeError, match="sizes that are not integers"):
        popart.Builder().addInputTensor("FLOAT", ["batch", 2.5])


def test_inputs_of_subgraphs_have_no_open_dimensions():
    with pytest.raises(popart.popart_exception, match="an input of a subgraph has no open dimensions"):
        popart.Builder().createSubgraphBuilder().addInputTensor("FLOAT", ["batch"])
