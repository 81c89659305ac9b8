"""Cases of element-wise functions of several arguments: arithmetic, comparison, logic, bits, variadic, Cast, Where."""

import numpy as np

from tests.cases.case import FLOATS, Case, bools, floats, ints

SHAPES = [((3, 4), (3, 4)), ((3, 1, 2), (4, 1)), ((2, 3), ()), ((1,), (2, 2))]


def pairs(type, expected, low=-2.0, high=2.0, gradients=(0, 1)):
    """Return the cases of one operator: equal shapes and both directions of broadcasting."""
    return [
        Case(
            type,
            [floats(*a, low=low, high=high), floats(*b, low=0.4, high=2.6)],
            expected=expected,
            gradients=gradients,
        )
        for a, b in SHAPES
    ]


def fmod(a, b):
    return np.where(b == 0, 0, np.fmod(a, np.where(b == 0, 1, b)))


A, B = ints(3, 4), ints(4, low=-3, high=4)
NONZERO = np.where(B == 0, 2, B).astype(np.int32)
BYTES = ints(3, 4, low=0, high=200, dtype="uint8")
LEFT, RIGHT = bools(3, 4), bools(1, 4)
TIED = np.array([1.5, 2.5, -1.5], np.float32)

ARITHMETIC = [
    *pairs("Add", np.add),
    *pairs("Sub", np.subtract),
    *pairs("Mul", np.multiply),
    *pairs("Div", np.divide),
    *pairs("Pow", np.power, low=0.3),
    *pairs("Fmod", np.fmod),
    *pairs("Remainder", np.mod),
    *pairs("Atan2", np.arctan2),
    Case("Add", [A, B], expected=np.add),
    Case("Sub", [BYTES, BYTES[0]], expected=lambda a, b: (a - b).astype(np.uint8)),
    Case("Mul", [A.astype(np.int64) * 2**40, B.astype(np.int64)], expected=np.multiply, name="int64"),
    Case("Div", [A, NONZERO], expected=lambda a, b: np.trunc(a / b).astype(np.int32), name="int32-truncates"),
    Case("Fmod", [A, B], expected=fmod),
    Case("Remainder", [A, NONZERO], expected=np.mod),
    Case("Pow", [floats(3, low=0.5), np.array([2, 0, -1], np.int64)], expected=np.power, gradients=[0]),
    Case(
        "Pow",
        [np.array([0.0, 0.0, -2.0], np.float32), np.array([0.0, 2.0, 3.0], np.float32)],
        expected=np.power,
        name="zero",
    ),
    Case(
        "Pow",
        [np.array([3, -2, 7], np.int32), np.array([4, 3, 0], np.int32)],
        expected=lambda a, b: np.array([81, -8, 1]),
    ),
    Case(
        "Pow",
        [np.array([2, 3], np.int32), np.array([0.5, 2.0], np.float32)],
        expected=lambda a, b: np.array([1, 9]),
        dtypes=["float32"],
    ),
    Case("PRelu", [floats(2, 3, 4), floats(3, 1)], expected=lambda x, s: np.where(x < 0, s * x, x), gradients=[0, 1]),
    Case("PRelu", [floats(3), floats(2, 3)], refuses="slope does not broadcast"),
    Case("ScaledAdd", [floats(3, 4), floats(4, 3).T], {"scale0": 0.5, "scale1": -2.0}, lambda a, b: 0.5 * a - 2 * b),
    Case(
        "ScaledAdd",
        [floats(5), floats(5, low=0), np.float32(1.5).reshape(()), np.float32(-1.0).reshape(())],
        expected=lambda a, b, s, t: s * a + t * b,
    ),
    Case("ScaledAdd", [floats(2, 3), floats(3)], refuses="input shapes differ"),
    Case("Add", [floats(2, 3), floats(4, 3)], refuses="do not broadcast"),
    Case("Add", [floats(2), ints(2)], refuses="element types differ"),
]

NAN = np.array([np.nan, 1.0, 2.0], np.float32)

