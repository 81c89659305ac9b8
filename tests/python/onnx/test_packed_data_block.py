"""`packedDataBlock` of ai.graphcore against a form in NumPy."""

import numpy as np
import popart
import popart.backend
import pytest

import onnx
from tests.python.popart.training_runs import inference_session, ready, training_session

UNSIGNED = np.uint32


class Sequences:
    """Sequences of random lengths that lie packed, in any order, with rows between them that belong to none."""

    def __init__(self, rng, count, longest, row=(3,), dtype=np.float32, spare=2):
        self.longest = longest
        self.lengths = rng.integers(0, longest + 1, count).astype(UNSIGNED)
        self.offsets = np.zeros(count, UNSIGNED)
        at = int(rng.integers(0, spare + 1))
        for i in rng.permutation(count):
            self.offsets[i] = at
            at += int(self.lengths[i]) + int(rng.integers(0, spare + 1))
        values = rng.integers(-50, 50, (at + spare, *row)) if np.dtype(dtype).kind in "iu" else None
        self.data = (rng.standard_normal((at + spare, *row)) if values is None else values).astype(dtype)

    def padded(self, i):
        """Sequence `i` with zeros behind its end; zeros alone for one that there is not."""
        result = np.zeros((self.longest, *self.data.shape[1:]), self.data.dtype)
        if i < len(self.lengths):
            begin, length = int(self.offsets[i]), int(self.lengths[i])
            result[:length] = self.data[begin : begin + length]
        return result

    @property
    def arrays(self):
        return [self.data, self.offsets, self.lengths]


def expected(parts, offsets, lengths, rows, batch, function):
    """The results of `function` for each batch, packed."""
    count = len(offsets)
    packed = None
    for first in range(0, max(count, 1), batch):
        results = function(*(np.stack([p.padded(i) for i in range(first, first + batch)]) for p in parts))
        if packed is None:
            packed = np.zeros((rows, *results.shape[2:]), results.dtype)
        for i in range(first, min(first + batch, count)):
            packed[offsets[i] : offsets[i] + lengths[i]] = results[i - first, : lengths[i]]
    return packed


def block(arrays, longest, rows, batch, body, given=None):
    """A builder with a block over inputs like these arrays; the ids of the inputs, the id of the block's result.

    `given`: shapes of the callback's inputs; else what the block gives it.
    """
    builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    ids = [builder.addInputTensor(popart.TensorInfo(a.dtype, a.shape)) for a in arrays]
    callback = builder.createSubgraphBuilder()
    given = given or [(batch, n, *a.shape[1:]) for n, a in zip(longest, arrays[::3], strict=False)]
    inner = [
        callback.addInputTensor(popart.TensorInfo(a.dtype, list(s))) for a, s in zip(arrays[::3], given, strict=False)
    ]
    callback.addOutputTensor(body(callback, *inner))
    result = builder.aiGraphcore.packedDataBlock(ids, longest, rows, batch, callback, debugName="packed")
    return builder, ids, result


def run(*args):
    builder, ids, result = block(*args)
    builder.addOutputTensor(result)
    session = ready(inference_session(builder.getModelProto(), [result]))
    arrays = session.initAnchorArrays()
    session.run(popart.PyStepIO(dict(zip(ids, args[0], strict=True)), arrays))
    return arrays[result], builder.getTensorShape(result)


def reversed_rows(builder, x):
    """A function that mixes the rows of one sequence: positions, ends and padding matter."""
    return builder.aiGraphcore.reverse([builder.aiOnnx.cumsum([x, one(builder)])], [1])


def one(builder):
    return builder.aiOnnx.constant(np.array([1], np.int32))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("count", "batch"), [(6, 2), (7, 3), (1, 4), (5, 1), (0, 2)])
def test_one_packed_tensor(count, batch, seed):
    rng = np.random.default_rng([count, batch, seed])
    given = Sequences(rng, count, longest=5)
    rows = len(given.data)
    got, shape = run([*given.arrays, given.offsets, given.lengths], [5], rows, batch, reversed_rows)
    function = lambda x: np.cumsum(x, 1)[:, ::-1]  # noqa: E731
    np.testing.assert_allclose(
        got, expected([given], given.offsets, given.lengths, rows, batch, function), rtol=1e-5, atol=1e-6
    )
    assert list(got.shape) == shape == [rows, 3]


