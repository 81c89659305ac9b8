"""Small programs that together are changed by every pass, on inputs chosen to hurt.

Rows masked whole, ties, huge and tiny values, one element and none. What sessions and transforms are tested with
elsewhere is taken from there.
"""

import numpy as np
import popart

from onnx import TensorProto, helper, numpy_helper
from tests.differential.runs import Program, environment
from tests.python.popart import test_collective_merging as collectives
from tests.python.popart import test_execution_phases as phases
from tests.python.popart import test_loops_at_the_same_time as layered
from tests.python.popart import test_loss_scaling as scaling
from tests.python.popart import test_pipelining as pipelines
from tests.python.popart import test_transform_combinations as combinations
from tests.python.popart.test_batch_serialisation import Bwd, Dynamic, Fwd, Loop, in_parts
from tests.python.popart.test_collective_merging import merging
from tests.python.popart.test_off_chip import KINDS, OFF
from tests.python.popxl_addons import test_pipelining as addons

LOWEST = float(np.finfo(np.float32).min)


def numbers(*shape, seed=0, scale=1.0):
    """Normal numbers."""
    return (scale * np.random.default_rng(seed).normal(size=shape)).astype(np.float32)


def hurting(*shape, seed=0):
    """Rows that are ordinary, tied, zero, huge and tiny."""
    values = numbers(*shape, seed=seed).reshape(-1, shape[-1])
    for row, special in zip(values[1:], (np.ones(shape[-1]), np.zeros(shape[-1]), values[0] * 1e3, values[0] * 1e-30)):
        row[:] = special
    return np.round(values, 1).reshape(shape) if seed % 2 else values.reshape(shape)


class Network:
    """A builder with short names.

    Args:
        dtype: Element type of inputs and weights.
    """

    def __init__(self, dtype="FLOAT", opset=11):
        self.builder = popart.Builder(opsets={"ai.onnx": opset, "ai.graphcore": 1})
        self.onnx, self.graphcore = self.builder.aiOnnx, self.builder.aiGraphcore
        self.dtype, self.weights = dtype, 0

    def input(self, name, *shape, dtype=None):
        return self.builder.addInputTensor(dtype or self.dtype, list(shape), name)

    def weight(self, *shape, scale=None, value=None):
        self.weights += 1
        scale = scale or (np.prod(shape[1:]) ** -0.5 if len(shape) > 2 else shape[0] ** -0.5)
        value = numbers(*shape, seed=self.weights, scale=scale) if value is None else value
        value = value.astype(np.float16 if self.dtype == "FLOAT16" else np.float32)
        return self.builder.addInitializedInputTensor(value, f"w{self.weights}")

    def constant(self, value):
        return self.onnx.constant(np.asarray(value))

    def trained(self, y, *names):
        """Model, loss, anchors: the sum of squares that a mean makes small."""
        loss = self.graphcore.l1loss([self.onnx.mul([y, y])], 0.1, reduction=popart.ReductionType.Mean)
        return self.builder.getModelProto(), loss, list(names)

    def inferred(self, *names):
        for name in names:
            self.builder.addOutputTensor(name)
        return self.builder.getModelProto(), None, list(names)


def gradient(name):
    return popart.reservedGradientPrefix() + name


# ---- products, element-wise chains, losses


def layers(dtype="FLOAT", rows=6):
    n = Network(dtype)
    x, labels = n.input("x", rows, 16), n.input("labels", rows, dtype="INT32")
    h = n.onnx.relu([n.onnx.add([n.onnx.matmul([x, n.weight(16, 24)]), n.weight(24)])])
    h = n.graphcore.gelu([n.onnx.add([n.onnx.matmul([h, n.weight(24, 24)]), n.weight(24)])])
    p = n.onnx.softmax([n.onnx.matmul([h, n.weight(24, 5)])], 1)
    loss = n.graphcore.nllloss([p, labels])
    return n.builder.getModelProto(), loss, [p, gradient("w1"), gradient("w2"), gradient(x)]


