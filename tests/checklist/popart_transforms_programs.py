"""Statements of popart-transforms.md that a program can see: section, statement, a program that is true if it holds.

What whole test files are about stands in `popart_transforms.py` with the name of its test.
"""

import json
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import popart

from tests.checklist.popart_python_refusals import cpu, options


class Statement(NamedTuple):
    """One row; a program that raises fails it."""

    section: str
    statement: str
    program: Any
    open: str = ""  # why it does not hold yet; a row that holds must lose this


def op_types(session):
    """How often the IR of a session, as it is serialised, has each type of operator."""
    graphs = json.loads(session._serializeIr(popart.IrSerializationFormat.JSON))
    return Counter(op["type"] for graph in graphs.values() for op in graph)


class Network:
    """y = body(builder, x, w), its sum as loss, and sessions on it; x: float32[2, 3], w: float32[2, 3]."""

    def __init__(self, body, weight=None):
        self.builder = popart.Builder()
        self.x = self.builder.addInputTensor("FLOAT", [2, 3], "x")
        weight = np.arange(1, 7, dtype=np.float32).reshape(2, 3) if weight is None else weight
        self.w = self.builder.addInitializedInputTensor(weight, "w")
        self.y = body(self.builder, self.x, self.w)

    def inference(self, anchors=None, patterns=None, **given):
        return popart.InferenceSession(
            self.builder.getModelProto(),
            popart.DataFlow(1, anchors or [self.y]),
            cpu(),
            userOptions=options(**given),
            **({} if patterns is None else {"patterns": patterns}),
        )

    def training(self, anchors=(), patterns=None, optimizer=None, flow=None, **given):
        loss = self.builder.aiGraphcore.l1loss([self.y], 1.0, reduction=popart.ReductionType.Sum)
        return popart.TrainingSession(
            self.builder.getModelProto(),
            flow(loss) if flow else popart.DataFlow(1, [loss, *anchors]),
            loss,
            optimizer or popart.SGD({"defaultLearningRate": (0.1, False)}),
            cpu(),
            userOptions=options(**given),
            **({} if patterns is None else {"patterns": patterns}),
        )

    def step(self, session, x=None):
        session.prepareDevice()
        session.weightsFromHost()
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO({"x": np.ones((2, 3), np.float32) if x is None else x}, anchors))
        return anchors


def product(builder, x, w):
    return builder.aiOnnx.mul([x, w])


def without(*names):
    patterns = popart.Patterns(popart.PatternsLevel.Default)
    for name in names:
        patterns.enablePattern(name, False)
    return patterns


def conv_without(pattern, operator):
    """Training of the weights of a convolution without the pattern."""

    def program():
        builder = popart.Builder()
        x = builder.addInputTensor("FLOAT", [1, 2, 4, 4], "x")
        w = builder.addInitializedInputTensor(np.ones((2, 2, 3, 3), np.float32), "w")
        y = getattr(builder.aiOnnx, operator)([x, w])
        loss = builder.aiGraphcore.identityloss([y], reduction=popart.ReductionType.Sum)
        patterns = without().enableRuntimeAsserts(False)
        patterns.enablePattern(pattern, False)
        session = popart.TrainingSession(
            builder.getModelProto(),
            popart.DataFlow(1, [loss, "Gradient___x"]),
            loss,
            popart.ConstSGD(0.1),
            cpu(),
            patterns=patterns,
        )
        session.prepareDevice()
        return True

    return program


# ---- 1. order of preparation
def unused_initialisers_are_not_created():
    network = Network(product)
    network.builder.addInitializedInputTensor(np.ones(3, np.float32), "unused")
    ids = network.inference().getAllTensorIds()
    return "unused" not in ids and "w" in ids


def weights_of_inference_are_constants(constant):
    def program():
        session = Network(product).inference(constantWeights=constant)
        session.prepareDevice()
        session.weightsFromHost()
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO({"x": np.ones((2, 3), np.float32)}, anchors))
        return next(iter(anchors.values()))[1, 2] == 6

    return program


