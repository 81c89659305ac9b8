"""Batches per step and micro-batches per update are loops of the program: what anchors return, and the same bits."""

import json

import numpy as np
import popart
import pytest

import onnx
from onnx import numpy_helper
from tests.python.popart.training_runs import ready, training_session

RNG = np.random.default_rng(31)
ROWS, WIDTH, RATE = 2, 3, np.float32(0.25)
WEIGHTS = RNG.normal(size=(WIDTH,)).astype(np.float32)


def session_for(anchors, batches, micro_batches, reduction=popart.ReductionType.Sum, replicas=1):
    """Train loss = sum(x w) by SGD: the gradient of w is the sum of the rows of x."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [ROWS, WIDTH], "x")
    w = builder.addInitializedInputTensor(WEIGHTS, "w")
    y = builder.aiOnnx.mul([x, w], "y")
    loss = builder.aiGraphcore.identityloss([y], reduction=reduction, debugContext="loss")
    names = {"y": y, "w": w, "loss": loss, "x": x, "gradient": "Gradient___" + w}
    options = popart.SessionOptions()
    options.enableGradientAccumulation = micro_batches > 1
    options.accumulationFactor = micro_batches
    options.enableReplicatedGraphs = replicas > 1
    options.replicatedGraphCount = replicas
    session = ready(
        training_session(
            builder.getModelProto(),
            loss,
            popart.ConstSGD(float(RATE)),
            options,
            {names[name]: kind for name, kind in anchors.items()},
            batches=batches,
        )
    )
    return session, names


def micro_batch_values(data):
    """What each anchor is on each replica in each micro-batch of data[batch, micro-batch, replica].

    w has been updated at the end of a micro-batch where each is an update of its own.
    """
    w, values = WEIGHTS.copy(), {name: [] for name in ("x", "y", "loss", "gradient", "w")}
    for batch in data:
        gradients = np.zeros_like(w)
        for x in batch:
            values["x"].append(x)
            values["y"].append(x * w)
            values["loss"].append((x * w).sum(axis=(1, 2)))
            values["gradient"].append(x.sum(axis=1))
            gradients += x.sum(axis=(0, 1))
        updated = w - RATE * gradients
        values["w"] += [np.stack([updated if len(batch) == 1 else w] * batch.shape[1])] * len(batch)
        w = updated
    return {name: np.array(list_) for name, list_ in values.items()}


def updated_weights(data):
    """W after all batches, as each replica has it."""
    w = WEIGHTS.copy()
    for batch in data:
        w = w - RATE * batch.sum(axis=(0, 1, 2))
    return w if data.shape[2] == 1 else np.stack([w] * data.shape[2])


def returned(values, kind, batches, micro_batches):
    """The array of initAnchorArrays that `kind` fills from the values of all micro-batches and replicas."""
    if values.shape[1] == 1:
        values = values[:, 0]
    shape = values.shape[1:]
    if kind.id() == popart.AnchorReturnTypeId.Final:
        return values[-1]
    if kind.id() == popart.AnchorReturnTypeId.Sum:
        return values.sum(axis=0)
    period = kind.rp() if kind.id() == popart.AnchorReturnTypeId.EveryN else 1
    prefix = [size for size in (batches // period, micro_batches) if size > 1]
    return values[period - 1 :: period].reshape((*prefix, *shape))


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("micro_batches", [1, 2])
@pytest.mark.parametrize(
    ("batches", "kind"),
    [
        (batches, popart.AnchorReturnType(*kind))
        for batches in (1, 3, 4)
        for kind in (("All",), ("Final",), ("Sum",), ("EveryN", 1), ("EveryN", batches), ("EveryN", 2))
        if kind[0] != "EveryN" or batches % kind[1] == 0
    ],
    ids=str,
)
def test_anchors_return_what_their_type_says(kind, batches, micro_batches, replicas):
    """Values of a micro-batch, an input, a scalar, a gradient and a weight, in two runs of one session."""
    names = ["y", "x", "loss", "gradient", "w"]
    session, ids = session_for(dict.fromkeys(names, kind), batches, micro_batches, replicas=replicas)
    data = RNG.normal(size=(2 * batches, micro_batches, replicas, ROWS, WIDTH)).astype(np.float32)
    values = micro_batch_values(data)
    for run in range(2):
        arrays = session.initAnchorArrays()
        part = slice(run * batches * micro_batches, (run + 1) * batches * micro_batches)
        session.run(popart.PyStepIO({"x": data[run * batches : (run + 1) * batches]}, arrays))
        for name in names:
            expected = returned(values[name][part], kind, batches, micro_batches)
            if name == "w" and kind.id() == popart.AnchorReturnTypeId.Final:  # at the end of the step
                expected = updated_weights(data[: (run + 1) * batches])
            assert arrays[ids[name]].shape == expected.shape
            np.testing.assert_allclose(arrays[ids[name]], expected, rtol=1e-5, atol=1e-6, err_msg=name)


# elements that an array needs per element of the tensor, for 4 batches of 2 micro-batches on 3 replicas
ELEMENTS = {("All",): 24, ("EveryN", 2): 12, ("EveryN", 4): 6, ("Final",): 3, ("Sum",): 3}


@pytest.mark.parametrize("kind", ELEMENTS, ids=str)
def test_arrays_of_another_size_are_refused(kind):
    """Only the number of elements counts; the message names the factors."""
    count = ELEMENTS[kind] * ROWS * WIDTH
    data = {"x": np.zeros(24 * ROWS * WIDTH, np.float32)}
    for size in (count, count - 1, count + 1):
        session, ids = session_for({"y": popart.AnchorReturnType(*kind)}, 4, 2, replicas=3)
        stepio = popart.PyStepIO(data, {ids["y"]: np.empty(size, np.float32)})
        if size == count:
            session.run(stepio)
            continue
        with pytest.raises(popart.popart_runtime_error, match="unexpected number of elements") as said:
            session.run(stepio)
        for part in (ids["y"], f"got {size}, expected {count} ", "replication factor 3", "accumulation factor 2"):
            assert part in str(said.value)


@pytest.mark.parametrize("dtype", [np.int32, np.float16])
def test_sums_keep_their_type(dtype):
    """Integers wrap; half floats are rounded after each addition."""
    builder = popart.Builder()
    name = {np.int32: "INT32", np.float16: "FLOAT16"}[dtype]
    y = builder.aiOnnx.identity([builder.addInputTensor(name, [4], "x")], "y")
    flow = popart.DataFlow(3, {y: popart.AnchorReturnType("Sum")})
    session = popart.InferenceSession(builder.getModelProto(), flow, popart.DeviceManager().createCpuDevice())
    session.prepareDevice()
    x = (RNG.normal(size=(3, 4)) * (2**31 if dtype == np.int32 else 100)).astype(np.int64).astype(dtype)
    arrays = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": x}, arrays))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(arrays[y], (x[0] + x[1]) + x[2])


def deep_session(batches, micro_batches):
    """A network with a statistic, random numbers, an optimizer with state and numbers that change."""
    builder, rng = popart.Builder(), np.random.default_rng(8)

    def weight(*shape):
        return builder.addInitializedInputTensor((0.1 * rng.normal(size=shape)).astype(np.float32))

    h = builder.aiOnnx.conv([builder.addInputTensor("FLOAT", [2, 3, 8, 8], "x"), weight(8, 3, 3, 3)], pads=[1, 1, 1, 1])
    mean = builder.addInitializedInputTensor(np.zeros(8, np.float32), "mean")
    variance = builder.addInitializedInputTensor(np.ones(8, np.float32), "variance")
    h = builder.aiOnnx.batchnormalization([h, weight(8), weight(8), mean, variance], 5)[0]
    h = builder.aiOnnx.reshape([builder.aiOnnx.relu([h]), builder.aiOnnx.constant(np.array([2, 512]))])
    (h,) = builder.aiOnnx.dropout([h], 1, 0.5)
    p = builder.aiOnnx.softmax([builder.aiOnnx.matmul([h, weight(512, 10)])])
    loss = builder.aiGraphcore.nllloss([p, builder.addInputTensor("INT32", [2], "labels")])
    options = popart.SessionOptions()
    options.enableGradientAccumulation = micro_batches > 1
    options.accumulationFactor = micro_batches
    session = training_session(
        builder.getModelProto(),
        loss,
        popart.Adam({"defaultLearningRate": (0.01, False), "lossScaling": (8.0, False)}),
        options,
        batches=batches,
    )
    session.prepareDevice()
    session.setRandomSeed(5)
    session.weightsFromHost()
    return session, loss


@pytest.mark.parametrize("micro_batches", [1, 2])
def test_batches_of_a_step_are_the_batches_one_by_one(micro_batches, tmp_path):
    """Losses, weights, statistics and optimizer state are the same bits, also after a change of the optimizer."""
    batches = 3
    rng = np.random.default_rng(9)
    x = rng.normal(size=(2, batches, micro_batches, 2, 3, 8, 8)).astype(np.float32)
    labels = rng.integers(0, 10, (2, batches, micro_batches, 2)).astype(np.int32)
    losses, models = [], []
    for per_step in (batches, 1):
        session, loss = deep_session(per_step, micro_batches)
        for run in range(2):
            for start in range(0, batches, per_step):
                part = (run, slice(start, start + per_step))
                arrays = session.initAnchorArrays()
                session.run(popart.PyStepIO({"x": x[part], "labels": labels[part]}, arrays))
                losses += arrays[loss].ravel().tolist()
            session.updateOptimizerFromHost(
                popart.Adam({"defaultLearningRate": (0.002, False), "lossScaling": (4.0, False)})
            )
        session.modelToHost(str(tmp_path / "model.onnx"))
        models.append(
            [numpy_helper.to_array(i).tobytes() for i in onnx.load(tmp_path / "model.onnx").graph.initializer]
        )
    half = len(losses) // 2
    assert losses[:half] == losses[half:]
    assert len(set(losses)) == half  # dropout and weights change from one micro-batch to the next
    assert models[0] == models[1]


def tensor_names(session):
    """Tensors that the ops of a program read and make, in all its graphs."""
    ops = [op for graph in json.loads(session.getSerializedGraph()).values() for op in graph]
    return {tensor["name"] for op in ops for tensor in op["inputs"] + op["outputs"]}


@pytest.mark.parametrize("micro_batches", [1, 2])
def test_what_a_session_says_does_not_depend_on_its_batches(micro_batches):
    """Tensors and their types are there, in graphs of their own."""
    one, loss = deep_session(1, micro_batches)
    four, _ = deep_session(4, micro_batches)
    names = tensor_names(one)
    assert {loss} < names <= tensor_names(four)
    for name in names:
        assert one.getInfo(name) == four.getInfo(name), name
    prefix = () if micro_batches == 1 else (micro_batches,)
    assert four.initAnchorArrays()[loss].shape == (4, *prefix)


def test_an_exported_program_knows_its_loops(tmp_path):
    """A file serves sessions of the same batches, micro-batches and return types only."""
    kinds = popart.AnchorReturnType("All"), popart.AnchorReturnType("Final")
    file = str(tmp_path / "program.popef")
    session_for({"loss": kinds[0]}, 2, 1)[0].saveExecutable(file)
    session_for({"loss": kinds[0]}, 2, 1)[0].loadExecutable(file)
    for kind, batches, micro_batches in ((kinds[0], 3, 1), (kinds[0], 2, 2), (kinds[1], 2, 1)):
        with pytest.raises(popart.popart_exception, match="another program"):
            session_for({"loss": kind}, batches, micro_batches)[0].loadExecutable(file)


def test_truth_values_have_no_sum():
    builder = popart.Builder()
    y = builder.aiOnnx.logical_not([builder.addInputTensor("BOOL", [4], "x")], "y")
    flow = popart.DataFlow(3, {y: popart.AnchorReturnType("Sum")})
    with pytest.raises(popart.popart_exception, match="have no sum"):
        popart.InferenceSession(builder.getModelProto(), flow, popart.DeviceManager().createCpuDevice())
