"""Anchors of transformed programs: getInfo is of a whole micro-batch, and run takes what initAnchorArrays makes."""

import numpy as np
import popart
import pytest

from tests.python.popart.training_runs import inference_session, options_with, ready, training_session

BATCH, WIDTH = 8, 6
RNG = np.random.default_rng(8)
W = [RNG.normal(size=(WIDTH, WIDTH)).astype(np.float32) for _ in range(2)]


def network(stages=False):
    """Two layers with a reshape between them; the loss is the sum of the result's magnitudes."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [BATCH, 2, WIDTH // 2], "x")
    names = {}

    def on(stage, name, id):
        if stages:
            builder.virtualGraph(id, stage)
            builder.pipelineStage(id, stage)
        names[name] = id
        return id

    shape = builder.aiOnnx.constant(np.array([BATCH, WIDTH], np.int64))
    h = on(0, "rows", builder.aiOnnx.reshape([x, shape]))
    h = on(0, "product", builder.aiOnnx.matmul([h, builder.addInitializedInputTensor(W[0], "w0")]))
    h = on(0, "hidden", builder.aiOnnx.relu([h]))
    again = builder.aiOnnx.constant(np.array([BATCH, 3, 2], np.int64))
    h = on(1, "parted", builder.aiOnnx.reshape([h, again]))
    h = on(1, "joined", builder.aiOnnx.reshape([h, shape]))
    y = on(1, "y", builder.aiOnnx.matmul([h, builder.addInitializedInputTensor(W[1], "w1")]))
    loss = on(1, "loss", builder.aiGraphcore.l1loss([y], 0.5))
    return builder.getModelProto(), names, loss


def in_parts(context, method):
    return popart.BatchSerializationSettings(
        2, True, True, True, context, method, popart.BatchSerializationBatchSchedule.Isomorphic
    )


Fwd, Bwd = popart.BatchSerializationTransformContext.Fwd, popart.BatchSerializationTransformContext.Bwd
METHODS = popart.BatchSerializationMethod
PIPELINE = {"enablePipelining": True, "virtualGraphMode": popart.VirtualGraphMode.Manual}
TRANSFORMS = {
    "loop": {"batchSerializationSettings": in_parts(Bwd, METHODS.Loop)},
    "static": {"batchSerializationSettings": in_parts(Fwd, METHODS.UnrollStatic)},
    "dynamic": {"batchSerializationSettings": in_parts(Fwd, METHODS.UnrollDynamic)},
    "recomputed": {"autoRecomputation": popart.RecomputationType.Standard},
    "outlined": {"enableOutlining": True, "outlineThreshold": -1.0},
    "pipelined": PIPELINE,
}


def device(stages):
    return popart.DeviceManager().createIpuModelDevice({"numIPUs": 2}) if stages else None


def results(settings, anchors=None, training=True, factor=4):
    """Shapes that getInfo gives of all tensors of the model, and the anchored values."""
    stages = "enablePipelining" in settings
    proto, names, loss = network(stages)
    options = options_with(factor, **settings)
    kinds = {names[name]: popart.AnchorReturnType("All") for name in (names if anchors is None else anchors)}
    if training:
        session = training_session(proto, loss, popart.ConstSGD(0.1), options, kinds, batches=2, device=device(stages))
    else:
        session = inference_session(proto, kinds, options, batches=2, device=device(stages))
    shapes = {name: session.getInfo(id).shape() for name, id in names.items()}
    ready(session)
    arrays = session.initAnchorArrays()
    lead = [2, factor] if factor > 1 else [2]
    x = np.random.default_rng(1).normal(size=(*lead, BATCH, 2, WIDTH // 2)).astype(np.float32)
    session.run(popart.PyStepIO({"x": x}, arrays))
    return shapes, {name: arrays[id] for name, id in names.items() if id in arrays}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("all_anchored", [True, False])
def test_infos_and_arrays_of_training(name, all_anchored):
    anchors = None if all_anchored else ["loss", "parted"]
    shapes, arrays = results(TRANSFORMS[name], anchors)
    plain_shapes, plain = results({}, anchors)
    assert shapes == plain_shapes
    assert shapes["product"] == [BATCH, WIDTH] and shapes["parted"] == [BATCH, 3, 2] and shapes["loss"] == []
    for anchor, array in plain.items():
        assert arrays[anchor].shape == array.shape == (2, 4, *shapes[anchor])
        np.testing.assert_allclose(arrays[anchor], array, rtol=1e-5, atol=1e-6, err_msg=anchor)


@pytest.mark.parametrize("method", [METHODS.Loop, METHODS.UnrollStatic, METHODS.UnrollDynamic], ids=str)
def test_infos_and_arrays_of_inference(method):
    settings = {"batchSerializationSettings": in_parts(Bwd, method)}
    shapes, arrays = results(settings, training=False, factor=1)
    plain_shapes, plain = results({}, training=False, factor=1)
    assert shapes == plain_shapes
    for anchor, array in plain.items():
        assert arrays[anchor].shape == array.shape
        np.testing.assert_allclose(arrays[anchor], array, rtol=1e-5, atol=1e-6)


# ---- variables in each micro-batch


@pytest.mark.parametrize("name", ["plain", "pipelined", "off_chip", "sharded"])
def test_anchored_variables_show_their_micro_batch(name):
    """SGD at rate 1: w[batch] - sum over replicas of Accum[batch, last] = w[batch + 1]; Accum is a running sum."""
    settings = {
        "plain": {},
        "pipelined": PIPELINE,
        "off_chip": {
            "weightTensorLocationSettings": popart.TensorLocationSettings(
                popart.TensorLocation(popart.TensorStorage.OffChip), 0, 0
            ),
            "accumulatorTensorLocationSettings": popart.TensorLocationSettings(
                popart.TensorLocation(popart.TensorStorage.OffChip), 0, 0
            ),
        },
        "sharded": {
            "weightTensorLocationSettings": popart.TensorLocationSettings(
                popart.TensorLocation(popart.TensorStorage.OnChip, popart.ReplicatedTensorSharding.On), 0, 0
            )
        },
    }[name]
    replicas = 2 if name == "sharded" else 1
    stages = name == "pipelined"
    proto, _, loss = network(stages)
    options = options_with(3, replicas, **settings)
    anchors = ["w0", "Accum___w0", "w1", "Gradient___w1"]
    session = ready(
        training_session(
            proto, loss, popart.ConstSGD(1.0), options,
            {a: popart.AnchorReturnType("All") for a in anchors}, batches=2, device=device(stages),
        )
    )  # fmt: skip
    arrays = session.initAnchorArrays()
    lead = (2, 3, replicas) if replicas > 1 else (2, 3)
    x = np.random.default_rng(1).normal(size=(*lead, BATCH, 2, WIDTH // 2)).astype(np.float32)
    session.run(popart.PyStepIO({"x": x}, arrays))
    for i, w in enumerate(("w0", "w1")):
        values = arrays[w]
        np.testing.assert_array_equal(values[0], np.broadcast_to(W[i], values[0].shape))
        np.testing.assert_array_equal(values[1], np.broadcast_to(values[1, 0], values[1].shape))
    accumulated = arrays["Accum___w0"]
    last = accumulated[0, -1]
    of_all = last if replicas == 1 else last.sum(axis=0)
    first, second = (arrays["w0"][b, 0] if replicas == 1 else arrays["w0"][b, 0, 0] for b in (0, 1))
    np.testing.assert_allclose(first - of_all, second, rtol=1e-4, atol=1e-4)
    steps = np.diff(accumulated[0], axis=0, prepend=np.zeros_like(accumulated[0][:1]))
    assert all(np.abs(step).max() > 0 for step in steps)
