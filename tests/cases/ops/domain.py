"""Cases at both ends of the values that operators take, and one step beyond.

Beyond, every run ends with an error, unless the operator or an attribute of it gives such a value a meaning.
"""

import numpy as np
from torch.nn import functional

from tests.cases.case import Case, floats, ints
from tests.cases.torch_oracle import with_torch

TABLE, ROW, CUBE = floats(5, 3), floats(4), floats(3, 2, 4)
PROBABILITIES = with_torch(functional.softmax, dim=-1)(floats(3, 4))
SCORES = floats(3, 4, 2)
LARGE = floats(300, 513)
SMALLEST = {dtype: np.iinfo(dtype).min for dtype in ("int8", "int32", "int64")}


def index(*values, dtype="int64", shape=None):
    """An index tensor: a vector, or of `shape`."""
    return np.array(values, dtype).reshape(shape or (len(values),))


def far(position: int, value: int, *shape: int) -> np.ndarray:
    """Indices 0 … 4 in a tensor large enough for several tasks, with `value` at `position` and at the end."""
    indices = ints(*shape, low=0, high=5, dtype="int64")
    indices.reshape(-1)[[position, -1]] = value
    return indices


GATHERS = [
    Case("Gather", [TABLE, index(4, 0, -1, -5)], {}, lambda x, i: x[i], gradients=[0], name="ends"),
    Case("Gather", [TABLE, index(5, 0)], fails="got 5 at element 0 of input 1, expected -5 to 4", name="above"),
    Case("Gather", [TABLE, index(4, -6)], fails="got -6 at element 1 of input 1, expected -5 to 4", name="below"),
    Case("Gather", [TABLE, index(4, 2**31 - 1, dtype="int32")], fails="got 2147483647 at element 1", name="far"),
    Case("Gather", [TABLE, index(2**64 - 1, dtype="uint64")], fails="an index is out of range", name="unsigned"),
    Case("Gather", [floats(0, 3), index(0)], fails="the axis is empty", name="empty"),
    Case("Gather", [floats(2, 5, 3), index(7, 0)], {"axis": 1}, fails="got 7 at element 0", name="inner-axis"),
    Case(
        "Gather",
        [floats(2, 4, 3), index(1, 3, 0, 2, 4, 1, shape=(2, 3))],
        {"axis": 1, "group_size": 2},
        fails="got 4 at element 4 of input 1, expected -4 to 3",
        name="group",
    ),
    Case("Gather", [LARGE[:5], far(700, 9, 900)], fails="got 9 at element 700 of input 1", name="first-of-many"),
    Case(
        "Gather",
        [TABLE, index(5, -1, 4)],
        {"zero_OOR": 1},
        lambda x, i: np.stack([0 * x[0], 0 * x[0], x[4]]),
        gradients=[0],
        name="zeros-wanted",
    ),
    Case("GatherGrad", [floats(2, 3), index(0, 5)], {"axis": 0, "fwd_shape": [5, 3]}, fails="got 5 at element 1"),
    Case(
        "GatherGrad",
        [floats(2, 3), index(0, 5)],
        {"axis": 0, "fwd_shape": [5, 3], "zero_OOR": 1},
        lambda g, i: np.stack([g[0], *np.zeros((4, 3))]),
        name="zeros-wanted",
    ),
    Case("PopartTiedGather", [TABLE, index(5)], fails="got 5 at element 0"),
    Case(
        "GatherElements",
        [TABLE, index(4, -5, 0, shape=(1, 3))],
        {},
        lambda x, i: np.take_along_axis(x, i, 0),
        gradients=[0],
        name="ends",
    ),
    Case("GatherElements", [TABLE, index(4, 5, 0, shape=(1, 3))], fails="got 5 at element 1 of input 1"),
    Case("GatherElements", [TABLE, index(-6, 5, 0, shape=(1, 3))], fails="got -6 at element 0", name="below"),
    Case("GatherND", [CUBE, index(2, 1, -3, -2, shape=(2, 2))], {}, lambda x, i: x[[2, 0], [1, 0]], name="ends"),
    Case("GatherND", [CUBE, index(0, 2, shape=(1, 2))], fails="got 2 at element 1 of input 1, expected -2 to 1"),
    Case("GatherND", [CUBE, index(-4, 0, shape=(1, 2))], fails="got -4 at element 0", name="below"),
    Case(
        "GatherNDGrad",
        [floats(2), index(0, 1, 3, 0, shape=(2, 2))],
        {"batch_dims": 0, "fwd_shape": [3, 2]},
        fails="got 3 at element 2 of input 1, expected -3 to 2",
    ),
    # ONNX and PopXL: an index out of range gives a row of the off value.
    Case(
        "OneHot",
        [index(3, -4, -3), np.array([0.25, 1.5], np.float32)],
        {"depth": 3},
        lambda i, v: np.where(np.array([[0, 0, 0], [0, 0, 0], [1, 0, 0]], bool), v[1], v[0]),
        name="out-of-range",
    ),
]

