"""Statements of popart-python.md, sections 5.1 to 5.4, each as a program would rely on it."""

import typing

import ml_dtypes
import numpy as np
import popart
import pytest
from popart import popart_exception

import onnx

ONES = np.ones(2, np.float32)


@pytest.fixture(name="builder")
def fixture_builder():
    return popart.Builder()


def read(builder):
    return onnx.load_from_string(builder.getModelProto())


def relu_model():
    builder = popart.Builder()
    builder.addOutputTensor(builder.aiOnnx.relu([builder.addInputTensor("FLOAT", [2], "x")]))
    return builder


# ---- 5.1


@pytest.mark.parametrize(("opset", "version"), [(6, 3), (8, 3), (9, 4), (10, 4), (11, 4)])
def test_new_models(opset, version):
    builder = popart.Builder(opsets={"ai.onnx": opset, "ai.graphcore": 1})
    builder.aiOnnx.relu([builder.addInputTensor("FLOAT", [1])])
    model = read(builder)
    assert model.ir_version == version and model.graph.name.startswith("BuilderGraph_")
    assert {o.domain or "ai.onnx": o.version for o in model.opset_import} == {"ai.onnx": opset}


def test_graph_name(builder):
    builder.setGraphName("mine")
    assert read(builder).graph.name == "mine"


def test_namespaces_of_a_loaded_model_are_fixed():
    builder = popart.Builder(relu_model().getModelProto())
    assert str(builder.aiOnnx) == "AiOnnx10"
    with pytest.raises(RuntimeError, match="9"):
        builder.aiOnnxOpset9  # noqa: B018


def test_operator_sets_are_the_annotation_of_getattr():
    annotation = popart.Builder.__getattr__.__annotations__["return"]
    assert typing.get_args(annotation) == tuple(getattr(popart, f"AiOnnx{n}") for n in range(6, 12))


def unknown_operator(model):
    model.graph.node[0].op_type = "NoSuchOp"


def another_arity(model):
    model.graph.node[0].input.append("x")


def undefined_input(model):
    model.graph.node[0].input[0] = "undefined"


@pytest.mark.parametrize("damage", [unknown_operator, another_arity, undefined_input])
def test_loading_checks_the_model(damage):
    model = read(relu_model())
    damage(model)
    with pytest.raises(popart_exception):
        popart.Builder(model.SerializeToString())


# ---- 5.2


def test_names_of_tensors(builder):
    made = [builder.addInputTensor("FLOAT", [2]) for _ in range(2)]
    made += [builder.addInitializedInputTensor(ONES) for _ in range(2)]
    made += [builder.addInitializedInputTensor(ONES, name) for name in ("w", "w")]
    with builder.nameScope("s"):
        made.append(builder.addInputTensor("FLOAT", [2]))
        with builder.nameScope("t"):
            made.append(builder.aiOnnx.relu([made[0]], "name"))
            assert builder.getNameScope("x") == "s/t/x"
    assert made == ["input", "input/1", "init_input", "init_input/1", "w", "w/1", "s/input", "s/t/Relu:0"]
    assert read(builder).graph.node[0].name == "s/t/name"


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((popart.TensorInfo("FLOAT", [2]),), {}),
        ((popart.TensorInfo("FLOAT", [2]), "name"), {}),
        ((popart.TensorInfo("FLOAT", [2]), popart.InputSettings(), "name"), {}),
        (("FLOAT", [2]), {}),
        (("FLOAT", np.array([2]), popart.DebugContext("name")), {}),
        (("FLOAT", (2,), popart.InputSettings()), {"debugContext": "name"}),
        ((), {"tensorInfo": popart.TensorInfo("FLOAT", [2]), "settings": popart.InputSettings()}),
        ((), {"dataType": "FLOAT", "shape": [2], "debugContext": "name"}),
    ],
)
def test_forms_of_input_tensors(builder, args, kwargs):
    assert builder.getTensorShape(builder.addInputTensor(*args, **kwargs)) == [2]


