"""Weights in safetensors files go from and to sessions and models by name, with the same bits."""

import numpy as np
import popart
import popart.weights
import popxl
import pytest
from popxl import ops

import onnx

safetensors = pytest.importorskip("safetensors.numpy")


def training(seed):
    """A session with two weights and their velocities."""
    rng = np.random.default_rng(seed)
    builder = popart.Builder()
    h = builder.addInputTensor("FLOAT", [2, 3], "x")
    for i in range(2):
        weight = builder.addInitializedInputTensor(rng.normal(size=(3, 3)).astype(np.float32), f"w{i}")
        h = builder.aiOnnx.tanh([builder.aiOnnx.matmul([h, weight])])
    loss = builder.aiGraphcore.l1loss([h], 0.1)
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(3, [loss]),
        loss,
        popart.SGD({"defaultLearningRate": (0.1, False), "defaultMomentum": (0.9, True)}),
        popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    session.weightsFromHost()
    return session, builder.getModelProto()


def step(session):
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": np.random.default_rng(9).normal(size=(3, 2, 3)).astype(np.float32)}, anchors))
    return next(iter(anchors.values()))


def test_training_goes_on_with_the_same_bits(tmp_path):
    first, _ = training(0)
    step(first)
    names = popart.weights.save(first, tmp_path / "w.safetensors", {"step": "1"})
    assert {"w0", "w1"} < set(names) and any(name.startswith("Accl___") for name in names)
    assert set(safetensors.load_file(tmp_path / "w.safetensors")) == set(names)
    second, _ = training(1)
    assert popart.weights.load(second, tmp_path / "w.safetensors") == names
    np.testing.assert_array_equal(step(first), step(second))


def test_a_model_gets_the_weights_of_a_session(tmp_path):
    session, model = training(0)
    step(session)
    popart.weights.save(session, tmp_path / "w.safetensors")
    filled = onnx.load_from_string(popart.weights.load(model, tmp_path / "w.safetensors", strict=False))
    values = popart.weights.values_of(session)
    for tensor in filled.graph.initializer:
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(tensor), values[tensor.name])
    names = popart.weights.save(filled.SerializeToString(), tmp_path / "m.safetensors")
    assert names == ["w0", "w1"]


def popxl_session(value):
    ir = popxl.Ir()
    with ir.main_graph:
        w = popxl.variable(np.full((2, 2), value, np.float32), name="w")
        h = popxl.variable(np.full((3,), value, np.float16), name="h")
        ops.var_updates.accumulate_(w, popxl.constant(np.ones((2, 2), np.float32)))
        ops.var_updates.accumulate_(h, popxl.constant(np.ones(3, np.float16)))
    return popxl.Session(ir, "cpu"), w, h


def test_popxl_variables(tmp_path):
    session, *_ = popxl_session(1)
    with session:
        session.run()
        assert popart.weights.save(session, tmp_path / "v.safetensors") == ["h", "w"]
    other, w, h = popxl_session(5)
    with other:
        popart.weights.load(other, tmp_path / "v.safetensors")
        other.run()
        np.testing.assert_array_equal(other.get_tensor_data(w), np.full((2, 2), 3))
        np.testing.assert_array_equal(other.get_tensor_data(h), np.full(3, 3))


def test_refusals_name_tensors_and_shapes(tmp_path):
    session, _ = training(0)
    values = popart.weights.values_of(session)

    def refused(change, text):
        safetensors.save_file(change, tmp_path / "bad.safetensors")
        with pytest.raises(popart.popart_runtime_error, match=text):
            popart.weights.load(session, tmp_path / "bad.safetensors")

    refused({**values, "w0": np.ones((3, 4), np.float32)}, r"'w0': got shape \[3, 4\], expected \[3, 3\]")
    refused({**values, "w00": values["w0"]}, r"'w00' of the file is not a weight\. Nearest names: w0")
    refused({name: value for name, value in values.items() if name != "w1"}, r"the file has no \['w1'\]")
    refused({**values, "w0": values["w0"].astype(np.float16)}, "float16")


def test_a_missing_package_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "safetensors.numpy", None)
    with pytest.raises(ImportError, match="pip install safetensors"):
        popart.weights.load(b"", tmp_path / "x")
