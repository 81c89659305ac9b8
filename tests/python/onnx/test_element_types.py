"""Element types of at most eight bits and complex ones: conversions, packing in files, moves, quantised values."""

import itertools

import ml_dtypes
import numpy as np
import onnx.numpy_helper
import popart
import popart.backend
import pytest
from onnx.reference import ReferenceEvaluator

import onnx
from onnx import TensorProto, helper

FLOATS = {
    name: np.dtype(getattr(ml_dtypes, name))
    for name in (
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float6_e2m3fn",
        "float6_e3m2fn",
        "float4_e2m1fn",
    )
}
EXPONENT = np.dtype(ml_dtypes.float8_e8m0fnu)
INTEGERS = {name: np.dtype(getattr(ml_dtypes, name)) for name in ("int4", "uint4", "int2", "uint2")}
SMALL = {**FLOATS, "float8_e8m0fnu": EXPONENT, **INTEGERS}
COMPLEX = {"complex64": np.dtype(np.complex64), "complex128": np.dtype(np.complex128)}
BITS = {"float6_e2m3fn": 6, "float6_e3m2fn": 6, "float4_e2m1fn": 4, "int4": 4, "uint4": 4, "int2": 2, "uint2": 2}
OPSET = onnx.defs.onnx_opset_version()


def onnx_type(dtype):
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def codes(dtype):
    """Every value of a small type."""
    return np.arange(2 ** BITS.get(np.dtype(dtype).name, 8), dtype=np.uint8).view(dtype)


def model(nodes, inputs, outputs, initializers=()):
    """A model; inputs are arrays by name, outputs element types by name."""
    infos = [helper.make_tensor_value_info(n, onnx_type(a.dtype), a.shape) for n, a in inputs.items()]
    results = [helper.make_tensor_value_info(n, t, None) for n, t in outputs.items()]
    graph = helper.make_graph(nodes, "g", infos, results, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=13)


def run(made, inputs):
    return popart.backend.prepare(made).run(inputs)


def cast(x, to, **attributes):
    node = helper.make_node("Cast", ["x"], ["y"], to=onnx_type(to), **attributes)
    return run(model([node], {"x": x}, {"y": onnx_type(to)}), {"x": x})[0]


def same(got, expected):
    """Equal bits, but for the bits of NaN."""
    assert got.dtype == expected.dtype and got.shape == expected.shape
    if expected.dtype.kind in "iub" or expected.dtype.name in INTEGERS:
        np.testing.assert_array_equal(got.astype(np.int64), expected.astype(np.int64))
        return
    wide = [np.float64(got), np.float64(expected)]
    np.testing.assert_array_equal(wide[0], wide[1])
    known = ~np.isnan(wide[0])
    np.testing.assert_array_equal(np.signbit(wide[0])[known], np.signbit(wide[1])[known])


@pytest.mark.parametrize("dtype", SMALL.values(), ids=str)
@pytest.mark.parametrize("to", [np.float32, np.float16, ml_dtypes.bfloat16, np.float64], ids=lambda t: np.dtype(t).name)
def test_every_value_becomes_a_wider_float(dtype, to):
    """All codes, NaN and infinities among them, as ml_dtypes has them."""
    with np.errstate(over="ignore"):
        same(cast(codes(dtype), to), codes(dtype).astype(np.float32).astype(to))


