"""Models in inference form: what sessions compute of files in training form, and files cut to what is used of them.

Right values: PyTorch in eval mode, ONNX Runtime, NumPy.
"""

import io
from pathlib import Path

import numpy as np
import onnx.numpy_helper
import onnxruntime
import popart
import popart.backend
import popart_core
import pytest
import torch
from onnx.reference import ReferenceEvaluator
from popart.tools import convert
from torch import nn

import onnx
from onnx import TensorProto, helper
from tests.inference import infer

NEWEST = onnx.defs.onnx_opset_version()
FLOAT, BOOL = TensorProto.FLOAT, TensorProto.BOOL
rng = np.random.default_rng(3)
STATISTICS = {
    "scale": rng.uniform(0.5, 2, 3),
    "bias": rng.normal(0, 1, 3),
    "mean": rng.normal(0, 1, 3),
    "var": rng.uniform(1, 2, 3),
}
X = rng.normal(1, 2, (4, 3, 5)).astype(np.float32)


def tensor(name, array, kind=np.float32):
    return onnx.numpy_helper.from_array(np.asarray(array, kind), name)


def normalised(x=X, eps=1e-5):
    scale, bias, mean, var = (value.reshape(3, 1) for value in STATISTICS.values())
    return ((x - mean) / np.sqrt(var + eps) * scale + bias).astype(np.float32)


def model_of(nodes, opset, initializers=(), inputs=(), outputs=("y",), shape=(4, 3, 5), ir=8):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", FLOAT, shape), *inputs],
        [helper.make_tensor_value_info(name, FLOAT, shape) for name in outputs],
        [*(tensor(name, value) for name, value in STATISTICS.items()), *initializers],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)


def batch_norm(opset, output="y", trains=True):
    more = {"training_mode": int(trains)} if opset >= 14 else {}
    statistics = ["rm", "rv"] if opset >= 14 else ["rm", "rv", "sm", "sv"]
    names = [output, *(statistics if trains else [])]
    return helper.make_node("BatchNormalization", ["x", *STATISTICS], names, **more)


def dropout(opset, x, y, mode="yes"):
    return helper.make_node("Dropout", [x, "ratio", mode] if opset >= 12 else [x], [y])


def network(opset, trains=True):
    """Batch normalisation and dropout, in training form."""
    more = [tensor("ratio", 0.5), tensor("yes", True, bool)] if opset >= 12 else []
    return model_of([batch_norm(opset, "n", trains), dropout(opset, "n", "y")], opset, more)


def ort(model, feeds, outputs=None):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    source = model if isinstance(model, bytes | str) else model.SerializeToString()
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"]).run(outputs, feeds)


def checked(data):
    """The model of some bytes, which the checker of onnx accepts."""
    model = onnx.load_from_string(data)
    onnx.checker.check_model(model, full_check=True)
    return model


# ---- sessions --------------------------------------------------------------------------------------


@pytest.mark.parametrize("opset", range(7, NEWEST + 1))
def test_inference_sessions_compute_the_inference_form(opset):
    (y,) = infer(network(opset).SerializeToString(), {"x": X}, ["y"])
    np.testing.assert_allclose(y, normalised(), rtol=1e-5, atol=1e-5)


def test_an_option_follows_the_file():
    options = popart.SessionOptions()
    assert options.followTrainingMode is False
    options.followTrainingMode = True
    model = network(17).SerializeToString()
    (y,) = infer(model, {"x": X}, ["y"], userOptions=options)
    assert 0.2 < (y == 0).mean() < 0.8
    model = model_of([batch_norm(17)], 17).SerializeToString()
    (y,) = infer(model, {"x": X}, ["y"], userOptions=options)
    mean, var = X.mean((0, 2), keepdims=True), X.var((0, 2), keepdims=True)
    scale, bias = STATISTICS["scale"].reshape(3, 1), STATISTICS["bias"].reshape(3, 1)
    np.testing.assert_allclose(y, (X - mean) / np.sqrt(var + 1e-5) * scale + bias, rtol=1e-4, atol=1e-4)


def test_the_onnx_backend_follows_the_file():
    model = network(17)
    (y,) = popart.backend.run_model(model, [X])
    assert 0.2 < (y == 0).mean() < 0.8


