"""Networks on four replicas, all in this process or divided among those of a job; keeps all that they compute.

Run by test_sessions.py: ``python -m tests.python.popdist.same_bits FOLDER [long]``. Writes ``FOLDER/<instance>.npz``:
by case the losses, with the replicas of the process as last dimension, and every variable as it is saved. ``long``:
five networks with every optimizer, 100 updates each.
"""

import sys
from pathlib import Path

import numpy as np
import popart
import popdist
import popdist.popart
import popxl
from popxl import ops

import onnx
from onnx import numpy_helper
from tests.python.popart.test_pipelining import OPTIMIZERS, Network

TOTAL, BATCH, WIDTH = 4, 3, 7
ON_CHIP, OFF_CHIP = popart.TensorStorage.OnChip, popart.TensorStorage.OffChip
KINDS = ("weight", "optimizerState", "accumulator")


def adam(mode="Adam", **values):
    """An optimizer with two states for each weight."""
    values = {"defaultLearningRate": (0.01, False), "defaultWeightDecay": (0.02, True), **values}
    return popart.Adam(values, mode=getattr(popart.AdamMode, mode))


def in_parts(kinds=KINDS, storage=ON_CHIP, domain=None):
    """Options that cut these kinds of tensors into parts, the smallest too."""
    location = popart.TensorLocation(storage, popart.ReplicatedTensorSharding.On, domain or popart.CommGroup())
    settings = popart.TensorLocationSettings(location, 0, 2)
    return {f"{kind}TensorLocationSettings": settings for kind in kinds}


def off_chip():
    settings = popart.TensorLocationSettings(OFF_CHIP, 0, 0)
    return {f"{kind}TensorLocationSettings": settings for kind in KINDS}


class Layers:
    """Dense layers; the weights of the second one may have a value for each group of replicas."""

    def __init__(self, dtype="FLOAT", settings=None, groups=1, dropout=False, norm=False):
        rng = np.random.default_rng(5)
        numbers = np.float16 if dtype == "FLOAT16" else np.float32
        builder = popart.Builder(opsets={"ai.onnx": 9, "ai.graphcore": 1})
        h = builder.addInputTensor(dtype, [BATCH, WIDTH], "x")
        for i in range(3):
            values = rng.normal(0, 0.4, (groups, WIDTH, WIDTH)).astype(numbers)
            if i == 1 and settings is not None:
                w = builder.addInitializedInputTensor(values if groups > 1 else values[0], settings, f"w{i}")
            else:
                w = builder.addInitializedInputTensor(values[0], f"w{i}")
            b = builder.addInitializedInputTensor(rng.normal(0, 0.1, WIDTH).astype(numbers), f"b{i}")
            h = builder.aiOnnx.tanh([builder.aiOnnx.add([builder.aiOnnx.matmul([h, w]), b])])
            if dropout:
                h = builder.aiOnnx.dropout([h], 1, 0.25)[0]
            if norm:
                ones = [np.ones(WIDTH, numbers) for _ in range(4)]
                names = [builder.addInitializedInputTensor(v, f"{n}{i}") for v, n in zip(ones, "stmv", strict=True)]
                h = builder.aiOnnx.batchnormalization([h, *names], 5, momentum=0.9)[0]
        self.loss = builder.aiGraphcore.l1loss([h], 0.5, reduction=popart.ReductionType.Sum)
        self.proto = builder.getModelProto()
        self.inputs = {"x": lambda rng, lead: rng.normal(size=(*lead, BATCH, WIDTH)).astype(numbers)}


class Staged:
    """Two stages, with dropout and norms."""

    def __init__(self):
        network = Network(2)
        self.loss, self.proto = network.loss, network.builder.getModelProto()
        self.inputs = {
            "x": lambda rng, lead: rng.normal(size=(*lead, 4, 12)).astype(np.float32),
            "labels": lambda rng, lead: rng.integers(0, 12, (*lead, 4)).astype(np.int32),
        }


