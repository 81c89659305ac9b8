"""Attribute seed of random operators: a stream of the operator's own."""

import numpy as np
import popart
import pytest

import onnx
from onnx import TensorProto, helper

OPSET = 22
RANDOM = {
    "RandomUniform": ({"shape": [64, 64]}, []),
    "RandomNormal": ({"shape": [64, 64]}, []),
    "RandomUniformLike": ({}, ["x"]),
    "RandomNormalLike": ({}, ["x"]),
    "Bernoulli": ({}, ["p"]),
    "Multinomial": ({"sample_size": 64}, ["p"]),
    "Dropout": ({}, ["x", "ratio", "training"]),
}


def node(operator, seed, output="y"):
    attributes, inputs = RANDOM[operator]
    if seed is not None:
        attributes = {**attributes, "seed": seed if operator == "Dropout" else float(seed)}
    return helper.make_node(operator, inputs, [output], **attributes)


def session_of(nodes, outputs):
    constants = {
        "x": np.ones((64, 64), np.float32),
        "p": np.full((64, 64), 0.5, np.float32),
        "ratio": np.float32(0.25),
        "training": np.array(True),
    }
    infos = [onnx.ValueInfoProto(name=name) for name in outputs]
    initializers = [onnx.numpy_helper.from_array(v, k) for k, v in constants.items()]
    graph = helper.make_graph(nodes, "g", [], infos, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    options = popart.SessionOptions()
    options.followTrainingMode = True
    session = popart.InferenceSession(
        model.SerializeToString(),
        popart.DataFlow(1, {name: popart.AnchorReturnType("All") for name in outputs}),
        popart.DeviceManager().createCpuDevice(),
        userOptions=options,
    )
    session.prepareDevice()
    return session


def draws(session, runs=1):
    arrays = session.initAnchorArrays()
    results = []
    for _ in range(runs):
        session.run(popart.PyStepIO({}, arrays))
        results.append({name: array.copy() for name, array in arrays.items()})
    return results if runs > 1 else results[0]


@pytest.mark.parametrize("operator", RANDOM)
def test_a_seed_repeats_and_advances(operator):
    """Two sessions draw alike, two runs do not; another seed draws otherwise."""
    first = draws(session_of([node(operator, 7)], ["y"]), 3)
    again = draws(session_of([node(operator, 7)], ["y"]), 3)
    other = draws(session_of([node(operator, 8)], ["y"]))
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a["y"], b["y"])
    assert not np.array_equal(first[0]["y"], first[1]["y"])
    assert not np.array_equal(first[0]["y"], other["y"])


def test_the_session_s_seed_concerns_operators_without_one():
    """SetRandomSeed changes their numbers alone; other operators of the program change no number of ours."""
    alone = draws(session_of([node("RandomUniform", 7)], ["y"]))["y"]
    session = session_of(
        [node("RandomNormal", None, "free"), node("RandomUniform", 9, "z"), node("RandomUniform", 7)],
        ["free", "y", "z"],
    )
    session.setRandomSeed(1)
    one = draws(session)
    np.testing.assert_array_equal(one["y"], alone)
    assert not np.array_equal(one["z"], one["y"])
    again = session_of([node("RandomNormal", None, "free"), node("RandomUniform", 7)], ["free", "y"])
    again.setRandomSeed(2)
    two = draws(again)
    np.testing.assert_array_equal(two["y"], alone)
    assert not np.array_equal(two["free"], one["free"])


def test_numbers_of_a_seed_are_distributed_as_they_should():
    """Means and variances within five standard errors."""
    y = draws(session_of([node("RandomUniform", 3)], ["y"]))["y"]
    assert abs(y.mean() - 0.5) < 5 * np.sqrt(1 / 12 / y.size)
    assert 0 <= y.min() < y.max() < 1
    y = draws(session_of([node("RandomNormal", 3)], ["y"]))["y"]
    assert abs(y.mean()) < 5 / np.sqrt(y.size)
    assert abs(y.var() - 1) < 5 * np.sqrt(2 / y.size)
    y = draws(session_of([node("Dropout", 3)], ["y"]))["y"]
    assert set(np.unique(y)) == {np.float32(0), np.float32(1) / np.float32(0.75)}
    assert abs(np.mean(y == 0) - 0.25) < 5 * np.sqrt(0.25 * 0.75 / y.size)


def test_iterations_of_a_loop_draw_otherwise():
    """The stream of a node in a body advances by iteration."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["on"], ["on_out"]), node("RandomUniform", 7, "row")],
        "body",
        [info("i", TensorProto.INT64, []), info("on", TensorProto.BOOL, [])],
        [info("on_out", TensorProto.BOOL, []), info("row", TensorProto.FLOAT, [64, 64])],
    )
    loop = helper.make_node("Loop", ["trips"], ["rows"], body=body)
    trips = helper.make_node("Constant", [], ["trips"], value=onnx.numpy_helper.from_array(np.int64(3)))
    session = session_of([trips, loop], ["rows"])
    rows = draws(session)["rows"]
    assert rows.shape == (3, 64, 64)
    assert len({row.tobytes() for row in rows}) == 3
    np.testing.assert_array_equal(draws(session_of([trips, loop], ["rows"]))["rows"], rows)


def test_a_seed_that_is_no_number_is_refused():
    """Models are untrusted."""
    with pytest.raises(popart.popart_exception, match="seed"):
        session_of([helper.make_node("RandomUniform", [], ["y"], shape=[64, 64], seed="x")], ["y"])
