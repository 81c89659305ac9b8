"""builder.aiOnnx speaks the operator set of the model; faults of nodes are told where they are added."""

import inspect

import numpy as np
import onnxruntime
import popart
import popart_core
import popxl
import pytest
from onnx.reference import ReferenceEvaluator

import onnx
from onnx import helper
from tests.inference import infer

NEWEST = popart_core._newestOnnxOpset()
FLOAT = onnx.TensorProto.FLOAT


def without_debug_information(proto):
    """The model for other runtimes, which refuse attributes that they do not know."""
    model = onnx.load_from_string(proto)
    for node in model.graph.node:
        for attribute in [a for a in node.attribute if a.name.startswith("__")]:
            node.attribute.remove(attribute)
    return model


def a_file(opset):
    """A model of one operator set with the output "logits"."""
    node = helper.make_node("Relu", ["x"], ["logits"])
    info = [helper.make_tensor_value_info(name, FLOAT, [2, 3]) for name in ("x", "logits")]
    graph = helper.make_graph([node], "g", info[:1], info[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return model.SerializeToString()


def test_a_new_builder_speaks_ten():
    builder = popart.Builder()
    assert builder.opset() == builder.aiOnnx.version == 10
    assert builder.opset("ai.graphcore") == 1
    assert isinstance(builder.aiOnnx, popart.AiOnnxOpset10)
    with pytest.raises(popart.popart_exception, match="no operator set of the domain 'nowhere'"):
        builder.opset("nowhere")


@pytest.mark.parametrize("opset", range(7, NEWEST + 1))
def test_a_file_is_continued_in_its_operator_set(opset):
    builder = popart.Builder(a_file(opset))
    assert builder.opset() == builder.aiOnnx.version == opset
    if opset < 13:
        result = builder.aiOnnx.reducesum(["logits"], axes=[1], keepdims=0)
    else:
        result = builder.aiOnnx.reducesum(["logits", builder.aiOnnx.constant(np.array([1], np.int64))], keepdims=0)
    parts = builder.aiOnnx.split(["logits"], 3, axis=1)
    builder.addOutputTensor(result)
    builder.addOutputTensor(parts[2])
    model = without_debug_information(builder.getModelProto())
    onnx.checker.check_model(model, full_check=True)
    x = np.array([[1, -2, 3], [4, 5, -6]], np.float32)
    wanted = ReferenceEvaluator(model).run([result, parts[2]], {"x": x})
    for ours, theirs in zip(infer(builder.getModelProto(), {"x": x}, [result, parts[2]]), wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.parametrize("opset", [12, 17, 21, NEWEST])
def test_methods_are_the_operators_of_the_set_with_their_attributes(opset):
    """The oracle is the schemas of the onnx package."""
    methods = popart.Builder(opsets={"ai.onnx": opset, "ai.graphcore": 1}).aiOnnx
    names = {"And": "logical_and", "Or": "logical_or", "Not": "logical_not", "Xor": "logical_xor", "If": "logical_if"}
    expected = set()
    for name, domain in {(s.name, s.domain) for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""}:
        try:
            schema = onnx.defs.get_schema(name, opset, domain)
        except onnx.defs.SchemaError:
            continue
        if schema.deprecated or schema.support_level != onnx.defs.OpSchema.SupportType.COMMON:
            continue
        method = names.get(name, name.lower())
        expected.add(method)
        if name == "Constant":
            continue
        parameters = inspect.signature(getattr(type(methods), method)).parameters
        skipped = {"args", "num_outputs", "debugContext"}
        kinds = (onnx.defs.OpSchema.AttrType.TYPE_PROTO, onnx.defs.OpSchema.AttrType.SPARSE_TENSOR)
        attributes = {key for key, a in schema.attributes.items() if a.type not in kinds}
        assert set(parameters) - skipped == attributes - skipped, name
        for key, attribute in schema.attributes.items():
            if key in parameters and key not in skipped:
                assert (parameters[key].default is inspect.Parameter.empty) == attribute.required, (name, key)
        text = getattr(methods, method).__doc__
        assert "Args:" in text and f"operator set {opset}" in text
    assert {n for n in dir(type(methods)) if not n.startswith("_")} - {"version"} == expected


def test_new_operators_give_one_id_or_a_list():
    builder = popart.Builder(opsets={"ai.onnx": 17, "ai.graphcore": 1})
    x, scale = builder.addInputTensor("FLOAT", [2, 3]), builder.addInputTensor("FLOAT", [3])
    assert isinstance(builder.aiOnnx.layernormalization([x, scale]), str)
    assert len(builder.aiOnnx.layernormalization([x, scale], num_outputs=3)) == 3
    assert len(builder.aiOnnx.dropout([x], 1)) == 1
    assert len(builder.aiOnnx.topk([x, builder.aiOnnx.constant(np.array([1], np.int64))])) == 2


def test_the_methods_of_newer_sets_compute():
    builder = popart.Builder(opsets={"ai.onnx": 20, "ai.graphcore": 1})
    x = builder.addInputTensor("FLOAT", [2, 3])
    names = [
        builder.aiOnnx.gelu([x], approximate="tanh"),
        builder.aiOnnx.softmax([x]),
        builder.aiOnnx.reducemean([x, builder.aiOnnx.constant(np.array([1], np.int64))], keepdims=0),
        builder.aiOnnx.cast([x], "DOUBLE"),
        builder.aiOnnx.trilu([x], upper=0),
    ]
    for name in names:
        builder.addOutputTensor(name)
    value = np.array([[1, -2, 3], [0.5, 0, -1]], np.float32)
    wanted = ReferenceEvaluator(without_debug_information(builder.getModelProto())).run(names, {x: value})
    for ours, theirs in zip(infer(builder.getModelProto(), {x: value}, names), wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_versions_that_do_not_exist_are_refused():
    builder = popart.Builder()
    for version in (5, NEWEST + 1):
        with pytest.raises(popart.popart_exception, match=f"got {version}, expected 6 to {NEWEST}"):
            builder.aiOnnxOpsetVersion(version)


# ---- faults at the call


def a_builder():
    builder = popart.Builder(opsets={"ai.onnx": 17, "ai.graphcore": 1})
    builder.addInputTensor("FLOAT", [2, 3], "x")
    builder.addInputTensor("FLOAT", [2, 3, 4, 4], "image")
    builder.addInputTensor("INT32", [2], "n")
    return builder


def loop_without_body(b):
    trips, keep = b.aiOnnx.constant(np.array(2, np.int64)), b.aiOnnx.constant(np.array(True))
    return b.aiOnnx.loop([trips, keep, "x"], 1, None)


FAULTS = {
    "product": (lambda b: b.aiOnnx.matmul(["x", "x"]), r"MatMul.*\[2, 3\]"),
    "sum": (lambda b: b.aiOnnx.add(["x", "n"]), "Add"),
    "concat": (lambda b: b.aiOnnx.concat(["x", "image"], axis=0), "Concat"),
    "softmax axis": (lambda b: b.aiOnnx.softmax(["x"], axis=7), "Softmax"),
    "transpose": (lambda b: b.aiOnnx.transpose(["x"], perm=[0, 1, 2]), "Transpose"),
    "gemm": (lambda b: b.aiOnnx.gemm(["x", "x"]), "Gemm"),
    "convolution": (lambda b: b.aiOnnx.conv(["image", "x"]), "Conv"),
    "types": (lambda b: b.aiOnnx.sqrt(["n"]), "Sqrt"),
    "graphcore": (lambda b: b.aiGraphcore.scaledadd(["x", "image"]), "ScaledAdd"),
    "attribute": (
        lambda b: b.customOp("Conv", 17, "ai.onnx", ["image", "image"], {"stride": [2, 2]}),
        "attribute 'stride' does not exist in version 17.*Nearest names: strides",
    ),
    "attribute of another version": (
        lambda b: b.customOp("ReduceSum", 17, "ai.onnx", ["x"], {"axes": [1]}),
        "ReduceSum: attribute 'axes' does not exist",
    ),
    "graphcore attribute": (
        lambda b: b.customOp("Nll", 1, "ai.graphcore", ["x", "n"], {"reductoin": "Sum"}),
        "attribute 'reductoin'.*Nearest names: reduction",
    ),
    "missing attribute": (lambda b: b.customOp("Cast", 17, "ai.onnx", ["x"], {}), "Cast: attribute 'to' is missing"),
    "loop": (loop_without_body, "Loop: attribute 'body' is missing"),
    "if": (lambda b: b.aiOnnx.logical_if(["x"], 1, None, None), r"If: attribute '(else|then)_branch' is missing"),
    "few outputs": (lambda b: b.customOp("TopK", 17, "ai.onnx", ["x", "n"], {}, 1), "too few outputs: got 1"),
    "many outputs": (lambda b: b.customOp("Relu", 17, "ai.onnx", ["x"], {}, 2), "too many outputs: got 2"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_faults_are_told_where_the_node_is_added(case):
    add, text = FAULTS[case]
    builder = a_builder()
    with pytest.raises(popart.popart_exception, match=text) as caught:
        add(builder)
    assert not isinstance(caught.value, popart.popart_internal_exception)
    nodes = onnx.load_from_string(builder.getModelProto()).graph.node
    assert all(node.op_type == "Constant" for node in nodes)
    assert builder.getTensorShape(builder.aiOnnx.relu(["x"])) == [2, 3]


def test_a_body_must_be_a_builder():
    with pytest.raises(TypeError, match="expected a builder from createSubgraphBuilder"):
        a_builder().aiOnnx.loop(["", "", "x"], 1, "body")


@pytest.mark.parametrize("given", [("trips", ""), ("", "keep"), ("trips", "keep")], ids=["count", "condition", "both"])
def test_loops_leave_out_count_or_condition(given):
    """In programs, and in files that a builder extends."""
    builder = popart.Builder(opsets={"ai.onnx": 18, "ai.graphcore": 1})
    x = builder.addInputTensor("FLOAT", [2], "x")
    body = builder.createSubgraphBuilder()
    step, keep, y = (body.addInputTensor(*i) for i in (("INT64", [], "i"), ("BOOL", [], "c"), ("FLOAT", [2], "y")))
    last = body.aiOnnx.constant(np.array(2, np.int64))
    body.addOutputTensor(body.aiOnnx.less([step, last]) if given[1] else body.aiOnnx.identity([keep]))
    body.addOutputTensor(body.aiOnnx.add([y, y]))
    values = {"trips": np.array(3, np.int64), "keep": np.array(True)}
    ids = [builder.aiOnnx.constant(values[name]) if name else "" for name in given]
    (result,) = builder.aiOnnx.loop([*ids, x], 1, body)
    builder.addOutputTensor(result)
    extended = popart.Builder(builder.getModelProto())
    proto = extended.getModelProto()
    session = onnxruntime.InferenceSession(proto, providers=["CPUExecutionProvider"])
    feeds = {"x": np.array([1.0, -2.0], np.float32)}
    np.testing.assert_array_equal(popart.load(proto)(feeds), session.run(None, feeds)[0])


# ---- operators of Python


def test_operators_of_python_are_nodes_of_a_builder_and_of_files():
    popxl.define_op(
        "Bent",
        lambda x, slope, names: np.where(x > 0, x, slope * x) + len(names),
        lambda g, x, slope, names: np.where(x > 0, g, slope * g),
        domain="tests.builder",
    )
    builder = popart.Builder(opsets={"ai.onnx": 17, "ai.graphcore": 1})
    weight = builder.addInitializedInputTensor(np.array([[1, -2, 4]], np.float32), "w")
    (y,) = builder.customOp("Bent", 1, "tests.builder", [weight], {"slope": 0.25, "names": ["a", "b"]})
    assert builder.getTensorShape(y) == [1, 3]
    loss = builder.aiGraphcore.identityloss([y], popart.ReductionType.Sum)
    gradient = popart.reservedGradientPrefix() + weight
    device = popart.DeviceManager().createCpuDevice()
    session = popart.TrainingSession(
        builder.getModelProto(), popart.DataFlow(1, [y, gradient]), loss, popart.ConstSGD(0.5), device
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({}, anchors))
    np.testing.assert_allclose(anchors[y], [[3, 1.5, 6]])
    np.testing.assert_allclose(anchors[gradient], [[1, 0.25, 1]])


@pytest.mark.parametrize("count", [1, 3])
def test_operators_of_users_with_another_number_of_outputs_are_refused(count):
    popxl.define_op("Halves", lambda x: [x / 2, x / 2], shapes=lambda x: [x, x], domain="tests.builder")
    builder = a_builder()
    with pytest.raises(popart.popart_exception, match=f"wrong number of outputs: got {count}, expected 2"):
        builder.customOp("Halves", 1, "tests.builder", ["x"], {}, count)
    assert len(builder.customOp("Halves", 1, "tests.builder", ["x"], {}, 2)) == 2


# ---- names


def test_only_names_that_resemble_are_suggested():
    builder = a_builder()
    with pytest.raises(popart.popart_exception) as caught:
        builder.aiOnnx.relu(["nowhere_near"])
    assert "Nearest" not in str(caught.value)
    with pytest.raises(popart.popart_exception, match=r"Nearest names: image"):
        builder.aiOnnx.relu(["imag"])
    with pytest.raises(popart.popart_exception, match=r"ai.onnx has no operator 'Gemmm'. Nearest names: Gemm$"):
        builder.customOp("Gemmm", 17, "ai.onnx", ["image"], {}, 1)
    assert popart_core._nearest_text("relu_out", ["0.weight", "2.weight", "0.bias"]) == ""
    text = popart_core._nearest_text("weight", ["0.weight", "bias", "wieght"])
    assert text == ". Nearest names: 0.weight, wieght"
    with pytest.raises(AttributeError, match=r"has no attribute 'TrainingSesion'\. Nearest names: TrainingSession"):
        popart.TrainingSesion  # noqa: B018


# ---- nllloss of what is no probability


def nll_run(values, capfd, runs=2, wrap=None):
    builder = popart.Builder()
    x, y = builder.addInputTensor("FLOAT", [2, 3]), builder.addInputTensor("INT32", [2])
    w = builder.addInitializedInputTensor(np.ones((1,), np.float32))
    scores = builder.aiOnnx.mul([x, w])
    if wrap:
        scores = wrap(builder, scores)
    loss = builder.aiGraphcore.nllloss([scores, y], debugContext="the_loss")
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, [loss]),
        loss,
        popart.ConstSGD(0.0625),
        popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    feeds = {x: np.array(values, np.float32), y: np.array([0, 2], np.int32)}
    capfd.readouterr()
    for _ in range(runs):
        session.run(popart.PyStepIO(feeds, anchors))
    return capfd.readouterr().err


def test_nllloss_warns_once_of_values_that_are_no_probabilities(capfd):
    said = nll_run([[0.5, 0.2, 0.3], [0.1, 7.0, 0.5]], capfd)
    assert said.count("cannot be probabilities") == 1
    assert "the_loss" in said and "got 7" in said and "popart.losses.cross_entropy" in said


@pytest.mark.parametrize("wrap", [None, lambda b, x: b.aiOnnx.softmax([x], axis=1)])
def test_nllloss_of_probabilities_says_nothing(capfd, wrap):
    values = [[0.5, 0.2, 0.3], [0.1, 0.4, 0.5]] if wrap is None else [[50, 2, -3], [1, 4, 5]]
    assert "probabilities" not in nll_run(values, capfd, wrap=wrap)