class Classifier:
    """A network with labels; subclasses make the probabilities of 5 classes."""

    CLASSES = 5

    def __init__(self, dtype="FLOAT"):
        self.dtype, self.numbers = dtype, np.float16 if dtype == "FLOAT16" else np.float32
        self.rng, self.builder = np.random.default_rng(5), popart.Builder(opsets={"ai.onnx": 10, "ai.graphcore": 1})
        logits, rows = self.forward()
        labels = self.builder.addInputTensor("INT32", [rows], "labels")
        self.loss = self.builder.aiGraphcore.nllloss([self.builder.aiOnnx.softmax([logits]), labels])
        self.proto = self.builder.getModelProto()
        self.inputs["labels"] = lambda rng, lead: rng.integers(0, self.CLASSES, (*lead, rows)).astype(np.int32)

    def weight(self, name, *shape):
        values = self.rng.normal(0, 0.4, shape).astype(self.numbers)
        return self.builder.addInitializedInputTensor(values, name)


class Images(Classifier):
    """Convolutions and pooling."""

    def forward(self):
        onnx_ops, shape = self.builder.aiOnnx, (BATCH, 2, 8, 8)
        x = self.builder.addInputTensor(self.dtype, shape, "x")
        self.inputs = {"x": lambda rng, lead: rng.normal(size=(*lead, *shape)).astype(self.numbers)}
        h = onnx_ops.relu([onnx_ops.conv([x, self.weight("w0", 4, 2, 3, 3), self.weight("b0", 4)], pads=[1, 1, 1, 1])])
        h = onnx_ops.maxpool([h], 1, [2, 2], strides=[2, 2])[0]
        h = onnx_ops.relu([onnx_ops.conv([h, self.weight("w1", 6, 4, 3, 3), self.weight("b1", 6)])])
        h = onnx_ops.flatten([h])
        return onnx_ops.gemm([h, self.weight("w2", 24, self.CLASSES), self.weight("b2", self.CLASSES)]), BATCH


class Tokens(Classifier):
    """An embedding and attention."""

    def forward(self):
        onnx_ops, length = self.builder.aiOnnx, 4
        x = self.builder.addInputTensor("INT32", [BATCH, length], "x")
        self.inputs = {"x": lambda rng, lead: rng.integers(0, 11, (*lead, BATCH, length)).astype(np.int32)}
        h = onnx_ops.gather([self.weight("table", 11, WIDTH), x])
        q, k, v = (onnx_ops.matmul([h, self.weight(name, WIDTH, WIDTH)]) for name in "qkv")
        scores = onnx_ops.softmax([onnx_ops.matmul([q, onnx_ops.transpose([k], [0, 2, 1])])], 2)
        h = onnx_ops.add([h, onnx_ops.matmul([scores, v])])
        logits = onnx_ops.matmul([h, self.weight("head", WIDTH, self.CLASSES)])
        rows = BATCH * length
        return self.builder.reshape_const(onnx_ops, [logits], [rows, self.CLASSES]), rows


def grouped(kind, size, mode, groups):
    settings = popart.VariableSettings(
        popart.CommGroup(getattr(popart.CommGroupType, kind), size), getattr(popart.VariableRetrievalMode, mode)
    )
    return lambda: Layers(settings=settings, groups=groups)


PAIRS = popart.CommGroup(popart.CommGroupType.Consecutive, 2)
PIPELINE = {"enablePipelining": True, "virtualGraphMode": popart.VirtualGraphMode.Manual}
MEAN = {"accumulationAndReplicationReductionType": popart.ReductionType.Mean}

