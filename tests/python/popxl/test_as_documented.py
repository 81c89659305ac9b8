"""PopXL does what its documentation says, where programs in circulation rely on it."""

import numpy as np
import popart
import popxl
import popxl_addons as addons
import pytest
from popxl import TensorByRef, TensorSpec, ops

FLOAT = popxl.float32


def values(*shape):
    """Float32 numbers 1, 2, 3 … in a shape."""
    return np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)


def run(build, *arrays):
    """Results of `build`, which gets variables of these values."""
    ir = popxl.Ir()
    with ir.main_graph:
        results = build(*(popxl.variable(a) for a in arrays))
        results = results if isinstance(results, list | tuple) else [results]
        streams = [popxl.d2h_stream(t.shape, t.dtype) for t in results]
        for stream, t in zip(streams, results, strict=True):
            ops.host_store(stream, t)
    with popxl.Session(ir, "cpu") as session:
        outputs = session.run()
    return [outputs[stream] for stream in streams]


# ---- operators


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_increment_mod_has_the_sign_of_the_dividend(dtype):
    x = np.array([-7, -6, -1, 0, 5, 7], dtype)
    expected = np.fmod(x + dtype(2), dtype(3))
    for function in (ops.increment_mod, ops.increment_mod_):
        np.testing.assert_array_equal(run(lambda t, f=function: f(t, 2, 3), x)[0], expected)


@pytest.mark.parametrize("axis", [0, 1])
def test_scatter_uses_the_values_that_have_indices(axis):
    indices = np.array([[2, 1], [0, 0]] if axis else [[2, 1], [0, 3]], np.uint32)
    updates = -values(3, 3)
    (result,) = run(lambda t, i, v: ops.scatter(t, i, v, axis), values(4, 3), indices, updates)
    expected = values(4, 3)
    for at in np.ndindex(indices.shape):
        to = list(at)
        to[axis] = indices[at]
        expected[tuple(to)] = updates[at]
    np.testing.assert_array_equal(result, expected)


def test_scatter_reduce_takes_its_shape_from_initial_values():
    initial = np.full((5, 3), 10, np.float32)
    indices = np.array([0, 2, 0], np.int32)
    (result,) = run(
        lambda d, i, v: ops.scatter_reduce(d, i, "sum", initial_values=v, axis_size=3), values(3, 2), indices, initial
    )
    expected = initial.copy()
    np.add.at(expected[:, :2], indices, values(3, 2))
    np.testing.assert_array_equal(result, expected)


def test_dynamic_update_takes_a_slice_without_dimensions_of_size_1():
    (result,) = run(
        lambda t, u: ops.dynamic_update(t, popxl.constant([1], popxl.uint32), u, [0], [1], True),
        values(3, 4),
        np.zeros(4, np.float32),
    )
    expected = values(3, 4)
    expected[1] = 0
    np.testing.assert_array_equal(result, expected)


FACTORS = [(2.0, 3.0), ("tensor", 3.0), (2.0, "tensor"), ("tensor", "tensor")]


@pytest.mark.parametrize("factors", FACTORS)
@pytest.mark.parametrize("types", [(np.float32, np.float16), (np.float16, np.float32), (np.float16, np.float16)])
@pytest.mark.parametrize("inplace", [False, True])
def test_scaled_add_of_two_types(factors, types, inplace):
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(3, 5)).astype(t) for t in types)
    a, b = (5.0 if f == "tensor" else f for f in factors)

    def build(X, Y, number):
        scales = [number if f == "tensor" else f for f in factors]
        before = set(X.ir.main_graph.constants)
        result = (ops.scaled_add_ if inplace else ops.scaled_add)(X, Y, *scales)
        assert set(X.ir.main_graph.constants) == before
        assert result.spec == X.spec
        return result

    (result,) = run(build, x, y, np.float32(5))
    expected = a * x.astype(np.float32) + b * y.astype(np.float32)
    half = types[0] == np.float16
    rounding = {"rtol": 1e-3, "atol": 1e-4} if half else {"rtol": 1e-6, "atol": 1e-6 * (abs(a) + abs(b))}
    np.testing.assert_allclose(result, expected.astype(types[0]), **rounding)


def schedule(step, *specs):
    ir = popxl.Ir()
    graph = ir.create_graph(step, *(TensorSpec(shape, dtype) for shape, dtype in specs))
    assert not graph.constants
    return addons.GraphWithNamedArgs(graph).print_schedule().splitlines()[2:-1]


STEP = [((3, 5), FLOAT), ((3, 5), popxl.float16), ((3, 5), FLOAT), ((), FLOAT), ((), FLOAT)]


