"""Statements of popxl.md, sections 5 to 9 and 16 to 20: tensors, dtypes, host data, seeds, float8, small tools."""

import numpy as np
import popart
import popxl
import pytest
from popxl import TensorSpec, ops
from programs import evaluate

FLOAT = popxl.float32
X = np.arange(24, dtype=np.float32).reshape(4, 6)
COLUMN = np.array([[1], [2], [3], [4]])


@pytest.fixture
def ir():
    ir = popxl.Ir()
    with ir.main_graph:
        yield ir


def var(value=(1, 2), dtype=np.float32, name="v"):
    return popxl.variable(np.asarray(value, dtype), name=name)


# ---- 5. tensors


def test_facts_of_a_tensor(ir):
    graph = ir.create_graph(lambda x: x, TensorSpec((2, 3, 4), popxl.float16))
    (x,) = graph.inputs
    here = "test_facts_of_a_tensor.<lambda>_subgraph(0)"
    assert (x.id, x.name, x.scope) == (f"{here}/x", "x", here)
    assert (x.dtype, x.shape, x.rank, x.nelms, x.meta_shape) == (popxl.float16, (2, 3, 4), 3, 24, ())
    assert x.spec == TensorSpec((2, 3, 4), popxl.float16) and x.ir is ir
    assert x.strides() == (24, 8, 2) and x.strides((5, 7)) == (14, 2)
    with popxl.name_scope("a"):
        v = var()
    assert (v.id, v.name, v.scope) == ("a/v", "a/v", "")


def test_comparison_is_identity(ir):
    v, w = var(), var()
    assert v == v and v != w and v != 3 and v != np.ones(2) and len({v, w, v}) == 2
    assert v and not var(np.zeros((0, 2)))


@pytest.mark.parametrize(
    ("name", "function", "oracle"),
    [
        ("T", lambda t: t.T, lambda x: x.T),
        ("T_", lambda t: t.T_, lambda x: x.T),
        ("transpose", lambda t: t.transpose(), lambda x: x.T),
        ("transpose_", lambda t: t.transpose_((1, 0)), lambda x: x.T),
        ("reshape", lambda t: t.reshape((3, 8)), lambda x: x.reshape(3, 8)),
        ("reshape -1", lambda t: t.reshape((-1, 8)), lambda x: x.reshape(3, 8)),
        ("reshape_", lambda t: t.reshape_((24,)), lambda x: x.reshape(24)),
        ("flatten", lambda t: t.flatten(), lambda x: x.ravel()),
        ("flatten_", lambda t: t.flatten_(), lambda x: x.ravel()),
        ("detach", lambda t: t.detach(), lambda x: x),
        ("detach_", lambda t: t.detach_(), lambda x: x),
        ("diag", lambda t: t.diag(), np.diag),
        ("diag of many rows", lambda t: t.T.diag(), lambda x: x.T.ravel()[::5]),
        ("copy_to_ipu", lambda t: t.copy_to_ipu(1, 0), lambda x: x),
        ("pow of a float", lambda t: t**2.0, lambda x: x**2),
        ("base", lambda t: 2.0**t, lambda x: 2**x),
        ("negation", lambda t: -t, lambda x: -x),
        ("difference", lambda t: 1 - t, lambda x: 1 - x),
        ("quotient", lambda t: 1 / (t + 1), lambda x: 1 / (x + 1)),
        ("remainder", lambda t: t % 5, lambda x: np.fmod(x, np.float32(5))),
        ("reflected remainder", lambda t: 5 % (t + 1), lambda x: np.fmod(np.float32(5), x + 1)),
        ("product", lambda t: t @ X.T, lambda x: x @ x.T),
        ("reflected product", lambda t: X.T @ t, lambda x: x.T @ x),
        ("nested lists", lambda t: COLUMN.tolist() + t, lambda x: x + COLUMN),
        ("array on the left", lambda t: np.ones(6, np.float64) + t, lambda x: x + 1),
    ],
)
def test_method_or_operator(name, function, oracle):
    got = evaluate(function, X)
    np.testing.assert_allclose(got, oracle(X), rtol=1e-6)


