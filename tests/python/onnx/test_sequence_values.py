"""Sequences and optional values that models, branches, loops and functions take and give.

Values are those of ONNX's reference.
"""

from __future__ import annotations

import numpy as np
import onnx.parser
import onnx.reference
import popart
import popart.backend
import pytest

RNG = np.random.default_rng(8)


def model(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 18, "own" : 1]> {text}')


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def check(text: str, *inputs: object) -> list[object]:
    """Runs the model here and in the reference and compares the outputs."""
    proto = model(text)
    got = list(popart.backend.prepare(proto).run(list(inputs)))
    names = [value.name for value in proto.graph.input]
    expected = onnx.reference.ReferenceEvaluator(proto).run(None, dict(zip(names, inputs, strict=True)))
    for a, b in zip(got, expected, strict=True):
        assert isinstance(a, list) == isinstance(b, list)
        for p, q in zip(a if isinstance(a, list) else [a], b if isinstance(b, list) else [b], strict=True):
            assert p.dtype == q.dtype
            np.testing.assert_allclose(p, q, rtol=1e-6)
    return got


@pytest.mark.parametrize("length", [0, 1, 3])
def test_a_sequence_goes_in_and_out(length):
    elements = [normal(2, i + 1) for i in range(length)]
    got = check(
        "agraph (seq(float) s, float[4] x) => (seq(float) t, int64 n) "
        "{ t = SequenceInsert(s, x) n = SequenceLength(s) }",
        elements,
        normal(4),
    )
    assert len(got[0]) == length + 1


def test_a_program_serves_calls_of_the_same_lengths_and_is_built_anew_for_others():
    proto = model("agraph (seq(float) s) => (float[N] y) { y = ConcatFromSequence<axis = 0>(s) }")
    prepared = popart.backend.prepare(proto)
    for lengths in ([2, 3], [2, 3], [1], [2, 3, 4]):
        elements = [normal(n) for n in lengths]
        np.testing.assert_array_equal(prepared.run([elements])[0], np.concatenate(elements))


def test_optional_inputs():
    proto = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 18]>
        agraph (optional(float[2]) x) => (float[2] y) {
          there = OptionalHasElement(x)
          y = If(there) <then_branch = yes () => (float[2] a) { v = OptionalGetElement(x) a = Neg(v) },
                         else_branch = no () => (float[2] b) { b = Constant<value = float[2] {5, 6}>() }>
        }"""
    )
    x = normal(2)
    np.testing.assert_array_equal(popart.backend.prepare(proto).run([x])[0], -x)
    np.testing.assert_array_equal(popart.backend.prepare(proto).run([None])[0], [5, 6])


BRANCHES = """
agraph (bool c, float[2] x) => (seq(float) s) {{
  s = If(c) <then_branch = yes () => (seq(float) a) {{ n = Neg(x) a = SequenceConstruct(x, n) }},
             else_branch = no () => (seq(float) b) {{ {no} }}>
}}"""


@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize("no", ["e = Exp(x) b = SequenceConstruct(e, x)", "b = SequenceConstruct(x)"])
def test_branches_give_sequences(condition, no):
    check(BRANCHES.format(no=no), np.array(condition), normal(2))


def test_branches_of_one_length_need_no_known_condition():
    """One program for both conditions; branches of other lengths are refused by a session."""
    flow, device = popart.DataFlow(1, ["s/0", "s/1"]), popart.DeviceManager().createCpuDevice()
    proto = model(BRANCHES.format(no="e = Exp(x) b = SequenceConstruct(e, x)"))
    session = popart.InferenceSession(fnModel=proto.SerializeToString(), dataFlow=flow, deviceInfo=device)
    session.prepareDevice()
    x = normal(2)
    for condition, expected in ((True, [x, -x]), (False, [np.exp(x), x])):
        arrays = session.initAnchorArrays()
        session.run(popart.PyStepIO({"c": np.array(condition), "x": x}, arrays))
        np.testing.assert_allclose([arrays["s/0"], arrays["s/1"]], expected, rtol=1e-6)
    other = model(BRANCHES.format(no="b = SequenceConstruct(x)")).SerializeToString()
    with pytest.raises(
        popart.popart_exception, match="a sequence of 2 and a sequence of 1, so that the condition must"
    ):
        popart.InferenceSession(fnModel=other, dataFlow=flow, deviceInfo=device)


def test_a_loop_collects_and_stops():
    check(
        """agraph (float[3] x) => (seq(float) s, float[k, 3] rows)
                <int64 most = {7}, int64 three = {3}, bool yes = {1}> {
          empty = SequenceEmpty<dtype = 1>()
          s, rows = Loop(most, yes, empty) <body = b (int64 i, bool c, seq(float) t)
                                                  => (bool go, seq(float) u, float[3] r) {
            go = Less(i, three)
            f = CastLike(i, x)
            r = Mul(f, x)
            u = SequenceInsert(t, r)
          }>
        }""",
        normal(3),
    )


def test_a_function_takes_and_gives_sequences():
    check(
        """agraph (seq(float) s, float[2] x) => (seq(float) t) { u = own.Twice(s, x) t = own.Twice(u, x) }
        <opset_import: ["" : 18], domain: "own">
        Twice (s, x) => (t) { a = SequenceInsert(s, x) t = SequenceInsert(a, x) }
        """,
        [normal(3)],
        normal(2),
    )


def test_map():
    """Of two sequences and a tensor; ONNX's reference maps one sequence only."""
    proto = model(
        """agraph (seq(float) s, seq(float) t, float[2] x) => (seq(float) sums, seq(int64) sizes) {
          sums, sizes = SequenceMap(s, t, x) <body = b (float[2] a, float[2] b2, float[2] c)
                                                       => (float[2] y, int64[1] n) {
            ab = Add(a, b2)
            y = Add(ab, c)
            n = Shape(y)
          }>
        }"""
    )
    s, t, x = [normal(2), normal(2)], [normal(2), normal(2)], normal(2)
    sums, sizes = popart.backend.prepare(proto).run([s, t, x])
    np.testing.assert_allclose(sums, [a + b + x for a, b in zip(s, t, strict=True)], rtol=1e-6)
    np.testing.assert_array_equal(sizes, [[2], [2]])


