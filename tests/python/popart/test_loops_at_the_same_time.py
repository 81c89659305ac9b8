"""Loops that do not depend on one another run at the same time, with the bits of one after the other.

Both directions of recurrent layers, and layers of which one is some steps ahead of the next; forward and backward, on
any number of threads.
"""

import numpy as np
import popart
import pytest

import onnx
from onnx import TensorProto, helper, numpy_helper

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STEPS, BATCH, HIDDEN = 40, 2, 48


def network(type, direction, layers):
    """Layers of one type and `loss`, the mean square of what the last one gives."""
    random = np.random.default_rng(7)
    count = 1 + (direction == "bidirectional")
    nodes, weights = [], [numpy_helper.from_array(np.array([STEPS, BATCH, count * HIDDEN]), "shape")]
    value = "x"
    for i in range(layers):
        width = HIDDEN if i == 0 else count * HIDDEN
        rows = GATES[type] * HIDDEN
        for name, shape in (("w", (count, rows, width)), ("r", (count, rows, HIDDEN)), ("b", (count, 2 * rows))):
            array = (0.2 * random.standard_normal(shape)).astype(np.float32)
            weights.append(numpy_helper.from_array(array, f"{name}{i}"))
        attributes = {"hidden_size": HIDDEN, "direction": direction}
        nodes.append(helper.make_node(type, [value, f"w{i}", f"r{i}", f"b{i}"], [f"y{i}"], **attributes))
        nodes.append(helper.make_node("Transpose", [f"y{i}"], [f"t{i}"], perm=[0, 2, 1, 3]))
        value = f"h{i}"
        nodes.append(helper.make_node("Reshape", [f"t{i}", "shape"], [value]))
    nodes.append(helper.make_node("Mul", [value, value], ["square"]))
    nodes.append(helper.make_node("ReduceMean", ["square"], ["loss"], keepdims=0))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [STEPS, BATCH, HIDDEN])
    results = [
        helper.make_tensor_value_info(value, TensorProto.FLOAT, [STEPS, BATCH, count * HIDDEN]),
        helper.make_tensor_value_info("loss", TensorProto.FLOAT, []),
    ]
    graph = helper.make_graph(nodes, "layers", [x], results, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    onnx.checker.check_model(model)
    return model, value


def trained(type, direction, layers, threads, rule):
    """Outputs and losses of three updates, then the weights."""
    model, value = network(type, direction, layers)
    options = popart.SessionOptions()
    options.engineOptions = {"num_threads": str(threads), "pipeline.concurrent": rule}
    session = popart.TrainingSession(
        fnModel=model.SerializeToString(),
        dataFlow=popart.DataFlow(1, [value, "loss"]),
        loss="loss",
        optimizer=popart.SGD({"defaultLearningRate": (0.5, False), "defaultMomentum": (0.9, False)}),
        deviceInfo=popart.DeviceManager().createCpuDevice(),
        userOptions=options,
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    x = np.random.default_rng(5).standard_normal((STEPS, BATCH, HIDDEN)).astype(np.float32)
    results = []
    for _ in range(3):
        session.run(popart.PyStepIO({"x": x}, anchors))
        results += [anchors[value].copy(), anchors["loss"].copy()]
    session.weightsToHost()
    names = [w.name for w in model.graph.initializer if w.name != "shape"]
    arrays = {w.name: numpy_helper.to_array(w).copy() for w in model.graph.initializer if w.name in names}
    session.readWeights(popart.PyWeightsIO(arrays))
    return results + [arrays[name] for name in names]


@pytest.mark.parametrize(("direction", "layers"), [("bidirectional", 1), ("bidirectional", 2), ("forward", 3)])
@pytest.mark.parametrize("type", GATES)
def test_training_has_the_bits_of_loops_in_order(type, direction, layers):
    expected = trained(type, direction, layers, 1, "never")
    assert expected[1] > expected[3] > expected[5]
    for threads, rule in ((2, "never"), (2, "always"), (3, "always"), (8, "always"), (2, "auto")):
        for got, want in zip(trained(type, direction, layers, threads, rule), expected, strict=True):
            np.testing.assert_array_equal(got, want, err_msg=f"{threads} threads, {rule}")


def log_of(capfd, direction, rule, threads=2, layers=1):
    model, value = network("GRU", direction, layers)
    options = popart.SessionOptions()
    options.engineOptions = {"num_threads": str(threads), "pipeline.concurrent": rule}
    popart.getLogger("devicex").setLevel("INFO")
    try:
        session = popart.InferenceSession(
            model.SerializeToString(),
            popart.DataFlow(1, [value]),
            popart.DeviceManager().createCpuDevice(),
            userOptions=options,
        )
        session.prepareDevice()
    finally:
        popart.getLogger("devicex").setLevel("WARN")
    return capfd.readouterr().err


def test_directions_run_at_the_same_time_where_that_is_faster(capfd):
    found = "2 loops of the main graph run at the same time"
    assert found in log_of(capfd, "bidirectional", "auto")
    assert found in log_of(capfd, "bidirectional", "always")
    assert found not in log_of(capfd, "bidirectional", "never")
    assert found not in log_of(capfd, "bidirectional", "auto", threads=1)
    assert found not in log_of(capfd, "forward", "always")


def test_layers_run_in_chunks(capfd):
    found = f"2 loops in a row of {STEPS} iterations run in chunks"
    assert found in log_of(capfd, "forward", "always", layers=2)
    assert found not in log_of(capfd, "forward", "never", layers=2)
    assert found not in log_of(capfd, "forward", "always", threads=1, layers=2)
    assert found not in log_of(capfd, "bidirectional", "always", layers=2), "the reverse direction waits for the end"
