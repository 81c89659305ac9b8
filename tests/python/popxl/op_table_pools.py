"""Rows of op_table.py: pools whose input has elements apart or whose result goes on behind the padding."""

from collections.abc import Callable, Iterable, Iterator
from itertools import product
from math import inf
from typing import Any

import torch
from op_table import ALL, Build, Row, numbers
from popxl import ops


def elements(count: int, k: int, stride: int, lower: int, dilation: int, apart: int, size: int) -> Iterator[list[int]]:
    """Indices of the elements of one axis under each window, which begins `lower` cells before the first element."""
    for window in range(count):
        cells = [window * stride - lower + i * dilation for i in range(k)]
        yield [cell // apart for cell in cells if cell % apart == 0 and 0 <= cell // apart < size]


def pooled(reduce: Callable, nothing: float, counts: Iterable[int], *per_axis: Iterable[int]) -> Build:
    """`reduce` over the elements under each window, one by one; `per_axis`: arguments of `elements` for each axis."""

    def formula(x: torch.Tensor) -> torch.Tensor:
        axes = [list(elements(*given, d)) for *given, d in zip(counts, *per_axis, x.shape[2:], strict=True)]
        results = []
        for window in product(*axes):
            part = x
            for axis, indices in enumerate(window, 2):
                part = part.index_select(axis, torch.tensor(indices, dtype=torch.long))
            part = part.flatten(2)
            results.append(reduce(part) if part.shape[2] else torch.full(x.shape[:2], nothing, dtype=x.dtype))
        return torch.stack(results, 2).reshape(*x.shape[:2], *counts)

    return formula


# (name, shape of the input, arguments, windows, kernel, stride, cells before, dilation, distance of elements)
FORMS: list[tuple[str, tuple, dict[str, Any], tuple, tuple, tuple, tuple, tuple, tuple]] = [
    ("out_pads", (2, 3, 5, 4), {"out_pads": [1, 2]}, (5, 5), (2, 2), (1, 1), (0, 0), (1, 1), (1, 1)),
    ("out_pads-strided", (1, 2, 7), {"stride": [2], "padding": [1, 1], "dilation": [2], "out_pads": [3]},
     (6,), (3,), (2,), (1,), (2,), (1,)),
    ("out_pads-same", (1, 2, 5), {"stride": [2], "auto_pad": "same_lower", "out_pads": [1]}, (4,), (4,), (2,), (2,),
     (1,), (1,)),
    ("in_dilations", (2, 2, 4, 3), {"in_dilations": [2, 3]}, (5, 6), (3, 2), (1, 1), (0, 0), (1, 1), (2, 3)),
    ("in_dilations-ceil", (1, 2, 5), {"stride": [3], "padding": [1, 0], "in_dilations": [2], "ceil_mode": True},
     (3,), (4,), (3,), (1,), (1,), (2,)),
    ("in_dilations-valid", (1, 1, 4, 2), {"stride": [2, 1], "auto_pad": "valid", "in_dilations": [3, 1],
                                          "out_pads": [0, 1]}, (4, 2), (4, 2), (2, 1), (0, 0), (1, 1), (3, 1)),
]  # fmt: skip


def pools() -> list[Row]:
    """Section 8, `out_pads` and `in_dilations`."""
    rows = []
    for name, shape, arguments, counts, kernel, *per_axis in FORMS:
        for function, reduce, nothing in (
            (ops.max_pool, lambda t: t.amax(2), -inf),
            (ops.average_pool, lambda t: t.mean(2), 0.0),
        ):
            build = lambda x, f=function, k=kernel, a=arguments: f(x, k, **a)  # noqa: E731
            formula = pooled(reduce, nothing, counts, kernel, *per_axis)
            rows.append(Row(f"{function.__name__}-{name}", build, [numbers(*shape)], formula, ALL, tolerance=2))
    return rows
