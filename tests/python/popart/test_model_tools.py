"""GraphTransformer, NumericsReport, lists of operators, weights in files of their own."""

import threading
import time

import numpy as np
import popart
import popart_core
import pytest

import onnx
from onnx import TensorProto, helper, numpy_helper

VALUES = np.array([[1.5, -2.0], [0.1, 3.0]])


def info(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(kind, dtype, unused=False):
    """X + w, w times a Constant; an unused input and an initializer that is no input on request."""
    w = numpy_helper.from_array(VALUES.astype(dtype), "w")
    constant = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.array([2, 3], dtype)))
    nodes = [constant, helper.make_node("Mul", ["w", "c"], ["m"]), helper.make_node("Add", ["x", "m"], ["y"])]
    inputs = [info("x", kind, [2, 2]), info("w", kind, [2, 2])]
    initializers = [w]
    if unused:
        inputs.append(info("idle", kind, [2]))
        initializers += [
            numpy_helper.from_array(np.array([1, 2], dtype), "idle"),
            numpy_helper.from_array(np.array([1, 2], dtype), "hidden"),
        ]
    graph = helper.make_graph(
        nodes, "g", inputs, [info("y", kind, [2, 2])], initializers, value_info=[info("m", kind, [2, 2])]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=7)
    return model.SerializeToString()


CONVERSIONS = {
    "convertFloatsToHalfs": (TensorProto.FLOAT, np.float32, TensorProto.FLOAT16),
    "convertUINT8ToINT32": (TensorProto.UINT8, np.uint8, TensorProto.INT32),
    "convertUINT16ToINT32": (TensorProto.UINT16, np.uint16, TensorProto.INT32),
    "convertINT8ToINT32": (TensorProto.INT8, np.int8, TensorProto.INT32),
    "convertINT16ToINT32": (TensorProto.INT16, np.int16, TensorProto.INT32),
    "convertINT64ToINT32": (TensorProto.INT64, np.int64, TensorProto.INT32),
    "convertDoublesToFloats": (TensorProto.DOUBLE, np.float64, TensorProto.FLOAT),
    "convertDoublesToHalfs": (TensorProto.DOUBLE, np.float64, TensorProto.FLOAT16),
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_conversions(name):
    kind, dtype, to = CONVERSIONS[name]
    with np.errstate(invalid="ignore"):
        values = VALUES.astype(dtype)
        transformer = popart.GraphTransformer(model_of(kind, dtype))
    getattr(transformer, name)()
    model = onnx.load_from_string(transformer.getModelProto())
    onnx.checker.check_model(model, full_check=True)
    graph = model.graph
    declared = [*graph.input, *graph.output, *graph.value_info]
    assert {i.type.tensor_type.elem_type for i in declared} == {to}
    assert graph.node[0].attribute[0].t.data_type == to
    (w,) = graph.initializer
    assert w.data_type == to
    got = numpy_helper.to_array(w)
    np.testing.assert_array_equal(got, values.astype(got.dtype))


def test_large_weights_are_converted_and_kept():
    """Values of 64 KiB and more leave a model before it is parsed."""
    value = np.random.default_rng(0).normal(size=(160, 160)).astype(np.float32)
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 160], "x")
    builder.addOutputTensor(builder.aiOnnx.matmul([x, builder.addInitializedInputTensor(value, "w")]))
    for convert, dtype in ((False, np.float32), (True, np.float16)):
        transformer = popart.GraphTransformer(builder.getModelProto())
        if convert:
            transformer.convertFloatsToHalfs()
        (w,) = onnx.load_from_string(transformer.getModelProto()).graph.initializer
        np.testing.assert_array_equal(numpy_helper.to_array(w), value.astype(dtype))


def test_bfloat16_to_float():
    import ml_dtypes

    transformer = popart.GraphTransformer(model_of(TensorProto.BFLOAT16, ml_dtypes.bfloat16))
    transformer.convertBFloats16ToFloat32()
    graph = onnx.load_from_string(transformer.getModelProto()).graph
    expected = VALUES.astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(numpy_helper.to_array(graph.initializer[0]), expected)


