"""`Gradient` of ai.onnx.preview.training: models that hold their own derivatives, beside PyTorch and differences."""

import itertools

import numpy as np
import popart
import popart.backend
import pytest
import torch

from onnx import TensorProto, helper, numpy_helper
from tests.python.popart.training_runs import ready, training_session

RNG = np.random.default_rng(11)
DOMAIN = "ai.onnx.preview.training"
STEP = 1e-5
node = helper.make_node


def normal(*shape):
    return RNG.standard_normal(shape)


def gradient(inputs, outputs, xs, y, zs=()):
    more = {"zs": list(zs)} if zs else {}
    return node("Gradient", inputs, outputs, domain=DOMAIN, xs=list(xs), y=y, **more)


def model(nodes, inputs, outputs, initializers=(), opset=18, functions=()):
    """A model; `inputs`: arrays by name, `initializers` as well; outputs have no declared type."""
    values = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(np.asarray(a).dtype), np.shape(a))
        for n, a in inputs.items()
    ]
    results = [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in outputs]
    for result in results:
        result.ClearField("type")
    stored = [numpy_helper.from_array(np.asarray(a), n) for n, a in dict(initializers).items()]
    graph = helper.make_graph(nodes, "derivatives", values, results, stored)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)]
    opsets += [helper.make_opsetid("ai.graphcore", 1)] + [helper.make_opsetid("own", 1)] * bool(functions)
    return helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=9)


def run(nodes, inputs, outputs, *args, **more):
    rep = popart.backend.prepare(model(nodes, inputs, outputs, *args, **more))
    return [np.asarray(y) for y in rep.run([np.asarray(a) for a in inputs.values()])]


# ---- derivatives of any order

CUBE = [node("Mul", ["x", "x"], ["square"]), node("Mul", ["square", "x"], ["y"])]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_derivatives_of_a_cube(dtype):
    names = ["y", "first", "second", "third", "fourth"]
    nodes = CUBE + [gradient(["x"], [b], ["x"], a) for a, b in itertools.pairwise(names)]
    got = run(nodes, {"x": dtype(1.5)}, names)
    np.testing.assert_allclose(got, [1.5**3, 3 * 1.5**2, 6 * 1.5, 6, 0], rtol=1e-3)
    assert all(y.dtype == dtype for y in got)


def test_nodes_may_stand_before_what_they_differentiate():
    got = run([gradient(["x"], ["first"], ["x"], "y"), *CUBE], {"x": np.float32(2)}, ["first"])
    np.testing.assert_allclose(got, [12])


def test_a_result_of_several_elements_counts_with_its_sum():
    x, z = normal(3, 4), normal(4)
    nodes = [node("Mul", ["x", "z"], ["p"]), node("Sin", ["p"], ["y"]), gradient(["x", "z"], ["dx", "dz"], "xz", "y")]
    dx, dz = run(nodes, {"x": x, "z": z}, ["dx", "dz"])
    np.testing.assert_allclose(dx, np.cos(x * z) * z, rtol=1e-9)
    np.testing.assert_allclose(dz, (np.cos(x * z) * x).sum(0), rtol=1e-9)


def test_values_stand_for_the_tensors_that_are_named():
    """The derivative is taken where the inputs of the node say, not where the graph computed y; shapes may differ."""
    nodes = [
        node("Mul", ["x", "z"], ["p"]),
        node("Mul", ["p", "x"], ["y"]),
        gradient(["a", "b"], ["d"], ["x"], "y", ["z"]),
    ]
    a, b = normal(2, 3), normal(3)
    y, d = run(nodes, {"x": normal(), "z": normal(), "a": a, "b": b}, ["y", "d"])
    assert y.shape == ()
    np.testing.assert_allclose(d, 2 * a * b, rtol=1e-9)


def test_an_inner_tensor_may_be_a_variable():
    """With respect to p = x x, which is held apart from x."""
    nodes = [
        node("Mul", ["x", "x"], ["p"]),
        node("Mul", ["p", "x"], ["y"]),
        gradient(["p", "x"], ["dp", "dx"], ["p", "x"], "y"),
    ]
    np.testing.assert_allclose(run(nodes, {"x": np.float32(3)}, ["dp", "dx"]), [3, 9])


