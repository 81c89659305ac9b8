"""Cases of the loss scale's update, and of updates that are due or not."""

import numpy as np

from tests.cases.case import Case, floats

FACTOR = np.array(4.0, np.float32)


def counts(small, large):
    return np.array([small, large], np.float32)


def update(small, large, result, **attributes):
    """Case of one share of large gradients, always due."""
    return Case(
        "LossScaleUpdate",
        [FACTOR, counts(small, large)],
        attributes,
        lambda *_: np.float32(result),
        dtypes=["float32"],
        outputs=1,
        name=f"{small}-{large}-{attributes}",
    )


def when(due, large, result):
    """Case of an update that is due or not."""
    return Case(
        "LossScaleUpdate",
        [FACTOR, counts(5, large), np.array(due)],
        {},
        lambda *_: np.float32(result),
        dtypes=["float32"],
        outputs=1,
        name=f"due {due}, {large} large",
    )


def scalar(value):
    return np.array(value, np.float32)


NAN = np.full((2, 3), np.nan, np.float32)


def kept(type, inputs, result, **attributes):
    """Cases of an update that is due, and of one that is not: the variable keeps its value, whatever the others are."""
    var, other = inputs[0], inputs[1]
    spoilt = [var, NAN if other is not None and other.shape == NAN.shape else other, *inputs[2:]]
    return [
        Case(type, [*inputs, np.array(True)], attributes, lambda *given: result(*given[:-1]), name=f"{attributes} due"),
        Case(type, [*spoilt, np.array(False)], attributes, lambda w, *_: w, name=f"{attributes} not due"),
        Case(type, [*inputs, np.array([True, False])], attributes, refuses="due must be a scalar"),
    ]


def moments(due):
    """The updater of Adam counts a step only where it is due."""
    m, v = floats(2, 3), floats(2, 3, low=0.5)

    def step(_w, m, v, t, _wd, beta1, beta2, eps, _due):
        x = m / (1 - beta1 ** (t + 1)) / (np.sqrt(v / (1 - beta2 ** (t + 1))) + eps)
        return x, t + due

    inputs = [None, m, v, scalar(3), None, scalar(0.75), scalar(0.875), scalar(0.125), np.array(due)]
    return Case("AdamUpdater", inputs, {"mode": "Adam"}, step, outputs=2, name=f"due {due}")


W, X = floats(2, 3), floats(2, 3, high=3.0)
UPDATES = [
    *kept("SGD0VarUpdate", [W, X, scalar(0.25), scalar(0.75)], lambda w, g, lr, d: d * w - lr * g),
    *kept("SGD1AcclUpdate", [W, X, scalar(0.25), scalar(0.75)], lambda v, w, mm, wd: mm * v + wd * w),
    *kept("SGD2PartialAcclUpdate", [W, X, scalar(0.25), scalar(0.75)], lambda v, w, mm, wd: mm * v + wd * w),
    *kept("SGD1VarUpdate", [W, X, scalar(0.25)], lambda w, v, lr: w - lr * v),
    *kept("SGD2VarUpdate", [W, X, scalar(0.25)], lambda w, v, lr: w - lr * v),
    *kept("CopyVarUpdate", [W, X], lambda w, x: x),
    *kept("AccumulatorScale", [W, scalar(0.25)], lambda a, f: f * a),
    *kept("AdamVarUpdate", [W, X, None, None, scalar(0.25), None], lambda w, x, _r, _s, lr, _l: w - lr * x),
    *kept("ScaledVarUpdate", [W, X, scalar(0.25), scalar(0.5)], lambda w, x, lr, wd: w - lr * (x + wd * w)),
    *[
        case
        for kind, formula in {
            "DampenedAdd": lambda a, x, f: a + f * x,
            "DecayAdd": lambda a, x, f: f * a + x,
            "MovingAverage": lambda a, x, f: f * a + (1 - f) * x,
            "MovingAverageSquare": lambda a, x, f: f * a + (1 - f) * x * x,
            "Infinity": lambda a, x, f: np.maximum(f * a, np.abs(x)),
        }.items()
        for case in kept("Accumulate", [W, X, scalar(0.25)], formula, accumulation_type=kind)
    ],
    moments(True),
    moments(False),
]


def finite(given, large, result):
    """Case of gradients that are all finite, or not."""
    return Case(
        "LossScaleUpdate",
        [FACTOR, counts(5, large), None, np.array(given)],
        {"threshold": 1.0},
        lambda *_: np.float32(result),
        dtypes=["float32"],
        outputs=1,
        name=f"finite {given}, {large} large",
    )


CASES = [
    *UPDATES,
    finite(True, 0, 8),
    finite(False, 0, 2),
    finite(False, 5, 2),
    update(5, 0, 8),
    update(5, 1, 2),
    update(0, 0, 8),
    update(3, 1, 8, threshold=0.25),  # the share must be above
    update(2, 1, 2, threshold=0.25),
    when(True, 0, 8),
    when(True, 1, 2),
    when(False, 1, 4),
    when(False, 0, 4),
    Case("LossScaleUpdate", [FACTOR, np.zeros(3, np.float32)], refuses="counts must be", dtypes=["float32"]),
    Case(
        "LossScaleUpdate",
        [FACTOR, counts(1, 1), np.array([True, False])],
        refuses="due must be a scalar",
        dtypes=["float32"],
    ),
    Case(
        "LossScaleUpdate", [FACTOR, counts(1, 1)], {"threshold": 2.0}, refuses="threshold must be", dtypes=["float32"]
    ),
]
