"""Cases of Cast from and to element types of at most eight bits, and of operators that move them, beside ml_dtypes."""

import ml_dtypes
import numpy as np

from tests.cases.case import Case, floats

# ONNX's numbers of the types.
FLOATS = {
    "float8_e4m3fn": 17,
    "float8_e5m2": 19,
    "float6_e2m3fn": 27,
    "float6_e3m2fn": 28,
    "float4_e2m1fn": 23,
}
INTEGERS = {"int4": 22, "uint4": 21, "int2": 26, "uint2": 25}
WIDE = floats(3, 50, low=-9, high=9)


def codes(name: str, count: int = 16) -> np.ndarray:
    """Return the first values of a small type, whose codes follow one another; none of them is a NaN."""
    bits = {"int2": 2, "uint2": 2}.get(name, 4)
    return np.resize(np.arange(2**bits, dtype=np.uint8), count).view(getattr(ml_dtypes, name))


def cast(name: str, number: int) -> list[Case]:
    """Return both directions of a float type."""
    dtype = getattr(ml_dtypes, name)
    largest = np.float32(ml_dtypes.finfo(dtype).max)
    saturated = lambda x: np.clip(x, -largest, largest).astype(dtype)  # noqa: E731
    return [
        Case("Cast", [codes(name)], {"to": 1}, lambda x: x.astype(np.float32), name=f"{name}-to-float32"),
        Case("Cast", [codes(name)], {"to": 10}, lambda x: x.astype(np.float16), name=f"{name}-to-float16"),
        Case("Cast", [WIDE], {"to": number}, saturated, dtypes=["float32"], name=f"float32-to-{name}"),
        Case("Cast", [WIDE * 1000], {"to": number}, saturated, dtypes=["float32"], name=f"large-float32-to-{name}"),
        Case("Cast", [np.arange(-9, 9)], {"to": number}, saturated, name=f"int64-to-{name}"),
    ]


def whole(name: str, number: int) -> list[Case]:
    """Return both directions of an integer type."""
    dtype = getattr(ml_dtypes, name)
    info = ml_dtypes.iinfo(dtype)
    inside = np.resize(np.arange(int(info.min), int(info.max) + 1), 40)
    return [
        Case("Cast", [codes(name)], {"to": 1}, lambda x: x.astype(np.float32), name=f"{name}-to-float32"),
        Case("Cast", [codes(name)], {"to": 3}, lambda x: x.astype(np.int8), name=f"{name}-to-int8"),
        Case("Cast", [inside.astype(np.int32)], {"to": number}, lambda x: x.astype(dtype), name=f"int32-to-{name}"),
        Case(
            "Cast",
            [inside + np.float32(0.25)],
            {"to": number},
            lambda x: np.trunc(x).astype(dtype),
            dtypes=["float32"],
            name=f"float32-to-{name}",
        ),
    ]


def moved(array: np.ndarray) -> list[Case]:
    """Return moves of an array of shape (4, 4)."""
    kind = str(array.dtype)
    fill = np.zeros((), array.dtype)
    return [
        Case("Transpose", [array], {"perm": [1, 0]}, lambda x: x.T, name=f"{kind}"),
        Case("Concat", [array, array[:1]], {"axis": 0}, lambda a, b: np.concatenate([a, b]), name=f"{kind}"),
        Case("GatherElements", [array, np.int64([[3, 0]])], {"axis": 1}, lambda x, i: x[:1, [3, 0]], name=f"{kind}"),
        Case("Where", [np.eye(4, dtype=bool), array, array[::-1]], {}, np.where, name=f"{kind}"),
        Case(
            "Pad",
            [array],
            {"pads": [1, 0, 0, 2]},
            lambda x: np.concatenate([np.full((1, 6), fill), np.concatenate([x, np.full((4, 2), fill)], 1)]),
            name=f"{kind}",
        ),
    ]


COMPLEX = (np.arange(16) - 1j * np.arange(16)[::-1]).reshape(4, 4)
CASES = [
    *(case for name, number in FLOATS.items() for case in cast(name, number)),
    *(case for name, number in INTEGERS.items() for case in whole(name, number)),
    *(case for name in ("float8_e5m2", "int4") for case in moved(codes(name).reshape(4, 4))),
    *(case for kind in (np.complex64, np.complex128) for case in moved(COMPLEX.astype(kind))),
    Case("Cast", [floats(2)], {"to": 24, "round_mode": "odd"}, refuses="round_mode is unknown"),
    Case("Cast", [floats(2)], {"to": 14}, refuses="there is no cast"),
]
