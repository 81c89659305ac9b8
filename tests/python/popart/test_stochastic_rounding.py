"""Stochastic rounding: unbiased, a function of seed, run, operator and element, and the state that sessions keep."""

import ml_dtypes
import numpy as np
import onnx.numpy_helper
import popart
import pytest

import onnx
from onnx import helper
from tests.python.popart.test_half_training import OPTIMIZERS, chain
from tests.python.popart.test_replicas import replicated
from tests.python.popart.training_runs import inference_session, ready, training_session

TYPES = {"FLOAT16": (np.float16, 10), "BFLOAT16": (ml_dtypes.bfloat16, 16)}
N = 4096


def options(rounds=True, keeps_state=False, threads=1, base=None):
    result = base or popart.SessionOptions()
    result.enableStochasticRounding = rounds
    result.enableLoadAndOffloadRNGState = keeps_state
    result.engineOptions = {"num_threads": str(threads)}
    return result


def device():
    return popart.DeviceManager().createCpuDevice()


def cast_session(type_name="FLOAT16", method=None, **kwargs):
    """Rounds a float32 input of N elements to 16 bits."""
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [N]), "x")
    y = builder.aiOnnx.cast([x], type_name, "y")
    if method is not None:
        builder.addNodeAttribute("__stochastic_rounding_method", method, {y})
    session = inference_session(builder.getModelProto(), [y], options(**kwargs), device=device())
    session.prepareDevice()
    return session, y


def weights_of(session, like):
    """Current weights, as arrays like those given."""
    session.weightsToHost()
    arrays = {name: np.empty_like(value) for name, value in like.items()}
    session.readWeights(popart.PyWeightsIO(arrays))
    return arrays


def rounded(session, y, x):
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": x}, anchors))
    return anchors[y].astype(np.float64)


