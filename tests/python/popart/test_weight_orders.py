"""Weights between host arrays, the session's host values, the device and what was read back, in every order of calls.

The oracle is a model of the documented calls: `host` is what weightsFromHost sends, `device` what the program works on,
which readWeights gives. A run subtracts the gradient, which here is 1 in every element.
"""

import itertools

import numpy as np
import popart
import pytest

import onnx
from onnx import numpy_helper
from tests.python.popart.training_runs import ready, training_session

FIRST, WRITTEN, OTHER, RATE = 1.0, 20.0, 300.0, 0.5
CALLS = ("writeWeights", "weightsFromHost", "run", "weightsToHost", "modelToHost", "resetHostWeights")


def model(value):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2], "x")
    w = builder.addInitializedInputTensor(np.full(2, value, np.float32), "w")
    loss = builder.aiGraphcore.identityloss([builder.aiOnnx.mul([x, w])], popart.ReductionType.Sum)
    return builder.getModelProto(), loss


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("weights")
    (folder / "other.onnx").write_bytes(model(OTHER)[0])
    return folder


class Oracle:
    """What the documents say about two copies of one weight."""

    def __init__(self):
        self.host = self.device = FIRST
        self.sent = False

    def weightsFromHost(self):
        self.device, self.sent = self.host, True

    def weightsToHost(self):
        pass

    def modelToHost(self):
        self.host = self.device

    def writeWeights(self):
        self.host = WRITTEN

    def resetHostWeights(self):
        self.host, self.sent = OTHER, False

    def run(self):
        if not self.sent:
            return "refused"
        self.device -= RATE
        return None

    def readWeights(self):
        return self.device


def perform(session, call, files, arrays):
    if call == "writeWeights":
        session.writeWeights(popart.PyWeightsIO({"w": np.full(2, WRITTEN, np.float32)}))
    elif call == "run":
        session.run(popart.PyStepIO({"x": np.ones(2, np.float32)}, arrays))
    elif call == "modelToHost":
        session.modelToHost(str(files / "saved.onnx"))
    elif call == "resetHostWeights":
        session.resetHostWeights(str(files / "other.onnx"))
    else:
        getattr(session, call)()


@pytest.mark.parametrize("first", CALLS)
def test_every_order_of_four_calls(files, first):
    proto, loss = model(FIRST)
    optimizer = popart.SGD({"defaultLearningRate": (RATE, True)})
    session = training_session(proto, loss, optimizer)
    arrays = session.initAnchorArrays()
    for rest in itertools.product(CALLS, repeat=3):
        session = training_session(proto, loss, optimizer)
        session.prepareDevice()
        oracle = Oracle()
        for call in (first, *rest):
            if getattr(oracle, call)() == "refused":
                with pytest.raises(popart.popart_runtime_error, match="weightsFromHost"):
                    perform(session, call, files, arrays)
            else:
                perform(session, call, files, arrays)
            read = np.zeros(2, np.float32)
            session.readWeights(popart.PyWeightsIO({"w": read}))
            assert read.tolist() == [oracle.readWeights()] * 2, (first, *rest, call)
            if call == "modelToHost":
                (saved,) = onnx.load(files / "saved.onnx").graph.initializer
                assert numpy_helper.to_array(saved).tolist() == [oracle.device] * 2, (first, *rest)


def test_training_goes_on_from_the_saved_values(tmp_path):
    """Optimizer state comes back as well: a step, a save, weightsFromHost and a step are two steps."""
    losses = {}
    for saves in (False, True):
        builder = popart.Builder()
        x = builder.addInputTensor("FLOAT", [4, 8], "x")
        w = builder.addInitializedInputTensor(np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4), "w")
        loss = builder.aiGraphcore.l1loss([builder.aiOnnx.tanh([builder.aiOnnx.matmul([x, w])])], 0.1)
        session = ready(
            training_session(builder.getModelProto(), loss, popart.Adam({"defaultLearningRate": (0.05, True)}))
        )
        anchors = session.initAnchorArrays()
        data = np.random.default_rng(3).standard_normal((4, 8)).astype(np.float32)
        losses[saves] = []
        for step in range(4):
            session.run(popart.PyStepIO({"x": data}, anchors))
            losses[saves].append(float(anchors[loss]))
            if saves and step % 2 == 0:
                session.modelToHost(str(tmp_path / f"step{step}.onnx"))
                session.weightsFromHost()
    assert losses[False] == losses[True]


@pytest.mark.parametrize("order", ["w first", "w last"])
def test_read_only_arrays_are_refused_before_anything_is_copied(order):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2], "x")
    names = {"w": np.ones(2, np.float32), "a" if order == "w last" else "z": np.ones(2, np.float32)}
    ids = [builder.addInitializedInputTensor(value, name) for name, value in names.items()]
    loss = builder.aiGraphcore.identityloss([builder.aiOnnx.mul([x, builder.aiOnnx.add(ids)])])
    session = training_session(builder.getModelProto(), loss, popart.ConstSGD(0.1))
    session.prepareDevice()
    session.weightsToHost()
    arrays = {name: np.full(2, 7.0, np.float32) for name in names}
    arrays["w"].setflags(write=False)
    with pytest.raises(popart.popart_runtime_error, match="readWeights 'w': the array is read-only"):
        session.readWeights(popart.PyWeightsIO(arrays))
    for array in arrays.values():
        np.testing.assert_array_equal(array, np.full(2, 7.0))
    session.writeWeights(popart.PyWeightsIO(arrays))  # reading from them is fine
