"""Products, convolutions and further operators of com.microsoft against ONNX Runtime; what is refused."""

import numpy as np
import onnxruntime
import popart.backend
import popart_core
import pytest
import torch

import onnx
from onnx import TensorProto, helper, numpy_helper
from tests.python.onnx.microsoft_node import check_like_runtime, microsoft
from tests.python.onnx.single_node import Node, check_gradients, values

INT32, INT64, BOOL, FLOAT = TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL, TensorProto.FLOAT


def floats(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


# ---- products and convolutions

ACTIVATIONS = [
    ("Relu", []),
    ("Tanh", []),
    ("Sigmoid", []),
    ("LeakyRelu", [0.2]),
    ("Clip", [-0.5, 0.7]),
    ("HardSigmoid", [0.3, 0.4]),
]


@pytest.mark.parametrize(("activation", "numbers"), ACTIVATIONS)
@pytest.mark.parametrize("added", [False, True])
def test_fused_convolution(activation, numbers, added):
    inputs = [floats(2, 3, 6, 6), floats(4, 3, 3, 3), floats(4), floats(2, 4, 3, 6) if added else None]
    attributes = {"activation": activation, "pads": [1, 1, 1, 1], "strides": [2, 1]}
    if numbers:
        attributes["activation_params"] = numbers
    check_like_runtime(microsoft("FusedConv", inputs, attributes), gradients=[0, 1, 2])


def test_fused_convolution_without_anything():
    check_like_runtime(microsoft("FusedConv", [floats(2, 4, 8), floats(4, 2, 3)], {"group": 2}))


def test_unknown_activation_is_refused():
    node = microsoft("FusedConv", [floats(1, 1, 4), floats(1, 1, 3)], {"activation": "Softmin"})
    with pytest.raises(Exception, match="attribute activation: got 'Softmin', expected one of"):
        values(node)


@pytest.mark.parametrize("turned", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize(
    ("activation", "numbers"), [("Relu", {}), ("LeakyRelu", {"activation_alpha": 0.3}), ("Sigmoid", {}), ("Tanh", {})]
)
def test_fused_gemm(turned, activation, numbers):
    a, b = floats(*((6, 4) if turned[0] else (4, 6))), floats(*((5, 6) if turned[1] else (6, 5)))
    attributes = {
        "activation": activation,
        "transA": turned[0],
        "transB": turned[1],
        "alpha": 0.5,
        "beta": 2.0,
        **numbers,
    }
    check_like_runtime(microsoft("FusedGemm", [a, b, floats(5)], attributes), gradients=[0, 1, 2])


@pytest.mark.parametrize("operator", ["FusedMatMul", "TransposeMatMul"])
@pytest.mark.parametrize("turned", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_fused_matmul(operator, turned):
    a, b = floats(*((2, 6, 4) if turned[0] else (2, 4, 6))), floats(*((2, 5, 6) if turned[1] else (2, 6, 5)))
    attributes = {"transA": turned[0], "transB": turned[1], "alpha": 0.25}
    check_like_runtime(microsoft(operator, [a, b], attributes), gradients=[0, 1])


@pytest.mark.parametrize("turned", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("batches", [(1, 0), (0, 1), (1, 1)])
def test_fused_matmul_with_batches_last(turned, batches):
    """The first dimension of the matrices comes before the batches."""

    def operand(rows, columns, turn, batch, seed):
        first, last = (columns, rows) if turn else (rows, columns)
        return floats(*((first, 2, 3, last) if batch else (2, 3, first, last)), seed=seed)

    a, b = operand(4, 6, turned[0], batches[0], 1), operand(6, 5, turned[1], batches[1], 2)
    names = ("transA", "transB", "transBatchA", "transBatchB")
    check_like_runtime(microsoft("FusedMatMul", [a, b], dict(zip(names, turned + batches, strict=True))))


@pytest.mark.parametrize("shapes", [((6,), (6, 5)), ((4, 6), (6,)), ((2, 4, 6), (6, 5))])
def test_fused_matmul_of_other_ranks(shapes):
    check_like_runtime(microsoft("FusedMatMul", [floats(*s) for s in shapes], {"alpha": 2.0}))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_max_pool_of_channels_last(dtype):
    x = np.random.default_rng(0).integers(-100, 100, (2, 7, 8, 3)).astype(dtype)
    attributes = {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 0]}
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    check_like_runtime(microsoft("NhwcMaxPool", [x], attributes), element=element)


def test_fused_convolution_of_channels_last():
    x, w, b, z = floats(2, 5, 6, 3), floats(4, 3, 3, 3), floats(4), floats(2, 5, 6, 4)
    node = microsoft("NhwcFusedConv", [x, w, b, z], {"activation": "Relu", "pads": [1, 1, 1, 1]})
    y = torch.nn.functional.conv2d(torch.tensor(x).permute(0, 3, 1, 2), torch.tensor(w), torch.tensor(b), padding=1)
    expected = torch.relu(y.permute(0, 2, 3, 1) + torch.tensor(z))
    np.testing.assert_allclose(values(node)[0], expected.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 0, 1, 1]])
def test_transposed_convolution_with_pads_as_input(pads):
    inputs = [floats(2, 3, 4, 5), floats(3, 4, 3, 3), np.array(pads, np.int64), floats(4)]
    node = microsoft(
        "ConvTransposeWithDynamicPads",
        inputs,
        {"strides": [2, 2], "output_padding": [1, 0]},
        constant=[2],
    )
    check_like_runtime(node)


# ---- operators that ai.onnx has too


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [None, -1, 2])
def test_triangles(upper, k):
    inputs = [floats(2, 4, 5)] + ([] if k is None else [np.array(k, np.int64)])
    check_like_runtime(microsoft("Trilu", inputs, {"upper": upper}, constant=range(1, len(inputs))), gradients=[0])


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32])
@pytest.mark.parametrize("delta", [None, 3])
@pytest.mark.parametrize("rank", [0, 1])
def test_ranges(dtype, delta, rank):
    given = [1, 11] + ([] if delta is None else [delta])
    inputs = [np.array([v] if rank else v, dtype) for v in given]
    node = microsoft("Range", inputs, constant=range(len(inputs)))
    check_like_runtime(node, element=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def test_unique():
    x = np.array([3, 1, 1, 2, 3, 5, 1], np.float32)
    check_like_runtime(microsoft("Unique", [x], outputs="yic"), element=[FLOAT, INT64, INT64])
    y, counts = values(microsoft("Unique", [x], outputs="y-c"))
    np.testing.assert_array_equal(y, [3, 1, 2, 5])
    np.testing.assert_array_equal(counts, [2, 3, 1, 1])


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
@pytest.mark.parametrize("rank", [1, 2])
def test_pads(mode, rank):
    pads = np.array([1, 0, 2, 1], np.int64)
    inputs = [floats(4, 5), pads.reshape(1, 4) if rank == 2 else pads]
    if mode == "constant":
        inputs.append(np.array([7], np.float32))
    node = microsoft("Pad", inputs, {"mode": mode}, constant=range(1, len(inputs)))
    check_like_runtime(node, gradients=[0] if mode != "constant" else [])


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
def test_expanded_dimensions(axis):
    check_like_runtime(microsoft("ExpandDims", [floats(2, 3), np.array(axis, np.int32)], constant=[1]))


def test_gathered_tuples():
    indices = np.array([[0, 1], [1, 2]], np.int64)
    check_like_runtime(microsoft("GatherND", [floats(2, 3, 4), indices]), gradients=[0])


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [0, 1])
def test_grid_samples(mode, padding, corners):
    grid = np.random.default_rng(1).uniform(-1.3, 1.3, (2, 3, 4, 2)).astype(np.float32)
    attributes = {"mode": mode, "padding_mode": padding, "align_corners": corners}
    check_like_runtime(microsoft("GridSample", [floats(2, 3, 5, 6), grid], attributes))


