"""What tests of training share: models written by hand, sessions over them with a square loss, and what they save."""

import copy

import numpy as np
import popart

import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT
RATE = 0.05


def node(kind, inputs, outputs, **attributes):
    return helper.make_node(kind, inputs, [outputs] if isinstance(outputs, str) else outputs, **attributes)


def model_of(nodes, inputs, outputs, weights, opset=17, **more):
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()]
    results = outputs if isinstance(outputs, dict) else dict.fromkeys(outputs)
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in results.items()],
        tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9, **more)
    return onnx.shape_inference.infer_shapes(model)


def with_square_loss(model):
    """The model with the mean of its squared first output as loss."""
    made = copy.deepcopy(model)
    output = made.graph.output[0].name
    made.graph.node.extend(
        [node("Mul", [output, output], "squares"), node("ReduceMean", ["squares"], "loss", keepdims=0)]
    )
    made.graph.output.append(helper.make_tensor_value_info("loss", FLOAT, []))
    return made


def trainer(model, rate=RATE, **more):
    session = popart.TrainingSession(
        fnModel=with_square_loss(model).SerializeToString(),
        dataFlow=popart.DataFlow(1, ["loss"]),
        loss="loss",
        optimizer=more.pop("optimizer", None) or popart.SGD({"defaultLearningRate": (rate, False)}),
        deviceInfo=popart.DeviceManager().createCpuDevice(),
        **more,
    )
    session.prepareDevice()
    session.weightsFromHost()
    return session


def step(session, feeds):
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO(feeds, anchors))
    return float(anchors["loss"])


def saved(session, folder):
    path = str(folder / "trained.onnx")
    session.modelToHost(path)
    trained = onnx.load(path)
    onnx.checker.check_model(trained)
    return trained


def values_of(model):
    return {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}


def trains(model, **more):
    return {t.name: t.trains for t in popart.trainable_tensors(model.SerializeToString(), **more)}


def reasons(model):
    return {t.name: t.reason for t in popart.trainable_tensors(model.SerializeToString())}
