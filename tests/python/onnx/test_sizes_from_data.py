"""Sizes that depend on data of the run, and the operators that read such results, against ONNX Runtime.

One program runs for all values: what a model decides by data is never made a constant of the program.
"""

from __future__ import annotations

import numpy as np
import onnx.numpy_helper
import onnx.parser
import onnxruntime
import popart
import popart.backend
import pytest

import onnx
from tests.python.popart.training_runs import ready, training_session

RNG = np.random.default_rng(57)
Array = np.ndarray


def model(text: str, opset: int = 18) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {text}')


def normal(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def runtime(proto: onnx.ModelProto, feeds: dict[str, Array]) -> list[Array]:
    """The outputs as ONNX Runtime computes them."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def check(text: str, *calls: dict[str, Array], opset: int = 18, rtol: float = 1e-5) -> None:
    """One program gives for each call what ONNX Runtime gives."""
    proto = model(text, opset)
    prepared = popart.backend.prepare(proto)
    for feeds in calls:
        got = prepared.run(feeds)
        assert not prepared._constants, "the program was built for the values of the call"
        for a, b in zip(got, runtime(proto, feeds), strict=True):
            for p, q in zip(a if isinstance(a, list) else [a], b if isinstance(b, list) else [b], strict=True):
                assert p.dtype == q.dtype
                assert p.shape == q.shape
                np.testing.assert_allclose(p, q, rtol=rtol, atol=1e-6)


# Rows of x (6, 3): none, some, one, all.
MASKS = [
    [False] * 6,
    [True, False, True, True, False, False],
    [False, False, False, False, True, False],
    [True] * 6,
]
SOME = MASKS[1:]


def calls(masks=MASKS, **more: Array) -> list[dict[str, Array]]:
    return [{"x": normal(6, 3), "keep": np.array(mask), **more} for mask in masks]


def rows(body: str, outputs: str = "float[n, 3] y", inputs: str = "", masks=MASKS, **more: Array) -> None:
    """Checks what follows r, the rows of x that are kept."""
    check(
        f"agraph (float[6, 3] x, bool[6] keep{inputs}) => ({outputs}) {{ r = Compress<axis = 0>(x, keep) {body} }}",
        *calls(masks, **more),
    )


BY_ELEMENT = {
    "one": "y = Exp(r)",
    "two": "a = Neg(r) b = Sigmoid(r) y = Mul(a, b)",
    "broadcast": "c = Constant<value = float[3] {1, 2, 3}>() y = Add(r, c)",
    "scalar": "c = Constant<value = float {2}>() y = Max(r, c)",
    "choice": "z = Constant<value = float {0}>() p = Greater(r, z) n = Neg(r) y = Where(p, r, n)",
    "division": "c = Constant<value = float {1}>() y = Div(c, r)",
    "identity": "a = Identity(r) y = Neg(a)",
    "clip": "z = Constant<value = float {0}>() y = Clip(r, z)",
    "cast": "a = Cast<to = 11>(r) y = Cast<to = 1>(a)",
    "sequence": "s = SequenceConstruct(r, r) i = Constant<value = int64 {1}>() a = SequenceAt(s, i) y = Add(a, a)",
    "optional": "o = Optional(r) y = OptionalGetElement(o)",
    "dropout": "y = Dropout(r)",
}


@pytest.mark.parametrize("body", BY_ELEMENT.values(), ids=BY_ELEMENT)
def test_operators_by_element_keep_the_count(body):
    rows(body)


MOVES = {
    "transpose": ("y = Transpose(r)", "float[3, n] y"),
    "unsqueeze": ("a = Constant<value = int64[2] {0, 3}>() y = Unsqueeze(r, a)", "float[1, n, 3, 1] y"),
    "squeeze": (
        "a = Constant<value = int64[1] {1}>() u = Unsqueeze(r, a) y = Squeeze(u, a)",
        "float[n, 3] y",
    ),
    "reshape": ("s = Constant<value = int64[3] {-1, 3, 1}>() y = Reshape(r, s)", "float[n, 3, 1] y"),
    "copied": ("s = Constant<value = int64[2] {0, -1}>() y = Reshape(r, s)", "float[n, 3] y"),
    "list": ("s = Constant<value = int64[1] {-1}>() y = Reshape(r, s)", "float[n] y"),
    "and_back": (
        "s = Constant<value = int64[1] {-1}>() l = Reshape(r, s) e = Exp(l) "
        "t = Constant<value = int64[2] {-1, 3}>() y = Reshape(e, t)",
        "float[n, 3] y",
    ),
    "flatten": ("y = Flatten<axis = 1>(r)", "float[n, 3] y"),
    "gather_columns": ("i = Constant<value = int64[2] {2, 0}>() y = Gather<axis = 1>(r, i)", "float[n, 2] y"),
    "one_column": ("i = Constant<value = int64 {-1}>() y = Gather<axis = 1>(r, i)", "float[n] y"),
    "slice_columns": (
        "a = Constant<value = int64[1] {1}>() e = Constant<value = int64[1] {3}>() y = Slice(r, a, e, a)",
        "float[n, 2] y",
    ),
    "split": ("y, z, w = Split<axis = 1, num_outputs = 3>(r)", "float[n, 1] y, float[n, 1] w"),
    "columns_joined": ("n = Neg(r) y = Concat<axis = 1>(r, n)", "float[n, 6] y"),
    "tile": ("t = Constant<value = int64[2] {1, 2}>() y = Tile(r, t)", "float[n, 6] y"),
    "pad": ("p = Constant<value = int64[4] {0, 1, 0, 2}>() y = Pad(r, p)", "float[n, 6] y"),
}


@pytest.mark.parametrize(("body", "outputs"), MOVES.values(), ids=MOVES)
def test_operators_that_move_elements_keep_the_count_where_the_axis_is(body, outputs):
    rows(body, outputs, masks=SOME if "{0, -1}" in body else MASKS)  # with no rows, -1 could be any size


AXIS = "a = Constant<value = int64[1] {0}>()"
REDUCTIONS = ["ReduceSum", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMean", "ReduceProd"]


@pytest.mark.parametrize("operator", [*REDUCTIONS, "ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("form", ["rows", "all", "columns"])
def test_reductions_read_what_is_there(operator, form):
    masks = SOME if operator in ("ReduceMax", "ReduceMin", "ReduceMean", "ReduceLogSumExp") else MASKS
    body = {
        "rows": f"{AXIS} e = Exp(r) y = {operator}<keepdims = 0>(e, a)",
        "all": f"e = Exp(r) y = {operator}(e)",
        "columns": f"a = Constant<value = int64[1] {{1}}>() y = {operator}(r, a)",
    }[form]
    outputs = {"rows": "float[3] y", "all": "float[1, 1] y", "columns": "float[n, 1] y"}[form]
    rows(body, outputs, masks=masks)


def test_operators_that_work_along_the_axis():
    rows("e = Exp(r) y = Softmax<axis = 0>(e) z = LogSoftmax<axis = 0>(r)", "float[n, 3] y, float[n, 3] z")
    rows("y = Softmax<axis = 1>(r)")
    rows("y = ArgMax<axis = 0>(r) z = ArgMin<axis = 0, keepdims = 0>(r)", "int64[1, 3] y, int64[3] z", masks=SOME)
    rows("i = Constant<value = int64 {0}>() e = Exp(r) y = CumSum(e, i) z = CumSum<reverse = 1>(e, i)",
         "float[n, 3] y, float[n, 3] z")  # fmt: skip
    rows("n = Exp(r) s = Constant<value = float[3] {1, 2, 3}>() y = LayerNormalization(n, s)")


@pytest.mark.parametrize("operator", ["rows", "both"])
def test_products(operator):
    if operator == "rows":
        rows("y = MatMul(r, w)", "float[n, 4] y", ", float[3, 4] w", w=normal(3, 4))
        rows("y = Gemm(r, w)", "float[n, 4] y", ", float[3, 4] w", w=normal(3, 4))
    else:
        rows("e = Exp(r) t = Transpose(e) y = MatMul(t, e) z = MatMul(e, t)", "float[3, 3] y, float[n, m] z")


# What reads r, the samples (n, 2, 6, 6) that are kept.
PER_SAMPLE = {
    "Conv": ("y = Conv<pads = [1, 0, 1, 2], strides = [2, 1]>(r, w, b)", "float[n, 4, 3, 6] y"),
    "Conv with pads as needed": ('y = Conv<auto_pad = "SAME_UPPER", strides = [2, 2]>(r, w, b)', "float[n, 4, 3, 3] y"),
    "ConvTranspose": ("y = ConvTranspose<strides = [2, 2]>(r, t)", "float[n, 3, 13, 13] y"),
    "ConvTranspose of a known shape": ("y = ConvTranspose<output_shape = [7, 7]>(r, t)", "float[n, 3, 7, 7] y"),
    "AveragePool": (
        "y = AveragePool<kernel_shape = [3, 2], ceil_mode = 1, strides = [2, 2]>(r)",
        "float[n, 2, 3, 3] y",
    ),
    "MaxPool": ("y = MaxPool<kernel_shape = [2, 3], pads = [1, 1, 0, 1]>(r)", "float[n, 2, 6, 6] y"),
    "LpPool": ("y = LpPool<kernel_shape = [2, 2], p = 2>(r)", "float[n, 2, 5, 5] y"),
    "GlobalAveragePool": ("y = GlobalAveragePool(r)", "float[n, 2, 1, 1] y"),
    "GlobalMaxPool": ("y = GlobalMaxPool(r)", "float[n, 2, 1, 1] y"),
    "GlobalLpPool": ("y = GlobalLpPool(r)", "float[n, 2, 1, 1] y"),
    "BatchNormalization": ("y = BatchNormalization(r, c, c, c, c)", "float[n, 2, 6, 6] y"),
    "InstanceNormalization": ("y = InstanceNormalization(r, c, c)", "float[n, 2, 6, 6] y"),
    "GroupNormalization": ("y = GroupNormalization<num_groups = 2>(r, c, c)", "float[n, 2, 6, 6] y"),
    "LRN": ("y = LRN<size = 3>(r)", "float[n, 2, 6, 6] y"),
    "LpNormalization": ("y = LpNormalization<axis = 1>(r)", "float[n, 2, 6, 6] y"),
    "Resize": (
        "s = Constant<value = float[4] {1, 1, 1.5, 2}>() e = Constant<value = float[1] {0}>() "
        'y = Resize<mode = "linear">(r, , s)',
        "float[n, 2, 9, 12] y",
    ),
    "Resize to sizes": (
        "s = Shape<end = 2>(r) a = Constant<value = int64[2] {9, 12}>() u = Concat<axis = 0>(s, a) "
        'y = Resize<mode = "linear">(r, , , u)',
        "float[n, 2, 9, 12] y",
    ),
    "DepthToSpace": ("p = Concat<axis = 1>(r, r) y = DepthToSpace<blocksize = 2>(p)", "float[n, 1, 12, 12] y"),
    "QuantizeLinear": (
        "s = Constant<value = float {0.1}>() z = Constant<value = uint8 {128}>() q = QuantizeLinear(r, s, z) "
        "y = DequantizeLinear(q, s, z)",
        "float[n, 2, 6, 6] y",
    ),
    "Einsum": ('y = Einsum<equation = "nchw,mchw->nm">(r, w6)', "float[n, 4] y"),
}


@pytest.mark.parametrize(("body", "outputs"), PER_SAMPLE.values(), ids=PER_SAMPLE)
def test_operators_that_work_sample_by_sample(body, outputs):
    """Some, none and all samples."""
    text = f"""agraph (float[5, 2, 6, 6] x, bool[5] keep, float[4, 2, 3, 3] w, float[4] b, float[2, 3, 3, 3] t,
      float[2] c, float[4, 2, 6, 6] w6) => ({outputs}) {{ r = Compress<axis = 0>(x, keep) {body} }}"""
    shared = {"w": normal(4, 2, 3, 3), "b": normal(4), "t": normal(2, 3, 3, 3), "c": np.abs(normal(2)) + np.float32(1)}
    masks = ([True, False, True, True, False], [False, True, False, False, False], [True] * 5, [False] * 5)
    if "GroupNormalization" in body:
        masks = masks[:3]  # ONNX Runtime has none for no samples
    feeds = [{"x": normal(5, 2, 6, 6), "keep": np.array(mask), **shared, "w6": normal(4, 2, 6, 6)} for mask in masks]
    check(text, *feeds)


def test_sizes_are_numbers_of_the_run():
    rows("y = Shape(r) z = Size(r) w = Shape<start = 1>(r)", "int64[2] y, int64 z, int64[1] w")
    rows(
        "s = Shape(r) i = Constant<value = int64 {0}>() k = Gather(s, i) d = Constant<value = int64 {1}>() "
        "y = Range(i, k, d) c = ConstantOfShape<value = float[1] {2}>(s) z = Add(c, r)",
        "int64[n] y, float[n, 3] z",
    )


def test_shapes_made_of_sizes():
    """As exporters write them: a part of a shape, numbers next to it, a new shape."""
    rows(
        "s = Shape(r) i = Constant<value = int64 {0}>() k = Gather(s, i) a = Constant<value = int64[1] {0}>() "
        "u = Unsqueeze(k, a) p = Constant<value = int64[2] {3, 1}>() t = Concat<axis = 0>(u, p) "
        "y = Reshape(r, t) z = Expand(x1, t)",
        "float[n, 3, 1] y, float[n, 3, 1] z",
        ", float[1, 3, 1] x1",
        x1=normal(1, 3, 1),
    )
    rows(
        "s = Shape(r) b = Constant<value = int64[1] {0}>() e = Constant<value = int64[1] {1}>() k = Slice(s, b, e) "
        "c = Constant<value = int64[1] {3}>() m = Mul(k, c) y = Reshape(r, m) q = Div(m, c) "
        "t = Concat<axis = 0>(q, c) z = Expand(c, q)",
        "float[n] y, int64[m] z",
    )


def test_expansion_as_exporters_write_it():
    """Where a size of the wanted shape is -1, it is that of the tensor."""
    rows(
        "s = Shape(r) i = Constant<value = int64 {0}>() k = Gather(s, i) a = Constant<value = int64[1] {0}>() "
        "u = Unsqueeze(k, a) minus = Constant<value = int64[1] {-1}>() t = Concat<axis = 0>(u, minus) "
        "l = Shape(t) ones = ConstantOfShape<value = int64[1] {1}>(l) m = Constant<value = int64 {-1}>() "
        "f = Mul(ones, m) e = Equal(t, f) w = Where(e, ones, t) y = Expand(x1, w)",
        inputs=", float[1, 3] x1",
        x1=normal(1, 3),
    )


SLICES = [(0, 2, 1), (1, 2**62, 1), (0, -1, 1), (-2, 2**62, 1), (-3, -1, 1), (0, 5, 2), (1, 4, 3), (4, 2, 1)]


@pytest.mark.parametrize("borders", SLICES, ids=str)
def test_slices_along_the_axis(borders):
    start, end, step = borders
    names = zip("bes", (start, end, step), strict=True)
    lists = " ".join(f"{name} = Constant<value = int64[1] {{{value}}}>()" for name, value in names)
    rows(f"{lists} a = Constant<value = int64[1] {{0}}>() y = Slice(r, b, e, a, s)")


def test_slices_up_to_a_size_of_the_run():
    rows(
        "s = Shape(r) b = Constant<value = int64[1] {0}>() e = Constant<value = int64[1] {1}>() k = Slice(s, b, e) "
        "most = Constant<value = int64[1] {2}>() m = Min(k, most) y = Slice(x, b, m, b) z = Slice(r, b, m, b)",
        "float[n, 3] y, float[n, 3] z",
    )


def test_parts_are_joined_without_gaps():
    rows("n = Neg(r) y = Concat<axis = 0>(r, x, n)")
    rows("n = Neg(r) c = Concat<axis = 0>(r, n) d = Concat<axis = 0>(n, r) y = Add(c, d)")
    rows("n = Neg(r) s = SequenceConstruct(r, n) y = ConcatFromSequence<axis = 0>(s)")
    rows("n = Neg(r) s = SequenceConstruct(r, n) y = ConcatFromSequence<axis = 0, new_axis = 1>(s)", "float[2, n, 3] y")


def test_rows_at_places():
    """Negative places count from the last row that is there."""
    rows("i = Constant<value = int64[2] {-1, 0}>() y = Gather<axis = 0>(r, i)", "float[2, 3] y", masks=SOME)


def test_a_place_that_is_not_there_ends_the_run():
    text = """agraph (float[6, 3] x, bool[6] keep) => (float[1, 3] y) {
      r = Compress<axis = 0>(x, keep) i = Constant<value = int64[1] {2}>() y = Gather<axis = 0>(r, i) }"""
    prepared = popart.backend.prepare(model(text))
    with pytest.raises(popart.popart_exception, match="index"):
        prepared.run({"x": normal(6, 3), "keep": np.array(MASKS[2])})


def test_places_found_by_value():
    text = """agraph (float[4, 5] x) => (float[n] y, float[n, 5] z, int64[n, 2] t) {
      p = NonZero(x) t = Transpose(p) y = GatherND(x, t) i = Constant<value = int64 {0}>() r = Gather<axis = 0>(p, i)
      z = Gather<axis = 0>(x, r) }"""
    check(text, *({"x": np.maximum(normal(4, 5), 0) * scale} for scale in (1, 0, -1)), {"x": normal(4, 5)})


def test_choices_among_what_was_chosen():
    rows("z = Constant<value = float {0}>() p = Greater(r, z) q = NonZero(p) y = Transpose(q)", "int64[n, 2] y")
    rows(
        "i = Constant<value = int64 {0}>() c = Gather<axis = 1>(r, i) z = Constant<value = float {0}>() "
        "p = Greater(c, z) y = Compress<axis = 0>(r, p) w = Compress(r, p)",
        "float[n, 3] y, float[m] w",
    )
    rows(
        "i = Constant<value = int64 {0}>() c = Gather<axis = 1>(r, i) f = Floor(c) "
        "y, first, inverse, counts = Unique(f) v = Unique<axis = 0>(r) u = Unique<sorted = 0>(r)",
        "float[n] y, int64[n] first, int64[k] inverse, int64[n] counts, float[m, 3] v, float[l] u",
        masks=SOME,
    )


@pytest.mark.parametrize("largest", [0, 1])
def test_the_largest_of_what_is_there(largest):
    rows(
        "s = Shape<start = 0, end = 1>(r) most = Constant<value = int64[1] {3}>() k = Min(s, most) "
        f"y, i = TopK<axis = 0, largest = {largest}>(r, k) w, j = TopK<axis = 0>(x, k)",
        "float[n, 3] y, int64[n, 3] i, float[n, 3] w, int64[n, 3] j",
    )


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_writes_at_places_found_by_value(reduction):
    text = f"""agraph (float[6, 3] x, bool[6] keep, float[6, 3] d) => (float[6, 3] y, float[6, 3] z) {{
      r = Compress<axis = 0>(x, keep) p = NonZero(keep) t = Transpose(p)
      y = ScatterND<reduction = "{reduction}">(d, t, r)
      six = Constant<value = int64 {{6}}>() back = Sub(t, six) three = Constant<value = int64[2] {{1, 3}}>()
      s = Shape(r) e = Expand(back, s) z = ScatterElements<axis = 0, reduction = "{reduction}">(d, e, r) }}"""
    check(text, *({**feeds, "d": normal(6, 3)} for feeds in calls()))


def test_boxes_of_the_run_choose_parts_of_images():
    text = """agraph (float[1, 2, 8, 8] x, float[4, 4] boxes, bool[4] keep) => (float[n, 2, 2, 2] y) {
      r = Compress<axis = 0>(boxes, keep) s = Shape<start = 0, end = 1>(r)
      i = ConstantOfShape<value = int64[1] {0}>(s)
      y = RoiAlign<output_height = 2, output_width = 2, sampling_ratio = 2>(x, r, i) }"""
    boxes = np.array([[0, 0, 4, 5], [1, 2, 3, 4], [2, 1, 7, 6], [0, 0, 2, 2]], np.float32)
    masks = ([True, False, True, True], [False] * 4, [True] * 4)
    check(text, *({"x": normal(1, 2, 8, 8), "boxes": boxes, "keep": np.array(mask)} for mask in masks))


def test_functions_and_branches_hand_sizes_on():
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 18, "own" : 1]>
    agraph (float[6, 3] x, bool[6] keep) => (float[n, 3] y, float[m, 3] z) {
      y = own.kept(x, keep)
      yes = Constant<value = bool {1}>()
      z = If(yes)<then_branch = then () => (float[k, 3] a) { a = Compress<axis = 0>(x, keep) },
                  else_branch = other () => (float[l, 3] b) { b = Identity(x) }>
    }
    <domain: "own", opset_import: ["" : 18]> kept (x, keep) => (y) { r = Compress<axis = 0>(x, keep) y = Neg(r) }""")
    prepared = popart.backend.prepare(proto)
    for feeds in calls():
        y, z = prepared.run(feeds)
        assert not prepared._constants
        kept = feeds["x"][feeds["keep"]]
        np.testing.assert_array_equal(y, -kept)
        np.testing.assert_array_equal(z, kept)


