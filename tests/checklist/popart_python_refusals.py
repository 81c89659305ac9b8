"""What popart-python.md says is refused: section, situation, exception class, and a program that is in that situation.

The program ends with the call that must refuse; everything before it must work.
"""

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import popart
from popart import popart_exception, popart_runtime_error


class Refusal(NamedTuple):
    """One row: `program` raises `exception`, and each of `names` stands in the message."""

    section: str
    situation: str
    exception: type[BaseException]
    program: Any
    names: tuple[str, ...] = ()
    open: str = ""  # why it is not refused like that yet; a row that passes must lose this


def options(**values):
    result = popart.SessionOptions()
    for name, value in values.items():
        setattr(result, name, value)
    return result


def model(weight=True):
    """(bytes, input, output): relu of x, float32[2, 3], times a weight."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 3], "x")
    y = builder.aiOnnx.relu([x])
    if weight:
        y = builder.aiOnnx.mul([y, builder.addInitializedInputTensor(np.ones((2, 3), np.float32), "w")])
    builder.addOutputTensor(y)
    return builder.getModelProto(), x, y


def cpu():
    return popart.DeviceManager().createCpuDevice()


def inference(anchors=None, flow=None, device=None, prepare=False, **more):
    proto, _, y = model()
    session = popart.InferenceSession(
        proto, flow or popart.DataFlow(1, [y] if anchors is None else anchors), device or cpu(), **more
    )
    if prepare:
        session.prepareDevice()
    return session


def training(optimizer=None, loss=None, prepare=False, **more):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 3], "x")
    w = builder.addInitializedInputTensor(np.ones((2, 3), np.float32), "w")
    y = builder.aiOnnx.mul([x, w])
    own = builder.aiGraphcore.identityloss([y])
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, [own]),
        {"y": y, None: own}.get(loss, loss),
        optimizer or popart.ConstSGD(0.1),
        cpu(),
        **more,
    )
    if prepare:
        session.prepareDevice()
    return session


def step(session, inputs=None, outputs=None):
    arrays = session.initAnchorArrays() if outputs is None else outputs
    session.run(popart.PyStepIO({"x": np.ones((2, 3), np.float32)} if inputs is None else inputs, arrays))


def subgraph_input(opset=10):
    return popart.Builder(opsets={"ai.onnx": opset, "ai.graphcore": 1})


def with_input(call, shape=(2, 3, 4, 4), opset=10):
    """`call` gets a builder and an input."""

    def program():
        builder = subgraph_input(opset)
        call(builder, builder.addInputTensor("FLOAT", list(shape), "x"))

    return program


def weight(builder):
    """Of a convolution of the usual input: kernel (2, 2)."""
    return builder.addInitializedInputTensor(np.ones((1, 3, 2, 2), np.float32), "w")


def excluded_pattern():
    builder = popart.Builder()
    y = builder.aiOnnx.relu([builder.addInputTensor("FLOAT", [2], "x")])
    builder.excludePatterns(y, ["NoPattern"])
    popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), cpu())


def two_namespaces(builder, x):
    builder.aiOnnx.relu([x])
    builder.aiOnnxOpset11.relu([x])


def specific_twice():
    optimizer = popart.SGD({})
    optimizer.insertSpecific("w", {"learningRate": (0.5, True)})
    optimizer.insertSpecific("w", {"learningRate": (0.5, True)})


def sgd(**values):
    return lambda: popart.SGD({name: (value, True) for name, value in values.items()})


def adam(**values):
    return lambda: popart.Adam({name: (value, True) for name, value in values.items()})


def changed_constant():
    session = training(popart.SGD({"defaultLearningRate": (0.1, True)}), prepare=True)
    session.updateOptimizerFromHost(popart.SGD({"defaultLearningRate": (0.2, True)}))


def other_optimizer():
    session = training(popart.SGD({"defaultLearningRate": (0.1, False)}), prepare=True)
    session.updateOptimizerFromHost(popart.Adam({"defaultLearningRate": (0.2, False)}))


def acquire_twice():
    manager = popart.DeviceManager()
    device = manager.acquireDeviceById(0)
    try:
        manager.acquireDeviceById(0)
    finally:
        device.detach()


def missing_location():
    with tempfile.TemporaryDirectory() as folder:
        builder = popart.Builder()
        w = builder.addInitializedInputTensor(np.ones(4, np.float32), "w")
        builder.addOutputTensor(builder.aiOnnx.relu([w]))
        data = Path(folder) / "weights.bin"
        builder.saveInitializersExternally([w], str(data))
        data.unlink()
        path = Path(folder) / "model.onnx"
        path.write_bytes(builder.getModelProto())
        popart.Builder(str(path))


def random_seed_early():
    builder = popart.Builder()
    y = builder.aiOnnx.randomnormal([2])
    session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), cpu())
    session.setRandomSeed(1)


def open_dimension():
    import onnx

    proto = onnx.load_from_string(model()[0])
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    _, _, y = model()
    popart.InferenceSession(proto.SerializeToString(), popart.DataFlow(1, [y]), cpu())


def input_sized(array):
    return lambda: step(inference(prepare=True), {"x": array})


def wrong_state():
    session = inference(userOptions=options(enableLoadAndOffloadRNGState=True), prepare=True)
    session.setRNGState([1] * (len(session.getRNGState()) + 1))


A = popart.AnchorReturnType

REFUSALS = [
    # 1-3
    Refusal("1", "type without a number here", popart_exception, lambda: popart.getTensorInfo(np.zeros(2, np.float64))),
    Refusal("1", "unknown sync pattern", popart_exception, lambda: popart.syncPatternFromString("none"), ("none",)),
    Refusal("3", "TensorInfo of nothing", TypeError, lambda: popart.TensorInfo()),
    Refusal("3", "TensorInfo of three arguments", TypeError, lambda: popart.TensorInfo("FLOAT", [1], 2)),
    Refusal("3", "TensorInfo of a Python type", KeyError, lambda: popart.TensorInfo(float, [1])),
    Refusal("3", "dimension beyond the rank", popart_exception, lambda: popart.TensorInfo("FLOAT", [2, 3]).dim(2)),
    # 4
    Refusal("4", "unknown return type", popart_exception, lambda: A("sometimes"), ("sometimes",)),
    Refusal("4", "EveryN without a period", popart_exception, lambda: A("EveryN")),
    Refusal("4", "a period of zero", popart_exception, lambda: A("EveryN", 0), ("0",)),
    Refusal("4", "a period for another kind", popart_exception, lambda: A("All", 2)),
    Refusal("4", "rp of another kind", popart_exception, lambda: A("All").rp()),
    Refusal("4", "no batches per step", popart_exception, lambda: popart.DataFlow(0, {})),
    Refusal("4", "a period above the batches", popart_exception, lambda: popart.DataFlow(2, {"x": A("EveryN", 3)})),
    Refusal("4", "a period that does not divide", popart_exception, lambda: popart.DataFlow(4, {"x": A("EveryN", 3)})),
    Refusal("4", "art of no anchor", popart_exception, lambda: popart.DataFlow(1, {}).art("x"), ("x",)),
    Refusal("4", "anchor that names no tensor", popart_exception, lambda: inference(["none"]), ("none",)),
    Refusal("4", "shape of an unknown id", popart_exception, lambda: popart.InputShapeInfo().get("x"), ("x",)),
    Refusal(
        "4",
        "input that is not contiguous",
        popart_exception,
        lambda: popart.PyStepIO({"x": np.ones((4, 4), np.float32)[::2]}, {}),
        ("x",),
    ),
    Refusal(
        "4",
        "output that is not contiguous",
        popart_exception,
        lambda: popart.PyStepIO({}, {"y": np.ones((3, 4), np.float32).T}),
        ("y",),
    ),
    Refusal(
        "4",
        "weight that is not contiguous",
        popart_exception,
        lambda: popart.PyWeightsIO({"w": np.ones((3, 4), np.float32).T}),
        ("w",),
    ),
    Refusal("4", "too many elements", popart_runtime_error, input_sized(np.ones((3, 3), np.float32)), ("x", "9", "6")),
    Refusal("4", "another type", popart_runtime_error, input_sized(np.ones((2, 3), np.float16)), ("x", "float16")),
    Refusal(
        "4",
        "input name unknown everywhere",
        popart_runtime_error,
        lambda: step(inference(prepare=True), {"x": np.ones((2, 3), np.float32), "other": np.ones((2, 3), np.float32)}),
        ("other",),
    ),
    Refusal("4", "missing input", popart_runtime_error, lambda: step(inference(prepare=True), {}), ("x",)),
    Refusal("4", "missing output", popart_runtime_error, lambda: step(inference(prepare=True), outputs={})),
    # 5
    Refusal("5.1", "opsets without a domain", KeyError, lambda: popart.Builder(opsets={"ai.onnx": 9})),
    Refusal("5.1", "a second ai.onnx namespace", RuntimeError, with_input(two_namespaces), ("aiOnnxOpset11", "10")),
    Refusal("5.1", "bytes that are no model", popart_exception, lambda: popart.Builder(b"nonsense")),
    Refusal(
        "5.1", "a file that does not exist", popart_exception, lambda: popart.Builder("/none.onnx"), ("/none.onnx",)
    ),
    Refusal(
        "5.2", "untyped input of the main graph", popart_exception, lambda: popart.Builder().addUntypedInputTensor()
    ),
    Refusal(
        "5.2",
        "tensor that no parent has",
        popart_exception,
        lambda: popart.Builder().createSubgraphBuilder().addInputTensorFromParentGraph("none"),
        ("none",),
    ),
    *(
        Refusal(
            "5.2",
            f"initialised tensor of {dtype.__name__}",
            popart_exception,
            lambda dtype=dtype: popart.Builder().addInitializedInputTensor(np.zeros(2, dtype)),
        )
        for dtype in (np.float64, np.complex64)
    ),
    Refusal(
        "5.2", "shape of an unknown id", popart_exception, lambda: popart.Builder().getTensorShape("none"), ("none",)
    ),
    Refusal(
        "5.2",
        "external weights that are none",
        popart_exception,
        lambda: popart.Builder().saveInitializersExternally(["none"], "weights.bin"),
        ("none",),
    ),
    *(
        Refusal(
            "5.3",
            f"current {what} when there is none",
            popart_exception,
            lambda what=what: getattr(popart.Builder(), what)(),
        )
        for what in ("getVirtualGraph", "getExecutionPhase", "getPipelineStage")
    ),
    Refusal(
        "5.3",
        "memory proportion beyond 1",
        popart_exception,
        with_input(lambda b, x: b.setAvailableMemoryProportion(b.aiOnnx.matmul([x, x]), 1.5)),
    ),
    Refusal(
        "5.3",
        "partials of another operator",
        popart_exception,
        with_input(lambda b, x: b.setPartialsType(b.aiOnnx.relu([x]), "FLOAT")),
    ),
    Refusal(
        "5.3",
        "unknown serialisation",
        popart_exception,
        with_input(lambda b, x: b.setSerializeMatMul({b.aiOnnx.matmul([x, x])}, "rows", 2)),
        ("rows",),
    ),
    Refusal(
        "5.3",
        "attribute that the node lacks",
        popart_exception,
        with_input(lambda b, x: b.getInt64NodeAttribute("none", {b.aiOnnx.relu([x])})),
        ("none",),
    ),
    Refusal(
        "5.3",
        "attribute of another type",
        popart_exception,
        with_input(lambda b, x: b.getStringNodeAttribute("axis", {b.aiOnnx.softmax([x], 1)})),
        ("axis",),
    ),
    Refusal(
        "5.3",
        "removing an attribute that the node lacks",
        popart_exception,
        with_input(lambda b, x: b.removeNodeAttribute("none", {b.aiOnnx.relu([x])})),
        ("none",),
    ),
    Refusal(
        "5.3", "unknown node", popart_exception, lambda: popart.Builder().nodeHasAttribute("a", {"none"}), ("none",)
    ),
    Refusal(
        "5.3",
        "custom operator with a mixed list",
        popart_exception,
        with_input(lambda b, x: b.customOp("Foo", 1, "bar", [x], {"a": [1, 2.5]})),
        ("a",),
    ),
    Refusal(
        "5.3",
        "custom operator with an unknown input",
        popart_exception,
        with_input(lambda b, x: b.customOp("Foo", 1, "bar", ["none"], {})),
        ("none",),
    ),
    Refusal("5.3", "too few inputs", popart_exception, with_input(lambda b, x: b.aiOnnx.add([x])), ("Add",)),
    Refusal("5.3", "unknown input", popart_exception, with_input(lambda b, x: b.aiOnnx.relu(["none"])), ("none",)),
    Refusal(
        "5.3",
        "strides of the wrong length",
        popart_exception,
        with_input(lambda b, x: b.aiOnnx.averagepool([x], [2, 2], strides=[1])),
        ("strides", "1", "2"),
    ),
    Refusal(
        "5.3",
        "pads of a convolution of the wrong length",
        popart_exception,
        with_input(lambda b, x: b.aiOnnx.conv([x, weight(b)], pads=[1, 1, 1])),
        ("pads", "got 3", "expected 4", "2 spatial dimensions"),
    ),
    Refusal(
        "5.3",
        "a kernel that is larger than the image",
        popart_exception,
        with_input(lambda b, x: b.aiOnnx.conv([x, weight(b)], dilations=[4, 5])),
        ("[0, -1]",),
    ),
    Refusal("5.3", "a pattern that there is not", popart_exception, excluded_pattern, ("NoPattern", "excludePatterns")),
    Refusal("5.4", "one id for a list of ids", TypeError, with_input(lambda b, x: b.aiOnnx.relu(x)), ("relu",)),
    Refusal("5.4", "numbers for ids", TypeError, with_input(lambda b, x: b.aiOnnx.add([1, 2])), ("add", "got 1")),
    Refusal(
        "5.3",
        "pads of the wrong length",
        popart_exception,
        with_input(lambda b, x: b.aiOnnx.pad([x], [1, 1])),
        ("pads", "[1, 1]", "8"),
    ),
    Refusal(
        "5.3",
        "kernel shape other than the weight's",
        popart_exception,
        with_input(
            lambda b, x: b.aiOnnx.conv(
                [x, b.addInitializedInputTensor(np.ones((1, 3, 2, 2), np.float32), "w")], kernel_shape=[3, 3]
            )
        ),
        ("w",),
    ),
    Refusal(
        "5.3",
        "empty spatial output",
        popart_exception,
        with_input(lambda b, x: b.aiOnnx.maxpool([x], 1, [9, 9])),
    ),
    Refusal("5.4", "missing args", TypeError, lambda: popart.Builder().aiOnnx.conv(), ("conv",)),
    Refusal(
        "5.4", "text for a number", TypeError, with_input(lambda b, x: b.aiOnnx.add([x, x], "label"), opset=6), ("add",)
    ),
    Refusal(
        "5.4", "too many arguments", TypeError, with_input(lambda b, x: b.aiOnnx.add([x, x], 0, 1, "label")), ("add",)
    ),
    # 6
    Refusal("6", "inference without an anchor", popart_exception, lambda: inference([])),
    Refusal(
        "6",
        "no device",
        popart_exception,
        lambda: popart.InferenceSession(model()[0], popart.DataFlow(1, [model()[2]]), None),
    ),
    Refusal("6", "loss that does not exist", popart_exception, lambda: training(loss="none"), ("none",)),
    Refusal("6", "loss of several elements", popart_exception, lambda: training(loss="y")),
    Refusal("6", "engine before prepareDevice", popart_exception, lambda: inference().loadEngineAndConnectStreams()),
    Refusal("6", "training before weightsFromHost", popart_runtime_error, lambda: step(training(prepare=True))),
    Refusal("6", "run before prepareDevice", popart_exception, lambda: step(inference())),
    Refusal(
        "6",
        "writing constant weights",
        popart_runtime_error,
        lambda: inference(prepare=True).writeWeights(popart.PyWeightsIO({"w": np.ones((2, 3), np.float32)})),
    ),
    Refusal(
        "6",
        "resetting constant weights",
        popart_runtime_error,
        lambda: inference(prepare=True).resetHostWeights(model()[0]),
    ),
    Refusal(
        "6", "modelToHost before prepareDevice", popart_exception, lambda: inference().modelToHost("/tmp/none.onnx")
    ),
    Refusal("6", "seed before prepareDevice", popart_exception, random_seed_early),
    Refusal(
        "6", "random state without its option", popart_runtime_error, lambda: inference(prepare=True).getRNGState()
    ),
    Refusal("6", "random state of another length", popart_runtime_error, wrong_state),
    Refusal("6", "info of an unknown id", popart_exception, lambda: inference().getInfo("none"), ("none",)),
    Refusal("6", "cycles without the option", popart_exception, lambda: inference(prepare=True).getCycleCount()),
    Refusal(
        "6",
        "loading a missing executable",
        popart_exception,
        lambda: inference().loadExecutable("/none.popef"),
        ("/none.popef",),
    ),
    Refusal(
        "6",
        "offline compilation on an IPU model",
        popart_exception,
        lambda: inference(device=popart.DeviceManager().createIpuModelDevice({})).compileAndExport("/tmp/none/x.popef"),
    ),
    Refusal(
        "6.1",
        "external data that is not there",
        RuntimeError,
        missing_location,
        ("weights.bin",),
    ),
    Refusal("21", "input with an open dimension", popart_exception, open_dimension, ("x", "batch", "InputShapeInfo")),
    # 7
    Refusal("7", "three IPUs", popart_exception, lambda: popart.DeviceManager().acquireAvailableDevice(3)),
    Refusal(
        "7",
        "more IPUs than there are",
        popart_exception,
        lambda: popart.DeviceManager().acquireAvailableDevice(1024),
        ("1024",),
    ),
    Refusal(
        "7",
        "connection type Never",
        popart_exception,
        lambda: popart.DeviceManager().acquireAvailableDevice(1, connectionType=popart.DeviceConnectionType.Never),
    ),
    Refusal("7", "device attached already", popart_exception, acquire_twice),
    Refusal(
        "7",
        "unknown device id",
        popart.poplar_exception,
        lambda: popart.DeviceManager().acquireDeviceById(10**6),
    ),
    *(
        Refusal(
            "7",
            f"unknown key in {method}",
            popart_exception,
            lambda m=method: getattr(popart.DeviceManager(), m)({"none": 1}),
            ("none",),
        )
        for method in ("createIpuModelDevice", "createSimDevice", "createOfflineIPUDevice")
    ),
    # 8
    Refusal(
        "8.1", "hyper-parameter that is no tuple", popart_exception, lambda: popart.SGD({"defaultLearningRate": 0.1})
    ),
    Refusal("8.1", "key that is no text", popart_exception, lambda: popart.SGD({1: (0.1, True)})),
    Refusal("8.1", "loss scaling of zero", popart_exception, sgd(lossScaling=0)),
    Refusal("8.1", "unknown key", popart_exception, sgd(none=1), ("none", "defaultLearningRate")),
    Refusal("8.2", "negative learning rate", popart_exception, sgd(defaultLearningRate=-1)),
    Refusal("8.2", "negative weight decay", popart_exception, sgd(defaultWeightDecay=-1)),
    Refusal("8.2", "negative momentum", popart_exception, sgd(defaultMomentum=-1)),
    Refusal("8.2", "negative dampening", popart_exception, sgd(defaultDampening=-1)),
    Refusal("8.2", "velocity scaling of zero", popart_exception, sgd(defaultVelocityScaling=0)),
    Refusal(
        "8.2", "Nesterov with dampening", popart_exception, sgd(nesterov=1, defaultDampening=0.5, defaultMomentum=0.5)
    ),
    Refusal(
        "8.2",
        "unknown specific key",
        popart_exception,
        lambda: popart.SGD({}).insertSpecific("w", {"none": (1, True)}),
        ("none",),
    ),
    Refusal("8.2", "specific values given twice", popart_exception, specific_twice, ("w",)),
    Refusal("8.3", "negative beta", popart_exception, adam(defaultBeta1=-1)),
    Refusal("8.3", "epsilon of zero", popart_exception, adam(defaultEps=0)),
    Refusal(
        "8.4",
        "TensorFlow's variant of another mode",
        popart_exception,
        lambda: popart.Adaptive({}, mode=popart.AdaptiveMode.AdaGrad, rmsprop_tf_variant=True),
    ),
    Refusal(
        "8.5",
        "clipping all and some",
        popart_exception,
        lambda: training(
            popart.SGD(
                {},
                clip_norm_settings=[
                    popart.ClipNormSettings.clipAllWeights(1.0),
                    popart.ClipNormSettings.clipWeights(["w"], 1.0),
                ],
            )
        ),
    ),
    Refusal("8.6", "constant value that changes", popart_runtime_error, changed_constant),
    Refusal("8.6", "another optimizer", popart_runtime_error, other_optimizer),
    # 9
    Refusal("9", "unknown option", AttributeError, lambda: options(none=1), ("none",)),
    Refusal(
        "9",
        "accumulation factor without accumulation",
        popart_exception,
        lambda: training(userOptions=options(accumulationFactor=2)),
        ("accumulationFactor", "enableGradientAccumulation"),
    ),
    Refusal(
        "9",
        "accumulation in inference",
        popart_exception,
        lambda: inference(userOptions=options(accumulationFactor=2, enableGradientAccumulation=True)),
    ),
    Refusal(
        "9",
        "buffering depth of zero",
        popart_exception,
        lambda: inference(userOptions=options(defaultBufferingDepth=0)),
    ),
    Refusal(
        "9",
        "main loops without host copies",
        popart_exception,
        lambda: inference(userOptions=options(enableExplicitMainLoops=True)),
    ),
    # 10, 11, 17
    Refusal(
        "10",
        "groups of no replica",
        popart_exception,
        lambda: popart.VariableSettings(popart.CommGroup(popart.CommGroupType.Consecutive, 0)).verify(),
    ),
    Refusal("11", "unknown pattern", popart_exception, lambda: popart.Patterns(["Inplace"]), ("Inplace", "InPlace")),
    Refusal(
        "11",
        "mandatory pattern disabled",
        popart_exception,
        lambda: popart.Patterns().enablePattern("MatMulOp", False),
        ("MatMulOp",),
    ),
    Refusal(
        "11",
        "session without mandatory patterns",
        popart_exception,
        lambda: inference(patterns=popart.Patterns(popart.PatternsLevel.NoPatterns)),
    ),
    Refusal(
        "17",
        "constants of unknown initializers",
        popart_exception,
        lambda: popart.GraphTransformer(model()[0]).convertInitializersToConstants(["none"]),
        ("none",),
    ),
]
