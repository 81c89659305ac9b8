"""What torch trains with frozen weights, with replicas, micro-batches, pipelines, shards and off-chip memory."""

import contextlib
import fnmatch

import numpy as np
import popart
import pytest
import torch

import onnx
from tests.python.popart.training_runs import graphs_of, options_with, ready, training_session

WIDTH, LAYERS, BATCH, RUNS = 8, 4, 4, 3
CLOSE = {"rtol": 2e-5, "atol": 2e-6}
KINDS = ("weight", "optimizerState", "accumulator", "activation")
OFF = popart.TensorLocation(popart.TensorStorage.OffChip)
RNG = np.random.default_rng(31)
VALUES = {
    f"{kind}{i}": RNG.normal(0, 0.35, (WIDTH, WIDTH) if kind == "w" else (WIDTH,)).astype(np.float32)
    for i in range(LAYERS)
    for kind in "wb"
}
OPTIMIZERS = {
    "sgd": (
        lambda: popart.SGD({"defaultLearningRate": (0.05, False), "defaultWeightDecay": (0.1, False)}),
        lambda p: torch.optim.SGD(p, 0.05, weight_decay=0.1),
    ),
    "momentum": (
        lambda: popart.SGD({"defaultLearningRate": (0.05, False), "defaultMomentum": (0.9, True)}),
        lambda p: torch.optim.SGD(p, 0.05, momentum=0.9),
    ),
    "adam": (
        lambda: popart.Adam({"defaultLearningRate": (0.01, False), "defaultEps": (1e-3, True)}),
        lambda p: torch.optim.Adam(p, 0.01, eps=1e-3),
    ),
    "clipped": (
        lambda: popart.SGD(
            {"defaultLearningRate": (0.05, False)}, clip_norm_settings=[popart.ClipNormSettings.clipAllWeights(1.0)]
        ),
        lambda p: torch.optim.SGD(p, 0.05),
    ),
}
# What is frozen, and the weights that these patterns name: the first layers, one in the middle, all biases, a head.
FROZEN = {
    "first": ["[wb][01]"],
    "middle": ["w2"],
    "biases": ["b*"],
    "all but the last": ["[wb][0-2]", "w3"],
}


def frozen_names(patterns):
    return {name for name in VALUES for pattern in patterns if fnmatch.fnmatch(name, pattern)}


