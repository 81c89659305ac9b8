"""Cases of pooling over windows and over all spatial dimensions."""

from typing import Any

import numpy as np
from torch.nn import functional

from tests.cases.case import Case, floats, ints
from tests.cases.torch_oracle import with_torch

MAX = [None, functional.max_pool1d, functional.max_pool2d, functional.max_pool3d]
AVERAGE = [None, functional.avg_pool1d, functional.avg_pool2d, functional.avg_pool3d]
IMAGE = floats(2, 3, 4, 5)
Sizes = list[int]


def max_case(name: str, shape: tuple[int, ...], kernel: Sizes, stride: Sizes, pad: Sizes, **more: Any) -> Case:
    """Return a MaxPool case with symmetric pads."""
    attributes = {"kernel_shape": kernel, "strides": stride, "pads": pad + pad, **more}
    dilation, ceil = more.get("dilations", 1), bool(more.get("ceil_mode", 0))
    oracle = with_torch(lambda x: MAX[len(kernel)](x, kernel, stride, pad, dilation, ceil))
    return Case("MaxPool", [floats(*shape)], attributes, oracle, gradients=[0], name=name)


def average_case(name: str, shape: tuple[int, ...], kernel: Sizes, stride: Sizes, pad: Sizes, **more: Any) -> Case:
    """Return an AveragePool case with symmetric pads."""
    attributes = {"kernel_shape": kernel, "strides": stride, "pads": pad + pad, **more}
    ceil, counts = bool(more.get("ceil_mode", 0)), bool(more.get("count_include_pad", 0))
    oracle = with_torch(lambda x: AVERAGE[len(kernel)](x, kernel, stride, pad, ceil, counts))
    return Case("AveragePool", [floats(*shape)], attributes, oracle, gradients=[0], name=name)


def lp_case(p: int, shape: tuple[int, ...], kernel: Sizes, stride: Sizes, name: str = "") -> Case:
    """Return an LpPool case without pads."""
    count = int(np.prod(kernel))
    oracle = with_torch(lambda x: (AVERAGE[len(kernel)](x.abs() ** p, kernel, stride) * count) ** (1 / p))
    attributes = {"kernel_shape": kernel, "strides": stride, "p": p}
    return Case("LpPool", [floats(*shape)], attributes, oracle, gradients=[0], name=name or f"p{p}")


def max_with_positions(x):
    """Return 2 x 2 maxima and their flat positions in the whole input."""
    values, positions = with_torch(lambda t: functional.max_pool2d(t, 2, 2, return_indices=True))(x)
    planes = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], 1, 1)
    return values, positions + planes * (x.shape[2] * x.shape[3])


def global_norm_case(p: int) -> Case:
    """Return a GlobalLpPool case."""
    oracle = lambda x: (np.abs(x) ** p).sum((2, 3), keepdims=True) ** (1 / p)  # noqa: E731
    return Case("GlobalLpPool", [IMAGE], {"p": p}, oracle, gradients=[0], name=f"p{p}")


CASES = [
    max_case("2d", (2, 3, 8, 7), [3, 2], [2, 2], [1, 0]),
    max_case("overlapping", (2, 3, 8, 7), [3, 3], [1, 1], [1, 1]),
    max_case("ceil_mode", (2, 3, 8, 7), [3, 2], [2, 2], [1, 0], ceil_mode=1),
    max_case("dilated", (2, 3, 12), [3], [2], [1], dilations=[2]),
    max_case("dilated_ceil_mode", (2, 3, 13), [3], [2], [1], dilations=[2], ceil_mode=1),
    max_case("3d", (1, 2, 5, 6, 4), [2, 3, 2], [2, 1, 2], [0, 1, 0]),
    Case("MaxPool", [floats(2, 3, 6, 4)], {"kernel_shape": [2, 2], "strides": [2, 2]}, max_with_positions, outputs=2),
    *[
        average_case(f"ceil{c}_count{n}", (2, 3, 8, 7), [3, 2], [2, 3], [1, 1], ceil_mode=c, count_include_pad=n)
        for c in (0, 1)
        for n in (0, 1)
    ],
    *[
        Case(
            "MaxPool",
            [floats(2, 5, 13, 11)],
            {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1], "storage_order": order},
            outputs=2,
        )
        for order in (0, 1)
    ],
    *[
        Case("MaxPool", [ints(2, 3, 9, low=0, high=100, dtype=dtype)], {"kernel_shape": [3], "pads": [1, 1]})
        for dtype in ("int8", "uint8")
    ],
    Case("LpPool", [floats(3, 17, 12, 14)], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "p": 1}, gradients=[0]),
    average_case("1d", (2, 3, 9), [4], [1], [0]),
    average_case("3d", (1, 2, 5, 6, 4), [2, 3, 2], [2, 1, 2], [1, 1, 0], count_include_pad=1),
    lp_case(2, (2, 3, 6, 6), [2, 2], [2, 2]),
    lp_case(3, (2, 3, 6), [3], [1]),
    Case("GlobalAveragePool", [IMAGE], expected=lambda x: x.mean((2, 3), keepdims=True), gradients=[0]),
    Case("GlobalAveragePool", [floats(2, 3, 4)], expected=lambda x: x.mean(2, keepdims=True), gradients=[0]),
    Case("GlobalMaxPool", [IMAGE], expected=lambda x: x.max((2, 3), keepdims=True), gradients=[0]),
    *[global_norm_case(p) for p in (1, 2, 3, 4)],
    max_case("whole_planes", (2, 3, 4, 5), [4, 5], [1, 1], [0, 0]),
    max_case("whole_padded_planes", (2, 3, 4, 5), [5, 7], [3, 4], [1, 2]),
    average_case("whole_planes", (2, 3, 4, 5), [4, 5], [1, 1], [0, 0]),
    average_case("whole_padded_planes", (2, 3, 4, 5), [5, 7], [3, 4], [1, 2], count_include_pad=1),
    lp_case(2, (2, 3, 4, 5), [4, 5], [1, 1], "p2_of_planes"),
    Case("MaxPool", [floats(2, 3)], {"kernel_shape": [2]}, refuses="(N, C, spatial"),
    Case("MaxPool", [floats(2, 3, 4)], {"kernel_shape": [2, 2]}, refuses="wrong number of entries"),
    Case("AveragePool", [floats(2, 3, 4)], {"kernel_shape": [5]}, refuses="the kernel does not fit"),
    Case("AveragePool", [floats(2, 3, 4)], {"kernel_shape": [2], "auto_pad": "FULL"}, refuses="unknown auto_pad"),
]
