"""Pipelines: the bits of the program whose stages run one after the other, in training and in inference."""

import contextlib
import itertools
import json
import re

import numpy as np
import popart
import pytest

import onnx
from tests.python.popart.training_runs import inference_session, ready, training_session

WIDTH, BATCH, RUNS = 12, 4, 3
Pipeline, NoRecompute = popart.RecomputationType.Pipeline, popart.RecomputationType.NoRecompute
Manual, Auto = popart.VirtualGraphMode.Manual, popart.VirtualGraphMode.Auto

OPTIMIZERS = {
    "sgd": lambda: popart.SGD({"defaultLearningRate": (0.1, False), "defaultWeightDecay": (0.01, True)}),
    "momentum": lambda: popart.SGD({"defaultLearningRate": (0.05, True), "defaultMomentum": (0.9, True)}),
    "separate": lambda: popart.SGD(
        {"defaultLearningRate": (0.05, False), "defaultMomentum": (0.9, False)},
        accumulatorAndMomentum=popart.SGDAccumulatorAndMomentum.Separate,
    ),
    "adam": lambda: popart.Adam({"defaultLearningRate": (0.01, False), "defaultWeightDecay": (0.02, True)}),
}


class Network:
    """Layers in stages, with dropout, a norm, batch statistics and a residual path from the first stage to the last.

    Args:
        stages: Number of forward stages.
        placed: Whether operations have a virtual graph.
        staged: Whether they have a pipeline stage.
        tied: Whether first and last stage are on one virtual graph and share a weight.
        training: Whether there is a loss; without it there are no random numbers.
    """

    def __init__(self, stages, placed=True, staged=True, tied=False, training=True):
        self.builder = popart.Builder(opsets={"ai.onnx": 10, "ai.graphcore": 1})
        self.rng = np.random.default_rng(5)
        self.stages, self.tied, self.training = stages, tied, training
        x = self.builder.addInputTensor("FLOAT", [BATCH, WIDTH], "x")
        shared = self.weight("shared", WIDTH, WIDTH)
        h, skip = x, None
        for stage in range(stages):
            with self.stage(stage, placed, staged):
                h = self.layer(h, stage, shared if tied and stage in (0, stages - 1) else None)
                skip = skip or h
        with self.stage(stages - 1, placed, staged):
            self.last = self.builder.aiOnnx.add([h, skip], "last")
            if training:
                labels = self.builder.addInputTensor("INT32", [BATCH], "labels")
                probabilities = self.builder.aiOnnx.softmax([self.last])
                self.loss = self.builder.aiGraphcore.nllloss([probabilities, labels], debugContext="loss")
        self.first = skip

    @contextlib.contextmanager
    def stage(self, stage, placed, staged):
        """The scope of a stage."""
        on_last = self.tied and stage == self.stages - 1
        with contextlib.ExitStack() as scope:
            if placed:
                scope.enter_context(self.builder.virtualGraph(0 if on_last else stage))
            if staged:
                scope.enter_context(self.builder.pipelineStage(stage))
            yield

    def weight(self, name, *shape):
        return self.builder.addInitializedInputTensor(self.rng.normal(0, 0.3, shape).astype(np.float32), name)

    def layer(self, h, stage, weight):
        onnx_, graphcore = self.builder.aiOnnx, self.builder.aiGraphcore
        y = onnx_.matmul([h, weight or self.weight(f"w{stage}", WIDTH, WIDTH)])
        y = onnx_.add([y, self.weight(f"b{stage}", WIDTH)])
        y = graphcore.groupnormalization([y, self.weight(f"s{stage}", WIDTH), self.weight(f"t{stage}", WIDTH)], 1)[0]
        y = onnx_.tanh([y])
        return onnx_.dropout([y], 1, 0.25)[0] if self.training else y


def options_for(pipelines, **given):
    """Session options; `pipelines`: whether stages work at the same time."""
    options = popart.SessionOptions()
    options.enablePipelining = pipelines
    options.virtualGraphMode = Manual if pipelines else popart.VirtualGraphMode.Off
    for name, value in given.items():
        setattr(options, name, value)
    return options


def training(network, options, anchors, optimizer="sgd", batches=2):
    session = training_session(
        network.builder.getModelProto(), network.loss, OPTIMIZERS[optimizer](), options, anchors, batches=batches
    )
    session.prepareDevice()
    session.setRandomSeed(7)
    session.weightsFromHost()
    return session