def views():
    """Slices, transposes, broadcasts, splits and joins around element-wise operators."""
    n = Network()
    x = n.input("x", 6, 16)
    left, right = n.onnx.split([x], 2, 1, [8, 8])
    y = n.onnx.mul([n.onnx.sigmoid([left]), n.onnx.tanh([right])])
    y = n.onnx.add([y, n.builder.aiOnnx.slice([n.onnx.mul([x, n.weight(16)]), *map(n.constant, SLICE)])])
    z = n.onnx.transpose([n.onnx.concat([y, n.onnx.neg([y])], 1)], [1, 0])
    z = n.onnx.matmul(
        [n.weight(4, 16), n.onnx.exp([n.onnx.clip([z, n.constant(np.float32(-2)), n.constant(np.float32(2))])])]
    )
    total = n.onnx.reducesum([z], [0], 0)
    spread = n.onnx.sub([n.onnx.reducemax([z], [1], 1), n.onnx.reducemin([z], [1], 1)])
    return n.trained(n.onnx.add([n.onnx.mul([z, spread]), total]), z, gradient(x), gradient("w1"))


SLICE = (
    np.array([0, 4], np.int64),
    np.array([6, 12], np.int64),
    np.array([0, 1], np.int64),
    np.array([1, 1], np.int64),
)


def one_element():
    n = Network()
    x = n.input("x", 1, 1)
    y = n.onnx.softmax([n.onnx.matmul([x, n.weight(1, 1)])], 1)
    y = n.onnx.add([y, n.onnx.tanh([n.onnx.add([n.onnx.matmul([x, n.weight(1, 1)]), n.weight(1)])])])
    return n.trained(y, y, gradient(x))


def nothing():
    """Products and sums of no rows."""
    n = Network()
    x, z = n.input("x", 0, 4), n.input("z", 3, 4)
    y = n.onnx.relu([n.onnx.add([n.onnx.matmul([x, n.weight(4, 6)]), n.weight(6)])])
    total = n.onnx.reducesum([y], [0], 1)
    z = n.onnx.matmul([z, n.weight(4, 6)])
    return n.trained(n.onnx.add([z, total]), y, total, gradient("w1"))


def numbers_of_constants():
    """What is one number, computed again and again; a large constant that is transposed; the same twice."""
    n = Network()
    x = n.input("x", 6, 160)
    w = n.constant(numbers(120, 160, seed=3, scale=0.1))
    rate = n.onnx.sqrt([n.onnx.reducesum([n.onnx.mul([n.constant(np.float32(0.5)), n.weight(1)])], [0], 0)])
    y = n.onnx.matmul([x, n.onnx.transpose([w], [1, 0])])
    y = n.onnx.add([y, n.onnx.reducesum([n.onnx.exp([n.onnx.transpose([w], [1, 0])])], [0], 1)])
    twice = n.onnx.add([n.onnx.exp([n.onnx.neg([y])]), n.onnx.exp([n.onnx.neg([y])])])
    return n.inferred(n.onnx.mul([twice, rate]), n.onnx.identity([y]))


def gates():
    """A cell of few rows whose product is split into gates."""
    n = Network()
    x, c = n.input("x", 2, 16), n.input("c", 2, 32)
    i, f, o, g = n.onnx.split([n.onnx.add([n.onnx.matmul([x, n.weight(16, 128)]), n.weight(128)])], 4, 1, [32] * 4)
    c = n.onnx.add([n.onnx.mul([n.onnx.sigmoid([f]), c]), n.onnx.mul([n.onnx.sigmoid([i]), n.onnx.tanh([g])])])
    return n.inferred(n.onnx.mul([n.onnx.sigmoid([o]), n.onnx.tanh([c])]), c)


def sums():
    """Sums of many, of pads, and what the patterns rewrite."""
    n = Network()
    x = n.input("x", 6, 16)
    parts = n.onnx.split([n.onnx.mul([x, n.weight(16)])], 4, 1, [4] * 4)
    whole = n.onnx.sum(
        [n.onnx.pad([p, n.constant(np.array([0, 4 * i, 0, 12 - 4 * i], np.int64))]) for i, p in enumerate(parts)]
    )
    y = n.onnx.sum([n.onnx.matmul([whole, n.weight(16, 8)]) for _ in range(4)])
    y = n.graphcore.scale([n.onnx.identity([n.onnx.sum([y])]), -1.0][:1], -1.0)
    return n.trained(
        n.onnx.transpose(
            [
                n.onnx.reshape([y, n.constant(np.array([6, 1, 8]))]),
            ],
            [1, 0, 2],
        ),
        y,
        gradient(x),
    )


