"""The program of a session as an ONNX model to look at: its nodes are the steps of the report."""

from __future__ import annotations

import numpy as np
import popart
import popxl
import pytest
from popart.profile.facts import walk
from popxl import ops

import onnx
from onnx import numpy_helper
from tests.python.popart.test_profile import WIDTH, made, step_of
from tests.python.tools.test_popart_opt import attributes_of, check_names


def saved(session, path, **given) -> onnx.ModelProto:
    save = getattr(session, "saveLoweredModel", None) or session.save_lowered_model
    save(path, **given)
    model = onnx.load(path)
    check_names(model.graph, set())
    return model


@pytest.mark.parametrize("training", [False, True])
def test_its_nodes_are_the_steps_of_the_report(training, tmp_path):
    session = made(training=training)
    session.run(step_of(session))
    model = saved(session, tmp_path / "lowered.onnx")
    steps = {step["name"]: step for step in walk(session.getReport()._facts["programs"])}
    nodes = {node.name: attributes_of(node) for node in model.graph.node}
    assert set(steps) == {name for name, facts in nodes.items() if "step.kernel" in facts}
    for name, step in steps.items():
        facts = nodes[name]
        assert facts["step.kernel"] == step["kernel"]
        assert facts.get("step.layer", "") == step["layer"]
        assert [text.decode() for text in facts.get("step.fused", [])] == step.get("fused", [])
    assert any(facts.get("step.layer") == "net/block1/product" for facts in nodes.values())
    assert [name for name in nodes if name in steps] == list(steps)


def test_values_are_in_it_where_they_are_asked_for(tmp_path):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [4, WIDTH], "x")
    table = np.arange(4.0 * WIDTH, dtype=np.float32).reshape(4, WIDTH)
    y = builder.aiOnnx.add([x, builder.aiOnnx.constant(table)])
    device = popart.DeviceManager().createCpuDevice()
    session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), device)
    session.prepareDevice()
    (without,) = saved(session, tmp_path / "lowered.onnx").graph.initializer
    assert not without.raw_data
    (one,) = saved(session, str(tmp_path / "lowered.onnx"), values=True).graph.initializer
    assert np.array_equal(numpy_helper.to_array(one), table)
    assert [path.name for path in tmp_path.iterdir()] == ["lowered.onnx"]


def test_a_session_that_is_not_prepared_is_refused(tmp_path):
    builder = popart.Builder()
    y = builder.aiOnnx.relu([builder.addInputTensor("FLOAT", [4], "x")])
    device = popart.DeviceManager().createCpuDevice()
    session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), device)
    with pytest.raises(popart.popart_runtime_error, match="getLoweredModel before the program is compiled"):
        session.saveLoweredModel(tmp_path / "lowered.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        made(training=False).saveLoweredModel(tmp_path / "nowhere" / "lowered.onnx")


def test_of_a_popxl_program(tmp_path):
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x, y = popxl.h2d_stream((4, WIDTH), popxl.float32, "x"), popxl.d2h_stream((4, WIDTH), popxl.float32, "y")
        with popxl.name_scope("block"):
            result = ops.gelu(ops.matmul(ops.host_load(x), popxl.variable(np.eye(WIDTH, dtype=np.float32), name="w")))
        ops.host_store(y, result)
    model = saved(popxl.Session(ir, "cpu"), tmp_path / "lowered.onnx")
    layers = [attributes_of(node).get("step.layer", "") for node in model.graph.node]
    assert any(layer.startswith("block/") for layer in layers)
