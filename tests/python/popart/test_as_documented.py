"""Builder and sessions do what PopART's documentation says, where programs in circulation rely on it."""

import numpy as np
import popart
import pytest

import onnx


def values(*shape):
    """Float32 numbers 1, 2, 3 … in a shape."""
    return np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)


class Model:
    """A builder with inputs that have values, run once."""

    def __init__(self, opset=10):
        self.builder = popart.Builder(opsets={"ai.onnx": opset, "ai.graphcore": 1})
        self.onnx, self.graphcore = self.builder.aiOnnx, self.builder.aiGraphcore
        self.arrays = {}

    def input(self, array, name="input"):
        id = self.builder.addInputTensor(popart.TensorInfo(array), name)
        self.arrays[id] = array
        return id

    def _finish(self, session):
        session.prepareDevice()
        session.weightsFromHost()
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO(self.arrays, anchors))
        return anchors

    def run(self, *anchors, **more):
        device = popart.DeviceManager().createCpuDevice()
        flow = popart.DataFlow(1, list(anchors))
        return self._finish(popart.InferenceSession(self.builder.getModelProto(), flow, device, **more))

    def train(self, loss, *anchors, **more):
        device = popart.DeviceManager().createCpuDevice()
        flow = popart.DataFlow(1, list(anchors))
        model = self.builder.getModelProto()
        return self._finish(popart.TrainingSession(model, flow, loss, popart.ConstSGD(0.1), device, **more))

    def gradients(self, output, *inputs, **more):
        """Gradients of the sum of a tensor."""
        loss = self.graphcore.identityloss([output], popart.ReductionType.Sum)
        anchors = self.train(loss, *("Gradient___" + id for id in inputs), **more)
        return [anchors["Gradient___" + id] for id in inputs]


# ---- operators


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_incrementmod_has_the_sign_of_the_dividend(dtype):
    m = Model()
    x = np.array([-7, -6, -1, 0, 5, 7], dtype)
    y = m.graphcore.incrementmod([m.input(x)], 2, 3)
    np.testing.assert_array_equal(m.run(y)[y], np.fmod(x + dtype(2), dtype(3)))


@pytest.mark.parametrize("opset", [6, 9, 11])
def test_positions_are_int32(opset):
    m = Model(opset)
    x = m.input(np.array([[3, 1, 2], [0, 5, 4]], np.float32))
    largest, smallest = m.onnx.argmax([x], 1, 0), m.onnx.argmin([x], 1)
    assert m.builder.getTensorDtypeString(largest) == m.builder.getTensorDtypeString(smallest) == "int32"
    anchors = m.run(largest, smallest)
    assert anchors[largest].dtype == anchors[smallest].dtype == np.int32
    assert anchors[largest].tolist() == [0, 1] and anchors[smallest].tolist() == [[1], [0]]


def test_topk_and_sort_positions_are_int32():
    m = Model()
    x = m.input(np.array([3, 1, 2], np.float32))
    _, top = m.onnx.topk([x, m.onnx.constant(np.array([2]))], 0)
    _, order = m.graphcore.sort([x])
    anchors = m.run(top, order)
    assert anchors[top].dtype == anchors[order].dtype == np.int32
    assert anchors[top].tolist() == [0, 2] and anchors[order].tolist() == [1, 2, 0]


@pytest.mark.parametrize("labels", [np.int32, np.int64])
def test_positions_are_compared_with_labels_of_either_type(labels):
    m = Model()
    found = m.onnx.argmax([m.input(np.eye(3, dtype=np.float32))], 1, 0)
    same = m.onnx.equal([found, m.input(np.array([0, 2, 2], labels))])
    assert m.run(same)[same].tolist() == [True, False, True]


def scattered(data, indices, updates, axis):
    result = data.copy()
    for at in np.ndindex(indices.shape):
        to = list(at)
        to[axis] = indices[at]
        result[tuple(to)] = updates[at]
    return result


