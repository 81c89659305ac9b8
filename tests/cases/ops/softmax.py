"""Cases of Softmax, LogSoftmax and Hardmax along one axis."""

import numpy as np
import torch
from torch.nn import functional

from tests.cases.case import Case, floats
from tests.cases.torch_oracle import with_torch


def softmax(axis: int):
    """Return the Softmax oracle along `axis`."""
    return with_torch(functional.softmax, dim=axis)


def log_softmax(axis: int):
    """Return the LogSoftmax oracle along `axis`."""
    return with_torch(functional.log_softmax, dim=axis)


def hardmax(axis: int):
    """Return the Hardmax oracle along `axis`: 1 at the first maximum."""

    def first(x):
        position = torch.from_numpy(np.argmax(x, axis=axis))
        return functional.one_hot(position, x.shape[axis]).movedim(-1, axis).numpy().astype(x.dtype)

    return first


def flattened(axis: int):
    """Return the Softmax oracle over the dimensions from `axis` on, taken together."""

    def rows(x):
        return functional.softmax(x.reshape(int(np.prod(x.shape[:axis])), -1), dim=-1).reshape(x.shape)

    return with_torch(rows)


AXES = [0, 1, 2, -1]
LARGE = floats(2, 3) * np.float32(1000)
COLUMNS = [
    ((301, 257), 0, "many_columns_of_many_rows"),
    ((2, 700, 33), 1, "slices_of_many_rows"),
    ((3, 5, 2100), 1, "slices_of_few_rows"),
    ((4000, 5), 0, "few_columns_of_many_rows"),
    ((0, 3), 0, "columns_of_no_rows"),
    ((3, 0), 0, "no_columns"),
]
BROKEN = floats(200, 120)
BROKEN[[0, 90, 199, 13], [1, 17, 90, 119]] = np.nan
BROKEN[[0, 90, 199, 13], [2, 16, 91, 118]] = -np.inf
BROKEN[[0, 90, 199, 13], [3, 15, 92, 117]] = np.inf

CASES = [
    *[Case("Softmax", [floats(3, 4, 5)], {"axis": a}, softmax(a), gradients=[0]) for a in AXES],
    *[Case("Softmax", [floats(3, 4, 5)], {"axis": a, "flatten": 1}, flattened(a), gradients=[0]) for a in range(3)],
    *[Case("LogSoftmax", [floats(3, 4, 5)], {"axis": a}, log_softmax(a), gradients=[0]) for a in AXES],
    *[Case("Hardmax", [floats(3, 4, 5)], {"axis": a}, hardmax(a)) for a in AXES],
    Case("Softmax", [LARGE], {"axis": -1}, softmax(-1), name="large_values"),
    Case("LogSoftmax", [LARGE], {"axis": -1}, log_softmax(-1), name="large_values"),
    Case("Hardmax", [np.ones((2, 3), np.float32)], {"axis": -1}, hardmax(-1), name="ties"),
    Case("Softmax", [floats(4, 1)], {"axis": 1}, softmax(1), gradients=[0], name="one_class"),
    *[
        Case(op, [floats(*shape)], {"axis": axis}, oracle(axis), name=name)
        for op, oracle in (("Softmax", softmax), ("LogSoftmax", log_softmax))
        for shape, axis, name in COLUMNS
    ],
    *[
        Case(op, [BROKEN], {"axis": 0}, oracle(0), name="columns_not_finite")
        for op, oracle in (("Softmax", softmax), ("LogSoftmax", log_softmax))
    ],
    Case("Softmax", [floats(2, 1, 3)], {"axis": 1}, softmax(1), gradients=[0], name="columns_of_one_row"),
    Case("LogSoftmax", [floats(2, 1, 3)], {"axis": 1}, log_softmax(1), gradients=[0], name="columns_of_one_row"),
    Case("Softmax", [floats(3, 4)], {"axis": 2}, refuses="out of range"),
    Case("LogSoftmax", [floats()], {"axis": 0}, refuses="needs at least one dimension"),
]