def train(tmp_path, network, options, anchors=None, optimizer="sgd", batches=2):
    """All anchors of all runs, and all that is saved."""
    session = training(network, options, anchors or [network.loss], optimizer, batches)
    results, rng = [], np.random.default_rng(3)
    lead = [batches] + [options.accumulationFactor] * (options.accumulationFactor > 1)
    lead += [options.replicatedGraphCount] * options.enableReplicatedGraphs
    for _ in range(RUNS):
        values = session.initAnchorArrays()
        data = {
            "x": rng.normal(size=(*lead, BATCH, WIDTH)).astype(np.float32),
            "labels": rng.integers(0, WIDTH, (*lead, BATCH)).astype(np.int32),
        }
        session.run(popart.PyStepIO(data, values))
        results.append({name: value.copy() for name, value in values.items()})
    path = tmp_path / "model.onnx"
    session.modelToHost(str(path))
    state = {t.name: onnx.numpy_helper.to_array(t).tobytes() for t in onnx.load(path).graph.initializer}
    return results, state


def accumulating(factor, **given):
    return {"enableGradientAccumulation": True, "accumulationFactor": factor, **given}


def assert_same(tmp_path, network, given, **how):
    """The pipeline gives the bits of the plain program."""
    plain = {name: value for name, value in given.items() if name != "virtualGraphMode"}
    expected, state = train(tmp_path, network(), options_for(False, **plain), **how)
    results, other_state = train(tmp_path, network(), options_for(True, **given), **how)
    assert all(np.isfinite(v).all() for run in expected for v in run.values() if v.dtype == np.float32)
    for run, other in zip(expected, results, strict=True):
        for name, value in run.items():
            assert np.array_equal(value, other[name]), name
    assert state == other_state


@pytest.mark.parametrize("rule", [NoRecompute, Pipeline], ids=["kept", "recomputed"])
@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_gives_the_bits_of_the_plain_program(tmp_path, optimizer, stages, rule):
    given = accumulating(2 * stages, autoRecomputation=rule)
    assert_same(tmp_path, lambda: Network(stages), given, optimizer=optimizer)


@pytest.mark.parametrize("factor", [5, 6, 9])
def test_any_depth_that_fills_the_pipeline(tmp_path, factor):
    assert_same(tmp_path, lambda: Network(3), accumulating(factor), optimizer="adam", batches=1)


class Shared(Network):
    """Every layer reads the input, as layers read the mask of an attention."""

    def layer(self, h, stage, weight):
        self.x = h if stage == 0 else self.x
        return self.builder.aiOnnx.mul([super().layer(h, stage, weight), self.x])


class Tied:
    """An embedding in the first stage whose table is the last stage's projection, on one virtual graph."""

    def __init__(self):
        self.builder = builder = popart.Builder(opsets={"ai.onnx": 10, "ai.graphcore": 1})
        rng = np.random.default_rng(5)
        tokens = builder.addInputTensor("INT32", [BATCH], "labels")
        table = builder.addInitializedInputTensor(rng.normal(0, 0.3, (WIDTH, WIDTH)).astype(np.float32), "table")
        w = builder.addInitializedInputTensor(rng.normal(0, 0.3, (WIDTH, WIDTH)).astype(np.float32), "w")
        with builder.virtualGraph(0), builder.pipelineStage(0):
            h = builder.aiOnnx.gather([table, tokens], 0)
        with builder.virtualGraph(1), builder.pipelineStage(1):
            h = builder.aiGraphcore.gelu([builder.aiOnnx.matmul([h, w])])
        with builder.virtualGraph(0), builder.pipelineStage(2):
            targets = builder.addInputTensor("FLOAT", [BATCH, WIDTH], "x")
            scores = builder.aiOnnx.matmul([h, builder.aiOnnx.transpose([table], [1, 0])])
            self.loss = builder.aiGraphcore.l1loss([builder.aiOnnx.sub([scores, targets])], 0.5)


def test_stages_of_one_virtual_graph_share_weights(tmp_path):
    assert_same(tmp_path, Tied, accumulating(6), optimizer="momentum")


def test_products_of_two_stages_share_weights(tmp_path):
    """Their gradient crosses stages in C order, so that its products may round in another order."""
    given = accumulating(6)
    expected, _ = train(tmp_path, Network(3, tied=True), options_for(False, **given), optimizer="momentum")
    results, _ = train(tmp_path, Network(3, tied=True), options_for(True, **given), optimizer="momentum")
    for run, other in zip(expected, results, strict=True):
        for name, value in run.items():
            np.testing.assert_allclose(value, other[name], rtol=1e-5, atol=1e-6)


