"""Gradient accumulation: one weight update per N micro-batches, against torch and against large batches."""

import numpy as np
import popart
import pytest
import torch

from tests.python.popart.training_runs import options_with, ready, training_session

RNG = np.random.default_rng(21)
WEIGHTS = RNG.normal(size=(6, 4)).astype(np.float32)
BIAS = RNG.normal(size=(4,)).astype(np.float32)
STEPS, FACTOR, RUNS = 2, 3, 2
DATA = RNG.normal(size=(RUNS, STEPS, FACTOR, 5, 6)).astype(np.float32)
Sum, Mean = popart.ReductionType.Sum, popart.ReductionType.Mean
Post, Running = popart.MeanReductionStrategy.Post, popart.MeanReductionStrategy.Running


def model():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [5, 6], "x")
    w = builder.addInitializedInputTensor(WEIGHTS, "w")
    b = builder.addInitializedInputTensor(BIAS, "b")
    y = builder.aiOnnx.tanh([builder.aiOnnx.add([builder.aiOnnx.matmul([x, w]), b])], "y")
    loss = builder.aiGraphcore.l1loss([y], 0.5, reduction=Sum, debugContext="loss")
    return builder.getModelProto(), y, loss


def session_for(optimizer, anchors, reduction=Sum, strategy=Post, factor=FACTOR):
    proto, y, loss = model()
    options = options_with(
        factor,
        accumulationAndReplicationReductionType=reduction,
        meanAccumulationAndReplicationReductionStrategy=strategy,
        enableGradientAccumulation=True,
    )
    return ready(training_session(proto, loss, optimizer, options, anchors(y, loss), STEPS)), y, loss


def weights_of(session):
    session.weightsToHost()
    arrays = {"w": np.empty((6, 4), np.float32), "b": np.empty((4,), np.float32)}
    session.readWeights(popart.PyWeightsIO(arrays))
    return arrays


def torch_module():
    w, b = torch.tensor(WEIGHTS, requires_grad=True), torch.tensor(BIAS, requires_grad=True)
    return w, b


CASES = {
    "sgd": (
        lambda: popart.SGD({"defaultLearningRate": (0.05, False), "defaultWeightDecay": (0.1, False)}),
        lambda p: torch.optim.SGD(p, 0.05, weight_decay=0.1),
    ),
    "momentum": (
        lambda: popart.SGD({"defaultLearningRate": (0.05, False), "defaultMomentum": (0.9, True)}),
        lambda p: torch.optim.SGD(p, 0.05, momentum=0.9),
    ),
    "separate": (
        lambda: popart.SGD(
            {"defaultLearningRate": (0.05, False), "defaultMomentum": (0.9, True)},
            accumulatorAndMomentum=popart.SGDAccumulatorAndMomentum.Separate,
        ),
        lambda p: torch.optim.SGD(p, 0.05, momentum=0.9),
    ),
    "nesterov": (
        lambda: popart.SGD(
            {
                "defaultLearningRate": (0.05, False),
                "defaultMomentum": (0.9, True),
                "defaultWeightDecay": (0.02, False),
                "defaultVelocityScaling": (2.0, True),
                "lossScaling": (4.0, False),
                "nesterov": (True, True),
            }
        ),
        lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, weight_decay=0.02, nesterov=True),
    ),
    "nesterov_separate": (
        lambda: popart.SGD(
            {"defaultLearningRate": (0.05, True), "defaultMomentum": (0.9, False), "nesterov": (True, True)},
            accumulatorAndMomentum=popart.SGDAccumulatorAndMomentum.Separate,
        ),
        lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, nesterov=True),
    ),
    "adam": (
        lambda: popart.Adam({"defaultLearningRate": (0.01, False), "lossScaling": (8.0, False)}),
        lambda p: torch.optim.Adam(p, 0.01),
    ),
}


@pytest.mark.parametrize(("reduction", "strategy"), [(Sum, Post), (Mean, Post), (Mean, Running)])
@pytest.mark.parametrize("name", CASES)
def test_agrees_with_torch(name, reduction, strategy):
    make, make_torch = CASES[name]
    session, _y, loss = session_for(make(), lambda y, loss: [loss], reduction, strategy)
    w, b = torch_module()
    optimizer = make_torch([w, b])
    for run in range(RUNS):
        anchors = session.initAnchorArrays()
        assert anchors[loss].shape == (STEPS, FACTOR)
        session.run(popart.PyStepIO({"x": DATA[run]}, anchors))
        for step in range(STEPS):
            optimizer.zero_grad()
            for micro in range(FACTOR):
                value = 0.5 * torch.tanh(torch.tensor(DATA[run, step, micro]) @ w + b).abs().sum()
                np.testing.assert_allclose(anchors[loss][step, micro], value.item(), rtol=1e-4)
                (value / (FACTOR if reduction == Mean else 1)).backward()
            optimizer.step()
    result = weights_of(session)
    np.testing.assert_allclose(result["w"], w.detach().numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(result["b"], b.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_anchored_variable_has_its_value_after_the_update():
    session, _, _ = session_for(popart.ConstSGD(0.05), lambda y, loss: {"w": popart.AnchorReturnType("Final")})
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": DATA[0]}, anchors))
    np.testing.assert_array_equal(anchors["w"], weights_of(session)["w"])


def test_accumulator_is_state_and_empty_between_updates(tmp_path):
    session, _, _ = session_for(popart.ConstSGD(0.05), lambda y, loss: [loss])
    session.run(popart.PyStepIO({"x": DATA[0]}, session.initAnchorArrays()))
    session.weightsToHost()
    accumulator = np.full((6, 4), 7, np.float32)
    session.readWeights(popart.PyWeightsIO({"Accum___w": accumulator}))
    np.testing.assert_array_equal(accumulator, np.zeros((6, 4), np.float32))


def test_accumulators_are_stored_once():
    """The memory report: one accumulator for each weight, none of which is copied or kept beside another."""

    def variables(factor):
        session, _, _ = session_for(popart.ConstSGD(0.05), lambda y, loss: [loss], factor=factor)
        rows = dict(line.strip().split(": ") for line in session.getSummaryReport().splitlines() if ": " in line)
        return int(rows["variables"].split()[0]), int(rows["activations"].split()[0])

    plain, accumulating = variables(1), variables(FACTOR)
    assert accumulating[0] == 2 * plain[0]
    assert accumulating[1] - plain[1] <= 4 * 64  # scalars of one more loop


def test_factor_of_one_is_the_plain_program():
    session, _, loss = session_for(popart.ConstSGD(0.05), lambda y, loss: [loss], factor=1)
    anchors = session.initAnchorArrays()
    assert anchors[loss].shape == (STEPS,)
    session.run(popart.PyStepIO({"x": np.ascontiguousarray(DATA[0, :, 0])}, anchors))
    assert not np.array_equal(weights_of(session)["w"], WEIGHTS)


def test_random_numbers_differ_between_micro_batches():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [32], "x")
    w = builder.addInitializedInputTensor(np.ones(32, np.float32), "w")
    (y,) = builder.aiOnnx.dropout([builder.aiOnnx.mul([x, w])], 1, 0.5)
    loss = builder.aiGraphcore.identityloss([y], popart.ReductionType.Sum)
    options = popart.SessionOptions()
    options.enableGradientAccumulation = True
    options.accumulationFactor = 4
    session = ready(training_session(builder.getModelProto(), loss, popart.ConstSGD(0.1), options, [y]), seed=5)
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": np.ones((4, 32), np.float32)}, anchors))
    assert len({tuple(row != 0) for row in anchors[y]}) == 4
