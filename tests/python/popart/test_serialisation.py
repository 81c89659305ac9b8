"""Serialised matrix products: the numbers of the plain program, PyTorch's numbers, and less memory."""

import re

import numpy as np
import popart
import pytest
import torch

from tests.python.popart.training_runs import inference_session, training_session, types_of

ROWS, INNER, COLUMNS, STEPS = 6, 16, 24, 4
MODES = {"input_channels": 3, "output_channels": 4, "reducing_dim": 4}
OPTIMIZERS = {
    "sgd": popart.SGD({"defaultLearningRate": (0.1, False), "defaultWeightDecay": (0.01, False)}),
    "momentum": popart.SGD({"defaultLearningRate": (0.1, False), "defaultMomentum": (0.9, False)}),
    "separate momentum": popart.SGD(
        {"defaultLearningRate": (0.1, False), "defaultMomentum": (0.9, False)},
        accumulatorAndMomentum=popart.SGDAccumulatorAndMomentum.Separate,
    ),
    "clipped": popart.SGD(
        {"defaultLearningRate": (0.1, False)}, clip_norm_settings=[popart.ClipNormSettings.clipAllWeights(0.05)]
    ),
    "adam": popart.Adam({"defaultLearningRate": (0.01, False)}),
    "lamb": popart.Adam({"defaultLearningRate": (0.01, False)}, mode=popart.AdamMode.Lamb),
    "rmsprop": popart.Adaptive({"defaultLearningRate": (0.01, False)}, mode=popart.AdaptiveMode.RMSProp),
}


def values(*shape, seed=0):
    return (np.random.default_rng(seed).standard_normal(shape) / 4).astype(np.float32)


class Program:
    """x·w with a bias, tanh and a loss; the product marked or not."""

    def __init__(self, mode="none", factor=1, optimizer=None, dtype=np.float32, keep=False, groups=0, **options):
        self.dtype = dtype
        shape = [groups, ROWS, INNER] if groups else [ROWS, INNER]
        weights = values(*([groups] if groups else []), INNER, COLUMNS, seed=1).astype(dtype)
        builder = popart.Builder()
        self.x = builder.addInputTensor(popart.TensorInfo("FLOAT16" if dtype == np.float16 else "FLOAT", shape), "x")
        w = builder.addInitializedInputTensor(weights, "w")
        b = builder.addInitializedInputTensor(values(COLUMNS, seed=2).astype(dtype), "b")
        self.product = builder.aiOnnx.matmul([self.x, w])
        if mode != "none" or factor != 1:
            builder.setSerializeMatMul({self.product}, mode, factor, keep)
        y = builder.aiOnnx.tanh([builder.aiOnnx.add([self.product, b])])
        self.loss = builder.aiGraphcore.l1loss([y], 0.3)
        self.options = popart.SessionOptions()
        self.options.enableOutlining = False  # repeated parts are counted below
        for name, value in options.items():
            setattr(self.options, name, value)
        self.batches = options.get("accumulationFactor", 1) * options.get("replicatedGraphCount", 1)
        anchor = self.loss if optimizer else self.product
        common = {
            "fnModel": builder.getModelProto(),
            "dataFlow": popart.DataFlow(1, {anchor: popart.AnchorReturnType("ALL")}),
            "deviceInfo": popart.DeviceManager().createCpuDevice(),
            "userOptions": self.options,
        }
        self.trains = optimizer is not None
        if optimizer:
            self.session = popart.TrainingSession(loss=self.loss, optimizer=optimizer, **common)
        else:
            self.session = popart.InferenceSession(**common)
        self.session.prepareDevice()
        self.session.weightsFromHost()
        self.anchors = self.session.initAnchorArrays()
        self.shape = ([self.batches] if self.batches > 1 else []) + shape

    def run(self, steps=STEPS):
        """Anchors of all steps, then the weights."""
        results = []
        for step in range(steps):
            x = values(*self.shape, seed=10 + step).astype(self.dtype)
            self.session.run(popart.PyStepIO({self.x: x}, self.anchors))
            results.append(np.array(next(iter(self.anchors.values())), np.float64))
        if self.trains:
            self.session.weightsToHost()
            for name in ("w", "b"):
                info = self.session.getInfo(name)
                array = np.zeros(info.shape(), self.dtype)
                self.session.readWeights(popart.PyWeightsIO({name: array}))
                results.append(array.astype(np.float64))
        return results

    def ops(self):
        return types_of(self.session)

    def arena(self):
        return int(re.search(r"activations: (\d+)", self.session.getSummaryReport())[1])


