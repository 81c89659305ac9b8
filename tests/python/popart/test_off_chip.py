"""Tensors off chip through session options: the bits of the plain program, less memory, files, refusals."""

import numpy as np
import popart
import pytest

from tests.python.popart.test_accumulation import CASES
from tests.python.popart.test_recomputation import Network
from tests.python.popart.training_runs import inference_session, options_with, ready, saved_state, training_session

WIDTH, LAYERS, BATCH = 16, 4, 6
WIDE = 128  # a multiple of every panel width, so that packed weights have no padding
KINDS = ("weight", "optimizerState", "accumulator", "activation")
OFF = popart.TensorLocation(popart.TensorStorage.OffChip)


def model(width=WIDTH, layers=LAYERS, batch=BATCH, seed=5):
    rng = np.random.default_rng(seed)
    builder = popart.Builder()
    h = builder.addInputTensor("FLOAT", [batch, width], "x")
    for i in range(layers):
        w = builder.addInitializedInputTensor(rng.normal(0, width**-0.5, (width, width)).astype(np.float32), f"w{i}")
        b = builder.addInitializedInputTensor(rng.normal(0, 0.1, width).astype(np.float32), f"b{i}")
        h = builder.aiOnnx.tanh([builder.aiOnnx.add([builder.aiOnnx.matmul([h, w]), b])], f"h{i}")
    loss = builder.aiGraphcore.l1loss([h], 0.5, reduction=popart.ReductionType.Sum, debugContext="loss")
    return builder.getModelProto(), loss


def off_chip(*kinds, **given):
    locations = {f"{kind}TensorLocationSettings": popart.TensorLocationSettings(OFF, 2, 8192) for kind in kinds}
    return options_with(**locations, **given)


def training(options, optimizer=None, anchors=None, steps=2, **shape):
    proto, loss = model(**shape)
    optimizer = optimizer or popart.Adam({"defaultLearningRate": (0.01, False)})
    return ready(training_session(proto, loss, optimizer, options, anchors, steps)), loss


def state_after(options, optimizer, lead, runs=10, tmp_path=None):
    """Losses of `runs` runs, then weights and optimizer state."""
    session, loss = training(options, optimizer)
    anchors = session.initAnchorArrays()
    rng = np.random.default_rng(8)
    losses = []
    for _ in range(runs):
        session.run(popart.PyStepIO({"x": rng.normal(size=(*lead, BATCH, WIDTH)).astype(np.float32)}, anchors))
        losses.append(anchors[loss].copy())
    return np.stack(losses), saved_state(session, tmp_path)


@pytest.mark.parametrize("kinds", [KINDS, *((k,) for k in KINDS)], ids="+".join)
@pytest.mark.parametrize("name", ["sgd", "momentum", "separate", "adam"])
def test_the_same_bits(name, kinds, tmp_path):
    make, _ = CASES[name]
    losses, state = state_after(off_chip(), make(), (2,), tmp_path=tmp_path)
    moved_losses, moved_state = state_after(off_chip(*kinds), make(), (2,), tmp_path=tmp_path)
    np.testing.assert_array_equal(moved_losses, losses)
    assert moved_state == state


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("name", ["momentum", "adam"])
def test_the_same_bits_with_accumulation_and_replicas(name, replicas, tmp_path):
    make, _ = CASES[name]
    given = {"factor": 3, "replicas": replicas}
    lead = (2, 3) if replicas == 1 else (2, 3, replicas)
    plain = state_after(off_chip(**given), make(), lead, tmp_path=tmp_path)
    moved = state_after(off_chip(*KINDS, **given), make(), lead, tmp_path=tmp_path)
    np.testing.assert_array_equal(moved[0], plain[0])
    assert moved[1] == plain[1]


def planned(session):
    """Bytes of the rows of the summary."""
    rows = [
        line.strip().rpartition(": ") for line in session.getSummaryReport().splitlines() if line.endswith(" bytes")
    ]
    return {key: int(value.split()[0]) for key, _, value in rows}