@pytest.mark.parametrize("dtype", SMALL.values(), ids=str)
@pytest.mark.parametrize("to", [np.int32, np.int8, np.uint8, np.int64, np.bool_], ids=lambda t: np.dtype(t).name)
def test_every_value_in_range_becomes_an_integer(dtype, to):
    """Truncated toward zero; "is not 0" for bool."""
    values = codes(dtype).astype(np.float64)
    low, high = (-np.inf, np.inf) if to is np.bool_ else (np.iinfo(to).min, np.iinfo(to).max)
    x = codes(dtype)[(values > low - 1) & (values < high + 1)]
    same(cast(x, to), np.trunc(x.astype(np.float64)).astype(to) if to is not np.bool_ else x.astype(np.float32) != 0)


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("dtype", FLOATS.values(), ids=str)
@pytest.mark.parametrize("wide", [np.float32, np.float16, ml_dtypes.bfloat16], ids=lambda t: np.dtype(t).name)
def test_floats_round_as_in_ml_dtypes(dtype, wide, saturate):
    """Every 16-bit float, and all points halfway between values of the type with their neighbours."""
    if wide is np.float32:
        values = np.unique(codes(dtype).astype(np.float64))
        values = values[np.isfinite(values)]
        middle = ((values[1:] + values[:-1]) / 2).astype(np.float32)
        outer = np.float32([np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-44, -1e-44, -0.0, 0.0])
        outer = np.concatenate([outer, values[-1:] * np.float32([1.01, 1.05, 1.07, 1.2, 2])]).astype(np.float32)
        x = np.concatenate([values, middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf), outer, -outer])
        x = x.astype(np.float32)
    else:
        x = np.arange(65536, dtype=np.uint16).view(wide)
    expected = x.astype(np.float32)
    if saturate:
        largest = np.float32(ml_dtypes.finfo(dtype).max)
        expected = np.clip(expected, -largest, largest)
    with np.errstate(invalid="ignore"):
        expected = expected.astype(dtype)
    same(cast(x, dtype, saturate=saturate), expected)


@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
def test_exponents_round_as_onnx_says(mode):
    """FLOAT8E8M0 of normal numbers, by the helper of the onnx package."""
    x = np.float32([1, 1.0001, 1.25, 1.4999, 1.5, 1.75, 1.9999, 2, 3, 1e-30, 7e20, 2.0**-126, 1.5 * 2.0**126, np.nan])
    expected = onnx.numpy_helper.to_float8e8m0(x, True, mode)
    same(cast(x, EXPONENT, round_mode=mode), expected)
    out_of_range = np.float32([0, 1e-44, np.inf])
    np.testing.assert_array_equal(cast(out_of_range, EXPONENT, round_mode=mode).view(np.uint8), [0, 0, 254])
    loose = cast(out_of_range[[0, 2]], EXPONENT, round_mode=mode, saturate=0)
    assert np.isnan(loose.astype(np.float32)).all()


def test_an_unknown_round_mode_is_refused():
    """It is named, with those there are."""
    with pytest.raises(popart.popart_exception, match="round_mode is unknown: got 'sideways', expected 'up'"):
        cast(np.float32([1]), EXPONENT, round_mode="sideways")


@pytest.mark.parametrize("dtype", INTEGERS.values(), ids=str)
@pytest.mark.parametrize("wide", [np.int8, np.uint8, np.int32, np.int64], ids=lambda t: np.dtype(t).name)
def test_integers_keep_their_low_bits(dtype, wide):
    """ONNX: when out of range, higher bits are discarded."""
    x = np.concatenate([np.arange(-40, 300), [2**62 + 5]]).astype(np.int64).astype(wide)
    bits = BITS[dtype.name]
    low = x.astype(np.int64) & (2**bits - 1)
    signed = np.where(low >= 2 ** (bits - 1), low - 2**bits, low) if dtype.name.startswith("int") else low
    same(cast(x, dtype), signed.astype(dtype))


@pytest.mark.parametrize(
    ("a", "b"), list(itertools.permutations(("float8_e4m3fn", "float8_e5m2fnuz", "float4_e2m1fn"), 2))
)
def test_small_floats_become_each_other(a, b):
    """Without the detour over a wider type in the program."""
    x = codes(SMALL[a])
    largest = np.float32(ml_dtypes.finfo(SMALL[b]).max)
    same(cast(x, SMALL[b]), np.clip(x.astype(np.float32), -largest, largest).astype(SMALL[b]))