@pytest.mark.parametrize("dtypes", [("float32", "int32"), ("float16", "uint8"), ("int32", "float16")])
@pytest.mark.parametrize("seed", range(3))
def test_several_packed_tensors_of_different_types_and_rows(dtypes, seed):
    """Rows of one and two dimensions and none; results that are shorter than the sequences, in other places."""
    rng = np.random.default_rng(seed)
    count, batch, short = 7, 3, 2
    parts = [
        Sequences(rng, count, 4, (2, 3), np.float32),
        Sequences(rng, count, 6, (), dtypes[0]),
        Sequences(rng, count, 3, (5,), dtypes[1]),
    ]
    lengths = rng.integers(0, short + 1, count).astype(UNSIGNED)
    offsets = (np.arange(count) * short)[::-1].astype(UNSIGNED)

    def body(builder, x, y, z):
        def total(t, axes):
            return builder.aiOnnx.reducesum([builder.aiOnnx.cast([t], "FLOAT")], axes=axes, keepdims=0)

        other = builder.aiOnnx.add([total(y, [1]), total(z, [1, 2])])
        other = builder.aiOnnx.unsqueeze([other], axes=[1, 2, 3])
        return builder.aiGraphcore.slice([builder.aiOnnx.mul([x, other])], ends=[short], starts=[0], axes=[1])

    def function(x, y, z):
        other = y.astype(np.float32).sum(1) + z.astype(np.float32).sum((1, 2))
        return (x * other[:, None, None, None])[:, :short]

    arrays = [a for p in parts for a in p.arrays]
    got, _ = run([*arrays, offsets, lengths], [4, 6, 3], count * short + 1, batch, body)
    want = expected(parts, offsets, lengths, count * short + 1, batch, function)
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("columns", [3, 64, 300])
def test_without_sequences_the_result_is_zero(columns):
    given = Sequences(np.random.default_rng(0), 0, 8, (columns,))
    got, _ = run([*given.arrays, given.offsets, given.lengths], [8], 6, 2, lambda b, x: b.aiOnnx.exp([x]))
    np.testing.assert_array_equal(got, np.zeros((6, columns), np.float32))


def test_results_that_overlap_keep_the_later_one():
    rng = np.random.default_rng(1)
    given = Sequences(rng, 4, 4)
    lengths, offsets = np.full(4, 3, UNSIGNED), np.array([0, 1, 0, 4], UNSIGNED)
    got, _ = run([*given.arrays, offsets, lengths], [4], 8, 2, lambda b, x: b.aiOnnx.exp([x]))
    np.testing.assert_allclose(got, expected([given], offsets, lengths, 8, 2, np.exp), rtol=1e-5)


def test_a_callback_reads_tensors_of_the_graph_around():
    rng = np.random.default_rng(2)
    given, weight = Sequences(rng, 5, 4), rng.standard_normal((3, 2)).astype(np.float32)
    builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    arrays = [*given.arrays, given.offsets, given.lengths]
    ids = [builder.addInputTensor(popart.TensorInfo(a.dtype, a.shape)) for a in arrays]
    w = builder.addInitializedInputTensor(weight, "w")
    callback = builder.createSubgraphBuilder()
    callback.addInputTensorFromParentGraph(w)
    x = callback.addInputTensor(popart.TensorInfo("FLOAT", [2, 4, 3]))
    callback.addOutputTensor(callback.aiOnnx.matmul([x, w]))
    result = builder.aiGraphcore.packedDataBlock(ids, [4], len(given.data), 2, callback, debugName="packed")
    builder.addOutputTensor(result)
    session = ready(inference_session(builder.getModelProto(), [result]))
    got = session.initAnchorArrays()
    session.run(popart.PyStepIO(dict(zip(ids, arrays, strict=True)), got))
    want = expected([given], given.offsets, given.lengths, len(given.data), 2, lambda x: x @ weight)
    np.testing.assert_allclose(got[result], want, rtol=1e-4, atol=1e-5)


SIGNED = np.int32


@pytest.mark.parametrize(
    ("which", "value"),
    [(1, 9), (1, -1), (2, 5), (2, -2), (3, 7), (3, -1), (4, 5), (4, -3)],
    ids=lambda v: str(v),
)
def test_sequences_that_are_too_long_or_lie_outside_end_the_run(which, value):
    """Data of 9 rows, sequences of at most 4, results of 4 in 8 rows."""
    data = np.ones((9, 2), np.float32)
    lists = [np.array(v, SIGNED) for v in ([0, 4], [4, 4], [0, 4], [4, 4])]
    lists[which - 1][1] = value
    with pytest.raises(popart.popart_runtime_error, match="an index is out of range"):
        run([data, *lists], [4], 8, 2, lambda b, x: b.aiOnnx.neg([x]))


def test_no_gradient_passes():
    """The loss has the block and the weight itself as parts: the weight's gradient comes from the latter alone."""
    lists = [np.array(v, UNSIGNED) for v in ([0, 2], [2, 1], [0, 2], [2, 1])]
    builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    w = builder.addInitializedInputTensor(np.full((3, 2), 2, np.float32), "w")
    ids = [builder.addInputTensor(popart.TensorInfo(a.dtype, a.shape)) for a in lists]
    callback = builder.createSubgraphBuilder()
    x = callback.addInputTensor(popart.TensorInfo("FLOAT", [2, 2, 2]))
    callback.addInputTensorFromParentGraph(w)
    callback.addOutputTensor(callback.aiOnnx.mul([x, callback.aiOnnx.reducesum([w], keepdims=0)]))
    y = builder.aiGraphcore.packedDataBlock([w, *ids], [2], 3, 2, callback)
    both = builder.aiOnnx.add([y, builder.aiGraphcore.scale([w], 3.0)])
    loss = builder.aiGraphcore.l1loss([both], 1.0, popart.ReductionType.Sum)
    optimizer = popart.SGD({"defaultLearningRate": (0.0, False)})
    session = ready(training_session(builder.getModelProto(), loss, optimizer, anchors=[loss, "Gradient___w"]))
    arrays = session.initAnchorArrays()
    session.run(popart.PyStepIO(dict(zip(ids, lists, strict=True)), arrays))
    np.testing.assert_array_equal(arrays["Gradient___w"], np.full((3, 2), 3, np.float32))
    assert arrays[loss] == 6 * (2 * 12 + 6)


