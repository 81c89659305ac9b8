"""Replicated graphs in one process: data parallel training against torch, data per replica, weights by group."""

import numpy as np
import popart
import pytest
import torch
from popart.ir.ops.collectives import CollectiveOperator

import onnx
from tests.python.popart.test_accumulation import (
    BIAS,
    CASES,
    WEIGHTS,
    Mean,
    Post,
    Running,
    Sum,
    model,
    torch_module,
    weights_of,
)
from tests.python.popart.training_runs import inference_session, options_with, ready, training_session

RNG = np.random.default_rng(22)
STEPS, FACTOR, RUNS = 2, 3, 2


def replicated(replicas, factor=1):
    return options_with(factor, replicas, enableReplicatedGraphs=True)


def device():
    return popart.DeviceManager().createCpuDevice()


def training(optimizer, options, anchors, steps=STEPS):
    proto, y, loss = model()
    return ready(training_session(proto, loss, optimizer, options, anchors(y, loss), steps)), y, loss


@pytest.mark.parametrize(("reduction", "strategy"), [(Sum, Post), (Mean, Post), (Mean, Running)])
@pytest.mark.parametrize(("replicas", "factor"), [(2, 1), (2, FACTOR), (4, 1)])
@pytest.mark.parametrize("name", CASES)
def test_agrees_with_torch(name, replicas, factor, reduction, strategy):
    make, make_torch = CASES[name]
    options = replicated(replicas, factor)
    options.accumulationAndReplicationReductionType = reduction
    options.meanAccumulationAndReplicationReductionStrategy = strategy
    session, _y, loss = training(make(), options, lambda y, loss: [loss])
    data = RNG.normal(size=(RUNS, STEPS, factor, replicas, 5, 6)).astype(np.float32)
    w, b = torch_module()
    optimizer = make_torch([w, b])
    for run in range(RUNS):
        anchors = session.initAnchorArrays()
        lead = (STEPS, replicas) if factor == 1 else (STEPS, factor, replicas)
        assert anchors[loss].shape == lead
        losses = anchors[loss].reshape(STEPS, factor, replicas)
        session.run(popart.PyStepIO({"x": data[run]}, anchors))
        for step in range(STEPS):
            optimizer.zero_grad()
            for place in np.ndindex(factor, replicas):
                value = 0.5 * torch.tanh(torch.tensor(data[run, step][place]) @ w + b).abs().sum()
                np.testing.assert_allclose(losses[step][place], value.item(), rtol=1e-4)
                (value / (factor * replicas if reduction == Mean else 1)).backward()
            optimizer.step()
    result = weights_of(session)
    atol = 1e-4 if name == "adam" else 2e-5  # 1 % of a step of Adam, which follows the rounding of gradients near 0
    np.testing.assert_allclose(result["w"], w.detach().numpy(), rtol=2e-4, atol=atol)
    np.testing.assert_allclose(result["b"], b.detach().numpy(), rtol=2e-4, atol=atol)


def inference(options, anchors=None, settings=None, steps=2):
    builder = popart.Builder()
    arguments = [] if settings is None else [popart.InputSettings(settings)]
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [2]), *arguments, "x")
    y = builder.aiOnnx.mul([x, builder.aiOnnx.constant(np.array([2, 3], np.float32))], "y")
    session = inference_session(builder.getModelProto(), anchors or [y], options, batches=steps, device=device())
    session.prepareDevice()
    return session, x, y


def test_data_is_laid_out_by_batch_and_replica():
    session, x, y = inference(replicated(3))
    anchors = session.initAnchorArrays()
    assert anchors[y].shape == (2, 3, 2)
    assert session.replicationFactor == 3
    data = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    session.run(popart.PyStepIO({x: data}, anchors))
    np.testing.assert_array_equal(anchors[y], data * [2, 3])


@pytest.mark.parametrize("kind", ["Final", "Sum", "EveryN"])
def test_anchor_return_types(kind):
    kinds = {
        "Final": (popart.AnchorReturnType("Final"), lambda v: v[-1]),
        "Sum": (popart.AnchorReturnType("Sum"), lambda v: v.sum(0)),
        "EveryN": (popart.AnchorReturnType("EveryN", 2), lambda v: v[1::2]),
    }
    anchor, expected = kinds[kind]
    session, x, y = inference(replicated(2), {"Mul:0": anchor}, steps=4)
    anchors = session.initAnchorArrays()
    data = RNG.normal(size=(4, 2, 2)).astype(np.float32)
    session.run(popart.PyStepIO({x: data}, anchors))
    wanted = expected(data * np.array([2, 3], np.float32))
    np.testing.assert_allclose(anchors[y].reshape(wanted.shape), wanted, rtol=1e-6, atol=1e-5)