def test_memory_falls():
    shape = {"width": 128, "layers": 12, "batch": 2}
    plain = planned(training(off_chip(), **shape)[0])
    moved = planned(training(off_chip(*KINDS), **shape)[0])
    weights = 12 * 128 * 128 * 4
    assert plain["variables"] > 3 * weights
    assert moved["variables"] < 0.01 * weights
    assert moved["remote memory"] > 3 * weights
    assert moved["activations"] < weights  # what a few layers need at one time


def test_max_memory_counts_what_is_on_the_device():
    """Weights and state of 30 MiB train within 8 MiB, and are refused where they may not leave the device."""
    shape = {"width": 512, "layers": 10, "batch": 2}
    limit = {"engineOptions": {"max_memory": "8M"}}
    session, loss = training(off_chip(*KINDS, **limit), **shape)
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": np.ones((2, 2, 512), np.float32)}, anchors))
    assert np.isfinite(anchors[loss]).all()
    stays = {f"w{i}": popart.TensorLocation(popart.TensorStorage.OnChip) for i in range(10)}
    with pytest.raises(popart.OutOfMemoryException):
        training(off_chip(**limit, tensorLocationSettingsOverride=stays), **shape)


def test_files_hold_the_tensors(monkeypatch, tmp_path):
    plain = state_after(off_chip(), popart.ConstSGD(0.1), (2,), tmp_path=tmp_path)
    folder = tmp_path / "remote"
    folder.mkdir()
    monkeypatch.setenv("POPART_REMOTE_MEMORY", str(folder))
    moved = state_after(off_chip(*KINDS), popart.ConstSGD(0.1), (2,), tmp_path=tmp_path)
    np.testing.assert_array_equal(moved[0], plain[0])
    assert moved[1] == plain[1]
    assert list(folder.iterdir()) == []


def test_a_tensor_by_name_comes_before_its_kind():
    first, _ = training(off_chip(tensorLocationSettingsOverride={"w1": OFF}), width=WIDE)
    remote = planned(first)["remote memory"]
    assert remote == WIDE * WIDE * 4
    on_chip = popart.TensorLocation(popart.TensorStorage.OnChip)
    second, _ = training(off_chip("weight", tensorLocationSettingsOverride={"w1": on_chip}), width=WIDE)
    assert planned(second)["remote memory"] == LAYERS * (WIDE + 1) * WIDE * 4 - remote


def test_small_tensors_stay():
    options = off_chip()
    options.weightTensorLocationSettings = popart.TensorLocationSettings(OFF, WIDE + 1, 8192)
    session, _ = training(options, width=WIDE)
    assert planned(session)["remote memory"] == LAYERS * WIDE * WIDE * 4


def test_an_anchored_weight_has_its_value_after_the_update():
    final = popart.AnchorReturnType("Final")
    session, _ = training(off_chip(*KINDS), anchors={"w0": final})
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": np.ones((2, BATCH, WIDTH), np.float32)}, anchors))
    session.weightsToHost()
    arrays = {"w0": np.empty((WIDTH, WIDTH), np.float32)}
    session.readWeights(popart.PyWeightsIO(arrays))
    np.testing.assert_array_equal(anchors["w0"], arrays["w0"])


def test_inference_streams_its_weights():
    proto, output = model(width=WIDE)
    results = []
    for options in (off_chip(), off_chip("weight")):
        session = ready(inference_session(proto, [output], options))
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO({"x": np.ones((BATCH, WIDE), np.float32)}, anchors))
        results.append(anchors[output].copy())
    np.testing.assert_array_equal(*results)
    assert planned(session)["remote memory"] == LAYERS * (WIDE + 1) * WIDE * 4