def test_numbers_are_cast_to_the_type_of_the_tensor():
    x = np.array([1, 2, 3], np.int32)
    np.testing.assert_array_equal(evaluate(lambda t: t + 1.5, x), x + 1)
    np.testing.assert_array_equal(evaluate(lambda t: 2.9 * t, x), x * 2)


def test_torch_operands():
    torch = pytest.importorskip("torch")
    np.testing.assert_array_equal(evaluate(lambda t: t + torch.ones(6), X), X + 1)


def test_logical_operators():
    a, b = np.array([True, True, False]), np.array([True, False, False])
    np.testing.assert_array_equal(evaluate(lambda t: t & b, a), a & b)
    np.testing.assert_array_equal(evaluate(lambda t: b & t, a), a & b)
    np.testing.assert_array_equal(evaluate(lambda t: t | b, a), a | b)
    np.testing.assert_array_equal(evaluate(lambda t: [True, False, True] | t, a), a | [True, False, True])
    np.testing.assert_array_equal(evaluate(lambda t: ~t, a), ~a)


def test_addition_in_place_keeps_the_object(ir):
    v = var()
    w = v
    with popxl.in_sequence():
        w += 1
        assert w is v
        v -= 1
    assert v is not w
    with popxl.Session(ir, "cpu") as session:
        session.run()
    assert session.get_tensor_data(w).tolist() == [2, 3]


KEYS = [
    0, 3, -1, -2, slice(1, 3), slice(None), slice(-1, None), slice(None, None, 2), slice(None, None, -1),
    slice(None, None, -2), slice(3, 0, -1), (1, 2), (-1, -1), (1, slice(None, None, 2)),
    (slice(1, 3), slice(2, None, 3)),
    (slice(None), 4), (slice(None), slice(5, 1, -2)), np.int64(2), (np.int32(1), 0),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_index(key):
    np.testing.assert_array_equal(evaluate(lambda t: t[key], X), X[key])


@pytest.mark.parametrize("kind", ["array", "list", "tensor", "torch"])
def test_index_by_numbers(kind):
    indices = np.array([[0, 2], [3, 3]], np.int32)

    def index(t):
        if kind == "torch":
            return t[pytest.importorskip("torch").tensor(indices)]
        return t[indices if kind == "array" else indices.tolist() if kind == "list" else popxl.constant(indices)]

    np.testing.assert_array_equal(evaluate(index, X), X[indices])


@pytest.mark.parametrize("kind", ["array", "list", "tensor"])
def test_index_by_booleans(kind):
    mask = X % 2 == 0
    key = {"array": lambda: mask, "list": lambda: mask.tolist(), "tensor": lambda: popxl.constant(mask)}[kind]
    np.testing.assert_array_equal(evaluate(lambda t: t[key()], X), np.where(mask, X, 0))


def test_ops_of_an_index(ir):
    x = var(X)
    seen = []
    ir.main_graph.register_op_created_hook(lambda op: seen.append(op.opType()))
    assert x[1, ::2].shape == (3,)
    assert seen == ["Slice", "Subsample", "Reshape"]
    seen.clear()
    _ = x[:]
    assert seen == ["Slice"]
    seen.clear()
    assert ops.slice(x) is x and seen == []


# ---- 6. making tensors


def test_names(ir):
    names = [popxl.variable(0.5, name="gain").id, popxl.variable(0.6, name="gain").id, popxl.constant(3).id]
    names += [popxl.constant(4).id, popxl.variable(0.7, name="gain").id]
    with popxl.name_scope("dec"):
        names.append(popxl.variable(0.8, name="gain").id)
    graph = ir.create_empty_graph("f")
    with graph:
        names.append(popxl.graph_input((2,), FLOAT, "gain").id)
    names.append(popxl.h2d_stream((1,), FLOAT, "gain").tensor_id)
    assert names == ["gain", "gain__t0", "t", "t__t1", "gain__t2", "dec/gain", "f_subgraph(0)/gain", "gain__t3"]


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1, popxl.int32), (1.0, FLOAT), (True, popxl.bool), ([1, 2], popxl.int32), ([[1.5]], FLOAT),
        (np.ones(2), FLOAT), (np.ones(2, np.int64), popxl.int32), (np.ones(2, np.uint64), popxl.uint32),
        (np.ones(2, np.float16), popxl.float16), (np.ones(2, np.int8), popxl.int8),
    ],
)  # fmt: skip
@pytest.mark.parametrize("make", [popxl.variable, popxl.constant])
def test_inferred_types(ir, make, data, dtype):
    t = make(data)
    assert t.dtype is dtype and t.shape == np.shape(data) and t.name == "t"
    assert isinstance(t, getattr(popxl.tensor, make.__name__.title()))