def test_what_y_does_not_depend_on_has_the_gradient_zero():
    nodes = [
        *CUBE,
        gradient(["x", "other"], ["dx", "dother"], ["x", "other"], "y"),
        gradient(["x", "other"], ["own", ""], ["x", "other"], "x"),
    ]
    dx, dother, own = run(nodes, {"x": np.float32(2), "other": normal(2, 3)}, ["dx", "dother", "own"])
    np.testing.assert_array_equal(dother, np.zeros((2, 3)))
    np.testing.assert_array_equal([dx, own], [12, 1])


# ---- where it may stand


def test_in_a_function():
    function = helper.make_function(
        "own",
        "Slope",
        ["x"],
        ["d"],
        [node("Sin", ["x"], ["y"]), gradient(["x"], ["d"], ["x"], "y")],
        [helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, 1)],
    )
    x = normal(5)
    got = run([node("Slope", ["v"], ["d"], domain="own")], {"v": x}, ["d"], functions=[function])
    np.testing.assert_allclose(got[0], np.cos(x), rtol=1e-9)


def value(name):
    info = helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None)
    info.ClearField("type")
    return info


@pytest.mark.parametrize("condition", [True, False])
def test_in_a_branch(condition):
    """The branch reads x and w from around it."""
    own = [node("Mul", ["x", "w"], ["p"]), node("Mul", ["p", "x"], ["y"]), gradient(["x"], ["d"], ["x"], "y")]
    yes = helper.make_graph(own, "yes", [], [value("d")])
    no = helper.make_graph([node("Neg", ["x"], ["n"])], "no", [], [value("n")])
    nodes = [node("If", ["c"], ["r"], then_branch=yes, else_branch=no)]
    x, w = normal(3), normal(3)
    (got,) = run(nodes, {"c": np.array(condition), "x": x}, ["r"], {"w": w})
    np.testing.assert_allclose(got, 2 * w * x if condition else -x, rtol=1e-9)


def test_newtons_method_in_a_loop():
    """The root of x³ = a by five steps, each with the slope at its own x."""
    body = helper.make_graph(
        [
            node("Mul", ["x", "x"], ["s"]),
            node("Mul", ["s", "x"], ["cube"]),
            node("Sub", ["cube", "a"], ["y"]),
            gradient(["x"], ["slope"], ["x"], "y"),
            node("Div", ["y", "slope"], ["step"]),
            node("Sub", ["x", "step"], ["next"]),
            node("Identity", ["go"], ["going"]),
        ],
        "newton",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("x", TensorProto.DOUBLE, []),
        ],
        [value("going"), value("next")],
    )
    nodes = [node("Loop", ["trips", "", "start"], ["root"], body=body)]
    (root,) = run(nodes, {"a": np.float64(5)}, ["root"], {"trips": np.int64(6), "start": np.float64(2)})
    np.testing.assert_allclose(root, 5 ** (1 / 3), rtol=1e-9)


def test_through_a_loop_and_a_branch():
    """One branch gives x w³ by a loop that carries x, the other one -x."""
    body = helper.make_graph(
        [node("Mul", ["v", "w"], ["next"]), node("Identity", ["go"], ["going"])],
        "power",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.DOUBLE, []),
        ],
        [value("going"), value("next")],
    )
    yes = helper.make_graph([node("Loop", ["trips", "", "x"], ["p"], body=body)], "yes", [], [value("p")])
    no = helper.make_graph([node("Neg", ["x"], ["n"])], "no", [], [value("n")])
    nodes = [
        node("If", ["c"], ["y"], then_branch=yes, else_branch=no),
        gradient(["x", "w"], ["dx", "dw"], ["x", "w"], "y", []),
    ]
    x, w = 1.7, 0.6
    for condition, expected in ((True, (w**3, 3 * x * w**2)), (False, (-1, 0))):
        inputs = {"c": np.array(condition), "x": np.float64(x), "w": np.float64(w)}
        np.testing.assert_allclose(run(nodes, inputs, ["dx", "dw"], {"trips": np.int64(3)}), expected, rtol=1e-9)


def test_the_builder_knows_the_shapes():
    nodes = [*CUBE, gradient(["x"], ["d"], ["x"], "y")]
    builder = popart.Builder(model(nodes, {"x": normal(2, 3).astype(np.float32)}, ["d"]).SerializeToString())
    assert builder.getTensorShape("d") == [2, 3]
    assert any("preview.training.Gradient" in str(name) for name in popart.getSupportedOperations(False))


# ---- second derivatives of operators


