"""Text, images and maps of models, which the host works on: values of ONNX Runtime or of ONNX's reference."""

from __future__ import annotations

import io
import time

import numpy as np
import onnx.parser
import onnx.reference
import onnxruntime
import popart
import popart.backend
import pytest
from PIL import Image

from onnx import TensorProto, helper

WORDS = np.array(["a", "bc", "ä", "", "日本", "a"], dtype=object)


def model(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20, "ai.onnx.ml" : 4]> {text}')


def run(proto: onnx.ModelProto, *inputs: object) -> list[object]:
    return list(popart.backend.prepare(proto).run(list(inputs)))


def node_model(
    kind: str, inputs: list[tuple[str, int, list]], outputs: int = 1, domain: str = "", **attributes: object
):
    """A model of one node."""
    names = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(kind, [name for name, _, _ in inputs], names, domain=domain, **attributes)
    graph = helper.make_graph(
        [node],
        "model",
        [helper.make_tensor_value_info(*i) for i in inputs],
        [onnx.ValueInfoProto(name=name) for name in names],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 4)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def check(text: str, *inputs: np.ndarray) -> list[object]:
    """Runs the model here and in ONNX Runtime and compares the outputs."""
    proto = model(text)
    got = run(proto, *inputs)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    for a, b in zip(got, session.run(None, dict(zip(names, inputs, strict=True))), strict=True):
        assert a.dtype.kind == b.dtype.kind
        np.testing.assert_array_equal(a, b)
    return got


def test_text_before_numbers():
    """Labels of words go through the program; their shape follows the data."""
    check(
        """agraph (string[N] words, float[8, 3] table) => (float[N, 3] y) {
          ids = ai.onnx.ml.LabelEncoder<keys_strings = ["a", "bc"], values_int64s = [1, 2], default_int64 = 7>(words)
          rows = Gather(table, ids)
          y = Relu(rows)
        }""",
        WORDS,
        np.random.default_rng(1).standard_normal((8, 3)).astype(np.float32),
    )


def test_text_after_numbers():
    check(
        """agraph (float[2, 3] x) => (string[2] label, int64[2] best) {
          best = ArgMax<axis = 1, keepdims = 0>(x)
          label = ai.onnx.ml.LabelEncoder<keys_int64s = [0, 2], values_strings = ["no", "yes"],
                                          default_string = "perhaps">(best)
        }""",
        np.array([[0, 3, 1], [0, 1, 2]], dtype=np.float32),
    )


def test_one_program_serves_calls_of_other_lengths():
    proto = node_model("StringConcat", [("a", TensorProto.STRING, ["N"]), ("b", TensorProto.STRING, [1])])
    prepared = popart.backend.prepare(proto)
    for words in (WORDS, WORDS[:2], WORDS.astype(str)):
        (got,) = prepared.run([words, np.array(["!"])])
        assert got.tolist() == [w + "!" for w in words.tolist()]


def test_constants_and_what_moves_text():
    check(
        """agraph (string[2, 3] x) => (string[3, 2] t, string[6] flat, int64[2] shape, string[2, 4] joined,
                                       bool[2, 3] same) <int64[1] all = {-1}> {
          t = Transpose<perm = [1, 0]>(x)
          flat = Reshape(x, all)
          shape = Shape(x)
          end = Constant<value_strings = ["x", "y"]>()
          column = Unsqueeze(end, all)
          joined = Concat<axis = 1>(x, column)
          word = Constant<value_string = "a">()
          same = Equal(x, word)
        }""",
        WORDS.reshape(2, 3),
    )


def test_initializers_of_text():
    """Also those that nothing reads; sessions refuse what reads them by name."""
    proto = model("""agraph (string[3] x) => (string[3] y)
                     <string[3] end = {"x", "y", "z"}, string[1] unread = {"q"}> { y = StringConcat(x, end) }""")
    words = np.array(["a", "B", "c"], object)
    assert run(proto, words)[0].tolist() == popart.load(proto)(words).tolist() == ["ax", "By", "cz"]
    numbers = model('agraph (float[3] x) => (float[3] y) <string[1] unread = {"q"}> { y = Neg(x) }')
    np.testing.assert_array_equal(popart.load(numbers)(np.float32([1, 2, 3])), [-1, -2, -3])
    same = model('agraph () => (bool[1] y) <string[1] a = {"q"}> { y = Equal(a, a) }')
    with pytest.raises(popart.popart_exception, match="Initializer 'a': element type is not supported: got strings"):
        popart.InferenceSession(
            same.SerializeToString(), popart.DataFlow(1, ["y"]), popart.DeviceManager().createCpuDevice()
        )