# ---- attention


def attention(causal=False, dtype="FLOAT"):
    """Heads whose mask hides whole rows, by the lowest number and by -1e9."""
    n = Network(dtype)
    kind = np.float16 if dtype == "FLOAT16" else np.float32
    x, mask = n.input("x", 2, 8, 24), n.input("mask", 2, 1, 8, 8)
    heads = []
    for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        h = n.onnx.reshape([n.onnx.matmul([x, n.weight(24, 24)]), n.constant(np.array([2, 8, 3, 8]))])
        heads.append(n.onnx.transpose([h], order))
    scores = n.onnx.mul([n.onnx.matmul(heads[:2]), n.constant(np.array(8**-0.5, kind))])
    scores = n.onnx.add([scores, mask])
    if causal:
        scores = n.onnx.add([scores, n.constant(np.triu(np.full((8, 8), -3e4), 1).astype(kind))])
    y = n.onnx.matmul([n.onnx.softmax([scores], 3), heads[2]])
    y = n.onnx.reshape([n.onnx.transpose([y], [0, 2, 1, 3]), n.constant(np.array([2, 8, 24]))])
    return n.trained(n.onnx.matmul([y, n.weight(24, 24)]), y, gradient(x), *map(gradient, ("w1", "w2", "w3")))


def joint_projection(dtype="FLOAT"):
    """Attention of slices of one product, made in three ways."""
    n = Network(dtype)
    kind = np.float16 if dtype == "FLOAT16" else np.float32
    x = n.input("x", 2, 8, 24)
    y, wide = x, [2, 8, 24]
    for split in ("columns", "rows", "heads"):
        h = n.onnx.matmul([y, n.weight(24, 72)])
        if split == "columns":
            parts = [n.onnx.reshape([p, n.constant(np.array([2, 8, 3, 8]))]) for p in n.onnx.split([h], 3, 2, [24] * 3)]
            parts = [n.onnx.transpose([p], [0, 2, 1, 3]) for p in parts]
        elif split == "rows":
            h = n.onnx.transpose([n.onnx.reshape([h, n.constant(np.array([2, 8, 3, 3, 8]))])], [2, 0, 3, 1, 4])
            parts = [n.onnx.gather([h, n.constant(np.array(i))], 0) for i in range(3)]
        else:
            h = n.onnx.transpose([n.onnx.reshape([h, n.constant(np.array([2, 8, 3, 24]))])], [0, 2, 1, 3])
            parts = n.onnx.split([h], 3, 3, [8] * 3)
        q, k, v = parts
        scores = n.onnx.matmul([q, n.onnx.transpose([k], [0, 1, 3, 2])])
        scores = n.onnx.mul([scores, n.constant(np.array(8**-0.5, kind))])
        h = n.onnx.transpose([n.onnx.matmul([n.onnx.softmax([scores], 3), v])], [0, 2, 1, 3])
        y = n.onnx.add([y, n.onnx.reshape([h, n.constant(np.array(wide))])])
    return n.trained(y, y, gradient(x), *map(gradient, ("w1", "w2", "w3")))


def masks(hidden):
    """A mask with one hidden key, a row that is hidden whole, and one that is hidden whole by the lowest number."""
    mask = np.zeros((2, 1, 8, 8), np.float32)
    mask[0, 0, 0, 1] = mask[0, 0, 3] = hidden
    mask[1, 0, 5] = max(hidden, LOWEST)
    mask[1, 0, 2, 4:] = -np.inf
    return mask