@pytest.mark.parametrize("fed", [True, False])
def test_a_training_mode_that_is_fed_decides_in_the_run(fed):
    model = model_of(
        [dropout(17, "x", "y", mode="mode")],
        17,
        [tensor("ratio", 0.5)],
        [helper.make_tensor_value_info("mode", BOOL, [])],
    )
    (y,) = infer(model.SerializeToString(), {"x": X, "mode": np.array(fed)}, ["y"])
    if not fed:
        np.testing.assert_array_equal(y, X)
    else:
        assert 0.2 < (y == 0).mean() < 0.8
        np.testing.assert_allclose(y[y != 0], 2 * X[y != 0], rtol=1e-6)


def test_a_ratio_that_is_fed_counts():
    model = model_of(
        [helper.make_node("Dropout", ["x", "r", "yes"], ["y", "mask"])],
        17,
        [tensor("yes", True, bool)],
        [helper.make_tensor_value_info("r", FLOAT, [])],
        shape=(100, 100),
    )
    options = popart.SessionOptions()
    options.followTrainingMode = True
    x = np.ones((100, 100), np.float32)
    (y,) = infer(model.SerializeToString(), {"x": x, "r": np.array(0.8, np.float32)}, ["y"], userOptions=options)
    assert abs((y != 0).mean() - 0.2) < 0.03
    np.testing.assert_allclose(y[y != 0], 5, rtol=1e-5)


def test_running_statistics_of_a_node_in_inference_form_are_the_stored_ones():
    node = helper.make_node("BatchNormalization", ["x", *STATISTICS], ["y", "m", "v"], training_mode=1)
    model = model_of([node], 17)
    model.graph.output.extend(helper.make_tensor_value_info(name, FLOAT, [3]) for name in ("m", "v"))
    y, m, v = infer(model.SerializeToString(), {"x": X}, ["y", "m", "v"])
    np.testing.assert_allclose(y, normalised(), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose([m, v], [STATISTICS["mean"], STATISTICS["var"]], rtol=1e-6)
    cut = checked(popart.inference_form(model))
    y, m, v = ort(cut, {"x": X})
    np.testing.assert_allclose(y, normalised(), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose([m, v], [STATISTICS["mean"], STATISTICS["var"]], rtol=1e-6)


# ---- nodes edited ----------------------------------------------------------------------------------


@pytest.mark.parametrize("opset", range(7, NEWEST + 1))
def test_nodes_prepared_for_training_and_back(opset):
    model = network(opset, trains=False)
    if opset >= 12:
        model.graph.initializer[-1].CopyFrom(tensor("yes", False, bool))
    transformer = popart.GraphTransformer(model.SerializeToString())
    transformer.prepareNodesForTraining()
    trains = checked(transformer.getModelProto())
    norm = next(node for node in trains.graph.node if node.op_type == "BatchNormalization")
    drop = next(node for node in trains.graph.node if node.op_type == "Dropout")
    assert len(norm.output) == (3 if opset >= 14 else 5)
    modes = {a.name: a.i for a in norm.attribute}
    assert modes.get("training_mode") == (1 if opset >= 14 else None)
    if opset >= 12:
        options = popart.SessionOptions()
        options.followTrainingMode = True
        (y,) = infer(trains.SerializeToString(), {"x": X}, ["y"], userOptions=options)
        assert 0.2 < (y == 0).mean() < 0.8
        assert len(drop.input) == 3
    transformer.prepareNodesForInference()
    back = checked(transformer.getModelProto())
    assert [node.op_type for node in back.graph.node if node.op_type != "Constant"] == [
        "BatchNormalization",
        "Identity",
    ]
    # ONNX's evaluator does not run old versions, and ONNX Runtime not the newest ones.
    (y,) = ort(back, {"x": X}) if opset < 27 else ReferenceEvaluator(back).run(None, {"x": X})
    np.testing.assert_allclose(y, normalised(), rtol=1e-5, atol=1e-5)


def test_nodes_of_bodies_and_functions_are_prepared():
    """In the branch of an If, and in a function whose training_mode is an input."""
    zero = helper.make_tensor("value", BOOL, [], [0])
    body = helper.make_graph(
        [helper.make_node("BatchNormalization", ["x", *STATISTICS], ["b"])], "body", [],
        [helper.make_tensor_value_info("b", FLOAT, [4, 3, 5])],
    )  # fmt: skip
    other = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["i"])],
        "other",
        [],
        [helper.make_tensor_value_info("i", FLOAT, [4, 3, 5])],
    )
    function = helper.make_function(
        "own", "drop", ["a", "mode"], ["z"],
        [helper.make_node("Dropout", ["a", "", "mode"], ["z"])], [helper.make_opsetid("", 17)],
    )  # fmt: skip
    model = model_of(
        [
            helper.make_node("If", ["c"], ["n"], then_branch=body, else_branch=other),
            helper.make_node("Constant", [], ["no"], value=zero),
            helper.make_node("drop", ["n", "no"], ["y"], domain="own"),
        ],
        17,
        inputs=[helper.make_tensor_value_info("c", BOOL, [])],
    )
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.functions.append(function)
    transformer = popart.GraphTransformer(model.SerializeToString())
    transformer.prepareNodesForTraining()
    trains = checked(transformer.getModelProto())
    branch = next(a.g for a in trains.graph.node[0].attribute if a.name == "then_branch")
    assert len(branch.node[0].output) == 3
    options = popart.SessionOptions()
    options.followTrainingMode = True
    feeds = {"x": X, "c": np.array(False)}
    (y,) = infer(trains.SerializeToString(), feeds, ["y"], userOptions=options)
    assert 0.2 < (y == 0).mean() < 0.8
    cut = checked(popart.inference_form(trains))
    assert not any(node.op_type == "Dropout" for function in cut.functions for node in function.node)
    np.testing.assert_array_equal(ort(cut, feeds)[0], X)
    np.testing.assert_allclose(ort(cut, {"x": X, "c": np.array(True)})[0], normalised(), rtol=1e-5, atol=1e-5)