# name: network, optimizer, micro-batches of an update, options
CASES = {
    "momentum": (Layers, OPTIMIZERS["momentum"], 1, {}),
    "accumulation": (Layers, OPTIMIZERS["separate"], 3, MEAN),
    "adam": (Layers, adam, 1, {}),
    "dropout": (lambda: Layers(dropout=True), adam, 2, {}),
    "statistics": (lambda: Layers(norm=True), OPTIMIZERS["sgd"], 1, {}),
    "pairs": (grouped("Consecutive", 2, "OnePerGroup", 2), OPTIMIZERS["momentum"], 1, {}),
    "orthogonal": (grouped("Orthogonal", 2, "AllReplicas", 2), OPTIMIZERS["sgd"], 1, {}),
    "alone": (grouped("Ungrouped", 0, "OnePerGroup", 4), adam, 2, {}),
    "means": (grouped("Consecutive", 2, "AllReduceReplicas", 2), OPTIMIZERS["sgd"], 1, {}),
    "parts": (Layers, adam, 1, in_parts()),
    "parts of state": (Layers, OPTIMIZERS["momentum"], 3, in_parts(("optimizerState", "accumulator"))),
    "parts over pairs": (Layers, adam, 1, in_parts(domain=PAIRS)),
    "parts of Lamb": (Layers, lambda: adam("Lamb"), 1, in_parts()),
    "off chip": (Layers, adam, 2, off_chip()),
    "parts off chip": (Layers, adam, 1, in_parts(("weight", "optimizerState"), OFF_CHIP)),
    "half": (lambda: Layers("FLOAT16"), lambda: adam(lossScaling=(8.0, True)), 1, {}),
    "loss scale": (
        lambda: Layers("FLOAT16"),
        lambda: popart.SGD({"defaultLearningRate": (0.01, False), "lossScaling": (8.0, False)}),
        1,
        {"automaticLossScalingSettings": popart.AutomaticLossScalingSettings(enabled=True)},
    ),
    "pipeline": (Staged, OPTIMIZERS["adam"], 4, PIPELINE),
    "pipeline, parts": (Staged, OPTIMIZERS["adam"], 4, {**PIPELINE, **in_parts(("optimizerState",))}),
}


LONG_NETWORKS = {
    "dense": Layers,
    "dropout": lambda dtype="FLOAT": Layers(dtype, dropout=True),
    "norms": lambda dtype="FLOAT": Layers(dtype, norm=True),
    "images": Images,
    "tokens": Tokens,
}
LONG_OPTIMIZERS = {
    "SGD": lambda **scaling: popart.SGD(
        {"defaultLearningRate": (0.01, False), "defaultMomentum": (0.9, True), **scaling}
    ),
    "Adam": lambda **scaling: adam(**scaling),
    "Lamb": lambda **scaling: adam("Lamb", **scaling),
}


def long_cases():
    """Name: network, optimizer, micro-batches of an update, options."""
    cases = {}
    for network, make in LONG_NETWORKS.items():
        for optimizer, rule in LONG_OPTIMIZERS.items():
            for parts, options in (("", {}), (", parts", in_parts(("optimizerState",)))):
                cases[f"{network}, {optimizer}{parts}"] = (make, rule, 1, options)
                if network in ("dense", "tokens"):
                    half = (lambda make=make: make("FLOAT16"), lambda rule=rule: rule(lossScaling=(8.0, True)))
                    cases[f"{network}, {optimizer}, half{parts}"] = (*half, 1, options)
    return cases


def training(network, optimizer, factor, given):
    """A session of this process's replicas, ready to run."""
    options = popart.SessionOptions()
    options.enableGradientAccumulation, options.accumulationFactor = factor > 1, factor
    for name, value in given.items():
        setattr(options, name, value)
    popdist.popart.configureSessionOptions(options)
    session = popart.TrainingSession(
        network.proto,
        popart.DataFlow(2, [network.loss]),
        network.loss,
        optimizer,
        popart.DeviceManager().createCpuDevice(),
        userOptions=options,
    )
    session.prepareDevice()
    session.setRandomSeed(7)
    session.weightsFromHost()
    return session


def local_part(values, axis):
    """What this process's replicas have of the values of all; without the dimension where it has one replica."""
    first, count = popdist.getReplicaIndexOffset(), popdist.getNumLocalReplicas()
    part = np.take(values, range(first, first + count), axis)
    return np.squeeze(part, axis) if count == 1 else part


