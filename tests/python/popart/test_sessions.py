"""Sessions from Python: an MLP built with popart.Builder, trained and run, compared with NumPy."""

import numpy as np
import popart
import pytest

BATCH, FEATURES, HIDDEN, CLASSES = 8, 16, 32, 4


def make_mlp(seed=0):
    """Builder, ids and weights of a two-layer classifier with an nll loss."""
    rng = np.random.default_rng(seed)
    weights = {
        "w1": (rng.standard_normal((FEATURES, HIDDEN)) * 0.2).astype(np.float32),
        "b1": rng.standard_normal(HIDDEN).astype(np.float32),
        "w2": (rng.standard_normal((HIDDEN, CLASSES)) * 0.2).astype(np.float32),
    }
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [BATCH, FEATURES], "x")
    labels = builder.addInputTensor(popart.TensorInfo("INT32", [BATCH]), "labels")
    w1, b1, w2 = (builder.addInitializedInputTensor(value, name) for name, value in weights.items())
    hidden = builder.aiOnnx.relu([builder.aiOnnx.add([builder.aiOnnx.matmul([x, w1]), b1])])
    probs = builder.aiOnnx.softmax([builder.aiOnnx.matmul([hidden, w2])])
    loss = builder.aiGraphcore.nllloss([probs, labels])
    builder.addOutputTensor(probs)
    return builder, probs, loss, weights


def forward(x, weights):
    """Hidden activations and class probabilities."""
    hidden = np.maximum(x @ weights["w1"] + weights["b1"], 0)
    scores = hidden @ weights["w2"]
    exps = np.exp(scores - scores.max(1, keepdims=True))
    return hidden, exps / exps.sum(1, keepdims=True)


def sgd_step(x, labels, weights, lr):
    """Loss and weights after one step of gradient descent, in NumPy."""
    hidden, probs = forward(x, weights)
    loss = -np.log(probs[np.arange(len(x)), labels]).mean()
    d_scores = (probs - np.eye(CLASSES, dtype=np.float32)[labels]) / len(x)
    d_hidden = (d_scores @ weights["w2"].T) * (hidden > 0)
    grads = {"w1": x.T @ d_hidden, "b1": d_hidden.sum(0), "w2": hidden.T @ d_scores}
    return loss, {name: weights[name] - lr * grads[name] for name in weights}


def data(steps, seed=1):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((steps, BATCH, FEATURES)).astype(np.float32)
    return x, rng.integers(0, CLASSES, (steps, BATCH)).astype(np.int32)


def cpu():
    return popart.DeviceManager().createCpuDevice()


def training_session(optimizer, anchors, bps=1, **kwargs):
    builder, _, loss, weights = make_mlp()
    session = popart.TrainingSession(
        builder.getModelProto(), popart.DataFlow(bps, anchors), loss, optimizer, cpu(), **kwargs
    )
    session.prepareDevice()
    return session, loss, weights


def test_inference_returns_every_batch_of_the_step():
    builder, probs, _, weights = make_mlp()
    session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(3, [probs]), cpu())
    session.prepareDevice()
    x, _ = data(3)
    anchors = session.initAnchorArrays()
    assert anchors[probs].shape == (3, BATCH, CLASSES)
    session.run(popart.PyStepIO({"x": x}, anchors))
    for step in range(3):
        np.testing.assert_allclose(anchors[probs][step], forward(x[step], weights)[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "select"), [("All", lambda v: v), ("Final", lambda v: v[-1]), ("Sum", lambda v: v.sum())]
)
def test_training_follows_numpy_for_every_return_type(kind, select):
    session, loss, weights = training_session(
        popart.SGD({"defaultLearningRate": (0.1, True)}), {"Nll:0": popart.AnchorReturnType(kind)}, bps=4
    )
    session.weightsFromHost()
    x, labels = data(4)
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": x, "labels": labels}, anchors))
    losses = []
    for step in range(4):
        value, weights = sgd_step(x[step], labels[step], weights, 0.1)
        losses.append(value)
    np.testing.assert_allclose(anchors[loss], select(np.array(losses)), rtol=1e-5)
    session.weightsToHost()
    read = {name: np.empty_like(value) for name, value in weights.items()}
    session.readWeights(popart.PyWeightsIO(read))
    for name, value in weights.items():
        np.testing.assert_allclose(read[name], value, rtol=1e-5, atol=1e-6)


def test_everyn_returns_each_nth_value():
    anchors = {"Nll:0": popart.AnchorReturnType("EveryN", 2)}
    session, loss, weights = training_session(popart.ConstSGD(0.1), anchors, bps=4)
    session.weightsFromHost()
    x, labels = data(4)
    arrays = session.initAnchorArrays()
    assert arrays[loss].shape == (2,)
    session.run(popart.PyStepIO({"x": x, "labels": labels}, arrays))
    losses = []
    for step in range(4):
        value, weights = sgd_step(x[step], labels[step], weights, 0.1)
        losses.append(value)
    np.testing.assert_allclose(arrays[loss], [losses[1], losses[3]], rtol=1e-5)