def test_a_sequence_of_such_tensors_is_an_output():
    rows("n = Neg(r) y = SequenceConstruct(r, x, n)", "seq(float[n, 3]) y")


STACKS = """
agraph (float x, int64 most) => (float[n] y, float z) {
  trips = Constant<value = int64 {8}>() yes = Constant<value = bool {1}>() i0 = Constant<value = int64 {0}>()
  last, s = Loop(trips, yes, i0)<body = step (int64 i, bool go, int64 before)
      => (bool more, int64 after, float row) {
    one = Constant<value = int64 {1}>() after = Add(before, one) more = Less(after, most)
    f = Cast<to = 1>(i) row = Mul(f, x) }>
  y = Exp(s) z = ReduceSum<keepdims = 0>(s)
}"""


def test_stacks_of_a_loop_that_ends_early():
    check(STACKS, *({"x": np.array(0.5, np.float32), "most": np.array(k)} for k in (1, 3, 8, 20)))


REFUSED = {
    "sizes_of_their_own": "b = Neg(x) q = Not(keep) o = Compress<axis = 0>(b, q) y = Add(r, o)",
    "a_known_size": "y = Add(r, x)",
    "moved_into_another_axis": "s = Constant<value = int64[2] {3, -1}>() y = Reshape(r, s)",
    "a_state_of_a_loop": (
        "m = ReduceMax<keepdims = 0>(x) t = Cast<to = 7>(m) yes = Constant<value = bool {1}>() "
        "y = Loop(t, yes, x)<body = step (int64 i, bool go, float[a, b] before) => (bool more, float[c, d] after) "
        "{ more = Identity(go) after = Compress<axis = 0>(before, keep) }>"
    ),
    "a_state_that_begins_with_it": (
        "m = ReduceMax<keepdims = 0>(x) t = Cast<to = 7>(m) yes = Constant<value = bool {1}>() "
        "y = Loop(t, yes, r)<body = step (int64 i, bool go, float[a, b] before) => (bool more, float[c, d] after) "
        "{ more = Identity(go) after = Neg(before) }>"
    ),
    "a_sequence_of_a_branch": (
        "z = Constant<value = float {0}>() m = ReduceMax<keepdims = 0>(x) c = Greater(m, z) "
        "l = If(c)<then_branch = a () => (seq(float[k, 3]) p) { p = SequenceConstruct(r) }, "
        "else_branch = b () => (seq(float[k, 3]) q) { q = SequenceConstruct(x) }> "
        "y = ConcatFromSequence<axis = 0>(l)"
    ),
    "another_operator": "y = MeanVarianceNormalization<axes = [0]>(r)",
    "a_resized_dimension": (
        "e = Constant<value = float[1] {0}>() s = Constant<value = int64[2] {4, 3}>() y = Resize(r, , , s)"
    ),
    "a_convolved_dimension": (
        "a = Constant<value = int64[2] {0, 1}>() u = Unsqueeze(r, a) w = Constant<value = float[1] {1}>() "
        "d = Constant<value = int64[4] {1, 1, 1, 1}>() k = Reshape(w, d) y = Conv(u, k)"
    ),
}


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED)
def test_what_has_no_rule_is_refused_by_name(body):
    text = f"agraph (float[6, 3] x, bool[6] keep) => (float[n, m] y) {{ r = Compress<axis = 0>(x, keep) {body} }}"
    flow, device = popart.DataFlow(1, ["y"]), popart.DeviceManager().createCpuDevice()
    with pytest.raises(popart.popart_exception, match=r"ONNX node \w+.*depends on data of the run.*must be known when"):
        popart.InferenceSession(fnModel=model(text).SerializeToString(), dataFlow=flow, deviceInfo=device)