def test_broadcast_inputs_are_read_once_for_all_replicas():
    session, x, y = inference(replicated(2), settings=popart.ReplicatedStreamMode.Broadcast)
    anchors = session.initAnchorArrays()
    data = np.array([[1, 2], [3, 4]], np.float32)
    session.run(popart.PyStepIO({x: data}, anchors))
    np.testing.assert_array_equal(anchors[y], np.stack([data, data], axis=1) * [2, 3])
    with pytest.raises(popart.popart_runtime_error, match="expected"):
        other = inference(replicated(2))[0]
        other.run(popart.PyStepIO({x: data}, other.initAnchorArrays()))


def test_callbacks_see_the_replicas_in_order():
    session, x, _y = inference(replicated(4), steps=3)
    order, results, done = [], [], []

    def give(name, _prefetch):
        order.append(name)
        return np.full(2, len(order), np.float32)

    def take(_name):
        results.append(np.zeros(2, np.float32))
        return results[-1]

    session.run(popart.PyStepIOCallback(give, done.append, take, lambda _name: None))
    assert order == [x] * 12
    assert done == [x] * 12
    np.testing.assert_array_equal([r[0] for r in results], 2 * np.arange(1, 13))


def test_an_exception_in_a_callback_ends_the_run():
    session, x, y = inference(replicated(2), steps=3)
    calls = []

    def give(_name, _prefetch):
        calls.append(1)
        if len(calls) == 4:
            raise ValueError("the data are gone")
        return np.zeros(2, np.float32)

    take = lambda _name: np.zeros(2, np.float32)  # noqa: E731
    with pytest.raises(Exception, match="the data are gone"):
        session.run(popart.PyStepIOCallback(give, lambda _n: None, take, lambda _n: None))
    anchors = session.initAnchorArrays()
    data = np.ones((3, 2, 2), np.float32)
    session.run(popart.PyStepIO({x: data}, anchors))
    np.testing.assert_array_equal(anchors[y], data * [2, 3])


def test_replicas_draw_different_numbers():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [1000], "x")
    y = builder.aiOnnx.randomuniform([1000], debugContext="r")
    z = builder.aiOnnx.add([x, y], "z")
    session = inference_session(builder.getModelProto(), [z], replicated(3), device=device())
    session.prepareDevice()
    draws = []
    for _ in range(2):
        session.setRandomSeed(7)
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO({x: np.zeros((3, 1000), np.float32)}, anchors))
        draws.append(anchors[z].copy())
    np.testing.assert_array_equal(draws[0], draws[1])
    for a in range(3):
        for b in range(a):
            assert abs(np.corrcoef(draws[0][a], draws[0][b])[0, 1]) < 0.2


def grouped_model(settings, first):
    builder = popart.Builder()
    builder.embedReplicationFactor(4)
    x = builder.addInputTensor("FLOAT", [3], "x")
    w = builder.addInitializedInputTensor(first, settings, "w")
    y = builder.aiOnnx.mul([x, w], "y")
    loss = builder.aiGraphcore.identityloss([y], reduction=Sum, debugContext="loss")
    return builder.getModelProto(), x, w, y, loss


