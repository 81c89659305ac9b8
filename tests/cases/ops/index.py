"""Cases of operators that read and write at positions given by index tensors."""

import numpy as np

from tests.cases.case import Case, floats, ints

TABLE = floats(5, 3)


def take(x, i, axis=0):
    """Return NumPy's take."""
    return np.take(x, i, axis)


def scatter(x, i, u, axis, combine):
    y = np.array(x)
    for position in np.ndindex(*i.shape):
        target = list(position)
        target[axis] = i[position]
        y[tuple(target)] = combine(y[tuple(target)], u[position])
    return y


def scatter_nd(x, i, u, combine):
    y = np.array(x)
    for position in np.ndindex(*i.shape[:-1]):
        y[tuple(i[position])] = combine(y[tuple(i[position])], u[position])
    return y


COMBINE = {"none": lambda a, b: b, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
INDEX = np.array([[0, 2, 1], [3, 4, 0]], np.int64)
REPEATED = np.array([[0, 2, 0], [0, 2, 4]], np.int64)
PLACES = np.array([[0, 1], [2, 0]], np.int64)
REPEATED_PLACES = np.array([[0, 1], [2, 0], [0, 1]], np.int64)

GATHERS = [
    Case("Gather", [TABLE, np.array([[4, 0], [0, 2]], np.int64)], {}, take, gradients=[0]),
    Case(
        "Gather",
        [floats(2, 4, 3), np.array([-1, 1, 1], np.int32)],
        {"axis": 1},
        lambda x, i: take(x, i, 1),
        gradients=[0],
    ),
    Case("Gather", [TABLE, np.array(3, np.uint32)], {"axis": 0}, lambda x, i: x[3], gradients=[0]),
    Case(
        "Gather",
        [TABLE, np.array([-1, 1], np.int64)],
        {"zero_OOR": 1},
        lambda x, i: np.stack([0 * x[0], x[1]]),
        gradients=[0],
    ),
    Case(
        "Gather",
        [floats(2, 4, 3), np.array([[1, 3, 0], [2, 2, 1]], np.int32)],
        {"axis": 1, "group_size": 2},
        lambda x, i: np.stack([x[g][i[g]] for g in range(2)]),
        gradients=[0],
    ),
    Case("Gather", [ints(4), np.array([1, 0], np.int64)], {}, take),
    Case("Gather", [TABLE, INDEX], {"axis": 2}, refuses="out of range"),
    Case("Gather", [TABLE, INDEX], {"group_size": 5}, refuses="the axis is the group's"),
    Case("Gather", [TABLE, TABLE], {}, refuses="element type"),
    Case("PopartTiedGather", [TABLE, np.array([4, 0, 4], np.int32)], {}, take, gradients=[0]),
    Case(
        "GroupedGather",
        [floats(2, 4), np.array([[1, 3], [2, 2]], np.int32)],
        {"axis": 1, "group_size": 2},
        lambda x, i: np.take_along_axis(x, i.astype(np.int64), 1),
        gradients=[0],
    ),
    Case("GatherElements", [TABLE, INDEX], {"axis": 0}, lambda x, i: np.take_along_axis(x, i, 0), gradients=[0]),
    Case(
        "GatherElements",
        [TABLE, REPEATED[:, :2]],
        {"axis": -1},
        lambda x, i: np.take_along_axis(x[:2], i, 1),
        gradients=[0],
    ),
    Case("GatherElements", [TABLE, INDEX.reshape(-1)], {}, refuses="ranks differ"),
    Case("GatherND", [floats(3, 4, 2), PLACES], {}, lambda x, i: x[i[:, 0], i[:, 1]], gradients=[0]),
    Case("GatherND", [floats(3, 4), REPEATED_PLACES], {}, lambda x, i: x[i[:, 0], i[:, 1]], gradients=[0]),
    Case(
        "GatherND",
        [floats(2, 3, 4), np.array([[1], [-1]], np.int64)],
        {"batch_dims": 1},
        lambda x, i: np.stack([x[0, 1], x[1, -1]]),
        gradients=[0],
    ),
    Case("GatherND", [floats(3), INDEX], {}, refuses="does not fit data"),
    Case(
        "OneHot",
        [np.array([0, 2, -1, 5], np.int64), np.array([0.25, 1.5], np.float32)],
        {"depth": 3},
        lambda i, v: np.where(np.array([[1, 0, 0], [0, 0, 1], [0, 0, 1], [0, 0, 0]], bool), v[1], v[0]),
        gradients=[1],
    ),
    Case(
        "OneHot",
        [np.array([[0, 1]], np.int32), np.array([0, 1], np.int32)],
        {"depth": 2, "axis": 0},
        lambda i, v: np.array([[[1, 0]], [[0, 1]]], np.int32),
    ),
    Case("OneHot", [np.array([0]), floats(3)], {"depth": 2}, refuses="(off, on)"),
]

SCATTERS = [
    Case(
        "Scatter",
        [TABLE, INDEX, floats(2, 3)],
        {},
        lambda x, i, u: scatter(x, i, u, 0, COMBINE["none"]),
        gradients=[0, 2],
    ),
    Case(
        "ScatterElements",
        [TABLE, INDEX, floats(2, 3)],
        {"axis": -2},
        lambda x, i, u: scatter(x, i, u, 0, COMBINE["none"]),
        gradients=[0, 2],
    ),
    Case("ScatterElements", [ints(5, 3), INDEX, ints(2, 3)], {}, lambda x, i, u: scatter(x, i, u, 0, COMBINE["none"])),
    *[
        Case(
            "ScatterElements",
            [TABLE, REPEATED, floats(2, 3)],
            {"reduction": reduction},
            lambda x, i, u, r=reduction: scatter(x, i, u, 0, COMBINE[r]),
            gradients=[] if reduction == "mul" else [0, 2],
        )
        for reduction in ("add", "mul", "max", "min")
    ],
    *[
        Case(
            "ScatterND",
            [
                floats(3, 2, 2),
                PLACES if reduction == "none" else REPEATED_PLACES,
                floats(2 if reduction == "none" else 3, 2),
            ],
            {"reduction": reduction},
            lambda x, i, u, r=reduction: scatter_nd(x, i, u, COMBINE[r]),
            gradients=[] if reduction == "mul" else [0, 2],
        )
        for reduction in ("none", "add", "mul", "max", "min")
    ],
    Case("ScatterElements", [TABLE, INDEX, floats(3, 2)], {}, refuses="larger than updates"),
    Case("ScatterElements", [TABLE, INDEX, floats(2, 3)], {"reduction": "mean"}, refuses="unknown reduction"),
    Case("ScatterND", [TABLE, PLACES, floats(3)], {}, refuses="do not fit indices"),
]

REDUCE = {"Sum": np.add, "Max": np.maximum, "Min": np.minimum, "Mul": np.multiply, "None": lambda a, b: b}


def scatter_reduce(x, i, initial, reduction, axis, size):
    i = np.broadcast_to(i.reshape(-1, 1) if i.shape != x.shape else i, x.shape)
    shape = tuple(size if d == axis else n for d, n in enumerate(x.shape))
    y = np.array(initial) if initial is not None else np.full(shape, 1.0 if reduction == "Mul" else 0.0)
    started = np.full(shape, initial is not None or reduction in ("Sum", "Mul"))
    for position in np.ndindex(*x.shape):
        target = list(position)
        target[axis] = i[position]
        target = tuple(target)
        y[target] = REDUCE[reduction](y[target], x[position]) if started[target] else x[position]
        started[target] = True
    return y


REDUCED = [
    Case(
        "ScatterReduce",
        [
            floats(4, 3, low=0.3),
            np.array([0, 2, 2, 0], np.int32),
            *([floats(4, 3, low=0.3, high=3)] if initial else []),
        ],
        {"axis_size": 4, "axis": 0, "reduction": reduction},
        lambda x, i, v=None, r=reduction: scatter_reduce(x, i, v, r, 0, 4),
        gradients=[0, 2] if initial else [0],
    )
    for reduction in REDUCE
    for initial in (False, True)
]
REDUCED += [
    Case(
        "ScatterReduce",
        [floats(2, 4), ints(2, 4, low=0, high=3)],
        {"axis_size": 3},
        lambda x, i: scatter_reduce(x, i, None, "Sum", 1, 3),
        gradients=[0],
    ),
    Case(
        "ScatterReduce",
        [np.array([0.0, 2.0, 0.0, 3.0], np.float32), np.array([0, 0, 1, 2], np.int32)],
        {"axis_size": 3, "reduction": "Mul"},
        lambda x, i: np.array([0.0, 0.0, 3.0]),
        gradients=[0],
        name="zeros",
    ),
    Case("ScatterReduce", [floats(2, 4), ints(2, 1, low=0, high=3)], {"axis_size": 3}, refuses="do not broadcast"),
    Case("ScatterReduce", [floats(2, 4), ints(2, 4)], {"axis_size": 0}, refuses="axis_size is not positive"),
]

OFFSET = np.array([1, 2], np.uint32)
WINDOW = {"axes": [0, 2], "sizes": [2, 1]}
CUBE = floats(3, 2, 4)


def written(function):
    def apply(x, *_arguments):
        y = np.array(x)
        function(y[1:3, :, 2:3], *_arguments[1:])
        return y

    return apply


DYNAMIC = [
    Case("DynamicSlice", [CUBE, OFFSET], WINDOW, lambda x, o: x[1:3, :, 2:3], gradients=[0]),
    Case(
        "DynamicSlice",
        [floats(4), np.array([1], np.int32)],
        {"axes": [0], "sizes": [3]},
        lambda x, o: x[1:],
        gradients=[0],
    ),
    Case(
        "DynamicUpdate",
        [CUBE, OFFSET, floats(2, 2, 1)],
        WINDOW,
        written(lambda w, u: np.copyto(w, u)),
        gradients=[0, 2],
    ),
    Case(
        "DynamicAdd",
        [CUBE, OFFSET, floats(2, 2, 1)],
        WINDOW,
        written(lambda w, u: np.add(w, u, out=w)),
        gradients=[0, 2],
    ),
    Case("DynamicZero", [CUBE, OFFSET], WINDOW, written(lambda w: w.fill(0)), gradients=[0]),
    Case("DynamicSlice", [CUBE, OFFSET], {"axes": [0], "sizes": [2]}, refuses="offset does not fit"),
    Case("DynamicSlice", [CUBE, OFFSET], {"axes": [0, 1], "sizes": [2, 3]}, refuses="a size does not fit"),
    Case("DynamicUpdate", [CUBE, OFFSET, floats(2, 2, 2)], WINDOW, refuses="window's shape"),
]

# Shapes that split into several tasks and leave remainders: backends against each other.
MANY, ROWS = floats(67, 513), ints(67, 513, low=-67, high=67, dtype="int64")
LARGE = [
    Case("ScatterElements", [MANY, ROWS, floats(67, 513, low=0)], {"axis": 0, "reduction": "add"}, gradients=[]),
    Case("ScatterElements", [MANY, ROWS[:40, :500], floats(40, 500)], {"axis": 1}),
    Case("ScatterElements", [floats(9, 31, 77), ints(5, 60, 70, low=-31, high=31), floats(5, 60, 70)], {"axis": 1}),
    Case("ScatterND", [MANY, ints(700, 1, low=-67, high=67, dtype="int64"), floats(700, 513)], {"reduction": "max"}),
    Case("ScatterND", [MANY, ints(900, 2, low=-67, high=67), floats(900)], {}),
    Case("GatherND", [floats(40, 33, 65), ints(40, 500, 1, low=-33, high=33)], {"batch_dims": 1}),
    Case("GatherNDGrad", [floats(900), ints(900, 2, low=-67, high=67)], {"batch_dims": 0, "fwd_shape": [67, 600]}),
    *[
        Case(
            "ScatterReduce",
            [floats(300, 130), ints(300, low=0, high=50), *([floats(50, 130)] if initial else [])],
            {"axis": 0, "axis_size": 50, "reduction": reduction},
        )
        for reduction in ("Sum", "Max")
        for initial in (False, True)
    ],
    Case("DynamicSlice", [floats(70, 300, 4), np.array([13, 5], np.int32)], {"axes": [0, 1], "sizes": [50, 290]}),
    Case(
        "DynamicAdd",
        [floats(70, 300, 4), np.array([230], np.int32), floats(70, 60, 4)],
        {"axes": [1], "sizes": [60]},
    ),
]

CASES = GATHERS + SCATTERS + REDUCED + DYNAMIC + LARGE
