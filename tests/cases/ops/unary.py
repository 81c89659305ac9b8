"""Cases of element-wise functions of one argument."""

import numpy as np
import torch

from tests.cases.case import Case, floats, ints


def with_torch(function):
    """Return the NumPy form of a function of one tensor."""
    return lambda x: function(torch.from_numpy(np.ascontiguousarray(x))).numpy()


def smooth(type, expected, low=-2.0, high=2.0, **more):
    return Case(type, [floats(3, 5, low=low, high=high)], expected=expected, gradients=[0], **more)


INTEGERS = ints(3, 5)
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.5, 2.5], np.float32)

CASES = [
    smooth("Abs", np.abs),
    smooth("Neg", np.negative),
    smooth("Reciprocal", lambda x: 1 / x, 0.3, 2.0),
    smooth("Sqrt", np.sqrt, 0.2, 4.0),
    smooth("Exp", np.exp),
    smooth("Expm1", np.expm1),
    smooth("Log", np.log, 0.2, 4.0),
    smooth("Log1p", np.log1p, -0.7, 4.0),
    smooth("Erf", with_torch(torch.erf)),
    smooth("Sin", np.sin),
    smooth("Cos", np.cos),
    smooth("Tan", np.tan, -1.2, 1.2),
    smooth("Asin", np.arcsin, -0.9, 0.9),
    smooth("Acos", np.arccos, -0.9, 0.9),
    smooth("Atan", np.arctan),
    smooth("Sinh", np.sinh),
    smooth("Cosh", np.cosh),
    smooth("Tanh", np.tanh),
    smooth("Asinh", np.arcsinh),
    smooth("Acosh", np.arccosh, 1.2, 4.0),
    smooth("Atanh", np.arctanh, -0.9, 0.9),
    smooth("Ceil", np.ceil),
    smooth("Floor", np.floor),
    smooth("Sign", np.sign),
    smooth("Round", lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5)),
    smooth("NearbyInt", np.round),
    Case(
        "Round",
        [np.array([0.5, 1.5, 2.5, -0.5, -1.5], np.float32)],
        expected=lambda x: np.array([1.0, 2.0, 3.0, -1.0, -2.0]),
    ),
    Case(
        "NearbyInt",
        [np.array([0.5, 1.5, 2.5, -0.5, -1.5], np.float32)],
        expected=lambda x: np.array([0.0, 2.0, 2.0, -0.0, -2.0]),
    ),
    smooth("Scale", lambda x: x * 0.75, attributes={"scale": 0.75}),
    Case("Abs", [INTEGERS], expected=np.abs),
    Case("Neg", [INTEGERS.astype(np.int64)], expected=np.negative),
    Case("Sign", [INTEGERS], expected=np.sign),
    Case("Abs", [np.array([np.iinfo(np.int64).min, 2**53 + 1], np.int64)], expected=np.abs, name="int64-extremes"),
    Case("Abs", [np.array([3, 255], np.uint8)], expected=lambda x: x),
    Case("IncrementMod", [floats(7, low=-6, high=6)], {"increment": 1.0, "modulus": 3.0}, lambda x: np.fmod(x + 1, 3)),
    Case("IncrementMod", [ints(7)], {"increment": 2.0, "modulus": 3.0}, lambda x: np.fmod(x + 2, 3)),
    Case("IsNaN", [SPECIAL], expected=np.isnan),
    Case("IsInf", [SPECIAL], expected=np.isinf),
    Case("IsInf", [SPECIAL], {"detect_negative": 0}, np.isposinf),
    Case("IsInf", [SPECIAL], {"detect_positive": 0}, np.isneginf),
    Case("Sqrt", [np.float32(4.0).reshape(())], expected=np.sqrt, name="scalar"),
    Case("Exp", [np.zeros((0, 3), np.float32)], expected=np.exp, name="empty"),
    Case("Exp", [INTEGERS], refuses="element type"),
    # float32 to INT32 and back, unsigned to signed; only types of equal size.
    Case(
        "BitCast",
        [np.array([1.5, -0.0, np.inf], np.float32)],
        {"to": 6},
        lambda x: x.astype("f4").view("i4"),
        dtypes=["float32"],
    ),
    Case("BitCast", [ints(3, 4, dtype="int32")], {"to": 12}, lambda x: x.view("u4")),
    Case("BitCast", [ints(3, 4, dtype="int64")], {"to": 13}, lambda x: x.view("u8")),
    Case("BitCast", [ints(3, 4, dtype="int64")], {"to": 6}, refuses="differ in size"),
]
