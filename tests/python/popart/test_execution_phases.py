"""Execution phases: the bits of the plain program, less memory where tensors are off chip between phases, refusals."""

import numpy as np
import popart
import pytest

import onnx
from tests.python.popart.test_off_chip import KINDS, off_chip, planned
from tests.python.popart.training_runs import inference_session, ready, training_session, types_of

WIDTH, LAYERS, BATCH = 32, 6, 8
Phases, Off = popart.VirtualGraphMode.ExecutionPhases, popart.VirtualGraphMode.Off
Preload, OnDemand = popart.ExecutionPhaseIOSchedule.Preload, popart.ExecutionPhaseIOSchedule.OnDemand
SCHEDULES = {
    "interleaving": popart.ExecutionPhaseSchedule.Interleaving,
    "batch": popart.ExecutionPhaseSchedule.Batch,
    "clustered": popart.ExecutionPhaseSchedule.BatchClusteredIO,
}
OPTIMIZERS = {
    "sgd": lambda: popart.SGD({"defaultLearningRate": (0.1, False)}),
    "momentum": lambda: popart.SGD({"defaultLearningRate": (0.05, True), "defaultMomentum": (0.9, True)}),
    "adam": lambda: popart.Adam({"defaultLearningRate": (0.01, True)}),
}


def model(phase_of=None, width=WIDTH, layers=LAYERS, batch=BATCH):
    """Layers with a weight that two of them share and a connection past three of them."""
    rng = np.random.default_rng(5)
    builder = popart.Builder()

    def weight(name):
        return builder.addInitializedInputTensor(rng.normal(0, width**-0.5, (width, width)).astype(np.float32), name)

    tied = weight("tied")
    h = early = builder.addInputTensor("FLOAT", [batch, width], "x")

    def annotated(t, layer):
        if phase_of and phase_of(layer) is not None:
            builder.executionPhase(t, phase_of(layer))
        return t

    for i in range(layers):
        h = annotated(builder.aiOnnx.matmul([h, tied if i in (0, layers - 1) else weight(f"w{i}")]), i)
        h = annotated(builder.aiOnnx.tanh([h]), i)
        if i == 0:
            early = h
        if i == 3:
            h = annotated(builder.aiOnnx.add([h, early]), i)
    loss = annotated(builder.aiGraphcore.l1loss([h], 0.5, reduction=popart.ReductionType.Sum), layers - 1)
    return builder.getModelProto(), loss


def options_for(phases, kinds=(), mode=Phases, schedule=Preload, io=SCHEDULES["interleaving"], stages=2, **given):
    options = off_chip(*kinds, **given)
    options.virtualGraphMode = mode
    options.executionPhaseSettings = popart.ExecutionPhaseSettings(
        phases, stages, schedule, schedule, schedule, schedule, io
    )
    return options


def training(options, optimizer="sgd", **shape):
    proto, loss = model(**shape)
    session = ready(training_session(proto, loss, OPTIMIZERS[optimizer](), options, batches=2))
    return session, loss


def state_after(options, optimizer, path, **shape):
    """Losses, then weights and optimizer state."""
    session, loss = training(options, optimizer, **shape)
    anchors = session.initAnchorArrays()
    rng = np.random.default_rng(8)
    lead = [n for n in (2, options.accumulationFactor, options.replicatedGraphCount) if n > 1]
    losses = []
    for _ in range(5):
        session.run(popart.PyStepIO({"x": rng.normal(size=(*lead, BATCH, WIDTH)).astype(np.float32)}, anchors))
        losses.append(anchors[loss].tobytes())
    session.modelToHost(str(path / "model.onnx"))
    state = {t.name: t.raw_data or t.float_data for t in onnx.load(path / "model.onnx").graph.initializer}
    return losses, {name: bytes(value) if isinstance(value, bytes) else list(value) for name, value in state.items()}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_same_bits(optimizer, tmp_path):
    expected = state_after(off_chip(), optimizer, tmp_path)
    for kinds in ((), KINDS, ("weight",), ("activation",), ("optimizerState",)):
        for schedule in (Preload, OnDemand):
            for io in SCHEDULES.values():
                found = state_after(options_for(3, kinds, schedule=schedule, io=io), optimizer, tmp_path)
                assert found == expected, (kinds, schedule, io)