def test_a_choice_among_too_many_elements_is_refused():
    text = """agraph (float[1] x) => (int64[3, n] y) {
      s = Constant<value = int64[3] {4096, 4096, 4096}>() e = Expand(x, s) y = NonZero(e) }"""
    flow, device = popart.DataFlow(1, ["y"]), popart.DeviceManager().createCpuDevice()
    with pytest.raises(popart.popart_exception, match=r"NonZero.*among too many elements: got 68719476736"):
        popart.InferenceSession(fnModel=model(text).SerializeToString(), dataFlow=flow, deviceInfo=device)


def test_gradients_go_to_the_rows_that_were_chosen():
    """Those of sum(w * log(x[keep])): elements after the count give none, and no infinity either."""
    x = np.abs(normal(6, 3)) + np.float32(0.5)
    x[1] = 0  # never chosen
    weights = normal(3)
    text = """agraph (bool[6] keep) => (float loss) {
      r = Compress<axis = 0>(x, keep) l = Log(r) p = Mul(l, w) loss = ReduceSum<keepdims = 0>(p) }"""
    proto = model(text, 11)
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(a, n) for a, n in ((x, "x"), (weights, "w")))
    optimizer = popart.SGD({"defaultLearningRate": (0.0, False)})
    anchors = ["loss", "Gradient___x", "Gradient___w"]
    session = ready(training_session(proto.SerializeToString(), "loss", optimizer, anchors=anchors))
    for mask in SOME[:2]:
        keep = np.array(mask)
        arrays = session.initAnchorArrays()
        session.run(popart.PyStepIO({"keep": keep}, arrays))
        np.testing.assert_allclose(arrays["loss"], (np.log(x[keep]) * weights).sum(), rtol=1e-5)
        np.testing.assert_allclose(arrays["Gradient___w"], np.log(x[keep]).sum(0), rtol=1e-4, atol=1e-6)
        expected = np.zeros_like(x)
        expected[keep] = weights / x[keep]
        np.testing.assert_allclose(arrays["Gradient___x"], expected, rtol=1e-5)