@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (2, 3, 5, 5), (9, 9)])
def test_inverse(shape):
    node = microsoft("Inverse", [floats(*shape)])
    check_like_runtime(node, rtol=1e-3, atol=1e-3, gradients=[0] if shape == (4, 4) else [])


def test_inverse_needs_pivots():
    x = np.array([[0, 2, 0], [0, 0, 3], [4, 0, 0]], np.float32)
    check_like_runtime(microsoft("Inverse", [x]))


@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean"])
def test_distances(metric):
    node = microsoft("CDist", [floats(4, 6), floats(5, 6, seed=1)], {"metric": metric})
    check_like_runtime(node, rtol=1e-4, atol=1e-4, gradients=[0, 1])


def finite(isinf_only=0, isnan_only=0):
    """What NumPy says of all elements of an array, of none of them too."""
    bad = np.isinf if isinf_only else np.isnan if isnan_only else lambda x: ~np.isfinite(x)
    return lambda x: bool(np.all(~bad(x)))


def test_finite_values():
    good, bad, worse = floats(3), np.array([1, np.nan], np.float32), np.array([np.inf], np.float32)
    none = np.zeros((2, 0), np.float32)
    for inputs, attributes, expected in [
        ([good], {}, True),
        ([good, bad], {}, False),
        ([worse], {}, False),
        ([worse], {"isnan_only": 1}, True),
        ([bad], {"isinf_only": 1}, True),
        ([none], {}, True),
        ([none], {"isnan_only": 1}, True),
        ([none, good], {}, True),
        ([bad, none], {}, False),
    ]:
        (y,) = values(microsoft("IsAllFinite", inputs, attributes))
        assert y.shape == () and bool(y) is expected
        assert expected is all(map(finite(**attributes), inputs))