def test_an_adam_step_connects_what_it_reads():
    def step(w: TensorByRef, m: TensorByRef, v: TensorByRef, n: TensorByRef, lr):
        u = ops.var_updates.adam_updater(m, v, weight=w, weight_decay=0.0, time_step=n, beta1=0.8, beta2=0.95)
        ops.scaled_add_(w, u, b=-lr)

    assert schedule(step, *STEP) == [
        "    AdamUpdater.100 (%2 [(3, 5) float16], %3 [(3, 5) float32], %4 [() float32]) -> (%6 [(3, 5) float16])",
        "    Neg.101 (%5 [() float32]) -> (%7 [() float32])",
        "    ScaledAddLhsInplace.102 (%1 [(3, 5) float32], %6 [(3, 5) float16], %7 [() float32])"
        " -> (%8 [(3, 5) float32])",
    ]


def test_an_adam_step_with_weight_decay_connects_the_weight():
    def step(w: TensorByRef, m: TensorByRef, v: TensorByRef, n: TensorByRef, lr):
        u = ops.var_updates.adam_updater(m, v, weight=w, weight_decay=0.1, time_step=n, beta1=0.8, beta2=0.95)
        ops.scaled_add_(w, u, b=-0.02)

    assert schedule(step, *STEP) == [
        "    AdamUpdater.100 (%1 [(3, 5) float32], %2 [(3, 5) float16], %3 [(3, 5) float32], %4 [() float32])"
        " -> (%6 [(3, 5) float32])",
        "    ScaledAddLhsInplace.101 (%1 [(3, 5) float32], %6 [(3, 5) float32]) -> (%7 [(3, 5) float32])",
    ]


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adam_steps_advance_the_time_step_in_place(decay):
    ir = popxl.Ir()
    with ir.main_graph:
        w, m, v = (popxl.variable(a) for a in (values(4), np.array([1, 2, 3, 4], np.float16), values(4)))
        n = popxl.variable(0.0)

        def step(w: TensorByRef, m: TensorByRef, v: TensorByRef, n: TensorByRef):
            u = ops.var_updates.adam_updater(m, v, weight=w, weight_decay=decay, time_step=n, beta1=0.8, beta2=0.9)
            ops.scaled_add_(w, u, b=-0.5)

        graph = ir.create_graph(step, w.spec, m.spec, v.spec, n.spec)
        for _ in range(2):
            ops.call(graph, w, m, v, n)
    with popxl.Session(ir, "cpu") as session:
        session.run()
    expected = values(4)
    for t in (1, 2):
        u = values(4) / (1 - 0.8**t) / (np.sqrt(values(4) / (1 - 0.9**t)) + 1e-7)
        expected -= 0.5 * ((u if decay else u.astype(np.float16)) + decay * expected)
    np.testing.assert_allclose(session.get_tensor_data(w), expected, rtol=1e-3)
    assert session.get_tensor_data(n) == 2


def test_updaters_refuse_in_the_documented_order():
    ir = popxl.Ir()
    with ir.main_graph:
        m = popxl.variable(values(2))
        n = popxl.variable(0.0)
        with pytest.raises(ValueError, match="weight"):
            ops.var_updates.adam_updater(m, m, time_step=n, weight_decay=0.1)
        with pytest.raises(ValueError, match="beta1"):
            ops.var_updates.lamb_updater(m, m, time_step=n)
        with pytest.raises(ValueError, match="weight"):
            ops.var_updates.adamax_updater(m, m, weight_decay=n)
        with pytest.raises(ValueError, match="time_step"):
            ops.var_updates.adamax_updater(m, m)


@pytest.mark.parametrize("shape", [(6,), (2, 3), (3, 2), (6, 1), (1, 6), (2, 1, 3)])
@pytest.mark.parametrize("rows", [(6,), (2, 3)])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("ignore_index", [None, 1])
def test_nll_loss_with_softmax_grad_takes_labels_of_any_shape(shape, rows, reduction, ignore_index):
    rng = np.random.default_rng(0)
    p = np.exp(rng.normal(size=(*rows, 4))).astype(np.float32)
    p /= p.sum(-1, keepdims=True)
    labels = rng.integers(0, 4, shape).astype(np.int32)
    loss, dx = run(
        lambda p, y: ops.nll_loss_with_softmax_grad(p, y, ignore_index=ignore_index, reduction=reduction), p, labels
    )
    flat, y = p.reshape(6, 4), labels.ravel()
    used = y != ignore_index if ignore_index is not None else np.ones(6, bool)
    each = -np.log(flat[np.arange(6), y]) * used
    count = max(used.sum(), 1) if reduction == "mean" else 1
    expected = each.reshape(shape) if reduction == "none" else each.sum() / count
    assert loss.shape == np.shape(expected)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    np.testing.assert_allclose(dx.reshape(6, 4), (flat - np.eye(4)[y]) * used[:, None] / count, rtol=1e-5, atol=1e-7)


