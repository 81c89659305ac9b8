"""popart.load: files as functions of arrays, equal to ONNX Runtime, at any batch."""

import io
import threading
import warnings

import numpy as np
import onnxruntime
import popart
import pytest
import torch
from torch import nn

import onnx
from onnx import TensorProto, helper


def exported(module, example, path=None, dynamic=None, outputs=("y",)):
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module.eval(), example, out, dynamo=False, input_names=["x"], output_names=list(outputs),
            dynamic_axes=dynamic,
        )  # fmt: skip
    if path is not None:
        path.write_bytes(out.getvalue())
    return out.getvalue()


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.convolution, self.norm, self.head = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 5)

    def forward(self, x):
        return self.head(self.norm(self.convolution(x)).relu().mean((2, 3)))


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.first, self.second = nn.Linear(4, 3), nn.Linear(4, 2)

    def forward(self, x):
        return self.first(x), self.second(x).softmax(-1)


def by_onnxruntime(model, **feeds):
    return onnxruntime.InferenceSession(model).run(None, feeds)


def images(batch):
    return np.random.default_rng(batch).normal(size=(batch, 3, 12, 12)).astype(np.float32)


@pytest.mark.parametrize("dynamic", [None, {"x": {0: "batch"}, "y": {0: "batch"}}], ids=["fixed", "open"])
def test_any_batch_of_a_file(tmp_path, dynamic):
    path = tmp_path / "model.onnx"
    exported(Convolutions(), torch.zeros(2, 3, 12, 12), path, dynamic)
    open_batch = exported(Convolutions(), torch.zeros(2, 3, 12, 12), None, {"x": {0: "n"}, "y": {0: "n"}})
    model = popart.load(path)
    assert (model.inputs, model.outputs) == (["x"], ["y"])
    for batch in (2, 1, 7, 2):
        x = images(batch)
        result = model(x)
        assert isinstance(result, np.ndarray)
        np.testing.assert_allclose(result, by_onnxruntime(open_batch, x=x)[0], rtol=1e-4, atol=1e-5)


def test_forms_of_a_model(tmp_path):
    module, x = Heads(), torch.randn(2, 4)
    program = torch.onnx.export(module.eval(), (x,), dynamo=True, verbose=False)
    path = tmp_path / "model.onnx"
    path.write_bytes(program.model_proto.SerializeToString())
    expected = [y.detach().numpy() for y in module(x)]
    for model in (program, program.model_proto, path, str(path), path.read_bytes()):
        for y, right in zip(popart.load(model)(x).values(), expected, strict=True):
            np.testing.assert_allclose(y, right, rtol=1e-5, atol=1e-6)
    with pytest.raises(TypeError, match="got Heads, expected a file name, bytes"):
        popart.load(module)


def test_a_batch_that_the_operators_fix_is_refused():
    node = [helper.make_node("Reshape", ["x", "shape"], ["y"])]
    graph = helper.make_graph(
        node, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 3])],
        [helper.make_tensor("shape", TensorProto.INT64, [2], [4, 3])],
    )  # fmt: skip
    model = popart.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    np.testing.assert_array_equal(model(x), x.reshape(4, 3))
    with pytest.raises(popart.popart_exception, match="the file fixes its batch, and does not compute another one"):
        model(np.zeros((3, 6), np.float32))


def test_inputs_are_declared_anew():
    transformer = popart.GraphTransformer(exported(Convolutions(), torch.zeros(2, 3, 12, 12)))
    transformer.declareInputs({"x": ["batch", "3", "height", "12"]})
    graph = onnx.load_from_string(transformer.getModelProto()).graph

    def shape(value):
        return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]

    assert (shape(graph.input[0]), shape(graph.output[0])) == (["batch", 3, "height", 12], ["batch", 5])
    assert not graph.value_info
    with pytest.raises(popart.popart_exception, match="'z' is not an input of the model"):
        transformer.declareInputs({"z": ["1"]})


def test_arrays_tensors_and_names_are_the_same():
    model = popart.load(exported(Convolutions(), torch.zeros(1, 3, 12, 12)))
    x = images(3)
    expected = model(x)
    for value in (torch.from_numpy(x), torch.from_numpy(x).requires_grad_(), x.astype(np.float64), x.tolist()):
        np.testing.assert_array_equal(model(value), expected)
    np.testing.assert_array_equal(model(x=x), expected)
    np.testing.assert_array_equal(model({"x": x}), expected)
    np.testing.assert_array_equal(model(np.asfortranarray(x)), expected)
    np.testing.assert_array_equal(model(x[::-1])[::-1], expected)