@pytest.mark.parametrize("method", ["scatter", "scatterelements"])
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64])
@pytest.mark.parametrize(("shape", "axis"), [((1, 2), 0), ((2, 3), 0), ((2, 1), 1), ((4, 2), 1)])
def test_scatter_uses_the_updates_that_have_indices(method, dtype, shape, axis):
    rng = np.random.default_rng(0)
    data, updates = values(4, 3), -values(4, 4)
    size = data.shape[axis]
    line = np.stack([rng.permutation(size)[: shape[axis]] for _ in range(shape[1 - axis])], axis=1 - axis)
    indices = line.astype(dtype)
    m = Model(11)
    x, i, u = m.input(data, "data"), m.input(indices, "indices"), m.input(updates, "updates")
    y = getattr(m.onnx, method)([x, i, u], axis)
    np.testing.assert_array_equal(m.run(y)[y], scattered(data, indices, updates, axis))
    dx, du = m.gradients(y, x, u)
    ones = np.ones_like(data)
    np.testing.assert_array_equal(dx, scattered(ones, indices, np.zeros_like(updates), axis))
    expected = np.zeros_like(updates)
    expected[: shape[0], : shape[1]] = 1
    np.testing.assert_array_equal(du, expected)


def test_scatter_refuses_more_indices_than_updates():
    m = Model(11)
    x, i, u = m.input(values(4, 3)), m.input(np.zeros((2, 3), np.int32)), m.input(values(2, 2))
    with pytest.raises(popart.popart_exception, match="indices are larger than updates"):
        m.onnx.scatterelements([x, i, u])


REDUCTIONS = {
    "Sum": (np.add, 0.0),
    "Max": (np.maximum, None),
    "Min": (np.minimum, None),
    "Mul": (np.multiply, 1.0),
    "NoReduction": (lambda old, new: new, 0.0),
}


def reduced(src, indices, axis, shape, reduction, initial):
    combine, start = REDUCTIONS[reduction]
    result = np.zeros(shape, np.float32) if initial is None else initial.copy()
    if initial is None and start is not None:
        result[...] = start
    started = np.full(shape, initial is not None or start is not None)
    for at in np.ndindex(indices.shape):
        to = list(at)
        to[axis] = indices[at]
        to = tuple(to)
        result[to] = combine(result[to], src[at]) if started[to] else src[at]
        started[to] = True
    return result


@pytest.mark.parametrize("reduction", list(REDUCTIONS))
@pytest.mark.parametrize("with_initial", [False, True])
@pytest.mark.parametrize("shape", [(3, 2), (2, 2), (3, 1), (2, 1)])
def test_scatterreduce_without_broadcast_takes_the_leading_part(reduction, with_initial, shape):
    rng = np.random.default_rng(1)
    src = rng.normal(size=(3, 2)).astype(np.float32)
    indices = rng.integers(0, 4, shape).astype(np.int32)
    initial = rng.normal(size=(5, 4)).astype(np.float32) if with_initial else None
    m = Model()
    args = [m.input(src, "src"), m.input(indices, "indices")]
    if with_initial:
        args.append(m.input(initial, "initial"))
    y = m.graphcore.scatterreduce(args, 4, 0, getattr(popart.ScatterReduction, reduction), enable_index_broadcast=0)
    expected_shape = initial.shape if with_initial else (4, shape[1])
    assert m.builder.getTensorShape(y) == list(expected_shape)
    expected = reduced(src, indices, 0, expected_shape, reduction, initial)
    np.testing.assert_allclose(m.run(y)[y], expected, rtol=1e-6, atol=1e-6)
    gradients = m.gradients(y, *(a for a in args if a != args[1]))
    assert (gradients[0][shape[0] :] == 0).all() and (gradients[0][:, shape[1] :] == 0).all()
    if reduction == "Sum":
        assert (gradients[0][: shape[0], : shape[1]] == 1).all()