def test_nll_loss_with_softmax_grad_refuses_another_number_of_labels():
    with pytest.raises(popart.popart_exception, match="labels"):
        run(
            lambda p, y: ops.nll_loss_with_softmax_grad(p, y)[0],
            np.full((6, 4), 0.25, np.float32),
            np.zeros(5, np.int32),
        )


# ---- updates by calls


def accumulate(x: TensorByRef, y):
    ops.var_updates.accumulate_(x, y)


@pytest.mark.parametrize("how", ["call", "repeat"])
def test_two_calls_may_update_one_variable(how):
    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable(values(2))

        def repeated(y, x: TensorByRef):
            ops.var_updates.accumulate_(x, y)

        graph = ir.create_graph(accumulate if how == "call" else repeated, v.spec, v.spec)
        for factor in (1, 10):
            y = popxl.constant(factor * values(2))
            ops.call(graph, v, y) if how == "call" else ops.repeat(graph, 2, y, v)
    with popxl.Session(ir, "cpu") as session:
        session.run()
    np.testing.assert_array_equal(session.get_tensor_data(v), values(2) * (12 if how == "call" else 23))


def test_readers_between_two_calls_see_the_value_of_their_place():
    def build(v):
        graph = v.ir.create_graph(accumulate, v.spec, v.spec)
        y = popxl.constant(values(2))
        seen = [v + y]
        for _ in range(2):
            ops.call(graph, v, y)
            seen.append(v + y)
        return seen

    for i, seen in enumerate(run(build, values(2))):
        np.testing.assert_array_equal(seen, (2 + i) * values(2))


@pytest.mark.parametrize("in_order", [False, True])
def test_a_call_that_returns_what_it_changed_needs_an_order(in_order):
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence(in_order):
        v = popxl.variable(values(2))

        def step(x: TensorByRef, y):
            return ops.add_(x, y)

        graph = ir.create_graph(step, v.spec, v.spec)
        y = popxl.constant(values(2))
        ops.call(graph, v, y)
        ops.call(graph, v, y)
    if not in_order:
        with pytest.raises(popart.popart_exception, match="in-place ambiguity"):
            popxl.Session(ir, "cpu")
        return
    with popxl.Session(ir, "cpu") as session:
        session.run()
    np.testing.assert_array_equal(session.get_tensor_data(v), 3 * values(2))


def test_a_graph_without_inputs_is_repeated():
    ir = popxl.Ir()
    ir.num_host_transfers = 3
    with ir.main_graph:
        source, target = popxl.h2d_stream((2,), FLOAT), popxl.d2h_stream((2,), FLOAT)
        graph = ir.create_graph(lambda: ops.host_store(target, ops.host_load(source) * 2.0))
        assert ops.repeat(graph, 3) == ()
    with popxl.Session(ir, "cpu") as session:
        np.testing.assert_array_equal(session.run({source: values(3, 2)})[target], 2 * values(3, 2))


def test_an_output_of_a_graph_is_taken_away():
    ir = popxl.Ir()
    graph = ir.create_graph(lambda x: (x + 1, x * 2.0), TensorSpec((2,), FLOAT))
    kept = graph.outputs[1]
    graph._pb_graph.removeOutput(0)
    assert graph.outputs == (kept,)
    with ir.main_graph:
        (y,) = ops.call(graph, popxl.variable(values(2)))
        stream = popxl.d2h_stream(y.shape, y.dtype)
        ops.host_store(stream, y)
    with popxl.Session(ir, "cpu") as session:
        assert session.run()[stream].tolist() == [2, 4]


# ---- gradient graphs


BOTH = ("a", "b", "result")
READS = {
    "add": ((), ()),
    "sub": ((), BOTH),
    "mul": (BOTH, BOTH),
    "div": (BOTH, BOTH),
    "pow": (BOTH, BOTH),
    "fmod": (BOTH, None),
    "matmul": (("b",), ("a",)),
}


