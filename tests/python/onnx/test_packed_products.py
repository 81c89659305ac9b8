"""Products that read weights of 2, 4 and 8 bits as stored: against ONNX Runtime, and the bits of what makes floats."""

import re

import ml_dtypes
import numpy as np
import popart
import pytest

from onnx import TensorProto, helper, numpy_helper
from tests.python.onnx.test_microsoft_packed import product

TYPES = {
    "INT4": (TensorProto.INT4, ml_dtypes.int4, -8, 8),
    "UINT4": (TensorProto.UINT4, ml_dtypes.uint4, 0, 16),
    "INT8": (TensorProto.INT8, np.int8, -128, 128),
    "UINT8": (TensorProto.UINT8, np.uint8, 0, 256),
}


def run(model, monkeypatch, off=""):
    """Values of output y for the feeds that `model` comes with; kernels of the program."""
    proto, feeds = model
    monkeypatch.setenv("POPART_DISABLE_PASSES", off)
    session = popart.InferenceSession(
        proto.SerializeToString(), popart.DataFlow(1, ["y"]), popart.DeviceManager().createCpuDevice()
    )
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO(feeds, anchors))
    report = session.getSummaryReport()
    sizes = {k: int(v) for k, v in re.findall(r"(\w+): (\d+) bytes", report)}
    return anchors["y"], sizes


def check(model, monkeypatch, packed_bytes, rtol=2e-5):
    """Like ONNX Runtime; the bits that the composition has; constants of `packed_bytes` and no floats of them."""
    ort = pytest.importorskip("onnxruntime")
    proto, feeds = model
    y, sizes = run(model, monkeypatch)
    composed, _ = run(model, monkeypatch, off="multiplyPacked")
    np.testing.assert_array_equal(y, composed)
    assert sizes["constants"] <= 1.1 * packed_bytes + 4096
    options = ort.SessionOptions()  # otherwise DequantizeLinear joins a product that quantises the activations
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    theirs = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    expected = theirs.run(None, feeds)[0]
    np.testing.assert_allclose(y, expected, rtol=rtol, atol=rtol * np.abs(expected).max())


# ONNX Runtime has no kernel for 8 bits with zero points of floats.
FORMATS = [(2, None), (2, "packed"), (2, "floats"), (4, None), (4, "packed"), (4, "floats"), (8, None), (8, "packed")]


@pytest.mark.parametrize("rows", [1, 2, 7, 12, 13, 17, 40])
@pytest.mark.parametrize(("bits", "zeros"), FORMATS)
def test_products_of_onnx_runtime(bits, zeros, rows, monkeypatch):
    k, n = 416, 96
    node = product(k, n, bits, 32, rows=(rows,), zeros=zeros, bias=True)
    proto = node.model(variables=False)
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, n]))
    blocks = k // 32
    per_zero = {None: 0, "packed": 1, "floats": 4}[zeros]
    check((proto, {"in0": node.inputs[0]}), monkeypatch, n * k * bits // 8 + n * blocks * (4 + per_zero) + 4 * n)


def dequantised(kind, k, n, block, rows=5, zeros=True, gemm=False, transposed=False):
    """A product with what DequantizeLinear makes of a matrix (k, n) in blocks along k."""
    element, dtype, low, high = TYPES[kind]
    random = np.random.default_rng(3)
    blocks = -(-k // block)

    def initializer(name, values):
        values = np.ascontiguousarray(values.T if transposed else values)
        if dtype in (ml_dtypes.int4, ml_dtypes.uint4):
            return helper.make_tensor(name, element, values.shape, values.reshape(-1).tolist())
        return numpy_helper.from_array(values.astype(dtype), name)

    scales = (random.random((blocks, n)) / 16).astype(np.float32)
    initializers = [
        initializer("w", random.integers(low, high, (k, n))),
        numpy_helper.from_array(np.ascontiguousarray(scales.T if transposed else scales), "s"),
    ]
    if zeros:
        initializers.append(initializer("z", random.integers(low, high, (blocks, n))))
    names = [i.name for i in initializers]
    nodes = [helper.make_node("DequantizeLinear", names, ["f"], axis=int(transposed), block_size=block)]
    if gemm:
        nodes.append(helper.make_node("Gemm", ["x", "f"], ["y"], transB=int(transposed)))
    else:
        nodes.append(helper.make_node("MatMul", ["x", "f"], ["y"]))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, size]) for name, size in (("x", k), ("y", n))]
    graph = helper.make_graph(nodes, "blocks", ends[:1], ends[1:], initializers)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return proto, {"x": random.standard_normal((rows, k)).astype(np.float32)}


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(("gemm", "transposed"), [(False, False), (True, False), (True, True)])
def test_dequantised_in_blocks(kind, zeros, gemm, transposed, monkeypatch):
    model = dequantised(kind, 256, 64, 32, zeros=zeros, gemm=gemm, transposed=transposed)
    bits = 4 if "4" in kind else 8
    check(model, monkeypatch, 256 * 64 * bits // 8 + 8 * 64 * 5)


def test_blocks_that_kernels_do_not_read_are_folded(monkeypatch):
    """Blocks of 8 numbers: the matrix is one of floats, as without the pass."""
    model = dequantised("INT4", 64, 32, 8)
    y, sizes = run(model, monkeypatch)
    assert sizes["constants"] >= 64 * 32 * 4
    numbers = popart.backend.prepare(model[0]).run([model[1]["x"]])[0]
    np.testing.assert_array_equal(y, numbers)


def test_weights_that_are_no_constants(monkeypatch):
    """A matrix of packed numbers that the run gives is unpacked in the run."""
    node = product(416, 96, 4, 32, rows=(3,))
    proto = node.model(variables=False)
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 96]))
    kept, _ = run((proto, {"in0": node.inputs[0]}), monkeypatch)
    (weights,) = (i for i in proto.graph.initializer if i.name == "in1")
    values = numpy_helper.to_array(weights)
    proto.graph.initializer.remove(weights)
    proto.graph.input.append(helper.make_tensor_value_info("in1", TensorProto.UINT8, values.shape))
    given, _ = run((proto, {"in0": node.inputs[0], "in1": values}), monkeypatch)
    np.testing.assert_array_equal(kept, given)
