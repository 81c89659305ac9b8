"""Cases of IntegerMatMul and IntegerConv, beside NumPy in 64 bits."""

import functools

import numpy as np

from tests.cases.case import Case, ints

FULL = {"int8": (-128, 128), "uint8": (0, 256)}


def numbers(*shape: int, dtype: str) -> np.ndarray:
    """Return integers over the whole range of a type, its ends among them."""
    low, high = FULL[dtype]
    array = ints(*shape, low=low, high=high, dtype=dtype)
    array.flat[: min(2, array.size)] = (low, high - 1)[: array.size]
    return array


def ended(
    sums: np.ndarray, bias: np.ndarray | None, scale: np.ndarray | None, zero: np.ndarray | None, axis: int
) -> np.ndarray:
    """Return 64-bit sums with bias, scale and zero point of the result as far as there are; `axis`: of columns."""

    def along(numbers: np.ndarray) -> np.ndarray:
        return numbers if numbers.size == 1 else numbers.reshape([-1 if d == axis else 1 for d in range(sums.ndim)])

    sums = (sums if bias is None else sums + along(bias)).astype(np.int32)
    if scale is None:
        return sums
    y = sums.astype(np.float32) * along(scale.astype(np.float32))
    if zero is None:
        return y
    limits = np.iinfo(zero.dtype)
    return np.clip(np.rint(y) + np.float32(zero), limits.min, limits.max).astype(zero.dtype)


def ending(columns: int, kind: str) -> list[np.ndarray | None]:
    """Return bias, scale and zero point.

    Args:
        columns: Columns or channels.
        kind: Letters: b or B, s or S, u or i, for a bias, a scale (large: of each column) and a result of UINT8 or
            INT8, whose zero points are ends of the type.

    Returns:
        What there is of the three, None in the place of others.
    """
    numbers = np.linspace(0.3, 1.7, columns, dtype=np.float32) * np.float32(2**-9)
    bias = {"b": np.int32(-12345), "B": ints(columns, low=-(2**15), high=2**15)}
    scale = {"s": np.float32(0.0078), "S": numbers}
    zero = {"u": np.uint8(255), "i": np.int8(-128)}
    return [next((np.asarray(d[k]) for k in kind if k in d), None) for d in (bias, scale, zero)]


def wrapped(
    a: np.ndarray, b: np.ndarray, a_zero: np.ndarray | int = 0, b_zero: np.ndarray | int = 0, *end: np.ndarray | None
) -> np.ndarray:
    """Return the product without zero points, modulo 2^32, with its ending."""
    a_zero, b_zero = (np.int64(0) if z is None else np.asarray(z).astype(np.int64) for z in (a_zero, b_zero))
    sums = np.matmul(a.astype(np.int64) - a_zero, b.astype(np.int64) - b_zero)
    return ended(sums, *(*end, None, None, None)[:3], axis=sums.ndim - 1)


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


def windowed(
    x: np.ndarray, w: np.ndarray, x_zero: np.ndarray | None, w_zero: np.ndarray | None, *end: np.ndarray | None,
    group: int, strides: list[int], dilations: list[int], pads: list[int],
) -> np.ndarray:  # fmt: skip
    """Return the convolution of two arrays without zero points as one product for each tap, with its ending."""
    rank, each = w.ndim - 2, w.shape[0] // group
    x = x.astype(np.int64) - (0 if x_zero is None else x_zero.astype(np.int64))
    w_zeros = np.zeros(w.shape[0], np.int64) if w_zero is None else np.broadcast_to(w_zero, w.shape[0]).astype(np.int64)
    w = w.astype(np.int64) - w_zeros.reshape(-1, *[1] * (rank + 1))
    x = np.pad(x, [(0, 0), (0, 0), *((pads[d], pads[rank + d]) for d in range(rank))])
    sizes = [(x.shape[2 + d] - (w.shape[2 + d] - 1) * dilations[d] - 1) // strides[d] + 1 for d in range(rank)]
    y = np.zeros((x.shape[0], w.shape[0], *sizes), np.int64)
    for tap in np.ndindex(*w.shape[2:]):
        at = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, n, s in zip(tap, dilations, sizes, strides, strict=True)
        )
        under = x[(slice(None), slice(None), *at)]
        for g in range(group):
            rows = slice(g * each, (g + 1) * each)
            channels = slice(g * w.shape[1], (g + 1) * w.shape[1])
            y[:, rows] += np.einsum("mc,nc...->nm...", w[(rows, slice(None), *tap)], under[:, channels])
    return ended(y, *(*end, None, None, None)[:3], axis=1)