SCATTERS = [
    Case(
        "ScatterElements",
        [ROW, index(3, -4), floats(2)],
        {},
        lambda x, i, u: np.array([u[1], x[1], x[2], u[0]]),
        gradients=[0, 2],
        name="ends",
    ),
    *[
        Case(
            "ScatterElements",
            [ROW, index(3, bad), floats(2)],
            {"reduction": r},
            fails=f"got {bad} at",
            name=f"{r}{bad}",
        )
        for r in ("none", "add", "mul", "max", "min")
        for bad in (4, -5)
    ],
    Case("Scatter", [ROW, index(3, 4), floats(2)], fails="got 4 at element 1 of input 1, expected -4 to 3"),
    Case(
        "ScatterElements",
        [floats(100, 513), far(20000, 100, 100, 513), floats(100, 513)],
        {"axis": 0, "reduction": "add"},
        fails="got 100 at element 20000 of input 1, expected -100 to 99",
        name="first-of-many",
    ),
    *[
        Case(
            "ScatterND",
            [TABLE, index(0, 5, shape=(2, 1)), floats(2, 3)],
            {"reduction": r},
            fails="got 5 at element 1 of input 1, expected -5 to 4",
            name=r,
        )
        for r in ("none", "add", "max")
    ],
    *[
        Case(
            "ScatterReduce",
            [TABLE, index(0, 1, 2, 1, 3, dtype="int32")],
            {"axis": 0, "axis_size": 3, "reduction": r},
            fails="an index is out of range",
            name=r,
        )
        for r in ("Sum", "Max", "Min", "Mul", "None")
    ],
    Case(
        "ScatterReduceGradOp",
        [floats(3, 3), index(0, 1, 2, 1, 3, dtype="int32"), TABLE],
        {"axis": 0, "axis_size": 3},
        fails="an index is out of range",
    ),
]

WINDOW = {"axes": [0, 2], "sizes": [2, 1]}
DYNAMIC = [
    Case("DynamicSlice", [CUBE, index(1, 3, dtype="uint32")], WINDOW, lambda x, o: x[1:, :, 3:], name="last"),
    Case("DynamicSlice", [CUBE, index(0, 0, dtype="int32")], WINDOW, lambda x, o: x[:2, :, :1], name="first"),
    *[
        Case(
            type,
            [
                CUBE,
                index(*offset, dtype="int32"),
                *([] if type in ("DynamicSlice", "DynamicZero") else [floats(2, 2, 1)]),
            ],
            WINDOW,
            fails=message,
            name=f"at-{offset[0]},{offset[1]}",
        )
        for type in ("DynamicSlice", "DynamicUpdate", "DynamicAdd", "DynamicZero")
        for offset, message in (
            ((2, 0), "got 2 at element 0 of input 1, expected 0 to 1"),
            ((0, 4), "got 4 at element 1 of input 1, expected 0 to 3"),
            ((0, -1), "got -1 at element 1 of input 1, expected 0 to 3"),
        )
    ],
]