def test_scatterreduce_takes_its_shape_from_larger_initial_values():
    m = Model()
    src, initial = values(3, 2), np.full((6, 3), 10, np.float32)
    args = [m.input(src, "src"), m.input(np.array([[0], [5], [0]], np.int32), "i"), m.input(initial, "initial")]
    y = m.graphcore.scatterreduce(args, 3, 0)
    expected = initial.copy()
    expected[0, :2] += src[0] + src[2]
    expected[5, :2] += src[1]
    np.testing.assert_array_equal(m.run(y)[y], expected)


def test_groupedscatterreduce_takes_smaller_indices():
    m = Model()
    src, indices = values(2, 3, 2), np.array([[[0], [2]], [[1], [1]]], np.int32)
    y = m.graphcore.groupedscatterreduce([m.input(src), m.input(indices)], 4, 1, group_size=2, enable_index_broadcast=0)
    expected = np.zeros((2, 4, 1), np.float32)
    for group in range(2):
        for k in range(2):
            expected[group, indices[group, k, 0], 0] += src[group, k, 0]
    np.testing.assert_array_equal(m.run(y)[y], expected)


@pytest.mark.parametrize("shape", [(6, 4), (1, 6, 4)])
def test_dynamicslice_takes_its_shape_from_a_third_input(shape):
    m = Model()
    x = values(3, 6, 4)
    offset = m.input(np.array([2], np.uint32), "offset")
    tensor = m.input(x, "x")
    y = m.graphcore.dynamicslice([tensor, offset, m.input(np.zeros(shape, np.float32))], axes=[0], sizes=[1])
    assert m.builder.getTensorShape(y) == list(shape)
    np.testing.assert_array_equal(m.run(y)[y], x[2].reshape(shape))
    (dx,) = m.gradients(y, tensor)
    assert dx[2].min() == 1 and dx.sum() == 24


@pytest.mark.parametrize("slice_in", [np.zeros((6, 5), np.float32), np.zeros((6, 4), np.int32)])
def test_dynamicslice_refuses_a_third_input_that_does_not_fit(slice_in):
    m = Model()
    args = [m.input(values(3, 6, 4)), m.input(np.array([2], np.uint32)), m.input(slice_in)]
    with pytest.raises(popart.popart_exception, match="slice_in"):
        m.graphcore.dynamicslice(args, axes=[0], sizes=[1])


@pytest.mark.parametrize("method", ["dynamicupdate", "dynamicadd"])
def test_a_written_slice_may_lack_dimensions_of_size_1(method):
    m = Model()
    x, part = values(3, 6, 4), -values(6, 4)
    tensor, slice_ = m.input(x, "x"), m.input(part, "slice")
    y = getattr(m.graphcore, method)([tensor, m.input(np.array([1], np.uint32)), slice_], axes=[0], sizes=[1])
    expected = x.copy()
    expected[1] = part if method == "dynamicupdate" else x[1] + part
    np.testing.assert_array_equal(m.run(y)[y], expected)
    dx, dslice = m.gradients(y, tensor, slice_)
    assert dslice.shape == part.shape and (dslice == 1).all()
    assert dx.sum() == (48 if method == "dynamicupdate" else 72)


# ---- builder