@pytest.mark.parametrize("sensitive", [0, 1])
@pytest.mark.parametrize("action", ["NONE", "LOWER", "UPPER"])
def test_normalizer(sensitive, action):
    check(
        f"""agraph (string[4] x) => (string[n] y) {{
          y = StringNormalizer<case_change_action = "{action}", is_case_sensitive = {sensitive},
                               stopwords = ["Monday"], locale = "C">(x)
        }}""",
        np.array(["monday", "Monday", "tuesday", "MAY"], dtype=object),
    )


@pytest.mark.parametrize(("delimiter", "most"), [(None, None), ("", 1), (",", None), (",", 1), (", ", 0)])
def test_split(delimiter, most):
    attributes = {"delimiter": delimiter, "maxsplit": most}
    attributes = {name: value for name, value in attributes.items() if value is not None}
    proto = node_model("StringSplit", [("x", TensorProto.STRING, ["N"])], 2, **attributes)
    x = np.array(["a,b , c", "", "  two  words ", ",,"], dtype=object)
    parts, counts = run(proto, x)
    expected = onnx.reference.ReferenceEvaluator(proto).run(None, {"x": x})
    assert parts.tolist() == expected[0].tolist()
    assert counts.tolist() == expected[1].tolist()


def test_pattern_matches_in_linear_time():
    proto = node_model("RegexFullMatch", [("x", TensorProto.STRING, ["N"])], pattern="(a*)*b")
    start = time.monotonic()
    (got,) = run(proto, np.array(["a" * 5000, "aab", "ä"], dtype=object))
    assert got.tolist() == [False, True, False]
    assert time.monotonic() - start < 5


def test_cast_to_text_and_back():
    x = np.array([0.1, 1e-7, -2.5, 3e38, np.inf, np.nan], dtype=np.float32)
    there = node_model("Cast", [("x", TensorProto.FLOAT, ["N"])], to=TensorProto.STRING)
    back = node_model("Cast", [("x", TensorProto.STRING, ["N"])], to=TensorProto.FLOAT)
    (text,) = run(there, x)
    assert text.tolist()[4:] == ["INF", "NaN"]
    np.testing.assert_array_equal(run(back, text)[0], x)


NGRAMS = {
    "ngram_counts": [0, 3, 7],
    "ngram_indexes": [0, 1, 2, 5, 4, 6],
    "weights": [1.0, 2.0, 0.5, 3.0, 1.5, 4.0],
    "min_gram_length": 1,
    "max_gram_length": 3,
}


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("skip", [0, 2])
@pytest.mark.parametrize("shortest", [1, 2])
def test_ngrams(mode, skip, shortest):
    """Of integers of a run and of words: counts of ONNX Runtime."""
    numbers = [2, 3, 9, 2, 3, 5, 2, 3, 2, 9]
    words = ["w" + str(i) for i in numbers]
    rng = np.random.default_rng(skip)
    x = rng.choice([2, 3, 5, 9, 11], size=(3, 12)).astype(np.int64)
    options = {**NGRAMS, "mode": mode, "max_skip_count": skip, "min_gram_length": shortest}
    of_numbers = node_model("TfIdfVectorizer", [("x", TensorProto.INT64, [3, 12])], pool_int64s=numbers, **options)
    of_words = node_model("TfIdfVectorizer", [("x", TensorProto.STRING, [3, 12])], pool_strings=words, **options)
    (expected,) = onnxruntime.InferenceSession(of_numbers.SerializeToString()).run(None, {"x": x})
    assert expected.any()
    np.testing.assert_allclose(run(of_numbers, x)[0], expected, rtol=1e-6)
    text = np.array([f"w{i}" for i in x.ravel()], dtype=object).reshape(x.shape)
    np.testing.assert_allclose(run(of_words, text)[0], expected, rtol=1e-6)
    np.testing.assert_allclose(
        run(node_model("TfIdfVectorizer", [("x", TensorProto.INT64, [12])], pool_int64s=numbers, **options), x[0])[0],
        expected[0],
        rtol=1e-6,
    )


def test_maps():
    vector = node_model(
        "DictVectorizer", [("x", TensorProto.FLOAT, [])], domain="ai.onnx.ml", string_vocabulary=["b", "a"]
    )
    vector.graph.input[0].type.CopyFrom(
        helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    )
    np.testing.assert_array_equal(run(vector, {"a": 1.5, "c": 3.0})[0], np.array([[0, 1.5]], dtype=np.float32))
    assert run(vector, {"c": 3.0})[0].dtype == np.float32  # whichever keys are there
    proto = model(
        """agraph (float[2, 2] x) => (float[2, 2] p, float z) {
          p = Softmax(x)
          z = ai.onnx.ml.ZipMap<classlabels_strings = ["no", "yes"]>(p)
        }"""
    )
    proto.graph.output[1].ClearField("type")
    p, rows = run(proto, np.eye(2, dtype=np.float32))
    assert [list(row) for row in rows] == [["no", "yes"]] * 2
    assert [list(row.values()) for row in rows] == p.tolist()