def test_castlike_has_the_attributes_of_cast():
    """Saturation follows the attribute, the type the second input."""
    x, like = np.float32([1e6, -1e6, 1]), np.zeros(1, ml_dtypes.float8_e5m2)
    for saturate, expected in ((1, [57344, -57344, 1]), (0, [np.inf, -np.inf, 1])):
        node = helper.make_node("CastLike", ["x", "like"], ["y"], saturate=saturate)
        made = model([node], {"x": x, "like": like}, {"y": TensorProto.FLOAT8E5M2})
        np.testing.assert_array_equal(run(made, {"x": x, "like": like})[0].astype(np.float32), expected)


# ---- files


def stored(values, form, folder):
    """The array as a TensorProto: as raw bytes, as numbers, or in a file of its own."""
    tensor = onnx.numpy_helper.from_array(values, "w")
    bits = BITS.get(values.dtype.name, 8 * values.dtype.itemsize)
    if form == "numbers":
        raw = tensor.raw_data
        tensor.ClearField("raw_data")
        if values.dtype.kind == "c":
            parts = values.ravel().view(np.float32 if values.dtype == np.complex64 else np.float64)
            (tensor.float_data if values.dtype == np.complex64 else tensor.double_data).extend(parts)
        else:
            tensor.int32_data.extend(values.ravel().view(np.uint8) if bits == 6 else raw)
    elif form == "file":
        (folder / "w.bin").write_bytes(b"\7" * 16 + tensor.raw_data)
        place = {"location": "w.bin", "offset": 16, "length": len(tensor.raw_data)}
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in place.items():
            tensor.external_data.add(key=key, value=str(value))
    return tensor


def example(dtype, *shape):
    """Values of any type, all kinds of codes among them."""
    if dtype.kind == "c":
        return (np.arange(np.prod(shape)) + 1j * np.arange(np.prod(shape), 0, -1)).astype(dtype).reshape(shape)
    return np.resize(codes(dtype)[1:], shape)


@pytest.mark.parametrize("form", ["raw", "numbers", "file"])
@pytest.mark.parametrize("dtype", [*SMALL.values(), *COMPLEX.values()], ids=str)
@pytest.mark.parametrize("count", [0, 1, 3, 7, 300])
def test_initializers_are_read(dtype, form, count, tmp_path):
    """Elements beside each other in the file, one by one in memory; the last byte may be partly used."""
    w = example(dtype, count)
    made = model([helper.make_node("Identity", ["w"], ["y"])], {}, {"y": onnx_type(dtype)}, [stored(w, form, tmp_path)])
    onnx.save(made, tmp_path / "m.onnx")
    anchors = popart.DataFlow(1, {"y": popart.AnchorReturnType("All")})
    session = popart.InferenceSession(
        str(tmp_path / "m.onnx"), anchors, popart.DeviceManager().createCpuDevice(), userOptions=popart.SessionOptions()
    )
    session.prepareDevice()
    arrays = session.initAnchorArrays()
    session.run(popart.PyStepIO({}, arrays))
    assert arrays["y"].tobytes() == w.tobytes()