@pytest.mark.parametrize("args", [(), ("FLOAT",), (3, [2]), ("FLOAT", "x"), ("FLOAT", [2], "a", "b"), (None, [2])])
def test_other_arguments_of_input_tensors(builder, args):
    with pytest.raises(TypeError, match="addInputTensor"):
        builder.addInputTensor(*args)


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "uint8", "int8", "uint16", "int16", "int32", "uint32", "int64", "uint64", "bool"]
)
def test_types_of_initialised_tensors(builder, dtype):
    w = builder.addInitializedInputTensor(np.ones((2, 3), dtype).T)
    assert builder.getTensorDtypeString(w) == dtype and builder.getTensorShape(w) == [3, 2]
    assert builder.isInitializer(w) and builder.getTrainableTensorIds() == [w] == builder.getInputTensorIds()


@pytest.mark.parametrize(
    "dtype", ["float64", "complex64", "complex128", "U1", [("float8_143", "u1")], ml_dtypes.bfloat16]
)
def test_other_types_of_initialised_tensors(builder, dtype):
    with pytest.raises(popart_exception):
        builder.addInitializedInputTensor(np.zeros(2, dtype))


# ---- 5.3


def test_every_node_has_a_number_of_its_own(builder):
    x = builder.addInputTensor("FLOAT", [2])
    y, z = builder.aiOnnx.relu([x]), builder.aiOnnx.relu([x])
    assert "__debug_info_id" in builder.getAllNodeAttributeNames({y})
    assert builder.getInt64NodeAttribute("__debug_info_id", {y}) != builder.getInt64NodeAttribute(
        "__debug_info_id", {z}
    )


def test_scopes_set_attributes(builder):
    x = builder.addInputTensor("FLOAT", [2, 2])
    location = popart.TensorLocation(popart.TensorStorage.OffChip)
    with builder.commGroup(1, 2), builder.outputTensorLocation(location), builder.schedulePriority(0.5):
        y = builder.aiOnnx.relu([x])
    assert builder.getInt64VectorNodeAttribute("__collectiveCommGroup", {y}) == [1, 2]
    assert builder.getInt64VectorNodeAttribute("__output_tensor_location", {y})[0] == 1
    assert builder.getFloatNodeAttribute("__schedule_priority", {y}) == 0.5


def test_the_group_of_a_scope_is_that_of_collectives():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2])
    with builder.commGroup(int(popart.CommGroupType.Consecutive), 2):
        y = builder.aiGraphcore.replicatedallreduce([x])
    options = popart.SessionOptions()
    options.enableReplicatedGraphs, options.replicatedGraphCount = True, 4
    session = popart.InferenceSession(
        builder.getModelProto(),
        popart.DataFlow(1, [y]),
        popart.DeviceManager().createIpuModelDevice({"numIPUs": 4}),
        userOptions=options,
    )
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({x: np.arange(8, dtype=np.float32)}, anchors))
    np.testing.assert_array_equal(anchors[y].reshape(4, 2), [[2, 4], [2, 4], [10, 12], [10, 12]])


def test_recomputation_of_a_node_without_a_mark(builder):
    y = builder.aiOnnx.relu([builder.addInputTensor("FLOAT", [2])])
    assert builder.getRecomputeOutputInBackwardPass(y) is False
    builder.recomputeOutputInBackwardPass(y)
    assert builder.getRecomputeOutputInBackwardPass({y}) is True


def test_version_of_a_custom_domain_is_recorded_as_1(builder):
    x = builder.addInputTensor("FLOAT", [2])
    for version in (6, 2):
        builder.customOp("Something", version, "com.acme", [x], {})
    assert [(o.domain, o.version) for o in read(builder).opset_import] == [("com.acme", 1)]


@pytest.mark.parametrize(
    "add",
    [
        lambda b, x: b.aiOnnx.relu([x, x]),
        lambda b, x: b.aiOnnx.add([x]),
        lambda b, x: b.aiOnnx.add([x, ""]),
        lambda b, x: b.aiOnnx.gemm([x]),
        lambda b, x: b.aiGraphcore.gelu([x, x]),
        lambda b, x: b.aiGraphcore.gelu([]),
        lambda b, x: b.aiGraphcore.atan2([x]),
        lambda b, x: b.aiGraphcore.scaledadd([x]),
        lambda b, x: b.aiGraphcore.groupnormalization([x, x], 1),
        lambda b, x: b.customOp("Relu", 6, "ai.onnx", [x], {}, numOutputs=2),
    ],
)
def test_numbers_of_inputs_and_outputs(builder, add):
    x = builder.addInputTensor("FLOAT", [2, 2])
    with pytest.raises(popart_exception, match=r"input|output"):
        add(builder, x)


