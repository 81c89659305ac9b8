"""Every function of popxl.ops that computes, with its formula in PyTorch: see test_op_table.py.

A row: the call, arrays of its inputs, the formula over tensors of PyTorch, and which inputs have a gradient.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import popxl
import torch
from popxl import ops
from torch.nn import functional

Build = Callable[..., Any]


@dataclass(frozen=True)
class Row:
    """One use of a function.

    Attributes:
        name: name in test reports, beginning with the function's.
        build: the call, over popxl tensors.
        inputs: arrays; float32 ones are tried as float16 too.
        formula: the same over PyTorch tensors.
        gradients: inputs whose gradient is compared.
        dtypes: element types of the float32 inputs.
        tolerance: factor on the tolerance.
    """

    name: str
    build: Build
    inputs: Sequence[np.ndarray]
    formula: Build
    gradients: Sequence[int] = ()
    dtypes: Sequence[str] = ("float32", "float16")
    tolerance: float = 1.0


def numbers(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    """Return float32 numbers, no two alike and none near an integer, in random order."""
    count = prod(shape)
    values = low + (high - low) * (np.arange(count) + 0.37) / max(count, 1)
    values += np.where(np.abs(values - np.round(values)) < 0.02, 0.03, 0)
    return np.random.default_rng(count).permutation(values).reshape(shape).astype(np.float32)


def integers(*shape: int, high: int, dtype: str = "int32") -> np.ndarray:
    """Return integers from 0 to `high` - 1."""
    return np.random.default_rng(prod(shape) + high).integers(0, high, shape).astype(dtype)


X, ROW, POSITIVE = numbers(3, 4, 5), numbers(4, 1, low=0.5), numbers(3, 4, 5, low=0.25)
ALL = (0,)
BOTH = (0, 1)


def unary() -> list[Row]:
    """Section 2: one operand."""
    gelu = functional.gelu
    formulas: dict[str, Build] = {
        "abs": torch.abs,
        "ceil": torch.ceil,
        "floor": torch.floor,
        "sign": torch.sign,
        "cos": torch.cos,
        "sin": torch.sin,
        "exp": torch.exp,
        "tanh": torch.tanh,
        "relu": torch.relu,
        "geluerf": gelu,
        "gelu": lambda x: gelu(x, approximate="tanh"),
        "swish": functional.silu,
        "negate": torch.neg,
        "identity": lambda x: x * 1,
    }
    rows = [Row(name, getattr(ops, name), [X], formula, ALL) for name, formula in formulas.items()]
    inplace = ("exp_", "relu_", "gelu_", "geluerf_", "swish_")
    rows += [Row(name, getattr(ops, name), [X], formulas[name[:-1]]) for name in inplace]
    rows += [
        Row(name, getattr(ops, name), [POSITIVE], getattr(torch, name), ALL, tolerance=2)
        for name in ("log", "log2", "sqrt")
    ]
    odd = np.array([1, np.nan, np.inf, -np.inf, 0], np.float32)
    rows += [Row(name, getattr(ops, name), [odd], getattr(torch, name)) for name in ("isnan", "isinf", "isfinite")]
    rows += [
        Row("logical_not", ops.logical_not, [integers(3, 5, high=2)], torch.logical_not),
        Row("clip", lambda x: ops.clip(x, -0.7, 1.2), [X], lambda x: x.clip(-0.7, 1.2), ALL),
        Row("clamp-below", lambda x: ops.clamp(x, min=0.1), [X], lambda x: x.clip(0.1), ALL),
        Row("clip-int", lambda x: ops.clip(x, 1, 3), [integers(3, 5, high=6)], lambda x: x.clip(1, 3)),
        Row("cast-int", lambda x: ops.cast(x, popxl.int32), [X * 3], lambda x: x.int()),
        Row("cast-bool", lambda x: ops.cast(x, popxl.bool), [np.floor(X)], lambda x: x.bool()),
        Row("cast-half", lambda x: ops.cast(x, popxl.float16), [X], lambda x: x.half(), ALL, ("float32",), 1000),
        Row("cast-float", lambda x: ops.cast(x, popxl.float32), [X], lambda x: x.float(), ALL),
        Row("detach", ops.detach, [X], lambda x: x),
        Row("detach_", ops.detach_, [X], lambda x: x),
        Row("increment_mod", lambda x: ops.increment_mod(x, 1.5, 2.0), [X], lambda x: (x + 1.5).fmod(2)),
        Row("increment_mod_", lambda x: ops.increment_mod_(x, 2, 3), [integers(9, high=9)], lambda x: (x + 2).fmod(3)),
    ]
    return rows


def binary() -> list[Row]:
    """Section 3: two and three operands."""
    formulas: dict[str, Build] = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div}
    rows = [
        Row(f"{name}-{i}", getattr(ops, name), pair, formula, BOTH)
        for name, formula in formulas.items()
        for i, pair in enumerate(([X, X[::-1].copy()], [X, ROW], [ROW, X], [X, np.float32(1.5)]))
    ]
    i, j = integers(3, 5, high=9), integers(5, high=4) + 1
    signed = i - 4
    base = numbers(3, 4, 5, low=0.2)
    rows += [
        Row("add-int", ops.add, [i, j], torch.add),
        Row("mul-int", ops.mul, [i, j], torch.mul),
        Row("div-int", ops.div, [signed, j], lambda a, b: torch.div(a, b, rounding_mode="trunc")),
        Row("fmod", ops.fmod, [X, ROW], torch.fmod, [0]),
        Row("fmod-int", ops.fmod, [signed, j], torch.fmod),
        Row("add_", ops.add_, [X, ROW], torch.add),
        Row("pow", ops.pow, [base, X], torch.pow, BOTH, tolerance=4),
        Row("pow-number", lambda x: ops.pow(x, 3.0), [X], lambda x: x**3, ALL, ("float32",)),
        Row("pow-float", lambda x: ops.pow(x, 0.5), [base], lambda x: x**0.5, ALL, ("float32",)),
        Row("equal", ops.equal, [i, j], torch.eq),
        Row("equal-bool", ops.equal, [i > 3, j > 2], torch.eq),
        Row("greater", ops.greater, [X, ROW], torch.gt),
        Row("logical_and", ops.logical_and, [i > 3, j > 2], torch.logical_and),
        Row("logical_or", ops.logical_or, [signed, j - 1], torch.logical_or),
        Row("maximum", ops.maximum, [X, ROW], torch.maximum, BOTH),
        Row("maximum-three", ops.maximum, [X, ROW, X[:1, :1]], lambda a, b, c: a.maximum(b).maximum(c), (0, 1)),
        Row("where", ops.where, [X[..., :1] > 0, X, ROW], torch.where, (1, 2)),
        Row("where-int", ops.where, [i > 3, i, j], torch.where),
        Row(
            "scaled_add", lambda a, b: ops.scaled_add(a, b, 2.0, -0.5), [X, X[::-1].copy()], lambda a, b: 2 * a - b / 2
        ),
        Row("scaled_add_", lambda a, b: ops.scaled_add_(a, b, b=3.0), [X, X[::-1].copy()], lambda a, b: a + 3 * b),
    ]
    return rows


def lower_median(x: torch.Tensor, axis: Any, keepdims: bool) -> torch.Tensor:
    """Median over one axis, several or all, the lower one of two."""
    axes = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    axes = sorted(a % x.ndim for a in axes)
    kept = [a for a in range(x.ndim) if a not in axes]
    flat = x.permute(*kept, *axes).reshape(*(x.shape[a] for a in kept), -1).median(-1).values
    return flat.reshape([1 if a in axes else n for a, n in enumerate(x.shape)]) if keepdims else flat


def reductions() -> list[Row]:
    """Section 4: reductions; extremes, order and counts."""
    formulas: dict[str, Build] = {
        "sum": torch.sum,
        "mean": torch.mean,
        "max": torch.amax,
        "min": torch.amin,
        "l1": lambda x, axis, k: x.abs().sum(axis, k),
        "l2": lambda x, axis, k: x.square().sum(axis, k).sqrt(),
        "sumsquare": lambda x, axis, k: x.square().sum(axis, k),
        "median": lower_median,
        "logsum": lambda x, axis, k: x.sum(axis, k).log(),
        "logsumexp": lambda x, axis, k: x.logsumexp(axis, k),
    }

    def row(name: str, axis: Any, keepdims: bool) -> Row:
        def formula(x: torch.Tensor) -> torch.Tensor:
            axes = tuple(range(x.ndim)) if axis is None else axis
            return formulas[name](x, axes, keepdims)

        build = getattr(ops, name)
        return Row(
            f"{name}-{axis}-{keepdims}", lambda x: build(x, axis, keepdims), [POSITIVE], formula, ALL, tolerance=4
        )

    forms = [(None, False), (1, False), ((0, -1), True), ([2], True)]
    rows = [row(name, *form) for name in formulas for form in forms]
    each = {
        "sum": lambda x: x,
        "mean": lambda x: x,
        "max": lambda x: x,
        "prod": lambda x: x,
        "l1": torch.abs,
        "l2": torch.abs,
        "sumsquare": torch.square,
        "logsum": torch.log,
        "logsumexp": lambda x: x,
        "median": lambda x: x,
    }
    rows += [Row(f"{n}-[]", lambda x, n=n: getattr(ops, n)(x, []), [POSITIVE], f, ALL) for n, f in each.items()]
    small = integers(3, 5, high=6)
    levels = [-0.5, 0.0, 1.0]
    rows += [
        Row("prod", lambda x: ops.prod(x, 1), [X], lambda x: x.prod(1), ALL, tolerance=4),
        Row(
            "prod-two",
            lambda x: ops.prod(x, (0, 1), True),
            [X],
            lambda x: x.prod(0, True).prod(1, True),
            ALL,
            ("float32",),
        ),
        Row("sum-int", lambda x: ops.sum(x, 0), [small], lambda x: x.sum(0).int()),
        Row("argmax", lambda x: ops.argmax(x), [X], lambda x: x.argmax(0)),
        Row(
            "argmax-ties",
            lambda x: ops.argmax(x, -1, True),
            [small],
            lambda x: torch.tensor(x.numpy().argmax(-1)[:, None]),
        ),
        Row("argmin", lambda x: ops.argmin(x, 1), [X], lambda x: x.argmin(1)),
        Row("topk", lambda x: ops.topk(x, 3, 2, True, True), [X], lambda x: x.topk(3, 2), ALL),
        Row("topk-smallest", lambda x: ops.topk(x, 2, 0, False, True)[0], [X], lambda x: x.topk(2, 0, False)[0], ALL),
        Row("cumsum", lambda x: ops.cumsum(x), [X], lambda x: x.cumsum(0), ALL),
        Row("cumsum-last", lambda x: ops.cumsum(x, -1), [X], lambda x: x.cumsum(-1), ALL, tolerance=4),
        Row("histogram", lambda x: ops.histogram(x, levels, False), [X], lambda x: counts(x, levels)),
        Row("histogram-absolute", lambda x: ops.histogram(x, levels, True), [X], lambda x: counts(x.abs(), levels)),
        Row("lamb_square", ops.lamb_square, [X], lambda x: x.float().square().sum(), tolerance=0.01),
    ]
    return rows


def counts(x: torch.Tensor, levels: list[float]) -> torch.Tensor:
    """Elements below the first level, between levels, and from the last one on."""
    edges = [-np.inf, *levels, np.inf]
    return torch.tensor([((x >= a) & (x < b)).sum() for a, b in itertools.pairwise(edges)])


def shapes() -> list[Row]:
    """Section 5."""
    image = numbers(1, 4, 1, 5)
    rows = [
        Row("reshape", lambda x: ops.reshape(x, (5, -1)), [X], lambda x: x.reshape(5, 12), ALL),
        Row("reshape_", lambda x: ops.reshape_(x, [60]), [X], lambda x: x.reshape(60), ALL),
        Row("flatten", ops.flatten, [X], lambda x: x.reshape(-1), ALL),
        Row("flatten-scalar", ops.flatten_, [np.float32(2)], lambda x: x.reshape(1), ALL),
        Row("squeeze", ops.squeeze, [image], lambda x: x.squeeze(), ALL),
        Row("squeeze-axis", lambda x: ops.squeeze(x, [-2]), [image], lambda x: x.squeeze(2), ALL),
        Row("transpose", ops.transpose, [X], lambda x: x.permute(2, 1, 0), ALL),
        Row("transpose_", lambda x: ops.transpose_(x, (1, 2, 0)), [X], lambda x: x.permute(1, 2, 0), ALL),
        Row(
            "concat",
            lambda a, b: ops.concat([a, b], -1),
            [X, X[..., :2].copy()],
            lambda a, b: torch.cat([a, b], -1),
            BOTH,
        ),
        Row("concat_", lambda a, b: ops.concat_([a, b]), [X, X[:1].copy()], lambda a, b: torch.cat([a, b]), BOTH),
        Row("split", lambda x: ops.split(x, 2, 1)[1], [X], lambda x: x[:, 2:], ALL),
        Row("split-sizes", lambda x: ops.split(x, [1, 2, 2], -1), [X], lambda x: x.split([1, 2, 2], -1)),
        Row("subsample", lambda x: ops.subsample(x, [2, 3]), [X], lambda x: x[::2, ::3], ALL),
        Row("subsample-int", lambda x: ops.subsample(x, 2), [X], lambda x: x[::2], ALL),
    ]
    slices: dict[str, tuple[Build, Build]] = {
        "first": (lambda x: ops.slice(x, 1), lambda x: x[1:]),
        "stop": (lambda x: ops.slice(x, stop=2), lambda x: x[:2]),
        "lists": (lambda x: ops.slice(x, [1, None], [None, -1]), lambda x: x[1:, :-1]),
        "axis": (lambda x: ops.slice(x, -4, -1, axis=2), lambda x: x[..., 1:4]),
        "axes": (lambda x: ops.slice_(x, [0, 1], [2, 9], axis=[2, 1]), lambda x: x[:, 1:, :2]),
        "reversed": (lambda x: ops.slice(x, step=-1, axis=1), lambda x: x.flip(1)),
        "reversed-part": (lambda x: ops.slice(x, 3, 0, -1, 1), lambda x: x[:, 1:4].flip(1)),
        "reversed-two": (lambda x: ops.slice(x, [None, 2], [0, None], [-1, 1]), lambda x: x[1:, 2:].flip(0)),
    }
    return rows + [Row(f"slice-{name}", build, [X], formula, ALL) for name, (build, formula) in slices.items()]