def test_types_that_are_asked_for(ir):
    assert popxl.variable(1.0, popxl.float64).dtype is popxl.float64
    assert popxl.variable(np.ones(2), downcast=False).dtype is popxl.float64
    assert popxl.variable([1, 2], popxl.float16).dtype is popxl.float16
    torch = pytest.importorskip("torch")
    assert popxl.variable(torch.ones(2, requires_grad=True)).dtype is FLOAT
    assert popxl.constant(torch.ones(2, dtype=torch.float64)).dtype is FLOAT


def test_constants_of_any_graph(ir):
    graph = ir.create_graph(lambda x: x + 1, TensorSpec((2,), FLOAT))
    with graph:
        popxl.constant([1, 2], name="c")
    assert [c.name for c in graph.constants] == ["c", "t"]


def test_a_spec_is_a_mapping(ir):
    spec = TensorSpec((2, 4), popxl.int32)
    assert dict(spec) == spec.to_dict() == {"shape": (2, 4), "dtype": popxl.int32, "meta_shape": ()}
    assert spec == dict(spec) and len(spec) == 3 and hash(spec) == hash(TensorSpec([2, 4], popxl.int32))
    assert spec.to_tuple() == ((2, 4), popxl.int32, ()) and spec["shape"] == spec.shape
    assert repr(spec) == "TensorSpec(shape=(2, 4), dtype=popxl.dtypes.int32, meta_shape=())"
    with ir.create_empty_graph():
        assert popxl.graph_input(**spec, name="x").spec == spec


# ---- 7. dtypes


def test_conversions_of_dtypes():
    as_dtype = popxl.dtype.as_dtype
    assert as_dtype("f4") is FLOAT and as_dtype("float") is popxl.float64 and as_dtype(int) is popxl.int64
    assert as_dtype(float) is FLOAT and as_dtype(bool) is popxl.bool and as_dtype(np.float16) is popxl.float16
    assert as_dtype(np.float32(1)) is FLOAT and as_dtype(popart.DataType.FLOAT16) is popxl.float16
    assert as_dtype(None) is popxl.float64 and as_dtype("float8_143") is popxl.float8_143
    assert {popxl.half: 1}[popxl.float16] == 1 and repr(popxl.half) == "popxl.dtypes.float16"


# ---- 9. host data


def test_host_data_is_copied_only_when_asked():
    x = np.ones((2, 3), np.float32)
    to_numpy = popxl.utils.to_numpy
    assert to_numpy(x, copy=False) is x or np.shares_memory(to_numpy(x, copy=False), x)
    assert not np.shares_memory(to_numpy(x), x)
    assert to_numpy(x.T, copy=False).flags.c_contiguous and to_numpy(1, popxl.float16).dtype == np.float16


def test_float8_host_data():
    to_numpy = popxl.utils.to_numpy
    eight = to_numpy([1.0, 300.0], popxl.float8_143)
    assert eight.dtype == popxl.float8_143.as_numpy() and eight.view(np.uint8)[1] == 0x80
    assert to_numpy([300.0], popxl.float8_143, nan_on_overflow=False).view(np.uint8)[0] == 0x7F
    assert to_numpy(eight, popxl.float8_143, copy=False).tobytes() == eight.tobytes()
    back = popxl.fp8_utils.host_pow2scale_cast_from_fp8
    assert back(to_numpy([8.0], popxl.float8_152, log2_scale=-2), FLOAT, 0)[0] == 2