def test_large_int64_values_are_refused_or_clipped():
    graph = helper.make_graph(
        [helper.make_node("Identity", ["big"], ["y"])],
        "g",
        [],
        [info("y", TensorProto.INT64, [2])],
        [numpy_helper.from_array(np.array([2**40, -(2**40)]), "big")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=7).SerializeToString()
    with pytest.raises(popart.popart_exception, match="does not fit INT32"):
        popart.GraphTransformer(model).convertINT64ToINT32()
    transformer = popart.GraphTransformer(model)
    transformer.convertINT64ToINT32(clip=True)
    got = numpy_helper.to_array(onnx.load_from_string(transformer.getModelProto()).graph.initializer[0])
    np.testing.assert_array_equal(got, [2**31 - 1, -(2**31)])


def test_subgraphs_are_not_converted():
    body = helper.make_graph([helper.make_node("Identity", ["x"], ["b"])], "b", [], [info("b", TensorProto.FLOAT, [2])])
    graph = helper.make_graph(
        [helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)],
        "g",
        [info("x", TensorProto.FLOAT, [2]), info("c", TensorProto.BOOL, [])],
        [info("y", TensorProto.FLOAT, [2])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=7).SerializeToString()
    with pytest.raises(popart.popart_exception, match="holds a graph"):
        popart.GraphTransformer(model).convertFloatsToHalfs()


def test_unused_inputs():
    transformer = popart.GraphTransformer(model_of(TensorProto.FLOAT, np.float32, unused=True))
    transformer.removeUnusedInputs()
    graph = onnx.load_from_string(transformer.getModelProto()).graph
    assert [i.name for i in graph.input] == ["x", "w"]
    # compat: "hidden", an initializer that is no graph input, vanishes as well.
    assert [t.name for t in graph.initializer] == ["w"]


def test_nothing_changes_when_every_input_is_used():
    model = model_of(TensorProto.FLOAT, np.float32)
    transformer = popart.GraphTransformer(model)
    transformer.removeUnusedInputs()
    assert onnx.load_from_string(transformer.getModelProto()) == onnx.load_from_string(model)


def test_batch_norm_gets_its_training_outputs():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 3, 4, 4])
    names = [builder.addInitializedInputTensor(np.ones(3, np.float32), n) for n in ("s", "b", "m", "v")]
    (y,) = builder.aiOnnx.batchnormalization([x, *names], num_outputs=1)
    builder.addOutputTensor(y)
    transformer = popart.GraphTransformer(builder.getModelProto())
    transformer.prepareNodesForTraining()
    (node,) = onnx.load_from_string(transformer.getModelProto()).graph.node
    assert len(node.output) == len(set(node.output)) == 5
    assert node.output[0] == y


def test_initializers_become_constants():
    transformer = popart.GraphTransformer(model_of(TensorProto.INT32, np.int32, unused=True))
    with pytest.raises(popart.popart_exception, match="not an initializer"):
        transformer.convertInitializersToConstants(["nobody"])
    transformer.convertInitializersToConstants(["w"])
    graph = onnx.load_from_string(transformer.getModelProto()).graph
    assert graph.node[0].op_type == "Constant" and list(graph.node[0].output) == ["w"]
    assert "w" not in {i.name for i in graph.input} | {t.name for t in graph.initializer}
    transformer.convertAllFixedPointInitializersToConstants()
    graph = onnx.load_from_string(transformer.getModelProto()).graph
    assert not graph.initializer
    session = popart.InferenceSession(
        transformer.getModelProto(), popart.DataFlow(1, ["y"]), popart.DeviceManager().createCpuDevice()
    )
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": np.ones((2, 2), np.int32)}, anchors))
    np.testing.assert_array_equal(anchors["y"], 1 + VALUES.astype(np.int32) * [2, 3])


