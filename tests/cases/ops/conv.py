"""Cases of Conv and ConvTranspose in one to three dimensions."""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from tests.cases.case import Case, floats
from tests.cases.torch_oracle import with_torch

CONV = [None, functional.conv1d, functional.conv2d, functional.conv3d]
TRANSPOSED = [None, functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d]
Sizes = tuple[int, ...]


def conv(attributes: dict[str, Any], rank: int) -> Callable[..., torch.Tensor]:
    """Return the Conv oracle: asymmetric pads by padding the input first."""
    pads = attributes.get("pads", [0] * (2 * rank))
    around = [p for i in reversed(range(rank)) for p in (pads[i], pads[rank + i])]

    def run(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None = None) -> torch.Tensor:
        stride, dilation = attributes.get("strides", [1] * rank), attributes.get("dilations", [1] * rank)
        return CONV[rank](functional.pad(x, around), w, b, stride, 0, dilation, attributes.get("group", 1))

    return run


def transposed(attributes: dict[str, Any], rank: int) -> Callable[..., torch.Tensor]:
    """Return the ConvTranspose oracle with symmetric pads."""
    ones, zeros = [1] * rank, [0] * rank

    def run(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None = None) -> torch.Tensor:
        pads = attributes.get("pads", zeros)[:rank]
        strides, extra = attributes.get("strides", ones), attributes.get("output_padding", zeros)
        return TRANSPOSED[rank](
            x, w, b, strides, pads, extra, attributes.get("group", 1), attributes.get("dilations", ones)
        )

    return run


def case(
    op: str, oracle: Callable[..., Any], name: str, x: Sizes, w: Sizes, bias: int, attributes: dict[str, Any]
) -> Case:
    """Return a case with gradients for all inputs; bias: number of output channels, 0 for none."""
    inputs = [floats(*x), floats(*w, low=-1, high=1), *([floats(bias)] if bias else [])]
    expected = with_torch(oracle(attributes, len(x) - 2))
    # Sums of up to 72 products: float16 results up to about 40 are rounded to 2**-11 of their size.
    return Case(op, inputs, attributes, expected, gradients=list(range(len(inputs))), name=name, tolerance=4)


def conv_case(name: str, x: Sizes, w: Sizes, bias: int = 0, **attributes: Any) -> Case:
    """Return a Conv case."""
    return case("Conv", conv, name, x, w, bias, attributes)


def transposed_case(name: str, x: Sizes, w: Sizes, bias: int = 0, **attributes: Any) -> Case:
    """Return a ConvTranspose case."""
    return case("ConvTranspose", transposed, name, x, w, bias, attributes)


SAMPLE, WEIGHTS = floats(1, 3, 8), floats(4, 3, 3)

CASES = [
    conv_case("1d", (2, 3, 10), (4, 3, 3), 4),
    conv_case("grouped_1d", (2, 4, 11), (6, 2, 3), 6, group=2, strides=[2], pads=[1, 2], dilations=[2]),
    conv_case("2d", (2, 3, 8, 7), (4, 3, 3, 2), 4),
    conv_case("uneven_pads", (2, 4, 9, 8), (6, 2, 3, 3), group=2, strides=[2, 2], pads=[1, 0, 2, 1], dilations=[2, 2]),
    conv_case("depthwise", (1, 6, 5, 5), (6, 1, 3, 3), 6, group=6, pads=[1, 1, 1, 1]),
    conv_case("depthwise_with_multiplier", (2, 3, 6, 5), (6, 1, 3, 2), group=3),
    conv_case("groups_of_two", (1, 18, 6, 7), (18, 2, 3, 3), 18, group=9, pads=[1, 1, 1, 1]),
    conv_case("groups_of_three", (2, 9, 7, 5), (9, 3, 2, 3), group=3, strides=[2, 1], pads=[0, 1, 1, 0]),
    conv_case("groups_of_eight", (1, 16, 5, 6), (16, 8, 3, 3), 16, group=2, dilations=[1, 2], pads=[1, 1, 1, 1]),
    conv_case("groups_with_more_outputs", (1, 6, 9), (12, 2, 3), 12, group=3, strides=[2], pads=[2, 0]),
    conv_case("pointwise", (2, 5, 4, 3), (7, 5, 1, 1), 7),
    conv_case("strided_pointwise", (2, 5, 7, 6), (3, 5, 1, 1), strides=[2, 3]),
    conv_case("uneven_strides", (1, 2, 11, 9), (3, 2, 3, 2), strides=[3, 1], dilations=[1, 3], pads=[0, 2, 1, 0]),
    conv_case("3d", (1, 2, 5, 6, 4), (3, 2, 2, 3, 2), 3, strides=[2, 2, 2], pads=[1, 0, 1, 0, 1, 1]),
    conv_case("whole_input", (2, 3, 4, 4), (5, 3, 4, 4), 5),
    transposed_case("groups_of_few", (1, 8, 4, 5), (8, 2, 3, 2), 8, group=4, strides=[2, 1], pads=[1, 0, 1, 0]),
    transposed_case("1d", (2, 3, 5), (3, 4, 3), 4),
    transposed_case(
        "grouped", (2, 4, 5, 4), (4, 3, 3, 3), 6, group=2, strides=[2, 2], pads=[1] * 4, output_padding=[1, 1]
    ),
    transposed_case("stride_of_kernel", (2, 5, 3, 17), (5, 7, 2, 2), 7, strides=[2, 2]),
    transposed_case("stride_of_kernel_1d", (1, 3, 16), (3, 40, 3), 40, strides=[3]),
    transposed_case("stride_of_kernel_behind_it", (1, 4, 3, 4), (4, 3, 2, 3), strides=[2, 3], output_padding=[1, 2]),
    transposed_case("stride_of_half_the_kernel", (2, 3, 4, 5), (3, 6, 4, 2), 6, strides=[2, 1]),
    transposed_case("dilated", (2, 4, 5, 4), (4, 3, 3, 3), strides=[2, 2], dilations=[2, 2], pads=[1, 2, 1, 2]),
    transposed_case("3d", (1, 2, 3, 3, 3), (2, 2, 2, 2, 2), 2, strides=[2, 2, 2]),
    Case("Conv", [SAMPLE, floats(4, 2, 3)], refuses="channels must equal weight dimension 1 times group"),
    Case("Conv", [SAMPLE, WEIGHTS], {"group": 0}, refuses="group must be at least 1"),
    Case("Conv", [floats(1, 3, 2), WEIGHTS], refuses="the kernel does not fit"),
    Case("Conv", [SAMPLE, WEIGHTS], {"strides": [0]}, refuses="strides must be at least 1"),
    Case("Conv", [SAMPLE, WEIGHTS, floats(3)], refuses="one value per output channel"),
    Case("Conv", [floats(3, 8), floats(4, 3)], refuses="(N, C, spatial"),
    Case("ConvTranspose", [SAMPLE, floats(4, 2, 3)], refuses="channels must equal weight dimension 0"),
]
