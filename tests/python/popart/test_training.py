"""Training sessions: saved state resumes bit for bit, loss scale, losses of old programs, branches, statistics."""

import numpy as np
import popart
import pytest
import torch

import onnx

RNG = np.random.default_rng(7)
WEIGHTS = RNG.normal(size=(6, 4)).astype(np.float32)
DATA = RNG.normal(size=(5, 3, 6)).astype(np.float32)
LABELS = RNG.integers(0, 4, size=(5, 3)).astype(np.int32)

OPTIMIZERS = {
    "sgd": lambda: popart.SGD({"defaultLearningRate": (0.1, False), "defaultWeightDecay": (0.01, False)}),
    "momentum": lambda: popart.SGD({"defaultLearningRate": (0.1, False), "defaultMomentum": (0.9, False)}),
    "momentum_constant": lambda: popart.SGD(
        {"defaultLearningRate": (0.1, True), "defaultMomentum": (0.9, True), "defaultWeightDecay": (0.02, True)}
    ),
    "adam": lambda: popart.Adam({"defaultLearningRate": (0.01, False)}),
    "adamw": lambda: popart.Adam(
        {"defaultLearningRate": (0.01, False), "defaultWeightDecay": (0.1, False)},
        mode=popart.AdamMode.Adam,
        weight_decay_mode=popart.WeightDecayMode.Decay,
    ),
    "lamb": lambda: popart.Adam({"defaultLearningRate": (0.01, False)}, mode=popart.AdamMode.Lamb),
    "rmsprop": lambda: popart.Adaptive({"defaultLearningRate": (0.01, False)}, mode=popart.AdaptiveMode.RMSProp),
}