def damaged(**changes):
    """A session of a block, with some arguments changed."""
    rng = np.random.default_rng(0)
    given = Sequences(rng, 4, 3)
    arrays = [*given.arrays, given.offsets, given.lengths]
    kept = {"longest": [3], "rows": 9, "batch": 2, "body": lambda b, x: b.aiOnnx.neg([x])}
    kept |= {k: v for k, v in changes.items() if k != "arrays"}
    arrays = changes.get("arrays", lambda a: a)(arrays)
    builder, _, result = block(arrays, kept["longest"], kept["rows"], kept["batch"], kept["body"], [(2, 3, 3)])
    builder.addOutputTensor(result)
    inference_session(builder.getModelProto(), [result]).prepareDevice()


HUGE = 2**31 - 1


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"longest": [3, 4]}, "maxSequenceLengths: got .3, 4., expected 1 numbers"),
        ({"longest": [0]}, "maxSequenceLengths: got .0., expected 1 to"),
        ({"longest": [-3]}, "maxSequenceLengths"),
        ({"longest": [2**40]}, "maxSequenceLengths"),
        ({"rows": 0}, "resultSize: got 0, expected 1 to"),
        ({"rows": -1}, "resultSize"),
        ({"rows": 2**62}, "resultSize"),
        ({"batch": 0}, "callbackBatchSize: got 0"),
        ({"batch": 2**63 - 1}, "callbackBatchSize"),
        ({"batch": HUGE, "longest": [2**30]}, "too large"),
        ({"arrays": lambda a: a[:-1]}, "inputs must be data, offsets and lengths.*got 4 inputs"),
        ({"arrays": lambda a: a[:2]}, "got 2 inputs"),
        ({"arrays": lambda a: [a[0], a[1][:2], *a[2:]]}, "lists of one length"),
        ({"arrays": lambda a: [*a[:3], a[3].reshape(2, 2), a[4]]}, "lists of one length"),
        ({"arrays": lambda a: [a[0], a[1].reshape(2, 2), *a[2:]]}, "offsets must be a list"),
        ({"arrays": lambda a: [a[0], a[1].astype(np.float32), *a[2:]]}, "must be UINT32 or INT32"),
        ({"arrays": lambda a: [np.float32(1), *a[1:]]}, "a dimension for its rows"),
        ({"body": lambda b, x: b.aiOnnx.reducesum([x], axes=[0], keepdims=1)}, "the callback must give"),
        ({"body": lambda b, x: b.aiOnnx.reducesum([x], keepdims=0)}, "the callback must give"),
    ],
    ids=lambda v: "-".join(v) if isinstance(v, dict) else None,
)
def test_refusals(changes, match):
    with pytest.raises(popart.popart_exception, match=match):
        damaged(**changes)


def test_the_callback_has_an_input_for_each_packed_tensor_and_one_output():
    def two(builder, x):
        builder.addOutputTensor(builder.aiOnnx.neg([x]))
        return builder.aiOnnx.exp([x])

    with pytest.raises(popart.popart_exception, match="one tensor: got 2 outputs"):
        damaged(body=two)

    def more(builder, x):
        return builder.aiOnnx.add([x, builder.addInputTensor(popart.TensorInfo("FLOAT", [2, 3, 3]))])

    with pytest.raises(popart.popart_exception, match="wrong number of inputs: got 1, expected 2"):
        damaged(body=more)


def test_the_node_in_the_model():
    """Attributes by the names of the arguments, the callback as a graph; the model runs wherever it is read."""
    rng = np.random.default_rng(3)
    given = Sequences(rng, 5, 4)
    arrays, rows = [*given.arrays, given.offsets, given.lengths], len(given.data)
    builder, _, result = block(arrays, [4], rows, 2, lambda b, x: b.aiOnnx.exp([x]))
    builder.addOutputTensor(result)
    model = onnx.load_model_from_string(builder.getModelProto())
    (node,) = (n for n in model.graph.node if n.op_type == "PackedDataBlock")
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    assert (node.domain, node.name, list(node.output)) == ("ai.graphcore", "packed", [result])
    assert attributes["maxSequenceLengths"] == [4]
    assert (attributes["resultSize"], attributes["callbackBatchSize"]) == (rows, 2)
    assert [n.op_type for n in attributes["callback"].node] == ["Exp"]
    (got,) = popart.backend.prepare(model).run(arrays)
    np.testing.assert_allclose(got, expected([given], given.offsets, given.lengths, rows, 2, np.exp), rtol=1e-5)