def second(nodes, initializers=None, opset=18):
    """Nodes for d = dy/dx of y = sum(r r), and e = d(sum(d d))/dx, where `nodes` make r."""
    made = [
        *nodes,
        node("ReduceSumSquare", ["r"], ["y"], keepdims=0),
        gradient(["x"], ["d"], ["x"], "y"),
        node("ReduceSumSquare", ["d"], ["s"], keepdims=0),
        gradient(["x"], ["e"], ["x"], "s"),
    ]
    return made, initializers or {}, opset


def channels(count):
    """Parameters of normalisations of `count` channels."""
    return {"w": normal(count), "b": normal(count), "m": normal(count), "v": normal(count) ** 2 + 0.5}


LABELS = np.array([[0, 3], [1, 2], [0, 1]])
ROWS = {
    "Identity": ((3, 4), second([node("Identity", ["x"], ["i"]), node("Sin", ["i"], ["r"])])),
    "MatMul": ((2, 3, 4), second([node("MatMul", ["x", "w"], ["m"]), node("Tanh", ["m"], ["r"])], {"w": normal(4, 5)})),
    "MatMul of x by x": ((3, 4), second([node("Transpose", ["x"], ["t"]), node("MatMul", ["x", "t"], ["r"])])),
    "MatMul of vectors": ((4,), second([node("MatMul", ["x", "x"], ["m"]), node("Exp", ["m"], ["r"])])),
    "Gemm": ((3, 4), second([node("Gemm", ["x", "w", "b"], ["m"], transB=1), node("Sigmoid", ["m"], ["r"])],
                            {"w": normal(5, 4), "b": normal(5)})),
    "Softmax": ((2, 3, 4), second([node("Softmax", ["x"], ["r"], axis=1)])),
    "Softmax of a matrix": ((2, 3, 4), second([node("Softmax", ["x"], ["r"], axis=1)], opset=11)),
    "LogSoftmax": ((2, 3, 4), second([node("LogSoftmax", ["x"], ["r"], axis=-1)])),
    "attention": ((5, 4), second([
        node("Transpose", ["x"], ["t"]), node("MatMul", ["x", "t"], ["m"]), node("Softmax", ["m"], ["p"]),
        node("MatMul", ["p", "x"], ["r"])])),
    "Gather": ((4, 3), second([node("Gather", ["x", "i"], ["g"], axis=1), node("Sin", ["g"], ["r"])],
                              {"i": np.array([[0, 2], [2, -1]])})),
    "GatherND": ((4, 3), second([node("GatherND", ["x", "i"], ["g"]), node("Sin", ["g"], ["r"])],
                                {"i": np.array([[0, 2], [3, 1], [3, 1]])})),
    "GatherND in batches": ((2, 4, 3), second([node("GatherND", ["x", "i"], ["g"], batch_dims=1),
                                               node("Sin", ["g"], ["r"])], {"i": np.array([[1], [3]])})),
    "Conv": ((2, 4, 7, 6), second([
        node("Conv", ["x", "w", "b"], ["c"], strides=[2, 1], pads=[1, 0, 0, 2], dilations=[1, 2], group=2),
        node("Tanh", ["c"], ["r"])], {"w": normal(6, 2, 2, 3), "b": normal(6)})),
    "Conv of x by x": ((2, 2, 3), second([node("Conv", ["x", "x"], ["c"], pads=[1, 1]), node("Sin", ["c"], ["r"])])),
    "ConvTranspose": ((1, 3, 4), second([
        node("ConvTranspose", ["x", "w"], ["c"], strides=[2], output_padding=[1]), node("Tanh", ["c"], ["r"])],
        {"w": normal(3, 2, 3)})),
    "AveragePool": ((1, 2, 5, 5), second([
        node("AveragePool", ["x"], ["a"], kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1]),
        node("Sin", ["a"], ["r"])])),
    "AveragePool with its pads": ((1, 2, 6), second([
        node("AveragePool", ["x"], ["a"], kernel_shape=[3], pads=[1, 1], count_include_pad=1),
        node("Exp", ["a"], ["r"])])),
    "LayerNormalization": ((2, 3, 4), second([node("LayerNormalization", ["x", "w", "b"], ["r"], axis=1)],
                                             {"w": normal(3, 4), "b": normal(3, 4)})),
    "LayerNormalization with one scale": ((3, 5), second([node("LayerNormalization", ["x", "w"], ["r"])],
                                                         {"w": normal(5)})),
    "RMSNormalization": ((3, 5), second([node("RMSNormalization", ["x", "w"], ["r"])], {"w": normal(5)}, opset=23)),
    "RMSNormalization of ones": ((2, 1), second([node("RMSNormalization", ["x", "w"], ["r"])], {"w": normal(1)}, 23)),
    "BatchNormalization": ((2, 3, 4), second([node("BatchNormalization", ["x", "w", "b", "m", "v"], ["n"]),
                                              node("Sin", ["n"], ["r"])], channels(3))),
    "BatchNormalization in training": ((2, 3, 4, 2), second([
        node("BatchNormalization", ["x", "w", "b", "m", "v"], ["n", "rm", "rv"], training_mode=1),
        node("Sin", ["n"], ["r"])], channels(3))),
    "BatchNormalization of a matrix": ((5, 3), second([
        node("BatchNormalization", ["x", "w", "b", "m", "v"], ["n", "rm", "rv"], training_mode=1, epsilon=0.1),
        node("Exp", ["n"], ["r"])], channels(3))),
    "InstanceNormalization": ((2, 3, 5), second([node("InstanceNormalization", ["x", "w", "b"], ["n"]),
                                                 node("Sin", ["n"], ["r"])], channels(3))),
    "GroupNormalization": ((2, 6, 2, 3), second([
        node("GroupNormalization", ["x", "w", "b"], ["n"], num_groups=2, epsilon=0.01), node("Sin", ["n"], ["r"])],
        channels(6), opset=21)),
    "LRN": ((2, 5, 2, 3), second([node("LRN", ["x"], ["r"], size=3, alpha=0.7, beta=0.6, bias=1.5)])),
    "LRN of an even number of channels": ((2, 5, 3), second([node("LRN", ["x"], ["r"], size=4, alpha=2.0)])),
    "LRN wider than the channels": ((2, 3), second([node("LRN", ["x"], ["r"], size=12, alpha=2.0, beta=1.0)])),
    "MaxPool": ((2, 2, 7, 6), second([
        node("MaxPool", ["x"], ["m"], kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 0, 1], dilations=[1, 2]),
        node("Sin", ["m"], ["r"])])),
    "MaxPool wider than it moves": ((1, 2, 8), second([
        node("MaxPool", ["x"], ["m"], kernel_shape=[4], ceil_mode=1, strides=[3]), node("Exp", ["m"], ["r"])])),
    "GlobalMaxPool": ((2, 3, 4, 2), second([node("GlobalMaxPool", ["x"], ["m"]), node("Sin", ["m"], ["r"])])),
    "LpPool": ((2, 2, 6, 5), second([
        node("LpPool", ["x"], ["m"], kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 0, 1]),
        node("Sin", ["m"], ["r"])])),
    "LpPool with p = 1": ((2, 2, 6), second([node("LpPool", ["x"], ["m"], kernel_shape=[3], p=1),
                                             node("Sin", ["m"], ["r"])])),
    "LpPool with p = 3": ((2, 2, 7), second([
        node("LpPool", ["x"], ["m"], kernel_shape=[2], p=3, strides=[2], ceil_mode=1, dilations=[2]),
        node("Sin", ["m"], ["r"])])),
    "LpPool with p = 5": ((2, 2, 6), second([node("LpPool", ["x"], ["m"], kernel_shape=[3], p=5),
                                             node("Sin", ["m"], ["r"])])),
    "GlobalLpPool": ((2, 3, 4, 2), second([node("GlobalLpPool", ["x"], ["m"], p=3), node("Sin", ["m"], ["r"])])),
    "GlobalLpPool of a matrix": ((2, 3), second([node("GlobalLpPool", ["x"], ["m"]), node("Sin", ["m"], ["r"])])),
    "ReduceProd": ((3, 5, 2), second([node("ReduceProd", ["x"], ["r"], axes=[1])], opset=17)),
    "ReduceProd over several axes": ((2, 3, 3), second([node("ReduceProd", ["x"], ["r"], axes=[0, 2], keepdims=0)],
                                                       opset=17)),
    "ReduceProd of all": ((7,), second([node("ReduceProd", ["x"], ["r"], keepdims=0)])),
    "ReduceProd of one": ((3, 1), second([node("ReduceProd", ["x"], ["p"], axes=[1]), node("Sin", ["p"], ["r"])],
                                         opset=17)),
    "NegativeLogLikelihoodLoss": ((3, 4, 2), second(
        [node("Sin", ["x"], ["l"]), node("NegativeLogLikelihoodLoss", ["l", "t", "w"], ["r"], ignore_index=1)],
        {"t": LABELS, "w": normal(4) ** 2})),
    "SoftmaxCrossEntropyLoss": ((3, 4, 2), second(
        [node("SoftmaxCrossEntropyLoss", ["x", "t", "w"], ["r"], reduction="none")],
        {"t": LABELS, "w": normal(4) ** 2})),
    "SoftmaxCrossEntropyLoss that ignores": ((3, 4, 2), second(
        [node("SoftmaxCrossEntropyLoss", ["x", "t"], ["r"], ignore_index=1)], {"t": LABELS})),
    "nllloss": ((5, 4), second([
        node("Softmax", ["x"], ["p"]), node("Nll", ["p", "t"], ["r"], domain="ai.graphcore", ignoreIndex=1)],
        {"t": np.array([3, 0, 1, 2, 0])})),
    "nllloss of each sample": ((5, 4), second([
        node("LogSoftmax", ["x"], ["p"]),
        node("Nll", ["p", "t"], ["r"], domain="ai.graphcore", reduction="NoReduction", inputIsLogProbability=1)],
        {"t": np.array([3, 0, 1, 2, 0])})),
    "LSTM": ((3, 2, 2), second([node("LSTM", ["x", "w", "u"], ["r"], hidden_size=3)],
                               {"w": normal(1, 12, 2), "u": normal(1, 12, 3)})),
    "Einsum": ((3, 4), second([node("Einsum", ["x", "x"], ["r"], equation="ij,kj->ik")])),
    "reflected pads": ((4, 3), second([node("Pad", ["x", "p"], ["q"], mode="reflect"), node("Sin", ["q"], ["r"])],
                                      {"p": np.array([1, 0, 0, 2])})),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_second_derivatives(row):
    shape, (nodes, initializers, opset) = ROWS[row]
    x = normal(*shape)
    rep = popart.backend.prepare(model(nodes, {"x": x}, ["d", "e"], initializers, opset))
    d, e = rep.run([x])
    for _ in range(3):
        direction = normal(*shape)
        ends = [float((rep.run([x + s * STEP * direction])[0] ** 2).sum()) for s in (1, -1)]
        slope = (ends[0] - ends[1]) / (2 * STEP)
        assert abs(float((e * direction).sum()) - slope) <= 1e-6 * max(1.0, abs(slope), float(np.abs(e).max()))
    assert d.shape == e.shape == shape and np.abs(e).max() > 0