@pytest.mark.parametrize(("name", "argument"), [(n, i) for n, r in READS.items() for i in (0, 1) if r[i] is not None])
def test_forward_tensors_that_a_gradient_graph_reads(name, argument):
    ir = popxl.Ir()
    graph = ir.create_graph(lambda a, b: getattr(ops, name)(a, b), *2 * [TensorSpec((3, 3), FLOAT)])
    a, b = graph.inputs
    names = {"a": a, "b": b, "result": graph.outputs[0]}
    info = popxl.transforms.autodiff(graph, grads_required=[graph.inputs[argument]])
    read = [c.fwd_tensor for c in info.expected_inputs[1:]]
    assert set(read) == {names[n] for n in READS[name][argument]}
    assert read == sorted(read, key=lambda t: t.id) and len(graph.outputs) == 1


@pytest.mark.parametrize(("name", "reads"), [("gelu", "input"), ("relu", "output"), ("exp", "output")])
def test_forward_tensors_of_functions_of_one_argument(name, reads):
    ir = popxl.Ir()
    graph = ir.create_graph(lambda a: getattr(ops, name)(a), TensorSpec((3,), FLOAT))
    info = popxl.transforms.autodiff(graph)
    assert [c.fwd_tensor for c in info.expected_inputs[1:]] == [
        graph.inputs[0] if reads == "input" else graph.outputs[0]
    ]


def attention(batch, heads, length, width):
    hidden = heads * width

    def build(x, wqkv, bqkv, wo, bo, scale, bias, mask):
        y = (x @ wqkv + bqkv).reshape((batch, length, 3 * heads, width)).transpose((0, 2, 1, 3))
        q, k, v = ops.split(y, 3, 1)
        scores = (q @ k.transpose((0, 1, 3, 2))) * (1 / np.sqrt(width))
        weights = ops.softmax(scores + ops.detach((mask - 1.0) * 1000.0), -1)
        o = (weights @ v).transpose((0, 2, 1, 3)).reshape((batch * length, hidden))
        return ops.layer_norm(o @ wo + bo + x, scale, bias)

    shapes = [(batch * length, hidden), (hidden, 3 * hidden), (3 * hidden,), (hidden, hidden), *3 * [(hidden,)]]
    return build, [*shapes, (batch, 1, length, length)]


def test_an_attention_block_has_16_gradient_inputs():
    ir = popxl.Ir()
    build, shapes = attention(2, 3, 4, 5)
    graph = ir.create_graph(build, *(TensorSpec(s, FLOAT) for s in shapes))
    info = popxl.transforms.autodiff(graph, grads_required=graph.inputs[:7])
    read = [t.shape for t in info.graph.inputs]
    assert len(read) == 16 and read.count((2, 3, 4, 4)) == 3 and read.count(()) == 1


def test_a_feed_forward_block_has_10_gradient_inputs():
    ir = popxl.Ir()

    def build(x, w1, b1, w2, b2, scale, bias):
        return ops.layer_norm(ops.gelu(x @ w1 + b1) @ w2 + b2 + x, scale, bias)

    shapes = [(4, 8), (8, 24), (24,), (24, 8), *3 * [(8,)]]
    graph = ir.create_graph(build, *(TensorSpec(s, FLOAT) for s in shapes))
    assert len(popxl.transforms.autodiff(graph).expected_inputs) == 10


@pytest.mark.parametrize("after", [False, True])
def test_gradients_are_right_with_tensors_that_no_formula_reads(after):
    ir = popxl.Ir()
    with ir.main_graph:
        x, y = popxl.variable(values(3)), popxl.variable(2 * values(3))

        def build(a, b):
            return (a * a - b) / b

        graph = ir.create_graph(build, x.spec, y.spec)
        info = popxl.transforms.autodiff(graph) if not after else None
        site = ops.call_with_info(graph, x, y)
        info = info or popxl.transforms.autodiff(graph)
        ones = popxl.constant(np.ones(3, np.float32))
        dx, dy = ops.call(info.graph, ones, inputs_dict=info.inputs_dict(site))[:2]
        streams = [popxl.d2h_stream(t.shape, t.dtype) for t in (dx, dy)]
        for stream, t in zip(streams, (dx, dy), strict=True):
            ops.host_store(stream, t)
    with popxl.Session(ir, "cpu") as session:
        outputs = session.run()
    a, b = values(3), 2 * values(3)
    np.testing.assert_allclose(outputs[streams[0]], 2 * a / b, rtol=1e-6)
    np.testing.assert_allclose(outputs[streams[1]], -a * a / b**2, rtol=1e-6)


def test_an_int32_input_of_add_has_an_int32_gradient():
    ir = popxl.Ir()
    graph = ir.create_graph(lambda a, b: a + b, *2 * [TensorSpec((2,), popxl.int32)])
    info = popxl.transforms.autodiff(graph)
    assert [t.dtype for t in info.graph.outputs] == [popxl.int32, popxl.int32]
    graph = ir.create_graph(lambda a, b: ops.cast(a, FLOAT) + b, TensorSpec((2,), popxl.int32), TensorSpec((2,), FLOAT))
    with pytest.raises(popart.popart_exception, match="no differentiable path"):
        popxl.transforms.autodiff(graph)