@pytest.mark.parametrize(
    ("add", "expected"),
    [
        (lambda m, x: m.onnx.randomnormal(np.array([2, 3]), mean=np.array(0.5), scale=np.float16(2)),
         {"shape": [2, 3], "mean": 0.5, "scale": 2.0}),
        (lambda m, x: m.onnx.softmax([x], np.array(1)), {"axis": 1}),
        (lambda m, x: m.onnx.reducesum([x], axes=np.array([1, 2]), keepdims=False), {"axes": [1, 2], "keepdims": 0}),
        (lambda m, x: m.onnx.reducesum([x], axes=(np.int64(1), 2), keepdims=np.array(0)),
         {"axes": [1, 2], "keepdims": 0}),
        (lambda m, x: m.onnx.averagepool([x], np.array([2, 2]), strides=(np.int32(1), 2)),
         {"kernel_shape": [2, 2], "strides": [1, 2]}),
        (lambda m, x: m.graphcore.l1loss([x], np.array(0.5)), {"lambda": 0.5}),
        (lambda m, x: m.graphcore.scale([x], np.array(2, np.float16)), {"scale": 2.0}),
        (lambda m, x: m.onnx.leakyrelu([x], np.int32(1)), {"alpha": 1.0}),
        (lambda m, x: m.onnx.leakyrelu([x], True), {"alpha": 1.0}),
    ],
)  # fmt: skip
def test_numpy_numbers_become_plain_attributes(add, expected):
    m = Model()
    add(m, m.input(values(2, 3, 4, 4)))
    node = onnx.load_from_string(m.builder.getModelProto()).graph.node[-1]
    found = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    for name, value in expected.items():
        assert found[name] == value and not isinstance(found[name], onnx.TensorProto)


def test_numpy_numbers_as_attributes_of_nodes():
    m = Model()
    y = m.onnx.relu([m.input(values(2))])
    b = m.builder
    given = {
        "i": np.int64(3),
        "f": np.float32(0.5),
        "ints": np.array([1, 2]),
        "floats": np.array([0.5, 2.0]),
        "none": [],
    }
    for name, value in given.items():
        b.addNodeAttribute(name, value, {y})
    assert b.getInt64NodeAttribute("i", {y}) == 3 and b.getFloatNodeAttribute("f", {y}) == 0.5
    assert b.getInt64VectorNodeAttribute("ints", {y}) == [1, 2] and b.getInt64VectorNodeAttribute("none", {y}) == []
    assert b.getFloatVectorNodeAttribute("floats", {y}) == [0.5, 2.0]


@pytest.mark.parametrize(
    ("opset", "call", "method"),
    [
        (6, lambda m, x: m.onnx.add([x, x], "label"), "add"),
        (10, lambda m, x: m.onnx.add([x, x], 0, 1, "label"), "add"),
        (10, lambda m, x: m.onnx.conv(), "conv"),
        (10, lambda m, x: m.onnx.gemm([x, x], "much"), "gemm"),
        (10, lambda m, x: m.onnx.matmul([x, x], nothing=1), "matmul"),
        (10, lambda m, x: m.onnx.softmax([x], 1.5), "softmax"),
        (10, lambda m, x: m.onnx.softmax([x], [1]), "softmax"),
        (10, lambda m, x: m.onnx.transpose([x], 1), "transpose"),
    ],
)
def test_arguments_that_do_not_fit_a_method(opset, call, method):
    m = Model(opset)
    with pytest.raises(TypeError, match=rf"^{method}: .*{method}\(args"):
        call(m, m.input(values(2, 2)))


def test_tensors_of_the_parent_graph_are_formal_inputs():
    m = Model()
    x = m.input(np.array([5, 6], np.float32))
    first, second = (m.builder.addInitializedInputTensor(np.array(v, np.float32)) for v in ([1, 2], [10, 20]))
    body = m.builder.createSubgraphBuilder()
    own = body.addInputTensor(popart.TensorInfo("FLOAT", [2]))
    body.addInputTensorFromParentGraph(first)
    assert body.getInputTensorIds() == [own, first]
    body.addOutputTensor(body.aiOnnx.sub([own, first]))
    (y,) = m.graphcore.call([x, second], 1, body)
    (z,) = m.graphcore.call([second, x], 1, body)
    anchors = m.run(y, z)
    assert anchors[y].tolist() == [-5, -14] and anchors[z].tolist() == [5, 14]


def test_a_call_gives_every_formal_input():
    m = Model()
    x = m.input(values(2))
    body = m.builder.createSubgraphBuilder()
    body.addInputTensorFromParentGraph(x)
    body.addOutputTensor(body.aiOnnx.relu([x]))
    with pytest.raises(popart.popart_exception, match="another number of inputs"):
        m.graphcore.call([], 1, body)