# ---- files cut -------------------------------------------------------------------------------------


def exported(net, x, opset, dynamo=False):
    """A PyTorch network in training mode as an ONNX file."""
    net.train()
    file = io.BytesIO()
    names = {"input_names": ["x"], "output_names": ["p"], "opset_version": opset}
    if dynamo:
        program = torch.onnx.export(net, (x,), dynamo=True, verbose=False, **names)
        return program.model_proto.SerializeToString()
    torch.onnx.export(
        net, (x,), file, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, dynamo=False, **names
    )
    return file.getvalue()


def mixed_network(normalises=True):
    torch.manual_seed(0)
    norms = (nn.BatchNorm2d(4), nn.BatchNorm1d(8)) if normalises else (nn.Identity(), nn.Identity())
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), norms[0], nn.ReLU(), nn.Flatten(), nn.Linear(64, 8), norms[1], nn.ReLU(), nn.Dropout(0.5),
        nn.Linear(8, 3), nn.Softmax(-1),
    )  # fmt: skip


def trained(source, batch=8, steps=4, optimizer=None):
    """A session that trained `source` on class numbers, and the name of its loss."""
    builder = popart.Builder(source)
    labels = builder.addInputTensor("INT32", [batch], "labels")
    loss = builder.aiGraphcore.nllloss(["p", labels])
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, [loss]),
        loss,
        optimizer or popart.SGD({"defaultLearningRate": (0.05, False), "defaultMomentum": (0.9, False)}),
        popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    data = np.random.default_rng(0)
    for _ in range(steps):
        x = data.normal(1, 2, (batch, 2, 6, 6)).astype(np.float32)
        session.run(popart.PyStepIO({"x": x, "labels": data.integers(0, 3, batch).astype(np.int32)}, anchors))
    return session


def as_in_eval_mode(net, values, x):
    state = {key: torch.tensor(values[key]) if key in values else value for key, value in net.state_dict().items()}
    net.load_state_dict(state)
    with torch.no_grad():
        return net.eval()(torch.tensor(x)).numpy()


def initializers(model):
    return {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}