@pytest.mark.parametrize("mode", ["OnePerGroup", "AllReplicas", "AllReduceReplicas"])
@pytest.mark.parametrize("stride", [1, 2])
def test_weights_with_one_value_per_group(stride, mode, tmp_path):
    first = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    settings = popart.VariableSettings(stride, 2, getattr(popart.VariableRetrievalMode, mode))
    proto, x, w, y, loss = grouped_model(settings, first)
    session = ready(training_session(proto, loss, popart.ConstSGD(1.0), replicated(4), [y], device=device()))
    group = np.array([r % stride + stride * (r // (2 * stride)) for r in range(4)])
    data = RNG.normal(size=(4, 3)).astype(np.float32)
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({x: data}, anchors))
    np.testing.assert_allclose(anchors[y], data * first[group], rtol=1e-6)
    expected = first - np.stack([data[group == g].sum(0) for g in range(2)])
    session.weightsToHost()
    read = np.zeros((4, 3) if mode == "AllReplicas" else (2, 3), np.float32)
    session.readWeights(popart.PyWeightsIO({w: read}))
    np.testing.assert_allclose(read, expected[group] if mode == "AllReplicas" else expected, rtol=1e-5, atol=1e-6)
    path = str(tmp_path / "trained.onnx")
    session.modelToHost(path)
    saved = {i.name: onnx.numpy_helper.to_array(i) for i in onnx.load(path).graph.initializer}
    np.testing.assert_allclose(saved[w], expected, rtol=1e-5, atol=1e-6)


def test_velocities_have_the_groups_of_their_weights():
    first = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    proto, x, w, y, loss = grouped_model(popart.VariableSettings(1, 2, popart.VariableRetrievalMode.OnePerGroup), first)
    sgd = popart.SGD(
        {"defaultLearningRate": (0.5, True), "defaultMomentum": (0.5, True), "defaultWeightDecay": (0.1, True)}
    )
    session = ready(training_session(proto, loss, sgd, replicated(4), [y], device=device()))
    weights, velocity = first.astype(np.float64), np.zeros((2, 3))
    for _ in range(4):
        data = RNG.normal(size=(4, 3)).astype(np.float32)
        session.run(popart.PyStepIO({x: data}, session.initAnchorArrays()))
        gradient = np.stack([data[:2].sum(0), data[2:].sum(0)])
        velocity = 0.5 * velocity + gradient + 0.1 * weights
        weights -= 0.5 * velocity
    session.weightsToHost()
    read = np.zeros((2, 3), np.float32)
    session.readWeights(popart.PyWeightsIO({w: read}))
    np.testing.assert_allclose(read, weights, rtol=1e-4, atol=1e-5)


GROUPS = {  # of four replicas: members of each group
    "All": (0, [[0, 1, 2, 3]]),
    "Consecutive": (2, [[0, 1], [2, 3]]),
    "Orthogonal": (2, [[0, 2], [1, 3]]),
    "Ungrouped": (1, [[0], [1], [2], [3]]),
}
JOINS = {  # of the values of a group's members
    "Add": lambda v: v.sum(0),
    "Mean": lambda v: v.mean(0),
    "Mul": lambda v: v.prod(0),
    "Min": lambda v: v.min(0),
    "Max": lambda v: v.max(0),
    "LogicalAnd": lambda v: v.all(0),
    "LogicalOr": lambda v: v.any(0),
    "SquareAdd": lambda v: (v * v).sum(0),
}


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("operator", [*JOINS, "Local"])
def test_builder_collectives(operator, group):
    """All-reduce and reduce-scatter of five elements, which are padded to a multiple of the group's size."""
    size, groups = GROUPS[group]
    logical = operator.startswith("Logical")
    builder = popart.Builder()
    x = builder.addInputTensor("BOOL" if logical else "FLOAT", [5], "x")
    number = 8 if operator == "Local" else getattr(CollectiveOperator, operator)  # Local: of C++ alone
    how = number, popart.CommGroup(getattr(popart.CommGroupType, group), size)
    total = builder.aiGraphcore.replicatedallreduce([x], *how)
    part = builder.aiGraphcore.replicatedreducescatter([x], *how)
    session = inference_session(builder.getModelProto(), [total, part], replicated(4), device=device())
    session.prepareDevice()
    data = RNG.normal(size=(4, 5)).astype(np.float32)
    data = data > 0.3 if logical else data
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({x: data}, anchors))
    for members in groups:
        padded = np.zeros(-(-5 // len(members)) * len(members), data.dtype)
        for place, replica in enumerate(members):
            whole = data[replica] if operator == "Local" else JOINS[operator](data[members])
            np.testing.assert_allclose(anchors[total][replica], whole, rtol=1e-5, atol=1e-6)
            padded[:5] = whole
            own = padded.reshape(len(members), -1)[place]
            np.testing.assert_allclose(anchors[part].reshape(4, -1)[replica], own, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["OnePerGroup", "AllReplicas", "AllReduceReplicas"])
@pytest.mark.parametrize("group", GROUPS)
def test_weights_by_comm_group(group, mode, tmp_path):
    """Two steps: gradients are joined within each group; every retrieval mode; checkpoints have one value per group."""
    size, groups = GROUPS[group]
    first = RNG.normal(size=(len(groups), 3)).astype(np.float32)
    settings = popart.VariableSettings(
        popart.CommGroup(getattr(popart.CommGroupType, group), size), getattr(popart.VariableRetrievalMode, mode)
    )
    proto, x, w, y, loss = grouped_model(settings, first if len(groups) > 1 else first[0])
    session = ready(training_session(proto, loss, popart.ConstSGD(0.5), replicated(4), [y], device=device()))
    of = {replica: g for g, members in enumerate(groups) for replica in members}
    weights = first.copy()
    for _ in range(2):
        data = RNG.normal(size=(4, 3)).astype(np.float32)
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO({x: data}, anchors))
        np.testing.assert_allclose(anchors[y], data * weights[[of[r] for r in range(4)]], rtol=1e-5, atol=1e-6)
        weights -= 0.5 * np.stack([data[members].sum(0) for members in groups])
    expected = weights[[of[r] for r in range(4)]] if mode == "AllReplicas" else weights
    read = np.zeros(expected.shape, np.float32)
    session.weightsToHost()
    session.readWeights(popart.PyWeightsIO({w: read}))
    np.testing.assert_allclose(read, expected, rtol=1e-5, atol=1e-6)
    path = str(tmp_path / "trained.onnx")
    session.modelToHost(path)
    saved = {i.name: onnx.numpy_helper.to_array(i) for i in onnx.load(path).graph.initializer}
    np.testing.assert_allclose(saved[w].reshape(weights.shape), weights, rtol=1e-5, atol=1e-6)


def test_a_group_larger_than_the_replicas_is_refused():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2], "x")
    group = popart.CommGroup(popart.CommGroupType.Consecutive, 8)
    y = builder.aiGraphcore.replicatedallreduce([x], 0, group)
    with pytest.raises(popart.popart_exception, match="group"):
        session = inference_session(builder.getModelProto(), [y], replicated(4), device=device())
        session.prepareDevice()


