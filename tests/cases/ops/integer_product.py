"""Cases of IntegerMatMul, beside NumPy in 64 bits."""

import numpy as np

from tests.cases.case import Case, ints

FULL = {"int8": (-128, 128), "uint8": (0, 256), "int16": (-32768, 32768)}


def numbers(*shape: int, dtype: str) -> np.ndarray:
    """Return integers over the whole range of a type, its ends among them."""
    low, high = FULL[dtype]
    array = ints(*shape, low=low, high=high, dtype=dtype)
    array.flat[: min(2, array.size)] = (low, high - 1)[: array.size]
    return array


def wrapped(a: np.ndarray, b: np.ndarray, a_zero: np.ndarray | int = 0, b_zero: np.ndarray | int = 0) -> np.ndarray:
    """Return the product without zero points, modulo 2^32."""
    a_zero, b_zero = (np.int64(0) if z is None else np.asarray(z).astype(np.int64) for z in (a_zero, b_zero))
    return np.matmul(a.astype(np.int64) - a_zero, b.astype(np.int64) - b_zero).astype(np.int32)


def case(a: tuple[int, ...], b: tuple[int, ...], left: str = "uint8", right: str = "int8", name: str = "") -> Case:
    """Return the product of two shapes."""
    return Case("IntegerMatMul", [numbers(*a, dtype=left), numbers(*b, dtype=right)], {}, wrapped, name=name)


def moved(
    a: tuple[int, ...], b: tuple[int, ...], a_zero: tuple[int, ...] | None, b_zero: tuple[int, ...] | None,
    left: str = "uint8", right: str = "int8", name: str = "",
) -> Case:  # fmt: skip
    """Return the product of two shapes with zero points of two shapes, the least numbers of their types among them."""
    zeros = [
        None if shape is None else np.asarray(numbers(*shape, 2, dtype=dtype)[..., 0])
        for shape, dtype in ((a_zero, left), (b_zero, right))
    ]
    name = f"zeros-{name or f'{a_zero}-{b_zero}-{left}-{right}-{a[-1]}'}"
    return Case("IntegerMatMul", [numbers(*a, dtype=left), numbers(*b, dtype=right), *zeros], {}, wrapped, name=name)


CASES = [
    *(case((5, 7), (7, 9), left, right, f"{left}-{right}") for left in FULL for right in FULL),
    *(case((13, k), (k, 40), "int16", "int16", f"depth-{k}") for k in (1, 2, 511, 512, 513, 1030)),
    *(case((m, 20), (20, n), "int8", "uint8", f"{m}x{n}") for m in (1, 6, 12, 13, 49, 97) for n in (1, 15, 32, 129)),
    *(case((13, k), (k, 40), name=f"quads-depth-{k}") for k in (0, 1, 2, 3, 4, 1023, 1024, 1025, 2051)),
    *(
        case((m, 1030), (1030, n), left, right, f"{m}x{n}-{left}-{right}")
        for m in (1, 97)
        for n in (1, 129)
        for left in ("int8", "uint8")
        for right in ("int8", "uint8")
    ),
    *(case(a, b, name=f"empty-{a}-{b}") for a, b in (((0, 3), (3, 4)), ((3, 2), (2, 0)), ((0, 2, 3), (0, 3, 4)))),
    *(
        moved((14, k), (k, 35), a_zero, b_zero, left, right)
        for k in (7, 1028)
        for left in ("int8", "uint8")
        for right in ("int8", "uint8")
        for a_zero in (None, (), (14, 1))
        for b_zero in (None, (), (1, 35))
    ),
    moved((5, 0), (0, 3), (), (1, 3), name="no-terms"),
    moved((2, 3, 4, 6), (3, 6, 5), (2, 3, 4, 1), (3, 1, 5), name="stacks"),
    moved((2, 1, 4, 6), (3, 6, 5), (2, 1, 4, 1), (3, 1, 5), "int8", "uint8", "broadcast-stacks"),
    moved((2, 3, 4, 6), (6, 5), (2, 3, 4, 1), (1, 5), name="one-right-operand"),
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
    Case(
        "IntegerMatMul",
        [ints(3, 4, dtype="int8"), ints(4, 5, dtype="int8"), ints(3, dtype="int8")],
        {},
        refuses="zero points must be one number or have shape [3, 1]: got shape [3]",
    ),
    Case(
        "IntegerMatMul",
        [ints(3, 4, dtype="int8"), ints(4, 5, dtype="int8"), None, ints(1, dtype="uint8", low=0)],
        {},
        refuses="must have one type",
    ),
    Case("IntegerMatMul", [ints(4, dtype="int8"), ints(4, 3, dtype="int8")], {}, refuses="must be matrices"),
]
