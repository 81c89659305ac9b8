"""Wrong use of sessions, of their inputs and of their files."""

import tempfile
from pathlib import Path

import numpy as np
import popart

from tests.errors.failure import Failure, parsed, relu_model, session, training_model


def ready(**more):
    s = session(relu_model(), **more)
    s.prepareDevice()
    return s


def running(inputs, arrays=None):
    """Run relu of x, float32[2, 3], with other arrays."""

    def program():
        s = ready()
        s.run(popart.PyStepIO(inputs, arrays if arrays is not None else s.initAnchorArrays()))

    return program


def training(loss=None, optimizer=None, anchors=None, model=None, **more):
    def program():
        proto, own_loss = training_model()
        return popart.TrainingSession(
            model or proto,
            popart.DataFlow(1, anchors or []),
            loss or own_loss,
            popart.ConstSGD(0.1) if optimizer is None else optimizer,
            popart.DeviceManager().createCpuDevice(),
            **more,
        )

    return program


def options(**values):
    result = popart.SessionOptions()
    for name, value in values.items():
        setattr(result, name, value)
    return result


def weights_of_other_model():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "other.onnx"
        path.write_bytes(relu_model(weight=4))
        s = session(relu_model(weight=3), userOptions=options(constantWeights=False))
        s.prepareDevice()
        s.resetHostWeights(str(path))


def output_of(model, **more):
    """An inference session with the anchor `output`."""
    return lambda: session(model, ["output"], **more)


def two_outputs():
    model = parsed("float[2,3] x", "y = Relu(x) z = Neg(x)", outputs="y, z")
    return model.SerializeToString()


def builder_input_output():
    builder = popart.Builder(two_outputs())
    builder.aiGraphcore.gelu(["output"])


X = np.zeros((2, 3), np.float32)
OUT = np.zeros((2, 3), np.float32)
CPU = popart.DeviceManager().createCpuDevice