def test_weights_are_read_and_written_by_the_host(tmp_path):
    session, _ = training(off_chip(*KINDS))
    new = np.full((WIDTH, WIDTH), 0.25, np.float32)
    session.writeWeights(popart.PyWeightsIO({"w2": new}))
    session.weightsFromHost()
    session.weightsToHost()
    arrays = {"w2": np.empty((WIDTH, WIDTH), np.float32)}
    session.readWeights(popart.PyWeightsIO(arrays))
    np.testing.assert_array_equal(arrays["w2"], new)


def test_kept_programs_know_what_is_off_chip(tmp_path):
    plain = state_after(off_chip(), popart.ConstSGD(0.1), (2,), tmp_path=tmp_path)
    cached = {"enableEngineCaching": True, "cachePath": str(tmp_path / "cache")}
    for _ in range(2):
        moved = state_after(off_chip(*KINDS, **cached), popart.ConstSGD(0.1), (2,), tmp_path=tmp_path)
        np.testing.assert_array_equal(moved[0], plain[0])
        assert moved[1] == plain[1]


def test_weights_that_are_updated_in_parts(tmp_path):
    """The parts are views of the copy that the phase has loaded."""

    def trained(options):
        rng = np.random.default_rng(2)
        builder = popart.Builder()
        x = builder.addInputTensor("FLOAT", [4, 8], "x")
        w = builder.addInitializedInputTensor(rng.normal(size=(8, 16)).astype(np.float32), "w")
        y = builder.aiOnnx.matmul([x, w])
        builder.setSerializeMatMul({y}, "output_channels", 4, False)
        loss = builder.aiGraphcore.l1loss([y], 0.5, reduction=popart.ReductionType.Sum)
        session = ready(
            training_session(
                builder.getModelProto(), loss, popart.Adam({"defaultLearningRate": (0.01, False)}), options, batches=2
            )
        )
        for _ in range(3):
            session.run(popart.PyStepIO({x: rng.normal(size=(2, 4, 8)).astype(np.float32)}, session.initAnchorArrays()))
        session.weightsToHost()
        arrays = {w: np.empty((8, 16), np.float32)}
        session.readWeights(popart.PyWeightsIO(arrays))
        return arrays[w]

    plain = trained(off_chip())
    np.testing.assert_allclose(trained(off_chip(*KINDS)), plain, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("tensor", ["Gradient___Add:0/2", "Gelu:0", "MatMul:0/1"])
def test_values_that_reach_the_backward_pass_by_remote_memory_alone(tensor, tmp_path):
    """A load waits for the store although no tensor leads from one to the other: kernels do not span both."""

    def trained(**given):
        network = Network()
        loss = network.mlp(layers=2)
        session = ready(
            training_session(network.builder.getModelProto(), loss, popart.ConstSGD(0.1), options_with(**given))
        )
        anchors = session.initAnchorArrays()
        rng, losses = np.random.default_rng(4), []
        for _ in range(4):
            feeds = {"x": rng.normal(size=(8, 16)).astype(np.float32), "labels": rng.integers(0, 5, 8, np.int32)}
            session.run(popart.PyStepIO(feeds, anchors))
            losses.append(anchors[loss].tobytes())
        return losses, saved_state(session, tmp_path), session

    *plain, _ = trained()
    *moved, session = trained(tensorLocationSettingsOverride={tensor: OFF})
    assert moved == plain
    assert (planned(session).get("remote memory", 0) > 0) == (tensor != "MatMul:0/1")  # nothing reads it backwards


def test_an_override_that_names_no_tensor_warns(capfd):
    """The program runs as without it; each name is said once."""
    for _ in range(2):
        training(off_chip(tensorLocationSettingsOverride={"w_1": OFF, "w1": OFF}), width=WIDE)
    lines = [line for line in capfd.readouterr().err.splitlines() if "tensorLocationSettingsOverride" in line]
    assert len(lines) == 1 and "['w_1'] has no effect" in lines[0] and "w1" in lines[0].split("Nearest")[1]
