"""Cases of DequantizePacked, compared with NumPy."""

import numpy as np

from tests.cases.case import Array, Case, floats, ints


def unpacked(packed: Array, bits: int, columns: int) -> Array:
    """Return the numbers of rows of bytes, those in the lowest bits first."""
    parts = [(packed >> (bits * i)) & (2**bits - 1) for i in range(8 // bits)]
    return np.stack(parts, -1).reshape(len(packed), -1)[:, :columns]


def case(bits: int, rows: int, columns: int, block: int, zeros: bool, name: str = "") -> Case:
    """Return rows of numbers with a scale, and on request a zero point, for each block."""
    blocks = -(-columns // block)
    packed = ints(rows, -(-columns * bits // 8), low=0, high=256, dtype="uint8")

    def expected(packed: Array, scale: Array, zero: Array | None = None) -> Array:
        number = unpacked(packed, bits, columns).astype(np.float64)
        middle = 2.0 ** (bits - 1) if zero is None else np.repeat(zero, block, 1)[:, :columns]
        return (number - middle) * np.repeat(scale, block, 1)[:, :columns]

    inputs = [packed, floats(rows, blocks)] + ([floats(rows, blocks, low=0, high=2**bits)] if zeros else [])
    attributes = {"bits": bits, "block_size": block, "columns": columns, "zero_point": 2.0 ** (bits - 1)}
    return Case("DequantizePacked", inputs, attributes, expected, name=name or f"{bits}-{columns}-{block}-{zeros}")


PACKED = ints(2, 8, low=0, high=256, dtype="uint8")
NUMBERS = {"bits": 4, "block_size": 16, "columns": 16}

CASES = [
    *(case(bits, 3, 64, 16, zeros) for bits in (2, 4, 8) for zeros in (False, True)),
    case(4, 5, 37, 16, True),
    case(4, 300, 256, 32, False),
    case(8, 1, 1, 16, True),
    Case("DequantizePacked", [PACKED, floats(2, 1)], NUMBERS | {"bits": 3}, refuses="expected 2, 4 or 8"),
    Case("DequantizePacked", [PACKED, floats(2, 2)], NUMBERS, refuses="one for each block"),
    Case("DequantizePacked", [PACKED, floats(2, 2)], NUMBERS | {"columns": 17}, refuses="with 17 numbers in a row"),
]