def convolution(
    x: tuple[int, ...], w: tuple[int, ...], types: str = "us", zeros: str = "", group: int = 1,
    strides: tuple[int, ...] = (), dilations: tuple[int, ...] = (), pads: tuple[int, ...] = (), name: str = "",
    end: str = "",
) -> Case:  # fmt: skip
    """Return a convolution; types and zero points ("n": of each channel, "1": one) are those of x and w.

    Args:
        x: Shape of the image.
        w: Shape of the weights.
        types: Signs of x and w, "u" or "s".
        zeros: Whether x has a zero point, then which w has.
        group: Number of groups.
        strides: Steps of the window.
        dilations: Steps between taps.
        pads: Paddings, all at the front first.
        name: Of the case.
        end: See `ending`.

    Returns:
        The case.
    """
    rank = len(x) - 2
    left, right = ("uint8" if t == "u" else "int8" for t in types)
    settings = {
        "group": group,
        "strides": list(strides or (1,) * rank),
        "dilations": list(dilations or (1,) * rank),
        "pads": list(pads or (0,) * (2 * rank)),
    }
    x_zero = np.asarray(numbers(2, dtype=left)[1] - 3).astype(left) if zeros else None
    w_zero = {"n": numbers(w[0], dtype=right), "1": np.asarray(numbers(2, dtype=right)[0])}.get(zeros[1:])
    inputs = [numbers(*x, dtype=left), numbers(*w, dtype=right), x_zero, w_zero, *ending(w[0], end)]
    full = functools.partial(windowed, **settings)
    name = f"{name or f'{x}-{w}-{types}-{zeros}-{group}-{strides}-{dilations}-{pads}'}{'-' if end else ''}{end}"
    return Case("IntegerConv", inputs, settings, full, dtypes=("float32",), name=name)


def multiplied(
    a: tuple[int, ...], b: tuple[int, ...], zeros: bool, end: str, left: str = "uint8", right: str = "int8"
) -> Case:
    """Return the product of two shapes with an ending, and zero points of all numbers or none."""
    points = [np.asarray(numbers(2, dtype=t)[1] - 5).astype(t) if zeros else None for t in (left, right)]
    inputs = [numbers(*a, dtype=left), numbers(*b, dtype=right), *points, *ending(b[-1], end)]
    name = f"{a}-{b}-{left}-{right}-{'zeros-' if zeros else ''}{end}"
    return Case("IntegerMatMul", inputs, {}, wrapped, dtypes=("float32",), name=name)


ENDINGS = ("b", "B", "s", "BS", "bSu", "BSi", "su", "Si")