def test_numerics_report(tmp_path):
    def model(values):
        w = numpy_helper.from_array(np.array(values, np.float32), "w")
        graph = helper.make_graph(
            [helper.make_node("Identity", ["w"], ["y"])], "g", [], [info("y", TensorProto.FLOAT, [2])], [w]
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=7)

    paths = []
    for i, values in enumerate(([0, 0], [3, 4], [1, 1], [4, 6])):
        paths.append(str(tmp_path / f"{i}.onnx"))
        onnx.save(model(values), paths[-1])
    report = popart.NumericsReport(*paths)
    # dA = (3, 4), dB = (3, 5): |dA - dB|^2 = 1, |dA| |dB| = 5 sqrt(34)
    assert report.getRelativeErrors()["w"] == pytest.approx(1 / (5 * np.sqrt(34)), rel=1e-6)
    assert report.report("w") in report.fullReport()
    with pytest.raises(popart.popart_exception, match="no floating-point initializer"):
        report.report("v")


def test_unsupported_operations():
    names = {op.type for op in popart.getUnsupportedOperations(10)}
    assert "StringNormalizer" in names and not names & {"Conv", "Gemm", "Scan"}
    assert "ImageDecoder" not in names
    newest = {(op.type, op.version) for op in popart.getUnsupportedOperations(23)}
    assert ("ImageDecoder", 20) in newest and "Attention" not in {type for type, _ in newest}
    assert not {op.type for op in popart.getUnsupportedOperations(11)} & {"Clip", "Range", "Loop", "Upsample"}
    with pytest.raises(popart.popart_exception, match=r"no such ai.onnx operator set"):
        popart.getUnsupportedOperations(99)


def trained_builder():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 3])
    w = builder.addInitializedInputTensor(np.ones((3, 2), np.float32), "w")
    b = builder.addInitializedInputTensor(np.zeros(2, np.float32), "b")
    y = builder.aiOnnx.add([builder.aiOnnx.matmul([x, w]), b])
    return builder, x, builder.aiGraphcore.identityloss([y])


def test_weights_in_a_file_are_trained_in_place_and_can_move(tmp_path):
    builder, x, loss = trained_builder()
    first, second = str(tmp_path / "weights"), str(tmp_path / "moved")
    builder.saveInitializersExternally(["w"], first)
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, [loss]),
        loss,
        popart.ConstSGD(0.5),
        popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    session.weightsFromHost()
    session.run(popart.PyStepIO({x: np.ones((2, 3), np.float32)}, session.initAnchorArrays()))
    path = str(tmp_path / "trained.onnx")
    session.modelToHost(path)
    graph = onnx.load(path, load_external_data=False).graph
    (w,) = [t for t in graph.initializer if t.name == "w"]
    assert {e.key: e.value for e in w.external_data}["location"] == first
    np.testing.assert_allclose(np.fromfile(first, np.float32).reshape(3, 2), 0.75)
    (b,) = [t for t in graph.initializer if t.name == "b"]
    np.testing.assert_allclose(numpy_helper.to_array(b), -0.25)

    for source, target, message in (
        (str(tmp_path / "none"), second, "no file"),
        (first, path, "exists already"),
        (path, second, "no initializer"),
    ):
        with pytest.raises(popart.popart_exception, match=message):
            session.updateExternallySavedTensorLocations(source, target)
    session.updateExternallySavedTensorLocations(first, second)
    session.run(popart.PyStepIO({x: np.ones((2, 3), np.float32)}, session.initAnchorArrays()))
    session.modelToHost(path)
    np.testing.assert_allclose(np.fromfile(first, np.float32), 0.75)
    np.testing.assert_allclose(np.fromfile(second, np.float32), 0.5)


def test_unknown_attributes_are_refused():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 3])
    with pytest.raises(popart.popart_exception, match="attribute 'colour' does not exist in version 6"):
        builder.customOp("Relu", 6, "ai.onnx", [x], {"colour": 3})


def large_model(elements):
    weights = [numpy_helper.from_array(np.linspace(0, 1, elements, dtype=np.float32), f"w{i}") for i in range(2)]
    nodes = [helper.make_node("Add", ["w0", "w1"], ["y"])]
    outputs = [info("y", TensorProto.FLOAT, [elements])]
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(
        helper.make_graph(nodes, "large", [], outputs, weights), opset_imports=opsets, ir_version=8
    ).SerializeToString()


