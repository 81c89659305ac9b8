"""Tensors, dtypes, conversions and indexing."""

import numpy as np
import popxl
import popxl.ops as ops
import pytest
import torch
from popxl import dtypes
from popxl.utils import table_to_string, to_numpy
from programs import evaluate

X = np.arange(24, dtype=np.float32).reshape(4, 6)

INDICES = [0, -1, 3, slice(1, 3), slice(None, None, 2), slice(None, None, -1), (1, slice(None, None, 2)),
           (slice(1, None), -2),
           (slice(None), slice(4, 1, -2))]  # fmt: skip


@pytest.mark.parametrize("key", INDICES, ids=str)
def test_indexing(key):
    np.testing.assert_array_equal(evaluate(lambda t: t[key], X), X[key])


def test_indexing_with_tensors():
    i = np.array([[2, 0], [1, 1]])
    np.testing.assert_array_equal(evaluate(lambda t: t[i], X), X[i])
    np.testing.assert_array_equal(evaluate(lambda t, k: t[k], X, i.astype(np.int32)), X[i])
    mask = X > 5
    np.testing.assert_array_equal(evaluate(lambda t: t[mask], X), np.where(mask, X, 0))
    for key in (None, Ellipsis, "a", True, 1.5):
        with pytest.raises(TypeError):
            evaluate(lambda t, k=key: t[k], X)


def test_operators_with_host_values():
    got = evaluate(
        lambda t: (t + 1, 2 - t, t * np.float32(3), 1 / (t + 1), -t, t % 4, t**2.0, 2.0**t, np.ones(6) + t), X
    )
    expected = (X + 1, 2 - X, X * 3, 1 / (X + 1), -X, X % 4, X**2, 2**X, X + 1)
    for value, wanted in zip(got, expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-5)
    np.testing.assert_array_equal(evaluate(lambda t: t + 1.5, np.arange(3, dtype=np.int32)), np.arange(3) + 1)
    with pytest.raises(ValueError, match="empty"):
        evaluate(lambda t: t + np.zeros(0), X)


@pytest.mark.parametrize("value", [None, "3", NotImplemented, np.array(None), np.array(["1", "2"]), {}], ids=str)
def test_what_is_no_number_is_refused(value):
    """None, above all, which a function without return gives, is no NaN."""
    with popxl.Ir().main_graph:
        x = popxl.variable(np.ones(2, np.float32))
        for use in (lambda: x + value, lambda: value * x, lambda: popxl.constant(value, popxl.float32)):
            with pytest.raises(TypeError, match="numbers"):
                use()
        with pytest.raises(TypeError, match="numbers"):
            popxl.variable(value, popxl.float32)
        assert (x + np.array([1, 2.5], dtype=object)).shape == (2,)


def test_the_tuple_of_a_call_is_no_operand():
    """The message says what to do."""
    with popxl.Ir().main_graph as graph:
        x = popxl.variable(np.ones(2, np.float32))
        result = ops.call(graph.ir.create_graph(lambda t: t + 1, x), x)
        for use in (lambda: x + result, lambda: list(result) - x, lambda: ops.gelu(result)):
            with pytest.raises(TypeError, match="A call gives a tuple"):
                use()


def test_in_place_addition_keeps_the_object():
    ir = popxl.Ir()
    with ir.main_graph:
        v = w = popxl.variable(X)
        w += 1
        assert w is v
    with popxl.Session(ir) as session:
        session.run()
        np.testing.assert_array_equal(session.get_tensor_data(v), X + 1)


def test_properties():
    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable(X, name="v")
        assert (v.rank, v.nelms, len(v), v.shape, v.strides()) == (2, 24, 4, (4, 6), (24, 4))
        assert v.spec == popxl.TensorSpec((4, 6), popxl.float32) and v == v and v != 3
        with pytest.raises(ValueError):
            len(popxl.constant(1))
        with pytest.raises(TypeError):
            iter(v)
        sub = ir.create_graph(lambda x: x + 1, v)
    assert (sub.inputs[0].name, sub.inputs[0].scope) == ("x", sub.id)
    with pytest.raises(RuntimeError):
        popxl.Tensor()
    with pytest.raises(NotImplementedError):
        popxl.TensorByRef()


def test_diag():
    np.testing.assert_array_equal(evaluate(lambda t: t.diag(), X), np.diag(X))


@pytest.mark.parametrize("d", list(dtypes._NAME_TO_POPXL.values()), ids=str)
def test_dtype_names(d):
    assert popxl.dtype.from_name(d.name) is d
    assert popxl.dtype.as_dtype(d.as_numpy()) is d


def test_dtype_conversions():
    assert popxl.dtype.as_dtype(float) is popxl.float32
    assert popxl.dtype.as_dtype(bool) is popxl.bool
    assert popxl.dtype.as_dtype(int) is popxl.int64
    assert popxl.dtype.as_dtype("f2") is popxl.float16
    assert popxl.dtype.as_dtype(torch.int32) is popxl.int32
    assert popxl.dtype.as_dtype(np.zeros(1, np.uint8)) is popxl.uint8
    assert popxl.dtype.as_dtype(torch.zeros(1, dtype=torch.float16)) is popxl.float16
    assert popxl.float is popxl.float32 and popxl.half is popxl.float16 and popxl.double is popxl.float64
    assert popxl.float16.as_torch() is torch.float16
    with pytest.raises(ValueError):
        popxl.dtype.from_name("half")
    with pytest.raises(ValueError):
        popxl.dtype.as_dtype("nothing")
    with pytest.raises(TypeError):
        popxl.dtype()
    with pytest.raises(TypeError):
        popxl.uint16.as_torch()


