"""mergeVarUpdate: fewer update operations, the same bits, and weights that the host sees as before."""

import numpy as np
import popart
import pytest

import onnx
from tests.python.popart.test_recomputation import Case, session_of, train
from tests.python.popart.training_runs import training_session, types_of

TYPES = popart.MergeVarUpdateType
OPTIMIZERS = {
    "sgd": lambda: popart.SGD({"defaultLearningRate": (0.1, False), "defaultWeightDecay": (0.01, False)}),
    "scheduled": lambda: popart.SGD({"defaultLearningRate": (0.1, False), "defaultWeightDecay": (0.01, True)}),
    "momentum": lambda: popart.SGD({"defaultLearningRate": (0.05, False), "defaultMomentum": (0.9, False)}),
    "separate": lambda: popart.SGD(
        {"defaultLearningRate": (0.05, False), "defaultMomentum": (0.9, False)},
        accumulatorAndMomentum=popart.SGDAccumulatorAndMomentum.Separate,
    ),
    "nesterov": lambda: popart.SGD(
        {
            "defaultLearningRate": (0.05, False),
            "defaultMomentum": (0.9, False),
            "nesterov": (True, True),
        }
    ),
    "clipped": lambda: popart.SGD(
        {"defaultLearningRate": (0.1, False)}, clip_norm_settings=[popart.ClipNormSettings.clipAllWeights(0.05)]
    ),
    "adam": lambda: popart.Adam({"defaultLearningRate": (0.01, False), "defaultWeightDecay": (0.02, True)}),
    "lamb": lambda: popart.Adam({"defaultLearningRate": (0.01, False)}, mode=popart.AdamMode.Lamb),
    "rmsprop": lambda: popart.Adaptive({"defaultLearningRate": (0.01, False)}, mode=popart.AdaptiveMode.RMSProp),
    "adadelta": lambda: popart.Adaptive({"defaultLearningRate": (0.01, False)}, mode=popart.AdaptiveMode.AdaDelta),
}
BATCH, WIDTH, LAYERS = 4, 8, 3


def model():
    rng = np.random.default_rng(5)
    builder = popart.Builder()
    h = builder.addInputTensor("FLOAT", [BATCH, WIDTH], "x")
    for i in range(LAYERS):
        w = builder.addInitializedInputTensor(rng.normal(0, 0.4, (WIDTH, WIDTH)).astype(np.float32), f"w{i}")
        b = builder.addInitializedInputTensor(rng.normal(0, 0.1, WIDTH).astype(np.float32), f"b{i}")
        scale = builder.addInitializedInputTensor(rng.normal(1, 0.1, (1, WIDTH)).astype(np.float32), f"scale{i}")
        h = builder.aiOnnx.tanh([builder.aiOnnx.add([builder.aiOnnx.matmul([h, w]), b])])
        h = builder.aiOnnx.mul([h, scale])
    loss = builder.aiGraphcore.l1loss([h], 0.5, reduction=popart.ReductionType.Sum)
    return builder.getModelProto(), loss


def session_with(optimizer, merge=TYPES.Off, anchors=(), **given):
    proto, loss = model()
    options = popart.SessionOptions()
    options.mergeVarUpdate = merge
    options.enableOutlining = False
    for name, value in given.items():
        setattr(options, name, value)
    session = training_session(proto, loss, optimizer, options, [loss, *anchors])
    return session, loss, options


def trained(path, optimizer, merge=TYPES.Off, **given):
    """Losses, all that is saved, and the operations."""
    session, loss, options = session_with(optimizer, merge, **given)
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    rng = np.random.default_rng(3)
    lead = [n for n in (options.accumulationFactor, options.replicatedGraphCount) if n > 1]
    losses = []
    for _ in range(6):
        session.run(popart.PyStepIO({"x": rng.normal(size=(*lead, BATCH, WIDTH)).astype(np.float32)}, anchors))
        losses.append(anchors[loss].tobytes())
    session.modelToHost(str(path / "model.onnx"))
    state = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(path / "model.onnx").graph.initializer}
    return losses, {name: (t.shape, t.tobytes()) for name, t in state.items()}, types_of(session)


def count_updates(ops):
    return sum(type.endswith("VarUpdate") or type == "Accumulate" for type in ops)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_same_bits_with_fewer_updates(name, tmp_path):
    losses, state, ops = trained(tmp_path, OPTIMIZERS[name]())
    for merge, bytes_ in ((TYPES.All, 0), (TYPES.AutoTight, 80), (TYPES.AutoLoose, 128)):
        given = {"mergeVarUpdateMemThreshold": bytes_} if bytes_ else {}
        found = trained(tmp_path, OPTIMIZERS[name](), merge, **given)
        assert found[0] == losses and found[1] == state, merge
        # Lamb's updates take norms of single weights; its moments are merged
        assert count_updates(found[2]) < count_updates(ops), merge


