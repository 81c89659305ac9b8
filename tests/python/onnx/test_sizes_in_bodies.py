"""Sizes that depend on data of the run, in branches and bodies of loops, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx.numpy_helper
import popart
import pytest

from tests.python.onnx.test_sizes_from_data import calls, check, model, normal
from tests.python.popart.training_runs import ready, training_session

BRANCHES = {
    "one chooses": ("p = Compress<axis = 0>(x, keep)", "p = Neg(x)"),
    "both choose": ("p = Compress<axis = 0>(x, keep)", "o = Not(keep) n = Compress<axis = 0>(x, o) p = Exp(n)"),
    "one reads what was chosen": ("p = Neg(r)", "p = Compress<axis = 0>(x, keep)"),
    "both read what was chosen": ("p = Neg(r)", "p = Exp(r)"),
    "sizes that are known": (
        "p = Identity(x)",
        "b = Constant<value = int64[1] {1}>() e = Constant<value = int64[1] {3}>() "
        "a = Constant<value = int64[1] {0}>() p = Slice(x, b, e, a)",
    ),
    "one of a kind": ("p = Compress<axis = 0>(x, keep)", "a = Constant<value = int64[1] {0}>() p = ReduceSum(x, a)"),
    "a branch in a branch": (
        "z = Constant<value = float {0}>() s = ReduceSum<keepdims = 0>(x) d = Greater(s, z) "
        "p = If(d)<then_branch = e () => (float[j, 3] g) { g = Compress<axis = 0>(r, k) }, "
        "else_branch = f () => (float[j, 3] h) { h = Neg(r) }>",
        "p = Compress<axis = 0>(x, keep)",
    ),
}


@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize(("yes", "no"), BRANCHES.values(), ids=BRANCHES)
def test_branches_give_sizes_of_their_own(yes, no, condition):
    def branch(name: str, body: str) -> str:
        return f"{name} () => (float[k, 3] {name}p) {{ {body} {name}p = Identity(p) }}"

    text = f"""agraph (float[6, 3] x, bool[6] keep, bool c) => (float[n, 3] y, float[3] s, float[n, 3] w) {{
      r = Compress<axis = 0>(x, keep) one = Constant<value = int64 {{0}}>() col = Gather<axis = 1>(r, one)
      zero = Constant<value = float {{0}}>() k = Greater(col, zero)
      y = If(c)<then_branch = {branch("yes", yes)}, else_branch = {branch("no", no)}>
      along = Constant<value = int64[1] {{0}}>() g = Sigmoid(y)
      s = ReduceSum<keepdims = 0>(g, along) w = Mul(g, y) }}"""
    check(text, *({**feeds, "c": np.array(condition)} for feeds in calls()))


@pytest.mark.parametrize("condition", [True, False])
def test_gradients_pass_through_branches(condition):
    """Those of sum(w log(y)), where y is x[keep] or 2 x."""
    x, weights = np.abs(normal(6, 3)) + np.float32(0.5), normal(3)
    text = """agraph (bool[6] keep, bool c) => (float loss) {
      y = If(c)<then_branch = yes () => (float[k, 3] p) { p = Compress<axis = 0>(x, keep) },
                else_branch = no () => (float[k, 3] q) { q = Add(x, x) }>
      l = Log(y) m = Mul(l, w) loss = ReduceSum<keepdims = 0>(m) }"""
    proto = model(text, 11)
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(a, n) for a, n in ((x, "x"), (weights, "w")))
    optimizer = popart.SGD({"defaultLearningRate": (0.0, False)})
    anchors = ["loss", "Gradient___x", "Gradient___w"]
    session = ready(training_session(proto.SerializeToString(), "loss", optimizer, anchors=anchors))
    for keep in (np.array([True, False, True, True, False, False]), np.array([False] * 6)):
        arrays = session.initAnchorArrays()
        session.run(popart.PyStepIO({"keep": keep, "c": np.array(condition)}, arrays))
        y = x[keep] if condition else 2 * x
        expected = np.where(keep[:, None] | (not condition), weights / x, 0)
        np.testing.assert_allclose(arrays["loss"], (np.log(y) * weights).sum(), rtol=1e-5)
        np.testing.assert_allclose(arrays["Gradient___w"], np.log(y).sum(0), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(arrays["Gradient___x"], expected, rtol=1e-5)


def test_results_of_a_branch_that_were_chosen_together_have_one_size():
    text = """agraph (float[6, 3] x, bool[6] keep, bool c) => (float[n, 3] y, int64[m, 2] z) {
      p, q, t = If(c)<
        then_branch = a () => (float[k, 3] ap, float[k, 3] aq, int64[l, 2] at) {
          ap = Compress<axis = 0>(x, keep) aq = Neg(ap) an = NonZero(x) at = Transpose(an) },
        else_branch = b () => (float[k, 3] bp, float[k, 3] bq, int64[l, 2] bt) {
          o = Not(keep) bq = Compress<axis = 0>(x, o) bp = Exp(bq) bn = NonZero(bq) bt = Transpose(bn) }>
      y = Add(p, q) z = Identity(t) }"""
    check(text, *({**feeds, "c": np.array(c)} for c in (True, False) for feeds in calls()))


def test_what_was_chosen_meets_a_branch_of_it():
    """Both branches have the size of what they read, which is known to be that of r."""
    text = """agraph (float[6, 3] x, bool[6] keep, bool c) => (float[n, 3] y) {
      r = Compress<axis = 0>(x, keep)
      b = If(c)<then_branch = a () => (float[k, 3] p) { p = Neg(r) },
                else_branch = d () => (float[k, 3] q) { q = Exp(r) }>
      y = Add(r, b) }"""
    check(text, *({**feeds, "c": np.array(c)} for c in (True, False) for feeds in calls()))


def test_sizes_that_a_branch_reads_as_numbers():
    text = """agraph (float[6, 3] x, bool[6] keep, bool c) => (float[n] y) {
      r = Compress<axis = 0>(x, keep) s = Shape(r) i = Constant<value = int64 {0}>() k = Gather(s, i)
      y = If(c)<
        then_branch = a () => (float[l] p) { d = Constant<value = int64 {1}>() g = Range(i, k, d) p = Cast<to = 1>(g) },
        else_branch = b () => (float[l] q) { f = Constant<value = int64[1] {-1}>() t = Reshape(r, f) q = Neg(t) }> }"""
    check(text, *({**feeds, "c": np.array(c)} for c in (True, False) for feeds in calls()))


def test_choices_in_the_body_of_a_loop():
    """As often as the run says; what the loop carries and stacks has known sizes."""
    text = """agraph (float[6, 3] x, bool[6] keep, int64 trips, float[3] start) => (float[3] y) {
      r = Compress<axis = 0>(x, keep) yes = Constant<value = bool {1}>()
      y = Loop(trips, yes, start)<body = step (int64 i, bool go, float[3] before) => (bool more, float[3] after) {
        more = Identity(go) p = Greater(r, before) f = Cast<to = 1>(p) a = Constant<value = int64[1] {1}>()
        m = ReduceMax<keepdims = 0>(f, a) q = Cast<to = 9>(m) chosen = Compress<axis = 0>(r, q)
        b = Constant<value = int64[1] {0}>() sum = ReduceSum<keepdims = 0>(chosen, b)
        h = Constant<value = float {0.5}>()
        half = Mul(sum, h) after = Sub(half, before) }> }"""
    check(text, *({**feeds, "trips": np.array(t), "start": normal(3)} for t in (0, 1, 4) for feeds in calls()))


def test_a_branch_in_the_body_of_a_loop_chooses():
    text = """agraph (float[6, 3] x, bool[6] keep) => (float[4, 3] y, float[3] last) {
      trips = Constant<value = int64 {4}>() yes = Constant<value = bool {1}>()
      zero = Constant<value = float[3] {0, 0, 0}>()
      last, y = Loop(trips, yes, zero)<body = step (int64 i, bool go, float[3] before)
          => (bool more, float[3] after, float[3] row) {
        more = Identity(go) two = Constant<value = int64 {2}>() e = Mod(i, two) o = Cast<to = 9>(e)
        c = If(o)<then_branch = a () => (float[k, 3] p) { p = Compress<axis = 0>(x, keep) },
                  else_branch = b () => (float[k, 3] q) { n = Not(keep) q = Compress<axis = 0>(x, n) }>
        a0 = Constant<value = int64[1] {0}>() row = ReduceSum<keepdims = 0>(c, a0) after = Add(before, row) }> }"""
    check(text, *calls())


def test_stacks_of_a_loop_in_a_branch():
    """One branch ends its loop early, the other one not at all."""
    text = """agraph (float x, int64 most, bool c) => (float[n] y, float z) {
      trips = Constant<value = int64 {8}>() yes = Constant<value = bool {1}>() i0 = Constant<value = int64 {0}>()
      s = If(c)<
        then_branch = a () => (float[k] p) {
          last, p = Loop(trips, yes, i0)<body = step (int64 i, bool go, int64 before)
              => (bool more, int64 after, float row) {
            one = Constant<value = int64 {1}>() after = Add(before, one) more = Less(after, most)
            f = Cast<to = 1>(i) row = Mul(f, x) }> },
        else_branch = b () => (float[k] q) { t = Constant<value = float[3] {1, 2, 3}>() q = Mul(t, x) }>
      y = Exp(s) z = ReduceSum<keepdims = 0>(s) }"""
    check(text, *({"x": np.array(0.5, np.float32), "most": np.array(k), "c": np.array(c)}
                  for k in (1, 3, 20) for c in (True, False)))  # fmt: skip


def test_boxes_of_each_image_are_joined():
    """A loop over images: its state grows by the boxes that are left of each."""
    text = """agraph (float[2, 5, 4] boxes, float[2, 1, 5] scores) => (float[n, 4] y) {
      trips = Constant<value = int64 {2}>() yes = Constant<value = bool {1}>() m = Constant<value = int64[1] {5}>()
      iou = Constant<value = float[1] {0.3}>() least = Constant<value = float[1] {0.2}>()
      none = Constant<value = int64[2] {0, 4}>() start = ConstantOfShape(none)
      y = Loop(trips, yes, start)<body = step (int64 i, bool go, float[a, 4] before) => (bool more, float[b, 4] after) {
        more = Identity(go) z = Constant<value = int64[1] {0}>()
        bx = Gather<axis = 0>(boxes, i) sc = Gather<axis = 0>(scores, i)
        ub = Unsqueeze(bx, z) us = Unsqueeze(sc, z) k = NonMaxSuppression(ub, us, m, iou, least)
        two = Constant<value = int64 {2}>() at = Gather<axis = 1>(k, two) left = Gather<axis = 0>(bx, at)
        after = Concat<axis = 0>(before, left) }> }"""
    corners = np.abs(normal(2, 5, 2))
    boxes = np.concatenate([corners, corners + np.abs(normal(2, 5, 2)) + np.float32(0.3)], 2)
    feeds = [{"boxes": boxes, "scores": np.abs(normal(2, 1, 5)) * scale} for scale in (1, 0, 0.3)]
    check(text, *({k: v.astype(np.float32) for k, v in f.items()} for f in feeds))