@pytest.mark.parametrize("copy", [True, False])
def test_memory_maps_are_used_as_they_are(ir, tmp_path, copy):
    np.arange(3, dtype=np.float32).tofile(tmp_path / "w")
    w = np.memmap(tmp_path / "w", np.float32, "r+", shape=(3,))
    assert popxl.utils.to_numpy(w, copy=copy) is w
    v = popxl.variable(w, name="w")
    ops.add_(v, popxl.constant(np.ones(3, np.float32)))
    with popxl.Session(ir, "cpu") as session:
        session.run()
    assert session.get_tensor_data(v).tolist() == [1, 2, 3]
    assert np.fromfile(tmp_path / "w", np.float32).tolist() == [1, 2, 3]


def test_a_read_only_memory_map_is_never_written(ir, tmp_path):
    np.arange(3, dtype=np.float32).tofile(tmp_path / "w")
    v = popxl.variable(np.memmap(tmp_path / "w", np.float32, "r", shape=(3,)))
    ops.add_(v, popxl.constant(np.ones(3, np.float32)))
    with popxl.Session(ir, "cpu", weights_to_host_on_exit=True) as session:
        assert session.weights_to_host_on_exit is False
        session.run()
    assert np.fromfile(tmp_path / "w", np.float32).tolist() == [0, 1, 2]


def test_a_memory_map_of_an_irregular_grouping_is_copied(tmp_path, capfd):
    ir = popxl.Ir(6)
    np.arange(2, dtype=np.float32).tofile(tmp_path / "w")
    w = np.memmap(tmp_path / "w", np.float32, "r+", shape=(2,))
    grouping = ir.replica_grouping_from_assignments([0, 0, 1, 0, 1, 1])
    with ir.main_graph:
        for name in ("here", "there"):
            popxl.variable(w, name=name, replica_grouping=grouping)
    lines = [line for line in capfd.readouterr().err.splitlines() if "memory map" in line]
    assert len(lines) == 2 and "here" in lines[0] and repr(grouping) in lines[0]


# ---- 16. random seeds


def test_seeds():
    assert popxl.create_seeds(3).shape == (2,) and popxl.create_seeds(3).dtype == np.uint32
    assert popxl.create_seeds(3, batches_per_step=4, gradient_accumulation_factor=2, replicas=3).shape == (4, 2, 3, 2)
    assert popxl.create_seeds(3, batches_per_step=4, replicas=3).shape == (4, 3, 2)
    np.testing.assert_array_equal(popxl.create_seeds(3, offset=2), popxl.create_seeds(5))
    draws = np.random.default_rng(5).integers(0, 2**64 - 1, 3, np.uint64, endpoint=True)
    expected = [[int(d) >> 32, int(d) & 0xFFFFFFFF] for d in draws]
    np.testing.assert_array_equal(popxl.create_seeds(5, replicas=3), expected)
    split, join = popxl.random_seed.uint64_to_two_uint32, popxl.random_seed.two_uint32_to_uint64
    assert popxl.random_seed.MAX_UINT64 == 2**64 - 1 and split(2**64 - 1) == (2**32 - 1, 2**32 - 1)
    assert split(5 * 2**32 + 7) == (5, 7) and join(5, 7) == 5 * 2**32 + 7


# ---- 17. float8


@pytest.mark.parametrize(
    ("dtype", "largest", "smallest"), [(popxl.float8_143, 240, 2.0**-10), (popxl.float8_152, 57344, 2.0**-17)]
)
def test_limits_of_float8(dtype, largest, smallest):
    cast, back = popxl.fp8_utils.host_pow2scale_cast_to_fp8, popxl.fp8_utils.host_pow2scale_cast_from_fp8
    values = [float(largest), smallest, -smallest, 0.0, -0.0, smallest / 4]
    codes = cast(np.array(values), dtype)
    assert back(codes, popxl.float64).tolist() == [largest, smallest, -smallest, 0, 0, 0]
    assert 0x80 not in codes.view(np.uint8) and codes.shape == (6,)
    assert back(cast(np.float32([6]), dtype, 3), FLOAT, -3)[0] == 6 and back(codes).dtype == np.float32
    assert cast([1.0, 2.0], dtype).shape == (2,)