def assert_close(ours, plain, bound=2e-6):
    for a, b in zip(ours, plain, strict=True):
        np.testing.assert_allclose(a, b, rtol=bound, atol=bound)


@pytest.mark.parametrize("groups", [0, 2], ids=["rank 2", "rank 3"])
@pytest.mark.parametrize("mode", MODES)
def test_inference(mode, groups):
    plain, cut = Program(groups=groups), Program(mode, MODES[mode], groups=groups)
    assert cut.ops().count("MatMul") == MODES[mode] and plain.ops().count("MatMul") == 1
    for ours, expected in zip(cut.run(1), plain.run(1), strict=True):
        if mode == "reducing_dim":  # the sum over 16 products is taken in four parts
            np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-6)
        else:
            np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("mode", MODES)
def test_training_gives_the_numbers_of_the_plain_program(mode, name):
    plain = Program(optimizer=OPTIMIZERS[name])
    cut = Program(mode, MODES[mode], OPTIMIZERS[name])
    assert_close(cut.run(), plain.run())


@pytest.mark.parametrize("name", ["sgd", "momentum", "adam"])
def test_updates_of_parts_are_not_ambiguous(name):
    cut = Program("output_channels", 4, OPTIMIZERS[name], enableInplaceAmbiguityChecking=True)
    assert_close(cut.run(), Program(optimizer=OPTIMIZERS[name]).run())


def test_outlining_leaves_the_bits_of_parts():
    programs = (Program("output_channels", 4, OPTIMIZERS["adam"], enableOutlining=on) for on in (True, False))
    for ours, expected in zip(*(program.run() for program in programs), strict=True):
        np.testing.assert_array_equal(ours, expected)


def test_training_gives_the_numbers_of_pytorch():
    w = torch.tensor(values(INNER, COLUMNS, seed=1), requires_grad=True)
    b = torch.tensor(values(COLUMNS, seed=2), requires_grad=True)
    optimizer = torch.optim.Adam([w, b], lr=0.01, eps=1e-6)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = 0.3 * torch.tanh(torch.tensor(values(ROWS, INNER, seed=10 + step)) @ w + b).abs().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    ours = Program("output_channels", 4, popart.Adam({"defaultLearningRate": (0.01, False)})).run()
    np.testing.assert_allclose(ours[:STEPS], losses, rtol=1e-5)
    np.testing.assert_allclose(ours[STEPS], w.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["sgd", "momentum", "separate momentum", "adam"])
@pytest.mark.parametrize("mode", ["output_channels", "reducing_dim"])
def test_gradient_accumulation(mode, name):
    accumulating = {"enableGradientAccumulation": True, "accumulationFactor": 3}
    plain = Program(optimizer=OPTIMIZERS[name], **accumulating)
    cut = Program(mode, MODES[mode], OPTIMIZERS[name], **accumulating)
    assert_close(cut.run(), plain.run())


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_replicas_reduce_gradients_part_by_part(name):
    replicated = {"enableReplicatedGraphs": True, "replicatedGraphCount": 2}
    plain = Program(optimizer=OPTIMIZERS[name], **replicated)
    cut = Program("output_channels", 4, OPTIMIZERS[name], **replicated)
    assert cut.ops().count("ReplicatedAllReduce") == plain.ops().count("ReplicatedAllReduce") + 3
    assert_close(cut.run(), plain.run())


@pytest.mark.parametrize("name", ["sgd", "momentum", "adam", "rmsprop"])
def test_the_optimizer_step_is_serialised_too(name):
    """Each part of the weight is updated by itself, from its own part of the gradient."""
    plain, cut = (Program(*cut, OPTIMIZERS[name]).ops() for cut in [("none", 1), ("output_channels", 4)])
    updates = [op for op in set(plain) if op.endswith("VarUpdate")]
    assert updates
    for update in updates:
        assert cut.count(update) == plain.count(update) + 3, update
    assert cut.count("MatMulRhsGrad") == plain.count("MatMulRhsGrad") + 3