ROOM_FOR_ONE = {
    "unsqueeze": ("a = Constant<value = int64[1] {0}>() y = Unsqueeze(r, a)", "float[1, n, 3] y"),
    "unsqueeze_behind": (
        "a = Constant<value = int64[1] {1}>() u = Unsqueeze(r, a) y = Transpose(u)",
        "float[3, 1, n] y",
    ),
    "squeeze": ("a = Constant<value = int64[1] {1}>() u = Unsqueeze(r, a) y = Squeeze(u, a)", "float[n, 3] y"),
    "broadcast": ("y = Add(r, x)", "float[n, 3] y"),
    "joined": ("y = Concat<axis = 0>(r, x, r)", "float[n, 3] y"),
    "identity": ("t = Transpose(r) y = Identity(t)", "float[3, n] y"),
    "sum": ("y = ReduceSum<keepdims = 0>(r)", "float y"),
}


@pytest.mark.parametrize(("body", "outputs"), ROOM_FOR_ONE.values(), ids=ROOM_FOR_ONE)
def test_a_dimension_with_room_for_one(body, outputs):
    """It is no dimension of 1: there may be nothing."""
    text = f"agraph (float[1, 3] x, bool[1] keep) => ({outputs}) {{ r = Compress<axis = 0>(x, keep) {body} }}"
    check(text, *({"x": normal(1, 3), "keep": np.array([keep])} for keep in (True, False)))


