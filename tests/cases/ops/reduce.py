"""Cases of reductions, ordering and running sums."""

import numpy as np

from tests.cases.case import Case, bools, floats, ints


def reductions(type, function, low=-2.0, high=2.0):
    """Return the cases of one reduction over several choices of axes."""
    cases = []
    for axes, keepdims in [([1], 1), ([0, 2], 0), ([-1], 0), (None, 1), (None, 0), ([], 1)]:
        attributes = {"keepdims": keepdims} | ({} if axes is None else {"axes": axes})
        numpy_axes = None if axes is None else tuple(axes)
        cases.append(
            Case(
                type,
                [floats(2, 3, 4, low=low, high=high)],
                attributes,
                lambda x, a=numpy_axes, k=keepdims: np.asarray(function(x, a, bool(k))),
                gradients=[0],
            )
        )
    return cases


def logsumexp(x, axis, keepdims):
    return np.log(np.exp(x).sum(axis=axis, keepdims=keepdims))


NUMBERS = ints(3, 4)
# Rows and columns with infinities, NaN, and values whose products and sums leave the range of float32 (and come back).
EXTREMES = np.array(
    [
        [1e30, 1e30, 1e-30, 2.0],
        [np.inf, 1.0, -np.inf, 2.0],
        [-np.inf, -np.inf, -np.inf, -np.inf],
        [np.nan, np.inf, 1.0, 2.0],
        [3e38, 3e38, 3e38, 3e38],
        [-0.5, 0.25, -1.5, -3.0],
    ],
    np.float32,
)


def extreme(type, function):
    """Return the cases of EXTREMES along both axes and over all of it."""
    return [
        Case(
            type,
            [np.tile(EXTREMES, (1, 5))],
            {} if axis is None else {"axes": [axis]},
            lambda x, a=axis: function(x, a),
            dtypes=["float32"],
            name=f"extreme{axis}",
        )
        for axis in (0, 1, None)
    ]


def exact_logsumexp(x, axis):
    """Return log(sum(e^x)), an infinite maximum as it is."""
    with np.errstate(invalid="ignore"):
        top = x.max(axis=axis, keepdims=True)
        return np.where(np.isinf(top), top, top + np.log(np.exp(x - top).sum(axis=axis, keepdims=True)))


def silent(function):
    """Return `function` rounded to float32, without NumPy's warnings about domains and overflow."""

    def quiet(x, axis):
        with np.errstate(all="ignore"):
            return function(x, axis).astype(np.float32)

    return quiet


def without_each(g, x, axes):
    """Return g times the product of the other elements along `axes`, for each element of x."""
    rest = tuple(axis for axis in range(x.ndim) if axis not in axes)
    order = (*rest, *axes)
    rows = x.transpose(order).reshape(g.size, -1)
    others = np.stack([np.delete(rows, i, axis=1).prod(axis=1) for i in range(rows.shape[1])], axis=1)
    moved = (g.reshape(-1, 1) * others).reshape([x.shape[axis] for axis in order])
    return moved.transpose(np.argsort(order))