# ---- 3.1 to 3.3
def folds(many):
    """A sum of constants of which one has another reader too."""

    def program():
        def body(b, x, w):
            one = b.aiOnnx.constant(np.ones((2, 3), np.float32))
            two = b.aiOnnx.add([one, b.aiOnnx.constant(np.ones((2, 3), np.float32))])
            return b.aiOnnx.mul([b.aiOnnx.mul([x, one]), two])

        network = Network(body)
        session = network.inference(enableConstantFoldingOfMultipleConsumers=many)
        result = network.step(session)[network.y]
        return op_types(session)["Add"] == (0 if many else 1) and (result == 2).all()

    return program


def variables_are_not_folded():
    network = Network(lambda b, x, w: b.aiOnnx.mul([x, b.aiOnnx.exp([w])]))
    types = op_types(network.training())
    return types["Exp"] + types["ExpInplace"] == 1


def gradients_of_inputs_may_be_anchored():
    network = Network(product)
    anchors = network.step(network.training(["Gradient___x", "Gradient___w"]))
    return (anchors["Gradient___x"] == np.arange(1, 7).reshape(2, 3)).all() and (anchors["Gradient___w"] == 1).all()


def prunes():
    def body(b, x, w):
        b.aiOnnx.sin([x])
        return b.aiOnnx.mul([x, w])

    network = Network(body)
    return op_types(network.inference())["Sin"] == 0


def an_anchored_gradient_keeps_its_producers():
    def body(b, x, w):
        return b.aiOnnx.mul([b.aiOnnx.exp([x]), w])

    types = [op_types(Network(body).training(anchors)) for anchors in ((), ("Gradient___x",))]
    return sum(types[1].values()) > sum(types[0].values())


# ---- 3.5
def accumulates(reduction, strategy, expected):
    def program():
        network = Network(product)
        session = network.training(
            enableGradientAccumulation=True,
            accumulationFactor=4,
            accumulationAndReplicationReductionType=reduction,
            meanAccumulationAndReplicationReductionStrategy=strategy,
        )
        network.step(session, np.full((4, 2, 3), np.arange(1, 5).reshape(4, 1, 1), np.float32))
        session.weightsToHost()
        w = np.empty((2, 3), np.float32)
        session.readWeights(popart.PyWeightsIO({"w": w}))
        return np.allclose(w, np.arange(1, 7).reshape(2, 3) - 0.1 * expected, atol=1e-6)

    return program


# ---- 3.9, 3.11, 3.14, 3.17, 3.20
def copies_between_ipus():
    def body(b, x, w):
        with b.virtualGraph(0):
            h = b.aiOnnx.mul([x, w])
        with b.virtualGraph(1):
            return b.aiOnnx.sin([h])

    network = Network(body)
    manual = network.inference(virtualGraphMode=popart.VirtualGraphMode.Manual)
    off = network.inference(virtualGraphMode=popart.VirtualGraphMode.Off)
    return op_types(manual)["IpuCopy"] == 1 and op_types(off)["IpuCopy"] == 0


def serialises_batches(method, types):
    def program():
        network = Network(product)
        settings = popart.BatchSerializationSettings()
        settings.factor, settings.method = 2, method
        plain, cut = network.inference(), network.inference(batchSerializationSettings=settings)
        same = np.array_equal(network.step(plain)[network.y], network.step(cut)[network.y])
        return same and all(op_types(cut)[t] > op_types(plain)[t] for t in types)

    return program


def works_in_place(level, expected):
    """A Relu of what nothing else reads."""

    def program():
        network = Network(lambda b, x, w: b.aiOnnx.sin([b.aiOnnx.relu([b.aiOnnx.mul([x, w])])]))
        patterns = popart.Patterns(level)
        types = op_types(network.inference(patterns=patterns))
        return types["ReluInplace"] == expected and types["Relu"] == 1 - expected

    return program


def an_anchored_tensor_is_not_overwritten():
    network = Network(lambda b, x, w: b.aiOnnx.relu([b.aiOnnx.neg([b.aiOnnx.mul([x, w])])]))
    negated = next(t for t in network.inference().getAllTensorIds() if t.startswith("Neg"))
    anchors = network.step(network.inference([network.y, negated]))
    return (anchors[negated] < 0).all() and (anchors[network.y] == 0).all()