def test_a_loop_body_may_name_tensors_of_the_parent_graph():
    m = Model()
    x = m.input(np.array([5, 6], np.float32))
    w = m.builder.addInitializedInputTensor(np.array([1, 2], np.float32))
    body = m.builder.createSubgraphBuilder()
    body.addInputTensor("INT64", [])
    condition, carried = body.addInputTensor("BOOL", []), body.addInputTensor("FLOAT", [2])
    body.addInputTensorFromParentGraph(w)
    body.addOutputTensor(condition)
    body.addOutputTensor(body.aiOnnx.add([carried, w]))
    (y,) = m.onnx.loop([m.onnx.constant(np.array(4)), m.onnx.constant(np.array(True)), x], 1, body)
    assert m.run(y)[y].tolist() == [9, 14]


# ---- patterns, random numbers, printing


PATTERNS = (
    "PreUniRepl PostNRepl SoftMaxGradDirect NlllWithSoftMaxGradDirect OpToIdentity SubtractArg1GradOp MulArgGradOp "
    "MatMulOp MatMulLhsGradOp MatMulRhsGradOp InPlace"
)


def test_no_patterns_are_no_patterns():
    patterns = popart.Patterns(popart.PatternsLevel.NoPatterns)
    assert not any(getattr(patterns, name) for name in PATTERNS.split())
    assert repr(patterns) == "" and not patterns.isPatternEnabled("InPlace")


@pytest.mark.parametrize(("level", "on"), [("Minimal", False), ("Default", True), ("All", True)])
def test_levels_and_in_place(level, on):
    assert popart.Patterns(getattr(popart.PatternsLevel, level)).InPlace is on
    assert popart.Patterns(["PreUniRepl"]).InPlace is False


def test_a_seed_may_be_set_where_nothing_is_random():
    m = Model()
    y = m.onnx.relu([m.input(values(2))])
    device = popart.DeviceManager().createCpuDevice()
    session = popart.InferenceSession(m.builder.getModelProto(), popart.DataFlow(1, [y]), device)
    session.setRandomSeed(3)
    assert session.getRandomSeed() == 0
    session.prepareDevice()
    session.setRandomSeed(3)
    assert session.getRandomSeed() == 0


def test_the_random_seed_is_no_weight(tmp_path):
    m = Model()
    noise = m.onnx.randomnormal([2])
    y = m.onnx.add([m.input(values(2)), noise])
    loss = m.graphcore.identityloss([y])
    device = popart.DeviceManager().createCpuDevice()
    flow = popart.DataFlow(1, [y])
    session = popart.TrainingSession(m.builder.getModelProto(), flow, loss, popart.ConstSGD(0.1), device)
    with pytest.raises(popart.popart_exception, match="setRandomSeed"):
        session.setRandomSeed(1)
    session.prepareDevice()
    session.setRandomSeed(7)
    assert session.getRandomSeed() == 7
    session.run(popart.PyStepIO(m.arrays, session.initAnchorArrays()))  # without weightsFromHost
    path = tmp_path / "model.onnx"
    session.modelToHost(str(path))
    assert not onnx.load(path).graph.initializer


