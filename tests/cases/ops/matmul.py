"""Cases of MatMul: every combination of ranks, broadcasting on both sides."""

import numpy as np

from tests.cases.case import Case, floats, ints

SHAPES = [
    ("matrices", (3, 4), (4, 5)),
    ("batch_by_weight", (2, 3, 4), (4, 5)),
    ("batches", (2, 3, 4), (2, 4, 5)),
    ("vector_by_matrix", (4,), (4, 5)),
    ("matrix_by_vector", (3, 4), (4,)),
    ("vectors", (4,), (4,)),
    ("batch_by_vector", (2, 3, 4), (4,)),
    ("vector_by_batch", (4,), (2, 4, 5)),
    ("both_broadcast", (2, 1, 3, 4), (5, 4, 2)),
    ("matrix_by_batch", (3, 4), (2, 4, 5)),
    ("inner_one", (3, 1), (1, 5)),
]

CASES = [
    *[
        Case("MatMul", [floats(*a), floats(*b)], expected=np.matmul, gradients=[0, 1], name=name)
        for name, a, b in SHAPES
    ],
    Case("MatMul", [floats(0, 4), floats(4, 5)], expected=np.matmul, name="no_rows"),
    Case("MatMul", [floats(3, 0), floats(0, 5)], expected=np.matmul, name="nothing_to_sum"),
    Case("MatMul", [ints(3, 4), ints(4, 5, high=9)], expected=np.matmul, name="integers"),
    # 300 products of numbers up to 2 in float16: rounding of the result alone is 2**-11 of values up to about 100.
    Case("MatMul", [floats(7, 300), floats(300, 17)], expected=np.matmul, name="long_sum", tolerance=4),
    Case("MatMul", [floats(3, 70, 301), floats(301)], expected=np.matmul, name="long_dots", tolerance=4),  # as long_sum
    Case("MatMul", [floats(301), floats(301, 90)], expected=np.matmul, name="long_row", tolerance=4),  # as long_sum
    *[
        Case("MatMul", [ints(2, 9, 33, dtype=d), ints(33, 21, dtype=d)], expected=np.matmul, name=f"integers_{d}")
        for d in ("int32", "int64")
    ],
    Case("MatMul", [floats(3, 4), floats(5, 4)], refuses="the last dimension of the left operand"),
    Case("MatMul", [floats(), floats(4, 5)], refuses="operands of rank 0"),
    Case("MatMul", [floats(2, 3, 4), floats(3, 4, 5)], refuses="leading dimensions do not broadcast"),
    Case("MatMul", [floats(3, 4), ints(4, 5)], refuses="MatMul", name="mixed_types"),
]