CONVOLUTIONS = [
    *(
        convolution((2, 5, 9, 11), (7, 5, 3, 3), left + right, zeros, pads=(1, 2, 0, 1))
        for left in "us"
        for right in "us"
        for zeros in ("", "x", "x1", "xn")
    ),
    *(convolution((1, c, 6, 6), (4, c, 1, 1), zeros="xn", name=f"pointwise-{c}") for c in (0, 1, 3, 4, 64)),
    convolution((3, 64, 20, 20), (100, 64, 3, 3), zeros="xn", pads=(1, 1, 1, 1), name="several-tasks"),
    convolution((1, 130, 5, 5), (3, 130, 3, 3), "su", "xn", pads=(1, 1, 1, 1), name="several-blocks"),
    convolution((2, 12, 8, 8), (8, 3, 3, 3), zeros="xn", group=4, pads=(1, 1, 1, 1), name="groups"),
    convolution((2, 6, 17, 33), (6, 1, 3, 3), "ss", "xn", group=6, pads=(1, 1, 1, 1), name="depthwise"),
    convolution((1, 3, 23, 29), (5, 3, 7, 7), zeros="xn", strides=(2, 3), pads=(3, 3, 3, 3), name="strides"),
    convolution((1, 3, 23, 29), (5, 3, 3, 3), zeros="x1", dilations=(2, 5), pads=(4, 5, 4, 5), name="dilations"),
    convolution((1, 2, 3, 3), (2, 2, 3, 3), zeros="x1", pads=(5, 5, 5, 5), strides=(2, 2), name="windows-outside"),
    convolution((2, 3, 40), (4, 3, 5), zeros="xn", pads=(2, 2), name="one-dimension"),
    convolution(
        (1, 2, 5, 6, 7), (3, 2, 2, 3, 2), zeros="xn", strides=(1, 2, 1), pads=(1,) * 6, name="three-dimensions"
    ),
    convolution((1, 2, 3, 4, 3, 4), (3, 2, 2, 2, 2, 2), zeros="xn", pads=(1,) * 8, name="four-dimensions"),
    convolution((0, 2, 5, 5), (3, 2, 3, 3), zeros="xn", name="no-images"),
    *(convolution((2, 5, 9, 11), (37, 5, 3, 3), "us", "x", pads=(1, 2, 0, 1), end=end) for end in ENDINGS),
    *(convolution((2, 8, 5, 7), (70, 8, 1, 1), "us", "x", name="pointwise", end=end) for end in ENDINGS),
    *(
        convolution((2, c, 7, 9), (c, 1, 3, 3), left + right, zeros, c, (1, 2), (2, 1), (1, 0, 2, 1), end=end)
        for c in (3, 35)
        for left in "us"
        for right in "us"
        for zeros in ("", "x", "x1", "xn")
        for end in ("", "BSu")
    ),
    convolution((1, 24, 12, 13), (24, 1, 5, 5), zeros="x", group=24, pads=(2,) * 4, end="BSi", name="depthwise-5"),
    convolution((2, 6, 4, 5, 3), (6, 1, 2, 3, 2), zeros="xn", group=6, pads=(1,) * 6, end="Su", name="depthwise-3d"),
    *(  # groups that share a matrix, and those that do not, because zero points keep them apart
        convolution((2, g * c, 6, 7), (g * m, c, 3, 2), left + right, zeros, g, (2, 1), (1, 2), (1, 0, 0, 1), end=end)
        for g, c, m in ((2, 3, 5), (6, 1, 2), (7, 2, 1), (12, 4, 4), (3, 5, 40))
        for left, right in ("us", "ss", "uu")
        for zeros in ("x", "xn")
        for end in ("", "Bsi")
    ),
    convolution((5, 64, 7, 7), (96, 64, 3, 3), zeros="x", pads=(1,) * 4, end="BSu", name="rows-of-several-images"),
    convolution((1, 520, 4, 4), (40, 520, 3, 3), "su", "xn", pads=(1,) * 4, end="BSi", name="long-rows"),
    convolution((1, 16, 3, 3), (300, 16, 3, 3), zeros="x", pads=(1,) * 4, end="BSu", name="many-channels"),
    convolution((2, 1, 6, 6), (1, 1, 3, 3), zeros="x1", end="su", name="one-channel"),
    convolution((1, 4, 5), (3, 4, 2), "ss", "x", strides=(2,), pads=(1, 0), end="BSi", name="one-dimension"),
    Case(
        "IntegerConv",
        [ints(1, 3, 4, 4, dtype="int8"), ints(2, 3, 3, 3, dtype="int8"), None, None, ints(3)],
        {},
        refuses="bias and scale must be one number or have shape [2]: got shape [3]",
    ),
    Case(
        "IntegerConv",
        [ints(1, 3, 4, 4, dtype="int8"), ints(2, 3, 3, 3, dtype="int8"), None, None, None, None, np.int8([3])],
        {},
        refuses="a zero point of the result needs a scale",
    ),
    Case(
        "IntegerConv",
        [ints(1, 3, 4, 4, dtype="int8"), ints(2, 4, 3, 3, dtype="int8")],
        {},
        refuses="the input's channels must equal weight dimension 1 times group",
    ),
    Case(
        "IntegerConv",
        [ints(1, 3, 4, 4, dtype="int8"), ints(2, 3, 3, 3, dtype="int8"), ints(3, dtype="int8")],
        {},
        refuses="zero points must be one number",
    ),
]

CASES = [
    *CONVOLUTIONS,
    *(case((5, 7), (7, 9), left, right, f"{left}-{right}") for left in FULL for right in FULL),
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
    *(multiplied((13, 1030), (1030, 37), zeros, end) for zeros in (False, True) for end in ENDINGS),
    *(
        multiplied((100, 20), (20, 140), True, "BSu", left, right)
        for left in ("int8", "uint8")
        for right in ("int8", "uint8")
    ),
    multiplied((2, 3, 6), (2, 6, 33), True, "BSi"),
    multiplied((3, 0), (0, 5), True, "BSi"),
    moved((2, 3, 4, 6), (3, 6, 5), (2, 3, 4, 1), (3, 1, 5), name="stacks"),
    moved((2, 1, 4, 6), (3, 6, 5), (2, 1, 4, 1), (3, 1, 5), "int8", "uint8", "broadcast-stacks"),
    moved((2, 3, 4, 6), (6, 5), (2, 3, 4, 1), (1, 5), name="one-right-operand"),
    case((2, 3, 4, 6), (3, 6, 5), name="stacks"),
    case((2, 1, 4, 6), (3, 6, 5), "int8", "uint8", "broadcast"),
    Case("IntegerMatMul", [ints(3, 4, dtype="int16"), ints(4, 3, dtype="int16")], {}, refuses="int16"),
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
