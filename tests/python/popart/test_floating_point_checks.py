"""With enableFloatingPointChecks a run ends at the first operator that makes a NaN or an infinity, and names it."""

import numpy as np
import popart
import pytest

import onnx
from tests.python.popart.test_accumulation import CASES, WEIGHTS, model, weights_of
from tests.python.popart.test_half_storage import SHAPE, half_model
from tests.python.popart.test_replicas import replicated
from tests.python.popart.training_runs import inference_session, ready, training_session

HALF, FLOAT = np.float16, np.float32
TYPES = {"FLOAT": FLOAT, "FLOAT16": HALF}


def checking(options=None):
    options = options or popart.SessionOptions()
    options.enableFloatingPointChecks = True
    return options


def session_of(build, inputs, batches=1, options=None):
    """Inference of the tensor that `build(builder, *inputs)` returns; returns a function of the inputs' values."""
    builder = popart.Builder()
    ids = [builder.addInputTensor(info) for info in inputs]
    y = build(builder, *ids)
    session = inference_session(
        builder.getModelProto(), [y], checking() if options is None else options, batches=batches
    )
    session.prepareDevice()
    anchors = session.initAnchorArrays()

    def run(*values):
        session.run(popart.PyStepIO(dict(zip(ids, values, strict=True)), anchors))
        return anchors[y].copy()

    return run


def refusal(run, *values):
    with pytest.raises(popart.popart_runtime_error) as caught:
        run(*values)
    return str(caught.value)


@pytest.mark.parametrize("name", TYPES)
def test_the_first_operator_is_named(name):
    """Exp overflows first, although the difference of infinities and its square follow in the same fused loop."""

    def build(builder, x):
        large = builder.aiOnnx.exp([x], debugContext="large")
        difference = builder.aiOnnx.sub([large, large], debugContext="difference")
        return builder.aiOnnx.mul([difference, difference])

    run = session_of(build, [popart.TensorInfo(name, [2, 3])])
    good = np.arange(6, dtype=TYPES[name]).reshape(2, 3)
    for _ in range(2):  # the session stays usable
        np.testing.assert_array_equal(run(good), np.zeros((2, 3)))
        bad = good.copy()
        bad[1, 1] = 200
        message = refusal(run, bad)
        assert message.startswith("Exp 'large"), message
        assert "is not finite: got an infinity at element 4, and none in its operands" in message


@pytest.mark.parametrize("name", TYPES)
def test_products_are_watched_where_they_are_fused(name):
    rng = np.random.default_rng(1)
    w = rng.normal(size=(64, 48)).astype(TYPES[name])
    largest = np.finfo(TYPES[name]).max

    def build(builder, x):
        product = builder.aiOnnx.matmul([x, builder.addInitializedInputTensor(w)], debugContext="product")
        return builder.aiOnnx.relu([product])

    run = session_of(build, [popart.TensorInfo(name, [8, 64])])
    x = rng.normal(size=(8, 64)).astype(TYPES[name])
    np.testing.assert_allclose(run(x), np.maximum(x.astype(FLOAT) @ w.astype(FLOAT), 0), rtol=4e-3, atol=2e-2)
    x[3] = largest * np.sign(w[:, 5])
    message = refusal(run, x)
    assert message.startswith("MatMul 'product") and "its result 'MatMul:0'" in message


def test_values_from_outside_may_be_infinite():
    """A mask of -inf is an operand; NaN that comes of it is new."""

    def build(builder, x, mask):
        return builder.aiOnnx.softmax([builder.aiOnnx.add([x, mask], debugContext="masked")])

    run = session_of(build, [popart.TensorInfo("FLOAT", [1, 4])] * 2)
    x = np.zeros((1, 4), FLOAT)
    mask = np.array([[0, -np.inf, 0, -np.inf]], FLOAT)
    np.testing.assert_array_equal(run(x, mask), [[0.5, 0, 0.5, 0]])
    x[0, 1] = np.inf
    message = refusal(run, x, mask)
    assert message.startswith("Add 'masked") and "got NaN at element 1" in message


def test_views_and_casts():
    """A view holds what it shows; a cast to FLOAT16 may overflow."""

    def build(builder, x):
        flat = builder.reshape_const(builder.aiOnnx, [x], [6])
        return builder.aiOnnx.cast([flat], "FLOAT16", debugContext="narrow")

    run = session_of(build, [popart.TensorInfo("FLOAT", [2, 3])])
    x = np.ones((2, 3), FLOAT)
    np.testing.assert_array_equal(run(x), np.ones(6))
    x[1, 2] = np.nan
    assert np.isnan(run(x)[5])
    x[0, 1] = 7e4
    assert refusal(run, x).startswith("Cast 'narrow")


def test_loops_are_watched_inside():
    """X is squared in a loop until it overflows, in the batch that does so."""

    def build(builder, x):
        body = builder.createSubgraphBuilder()
        body.addInputTensor(popart.TensorInfo("INT64", []))
        condition = body.addInputTensor(popart.TensorInfo("BOOL", []))
        value = body.addInputTensor(popart.TensorInfo("FLOAT", [2]))
        squared = body.aiOnnx.mul([value, value], debugContext="squared")
        body.addOutputTensor(condition)
        body.addOutputTensor(squared)
        trips = builder.aiOnnx.constant(np.array(5, np.int64))
        go = builder.aiOnnx.constant(np.array(True))
        return builder.aiOnnx.loop([trips, go, x], 1, body)[0]

    run = session_of(build, [popart.TensorInfo("FLOAT", [2])], batches=2)
    np.testing.assert_array_equal(run(np.ones((2, 2), FLOAT)), np.ones((2, 2)))
    message = refusal(run, np.array([[1, 1], [1, 100]], FLOAT))
    assert message.startswith("Mul 'squared") and "got an infinity at element 1" in message