def test_printed_tensors(capfd):
    m = Model()
    x = m.input(np.array([10, 1], np.float32))
    w = m.builder.addInitializedInputTensor(np.array([0.25, 3], np.float32))
    product = m.graphcore.printtensor([m.onnx.mul([x, w])])
    total = m.graphcore.printtensor([m.onnx.reducesum([product])], title="total")
    numbers = m.onnx.cast([m.input(np.array([[3, 4, 8], [7, 9, 15]], np.float32))], "INT32")
    m.graphcore.printtensor([m.onnx.add([numbers, numbers])], 0, title="numbers")
    m.train(m.graphcore.identityloss([total]), total)
    lines = capfd.readouterr().err.splitlines()
    printed = [line for line in lines if not line.startswith("2")]
    assert [line for line in printed if "numbers" not in line and not line.startswith(" ")] == [
        "Mul:0: [2.5000000 3.0000000]",
        "total: [5.5000000]",
        "total_gradient: [1.0000000]",
        "Gradient___Mul:0: [1.0000000 1.0000000]",
    ]
    assert "numbers: [[ 6  8 16] " in printed


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.array([3, 4, 8], np.int32), "[3 4 8]"),
        (np.array([7, 9, 15], np.int32), "[ 7  9 15]"),
        (np.array([2.5, 3], np.float32), "[2.5000000 3.0000000]"),
        (np.array([0.7], np.float16), "[0.7001953]"),
        (np.array([123456, 0.25], np.float32), "[123456.00      0.25]"),
        (np.array([0, -1], np.float32), "[ 0.0000000 -1.0000000]"),
        (np.array([2e10, 1], np.float32), "[2.0000000e+10 1.0000000e+00]"),
        (np.array([np.inf, 1], np.float32), "[      inf 1.0000000]"),
        (np.array([True, False]), "[1 0]"),
    ],
)
def test_printed_numbers(array, text, capfd):
    m = Model()
    y = m.graphcore.printtensor([m.input(array)], 0, title="x")
    m.run(y)
    assert f"x: {text}\n" in capfd.readouterr().err


# ---- gradients


def test_gradients_of_constants():
    m = Model()
    c = m.onnx.constant(np.array([1, 2], np.float32))
    w = m.builder.addInitializedInputTensor(np.array([3, 4], np.float32))
    (dc,) = m.gradients(m.onnx.mul([c, w]), c)
    assert dc.tolist() == [3, 4]


def test_an_operator_of_constants_with_a_gradient_stays():
    m = Model()
    c = m.onnx.constant(values(2, 2))
    (dc,) = m.gradients(m.onnx.gather([c, m.onnx.constant(np.array([1, 1], np.int32))]), c)
    assert dc.tolist() == [[0, 0], [2, 2]]
    m = Model()
    c = m.onnx.constant(values(3))
    (dc,) = m.gradients(m.onnx.sqrt([m.onnx.exp([c])]), c)
    np.testing.assert_allclose(dc, np.exp(values(3) / 2) / 2, rtol=1e-6)


def test_gradients_of_integers():
    m = Model()
    x, y = m.input(np.array([1, 2], np.int32)), m.input(np.array([5, 6], np.int32))
    dx, dy = m.gradients(m.onnx.sub([m.onnx.add([x, x]), y]), x, y)
    assert dx.dtype == dy.dtype == np.int32 and dx.tolist() == [2, 2] and dy.tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        (lambda m, x: m.onnx.reducesum([x]), [1, 1, 1]),
        (lambda m, x: m.graphcore.reducemedian([x])[0], [0, 0, 1]),
        (lambda m, x: m.onnx.mul([x, x]), [2, 10, 6]),
        (lambda m, x: m.onnx.concat([x, x], 0), [2, 2, 2]),
        (lambda m, x: m.onnx.neg([x]), [-1, -1, -1]),
        (lambda m, x: m.graphcore.reshape(x, [1, 3]), [1, 1, 1]),
        (lambda m, x: m.onnx.gather([x, m.onnx.constant(np.array([1], np.int32))]), [0, 1, 0]),
        (lambda m, x: m.onnx.expand([x, m.onnx.constant(np.array([2, 3]))]), [2, 2, 2]),
        (lambda m, x: m.onnx.tile([x, m.onnx.constant(np.array([3]))]), [3, 3, 3]),
        (lambda m, x: m.onnx.slice([x, m.onnx.constant(np.array([1])), m.onnx.constant(np.array([3]))]), [0, 1, 1]),
        (lambda m, x: m.onnx.pad([x], [1, 1]), [1, 1, 1]),
        (lambda m, x: m.onnx.split([x], 2, 0, [1, 2])[1], [0, 1, 1]),
        (lambda m, x: m.onnx.transpose([x]), [1, 1, 1]),
        (lambda m, x: m.onnx.where([m.onnx.constant(np.array([True, False, True])), x, x]), [1, 1, 1]),
        (lambda m, x: m.onnx.reducemax([x]), [0, 1, 0]),
        (lambda m, x: m.onnx.reduceprod([x]), [15, 3, 5]),
        (lambda m, x: m.onnx.reducesumsquare([x]), [2, 10, 6]),
        (lambda m, x: m.onnx.abs([x]), [1, 1, 1]),
        (lambda m, x: m.graphcore.reverse([x], [0]), [1, 1, 1]),
        (lambda m, x: m.graphcore.subsample([x], [2]), [1, 0, 1]),
        (lambda m, x: m.graphcore.sort([x])[0], [1, 1, 1]),
        (lambda m, x: m.graphcore.dynamicslice([x, m.onnx.constant(np.array([2], np.uint32))], [0], [1]), [0, 0, 1]),
        (lambda m, x: m.graphcore.scatterreduce([x, m.onnx.constant(np.array([0, 0, 1], np.int32))], 2, 0), [1, 1, 1]),
    ],
)
def test_gradients_of_integers_through(operator, expected):
    m = Model()
    x = m.input(np.array([1, 5, 3], np.int32))
    (dx,) = m.gradients(operator(m, x), x)
    assert dx.dtype == np.int32 and dx.ravel().tolist() == expected