def test_torch_embedding():
    weight, indices = floats(5, 3), np.array([[0, 4], [2, 2]], np.int64)
    (y,) = values(microsoft("TorchEmbedding", [weight, indices, np.array(2, np.int64)], constant=[2]))
    np.testing.assert_array_equal(y, weight[indices])


@pytest.mark.parametrize(("dim", "size", "step"), [(-1, 3, 1), (0, 2, 2), (1, 4, 3)])
def test_unfolded(dim, size, step):
    x = floats(4, 7, 6)
    node = microsoft("UnfoldTensor", [x], {"dim": dim, "size": size, "step": step})
    check_like_runtime(node)
    np.testing.assert_array_equal(values(node)[0], torch.tensor(x).unfold(dim, size, step).numpy())


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
@pytest.mark.parametrize("past", [False, True])
def test_linear_attention(rule, past):
    keys = floats(2, 5, 2 * 4, seed=1) / 4
    inputs = [floats(2, 5, 4 * 4), keys, floats(2, 5, 2 * 3, seed=2), floats(2, 2, 4, 3) if past else None]
    inputs += [-np.abs(floats(2, 5, 2)) if "gated" in rule else None]
    inputs += [np.abs(floats(2, 5, 2, seed=3)) / 4 if "delta" in rule else None]
    attributes = {"q_num_heads": 4, "kv_num_heads": 2, "update_rule": rule}
    check_like_runtime(microsoft("LinearAttention", inputs, attributes, "ys"), rtol=1e-4)


@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("activation", ["none", "silu"])
def test_causal_convolution(past, activation):
    inputs = [floats(2, 4, 6), floats(4, 1, 3), floats(4), floats(2, 4, 2) if past else None]
    check_like_runtime(microsoft("CausalConvWithState", inputs, {"activation": activation}, "ys"))


# ---- signals and images