def classifier(probabilities=True):
    """A linear layer with softmax and its nll loss: (model, loss id)."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [3, 6], "x")
    labels = builder.addInputTensor("INT32", [3], "labels")
    w = builder.addInitializedInputTensor(WEIGHTS, "w")
    b = builder.addInitializedInputTensor(np.zeros(4, np.float32), "b")
    y = builder.aiOnnx.add([builder.aiOnnx.matmul([x, w]), b])
    p = builder.aiOnnx.softmax([y]) if probabilities else y
    loss = builder.aiGraphcore.nllloss([p, labels], debugContext="loss")
    return builder.getModelProto(), loss, p


def trainer(model, loss, optimizer, **arguments):
    session = popart.TrainingSession(
        fnModel=model,
        dataFlow=popart.DataFlow(1, [loss]) if isinstance(loss, str) else arguments.pop("dataFlow"),
        optimizer=optimizer,
        deviceInfo=popart.DeviceManager().createCpuDevice(),
        **({"loss": loss} if isinstance(loss, str) else {"losses": loss}),
        **arguments,
    )
    session.prepareDevice()
    session.weightsFromHost()
    return session


def step(session, i):
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": DATA[i], "labels": LABELS[i]}, anchors))
    return anchors


def read(session, name, shape):
    session.weightsToHost()
    result = np.empty(shape, np.float32)
    session.readWeights(popart.PyWeightsIO({name: result}))
    return result


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_saved_model_resumes_bit_for_bit(name, tmp_path):
    model, loss, _ = classifier()
    session = trainer(model, loss, OPTIMIZERS[name]())
    for i in range(2):
        step(session, i)
    path = str(tmp_path / "model.onnx")
    session.modelToHost(path)
    resumed = trainer(path, loss, OPTIMIZERS[name]())
    for i in range(2, 5):
        np.testing.assert_array_equal(step(session, i)[loss], step(resumed, i)[loss])
    for tensor, shape in (("w", (6, 4)), ("b", (4,))):
        np.testing.assert_array_equal(read(session, tensor, shape), read(resumed, tensor, shape))
    assert not np.array_equal(read(resumed, "w", (6, 4)), WEIGHTS)


def test_optimizer_state_is_saved_as_initializers_only(tmp_path):
    model, loss, _ = classifier()
    session = trainer(model, loss, OPTIMIZERS["adam"]())
    step(session, 0)
    path = str(tmp_path / "model.onnx")
    session.modelToHost(path)
    saved = onnx.load(path)
    names = {tensor.name for tensor in saved.graph.initializer}
    assert {"Accl1___w", "Accl2___w", "Step___w", "Accl1___b", "Accl2___b", "Step___b"} <= names
    assert not any("___" in value.name for value in saved.graph.input)


def test_state_of_a_saved_model_survives_a_session_without_use_for_it(tmp_path):
    model, loss, p = classifier()
    session = trainer(model, loss, OPTIMIZERS["momentum"]())
    step(session, 0)
    path = str(tmp_path / "model.onnx")
    session.modelToHost(path)
    inference = popart.InferenceSession(
        fnModel=path, dataFlow=popart.DataFlow(1, [p]), deviceInfo=popart.DeviceManager().createCpuDevice()
    )
    inference.prepareDevice()
    anchors = inference.initAnchorArrays()
    inference.run(popart.PyStepIO({"x": DATA[0]}, anchors))
    np.testing.assert_allclose(anchors[p].sum(axis=1), np.ones(3), rtol=1e-6)
    other = trainer(path, loss, popart.ConstSGD(0.1))
    step(other, 1)
    again = str(tmp_path / "again.onnx")
    other.modelToHost(again)
    before = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
    after = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(again).graph.initializer}
    np.testing.assert_array_equal(before["Accl___w"], after["Accl___w"])


def test_loss_scale_that_changes_leaves_updates_alone():
    model, loss, _ = classifier()
    plain = trainer(model, loss, popart.SGD({"defaultLearningRate": (0.1, False)}))
    scaled = trainer(model, loss, popart.SGD({"defaultLearningRate": (0.1, False), "lossScaling": (4.0, False)}))
    for i in range(4):
        if i == 2:
            scaled.updateOptimizerFromHost(
                popart.SGD({"defaultLearningRate": (0.1, False), "lossScaling": (32.0, False)})
            )
        np.testing.assert_allclose(step(plain, i)[loss], step(scaled, i)[loss], rtol=1e-6)
    np.testing.assert_allclose(read(plain, "w", (6, 4)), read(scaled, "w", (6, 4)), rtol=1e-5, atol=1e-7)


def test_losses_of_old_programs_are_summed():
    model, _loss, p = classifier()
    flow = popart.DataFlow(1, ["nll", "l1"])
    losses = [popart.NllLoss(p, "labels", "nll"), popart.L1Loss(p, "l1", 0.25)]
    session = popart.TrainingSession(
        fnModel=model,
        dataFeed=flow,
        losses=losses,
        optimizer=popart.ConstSGD(0.1),
        deviceInfo=popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    session.weightsFromHost()
    w = torch.tensor(WEIGHTS, requires_grad=True)
    out = torch.softmax(torch.tensor(DATA[0]) @ w, dim=1)
    picked = -torch.log(out[torch.arange(3), torch.tensor(LABELS[0]).long()])
    total = picked.sum() + 0.25 * out.abs().sum()
    (gradient,) = torch.autograd.grad(total, [w])
    step(session, 0)
    np.testing.assert_allclose(read(session, "w", (6, 4)), WEIGHTS - 0.1 * gradient.numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("flag", [True, False])
def test_gradient_through_a_branch(flag):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [3, 6], "x")
    flag_id = builder.addInputTensor("BOOL", [], "flag")
    w = builder.addInitializedInputTensor(WEIGHTS, "w")
    y = builder.aiOnnx.matmul([x, w])
    then_builder, else_builder = builder.createSubgraphBuilder(), builder.createSubgraphBuilder()
    then_builder.addInputTensorFromParentGraph(y)
    else_builder.addInputTensorFromParentGraph(y)
    then_builder.addOutputTensor(then_builder.aiOnnx.tanh([y]))
    else_builder.addOutputTensor(else_builder.aiOnnx.mul([y, y]))
    (z,) = builder.aiOnnx.logical_if([flag_id], 1, else_builder, then_builder)
    loss = builder.aiGraphcore.l1loss([z], 0.5, reduction=popart.ReductionType.Sum)
    session = trainer(builder.getModelProto(), loss, popart.ConstSGD(0.1))
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": DATA[0], "flag": np.array(flag)}, anchors))
    weights = torch.tensor(WEIGHTS, requires_grad=True)
    out = torch.tensor(DATA[0]) @ weights
    expected = 0.5 * (torch.tanh(out) if flag else out * out).abs().sum()
    (gradient,) = torch.autograd.grad(expected, [weights])
    np.testing.assert_allclose(anchors[loss], expected.item(), rtol=1e-5)
    np.testing.assert_allclose(read(session, "w", (6, 4)), WEIGHTS - 0.1 * gradient.numpy(), rtol=1e-4, atol=1e-5)


def test_batch_normalisation_as_exported_in_training_mode_trains_like_torch():
    torch.manual_seed(3)
    module = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.BatchNorm1d(4), torch.nn.Tanh())
    module.train()
    builder = popart.Builder(opsets={"ai.onnx": 9, "ai.graphcore": 1})
    x = builder.addInputTensor("FLOAT", [3, 6], "x")
    names = {}
    for name, value in module.state_dict().items():
        if value.dtype == torch.float32:
            array = value.numpy().copy()
            names[name] = builder.addInitializedInputTensor(array.T.copy() if name == "0.weight" else array, name)
    y = builder.aiOnnx.add([builder.aiOnnx.matmul([x, names["0.weight"]]), names["0.bias"]])
    statistics = [names["1.weight"], names["1.bias"], names["1.running_mean"], names["1.running_var"]]
    outputs = builder.aiOnnx.batchnormalization([y, *statistics], 5, epsilon=1e-5, momentum=0.9)
    loss = builder.aiGraphcore.l1loss([builder.aiOnnx.tanh([outputs[0]])], 1.0, popart.ReductionType.Sum)
    session = trainer(builder.getModelProto(), loss, popart.ConstSGD(0.05))
    sgd = torch.optim.SGD(module.parameters(), lr=0.05)
    for i in range(3):
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO({"x": DATA[i]}, anchors))
        expected = module(torch.tensor(DATA[i])).abs().sum()
        sgd.zero_grad()
        expected.backward()
        sgd.step()
        np.testing.assert_allclose(anchors[loss], expected.item(), rtol=1e-4)
    scale = read(session, names["1.weight"], (4,))
    np.testing.assert_allclose(scale, module[1].weight.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("outputs", [1, 5])
def test_batch_norm_of_inference_form_warns_in_training(outputs, capfd):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [3, 6, 2], "x")
    names = [builder.addInitializedInputTensor(np.ones(6, np.float32), n) for n in ("scale", "bias", "mean", "var")]
    y = builder.aiOnnx.batchnormalization([x, *names], outputs)[0]
    loss = builder.aiGraphcore.l1loss([y], 1.0, popart.ReductionType.Sum)
    session = trainer(builder.getModelProto(), loss, popart.ConstSGD(0.1))
    warned = "form of inference in a training session" in capfd.readouterr().err
    assert warned == (outputs == 1)
    anchors = session.initAnchorArrays()
    data = RNG.normal(size=(3, 6, 2)).astype(np.float32)
    session.run(popart.PyStepIO({"x": data}, anchors))
    moved = read(session, "mean", (6,))
    assert np.array_equal(moved, np.ones(6)) == (outputs == 1)
