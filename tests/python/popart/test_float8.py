"""FLOAT8 through the builder: inputs as structured arrays and as bytes, scaled products and convolutions, refusals."""

import numpy as np
import popart
import pytest
from popxl import dtypes
from popxl.fp8_utils import host_pow2scale_cast_from_fp8, host_pow2scale_cast_to_fp8

from tests.python.popart.training_runs import inference_session

RNG = np.random.default_rng(12)


def session_of(make, shapes, range_checked=True):
    """A session that computes `make(builder, inputs, scale)` of FLOAT8_143 inputs of these shapes."""
    builder = popart.Builder()
    inputs = [builder.addInputTensor(popart.TensorInfo("FLOAT8_143", s), f"x{i}") for i, s in enumerate(shapes)]
    scale = builder.addInputTensor(popart.TensorInfo("INT32", []), "scale")
    y = make(builder, inputs, scale)
    options = popart.SessionOptions()
    options.throwIfLog2ScaleTensorNotInRange = range_checked
    session = inference_session(builder.getModelProto(), [y], options)
    session.prepareDevice()
    return session, y


def random_inputs(shapes):
    return [host_pow2scale_cast_to_fp8(RNG.normal(size=s).astype(np.float32), dtypes.float8_143) for s in shapes]


def run(session, y, arrays, scale):
    anchors = session.initAnchorArrays()
    data = {f"x{i}": a for i, a in enumerate(arrays)} | {"scale": np.array(scale, np.int32)}
    session.run(popart.PyStepIO(data, anchors))
    return anchors[y]


def test_products():
    shapes = [[5, 9], [9, 3]]
    session, y = session_of(lambda b, x, s: b.aiOnnx.matmul([*x, s]), shapes)
    arrays = random_inputs(shapes)
    a, b = (host_pow2scale_cast_from_fp8(x, dtypes.float64) for x in arrays)
    got = run(session, y, arrays, 3)
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, a @ b * 8, rtol=2**-10, atol=1e-3)
    as_bytes = run(session, y, [x.view(np.uint8) for x in arrays], 3)
    np.testing.assert_array_equal(as_bytes, got)


def test_convolutions():
    shapes = [[2, 3, 6, 6], [4, 3, 3, 3]]
    session, y = session_of(lambda b, x, s: b.aiOnnx.conv([*x, s], dilations=[1, 1], pads=[0] * 4), shapes)
    arrays = random_inputs(shapes)
    x, w = (host_pow2scale_cast_from_fp8(a, dtypes.float64) for a in arrays)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    expected = np.einsum("nchwij,mcij->nmhw", windows, w)
    np.testing.assert_allclose(run(session, y, arrays, 0), expected, rtol=2**-10, atol=2e-3)


def test_anchors_are_raw_copies():
    session, y = session_of(lambda b, x, s: b.aiOnnx.transpose(x, [1, 0]), [[2, 128]])
    codes = np.arange(256, dtype=np.uint8).reshape(2, 128)
    got = run(session, y, [codes.view(dtypes.float8_143.as_numpy()).reshape(2, 128)], 0)
    assert got.dtype == dtypes.float8_143.as_numpy()
    np.testing.assert_array_equal(got.view(np.uint8).reshape(128, 2), codes.T)


def test_a_scale_out_of_range_ends_the_run():
    shapes = [[2, 2], [2, 2]]
    product = lambda b, x, s: b.aiOnnx.matmul([*x, s])  # noqa: E731
    arrays = random_inputs(shapes)
    session, y = session_of(product, shapes)
    with pytest.raises(
        popart.poplar_application_runtime_error, match="log2 scale is out of range: got 32, expected -32"
    ):
        run(session, y, arrays, 32)
    run(session, y, arrays, 31)  # the session goes on
    session, y = session_of(product, shapes, range_checked=False)
    run(session, y, arrays, 32)


def test_refusals():
    with pytest.raises(popart.popart_exception, match="need the log2 scale"):
        session_of(lambda b, x, s: b.aiOnnx.matmul(x), [[2, 2], [2, 2]])
    with pytest.raises(popart.popart_exception, match="element type this operator does not take"):
        session_of(lambda b, x, s: b.aiOnnx.add(x), [[2, 2], [2, 2]])