@pytest.mark.parametrize(("low", "high", "sign"), [(32, 64, -1), (1 / 64, 1 / 32, 1)], ids=["large", "small"])
def test_the_best_scale(low, high, sign):
    data = np.exp2(np.linspace(np.log2(low), np.log2(high), 64)).astype(np.float32)
    found = popxl.fp8_utils.host_fp8_mse_scale(data, popxl.float8_143)
    assert isinstance(found, tuple) and np.sign(found[1]) == sign
    assert isinstance(popxl.fp8_utils.host_fp8_mse_scale_pb(data, popxl.float8_143), int)


def errors_of_the_sheet(x, dtype):
    """Each mse_j of the reference sheet (17), term by term."""
    start, width, bits = (85, 18, 3) if dtype == popxl.float8_143 else (78, 33, 2)
    level = [2.0 ** (k - 126) for k in range(253)]
    values = [abs(float(v)) for v in np.asarray(x).ravel()]
    upper = [*level[1:], np.inf]
    share = [sum(level[k] <= v < upper[k] for v in values) / len(values) for k in range(253)]
    q = 2.0 ** (-2 * ((23 if x.dtype == np.float32 else 10) - bits))
    errors = []
    for j in range(63):
        lo = start + j
        error = (level[0] / 2) ** 2
        for k in range(253):
            if k < lo:
                error += share[k] * level[k] ** 2
            elif k < lo + width:
                error += q * share[k] * level[k] ** 2
            else:
                error += share[k] * (level[j + width - 1] - level[k]) ** 2
        errors.append(error)
    return errors


@pytest.mark.parametrize("source", [np.float16, np.float32])
@pytest.mark.parametrize("dtype", [popxl.float8_143, popxl.float8_152], ids=str)
def test_the_scale_of_a_histogram(source, dtype):
    rng = np.random.default_rng(3)
    cases = [
        rng.normal(size=(8, 5)),
        rng.uniform(32, 63, 40),
        rng.uniform(1 / 64, 1 / 33, 40),
        rng.normal(size=40) ** 5,
    ]
    for x in cases:
        x = x.astype(source)
        metric, scale = popxl.fp8_utils.host_fp8_mse_scale(x, dtype)
        errors = errors_of_the_sheet(x, dtype)
        np.testing.assert_allclose([metric, errors[31 - scale]], min(errors), rtol=1e-12)
        assert scale == popxl.fp8_utils.host_fp8_mse_scale_pb(x, dtype)


def test_scales_that_the_sheet_states():
    between = np.linspace(32, 63, 64)
    assert popxl.fp8_utils.host_fp8_mse_scale(between.astype(np.float16), popxl.float8_143) == (0.0625, -7)
    assert popxl.fp8_utils.host_fp8_mse_scale((between / 2048).astype(np.float32))[1] == 4
    with pytest.raises(RuntimeError):
        popxl.fp8_utils.host_fp8_mse_scale(np.zeros(2, np.float32), popxl.float16)


# ---- 18 to 20


def test_tensor_locations():
    assert popxl.TensorLocation().storage is popxl.TensorStorage.OnChip
    location = popxl.TensorLocation(popxl.TensorStorage.OffChip, popxl.ReplicatedTensorSharding.On)
    assert location.replicated_tensor_sharding is popxl.ReplicatedTensorSharding.On
    assert popxl.TileSet is popart.TileSet and popxl.ExecutionContext.Normal.name == "Normal"


def test_tables_of_text():
    rows = [("a", "long head"), ("much longer", 1)]
    text = "a           | long head\n" + "-" * 24 + "\nmuch longer | 1        "
    assert popxl.utils.table_to_string(rows) == text
    assert popxl.utils.table_to_string(rows, " ", header=False) == "a           long head\nmuch longer 1        "
    assert popxl.utils.table_to_string(rows[:1]) == "a | long head"
    assert popxl.utils.HW_DEVICE_CONNECTION_TIMEOUT == 10000
