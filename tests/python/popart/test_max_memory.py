"""`max_memory`: a program above the limit computes again or moves off chip what it takes to fit; the same bits."""

import re

import numpy as np
import popart
import pytest

from tests.python.popart.test_recomputation import NETWORKS, OPTIMIZERS, Network
from tests.python.popart.training_runs import inference_session, options_with, ready, saved_state, training_session

STEPS = 4
WIDE = 192  # transposes of larger weights than 64 KiB are not computed when a model is read
BUILD = {"mlp": {"width": 32, "layers": 8, "batch": 64}, "convolutions": {}, "attention": {}}


def session_of(name, optimizer="sgd", limit=None, batches=1, engine=None, build=None, **given):
    network = Network()
    loss = getattr(network, name)(**(build or BUILD[name]))
    engine = {**(engine or {}), **({} if limit is None else {"max_memory": str(limit)})}
    options = options_with(**given, engineOptions=engine)
    session = training_session(network.builder.getModelProto(), loss, OPTIMIZERS[optimizer](), options, batches=batches)
    return session, network, loss


def train(session, network, loss, folder, lead=(), steps=STEPS):
    """Bytes of all losses, and of weights and optimizer state at the end."""
    ready(session, seed=7)
    anchors = session.initAnchorArrays()
    rng, losses = np.random.default_rng(3), []
    for _ in range(steps):
        feeds = {
            tensor: rng.integers(0, 5, (*lead, *shape), np.int32)
            if tensor == "labels"
            else rng.normal(size=(*lead, *shape)).astype(np.float32)
            for tensor, shape in network.shapes.items()
        }
        session.run(popart.PyStepIO(feeds, anchors))
        losses.append(anchors[loss].tobytes())
    return losses, saved_state(session, folder)


def planned(session):
    """Bytes on the device."""
    report = session.getSummaryReport()
    kinds = ("activations", "variables", "constants", "scratch")
    return sum(int(re.search(rf"  {kind}: (\d+) bytes", report)[1]) for kind in kinds)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", NETWORKS)
def test_same_bits_under_every_limit(name, optimizer, tmp_path):
    session, network, loss = session_of(name, optimizer)
    plain = train(session, network, loss, tmp_path)
    need = planned(session)
    assert session.memoryFit() is None
    refused = []
    for share in (0.95, 0.8, 0.65, 0.5, 0.35, 0.2, 0.1, 0.02):
        limit = int(share * need)
        session, network, loss = session_of(name, optimizer, limit)
        try:
            found = train(session, network, loss, tmp_path)
        except popart.OutOfMemoryException:
            refused.append(share)
            continue
        assert not refused, "a smaller limit was met, a larger one was not"
        assert found == plain, share
        fit = session.memoryFit()
        assert fit.plainBytes == need
        assert fit.limitBytes == limit
        assert fit.bytes == planned(session) <= limit
        assert fit.choices
        assert fit.milliseconds > 0
        assert fit.plainMilliseconds > 0
        assert 1 <= fit.compilations <= 10
    assert refused, "2 % was enough"
    assert 0.8 not in refused


@pytest.mark.parametrize(
    ("given", "lead"),
    [
        ({"batches": 3}, (3,)),
        ({"factor": 4}, (4,)),
        ({"replicas": 2}, (2,)),
        ({"batches": 2, "factor": 2, "replicas": 2}, (2, 2, 2)),
    ],
    ids=["batches", "accumulation", "replicas", "all"],
)
def test_same_bits_in_loops_and_replicas(given, lead, tmp_path):
    session, network, loss = session_of("mlp", "adam", **given)
    plain = train(session, network, loss, tmp_path, lead)
    limit = int(0.55 * planned(session) * given.get("replicas", 1))
    session, network, loss = session_of("mlp", "adam", limit, **given)
    assert train(session, network, loss, tmp_path, lead) == plain
    assert session.memoryFit().bytes * given.get("replicas", 1) <= limit