@pytest.mark.parametrize("end", ["cast", "detach"])
def test_what_ends_a_path(end):
    m = Model()
    x = m.input(np.array([1, 2], np.int32 if end == "cast" else np.float32))
    w = m.builder.addInitializedInputTensor(np.array([3, 4], np.float32))
    y = m.onnx.cast([x], "FLOAT") if end == "cast" else m.graphcore.detach([x])
    with pytest.raises(popart.popart_exception, match="Gradient___input"):
        m.gradients(m.onnx.mul([y, w]), x)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("columns", [1, 3, 7, 33, 64])
def test_a_softmax_gradient_is_zero_where_mathematics_says_so(dtype, columns):
    rng = np.random.default_rng(columns)
    m = Model()
    x = m.input(rng.normal(size=(5, columns)).astype(dtype))
    factor = m.input(np.full((5, columns), 2.7, dtype))  # the same for all classes
    (dx,) = m.gradients(m.onnx.mul([m.onnx.softmax([x]), factor]), x)
    assert not dx.any()


def test_a_softmax_gradient_keeps_small_parts():
    logits = np.array([[-20, 0, 1], [0, 20, 1]], np.float32)
    m = Model()
    x, labels = m.input(logits), m.input(np.array([0, 0], np.int32))
    y = m.graphcore.nllloss([m.onnx.softmax([x]), labels], popart.ReductionType.Sum)
    off = popart.Patterns().enablePattern("SoftmaxGradDirect", False).enablePattern("NlllWithSoftmaxGradDirect", False)
    (dx,) = m.gradients(y, x, patterns=off)
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    np.testing.assert_allclose(dx, p - np.eye(3)[[0, 0]], rtol=1e-4, atol=1e-6)


# ---- the log


def test_module_ir_shows_the_operations_at_trace(capfd):
    m = Model()
    y = m.onnx.relu([m.onnx.matmul([m.input(values(2, 2)), m.builder.addInitializedInputTensor(values(2, 2))])])
    logger = popart.getLogger("ir")
    try:
        logger.setLevel("TRACE")
        m.run(y)
    finally:
        logger.setLevel("WARN")
    lines = [line for line in capfd.readouterr().err.splitlines() if "popart:ir" in line]
    assert any("MatMul" in line for line in lines) and any("Relu" in line for line in lines)
    m.run(y)
    assert "MatMul" not in capfd.readouterr().err