@pytest.mark.parametrize("method", ["logical_and", "logical_or", "logical_xor", "logical_not"])
def test_shapes_of_truth_operators_on_numbers(builder, method):
    args = [builder.addInputTensor("FLOAT", [4, 1]), builder.addInputTensor("FLOAT", [3])]
    y = getattr(builder.aiOnnx, method)(args[:1] if method == "logical_not" else args)
    assert builder.getTensorShape(y) == ([4, 1] if method == "logical_not" else [4, 3])
    assert builder.getTensorDtypeString(y) == "bool"
    assert builder.getTensorDtypeString(args[0]) == "float32"


# ---- 5.4


@pytest.mark.parametrize(("method", "gates"), [("lstm", 4), ("gru", 3), ("rnn", 1)])
def test_defaults_of_recurrent_operators_are_not_written(builder, method, gates):
    args = [builder.addInputTensor("FLOAT", s) for s in ([5, 2, 3], [1, 4 * gates, 3], [1, 4 * gates, 4])]
    outputs = set(getattr(builder.aiOnnx, method)(args, 3 if method == "lstm" else 2))
    written = builder.getAllNodeAttributeNames(outputs)
    for name in ["activations", "activation_alpha", "activation_beta", "clip", "direction", "hidden_size"]:
        assert name not in written
    builder.addNodeAttribute("direction", "forward", outputs)
    assert builder.getStringNodeAttribute("direction", outputs) == "forward"


def test_shapes_are_inferred_where_operands_do_not_fit():
    builder = popart.Builder()
    rows, labels = builder.addInputTensor("FLOAT16", [4, 5]), builder.addInputTensor("INT32", [3])
    none = popart.ReductionType.NoReduction
    graphcore = builder.aiGraphcore
    loss = graphcore.nllloss([rows, labels])
    assert (builder.getTensorShape(loss), builder.getTensorDtypeString(loss)) == ([], "float16")
    assert builder.getTensorShape(graphcore.nllloss([rows, labels], none)) == [3]
    log_probs, short = builder.addInputTensor("FLOAT", [7, 2, 5]), builder.addInputTensor("UINT32", [3])
    targets = builder.addInputTensor("UINT32", [4, 3])
    assert builder.getTensorShape(graphcore.ctcloss([log_probs, targets, short, short], none)) == [2]
    assert builder.getTensorShape(graphcore.ctcloss([log_probs, targets, short, short])) == []
    offset = builder.addInputTensor("UINT32", [2])
    update = graphcore.dynamicupdate([log_probs, offset, rows], [0], [1])
    assert builder.getTensorShape(builder.aiOnnx.relu([update])) == [7, 2, 5]
    with pytest.raises(popart_exception, match="labels must have the shape"):
        popart.InferenceSession(
            builder.getModelProto(), popart.DataFlow(1, [loss]), popart.DeviceManager().createCpuDevice()
        )


def test_constants_of_opset_11_say_that_they_are_dense():
    builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    values = np.ones(2, np.float32)
    dense = [
        builder.aiOnnx.constant(values),
        builder.aiOnnx.constant(values, False),
        builder.aiOnnx.constant(values, False, "name"),
    ]
    assert [builder.getTensorShape(c) for c in dense] == [[2]] * 3
    with pytest.raises(popart_exception, match="sparse_value"):
        builder.aiOnnx.constant(values, is_value_sparse=True)


def test_a_loop_returns_one_tensor_twice(builder):
    x = builder.addInputTensor("INT32", [2], "x")
    count = builder.aiOnnx.constant(np.array(3, np.int64))
    body = builder.createSubgraphBuilder()
    body.addInputTensor("INT64", [])
    go_on, carried = body.addInputTensor("BOOL", []), body.addInputTensor("INT32", [2])
    total = body.aiOnnx.add([carried, x])
    for output in (go_on, total, total):
        body.addOutputTensor(output)
    ids = builder.aiOnnx.loop([count, builder.aiOnnx.constant(np.array(True)), x], 2, body)
    session = popart.InferenceSession(
        builder.getModelProto(), popart.DataFlow(1, ids), popart.DeviceManager().createCpuDevice()
    )
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({x: np.array([1, 2], np.int32)}, anchors))
    np.testing.assert_array_equal(anchors[ids[0]], [4, 8])
    np.testing.assert_array_equal(anchors[ids[1]], [[2, 4], [3, 6], [4, 8]])