def group_norm(x, w, b):
    return torch.nn.functional.group_norm(x, 2, w, b, 1e-5)


BESIDE_PYTORCH = {
    "BatchNormalization": (
        node("BatchNormalization", ["x", "w", "b", "m", "v"], ["n", "rm", "rv"], training_mode=1),
        lambda x, w, b: torch.nn.functional.batch_norm(x, None, None, w, b, True),
    ),
    "GroupNormalization": (node("GroupNormalization", ["x", "w", "b"], ["n"], num_groups=2), group_norm),
    "InstanceNormalization": (
        node("InstanceNormalization", ["x", "w", "b"], ["n"]),
        lambda x, w, b: torch.nn.functional.instance_norm(x, None, None, w, b),
    ),
    "MaxPool": (
        node("MaxPool", ["s"], ["n"], kernel_shape=[3], strides=[2], pads=[1, 1]),
        lambda x, w, b: torch.nn.functional.max_pool1d(x * w[:, None] + b[:, None], 3, 2, 1),
    ),
    "GlobalMaxPool": (
        node("GlobalMaxPool", ["s"], ["n"]),
        lambda x, w, b: torch.nn.functional.adaptive_max_pool1d(x * w[:, None] + b[:, None], 1),
    ),
    "LpPool": (
        node("LpPool", ["s"], ["n"], kernel_shape=[3], strides=[2], p=3),
        lambda x, w, b: torch.nn.functional.lp_pool1d((x * w[:, None] + b[:, None]).abs(), 3, 3, 2),
    ),
    "ReduceProd": (
        node("ReduceProd", ["s", "last"], ["n"]),
        lambda x, w, b: (x * w[:, None] + b[:, None]).prod(2, keepdim=True),
    ),
    "LRN": (
        node("LRN", ["s"], ["n"], size=3, alpha=0.875, beta=0.75, bias=1.5),
        lambda x, w, b: torch.nn.functional.local_response_norm(x * w[:, None] + b[:, None], 3, 0.875, 0.75, 1.5),
    ),
}