@pytest.mark.parametrize("phase_of", [lambda i: i // 2, lambda i: 0 if i < 4 else 2], ids=["even", "with an empty one"])
def test_annotated_phases(phase_of, tmp_path):
    expected = state_after(off_chip(), "adam", tmp_path)
    assert state_after(options_for(3, KINDS), "adam", tmp_path, phase_of=phase_of) == expected


@pytest.mark.parametrize(
    "given",
    [
        {"enableGradientAccumulation": True, "accumulationFactor": 3},
        {"enableReplicatedGraphs": True, "replicatedGraphCount": 2},
        *({"autoRecomputation": rule} for rule in popart.RecomputationType if rule.name in ("Standard", "NormOnly")),
        {"autoRecomputation": popart.RecomputationType.RecomputeAll},
    ],
    ids=lambda given: f"{next(iter(given))}-{next(iter(given.values()))}",
)
def test_the_same_bits_with_other_transforms(given, tmp_path):
    expected = state_after(off_chip(**given), "momentum", tmp_path)
    for schedule in (Preload, OnDemand):
        assert state_after(options_for(2, KINDS, schedule=schedule, **given), "momentum", tmp_path) == expected


def test_memory_falls():
    shape = {"width": 128, "layers": 12, "batch": 4}
    weights = 11 * 128 * 128 * 4  # one is used twice

    def on_device(options):
        rows = planned(training(options, "adam", **shape)[0])
        return rows["activations"] + rows["variables"]

    plain = on_device(off_chip())
    ahead, on_demand = (on_device(options_for(6, KINDS, schedule=s)) for s in (Preload, OnDemand))
    assert plain > 3 * weights
    assert on_demand <= ahead < 0.5 * plain


def test_preloading_loads_one_phase_ahead():
    def loads_up_to_second_product(schedule):
        proto, loss = model()
        apart = {"enableOutlining": False, "enableMergeExchange": False}
        session = inference_session(proto, [loss], options_for(LAYERS, ("weight",), schedule=schedule, **apart))
        types = types_of(session)
        second = [i for i, type in enumerate(types) if type == "Tanh"][1]
        return types[:second].count("RemoteLoad")

    assert loads_up_to_second_product(OnDemand) == 2
    assert loads_up_to_second_product(Preload) == 3


def test_some_operations_without_a_phase_are_refused():
    with pytest.raises(popart.popart_exception, match=r"got \d+ of \d+ ops with an execution phase, none for .*MatMul"):
        training(options_for(2), phase_of=lambda i: None if i == 3 else 0)


def test_phases_that_go_back_are_refused():
    with pytest.raises(popart.popart_exception, match=r"reads '.*' of a later phase: got phase 0 for it and 1 for"):
        training(options_for(2), phase_of=lambda i: 1 if i == 2 else 0)


def test_phases_that_there_are_not_are_refused():
    with pytest.raises(popart.popart_exception, match="got execution phase 2, expected 0 to 1"):
        training(options_for(2), phase_of=lambda i: min(i, 2))


def test_contradicting_options_are_refused():
    with pytest.raises(popart.popart_exception, match="phases above 1 requires virtualGraphMode ExecutionPhases"):
        training(options_for(2, mode=Off))
    with pytest.raises(popart.popart_exception, match=r"executionPhaseSettings\.stages must be 1 or 2"):
        training(options_for(2, stages=3))


def test_stages_are_the_ipus_that_a_device_must_have():
    proto, loss = model()

    def prepare(stages, ipus):
        session = inference_session(
            proto,
            [loss],
            options_for(3, stages=stages),
            device=popart.DeviceManager().createIpuModelDevice({"numIPUs": ipus}),
        )
        session.prepareDevice()

    prepare(1, 1)
    prepare(2, 2)
    with pytest.raises(popart.popart_exception, match="got 1 IPUs, expected 2"):
        prepare(2, 1)