def test_stages_follow_virtual_graphs(tmp_path):
    assert_same(tmp_path, lambda: Network(3, staged=False), accumulating(5))


@pytest.mark.parametrize("reduction", [popart.ReductionType.Sum, popart.ReductionType.Mean])
@pytest.mark.parametrize("strategy", [popart.MeanReductionStrategy.Post, popart.MeanReductionStrategy.Running])
def test_reductions(tmp_path, reduction, strategy):
    given = accumulating(
        4,
        accumulationAndReplicationReductionType=reduction,
        meanAccumulationAndReplicationReductionStrategy=strategy,
    )
    assert_same(tmp_path, lambda: Network(2), given, optimizer="adam")


def test_replicas(tmp_path):
    given = accumulating(4, enableReplicatedGraphs=True, replicatedGraphCount=2)
    assert_same(tmp_path, lambda: Network(2), given, optimizer="adam")


def test_together_with_other_transforms(tmp_path):
    for outlines, decomposes, moved in itertools.product((False, True), repeat=3):
        given = accumulating(4, enableOutlining=outlines, decomposeGradSum=decomposes, autoRecomputation=Pipeline)
        if moved:
            settings = popart.TensorLocationSettings(popart.TensorStorage.OffChip, 1, 1)
            given |= {"accumulatorTensorLocationSettings": settings, "optimizerStateTensorLocationSettings": settings}
        assert_same(tmp_path, lambda: Network(2), given, optimizer="adam")


def concurrent(rule, threads):
    """Options that say whether stages run at the same time."""
    return {"engineOptions": {"pipeline.concurrent": rule, "num_threads": str(threads)}}


@pytest.mark.parametrize("threads", [2, 3, 8])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_stages_that_run_at_the_same_time(tmp_path, optimizer, threads):
    given = accumulating(6, autoRecomputation=Pipeline, **concurrent("always", threads))
    assert_same(tmp_path, lambda: Network(3), given, optimizer=optimizer)


@pytest.mark.parametrize("threads", [2, 3, 8])
@pytest.mark.parametrize(("stages", "rule"), [(4, NoRecompute), (5, Pipeline)])
def test_many_stages_that_run_at_the_same_time(tmp_path, stages, rule, threads):
    """Rings are read by one cycle, and written, between the operations of two: of the ring nothing is copied."""
    given = accumulating(2 * stages, autoRecomputation=rule, **concurrent("always", threads))
    assert_same(tmp_path, lambda: Network(stages), given, optimizer="adam")


@pytest.mark.parametrize("threads", [4, 6])
def test_replicas_whose_stages_run_at_the_same_time(tmp_path, threads):
    given = accumulating(4, enableReplicatedGraphs=True, replicatedGraphCount=2, **concurrent("always", threads))
    assert_same(tmp_path, lambda: Network(2), given, optimizer="adam")


@pytest.mark.parametrize("kind", ["activation", "weight", "accumulator"])
def test_remote_memory_of_stages_that_run_at_the_same_time(tmp_path, kind):
    settings = popart.TensorLocationSettings(popart.TensorLocation(popart.TensorStorage.OffChip), 2, 8192)
    given = accumulating(4, **{f"{kind}TensorLocationSettings": settings}, **concurrent("always", 3))
    assert_same(tmp_path, lambda: Network(2), given, optimizer="adam")


@pytest.mark.parametrize("threads", [2, 5])
def test_inference_with_stages_that_run_at_the_same_time(threads):
    returns = popart.AnchorReturnType("All")
    plain, _ = infer(options_for(False), 4, 6, returns)
    results, _ = infer(options_for(True, **concurrent("always", threads)), 4, 6, returns)
    assert np.array_equal(plain, results)


def activation_bytes(session):
    return int(re.search(r"activations: (\d+) bytes", session.getSummaryReport()).group(1))


def test_rules_of_stages_that_run_at_the_same_time():
    """Forced lanes take more memory; one thread runs none; another word is refused."""
    needs = {}
    for rule, threads in itertools.product(("always", "never", "auto"), (1, 2)):
        options = options_for(True, **accumulating(6), **concurrent(rule, threads))
        session = training(Network(3), options, [Network(3).loss])
        needs[rule, threads] = activation_bytes(session)
    assert needs["always", 2] > needs["never", 2]
    assert needs["auto", 2] in (needs["always", 2], needs["never", 2])
    assert needs["always", 1] == needs["never", 1] == needs["auto", 1]
    with pytest.raises(popart.popart_exception, match=r"bad pipeline\.concurrent: got 'yes', expected 'auto'"):
        training(Network(2), options_for(True, **accumulating(4), **concurrent("yes", 2)), [Network(2).loss])