def train(session, network, factor, runs=3, seed=3):
    """The losses, one dimension of replicas last."""
    rng, losses = np.random.default_rng(seed), []
    lead = (2, factor, TOTAL) if factor > 1 else (2, TOTAL)
    for _ in range(runs):
        anchors = session.initAnchorArrays()
        data = {name: local_part(make(rng, lead), len(lead) - 1) for name, make in network.inputs.items()}
        session.run(popart.PyStepIO(data, anchors))
        losses.append(anchors[network.loss].reshape(2, factor, popdist.getNumLocalReplicas(), -1))
    return np.moveaxis(np.stack(losses), 3, -1)


def variables(session, folder):
    """As they are saved, and as the host reads them."""
    path = str(folder / f"{popdist.getReplicaIndexOffset()}.onnx")
    session.modelToHost(path)
    saved = {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
    if "w1" not in saved:
        return saved
    session.weightsToHost()
    for shape in (saved["w1"].shape, (TOTAL, *saved["w1"].shape[-2:])):
        read = np.zeros(shape, saved["w1"].dtype)
        try:
            session.readWeights(popart.PyWeightsIO({"w1": read}))
        except popart.popart_runtime_error:
            continue  # the variable returns those of all replicas
        return {**saved, "w1 as read": read}
    raise AssertionError("readWeights takes no shape")


def popxl_results(runs=3):
    """Results and variables of a PopXL program: variables of all replicas, of pairs, of each, in parts and remote."""
    rng = np.random.default_rng(4)
    ir = popxl.Ir(replication="popdist")
    pairs = ir.replica_grouping(group_size=2)
    with ir.main_graph, popxl.in_sequence():

        def variable(name, *shape, make=popxl.variable, **given):
            return make(rng.normal(size=shape).astype(np.float32), name=name, **given)

        x = ops.host_load(given := popxl.h2d_stream((6,), popxl.float32))
        whole, grouped = variable("whole", 6), variable("grouped", 2, 6, replica_grouping=pairs)
        each = variable("each", 6, retrieval_mode="all_replicas")
        parts, part = variable("parts", 6, make=popxl.replica_sharded_variable)
        buffer = popxl.remote_buffer((6,), popxl.float32, 1)
        remote = popxl.remote_variable(rng.normal(size=(2, 6)).astype(np.float32), buffer, 0, replica_grouping=pairs)
        row = ops.remote_load(buffer, 0)
        gathered = ops.collectives.replicated_all_gather(part)
        y = x * whole + grouped + each + row + gathered
        ops.host_store(made := popxl.d2h_stream(y.shape, y.dtype), y)
        of_pair = ops.collectives.replicated_all_reduce(y, group=pairs)
        ops.var_updates.accumulate_(whole, ops.collectives.replicated_all_reduce(y))
        ops.var_updates.accumulate_(grouped, of_pair)
        ops.var_updates.accumulate_(each, y)
        ops.var_updates.accumulate_(part, ops.collectives.replicated_reduce_scatter(y))
        ops.var_updates.accumulate_(row, of_pair)
        ops.remote_store(buffer, 0, row)
    results = []
    with popxl.Session(ir, "cpu") as session:
        for _ in range(runs):
            values = rng.normal(size=(TOTAL, 6)).astype(np.float32)
            results.append(session.run({given: local_part(values, 0)})[made].reshape(-1, 6))
    data = session.get_tensors_data([whole, grouped, each, parts, remote])
    return {"loss": np.moveaxis(np.stack(results), 1, -1), **{v.name: value for v, value in data.items()}}


def main(folder, is_long):
    kept = {} if is_long else {f"popxl/{name}": value for name, value in popxl_results().items()}
    for case, (make, optimizer, factor, given) in (long_cases() if is_long else CASES).items():
        network = make()
        session = training(network, optimizer(), factor, given)
        kept[f"{case}/loss"] = train(session, network, factor, runs=50 if is_long else 3)
        kept.update({f"{case}/{name}": value for name, value in variables(session, folder).items()})
    np.savez(folder / f"{popdist.getReplicaIndexOffset()}.npz", **kept)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] == ["long"])
