"""Recomputation: the same bits as the plain program in less memory, by rule and by marks on single operations."""

import re
from dataclasses import dataclass, field, replace

import numpy as np
import popart
import pytest

from tests.python.popart.training_runs import (
    graphs_of,
    options_with,
    ready,
    saved_state,
    training_session,
    types_of,
)

RNG = np.random.default_rng(23)
STEPS = 20
Standard, NormOnly = popart.RecomputationType.Standard, popart.RecomputationType.NormOnly
Pipeline, RecomputeAll = popart.RecomputationType.Pipeline, popart.RecomputationType.RecomputeAll
NoRecompute = popart.RecomputationType.NoRecompute
Recompute, Checkpoint = popart.RecomputeType.Recompute, popart.RecomputeType.Checkpoint


class Network:
    """A network that is built layer by layer; the same weights each time.

    Args:
        mark: Recompute type of all operations that `checkpoint` does not pass; None: unmarked.
        checkpoints: Whether what passes `checkpoint` is kept by `checkpointOutput`.
    """

    def __init__(self, mark=None, checkpoints=False):
        self.builder = popart.Builder(opsets={"ai.onnx": 9, "ai.graphcore": 1})
        self.onnx, self.graphcore = self.builder.aiOnnx, self.builder.aiGraphcore
        self.rng = np.random.default_rng(5)
        self.mark, self.checkpoints = mark, checkpoints
        self.layers = 0

    def weight(self, *shape, value=None):
        array = self.rng.normal(scale=0.3, size=shape) if value is None else np.full(shape, value)
        return self.builder.addInitializedInputTensor(array.astype(np.float32))

    def made(self, t):
        """Mark the operation that made `t`."""
        if self.mark is not None:
            self.builder.recomputeOutputInBackwardPass(t, self.mark)
        return t

    def checkpoint(self, t):
        """The end of a layer."""
        if self.checkpoints:
            (t,) = self.builder.checkpointOutput([t])
        self.layers += 1
        return t

    def dense(self, x, rows, columns):
        product = self.made(self.onnx.matmul([x, self.weight(rows, columns)]))
        return self.made(self.onnx.add([product, self.weight(columns)]))

    def mlp(self, width=16, layers=6, batch=8):
        x = y = self.builder.addInputTensor("FLOAT", [batch, width], "x")
        self.shapes = {x: (batch, width)}
        for layer in range(layers):
            with self.builder.pipelineStage(layer // 2):
                y = self.checkpoint(self.made(self.graphcore.gelu([self.dense(y, width, width)])))
        with self.builder.pipelineStage((layers - 1) // 2):
            return self.classify(y, width, batch)

    def convolutions(self):
        x = self.builder.addInputTensor("FLOAT", [4, 3, 8, 8], "x")
        self.shapes = {x: (4, 3, 8, 8)}
        y = self.convolution(x, 3, 16)
        for _ in range(3):
            branch = self.convolution(y, 16, 16)
            y = self.checkpoint(self.made(self.onnx.relu([self.made(self.onnx.add([y, branch]))])))
        pooled = self.made(self.onnx.globalaveragepool([y]))
        return self.classify(self.made(self.builder.reshape_const(self.onnx, [pooled], [4, 16])), 16, 4)

    def convolution(self, x, inputs, outputs):
        y = self.made(self.onnx.conv([x, self.weight(outputs, inputs, 3, 3)], [1, 1], 1, [], [1, 1, 1, 1], [1, 1]))
        parameters = [self.weight(outputs, value=value) for value in (1, 0.1, 0, 1)]
        outputs = self.onnx.batchnormalization([y, *parameters], 5)
        if self.mark is not None:
            self.builder.recomputeOutputInBackwardPass(set(outputs), self.mark)
        return self.made(self.onnx.relu([outputs[0]]))

    def attention(self):
        batch, time, width, heads = 2, 8, 16, 4
        x = y = self.builder.addInputTensor("FLOAT", [batch, time, width], "x")
        self.shapes = {x: (batch, time, width)}
        for _ in range(3):
            rows = self.made(self.builder.reshape_const(self.onnx, [y], [batch * time, width]))
            parameters = [self.weight(width, value=1), self.weight(width, value=0)]
            normed = self.graphcore.groupnormalization([rows, *parameters], 1, 1e-5)
            if self.mark is not None:
                self.builder.recomputeOutputInBackwardPass(set(normed), self.mark)

            def split(order, normed=normed[0]):
                part = self.dense(normed, width, width)
                part = self.builder.reshape_const(self.onnx, [part], [batch, time, heads, width // heads])
                return self.made(self.onnx.transpose([self.made(part)], order))

            scores = self.made(self.onnx.matmul([split([0, 2, 1, 3]), split([0, 2, 3, 1])]))
            weights = self.onnx.dropout([self.made(self.onnx.softmax([scores], 3))], 1, 0.25)
            mixed = self.made(self.onnx.matmul([self.made(weights[0]), split([0, 2, 1, 3])]))
            mixed = self.made(self.onnx.transpose([mixed], [0, 2, 1, 3]))
            rows = self.made(self.builder.reshape_const(self.onnx, [mixed], [batch * time, width]))
            out = self.builder.reshape_const(self.onnx, [self.dense(rows, width, width)], [batch, time, width])
            y = self.checkpoint(self.made(self.onnx.add([y, self.made(out)])))
        rows = self.made(self.builder.reshape_const(self.onnx, [y], [batch * time, width]))
        return self.classify(rows, width, batch * time)

    def classify(self, y, width, rows):
        labels = self.builder.addInputTensor("INT32", [rows], "labels")
        self.shapes[labels] = (rows,)
        probabilities = self.onnx.softmax([self.dense(y, width, 5)])
        return self.graphcore.nllloss([self.made(probabilities), labels])


@dataclass
class Case:
    """How a network is trained."""

    mode: object = NoRecompute
    mark: object = None
    checkpoints: bool = False
    optimizer: str = "sgd"
    batches: int = 1
    factor: int = 1
    replicas: int = 1
    build: dict = field(default_factory=dict)
    settings: dict = field(default_factory=dict)  # other session options


OPTIMIZERS = {
    "sgd": lambda: popart.SGD({"defaultLearningRate": (0.1, False)}),
    "momentum": lambda: popart.SGD({"defaultLearningRate": (0.05, True), "defaultMomentum": (0.9, True)}),
    "adam": lambda: popart.Adam({"defaultLearningRate": (0.01, True)}),
}
NETWORKS = ["mlp", "convolutions", "attention"]
MODES = {
    "standard": Case(Standard),
    "norms": Case(NormOnly),
    "pipeline": Case(Pipeline),
    "all": Case(RecomputeAll),
    "all_between_checkpoints": Case(RecomputeAll, checkpoints=True),
    "marks": Case(mark=Recompute),
    "marks_between_checkpoints": Case(mark=Recompute, checkpoints=True),
    "checkpoint_marks": Case(Standard, mark=Checkpoint),
}


def session_of(name, case):
    network = Network(case.mark, case.checkpoints)
    loss = getattr(network, name)(**case.build)
    given = {"autoRecomputation": case.mode, "explicitRecomputation": True, **case.settings}
    options = options_with(case.factor, case.replicas, **given)
    proto, optimizer = network.builder.getModelProto(), OPTIMIZERS[case.optimizer]()
    return training_session(proto, loss, optimizer, options, batches=case.batches), network, loss


def train(name, case, folder, steps=STEPS):
    """Bytes of all losses, and of all weights and optimizer state at the end."""
    session, network, loss = session_of(name, case)
    anchors = ready(session, seed=7).initAnchorArrays()
    rng = np.random.default_rng(3)
    losses = []
    for _ in range(steps):
        feeds = {}
        for tensor, shape in network.shapes.items():
            full = (*[size for size in (case.batches, case.factor, case.replicas) if size > 1], *shape)
            of_classes = tensor == "labels"
            feeds[tensor] = (
                rng.integers(0, 5, full, np.int32) if of_classes else rng.normal(size=full).astype(np.float32)
            )
        session.run(popart.PyStepIO(feeds, anchors))
        losses.append(anchors[loss].tobytes())
    assert np.isfinite(np.frombuffer(losses[-1], np.float32)).all()
    return losses, saved_state(session, folder), copies_of(session)


def copies_of(session):
    """Number of recomputed operations that the serialised IR shows."""
    return sum(op["name"].endswith("recomputed") for ops in graphs_of(session).values() for op in ops)


def arena_of(name, case):
    session, _, _ = session_of(name, case)
    session.prepareDevice()
    return int(re.search(r"activations: (\d+)", session.getSummaryReport())[1])


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", NETWORKS)
def test_same_bits_as_the_plain_program(name, optimizer, tmp_path):
    losses, state, copies = train(name, Case(optimizer=optimizer), tmp_path)
    assert copies == 0 and len(set(losses)) == STEPS
    for mode, case in MODES.items():
        found = train(name, replace(case, optimizer=optimizer), tmp_path)
        assert found[0] == losses, mode
        assert found[1] == state, mode
        # no normalisation in the MLP, no stages in the others, and marks that keep everything
        nothing = {("mlp", "norms"), ("convolutions", "pipeline"), ("attention", "pipeline")}
        assert (found[2] == 0) == ((name, mode) in nothing or mode == "checkpoint_marks"), mode


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(
    "shape",
    [{"batches": 3}, {"factor": 4}, {"batches": 2, "factor": 2}, {"replicas": 2}, {"replicas": 2, "factor": 2}],
    ids=lambda shape: "_".join(f"{key}{value}" for key, value in shape.items()),
)
def test_same_bits_in_loops_and_replicas(name, shape, tmp_path):
    losses, state, _ = train(name, Case(optimizer="momentum", **shape), tmp_path, steps=3)
    for mode in ("standard", "all", "marks_between_checkpoints"):
        found = train(name, replace(MODES[mode], optimizer="momentum", **shape), tmp_path, steps=3)
        assert found[:2] == (losses, state), mode
        assert found[2] > 0, mode


DEEP = {"width": 64, "layers": 32, "batch": 256}


@pytest.mark.parametrize(
    ("mode", "most"), [("standard", 0.5), ("pipeline", 0.6), ("all_between_checkpoints", 0.75)], ids=lambda v: str(v)
)
def test_planned_memory_falls_on_a_deep_network(mode, most):
    assert arena_of("mlp", replace(MODES[mode], build=DEEP)) <= most * arena_of("mlp", Case(build=DEEP))


def test_memory_grows_with_the_root_of_the_depth():
    def growth(mode):
        arenas = [arena_of("mlp", Case(mode, build={**DEEP, "layers": layers})) for layers in (16, 64)]
        return arenas[1] / arenas[0]

    assert growth(NoRecompute) > 3.5
    assert growth(Standard) < 2.5


def test_marked_operations_alone_are_computed_again():
    def arena(marks):
        network = Network()
        builder, width, batch = network.builder, 64, 256
        y = builder.addInputTensor("FLOAT", [batch, width], "x")
        for _ in range(12):
            product = network.onnx.matmul([y, network.weight(width, width)])
            y = network.graphcore.gelu([product])
            if marks:
                builder.recomputeOutputInBackwardPass(y)
        loss = network.graphcore.l1loss([y], 0.1)
        options = options_with(explicitRecomputation=True)
        session = training_session(builder.getModelProto(), loss, popart.ConstSGD(0.1), options)
        session.prepareDevice()
        return int(re.search(r"activations: (\d+)", session.getSummaryReport())[1]), copies_of(session)

    plain, none = arena(marks=False)
    marked, copies = arena(marks=True)
    assert none == 0 and copies > 0
    assert marked <= 0.65 * plain  # the products are kept, what Gelu makes of them is not


def test_the_ir_shows_copies_where_recomputation_is_explicit(tmp_path):
    """Implicit recomputation keeps one operation in the IR, explicit has its copies; what runs is the same."""
    losses, state, none = train("mlp", Case(), tmp_path)
    found = {
        explicit: train("mlp", Case(Standard, settings={"explicitRecomputation": explicit}), tmp_path)
        for explicit in (False, True)
    }
    assert none == found[False][2] == 0 < found[True][2]
    assert all(run[:2] == (losses, state) for run in found.values())
    implicit = {"explicitRecomputation": False}
    plain, again = (session_of("mlp", Case(mode, settings=implicit))[0] for mode in (NoRecompute, Standard))
    assert types_of(plain) == types_of(again)
    assert arena_of("mlp", Case(Standard, settings=implicit, build=DEEP)) == arena_of("mlp", Case(Standard, build=DEEP))


def test_rules_do_not_go_with_marks():
    for mode in (Standard, NormOnly, Pipeline, RecomputeAll):
        expected = r"autoRecomputation does not go with 'MatMul.*recomputeOutput"
        with pytest.raises(popart.popart_exception, match=expected):
            session_of("mlp", Case(mode, mark=Recompute))


def test_an_anchored_activation_is_kept():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [4, 8], "x")
    w = builder.addInitializedInputTensor(RNG.normal(size=(8, 8)).astype(np.float32), "w")
    product = builder.aiOnnx.matmul([x, w])
    y = builder.aiOnnx.tanh([product])
    loss = builder.aiGraphcore.l1loss([builder.aiOnnx.matmul([y, w])], 0.1)
    for mark in (False, True):
        if mark:
            builder.recomputeOutputInBackwardPass(y)
        for anchors in ([loss], [loss, y]):
            options = options_with(explicitRecomputation=True)
            session = training_session(builder.getModelProto(), loss, popart.ConstSGD(0.1), options, anchors)
            assert (copies_of(session) > 0) == (mark and y not in anchors)


def test_what_calls_run_is_computed_again():
    def train_calls(mode, mark):
        network = Network()
        builder, body = network.builder, network.builder.createSubgraphBuilder()
        x, w = body.addInputTensor("FLOAT", [64, 32]), body.addInputTensor("FLOAT", [32, 32])
        h = body.aiOnnx.tanh([body.aiOnnx.matmul([x, w])])
        body.addOutputTensor(body.aiGraphcore.gelu([h]))
        y = x = builder.addInputTensor("FLOAT", [64, 32], "x")
        for i in range(9):
            (y,) = network.graphcore.call([y, network.weight(32, 32)], 1, body)
            if mark and i % 3 != 2:
                builder.recomputeOutputInBackwardPass(y)
        loss = network.graphcore.l1loss([y], 0.1)
        options = popart.SessionOptions()
        options.autoRecomputation = mode
        session = ready(training_session(builder.getModelProto(), loss, popart.ConstSGD(0.1), options))
        anchors = session.initAnchorArrays()
        rng, losses = np.random.default_rng(3), []
        for _ in range(4):
            session.run(popart.PyStepIO({x: rng.normal(size=(64, 32)).astype(np.float32)}, anchors))
            losses.append(anchors[loss].tobytes())
        return losses, int(re.search(r"activations: (\d+)", session.getSummaryReport())[1])

    losses, arena = train_calls(NoRecompute, mark=False)
    for mode, mark in ((NoRecompute, True), (Standard, False)):
        found, smaller = train_calls(mode, mark)
        assert found == losses
        assert smaller <= 0.7 * arena
