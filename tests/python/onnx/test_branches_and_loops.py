"""Branches of If whose shapes do not fit, loops whose state grows, and loops without a bound on their iterations.

The right values come from ONNX Runtime.
"""

import re

import numpy as np
import onnx.numpy_helper
import onnx.parser
import onnxruntime
import popart
import popart.backend
import pytest

from onnx import TensorProto, helper
from tests.inference import infer, prepare, run_once

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
rng = np.random.default_rng(1)


def model(text, opset=17):
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {text}')


def ort(proto, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    source = proto if isinstance(proto, bytes) else proto.SerializeToString()
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"]).run(None, feeds)


def info(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def weight(name, *shape):
    return onnx.numpy_helper.from_array(rng.normal(0, 1, shape).astype(np.float32), name)


# ---- If --------------------------------------------------------------------------------------------


def detector():
    """As in voice detectors: the sampling rate selects the branch, and its weights fit only one length of x."""

    def branch(name, length):
        nodes = [
            helper.make_node("MatMul", ["x", f"w{name}"], [f"h{name}"]),
            helper.make_node("Reshape", [f"h{name}", "shape"], [f"r{name}"]),
        ]
        return helper.make_graph(nodes, name, [], [info(f"r{name}", FLOAT, None)], [weight(f"w{name}", length, 4)])

    nodes = [
        helper.make_node("Equal", ["sr", "rate"], ["is16"]),
        helper.make_node(
            "If", ["is16"], ["h"], name="rate", then_branch=branch("a", 512), else_branch=branch("b", 256)
        ),
        helper.make_node("Sigmoid", ["h"], ["y"]),
    ]
    values = [
        onnx.numpy_helper.from_array(np.array(16000), "rate"),
        onnx.numpy_helper.from_array(np.array([2, 2]), "shape"),
    ]
    inputs = [info("x", FLOAT, [1, "n"]), info("sr", INT64, [])]
    graph = helper.make_graph(nodes, "g", inputs, [info("y", FLOAT, None)], values)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(("rate", "length", "refused"), [(16000, 512, "else_branch"), (8000, 256, "then_branch")])
def test_a_branch_that_is_not_taken_need_not_fit(rate, length, refused):
    proto = detector()
    options = popart.SessionOptions()
    options.engineOptions["max_shape_programs"] = "2"
    session = prepare(proto.SerializeToString(), ["y"], userOptions=options)
    feeds = {"x": rng.normal(0, 1, (1, length)).astype(np.float32), "sr": np.array(rate)}
    session.setInputShapes(feeds)
    (y,) = run_once(session, feeds, ["y"])
    np.testing.assert_allclose(y, ort(proto, feeds)[0], rtol=1e-4, atol=1e-6)
    other = {"x": feeds["x"], "sr": np.array(24000 - rate)}
    with pytest.raises(popart.popart_runtime_error, match=rf"If 'rate': the run takes {refused}.*MatMul"):
        run_once(session, other, ["y"])
    (again,) = run_once(session, feeds, ["y"])  # the session can still run
    np.testing.assert_array_equal(again, y)


def test_two_branches_that_do_not_fit_are_refused_with_both_reasons():
    proto = detector()
    shapes = popart.InputShapeInfo()
    shapes.add("x", popart.TensorInfo("FLOAT", [1, 7]))
    with pytest.raises(popart.popart_exception, match=r"no branch fits.*then_branch.*else_branch"):
        infer(proto.SerializeToString(), {}, ["y"], inputShapeInfo=shapes)


RESULTS = {
    "rank": ("Reshape(x, flat)", "Identity(x)"),
    "type": ("Cast<to = 11>(x)", "Identity(x)"),
    "shape": ("Concat<axis = 0>(x, x)", "Identity(x)"),
}


@pytest.mark.parametrize("kind", RESULTS)
@pytest.mark.parametrize("taken", [True, False])
def test_the_backend_gives_the_results_of_either_branch(kind, taken):
    """A branch gives another rank, type or shape; after its error the program is compiled again for these inputs."""
    yes, no = RESULTS[kind]
    x = rng.normal(0, 1, (2, 3)).astype(np.float32)
    kinds = {"type": "double"} if kind == "type" else {}
    proto = model(
        f"""g (float[2, 3] x, bool c) => (float[2, 3] y) <int64[1] flat = {{6}}> {{
        y = If (c) <
            then_branch = yes () => ({kinds.get(kind, "float")}[a, b] t) {{ t = {yes} }},
            else_branch = no () => (float[2, 3] e) {{ e = {no} }}
        > }}"""
    )
    prepared = popart.backend.prepare(proto)
    want = {"rank": x.reshape(6), "type": x.astype(np.float64), "shape": np.concatenate([x, x])}[kind] if taken else x
    for _ in range(2):
        (y,) = prepared.run({"x": x, "c": np.array(taken)})
        assert y.dtype == want.dtype
        np.testing.assert_array_equal(y, want)


def test_a_session_has_the_result_that_the_model_declares():
    x = rng.normal(0, 1, (2, 3)).astype(np.float32)
    proto = model(
        """g (float[2, 3] x, bool c) => (float[2, 3] y) <int64[1] flat = {6}> {
        y = If (c) <
            then_branch = yes () => (float[n] t) { t = Reshape(x, flat) },
            else_branch = no () => (float[2, 3] e) { e = Identity(x) }
        > }"""
    )
    session = prepare(proto.SerializeToString(), ["y"])
    (y,) = run_once(session, {"x": x, "c": np.array(False)}, ["y"])
    np.testing.assert_array_equal(y, x)
    with pytest.raises(popart.popart_runtime_error, match=r"takes then_branch, which does not fit: output 0"):
        run_once(session, {"x": x, "c": np.array(True)}, ["y"])


@pytest.mark.parametrize("taken", [True, False])
def test_positions_and_integers_are_of_one_type(taken):
    proto = model(
        """g (float[2, 3] x, bool c) => (int64[2] y) <int64[2] none = {7, 8}> {
        y = If (c) <
            then_branch = yes () => (int64[2] t) { t = ArgMax<axis = 1, keepdims = 0>(x) },
            else_branch = no () => (int64[2] e) { e = Identity(none) }
        > }""",
        opset=11,
    )
    feeds = {"x": rng.normal(0, 1, (2, 3)).astype(np.float32), "c": np.array(taken)}
    (y,) = infer(proto.SerializeToString(), feeds, ["y"])
    np.testing.assert_array_equal(y, ort(proto, feeds)[0])


def test_training_with_a_branch_that_does_not_fit():
    proto = model(
        """g (float[4, 3] x, bool c) => (float loss)
        <float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[2, 2] v = {1, 2, 3, 4}> {
        h = If (c) <
            then_branch = yes () => (float[4, 2] t) { t = MatMul(x, w) },
            else_branch = no () => (float[4, 2] e) { e = MatMul(x, v) }
        >
        loss = ReduceMean<keepdims = 0>(h) }"""
    )
    session = popart.TrainingSession(
        proto.SerializeToString(), popart.DataFlow(1, ["loss"]), "loss", popart.ConstSGD(0.5),
        popart.DeviceManager().createCpuDevice(),
    )  # fmt: skip
    session.prepareDevice()
    session.weightsFromHost()
    x = rng.normal(0, 1, (4, 3)).astype(np.float32)
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": x, "c": np.array(True)}, anchors))
    w = np.arange(1, 7, dtype=np.float32).reshape(3, 2)
    np.testing.assert_allclose(anchors["loss"], (x @ w).mean(), rtol=1e-5)
    session.weightsToHost()
    got = np.zeros((3, 2), np.float32)
    session.readWeights(popart.PyWeightsIO({"w": got}))
    np.testing.assert_allclose(got, w - 0.5 * np.repeat(x.sum(0)[:, None], 2, 1) / 8, rtol=1e-5)
    with pytest.raises(popart.popart_runtime_error, match="the run takes else_branch"):
        session.run(popart.PyStepIO({"x": x, "c": np.array(False)}, anchors))


# ---- Loop ------------------------------------------------------------------------------------------


def test_state_that_grows_with_a_constant_trip_count():
    proto = model(
        """g (float[1, 2] x) => (float[n, 2] y, float[m] s) <int64 trips = {4}, bool yes = {1}, int64[1] one = {1}> {
        y, z, s = Loop (trips, yes, x, x) <body = b (int64 i, bool c, float[k, 2] grown, float[1, 2] last)
            => (bool again, float[k, 2] more, float[1, 2] next, float total) {
            again = Identity(c)
            next = Add(last, last)
            more = Concat<axis = 0>(grown, next)
            total = ReduceSum<keepdims = 0>(more)
        }> }"""
    )
    x = np.array([[1, 2]], np.float32)
    for ours, theirs in zip(infer(proto.SerializeToString(), {"x": x}, ["y", "s"]), ort(proto, {"x": x}), strict=True):
        np.testing.assert_allclose(ours, theirs)


WHILE = """g (float[2] x, float limit{input}) => (float[2] last, float[n, 2] rows) <bool yes = {{1}}{values}> {{
    last, rows = Loop ({trips}, yes, x) <body = b (int64 i, bool c, float[2] v)
        => (bool again, float[2] next, float[2] row) {{
        next = Add(v, v)
        row = Identity(next)
        largest = ReduceMax<keepdims = 0>(next)
        again = Less(largest, limit)
    }}> }}"""
LOOPS = {
    "without trip count": WHILE.format(input="", values="", trips=""),
    "largest trip count": WHILE.format(input="", values=", int64 most = {9223372036854775807}", trips="most"),
    "trip count that is fed": WHILE.format(input=", int64 most", values="", trips="most"),
}


@pytest.mark.parametrize("kind", LOOPS)
@pytest.mark.parametrize("limit", [1, 50, 1e5])
def test_loops_that_data_end_stack_what_they_made(kind, limit):
    proto = model(LOOPS[kind])
    feeds = {"x": np.array([1, 1.5], np.float32), "limit": np.array(limit, np.float32)}
    if "fed" in kind:
        feeds["most"] = np.array(7)
    for ours, theirs in zip(popart.backend.prepare(proto).run(feeds), ort(proto, feeds), strict=True):
        np.testing.assert_allclose(ours, theirs)


def test_a_loop_that_makes_more_than_its_room_ends_the_run():
    proto = model(LOOPS["trip count that is fed"])
    options = popart.SessionOptions()
    options.engineOptions["max_stacked_iterations"] = "5"
    session = prepare(proto.SerializeToString(), ["last", "rows/length"], userOptions=options)
    feeds = {"x": np.array([1, 1.5], np.float32), "limit": np.array(40, np.float32), "most": np.array(100)}
    assert run_once(session, feeds, ["rows/length"])[0] == 5  # 1.5 doubled five times is 48
    feeds["limit"] = np.array(1000, np.float32)
    with pytest.raises(
        popart.popart_runtime_error,
        match=r"Loop.*more iterations than it has memory for: got more than 5\..*max_stacked_iterations",
    ):
        run_once(session, feeds, ["last"])
    feeds["most"] = np.array(5)
    assert run_once(session, feeds, ["rows/length"])[0] == 5


# ---- declared shapes -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "shape"), [(FLOAT, [1, 3]), (FLOAT, [0]), (FLOAT, []), (FLOAT, [2, 3, 1]), (INT64, [2, 3])]
)
def test_what_is_declared_wrong_is_a_warning_that_names_both(kind, shape, capfd):
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["h"]), helper.make_node("Neg", ["h"], ["y"])], "g",
        [info("x", FLOAT, [2, 3])], [info("y", kind, shape)], value_info=[info("h", FLOAT, [9, 9])],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = rng.normal(0, 1, (2, 3)).astype(np.float32)
    (y,) = infer(proto.SerializeToString(), {"x": x}, ["y"])
    np.testing.assert_array_equal(y, -np.maximum(x, 0))
    assert re.search(r"'y' is declared as .* and computed as float32\[2, 3\].*1 others", capfd.readouterr().err)


def test_one_operator_set_may_be_imported_twice_in_one_version():
    proto = model("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    proto.opset_import.append(helper.make_opsetid("ai.onnx", 17))
    (y,) = infer(proto.SerializeToString(), {"x": np.ones(2, np.float32)}, ["y"])
    np.testing.assert_array_equal(y, [-1, -1])
    proto.opset_import[1].version = 13
    with pytest.raises(popart.popart_exception, match=r"'ai\.onnx' is imported in two versions: got 17 and 13"):
        infer(proto.SerializeToString(), {"x": np.ones(2, np.float32)}, ["y"])


def test_an_anchor_of_more_dimensions_than_numpy_has_is_refused_by_name():
    nodes = [helper.make_node("Unsqueeze", ["x", "axes"], ["y"])]
    axes = onnx.numpy_helper.from_array(np.arange(99), "axes")
    graph = helper.make_graph(nodes, "g", [info("x", FLOAT, [2, 3])], [info("y", FLOAT, None)], [axes])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = prepare(proto.SerializeToString(), ["y"])
    with pytest.raises(popart.popart_exception, match=r"initAnchorArrays 'y'.*101 dimensions"):
        session.initAnchorArrays()
