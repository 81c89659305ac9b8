"""Cases of IntegerMatMul, beside NumPy in 64 bits."""

import numpy as np

from tests.cases.case import Case, ints

FULL = {"int8": (-128, 128), "uint8": (0, 256), "int16": (-32768, 32768)}


def numbers(*shape: int, dtype: str) -> np.ndarray:
    """Return integers over the whole range of a type, its ends among them."""
    low, high = FULL[dtype]
    array = ints(*shape, low=low, high=high, dtype=dtype)
    array.reshape(-1)[:2] = low, high - 1
    return array


def wrapped(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the product modulo 2^32."""
    return np.matmul(a.astype(np.int64), b.astype(np.int64)).astype(np.int32)


def case(a: tuple[int, ...], b: tuple[int, ...], left: str = "uint8", right: str = "int8", name: str = "") -> Case:
    """Return the product of two shapes."""
    return Case("IntegerMatMul", [numbers(*a, dtype=left), numbers(*b, dtype=right)], {}, wrapped, name=name)


CASES = [
    *(case((5, 7), (7, 9), left, right, f"{left}-{right}") for left in FULL for right in FULL),
    *(case((13, k), (k, 40), "int16", "int16", f"depth-{k}") for k in (1, 2, 511, 512, 513, 1030)),
    *(case((m, 20), (20, n), "int8", "uint8", f"{m}x{n}") for m in (1, 6, 12, 13, 49, 97) for n in (1, 15, 32, 129)),
    case((2, 3, 4, 6), (3, 6, 5), name="stacks"),
    case((2, 1, 4, 6), (3, 6, 5), "int16", "uint8", "broadcast-stacks"),
    Case(
        "IntegerMatMul",
        [np.full((3, 4), -32768, np.int16), np.full((4, 3), -32768, np.int16)],
        {},
        wrapped,
        name="beyond-int32",
    ),
    Case("IntegerMatMul", [ints(3, 4, dtype="int8"), ints(3, 4, dtype="int8")], {}, refuses="last dimension"),
    Case("IntegerMatMul", [ints(4, dtype="int8"), ints(4, 3, dtype="int8")], {}, refuses="must be matrices"),
]
