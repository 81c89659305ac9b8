"""`aiGraphcore.abort` ends the run it stands in with poplar_runtime_error, wherever it stands; the session stays."""

import numpy as np
import popart
import popart.backend
import pytest

import onnx
from tests.python.popart.training_runs import inference_session, ready, training_session

X = np.arange(6, dtype=np.float32).reshape(2, 3)


class Program:
    """An inference program that gives x + 1, with what `build` puts into it.

    Args:
        build: Function of the builder and the ids of x and of the condition.
        dtype: Element type of the condition.
        shape: Shape of the condition.
        batches: In a run, each with a condition.
    """

    def __init__(self, build, dtype="INT32", shape=(), batches=1):
        builder = popart.Builder()
        info = popart.TensorInfo(dtype, list(shape))
        self.x = builder.addInputTensor("FLOAT", list(X.shape), "x")
        self.condition = builder.addInputTensor(info, "condition")
        build(builder, self.x, self.condition)
        self.y = builder.aiOnnx.add([self.x, builder.aiOnnx.constant(np.float32(1))])
        builder.addOutputTensor(self.y)
        self.session = ready(inference_session(builder.getModelProto(), [self.y], batches=batches))
        self.type, self.shape = info.data_type_lcase(), (batches, *shape)

    def run(self, *conditions):
        """Run with a condition for each batch; gives what the program computes for x + 1."""
        given = {self.x: np.stack([X] * len(conditions))}
        given[self.condition] = np.array(conditions).astype(self.type).reshape(self.shape)
        arrays = self.session.initAnchorArrays()
        self.session.run(popart.PyStepIO(given, arrays))
        return arrays[self.y]


def check(program, stopping, passing=(0,)):
    """Runs with the conditions `stopping` end with the error, those with `passing` are as they were."""
    for _ in range(2):
        with pytest.raises(popart.poplar_runtime_error, match=r"Abort.*the program stops here") as caught:
            program.run(*stopping)
        np.testing.assert_array_equal(program.run(*passing).reshape(-1, *X.shape)[-1], X + 1)
    return str(caught.value)


@pytest.mark.parametrize("shape", [(), (1,)])
@pytest.mark.parametrize("dtype", ["BOOL", "FLOAT", "FLOAT16", "DOUBLE", "INT32", "INT64", "UINT8"])
def test_a_condition_of_any_type_decides(dtype, shape):
    program = Program(lambda b, x, c: b.aiGraphcore.abort([c], "the end"), dtype, shape)
    assert "the end" in check(program, [1])


@pytest.mark.parametrize("value", [np.nan, np.inf, -0.5, 1e-40])
def test_everything_but_zero_stops_the_program(value):
    check(Program(lambda b, x, c: b.aiGraphcore.abort([c]), "FLOAT"), [value], [-0.0])


def test_without_condition_every_run_ends():
    program = Program(lambda b, x, c: b.aiGraphcore.abort())
    for _ in range(2):
        with pytest.raises(popart.poplar_runtime_error, match="the program stops here, as it was built to"):
            program.run(0)


def test_a_condition_is_a_scalar():
    for shape in ((2,), (1, 1), (0,)):
        with pytest.raises(popart.popart_exception, match=r"Abort.*the condition must be a scalar"):
            Program(lambda b, x, c: b.aiGraphcore.abort([c]), "FLOAT", shape)


def subgraph(builder, *ids):
    """A subgraph builder with an input for each number id of `builder`."""
    inner = builder.createSubgraphBuilder()
    return inner, [inner.addInputTensor(popart.TensorInfo("INT32", []), f"{id}_inside") for id in ids]


def test_in_a_called_graph_without_results():
    def build(builder, x, condition):
        inner, (own,) = subgraph(builder, condition)
        inner.aiGraphcore.abort([own])
        assert builder.aiGraphcore.call([condition], 0, inner) == []

    check(Program(build), [3])


def test_in_a_graph_that_is_called_in_a_called_graph():
    def build(builder, x, condition):
        middle, (own,) = subgraph(builder, condition)
        inner, (innermost,) = subgraph(middle, own)
        inner.aiGraphcore.abort([innermost])
        inner.addOutputTensor(inner.aiOnnx.neg([innermost]))
        (negated,) = middle.aiGraphcore.call([own], 1, inner)
        middle.addOutputTensor(negated)
        builder.aiGraphcore.call([condition], 1, middle)

    check(Program(build), [1])


def looped(builder, condition):
    """A loop of five iterations that stops in iteration `condition`; none for -1."""
    body = builder.createSubgraphBuilder()
    iteration = body.addInputTensor(popart.TensorInfo("INT32", []))
    going_on = body.addInputTensor(popart.TensorInfo("BOOL", []))
    last = body.addInputTensor(popart.TensorInfo("INT32", []))
    body.aiGraphcore.abort([body.aiOnnx.equal([iteration, last])])
    body.addOutputTensor(going_on)
    body.addOutputTensor(last)
    trips = builder.aiOnnx.constant(np.array(5, np.int64))
    always = builder.aiOnnx.constant(np.array(True))
    return builder.aiOnnx.loop([trips, always, condition], 1, body)[0]


@pytest.mark.parametrize("iteration", [0, 2, 4])
def test_in_a_loop(iteration):
    check(Program(lambda b, x, c: looped(b, c)), [iteration], [5])


