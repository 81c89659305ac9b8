"""Cases of Unique, against NumPy's, and NonMaxSuppression, against a plain search over boxes."""

import numpy as np

from tests.cases.case import Array, Case, bools, floats, ints


def unique(axis: int = 0, order: int = 1):
    """Return the oracle of Unique: where each row is first, the rows' numbers, how often each is there, how many."""

    def formula(x: Array, length: Array | None = None) -> tuple[Array, ...]:
        rows = x.shape[axis]
        taken = x if length is None else np.take(x, np.arange(min(max(np.asarray(length).item(), 0), rows)), axis)
        _, first, inverse, counts = np.unique(taken, True, True, True, axis)
        rank = np.arange(len(first)) if order else np.argsort(first)
        lists = first[rank], np.argsort(rank)[inverse.reshape(-1)], counts[rank]
        padded = [np.pad(values, (0, rows - len(values))).astype(np.int64) for values in lists]
        return *padded, np.array(len(first), np.int64)

    return formula


def corners(box: Array, centred: int) -> Array:
    """Return (y1, x1, y2, x2) in float32, the smaller ones first."""
    if centred:
        x, y, width, height = box
        return np.array([y - height / 2, x - width / 2, y + height / 2, x + width / 2], np.float32)
    return np.concatenate([np.minimum(box[:2], box[2:]), np.maximum(box[:2], box[2:])])


def share(a: Array, b: Array) -> float:
    """Return the common part of two boxes as a share of both together."""
    sides = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0)
    areas = [np.prod(c[2:] - c[:2]) for c in (a, b)]
    both = np.prod(sides)
    return both / (sum(areas) - both) if both > 0 and min(areas) > 0 else 0.0


def suppression(most: int, centred: int = 0):
    """Return the oracle of NonMaxSuppression."""

    def formula(boxes, scores, limit=None, threshold=None, least=None):
        limit = most if limit is None else min(max(np.asarray(limit).item(), 0), most)
        threshold = 0.0 if threshold is None else np.asarray(threshold).item()
        selected = np.zeros((*scores.shape[:2], most), np.int64)
        counts = np.zeros(scores.shape[:2], np.int64)
        for batch, label in np.ndindex(*scores.shape[:2]):
            row, kept = scores[batch, label], []
            for i in sorted(np.flatnonzero(~np.isnan(row)), key=lambda i, row=row: (-row[i], i)):
                box = corners(boxes[batch, i], centred)
                apart = all(share(box, corners(boxes[batch, k], centred)) <= threshold for k in kept)
                if len(kept) < limit and apart and (least is None or row[i] > np.asarray(least).item()):
                    kept.append(i)
            counts[batch, label] = len(kept)
            selected[batch, label, : len(kept)] = kept
        return selected, counts

    return formula


FEW = ints(6, 3, 2, low=0, high=2, dtype="float32")  # rows are there several times
BOXES = np.random.default_rng(4).random((2, 20, 4)).astype(np.float32)
SCORES = (np.random.default_rng(5).integers(0, 12, (2, 3, 20)) / 16).astype(np.float32)  # exact in 16 bits, some equal
MANY = ints(40_000, low=0, high=3_000, dtype="int64")
ONLY32 = ["float32"]  # shares of boxes in 16 bits lie on the other side of a threshold here and there

CASES = [
    *(
        Case("Unique", [FEW], {"axis": axis, "sorted": order}, unique(axis, order), name=f"axis_{axis}_sorted_{order}")
        for axis in (0, 1, 2)
        for order in (0, 1)
    ),
    Case("Unique", [ints(9, low=-2, high=3)], {}, unique(), name="integers"),
    Case("Unique", [ints(9, low=0, high=3).astype(np.uint64) << np.uint64(62)], {}, unique(), name="unsigned"),
    Case("Unique", [bools(7, 2)], {"sorted": 0}, unique(0, 0), name="booleans"),
    Case("Unique", [MANY], {}, unique(), name="many"),
    Case("Unique", [MANY], {"sorted": 0}, unique(0, 0), name="many_unsorted"),
    Case("Unique", [np.array([np.nan, 1, np.nan, -np.inf], np.float32)], {}, unique(), name="nan"),
    Case("Unique", [FEW, np.array(4)], {"sorted": 0}, unique(0, 0), name="first_rows"),
    Case("Unique", [FEW, np.array([0])], {}, unique(), name="no_rows"),
    Case("Unique", [floats(0, 3)], {}, name="empty"),
    Case("Unique", [np.array(1.0, np.float32)], {}, refuses="at least one dimension"),
    Case("Unique", [FEW, np.array([1, 2])], {}, refuses="length must be one number"),
    Case("NonMaxSuppression", [BOXES, SCORES], {"most": 20}, suppression(20), dtypes=ONLY32, name="all"),
    Case(
        "NonMaxSuppression",
        [BOXES, SCORES, np.array([5]), np.array([0.3], np.float32), np.array([0.2], np.float32)],
        {"most": 8},
        suppression(8),
        dtypes=ONLY32,
        name="thresholds",
    ),
    Case(
        "NonMaxSuppression",
        [BOXES, SCORES, None, np.array(0.4, np.float32)],
        {"most": 4, "center_point_box": 1},
        suppression(4, 1),
        dtypes=ONLY32,
        name="centred",
    ),
    Case(
        "NonMaxSuppression",
        [BOXES, np.where(SCORES > 0.5, np.nan, SCORES).astype(np.float32)],
        {"most": 20},
        suppression(20),
        dtypes=ONLY32,
        name="nan",
    ),
    Case("NonMaxSuppression", [BOXES, SCORES], {"most": 3}, name="types"),
    Case("NonMaxSuppression", [BOXES[:, :0], SCORES[:, :, :0]], {"most": 0}, suppression(0), name="no_boxes"),
    Case("NonMaxSuppression", [BOXES, SCORES[:, :, :5]], {"most": 3}, refuses="boxes and scores must be"),
    Case("NonMaxSuppression", [BOXES, SCORES], {"most": 21}, refuses="'most' must be between 0"),
    Case("NonMaxSuppression", [BOXES, SCORES, np.array([1, 2])], {"most": 3}, refuses="must be one number"),
]
