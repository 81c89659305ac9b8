"""Sessions of open shapes: a program for each set of input shapes, with the same weights (decisions/0062)."""

import io
import re
import warnings

import numpy as np
import onnxruntime
import popart
import pytest
import torch
from popart import backend
from torch import nn

import onnx


class Encoder(nn.Module):
    """Embedding, attention over a sequence and a mean over it."""

    def __init__(self):
        super().__init__()
        self.words, self.norm = nn.Embedding(50, 32), nn.LayerNorm(32)
        self.project, self.out = nn.Linear(32, 96), nn.Linear(32, 7)

    def forward(self, tokens):
        x = self.norm(self.words(tokens))
        batch, sequence = tokens.shape
        q, k, v = self.project(x).view(batch, sequence, 3, 4, 8).permute(2, 0, 3, 1, 4)
        y = (q @ k.transpose(-1, -2) * 8**-0.5).softmax(-1) @ v
        return self.out((x + y.transpose(1, 2).reshape(batch, sequence, 32)).mean(1))


class Convolutions(nn.Module):
    """Batch, height and width are open."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.Conv2d(16, 8, 3, padding=1)

    def forward(self, images):
        return nn.functional.interpolate(self.second(self.first(images).relu()), scale_factor=2.0).mean((2, 3))


def exported(module, example, names, dynamo):
    """ONNX bytes of `module`, whose only input has open dimensions `names`."""
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if dynamo:
            pytest.importorskip("onnxscript")
            shapes = ({i: torch.export.Dim.DYNAMIC for i in names},)
            program = torch.onnx.export(
                module.eval(), (example,), dynamo=True, dynamic_shapes=shapes, input_names=["x"], output_names=["y"]
            )
            return program.model_proto.SerializeToString()
        axes = {"x": names, "y": {0: names[0]}}
        torch.onnx.export(
            module.eval(), (example,), out, dynamo=False, dynamic_axes=axes, input_names=["x"], output_names=["y"]
        )
    return out.getvalue()


def options(programs=8, **others):
    result = popart.SessionOptions()
    result.engineOptions["max_shape_programs"] = str(programs)
    for name, value in others.items():
        setattr(result, name, value)
    return result


def cpu():
    return popart.DeviceManager().createCpuDevice()


def inference(model, anchors=("y",), steps=1, **keywords):
    keywords.setdefault("userOptions", options())
    session = popart.InferenceSession(model, popart.DataFlow(steps, list(anchors)), cpu(), **keywords)
    session.prepareDevice()
    return session


def step(session, feeds):
    session.setInputShapes(feeds)
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO(feeds, anchors))
    return anchors


CASES = {
    "encoder": (
        Encoder,
        lambda b, s: torch.randint(0, 50, (b, s), generator=torch.Generator().manual_seed(b * s)),
        {0: "batch", 1: "sequence"},
        [(2, 5), (1, 9), (4, 5), (2, 5), (3, 17)],
    ),
    "convolutions": (
        Convolutions,
        lambda b, h, w: torch.randn(b, 3, h, w, generator=torch.Generator().manual_seed(b)),
        {0: "batch", 2: "height", 3: "width"},
        [(2, 8, 8), (1, 16, 12), (5, 8, 8), (2, 8, 8)],
    ),
}


@pytest.mark.parametrize("dynamo", [False, True], ids=["torchscript", "dynamo"])
@pytest.mark.parametrize("name", CASES)
def test_exported_models_run_at_every_shape(name, dynamo):
    torch.manual_seed(3)
    make, example, names, shapes = CASES[name]
    model = exported(make(), example(*shapes[0]), names, dynamo)
    oracle = onnxruntime.InferenceSession(model)
    session, rep = inference(model), backend.prepare(onnx.load_from_string(model))
    assert session.hasOpenShapes()
    for shape in shapes:
        x = example(*shape).numpy()
        expected = oracle.run(None, {"x": x})[0]
        np.testing.assert_allclose(step(session, {"x": x})["y"], expected, rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(rep.run([x])[0], expected, rtol=2e-5, atol=2e-5)


def builder_model(shape=("batch", 6), seed=1):
    """``y = x w`` and its loss, with open dimensions."""
    rng = np.random.default_rng(seed)
    weight = rng.normal(size=(6, 4)).astype(np.float32)
    node = onnx.helper.make_node
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [
            node("MatMul", ["x", "w"], ["y"]),
            node("Sub", ["y", "t"], ["d"]),
            node("Mul", ["d", "d"], ["q"]),
            node("ReduceMean", ["q"], ["loss"], axes=[0, 1], keepdims=0),
        ],
        "line",
        [value("x", 1, shape), value("t", 1, [shape[0], 4])],
        [value("loss", 1, [])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)]).SerializeToString(), weight


def training(model, optimizer, steps=1, **others):
    session = popart.TrainingSession(
        model, popart.DataFlow(steps, ["loss"]), "loss", optimizer, cpu(), userOptions=options(**others)
    )
    session.prepareDevice()
    session.weightsFromHost()
    return session


def batch(size, seed, *leading):
    rng = np.random.default_rng(seed)
    shapes = {"x": (*leading, size, 6), "t": (*leading, size, 4)}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def popart_adam(rate):
    return popart.Adam({"defaultLearningRate": (rate, False), "defaultWeightDecay": (0.0, True)})


RULES = {
    "momentum": (
        lambda rate: popart.SGD({"defaultLearningRate": (rate, False), "defaultMomentum": (0.9, True)}),
        lambda w, rate: torch.optim.SGD(w, rate, momentum=0.9),
    ),
    "adam": (popart_adam, lambda w, rate: torch.optim.Adam(w, rate)),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("programs", [1, 3])
def test_training_goes_on_over_shapes(rule, programs, tmp_path):
    model, start = builder_model()
    ours, theirs = RULES[rule]
    session = training(model, ours(0.05), programs=programs)
    weight = torch.tensor(start, requires_grad=True)
    optimizer = theirs([weight], 0.05)
    for i, size in enumerate([8, 3, 8, 20, 1, 3, 8]):
        if i == 4:  # values that change reach the program in use and those after it
            session.updateOptimizerFromHost(ours(0.01))
            optimizer.param_groups[0]["lr"] = 0.01
        feeds = batch(size, i)
        loss = ((torch.tensor(feeds["x"]) @ weight - torch.tensor(feeds["t"])) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        np.testing.assert_allclose(step(session, feeds)["loss"], loss.item(), rtol=1e-5)
    session.modelToHost(str(tmp_path / "trained.onnx"))
    trained = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(tmp_path / "trained.onnx").graph.initializer}
    np.testing.assert_allclose(trained["w"], weight.detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("change", [{}, {"enableGradientAccumulation": True, "accumulationFactor": 2}])
def test_shapes_of_steps_of_several_batches(change):
    """The arrays of a step hold several micro-batches, in dimensions of their own or one behind the other."""
    model, start = builder_model()
    factor = change.get("accumulationFactor", 1)
    session = training(model, popart.SGD({"defaultLearningRate": (0.1, True)}), steps=3, **change)
    weight = torch.tensor(start, requires_grad=True)
    for i, (size, joined) in enumerate([(5, False), (2, True), (5, True)]):
        feeds = batch(size, i, 3, factor)
        losses = []
        for s in range(3):
            total = 0
            for m in range(factor):
                x, t = (torch.tensor(feeds[name][s, m]) for name in ("x", "t"))
                losses.append(((x @ weight - t) ** 2).mean())
                total = total + losses[-1]
            (gradient,) = torch.autograd.grad(total, weight)
            weight = (weight - 0.1 * gradient).detach().requires_grad_()
        if joined:
            feeds = {name: array.reshape(-1, array.shape[-1]) for name, array in feeds.items()}
        anchors = {"loss": np.zeros((3, factor), np.float32)}
        session.run(popart.PyStepIO(feeds, anchors))
        np.testing.assert_allclose(anchors["loss"].ravel(), [loss.item() for loss in losses], rtol=1e-5)


def test_replicas_of_open_shapes():
    model, _ = builder_model()
    change = {"enableReplicatedGraphs": True, "replicatedGraphCount": 2}
    session = training(model, popart_adam(0.1), **change)
    plain = training(model, popart_adam(0.1))
    for i, size in enumerate([4, 2, 4]):
        feeds = batch(size, i, 2)
        anchors = {"loss": np.zeros(2, np.float32)}
        session.run(popart.PyStepIO(feeds, anchors))
        joined = {name: array.reshape(-1, array.shape[-1]) for name, array in feeds.items()}
        # the sum of two means is twice the mean, which Adam does not see
        np.testing.assert_allclose(anchors["loss"].mean(), step(plain, joined)["loss"], rtol=1e-5)


def test_so_many_programs_are_kept(capfd):
    logger = popart.getLogger("session")
    logger.setLevel("INFO")
    try:
        session = inference(builder_model()[0], userOptions=options(2))

        def compiled(size):
            capfd.readouterr()
            step(session, batch(size, 0))
            return re.search(r"compiled \d+ steps", capfd.readouterr().err) is not None

        assert [compiled(size) for size in (3, 4, 3, 4, 5, 4, 3, 5)] == [
            True, True, False, False, True, False, True, True,
        ]  # fmt: skip
    finally:
        logger.setLevel("WARN")


def test_weights_of_the_host_go_with_the_session():
    model, start = builder_model()
    session = inference(model, userOptions=options(constantWeights=False))
    step(session, batch(3, 0))
    session.writeWeights(popart.PyWeightsIO({"w": start * 2}))
    session.weightsFromHost()
    for size in (5, 3):
        feeds = batch(size, 1)
        np.testing.assert_allclose(step(session, feeds)["y"], feeds["x"] @ (start * 2), rtol=1e-5, atol=1e-5)
    held = {"w": np.zeros_like(start)}
    session.weightsToHost()
    session.readWeights(popart.PyWeightsIO(held))
    np.testing.assert_array_equal(held["w"], start * 2)


def test_shapes_that_do_not_fit_leave_the_session_as_it_was():
    model, start = builder_model()
    session = inference(model)
    feeds = batch(3, 0)
    step(session, feeds)
    with pytest.raises(popart.popart_exception, match="dimension 1 to 6"):
        session.setInputShapes({"x": (3, 7), "t": (3, 4)})
    with pytest.raises(popart.popart_exception, match="'batch' two values"):
        session.setInputShapes({"x": (3, 6), "t": (4, 4)})
    with pytest.raises(popart.popart_exception, match=r"wrong number of dimensions.*\[batch, 6\]"):
        session.setInputShapes({"x": (3,)})
    with pytest.raises(popart.popart_exception, match=r"input 'x' is missing.*\[batch, 6\]"):
        session.setInputShapes({})
    with pytest.raises(popart.popart_exception, match="does not say"):
        session.run(popart.PyStepIO({**feeds, "x": np.zeros((1, 3, 6, 2), np.float32)}, session.initAnchorArrays()))
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO(feeds, anchors))
    np.testing.assert_allclose(anchors["y"], feeds["x"] @ start, rtol=1e-5, atol=1e-5)


GIVEN = {
    "numpy": lambda shape: np.zeros(shape, np.float32),
    "torch": torch.zeros,
    "bfloat16": lambda shape: torch.zeros(shape, dtype=torch.bfloat16),  # the model's own type counts
    "gradient": lambda shape: torch.zeros(shape, requires_grad=True),
    "size": torch.Size,
    "integers": lambda shape: [np.int64(size) for size in shape],
}


@pytest.mark.parametrize("given", GIVEN)
def test_shapes_of_arrays_of_any_library(given):
    session = inference(builder_model()[0])
    session.setInputShapes({"x": GIVEN[given]((9, 6)), "t": GIVEN[given]((9, 4))})
    assert session.getInfo("y").shape() == [9, 4]
    with pytest.raises(TypeError, match="setInputShapes 'x': the shape has sizes that are not integers"):
        session.setInputShapes({"x": [9.0, 6]})


def test_before_the_first_shapes():
    session = inference(builder_model()[0])
    for call in (session.initAnchorArrays, session.getIr, session.weightsToHost, session.getSummaryReport):
        with pytest.raises(popart.popart_runtime_error, match="setInputShapes"):
            call()
    session.setInputShapes({"x": (9, 6)})  # the name `batch` says the shape of the other input
    assert session.getInfo("y").shape() == [9, 4]


def test_callbacks_need_their_shapes_before():
    session, feeds = inference(builder_model()[0]), batch(3, 0)
    out = {"y": np.zeros((3, 4), np.float32)}
    io = popart.PyStepIOCallback(lambda n, _: feeds[n], lambda _: None, lambda n: out[n], lambda _: None)
    with pytest.raises(popart.popart_exception, match="setInputShapes"):
        session.run(io)
    session.setInputShapes(feeds)
    session.run(io)
    assert np.any(out["y"])


def test_input_shape_info_fixes_what_it_names():
    model, start = builder_model(("batch", "width"))
    shapes = popart.InputShapeInfo()
    shapes.add("x", popart.TensorInfo("FLOAT", [3, 6]))
    session = inference(model, inputShapeInfo=shapes)
    assert not session.hasOpenShapes()  # `t` has no other open dimension
    feeds = batch(3, 0)
    np.testing.assert_allclose(step(session, feeds)["y"], feeds["x"] @ start, rtol=1e-5, atol=1e-5)


def test_the_option_is_a_number():
    with pytest.raises(popart.popart_exception, match="max_shape_programs"):
        inference(builder_model()[0], userOptions=options("0"))


def test_random_numbers_go_on_over_shapes():
    """The seed moves on with every run, whichever program it is."""
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("RandomUniformLike", ["x"], ["y"])],
        "noise",
        [value("x", 1, ["n"])],
        [value("y", 1, None)],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)]).SerializeToString()
    seen = []
    for sizes in ([8, 8, 8], [8, 3, 8]):
        session = inference(model)
        session.setInputShapes({"x": (8,)})
        session.setRandomSeed(7)
        seen.append([step(session, {"x": np.zeros(size, np.float32)})["y"] for size in sizes])
    np.testing.assert_array_equal(seen[0][0], seen[1][0])
    assert not np.array_equal(seen[1][0], seen[1][2])
    np.testing.assert_array_equal(seen[0][2], seen[1][2])
