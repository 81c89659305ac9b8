"""Sequences and optional values of models: lists of tensors that the program no longer has.

Models are written in ONNX's text form; values are those of ONNX Runtime.
"""

from __future__ import annotations

import numpy as np
import onnx.parser
import onnxruntime
import popart
import popart.backend
import pytest

from tests.python.popart.training_runs import ready, training_session

RNG = np.random.default_rng(4)


def model(text: str, opset: int = 18) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {text}')


def check(text: str, *inputs: np.ndarray, opset: int = 18) -> list[np.ndarray]:
    """Runs the model here and in ONNX Runtime and compares the outputs."""
    proto = model(text, opset)
    got = list(popart.backend.prepare(proto).run(list(inputs)))
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    expected = session.run(None, dict(zip(names, inputs, strict=True)))
    for a, b in zip(got, expected, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    return got


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("position", [-3, -1, 0, 2, 3, None])
def test_insert(position):
    at = "" if position is None else ", at"
    text = f"""
    agraph (float[2] x, float[2] y) => (float[8] z, int64 n) <int64 at = {{{position or 0}}}> {{
      s = SequenceConstruct(x, y, x)
      t = SequenceInsert(s, y{at})
      z = ConcatFromSequence<axis = 0>(t)
      n = SequenceLength(t)
    }}"""
    assert check(text, normal(2), normal(2))[1] == 4


@pytest.mark.parametrize("position", [-3, -1, 0, 2, None])
def test_erase_from_a_sequence_that_was_empty(position):
    at = "" if position is None else ", at"
    text = f"""
    agraph (float[2] x, float[2] y, float[2] z) => (float[2,2] w, int64 n) <int64 at = {{{position or 0}}}> {{
      s0 = SequenceEmpty<dtype = 1>()
      s1 = SequenceInsert(s0, x)
      s2 = SequenceInsert(s1, y)
      s3 = SequenceInsert(s2, z)
      s4 = SequenceErase(s3{at})
      w = ConcatFromSequence<axis = 0, new_axis = 1>(s4)
      n = SequenceLength(s4)
    }}"""
    check(text, normal(2), normal(2), normal(2))


@pytest.mark.parametrize("position", [-2, 1])
def test_elements_have_shapes_of_their_own(position):
    text = f"""
    agraph (float[2] x, float[3,4] y) => (float[a] z) <int64 at = {{{position}}}> {{
      s = SequenceConstruct(x, y)
      e = SequenceAt(s, at)
      z = Neg(e)
    }}"""
    text = text.replace("float[a] z", "float[2] z" if position == -2 else "float[3,4] z")
    check(text, normal(2), normal(3, 4))


@pytest.mark.parametrize(("axis", "new_axis"), [(0, 0), (-1, 0), (1, 0), (0, 1), (2, 1), (-1, 1), (-3, 1)])
def test_concat(axis, new_axis):
    text = f"""
    agraph (float[2,3] x, float[2,3] y) => (float[...] z) {{
      s = SequenceConstruct(x, y)
      z = ConcatFromSequence<axis = {axis}, new_axis = {new_axis}>(s)
    }}"""
    x, y = normal(2, 3), normal(2, 3)
    expected = (np.stack if new_axis else np.concatenate)([x, y], axis)
    shape = ",".join(map(str, expected.shape))
    (got,) = check(text.replace("float[...]", f"float[{shape}]"), x, y)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("split", "keepdims", "axis"),
    [
        ("", 1, 0),
        ("", 0, 1),
        ("", 0, -1),
        ("int64 c = {2}", 1, 1),
        ("int64 c = {9}", 1, 1),
        ("int64[3] c = {1,0,4}", 1, 1),
    ],
)
def test_split(split, keepdims, axis):
    initializer, c = (f"<{split}>", ", c") if split else ("", "")
    text = f"""
    agraph (float[3,5] x) => (int64 n, int64[d] first, float[r] last) <int64 zero = {{0}}, int64 end = {{-1}}> {{
      s = SplitToSequence<axis = {axis}, keepdims = {keepdims}>(x{c})
      n = SequenceLength(s)
      head = SequenceAt(s, zero)
      tail = SequenceAt(s, end)
      first = Shape(head)
      flat = Flatten<axis = 0>(tail)
      one = Constant<value_ints = [-1]>()
      last = Reshape(flat, one)
    }}"""
    if initializer:
        text = text.replace("int64 end = {-1}", "int64 end = {-1}, " + split)
    check(text, normal(3, 5))


def test_branches_and_loops_read_sequences_around_them():
    text = """
    agraph (float[2,3] x, bool yes) => (float[3] z, float[3] sum)
      <int64 zero = {0}, int64 one = {1}, int64 trips = {4}, bool true = {1}, float[3] start = {0,0,0}> {
      s = SplitToSequence<axis = 0, keepdims = 0>(x)
      z = If(yes) <
        then_branch = a () => (float[3] p) { p = SequenceAt(s, zero) },
        else_branch = b () => (float[3] q) { q = SequenceAt(s, one) }>
      sum = Loop(trips, true, start) <
        body = c (int64 i, bool go, float[3] before) => (bool on, float[3] after) {
          on = Identity(go)
          e = SequenceAt(s, one)
          after = Add(before, e)
        }>
    }"""
    x = RNG.integers(-4, 5, (2, 3)).astype(np.float32)
    for yes in (True, False):
        z, total = check(text, x, np.array(yes))
        np.testing.assert_array_equal(z, x[0] if yes else x[1])
        np.testing.assert_array_equal(total, 4 * x[1])


