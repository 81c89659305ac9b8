"""Calls as PyTorch and ONNX Runtime have them: one typed error says what to write instead."""

import numpy as np
import popart
import pytest


def model():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2], "x")
    builder.addOutputTensor(builder.aiOnnx.relu([x], "y"))
    return builder.getModelProto()


def session():
    proto = model()
    anchors = popart.Builder(proto).getOutputTensorIds()
    return popart.InferenceSession(proto, popart.DataFlow(1, anchors), popart.DeviceManager().createCpuDevice())


FEEDS = {"x": np.ones(2, np.float32)}
CALLS = {
    "SGD": (lambda: popart.SGD(lr=0.1), r"SGD: got \(lr=0.1\), expected a dictionary .* popart.optim.SGD\(lr=0.1\)"),
    "SGD of parameters": (lambda: popart.SGD([1, 2], lr=0.1), r"SGD: got \(list, lr=0.1\), .*popart.optim.SGD\("),
    "SGD of nothing": (lambda: popart.SGD(), r"SGD: got \(\), expected a dictionary"),
    "Adam": (lambda: popart.Adam(lr=1e-3), r"Adam: got \(lr=0.001\).* popart.optim.Adam\(lr=0.001\), AdamW"),
    "Adam of a number": (lambda: popart.Adam(0.1), r"must be a dict .*popart.optim.Adam\(lr=0.1\)"),
    "Adaptive": (lambda: popart.Adaptive(alpha=0.9), r"Adaptive: got \(alpha=0.9\).* popart.optim.RMSprop\("),
    "ConstSGD": (lambda: popart.ConstSGD(lr=0.1), r"ConstSGD: got \(lr=0.1\), expected a learning rate"),
    "run of names and arrays": (lambda: session().run(["y"], FEEDS), r"run: got \(list, dict\), .*PyStepIO.*load\("),
    "run of arrays": (lambda: session().run(None, FEEDS), r"run: got \(None, dict\), expected a StepIO"),
    "run of named arrays": (lambda: session().run(feeds=FEEDS), r"run: got \(feeds=dict\), expected a StepIO"),
    "providers": (
        lambda: popart.InferenceSession(model(), providers=["CPUExecutionProvider"]),
        r"InferenceSession: there is no argument 'providers': give deviceInfo=.*popart.load\(path\)",
    ),
    "sess_options": (
        lambda: popart.TrainingSession(model(), sess_options=None),
        r"TrainingSession: there is no argument 'sess_options': give userOptions=",
    ),
    "a keyword nearly right": (
        lambda: popart.InferenceSession(model(), dataflow=None), r"no argument 'dataflow'. Nearest names: dataFlow"
    ),
    "load": (lambda: popart.load(model(), providers=["CPU"]), r"load: there is no argument 'providers': give device"),
    "learning rate": (
        lambda: popart.Trainer(model(), "mse", popart.optim.SGD(), lr=0.1),
        r"Trainer: there is no argument 'lr': give optimizer=popart.optim.AdamW\(lr=...\)",
    ),
    "optimizer by name": (
        lambda: popart.Trainer(model(), "mse", "adam"), r"Trainer: optimizer: got 'adam', expected .*popart.optim"
    ),
    "validation_data": (
        lambda: popart.Trainer(model(), "mse", popart.optim.SGD()).fit([], validation_data=[]),
        r"Trainer.fit: there is no argument 'validation_data': give validate",
    ),
    "epoch": (
        lambda: popart.Trainer(model(), "mse", popart.optim.SGD()).fit([], epoch=1),
        r"Trainer.fit: there is no argument 'epoch'. Nearest names: epochs",
    ),
    "a file alone": (lambda: popart.InferenceSession(model()), r"dataFlow is missing: .*popart.load\(path\)"),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_the_error_says_what_to_write(name):
    call, text = CALLS[name]
    with pytest.raises(TypeError, match=text) as said:
        call()
    assert "incompatible function arguments" not in str(said.value)


@pytest.mark.parametrize("name", ["AdamW", "RMSprop", "Lamb"])
def test_optimizers_of_pytorch_are_said_to_be_in_optim(name):
    with pytest.raises(AttributeError, match=f"no attribute '{name}': write popart.optim.{name}$"):
        getattr(popart, name)


def test_losses_are_said_to_be_in_losses():
    with pytest.raises(AttributeError, match=r"write popart.losses.cross_entropy$"):
        popart.cross_entropy  # noqa: B018


def test_calls_that_fit_are_as_before():
    assert popart.ConstSGD(1).learningRates().getDefault().val() == 1
    popart.SGD({"defaultLearningRate": (0.1, False)}, [popart.ClipNormSettings.clipAllWeights(1)])
    popart.Adam({"defaultLearningRate": (1, True)}, popart.AdamMode.Lamb, debugContext="lamb")
    made = session()
    made.prepareDevice()
    anchors = made.initAnchorArrays()
    made.run(popart.PyStepIO(FEEDS, anchors), "name")
    np.testing.assert_array_equal(next(iter(anchors.values())), [1, 1])


@pytest.mark.parametrize("how", ["whole", "one by one"])
def test_engine_options_take_numbers(how):
    options = popart.SessionOptions()
    if how == "whole":
        options.engineOptions = {"num_threads": 2, "autoReport.all": True}
    else:
        options.engineOptions["num_threads"] = 2
        options.engineOptions["autoReport.all"] = True
    assert dict(options.engineOptions) == {"num_threads": "2", "autoReport.all": "true"}
