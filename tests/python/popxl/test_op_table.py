"""Functions of popxl.ops against their formulas in PyTorch: values, gradients, element types, odd shapes."""

import numpy as np
import op_table
import op_table_losses
import op_table_nn
import op_table_pools
import popxl
import pytest
import torch
from programs import evaluate, gradients

TABLES = (
    op_table.unary, op_table.binary, op_table.reductions, op_table.shapes, op_table_nn.indexing, op_table_nn.products,
    op_table_nn.convolutions, op_table_pools.pools,
    op_table_losses.norms, op_table_losses.losses, op_table_losses.images, op_table_losses.var_updates,
)  # fmt: skip
ROWS = {row.name: row for table in TABLES for row in table()}
LIMITS = {"float32": 1e-5, "float16": 2e-3}


def arrays(row, dtype):
    return [a.astype(dtype) if a.dtype == np.float32 else a for a in map(np.asarray, row.inputs)]


def tensors(values, wide=False):
    """Tensors of PyTorch; what has no type there becomes the next larger one."""
    other = {"uint32": "int64", "uint16": "int32"}
    made = [torch.tensor(v.astype(other.get(v.dtype.name, v.dtype))) for v in values]
    return [t.double() if wide and t.is_floating_point() else t for t in made]


def listed(value):
    return list(value) if isinstance(value, list | tuple) else [value]


def compare(got, expected, dtype, tolerance):
    limit = LIMITS[dtype] * tolerance
    expected = expected.detach().double().numpy() if expected.is_floating_point() else expected.numpy()
    assert got.shape == tuple(expected.shape)
    np.testing.assert_allclose(got.astype(expected.dtype), expected, rtol=limit, atol=limit)


def types(row):
    return row.dtypes if any(np.asarray(a).dtype == np.float32 for a in row.inputs) else ("float32",)


@pytest.mark.parametrize(("name", "dtype"), [(n, d) for n, row in ROWS.items() for d in types(row)])
def test_values(name, dtype):
    row = ROWS[name]
    values = arrays(row, dtype)
    got = listed(evaluate(row.build, *values))
    expected = listed(row.formula(*tensors(values, wide=True)))
    assert len(got) == len(expected)
    for g, e in zip(got, expected, strict=True):
        compare(g, e, dtype, row.tolerance)


# Forms of one function (after the dash) have gradients in float32 only.
DIFFERENTIATED = [
    (n, d) for n, row in ROWS.items() if row.gradients for d in types(row) if d == "float32" or "-" not in n
]


@pytest.mark.parametrize(("name", "dtype"), DIFFERENTIATED)
def test_gradients(name, dtype):
    row = ROWS[name]
    values = arrays(row, dtype)
    given = tensors(values, wide=True)
    for i in row.gradients:
        given[i].requires_grad_()
    result = listed(row.formula(*given))[0]
    dy = op_table.numbers(*result.shape, low=-1, high=1) if result.ndim else np.float32(0.75)
    first = listed(evaluate(row.build, *values))[0]
    dy = dy.astype(first.dtype)
    result.backward(torch.tensor(dy).double())
    got = gradients(popxl.Ir(), lambda *ts: listed(row.build(*ts))[0], values, dy, before=True, wanted=row.gradients)
    for i, g in zip(row.gradients, got, strict=True):
        assert g.dtype == values[i].dtype
        compare(g, given[i].grad, dtype, 2 * row.tolerance)
