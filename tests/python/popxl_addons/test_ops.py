"""Operators of popxl_addons on one replica, against NumPy; gradients against PyTorch."""

import numpy as np
import popart
import popxl
import popxl.ops as ops
import popxl_addons as addons
import pytest
import scipy.sparse
import torch
from popxl.fp8_utils import host_pow2scale_cast_from_fp8, host_pow2scale_cast_to_fp8
from popxl_addons.ops.fp8_mse_scale import fp8_mse_scale
from popxl_addons.ops.grad_reduce_square_add import grad_reduce_square_add
from popxl_addons.ops.group_quantize_decompress import (
    group_quantize_compress_numpy,
    group_quantize_decompress,
    group_quantize_decompress_numpy,
)
from popxl_addons.ops.linear_layout import linear_layout
from popxl_addons.ops.rotary_pos_embed import rotary_pos_embed, trig_table_constants, trig_tables
from popxl_addons.ops.static_sparse_ops import dense_const_sparse_matmul, random_sparse

from tests.python.popxl_addons.programs import mse_scale, run, with_gradients

RNG = np.random.default_rng(7)


def normal(*shape, dtype=np.float32):
    return RNG.normal(size=shape).astype(dtype)


def op_types(graph):
    return [op.opType() for op in graph._pb_graph.getOps()]


