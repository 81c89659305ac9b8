"""Operators of the benchmark (./dev bench --ops): each as a PyTorch function of tensors or an ONNX model, in sizes.

Sizes: ``small`` (about a thousand numbers), ``cache`` (about a megabyte), ``memory`` (tens of megabytes); recurrent
operators and attention have three other shapes instead. `Row.types` are the ONNX operators that a row represents;
WITHOUT_ROW says why other operators have none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

SIZES = ("small", "cache", "memory")
FLAT = {"small": (1024,), "cache": (512, 512), "memory": (4096, 2048)}
ROWS_OF = {"small": (8, 128), "cache": (256, 1024), "memory": (8192, 1024)}
IMAGE = {"small": (1, 16, 8, 8), "cache": (1, 64, 56, 56), "memory": (16, 64, 112, 112)}
Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Node:
    """A node of a model.

    Attributes:
        type: Operator.
        inputs: Names separated by spaces.
        output: Name.
        attributes: Attributes by name.
        domain: "" for ai.onnx.
    """

    type: str
    inputs: str
    output: str
    attributes: dict[str, Any]
    domain: str = ""


@dataclass(frozen=True)
class Row:
    """One operator.

    Attributes:
        name: The printed name.
        types: ONNX operators that it represents.
        make: From the size to (function, operands). Operands that are floats are weights in training. None: see model.
            Without a function PyTorch is not measured.
        trains: Whether a training step is measured.
        weights: Whether operands after the first are weights, which stay the same from call to call.
        model: From the size to the bytes of a model with the result "output", and its inputs.
        node: From the size to the node that makes "output" of the operands "a", "b", … and of the constants; used if
            PyTorch's exporter writes other nodes. Operators of ai.graphcore run in no other implementation than
            PyTorch.
        constants: Inputs of the node that are no operands.
        opset: Operator set of the model with the node.
    """

    name: str
    types: tuple[str, ...]
    make: Callable[[str], tuple[Callable[..., torch.Tensor] | None, list[torch.Tensor]]] | None
    trains: bool = True
    weights: bool = False
    model: Callable[[str], tuple[bytes, dict[str, np.ndarray]]] | None = None
    node: Callable[[str], Node] | None = None
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    opset: int = 20


def on(shapes: Shapes, function: Callable[..., Any], low: float = -2.0, high: float = 2.0, operands: int = 1) -> Any:
    """Maker of `function` with operands of these shapes, spread over [low, high)."""
    return lambda size: (function, [torch.rand(shapes[size]) * (high - low) + low for _ in range(operands)])


def unary(name: str, function: Callable[..., Any], low: float = -2.0, high: float = 2.0, trains: bool = True) -> Row:
    """An element-wise function of one operand."""
    return Row(name, (name,), on(FLAT, function, low, high), trains)


def binary(name: str, function: Callable[..., Any], low: float = -2.0, trains: bool = True) -> Row:
    """An element-wise function of two operands."""
    return Row(name, (name,), on(FLAT, function, low, operands=2), trains)


def number(value: torch.Tensor) -> torch.Tensor:
    """Booleans and integers as floats, so that results can be compared."""
    return value.float()


def conv(
    name: str, channels: int, out: int, window: int, stride: int = 1, groups: int = 1, transposed: bool = False
) -> Row:
    """A convolution with bias."""
    pixels = {"small": (1, 14), "cache": (1, 28), "memory": (16, 56)}

    def make(size: str) -> tuple[Callable[..., torch.Tensor], list[torch.Tensor]]:
        batch, side = pixels[size]
        shape = (channels, out, window, window) if transposed else (out, channels // groups, window, window)
        function = F.conv_transpose2d if transposed else F.conv2d
        settings = {"stride": stride, "padding": window // 2, "groups": groups}
        operands = [torch.randn(batch, channels, side, side), torch.randn(shape) * 0.1, torch.randn(out)]
        return lambda x, w, b: function(x, w, b, **settings), operands

    return Row(name, ("ConvTranspose" if transposed else "Conv",), make, weights=True)


class Recurrent(nn.Module):
    """The sequence of states of recurrent layers."""

    def __init__(self, kind: type[nn.RNNBase], width: int, both: bool = False, layers: int = 1) -> None:
        super().__init__()
        self.layer = kind(width, width, num_layers=layers, batch_first=False, bidirectional=both)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply the module."""
        return self.layer(x)[0]


