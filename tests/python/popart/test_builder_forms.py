"""Builder: scalars, keyword spellings, inputs in order, calls of subgraphs."""

import numpy as np
import popart
import pytest


def outputs_of(builder, feeds, names):
    session = popart.InferenceSession(
        builder.getModelProto(), popart.DataFlow(1, names), popart.DeviceManager().createCpuDevice()
    )
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO(feeds, anchors))
    return [anchors[name] for name in names]


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
    results = builder.aiGraphcore.call([x] * inputs, outputs, square_of(builder))
    with pytest.raises(popart.popart_exception, match=message):
        outputs_of(builder, {"x": np.zeros(2, np.float32)}, results)


def test_sessions_give_their_ir():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2], "x")
    y = builder.aiOnnx.relu([x])
    session = popart.InferenceSession(
        builder.getModelProto(), popart.DataFlow(1, [y]), popart.DeviceManager().createCpuDevice()
    )
    assert session.getIr().getMainGraph().getTensor(y).id == y
