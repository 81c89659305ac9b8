"""Cases of the loss scale's update."""

import numpy as np

from tests.cases.case import Case

FACTOR = np.array(4.0, np.float32)


def counts(small, large):
    return np.array([small, large], np.float32)


def update(small, large, result, **attributes):
    """Case of one share of large gradients, without a counter."""
    return Case(
        "LossScaleUpdate",
        [FACTOR, counts(small, large)],
        attributes,
        lambda *_: np.float32(result),
        dtypes=["float32"],
        outputs=1,
        name=f"{small}-{large}-{attributes}",
    )


def counted(counter, large, result, next_counter):
    """Case of period 3."""
    return Case(
        "LossScaleUpdate",
        [FACTOR, counts(5, large), np.array(counter, np.int32)],
        {"period": 3},
        lambda *_: (np.float32(result), np.int32(next_counter)),
        dtypes=["float32"],
        outputs=2,
        name=f"counter {counter}, {large} large",
    )


CASES = [
    update(5, 0, 8),
    update(5, 1, 2),
    update(0, 0, 8),
    update(3, 1, 8, threshold=0.25),  # the share must be above
    update(2, 1, 2, threshold=0.25),
    counted(0, 0, 8, 1),
    counted(0, 1, 2, 1),
    counted(1, 1, 4, 2),
    counted(2, 0, 4, 0),
    Case("LossScaleUpdate", [FACTOR, np.zeros(3, np.float32)], refuses="counts must be", dtypes=["float32"]),
    Case("LossScaleUpdate", [FACTOR, counts(1, 1)], {"period": 2}, refuses="needs the counter", dtypes=["float32"]),
    Case(
        "LossScaleUpdate", [FACTOR, counts(1, 1)], {"threshold": 2.0}, refuses="threshold must lie", dtypes=["float32"]
    ),
]