# sequence, batch, width: a stream of one, a batch, a long one
RECURRENT = {"small": (16, 1, 64), "cache": (64, 16, 128), "memory": (256, 8, 256)}


def recurrent(name: str, kind: type[nn.RNNBase], both: bool = False, layers: int = 1) -> Row:
    """A recurrent operator in its three shapes, with its weights."""

    def make(size: str) -> tuple[Callable[..., torch.Tensor], list[torch.Tensor]]:
        layer = Recurrent(kind, RECURRENT[size][2], both, layers)
        return layer, [torch.randn(RECURRENT[size])]

    return Row(name, (name.split()[0],), make)


# batch, heads, queries, keys, width of a head: short, encoder, long
ATTENTION = {"small": (1, 4, 16, 16, 32), "cache": (4, 12, 128, 128, 64), "memory": (1, 8, 1024, 1024, 64)}


def attention(causal: bool) -> Row:
    """Attention in its three shapes."""

    def make(size: str) -> tuple[Callable[..., torch.Tensor], list[torch.Tensor]]:
        batch, heads, queries, keys, width = ATTENTION[size]
        operands = [torch.randn(batch, heads, n, width) for n in (queries, keys, keys)]
        return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal), operands

    return Row("Attention causal" if causal else "Attention", ("Attention",), make)


def product(name: str, function: Callable[..., torch.Tensor], shapes: dict[str, list[tuple[int, ...]]]) -> Row:
    """A function of operands of given shapes."""
    make = lambda size: (function, [torch.randn(s) * 0.1 for s in shapes[size]])  # noqa: E731
    return Row(name, (name.split()[0],), make, weights=shapes is not BATCHED)


def picked(name: str, function: Callable[..., torch.Tensor], types: tuple[str, ...] = ()) -> Row:
    """A function of rows and row numbers."""

    def make(size: str) -> tuple[Callable[..., torch.Tensor], list[torch.Tensor]]:
        rows, width = ROWS_OF[size]
        return function, [torch.randn(rows, width), torch.randint(rows, (rows,))]

    return Row(name, types or (name,), make)


MATMUL = {
    "small": [(8, 64), (64, 64)],
    "cache": [(128, 768), (768, 768)],
    "memory": [(1024, 2048), (2048, 2048)],
}
VECTOR = {"small": [(1, 64), (64, 64)], "cache": [(1, 512), (512, 512)], "memory": [(1, 4096), (4096, 4096)]}
BATCHED = {
    "small": [(4, 16, 16), (4, 16, 16)],
    "cache": [(12, 128, 64), (12, 64, 128)],
    "memory": [(96, 128, 64), (96, 64, 128)],
}


def classes(size: str) -> tuple[Callable[..., torch.Tensor], list[torch.Tensor]]:
    """Cross entropy over the last axis."""
    rows, count = {"small": (8, 10), "cache": (256, 1000), "memory": (1024, 8192)}[size]
    return lambda x, y: F.cross_entropy(x, y, reduction="none"), [
        torch.randn(rows, count),
        torch.randint(count, (rows,)),
    ]


def norm(name: str, function: Callable[..., torch.Tensor], rank: int = 2) -> Row:
    """A normalisation with scale and shift."""
    shapes = ROWS_OF if rank == 2 else IMAGE

    def make(size: str) -> tuple[Callable[..., torch.Tensor], list[torch.Tensor]]:
        shape = shapes[size]
        width = shape[-1] if rank == 2 else shape[1]
        return function, [torch.randn(shape), torch.rand(width) + 0.5, torch.randn(width)]

    return Row(name, (name.split()[0],), make, weights=True)


