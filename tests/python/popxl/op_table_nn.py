"""Rows of op_table.py: indexing, products, convolutions, pools, norms, losses, images, updates."""

from collections.abc import Callable
from typing import Any

import numpy as np
import popxl
import torch
from op_table import ALL, BOTH, Build, Row, X, integers, numbers
from popxl import ops
from torch.nn import functional

FLOAT = ("float32",)


def grouped(formula: Build) -> Build:
    """The formula applied to each element of the leading axis."""
    return lambda *ts: torch.stack([formula(*rest) for rest in zip(*ts, strict=True)])


def scattered(reduce: str | None, axis: int, size: int) -> Build:
    """Rows of data combined by index into zeros; places that no index touches are zero."""

    def formula(data: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        shape = [1] * data.ndim
        shape[axis] = -1
        places = indices.long().reshape(shape).expand(data.shape) if indices.ndim == 1 else indices.long()
        to = list(data.shape)
        to[axis] = size
        zeros = torch.zeros(to, dtype=data.dtype)
        if reduce is None:
            return zeros.scatter(axis, places, data)
        return zeros.scatter_reduce(axis, places, data, reduce, include_self=reduce == "sum")

    return formula


def indexing() -> list[Row]:
    """Section 6."""
    k, pairs = integers(6, high=4), integers(3, 2, high=4)
    places = np.argsort(numbers(3, 4, 5), 1)[:, :2].astype(np.int32)
    table, unique = numbers(7, 3), np.array([4, 0, 6], np.int32)
    start, window = np.array([1, 2], np.uint32), numbers(2, 4, 2)

    def updated(x: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        return torch.cat([x[:1], torch.cat([x[1:3, :, :2], u, x[1:3, :, 4:]], 2), x[3:]])

    def out_of_range(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        known = (i >= 0) & (i < x.shape[0])
        return x[i.clip(0, x.shape[0] - 1).long()] * known[:, None]

    def one_hot(i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        on = torch.stack([i == c for c in range(4)], 1)
        return torch.where(on, v[1], v[0])

    return [
        Row("gather", lambda x, i: ops.gather(x, i, 1), [X, k], lambda x, i: x[:, i.long()], ALL),
        Row("gather-two", lambda x, i: ops.gather(x, i, -2), [X, pairs], lambda x, i: x[:, i.long()], ALL),
        Row("gather-scalar", lambda x, i: ops.gather(x, i), [X, np.int32(1)], lambda x, i: x[i.long()], ALL),
        Row(
            "gather-uint32",
            lambda x, i: ops.gather(x, i, 1),
            [X, k.astype(np.uint32)],
            lambda x, i: x[:, i.long()],
            ALL,
        ),
        Row("gather-zero", lambda x, i: ops.gather(x, i, zero_OOR=True), [table, k * 3 - 4], out_of_range, ALL),
        Row("tied_gather", lambda x, i: ops.tied_gather(x, i, 1), [X, k], lambda x, i: x[:, i.long()], ALL),
        Row(
            "groupedgather",
            lambda x, i: ops.groupedgather(x, i, 1, 3),
            [X, pairs],
            grouped(lambda x, i: x[i.long()]),
            ALL,
        ),
        Row("groupedgather-1", ops.groupedgather, [X, pairs % 3], lambda x, i: x[i.long()], ALL),
        Row(
            "scatter",
            lambda x, i, v: ops.scatter(x, i, v, 1),
            [X, places, X[:, :2].copy()],
            lambda x, i, v: x.scatter(1, i.long(), v),
            (0, 2),
        ),
        Row(
            "scatter-rows",
            ops.scatter,
            [table, unique[:, None].repeat(3, 1), -table[:3]],
            lambda x, i, v: x.scatter(0, i.long(), v),
            (0, 2),
        ),
        Row(
            "scatter_reduce-sum",
            lambda d, i: ops.scatter_reduce(d, i, "sum", axis=1, axis_size=5),
            [X, k[:4]],
            scattered("sum", 1, 5),
            ALL,
        ),
        Row(
            "scatter_reduce-max",
            lambda d, i: ops.scatter_reduce(d, i, "max", axis=1, axis_size=5),
            [X, k[:4]],
            scattered("amax", 1, 5),
            ALL,
        ),
        Row(
            "scatter_reduce-min",
            lambda d, i: ops.scatter_reduce(d, i, "min", axis_size=4),
            [table, integers(7, high=3)],
            scattered("amin", 0, 4),
            ALL,
        ),
        Row(
            "scatter_reduce-none",
            lambda d, i: ops.scatter_reduce(d, i, "none", axis_size=9),
            [table, np.array([8, 1, 0, 3, 2, 5, 7], np.int32)],
            scattered(None, 0, 9),
            ALL,
        ),
        Row(
            "scatter_reduce-full",
            lambda d, i: ops.scatter_reduce(d, i, "sum", axis_size=4),
            [table, integers(7, 3, high=4)],
            scattered("sum", 0, 4),
            ALL,
        ),
        Row(
            "scatter_reduce-initial",
            lambda d, i, v: ops.scatter_reduce(d, i, "max", v),
            [table, integers(7, high=3), table[:4] + 0.4],
            lambda d, i, v: v.scatter_reduce(0, i.long()[:, None].expand(7, 3), d, "amax"),
            (0, 2),
        ),
        Row(
            "onehot",
            lambda i, v: ops.onehot(i, popxl.constant(4), v, 1),
            [integers(3, 5, high=6), np.array([0.5, 2], np.float32)],
            one_hot,
            [1],
        ),
        Row(
            "dynamic_slice",
            lambda x, i: ops.dynamic_slice(x, i, [0, 2], [2, 2], True),
            [numbers(4, 4, 5), start],
            lambda x, i: x[1:3, :, 2:4],
            ALL,
        ),
        Row(
            "dynamic_update",
            lambda x, i, u: ops.dynamic_update(x, i, u, [0, 2], [2, 2], True),
            [numbers(4, 4, 5), start, window],
            lambda x, i, u: updated(x, u),
            (0, 2),
        ),
        Row(
            "dynamic_update_",
            lambda x, i, u: ops.dynamic_update_(x, i, u, [0, 2], [2, 2], True),
            [numbers(4, 4, 5), start, window],
            lambda x, i, u: updated(x, u),
        ),
    ]


def products() -> list[Row]:
    """Section 7; float8 is in test_float8.py."""
    shapes = {
        "2d": ((3, 5), (5, 2)),
        "batched": ((4, 3, 5), (5, 2)),
        "both": ((2, 1, 3, 5), (4, 5, 2)),
        "row": ((5,), (5, 2)),
        "column": ((3, 5), (5,)),
        "dot": ((7,), (7,)),
    }
    rows = [
        Row(f"matmul-{name}", ops.matmul, [numbers(*a), numbers(*b) / 2], torch.matmul, BOTH, tolerance=8)
        for name, (a, b) in shapes.items()
    ]
    typed = Row(
        "matmul-output",
        lambda a, b: ops.matmul(a, b, 0.4, popxl.float32, popxl.float32),
        [numbers(3, 5), numbers(5, 2)],
        lambda a, b: a.float() @ b.float(),
        tolerance=8,
    )
    return [*rows, typed]


CONVOLUTION = (None, functional.conv1d, functional.conv2d, functional.conv3d)
TRANSPOSED = (None, functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d)
MAXIMUM = (None, functional.max_pool1d, functional.max_pool2d, functional.max_pool3d)
AVERAGE = (None, functional.avg_pool1d, functional.avg_pool2d, functional.avg_pool3d)


def symmetric(function: Callable[..., Any], image: tuple, kernel: tuple, stride: list, pad: list, **more: Any) -> Row:
    """A convolution with the same padding on both sides."""
    forms = CONVOLUTION if function is ops.conv else TRANSPOSED
    groups, dilation = more.get("groups", 1), more.get("dilation", [1] * len(stride))
    extra = {"output_padding": more["output_padding"]} if "output_padding" in more else {}

    def formula(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return forms[len(stride)](x, w, None, stride, pad, groups=groups, dilation=dilation, **extra)

    def build(x: popxl.Tensor, w: popxl.Tensor) -> popxl.Tensor:
        return function(x, w, stride, [*pad, *pad], dilation, groups, **extra)

    name = f"{function.__name__}-{len(stride)}d-{stride}-{pad}-{groups}-{dilation}-{list(extra)}"
    return Row(name, build, [numbers(*image), numbers(*kernel) / 4], formula, BOTH, tolerance=16)


def padded(build: Build, formula: Build, low: tuple[int, int], high: tuple[int, int]) -> tuple[Build, Build]:
    """The call, and the formula on an image padded as (top, left), (bottom, right)."""
    return build, lambda x, *w: formula(functional.pad(x, (low[1], high[1], low[0], high[0])), *w)


def convolutions() -> list[Row]:
    """Section 8."""
    image, kernel = numbers(1, 2, 7, 6), numbers(3, 2, 3, 3) / 4
    rows = [
        symmetric(ops.conv, (2, 3, 11), (4, 3, 3), [2], [1]),
        symmetric(ops.conv, (2, 4, 9, 8), (6, 2, 3, 2), [2, 1], [1, 0], groups=2),
        symmetric(ops.conv, (1, 2, 9, 8), (3, 2, 2, 3), [1, 2], [0, 2], dilation=[2, 1]),
        symmetric(ops.conv, (1, 2, 4, 5, 6), (3, 2, 2, 3, 2), [1, 2, 1], [0, 1, 1]),
        symmetric(ops.conv_transpose, (2, 3, 6), (3, 4, 3), [2], [1]),
        symmetric(ops.conv_transpose, (2, 4, 5, 4), (4, 3, 3, 2), [2, 1], [1, 0], groups=2),
        symmetric(ops.conv_transpose, (1, 2, 4, 5), (2, 3, 3, 3), [3, 2], [0, 1], output_padding=[2, 1]),
    ]
    same = {
        "same_upper": ((1, 0), (1, 1)),
        "same_lower": ((1, 1), (1, 0)),
        "valid": ((0, 0), (0, 0)),
    }
    for pad_type, (low, high) in same.items():
        build, formula = padded(
            lambda x, w, p=pad_type: ops.conv(x, w, (2, 2), pad_type=p),
            lambda x, w: functional.conv2d(x, w, None, 2),
            low,
            high,
        )
        rows.append(Row(f"conv-{pad_type}", build, [image, kernel], formula, BOTH, tolerance=16))
    for pad_type, crop in {"not_set": (1, 2), "same_lower": (1, 2), "same_upper": (2, 1)}.items():
        rows.append(
            Row(
                f"conv_transpose-shape-{pad_type}",
                lambda x, w, p=pad_type: ops.conv_transpose(x, w, (2, 2), pad_type=p, output_shape=(12, 10)),
                [image, np.ascontiguousarray(kernel[:2])],
                lambda x, w, c=crop: functional.conv_transpose2d(x, w, None, 2)[
                    ..., c[0] : c[0] + 12, c[0] : c[0] + 10
                ],
                tolerance=16,
            )
        )
    rows.append(
        Row(
            "conv_transpose-full-shape",
            lambda x, w: ops.conv_transpose(x, w, (2, 2), output_shape=(1, 2, 12, 10)),
            [image, np.ascontiguousarray(kernel[:2, :2])],
            lambda x, w: functional.conv_transpose2d(x, w, None, 2)[..., 1:13, 1:11],
            tolerance=16,
        )
    )
    return rows + pools()


def pools() -> list[Row]:
    """Pools of section 8."""
    rows = []
    for shape, kernel, stride, pad in (
        ((2, 3, 11), [3], [2], [1]),
        ((2, 3, 9, 8), [3, 2], [2, 1], [1, 0]),
        ((1, 2, 5, 6, 4), [2, 3, 2], [1, 2, 2], [0, 1, 1]),
    ):
        rank = len(kernel)
        for ceil in (False, True):
            arguments = (kernel, stride, [*pad, *pad])
            rows += [
                Row(
                    f"max_pool-{rank}d-{ceil}",
                    lambda x, a=arguments, c=ceil: ops.max_pool(x, *a, ceil_mode=c),
                    [numbers(*shape)],
                    lambda x, k=kernel, s=stride, p=pad, c=ceil: MAXIMUM[len(k)](x, k, s, p, ceil_mode=c),
                    ALL,
                ),
                Row(
                    f"average_pool-{rank}d-{ceil}",
                    lambda x, a=arguments, c=ceil: ops.average_pool(x, *a, ceil_mode=c),
                    [numbers(*shape)],
                    lambda x, k=kernel, s=stride, p=pad, c=ceil: AVERAGE[len(k)](x, k, s, p, c, False),
                    ALL,
                    tolerance=2,
                ),
            ]
    rows += [
        Row(
            "max_pool-defaults",
            lambda x: ops.max_pool(x, (2, 2)),
            [numbers(1, 2, 5, 4)],
            lambda x: functional.max_pool2d(x, 2, 1),
            ALL,
        ),
        Row(
            "max_pool-dilated",
            lambda x: ops.max_pool(x, (2, 3), dilation=(2, 1)),
            [numbers(1, 2, 6, 5)],
            lambda x: functional.max_pool2d(x, (2, 3), 1, dilation=(2, 1)),
        ),
        Row(
            "average_pool-valid",
            lambda x: ops.average_pool(x, (3, 2), (2, 2), auto_pad="valid"),
            [numbers(1, 2, 6, 5)],
            lambda x: functional.avg_pool2d(x, (3, 2), 2),
            ALL,
            tolerance=2,
        ),
        Row(
            "max_pool-same_upper",
            lambda x: ops.max_pool(x, (2, 2), (2, 2), auto_pad="same_upper"),
            [numbers(1, 2, 5, 3)],
            lambda x: functional.max_pool2d(x, 2, 2, ceil_mode=True),
            ALL,
        ),
    ]
    return rows