def test_several_outputs_are_a_dictionary():
    data = exported(Heads(), torch.zeros(2, 4), outputs=["a", "b"])
    x = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)
    results = popart.load(data)(x)
    assert list(results) == ["a", "b"]
    for ours, theirs in zip(results.values(), by_onnxruntime(data, x=x), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    only = popart.load(data, outputs=["b"])(x)
    np.testing.assert_array_equal(only, results["b"])


def test_results_of_unknown_size_are_cut():
    graph = helper.make_graph(
        [helper.make_node("NonZero", ["x"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [1, "m"])],
    )  # fmt: skip
    model = popart.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    for x in ([0, 1, 0, 2], [0, 0, 0, 1], [1, 2, 3, 4], [1, 0]):
        np.testing.assert_array_equal(model(np.array(x, np.float32)), np.array(np.nonzero(x)))


def test_inner_tensors_of_unknown_size_are_cut():
    nodes = [helper.make_node("NonZero", ["x"], ["inner"]), helper.make_node("ReduceSum", ["inner"], ["y"], keepdims=0)]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [])],
    )  # fmt: skip
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    model = popart.load(data, outputs=["inner", "y"])
    for x in ([0, 1, 0, 2], [0, 0, 0, 1], [1, 0]):
        results = model(np.array(x, np.float32))
        np.testing.assert_array_equal(results["inner"], np.array(np.nonzero(x)))
        assert results["y"] == np.nonzero(x)[0].sum()


def test_inputs_that_steer_shapes():
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "shape"], ["y"])], "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"]),
            helper.make_tensor_value_info("shape", TensorProto.INT64, [2]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["a", "b"])],
    )  # fmt: skip
    model = popart.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    x = np.arange(6, dtype=np.float32)
    for shape in ([2, 3], [3, 2], [1, 6]):
        np.testing.assert_array_equal(model(x, np.array(shape)), x.reshape(shape))


def test_text_goes_in():
    graph = helper.make_graph(
        [helper.make_node("StringConcat", ["a", "b"], ["y"])], "g",
        [helper.make_tensor_value_info(n, TensorProto.STRING, [2]) for n in "ab"],
        [helper.make_tensor_value_info("y", TensorProto.STRING, [2])],
    )  # fmt: skip
    model = popart.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]).SerializeToString())
    assert list(model(np.array(["a", "b"]), np.array(["c", "d"]))) == ["ac", "bd"]


def test_threads_call_one_model():
    data = exported(Convolutions(), torch.zeros(1, 3, 12, 12), None, {"x": {0: "n"}, "y": {0: "n"}})
    model = popart.load(data, num_threads=2)
    expected = {batch: by_onnxruntime(data, x=images(batch))[0] for batch in (1, 2, 3, 4)}
    problems = []

    def work(batch):
        for _ in range(5):
            result = model(images(batch))
            if not np.allclose(result, expected[batch], rtol=1e-4, atol=1e-5):
                problems.append(batch)

    threads = [threading.Thread(target=work, args=(batch,)) for batch in expected]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


def test_results_stay_when_the_model_runs_again():
    model = popart.load(exported(Convolutions(), torch.zeros(2, 3, 12, 12)))
    first = model(images(2))
    kept = first.copy()
    model(images(2) + 1)
    np.testing.assert_array_equal(first, kept)


def test_memory_is_limited():
    model = popart.load(exported(Convolutions(), torch.zeros(2, 3, 12, 12)), max_memory=4096)
    with pytest.raises(popart.popart_exception, match="memory"):
        model(images(64))


@pytest.mark.parametrize(("values", "text"), [
    (lambda: ((), {}), "no 'x'"),
    (lambda: ((images(1), images(1)), {}), "got 2 values, expected 1: x"),
    (lambda: ((images(1),), {"x": images(1)}), "'x' is given twice"),
    (lambda: ((), {"images": images(1)}), "no input 'images'"),
    (lambda: ((images(1)[0],), {}), r"'x': got shape \[3, 12, 12\], expected"),
    (lambda: ((np.zeros((1, 4, 12, 12), np.float32),), {}), r"'x': got shape \[1, 4, 12, 12\]"),
    (lambda: ((np.zeros((1, 3, 12, 12), np.complex64),), {}), "got complex64, expected float32"),
])  # fmt: skip
def test_refusals(values, text):
    model = popart.load(exported(Convolutions(), torch.zeros(1, 3, 12, 12)))
    args, named = values()
    with pytest.raises(popart.popart_exception, match=text):
        model(*args, **named)


def test_whole_numbers_that_do_not_fit_are_refused():
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.INT32, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, ["n"])],
    )  # fmt: skip
    model = popart.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    np.testing.assert_array_equal(model(np.array([1, -2], np.int64)), [1, -2])
    with pytest.raises(popart.popart_exception, match="expected ones that fit int32"):
        model(np.array([2**40], np.int64))
    with pytest.raises(popart.popart_exception, match="got float32, expected int32"):
        model(np.array([1.0], np.float32))