def chain():
    """Products by batch and head around a softmax whose logarithms are read: no attention, but a chain."""
    n = Network()
    q = n.input("q", 2, 3, 33, 8)
    k, v, mask = n.weight(2, 3, 8, 40), n.weight(2, 3, 40, 8), n.weight(33, 40, value=hurting(33, 40))
    return n.inferred(n.onnx.matmul([n.onnx.logsoftmax([n.onnx.add([n.onnx.matmul([q, k]), mask])], 3), v]))


# ---- convolutions


def images(training=True):
    """Convolutions, normalisations, pools of ties, a gate, channels that are cut, shuffled and joined."""
    n = Network(opset=10)
    x = n.input("x", 2, 3, 12, 12)

    def normalised(y, channels, kernel=3, group=1, inputs=None):
        w = n.weight(channels, (inputs or channels) // group, kernel, kernel)
        y = n.onnx.conv([y, w], dilations=[1, 1], pads=[kernel // 2] * 4, strides=[1, 1], group=group)
        scale, shift = n.weight(channels, value=np.ones(channels)), n.weight(channels, value=np.zeros(channels))
        mean, variance = n.weight(channels, value=np.zeros(channels)), n.weight(channels, value=np.ones(channels))
        return n.onnx.batchnormalization([y, scale, shift, mean, variance], 5 if training else 1)[0]

    h = n.onnx.relu([normalised(x, 16, inputs=3)])
    h = n.onnx.maxpool([h], 1, [2, 2], strides=[2, 2])[0]
    left, right = n.onnx.split([h], 2, 1, [8, 8])
    right = n.onnx.relu([normalised(right, 8, kernel=1)])
    right = normalised(right, 8, group=8)
    h = n.onnx.concat([left, right], 1)
    h = n.onnx.reshape([h, n.constant(np.array([2, 2, 8, 6, 6]))])
    h = n.onnx.reshape([n.onnx.transpose([h], [0, 2, 1, 3, 4]), n.constant(np.array([2, 16, 6, 6]))])
    left, right = n.onnx.split([h], 2, 1, [8, 8])
    gated = n.onnx.mul([right, n.onnx.sigmoid([n.onnx.globalaveragepool([right])])])
    h = n.onnx.concat([left, normalised(gated, 8, kernel=1)], 1)
    h = n.onnx.relu([normalised(h, 16)])
    h = n.onnx.globalaveragepool([n.onnx.averagepool([h], [2, 2], strides=[2, 2])])
    y = n.onnx.gemm([n.onnx.flatten([h]), n.weight(16, 6), n.weight(6)])
    if not training:
        return n.inferred(y)
    return n.trained(y, y, gradient(x), gradient("w1"))


def upsampled(training=True):
    """Transposed convolutions of several strides and groups with bias, residual and activation, and their gradients."""
    n = Network()
    x = n.input("x", 2, 3, 9, 12)
    w = n.weight(8, 3, 3, 3)
    skipped = n.onnx.relu([n.onnx.conv([x, w], dilations=[1, 1], pads=[1] * 4, strides=[1, 1])])
    deep = n.onnx.relu([n.onnx.conv([skipped, n.weight(16, 8, 3, 2)], strides=[3, 2])])
    up = n.onnx.convtranspose([deep, n.weight(16, 8, 3, 2), n.weight(8)], strides=[3, 2])
    h = n.onnx.relu([n.onnx.add([up, skipped])])
    h = n.onnx.sigmoid([n.onnx.convtranspose([h, n.weight(8, 1, 3, 3), n.weight(8)], group=8, pads=[1] * 4)])
    y = n.onnx.tanh([n.onnx.convtranspose([h, n.weight(8, 2, 4, 4), n.weight(2)], pads=[1] * 4, strides=[2, 2])])
    if not training:
        return n.inferred(y)
    return n.trained(y, y, gradient(x), *map(gradient, ("w1", "w2", "w3", "w5")))


def joined(training=True):
    """Convolutions that read all that the layers before them made, and branches that are joined once."""
    n = Network(opset=10)
    x = n.input("x", 2, 3, 8, 8)

    def conv(y, inputs, channels, kernel=3):
        given = [y, n.weight(channels, inputs, kernel, kernel), n.weight(channels)]
        return n.onnx.conv(given, dilations=[1, 1], pads=[kernel // 2] * 4, strides=[1, 1])

    h = n.onnx.relu([conv(x, 3, 16)])
    for channels in (16, 24, 32):
        h = n.onnx.concat([h, conv(n.onnx.relu([conv(h, channels, 12, 1)]), 12, 8)], 1)
    h = n.onnx.maxpool([h], 1, [2, 2], strides=[2, 2])[0]
    h = n.onnx.concat([n.onnx.relu([conv(h, 40, 16, kernel)]) for kernel in (1, 3)], 1)
    y = n.onnx.gemm([n.onnx.flatten([n.onnx.globalaveragepool([conv(h, 32, 8)])]), n.weight(8, 6), n.weight(6)])
    return n.trained(y, y, gradient(x), gradient("w1")) if training else n.inferred(y)


def squeezed(training=True):
    """Depthwise convolutions whose results are scaled by functions of their means."""
    n = Network(opset=10)
    h = n.input("x", 2, 8, 10, 10)
    for stride in (1, 2):
        given = [h, n.weight(8, 1, 3, 3), n.weight(8)]
        h = n.onnx.relu([n.onnx.conv(given, dilations=[1, 1], pads=[1] * 4, strides=[stride] * 2, group=8)])
        gate = n.onnx.sigmoid([n.onnx.conv([n.onnx.globalaveragepool([h]), n.weight(8, 8, 1, 1)])])
        h = n.onnx.conv([n.onnx.mul([h, gate]), n.weight(8, 8, 1, 1)])
    y = n.onnx.gemm([n.onnx.flatten([n.onnx.globalaveragepool([h])]), n.weight(8, 6), n.weight(6)])
    return n.trained(y, y, gradient("x"), gradient("w1")) if training else n.inferred(y)


# ---- loops and rows


def recurrent(kind, direction="bidirectional", steps=7, hidden=8, training=True):
    n = Network()
    x = n.input("x", steps, 2, 6)
    directions, gates = 1 + (direction == "bidirectional"), {"lstm": 4, "gru": 3, "rnn": 1}[kind]
    weights = [n.weight(directions, gates * hidden, columns) for columns in (6, hidden)]
    weights.append(n.weight(directions, 2 * gates * hidden))
    results = {"lstm": 3}.get(kind, 2)
    y = getattr(n.onnx, kind)([x, *weights], results, clip=None, direction=direction, hidden_size=hidden)[0]
    if not training:
        return n.inferred(y)
    return n.trained(n.onnx.tanh([y]), y, gradient(x), *map(gradient, ("w1", "w2", "w3")))


def chunks():
    """Layers that are long enough to run in chunks."""
    model, value = layered.network("LSTM", "forward", 2)
    return model.SerializeToString(), "loss", [value]


def loop():
    """A loop whose state and weight are products, run a few times."""
    n = Network()
    x, w = n.input("x", 4, 8), n.weight(8, 8)
    body = n.builder.createSubgraphBuilder()
    body.addInputTensor("INT64", [])
    go = body.addInputTensor("BOOL", [])
    state = body.addInputTensor("FLOAT", [4, 8])
    inner = body.aiOnnx.tanh([body.aiOnnx.matmul([state, body.addInputTensorFromParentGraph(w) or w])])
    body.addOutputTensor(go)
    body.addOutputTensor(inner)
    (y,) = n.onnx.loop([n.constant(np.array(5)), n.constant(np.array(True)), x], 1, body)
    return n.inferred(y)


def embedding():
    """Rows of a table that are read more than once, and a projection with the same table."""
    n = Network()
    words = n.input("words", 3, 5, dtype="INT32")
    table = n.weight(11, 16)
    h = n.onnx.tanh([n.onnx.matmul([n.onnx.gather([table, words]), n.weight(16, 16)])])
    y = n.onnx.matmul([h, n.onnx.transpose([table], [1, 0])])
    return n.trained(y, y, gradient("w1"))


def called():
    """A graph that is called twice, and repeated layers that outlining finds."""
    n = Network()
    x, w = n.input("x", 4, 8), n.weight(8, 8)
    body = n.builder.createSubgraphBuilder()
    a, b = body.addInputTensor("FLOAT", [4, 8]), body.addInputTensor("FLOAT", [8, 8])
    body.addOutputTensor(body.aiOnnx.relu([body.aiOnnx.matmul([a, b])]))
    unused = n.builder.createSubgraphBuilder()
    unused.addOutputTensor(unused.aiOnnx.neg([unused.addInputTensor("FLOAT", [4, 8])]))
    n.graphcore.call([x], 1, unused)
    h = n.graphcore.call([n.graphcore.call([x, w], 1, body)[0], w], 1, body)[0]
    for _ in range(3):
        h = n.onnx.tanh([n.onnx.add([n.onnx.matmul([h, n.weight(8, 8)]), n.weight(8)])])
    return n.trained(h, h, gradient(x), gradient("w1"))


# ---- integers and 16 bits


def quantised():
    """Integers: scales found at run time, products that end in a scale."""
    n = Network(opset=11)
    x = n.input("x", 6, 32)
    q, scale, zero = n.onnx.dynamicquantizelinear([x])
    w = n.constant(np.random.default_rng(2).integers(-127, 128, (32, 16)).astype(np.int8))
    product = n.onnx.cast([n.onnx.matmulinteger([q, w, zero])], "FLOAT")
    y = n.onnx.add([n.onnx.mul([product, n.onnx.mul([scale, n.constant(np.float32(0.01))])]), n.weight(16)])
    return n.inferred(y, q)


def packed():
    """A product with weights of 4 bits in blocks, and its activation."""
    rng = np.random.default_rng(3)
    constants = {
        "w": rng.integers(0, 256, (24, 4, 8)).astype(np.uint8),
        "scales": rng.uniform(0.01, 0.1, 24 * 4).astype(np.float32),
        "zeros": rng.integers(0, 256, 24 * 2).astype(np.uint8),
    }
    product = {"K": 64, "N": 24, "bits": 4, "block_size": 16, "domain": "com.microsoft"}
    nodes = [
        helper.make_node("MatMulNBits", ["x", *constants], ["product"], **product),
        helper.make_node("Relu", ["product"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, (6, size)) for n, size in (("x", 64), ("y", 24)))
    stored = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(helper.make_graph(nodes, "packed", [x], [y], stored), opset_imports=sets, ir_version=8)
    return model.SerializeToString(), None, ["y"]


def dropped():
    """Random numbers in every layer."""
    proto, loss = combinations.model()
    return proto, loss, []


def of_suite(model):
    """A model of a test of sessions: (proto, loss)."""
    proto, loss = model()
    return proto, loss, []


def serialised(mode, factor):
    n = Network()
    x = n.input("x", 4, 8)
    y = n.onnx.matmul([x, n.weight(8, 12)])
    n.builder.setSerializeMatMul({y}, mode, factor, False)
    y = n.onnx.tanh([n.onnx.matmul([y, n.weight(12, 8)])])
    return n.trained(y, y, gradient(x), gradient("w1"), gradient("w2"))


def staged():
    network = pipelines.Network(3)
    return network.builder.getModelProto(), network.loss, [network.last]


def scaled():
    proto, y, loss = scaling.model()
    return proto, loss, [y]


def wide():
    """Weights that are too large for their gradients to be put together."""
    proto, loss = collectives.model()
    return proto, loss, []


def momentum():
    return popart.SGD({"defaultLearningRate": (0.05, False), "defaultMomentum": (0.9, True)})


def adam():
    return popart.Adam({"defaultLearningRate": (0.01, False), "defaultWeightDecay": (0.02, True)})


def stages(**given):
    manual = {"enablePipelining": True, "virtualGraphMode": popart.VirtualGraphMode.Manual}
    feeds = {"x": hurting(4, 12, seed=1), "labels": np.array([0, 3, 3, 11], np.int32)}
    return Program(staged, feeds, momentum, manual | given, ipus=4, factor=5, batches=2)


MILD = {"x": hurting(6, 16).clip(-3, 3), "labels": np.array([0, 1, 1, 4, 2, 0], np.int32)}
DENSE = {"x": hurting(6, 16), "labels": np.array([0, 1, 1, 4, 2, 0], np.int32)}
HALF = {"x": hurting(6, 16, seed=1).clip(-100, 100).astype(np.float16), "labels": DENSE["labels"]}
SQUARE = {"x": hurting(4, 16, seed=1).clip(-3, 3)}
SEQUENCES = {"x": numbers(7, 2, 6, seed=1)}
OFF_CHIP = popart.TensorLocationSettings(OFF, 2, 8192)
EVERYTHING_OFF_CHIP = {f"{kind}TensorLocationSettings": OFF_CHIP for kind in KINDS}

SATURATED = "a probability that is 0 gives no gradient; SoftmaxGradDirect computes it from the labels"


def popxl_pipeline():
    """A pipeline of popxl_addons, which stashes values in rings, on stages that run at the same time."""
    rng = np.random.default_rng(4)
    xs = rng.normal(size=(7, addons.BATCH, addons.WIDTH)).astype(np.float32)
    labels = rng.integers(0, addons.WIDTH, (7, addons.BATCH)).astype(np.int32)
    with environment("POPLAR_ENGINE_OPTIONS", '{"pipeline.concurrent": "always", "num_threads": 2}'):
        return {f"value {i}": value for i, value in enumerate(addons.train(True, xs, labels, addons.momentum))}


PROGRAMS = {
    "popxl_pipeline": popxl_pipeline,
    "layers": Program(layers, MILD, momentum, batches=2, factor=2),
    "layers_huge": Program(layers, DENSE, momentum, apart={"applyPatterns": SATURATED}),
    "layers_adam": Program(layers, DENSE, adam, apart={"applyPatterns": SATURATED}),
    "layers_half": Program(lambda: layers("FLOAT16"), HALF, apart={"applyPatterns": SATURATED}),
    "views": Program(views, {"x": hurting(6, 16, seed=1).clip(-50, 50)}),
    "one_element": Program(one_element, {"x": np.array([[1e-30]], np.float32)}),
    "nothing": Program(nothing, {"x": np.zeros((0, 4), np.float32), "z": numbers(3, 4)}),
    "numbers": Program(numbers_of_constants, {"x": numbers(6, 160)}),
    "chain": Program(chain, {"q": hurting(2, 3, 33, 8)}, options={"engineOptions": {"num_threads": "1"}}),
    "gates": Program(gates, {"x": hurting(2, 16), "c": numbers(2, 32, seed=4)}),
    "sums": Program(sums, {"x": hurting(6, 16, seed=1)}, options={"decomposeGradSum": True}),
    "attention": Program(attention, {"x": numbers(2, 8, 24), "mask": masks(-1e9)}),
    "attention_lowest": Program(lambda: attention(True), {"x": numbers(2, 8, 24), "mask": masks(LOWEST)}, adam),
    "attention_half": Program(
        lambda: attention(True, "FLOAT16"),
        {"x": numbers(2, 8, 24).astype(np.float16), "mask": masks(-6e4).astype(np.float16)},
    ),
    "joint_projection": Program(joint_projection, {"x": numbers(2, 8, 24)}, adam),
    "joint_projection_half": Program(lambda: joint_projection("FLOAT16"), {"x": numbers(2, 8, 24).astype(np.float16)}),
    # Gradients of what is added in front of a normalisation cancel to nothing.
    "images": Program(images, {"x": np.round(numbers(2, 3, 12, 12), 1)}, momentum, floor=1e-4),
    "images_inferred": Program(lambda: images(False), {"x": numbers(2, 3, 12, 12)}),
    "upsampled": Program(upsampled, {"x": numbers(2, 3, 9, 12)}, momentum),
    "upsampled_inferred": Program(lambda: upsampled(False), {"x": numbers(2, 3, 9, 12)}),
    "joined": Program(joined, {"x": numbers(2, 3, 8, 8)}, momentum),
    "joined_inferred": Program(lambda: joined(False), {"x": numbers(2, 3, 8, 8)}),
    "squeezed": Program(squeezed, {"x": numbers(2, 8, 10, 10)}, momentum),
    "squeezed_inferred": Program(lambda: squeezed(False), {"x": numbers(2, 8, 10, 10)}),
    "lstm": Program(lambda: recurrent("lstm"), SEQUENCES),
    "gru": Program(lambda: recurrent("gru", "forward"), SEQUENCES, adam),
    "rnn": Program(lambda: recurrent("rnn", "reverse"), SEQUENCES),
    "lstm_inferred": Program(lambda: recurrent("lstm", hidden=32, training=False), SEQUENCES),
    "chunks": Program(
        chunks,
        {"x": numbers(layered.STEPS, layered.BATCH, layered.HIDDEN)},
        options={"engineOptions": {"pipeline.concurrent": "always"}},
    ),
    "loop": Program(loop, {"x": numbers(4, 8)}),
    "embedding": Program(embedding, {"words": np.array([[0, 1, 1, 1, 10]] * 3, np.int32)}, momentum),
    "called": Program(called, {"x": hurting(4, 8).clip(-3, 3)}, options={"outlineThreshold": 1.0}),
    "quantised": Program(quantised, {"x": hurting(6, 32, seed=1)}),
    "packed": Program(packed, {"x": hurting(6, 64, seed=1)}),
    "dropout": Program(
        dropped, SQUARE, adam, {"autoRecomputation": popart.RecomputationType.Standard}, batches=2, factor=2
    ),
    "merged": Program(dropped, SQUARE, adam, {"mergeVarUpdate": popart.MergeVarUpdateType.All}),
    "off_chip": Program(dropped, SQUARE, adam, EVERYTHING_OFF_CHIP, batches=2, factor=2),
    "replicas": Program(
        dropped,
        SQUARE,
        adam,
        {"replicatedCollectivesSettings": merging("AllReduce", prepare=True)},
        replicas=2,
    ),
    "replicas_plain": Program(layers, MILD, momentum, replicas=2),
    "replicas_large": Program(wide, {"x": numbers(4, 96)}, momentum, replicas=2),
    "shards": Program(dropped, SQUARE, adam, combinations.FEATURES["sharded"], replicas=2, factor=2, ipus=2),
    "phases": Program(dropped, SQUARE, adam, combinations.FEATURES["phases"], ipus=2, factor=2),
    "phases_off_chip": Program(
        lambda: of_suite(phases.model),
        {"x": numbers(phases.BATCH, phases.WIDTH)},
        momentum,
        combinations.FEATURES["phases"] | EVERYTHING_OFF_CHIP,
        ipus=2,
    ),
    "pipeline": stages(),
    "pipeline_recomputed": stages(autoRecomputation=popart.RecomputationType.Pipeline),
    "pipeline_at_once": stages(engineOptions={"pipeline.concurrent": "always"}),
    "placed": Program(
        staged,
        {"x": hurting(4, 12, seed=1), "labels": np.array([0, 3, 3, 11], np.int32)},
        momentum,
        {"virtualGraphMode": popart.VirtualGraphMode.Manual},
        ipus=4,
    ),
    "parts_forward": Program(dropped, SQUARE, adam, {"batchSerializationSettings": in_parts(2, Fwd)}),
    "parts_dynamic": Program(dropped, SQUARE, adam, {"batchSerializationSettings": in_parts(2, Bwd, Dynamic)}),
    "parts_loop": Program(dropped, SQUARE, adam, {"batchSerializationSettings": in_parts(2, Bwd, Loop)}),
    "products_in_parts": Program(lambda: serialised("output_channels", 3), {"x": hurting(4, 8)}, momentum),
    "products_by_rows": Program(lambda: serialised("input_channels", 2), {"x": hurting(4, 8)}, momentum),
    "products_by_depth": Program(lambda: serialised("reducing_dim", 4), {"x": hurting(4, 8)}, momentum),
    "loss_scale": Program(
        scaled,
        {"x": scaling.DATA[0]},
        lambda: scaling.optimizer(4.0),
        {
            "ensureFp32LossScaleTensor": True,
            "automaticLossScalingSettings": popart.AutomaticLossScalingSettings(enabled=True),
        },
        runs=3,
    ),
}