@pytest.mark.parametrize("type_name", TYPES)
def test_the_mean_of_many_draws_is_the_value(type_name):
    session, y = cast_session(type_name)
    session.setRandomSeed(1)
    values = np.repeat(np.float32([1.0001, -3.3, 1e-3, 6e-8, -0.7, 1000.3, 2.0, 0.0]), N // 8)
    draws, runs = np.zeros(N), 16
    for _ in range(runs):
        draws += rounded(session, y, values)
    means = draws.reshape(8, -1).mean(1) / runs
    dtype = TYPES[type_name][0]
    near = values[:: N // 8].astype(dtype)
    step = np.abs(np.nextafter(near, dtype(np.inf)).astype(np.float64) - near.astype(np.float64))
    error = np.abs(means - values[:: N // 8].astype(np.float64))
    np.testing.assert_array_less(error, 5 * step * np.sqrt(0.25 / (N // 8 * runs)) + 1e-30)
    assert means[6] == 2.0 and means[7] == 0.0


def test_results_are_neighbours_of_the_value():
    session, y = cast_session()
    x = np.random.default_rng(1).normal(size=N).astype(np.float32)
    got = rounded(session, y, x)
    nearest = x.astype(np.float16)
    low = np.minimum(nearest, np.nextafter(nearest, np.float16(-np.inf)))
    step = np.abs(nearest.astype(np.float64) - low.astype(np.float64))
    assert (np.abs(got - x) < 2 * step + 1e-8).all()
    assert (got != nearest).mean() > 0.1


def test_specials_round_as_always():
    session, y = cast_session()
    x = np.zeros(N, np.float32)
    x[:8] = [np.inf, -np.inf, np.nan, -0.0, 65519.0, 65520.0, 1e9, 65504.0]
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(rounded(session, y, x), x.astype(np.float16))
    assert np.signbit(rounded(session, y, x)[3])


def test_seeds_runs_and_threads():
    x = np.random.default_rng(2).normal(size=N).astype(np.float32)
    found = {}
    for threads in (1, 2, 3):
        session, y = cast_session(threads=threads)
        session.setRandomSeed(7)
        found[threads] = [rounded(session, y, x) for _ in range(2)]
        np.testing.assert_array_equal(found[threads], found[1])
    assert (found[1][0] != found[1][1]).any()  # another run
    session.setRandomSeed(8)
    assert (rounded(session, y, x) != found[1][0]).any()
    session.setRandomSeed(7)
    np.testing.assert_array_equal(rounded(session, y, x), found[1][0])


@pytest.mark.parametrize(("option", "method", "expected"), [(True, 0, False), (False, 1, True), (False, 2, True)])
def test_an_operator_says_otherwise(option, method, expected):
    session, y = cast_session(method=method, rounds=option)
    x = np.random.default_rng(3).normal(size=N).astype(np.float32)
    session.setRandomSeed(3)
    assert (rounded(session, y, x) != x.astype(np.float16)).any() == expected


def test_an_unknown_method_is_refused():
    with pytest.raises(popart.popart_exception, match=r"__stochastic_rounding_method.*got 3"):
        cast_session(method=3)


def small_step_training(type_name, rounds):
    """SGD with steps far below half of the weights' spacing."""
    dtype, onnx_type = TYPES[type_name]
    w = helper.make_tensor("w", onnx_type, [64], np.ones(64, dtype).tobytes(), raw=True)
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["y"]),
        helper.make_node("IdentityLoss", ["y"], ["loss"], domain="ai.graphcore", reduction=0),
    ]
    graph = helper.make_graph(
        nodes,
        "step",
        [helper.make_tensor_value_info("x", onnx_type, [64])],
        [onnx.ValueInfoProto(name="loss")],
        [w],
    )
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("ai.graphcore", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    rate = 1e-5 if type_name == "FLOAT16" else 1e-4
    session = training_session(
        model, "loss", popart.SGD({"defaultLearningRate": (rate, True)}), options(rounds), [], device=device()
    )
    session.prepareDevice()
    if rounds:
        session.setRandomSeed(5)
    session.weightsFromHost()
    return session, rate


@pytest.mark.parametrize("type_name", TYPES)
def test_small_updates_make_progress(type_name):
    dtype = TYPES[type_name][0]
    for rounds in (False, True):
        session, rate = small_step_training(type_name, rounds)
        for _ in range(200):
            session.run(popart.PyStepIO({"x": np.ones(64, dtype)}, {}))
        w = weights_of(session, {"w": np.ones(64, dtype)})["w"]
        moved = 1 - w.astype(np.float64).mean()
        if rounds:
            assert 0.5 * 200 * rate < moved < 1.5 * 200 * rate
        else:
            assert moved == 0  # every step is lost


@pytest.mark.parametrize("factor", [1, 2])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_replicas_keep_equal_weights(optimizer, factor):
    model, x = chain(3, "float16")
    names = [w.name for w in onnx.load_model_from_string(model).graph.initializer]
    session = popart.TrainingSession(
        model,
        popart.DataFlow(1, names, popart.AnchorReturnType("Final")),
        "loss",
        OPTIMIZERS[optimizer](),
        device(),
        userOptions=options(base=replicated(2, factor)),
    )
    session.prepareDevice()
    session.weightsFromHost()
    rng = np.random.default_rng(9)
    anchors = session.initAnchorArrays()
    first = None
    for _ in range(6):
        shape = (2, *x.shape) if factor == 1 else (factor, 2, *x.shape)
        session.run(popart.PyStepIO({"x": rng.normal(size=shape).astype(np.float16)}, anchors))
        for name in names:
            np.testing.assert_array_equal(anchors[name][0], anchors[name][1], err_msg=name)
        first = anchors[names[0]].copy() if first is None else first
    assert (anchors[names[0]] != first).any()


@pytest.mark.parametrize("domain", [None, popart.CommGroup(popart.CommGroupType.Consecutive, 2)])
@pytest.mark.parametrize("kinds", [("optimizerState",), ("weight", "optimizerState")])
@pytest.mark.parametrize("optimizer", ["velocity", "adam", "lamb"])
def test_replicas_keep_equal_weights_with_state_in_parts(optimizer, kinds, domain):
    model, x = chain(3, "float16")
    names = [w.name for w in onnx.load_model_from_string(model).graph.initializer]
    given = options(base=replicated(4))
    location = popart.TensorLocation(
        popart.TensorStorage.OnChip, popart.ReplicatedTensorSharding.On, domain or popart.CommGroup()
    )
    for kind in kinds:
        setattr(given, f"{kind}TensorLocationSettings", popart.TensorLocationSettings(location, 2, 2))
    session = popart.TrainingSession(
        model,
        popart.DataFlow(1, names, popart.AnchorReturnType("Final")),
        "loss",
        OPTIMIZERS[optimizer](),
        device(),
        userOptions=given,
    )
    session.prepareDevice()
    session.weightsFromHost()
    rng = np.random.default_rng(9)
    anchors = session.initAnchorArrays()
    for _ in range(6):
        session.run(popart.PyStepIO({"x": rng.normal(size=(4, *x.shape)).astype(np.float16)}, anchors))
        for name in names:
            for replica in range(1, 4):
                np.testing.assert_array_equal(anchors[name][replica], anchors[name][0], err_msg=name)


def test_replicas_round_activations_by_draws_of_their_own():
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [N]), "x")
    y = builder.aiOnnx.cast([x], "FLOAT16", "y")
    session = inference_session(builder.getModelProto(), [y], options(base=replicated(2)), device=device())
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    value = np.full((2, N), 1.0003, np.float32)
    session.run(popart.PyStepIO({"x": value}, anchors))
    assert (anchors[y][0] != anchors[y][1]).any()


def training(optimizer, seed=11, **kwargs):
    model, x = chain(3, "float16")
    session = training_session(model, "loss", OPTIMIZERS[optimizer](), options(**kwargs), device=device())
    session.prepareDevice()
    session.setRandomSeed(seed)
    session.weightsFromHost()
    return session, x, onnx.load_model_from_string(model)


def losses(session, x, steps):
    anchors = session.initAnchorArrays()
    found = []
    for _ in range(steps):
        session.run(popart.PyStepIO({"x": x}, anchors))
        found.append(float(anchors["loss"]))
    return found


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_is_reproducible_on_any_number_of_threads(optimizer):
    found = []
    for threads in (1, 2, 3):
        session, x, model = training(optimizer, threads=threads)
        like = {w.name: onnx.numpy_helper.to_array(w) for w in model.graph.initializer}
        found.append((losses(session, x, 5), weights_of(session, like)))
    for other_losses, other_weights in found[1:]:
        assert other_losses == found[0][0]
        for name, w in found[0][1].items():
            np.testing.assert_array_equal(other_weights[name], w, err_msg=name)
    session, x, _ = training(optimizer, seed=12)
    assert losses(session, x, 5) != found[0][0]


def dropout_training():
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT16", [8, 16]), "x")
    rng = np.random.default_rng(4)
    w = builder.addInitializedInputTensor(rng.normal(size=(16, 4)).astype(np.float16), "w")
    dropped = builder.aiOnnx.dropout([builder.aiOnnx.matmul([x, w])], 1, 0.5)[0]
    loss = builder.aiGraphcore.identityloss([dropped])
    session = ready(
        training_session(
            builder.getModelProto(),
            loss,
            popart.SGD({"defaultLearningRate": (0.01, True)}),
            options(keeps_state=True),
            device=device(),
        )
    )
    return session, loss, rng.normal(size=(8, 16)).astype(np.float16)


def test_a_run_goes_on_with_the_same_bits():
    """Dropout and rounding after a restart, from the seed, the state and the weights that were saved."""
    session, loss, x = dropout_training()
    session.setRandomSeed(99)
    anchors = session.initAnchorArrays()
    run = lambda s: (s.run(popart.PyStepIO({"x": x}, anchors)), float(anchors[loss]))[1]  # noqa: E731
    for _ in range(3):
        run(session)
    seed, state = session.getRandomSeed(), session.getRNGState()
    w = weights_of(session, {"w": np.empty((16, 4), np.float16)})["w"]
    expected = [run(session) for _ in range(4)]

    fresh, _, _ = dropout_training()
    fresh.setRandomSeed(seed)
    fresh.setRNGState(state)
    fresh.writeWeights(popart.PyWeightsIO({"w": w}))
    fresh.weightsFromHost()
    assert [run(fresh) for _ in range(4)] == expected
    fresh.setRNGState([1, 2])
    fresh.setRandomSeed(seed)  # sets the state of rounding too: that is why it comes first
    assert fresh.getRNGState() != [1, 2]


def test_the_state_needs_its_option_and_a_loaded_program():
    session, _ = cast_session(keeps_state=False)
    with pytest.raises(popart.popart_runtime_error, match="enableLoadAndOffloadRNGState"):
        session.getRNGState()
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT16", [2]), "x")
    y = builder.aiOnnx.exp([x])
    session = inference_session(builder.getModelProto(), [y], options(keeps_state=True), device=device())
    with pytest.raises(popart.popart_runtime_error, match="prepareDevice"):
        session.getRNGState()
    with pytest.raises(popart.popart_exception, match="prepareDevice"):
        session.setRandomSeed(1)
    session.prepareDevice()
    with pytest.raises(popart.popart_runtime_error, match="wrong length: got 3 numbers, expected 2"):
        session.setRNGState([1, 2, 3])
    session.setRNGState([3, 4])
    assert session.getRNGState() == [3, 4]
    session.setRandomSeed(5)
    assert session.getRandomSeed() == 5


def test_the_state_stays_where_nothing_is_rounded_at_random():
    session, y = cast_session(rounds=False, keeps_state=True)
    session.setRNGState([3, 4])
    rounded(session, y, np.ones(N, np.float32))
    assert session.getRNGState() == [3, 4]


def test_recomputed_values_have_the_bits_of_the_first_time():
    """Recomputation changes nothing: copies draw from the streams of their originals."""
    found = []
    for recompute in (False, True):
        builder = popart.Builder()
        x = builder.addInputTensor(popart.TensorInfo("FLOAT16", [8, 16]), "x")
        w = builder.addInitializedInputTensor(np.random.default_rng(6).normal(size=(16, 16)).astype(np.float16), "w")
        h = x
        for _ in range(3):
            h = builder.aiOnnx.tanh([builder.aiOnnx.matmul([h, w])])
            if recompute:
                builder.recomputeOutput(h, popart.RecomputeType.Recompute)
        loss = builder.aiGraphcore.identityloss([h])
        session = training_session(
            builder.getModelProto(), loss, popart.SGD({"defaultLearningRate": (0.1, True)}), options(), device=device()
        )
        session.prepareDevice()
        session.setRandomSeed(21)
        session.weightsFromHost()
        anchors = session.initAnchorArrays()
        data = np.random.default_rng(7).normal(size=(8, 16)).astype(np.float16)
        for _ in range(4):
            session.run(popart.PyStepIO({"x": data}, anchors))
        found.append(weights_of(session, {"w": np.empty((16, 16), np.float16)})["w"])
    np.testing.assert_array_equal(found[0], found[1])


def test_saved_programs_round_the_same_way(tmp_path):
    x = np.random.default_rng(8).normal(size=N).astype(np.float32)
    session, y = cast_session()
    session.setRandomSeed(4)
    expected = [rounded(session, y, x) for _ in range(2)]
    session.saveExecutable(str(tmp_path / "program.popef"))
    fresh, y = cast_session()
    fresh.loadExecutable(str(tmp_path / "program.popef"))
    fresh.prepareDevice()
    fresh.setRandomSeed(4)
    np.testing.assert_array_equal([rounded(fresh, y, x) for _ in range(2)], expected)
    with pytest.raises(popart.popart_exception):
        cast_session(rounds=False)[0].loadExecutable(str(tmp_path / "program.popef"))
