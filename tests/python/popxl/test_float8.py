"""float8: casts, scaled products and convolutions, moves and host data, against formulas of the formats in float64."""

import ml_dtypes
import numpy as np
import popart_core
import popxl
import pytest
import torch
from popxl import ops
from popxl.fp8_utils import host_fp8_mse_scale, host_pow2scale_cast_from_fp8, host_pow2scale_cast_to_fp8

RNG = np.random.default_rng(8)
TYPES = {popxl.float8_143: ml_dtypes.float8_e4m3fnuz, popxl.float8_152: ml_dtypes.float8_e5m2fnuz}


def run(build, *arrays, dtypes=None, scale_option=True):
    """Values of what `build` makes of streams of these arrays."""
    ir = popxl.Ir()
    ir._pb_ir.getSessionOptions().throwIfLog2ScaleTensorNotInRange = scale_option
    dtypes = dtypes or [None] * len(arrays)
    with ir.main_graph:
        streams = [
            popxl.h2d_stream(a.shape, d or popxl.dtype.as_dtype(a), name=f"in{i}")
            for i, (a, d) in enumerate(zip(arrays, dtypes, strict=True))
        ]
        out = build(*[ops.host_load(s) for s in streams])
        d2h = popxl.d2h_stream(out.shape, out.dtype)
        ops.host_store(d2h, out)
    with popxl.Session(ir, "cpu") as session:
        return session.run(dict(zip(streams, arrays, strict=True)))[d2h]


def codes(dtype):
    """All 256 codes."""
    return np.arange(256, dtype=np.uint8).view(dtype.as_numpy())


@pytest.mark.parametrize("dtype", TYPES)
def test_all_codes_have_their_values(dtype):
    bits, bias = (3, 8) if dtype == popxl.float8_143 else (2, 16)
    n = np.arange(256)
    exponent, mantissa = (n & 127) >> bits, (n & ((1 << bits) - 1)) / 2**bits
    expected = np.where(exponent == 0, mantissa * 2.0 ** (1 - bias), (1 + mantissa) * 2.0 ** (exponent - bias))
    expected = np.where(n > 127, -expected, expected)
    expected[128] = np.nan
    zero = np.int32(0)
    got = run(lambda t, s: ops.pow2scale_cast_from_fp8(t, s, popxl.float32), codes(dtype), zero, dtypes=[dtype, None])
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(got, np.arange(256, dtype=np.uint8).view(TYPES[dtype]).astype(np.float32))
    np.testing.assert_array_equal(host_pow2scale_cast_from_fp8(codes(dtype)), got)
    back = run(lambda t, s: ops.pow2scale_cast_to_fp8(t, s, dtype), got.astype(np.float16), zero)
    assert back.dtype == dtype.as_numpy()
    np.testing.assert_array_equal(back.view(np.uint8), n)


@pytest.mark.parametrize("scale", [-32, -3, 0, 5, 31])
@pytest.mark.parametrize("source", [np.float16, np.float32])
@pytest.mark.parametrize("dtype", TYPES)
def test_casts_agree_with_the_host(dtype, source, scale):
    exponents = RNG.integers(-22, 15, 4000) if source == np.float16 else RNG.integers(-60, 40, 4000)
    values = (RNG.normal(size=4000) * 2.0**exponents).astype(source)
    values[:6] = [0.0, -0.0, np.inf, -np.inf, np.nan, 240.0]
    got = run(lambda t, s: ops.pow2scale_cast_to_fp8(t, s, dtype), values, np.int32(scale))
    np.testing.assert_array_equal(got, host_pow2scale_cast_to_fp8(values, dtype, scale))
    largest = 240 if dtype == popxl.float8_143 else 57344
    with np.errstate(over="ignore"):
        scaled = values.astype(np.float64) * 2.0**scale
    inside = np.abs(scaled) <= largest  # ml_dtypes rounds as we do there
    np.testing.assert_array_equal(
        got.view(np.uint8)[inside], scaled[inside].astype(np.float32).astype(TYPES[dtype]).view(np.uint8)
    )
    wide = run(
        lambda t, s: ops.pow2scale_cast_from_fp8(t, s, popxl.float16), got, np.int32(scale), dtypes=[dtype, None]
    )
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(wide, host_pow2scale_cast_from_fp8(got, popxl.float16, scale))