def model(pipelines):
    builder = popart.Builder()
    h = builder.addInputTensor("FLOAT", [BATCH, WIDTH], "x")
    for i in range(LAYERS):
        with contextlib.ExitStack() as scope:
            if pipelines:
                scope.enter_context(builder.virtualGraph(i // 2))
                scope.enter_context(builder.pipelineStage(i // 2))
            w, b = (builder.addInitializedInputTensor(VALUES[f"{kind}{i}"], f"{kind}{i}") for kind in "wb")
            h = builder.aiOnnx.tanh([builder.aiOnnx.add([builder.aiOnnx.matmul([h, w]), b])])
            if i == LAYERS - 1:
                loss = builder.aiGraphcore.l1loss([h], 0.5, reduction=popart.ReductionType.Sum, debugContext="loss")
    return builder.getModelProto(), loss


def off_chip():
    return {f"{kind}TensorLocationSettings": popart.TensorLocationSettings(OFF, 2, 0) for kind in KINDS}


def sharded():
    on_chip = popart.TensorLocation(popart.TensorStorage.OnChip, popart.ReplicatedTensorSharding.On)
    return {
        f"{kind}TensorLocationSettings": popart.TensorLocationSettings(on_chip, 2, 0)
        for kind in ("weight", "optimizerState", "accumulator")
    }


# Programs: micro-batches, replicas, further options.
PROGRAMS = {
    "plain": (1, 1, {}),
    "accumulation": (3, 1, {}),
    "replicas": (1, 2, {}),
    "replicas and accumulation": (3, 2, {}),
    "pipeline": (4, 1, {"enablePipelining": True}),
    "pipeline and replicas": (4, 2, {"enablePipelining": True}),
    "off chip": (1, 1, off_chip()),
    "off chip, accumulation and replicas": (3, 2, off_chip()),
    "sharded": (1, 2, sharded()),
    "sharded and accumulation": (3, 2, sharded()),
    "merged updates": (3, 1, {"mergeVarUpdate": popart.MergeVarUpdateType.All}),
    "recomputation": (1, 1, {"autoRecomputation": popart.RecomputationType.RecomputeAll}),
}


def session_of(program, optimizer, patterns=(), outlines=True):
    factor, replicas, more = PROGRAMS[program]
    pipelines = "enablePipelining" in more
    proto, loss = model(pipelines)
    options = options_with(factor, replicas, enableOutlining=outlines, **more)
    if pipelines:
        options.virtualGraphMode = popart.VirtualGraphMode.Manual
        order = popart.AccumulateOuterFragmentSchedule.Scheduler  # the default refuses clipping
        options.accumulateOuterFragmentSettings = popart.AccumulateOuterFragmentSettings(order)
    options.frozenTensors = list(patterns)
    return ready(training_session(proto, loss, OPTIMIZERS[optimizer][0](), options)), loss


def train(program, optimizer, patterns):
    """Losses of all runs, and the weights after them."""
    session, loss = session_of(program, optimizer, patterns)
    factor, replicas, _ = PROGRAMS[program]
    anchors, losses = session.initAnchorArrays(), []
    for data in data_of(factor, replicas):
        session.run(popart.PyStepIO({"x": data}, anchors))
        losses.append(anchors[loss].flatten())
    session.weightsToHost()
    weights = {name: np.empty_like(value) for name, value in VALUES.items()}
    session.readWeights(popart.PyWeightsIO(weights))
    return np.array(losses), weights, session


def data_of(factor, replicas):
    shape = [n for n in (factor, replicas) if n > 1]
    return np.random.default_rng(8).normal(size=(RUNS, *shape, BATCH, WIDTH)).astype(np.float32)


def by_torch(program, optimizer, patterns):
    factor, replicas, _ = PROGRAMS[program]
    frozen = frozen_names(patterns)
    weights = {name: torch.tensor(value, requires_grad=name not in frozen) for name, value in VALUES.items()}
    made = OPTIMIZERS[optimizer][1]([w for name, w in weights.items() if name not in frozen])
    losses = []
    for data in data_of(factor, replicas):
        parts = []
        for x in data.reshape(factor * replicas, BATCH, WIDTH):
            h = torch.tensor(x)
            for i in range(LAYERS):
                h = torch.tanh(h @ weights[f"w{i}"] + weights[f"b{i}"])
            parts.append(0.5 * h.abs().sum())
        made.zero_grad()
        sum(parts).backward()
        if optimizer == "clipped":
            torch.nn.utils.clip_grad_norm_([w for w in weights.values() if w.requires_grad], 1.0)
        made.step()
        losses.append([float(part.detach()) for part in parts])
    return np.array(losses), {name: w.detach().numpy() for name, w in weights.items()}


@pytest.mark.parametrize(
    ("optimizer", "kind"),
    [*(("adam", k) for k in FROZEN), ("sgd", "first"), ("momentum", "biases"), ("clipped", "middle")],
)
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_others_train_as_in_torch(program, optimizer, kind):
    losses, weights, _ = train(program, optimizer, FROZEN[kind])
    expected_losses, expected = by_torch(program, optimizer, FROZEN[kind])
    np.testing.assert_allclose(losses, expected_losses, **CLOSE)
    frozen = frozen_names(FROZEN[kind])
    for name, value in weights.items():
        if name in frozen:
            np.testing.assert_array_equal(value, VALUES[name], err_msg=name)
        else:
            np.testing.assert_allclose(value, expected[name], **CLOSE, err_msg=name)
            assert not np.array_equal(value, VALUES[name]), name


def tensors_of(session):
    return {t["name"] for ops in graphs_of(session).values() for op in ops for t in (*op["inputs"], *op["outputs"])}


@pytest.mark.parametrize("kind", FROZEN)
@pytest.mark.parametrize("program", PROGRAMS)
def test_nothing_of_frozen_weights_is_left(program, kind, tmp_path):
    """No gradient, state, accumulator, update or collective; those of the others stay."""
    session, _ = session_of(program, "adam", FROZEN[kind], outlines=False)
    frozen, names = frozen_names(FROZEN[kind]), tensors_of(session)
    prefixes = (
        "Gradient___",
        "Accl1___",
        "Accl2___",
        "Step___",
        "Accum___",
        "UpdatedVar___",
        "FinalReducedGradient___",
    )
    for name in frozen:
        assert not {prefix + name for prefix in prefixes} & names, name
        assert not [t for t in names if t.endswith(name) and t != name and "remote" not in t.lower()], name
    session.modelToHost(str(tmp_path / "saved.onnx"))
    saved = {t.name for t in onnx.load(str(tmp_path / "saved.onnx")).graph.initializer}
    for name in VALUES:
        states = {f"Accl1___{name}", f"Accl2___{name}", f"Step___{name}"}
        assert states <= saved if name not in frozen else not states & saved, name


def count(session, *types):
    return sum(op["type"].startswith(types) for ops in graphs_of(session).values() for op in ops)


@pytest.mark.parametrize("kind", FROZEN)
@pytest.mark.parametrize("program", ["replicas", "replicas and accumulation", "pipeline and replicas", "sharded"])
def test_only_gradients_that_train_are_exchanged(program, kind):
    trained = len(VALUES) - len(frozen_names(FROZEN[kind]))
    session, _ = session_of(program, "adam", FROZEN[kind], outlines=False)
    assert count(session, "ReplicatedAllReduce", "ReplicatedReduceScatter") == trained
    everything, _ = session_of(program, "adam", outlines=False)
    assert count(everything, "ReplicatedAllReduce", "ReplicatedReduceScatter") == len(VALUES)


def test_the_backward_pass_ends_where_only_frozen_weights_follow():
    """Products: 4 forward; backward 4 for the weights and 3 for what they multiply, of which the head needs one."""
    products = ("MatMul",)
    everything, _ = session_of("plain", "sgd", outlines=False)
    head, _ = session_of("plain", "sgd", ["[wb][0-2]"], outlines=False)
    assert count(everything, *products) == 4 + 4 + 3
    assert count(head, *products) == 4 + 1


@pytest.mark.parametrize("kind", FROZEN)
@pytest.mark.parametrize("program", ["off chip", "off chip, accumulation and replicas"])
def test_frozen_weights_off_chip_are_never_written_back(program, kind):
    session, _ = session_of(program, "sgd", FROZEN[kind], outlines=False)
    stored = {
        op["inputs"][0]["name"].removeprefix("UpdatedVar___")
        for ops in graphs_of(session).values()
        for op in ops
        if op["type"] == "RemoteStore"
    }
    assert stored & VALUES.keys() == VALUES.keys() - frozen_names(FROZEN[kind])