def test_optional_values():
    text = """
    agraph (float[2] x) => (bool a, bool b, bool c, float[2] y, int64 n) {
      s = SequenceConstruct(x, x)
      o = Optional(s)
      a = OptionalHasElement(o)
      b = OptionalHasElement(x)
      c = OptionalHasElement()
      t = OptionalGetElement(o)
      n = SequenceLength(t)
      y = OptionalGetElement(x)
    }"""
    x = normal(2)
    a, b, c, y, n = popart.backend.prepare(model(text)).run([x])
    assert (bool(a), bool(b), bool(c), int(n)) == (True, True, False, 2)
    np.testing.assert_array_equal(y, x)


def test_gradients_pass_through_sequences():
    """The loss is the sum over rows of (row index + 1) * row, squared."""
    text = """
    agraph () => (float loss) <float[3,2] w = {1,2,3,4,5,6}, int64 at = {1}> {
      s = SplitToSequence<axis = 0>(w)
      t = SequenceErase(s, at)
      e = SequenceAt(s, at)
      u = SequenceInsert(t, e)
      joined = ConcatFromSequence<axis = 0>(u)
      factors = Constant<value = float[3,1] {1, 3, 2}>()
      scaled = Mul(joined, factors)
      squared = Mul(scaled, scaled)
      loss = ReduceSum<keepdims = 0>(squared)
    }"""
    anchors = ["loss", "Gradient___w"]
    optimizer = popart.SGD({"defaultLearningRate": (0.0, False)})
    session = ready(training_session(model(text, 11).SerializeToString(), "loss", optimizer, anchors=anchors))
    arrays = session.initAnchorArrays()
    session.run(popart.PyStepIO({}, arrays))
    w, factors = np.arange(1, 7).reshape(3, 2), np.array([[1], [2], [3]])
    np.testing.assert_allclose(arrays["Gradient___w"], 2 * w * factors**2, rtol=1e-6)


SEQUENCE = "s = SequenceConstruct(x, x)\n"


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ("z = SequenceAt(s, two)", "position: got 2, expected from -2 to 1"),
        ("z = SequenceAt(x, two)", "input 0 must be a sequence: got float32"),
        ("t = SequenceInsert(s, x, three)\nz = Neg(x)", "position: got 3, expected from -2 to 2"),
        ("t = SequenceInsert(s, data)\nz = Neg(x)", "must have one element type"),
        ("z = Neg(s)", "'s' is a sequence of 2 tensors: expected a tensor"),
        ("z = Identity(s)", "'z' is a sequence of 2 tensors: expected a tensor as the model declares"),
        ("t = SequenceEmpty()\nz = ConcatFromSequence<axis = 0>(t)", "the sequence is empty"),
        ("t = SequenceEmpty()\nu = SequenceErase(t)\nz = Neg(x)", "position: got -1"),
        ("z = ConcatFromSequence<axis = 2>(s)", "axis: got 2, expected one of 1 dimensions"),
        ("t = SplitToSequence(x, three)\nu = SplitToSequence(x, sizes)\nz = Neg(x)", "sizes that add up to 2"),
        ("z = OptionalGetElement()", "the optional value is absent"),
    ],
)
def test_refusals(nodes, message):
    text = f"""
    agraph (float[2] x, int64 data) => (float[2] z)
      <int64 two = {{2}}, int64 three = {{3}}, int64[2] sizes = {{1, 2}}> {{
      {SEQUENCE}{nodes}
    }}"""
    with pytest.raises(popart.popart_exception, match=message):
        popart.backend.prepare(model(text)).run([normal(2), np.array(0)])


def test_a_sequence_is_declared_as_one():
    proto = model("agraph (float[2] x) => (float[2] s) { s = SequenceConstruct(x) }")
    with pytest.raises(popart.popart_exception, match="'s' is a sequence of 1 tensors: expected a tensor as the model"):
        popart.backend.prepare(proto).run([normal(2)])


def test_sequences_have_a_budget(monkeypatch):
    monkeypatch.setenv("POPART_MAX_FOLDED_BYTES", "4000")
    inserts = "\n".join(f"s{i + 1} = SequenceInsert(s{i}, x)" for i in range(100))
    text = f"agraph (float[2] x) => (float[2] z) {{ s0 = SequenceEmpty()\n{inserts}\nz = Neg(x) }}"
    with pytest.raises(
        popart.popart_exception, match=r"The sequence 's.*': takes more memory than a model of this size"
    ):
        popart.backend.prepare(model(text)).run([normal(2)])


def test_a_session_needs_positions_that_are_known():
    """popart.backend makes them constants; a session has one program for all runs."""
    proto = model(
        "agraph (float[2] x, int64 at) => (float[2] z) { s = SequenceConstruct(x, x) z = SequenceAt(s, at) }", 11
    )
    flow, device = popart.DataFlow(1, ["z"]), popart.DeviceManager().createCpuDevice()
    with pytest.raises(popart.popart_exception, match="must be known when the graph is built"):
        popart.InferenceSession(fnModel=proto.SerializeToString(), dataFlow=flow, deviceInfo=device)
