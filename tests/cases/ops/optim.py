"""Cases of the loss scale's update."""

import numpy as np

from tests.cases.case import Case

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


CASES = [
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
        "LossScaleUpdate", [FACTOR, counts(1, 1)], {"threshold": 2.0}, refuses="threshold must lie", dtypes=["float32"]
    ),
]