def test_a_file_that_is_not_there():
    with pytest.raises(FileNotFoundError, match=r"no file 'nope\.onnx'"):
        popart.load("nope.onnx")


def test_options_by_name():
    data = exported(Heads(), torch.zeros(2, 4), outputs=["a", "b"])
    model = popart.load(data, options={"engineOptions": {"num_threads": 1}, "enableOutlining": False})
    assert len(model(np.zeros((2, 4), np.float32))) == 2
    with pytest.raises(AttributeError):
        popart.load(data, options={"enableOutlinings": True})


def test_external_weights_next_to_the_file(tmp_path):
    model = onnx.load_from_string(exported(Convolutions(), torch.zeros(2, 3, 12, 12)))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.bin", size_threshold=0)
    x = images(2)
    np.testing.assert_allclose(
        popart.load(tmp_path / "m.onnx")(x), by_onnxruntime(str(tmp_path / "m.onnx"), x=x)[0], rtol=1e-4, atol=1e-5
    )


def linear(seed):
    torch.manual_seed(seed)
    return nn.Linear(4, 3).eval()


DATA = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)


def expected_of(module, data=DATA):
    return module(torch.from_numpy(data)).detach().numpy()


@pytest.mark.parametrize("dynamic", [None, {"x": {0: "batch"}}], ids=["fixed", "open"])
@pytest.mark.parametrize("change", ["overwritten", "removed"])
def test_a_file_may_change_after_load(tmp_path, change, dynamic):
    path, first = tmp_path / "model.onnx", linear(0)
    exported(first, torch.ones(2, 4), path, dynamic)
    model = popart.load(path)
    if change == "removed":
        path.unlink()
    else:
        exported(linear(1), torch.ones(2, 4), path, dynamic)
    np.testing.assert_allclose(model(DATA), expected_of(first), atol=1e-6)


def test_another_batch_does_not_read_a_file_that_changed(tmp_path):
    path, first = tmp_path / "model.onnx", linear(0)
    exported(first, torch.ones(2, 4), path)
    model, larger = popart.load(path), np.repeat(DATA, 2, axis=0)
    model(DATA)
    same = popart.load(path)
    same(DATA)
    np.testing.assert_allclose(same(larger), expected_of(first, larger), atol=1e-6)
    exported(linear(1), torch.ones(2, 4), path)
    with pytest.raises(
        popart.popart_runtime_error, match=r"model\.onnx' has changed or is gone since .* Load it again"
    ):
        model(larger)
    np.testing.assert_allclose(model(DATA), expected_of(first), atol=1e-6)


def with_data_file(module, path, data_file):
    model = onnx.load_from_string(exported(module, torch.ones(2, 4)))
    onnx.save(model, path, save_as_external_data=True, location=data_file, size_threshold=0)


@pytest.mark.parametrize("change", ["overwritten", "removed"])
def test_files_with_tensors_that_change_before_the_first_call_are_refused(tmp_path, change):
    path = tmp_path / "model.onnx"
    with_data_file(linear(0), path, "weights.data")
    model, kept = popart.load(path), popart.load(path)
    kept(DATA)
    (tmp_path / "weights.data").unlink()
    if change == "overwritten":
        with_data_file(linear(1), path, "weights.data")
    with pytest.raises(popart.popart_runtime_error, match="has changed or is gone since the model was loaded"):
        model(DATA)
    np.testing.assert_allclose(kept(DATA), expected_of(linear(0)), atol=1e-6)


@pytest.mark.parametrize("data_file", [None, "weights.data"])
def test_a_trainer_does_not_read_its_file_again(tmp_path, data_file):
    path, first = tmp_path / "model.onnx", linear(0)
    dynamic = {"x": {0: "batch"}}
    if data_file is None:
        exported(first, torch.ones(2, 4), path, dynamic)
    else:
        with_data_file(first, path, data_file)
    trainer = popart.Trainer(path, loss="mse", optimizer=popart.optim.SGD(0.0))
    if data_file is None:
        path.unlink()
    else:
        path.write_bytes(b"")
    np.testing.assert_allclose(trainer.predict(DATA), expected_of(first), atol=1e-6)


@pytest.mark.parametrize("change", ["overwritten", "removed"])
def test_a_trainer_refuses_data_files_that_change_before_its_first_step(tmp_path, change):
    path = tmp_path / "model.onnx"
    with_data_file(linear(0), path, "weights.data")
    trainer = popart.Trainer(path, loss="mse", optimizer=popart.optim.SGD(0.0))
    (tmp_path / "weights.data").unlink()
    if change == "overwritten":
        with_data_file(linear(1), path, "weights.data")
    with pytest.raises(popart.popart_runtime_error, match=r"Trainer: the file .* has changed or is gone"):
        trainer.step({"x": DATA, "labels": np.zeros((2, 3), np.float32)})