BORDERS = [(0, 6), (1, 3), (-2, 100), (4, 2), (-9, -1), (2, 2**63 - 1)]


@pytest.mark.parametrize(
    "text",
    [
        "y = Slice(x, s, e)",
        "a = Constant<value_ints = [0]>() k = Constant<value_ints = [2]>() y = Slice(x, s, e, a, k)",
        "two = Constant<value_ints = [2]>() b = Add(s, two) h = Relu(x) y = Slice(h, s, b)",
    ],
)
def test_slices_whose_borders_are_inputs(text):
    """Starts and ends of the run, of either sign and beyond the axis; the axis' size is the bound of the result.

    The sum of the result has no bound, so that masked rows must count nothing.
    """
    head = "g (float[6,3] x, int64[1] s, int64[1] e) => (float[a,3] y, float[3] z)"
    proto = model(f"{head} {{ {text} z = ReduceSum<keepdims = 0>(y, o) }}")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0]), "o"))
    prepared = popart.backend.prepare(proto)
    for start, end in BORDERS:
        feeds = {"x": normal(6, 3), "s": np.array([start]), "e": np.array([end])}
        (y, z), (rows, total) = prepared.run(feeds), runtime(proto, feeds)
        np.testing.assert_array_equal(y[: len(rows)], rows)
        np.testing.assert_allclose(z, total, rtol=1e-5, atol=1e-6)
    assert not prepared._constants, "the program was built for the values of a call"


@pytest.mark.parametrize("kind", ["int64", "int32"])
def test_a_session_slices_from_a_start_of_the_run(kind):
    """The rows that there are come first."""
    end = f"e = Constant<value = {kind}[1] {{100}}>()"
    text = f"g (float[5] x, {kind}[1] s) => (float[a] y) {{ {end} y = Slice(x, s, e) }}"
    x = normal(5)
    builder = popart.Builder(model(text).SerializeToString())
    session = popart.InferenceSession(
        builder.getModelProto(), popart.DataFlow(1, ["y"]), popart.DeviceManager().createCpuDevice()
    )
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    for start in (0, 3, -1):
        session.run(popart.PyStepIO({"x": x, "s": np.array([start], kind)}, anchors))
        expected = x[start:]
        np.testing.assert_array_equal(anchors["y"][: expected.size], expected)