# ---- cross entropy
@pytest.mark.parametrize("ignore", [None, 2])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_cross_entropy_with_grad(reduction, ignore):
    x, labels = normal(6, 5), np.array([0, 2, 4, 2, 1, 3], np.int32)
    t = torch.tensor(x, requires_grad=True)
    options = {} if ignore is None else {"ignore_index": ignore}
    expected = torch.nn.functional.cross_entropy(t, torch.tensor(labels).long(), reduction=reduction, **options)
    expected.backward()

    def function(x, labels):
        return addons.cross_entropy(x, labels, ignore, reduction)

    def build(x, labels):
        plain, backward = with_gradients(function, 1, x, labels)
        loss, dx = addons.cross_entropy_with_grad(x, labels, 8, ignore, reduction)
        return [plain, backward, loss, dx]

    plain, backward, loss, dx = run(1, build, x, labels)
    np.testing.assert_allclose([plain, loss], [expected.item()] * 2, rtol=1e-5)
    np.testing.assert_allclose(backward, t.grad, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(dx, 8 * t.grad, rtol=1e-4, atol=1e-6)


# ---- scales of float8
FORMATS = [(popxl.float8_143, 240.0), (popxl.float8_152, 57344.0)]


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize(("format", "largest"), FORMATS)
def test_amax_scale(format, largest, dtype):
    values = [240.0, 240.5, 1.875, 1e-3, 30000.0, 1.0, 1.5, 6e-8, 0.0]
    arrays = [np.array([v, -v / 2, 0], dtype) for v in values]
    got = run(1, lambda *ts: [addons.ops.fp8_amax_scale(t, format) for t in ts], *arrays)
    for array, scale in zip(arrays, got, strict=True):
        amax = float(np.abs(array).max())
        expected = 31 if amax == 0 else np.clip(np.floor(np.log2(largest / amax)), -31, 31)
        assert scale == expected, array
        assert scale.dtype == np.int32 and scale.shape == ()


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize(("format", "largest"), FORMATS)
def test_mse_scale(format, largest, dtype):
    arrays = [
        normal(64, dtype=dtype),
        normal(64, 3, dtype=dtype) * dtype(1e-3),
        normal(500, dtype=dtype) ** 5 * dtype(10),
        np.full(4, 3, dtype),
        np.array([1e-4, 50, -2000], dtype),
    ]
    got = run(1, lambda *ts: [fp8_mse_scale(t, format) for t in ts], *arrays)
    assert [int(s) for s in got] == [mse_scale(a, format) for a in arrays]
    for array, scale in zip(arrays[:2], got):  # near the best scale of all
        errors = {}
        for s in range(-31, 32):
            cast = host_pow2scale_cast_to_fp8(array, format, s, nan_on_overflow=False)
            errors[s] = np.mean((host_pow2scale_cast_from_fp8(cast, popxl.float64, -s) - array.astype(float)) ** 2)
        assert errors[int(scale)] < 4 * min(errors.values())


def test_scales_refuse_other_types():
    with popxl.Ir().main_graph:
        for function in (addons.ops.fp8_amax_scale, fp8_mse_scale):
            with pytest.raises(RuntimeError, match="int32"):
                function(popxl.variable(np.ones(3, np.int32)))
            with pytest.raises(RuntimeError, match="float16, expected float8_143"):
                function(popxl.variable(np.ones(3, np.float32)), popxl.float16)


# ---- rotary embedding
def rotated(x, sin, cos, rotary_dim):
    y, s, c = x.copy(), *(np.expand_dims(t if t.ndim == 3 else t[None], 2) for t in (sin, cos))
    a, b = x[..., 0:rotary_dim:2], x[..., 1:rotary_dim:2]
    y[..., 0:rotary_dim:2], y[..., 1:rotary_dim:2] = a * c - b * s, b * c + a * s
    return y


def test_trig_tables():
    sin, cos = trig_tables(5, 6, 100)
    angles = np.arange(5)[:, None] * 100.0 ** (-2 * np.arange(3) / 6)
    np.testing.assert_allclose(sin, np.sin(angles), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(cos, np.cos(angles), rtol=1e-5, atol=1e-6)
    assert sin.dtype == cos.dtype == np.float32
    assert trig_tables(2, 4, np_dtype="float64")[0].dtype == np.float64


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(("hidden", "rotary_dim"), [(8, None), (8, 0), (8, 4), (6, 6)])
def test_rotary(hidden, rotary_dim, dtype):
    x, g = normal(2, 3, 2, hidden, dtype=dtype), normal(2, 3, 2, hidden, dtype=dtype)
    turned = rotary_dim or hidden
    sin, cos = trig_tables(3, turned)

    def build(x, g):
        tables = trig_table_constants(3, turned, dtype=popxl.dtype.as_dtype(dtype))
        return with_gradients(lambda x, s, c: rotary_pos_embed(x, s, c, rotary_dim), 1, x, *tables, gradient=g)

    y, dx = run(1, build, x, g)
    tolerance = {"rtol": 2e-3, "atol": 4e-3} if dtype == np.float16 else {"rtol": 1e-5, "atol": 1e-6}
    np.testing.assert_allclose(y, rotated(x.astype(np.float32), sin, cos, turned), **tolerance)
    np.testing.assert_allclose(dx, rotated(g.astype(np.float32), -sin, cos, turned), **tolerance)


@pytest.mark.parametrize("lead", [1, 2])
def test_rotary_tables_by_sample(lead):
    x, sin, cos = normal(2, 3, 2, 4), normal(lead, 3, 2), normal(lead, 3, 2)
    (y,) = run(1, lambda *ts: [rotary_pos_embed(*ts)], x, sin, cos)
    np.testing.assert_allclose(y, rotated(x, sin, cos, 4), rtol=1e-5, atol=1e-6)


def test_rotary_gradient_reads_the_tables_alone():
    with popxl.Ir().main_graph:
        x, table = popxl.variable(normal(2, 3, 2, 4)), popxl.variable(normal(3, 2))
        graph = popxl.gir().create_graph(lambda x, s, c: rotary_pos_embed(x, s, c), x, table, table)
        backward = addons.autodiff(graph, grads_required=graph.inputs[:1])
        assert op_types(graph) == ["RotaryPosEmbed"] and "RotaryPosEmbedGrad" in op_types(backward.graph)
        assert [t.name for t in backward.grad_graph_info.inputs[1:]] == ["c", "s"]
        with pytest.raises(popart.popart_exception, match="even"):
            rotary_pos_embed(x, table, table, 3)
        with pytest.raises(popart.popart_exception, match=r"table of sines or cosines"):
            rotary_pos_embed(x, table, table, 2)
        for wrong in ((ops.flatten(x), table, table), (x, ops.flatten(table), table), (x, table, ops.flatten(table))):
            with pytest.raises(AssertionError):
                rotary_pos_embed(*wrong)


# ---- weights of four bits
@pytest.mark.parametrize("dim", [-1, 0, 1])
def test_group_quantize(dim):
    t = normal(16, 24)
    packed, scale, bias = group_quantize_compress_numpy(t, 8, dim)
    rows, groups = (24, 2) if dim == 0 else (16, 3)
    assert packed.shape == (rows, groups, 2) and packed.dtype == np.uint16
    assert scale.shape == bias.shape == (rows, groups, 1) and scale.dtype == bias.dtype == np.float16
    back = group_quantize_decompress_numpy(packed, scale, bias, dim)
    assert back.shape == t.shape and back.dtype == np.float16
    step = float(scale.max())
    np.testing.assert_allclose(back, t, atol=0.51 * step + 0.01)
    # the first number is in the highest bits
    moved = (t if dim != 0 else t.T).reshape(rows, groups, 8)
    first = np.rint((moved[..., 0].astype(np.float32) - bias[..., 0]) / scale[..., 0].astype(np.float32))
    np.testing.assert_array_equal(packed[..., 0] >> 12, np.clip(first, 0, 15))

    for rank, dtype in ((3, np.float16), (2, np.float16), (3, np.float32)):
        factors = [f.reshape(f.shape[:rank]).astype(dtype) for f in (scale, bias)]
        (y,) = run(1, lambda *ts: [group_quantize_decompress(*ts, dim=dim)], packed, *factors)
        expected = back.astype(np.float32)
        assert y.dtype == dtype
        np.testing.assert_allclose(y, expected.T if dim == 1 else expected, rtol=2e-3, atol=2e-3)


def test_group_quantize_refusals():
    with pytest.raises(ValueError, match="finite"):
        group_quantize_compress_numpy(np.array([1, np.inf, 0, 0]), 4, -1)
    with popxl.Ir().main_graph:
        t, factor = popxl.variable(np.ones((2, 3, 1), np.uint16)), popxl.variable(np.ones((2, 3), np.float32))
        with pytest.raises(NotImplementedError, match="rows, groups, ids"):
            group_quantize_decompress(ops.flatten(t), factor, factor)
        for wrong in ((ops.flatten(factor), factor), (factor, ops.transpose(factor))):
            with pytest.raises(ValueError, match="group_quantize_decompress: group_"):
                group_quantize_decompress(t, *wrong)
        assert group_quantize_decompress(t, factor, factor).shape == (2, 12)
        assert op_types(popxl.gmg())[-1] == "GroupQuantizeDecompress"


# ---- others
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_square_sums(dtype):
    x = normal(20, 7, dtype=dtype) * dtype(100)

    def build(x, scaling):
        return [grad_reduce_square_add(x, 4), grad_reduce_square_add(x, scaling), grad_reduce_square_add(x, 0.5)]

    got = run(1, build, x, np.array(8, np.float32))
    expected = np.sum(x.astype(np.float64) ** 2) / np.array([4, 8, 0.5]) ** 2
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    assert got[0].dtype == np.float32


def test_linear_layout_passes_values_and_gradients():
    x, g = normal(3, 4), normal(3, 4)
    y, dx = run(1, lambda x, g: with_gradients(lambda t: linear_layout(t, bs=4), 1, x, gradient=g), x, g)
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(dx, g)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("lead", [(), (1,)])
def test_sparse_product(dtype, lead):
    dense = normal(6, 5)
    given = dense.copy()
    assert random_sparse(given, 0.3) is given
    assert np.all((given == 0) | (given == dense)) and given.any()
    assert np.count_nonzero(random_sparse(np.ones((3, 3)), 0.0)) == 1
    x = normal(*lead, 4, 6, dtype=dtype)
    rhs = scipy.sparse.csr_matrix(given)
    (y,) = run(1, lambda x: [dense_const_sparse_matmul(x, rhs, 5)], x)
    assert y.dtype == dtype and y.shape == (*lead, 4, 5)
    np.testing.assert_allclose(y, x.astype(np.float32) @ given, rtol=2e-3 if dtype == np.float16 else 1e-5, atol=5e-3)
    with popxl.Ir().main_graph, pytest.raises(RuntimeError, match="int32"):
        dense_const_sparse_matmul(popxl.variable(np.ones((4, 6), np.int32)), rhs, 5)


def test_operators_work_in_calls_and_repeats():
    x, (sin, cos) = normal(1, 3, 2, 4), trig_tables(3, 4)

    def build(x):
        tables = [popxl.constant(t) for t in (sin, cos)]
        graph = popxl.gir().create_graph(lambda x, s, c: rotary_pos_embed(x, s, c), x, *tables)
        (called,) = ops.call(graph, x, *tables)
        (repeated,) = ops.repeat(graph, 3, x, *tables)
        return [called, repeated]

    called, repeated = run(1, build, x)
    np.testing.assert_allclose(called, rotated(x, sin, cos, 4), rtol=1e-5, atol=1e-6)
    expected = x
    for _ in range(3):
        expected = rotated(expected, sin, cos, 4)
    np.testing.assert_allclose(repeated, expected, rtol=1e-4, atol=1e-5)