@pytest.mark.parametrize("row", BESIDE_PYTORCH)
def test_derivatives_of_a_penalty_by_all_operands(row):
    """Of s = sum(d²), d = dy/dx, y = sum(sin(n) c): by x, and by scale and bias of the channels."""
    operator, reference = BESIDE_PYTORCH[row]
    x, parameters = normal(2, 4, 7), channels(4)
    constants = {**parameters, "column": np.array([1]), "last": np.array([2])}
    tensors = [torch.tensor(a, requires_grad=True) for a in (x, parameters["w"], parameters["b"])]
    n = reference(*tensors)
    c = normal(*n.shape)
    nodes = [
        node("Unsqueeze", ["w", "column"], ["wide"]),
        node("Unsqueeze", ["b", "column"], ["bias"]),
        node("Mul", ["x", "wide"], ["scaled"]),
        node("Add", ["scaled", "bias"], ["s"]),
        operator,
        node("Sin", ["n"], ["sine"]),
        node("Mul", ["sine", "c"], ["y"]),
        gradient(["x", "w", "b", "c"], ["d"], ["x"], "y", ["w", "b", "c"]),
        node("Mul", ["d", "d"], ["d2"]),
        node("ReduceSum", ["d2"], ["penalty"], keepdims=0),
        gradient(["x", "w", "b", "c"], ["dx", "dw", "db"], ["x", "w", "b"], "penalty", ["c"]),
    ]
    got = run(nodes, {"x": x}, ["d", "dx", "dw", "db"], {**constants, "c": c}, 21)
    (d,) = torch.autograd.grad((torch.sin(n) * torch.tensor(c)).sum(), tensors[0], create_graph=True)
    expected = [d, *torch.autograd.grad(d.pow(2).sum(), tensors)]
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b.detach().numpy(), rtol=1e-7, atol=1e-9)