class Convolutions:
    """Two stages of convolutions with batch statistics, which change with every micro-batch."""

    def __init__(self):
        self.builder = builder = popart.Builder(opsets={"ai.onnx": 10, "ai.graphcore": 1})
        self.rng = np.random.default_rng(5)
        h, channels = builder.addInputTensor("FLOAT", [BATCH, WIDTH], "x"), 1
        for stage in range(2):
            with builder.virtualGraph(stage), builder.pipelineStage(stage):
                if not stage:
                    h = builder.reshape_const(builder.aiOnnx, [h], [BATCH, 1, 3, 4])
                h, channels = self.layer(h, channels, stage), 16
        with builder.virtualGraph(1), builder.pipelineStage(1):
            labels = builder.addInputTensor("INT32", [BATCH], "labels")
            h = builder.reshape_const(builder.aiOnnx, [builder.aiOnnx.globalaveragepool([h])], [BATCH, 16])
            self.loss = builder.aiGraphcore.nllloss([builder.aiOnnx.softmax([h]), labels])

    def layer(self, h, channels, stage):
        onnx_, add = self.builder.aiOnnx, self.builder.addInitializedInputTensor
        w = add(self.rng.normal(0, 0.3, (16, channels, 3, 3)).astype(np.float32), f"w{stage}")
        h = onnx_.conv([h, w], [1, 1], 1, [], [1, 1, 1, 1], [1, 1])
        parameters = [
            add(np.full(16, value, np.float32), f"{name}{stage}") for name, value in zip("stmv", (1, 0.1, 0, 1))
        ]
        return onnx_.relu([onnx_.batchnormalization([h, *parameters], 5)[0]])


@pytest.mark.parametrize("rule", [NoRecompute, Pipeline], ids=["kept", "recomputed"])
def test_statistics_that_change_with_every_micro_batch(tmp_path, rule):
    assert_same(tmp_path, Convolutions, accumulating(4, autoRecomputation=rule), optimizer="momentum")


@pytest.mark.parametrize("rule", [popart.RecomputationType.Standard, popart.RecomputationType.NormOnly])
def test_recomputation_within_stages(tmp_path, rule):
    assert_same(tmp_path, lambda: Network(3), accumulating(6, autoRecomputation=rule), optimizer="adam")


CLIPS = {
    "all": lambda: [popart.ClipNormSettings.clipAllWeights(0.1)],
    # the first group has weights of two stages
    "groups": lambda: [
        popart.ClipNormSettings.clipWeights(["w0", "w1"], 0.05),
        popart.ClipNormSettings.clipWeights(["w2"], 0.02),
    ],
}
RATE = {"defaultLearningRate": (0.1, False), "defaultMomentum": (0.5, False)}
CLIPPED = {
    "sgd": lambda clip: popart.SGD({"defaultLearningRate": (0.1, False)}, clip),
    "momentum": lambda clip: popart.SGD(RATE, clip),
    "separate": lambda clip: popart.SGD(RATE, clip, popart.SGDAccumulatorAndMomentum.Separate),
    "adam": lambda clip: popart.Adam({"defaultLearningRate": (0.01, False)}, clip_norm_settings=clip),
}


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("optimizer", CLIPPED)
def test_clipping_over_stages(tmp_path, monkeypatch, optimizer, clip, replicas):
    monkeypatch.setitem(OPTIMIZERS, "clip", lambda: CLIPPED[optimizer](CLIPS[clip]()))
    schedules = popart.AccumulateOuterFragmentSchedule
    for schedule in (schedules.Scheduler, schedules.OverlapCycleOptimized, schedules.OverlapMemoryOptimized):
        settings = popart.AccumulateOuterFragmentSettings(schedule, [1])
        given = accumulating(5, accumulateOuterFragmentSettings=settings)
        if replicas > 1:
            given |= {"enableReplicatedGraphs": True, "replicatedGraphCount": replicas}
        assert_same(tmp_path, lambda: Network(3), given, optimizer="clip", batches=1)


EXPLICIT = dict.fromkeys(("useHostCopyOps", "enableExplicitMainLoops", "explicitRecomputation"), True)
FORMS = {  # of giving operations their stage
    "annotated": {},
    "inferred": {"staged": False},
    "by cost": {"staged": False, "placed": False},
}