@pytest.mark.parametrize("dtype", [*SMALL.values(), *COMPLEX.values()], ids=str)
def test_saved_models_are_packed(dtype, tmp_path):
    """What a session writes is read by the onnx package."""
    w, x = example(dtype, 5, 3), example(dtype, 2, 3)
    nodes = [helper.make_node("Concat", ["w", "x"], ["y"], axis=0)]
    made = model(nodes, {"x": x}, {"y": onnx_type(dtype)}, [onnx.numpy_helper.from_array(w, "w")])
    session = popart.InferenceSession(
        made.SerializeToString(),
        popart.DataFlow(1, {"y": popart.AnchorReturnType("All")}),
        popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    session.modelToHost(str(tmp_path / "saved.onnx"))
    saved = onnx.load(tmp_path / "saved.onnx").graph.initializer
    assert [onnx.numpy_helper.to_array(t).tobytes() for t in saved] == [w.tobytes()]


@pytest.mark.parametrize("change", [-1, 1])
def test_a_packed_payload_of_another_size_is_refused(change):
    """Sizes are those of the file, not of memory."""
    tensor = onnx.numpy_helper.from_array(example(SMALL["int4"], 7), "w")
    tensor.raw_data = tensor.raw_data[:change] if change < 0 else tensor.raw_data + b"\0"
    made = model([helper.make_node("Identity", ["w"], ["y"])], {}, {"y": TensorProto.INT4}, [tensor])
    with pytest.raises(popart.popart_exception, match=f"got {4 + change} bytes, expected 4 for int4"):
        run(made, {})


# ---- moves

MOVES = {
    "Identity": ({}, [], lambda x: x),
    "Reshape": ({}, [np.int64([6, 4])], lambda x: x.reshape(6, 4)),
    "Flatten": ({"axis": 2}, [], lambda x: x.reshape(2, 12)),
    "Squeeze": ({}, [np.int64([0])], lambda x: x.reshape(2, 3, 4)),
    "Unsqueeze": ({}, [np.int64([0])], lambda x: x[None]),
    "Transpose": ({"perm": [3, 0, 2, 1]}, [], lambda x: x.transpose(3, 0, 2, 1)),
    "Slice": ({}, [np.int64([1]), np.int64([4]), np.int64([3]), np.int64([2])], lambda x: x[..., 1:4:2]),
    "Gather": ({"axis": 3}, [np.int64([2, 0, 2])], lambda x: x[..., [2, 0, 2]]),
    "GatherElements": ({"axis": 3}, [np.int64([[[[3, 0]]]])], lambda x: x[:1, :1, :1, [3, 0]]),
    "GatherND": ({}, [np.int64([[0, 1, 2]])], lambda x: x[[0], [1], [2]]),
    "Expand": ({}, [np.int64([2, 2, 3, 4])], lambda x: np.broadcast_to(x, (2, 2, 3, 4))),
    "Tile": ({}, [np.int64([2, 1, 1, 2])], lambda x: np.tile(x, (2, 1, 1, 2))),
    "Pad": ({"mode": "edge"}, [np.int64([0, 0, 1, 0, 0, 0, 0, 2])], lambda x: padded(x, mode="edge")),
    "Shape": ({}, [], lambda x: np.int64(x.shape)),
    "Size": ({}, [], lambda x: np.int64(x.size)),
}


def padded(x, mode):
    return np.pad(x.view(np.uint8) if x.dtype.kind == "V" else x, [(0, 0), (0, 0), (1, 0), (0, 2)], mode).view(x.dtype)


def computed(node, feeds, results):
    made = model([node], feeds, results)
    constants = {name: value for name, value in feeds.items() if name != "x"}
    for name, value in constants.items():
        made.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    del made.graph.input[1:]
    return run(made, {"x": feeds["x"]})


@pytest.mark.parametrize("operator", MOVES)
@pytest.mark.parametrize("dtype", [*SMALL.values(), *COMPLEX.values()], ids=str)
def test_elements_are_moved_as_they_are(operator, dtype):
    """Views and moves know sizes of elements, not types."""
    attributes, others, expected = MOVES[operator]
    x = example(dtype, 1, 2, 3, 4)
    feeds = {"x": x, **{f"i{k}": v for k, v in enumerate(others)}}
    wanted = expected(x)
    node = helper.make_node(operator, list(feeds), ["y"], **attributes)
    got = computed(node, feeds, {"y": onnx_type(wanted.dtype)})[0]
    assert got.dtype == wanted.dtype and got.shape == wanted.shape and got.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("dtype", [*SMALL.values(), *COMPLEX.values()], ids=str)
def test_parts_are_joined_chosen_and_written(dtype):
    """Concat, Split, Where, ScatterElements, OneHot in one program."""
    x, w = example(dtype, 2, 4), example(dtype, 2, 4)[::-1].copy()
    mask, places = np.array([[True, False, True, False]]), np.int64([[1, 3]])
    element = onnx_type(dtype)
    nodes = [
        helper.make_node("Concat", ["x", "w"], ["joined"], axis=1),
        helper.make_node("Split", ["joined"], ["left", "right"], axis=1, num_outputs=2),
        helper.make_node("Where", ["mask", "left", "right"], ["chosen"]),
        helper.make_node("ScatterElements", ["chosen", "places", "part"], ["y"], axis=1),
        helper.make_node("OneHot", ["places", "depth", "pair"], ["hot"]),
    ]
    constants = {
        "mask": mask,
        "places": places,
        "part": x[:1, :2].copy(),
        "depth": np.int64(4),
        "pair": x[0, :2].copy(),
    }
    made = model(
        nodes,
        {"x": x, "w": w},
        {"y": element, "hot": element},
        [onnx.numpy_helper.from_array(v, n) for n, v in constants.items()],
    )
    y, hot = run(made, {"x": x, "w": w})
    expected = np.where(mask, x, w)
    expected[0, [1, 3]] = x[0, :2]
    assert y.tobytes() == expected.tobytes()
    off, on = x[0, 0], x[0, 1]
    assert hot.tobytes() == np.array([[[on if k == p else off for k in range(4)] for p in [1, 3]]], dtype).tobytes()


@pytest.mark.parametrize("dtype", [*SMALL.values(), *COMPLEX.values()], ids=str)
def test_values_pass_through_branches_and_loops(dtype):
    """If, Loop with a carry and a stack, ConstantOfShape, in-place updates."""
    x, element = example(dtype, 2, 3), onnx_type(dtype)
    info = helper.make_tensor_value_info
    then = helper.make_graph([helper.make_node("Identity", ["x"], ["a"])], "then", [], [info("a", element, None)])
    other = helper.make_graph([helper.make_node("Identity", ["zeros"], ["b"])], "else", [], [info("b", element, None)])
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["on"], ["on_out"]),
            helper.make_node("Transpose", ["carry"], ["turned"]),
            helper.make_node("Reshape", ["turned", "shape"], ["carry_out"]),
            helper.make_node("Identity", ["carry"], ["row"]),
        ],
        "body",
        [info("i", TensorProto.INT64, []), info("on", TensorProto.BOOL, []), info("carry", element, [2, 3])],
        [info("on_out", TensorProto.BOOL, []), info("carry_out", element, [2, 3]), info("row", element, [2, 3])],
    )
    nodes = [
        helper.make_node(
            "ConstantOfShape", ["shape"], ["zeros"], value=onnx.numpy_helper.from_array(x.ravel()[:1].copy(), "v")
        ),
        helper.make_node("If", ["flag"], ["picked"], then_branch=then, else_branch=other),
        helper.make_node("Loop", ["trips", "", "picked"], ["last", "rows"], body=body),
    ]
    flag = np.array(True)
    constants = {"shape": np.int64([2, 3]), "trips": np.int64(3)}
    made = model(
        nodes,
        {"x": x, "flag": flag},
        {"last": element, "rows": element},
        [onnx.numpy_helper.from_array(v, n) for n, v in constants.items()],
    )
    for given, start in ((True, x), (False, np.full((2, 3), x.ravel()[0], dtype))):
        last, rows = run(made, {"x": x, "flag": np.array(given)})
        expected = []
        for _ in range(3):
            expected.append(start)
            start = start.T.reshape(2, 3)
        assert last.tobytes() == start.tobytes() and rows.tobytes() == np.stack(expected).tobytes()


