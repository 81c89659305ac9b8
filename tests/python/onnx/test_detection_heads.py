"""Heads of detection networks as exporters write them, which choose boxes by value and go on, against ONNX Runtime.

One program runs for all images: crowded ones, empty ones, and those between.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.python.onnx.test_sizes_from_data import check

RNG = np.random.default_rng(570)
BOXES, CLASSES = 40, 3

# Selected boxes with their class and score, the best of all classes first: what end-to-end exports of one-stage
# detectors have behind their network.
ONE_STAGE = """
agraph (float[1, 40, 4] boxes, float[1, 3, 40] scores) => (float[n, 6] found, int64 number, int64[k, 3] selected) {
  most = Constant<value = int64[1] {8}>() share = Constant<value = float[1] {0.45}>()
  least = Constant<value = float[1] {0.3}>()
  selected = NonMaxSuppression<center_point_box = CENTRED>(boxes, scores, most, share, least)
  zero = Constant<value = int64[1] {0}>() one = Constant<value = int64[1] {1}>()
  two = Constant<value = int64[1] {2}>() three = Constant<value = int64[1] {3}>()
  label = Slice(selected, one, two, one) place = Slice(selected, two, three, one)
  flat = Squeeze(place, one) image = Squeeze(boxes, zero)
  box = Gather<axis = 0>(image, flat)
  score = GatherND(scores, selected) column = Unsqueeze(score, one)
  as_float = Cast<to = 1>(label)
  all = Concat<axis = 1>(box, column, as_float)
  size = Shape(score) hundred = Constant<value = int64[1] {10}>() k = Min(size, hundred)
  best, order = TopK<axis = 0>(score, k)
  found = Gather<axis = 0>(all, order)
  rows = Shape(found) first = Constant<value = int64 {0}>() number = Gather<axis = 0>(rows, first)
}"""

# Boxes above a threshold first, then boxes of each class moved apart by the largest coordinate, one suppression for
# all, and the first so many of what is kept: batched suppression of two-stage detectors.
TWO_STAGE = """
agraph (float[40, 4] boxes, float[40] scores, int64[40] labels) => (float[n, 4] y, float[n] s, int64[n] l, float m) {
  least = Constant<value = float {0.4}>() above = Greater(scores, least) places = NonZero(above)
  zero = Constant<value = int64[1] {0}>() there = Squeeze(places, zero)
  b = Gather<axis = 0>(boxes, there) c = Gather<axis = 0>(scores, there) d = Gather<axis = 0>(labels, there)
  largest = ReduceMax<keepdims = 0>(boxes) unit = Constant<value = float {1}>() step = Add(largest, unit)
  f = Cast<to = 1>(d) offset = Mul(f, step) one = Constant<value = int64[1] {1}>()
  column = Unsqueeze(offset, one) apart = Add(b, column)
  lists = Constant<value = int64[2] {0, 1}>()
  batch = Unsqueeze(apart, zero) rows = Unsqueeze(c, lists)
  most = Constant<value = int64[1] {100}>() share = Constant<value = float[1] {0.5}>()
  selected = NonMaxSuppression(batch, rows, most, share)
  two = Constant<value = int64 {2}>() kept = Gather<axis = 1>(selected, two)
  upto = Constant<value = int64[1] {5}>() first = Slice(kept, zero, upto)
  y = Gather<axis = 0>(b, first) s = Gather<axis = 0>(c, first) l = Gather<axis = 0>(d, first)
  m = ReduceSum<keepdims = 0>(s)
}"""

# Levels of a pyramid, each with its own selection, joined and sorted; labels that are there at all.
LEVELS = """
agraph (float[40, 4] boxes, float[40] scores, int64[40] labels) => (float[n, 4] y, float[n] s, int64[k] different) {
  low = Constant<value = float {0.3}>() high = Constant<value = float {0.7}>()
  a = Greater(scores, low) b = Greater(scores, high) c = Xor(a, b)
  b1 = Compress<axis = 0>(boxes, b) s1 = Compress<axis = 0>(scores, b) l1 = Compress<axis = 0>(labels, b)
  b2 = Compress<axis = 0>(boxes, c) s2 = Compress<axis = 0>(scores, c) l2 = Compress<axis = 0>(labels, c)
  p = Concat<axis = 0>(b1, b2) q = Concat<axis = 0>(s1, s2) r = Concat<axis = 0>(l1, l2)
  size = Shape(q) best, order = TopK<axis = 0>(q, size)
  y = Gather<axis = 0>(p, order) s = Identity(best)
  different = Unique(r)
}"""


def boxes(count: int) -> np.ndarray:
    """Boxes (count, 4) as two corners, some of which overlap."""
    corner, size = RNG.random((count, 2)), 0.1 + 0.4 * RNG.random((count, 2))
    return np.concatenate([corner, corner + size], 1).astype(np.float32)


def scores(*shape: int, scale: float = 1.0) -> np.ndarray:
    """Different numbers up to `scale`: what is equal may be sorted in another order."""
    count = int(np.prod(shape))
    return (scale * RNG.permutation(count) / count).astype(np.float32).reshape(shape)


@pytest.mark.parametrize("centred", [0, 1])
def test_one_stage(centred):
    calls = [
        {"boxes": boxes(BOXES)[None], "scores": scores(1, CLASSES, BOXES, scale=scale)} for scale in (1, 0.5, 0.31, 0.1)
    ]
    check(ONE_STAGE.replace("CENTRED", str(centred)), *calls)


@pytest.mark.parametrize("text", [TWO_STAGE, LEVELS], ids=["two_stage", "levels"])
def test_two_stages_and_levels(text):
    labels = RNG.integers(0, CLASSES, BOXES)
    check(
        text,
        *({"boxes": boxes(BOXES), "scores": scores(BOXES, scale=scale), "labels": labels} for scale in (1, 0.5, 0.1)),
    )


@pytest.mark.parametrize("limit", [0, 2, 50])
def test_limits_of_the_run(limit):
    text = """agraph (float[2, 40, 4] boxes, float[2, 3, 40] scores, int64[1] most, float[1] share, float[1] least)
      => (int64[n, 3] y) { y = NonMaxSuppression(boxes, scores, most, share, least) }"""
    both = np.stack([boxes(BOXES), boxes(BOXES)])
    feeds = {"boxes": both, "scores": scores(2, CLASSES, BOXES), "most": np.array([limit])}
    numbers = [(0.5, 0.2), (0.0, 0.5), (1.0, 0.9)]
    check(text, *({**feeds, "share": np.float32([share]), "least": np.float32([least])} for share, least in numbers))