LOSSES = [
    Case(
        "Nll",
        [PROBABILITIES, index(0, 3, 1, dtype="int32")],
        {"reduction": "Sum"},
        with_torch(lambda p, t: functional.nll_loss(p.log(), t.long(), reduction="sum")),
        gradients=[0],
        name="ends",
    ),
    *[
        Case(
            type,
            [PROBABILITIES, index(0, bad, 1, dtype="int32"), *([] if type == "Nll" else [np.array(1.0, np.float32)])],
            {"reduction": "Mean", **ignore},
            fails=f"a label is out of range: got {bad} at element 1 of input 1, expected 0 to 3",
            name=f"{bad}{'-beside-ignored' if ignore else ''}",
        )
        for type in ("Nll", "NllGrad", "SoftmaxGradDirect", "NlllWithSoftmaxGradDirect")
        for bad in (4, -1)
        for ignore in ({}, {"ignoreIndex": -100})
    ],
    Case(
        "Nll",
        [PROBABILITIES, index(0, -1, 1, dtype="int32")],
        {"reduction": "Mean", "ignoreIndex": -1},
        with_torch(lambda p, t: functional.nll_loss(p.log(), t.long(), ignore_index=-1)),
        gradients=[0],
        name="ignored-outside",
    ),
    *[
        Case(
            type,
            [SCORES, np.array([[1, 0], [2, bad], [2, 1]], np.int64)],
            {"reduction": "mean"},
            fails=f"got {bad} at element 3 of input 1, expected 0 to 3",
            name=str(bad),
        )
        for type in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
        for bad in (4, -1)
    ],
    Case(
        "SoftmaxCrossEntropyLoss",
        [SCORES, np.array([[1, 0], [2, -7], [2, 1]], np.int64)],
        {"reduction": "mean", "ignore_index": -7},
        with_torch(functional.cross_entropy, ignore_index=-7),
        gradients=[0],
        name="ignored-outside",
    ),
]

QUOTIENTS = [
    *[
        Case(
            "Div",
            [np.array([SMALLEST[d], SMALLEST[d] + 1, SMALLEST[d], 7], d), np.array([1, -1, 2, -7], d)],
            expected=lambda a, b: np.array([a[0], -a[1], a[0] // 2, -1], a.dtype),
            name=f"{d}-ends",
        )
        for d in SMALLEST
    ],
    *[
        Case("Div", [np.array([5, SMALLEST[d]], d), np.array([1, -1], d)], fails="the quotient does not fit", name=d)
        for d in SMALLEST
    ],
    *[
        Case(
            type,
            [ints(3, 4).astype(d), np.array([1, 2, 0, 3], d)],
            fails="an integer is divided by zero: got divisor 0 for element 2 of the result",
            name=f"{d}-by-zero",
        )
        for type in ("Div", "Fmod", "Remainder")
        for d in ("int8", "uint8", "int32", "uint32", "int64", "uint64")
    ],
    # A remainder always fits: 0 for every divisor -1.
    Case(
        "Remainder",
        [np.array([SMALLEST["int32"], 5], np.int32), np.array([-1, -1], np.int32)],
        expected=lambda a, b: np.zeros(2, np.int32),
        name="by-minus-one",
    ),
    Case(
        "Div",
        [np.array([1.0, -1.0], np.float32), np.zeros(2, np.float32)],
        {},
        lambda a, b: np.array([np.inf, -np.inf]),
    ),
    Case(
        "Div",
        [np.ones((70, 3000), np.int32), far(100000, -1, 70, 3000).astype(np.int32) + 1],
        fails="for element 100000 of the result",
        name="first-of-many",
    ),
]

CASES = GATHERS + SCATTERS + DYNAMIC + LOSSES + QUOTIENTS