def test_arithmetic_on_small_types_is_refused():
    """They are converted and moved only."""
    x = example(SMALL["int4"], 3)
    with pytest.raises(popart.popart_exception, match=r"Add.*int4"):
        run(model([helper.make_node("Add", ["x", "x"], ["y"])], {"x": x}, {"y": TensorProto.INT4}), {"x": x})


# ---- quantised values

GRANULARITIES = {"tensor": ((), {}), "axis": ((3,), {"axis": 1}), "block": ((2, 2), {"axis": 1, "block_size": 2})}


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("dtype", [*FLOATS.values(), *INTEGERS.values(), np.dtype(np.int8)], ids=str)
@pytest.mark.parametrize("zero", [False, True])
def test_values_are_quantised_and_back(dtype, granularity, zero):
    """QuantizeLinear and DequantizeLinear by tensor, axis and block, as onnx's reference computes them."""
    shape, attributes = GRANULARITIES[granularity]
    generator = np.random.default_rng(5)
    x = (generator.standard_normal((2, 3)) * 9).astype(np.float32)
    feeds = {"x": x, "scale": generator.uniform(0.5, 2, shape).astype(np.float32)}
    if zero:
        integer = dtype.name in INTEGERS or dtype.kind == "i"
        feeds["zero"] = generator.integers(0, 2, shape).astype(dtype) if integer else np.zeros(shape, dtype)
    element = onnx_type(dtype)
    others = list(feeds)[1:]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", *others], ["q"], output_dtype=element, **attributes),
        helper.make_node("DequantizeLinear", ["q", *others], ["y"], **attributes),
    ]
    made = model(nodes, feeds, {"q": element, "y": TensorProto.FLOAT})
    q, y = run(made, feeds)
    expected = ReferenceEvaluator(made).run(None, feeds)
    same(q, expected[0])
    np.testing.assert_allclose(y, expected[1], rtol=1e-6)


