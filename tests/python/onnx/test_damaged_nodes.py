"""Nodes with sizes and lists that no sound model has are refused by name: at once, without the memory they ask for."""

from __future__ import annotations

import time

import numpy as np
import popart
import popart.backend
import pytest

import onnx
from onnx import TensorProto, helper, numpy_helper

HUGE = 2**40
LONGEST_SECONDS = 10.0


def model_of(node, inputs, constants, outputs=("y",), opset=20):
    """A model of one node: shapes of FLOAT inputs, or pairs of a shape and an element type; values of constants."""
    pairs = {name: given if isinstance(given, tuple) else (given, TensorProto.FLOAT) for name, given in inputs.items()}
    graph = helper.make_graph(
        [node],
        "damaged",
        [helper.make_tensor_value_info(name, kind, shape) for name, (shape, kind) in pairs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    domains = {"": opset, "ai.graphcore": 1, "ai.onnx.ml": 5, "ai.onnx.preview": 1}
    opsets = [helper.make_opsetid(domain, version) for domain, version in domains.items()]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def node(kind, inputs, domain="", outputs=("y",), **attributes):
    return helper.make_node(kind, inputs, outputs, domain=domain, **attributes)


def session_of(model):
    outputs = list(dict.fromkeys(value.name for value in model.graph.output))
    device = popart.DeviceManager().createCpuDevice()
    return popart.InferenceSession(model.SerializeToString(), popart.DataFlow(1, outputs), device)


def tf_idf(**changed):
    options = {
        "mode": "TF",
        "pool_int64s": [1, 2, 3],
        "ngram_counts": [0],
        "ngram_indexes": [0, 1, 2],
        "min_gram_length": 1,
        "max_gram_length": 1,
        "max_skip_count": 0,
    }
    return node("TfIdfVectorizer", ["x"], **(options | changed))


INT64, INT32 = TensorProto.INT64, TensorProto.INT32
ATTENTION = {"q": [1, 1, HUGE, 1], "k": [1, 1, 4, 1], "v": [1, 1, 4, 1]}
LINES = {"q": [1, 1, 4, 2], "k": [1, 1, 4, 2], "v": [1, 1, 4, 2]}
MEL = {
    "bins": np.int64(8),
    "length": np.int64(64),
    "rate": np.int64(8000),
    "low": np.float32(0),
    "high": np.float32(4000),
}
MEL_NODE = node("MelWeightMatrix", list(MEL))
SETS = 4000


def resize(**constants):
    values = {"roi": np.array([0, 1], np.float32), "scales": np.array([2], np.float32)} | constants
    made = node("Resize", ["x", "roi", "scales"], coordinate_transformation_mode="tf_crop_and_resize", mode="linear")
    return made, {"x": [4]}, values


# node, inputs, constants, and what the message says
REFUSED = {
    "attention with a past of no rows": (
        node("Attention", ["q", "k", "v", "", "k", "past"]), LINES | {"past": [2]}, {}, "rank 1"),
    "attention with a past of one dimension": (
        node("Attention", ["q", "k", "v", "", "past", "past"]), LINES | {"past": [2]}, {}, "dimension"),
    "flexible attention without results": (
        node("FlexAttention", list("qkv"), "ai.onnx.preview", outputs=("",)), LINES, {}, "output 0 is missing"),
    "a range whose types differ": (
        node("Range", ["a", "b", "c"]), {}, {"a": np.int32(0), "b": np.int64(-(2**32) + 2**31 - 1), "c": np.int32(1)},
        "type of input 0"),
    "a transform of endless length": (
        node("DFT", ["x", "n"]), {"x": [1, 8, 1]}, {"n": np.int64(2**62)}, "dft_length"),
    "a transform of a prime length": (
        node("DFT", ["x", "n"]), {"x": [1, 8, 1]}, {"n": np.int64(1_000_003)}, "memory"),
    "endless frames": (
        node("STFT", ["x", "s", "", "n"]), {"x": [1, HUGE, 1]}, {"s": np.int64(1), "n": np.int64(2**20)}, ""),
    "endless mel bins": (MEL_NODE, {}, MEL | {"bins": np.int64(2**62)}, ""),
    "mel edges that are no numbers": (MEL_NODE, {}, MEL | {"high": np.float32(np.nan)}, "edges"),
    "mel edges without end": (MEL_NODE, {}, MEL | {"high": np.float32(3e38)}, "edges"),
    "a grid of forty dimensions": (
        node("GridSample", ["x", "g"]), {"x": [1] * 42, "g": [1] * 41 + [40]}, {}, "too many nodes"),
    "an affine grid of endless size": (
        node("AffineGrid", ["t", "s"]), {"t": [1, 2, 3]}, {"s": np.array([1, 1, HUGE, HUGE])}, ""),
    "deformed taps far apart": (
        node("DeformConv", ["x", "w", "o"], dilations=[2**62, 1]),
        {"x": [1, 1, 4, 4], "w": [1, 1, 3, 3], "o": [1, 18, 2, 2]}, {}, "dilations"),
    "deformed groups without end": (
        node("DeformConv", ["x", "w", "o"], group=2**62),
        {"x": [1, 4, 4, 4], "w": [4, 4, 3, 3], "o": [1, 18, 2, 2]}, {}, "groups"),
    "unpooling far apart": (
        node("MaxUnpool", ["x", "i"], kernel_shape=[2, 2], strides=[2**62, 2**62]),
        {"x": [1, 1, 4, 4], "i": ([1, 1, 4, 4], INT64)}, {}, "strides"),
    "unpooling to less than nothing": (
        node("MaxUnpool", ["x", "i"], kernel_shape=[1, 1], pads=[4, 4, 4, 4]),
        {"x": [1, 1, 1, 1], "i": ([1, 1, 1, 1], INT64)}, {}, "negative size"),
    "splines of endless dimensions": (
        node("SplineBasis", ["p", "k", "o"], "ai.graphcore", outputs=("y", "i")),
        {"p": [1, HUGE], "k": ([HUGE], INT32), "o": ([HUGE], TensorProto.UINT8)}, {}, "at most 8 dimensions"),
    "a split into endless parts": (node("Split", ["x"], num_outputs=HUGE), {"x": [HUGE]}, {}, "memory"),
    "a transposed convolution of endless size": (
        node("ConvTranspose", ["x", "w"], output_shape=[2**62, 2**62]), {"x": [1, 1, 4, 4], "w": [1, 1, 3, 3]}, {},
        "output_shape"),
    "n-grams in endless columns": (tf_idf(ngram_indexes=[0, 1, 2**63 - 1]), {"x": ([9], INT64)}, {}, "ngram_indexes"),
    "n-grams in many columns": (tf_idf(ngram_indexes=[0, 1, 2**39]), {"x": ([9], INT64)}, {}, "memory"),
    "n-grams with negative skips": (tf_idf(max_skip_count=-1), {"x": ([9], INT64)}, {}, "max_skip_count"),
    "n-grams that end before they begin": (
        tf_idf(ngram_counts=[2, 1], max_gram_length=2), {"x": ([9], INT64)}, {}, "ngram_counts"),
    "sets of a forest that are padded without end": (
        node(
            "TreeEnsemble", ["x"], "ai.onnx.ml", nodes_featureids=[0] * SETS,
            nodes_splits=helper.make_tensor("s", TensorProto.FLOAT, [SETS], [0.0] * SETS),
            nodes_modes=helper.make_tensor("m", TensorProto.UINT8, [SETS], [6] * SETS),
            nodes_truenodeids=[0] * SETS, nodes_falsenodeids=[*range(1, SETS), 0],
            nodes_trueleafs=[1] * SETS, nodes_falseleafs=[0] * (SETS - 1) + [1], tree_roots=[0],
            leaf_targetids=[0], leaf_weights=helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0]),
            membership_values=helper.make_tensor(
                "v", TensorProto.FLOAT, [SETS + 400000], [float("nan")] * (SETS - 1) + [0.0] * 400000 + [float("nan")]),
        ), {"x": [2, 1]}, {}, "sets of a forest"),
    "columns of blocks far apart": (
        node("Col2Im", ["x", "i", "b"], dilations=[2**62, 1]), {"x": [1, 4, 4]},
        {"i": np.array([3, 3]), "b": np.array([2, 2])}, "dilations"),
    "columns of blocks larger than the image": (
        node("Col2Im", ["x", "i", "b"]), {"x": [1, 36, 1]}, {"i": np.array([3, 3]), "b": np.array([6, 6])},
        "larger than"),
    "a scan of endless samples": (
        node("Scan", ["", "s"], num_scan_inputs=1, body=helper.make_graph(
            [], "body", [helper.make_tensor_value_info("r", 1, [1])], [helper.make_tensor_value_info("r", 1, [1])])),
        {"s": [HUGE, 1, 1]}, {}, "memory", 8),
    "a scan of more inputs than are counted": (
        node("Scan", ["", "s"], num_scan_inputs=2**63 - 1, body=helper.make_graph([], "body", [], [])),
        {"s": [2, 1, 1]}, {}, "num_scan_inputs", 8),
    "a region that is no number": (*resize(roi=np.array([np.nan, 1], np.float32)), "roi"),
    "a region without end": (*resize(roi=np.array([0, np.inf], np.float32)), "roi"),
    "a scale that is no number": (*resize(scales=np.array([np.nan], np.float32)), "scale"),
    "a scale without end": (*resize(scales=np.array([np.inf], np.float32)), "scale"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_node_can_be_is_refused(name):
    damaged, inputs, constants, part, *opset = REFUSED[name]
    model = model_of(damaged, inputs, constants, [output for output in damaged.output if output], *opset)
    if not model.graph.output:  # the session wants a result
        model.graph.node.append(helper.make_node("Neg", list(inputs)[:1], ["result"]))
        model.graph.output.add(name="result")
    start = time.process_time()
    with pytest.raises(popart.popart_exception) as refusal:
        session_of(model)
    assert not isinstance(refusal.value, popart.popart_internal_exception)
    assert damaged.op_type in str(refusal.value) and part in str(refusal.value)
    assert time.process_time() - start < LONGEST_SECONDS


# nodes that are sound, however long they would take pass by pass and whatever memory they need at run time
QUICK = {
    "attention of endless rows": (node("Attention", list("qkv"), is_causal=1), ATTENTION),
    "slices of endless rows": (
        node("SequenceSlice", ["s", "d", "n", "a", "b"], "ai.graphcore"),
        {"s": [4, 1], "d": [HUGE, 1]} | {name: ([1], INT32) for name in "nab"}),
    "sequences of endless length": (
        node("ReverseSequence", ["x", "n"]), {"x": [HUGE, 1], "n": ([1], INT64)}),
    "frames of a long signal": (
        node("STFT", ["x", "s", "", "n"]), {"x": [1, 2**27, 1]}, {"s": np.int64(512), "n": np.int64(2048)}),
    "a unit matrix without columns": (node("EyeLike", ["x"]), {"x": [HUGE, 0]}),
    "a triangle without columns": (node("Trilu", ["x"]), {"x": [HUGE, 0]}),
    "n-grams of many lengths that the pool does not have": (
        tf_idf(ngram_counts=[0] + [3] * 100000, max_gram_length=100001), {"x": ([9], INT64)}),
    "a product of many numbers": (
        node("Einsum", [f"x{i}" for i in range(600)], equation=",".join(["a"] * 600) + "->a"),
        {f"x{i}": [2] for i in range(600)}),
}  # fmt: skip


@pytest.mark.parametrize("name", QUICK)
def test_what_is_long_is_imported_at_once(name):
    long, inputs, *constants = QUICK[name]
    start = time.process_time()
    session_of(model_of(long, inputs, constants[0] if constants else {}))
    assert time.process_time() - start < LONGEST_SECONDS


def test_an_output_may_be_named_twice():
    """Of a known size, of one that depends on data, and a sequence."""
    x = np.array([3, 0, 4], np.float32)
    for made, count in (
        (node("Neg", ["x"]), 2),
        (node("NonZero", ["x"]), 2),
        (node("SplitToSequence", ["x"], keepdims=1), 3),
    ):
        model = model_of(made, {"x": [3]}, {}, ["y"] * count)
        if made.op_type == "SplitToSequence":
            kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [1]))
            for value in model.graph.output:
                value.type.CopyFrom(kind)
        got = popart.backend.prepare(model).run([x])
        expected = {"Neg": -x, "NonZero": np.array([[0, 2]]), "SplitToSequence": [[3], [0], [4]]}[made.op_type]
        assert len(got) == count
        for value in got:
            np.testing.assert_array_equal(value, expected)