def transformed(model):
    transformer = popart.GraphTransformer(model)
    transformer.convertFloatsToHalfs()
    transformer.convertInitializersToConstants(["w0", "w1"])
    return transformer.getModelProto()


def long_model(nodes):
    chain = [helper.make_node("Neg", [f"x{i}"], [f"x{i + 1}"]) for i in range(nodes)]
    inputs, outputs = [info("x0", TensorProto.FLOAT, [2])], [info(f"x{nodes}", TensorProto.FLOAT, [2])]
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(
        helper.make_graph(chain, "long", inputs, outputs), opset_imports=opsets, ir_version=8
    ).SerializeToString()


LONG_WORK = {
    "transform": (large_model, 4_000_000, transformed),
    "compare": (large_model, 4_000_000, lambda model: popart.NumericsReport(model, model, model, model)),
    "describe": (long_model, 20_000, lambda model: popart_core._describeModel(model, popart.InputShapeInfo())),
    "outputs": (long_model, 20_000, lambda model: popart_core._output_tensors(model, popart.InputShapeInfo(), False)),
    "match": (lambda count: [b"ab" * 20_000] * count, 1000, lambda t: popart_core._full_matches("(a|b|ab)*c", t)),
}


@pytest.mark.parametrize("work", LONG_WORK)
def test_other_threads_run_during_long_work(work):
    """No pause of a second thread is as long as the work; the best of three times counts, on a busy machine."""
    make, size, call = LONG_WORK[work]
    given = make(size)

    def longest_pause():
        ticks, done = [], threading.Event()

        def tick():
            while not done.is_set():
                ticks.append(time.perf_counter())
                time.sleep(0.0005)

        ticking = threading.Thread(target=tick)
        ticking.start()
        start = time.perf_counter()
        call(given)
        end = time.perf_counter()
        done.set()
        ticking.join()
        assert end - start > 0.02, "too short to show anything"
        return max(np.diff([start, *(t for t in ticks if start < t < end), end])) / (end - start)

    assert min(longest_pause() for _ in range(3)) < 0.5


def test_transformers_in_several_threads():
    """One object that several threads change: each change happens whole."""
    transformer = popart.GraphTransformer(large_model(100_000))
    names = ["convertFloatsToHalfs", "removeUnusedInputs", "prepareNodesForTraining", "getModelProto"]
    threads = [threading.Thread(target=getattr(transformer, name)) for name in names * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    changed = onnx.load_from_string(transformer.getModelProto()).graph.initializer
    assert {tensor.data_type for tensor in changed} == {TensorProto.FLOAT16}


def test_edits_of_many_initializers_take_time_by_their_number():
    def seconds(count):
        weights = [numpy_helper.from_array(np.array([i]), f"w{i}") for i in range(count)]
        nodes = [helper.make_node("Sum", [w.name for w in weights], ["y"])]
        inputs = [info(w.name, TensorProto.INT64, [1]) for w in weights]
        graph = helper.make_graph(nodes, "many", inputs, [info("y", TensorProto.INT64, [1])], weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        transformer = popart.GraphTransformer(model.SerializeToString())
        start = time.process_time()
        transformer.convertAllFixedPointInitializersToConstants()
        elapsed = time.process_time() - start
        assert not onnx.load_from_string(transformer.getModelProto()).graph.initializer
        return elapsed

    seconds(100)
    assert seconds(32_000) < 24 * max(seconds(4_000), 0.005)


@pytest.mark.parametrize("dims", [[2**47], [2**31, 2**31], [-1]])
def test_sizes_of_damaged_initializers_are_no_numbers(dims):
    weights = [TensorProto(name=f"w{i}", dims=dims, data_type=TensorProto.DOUBLE) for i in range(1 << 13)]
    graph = helper.make_graph([], "damaged", [], [], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    with pytest.raises(popart.popart_exception, match=r"w\d+|damaged"):
        popart_core._describeModel(model, popart.InputShapeInfo())