@pytest.mark.parametrize("rule", [NoRecompute, Pipeline], ids=["kept", "recomputed"])
@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("network", [Network, Shared])
def test_every_stage_form_trains(tmp_path, network, form, explicit, rule):
    given = accumulating(6, autoRecomputation=rule, **(EXPLICIT if explicit else {}))
    if form == "by cost":
        given |= {"virtualGraphMode": Auto, "virtualGraphSplitRatios": [0.3, 0.3, 0.4]}
    returns = dict.fromkeys([network(3).loss, "x"], popart.AnchorReturnType("All"))
    assert_same(tmp_path, lambda: network(3, **FORMS[form]), given, optimizer="momentum", anchors=returns)


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["All", "Final", "Sum"])
@pytest.mark.parametrize("network", [Network, Shared])
def test_every_stage_form_infers(network, kind, form, explicit):
    returns = popart.AnchorReturnType(kind)
    plain, _ = infer(options_for(False), 3, 6, returns, network)
    given = dict(EXPLICIT) if explicit else {}
    if form == "by cost":
        given |= {"virtualGraphMode": Auto, "virtualGraphSplitRatios": [0.3, 0.3, 0.4]}
    results, session = infer(options_for(True, **given), 3, 6, returns, network, **FORMS[form])
    assert np.array_equal(plain, results)
    assert len(stage_graphs(session)) == 3


@pytest.mark.parametrize("kind", ["activation", "weight", "accumulator"])
def test_remote_memory(tmp_path, kind):
    settings = popart.TensorLocationSettings(popart.TensorLocation(popart.TensorStorage.OffChip), 2, 8192)
    given = accumulating(4, **{f"{kind}TensorLocationSettings": settings})
    assert_same(tmp_path, lambda: Network(2), given, optimizer="adam")


def test_values_of_each_stream_keep_their_order():
    rng, seen = np.random.default_rng(0), {}
    xs = rng.normal(size=(8, BATCH, WIDTH)).astype(np.float32)
    labels = rng.integers(0, WIDTH, (8, BATCH)).astype(np.int32)
    for pipelines in (False, True):
        network = Network(2)
        session = training(network, options_for(pipelines, **accumulating(4)), [network.loss])
        taken, losses, buffer = {"x": 0, "labels": 0}, [], np.zeros((), np.float32)

        def give(name, prefetch, taken=taken):
            return {"x": xs, "labels": labels}[name][taken[name]]

        def done(name, taken=taken):
            taken[name] += 1

        def take(name, buffer=buffer):
            return buffer

        def kept(name, losses=losses, buffer=buffer):
            losses.append(float(buffer))

        session.run(popart.PyStepIOCallback(give, done, take, kept))
        assert taken == {"x": 8, "labels": 8}
        seen[pipelines] = losses
    assert len(seen[True]) == 8
    assert seen[True] == seen[False]


def test_without_accumulation_no_weight_is_out_of_date(tmp_path):
    assert_same(tmp_path, lambda: Network(2), {}, optimizer="momentum", batches=5)


@pytest.mark.parametrize("kind", ["All", "Final", "EveryN", "Sum"])
def test_return_types(tmp_path, kind):
    returns = popart.AnchorReturnType(kind, 2) if kind == "EveryN" else popart.AnchorReturnType(kind)
    network = Network(3)
    anchors = dict.fromkeys([network.loss, network.last, network.first, "Gradient___w0", "w1", "x"], returns)
    assert_same(tmp_path, lambda: Network(3), accumulating(6), anchors=anchors)


def infer(options, stages, batches, returns, kind=Network, **network):
    net = kind(stages, training=False, **network)
    session = ready(
        inference_session(
            net.builder.getModelProto(),
            dict.fromkeys([net.last, net.first], returns),
            options,
            batches=batches,
            device=popart.DeviceManager().createIpuModelDevice({"numIPUs": "4"}),
        )
    )
    rng, results = np.random.default_rng(3), []
    for _ in range(RUNS):
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO({"x": rng.normal(size=(batches, BATCH, WIDTH)).astype(np.float32)}, anchors))
        results += [value.copy() for value in anchors.values()]
    return results, session