@pytest.mark.parametrize("dims", [1, 2])
def test_transforms_of_real_signals(dims):
    x = floats(3, 6, 8)
    axes = list(range(-dims, 0))
    spectrum = np.fft.rfftn(x, axes=axes)
    expected = np.stack([spectrum.real, spectrum.imag], -1).astype(np.float32)
    forward = microsoft("Rfft", [x], {"signal_ndim": dims, "onesided": 1, "normalized": 0})
    np.testing.assert_allclose(values(forward)[0], expected, rtol=1e-4, atol=1e-4)
    back = microsoft("Irfft", [expected], {"signal_ndim": dims, "onesided": 1, "normalized": 0})
    np.testing.assert_allclose(values(back)[0], x, rtol=1e-4, atol=1e-4)
    check_gradients(forward, [0])
    check_gradients(back, [0])


@pytest.mark.parametrize("operator", ["ComplexMul", "ComplexMulConj"])
def test_complex_products(operator):
    a, b = floats(2, 3, 2), floats(3, 2, seed=1)
    left, right = a[..., 0] + 1j * a[..., 1], b[..., 0] + 1j * b[..., 1]
    expected = left * (right.conj() if operator.endswith("Conj") else right)
    node = microsoft(operator, [a, b])
    np.testing.assert_allclose(values(node)[0], np.stack([expected.real, expected.imag], -1), rtol=1e-5, atol=1e-6)
    check_gradients(node, [0, 1])


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("size", [(3, 4), (1, 1), (2, 1)])
def test_crops(mode, size):
    boxes = np.array([[0.1, 0.2, 0.8, 0.9], [0.9, 0.1, -0.2, 1.3], [0, 0, 1, 1]], np.float32)
    inputs = [floats(2, 3, 6, 7), boxes, np.array([0, 1, 1], np.int32), np.array(size, np.int32)]
    node = microsoft("CropAndResize", inputs, {"mode": mode, "extrapolation_value": 0.5}, constant=[3])
    check_like_runtime(node, gradients=[0])


# ---- what is refused


@pytest.mark.parametrize("domain", ["com.microsoft.nchwc", "com.ms.internal.nhwc"])
def test_internal_layouts_name_the_level_to_save_at(domain):
    node = Node("Conv", [floats(1, 16, 8, 8), floats(16, 16, 3, 3)], {}, domain=domain)
    with pytest.raises(Exception, match="level 'extended'"):
        values(node)


@pytest.mark.parametrize(
    ("operator", "reason"),
    [
        ("BeamSearch", "search around a whole decoder"),
        ("EPContext", "compiled for a device"),
        ("Tokenizer", "Text is not a value"),
    ],
)
def test_refusals_say_why(operator, reason):
    with pytest.raises(Exception, match=reason):
        values(microsoft(operator, [floats(2)]))


def test_an_unknown_operator_names_the_nearest():
    with pytest.raises(Exception, match="SkipLayerNormalization"):
        values(microsoft("SkipLayerNormalisation", [floats(2)]))


def test_unknown_attributes_and_too_many_inputs_are_refused():
    with pytest.raises(Exception, match=r"unknown attribute .alhpa.*alpha"):
        values(microsoft("QuickGelu", [floats(2)], {"alhpa": 1.0}))
    with pytest.raises(Exception, match="too many inputs: got 2, expected at most 1"):
        values(microsoft("Gelu", [floats(2), floats(2)]))


# Operators of ONNX Runtime's CPU provider that are not read, each with a reason.
NOT_READ = {
    "a generator of text around a decoder": {"BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch"},
    "text": {"Tokenizer", "MurmurHash3", "WordConvEmbedding"},
    "sparse tensors": {"SparseToDenseMatMul", "SparseAttention"},
    "caches that are written into": {"DecoderMaskedMultiHeadAttention"},
    "numbers of n-grams": {"NGramHashMapping", "VarlenNGramHashMapping", "NGramRepeatBlock", "BifurcationDetector"},
    "layers of single models": {
        "AttnLSTM", "EngramGate", "HyperConnectionPostMix", "HyperConnectionPreMix",
        "BranchwiseRMSNorm", "LinearAttentionGate", "MaxpoolWithMask",
        "DynamicTimeWarping", "MatMulFpQ4", "SampleOp",
    },
}  # fmt: skip