@pytest.mark.parametrize("dtype", TYPES)
def test_the_host_rounds_float64_once_and_ties_to_even(dtype):
    values = np.arange(128, dtype=np.uint8).view(TYPES[dtype]).astype(np.float64)
    middles, lower = (values[1:] + values[:-1]) / 2, np.arange(127)
    for given, expected in (
        (middles, lower + lower % 2),
        (np.nextafter(middles, np.inf), lower + 1),
        (np.nextafter(middles, 0), lower),
    ):
        np.testing.assert_array_equal(host_pow2scale_cast_to_fp8(given, dtype).view(np.uint8), expected)
        negative = np.where(expected == 0, 0, expected + 128)
        np.testing.assert_array_equal(host_pow2scale_cast_to_fp8(-given, dtype).view(np.uint8), negative)
    beyond = values[-1] + (values[-1] - values[-2]) / 2
    ends = np.array([np.nextafter(beyond, 0), beyond, -1e300, np.inf, np.nan])
    np.testing.assert_array_equal(host_pow2scale_cast_to_fp8(ends, dtype).view(np.uint8), [127, *[128] * 4])
    saturated = host_pow2scale_cast_to_fp8(ends, dtype, nan_on_overflow=False).view(np.uint8)
    np.testing.assert_array_equal(saturated, [127, 127, 255, 128, 128])


def random_fp8(shape, dtype):
    return host_pow2scale_cast_to_fp8(RNG.normal(size=shape).astype(np.float32), dtype)


def exact(a):
    return host_pow2scale_cast_from_fp8(a, popxl.float64)


@pytest.mark.parametrize("shapes", [((5, 7), (7, 3)), ((2, 5, 7), (2, 7, 3)), ((7,), (7, 3)), ((64, 200), (200, 48))])
@pytest.mark.parametrize("right", TYPES)
@pytest.mark.parametrize("left", TYPES)
def test_products(left, right, shapes):
    a, b = random_fp8(shapes[0], left), random_fp8(shapes[1], right)
    for scale in (-4, 0, 3):
        got = run(ops.matmul_pow2scaled, a, b, np.int32(scale), dtypes=[left, right, None])
        assert got.dtype == np.float16
        expected = exact(a) @ exact(b) * 2.0**scale
        np.testing.assert_allclose(got, expected, rtol=2**-10, atol=2.0 ** (scale - 18) * shapes[0][-1])


def test_convolutions():
    x, w = random_fp8((2, 4, 9, 8), popxl.float8_143), random_fp8((6, 2, 3, 3), popxl.float8_152)
    kinds = [popxl.float8_143, popxl.float8_152, None]
    got = run(
        lambda t, k, s: ops.conv_pow2scaled(t, k, s, (2, 1), (1, 0, 1, 0), groups=2), x, w, np.int32(-1), dtypes=kinds
    )
    tx, tw = torch.tensor(exact(x)), torch.tensor(exact(w))
    expected = torch.nn.functional.conv2d(tx, tw, stride=(2, 1), padding=(1, 0), groups=2) / 2
    np.testing.assert_allclose(got, expected.numpy(), rtol=2**-10, atol=1e-4)
    w = random_fp8((4, 3, 3, 3), popxl.float8_152)
    got = run(lambda t, k, s: ops.conv_transpose_pow2scaled(t, k, s, (2, 2)), x, w, np.int32(2), dtypes=kinds)
    expected = torch.nn.functional.conv_transpose2d(tx, torch.tensor(exact(w)), stride=(2, 2)) * 4
    np.testing.assert_allclose(got, expected.numpy(), rtol=2**-10, atol=1e-3)


@pytest.mark.parametrize("dtype", TYPES)
def test_moves_keep_the_bytes(dtype):
    a = codes(dtype).reshape(4, 64)
    kinds = [dtype]
    for build, expected in (
        (lambda t: t.transpose((1, 0)), a.T),
        (lambda t: t.reshape((8, 32)), a.reshape(8, 32)),
        (lambda t: ops.slice(t, 1, 3, axis=0), a[1:3]),
        (lambda t: ops.concat([t, t], 1), np.concatenate([a, a], 1)),
    ):
        np.testing.assert_array_equal(run(build, a, dtypes=kinds), expected)


@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("dtype", TYPES)
def test_parts_of_all_replicas_are_gathered(dtype, replicas):
    ir = popxl.Ir(replication=replicas)
    a = codes(dtype)[: 84 * replicas].reshape(*([replicas] if replicas > 1 else []), 4, 21)
    with ir.main_graph:
        stream = popxl.h2d_stream((4, 21), dtype)
        whole = ops.collectives.replicated_all_gather(ops.host_load(stream))
        d2h = popxl.d2h_stream(whole.shape, dtype)
        ops.host_store(d2h, whole)
    with popxl.Session(ir, "cpu") as session:
        got = session.run({stream: a})[d2h]
    assert whole.dtype == dtype
    expected = np.broadcast_to(a.view(np.uint8).reshape(-1), (replicas, 84 * replicas))
    np.testing.assert_array_equal(np.ascontiguousarray(got).view(np.uint8).reshape(expected.shape), expected)