def test_a_loop_that_may_stop_early_has_rows_under_a_bound():
    """One program: rows, then zeros, and how many there are."""
    proto = model(
        """agraph (float limit) => (float last, float[n] seen) <int64 most = {6}, float one = {1}> {
          last, seen = Loop(most, , one) <body = b (int64 i, bool c, float x) => (bool go, float y, float z) {
            y = Add(x, x)
            z = Neg(y)
            go = Less(y, limit)
          }>
        }"""
    )
    flow, device = popart.DataFlow(1, ["last", "seen", "seen/length"]), popart.DeviceManager().createCpuDevice()
    session = popart.InferenceSession(fnModel=proto.SerializeToString(), dataFlow=flow, deviceInfo=device)
    session.prepareDevice()
    for limit in (0, 5, 1e9, 9, 3):
        rows = []
        while len(rows) < 6 and not (rows and rows[-1] >= limit):
            rows.append((rows[-1] if rows else 1.0) * 2)
        value = np.array(limit, np.float32)
        arrays = session.initAnchorArrays()
        session.run(popart.PyStepIO({"limit": value}, arrays))
        assert arrays["seen/length"] == len(rows)
        np.testing.assert_array_equal(arrays["seen"], [-r for r in rows] + [0.0] * (6 - len(rows)))
        got = popart.backend.prepare(proto).run([value])
        np.testing.assert_array_equal(got[0], np.float32(rows[-1]))
        np.testing.assert_array_equal(got[1], -np.array(rows, np.float32))


def test_positions_that_follow_from_the_iteration():
    check(
        """agraph (float[5, 2] x) => (float[2] last, float[3, 2] seen) <int64[1] one = {1}, int64 three = {3},
                                                                 bool yes = {1}, int64[1] first = {0},
                                                                 float[2] zero = {0, 0}> {
          last, seen = Loop(three, yes, zero) <body = b (int64 i, bool c, float[2] a) => (bool go, float[2] y,
                                                                                 float[2] z) {
            go = Identity(c)
            shape = Constant<value_ints = [1]>()
            start = Reshape(i, shape)
            end = Add(start, one)
            rows = Slice(x, start, end)
            row = Squeeze(rows, first)
            y = Add(a, row)
            z = Identity(y)
          }>
        }""",
        normal(5, 2),
    )


@pytest.mark.parametrize(
    ("text", "inputs", "message"),
    [
        ("agraph (seq(float) s) => (float[2] y) { y = Neg(s) }", [[np.ones(2, np.float32)]], "is a sequence of 1"),
        (
            "agraph (seq(float) s) => (int64 n) { n = SequenceLength(s) }",
            [np.ones(2)],
            "a list of arrays for a sequence",
        ),
        ("agraph (float[2] s) => (float[2] y) { y = Neg(s) }", [None], "expected an array of numbers"),
        (
            "agraph (float[2] x) => (seq(float) s) <int64 most = {9223372036854775807}> { "
            "e = SequenceEmpty<dtype = 1>() "
            "s = Loop(most, , e) <body = b (int64 i, bool c, seq(float) t) => (bool go, seq(float) u) "
            "{ go = Identity(c) u = SequenceInsert(t, x) }> }",
            [np.ones(2, np.float32)],
            "too many iterations to be unrolled",
        ),
    ],
)
def test_refusals(text, inputs, message):
    with pytest.raises(popart.popart_exception, match=message):
        popart.backend.prepare(model(text)).run(inputs)