def quantised(
    name: str, types: tuple[str, ...], nodes: list[tuple[str, str, str]], weights: Shapes, x: Shapes, **attributes: Any
) -> Row:
    """Operators on 8-bit integers: nodes as (operator, inputs, outputs) of UINT8 `x` and constant INT8 `w`.

    Scales are powers of two, so that every implementation rounds the same numbers. Constants that nodes may name:
    scales "s", "small" and "tiny", zero points "x0" and "w0", and "bias". An input "float" is `x`
    before it is quantised.
    """
    from onnx import TensorProto, helper, numpy_helper

    def make(size: str) -> tuple[bytes, dict[str, np.ndarray]]:
        rng = np.random.default_rng(7)
        constants = {
            "w": rng.integers(-127, 128, weights[size]).astype(np.int8), "s": np.float32(2**-5),
            "small": np.float32(2**-6), "tiny": np.float32(2**-9), "x0": np.uint8(120), "w0": np.int8(0),
            "bias": rng.integers(-9999, 9999, weights[size][0]).astype(np.int32),
        }  # fmt: skip
        used = {word for _, inputs, _ in nodes for word in inputs.split()}
        given = "float" if "float" in used else "x"
        feed = rng.standard_normal(x[size]).astype(np.float32) if given == "float" else None
        feed = rng.integers(0, 256, x[size]).astype(np.uint8) if feed is None else feed
        kind = TensorProto.FLOAT if given == "float" else TensorProto.UINT8
        extra = {
            t: attributes if "Conv" in t else {"to": TensorProto.FLOAT} if t == "Cast" else {} for t, _, _ in nodes
        }
        result = {"MatMulInteger": TensorProto.INT32, "ConvInteger": TensorProto.INT32}
        result |= {"Mul": TensorProto.FLOAT, "DequantizeLinear": TensorProto.FLOAT}
        graph = helper.make_graph(
            [helper.make_node(t, inputs.split(), outputs.split(), **extra[t]) for t, inputs, outputs in nodes],
            "rows",
            [helper.make_tensor_value_info(given, kind, x[size])],
            [helper.make_tensor_value_info("output", result.get(nodes[-1][0], TensorProto.UINT8), None)],
            [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items() if n in used],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        return model.SerializeToString(), {given: feed}

    return Row(name, types, None, trains=False, model=make)


UNARY = [
    *(unary(n, f) for n, f in (("Abs", torch.abs), ("Neg", torch.neg), ("Exp", torch.exp), ("Sin", torch.sin))),
    *(
        unary(n, f)
        for n, f in (("Cos", torch.cos), ("Tanh", torch.tanh), ("Sigmoid", torch.sigmoid), ("Erf", torch.erf))
    ),
    *(unary(n, f) for n, f in (("Relu", F.relu), ("LeakyRelu", F.leaky_relu), ("Elu", F.elu), ("Selu", F.selu))),
    *(unary(n, f) for n, f in (("Celu", F.celu), ("Softplus", F.softplus), ("Softsign", F.softsign), ("Gelu", F.gelu))),
    *(unary(n, f) for n, f in (("HardSigmoid", F.hardsigmoid), ("HardSwish", F.hardswish), ("Mish", F.mish))),
    unary("Swish", F.silu),
    *(unary(n, f, -0.9, 0.9) for n, f in (("Asin", torch.asin), ("Acos", torch.acos), ("Atanh", torch.atanh))),
    *(
        unary(n, f)
        for n, f in (("Atan", torch.atan), ("Sinh", torch.sinh), ("Cosh", torch.cosh), ("Asinh", torch.asinh))
    ),
    *(unary(n, f, 1.1, 3.0) for n, f in (("Acosh", torch.acosh), ("Log", torch.log), ("Sqrt", torch.sqrt))),
    unary("Tan", torch.tan, -1.0, 1.0),
    unary("Reciprocal", torch.reciprocal, 0.5, 2.0),
    unary("Clip", lambda x: torch.clamp(x, -1.0, 1.0)),
    *(unary(n, f, trains=False) for n, f in (("Ceil", torch.ceil), ("Floor", torch.floor), ("Round", torch.round))),
    unary("Sign", torch.sign, trains=False),
    unary("Not", lambda x: number(~(x > 0)), trains=False),
    unary("IsNaN", lambda x: number(torch.isnan(x)), trains=False),
    unary("IsInf", lambda x: number(torch.isinf(x)), trains=False),
    unary("Cast", lambda x: x.half().float(), trains=False),
]
BINARY = [
    *(binary(n, f) for n, f in (("Add", torch.add), ("Sub", torch.sub), ("Mul", torch.mul), ("Max", torch.maximum))),
    *(binary(n, f, 0.5) for n, f in (("Div", torch.div), ("Pow", torch.pow))),
    binary("Min", torch.minimum),
    *(
        binary(n, lambda x, y, f=f: number(f(x, y)), trains=False)
        for n, f in (("Less", torch.lt), ("Greater", torch.gt))
    ),
    binary("Equal", lambda x, y: number(x == y), trains=False),
    binary("And", lambda x, y: number((x > 0) & (y > 0)), trains=False),
    binary("Or", lambda x, y: number((x > 0) | (y > 0)), trains=False),
    binary("Xor", lambda x, y: number((x > 0) ^ (y > 0)), trains=False),
    binary("Mod", lambda x, y: torch.fmod(x, y), 0.5, trains=False),
    binary("Where", lambda x, y: torch.where(x > 0, x, y)),
    Row("Add broadcast", ("Add",), lambda s: (torch.add, [torch.randn(ROWS_OF[s]), torch.randn(ROWS_OF[s][1])])),
    Row("PRelu", ("PRelu",), lambda s: (F.prelu, [torch.randn(IMAGE[s]), torch.rand(IMAGE[s][1])])),
]
REDUCTIONS = [
    *(
        Row(name, (name.split()[0],), on(ROWS_OF, lambda x, f=f, a=axis: f(x, a), low))
        for name, f, axis, low in (
            ("ReduceSum", torch.sum, 1, -2.0), ("ReduceSum columns", torch.sum, 0, -2.0),
            ("ReduceMean", torch.mean, 1, -2.0), ("ReduceMax", torch.amax, 1, -2.0), ("ReduceMin", torch.amin, 1, -2.0),
            ("ReduceLogSumExp", torch.logsumexp, 1, -2.0),
            ("ReduceL2", lambda x, a: torch.linalg.vector_norm(x, 2, a), 1, 0.5),
            ("ReduceL1", lambda x, a: torch.linalg.vector_norm(x, 1, a), 1, 0.5),
        )
    ),
    Row("ReduceProd", ("ReduceProd",), on(ROWS_OF, lambda x: torch.prod(x, 1), 0.99, 1.01)),
    Row("ReduceSumSquare", ("ReduceSumSquare",), on(ROWS_OF, lambda x: (x * x).sum(1))),
    *(
        Row(name, (name,), on(ROWS_OF, lambda x, f=f: number(f(x, 1))), trains=False)
        for name, f in (("ArgMax", torch.argmax), ("ArgMin", torch.argmin))
    ),
    Row("CumSum", ("CumSum",), on(ROWS_OF, lambda x: torch.cumsum(x, 1))),
    Row("TopK", ("TopK",), on(ROWS_OF, lambda x: torch.topk(x, 8, 1).values), trains=False),
    *(
        Row(name, (name.split()[0],), on(ROWS_OF, lambda x, f=f, a=axis: f(x, a)))
        for name, f, axis in (
            ("Softmax", torch.softmax, 1), ("Softmax columns", torch.softmax, 0), ("LogSoftmax", torch.log_softmax, 1),
        )
    ),
]  # fmt: skip
PRODUCTS = [
    product("MatMul", torch.matmul, MATMUL),
    product("MatMul vector", torch.matmul, VECTOR),
    product("MatMul batched", torch.matmul, BATCHED),
    product("MatMul transposed", lambda x, w: x @ w.t(), MATMUL),
    product("Gemm", lambda x, w: F.linear(x, w), MATMUL),
    product("Einsum", lambda x, y: torch.einsum("bij,bjk->bik", x, y), BATCHED),
    conv("Conv 3x3", 64, 64, 3),
    conv("Conv 1x1", 128, 128, 1),
    conv("Conv stride", 64, 128, 3, 2),
    conv("Conv few", 3, 64, 7, 2),
    conv("Conv groups", 64, 64, 3, groups=16),
    conv("Conv depthwise", 128, 128, 3, groups=128),
    conv("ConvTranspose", 64, 32, 3, 2, transposed=True),
    *(recurrent(n, k) for n, k in (("LSTM", nn.LSTM), ("GRU", nn.GRU), ("RNN", nn.RNN))),
    *(recurrent(f"{n} both directions", k, both=True) for n, k in (("LSTM", nn.LSTM), ("GRU", nn.GRU))),
    *(recurrent(f"{n} layers", k, layers=2) for n, k in (("LSTM", nn.LSTM), ("GRU", nn.GRU))),
    attention(False),
    attention(True),
]
IMAGES = [
    Row("MaxPool", ("MaxPool",), on(IMAGE, lambda x: F.max_pool2d(x, 3, 2, 1))),
    Row("AveragePool", ("AveragePool",), on(IMAGE, lambda x: F.avg_pool2d(x, 2))),
    Row("GlobalAveragePool", ("GlobalAveragePool",), on(IMAGE, lambda x: F.adaptive_avg_pool2d(x, 1))),
    Row("Resize nearest", ("Resize",), on(IMAGE, lambda x: F.interpolate(x, scale_factor=2.0))),
    Row(
        "Resize linear", ("Resize",),
        on(IMAGE, lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)),
    ),
    Row("Pad", ("Pad",), on(IMAGE, lambda x: F.pad(x, (1, 1, 1, 1)))),
    Row("DepthToSpace", ("DepthToSpace",), on(IMAGE, lambda x: F.pixel_shuffle(x, 2))),
    Row("LRN", ("LRN",), on(IMAGE, lambda x: F.local_response_norm(x, 5))),
    norm("LayerNormalization", lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b)),
    norm("BatchNormalization", lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), 4),
    norm("InstanceNormalization", lambda x, w, b: F.instance_norm(x, None, None, w, b), 4),
    norm("GroupNormalization", lambda x, w, b: F.group_norm(x, 8, w, b), 4),
]  # fmt: skip
MOVES = [
    Row("Transpose", ("Transpose",), on(ROWS_OF, lambda x: x.t().contiguous() + 0.0)),
    Row("Transpose heads", ("Transpose",), on(IMAGE, lambda x: x.permute(0, 2, 1, 3).contiguous() + 0.0)),
    Row("Concat", ("Concat",), on(ROWS_OF, lambda x, y: torch.cat([x, y], 1), operands=2)),
    Row("Split", ("Split",), on(ROWS_OF, lambda x: torch.add(*x.chunk(2, 1)))),
    Row("Slice", ("Slice",), on(ROWS_OF, lambda x: x[1:, ::2] + 0.0)),
    Row("Expand", ("Expand",), on(ROWS_OF, lambda x: x[:1].expand(x.shape) + 0.0)),
    Row("Tile", ("Tile",), on(ROWS_OF, lambda x: x.repeat(1, 2))),
    Row("Triangle", ("Trilu",), on(ROWS_OF, torch.tril)),
    picked("Gather", lambda x, i: x.index_select(0, i)),
    picked("Embedding", lambda x, i: F.embedding(i, x), ("Gather",)),
    picked("GatherElements", lambda x, i: torch.gather(x, 0, i[:, None].expand(-1, 16))),
    picked(
        "ScatterElements", lambda x, i: x.scatter_add(0, i[:, None].expand(-1, 16), x[:, :16]), ("ScatterElements",)
    ),
    Row("SoftmaxCrossEntropyLoss", ("SoftmaxCrossEntropyLoss",), classes),
]
QUANTISED_X, QUANTISED_W = ({size: shapes[i] for size, shapes in MATMUL.items()} for i in range(2))
QUANTISED_IMAGE = {"small": (1, 64, 14, 14), "cache": (1, 64, 28, 28), "memory": (16, 64, 56, 56)}
QUANTISED_WINDOW = dict.fromkeys(SIZES, (64, 64, 3, 3))
QUANTISED = [
    quantised("MatMulInteger", ("MatMulInteger",), [("MatMulInteger", "x w x0", "output")], QUANTISED_W, QUANTISED_X),
    quantised(
        "MatMulInteger vector", ("MatMulInteger",), [("MatMulInteger", "x w x0", "output")],
        *({size: shapes[i] for size, shapes in VECTOR.items()} for i in (1, 0)),
    ),
    quantised(
        "MatMulInteger dynamic", ("DynamicQuantizeLinear", "MatMulInteger"),
        [
            ("DynamicQuantizeLinear", "float", "q scale zero"), ("MatMulInteger", "q w zero w0", "p"),
            ("Cast", "p", "f"), ("Mul", "scale s", "factor"), ("Mul", "f factor", "output"),
        ],
        QUANTISED_W, QUANTISED_X,
    ),
    quantised(
        "QLinearMatMul", ("QLinearMatMul",), [("QLinearMatMul", "x tiny x0 w small w0 s x0", "output")],
        QUANTISED_W, QUANTISED_X,
    ),
    quantised(
        "ConvInteger", ("ConvInteger",), [("ConvInteger", "x w x0", "output")], QUANTISED_WINDOW, QUANTISED_IMAGE,
        pads=[1, 1, 1, 1],
    ),
    quantised(
        "QLinearConv", ("QLinearConv",), [("QLinearConv", "x tiny x0 w small w0 s x0 bias", "output")],
        QUANTISED_WINDOW, QUANTISED_IMAGE, pads=[1, 1, 1, 1],
    ),
    quantised(
        "QLinearConv pointwise", ("QLinearConv",), [("QLinearConv", "x tiny x0 w small w0 s x0 bias", "output")],
        dict.fromkeys(SIZES, (64, 64, 1, 1)), QUANTISED_IMAGE,
    ),
    quantised(
        "QLinearConv depthwise", ("QLinearConv",), [("QLinearConv", "x tiny x0 w small w0 s x0 bias", "output")],
        dict.fromkeys(SIZES, (64, 1, 3, 3)), QUANTISED_IMAGE, pads=[1, 1, 1, 1], group=64,
    ),
    quantised(
        "QLinearConv chain", ("QLinearConv",),
        [
            ("QLinearConv", "x tiny x0 w small w0 s x0 bias", "a"), ("QLinearConv", "a s x0 w small w0 s x0 bias", "b"),
            ("QLinearConv", "b s x0 w small w0 s x0 bias", "output"),
        ],
        QUANTISED_WINDOW, QUANTISED_IMAGE, pads=[1, 1, 1, 1],
    ),
    quantised(
        "QuantizeLinear", ("QuantizeLinear",), [("QuantizeLinear", "float s x0", "output")], QUANTISED_WINDOW,
        ROWS_OF,
    ),
    quantised(
        "DequantizeLinear", ("DequantizeLinear",), [("DequantizeLinear", "x s x0", "output")], QUANTISED_WINDOW,
        ROWS_OF,
    ),
    quantised(
        "DynamicQuantizeLinear", ("DynamicQuantizeLinear",), [("DynamicQuantizeLinear", "float", "output scale zero")],
        QUANTISED_WINDOW, ROWS_OF,
    ),
]  # fmt: skip
EXPORTED = [*UNARY, *BINARY, *REDUCTIONS, *PRODUCTS, *IMAGES, *MOVES, *QUANTISED]