def serialised(session):
    return session._serializeIr(popart.IrSerializationFormat.JSON)


def test_a_program_that_fits_stays_as_it_is():
    free, *_ = session_of("mlp")
    free.prepareDevice()
    tight, *_ = session_of("mlp", limit=planned(free))
    tight.prepareDevice()
    assert tight.memoryFit() is None
    assert serialised(tight) == serialised(free)
    assert tight.getThreadReport() == free.getThreadReport()
    assert "Memory limit" not in tight.getSummaryReport()


def test_a_mild_limit_computes_little_again():
    session, *_ = session_of("mlp")
    session.prepareDevice()
    need = planned(session)
    times = []
    for share in (0.9, 0.7, 0.5):
        session, *_ = session_of("mlp", limit=int(share * need))
        session.prepareDevice()
        fit = session.memoryFit()
        times.append(fit.milliseconds / fit.plainMilliseconds)
    assert times == sorted(times)


def test_the_plan_is_reported():
    session, *_ = session_of("attention", "adam")
    session.prepareDevice()
    session, *_ = session_of("attention", "adam", limit=int(0.65 * planned(session)))
    session.prepareDevice()
    report = session.getSummaryReport()
    fit = session.memoryFit()
    assert f"limit: {fit.limitBytes} bytes" in report
    assert f"as it is: {fit.plainBytes} bytes" in report
    assert f"as it runs: {fit.bytes} bytes" in report
    for choice in fit.choices:
        assert f"{choice.what}: {choice.tensors} tensors, {choice.bytes} bytes" in report