def training(optimizer, options):
    """The network of test_accumulation, two updates a run; returns the session and a function of the data."""
    proto, _y, loss = model()
    session = ready(training_session(proto, loss, optimizer, options, batches=2))
    anchors = session.initAnchorArrays()
    return session, lambda data: session.run(popart.PyStepIO({"x": data}, anchors))


@pytest.mark.parametrize(("replicas", "factor"), [(1, 1), (1, 3), (2, 1), (2, 3)])
@pytest.mark.parametrize("name", ["sgd", "momentum", "nesterov", *[n for n in CASES if n.startswith("adam")][:1]])
def test_training_has_the_same_weights_and_ends_at_a_bad_value(name, replicas, factor):
    make = CASES[name][0]
    shape = (2, *([factor] if factor > 1 else []), *([replicas] if replicas > 1 else []), 5, 6)
    data = np.random.default_rng(3).normal(size=shape).astype(FLOAT)
    plain, run_plain = training(make(), replicated(replicas, factor))
    checked, run_checked = training(make(), checking(replicated(replicas, factor)))
    run_plain(data)
    run_checked(data)
    expected, found = weights_of(plain), weights_of(checked)
    for key, value in expected.items():
        np.testing.assert_array_equal(found[key], value)
    bad = data.copy()
    bad.reshape(-1, 5, 6)[-1, 2] = 3e38 * np.sign(WEIGHTS[:, 0])  # of the last replica and micro-batch
    message = refusal(run_checked, bad)
    assert message.startswith("MatMul"), message
    run_checked(data)


def test_gradients_and_updates_are_named():
    """The forward pass is finite; the gradient of sqrt at zero is not."""
    builder = popart.Builder()
    w = builder.addInitializedInputTensor(np.array([4, 0, 1], FLOAT), "w")
    y = builder.aiOnnx.sqrt([w], debugContext="root")
    loss = builder.aiGraphcore.identityloss([y], popart.ReductionType.Sum)
    session = ready(
        training_session(builder.getModelProto(), loss, popart.SGD({"defaultLearningRate": (0.1, True)}), checking())
    )
    message = refusal(lambda: session.run(popart.PyStepIO({}, session.initAnchorArrays())))
    assert "Grad" in message.split(":")[0] and "at element 1" in message
    assert "its result 'Gradient___w'" in message


def test_cached_programs_with_and_without_checks_are_two(tmp_path):
    def build(builder, x):
        return builder.aiOnnx.log([x], debugContext="root")

    info = popart.TensorInfo("FLOAT", [2])
    zero = np.zeros(2, FLOAT)
    for _ in range(2):
        plain = popart.SessionOptions()
        plain.enableEngineCaching, plain.cachePath = True, str(tmp_path)
        np.testing.assert_array_equal(session_of(build, [info], options=plain)(zero), [-np.inf] * 2)
        watched = checking()
        watched.enableEngineCaching, watched.cachePath = True, str(tmp_path)
        assert refusal(session_of(build, [info], options=watched), zero).startswith("Log 'root")
    assert len(list(tmp_path.glob("*.popef"))) == 2


def test_branches_are_watched_where_they_run():
    def build(builder, x, flag):
        names = {True: "log", False: "abs"}
        branches = {}
        for taken, name in names.items():
            branches[taken] = builder.createSubgraphBuilder()
            branches[taken].addInputTensorFromParentGraph(x)
            branches[taken].addOutputTensor(getattr(branches[taken].aiOnnx, name)([x], debugContext="branch"))
        return builder.aiOnnx.logical_if([flag], 1, branches[False], branches[True])[0]

    run = session_of(build, [popart.TensorInfo("FLOAT", [2]), popart.TensorInfo("BOOL", [])])
    zero = np.zeros(2, FLOAT)
    np.testing.assert_array_equal(run(zero, np.array(False)), zero)
    assert refusal(run, zero, np.array(True)).startswith("Log 'branch")
    np.testing.assert_array_equal(run(zero, np.array(False)), zero)


def test_half_training_of_a_network_has_the_same_weights(tmp_path):
    """An exported network of many kinds of operators in FLOAT16, trained with and without checks."""
    x = np.random.default_rng(0).normal(size=SHAPE).astype(HALF)
    results = []
    for options in (popart.SessionOptions(), checking()):
        builder = popart.Builder(half_model())
        labels = builder.addInputTensor("INT32", [4], "labels")
        loss = builder.aiGraphcore.nllloss(["output", labels], popart.ReductionType.Mean)
        session = ready(
            training_session(
                builder.getModelProto(),
                loss,
                popart.SGD({"defaultLearningRate": (0.02, False), "defaultMomentum": (0.9, True)}),
                options,
            )
        )
        anchors = session.initAnchorArrays()
        for _ in range(3):
            session.run(popart.PyStepIO({"input": x, "labels": np.array([0, 3, 1, 4], np.int32)}, anchors))
        path = str(tmp_path / "model.onnx")
        session.modelToHost(path)
        saved = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
        results.append(saved | {"loss": anchors[loss].copy()})
    assert len(results[0]) > 10 and np.isfinite(results[0]["loss"])
    for name, value in results[0].items():
        np.testing.assert_array_equal(results[1][name], value, err_msg=name)