@pytest.mark.parametrize(("opset", "dynamo"), [(11, False), (13, False), (17, False), (18, True)])
def test_a_trained_network_is_saved_in_inference_form(opset, dynamo, tmp_path):
    net = mixed_network(normalises=not dynamo)  # that exporter folds batch normalisation
    session = trained(exported(net, torch.randn(8, 2, 6, 6), opset, dynamo))
    whole, cut = tmp_path / "training.onnx", tmp_path / "inference.onnx"
    session.modelToHost(str(whole))
    session.modelToHost(str(cut), form="inference")
    model = checked(cut.read_bytes())
    assert [value.name for value in model.graph.input] == ["x"]
    assert [value.name for value in model.graph.output] == ["p"]
    assert not {node.op_type for node in model.graph.node} & {"Dropout", "Nll"}
    assert all(domain.domain in ("", "ai.onnx") for domain in model.opset_import)
    x = np.random.default_rng(5).normal(1, 2, (8, 2, 6, 6)).astype(np.float32)
    want = as_in_eval_mode(net, initializers(onnx.load(whole)), x)
    np.testing.assert_allclose(ort(str(cut), {"x": x})[0], want, rtol=1e-4, atol=1e-5)
    for source in (whole, cut):
        first, second = infer(str(source), {"x": x}, ["p"])[0], infer(str(source), {"x": x}, ["p"])[0]
        np.testing.assert_array_equal(first, second)
        np.testing.assert_allclose(first, want, rtol=1e-4, atol=1e-5)
    folded = checked(popart.inference_form(str(whole), fold_batch_norm=True))
    assert not any(node.op_type == "BatchNormalization" for node in folded.graph.node)
    np.testing.assert_allclose(ort(folded, {"x": x})[0], want, rtol=1e-3, atol=1e-5)
    read = {name for node in folded.graph.node for name in node.input}
    assert set(initializers(folded)) <= read


def test_the_command_writes_the_inference_form(tmp_path, capsys):
    net = mixed_network()
    session = trained(exported(net, torch.randn(8, 2, 6, 6), 17))
    whole, cut = tmp_path / "training.onnx", tmp_path / "inference.onnx"
    session.modelToHost(str(whole))
    assert convert.command([str(whole), str(cut), "--inference"]) == 0
    x = np.ones((8, 2, 6, 6), np.float32)
    want = as_in_eval_mode(net, initializers(onnx.load(whole)), x)
    np.testing.assert_allclose(ort(checked(cut.read_bytes()), {"x": x})[0], want, rtol=1e-4, atol=1e-5)
    inner = next(node.output[0] for node in onnx.load(whole).graph.node if node.op_type == "Flatten")
    assert convert.command([str(whole), str(cut), "--inference", "--outputs", inner, "--fold-batch-norm"]) == 0
    model = checked(cut.read_bytes())
    assert [value.name for value in model.graph.output] == [inner]
    np.testing.assert_allclose(ort(model, {"x": x})[0], net[:4](torch.tensor(x)).detach().numpy(), rtol=1e-3, atol=1e-4)
    capsys.readouterr()


def test_outputs_that_the_model_does_not_have_are_refused():
    model = network(17).SerializeToString()
    with pytest.raises(popart.popart_exception, match=r"no tensor 'z' to be an output"):
        popart.inference_form(model, outputs=["z"])


def test_a_model_of_the_builder_that_has_only_a_loss_keeps_its_predictions(tmp_path):
    """A loss of several operators, and no graph output: what is compared with the labels is kept."""
    builder = popart.Builder()
    x, target = builder.addInputTensor("FLOAT", [4, 3], "x"), builder.addInputTensor("FLOAT", [4, 2], "t")
    w = builder.addInitializedInputTensor(rng.normal(0, 1, (3, 2)).astype(np.float32), "w")
    y = builder.aiOnnx.matmul([x, w])
    loss = builder.aiGraphcore.l1loss([builder.aiOnnx.sub([y, target])], 0.5)
    session = popart.TrainingSession(
        builder.getModelProto(), popart.DataFlow(1, [loss]), loss, popart.ConstSGD(0.01),
        popart.DeviceManager().createCpuDevice(),
    )  # fmt: skip
    session.prepareDevice()
    cut = tmp_path / "cut.onnx"
    session.modelToHost(str(cut), form="inference")
    model = checked(cut.read_bytes())
    assert [value.name for value in model.graph.input if value.name != w] == ["x"]
    a = rng.normal(0, 1, (4, 3)).astype(np.float32)
    np.testing.assert_allclose(ort(model, {"x": a}, [y])[0], a @ initializers(model)[w], rtol=1e-5, atol=1e-6)