def test_numbers_of_updates(tmp_path):
    """Six vectors of 32 bytes beside three weights of products."""

    def updates(merge, **given):
        ops = trained(tmp_path, OPTIMIZERS["sgd"](), merge, **given)[2]
        return ops.count("SGD0VarUpdate")

    assert updates(TYPES.Off) == 9
    assert updates(TYPES.All) == 4
    assert updates(TYPES.AutoTight, mergeVarUpdateMemThreshold=80) == 3 + 3  # 80, 80 and 32 bytes
    assert updates(TYPES.AutoLoose, mergeVarUpdateMemThreshold=80) == 3 + 3  # two vectors each


@pytest.mark.parametrize(
    "given",
    [
        {"enableGradientAccumulation": True, "accumulationFactor": 3},
        {"enableReplicatedGraphs": True, "replicatedGraphCount": 2},
        {
            "enableGradientAccumulation": True,
            "accumulationFactor": 2,
            "enableReplicatedGraphs": True,
            "replicatedGraphCount": 2,
        },
    ],
    ids=["accumulation", "replicas", "both"],
)
@pytest.mark.parametrize("name", ["sgd", "momentum", "separate", "adam"])
def test_same_bits_with_accumulation_and_replicas(name, given, tmp_path):
    expected = trained(tmp_path, OPTIMIZERS[name](), **given)
    found = trained(tmp_path, OPTIMIZERS[name](), TYPES.All, **given)
    assert found[:2] == expected[:2]


def test_weights_with_other_numbers_are_updated_apart(tmp_path):
    def optimizer():
        sgd = popart.SGD({"defaultLearningRate": (0.1, False)})
        for name in ("b0", "b1"):
            sgd.insertSpecific(name, {"learningRate": (0.3, True)})
        return sgd

    losses, state, _ = trained(tmp_path, optimizer())
    found = trained(tmp_path, optimizer(), TYPES.All)
    assert found[:2] == (losses, state)
    assert found[2].count("SGD0VarUpdate") == 3 + 2


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
@pytest.mark.parametrize("name", ["convolutions", "attention"])
def test_networks_train_with_the_same_bits(name, optimizer, tmp_path):
    settings = {"mergeVarUpdate": TYPES.All}
    expected = train(name, Case(optimizer=optimizer), tmp_path, steps=5)
    assert train(name, Case(optimizer=optimizer, settings=settings), tmp_path, steps=5) == expected
    session, _, _ = session_of(name, Case(optimizer=optimizer, settings=settings))
    plain, _, _ = session_of(name, Case(optimizer=optimizer))
    assert count_updates(types_of(session)) < count_updates(types_of(plain))


def test_the_host_writes_and_reads_weights_as_before():
    session, _, _ = session_with(OPTIMIZERS["sgd"](), TYPES.All, anchors=["UpdatedVar___b1"])
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": np.ones((BATCH, WIDTH), np.float32)}, anchors))
    session.weightsToHost()
    arrays = {"b1": np.zeros(WIDTH, np.float32), "scale0": np.zeros((1, WIDTH), np.float32)}
    session.readWeights(popart.PyWeightsIO(arrays))
    np.testing.assert_array_equal(arrays["b1"], anchors["UpdatedVar___b1"])
    assert np.any(arrays["scale0"] != 0)
    assert list(session.getInfo("scale0").shape()) == [1, WIDTH]


def test_tensors_off_chip_are_updated_apart(tmp_path):
    off = popart.TensorLocation(popart.TensorStorage.OffChip)
    given = {"tensorLocationSettingsOverride": {"b0": off, "b1": off}}
    expected = trained(tmp_path, OPTIMIZERS["momentum"]())
    found = trained(tmp_path, OPTIMIZERS["momentum"](), TYPES.All, **given)
    assert found[:2] == expected[:2]
    assert found[2].count("SGD1VarUpdate") == 3 + 2 + 1


def test_weights_of_other_ipus_are_updated_apart():
    builder = popart.Builder()
    h = builder.addInputTensor("FLOAT", [BATCH, WIDTH], "x")
    for i in range(4):
        with builder.virtualGraph(i // 2):
            bias = builder.addInitializedInputTensor(np.ones(WIDTH, np.float32), f"b{i}")
            h = builder.aiOnnx.add([h, bias])
    with builder.virtualGraph(1):
        loss = builder.aiGraphcore.l1loss([h], 0.5)
    for mode, updates in ((popart.VirtualGraphMode.Off, 1), (popart.VirtualGraphMode.Manual, 2)):
        options = popart.SessionOptions()
        options.mergeVarUpdate = TYPES.All
        options.virtualGraphMode = mode
        session = training_session(
            builder.getModelProto(),
            loss,
            popart.ConstSGD(0.1),
            options,
            device=popart.DeviceManager().createIpuModelDevice({"numIPUs": 2}),
        )
        assert types_of(session).count("SGD0VarUpdate") == updates


def test_thresholds_must_be_sizes():
    for given in ({"mergeVarUpdateMemThreshold": 0}, {"looseThresholdAtPeak": -1}):
        with pytest.raises(popart.popart_exception, match="mergeVarUpdateMemThreshold must be 1 or more"):
            session_with(OPTIMIZERS["sgd"](), TYPES.AutoLoose, **given)