LOGIC = [
    Case(type, arrays, expected=function)
    for type, function in [
        ("Equal", np.equal),
        ("Less", np.less),
        ("LessOrEqual", np.less_equal),
        ("Greater", np.greater),
        ("GreaterOrEqual", np.greater_equal),
    ]
    for arrays in ([A, B], [floats(2, 3), floats(2, 3)[:, :1]], [NAN, NAN])
]
LOGIC += [
    Case("Equal", [LEFT, RIGHT], expected=np.equal),
    Case(
        "Equal", [np.array([2**53], np.int64), np.array([2**53 + 1], np.int64)], expected=np.equal, name="int64-exact"
    ),
    Case("And", [LEFT, RIGHT], expected=np.logical_and),
    Case("Or", [LEFT, RIGHT], expected=np.logical_or),
    Case("Xor", [LEFT, RIGHT], expected=np.logical_xor),
    Case("Not", [LEFT], expected=np.logical_not),
    Case("And", [A, B], refuses="element type"),
    Case("BitwiseAnd", [A, B], expected=np.bitwise_and),
    Case("BitwiseOr", [A, B], expected=np.bitwise_or),
    Case("BitwiseXor", [A, B], expected=np.bitwise_xor),
    Case("BitwiseXnor", [A, B], expected=lambda a, b: ~(a ^ b)),
    Case("BitwiseNot", [BYTES], expected=np.bitwise_not),
    Case("BitShift", [BYTES, np.array([0, 1, 3, 7], np.uint8)], {"direction": "LEFT"}, np.left_shift),
    Case("BitShift", [BYTES, np.array([0, 1, 3, 7], np.uint8)], {"direction": "RIGHT"}, np.right_shift),
    Case(
        "BitShift",
        [BYTES, np.full(4, 9, np.uint8)],
        {"direction": "RIGHT"},
        lambda a, b: np.zeros_like(a),
        name="past-width",
    ),
    Case("BitShift", [BYTES, BYTES], {"direction": "UP"}, refuses="unknown direction"),
]

THREE = [floats(2, 3), floats(3, low=-1), floats(2, 1, low=-3)]
VARIADIC = [
    Case("Sum", THREE, expected=lambda *a: a[0] + a[1] + a[2], gradients=[0, 1, 2]),
    Case("Mean", THREE, expected=lambda *a: (a[0] + a[1] + a[2]) / 3, gradients=[0, 1, 2]),
    Case("Max", THREE, expected=lambda *a: np.maximum(np.maximum(a[0], a[1]), a[2]), gradients=[0, 1, 2]),
    Case("Min", THREE, expected=lambda *a: np.minimum(np.minimum(a[0], a[1]), a[2]), gradients=[0, 1, 2]),
    Case("Sum", [floats(4)], expected=lambda a: a, gradients=[0]),
    Case("Max", [NAN, NAN[::-1].copy()], expected=np.maximum, name="nan"),
    Case("Max", [A, B], expected=np.maximum),
    Case("Min", [np.array([2**53 + 1]), np.array([2**53 + 2])], expected=np.minimum, name="int64-exact"),
    Case("Sum", [], refuses="no inputs"),
]

ONNX_NUMBERS = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9, "float16": 10, "float64": 11}
CAST = [
    Case(
        "Cast",
        [floats(3, 4, low=-100, high=100)],
        {"to": number},
        lambda x, t=name: x.astype(np.float32).astype(np.int64).astype(t),
        dtypes=["float32"],
    )
    for name, number in ONNX_NUMBERS.items()
    if name.startswith(("int", "uint"))
]
CAST += [
    # The result has 11 bits.
    Case(
        "Cast",
        [floats(6)],
        {"to": 10},
        lambda x: x.astype(np.float16),
        tolerance=400,
        dtypes=["float32"],
        name="to-float16",
    ),
    Case("Cast", [floats(6)], {"to": 11}, lambda x: x, gradients=[0], dtypes=["float32", "float64"], name="to-float64"),
    Case("Cast", [A], {"to": 9}, lambda x: x != 0, name="int32-to-bool"),
    Case("Cast", [LEFT], {"to": 1}, lambda x: x.astype(np.float32), name="bool-to-float32"),
    Case(
        "Cast", [np.array([np.nan, 0.0, 0.5], np.float32)], {"to": 9}, lambda x: x != 0, dtypes=FLOATS, name="to-bool"
    ),
    Case("Cast", [floats(2)], {"to": 8}, refuses="there is no cast"),
]

WHERE = [
    Case("Where", [bools(2, 1, 3), floats(4, 1), floats(3)], expected=np.where, gradients=[1, 2]),
    Case("Where", [bools(3, 4), A, B], expected=np.where),
    Case("Where", [bools(3), floats(3), ints(3)], refuses="element types differ"),
]

CASES = ARITHMETIC + LOGIC + VARIADIC + CAST + WHERE