_FOLDED = "folded when a program is compiled"
_INTERNAL = "made by gradients and passes, measured in the rows of what they are made from"
WITHOUT_ROW = {
    **dict.fromkeys(("Constant", "ConstantOfShape", "Range", "Shape", "Size"), _FOLDED),
    **dict.fromkeys(
        (
            "FirstNonFinite", "GatherGrad", "GatherNDGrad", "Histogram", "IntegerConv", "IntegerMatMul", "LambSquare",
            "LossScaleUpdate", "NllGrad", "NlllWithSoftmaxGradDirect", "PickChannels", "PopartTiedGather",
            "ReduceExtremes", "ReduceProdGrad", "ReduceSumTo", "ScatterReduceGradOp", "SliceUpdate",
            "SoftmaxGradDirect", "StraightThrough",
        ),
        _INTERNAL,
    ),
    **dict.fromkeys(
        (
            "Accumulate", "AccumulatorScale", "AdamUpdater", "AdamVarUpdate", "CopyVarUpdate", "SGD0VarUpdate",
            "SGD1AcclUpdate", "SGD1VarUpdate", "SGD2PartialAcclUpdate", "SGD2VarUpdate", "ScaledVarUpdate",
        ),
        "updates of weights and state, measured in the training of networks",
    ),
    "BitCast": "a view; the peers do not have its opset",
    "DequantizePacked": "of weights that com.microsoft packs; PyTorch has no such operator",
    "CtcBeamSearchDecoder": "no peer has it",
    "NonMaxSuppression": "how long its result is depends on data",
    "Unique": "how long its result is depends on data",
}  # fmt: skip


def types_of_cases() -> set[str]:
    """Operators with cases in tests/cases; each has a row, or a reason in WITHOUT_ROW."""
    import sys
    from pathlib import Path

    sys.path.append(str(Path(__file__).resolve().parents[1]))
    from tests.cases.run_cases import load_cases

    return {case.type for case in load_cases()}