def test_devices_need_an_ipu_per_replica():
    proto, y, _loss = model()
    manager = popart.DeviceManager()
    session = inference_session(proto, [y], replicated(2), device=manager.createIpuModelDevice({"numIPUs": 2}))
    session.prepareDevice()
    for ipus in (1, 3):
        device = manager.createIpuModelDevice({"numIPUs": ipus})
        with pytest.raises(popart.popart_exception, match="IPUs"):
            inference_session(proto, [y], replicated(2), device=device).prepareDevice()


def test_initial_weights_are_those_of_the_model():
    session, _y, _loss = training(popart.ConstSGD(0.5), replicated(2), lambda y, loss: [loss])
    np.testing.assert_array_equal(weights_of(session)["w"], WEIGHTS)
    np.testing.assert_array_equal(weights_of(session)["b"], BIAS)


def test_the_summary_counts_the_memory_of_all_replicas():
    def summary(options):
        session, _y, _loss = training(popart.ConstSGD(0.5), options, lambda y, loss: [loss])
        lines = [line.strip().rpartition(": ") for line in session.getSummaryReport().splitlines()]
        return {key: int(value.split()[0]) for key, _, value in lines if key}

    one, three = summary(popart.SessionOptions()), summary(replicated(3))
    assert "replicas" not in one
    assert three["replicas"] == 3
    of_each = three["activations"] + three["variables"] + three["scratch"]
    assert three["total"] == three["constants"] + 3 * of_each
    assert one["total"] == one["constants"] + one["activations"] + one["variables"] + one["scratch"]


def started(builder, loss, rate, steps, options):
    """A session without anchors, ready to run."""
    flow, sgd = popart.DataFlow(steps, []), popart.ConstSGD(rate)
    session = popart.TrainingSession(builder.getModelProto(), flow, loss, sgd, device(), userOptions=options)
    session.prepareDevice()
    session.weightsFromHost()
    return session