def test_every_operator_of_the_runtime_is_read_or_has_a_reason():
    state = onnxruntime.capi.onnxruntime_pybind11_state
    there = {
        k.op_name
        for k in state.get_all_opkernel_def()
        if k.domain == "com.microsoft" and k.provider == "CPUExecutionProvider"
    }
    read = {o.type for o in popart_core.getSupportedOperations(False) if o.domain == "com.microsoft"}
    reasons = set().union(*NOT_READ.values())
    assert there - read - reasons == set()
    assert reasons & read == set()


def test_inputs_and_attributes_are_those_of_the_documentation():
    """Names and their order as ONNX Runtime's schemas have them."""
    schemas = {
        s.name: s
        for s in onnxruntime.capi.onnxruntime_pybind11_state.get_all_operator_schema()
        if s.domain == "com.microsoft"
    }
    for operator in popart_core.getSupportedOperations(False):
        if operator.domain != "com.microsoft":
            continue
        schema = schemas[operator.type]
        facts = popart_core.getSupportedOperationsDefinition(False)[operator]
        assert len(facts.inputs) == len(schema.inputs), operator.type
        assert len(facts.outputs) == len(schema.outputs), operator.type
        assert set(facts.attributes) == set(schema.attributes), operator.type


def test_models_of_the_builder():
    """CustomOp takes operators of com.microsoft as any other."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 8])
    (y,) = builder.customOp("QuickGelu", 1, "com.microsoft", [x], {"alpha": 1.0})
    builder.addOutputTensor(y)
    given = floats(2, 8)
    (got,) = popart.backend.prepare(onnx.load_from_string(builder.getModelProto())).run([given])
    np.testing.assert_allclose(got, given / (1 + np.exp(-given)), rtol=1e-5, atol=1e-6)


def test_a_function_of_the_model_comes_first():
    """A model may bring a function of its own under a name of com.microsoft."""
    body = helper.make_node("Neg", ["X"], ["Y"])
    function = helper.make_function("com.microsoft", "Gelu", ["X"], ["Y"], [body], [helper.make_opsetid("", 17)])
    node = helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft")
    info = [helper.make_tensor_value_info(n, FLOAT, [3]) for n in "xy"]
    graph = helper.make_graph([node], "g", info[:1], info[1:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, functions=[function], opset_imports=opsets, ir_version=10)
    (y,) = popart.backend.prepare(model).run([np.ones(3, np.float32)])
    np.testing.assert_array_equal(y, -np.ones(3))


def test_initializers_as_weights():
    """A fused product's weight is a variable that trains."""
    weight = numpy_helper.from_array(floats(4, 3), "w")
    node = helper.make_node("FusedGemm", ["x", "w"], ["y"], domain="com.microsoft", activation="Relu")
    info = [helper.make_tensor_value_info("x", FLOAT, [2, 4]), helper.make_tensor_value_info("y", FLOAT, [2, 3])]
    graph = helper.make_graph([node], "g", info[:1], info[1:], [weight])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    builder = popart.Builder(model)
    loss = builder.aiGraphcore.l1loss(["y"], 1.0, popart.ReductionType.Sum)
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, [loss]),
        loss,
        popart.ConstSGD(0.1),
        popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    session.weightsFromHost()
    x = floats(2, 4, seed=3)
    session.run(popart.PyStepIO({"x": x}, session.initAnchorArrays()))
    session.weightsToHost()
    w = np.empty((4, 3), np.float32)
    session.readWeights(popart.PyWeightsIO({"w": w}))
    before = floats(4, 3)
    gradient = x.T @ ((x @ before > 0) * np.sign(x @ before))
    np.testing.assert_allclose(w, before - 0.1 * gradient, rtol=1e-4, atol=1e-5)