# ---- 3.18
def transfers_are_operations():
    network = Network(product)
    types = op_types(network.inference(useHostCopyOps=True))
    return types["HostLoad"] == 1 and types["HostStore"] == 1 and op_types(network.inference())["HostLoad"] == 0


def exchanges(merges):
    def program():
        def body(b, x, w):
            return b.aiOnnx.add([b.aiOnnx.mul([x, w]), b.addInputTensor("FLOAT", [2, 3], "other")])

        types = op_types(Network(body).inference(useHostCopyOps=True, enableMergeExchange=merges))
        return (types["MultiExchange"], types["HostLoad"]) == ((1, 0) if merges else (0, 2))

    return program


# ---- 3.23
def the_global_norm_may_be_anchored():
    network = Network(product)
    clip = [popart.ClipNormSettings.clipAllWeights(1.0)]
    optimizer = popart.SGD({"defaultLearningRate": (0.1, False)}, clip_norm_settings=clip)
    session = network.training(optimizer=optimizer)
    (norm,) = [t for t in session.getTensorIds() if t.startswith("GlobalNorm___")]
    again = network.training([norm], optimizer=optimizer)
    return np.allclose(network.step(again)[norm], np.sqrt(6), rtol=1e-6)


Levels, Methods = popart.PatternsLevel, popart.BatchSerializationMethod
Sum, Mean = popart.ReductionType.Sum, popart.ReductionType.Mean
Post, Running = popart.MeanReductionStrategy.Post, popart.MeanReductionStrategy.Running

FIRST = "the first operator of a program runs between its loads where it needs one of them alone"

STATEMENTS = [
    Statement("2", "ConvFlipWeightsGradOp is not for Conv", conv_without("ConvFlipWeightsGradOp", "conv")),
    Statement("1", "unused initialisers are not created", unused_initialisers_are_not_created),
    Statement("1", "weights of inference as constants", weights_of_inference_are_constants(True)),
    Statement("1", "weights of inference as variables", weights_of_inference_are_constants(False)),
    Statement("3.1", "ops of constants are absent from the IR", folds(True)),
    Statement("3.1", "an op stays whose input has other consumers", folds(False)),
    Statement("3.1", "variables are never constant in training", variables_are_not_folded),
    Statement("3.2", "gradients of inputs and weights", gradients_of_inputs_may_be_anchored),
    Statement("3.3", "unused branches vanish", prunes),
    Statement("3.3", "anchoring a gradient keeps its producers", an_anchored_gradient_keeps_its_producers),
    Statement("3.5", "sum over micro-batches", accumulates(Sum, Post, 10)),
    Statement("3.5", "mean at the end", accumulates(Mean, Post, 2.5)),
    Statement("3.5", "running mean", accumulates(Mean, Running, 2.5)),
    Statement("3.9", "an IpuCopy where a tensor crosses, none with mode Off", copies_between_ipus),
    Statement("3.14", "UnrollStatic cuts by Slice", serialises_batches(Methods.UnrollStatic, ["Slice"])),
    Statement("3.14", "UnrollDynamic by DynamicSlice", serialises_batches(Methods.UnrollDynamic, ["DynamicSlice"])),
    Statement("3.14", "Loop", serialises_batches(Methods.Loop, ["Loop"])),
    Statement("3.20", "ReluInplace by default", works_in_place(Levels.Default, 1)),
    Statement("3.20", "no ReluInplace with Minimal", works_in_place(Levels.Minimal, 0)),
    Statement("3.20", "anchored tensors are not overwritten", an_anchored_tensor_is_not_overwritten),
    Statement("3.18", "HostLoad and HostStore with useHostCopyOps", transfers_are_operations),
    Statement("3.18", "MultiExchange with enableMergeExchange", exchanges(True), FIRST),
    Statement("3.18", "HostLoads without enableMergeExchange", exchanges(False)),
    Statement("3.23", "GlobalNorm___ may be anchored", the_global_norm_may_be_anchored),
]
