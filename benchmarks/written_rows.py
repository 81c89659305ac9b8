"""Operators that PyTorch's exporter writes as others: each is an ONNX node, with a PyTorch function to compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from op_rows import EXPORTED, FLAT, IMAGE, ROWS_OF, Node, Row, Shapes, classes, on
from torch.nn import functional as F

Function = Callable[..., torch.Tensor] | None
Operands = Callable[[str], list[torch.Tensor]]
Attributes = Callable[[str], dict[str, Any]]
COUNT = {"small": 4, "cache": 128, "memory": 4096}  # rows that are picked
BOXES = {"small": 4, "cache": 32, "memory": 256}
LETTERS = "abcdefgh"


def written(
    name: str,
    function: Function,
    operands: Operands,
    attributes: dict[str, Any] | Attributes | None = None,
    trains: bool = True,
    domain: str = "",
    constants: dict[str, np.ndarray] | None = None,
    **more: Any,
) -> Row:
    """A node of the operands and then the constants."""

    def node(size: str) -> Node:
        letters = LETTERS[: len(operands(size))]
        found = attributes(size) if callable(attributes) else attributes or {}
        return Node(name, " ".join([*letters, *(constants or {})]), "output", found, domain)

    make = lambda size: (function, operands(size))  # noqa: E731
    return Row(name, (name,), make, trains, node=node, constants=constants or {}, **more)


def graphcore(name: str, function: Function, operands: Operands, attributes: Any = None, trains: bool = True) -> Row:
    """An operator of ai.graphcore."""
    return written(name, function, operands, attributes, trains, "ai.graphcore")


def floats(shapes: Shapes, low: float = -2.0, high: float = 2.0, count: int = 1) -> Operands:
    """Operands of these shapes, spread over [low, high)."""
    return lambda size: on(shapes, None, low, high, count)(size)[1]


def whole(shapes: Shapes, count: int) -> Operands:
    """Operands of integers."""
    return lambda size: [torch.randint(1 << 20, shapes[size], dtype=torch.int32) for _ in range(count)]


def shifted_bytes(size: str) -> list[torch.Tensor]:
    """Bytes, and by how many bits each is shifted."""
    return [torch.randint(high, FLAT[size], dtype=torch.uint8) for high in (256, 8)]


def matrix_and(*more: Callable[[int, int, int], torch.Tensor]) -> Operands:
    """A matrix, and operands made from its rows, its columns and the number of rows that are picked."""
    return lambda size: [torch.randn(ROWS_OF[size]), *(make(*ROWS_OF[size], COUNT[size]) for make in more)]


def one(rows: int, width: int, count: int) -> torch.Tensor:
    """The row at which a window begins."""
    return torch.ones(1, dtype=torch.int32)


def half(rows: int, width: int, count: int) -> torch.Tensor:
    """The values for a window of half of the rows."""
    return torch.randn(rows // 2, width)


def half_of_rows(size: str) -> dict[str, Any]:
    """The window's attributes."""
    return {"axes": [0], "sizes": [ROWS_OF[size][0] // 2]}


def placed(x: torch.Tensor, window: torch.Tensor) -> torch.Tensor:
    """The matrix with other rows in its window."""
    return torch.cat([x[:1], window, x[1 + len(window) :]])


def own(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A copy of a view, as the other implementations return one."""
    return lambda *operands: function(*operands).clone()


def space_to_depth(x: torch.Tensor) -> torch.Tensor:
    """Blocks of two by two before the channels, as in ONNX."""
    n, c, h, w = x.shape
    return x.view(n, c, h // 2, 2, w // 2, 2).permute(0, 3, 5, 1, 2, 4).reshape(n, 4 * c, h // 2, w // 2)


def boxes(size: str) -> list[torch.Tensor]:
    """Maps of features, boxes in them, and the map of each box."""
    maps, side = torch.randn(IMAGE[size]), IMAGE[size][-1]
    corners = torch.sort(torch.rand(BOXES[size], 2, 2) * side, 1).values.reshape(-1, 4)
    return [maps, corners, torch.randint(len(maps), (BOXES[size],))]


def boxes_with_maps(size: str) -> list[torch.Tensor]:
    """Maps of features, and boxes after the number of their map."""
    maps, corners, of = boxes(size)
    return [maps, torch.cat([of[:, None].float(), corners], 1)]


def roi_align(x: torch.Tensor, corners: torch.Tensor, of: torch.Tensor) -> torch.Tensor:
    """Seven by seven means for each box."""
    from torchvision.ops import roi_align

    return roi_align(x, torch.cat([of[:, None].float(), corners], 1), 7, 1.0, 2, True)


def alignments(size: str) -> list[torch.Tensor]:
    """Log probabilities (time, batch, classes), labels, and the lengths of both."""
    time, batch, count, labels = {"small": (16, 2, 8, 4), "cache": (64, 8, 32, 16), "memory": (256, 32, 64, 32)}[size]
    targets = torch.randint(1, count, (batch, labels), dtype=torch.int32)
    lengths = [torch.full((batch,), n, dtype=torch.int32) for n in (time, labels)]
    return [torch.log_softmax(torch.randn(time, batch, count), 2), targets, *lengths]


def ctc(scores: torch.Tensor, targets: torch.Tensor, times: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """The loss of each sample."""
    return F.ctc_loss(scores, targets.long(), times.long(), lengths.long(), reduction="none")


def probabilities(size: str) -> list[torch.Tensor]:
    """Probabilities of classes, and labels."""
    scores, labels = classes(size)[1]
    return [torch.softmax(scores, 1), labels]


def groups(size: str) -> list[torch.Tensor]:
    """Four tables, and the rows that are picked of each."""
    rows, width = ROWS_OF[size]
    return [torch.randn(4, rows // 4, width), torch.randint(rows // 4, (4, COUNT[size] // 4), dtype=torch.int32)]


ELEMENTS = [
    *(
        written(n, f, floats(FLAT, count=2), trains=False)
        for n, f in (("GreaterOrEqual", torch.ge), ("LessOrEqual", torch.le))
    ),
    *(
        written(f"Bitwise{n}", f, whole(FLAT, 2), trains=False)
        for n, f in (("And", torch.bitwise_and), ("Or", torch.bitwise_or), ("Xor", torch.bitwise_xor))
    ),
    written("BitwiseNot", torch.bitwise_not, whole(FLAT, 1), trains=False),
    graphcore("BitwiseXnor", lambda x, y: ~(x ^ y), whole(FLAT, 2), trains=False),
    written("BitShift", torch.bitwise_left_shift, shifted_bytes, {"direction": "LEFT"}, trains=False),
    written("Shrink", lambda x: F.hardshrink(x, 0.5), floats(FLAT), {"lambd": 0.5, "bias": 0.0}),
    written("ThresholdedRelu", lambda x: F.threshold(x, 0.5, 0.0), floats(FLAT), {"alpha": 0.5}),
    written("Sum", lambda x, y, z: x + y + z, floats(FLAT, count=3)),
    written("Mean", lambda x, y, z: (x + y + z) / 3, floats(FLAT, count=3)),
    *(
        graphcore(n, f, floats(FLAT, 0.5, count=2))
        for n, f in (("Atan2", torch.atan2), ("Fmod", torch.fmod), ("Remainder", torch.remainder))
    ),
    *(graphcore(n, f, floats(FLAT, -0.9)) for n, f in (("Expm1", torch.expm1), ("Log1p", torch.log1p))),
    graphcore("NearbyInt", torch.round, floats(FLAT, -9.0, 9.0), trains=False),
    graphcore("GeluErf", F.gelu, floats(FLAT)),
    graphcore("Scale", lambda x: x * 0.75, floats(FLAT), {"scale": 0.75}),
    graphcore(
        "ScaledAdd", lambda x, y: 0.5 * x + 2.0 * y, floats(FLAT, count=2), {"scale0": 0.5, "scale1": 2.0}
    ),
    # Counts: for other numbers PyTorch rounds the sum, which may then equal the modulus.
    graphcore(
        "IncrementMod", lambda x: torch.fmod(x + 1, 3), lambda size: [torch.randint(3, FLAT[size]).float()],
        {"increment": 1.0, "modulus": 3.0}, trains=False,
    ),
    graphcore("L1", lambda x: 0.5 * x.abs().mean(), floats(FLAT), {"lambda": 0.5, "reduction": 1}),
    graphcore("IdentityLoss", torch.mean, floats(FLAT), {"reduction": 1}),
    graphcore("Nop", own(lambda x: x), floats(ROWS_OF)),
    graphcore("Detach", own(lambda x: x), floats(ROWS_OF), trains=False),
]  # fmt: skip
BY_ROW = [
    written("Hardmax", lambda x: F.one_hot(x.argmax(1), x.shape[1]).float(), floats(ROWS_OF), {"axis": 1}, False),
    written(
        "ReduceLogSum", lambda x: torch.log(x.sum(1)), floats(ROWS_OF, 0.5), {"keepdims": 0},
        constants={"axes": np.array([1])},
    ),
    Row("Sort", ("Sort",), on(ROWS_OF, lambda x: torch.sort(x, 1).values), trains=False),
    graphcore(
        "ReduceMedian", lambda x: torch.median(x, 1).values, floats(ROWS_OF), {"axes": [1], "keepdims": 0}, False
    ),
    graphcore(
        "Bucketize", torch.bucketize, lambda size: [torch.randn(ROWS_OF[size]), torch.linspace(-2, 2, 64)],
        trains=False,
    ),
    written(
        "RMSNormalization", lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-5),
        lambda size: [torch.randn(ROWS_OF[size]), torch.rand(ROWS_OF[size][1]) + 0.5], {"axis": -1, "epsilon": 1e-5},
        weights=True, opset=23,
    ),
    Row(
        "NegativeLogLikelihoodLoss", ("NegativeLogLikelihoodLoss",),
        lambda size: (lambda x, y: F.nll_loss(x, y, reduction="none"), classes(size)[1]),
    ),
    graphcore("Nll", lambda x, y: F.nll_loss(torch.log(x), y, reduction="none"), probabilities, {"reduction": 2}),
    # PyTorch's gradient is that of the scores before a log softmax.
    graphcore("Ctc", ctc, alignments, {"reduction": 2}, trains=False),
]  # fmt: skip
OF_IMAGES = [
    written("GlobalMaxPool", lambda x: torch.amax(x, (2, 3), keepdim=True), floats(IMAGE)),
    written(
        "GlobalLpPool", lambda x: torch.linalg.vector_norm(x, 2, (2, 3), keepdim=True), floats(IMAGE, 0.5), {"p": 2}
    ),
    written(
        "LpPool", lambda x: F.lp_pool2d(x, 2, 2, 2), floats(IMAGE, 0.5),
        {"p": 2, "kernel_shape": [2, 2], "strides": [2, 2]},
    ),
    written("SpaceToDepth", space_to_depth, floats(IMAGE), {"blocksize": 2}),
    written("RoiAlign", roi_align, boxes, {"output_height": 7, "output_width": 7, "sampling_ratio": 2}, False),
    written("MaxRoiPool", None, boxes_with_maps, {"pooled_shape": [7, 7]}, False),
]  # fmt: skip
PLACES = [
    written("Identity", own(lambda x: x), floats(ROWS_OF)),
    written("Reshape", own(lambda x: x.reshape(-1)), floats(ROWS_OF), constants={"shape": np.array([-1])}),
    written(
        "Squeeze", own(lambda x: x[0]), lambda size: [torch.randn(1, *ROWS_OF[size])], constants={"axes": np.array([0])}
    ),
    written("Unsqueeze", own(lambda x: x[None]), floats(ROWS_OF), constants={"axes": np.array([0])}),
    written(
        "GatherND", lambda x, i: x[i[:, 0], i[:, 1]],
        matrix_and(lambda rows, width, n: torch.stack([torch.randint(rows, (n,)), torch.randint(width, (n,))], 1)),
    ),
    written(
        "ScatterND", lambda x, i, y: x.index_put((i[:, 0],), y),
        matrix_and(
            lambda rows, width, n: torch.randperm(rows)[:n, None], lambda rows, width, n: torch.randn(n, width)
        ),
    ),
    written(
        "Scatter", lambda x, i, y: x.scatter(0, i, y),
        matrix_and(
            lambda rows, width, n: torch.argsort(torch.rand(rows, width), 0)[:n],
            lambda rows, width, n: torch.randn(min(rows, n), width),
        ),
        {"axis": 0}, opset=10,
    ),
    written(
        "OneHot", lambda i: F.one_hot(i, 64).float(), lambda size: [torch.randint(64, (ROWS_OF[size][0] * 4,))],
        trains=False, constants={"depth": np.array(64), "values": np.array([0, 1], np.float32)},
    ),
    graphcore("Reverse", lambda x: x.flip(0), floats(ROWS_OF), {"dimensions": [0]}),
    graphcore("Subsample", own(lambda x: x[::2, ::2]), floats(ROWS_OF), {"strides": [2, 2]}),
    graphcore(
        "GroupedGather", lambda x, i: torch.stack([table[rows] for table, rows in zip(x, i, strict=True)]), groups,
        {"axis": 1, "group_size": 4},
    ),
    graphcore(
        "ScatterReduce", lambda x, i: torch.zeros_like(x).index_add(0, i[:, 0], x),
        matrix_and(lambda rows, width, n: torch.randint(rows, (rows, 1), dtype=torch.int32)),
        lambda size: {"axis_size": ROWS_OF[size][0], "axis": 0, "reduction": 0},
    ),
    graphcore("DynamicSlice", own(lambda x, i: x[1 : 1 + len(x) // 2]), matrix_and(one), half_of_rows),
    graphcore("DynamicUpdate", lambda x, i, y: placed(x, y), matrix_and(one, half), half_of_rows),
    graphcore("DynamicAdd", lambda x, i, y: placed(x, x[1 : 1 + len(y)] + y), matrix_and(one, half), half_of_rows),
    graphcore(
        "DynamicZero", lambda x, i: placed(x, torch.zeros(len(x) // 2, x.shape[1])), matrix_and(one), half_of_rows
    ),
]  # fmt: skip
ROWS = [*EXPORTED, *ELEMENTS, *BY_ROW, *OF_IMAGES, *PLACES]
