"""Arrays of a step: every run refuses wrong shapes, and prints both; fed weights count in inference."""

import numpy as np
import popart
import popart.backend
import pytest

import onnx
from onnx import TensorProto, helper, numpy_helper
from tests.python.popart.training_runs import inference_session, ready, training_session

ROWS, WIDTH = 4, 3
X = np.random.default_rng(3).normal(size=(ROWS, WIDTH)).astype(np.float32)
W = np.random.default_rng(4).normal(size=(WIDTH, 2)).astype(np.float32)


def scaled(shape=(ROWS, WIDTH), options=None, batches=1):
    """An inference session of y = 2 x."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", list(shape), "x")
    y = builder.aiOnnx.add([x, x], "y")
    return ready(inference_session(builder.getModelProto(), [y], options, batches=batches)), y


def refused(session, x, y):
    with pytest.raises(popart.popart_runtime_error) as caught:
        session.run(popart.PyStepIO({"x": x}, y))
    return str(caught.value)


WRONG = [(WIDTH, ROWS), (2, 6), (ROWS + 5, WIDTH), (ROWS - 1, WIDTH), (ROWS, WIDTH + 1), (2, 2, 3, 2), (0, WIDTH)]


@pytest.mark.parametrize("shape", WRONG, ids=str)
def test_every_run_refuses_inputs_of_another_shape(shape):
    session, y = scaled()
    anchors = session.initAnchorArrays()
    for _ in range(2):
        message = refused(session, np.zeros(shape, np.float32), anchors)
        assert str(list(shape)) in message and f"[{ROWS}, {WIDTH}]" in message and "'x'" in message
        session.run(popart.PyStepIO({"x": X}, anchors))
        np.testing.assert_array_equal(anchors[y], 2 * X)


@pytest.mark.parametrize("shape", WRONG, ids=str)
def test_every_run_refuses_results_of_another_shape(shape):
    session, y = scaled()
    session.run(popart.PyStepIO({"x": X}, session.initAnchorArrays()))
    message = refused(session, X, {y: np.zeros(shape, np.float32)})
    assert str(list(shape)) in message and f"[{ROWS}, {WIDTH}]" in message and y in message


def test_unknown_names_are_refused_in_later_runs_too():
    session, _y = scaled()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": X}, anchors))
    with pytest.raises(popart.popart_runtime_error, match=r"'xx': no such input stream. Nearest input streams: x"):
        session.run(popart.PyStepIO({"x": X, "xx": X}, anchors))
    with pytest.raises(popart.popart_runtime_error, match="'yy': the tensor is not an anchor"):
        session.run(popart.PyStepIO({"x": X}, {**anchors, "yy": X}))


SAMPLES = [(2, 3, 2, ROWS, WIDTH), (2 * 3 * 2 * ROWS, WIDTH), (6, 2 * ROWS, WIDTH), (2, 6, ROWS, WIDTH), (24 * 6,)]
TWISTED = [(3, 2, 2, ROWS, WIDTH), (2, 3, 2, WIDTH, ROWS), (ROWS, 12, WIDTH), (12, WIDTH, ROWS), (WIDTH, 12 * ROWS)]


def accumulating(replicas=2):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [ROWS, WIDTH], "x")
    y = builder.aiOnnx.mul([x, builder.addInitializedInputTensor(np.ones(WIDTH, np.float32), "w")], "y")
    loss = builder.aiGraphcore.identityloss([y])
    options = popart.SessionOptions()
    options.enableGradientAccumulation, options.accumulationFactor = True, 3
    options.enableReplicatedGraphs, options.replicatedGraphCount = replicas > 1, replicas
    anchors = {y: popart.AnchorReturnType("All")}
    session = training_session(builder.getModelProto(), loss, popart.ConstSGD(0.0 + 1e-30), options, anchors, batches=2)
    return ready(session), y


@pytest.mark.parametrize("shape", SAMPLES + TWISTED, ids=str)
def test_dimensions_of_batches_micro_batches_and_replicas(shape):
    """They may be joined with their neighbours, as where the first dimension counts all samples."""
    session, y = accumulating()
    anchors = session.initAnchorArrays()
    values = np.arange(2 * 3 * 2 * ROWS * WIDTH, dtype=np.float32)
    good = popart.PyStepIO({"x": values.reshape(2, 3, 2, ROWS, WIDTH)}, anchors)
    session.run(good)
    step = popart.PyStepIO({"x": values.reshape(shape)}, anchors)
    if shape in SAMPLES:
        anchors[y][:] = 0
        session.run(step)
        np.testing.assert_array_equal(anchors[y].ravel(), values)
        return
    for _ in range(2):
        with pytest.raises(popart.popart_runtime_error, match="unexpected shape") as caught:
            session.run(step)
        assert str(list(shape)) in str(caught.value) and f"[2, 3, 2, {ROWS}, {WIDTH}]" in str(caught.value)
        session.run(good)


@pytest.mark.parametrize("given", [(ROWS,), (ROWS, 1), (1, ROWS, 1)])
def test_dimensions_of_one_may_be_left_out_or_added(given):
    session, y = scaled((ROWS, 1))
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": X[:, 0].reshape(given).copy()}, anchors))
    np.testing.assert_array_equal(anchors[y][:, 0], 2 * X[:, 0])


@pytest.mark.parametrize("side", ["input", "output"])
def test_callbacks_are_checked_each_time(side):
    session, _y = scaled(batches=2)
    results = [np.zeros((ROWS, WIDTH), np.float32) for _ in range(2)]
    for bad in (False, True):
        inputs, outputs = iter([X, X]), iter(results)
        if bad and side == "input":
            inputs = iter([X, X.reshape(WIDTH, ROWS)])
        if bad and side == "output":
            outputs = iter([results[0], np.zeros((WIDTH, ROWS), np.float32)])
        step = popart.PyStepIOCallback(
            lambda name, ahead, inputs=inputs: next(inputs),
            lambda name: None,
            lambda name, outputs=outputs: next(outputs),
            lambda name: None,
        )
        if not bad:
            session.run(step)
            continue
        with pytest.raises(
            popart.popart_runtime_error, match=rf"got \[{WIDTH}, {ROWS}\], expected \[{ROWS}, {WIDTH}\]"
        ):
            session.run(step)


def test_without_asserts_nothing_is_checked():
    session, y = scaled()
    anchors = session.initAnchorArrays()
    step = popart.PyStepIO({"x": X.reshape(WIDTH, ROWS)}, anchors)
    step.enableRuntimeAsserts(False)
    session.run(step)
    np.testing.assert_array_equal(anchors[y], 2 * X)


def test_open_shapes_are_checked():
    builder = popart.Builder()
    model = onnx.load_from_string(
        helper.make_model(
            helper.make_graph(
                [helper.make_node("Add", ["x", "x"], ["y"])],
                "g",
                [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", WIDTH])],
                [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", WIDTH])],
            ),
            opset_imports=[helper.make_opsetid("", 17)],
        ).SerializeToString()
    )
    del builder
    options = popart.SessionOptions()
    options.engineOptions = {"max_shape_programs": "2"}
    session = inference_session(model.SerializeToString(), ["y"], options)
    session.prepareDevice()
    y = {"y": np.zeros((ROWS, WIDTH), np.float32)}
    session.run(popart.PyStepIO({"x": X}, y))
    with pytest.raises(popart.popart_exception, match=r"\[4, 4\]"):
        session.run(popart.PyStepIO({"x": np.zeros((4, 4), np.float32)}, y))
    session.run(popart.PyStepIO({"x": X}, y))
    np.testing.assert_array_equal(y["y"], 2 * X)


# ---- weights that are graph inputs too


def weight_model(as_input=True, opset=17):
    """Y = x w, w an initializer with the value W."""
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [ROWS, WIDTH])]
    if as_input:
        inputs.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [WIDTH, 2]))
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        inputs,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [ROWS, 2])],
        [numpy_helper.from_array(W, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


@pytest.mark.parametrize("constant", [True, False])
def test_a_fed_weight_counts_in_inference(constant):
    """As in ONNX Runtime: an initializer is the value of its graph input where nothing is fed."""
    runtime = pytest.importorskip("onnxruntime")
    model = weight_model()
    model.ir_version = 8
    oracle = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    options = popart.SessionOptions()
    options.constantWeights = constant
    session = inference_session(model.SerializeToString(), ["y"], options)
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    for feeds in ({"x": X}, {"x": X, "w": 3 * W}, {"x": X, "w": -W}, {"x": X}, {"x": 2 * X, "w": 5 * W}):
        session.run(popart.PyStepIO(feeds, anchors))
        np.testing.assert_allclose(anchors["y"], oracle.run(None, feeds)[0], rtol=1e-5)
    with pytest.raises(popart.popart_runtime_error, match=r"'w'.*got \[2, 3\], expected \[3, 2\]"):
        session.run(popart.PyStepIO({"x": X, "w": W.T.copy()}, anchors))
    session.run(popart.PyStepIO({"x": X}, anchors))
    np.testing.assert_allclose(anchors["y"], X @ W, rtol=1e-5)


def test_a_fed_weight_in_training_is_refused_with_the_reason():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [ROWS, WIDTH], "x")
    w = builder.addInitializedInputTensor(W, "w")
    loss = builder.aiGraphcore.identityloss([builder.aiOnnx.matmul([x, w])])
    session = ready(training_session(builder.getModelProto(), loss, popart.ConstSGD(0.1)))
    for _ in range(2):
        with pytest.raises(
            popart.popart_runtime_error, match=r"'w': it is a weight of the model.*training.*writeWeights"
        ):
            session.run(popart.PyStepIO({"x": X, "w": W}, session.initAnchorArrays()))


def test_a_weight_that_is_no_graph_input_is_not_fed():
    session = inference_session(weight_model(as_input=False).SerializeToString(), ["y"])
    session.prepareDevice()
    with pytest.raises(popart.popart_runtime_error, match=r"'w': it is a weight.*does not list"):
        session.run(popart.PyStepIO({"x": X, "w": W}, session.initAnchorArrays()))


def test_a_fed_weight_through_the_backend():
    model = popart.backend.prepare(weight_model())
    for feeds in ({"x": X}, {"x": X, "w": 3 * W}, {"x": X}):
        np.testing.assert_allclose(model.run(feeds)[0], X @ feeds.get("w", W), rtol=1e-5)


def test_a_fed_shape_through_the_backend():
    """The values of a shape are constants of a program."""
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "shape"], ["y"])],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [ROWS, WIDTH]),
            helper.make_tensor_value_info("shape", TensorProto.INT64, [2]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array([2, 6], np.int64), "shape")],
    )
    model = popart.backend.prepare(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    assert model.run({"x": X})[0].shape == (2, 6)
    assert model.run({"x": X, "shape": np.array([6, 2], np.int64)})[0].shape == (6, 2)
    assert model.run({"x": X})[0].shape == (2, 6)
