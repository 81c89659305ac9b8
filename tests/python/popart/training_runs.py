"""What tests of sessions share: options by name, a session that is ready to run, its operators, all that it saves."""

import json
import re

import popart

import onnx
from onnx import numpy_helper


def options_with(factor=1, replicas=1, **given):
    """Session options: micro-batches of an update, replicas, and members by name."""
    options = popart.SessionOptions()
    options.enableGradientAccumulation = factor > 1
    options.accumulationFactor = factor
    options.enableReplicatedGraphs = replicas > 1
    options.replicatedGraphCount = replicas
    for name, value in given.items():
        setattr(options, name, value)
    return options


def training_session(proto, loss, optimizer, options=None, anchors=None, batches=1, device=None, patterns=None):
    """A session of `batches` batches per step; anchors: the loss unless given; device: the CPU."""
    return popart.TrainingSession(
        fnModel=proto,
        dataFlow=popart.DataFlow(batches, [loss] if anchors is None else anchors),
        loss=loss,
        optimizer=optimizer,
        deviceInfo=device or popart.DeviceManager().createCpuDevice(),
        userOptions=options or popart.SessionOptions(),
        patterns=patterns,
    )


def inference_session(proto, anchors, options=None, batches=1, device=None):
    """The same without training."""
    return popart.InferenceSession(
        fnModel=proto,
        dataFlow=popart.DataFlow(batches, anchors),
        deviceInfo=device or popart.DeviceManager().createCpuDevice(),
        userOptions=options or popart.SessionOptions(),
    )


def ready(session, seed=None):
    """The session, with its program compiled and weights and seed on the device."""
    session.prepareDevice()
    if seed is not None:
        session.setRandomSeed(seed)
    session.weightsFromHost()
    return session


def graphs_of(session):
    """Operators by graph, as the serialised IR has them."""
    return json.loads(session._serializeIr(popart.IrSerializationFormat.JSON))


def types_of(session):
    """Types of the operators of all graphs, in their order; what is computed in place counts as the plain operator."""
    return [plain_type(op["type"]) for ops in graphs_of(session).values() for op in ops]


def plain_type(type):
    """``AddLhsInplace`` -> ``Add``."""
    return re.sub("(Lhs|Rhs)?Inplace$", "", type)


def saved_state(session, folder):
    """Bytes of weights and optimizer state, by name, as a saved model has them."""
    path = str(folder / "model.onnx")
    session.modelToHost(path)
    return {t.name: numpy_helper.to_array(t).tobytes() for t in onnx.load(path).graph.initializer}


def kernels_of(session):
    """Kinds of the steps of the compiled program, those in loops and calls too."""
    kinds, programs = set(), [program for step in session.getReport().compilation.programs for program in step]
    while programs:
        program = programs.pop()
        kinds.add(program.name.split(".")[0])
        programs += program.children
    return kinds
