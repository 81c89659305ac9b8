"""Builder: scalars, keyword spellings, inputs in order, calls of subgraphs."""

import json

import numpy as np
import popart
import pytest

import onnx
from tests.inference import infer


def outputs_of(builder, feeds, names):
    return infer(builder.getModelProto(), feeds, names)


def test_arrays_of_rank_zero_stay_scalars():
    builder = popart.Builder()
    weight = builder.addInitializedInputTensor(np.array(2.0, np.float32), "weight")
    constant = builder.aiOnnx.constant(np.array(3.0, np.float32))
    product = builder.aiOnnx.mul([weight, constant])
    assert [builder.getTensorShape(t) for t in (weight, constant, product)] == [[], [], []]
    (value,) = outputs_of(builder, {}, [product])
    assert value.shape == () and value == 6.0


def test_strided_arrays_keep_shape_and_values():
    builder = popart.Builder()
    values = np.arange(24, dtype=np.float32).reshape(4, 6)[::2, ::-3]
    weight = builder.addInitializedInputTensor(values)
    (result,) = outputs_of(builder, {}, [builder.aiOnnx.identity([weight])])
    np.testing.assert_array_equal(result, values)


def test_inputs_are_listed_in_order_with_initialised_ones():
    builder = popart.Builder()
    builder.addInputTensor("FLOAT", [2], "a")
    builder.addInitializedInputTensor(np.zeros(2, np.float32), "w")
    builder.addInputTensor("FLOAT", [2], "b")
    for each in (builder, popart.Builder(builder.getModelProto())):
        assert each.getInputTensorIds() == ["a", "w", "b"]
        assert each.getTrainableTensorIds() == ["w"]


@pytest.mark.parametrize("keyword", ["nodeOutputName", "nodeOutputNames"])
def test_methods_for_one_output_or_several_take_both_keywords(keyword):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 2])
    y = builder.aiOnnx.matmul([x, x])
    builder.recomputeOutputInBackwardPass(**{keyword: y})
    assert builder.getRecomputeOutputInBackwardPass(**{keyword: {y}})
    builder.setAvailableMemoryProportion(**{keyword: y}, availableMemoryProportion=0.5)
    assert builder.getFloatNodeAttribute("__available_memory_proportion", {y}) == 0.5


def square_of(builder, captured=None):
    body = builder.createSubgraphBuilder()
    x = body.addInputTensor("FLOAT", [2])
    y = body.aiOnnx.mul([x, x])
    body.addOutputTensor(y if captured is None else body.aiOnnx.add([y, captured]))
    return body


def test_calls_run_their_subgraph_and_have_gradients():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2], "x")
    w = builder.addInitializedInputTensor(np.array([2, -3], np.float32), "w")
    (once,) = builder.aiGraphcore.call([builder.aiOnnx.mul([x, w])], 1, square_of(builder))
    (twice,) = builder.aiGraphcore.call([once], num_outputs=1, callee=square_of(builder, captured=w), debugName="twice")
    loss = builder.aiGraphcore.identityloss([twice], popart.ReductionType.Sum)
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, [twice, "Gradient___w"]),
        loss,
        popart.ConstSGD(0.1),
        popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    values, weights = np.array([1, 0.5], np.float32), np.array([2, -3], np.float32)
    session.run(popart.PyStepIO({"x": values}, anchors))
    np.testing.assert_allclose(anchors[twice], (values * weights) ** 4 + weights, rtol=1e-6)
    np.testing.assert_allclose(anchors["Gradient___w"], 4 * values**4 * weights**3 + 1, rtol=1e-6)


@pytest.mark.parametrize(("inputs", "outputs", "message"), [(2, 1, "number of inputs"), (1, 2, "number of outputs")])
def test_calls_with_other_counts_than_the_subgraph_are_refused(inputs, outputs, message):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2], "x")
    with pytest.raises(popart.popart_exception, match=message):
        builder.aiGraphcore.call([x] * inputs, outputs, square_of(builder))


def test_sessions_give_their_ir():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2], "x")
    y = builder.aiOnnx.relu([x])
    session = popart.InferenceSession(
        builder.getModelProto(), popart.DataFlow(1, [y]), popart.DeviceManager().createCpuDevice()
    )
    assert session.getIr().getMainGraph().getTensor(y).id == y