def test_second_derivatives_of_groups_of_channels_that_are_apart():
    """An option of the session says which channels belong together, and holds for every derivative."""
    nodes, initializers, opset = second(
        [node("GroupNormalization", ["x", "w", "b"], ["n"], num_groups=2), node("Sin", ["n"], ["r"])],
        channels(6),
        opset=21,
    )
    x = normal(2, 6, 4)
    options = popart.SessionOptions()
    options.groupNormStridedChannelGrouping = True
    session = ready(
        popart.InferenceSession(
            fnModel=model(nodes, {"x": x}, ["r", "d", "e"], initializers, opset).SerializeToString(),
            dataFlow=popart.DataFlow(1, ["r", "d", "e"]),
            userOptions=options,
            deviceInfo=popart.DeviceManager().createCpuDevice(),
        )
    )
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": x}, anchors))
    tx = torch.tensor(x, requires_grad=True)
    w, b = (torch.tensor(initializers[name]) for name in "wb")
    order = [0, 2, 4, 1, 3, 5]
    normed = torch.nn.functional.group_norm(tx[:, order], 2, eps=1e-5)[:, np.argsort(order)]
    r = torch.sin(normed * w[:, None] + b[:, None])
    (d,) = torch.autograd.grad(r.pow(2).sum(), tx, create_graph=True)
    (e,) = torch.autograd.grad(d.pow(2).sum(), tx)
    for name, expected in (("r", r), ("d", d), ("e", e)):
        np.testing.assert_allclose(anchors[name], expected.detach().numpy(), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("zeros", [1, 2, 3])
def test_derivatives_of_products_with_zeros(zeros):
    """No division: every derivative of a product is one of the elements that are left."""
    x = normal(2, 6)
    x[:, :zeros] = 0
    names = ["y", "d1", "d2", "d3"]
    nodes = [node("ReduceProd", ["x"], ["y"], keepdims=0, axes=[1])]
    nodes += [gradient(["x"], [b], ["x"], a) for a, b in itertools.pairwise(names)]
    got = run(nodes, {"x": x}, names, opset=17)
    tx = torch.tensor(x, requires_grad=True)
    expected = [tx.prod(1)]
    for _ in range(3):
        expected += torch.autograd.grad(expected[-1].sum(), tx, create_graph=True)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b.detach().numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("where", ["here", "in a branch", "in a loop"])
def test_derivatives_of_dropout_have_one_mask(where):
    """With r = m x: d = 2 m² x and e = 8 m⁴ x, each with a mask of its own that all of its factors share."""
    drop = node("Dropout", ["x", "ratio", "yes"], ["r"])
    if where == "in a branch":
        yes = helper.make_graph([node("Dropout", ["x", "ratio", "yes"], ["p"])], "yes", [], [value("p")])
        no = helper.make_graph([node("Neg", ["x"], ["q"])], "no", [], [value("q")])
        drop = node("If", ["given"], ["r"], then_branch=yes, else_branch=no)
    if where == "in a loop":
        inputs = [("i", TensorProto.INT64, []), ("go", TensorProto.BOOL, []), ("v", TensorProto.DOUBLE, [40, 5])]
        body = helper.make_graph(
            [node("Dropout", ["v", "ratio", "yes"], ["p"]), node("Identity", ["go"], ["going"])],
            "body",
            [helper.make_tensor_value_info(*i) for i in inputs],
            [value("going"), value("p")],
        )
        drop = node("Loop", ["trips", "", "x"], ["r"], body=body)
    constants = {"ratio": np.array(0.4, np.float32), "yes": np.array(True), "trips": np.array(1)}
    nodes, initializers, opset = second([drop], constants)
    if where == "in a branch":
        for n in nodes:
            if n.op_type == "Gradient":
                n.input.append("given")
                n.attribute.append(helper.make_attribute("zs", ["given"]))
    x = normal(40, 5)
    d, e = run(nodes, {"x": x, "given": np.array(True)}, ["d", "e"], initializers, opset)
    for got, whole in ((d, 2 / 0.6**2 * x), (e, 8 / 0.6**4 * x)):
        kept = got != 0
        np.testing.assert_allclose(got[kept], whole[kept], rtol=1e-6)
        assert 0.45 < kept.mean() < 0.75  # of two masks, 0.36


@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("operator", ["BatchNormalization", "LRN", "ReduceProd", "MaxPool", "LpPool"])
def test_second_derivatives_of_no_samples(operator, count):
    """What works along other axes has nothing to do; a product of nothing is 1 and moves with nothing."""
    made = {
        "BatchNormalization": node("BatchNormalization", ["x", "w", "b", "m", "v"], ["r", "rm", "rv"], training_mode=1),
        "LRN": node("LRN", ["x"], ["r"], size=3),
        "ReduceProd": node("ReduceProd", ["x"], ["r"], axes=[0]),
        "MaxPool": node("MaxPool", ["x"], ["r"], kernel_shape=[2]),
        "LpPool": node("LpPool", ["x"], ["r"], kernel_shape=[2]),
    }[operator]
    nodes, initializers, opset = second([made], channels(3), 17)
    shape = (count, 3, 4)
    d, e = run(nodes, {"x": normal(*shape)}, ["d", "e"], initializers, opset)
    assert d.shape == e.shape == shape
    assert np.isfinite(e).all()


def test_what_has_no_second_derivative_is_refused_by_name():
    """The positions of the boxes come from the data, and the gradient by them is built once."""
    nodes, initializers, opset = second(
        [node("MaxRoiPool", ["x", "boxes"], ["r"], pooled_shape=[2, 2])], {"boxes": np.array([[0.0, 0, 0, 3, 3]])}
    )
    with pytest.raises(popart.popart_exception, match=r"Gradient.*MaxRoiPoolGrad.*no gradient can be taken"):
        run(nodes, {"x": normal(1, 2, 6, 6)}, ["e"], initializers, opset)


# ---- training


def test_a_gradient_penalty_trains_as_in_pytorch():
    """Loss: the mean of (|d critic / d x| - 1)² plus the mean of the critic; two updates of two weights."""
    x, w1, w2 = normal(5, 3), normal(3, 4), normal(4, 1)
    nodes = [
        node("MatMul", ["x", "w1"], ["h1"]),
        node("Tanh", ["h1"], ["h"]),
        node("MatMul", ["h", "w2"], ["critic"]),
        gradient(["x", "w1", "w2"], ["dx"], ["x"], "critic", ["w1", "w2"]),
        node("Mul", ["dx", "dx"], ["squares"]),
        node("ReduceSum", ["squares", "rows"], ["sums"], keepdims=0),
        node("Sqrt", ["sums"], ["norms"]),
        node("Sub", ["norms", "one"], ["off"]),
        node("Mul", ["off", "off"], ["penalties"]),
        node("ReduceMean", ["penalties"], ["penalty"], keepdims=0),
        node("ReduceMean", ["critic"], ["mean"], keepdims=0),
        node("Add", ["penalty", "mean"], ["loss"]),
    ]
    arrays = {"w1": w1.astype(np.float32), "w2": w2.astype(np.float32)}
    given = {"x": x.astype(np.float32)}
    constants = {"rows": np.array([1]), "one": np.array(1, np.int64)}
    nodes.insert(0, node("Cast", ["one"], ["one_float"], to=TensorProto.FLOAT))
    nodes[8] = node("Sub", ["norms", "one_float"], ["off"])
    proto = model(nodes, given, ["loss"], {**arrays, **constants}).SerializeToString()
    session = ready(training_session(proto, "loss", popart.SGD({"defaultLearningRate": (0.1, False)})))
    anchors = session.initAnchorArrays()
    tx = torch.tensor(given["x"], requires_grad=True)
    tw = [torch.tensor(a, requires_grad=True) for a in arrays.values()]
    optimizer = torch.optim.SGD(tw, 0.1)
    for _ in range(3):
        session.run(popart.PyStepIO(given, anchors))
        critic = torch.tanh(tx @ tw[0]) @ tw[1]
        (dx,) = torch.autograd.grad(critic.sum(), tx, create_graph=True)
        loss = ((dx.pow(2).sum(1).sqrt() - 1) ** 2).mean() + critic.mean()
        np.testing.assert_allclose(anchors["loss"], loss.detach().numpy(), rtol=1e-4)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    session.weightsToHost()
    got = {n: np.empty_like(a) for n, a in arrays.items()}
    session.readWeights(popart.PyWeightsIO(got))
    for name, weight in zip(got, tw, strict=True):
        np.testing.assert_allclose(got[name], weight.detach().numpy(), rtol=1e-4, atol=1e-5)


# ---- refusals

X = {"x": np.float32(2), "k": np.int64(3)}


@pytest.mark.parametrize(
    ("damaged", "match"),
    [
        (node("Gradient", ["x"], ["d"], domain=DOMAIN, y="y"), "xs and y must name tensors"),
        (node("Gradient", ["x"], ["d"], domain=DOMAIN, xs=["x"]), "xs and y must name tensors"),
        (gradient(["x", "x"], ["d"], ["x"], "y"), "got 2 inputs, expected 1"),
        (gradient(["x"], ["d"], ["x", "square"], "y"), "got 1 inputs, expected 2"),
        (gradient(["x"], ["d"], ["x"], "y", ["square"]), "got 1 inputs, expected 2"),
        (gradient(["x", "x"], ["d"], ["x", "x"], "y"), "must name different tensors"),
        (gradient(["x", "x"], ["d"], ["x"], "y", ["x"]), "must name different tensors"),
        (gradient(["x"], ["d", "more"], ["x"], "y"), "more outputs than xs"),
        (gradient(["x"], ["d"], ["x"], "nothing"), "no node of the graph makes tensor 'nothing'"),
        (gradient(["k"], ["d"], ["x"], "y"), "only floating-point tensors have gradients.*'x'"),
        (gradient(["x"], ["d"], ["x"], "whole"), "only floating-point tensors have gradients.*'whole'"),
        (gradient(["x"], ["d"], ["x"], "d"), "nested too deeply|too many nodes"),
        (gradient(["x", ""], ["d"], ["x"], "y", ["square"]), "got 1 inputs, expected 2"),
    ],
)
def test_refusals(damaged, match):
    nodes = [*CUBE, node("Add", ["k", "k"], ["whole"]), damaged]
    with pytest.raises(popart.popart_exception, match=match):
        run(nodes, X, ["d"])


def test_nodes_that_differentiate_each_other_end_in_an_error():
    """Each asks for the others' results, so that a graph of each would hold graphs of all."""
    count = 12
    nodes = [node("Sum", [f"d{i}" for i in range(count)], ["y"])]
    nodes += [gradient(["x"], [f"d{i}"], ["x"], "y") for i in range(count)]
    with pytest.raises(popart.popart_exception, match=r"nested too deeply|too many nodes"):
        run(nodes, {"x": np.float32(2)}, ["y"])