def test_in_a_branch():
    def build(builder, x, condition):
        branches = [builder.createSubgraphBuilder() for _ in range(2)]
        for branch in branches:
            branch.addInputTensorFromParentGraph(condition)
            branch.addOutputTensor(branch.aiOnnx.neg([condition]))
        branches[0].aiGraphcore.abort()
        positive = builder.aiOnnx.greater([condition, builder.aiOnnx.constant(np.array(0, np.int32))])
        builder.aiOnnx.logical_if([positive], 1, else_branch=branches[1], then_branch=branches[0])

    check(Program(build), [1], [-1])


def test_in_a_branch_without_results():
    """The node has no outputs, as nothing reads what its branches give."""
    branch = {}
    for name, nodes in {"then_branch": ["Abort"], "else_branch": []}.items():
        made = [onnx.helper.make_node(type, [], [], domain="ai.graphcore") for type in nodes]
        made.append(onnx.helper.make_node("Neg", ["x"], [name]))
        branch[name] = onnx.helper.make_graph(made, name, [], [onnx.ValueInfoProto(name=name)])
    nodes = [onnx.helper.make_node("If", ["c"], [], **branch), onnx.helper.make_node("Neg", ["x"], ["y"])]
    inputs = [
        onnx.helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, []),
        onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2]),
    ]
    graph = onnx.helper.make_graph(nodes, "stops", inputs, [onnx.ValueInfoProto(name="y")])
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("ai.graphcore", 1)]
    rep = popart.backend.prepare(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8))
    x = np.array([1, -2], np.float32)
    for _ in range(2):
        np.testing.assert_array_equal(rep.run([np.array(False), x])[0], -x)
        with pytest.raises(popart.poplar_runtime_error, match="the program stops here"):
            rep.run([np.array(True), x])


def test_in_the_loop_over_batches():
    program = Program(lambda b, x, c: b.aiGraphcore.abort([c]), batches=4)
    check(program, [0, 0, 1, 0], [0, 0, 0, 0])


@pytest.mark.parametrize("accumulation", [1, 2])
def test_weights_stay_usable(accumulation):
    """A training run that ends leaves the weights of the batches that were whole; the next one goes on from them."""
    options = popart.SessionOptions()
    options.enableGradientAccumulation = accumulation > 1
    options.accumulationFactor = accumulation

    def trained(stops):
        builder = popart.Builder()
        x = builder.addInputTensor("FLOAT", list(X.shape), "x")
        condition = builder.addInputTensor("INT32", [1], "condition")
        w = builder.addInitializedInputTensor(np.ones((3, 2), np.float32), "w")
        builder.aiGraphcore.abort([condition])
        loss = builder.aiGraphcore.l1loss([builder.aiOnnx.matmul([x, w])], 0.1)
        optimizer = popart.SGD({"defaultLearningRate": (0.1, False)})
        session = ready(training_session(builder.getModelProto(), loss, optimizer, options))
        arrays = session.initAnchorArrays()
        values = []
        for stop in stops:
            given = {x: np.stack([X] * accumulation), condition: np.full((accumulation, 1), stop, np.int32)}
            if stop:
                with pytest.raises(popart.poplar_runtime_error, match="the program stops here"):
                    session.run(popart.PyStepIO(given, arrays))
            else:
                session.run(popart.PyStepIO(given, arrays))
            session.weightsToHost()
            value = np.empty((3, 2), np.float32)
            session.readWeights(popart.PyWeightsIO({"w": value}))
            values.append(value)
        return values

    stopped, whole = trained([0, 1, 1, 0]), trained([0, 0])
    np.testing.assert_array_equal(stopped[0], whole[0])
    np.testing.assert_array_equal(stopped[2], whole[0])
    np.testing.assert_array_equal(stopped[3], whole[1])


def transformed(**options):
    """Session options, with plain values for members and a number of replicas."""
    result = popart.SessionOptions()
    for name, value in options.items():
        setattr(result, name, value)
    return result


TRANSFORMS = {
    "replicas": (transformed(enableReplicatedGraphs=True, replicatedGraphCount=2), 1, 2),
    "batches": (transformed(enableExplicitMainLoops=True, useHostCopyOps=True), 3, 3),
    "recomputation": (transformed(autoRecomputation=popart.RecomputationType.RecomputeAll), 1, 1),
    "pipeline": (
        transformed(
            enablePipelining=True,
            virtualGraphMode=popart.VirtualGraphMode.Manual,
            enableGradientAccumulation=True,
            accumulationFactor=4,
        ),
        1,
        4,
    ),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_in_training_that_is_transformed(name):
    """`batches` in a step, `conditions` of them with a condition of their own; the last one stops the program."""
    options, batches, conditions = TRANSFORMS[name]
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", list(X.shape), "x")
    condition = builder.addInputTensor("INT32", [1], "condition")
    weights = [builder.addInitializedInputTensor(np.ones((3, 3), np.float32)) for _ in range(2)]
    with builder.virtualGraph(0):
        hidden = builder.aiOnnx.relu([builder.aiOnnx.matmul([x, weights[0]])])
        builder.aiGraphcore.abort([condition])
    with builder.virtualGraph(1):
        loss = builder.aiGraphcore.l1loss([builder.aiOnnx.matmul([hidden, weights[1]])], 0.1)
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 2})
    optimizer = popart.SGD({"defaultLearningRate": (0.1, False)})
    session = ready(training_session(builder.getModelProto(), loss, optimizer, options, batches=batches, device=device))
    arrays = session.initAnchorArrays()

    def run(last):
        stops = np.zeros((conditions, 1), np.int32)
        stops[-1] = last
        session.run(popart.PyStepIO({x: np.stack([X] * conditions), condition: stops}, arrays))

    for _ in range(2):
        run(0)
        with pytest.raises(popart.poplar_runtime_error, match="the program stops here"):
            run(1)
    run(0)
