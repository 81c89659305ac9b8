"""Automatic loss scaling: the scale follows the FLOAT16 gradients, and training goes on as with that scale by hand."""

import numpy as np
import popart
import pytest
import torch

import onnx
from tests.python.popart.test_replicas import replicated
from tests.python.popart.training_runs import inference_session, options_with, ready, training_session

HALF = np.float16
Tracking = popart.GradientTensorTrackingMethod
BATCH, FEATURES, CLASSES = 8, 8, 8
WEIGHTS = np.random.default_rng(5).normal(size=(FEATURES, CLASSES)).astype(HALF)
SMALL = np.full((BATCH, FEATURES), 2.0**-14, HALF)  # gradients of the weights are small
DATA = np.random.default_rng(6).normal(size=(16, BATCH, FEATURES)).astype(HALF)

OPTIMIZERS = {
    "sgd": lambda more: popart.SGD({"defaultLearningRate": (0.01, False), **more}),
    "momentum": lambda more: popart.SGD(
        {
            "defaultLearningRate": (0.01, False),
            "defaultMomentum": (0.5, True),
            "defaultWeightDecay": (0.1, True),
            **more,
        }
    ),
    "separate": lambda more: popart.SGD(
        {"defaultLearningRate": (0.01, False), "defaultMomentum": (0.5, True), **more},
        accumulatorAndMomentum=popart.SGDAccumulatorAndMomentum.Separate,
    ),
    "nesterov": lambda more: popart.SGD(
        {"defaultLearningRate": (0.01, False), "defaultMomentum": (0.5, True), "nesterov": (True, True), **more}
    ),
    "adam": lambda more: popart.Adam({"defaultLearningRate": (0.01, False), **more}),
    "lamb": lambda more: popart.Adam({"defaultLearningRate": (0.01, False), **more}, mode=popart.AdamMode.Lamb),
    "rmsprop": lambda more: popart.Adaptive({"defaultLearningRate": (0.01, False), **more}),
}


def optimizer(scale, name="sgd"):
    return OPTIMIZERS[name]({"lossScaling": (scale, False)})


