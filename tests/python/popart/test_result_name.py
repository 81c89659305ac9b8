"""The name `output`: a model's only result, whatever its file calls it (docs/decisions/0007)."""

import numpy as np
import onnx.parser
import popart
import pytest

import onnx

X = np.array([[1, -2, 3], [4, 5, -6]], np.float32)
LABELS = np.array([0, 3], np.int32)
WARNING = "the model has no tensor 'output': taken as its only output, 'scores'"


def classifier(body: str = "product = MatMul(x, w) scores = Softmax(product)", outputs: str = "float scores") -> bytes:
    """The class probabilities `scores` of x, float32[2, 3], with a weight w of shape (3, 4)."""
    text = f'<ir_version: 8, opset_import: ["" : 11]> g (float[2,3] x) => ({outputs}) <> {{ {body} }}'
    model = onnx.parser.parse_model(text)
    for value in model.graph.output:
        value.ClearField("type")
    weight = np.arange(12, dtype=np.float32).reshape(3, 4) / 10 - 0.3
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    return model.SerializeToString()


def cpu():
    return popart.DeviceManager().createCpuDevice()


def label_shapes():
    shapes = popart.InputShapeInfo()
    shapes.add("labels", popart.TensorInfo("INT32", [2]))
    return shapes


def infer(model: bytes, anchors: list) -> dict:
    session = popart.InferenceSession(model, popart.DataFlow(1, anchors), cpu())
    session.prepareDevice()
    arrays = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": X}, arrays))
    assert all(session.getInfo(name).shape() == list(array.shape) for name, array in arrays.items())
    return arrays


def train(model: bytes, anchors, **loss) -> dict:
    steps = 3
    session = popart.TrainingSession(
        model,
        dataFlow=popart.DataFlow(steps, anchors),
        optimizer=popart.ConstSGD(0.5),
        deviceInfo=cpu(),
        **loss,
    )
    session.prepareDevice()
    session.weightsFromHost()
    arrays = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": np.stack([X] * steps), "labels": np.stack([LABELS] * steps)}, arrays))
    return arrays


def with_builder_loss(name: str) -> tuple[bytes, str]:
    builder = popart.Builder(classifier())
    labels = builder.addInputTensor("INT32", [2], "labels")
    loss = builder.aiGraphcore.nllloss([name, labels])
    return builder.getModelProto(), loss


def test_inference_anchors_the_only_output(capfd):
    named = infer(classifier(), ["output"])
    assert capfd.readouterr().err.count(WARNING) == 1
    assert list(named) == ["output"]
    np.testing.assert_array_equal(named["output"], infer(classifier(), ["scores"])["scores"])
    assert not capfd.readouterr().err


def test_both_names_may_be_anchored():
    arrays = infer(classifier(), ["output", "scores"])
    assert sorted(arrays) == ["output", "scores"]
    np.testing.assert_array_equal(arrays["output"], arrays["scores"])


def test_a_tensor_of_that_name_comes_first(capfd):
    body = "output = MatMul(x, w) scores = Softmax(output)"
    arrays = infer(classifier(body), ["output"])
    assert arrays["output"].sum(1).max() > 1.5 and not capfd.readouterr().err


def test_an_output_that_is_an_input_of_other_nodes_keeps_its_name_in_the_file(tmp_path):
    model = classifier("product = MatMul(x, w) scores = Softmax(product) rest = Neg(scores)")
    loss = popart.L1Loss("output", "loss", 1.0)
    session = popart.TrainingSession(
        model, popart.DataFlow(1, ["output", "loss"]), losses=[loss], optimizer=popart.ConstSGD(0.1), deviceInfo=cpu()
    )
    session.prepareDevice()
    session.weightsFromHost()
    path = tmp_path / "trained.onnx"
    session.modelToHost(str(path))
    saved = onnx.load(path)
    assert [value.name for value in saved.graph.output] == ["scores"]
    assert "output" not in {name for node in saved.graph.node for name in [*node.input, *node.output]}


@pytest.mark.parametrize("kind", ["SUM", "FINAL", "ALL"])
def test_every_return_type(kind):
    arrays = []
    for name in ("output", "scores"):
        anchors = {name: popart.AnchorReturnType(kind)}
        losses = [popart.NllLoss(name, "labels", "loss")]
        arrays.append(train(classifier(), anchors, losses=losses, inputShapeInfo=label_shapes())[name])
    np.testing.assert_array_equal(arrays[0], arrays[1])


def test_loss_objects_read_it(capfd):
    results = []
    for name in ("output", "scores"):
        loss = popart.NllLoss(name, "labels", "loss")
        arrays = train(classifier(), [name, "loss"], losses=[loss], inputShapeInfo=label_shapes())
        results.append(arrays)
    assert WARNING in capfd.readouterr().err
    np.testing.assert_array_equal(results[0]["loss"], results[1]["loss"])
    np.testing.assert_array_equal(results[0]["output"], results[1]["scores"])
    assert results[0]["loss"].reshape(3, -1).sum(1)[-1] < results[0]["loss"].reshape(3, -1).sum(1)[0]


def test_the_result_of_a_loss_object_may_have_that_name(capfd):
    loss = popart.NllLoss("scores", "labels", "output")
    arrays = train(classifier(), ["output"], losses=[loss], inputShapeInfo=label_shapes())
    assert arrays["output"].shape == (3,) and not capfd.readouterr().err


def test_loss_operators_of_the_builder_read_it(capfd):
    results = []
    for name in ("output", "scores"):
        model, loss = with_builder_loss(name)
        arrays = train(model, [name, loss], loss=loss)
        results.append((arrays[loss], arrays[name]))
    assert "Nll: " + WARNING in capfd.readouterr().err
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])


def test_it_may_be_the_loss_itself(capfd):
    model = classifier("product = MatMul(x, w) a = Mul(product, product) scores = ReduceSum <keepdims = 0> (a)")
    arrays = train_without_labels(model, "output")
    assert WARNING in capfd.readouterr().err
    np.testing.assert_array_equal(arrays["output"], train_without_labels(model, "scores")["scores"])
    assert arrays["output"][-1] < arrays["output"][0]


def train_without_labels(model: bytes, loss: str):
    session = popart.TrainingSession(model, popart.DataFlow(3, [loss]), loss, popart.ConstSGD(0.001), cpu())
    session.prepareDevice()
    session.weightsFromHost()
    arrays = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": np.stack([X] * 3)}, arrays))
    return arrays


def test_accumulated_micro_batches():
    options = popart.SessionOptions()
    options.enableGradientAccumulation, options.accumulationFactor = True, 3
    results = []
    for name in ("output", "scores"):
        loss = popart.NllLoss(name, "labels", "loss")
        results.append(accumulate(name, loss, options)[name])
    assert results[0].shape == (3, 2, 4)
    np.testing.assert_array_equal(results[0], results[1])


def accumulate(name, loss, options):
    session = popart.TrainingSession(
        classifier(),
        dataFlow=popart.DataFlow(1, [name]),
        losses=[loss],
        optimizer=popart.ConstSGD(0.5),
        deviceInfo=cpu(),
        inputShapeInfo=label_shapes(),
        userOptions=options,
    )
    session.prepareDevice()
    session.weightsFromHost()
    arrays = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": np.stack([X, 2 * X, 3 * X]), "labels": np.stack([LABELS] * 3)}, arrays))
    return arrays