# ---- float8


@pytest.mark.parametrize("dtype", [popxl.float8_143, popxl.float8_152])
@pytest.mark.parametrize("source", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("nan_on_overflow", [True, False])
@pytest.mark.parametrize("scale", [0, -3])
def test_infinities_become_the_nan_of_float8(dtype, source, nan_on_overflow, scale):
    data = np.array([np.inf, -np.inf, np.nan, 1], source)
    got = popxl.fp8_utils.host_pow2scale_cast_to_fp8(data, dtype, scale, nan_on_overflow).view(np.uint8)
    assert got[:3].tolist() == [0x80] * 3 and got[3] not in (0x80, 0)


@pytest.mark.parametrize(("dtype", "largest"), [(popxl.float8_143, 240), (popxl.float8_152, 57344)])
def test_large_numbers_saturate_or_become_nan(dtype, largest):
    cast, back = popxl.fp8_utils.host_pow2scale_cast_to_fp8, popxl.fp8_utils.host_pow2scale_cast_from_fp8
    data = np.array([60000, -60000], np.float32)
    np.testing.assert_array_equal(back(cast(data, dtype, 0, False), FLOAT), [largest, -largest])
    assert np.isnan(back(cast(data, dtype, 2, True), FLOAT)).all()


# ---- sessions


def test_in_sync_with_ipu():
    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable(values(2))
        sum_ = v + 1
        stream = popxl.d2h_stream(v.shape, v.dtype)
        ops.host_store(stream, sum_)
    session = popxl.Session(ir, "cpu")
    assert v.in_sync_with_ipu
    with session:
        assert v.in_sync_with_ipu
        session.run()
        assert not v.in_sync_with_ipu
        session.get_tensor_data(v)
        assert v.in_sync_with_ipu
        session.run()
        assert not v.in_sync_with_ipu
        session.write_variable_data(v, values(2))
        assert v.in_sync_with_ipu
        session.run()
    assert v.in_sync_with_ipu


def test_the_device_of_a_session():
    ir = popxl.Ir()
    with ir.main_graph:
        ops.host_store(popxl.d2h_stream((2,), FLOAT), popxl.variable(values(2)) + 1)
    session = popxl.Session(ir, "ipu_model")
    assert session.device is None
    with session:
        assert session.device.type == popart.DeviceType.IpuModel and session.device.numIpus == 1
    assert session.device is None
    given = popart.DeviceManager().createIpuModelDevice({"numIPUs": 1})
    with popxl.Session(ir, given) as session:
        assert session.device is given


def test_location_info():
    ir = popxl.Ir()
    with ir.main_graph:
        near = popxl.variable(values(2))
        far = popxl.remote_variable(values(2), popxl.remote_buffer((2,), FLOAT))
    assert not near.location_info.isRemote() and not near.location_info.isSharded()
    assert far.location_info.isRemote() and not far.location_info.isSharded()


def test_data_of_any_layout():
    ir = popxl.Ir()
    with ir.main_graph:
        source, target = popxl.h2d_stream((2, 3), FLOAT), popxl.d2h_stream((2, 3), FLOAT)
        v = popxl.variable(values(3, 2).T)
        ops.host_store(target, ops.host_load(source) + v)
    turned, strided = values(3, 2).T, values(4, 6)[::2, ::2]
    with popxl.Session(ir, "cpu") as session:
        np.testing.assert_array_equal(session.run({source: turned})[target], 2 * turned)
        session.write_variable_data(v, 10 * turned)
        np.testing.assert_array_equal(session.get_tensor_data(v), 10 * turned)
        np.testing.assert_array_equal(session.run({source: strided})[target], strided + 10 * turned)
        output = np.zeros((4, 6), np.float32)[::2, ::2]
        session.run_with_outputs({source: strided}, {target: output})
        np.testing.assert_array_equal(output, strided + 10 * turned)


def test_module_ir_shows_the_operations_at_trace(capfd):
    ir = popxl.Ir()
    with ir.main_graph:
        ops.host_store(popxl.d2h_stream((2,), FLOAT), ops.gelu(popxl.variable(values(2))))
    logger = popart.getLogger("ir")
    try:
        logger.setLevel("TRACE")
        popxl.Session(ir, "cpu")
    finally:
        logger.setLevel("WARN")
    assert any("popart:ir" in line and "Gelu" in line for line in capfd.readouterr().err.splitlines())