def test_half_precision_sums():
    """keep_precision adds parts in FLOAT: the one rounding of the plain product."""
    plain, rounded = (Program(*cut, dtype=np.float16).run(1)[0] for cut in [(), ("reducing_dim", 8)])
    kept = Program("reducing_dim", 8, dtype=np.float16, keep=True)
    assert "Cast" in kept.ops()
    x, w = (
        a.astype(np.float16).astype(np.float64) for a in (values(ROWS, INNER, seed=10), values(INNER, COLUMNS, seed=1))
    )
    exact = x @ w
    error = [np.abs(result - exact).max() for result in (plain, kept.run(1)[0], rounded)]
    assert error[1] <= error[0] * 1.01 and error[1] <= error[2]


@pytest.mark.parametrize("mode", MODES)
def test_half_precision_training(mode):
    sgd = popart.SGD({"defaultLearningRate": (0.05, False)})
    plain = Program(optimizer=sgd, dtype=np.float16).run()
    cut = Program(mode, MODES[mode], sgd, np.float16, True).run()
    assert_close(cut, plain, 4e-3)


def vocabulary(mode, factor, dtype, optimizer, **options):
    """Arena of training a projection to a vocabulary."""
    name = "FLOAT16" if dtype == np.float16 else "FLOAT"
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo(name, [16, 128]), "x")
    w = builder.addInitializedInputTensor(values(128, 4096, seed=1).astype(dtype), "w")
    hidden = builder.aiOnnx.matmul([x, builder.addInitializedInputTensor(values(128, 128).astype(dtype), "v")])
    scores = builder.aiOnnx.matmul([hidden, w])
    if factor > 1:
        builder.setSerializeMatMul({scores}, mode, factor)
    labels = builder.addInputTensor("INT32", [16], "labels")
    loss = builder.aiGraphcore.nllloss([builder.aiOnnx.softmax([scores]), labels])
    user = popart.SessionOptions()
    for option, value in options.items():
        setattr(user, option, value)
    session = training_session(builder.getModelProto(), loss, optimizer, user, {loss: popart.AnchorReturnType("ALL")})
    session.prepareDevice()
    return int(re.search(r"activations: (\d+)", session.getSummaryReport())[1])


def test_memory_of_a_vocabulary_projection_falls():
    sgd = popart.SGD({"defaultLearningRate": (0.1, True)})
    weight = 128 * 4096 * 4  # bytes of the weight or its gradient in FLOAT
    replicas = {"enableReplicatedGraphs": True, "replicatedGraphCount": 2}
    whole, parts = (vocabulary("output_channels", f, np.float32, sgd, **replicas) for f in (1, 8))
    assert parts <= whole - weight // 2, (whole, parts)
    # On one replica the gradient is never stored: only the part that is read is added.
    for dtype in (np.float16, np.float32):
        whole, parts = (vocabulary("output_channels", f, dtype, sgd) for f in (1, 8))
        assert parts <= whole + 2 * weight // 8, (dtype, whole, parts)


def refused(mode="output_channels", factor=2, left=(4, 6), right=(6, 8), **options):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", list(left), "x")
    y = builder.aiOnnx.matmul([x, builder.addInitializedInputTensor(values(*right), "w")])
    builder.setSerializeMatMul({y}, mode, factor)
    user = popart.SessionOptions()
    for option, value in options.items():
        setattr(user, option, value)
    inference_session(builder.getModelProto(), [y], user)


@pytest.mark.parametrize("mode, size", [("input_channels", 4), ("output_channels", 8), ("reducing_dim", 6)])
def test_a_factor_must_divide_the_dimension(mode, size):
    with pytest.raises(popart.popart_exception, match=rf"factor 5 does not divide .* of size {size}"):
        refused(mode, 5)
    refused(mode, 1)


def test_other_refusals():
    with pytest.raises(popart.popart_exception, match="factor must be 1 or more"):
        refused(factor=0)
    with pytest.raises(popart.popart_exception, match=r"rank 2 or both rank 3: got shapes \[2, 4, 6\] and \[6, 8\]"):
        refused(left=(2, 4, 6))
    with pytest.raises(popart.popart_exception, match="unknown mode: got 'rows'"):
        refused("rows")
    refused("none", 5)