def product_gradients():
    """Return the cases of ReduceProdGrad over several choices of axes, with zeros and without."""
    cases = []
    for axes, zeros in [([1], 0), ([2], 1), ([0], 2), ([0, 2], 3), ([0, 1, 2], 2), ([0, 1, 2], 1)]:
        x = floats(3, 4, 5, low=0.5, high=1.5)
        if zeros:
            x.reshape(-1)[:: 60 // zeros] = 0
        g = floats(*(1 if axis in axes else size for axis, size in enumerate(x.shape)))
        cases.append(
            Case(
                "ReduceProdGrad",
                [g, x],
                {"axes": axes, "fwd_shape": list(x.shape)},
                lambda g, x, a=tuple(axes): without_each(g, x, a),
                name=f"axes{axes}zeros{zeros}",
            )
        )
    return cases


def both_of_nothing(x):
    return np.full((2, 1), np.inf, np.float32), np.full((2, 1), -np.inf, np.float32)


ZEROS = np.array([[2.0, 0.0, -1.5], [0.0, 0.0, 3.0], [1.5, -2.0, 0.5]], np.float32)

REDUCTIONS = [
    *reductions("ReduceSum", lambda x, a, k: x.sum(axis=a, keepdims=k)),
    *reductions("ReduceMean", lambda x, a, k: x.mean(axis=a, keepdims=k)),
    *reductions("ReduceMax", lambda x, a, k: x.max(axis=a, keepdims=k)),
    *reductions("ReduceMin", lambda x, a, k: x.min(axis=a, keepdims=k)),
    *reductions("ReduceProd", lambda x, a, k: x.prod(axis=a, keepdims=k), low=0.5, high=1.5),
    *reductions("ReduceL1", lambda x, a, k: np.abs(x).sum(axis=a, keepdims=k)),
    *reductions("ReduceL2", lambda x, a, k: np.sqrt((x * x).sum(axis=a, keepdims=k))),
    *reductions("ReduceSumSquare", lambda x, a, k: (x * x).sum(axis=a, keepdims=k)),
    *reductions("ReduceLogSum", lambda x, a, k: np.log(x.sum(axis=a, keepdims=k)), low=0.3),
    *reductions("ReduceLogSumExp", logsumexp),
    *extreme("ReduceProd", silent(lambda x, a: x.prod(axis=a, keepdims=True))),
    *extreme("ReduceLogSum", silent(lambda x, a: np.log(x.sum(axis=a, keepdims=True)))),
    *extreme("ReduceLogSumExp", exact_logsumexp),
    *product_gradients(),
    Case("ReduceProd", [ZEROS], {"axes": [1]}, lambda x: x.prod(axis=1, keepdims=True), gradients=[0], name="zeros"),
    Case("ReduceSum", [NUMBERS], {"axes": [0]}, lambda x: x.sum(axis=0, keepdims=True, dtype=np.int32)),
    Case("ReduceMax", [NUMBERS], {"axes": [0]}, lambda x: x.max(axis=0, keepdims=True)),
    Case("ReduceMax", [bools(3, 4)], {"axes": [0]}, lambda x: x.max(axis=0, keepdims=True)),
    Case("ReduceMax", [bools(0, 4)], {"axes": [0]}, lambda x: np.full((1, 4), False)),
    Case("ReduceMin", [bools(0, 4)], {"axes": [0]}, lambda x: np.full((1, 4), True)),
    Case("ReduceMax", [ints(0, 2, dtype="int8")], {"axes": [0]}, lambda x: np.full((1, 2), -128, np.int8)),
    Case("ReduceMin", [ints(0, 2)], {"axes": [0]}, lambda x: np.full((1, 2), 2**31 - 1, np.int32)),
    Case("ReduceMin", [bools(3, 4)], {"axes": [0]}, lambda x: x.min(axis=0, keepdims=True)),
    Case("ReduceSum", [floats(2, 3)], {"noop_with_empty_axes": 1}, lambda x: x),
    Case(
        "ReduceSum",
        [np.zeros((2, 0, 3), np.float32)],
        {"axes": [1], "keepdims": 0},
        lambda x: np.zeros((2, 3)),
        name="empty",
    ),
    Case(
        "ReduceLogSumExp",
        [np.array([1000.0, 1000.5], np.float32)],
        {},
        lambda x: np.logaddexp(*x)[None],
        dtypes=["float32"],
        name="large",
    ),
    Case("ReduceSum", [floats(2, 3)], {"axes": [2]}, refuses="axes"),
    Case("ReduceSum", [floats(2, 3)], {"axes": [0, -2]}, refuses="repeated"),
    Case("ReduceSumTo", [floats(2, 3, 4)], {"shape": [3, 1]}, lambda x: x.sum(axis=(0, 2))[:, None], gradients=[0]),
    Case("ReduceSumTo", [floats(2, 3)], {"shape": []}, lambda x: x.sum(), gradients=[0]),
    Case("ReduceSumTo", [floats(2, 3)], {"shape": [2, 3]}, lambda x: x, gradients=[0]),
    Case("ReduceSumTo", [floats(2, 3)], {"shape": [4]}, refuses="not a broadcast"),
    *(
        Case(
            "ReduceExtremes",
            [x],
            {"keepdims": 0} | ({} if axis is None else {"axes": [axis]}),
            lambda x, a=axis: (x.min(axis=a), x.max(axis=a)),
            dtypes=["float32"],
            name=f"{name} {axis}",
        )
        for name, x in {
            "short": floats(3, 5),
            "rows": floats(300, 37),
            "long": floats(3, 70001),
            "nan": EXTREMES,
        }.items()
        for axis in (0, 1, None)
    ),
    Case("ReduceExtremes", [np.zeros((2, 0), np.float32)], {"axes": [1]}, both_of_nothing, name="empty"),
    Case("LambSquare", [floats(3, 4)], {}, lambda x: (x * x).sum(), dtypes=["float32"]),
]

TIES = np.array([[1.5, 3.5, 3.5, -1.0], [2.5, 2.5, 0.5, 2.5]], np.float32)


def median(x, axes, keepdims):
    moved = np.moveaxis(x, axes, range(-len(axes), 0))
    flat = moved.reshape(*moved.shape[: x.ndim - len(axes)], -1)
    order = np.argsort(flat, axis=-1, kind="stable")
    middle = order[..., (flat.shape[-1] - 1) // 2]
    values = np.take_along_axis(flat, middle[..., None], -1)[..., 0]
    shape = [1 if i in axes else d for i, d in enumerate(x.shape)] if keepdims else values.shape
    return values.reshape(shape), middle.reshape(shape).astype(np.int32)


ORDER = [
    Case("ArgMax", [floats(2, 5, 3)], {"axis": 1}, lambda x: x.argmax(axis=1)[:, None]),
    Case(
        "ArgMax",
        [floats(2, 5, 3)],
        {"axis": -1, "keepdims": 0, "index_type": 6},
        lambda x: x.argmax(axis=-1).astype(np.int32),
    ),
    Case("ArgMin", [ints(4, 6)], {"axis": 0}, lambda x: x.argmin(axis=0)[None]),
    Case("ArgMax", [TIES], {"axis": 1, "keepdims": 0}, lambda x: np.array([1, 0]), name="first"),
    Case("ArgMax", [TIES], {"axis": 1, "keepdims": 0, "select_last_index": 1}, lambda x: np.array([2, 3]), name="last"),
    Case("ArgMax", [floats(2)], {"axis": 1}, refuses="out of range"),
    Case(
        "TopK",
        [floats(3, 7)],
        {"k": 3},
        lambda x: (-np.sort(-x, axis=1)[:, :3], np.argsort(-x, axis=1)[:, :3]),
        gradients=[0],
        outputs=2,
    ),
    Case(
        "TopK",
        [floats(5, 2, 3)],
        {"k": 2, "axis": 0, "largest": 0, "index_type": 6},
        lambda x: (np.sort(x, axis=0)[:2], np.argsort(x, axis=0)[:2].astype(np.int32)),
        gradients=[0],
        outputs=2,
    ),
    Case("TopK", [floats(4)], {"k": 2}, lambda x: -np.sort(-x)[:2], gradients=[0], outputs=1),
    Case("TopK", [floats(4)], {"k": 5}, refuses="k is out of range"),
    Case("Sort", [floats(3, 6)], {}, lambda x: (np.sort(x), np.argsort(x).astype(np.int32)), gradients=[0], outputs=2),
    Case(
        "Sort",
        [TIES],
        {"descending": 1},
        lambda x: (-np.sort(-x), np.argsort(-x, kind="stable").astype(np.int32)),
        outputs=2,
    ),
    Case("ReduceMedian", [floats(3, 4, 2)], {"axes": [1]}, lambda x: median(x, [1], True), gradients=[0], outputs=2),
    Case(
        "ReduceMedian",
        [floats(3, 4, 2)],
        {"axes": [0, 2], "keepdims": 0},
        lambda x: median(x, [0, 2], False),
        gradients=[0],
        outputs=2,
    ),
    Case("ReduceMedian", [floats(3, 3)], {"keepdims": 0}, lambda x: np.median(x), gradients=[0], outputs=1),
]

CUMULATIVE = [
    Case("CumSum", [floats(3, 4)], {"axis": 1}, lambda x: x.cumsum(axis=1), gradients=[0]),
    Case("CumSum", [floats(3, 4)], {"axis": -2, "reverse": 1}, lambda x: x[::-1].cumsum(axis=0)[::-1], gradients=[0]),
    Case("CumSum", [floats(3, 4)], {"axis": 1, "exclusive": 1}, lambda x: x.cumsum(axis=1) - x, gradients=[0]),
    Case(
        "CumSum",
        [ints(5)],
        {"axis": 0, "exclusive": 1, "reverse": 1},
        lambda x: (x[::-1].cumsum()[::-1] - x).astype(np.int32),
    ),
]

SPECIAL = np.array([[1.0, np.nan, -3.0, np.inf], [0.25, -np.inf, 2.0, 0.0]], np.float32)


def counts(x, levels):
    """NumPy's histogram from -inf to inf; NaN is below no level."""
    edges = [-np.inf, *levels, np.inf]
    found = np.histogram(np.clip(np.where(np.isnan(x), np.inf, x), -1e300, 1e300), edges)[0]
    return found.astype(np.uint32)


COUNTS = [
    Case("Histogram", [floats(3, 50)], {"levels": [-1.0, 0.0, 1.5]}, lambda x: counts(x, [-1.0, 0.0, 1.5])),
    Case(
        "Histogram",
        [floats(41000)],
        {"levels": [0.5, 1.0], "absoluteOfInput": 1},
        lambda x: counts(np.abs(x), [0.5, 1.0]),
        name="tasks",
    ),
    Case(
        "Histogram",
        [SPECIAL],
        {"levels": [2.0], "absoluteOfInput": 1},
        lambda x: np.array([3, 5], np.uint32),
        name="a level counts as above, as NaN does",
    ),
    Case("Histogram", [floats(0, 3)], {"levels": [0.0]}, lambda x: np.zeros(2, np.uint32)),
    Case("Histogram", [floats(3)], {"levels": [1.0, 1.0]}, refuses="levels must be strictly increasing"),
    Case("Histogram", [floats(3)], {"levels": []}, refuses="levels must be strictly increasing"),
    Case("FirstNonFinite", [SPECIAL], {}, lambda x: np.array([1, 3]), name="both"),
    Case("FirstNonFinite", [SPECIAL[:, 2:]], {}, lambda x: np.array([-1, 1]), name="infinity"),
    Case("FirstNonFinite", [floats(2, 3)], {}, lambda x: np.array([-1, -1])),
    Case("FirstNonFinite", [floats(0)], {}, lambda x: np.array([-1, -1])),
    Case(
        "FirstNonFinite",
        [np.where(np.arange(70000) >= 66000, np.nan, 1).astype(np.float32)],
        {},
        lambda x: np.array([66000, -1]),
        name="tasks",
    ),
]

CASES = REDUCTIONS + ORDER + CUMULATIVE + COUNTS