def test_host_data_is_narrowed():
    assert to_numpy(1).dtype == np.int32
    assert to_numpy(1.0).dtype == np.float32
    assert to_numpy(True).dtype == np.bool_
    assert to_numpy(np.float64(1), downcast=False).dtype == np.float64
    assert to_numpy([1, 2], popxl.float64).dtype == np.float64
    assert to_numpy(np.ones(2, np.float16)).dtype == np.float16
    assert to_numpy(torch.ones(2, requires_grad=True)).tolist() == [1, 1]
    assert to_numpy(X.T).flags.c_contiguous
    with pytest.raises(RuntimeError, match="float8"):
        to_numpy(1.0, log2_scale=1)


@pytest.mark.parametrize(("kind", "dtype"), [("f4", "float32"), ("f8", "float32"), ("i8", "int32"), ("i2", "int16")])
def test_host_data_of_the_other_order_of_bytes(kind, dtype):
    value = np.arange(6, dtype=np.dtype(kind)).reshape(2, 3)
    for order in "<>":
        with popxl.Ir().main_graph:
            made = popxl.variable(value.astype(order + kind))
        assert made.dtype is getattr(popxl, dtype) and made.shape == (2, 3)
        np.testing.assert_array_equal(to_numpy(value.astype(order + kind)), value)


def test_order_in_numpys_words():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence(np.True_):
        first = ops.add(popxl.constant(1.0), popxl.constant(1.0))
        ops.mul(first, first)
        ops.sub(first, first)
    assert ir._pb_ir.print().count("order #") == 2


def test_tables():
    text = table_to_string([("a", "bb"), (1, 2)])
    assert text.splitlines() == ["a | bb", "-------", "1 | 2 "]


def test_seeds():
    from popxl.random_seed import two_uint32_to_uint64, uint64_to_two_uint32

    assert uint64_to_two_uint32(2**32 + 5) == (1, 5)
    assert two_uint32_to_uint64(1, 5) == 2**32 + 5
    with pytest.raises(ValueError):
        uint64_to_two_uint32(-1)
    assert popxl.create_seeds(1, replicas=3, batches_per_step=2).shape == (2, 3, 2)
    assert popxl.create_seeds(1).shape == (2,)
    np.testing.assert_array_equal(popxl.create_seeds(1, 2), popxl.create_seeds(3))


def test_float8_round_trip():
    from popxl.fp8_utils import host_pow2scale_cast_from_fp8, host_pow2scale_cast_to_fp8

    values = np.array([0.0, 1.0, -1.5, 240.0, 2.0**-10, 1.0625, 1.1875], np.float32)
    cast = host_pow2scale_cast_to_fp8(values, popxl.float8_143)
    back = host_pow2scale_cast_from_fp8(cast, popxl.float32)
    np.testing.assert_array_equal(back, [0.0, 1.0, -1.5, 240.0, 2.0**-10, 1.0, 1.25])
    assert np.isnan(host_pow2scale_cast_from_fp8(host_pow2scale_cast_to_fp8(np.float32([500.0])), popxl.float32))[0]
    saturated = host_pow2scale_cast_to_fp8(np.float32([-5e5]), popxl.float8_152, nan_on_overflow=False)
    assert host_pow2scale_cast_from_fp8(saturated, popxl.float32)[0] == -57344
    scaled = host_pow2scale_cast_to_fp8(np.float32([3.0]), popxl.float8_143, log2_scale=2)
    assert host_pow2scale_cast_from_fp8(scaled, popxl.float32, -2)[0] == 3.0


def test_replica_groupings():
    ir = popxl.Ir(replication=12)
    for (stride, size), expected in {
        (1, 6): [0] * 6 + [1] * 6,
        (2, 3): [0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3],
        (4, 3): [0, 1, 2, 3] * 3,
        (3, 2): [0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5],
        (1, 1): list(range(12)),
        (1, 12): [0] * 12,
    }.items():
        grouping = ir.replica_grouping(stride, size)
        assert grouping.assignment == expected
        assert ir.replica_grouping_from_assignments(expected) == grouping
    assert ir.replica_grouping(1, 4).transpose() == ir.replica_grouping(4, 3)
    assert ir.replica_grouping(4, 3).transpose() == ir.replica_grouping(1, 4)
    for stride, size in ((5, None), (13, None), (1, 13)):
        with pytest.raises(ValueError):
            ir.replica_grouping(stride, size)
    for bad in ([0] * 11, [0] * 5 + [1] * 7, [1] * 6 + [0] * 6):
        with pytest.raises(ValueError):
            ir.replica_grouping_from_assignments(bad)
    odd = ir.replica_grouping_from_assignments([0, 0, 1, 0, 0, 1, 1, 1, 2, 2, 2, 2])
    assert not odd.is_const and odd.num_groups == 3
    with pytest.raises(NotImplementedError):
        _ = odd.stride


def test_repeat_of_ops_namespace():
    assert callable(ops.call) and callable(popxl.transforms.autodiff)
    from popxl.ops.call import CallSiteInfo

    assert CallSiteInfo is ops.CallSiteInfo


def test_lists_of_integer_types():
    """Programs call get_all_int_dtypes(include_signed=False) for the unsigned ones."""
    from popxl.testing import get_all_int_dtypes

    unsigned = [popxl.uint8, popxl.uint16, popxl.uint32, popxl.uint64]
    signed = [popxl.int8, popxl.int16, popxl.int32, popxl.int64]
    assert set(get_all_int_dtypes()) == set(get_all_int_dtypes(include_signed=True)) == {*unsigned, *signed}
    assert set(get_all_int_dtypes(include_signed=False)) == set(unsigned)