def test_many_results_of_one_name_are_numbered_at_once():
    """Each iteration makes tensors whose names clash with those of all others."""

    def seconds(count):
        call = [helper.make_node("Half", [f"x{i}"], [f"x{i + 1}"], domain="own", name="call") for i in range(count)]
        body = [helper.make_node("Neg", ["a"], ["inner"]), helper.make_node("Neg", ["inner"], ["b"])]
        half = helper.make_function("own", "Half", ["a"], ["b"], body, [helper.make_opsetid("", 20)])
        graph = helper.make_graph(
            call,
            "calls",
            [helper.make_tensor_value_info("x0", TensorProto.FLOAT, [2])],
            [onnx.ValueInfoProto(name=f"x{count}")],
        )
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
        model = helper.make_model(graph, functions=[half], opset_imports=opsets, ir_version=10)
        start = time.process_time()
        popart.Builder(model.SerializeToString())
        return time.process_time() - start

    seconds(100)
    assert seconds(8000) < 24 * max(seconds(1000), 0.01)


@pytest.mark.parametrize("trips", [0, -(2**62), 3])
def test_a_loop_that_never_runs_stacks_nothing(trips):
    """Rows of 64 bytes are written where they are stacked, if there is a stack."""
    value, made = helper.make_tensor_value_info, helper.make_node
    body = helper.make_graph(
        [made("Identity", ["c"], ["d"]), made("Add", ["v", "v"], ["w"]), made("Neg", ["w"], ["s"])],
        "body",
        [value("i", INT64, []), value("c", TensorProto.BOOL, []), value("v", TensorProto.FLOAT, [16])],
        [value("d", TensorProto.BOOL, []), value("w", TensorProto.FLOAT, [16]), value("s", TensorProto.FLOAT, [16])],
    )
    loop = node("Loop", ["n", "", "x"], outputs=("y", "z"), body=body)
    model = model_of(loop, {"x": [16]}, {"n": np.int64(trips)}, ["y", "z"], 17)
    x = np.arange(16, dtype=np.float32)
    y, z = popart.backend.prepare(model).run([x])
    count = max(trips, 0)
    np.testing.assert_array_equal(y, x * 2**count)
    np.testing.assert_array_equal(z, [-x * 2 ** (i + 1) for i in range(count)] if count else np.zeros((0, 16)))
