"""Weights of 2, 4 and 8 bits: products with them and rows of them, against ONNX Runtime; what they take in memory."""

import re

import ml_dtypes
import numpy as np
import popart
import pytest

from onnx import TensorProto, helper, numpy_helper
from tests.python.onnx.microsoft_node import check_like_runtime, microsoft
from tests.python.onnx.single_node import gradients, values

FLOAT16 = TensorProto.FLOAT16


def floats(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(dtype)


def packed(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).integers(0, 256, shape).astype(np.uint8)


def product(k, n, bits, block, rows=(3,), zeros=None, bias=False, groups=False, dtype=np.float32, **attributes):
    blocks = -(-k // block)
    zero = None
    if zeros == "packed":
        zero = packed(n, -(-blocks * bits // 8), seed=2)
    elif zeros == "floats":
        zero = np.random.default_rng(3).integers(0, 2**bits, (n, blocks)).astype(dtype)
    inputs = [
        floats(*rows, k, dtype=dtype),
        packed(n, blocks, block * bits // 8),
        np.abs(floats(n, blocks, seed=1)).astype(dtype) / 2**bits,
        zero,
        np.random.default_rng(4).integers(0, blocks, k).astype(np.int32) if groups else None,
        floats(n, dtype=dtype) if bias else None,
    ]
    given = {"K": k, "N": n, "bits": bits, "block_size": block, **attributes}
    return microsoft("MatMulNBits", inputs, given, constant=[i for i in range(1, 6) if inputs[i] is not None])


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", [None, "packed", "floats"])
@pytest.mark.parametrize("bias", [False, True])
def test_products(bits, zeros, bias):
    node = product(96, 24, bits, 32, zeros=zeros, bias=bias)
    if (bits, zeros) != (8, "floats"):
        return check_like_runtime(node, rtol=1e-4, atol=1e-4)
    a, packed, scale, zero, _, added = node.inputs  # ONNX Runtime has no kernel for this
    matrix = (packed - zero[:, :, None]) * scale[:, :, None]
    expected = a @ matrix.reshape(24, 96).T + (added if bias else 0)
    np.testing.assert_allclose(values(node)[0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("k", "block"), [(50, 16), (33, 32), (128, 128), (100, 64)])
@pytest.mark.parametrize("bits", [4, 8])
def test_products_with_a_shorter_last_block(k, block, bits):
    check_like_runtime(product(k, 7, bits, block, zeros="packed"), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [(), (1,), (2, 3, 4)])
def test_products_of_any_rank(rows):
    check_like_runtime(product(64, 8, 4, 32, rows=rows), rtol=1e-4, atol=1e-4)


def test_products_with_groups():
    """ONNX Runtime's kernel for groups of columns, which model makers no longer write."""
    check_like_runtime(product(64, 8, 4, 32, groups=True), rtol=1e-4, atol=1e-4)


def test_products_of_16_bits():
    check_like_runtime(product(64, 8, 4, 32, dtype=np.float16), rtol=2e-2, atol=2e-2, element=FLOAT16)


def test_gradient_of_a_product():
    weights = [floats(3, 8, seed=9)]
    (gradient,) = gradients(product(64, 8, 4, 32), [0], weights)
    identity = product(64, 8, 4, 32, rows=(64,))
    identity.inputs[0] = np.eye(64, dtype=np.float32)
    (matrix,) = values(identity)
    np.testing.assert_allclose(gradient, weights[0] @ matrix.T, rtol=1e-4, atol=1e-5)


SIZE, LAYERS = 512, 6


def layers():
    """A model of products with packed weights, one behind the other."""
    nodes, initializers = [], []
    for i in range(LAYERS):
        weight, scale = packed(SIZE, SIZE // 32, 16, seed=i), floats(SIZE, SIZE // 32, seed=i) / 64
        initializers += [numpy_helper.from_array(weight, f"w{i}"), numpy_helper.from_array(scale, f"s{i}")]
        attributes = {"K": SIZE, "N": SIZE, "bits": 4, "block_size": 32}
        inputs = [f"x{i}", f"w{i}", f"s{i}"]
        nodes.append(helper.make_node("MatMulNBits", inputs, [f"x{i + 1}"], domain="com.microsoft", **attributes))
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, SIZE]) for n in ("x0", f"x{LAYERS}")]
    graph = helper.make_graph(nodes, "layers", ends[:1], ends[1:], initializers)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def test_weights_stay_packed():
    """Constants are the packed numbers and scales; the floats of one matrix at a time are in shared memory."""
    output = [f"x{LAYERS}"]
    session = popart.InferenceSession(layers(), popart.DataFlow(1, output), popart.DeviceManager().createCpuDevice())
    session.prepareDevice()
    sizes = {k: int(v) for k, v in re.findall(r"(\w+): (\d+) bytes", session.getSummaryReport())}
    floats_of_one, packed_of_all = SIZE * SIZE * 4, LAYERS * (SIZE * SIZE // 2 + SIZE * SIZE // 32 * 4)
    assert sizes["constants"] == packed_of_all and sizes["variables"] == 0
    assert sizes["activations"] <= 1.1 * floats_of_one


@pytest.mark.parametrize("zeros", [None, "packed"])
@pytest.mark.parametrize("rows", [(), (3,), (2, 3)])
def test_large_products_are_unpacked_in_parts(rows, zeros):
    """A matrix of 4 MiB, of which a part is in memory at a time."""
    node = product(1024, 1056, 4, 32, rows=rows, zeros=zeros, bias=True)
    check_like_runtime(node, rtol=1e-4, atol=1e-3)
    model = node.model(variables=False).SerializeToString()
    session = popart.InferenceSession(model, popart.DataFlow(1, ["y"]), popart.DeviceManager().createCpuDevice())
    session.prepareDevice()
    sizes = {k: int(v) for k, v in re.findall(r"(\w+): (\d+) bytes", session.getSummaryReport())}
    assert sizes["activations"] < 1.6 * 2**20


# ---- rows by number


def rows(data, indices, scales, zeros=None, **attributes):
    inputs = [data, indices, scales, zeros]
    constant = [0, 2, 3] if zeros is not None else [0, 2]
    return microsoft("GatherBlockQuantized", inputs, attributes, constant=constant)


INDICES = np.array([[0, 9, 3], [-1, 5, 5]], np.int64)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", [False, True])
def test_rows_of_packed_numbers(bits, zeros):
    blocks, block = 4, 16
    data = packed(10, blocks * block * bits // 8)
    zero = packed(10, blocks * bits // 8, seed=1) if zeros else None
    node = rows(data, INDICES, floats(10, blocks), zero, bits=bits, block_size=block)
    check_like_runtime(node)


@pytest.mark.parametrize("dtype", [ml_dtypes.uint4, ml_dtypes.int4])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(("gather", "quantise"), [(0, 1), (1, 0), (0, 2), (1, 2)])
def test_rows_of_numbers_of_four_bits(dtype, zeros, gather, quantise):
    shape = [10, 12, 32][: max(gather, quantise, 1) + 1]
    shape[quantise] = 32
    scales = list(shape)
    scales[quantise] = 2
    rng = np.random.default_rng(0)
    low = -8 if dtype == ml_dtypes.int4 else 0
    data = rng.integers(low, low + 16, shape).astype(dtype)
    zero = rng.integers(low, low + 16, scales).astype(dtype) if zeros else None
    node = rows(data, INDICES, floats(*scales), zero, gather_axis=gather, quantize_axis=quantise, block_size=16)
    check_like_runtime(node)


def test_rows_out_of_range_are_zeros():
    node = rows(packed(10, 32), np.array([3, 10, -11], np.int64), floats(10, 4), bits=4, block_size=16)
    check_like_runtime(node)
    assert not values(node)[0][1:].any()


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize(("k", "n", "block"), [(64, 8, 32), (48, 5, 16)])
def test_products_with_codes_of_a_table(kind, k, n, block):
    inputs = [floats(3, k), packed((n * k + 1) // 2), np.abs(floats(-(-n * k // block)))]
    node = microsoft("MatMulBnb4", inputs, {"K": k, "N": n, "block_size": block, "quant_type": kind}, constant=[1, 2])
    check_like_runtime(node, rtol=1e-4, atol=1e-4)