FAILURES = [
    Failure("session_unknown_anchor", lambda: session(relu_model(), ["nothing"]), "nothing"),
    Failure("session_without_anchors", lambda: session(relu_model(), []), "anchor"),
    Failure(
        "session_without_batches",
        lambda: popart.InferenceSession(relu_model(), popart.DataFlow(0, ["y"]), CPU()),
        "batchesPerStep",
    ),
    Failure(
        "session_without_device",
        lambda: popart.InferenceSession(relu_model(), popart.DataFlow(1, ["y"]), None),
        "deviceInfo",
    ),
    Failure("session_without_data_flow", lambda: popart.InferenceSession(relu_model()), "dataFlow", TypeError),
    *(
        Failure(f"optimizer_that_is_{name}", training(optimizer=given), "optimizer: got", TypeError)
        for name, given in {
            "a_number": 0.1,
            "zero": 0,
            "a_numpy_number": np.float32(0.1),
            "a_name": "sgd",
            "settings": {"defaultLearningRate": (0.1, True)},
            "a_class": popart.SGD,
        }.items()
    ),
    Failure("data_flow_of_names", lambda: popart.InferenceSession(relu_model(), ["y"], CPU()), "dataFlow", TypeError),
    Failure(
        "device_that_is_a_name",
        lambda: popart.InferenceSession(relu_model(), popart.DataFlow(1, ["y"]), "cpu"),
        "deviceInfo: got 'cpu'",
        TypeError,
    ),
    *(
        Failure(
            f"tensor_info_of_{name}", lambda size=size: popart.TensorInfo("FLOAT", [2, size]), "not integers", TypeError
        )
        for name, size in {
            "float": 3.0,
            "fraction": 2.5,
            "numpy_float": np.float32(3),
            "text": "3",
            "none": None,
        }.items()
    ),
    Failure("anchor_every_0th", lambda: popart.AnchorReturnType("EveryN", 0), "return period"),
    Failure("anchor_of_unknown_kind", lambda: popart.AnchorReturnType("Sometimes"), "Sometimes"),
    Failure(
        "anchor_every_3rd_of_4", lambda: popart.DataFlow(4, {"y": popart.AnchorReturnType("EveryN", 3)}), "must divide"
    ),
    Failure(
        "shape_info_of_other_rank",
        lambda: session(relu_model(), inputShapeInfo=shapes("x", [2, 3, 4])),
        "rank given by InputShapeInfo",
    ),
    Failure(
        "shape_info_of_other_type",
        lambda: session(relu_model(), inputShapeInfo=shapes("x", [2, 3], "INT32")),
        "element type given by InputShapeInfo",
    ),
    # ---- order of calls
    Failure(
        "run_before_prepare", lambda: session(relu_model()).run(popart.PyStepIO({"x": X}, {"y": OUT})), "prepareDevice"
    ),
    Failure("weights_from_host_before_prepare", lambda: session(relu_model()).weightsFromHost(), "prepareDevice"),
    Failure("weights_to_host_before_prepare", lambda: session(relu_model()).weightsToHost(), "prepareDevice"),
    # ---- arrays
    Failure("run_without_input", running({}), "No tensor 'x' provided", popart.popart_runtime_error),
    Failure(
        "run_with_other_type",
        running({"x": X.astype(np.float64)}),
        "got float64, expected float32",
        popart.popart_runtime_error,
    ),
    Failure(
        "run_with_integers",
        running({"x": X.astype(np.int32)}),
        "got int32, expected float32",
        popart.popart_runtime_error,
    ),
    Failure(
        "run_with_other_shape",
        running({"x": np.zeros((2, 4), np.float32)}),
        "got 8, expected 6",
        popart.popart_runtime_error,
    ),
    Failure(
        "run_with_missing_batch",
        running({"x": np.zeros(3, np.float32)}),
        "got 3, expected 6",
        popart.popart_runtime_error,
    ),
    Failure("run_with_strided_input", running({"x": np.zeros((2, 6), np.float32)[:, ::2]}), "not C-contiguous"),
    Failure("run_with_text", running({"x": np.array([["a"] * 3] * 2)}), "no numpy type"),
    Failure("run_with_no_array", running({"x": "text"}), "expected a NumPy array"),
    Failure("run_without_anchor_array", running({"x": X}, {}), "No tensor 'y' provided", popart.popart_runtime_error),
    Failure(
        "run_with_anchor_of_other_type",
        running({"x": X}, {"y": OUT.astype(np.int32)}),
        "got int32, expected float32",
        popart.popart_runtime_error,
    ),
    Failure(
        "run_with_anchor_of_other_shape",
        running({"x": X}, {"y": np.zeros(5, np.float32)}),
        "got 5, expected 6",
        popart.popart_runtime_error,
    ),
    Failure(
        "run_with_strided_anchor", running({"x": X}, {"y": np.zeros((2, 6), np.float32)[:, ::2]}), "not C-contiguous"
    ),
    Failure("run_with_a_number_as_input_name", lambda: popart.PyStepIO({7: X}, {}), "got 7, expected str", TypeError),
    Failure(
        "run_with_none_as_output_name", lambda: popart.PyStepIO({}, {None: X}), "got None, expected str", TypeError
    ),
    Failure("weights_by_bytes", lambda: popart.PyWeightsIO({b"w": X}), "got b'w', expected str", TypeError),
    Failure(
        "device_option_by_number",
        lambda: popart.DeviceManager().createIpuModelDevice({3: 1}),
        "got 3, expected str",
        TypeError,
    ),
    Failure("info_of_nothing", lambda: ready().getInfo("nothing"), "nothing"),
    # ---- the name `output` where it does not mean the only result
    Failure("output_of_a_model_with_two", output_of(two_outputs()), "'output' names no tensor"),
    Failure("outputs_is_not_output", lambda: session(relu_model(), ["Output"]), "'Output' names no tensor"),
    Failure("builder_input_output_of_a_model_with_two", builder_input_output, "input tensor 'output' does not exist"),
    Failure(
        "loss_object_of_unknown_input",
        lambda: loss_object_session(popart.L1Loss("result", "loss", 0.1)),
        "no tensor 'result'",
    ),
    # ---- weights by name
    Failure(
        "write_weights_that_are_constants",
        lambda: ready_constant().writeWeights(popart.PyWeightsIO({"w": np.zeros(3, np.float32)})),
        "constantWeights",
        popart.popart_runtime_error,
    ),
    # ---- training
    Failure(
        "training_without_optimizer",
        lambda: popart.TrainingSession(relu_model(), popart.DataFlow(1, []), "y"),
        "optimizer",
        TypeError,
    ),
    Failure("training_of_unknown_loss", training(loss="nothing"), "nothing"),
    Failure("training_of_a_loss_that_is_no_scalar", training(loss="Softmax:0"), "must have one element"),
    Failure("training_with_unknown_anchor", training(anchors=["nothing"]), "nothing"),
    Failure(
        "training_to_missing_folder",
        lambda: prepared_training().modelToHost("/nonexistent/folder/m.onnx"),
        "/nonexistent/folder",
    ),
    Failure(
        "reset_weights_from_missing_file",
        lambda: prepared_training().resetHostWeights("/nonexistent/m.onnx"),
        "/nonexistent",
    ),
    Failure(
        "reset_weights_of_other_shape", weights_of_other_model, "another type or shape", popart.popart_runtime_error
    ),
]


def shapes(name, shape, kind="FLOAT"):
    info = popart.InputShapeInfo()
    info.add(name, popart.TensorInfo(kind, shape))
    return info


def loss_object_session(loss):
    proto, _ = training_model()
    return popart.TrainingSession(
        proto, popart.DataFlow(1, []), losses=[loss], optimizer=popart.ConstSGD(0.1), deviceInfo=CPU()
    )


def ready_constant():
    s = session(relu_model(weight=3))
    s.prepareDevice()
    s.weightsToHost()
    return s


def prepared_training():
    s = training()()
    s.prepareDevice()
    s.weightsFromHost()
    s.weightsToHost()
    return s