@pytest.mark.parametrize("works", [True, False])
def test_the_ir_is_dumped_where_the_environment_says(works, tmp_path, monkeypatch):
    """POPART_IR_DUMP: the serialised IR, also of a program whose preparation fails."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2], "x")
    w = builder.addInitializedInputTensor(np.ones(2, np.float32), "w")
    y = builder.aiOnnx.mul([x, w])
    loss = builder.aiGraphcore.identityloss([y]) if works else y
    monkeypatch.setenv("POPART_IR_DUMP", str(tmp_path / "ir.json"))
    arguments = [popart.DataFlow(1, [y]), loss, popart.ConstSGD(0.1), popart.DeviceManager().createCpuDevice()]
    if works:
        popart.TrainingSession(builder.getModelProto(), *arguments)
    else:
        with pytest.raises(popart.popart_exception):
            popart.TrainingSession(builder.getModelProto(), *arguments)
    types = [op["type"] for op in json.loads((tmp_path / "ir.json").read_text())["maingraph"]]
    assert "Mul" in types
    assert any("VarUpdate" in type for type in types) == works


PROPERTIES = (
    "PreUniRepl PostNRepl SoftMaxGradDirect NlllWithSoftMaxGradDirect OpToIdentity SubtractArg1GradOp MulArgGradOp "
    "MatMulOp MatMulLhsGradOp MatMulRhsGradOp InPlace"
)


@pytest.mark.parametrize("name", PROPERTIES.split())
def test_patterns_have_properties(name):
    patterns = popart.Patterns()
    assert getattr(patterns, name) is True
    setattr(patterns, name, True)
    assert patterns.isPatternEnabled(name.replace("SoftMax", "Softmax"))


ROWS = np.array([[1, 2], [3, -4], [5, 6]], np.float32)
WHERE = np.array([[0, 1], [0, 1], [2, 1]], np.int32)
REDUCED = {
    popart.ScatterReduction.Sum: [[4, 0], [0, 4], [5, 0]],
    popart.ScatterReduction.Max: [[3, 0], [0, 6], [5, 0]],
    popart.ScatterReduction.Min: [[1, 0], [0, -4], [5, 0]],
    popart.ScatterReduction.Mul: [[3, 1], [1, -48], [5, 1]],
}


@pytest.mark.parametrize("reduction", REDUCED)
def test_scatterreduce_takes_the_enumeration(reduction):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [3, 2], "x")
    where = builder.addInputTensor("INT32", [3, 2], "where")
    y = builder.aiGraphcore.scatterreduce([x, where], 3, 0, reduction)
    (result,) = outputs_of(builder, {"x": ROWS, "where": WHERE}, [y])
    np.testing.assert_array_equal(result, np.array(REDUCED[reduction], np.float32))


def graphcore(method, *arguments):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [3, 2], "x")
    y = getattr(builder.aiGraphcore, method)([x], *arguments)
    return outputs_of(builder, {"x": ROWS}, [y])[0]


def test_graphcore_operators_take_what_their_documentation_says():
    np.testing.assert_array_equal(graphcore("reverse", []), ROWS)
    np.testing.assert_array_equal(graphcore("reverse", [1]), ROWS[:, ::-1])
    np.testing.assert_array_equal(graphcore("incrementmod", 2, 5), np.fmod(ROWS + 2, 5))
    np.testing.assert_array_equal(graphcore("shapeddropout", [3, 1], 0.5), ROWS)
    for group in (popart.CommGroup(), popart.CommGroup(popart.CommGroupType.Consecutive, 1)):
        np.testing.assert_array_equal(graphcore("replicatedallreduce", None, group), ROWS)
    with pytest.raises(popart.popart_exception, match="group"):
        graphcore("replicatedallreduce", None, popart.CommGroup(popart.CommGroupType.Consecutive, 2))


def model_with_settings():
    """A model whose weight and input have settings."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [1, 2], popart.InputSettings(popart.ReplicatedStreamMode.Broadcast), "x")
    settings = popart.VariableSettings(popart.CommGroup(popart.CommGroupType.Consecutive, 2))
    w = builder.addInitializedInputTensor(np.ones((2, 2), np.float32), settings, "w")
    return onnx.load_from_string(builder.getModelProto()), builder.aiOnnx.matmul([x, w]), builder.getModelProto()


def test_settings_of_inputs_are_metadata_of_the_model(tmp_path):
    _, y, model = model_with_settings()
    options = popart.SessionOptions()
    options.constantWeights = False
    session = popart.InferenceSession(
        model, popart.DataFlow(1, [y]), popart.DeviceManager().createCpuDevice(), userOptions=options
    )
    session.prepareDevice()
    session.modelToHost(str(tmp_path / "saved.onnx"))
    for graph in (onnx.load_from_string(model).graph, onnx.load(tmp_path / "saved.onnx").graph):
        kept = {value.name: {p.key: p.value for p in value.metadata_props} for value in graph.input}
        assert kept == {"x": {"popart.inputSettings": "0,0,0"}, "w": {"popart.replicas": "0,1,2,0"}}
    with pytest.raises(TypeError, match="unexpected argument"):
        popart.Builder().addInitializedInputTensor(np.ones(2, np.float32), 3)


@pytest.mark.parametrize("text", ["0,1,0,0", "1,0,2,0", "1", "", "0,x,2,0", "0,1,2,9", "9" * 30])
def test_damaged_settings_are_refused(text):
    _, y, model = model_with_settings()
    proto = onnx.load_from_string(model)
    proto.graph.input[1].metadata_props[0].value = text
    options = popart.SessionOptions()
    options.constantWeights = False
    with pytest.raises(popart.popart_exception) as refused:
        popart.InferenceSession(
            proto.SerializeToString(),
            popart.DataFlow(1, [y]),
            popart.DeviceManager().createCpuDevice(),
            userOptions=options,
        )
    assert not isinstance(refused.value, popart.popart_internal_exception)