def test_run_before_weights_from_host_is_refused_in_training():
    session, _, _ = training_session(popart.ConstSGD(0.1), ["Nll:0"])
    x, labels = data(1)
    with pytest.raises(popart.popart_runtime_error, match="weightsFromHost"):
        session.run(popart.PyStepIO({"x": x, "labels": labels}, session.initAnchorArrays()))


def test_update_optimizer_changes_the_learning_rate_only_when_it_is_not_constant():
    session, loss, weights = training_session(popart.SGD(0.1), ["Nll:0"])
    session.weightsFromHost()
    session.updateOptimizerFromHost(popart.SGD({"defaultLearningRate": (0.0, False)}))
    x, labels = data(1)
    anchors = session.initAnchorArrays()
    stepio = popart.PyStepIO({"x": x, "labels": labels}, anchors)
    for _ in range(2):
        session.run(stepio)
        np.testing.assert_allclose(anchors[loss], sgd_step(x[0], labels[0], weights, 0.0)[0], rtol=1e-5)
    with pytest.raises(popart.popart_runtime_error, match="New optimizer is not a valid replacement"):
        session.updateOptimizerFromHost(popart.SGD({"defaultLearningRate": (0.1, True)}))


def test_saved_model_continues_where_training_stopped(tmp_path):
    optimizer = popart.SGD({"defaultLearningRate": (0.1, True), "defaultMomentum": (0.9, True)})
    session, loss, _ = training_session(optimizer, ["Nll:0"])
    session.weightsFromHost()
    x, labels = data(1)
    anchors = session.initAnchorArrays()
    stepio = popart.PyStepIO({"x": x, "labels": labels}, anchors)
    session.run(stepio)
    path = str(tmp_path / "trained.onnx")
    session.modelToHost(path)
    session.run(stepio)
    expected = anchors[loss].copy()
    other = popart.TrainingSession(path, popart.DataFlow(1, ["Nll:0"]), "Nll:0", optimizer, cpu())
    other.prepareDevice()
    other.weightsFromHost()
    other.run(stepio)
    np.testing.assert_array_equal(anchors[loss], expected)


@pytest.mark.parametrize("shape", [(BATCH, FEATURES - 1), (2, BATCH, FEATURES)])
def test_wrong_element_count_is_refused_at_the_first_run(shape):
    builder, probs, _, _ = make_mlp()
    session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [probs]), cpu())
    session.prepareDevice()
    with pytest.raises(popart.popart_runtime_error, match="unexpected number of elements"):
        session.run(popart.PyStepIO({"x": np.zeros(shape, np.float32)}, session.initAnchorArrays()))


def test_wrong_type_and_missing_tensors_are_refused():
    builder, probs, _, _ = make_mlp()
    session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [probs]), cpu())
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    with pytest.raises(popart.popart_runtime_error, match="type discrepancy"):
        session.run(popart.PyStepIO({"x": np.zeros((BATCH, FEATURES), np.float16)}, anchors))
    with pytest.raises(popart.popart_runtime_error, match="No tensor 'x' provided"):
        session.run(popart.PyStepIO({}, anchors))


def test_callback_step_io_moves_one_batch_per_call():
    builder, probs, _, weights = make_mlp()
    session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(2, [probs]), cpu())
    session.prepareDevice()
    x, _ = data(2)
    out = [np.empty((BATCH, CLASSES), np.float32) for _ in range(2)]
    done = []
    batches, results = iter(x), iter(out)
    stepio = popart.PyStepIOCallback(
        lambda name, prefetch: next(batches),
        lambda name: done.append(name),
        lambda name: next(results),
        lambda name: done.append(name),
    )
    session.run(stepio)
    assert sorted(done) == sorted(["x", "x", probs, probs])
    for step in range(2):
        np.testing.assert_allclose(out[step], forward(x[step], weights)[1], rtol=1e-5, atol=1e-6)


def test_unknown_anchor_names_the_nearest_tensors():
    builder, _, _, _ = make_mlp()
    with pytest.raises(popart.popart_exception, match=r"Softmax:1.*Softmax:0"):
        popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, ["Softmax:1"]), cpu())


def test_state_errors():
    builder, probs, _, _ = make_mlp()
    with pytest.raises(popart.popart_exception, match="deviceInfo"):
        popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [probs]), None)
    session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [probs]), cpu())
    with pytest.raises(popart.popart_runtime_error, match="prepareDevice"):
        session.run(popart.PyStepIO({}, {}))


def test_options_not_supported_yet_are_refused_by_name():
    builder, probs, _, _ = make_mlp()
    options = popart.SessionOptions()
    options.customCodelets = ["codelet.cpp"]
    with pytest.raises(popart.popart_exception, match="SessionOptions::customCodelets is not supported yet"):
        popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [probs]), cpu(), userOptions=options)