def test_variables_and_constants():
    ir = popxl.Ir()
    values = RNG.normal(size=(3, 4)).astype(np.float32)
    with ir.main_graph:
        v = popxl.variable(values, popxl.float8_143, log2_scale=2)
        c = popxl.constant(values, popxl.float8_152)
        zero = popxl.constant(0, popxl.int32)
        out = ops.matmul_pow2scaled(v, c.transpose((1, 0)), zero)
        d2h = popxl.d2h_stream(out.shape, out.dtype)
        ops.host_store(d2h, out)
    host = host_pow2scale_cast_to_fp8(values, popxl.float8_143, 2)
    with popxl.Session(ir, "cpu") as session:
        got = session.run()[d2h]
        np.testing.assert_array_equal(session.get_tensor_data(v), host)
        session.write_variable_data(v, codes(popxl.float8_143)[:12].reshape(3, 4))
        np.testing.assert_array_equal(session.get_tensor_data(v), codes(popxl.float8_143)[:12].reshape(3, 4))
    expected = exact(host) @ exact(host_pow2scale_cast_to_fp8(values, popxl.float8_152)).T
    np.testing.assert_allclose(got, expected, rtol=2**-9)


@pytest.mark.parametrize("scale", [-33, 32, 100])
def test_a_scale_out_of_range_ends_the_run(scale):
    a = RNG.normal(size=5).astype(np.float16)
    build = lambda t, s: ops.pow2scale_cast_to_fp8(t, s, popxl.float8_143)  # noqa: E731
    with pytest.raises(popart_core.poplar_application_runtime_error, match=rf"got {scale}, expected -32 to 31"):
        run(build, a, np.int32(scale))
    got = run(build, a, np.int32(scale), scale_option=False)
    np.testing.assert_array_equal(got, host_pow2scale_cast_to_fp8(a, popxl.float8_143, scale))


def test_a_constant_scale_out_of_range_is_found_by_the_run():
    ir = popxl.Ir()
    with ir.main_graph:
        a = popxl.variable(np.ones(3, np.float16))
        out = ops.pow2scale_cast_to_fp8(a, popxl.constant(40, popxl.int32), popxl.float8_143)
        d2h = popxl.d2h_stream(out.shape, out.dtype)
        ops.host_store(d2h, out)
    session = popxl.Session(ir, "cpu")
    with session, pytest.raises(popart_core.poplar_application_runtime_error, match="log2 scale is out of range"):
        session.run()


def refused(kind, match, build):
    with popxl.Ir().main_graph:
        half = popxl.variable(np.ones((2, 2), np.float16))
        eight = popxl.variable(np.ones((2, 2), np.float16), popxl.float8_143)
        scale = popxl.constant(0, popxl.int32)
        with pytest.raises(kind, match=match):
            build(half, eight, scale)


def test_refusals():
    refused(TypeError, "`lhs` must be a float8", lambda h, e, s: ops.matmul_pow2scaled(h, e, s))
    refused(TypeError, "log2_scale must be an int32", lambda h, e, s: ops.matmul_pow2scaled(e, e, popxl.constant(0.0)))
    refused(
        ValueError,
        "scalar: got shape",
        lambda h, e, s: ops.matmul_pow2scaled(e, e, popxl.constant([0, 1], popxl.int32)),
    )
    refused(TypeError, "data_type must be float8", lambda h, e, s: ops.pow2scale_cast_to_fp8(h, s, popxl.float16))
    refused(TypeError, "`t` must be a float8", lambda h, e, s: ops.pow2scale_cast_from_fp8(h, s, popxl.float16))
    refused(TypeError, "float16 or float32", lambda h, e, s: ops.pow2scale_cast_from_fp8(e, s, popxl.int32))
    refused(TypeError, "pow2scale_cast_to_fp8", lambda h, e, s: ops.cast(h, popxl.float8_143))
    refused(popart_core.popart_exception, "log2 scale", lambda h, e, s: ops.matmul(e, e))


def test_the_session_refuses_operators_without_float8():
    ir = popxl.Ir()
    with ir.main_graph:
        e = popxl.variable(np.ones((2, 2), np.float16), popxl.float8_143)
        ops.add(e, e)
    with pytest.raises(popart_core.popart_exception, match="element type this operator does not take"):
        popxl.Session(ir, "cpu")


def test_products_have_no_gradient():
    with popxl.Ir().main_graph:
        graph = popxl.gcg().ir.create_graph(
            lambda a, b, s: ops.matmul_pow2scaled(a, b, s),
            popxl.TensorSpec((2, 2), popxl.float8_143),
            popxl.TensorSpec((2, 2), popxl.float8_143),
            popxl.TensorSpec((), popxl.int32),
        )
        with pytest.raises(popart_core.popart_exception, match="no gradient"):
            popxl.transforms.autodiff(graph)


def test_the_best_scale():
    large = RNG.uniform(32, 64, 500).astype(np.float32)
    small = RNG.uniform(1 / 64, 1 / 32, 500).astype(np.float32)
    assert host_fp8_mse_scale(large, popxl.float8_143)[1] < 0 < host_fp8_mse_scale(small, popxl.float8_143)[1]
    every = host_pow2scale_cast_from_fp8(codes(popxl.float8_143)[1:128])
    error, scale = host_fp8_mse_scale(every, popxl.float8_143)
    assert (error < 1e-8, scale) == (True, 0)