def model(reduction=popart.ReductionType.Sum):
    """The loss is |x w|, its gradient with respect to the product +- scale (a 64th of that: Mean)."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT16", [BATCH, FEATURES], "x")
    w = builder.addInitializedInputTensor(WEIGHTS, "w")
    y = builder.aiOnnx.matmul([x, w], "y")
    loss = builder.aiGraphcore.l1loss([y], 1.0, reduction=reduction, debugContext="loss")
    return builder.getModelProto(), y, loss


def scaling(options=None, **settings):
    options = options or popart.SessionOptions()
    options.automaticLossScalingSettings = popart.AutomaticLossScalingSettings(enabled=True, **settings)
    return options


def trainer(options, first, proto=None, reduction=popart.ReductionType.Sum, steps=1, anchors=("finalLossScale",)):
    made, _y, loss = model(reduction)
    session = ready(
        training_session(
            proto or made,
            loss,
            first,
            options,
            {a: popart.AnchorReturnType("All") for a in anchors or [loss]},
            batches=steps,
        )
    )
    return session


def step(session, data):
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": data}, anchors))
    return anchors


def scales(session, runs, data=None):
    """FinalLossScale of each run: one value, the same for all micro-batches and replicas."""
    found = []
    for _ in range(runs):
        values = step(session, np.zeros_like(DATA[0]) if data is None else data)["finalLossScale"]
        assert values.dtype == np.float32
        found.append(float(values.flat[0]))
        assert (values == values.flat[0]).all()
    return found


def weights(session, name="w", like=WEIGHTS):
    session.weightsToHost()
    array = np.empty_like(like)
    session.readWeights(popart.PyWeightsIO({name: array}))
    return array


def test_the_scale_doubles_while_gradients_are_small():
    assert scales(trainer(scaling(), optimizer(10.0)), 6) == [10, 20, 40, 80, 160, 320]


def test_with_a_period_every_other_update_counts():
    session = trainer(scaling(updatePeriod=2), optimizer(10.0))
    assert scales(session, 6) == [10, 20, 20, 40, 40, 80]


def test_batches_of_a_step():
    session = trainer(scaling(updatePeriod=2), optimizer(10.0), steps=6)
    values = step(session, np.zeros((6, BATCH, FEATURES), HALF))["finalLossScale"]
    np.testing.assert_array_equal(values, [10, 20, 20, 40, 40, 80])


def test_large_gradients_halve_it():
    """Gradients of the product are the scale; 8188 is an eighth of the largest number."""
    session = trainer(scaling(), optimizer(2.0**15))
    assert scales(session, 5, SMALL) == [2.0**e for e in (15, 14, 13, 12, 13)]


def test_gradients_that_overflow_halve_it():
    """The scale itself is infinite in FLOAT16, and so are the gradients: the weights keep their values."""
    session = trainer(scaling(), optimizer(2.0**18))
    assert scales(session, 3, SMALL) == [2.0**e for e in (18, 17, 16)]
    np.testing.assert_array_equal(weights(session), WEIGHTS)
    assert scales(session, 4, DATA[0])[0] == 2.0**15
    assert np.isfinite(weights(session)).all() and not np.array_equal(weights(session), WEIGHTS)


def test_bin_edge_and_threshold():
    """One row of the product in eight is not zero, so that an eighth of its gradients is large."""
    data = np.zeros_like(DATA[0])
    data[3] = SMALL[3]
    _, y, _ = model()
    gradients = {"toTrackTensors": [y], "gradientTensorTrackingMethod": Tracking.GradientsOfUserSpecifiedTensors}

    def change(scale, **settings):
        first, second = scales(trainer(scaling(**settings, **gradients), optimizer(scale)), 2, data)
        return second / first

    assert change(2.0**13, thresholdUpperCountProportion=0.12) == 0.5
    assert change(2.0**13, thresholdUpperCountProportion=0.13) == 2
    assert change(2.0**13, binEdgeLocation=0.126) == 2
    assert change(2.0**7, binEdgeLocation=0.001) == 0.5


def test_tracked_gradients_are_those_asked_for():
    """The gradient of w is small although that of the product is large."""
    _, y, _ = model()
    named = Tracking.GradientsOfUserSpecifiedTensors
    for settings, factor in (
        ({}, 0.5),
        ({"gradientTensorTrackingMethod": Tracking.ConvAndMatmulGradients}, 2),
        ({"gradientTensorTrackingMethod": named, "toTrackTensors": ["w"]}, 2),
        ({"gradientTensorTrackingMethod": named, "toTrackTensors": ["w", y]}, 0.5),
    ):
        first, second = scales(trainer(scaling(**settings), optimizer(2.0**14)), 2, SMALL)
        assert second / first == factor, settings


@pytest.mark.parametrize(("replicas", "factor"), [(1, 1), (1, 2), (2, 1), (2, 2)])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_updates_are_those_of_the_same_scale_by_hand(name, replicas, factor):
    """To the bit: only powers of two are multiplied and divided by."""
    automatic = trainer(scaling(replicated(replicas, factor)), optimizer(8.0, name))
    by_hand = trainer(replicated(replicas, factor), optimizer(8.0, name), anchors=())
    scale = 8.0
    for i in range(4):
        data = np.stack([DATA[(i + k) % 16] for k in range(replicas * factor)])
        shape = [n for n in (factor, replicas) if n > 1]
        data = data.reshape(*shape, *DATA[0].shape)
        by_hand.updateOptimizerFromHost(optimizer(scale, name))
        step(by_hand, data)
        (found,) = scales(automatic, 1, data)
        assert found == scale
        scale *= 2
    expected = weights(by_hand)
    assert not np.array_equal(expected, WEIGHTS)
    np.testing.assert_array_equal(weights(automatic), expected)


def saved(session, tmp_path):
    """All weights and states of the session by name, but for those of the loss scale."""
    session.modelToHost(str(tmp_path / "saved.onnx"))
    found = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(str(tmp_path / "saved.onnx")).graph.initializer}
    return {name: value for name, value in found.items() if "lossScale" not in name and "LossScale" not in name}


def batches(count, replicas, factor):
    """Data of `count` updates; in the second one a sample of the last micro-batch and replica is infinite."""
    shape = [n for n in (factor, replicas) if n > 1]
    made = np.resize(DATA, (count, factor, replicas, *DATA[0].shape)).copy()
    made[1, -1, -1, 2, 3] = np.inf
    return made.reshape(count, *shape, *DATA[0].shape)


@pytest.mark.parametrize("name", ["momentum", "adam"])
def test_training_in_16_bits_leaves_out_what_the_scaler_of_torch_does(name):
    """Option precision against torch.amp.GradScaler of the same scale; three batches overflow."""
    w = np.random.default_rng(9).normal(0, 0.3, (FEATURES, CLASSES)).astype(np.float32)
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [BATCH, FEATURES], "x")
    y = builder.aiOnnx.matmul([x, builder.addInitializedInputTensor(w, "w")], "y")
    loss = builder.aiGraphcore.l1loss([y], 1.0, reduction=popart.ReductionType.Sum, debugContext="loss")
    ours = {
        "momentum": popart.SGD({"defaultLearningRate": (0.01, False), "defaultMomentum": (0.9, True)}),
        "adam": popart.Adam({"defaultLearningRate": (0.01, False), "defaultEps": (1e-8, True)}),
    }[name]
    options = options_with(precision="float16")
    session = ready(training_session(builder.getModelProto(), loss, ours, options, ["finalLossScale"]))
    theirs = torch.tensor(w, requires_grad=True)
    optimizer = {
        "momentum": lambda p: torch.optim.SGD(p, 0.01, momentum=0.9),
        "adam": lambda p: torch.optim.Adam(p, 0.01),
    }
    optimizer = optimizer[name]([theirs])
    left_out, former = [], None
    for i in range(12):
        data = DATA[i].astype(np.float32) * {4: 100.0, 8: 200.0, 9: 200.0}.get(i, 1.0)
        (scale,) = step(session, data)["finalLossScale"].flatten()
        if left_out and left_out[-1] == i - 1:
            assert scale == former / 2
        scaler = torch.amp.GradScaler("cpu", init_scale=float(scale))
        before = theirs.detach().clone()
        optimizer.zero_grad()
        half = torch.tensor(data).half() @ theirs.half()
        scaler.scale(half.float().abs().sum()).backward()
        scaler.step(optimizer)
        if torch.equal(before, theirs):
            left_out.append(i)
        former = scale
        np.testing.assert_allclose(weights(session, like=w), theirs.detach(), rtol=2e-3, atol=2e-3)
    assert left_out == [4, 8, 9]


@pytest.mark.parametrize("merges", [False, True])
@pytest.mark.parametrize(("replicas", "factor"), [(1, 1), (1, 3), (2, 1), (2, 2)])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_update_that_overflows_is_left_out(name, replicas, factor, merges, tmp_path):
    """As torch.amp.GradScaler does: no weight, state or count of steps changes, and training continues from there."""

    def options():
        made = replicated(replicas, factor)
        made.mergeVarUpdate = popart.MergeVarUpdateType.All if merges else popart.MergeVarUpdateType.Off
        return made

    automatic = trainer(scaling(options()), optimizer(8.0, name))
    by_hand = trainer(options(), optimizer(8.0, name), anchors=())
    data = batches(4, replicas, factor)
    for i, scale in enumerate((8.0, 16.0, 8.0, 16.0)):
        before = saved(automatic, tmp_path)
        assert scales(automatic, 1, data[i]) == [scale]
        after = saved(automatic, tmp_path)
        if i == 1:
            for state, value in before.items():
                np.testing.assert_array_equal(after[state], value, err_msg=state)
        else:
            by_hand.updateOptimizerFromHost(optimizer(scale, name))
            step(by_hand, data[i])
    for state, value in saved(by_hand, tmp_path).items():
        if state in after:
            np.testing.assert_array_equal(after[state], value, err_msg=state)
    assert np.isfinite(after["w"]).all() and not np.array_equal(after["w"], WEIGHTS)


@pytest.mark.parametrize("factor", [1, 2])
def test_one_replica_with_large_gradients_halves_the_scale_of_all(factor):
    session = trainer(scaling(replicated(2, factor)), optimizer(2.0**12))
    data = np.zeros((factor, 2, BATCH, FEATURES), HALF)
    assert scales(session, 2, data) == [2.0**12, 2.0**13]
    data[-1, 1] = SMALL
    assert scales(session, 3, data) == [2.0**14, 2.0**13, 2.0**12]


@pytest.mark.parametrize(("period", "factor"), [(2, 2), (4, 2), (2, 3), (3, 2)])
def test_micro_batches_are_counted_together(period, factor):
    """The period counts updates, whatever the accumulation factor."""
    session = trainer(scaling(replicated(1, factor), updatePeriod=period), optimizer(10.0))
    expected = {2: [10, 20, 20, 40, 40], 3: [10, 20, 20, 20, 40], 4: [10, 20, 20, 20, 20]}[period]
    assert scales(session, 5, np.zeros((factor, BATCH, FEATURES), HALF)) == expected
    counter = np.zeros((), np.int32)
    session.readWeights(popart.PyWeightsIO({"lossScaleUpdateFactor___Histogram_counter": counter}))
    assert counter == (5 * factor - 1) % (factor * period)


@pytest.mark.parametrize("late", [False, True])
def test_all_micro_batches_of_the_first_update_count(late):
    """Large gradients in the last micro-batch of the first update halve the scale, those of the second do not."""
    session = trainer(scaling(replicated(1, 3), updatePeriod=2), optimizer(2.0**14))
    data = np.zeros((2, 3, BATCH, FEATURES), HALF)
    data[int(late), 2] = SMALL
    found = [scales(session, 1, data[i % 2])[0] for i in range(3)]
    assert found == [2.0**14, *[2.0**15 if late else 2.0**13] * 2]


def test_counts_of_micro_batches():
    """The gradients of the product and of the weight are tracked, 64 elements each; the loss has one."""
    session = trainer(
        scaling(replicated(1, 3)), optimizer(10.0), steps=2, anchors=("finalLossScale", "Accum___autoLossScaleStats")
    )
    found = step(session, np.zeros((2, 3, BATCH, FEATURES), HALF))["Accum___autoLossScaleStats"]
    assert found.shape == (2, 3, 2) and found.dtype == np.float32
    totals = found.sum(axis=-1)
    np.testing.assert_array_equal(totals, np.outer([1, 1], [1, 2, 3]) * totals[0, 0])
    assert totals[0, 0] >= 2 * 64 and (found[..., 1] == 0).all()


def test_a_gradient_that_is_equal_to_the_edge_is_large():
    """The edge, an eighth of the largest number, is 8188 in FLOAT16."""
    _, y, _ = model()
    named = {"toTrackTensors": [y], "gradientTensorTrackingMethod": Tracking.GradientsOfUserSpecifiedTensors}
    for scale, factor in ((8188.0, 0.5), (8184.0, 2)):
        first, second = scales(trainer(scaling(**named), optimizer(scale)), 2, SMALL)
        assert second / first == factor
    # 0.001 of 65504 is between two numbers of FLOAT16, 65.5 and 65.5625: the edge is 65.5
    edge = float(HALF(0.001 * 65504))
    first, second = scales(trainer(scaling(binEdgeLocation=0.001, **named), optimizer(edge)), 2, SMALL)
    assert second / first == 0.5
    first, second = scales(trainer(scaling(binEdgeLocation=1e-13, **named), optimizer(2.0**-10)), 2, SMALL)
    assert second / first == 0.5


def test_the_scale_of_the_optimizer_is_called_by_the_type_of_the_loss():
    session = trainer(scaling(), optimizer(10.0), anchors=("lossScaling_FLOAT16",))
    for _ in range(2):
        assert step(session, DATA[0])["lossScaling_FLOAT16"] == 10


def test_a_new_optimizer_keeps_the_factor():
    session = trainer(scaling(), optimizer(10.0))
    assert scales(session, 2) == [10, 20]
    session.updateOptimizerFromHost(optimizer(3.0))
    assert scales(session, 2) == [12, 24]


def test_factor_and_counter_are_saved_with_the_model(tmp_path):
    session = trainer(scaling(updatePeriod=3), optimizer(10.0))
    assert scales(session, 5) == [10, 20, 20, 20, 40]
    path = str(tmp_path / "model.onnx")
    session.modelToHost(path)
    saved = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
    (counter,) = [name for name in saved if "Histogram" in name and "_counter" in name]
    assert saved[counter].dtype == np.int32 and saved[counter] == (5 - 1) % 3
    assert [saved[name] for name in saved if name == "lossScaleUpdateFactor"] == [4.0]
    again = trainer(scaling(updatePeriod=3), optimizer(10.0), path)
    assert scales(again, 4) == scales(session, 4) == [40, 40, 80, 80]


def test_scales_above_float16_with_a_float_start():
    """Gradients of the product are a 64th of the scale."""
    options = scaling()
    options.ensureFp32LossScaleTensor = True
    session = trainer(options, optimizer(2.0**16), reduction=popart.ReductionType.Mean)
    assert scales(session, 6, SMALL) == [2.0**e for e in (16, 17, 18, 19, 18, 19)]
    assert np.isfinite(weights(session)).all()


def test_loss_scale_stays_float_up_to_the_first_gradient():
    """A scale of 2^17 is infinite in FLOAT16; a 64th of it is not."""
    plain, wide = popart.SessionOptions(), popart.SessionOptions()
    wide.ensureFp32LossScaleTensor = True
    mean = popart.ReductionType.Mean
    for is_const in (True, False):

        def make(scale, is_const=is_const):
            return popart.SGD({"defaultLearningRate": (2.0, True), "lossScaling": (scale, is_const)})

        results = []
        for options, scale in ((plain, 512.0), (wide, 512.0), (wide, 2.0**17), (plain, 2.0**17)):
            session = trainer(options, make(scale), reduction=mean, anchors=())
            step(session, DATA[0])
            results.append(weights(session))
        np.testing.assert_array_equal(results[1], results[0])
        np.testing.assert_array_equal(results[2], results[0])
        assert not np.isfinite(results[3].astype(np.float32)).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"binEdgeLocation": 1.5}, r"binEdgeLocation must be between 0 and 1"),
        ({"binEdgeLocation": -0.5}, r"binEdgeLocation must be between 0 and 1"),
        ({"thresholdUpperCountProportion": 2.0}, r"thresholdUpperCountProportion must be between 0 and 1"),
        ({"thresholdUpperCountProportion": -1e-3}, r"thresholdUpperCountProportion must be between 0 and 1"),
        ({"toTrackTensors": ["w"]}, "toTrackTensors and gradientTensorTrackingMethod"),
        (
            {"gradientTensorTrackingMethod": Tracking.GradientsOfUserSpecifiedTensors},
            "toTrackTensors and gradientTensorTrackingMethod",
        ),
        ({"updatePeriod": 0}, "updatePeriod must be 1 or more"),
        (
            {"gradientTensorTrackingMethod": Tracking.GradientsOfUserSpecifiedTensors, "toTrackTensors": ["ww"]},
            r"toTrackTensors: 'ww' names no tensor of the model. Nearest existing names: w",
        ),
        (
            {"gradientTensorTrackingMethod": Tracking.GradientsOfUserSpecifiedTensors, "toTrackTensors": []},
            "there is no FLOAT16 gradient to track",
        ),
    ],
)
def test_settings_that_are_refused(settings, message):
    with pytest.raises(popart.popart_exception, match=message):
        trainer(scaling(**settings), optimizer(10.0))


def test_optimizers_that_are_refused():
    with pytest.raises(popart.popart_exception, match="loss scaling is constant: got 10, expected one that may change"):
        trainer(scaling(), popart.SGD({"defaultLearningRate": (0.1, False), "lossScaling": (10.0, True)}))
    with pytest.raises(popart.popart_exception, match="scaled optimizer state"):
        trainer(
            scaling(),
            popart.Adam(
                {"defaultLearningRate": (0.1, False), "lossScaling": (10.0, False)}, scaled_optimizer_state=True
            ),
        )


def test_options_that_are_refused():
    options = scaling()
    options.enablePipelining = True
    options.virtualGraphMode = popart.VirtualGraphMode.Manual
    with pytest.raises(popart.popart_exception, match="with enablePipelining requires gradient accumulation"):
        trainer(options, optimizer(10.0))


def test_models_without_float16_are_refused():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [BATCH, FEATURES], "x")
    y = builder.aiOnnx.matmul([x, builder.addInitializedInputTensor(WEIGHTS.astype(np.float32), "w")])
    loss = builder.aiGraphcore.l1loss([y], 0.125, debugContext="loss")
    wide = popart.SessionOptions()
    wide.ensureFp32LossScaleTensor = True
    for options, message in (
        (scaling(), "there is no FLOAT16 gradient to track"),
        (wide, "ensureFp32LossScaleTensor: the loss is not FLOAT16"),
    ):
        with pytest.raises(popart.popart_exception, match=message):
            training_session(builder.getModelProto(), loss, optimizer(10.0), options)


def test_inference_refuses_it():
    proto, y, _ = model()
    with pytest.raises(popart.popart_exception, match="inference has no loss to scale"):
        inference_session(proto, [y], scaling())