def map_model(value: int, **attributes: object) -> onnx.ModelProto:
    """A CastMap of a map from integers to `value`."""
    proto = node_model("CastMap", [("x", TensorProto.FLOAT, [])], domain="ai.onnx.ml", **attributes)
    kind = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(value, []))
    proto.graph.input[0].type.CopyFrom(kind)
    return proto


@pytest.mark.parametrize(
    "form", [{}, {"map_form": "DENSE"}, *({"map_form": "SPARSE", "max_map": n} for n in (4, 9, 12))]
)
@pytest.mark.parametrize("to", ["TO_FLOAT", "TO_INT64"])
def test_numbers_of_maps(form, to):
    """Beside ONNX Runtime."""
    given = {5: 1.5, 2: -2.75, 9: 1e10}
    proto = map_model(TensorProto.FLOAT, cast_to=to, **form)
    (got,) = run(proto, given)
    kind = TensorProto.FLOAT if to == "TO_FLOAT" else TensorProto.INT64
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y0", kind, None))
    (expected,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": given})
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


def test_text_of_maps():
    """Text as Cast gives it, and numbers of text."""
    (got,) = run(map_model(TensorProto.FLOAT, cast_to="TO_STRING"), {3: 0.5, 1: float("nan")})
    assert got.tolist() == [["NaN", "0.5"]]
    words = {4: "1.5", 0: "-2"}
    assert run(map_model(TensorProto.STRING), words)[0].tolist() == [[-2.0, 1.5]]
    sparse = {"map_form": "SPARSE", "max_map": 3}
    assert run(map_model(TensorProto.STRING, cast_to="TO_INT64", **sparse), {2: "7"})[0].tolist() == [[0, 0, 7]]
    assert run(map_model(TensorProto.STRING, cast_to="TO_STRING", **sparse), {1: "a"})[0].tolist() == [["0", "a", "0"]]


def test_a_map_into_a_program():
    proto = map_model(TensorProto.FLOAT, map_form="SPARSE", max_map=3)
    proto.graph.node.append(helper.make_node("Neg", ["y0"], ["z"]))
    proto.graph.output[0].CopyFrom(onnx.ValueInfoProto(name="z"))
    prepared = popart.backend.prepare(proto)
    assert prepared.run([{1: 2.0}])[0].tolist() == [[0, -2, 0]]
    assert prepared.run([{0: 1.0, 2: 3.0}])[0].tolist() == [[-1, 0, -3]]


@pytest.mark.parametrize(
    ("attributes", "given", "message"),
    [
        ({"cast_to": "TO_BOOL"}, {1: 2.0}, "cast_to and map_form: got 'TO_BOOL'"),
        ({"map_form": "THIN"}, {1: 2.0}, "'THIN', expected"),
        ({"map_form": "SPARSE", "max_map": 0}, {1: 2.0}, "max_map and keys: got 0 and 1"),
        ({"map_form": "SPARSE", "max_map": 3}, {-1: 2.0}, "max_map and keys: got 3 and -1"),
        ({"map_form": "SPARSE", "max_map": 1 << 50}, {1: 2.0}, "too large for the host"),
        ({"cast_to": "TO_INT64"}, {1: float("inf")}, "not all values are numbers of type int64"),
        ({"cast_to": "TO_INT64"}, {1: 1e30}, "not all values are numbers of type int64"),
        ({}, {1: "a"}, "not all values are numbers of type float32"),
        ({}, {"a": 1.0}, "a map with integers as keys"),
        ({}, np.zeros(2), "a map with integers as keys: got ndarray"),
    ],
)
def test_maps_that_are_refused(attributes, given, message):
    with pytest.raises(popart.popart_exception, match=message):
        run(map_model(TensorProto.FLOAT, **attributes), given)


@pytest.mark.parametrize("pixel_format", ["RGB", "BGR", "Grayscale"])
def test_image_into_a_program(pixel_format):
    pixels = np.random.default_rng(3).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format="PNG")
    channels = 1 if pixel_format == "Grayscale" else 3
    proto = model(
        f"""agraph (uint8[N] file) => (float[H, W, {channels}] y) {{
          image = ImageDecoder<pixel_format = "{pixel_format}">(file)
          y = Cast<to = 1>(image)
        }}"""
    )
    (got,) = run(proto, np.frombuffer(file.getvalue(), dtype=np.uint8))
    grey = np.array(Image.fromarray(pixels).convert("L"))[:, :, None]
    expected = {"RGB": pixels, "BGR": pixels[:, :, ::-1], "Grayscale": grey}[pixel_format]
    np.testing.assert_array_equal(got, expected.astype(np.float32))