def test_names_stay_as_they_were(tmp_path):
    session, *_ = session_of("mlp", "adam")
    session.prepareDevice()
    tight, network, loss = session_of("mlp", "adam", limit=planned(session) // 2)
    before, variables = tight.getTensorIds(), tight._variableIds()
    infos = {name: tight.getInfo(name) for name in before}
    train(tight, network, loss, tmp_path)
    assert tight.memoryFit() is not None
    assert tight.getTensorIds() == before
    assert tight._variableIds() == variables
    assert all(tight.getInfo(name) == info for name, info in infos.items())


def test_what_is_asked_for_by_hand_is_kept(tmp_path):
    session, network, loss = session_of("mlp", "momentum")
    plain = train(session, network, loss, tmp_path)
    standard = popart.RecomputationType.Standard
    session, *_ = session_of("mlp", "momentum", autoRecomputation=standard)
    session.prepareDevice()
    need = planned(session)
    session, network, loss = session_of("mlp", "momentum", int(0.8 * need), autoRecomputation=standard)
    assert train(session, network, loss, tmp_path) == plain
    assert {choice.what for choice in session.memoryFit().choices} <= {
        "activations off chip",
        "optimizer state off chip",
        "weights off chip",
    }
    on_chip = {name: popart.TensorLocation(popart.TensorStorage.OnChip) for name in session.getTensorIds()}
    session, *_ = session_of(
        "mlp", "momentum", need // 8, autoRecomputation=standard, tensorLocationSettingsOverride=on_chip
    )
    with pytest.raises(popart.OutOfMemoryException):
        session.prepareDevice()


def test_remote_memory_counts_where_it_is_of_the_limited_memory(monkeypatch, tmp_path):
    """Then activations are computed again and nothing moves, unless to files."""
    counts = {"max_memory_counts_remote": "true"}
    session, network, loss = session_of("mlp", "adam")
    plain = train(session, network, loss, tmp_path)
    need = planned(session)
    session, network, loss = session_of("mlp", "adam", limit=int(0.85 * need), engine=counts)
    assert train(session, network, loss, tmp_path) == plain
    assert [choice.what for choice in session.memoryFit().choices] == ["computed again"]
    assert session.memoryFit().remoteBytes == 0
    session, *_ = session_of("mlp", "adam", limit=need // 2, engine=counts)
    with pytest.raises(popart.OutOfMemoryException, match=r"keep tensors in files \(POPART_REMOTE_MEMORY"):
        session.prepareDevice()
    monkeypatch.setenv("POPART_REMOTE_MEMORY", str(tmp_path))
    session.prepareDevice()
    assert session.memoryFit().bytes <= need // 2
    monkeypatch.delenv("POPART_REMOTE_MEMORY")
    session, *_ = session_of("mlp", "adam", limit=1, engine={"max_memory_counts_remote": "maybe"})
    with pytest.raises(popart.popart_exception, match="max_memory_counts_remote: got 'maybe'"):
        session.prepareDevice()


def test_the_refusal_names_three_remedies():
    session, *_ = session_of("mlp", "adam")
    session.prepareDevice()
    need = planned(session)
    session, *_ = session_of("mlp", "adam", limit=1000)
    with pytest.raises(popart.OutOfMemoryException, match="does not fit the memory limit") as caught:
        session.prepareDevice()
    message = str(caught.value)
    assert f"got {need} bytes" in message
    assert "expected at most 1000" in message
    remedies = re.findall(r"\n  .*: (?:about )?(\d+) bytes, (\d+\.\d+) times the time", message)
    assert 2 <= len(remedies) <= 3
    assert [float(times) for _, times in remedies] == sorted(float(times) for _, times in remedies)
    assert "Largest tensors" in message
    with pytest.raises(popart.popart_exception, match="before the program is compiled"):
        session.getThreadReport()


def test_a_remedy_holds_what_it_promises():
    """The smallest limit that the refusal names is enough."""
    session, *_ = session_of("attention", "momentum", limit=1000)
    with pytest.raises(popart.OutOfMemoryException) as caught:
        session.prepareDevice()
    limits = [int(bytes_) for bytes_ in re.findall(r"allow (\d+) bytes", str(caught.value))]
    session, *_ = session_of("attention", "momentum", limit=min(limits))
    session.prepareDevice()


@pytest.mark.parametrize("share", [0.2, 0.1, 0.08])
def test_the_smaller_micro_batches_of_the_refusal_fit(share):
    shape = {"width": 32, "layers": 8, "batch": 2048}
    session, *_ = session_of("mlp", "adam", build=shape)
    session.prepareDevice()
    limit = int(share * planned(session))
    session, *_ = session_of("mlp", "adam", limit, build=shape)
    with pytest.raises(popart.OutOfMemoryException) as caught:
        session.prepareDevice()
    found = re.search(
        r"accumulate over (\d+) micro-batches, .*: about (\d+) bytes, (\d+\.\d+) times", str(caught.value)
    )
    factor, promised = int(found[1]), int(found[2])
    assert promised <= limit
    assert share < 0.1 or float(found[3]) < 1.5
    session, *_ = session_of("mlp", "adam", limit, build={**shape, "batch": 2048 // factor}, factor=factor)
    session.prepareDevice()
    assert planned(session) == pytest.approx(promised, rel=0.3)


def test_fewer_replicas_are_a_remedy():
    session, *_ = session_of("mlp", "adam")
    session.prepareDevice()
    one = planned(session)
    session, *_ = session_of("mlp", "adam", one // 3, replicas=4)
    # of more threads each replica has less scratch memory, so that two of them may fit
    remedy = "train with (1 replicas instead of 4 and accumulate 4|2 replicas instead of 4 and accumulate 2) times"
    with pytest.raises(popart.OutOfMemoryException, match=remedy):
        session.prepareDevice()


def test_fitted_programs_are_saved_and_loaded(tmp_path):
    session, network, loss = session_of("mlp", "adam")
    plain = train(session, network, loss, tmp_path)
    limit = planned(session) // 2
    session, *_ = session_of("mlp", "adam", limit)
    session.compileAndExport(str(tmp_path / "program.popef"))
    loaded, network, loss = session_of("mlp", "adam", limit)
    loaded.loadExecutable(str(tmp_path / "program.popef"))
    assert train(loaded, network, loss, tmp_path) == plain
    assert planned(loaded) <= limit
    assert loaded.memoryFit() is None  # the program in the file fits


def test_fitted_programs_are_cached(tmp_path):
    session, network, loss = session_of("mlp", "adam")
    plain = train(session, network, loss, tmp_path)
    limit = planned(session) // 2
    for _ in range(2):
        session, network, loss = session_of(
            "mlp", "adam", limit, enableEngineCaching=True, cachePath=str(tmp_path / "cache")
        )
        assert train(session, network, loss, tmp_path) == plain
        assert planned(session) <= limit


def inference(limit=None, convolutions=False, **given):
    """A session, its feeds and its result: products with weights in both orientations, or a normalised convolution."""
    rng = np.random.default_rng(0)
    builder = popart.Builder(opsets={"ai.onnx": 9, "ai.graphcore": 1})

    def weight(*shape, value=None):
        values = rng.normal(0, 0.1, shape) if value is None else np.full(shape, value)
        return builder.addInitializedInputTensor(values.astype(np.float32))

    if convolutions:
        x = builder.addInputTensor("FLOAT", [4, 64, 6, 6], "x")
        y = builder.aiOnnx.conv([x, weight(64, 64, 3, 3)], [1, 1], 1, [], [1, 1, 1, 1], [1, 1])
        (y,) = builder.aiOnnx.batchnormalization([y, *(weight(64, value=v) for v in (1.5, 0.1, 0.2, 2))], 1)
    else:
        x = y = builder.addInputTensor("FLOAT", [8, WIDE], "x")
        for layer in range(8):
            if layer % 2:
                y = builder.aiOnnx.gemm([y, weight(WIDE, WIDE), weight(WIDE)], 1, 1, False, True)
            else:
                y = builder.aiOnnx.matmul([y, weight(WIDE, WIDE)])
            y = builder.aiOnnx.tanh([y])
    options = options_with(**given, engineOptions={} if limit is None else {"max_memory": str(limit)})
    session = inference_session(builder.getModelProto(), [y], options)
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    feeds = {x: rng.normal(size=(4, 64, 6, 6) if convolutions else (8, WIDE)).astype(np.float32)}
    session.run(popart.PyStepIO(feeds, anchors))
    return session, anchors[y].tobytes()


@pytest.mark.parametrize("constant", [True, False], ids=["constants", "variables"])
def test_weights_of_inference_lie_off_chip(constant):
    session, plain = inference(constantWeights=constant)
    limit = planned(session) // 3
    session, found = inference(limit, constantWeights=constant)
    assert found == plain
    assert planned(session) <= limit
    assert [choice.what for choice in session.memoryFit().choices] == ["weights off chip"]


def test_weights_that_are_folded_stay():
    """A normalisation is folded into the constant weights of its convolution: other bits if they were variables."""
    session, _ = inference(convolutions=True)
    with pytest.raises(popart.OutOfMemoryException, match=r"feed batches of 1 instead of 4|allow \d+ bytes"):
        inference(planned(session) // 2, convolutions=True)


def test_pipelines_are_not_changed():
    """Stages say themselves what is kept: the refusal names remedies, and nothing is chosen."""
    given = {"virtualGraphMode": popart.VirtualGraphMode.Auto, "enablePipelining": True, "factor": 8}

    def pipelined(limit=None):
        network = Network()
        loss = network.mlp(**BUILD["mlp"])
        options = options_with(**given, engineOptions={} if limit is None else {"max_memory": str(limit)})
        session = training_session(
            network.builder.getModelProto(),
            loss,
            OPTIMIZERS["sgd"](),
            options,
            device=popart.DeviceManager().createIpuModelDevice({"numIPUs": 4}),
        )
        session.prepareDevice()
        return session

    need = planned(pipelined())
    assert pipelined(need).memoryFit() is None
    with pytest.raises(popart.OutOfMemoryException, match=r"What would help(?s:.*)allow \d+ bytes"):
        pipelined(need * 3 // 4)