def test_scales_may_be_exponents_alone():
    """FLOAT8E8M0 scales by block, the element type of microscaling formats."""
    x = np.float32([[1, 2, 3, 4], [-8, 20, 0.5, 6]])
    scale = np.float32([[0.5, 2], [4, 1]]).astype(EXPONENT)
    nodes = [
        helper.make_node(
            "QuantizeLinear", ["x", "s"], ["q"], axis=1, block_size=2, output_dtype=TensorProto.FLOAT4E2M1
        ),
        helper.make_node("DequantizeLinear", ["q", "s"], ["y"], axis=1, block_size=2, output_dtype=TensorProto.FLOAT),
    ]
    made = model(nodes, {"x": x, "s": scale}, {"q": TensorProto.FLOAT4E2M1, "y": TensorProto.FLOAT})
    q, y = run(made, {"x": x, "s": scale})
    wide = np.repeat(scale.astype(np.float32), 2, axis=1)
    same(q, np.clip(x / wide, -6, 6).astype(ml_dtypes.float4_e2m1fn))
    np.testing.assert_array_equal(y, q.astype(np.float32) * wide)


# ---- names


@pytest.mark.parametrize("dtype", [*SMALL.values(), np.dtype(ml_dtypes.bfloat16)], ids=str)
def test_popart_knows_the_types_by_name(dtype):
    """TensorInfo takes NumPy's and popart's names."""
    info = popart.TensorInfo(dtype, [2, 3])
    assert info == popart.TensorInfo(info.data_type(), [2, 3]) == popart.TensorInfo(info.data_type_lcase(), [2, 3])
    assert info.nbytes() == 6 * dtype.itemsize
    assert info == popart.TensorInfo(np.zeros((2, 3), dtype))