def test_losses_of_several_operators_are_cut_from_files():
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        helper.make_node("Sub", ["y", "t"], ["d"]),
        helper.make_node("Mul", ["d", "d"], ["s"]),
        helper.make_node("ReduceMean", ["s"], ["loss"], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", FLOAT, [4, 3]), helper.make_tensor_value_info("t", FLOAT, [4, 2])],
        [helper.make_tensor_value_info("y", FLOAT, [4, 2]), helper.make_tensor_value_info("loss", FLOAT, [])],
        [tensor("w", rng.normal(0, 1, (3, 2))), tensor("Accl___w", np.zeros((3, 2)))],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    cut = checked(popart.inference_form(model))
    assert [v.name for v in cut.graph.input] == ["x"] and [v.name for v in cut.graph.output] == ["y"]
    assert [t.name for t in cut.graph.initializer] == ["w"]
    whole = checked(popart.inference_form(model, outputs=["y", "loss"]))
    assert [v.name for v in whole.graph.input] == ["x", "t"] and len(whole.graph.output) == 2


def test_an_output_of_an_input_without_weights_stays():
    """A temperature is combined with no weight; the output is no number, and stays."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Div", ["h", "temperature"], ["y"])]
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", FLOAT, [4, 3]), helper.make_tensor_value_info("temperature", FLOAT, [])],
        [helper.make_tensor_value_info("y", FLOAT, [4, 2])], [tensor("w", rng.normal(0, 1, (3, 2)))],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert checked(popart.inference_form(model)) == model


def test_values_in_data_files_are_taken_along_and_those_files_left_alone(tmp_path):
    model = network(17)
    model.graph.initializer[0].CopyFrom(tensor("scale", STATISTICS["scale"]))
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights", size_threshold=0)
    before = (tmp_path / "weights").read_bytes()
    (tmp_path / "other").mkdir()
    popart_core._write_inference_form(str(path), str(tmp_path / "other" / "cut.onnx"), [], False)
    assert sorted(p.name for p in (tmp_path / "other").iterdir()) == ["cut.onnx"]
    assert (tmp_path / "weights").read_bytes() == before
    cut = checked((tmp_path / "other" / "cut.onnx").read_bytes())
    np.testing.assert_allclose(ort(cut, {"x": X})[0], normalised(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose", "Gemm", "Gemm, transposed"])
def test_batch_norm_is_folded_when_asked(kind):
    """With groups, with and without bias, with factors; weights that another node reads stay as they are."""
    g = np.random.default_rng(1)
    x = g.normal(0, 1, (5, 4) if "Gemm" in kind else (2, 4, 6, 6)).astype(np.float32)
    channels = 6
    operator = kind.split(",")[0]
    shapes = {"Conv": (6, 2, 3, 3), "ConvTranspose": (4, 3, 3, 3), "Gemm": (4, 6), "Gemm, transposed": (6, 4)}
    more = {"alpha": 0.5, "beta": 2.0, "transB": int("," in kind)} if operator == "Gemm" else {"group": 2}
    nodes = [
        helper.make_node(operator, ["x", "w", "b"], ["a"], **more),
        helper.make_node("BatchNormalization", ["a", "s", "c", "m", "v"], ["y"]),
        helper.make_node("Neg", ["w"], ["z"]),
    ]
    values = {
        "w": g.normal(0, 1, shapes[kind]), "b": g.normal(0, 1, channels), "s": g.uniform(0.5, 2, channels),
        "c": g.normal(0, 1, channels), "m": g.normal(0, 1, channels), "v": g.uniform(0.5, 2, channels),
    }  # fmt: skip
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", FLOAT, list(x.shape))],
        [helper.make_tensor_value_info(name, FLOAT, [None] * x.ndim) for name in ("y", "z")],
        [tensor(name, value) for name, value in values.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    cut = checked(popart.inference_form(model, fold_batch_norm=True))
    assert [node.op_type for node in cut.graph.node] == [operator, "Neg"]
    for ours, theirs in zip(ort(cut, {"x": x}), ort(model, {"x": x}), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_forms_of_files_by_other_names_are_refused(tmp_path):
    session = trained(exported(mixed_network(), torch.randn(8, 2, 6, 6), 17), steps=0)
    with pytest.raises(popart.popart_exception, match="form: got 'eval', expected 'training' or 'inference'"):
        session.modelToHost(str(Path(tmp_path) / "m.onnx"), form="eval")