@pytest.mark.parametrize("stash_all", [False, True])
@pytest.mark.parametrize("kind", ["All", "Final", "EveryN", "Sum"])
@pytest.mark.parametrize(("stages", "batches"), [(2, 2), (3, 6), (4, 6)])
def test_inference(stages, batches, kind, stash_all):
    returns = popart.AnchorReturnType(kind, 2) if kind == "EveryN" else popart.AnchorReturnType(kind)
    plain, _ = infer(options_for(False), stages, batches, returns)
    options = options_for(True, stashAllTensorsInferencePipeline=stash_all)
    results, _ = infer(options, stages, batches, returns)
    for expected, result in zip(plain, results, strict=True):
        assert np.array_equal(expected, result)


def test_virtual_graphs_by_cost():
    returns = popart.AnchorReturnType("All")
    plain, _ = infer(options_for(False), 3, 6, returns)
    for ratios in ([], [0.25, 0.75], [0.2, 0.3, 0.5]):
        options = options_for(True, virtualGraphMode=Auto, virtualGraphSplitRatios=ratios)
        results, session = infer(options, 3, 6, returns, placed=False, staged=False)
        assert np.array_equal(plain, results)
        assert len(stage_graphs(session)) == (len(ratios) or 4)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_sharding(tmp_path, optimizer):
    """Virtual graphs without a pipeline: copies between IPUs, and the same bits."""
    given = accumulating(2)
    expected, state = train(tmp_path, Network(3), options_for(False, **given), optimizer=optimizer)
    options = options_for(False, virtualGraphMode=Manual, **given)
    results, other_state = train(tmp_path, Network(3), options, optimizer=optimizer)
    for run, other in zip(expected, results, strict=True):
        assert all(np.array_equal(value, other[name]) for name, value in run.items())
    assert state == other_state
    network = Network(3)
    session = training(network, options, [network.loss])
    types = [op["type"] for graph in ir_of(session).values() for op in graph]
    # to the second and the third IPU, and back with their gradients
    assert types.count("IpuCopy") == 6


def ir_of(session):
    return json.loads(session._serializeIr(popart.IrSerializationFormat.JSON))


def stage_graphs(session):
    return [name for name in ir_of(session) if "pipelineStage" in name]


def test_what_is_needed_later_is_stashed():
    network = Network(3)
    session = training(network, options_for(True, **accumulating(6)), [network.loss])
    assert {f"Stashed___{network.first}", f"Restored___{network.first}"} <= set(session.getTensorIds())
    assert len(stage_graphs(session)) == 5


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_program_of_forward_passes(optimizer):
    """It uses the weights as they are, and leaves them."""
    network = Network(3)
    given = accumulating(6, createImplicitPipeliningFwdOnlyProgram=True)
    anchors = [network.loss, network.last, "Gradient___w0"]
    session = training(network, options_for(True, **given), anchors, optimizer)
    assert len(stage_graphs(session)) == 5
    plain = training(Network(3), options_for(False, **accumulating(6)), anchors, optimizer)
    rng = np.random.default_rng(3)

    def step(of, *handle, seed):
        data = {
            "x": np.random.default_rng(seed).normal(size=(2, 6, BATCH, WIDTH)).astype(np.float32),
            "labels": np.random.default_rng(seed).integers(0, WIDTH, (2, 6, BATCH)).astype(np.int32),
        }
        values = of.initAnchorArrays()
        for value in values.values():
            value[...] = -1
        of.run(*handle, popart.PyStepIO(data, values))
        return {name: value.copy() for name, value in values.items()}

    for seed in rng.integers(0, 100, RUNS):
        forward = step(session, "implicitPipeliningFwdOnly", seed=seed)
        trained, expected = step(session, seed=seed), step(plain, seed=seed)
        assert all(np.array_equal(trained[name], expected[name]) for name in expected)
        # before the first update of the step the weights are the same; so are the random numbers
        assert np.array_equal(forward[network.last][0], expected[network.last][0])
        assert np.array_equal(forward[network.loss][0], expected[network.loss][0])
        assert not np.array_equal(forward[network.loss][1], expected[network.loss][1])
        assert (forward["Gradient___w0"] == -1).all()
    with pytest.raises(popart.popart_exception, match="implicitPipeliningFwdOnly"):
        plain.run("implicitPipeliningFwdOnly", popart.PyStepIO({}, {}))


def test_program_of_forward_passes_needs_an_anchor_of_its_own():
    given = accumulating(6, createImplicitPipeliningFwdOnlyProgram=True)
    with pytest.raises(popart.popart_exception, match="no anchor is a tensor of the forward pass"):
        training(Network(3), options_for(True, **given), ["Gradient___w0"])