@pytest.mark.parametrize("dtype", SMALL.values(), ids=str)
def test_the_builder_makes_constants_and_casts(dtype):
    """ai.onnx constant and cast to a type by name."""
    values = example(dtype, 2, 3)
    builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    w = builder.aiOnnx.constant(values)
    y = builder.aiOnnx.cast([w], "FLOAT")
    builder.addOutputTensor(y)
    session = popart.InferenceSession(
        builder.getModelProto(),
        popart.DataFlow(1, {y: popart.AnchorReturnType("All")}),
        popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    arrays = session.initAnchorArrays()
    session.run(popart.PyStepIO({}, arrays))
    np.testing.assert_array_equal(arrays[y], values.astype(np.float32))


# ---- training


@pytest.mark.parametrize("dtype", [SMALL["float8_e4m3fn"], SMALL["int4"], SMALL["float4_e2m1fn"]], ids=str)
def test_quantised_weights_stay_while_others_are_trained(dtype):
    """Gradients pass beside weights of small types, which are constants of training."""
    w = example(dtype, 3, 2)
    scale, bias = np.float32(0.5), np.float32([0.25, -0.5])
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "scale"], ["wide"]),
        helper.make_node("MatMul", ["x", "wide"], ["h"]),
        helper.make_node("Add", ["h", "bias"], ["y"]),
        helper.make_node("ReduceMean", ["y"], ["loss"], keepdims=0),
    ]
    x = np.float32([[1, 2, 3], [4, 5, 6]])
    initializers = [onnx.numpy_helper.from_array(v, n) for n, v in (("w", w), ("bias", bias))]
    constants = [onnx.numpy_helper.from_array(scale, "scale")]
    made = model(nodes, {"x": x}, {"loss": TensorProto.FLOAT}, initializers + constants)
    session = popart.TrainingSession(
        made.SerializeToString(),
        popart.DataFlow(1, {"loss": popart.AnchorReturnType("All")}),
        "loss",
        popart.ConstSGD(0.1),
        popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    session.weightsFromHost()
    arrays = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": x}, arrays))
    expected = (x @ (w.astype(np.float32) * scale) + bias).mean()
    np.testing.assert_allclose(arrays["loss"], expected, rtol=1e-5)
    session.run(popart.PyStepIO({"x": x}, arrays))
    # two columns, each with half of the mean's gradient; so does the gradient of the scale, which moves the loss too
    assert arrays["loss"] < expected


def test_gradients_through_casts_to_small_floats_are_refused():
    """The reason names the type."""
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["wide"]),
        helper.make_node("Cast", ["wide"], ["small"], to=TensorProto.FLOAT8E5M2),
        helper.make_node("Cast", ["small"], ["y"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["y"], ["loss"], keepdims=0),
    ]
    x = np.float32([1, 2])
    made = model(nodes, {"x": x}, {"loss": TensorProto.FLOAT}, [onnx.numpy_helper.from_array(x, "w")])
    with pytest.raises(popart.popart_exception, match="values of type float8_e5m2 have no gradient"):
        popart.TrainingSession(
            made.SerializeToString(),
            popart.DataFlow(1, {"loss": popart.AnchorReturnType("All")}),
            "loss",
            popart.ConstSGD(0.1),
            popart.DeviceManager().createCpuDevice(),
        ).prepareDevice()


# ---- bits and classes


@pytest.mark.parametrize("dtype", [*FLOATS.values(), EXPONENT], ids=str)
def test_nan_and_infinity_are_found(dtype):
    """IsNaN and IsInf of every code."""
    x = codes(dtype)
    nodes = [helper.make_node("IsNaN", ["x"], ["n"]), helper.make_node("IsInf", ["x"], ["i"], detect_negative=0)]
    nan, infinity = run(model(nodes, {"x": x}, {"n": TensorProto.BOOL, "i": TensorProto.BOOL}), {"x": x})
    np.testing.assert_array_equal(nan, np.isnan(x.astype(np.float32)))
    np.testing.assert_array_equal(infinity, x.astype(np.float32) == np.inf)


@pytest.mark.parametrize(
    ("dtype", "to"),
    [("float8_e5m2", np.uint8), ("float8_e8m0fnu", np.int8), ("int4", "float4_e2m1fn"), ("uint2", "int2")],
    ids=str,
)
def test_bits_are_read_as_another_type(dtype, to):
    """BitCast between types of as many bits."""
    x, to = codes(SMALL[dtype]), SMALL[to] if isinstance(to, str) else np.dtype(to)
    made = model([helper.make_node("BitCast", ["x"], ["y"], to=onnx_type(to))], {"x": x}, {"y": onnx_type(to)})
    assert run(made, {"x": x})[0].tobytes() == x.tobytes()


def test_bits_of_another_number_are_refused():
    """Four bits are no byte."""
    x = codes(SMALL["int4"])
    node = helper.make_node("BitCast", ["x"], ["y"], to=TensorProto.INT8)
    with pytest.raises(popart.popart_exception, match="the types differ in size: got int4 to int8"):
        run(model([node], {"x": x}, {"y": TensorProto.INT8}), {"x": x})
