"""Outlining: repeated sequences become graphs that are called; numbers, memory and order of a run stay."""

import contextlib
import re
import time

import numpy as np
import popart
import pytest
import torch

from tests.python.popart.training_runs import graphs_of, inference_session, plain_type

LAYERS, WIDTH, ROWS, STEPS = 4, 8, 6, 4
OPTIMIZERS = {
    "sgd": popart.SGD({"defaultLearningRate": (0.1, False)}),
    "momentum": popart.SGD({"defaultLearningRate": (0.1, False), "defaultMomentum": (0.9, False)}),
    "adam": popart.Adam({"defaultLearningRate": (0.01, False)}),
}


def values(*shape, seed=0):
    return (np.random.default_rng(seed).standard_normal(shape) / 2).astype(np.float32)


class Program:
    """Equal layers, each with weights of its own; dropout on request."""

    def __init__(
        self, outlines, optimizer=None, threshold=1.0, dropout=False, layers=LAYERS, keep_apart=False, batches=1
    ):
        builder = popart.Builder()
        x = builder.addInputTensor("FLOAT", [ROWS, WIDTH], "x")
        y, self.masks = x, []
        for layer in range(layers):
            apart = builder.outlineAttributes({"layer": str(layer)}) if keep_apart else contextlib.nullcontext()
            with apart:
                w = builder.addInitializedInputTensor(values(WIDTH, WIDTH, seed=layer + 1), f"w{layer}")
                y = builder.aiOnnx.tanh([builder.aiOnnx.matmul([y, w])])
                if dropout:
                    y = builder.aiOnnx.dropout([y], 1, 0.5)[0]
                    self.masks.append(y)
        self.loss = builder.aiGraphcore.l1loss([y], 0.3)
        self.result = y
        options = popart.SessionOptions()
        options.enableOutlining = outlines
        options.outlineThreshold = threshold
        anchors = [self.loss, *self.masks] if optimizer else [y]
        common = {
            "fnModel": builder.getModelProto(),
            "dataFlow": popart.DataFlow(batches, {a: popart.AnchorReturnType("ALL") for a in anchors}),
            "deviceInfo": popart.DeviceManager().createCpuDevice(),
            "userOptions": options,
        }
        self.trains, self.layers, self.batches = optimizer is not None, layers, batches
        if optimizer:
            self.session = popart.TrainingSession(loss=self.loss, optimizer=optimizer, **common)
        else:
            self.session = popart.InferenceSession(**common)

    def graphs(self):
        """Operator types by graph."""
        graphs = graphs_of(self.session)
        return {name: [plain_type(op["type"]) for op in ops] for name, ops in graphs.items()}

    def run(self, steps=STEPS):
        self.session.prepareDevice()
        self.session.setRandomSeed(3)
        self.session.weightsFromHost()
        anchors = self.session.initAnchorArrays()
        results = []
        for step in range(steps):
            shape = ([self.batches] if self.batches > 1 else []) + [ROWS, WIDTH]
            self.session.run(popart.PyStepIO({"x": values(*shape, seed=20 + step)}, anchors))
            results += [np.array(a) for a in anchors.values()]
        if self.trains:
            weights = {f"w{i}": np.zeros((WIDTH, WIDTH), np.float32) for i in range(self.layers)}
            self.session.weightsToHost()
            self.session.readWeights(popart.PyWeightsIO(weights))
            results += weights.values()
        return results

    def memory(self):
        return re.findall(r"(activations|variables|constants|scratch): (\d+)", self.session.getSummaryReport())


def test_equal_layers_become_one_graph():
    program = Program(True)
    graphs = program.graphs()
    assert graphs.pop("maingraph") == ["Call"] * LAYERS
    assert list(graphs.values()) == [["MatMul", "Tanh"]]
    assert Program(False).graphs() == {"maingraph": ["MatMul", "Tanh"] * LAYERS}


@pytest.mark.parametrize("batches", [1, 2])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_has_the_bits_and_the_memory_of_the_plain_program(name, batches):
    outlined, plain = (Program(on, OPTIMIZERS[name], batches=batches) for on in (True, False))
    assert len(outlined.graphs()) > len(plain.graphs())
    for ours, expected in zip(outlined.run(), plain.run(), strict=True):
        np.testing.assert_array_equal(ours, expected)
    assert len(outlined.memory()) > 2 and outlined.memory() == plain.memory()


def test_training_has_the_numbers_of_pytorch():
    weights = [torch.tensor(values(WIDTH, WIDTH, seed=i + 1), requires_grad=True) for i in range(LAYERS)]
    optimizer = torch.optim.SGD(weights, lr=0.1, momentum=0.9)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        y = torch.tensor(values(ROWS, WIDTH, seed=20 + step))
        for w in weights:
            y = torch.tanh(y @ w)
        loss = 0.3 * y.abs().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    ours = Program(True, OPTIMIZERS["momentum"]).run()
    np.testing.assert_allclose(np.ravel(ours[:STEPS]), losses, rtol=1e-5)
    for w, array in zip(weights, ours[STEPS:], strict=True):
        np.testing.assert_allclose(array, w.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_each_call_draws_random_numbers_of_its_own():
    outlined, plain = (Program(on, OPTIMIZERS["sgd"], dropout=True) for on in (True, False))
    assert any("DropoutGrad" in ops for name, ops in outlined.graphs().items() if name != "maingraph")
    ours, expected = outlined.run(), plain.run()
    for a, b in zip(ours, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    masks = [a == 0 for a in ours[1 : 1 + LAYERS]]
    assert all((masks[i] != masks[j]).any() for i in range(LAYERS) for j in range(i))


@pytest.mark.parametrize(("threshold", "calls"), [(1.0, LAYERS), (1e6, 0), (-1.0, LAYERS)])
def test_threshold(threshold, calls):
    assert Program(True, threshold=threshold).graphs()["maingraph"].count("Call") == calls


def test_threshold_below_zero_takes_cheap_sequences():
    def calls(threshold):
        builder = popart.Builder()
        y = builder.addInputTensor("FLOAT", [4], "x")
        for _ in range(3):
            y = builder.aiOnnx.exp([builder.aiOnnx.neg([y])])
        options = popart.SessionOptions()
        options.outlineThreshold = threshold
        session = inference_session(builder.getModelProto(), [y], options)
        return session._serializeIr(popart.IrSerializationFormat.JSON).count('"Call"')

    assert calls(1.0) == 0 and calls(-1.0) == 3


def test_outline_attributes_keep_operations_apart():
    assert list(Program(True, keep_apart=True).graphs()) == ["maingraph"]


def test_time_grows_with_the_number_of_operations():
    def seconds(layers):
        begin = time.perf_counter()
        program = Program(True, layers=layers)
        assert program.graphs()["maingraph"].count("Call") == layers
        return time.perf_counter() - begin

    seconds(10)
    short = min(seconds(50) for _ in range(3))
    assert seconds(400) < 32 * short  # 64 times as long if it were quadratic


@pytest.mark.parametrize("optimizer", [None, OPTIMIZERS["sgd"]])
def test_programs_still_know_every_tensor_by_its_id(optimizer):
    plain, outlined = (Program(outlines, optimizer, layers=6).session for outlines in (False, True))
    known = "getTensorIds" if optimizer else "getAllTensorIds"
    ids = getattr(plain, known)()
    assert ids <= getattr(outlined, known)()
    for tensor in ids:
        assert outlined.getInfo(tensor) == plain.getInfo(tensor), tensor
    with pytest.raises(popart.popart_exception, match="no tensor"):
        outlined.getInfo("no such tensor")