@pytest.mark.parametrize("broadcasts", [True, False])
def test_broadcast_inputs_train_all_replicas(broadcasts):
    """Two replicas, two micro-batches of two batches: a broadcast input is asked for once in each micro-batch."""
    builder = popart.Builder()
    modes = popart.ReplicatedStreamMode
    shared = popart.InputSettings(modes.Broadcast if broadcasts else modes.Replicate)
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [3]), shared, "x")
    own = builder.addInputTensor(popart.TensorInfo("FLOAT", [3]), "own")
    w = builder.addInitializedInputTensor(np.zeros(3, np.float32), "w")
    y = builder.aiOnnx.mul([builder.aiOnnx.mul([x, own]), w])
    loss = builder.aiGraphcore.identityloss([y], reduction=Sum)
    session = started(builder, loss, 1.0, 2, replicated(2, 2))
    values = RNG.normal(size=(2, 2, 2, 3)).astype(np.float32)
    common = RNG.normal(size=(2, 2, 1 if broadcasts else 2, 3)).astype(np.float32)
    session.run(popart.PyStepIO({"x": common, "own": values}, {}))
    asked = {"x": [], "own": []}

    def give(name, _prefetch):
        asked[name].append(1)
        return (common if name == "x" else values).reshape(-1, 3)[len(asked[name]) - 1].copy()

    session.run(popart.PyStepIOCallback(give, lambda _n: None, lambda _n: None, lambda _n: None))
    assert {name: len(calls) for name, calls in asked.items()} == {"x": 4 if broadcasts else 8, "own": 8}
    session.weightsToHost()
    read = np.zeros(3, np.float32)
    session.readWeights(popart.PyWeightsIO({"w": read}))
    np.testing.assert_allclose(read, -2 * (common * values).sum((0, 1, 2)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", ["OnePerGroup", "AllReplicas", "AllReduceReplicas"])
def test_values_that_replicas_of_a_group_do_not_share(mode, tmp_path):
    """Statistics of batch normalisation differ by replica: that of the first, those of all, or their mean."""
    builder = popart.Builder(opsets={"ai.onnx": 9, "ai.graphcore": 1})
    settings = popart.VariableSettings(getattr(popart.VariableRetrievalMode, mode))
    x = builder.addInputTensor("FLOAT", [5, 3], "x")
    names = [builder.addInitializedInputTensor(np.ones(3, np.float32), settings, n) for n in ("s", "b", "mean", "var")]
    y = builder.aiOnnx.batchnormalization([x, *names], 5, momentum=0.9)[0]
    loss = builder.aiGraphcore.identityloss([y], reduction=Sum)
    session = started(builder, loss, 0.1, 1, replicated(4))
    data = RNG.normal(size=(4, 5, 3)).astype(np.float32)
    session.run(popart.PyStepIO({"x": data}, {}))
    own = 0.9 * np.ones(3) + 0.1 * data.mean(1)
    wanted = {"OnePerGroup": own[0], "AllReplicas": own, "AllReduceReplicas": own.mean(0)}[mode]
    read = np.zeros(wanted.shape, np.float32)
    session.weightsToHost()
    session.readWeights(popart.PyWeightsIO({"mean": read}))
    np.testing.assert_allclose(read, wanted, rtol=1e-5)
    scale = np.zeros((4, 3) if mode == "AllReplicas" else 3, np.float32)  # the same on all replicas
    session.readWeights(popart.PyWeightsIO({"s": scale}))
    assert len(np.unique(scale.reshape(-1, 3), axis=0)) == 1
    path = str(tmp_path / "trained.onnx")
    session.modelToHost(path)
    saved = {i.name: onnx.numpy_helper.to_array(i) for i in onnx.load(path).graph.initializer}
    np.testing.assert_allclose(saved["mean"], wanted[0] if mode == "AllReplicas" else wanted, rtol=1e-5)


@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_the_shard_of_a_reduce_scatter_may_be_an_output(replicas):
    """Its size follows from the number of replicas, which the builder does not know."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [8], "x")
    y = builder.aiGraphcore.replicatedreducescatter([x], CollectiveOperator.Add)
    builder.addOutputTensor(y)
    session = inference_session(builder.getModelProto(), [y], replicated(replicas))
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    data = RNG.normal(size=(replicas, 8)).astype(np.float32)
    session.run(popart.PyStepIO({"x": data}, anchors))
    np.testing.assert_allclose(anchors[y].reshape(-1), data.sum(axis=0), rtol=1e-5)


@pytest.mark.parametrize("mode", ["OnePerGroup", "AllReplicas"])
def test_grouped_weights_of_constant_weights_stay_variables(mode):
    """Two groups of two replicas: what the host reads several copies of is no constant."""
    builder = popart.Builder()
    settings = popart.VariableSettings(
        popart.CommGroup(popart.CommGroupType.Consecutive, 2), getattr(popart.VariableRetrievalMode, mode)
    )
    x = builder.addInputTensor("FLOAT", [3], "x")
    values = RNG.normal(size=(2, 3)).astype(np.float32)
    w = builder.addInitializedInputTensor(values, settings, "w")
    c = builder.addInitializedInputTensor(np.full(3, 2, np.float32), "c")
    y = builder.aiOnnx.mul([builder.aiOnnx.mul([x, w]), c])
    options = replicated(4)
    assert options.constantWeights
    session = ready(inference_session(builder.getModelProto(), [y], options))
    anchors = session.initAnchorArrays()
    data = RNG.normal(size=(4, 3)).astype(np.float32)
    session.run(popart.PyStepIO({"x": data}, anchors))
    np.testing.assert_allclose(anchors[y], 2 * data * values[[0, 0, 1, 1]], rtol=1e-5)
    read = np.zeros((4, 3) if mode == "AllReplicas" else (2, 3), np.float32)
    other = np.full(3, 7, np.float32)
    session.readWeights(popart.PyWeightsIO({"w": read, "c": other}))
    np.testing.assert_array_equal(read, values[[0, 0, 1, 1]] if mode == "AllReplicas" else values)
    np.testing.assert_array_equal(other, np.full(3, 7))