def test_flatten_of_no_text():
    (got,) = run(node_model("Flatten", [("x", TensorProto.STRING, [0, 3])]), np.empty((0, 3), dtype=object))
    assert got.shape == (0, 3)


def chain(operator: str, length: int, **attributes: object) -> onnx.ModelProto:
    """A model whose nodes read the result before them twice, so that it doubles."""
    nodes = [helper.make_node(operator, [f"y{i}"] * 2, [f"y{i + 1}"], **attributes) for i in range(length)]
    text = [onnx.ValueInfoProto(name=f"y{length}")]
    given = [helper.make_tensor_value_info("y0", TensorProto.STRING, ["N"])]
    return helper.make_model(
        helper.make_graph(nodes, "g", given, text), opset_imports=[helper.make_opsetid("", 20)], ir_version=10
    )


def reshaped(operator: str, numbers: list[int]) -> onnx.ModelProto:
    """A model of one operator whose second input is a constant."""
    proto = node_model(operator, [("x", TensorProto.STRING, ["N"])])
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array(numbers, np.int64), "numbers"))
    proto.graph.node[0].input.append("numbers")
    return proto


def gif() -> np.ndarray:
    """An image of a format that ImageDecoder does not have."""
    file = io.BytesIO()
    Image.new("RGB", (2, 2)).save(file, format="GIF")
    return np.frombuffer(file.getvalue(), dtype=np.uint8)


CONCAT = [("a", TensorProto.STRING, ["N"]), ("b", TensorProto.STRING, ["M"])]


@pytest.mark.parametrize(
    ("proto", "inputs", "message"),
    [
        (node_model("RegexFullMatch", CONCAT[:1], pattern="(a"), [WORDS], "no RE2 expression"),
        (node_model("Sqrt", CONCAT[:1]), [WORDS], "no form of this operator for strings"),
        (node_model("StringConcat", CONCAT), [WORDS, WORDS[:2]], "do not broadcast"),
        (node_model("StringConcat", CONCAT), [WORDS, np.array([1, 2])], "text is expected"),
        (node_model("Cast", CONCAT[:1], to=TensorProto.FLOAT), [WORDS], "not all strings are numbers"),
        (node_model("ImageDecoder", [("x", TensorProto.UINT8, ["N"])]), [np.arange(9, dtype=np.uint8)], "not an image"),
        (node_model("Neg", [("x", TensorProto.FLOAT, ["N"])]), [np.array(["a"])], "expected an array of numbers"),
        (node_model("Cast", CONCAT[:1], to=77), [WORDS], "got 77, expected an element type"),
        (node_model("Cast", CONCAT[:1]), [WORDS], "attribute 'to' is missing"),
        (node_model("Concat", CONCAT), [WORDS, WORDS], "attribute 'axis' is missing"),
        (node_model("Flatten", CONCAT[:1], axis=2), [WORDS], "got 2 for 1 dimensions"),
        (node_model("ImageDecoder", [("x", TensorProto.UINT8, ["N"])]), [gif()], "not an image"),
        (reshaped("Tile", [2, 2]), [WORDS], "repeats"),
    ],
)
def test_refusals(proto, inputs, message):
    with pytest.raises(popart.popart_exception, match=message):
        run(proto, *inputs)


@pytest.mark.parametrize(
    ("proto", "inputs"),
    [
        (reshaped("Expand", [1 << 40, 1]), [WORDS]),
        (reshaped("Tile", [1 << 40]), [WORDS]),
        (node_model("StringConcat", [(n, TensorProto.STRING, None) for n in "ab"]),
         [np.full((20_000, 1), "a", object), np.full((1, 20_000), "b", object)]),
        (chain("StringConcat", 40), [WORDS]),
        (chain("Concat", 40, axis=0), [WORDS]),
    ],
    ids=["expand", "tile", "broadcast", "strings", "elements"],
)  # fmt: skip
def test_no_model_makes_text_without_a_bound(proto, inputs):
    with pytest.raises(popart.popart_exception, match="the result is too large for the host"):
        run(proto, *inputs)


def test_text_between_numbers_is_refused():
    proto = model(
        """agraph (float[2] x) => (float[2] y) {
          a = Neg(x)
          text = Cast<to = 8>(a)
          b = Cast<to = 1>(text)
          y = Neg(b)
        }"""
    )
    with pytest.raises(popart.popart_exception, match="made on the host after the program"):
        run(proto, np.ones(2, dtype=np.float32))
