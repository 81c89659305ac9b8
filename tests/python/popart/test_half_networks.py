"""Random networks of convolutions, attention and dense layers in float16 and bfloat16 train and follow float32."""

import ml_dtypes
import numpy as np
import popart
import pytest

import onnx
from onnx import TensorProto, helper

TYPES = {
    "float32": (TensorProto.FLOAT, np.float32),
    "float16": (TensorProto.FLOAT16, np.float16),
    "bfloat16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
}
OPTIMIZERS = {
    "sgd": lambda: popart.SGD({"defaultLearningRate": (0.05, True)}),
    "momentum": lambda: popart.SGD({"defaultLearningRate": (0.02, True), "defaultMomentum": (0.5, True)}),
    "adam": lambda: popart.Adam({"defaultLearningRate": (0.005, True), "defaultEps": (1e-4, True)}),
}
# Largest difference from float32, relative to the largest loss of the run.
TOLERANCES = {"float16": 0.05, "bfloat16": 0.3}
BATCH, BATCHES, CLASSES, GRAPHCORE = 4, 6, 5, "ai.graphcore"


def on_grid(rng, shape, scale=1.0):
    """Random numbers that bfloat16 holds, and so do the other types."""
    return (rng.standard_normal(shape) * scale).astype(ml_dtypes.bfloat16).astype(np.float32)


class Network:
    """Nodes and weights of one element type; the same for all types of a seed."""

    def __init__(self, seed, type_name):
        self.rng = np.random.default_rng(seed)
        self.onnx_type, self.dtype = TYPES[type_name]
        self.nodes, self.initializers = [], []

    def weight(self, *shape, scale=None):
        value = on_grid(self.rng, shape, scale or 1 / np.sqrt(np.prod(shape[1:]) if len(shape) > 2 else shape[0]))
        name = f"w{len(self.initializers)}"
        raw = value.astype(self.dtype).tobytes()
        self.initializers.append(helper.make_tensor(name, self.onnx_type, shape, raw, raw=True))
        return name

    def constant(self, value):
        name = f"c{len(self.initializers)}"
        self.initializers.append(onnx.numpy_helper.from_array(value, name))
        return name

    def add(self, op, *inputs, outputs=1, domain="", **attributes):
        names = [f"{op}{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, domain=domain, **attributes))
        return names[0]

    def norm(self, x, channels, groups):
        scale, bias = self.weight(channels, scale=0.5), self.weight(channels, scale=0.1)
        return self.add(
            "GroupNormalization", x, scale, bias, outputs=3, domain=GRAPHCORE, num_groups=groups, epsilon=1e-5
        )

    def pool(self, op, x, size):
        if size <= 2:
            return self.add("Tanh", x), size
        return self.add(op, x, kernel_shape=[2, 2], strides=[2, 2]), size // 2

    def convolutions(self):
        channels, size = int(self.rng.choice([2, 4, 8])), 8
        shape, x = [BATCH, channels, size, size], "x"
        for _ in range(self.rng.integers(1, 4)):
            after, k = int(self.rng.choice([4, 8, 16])), int(self.rng.choice([1, 3]))
            bias = [self.weight(after, scale=0.1)] if self.rng.integers(0, 2) else []
            x = self.add("Conv", x, self.weight(after, channels, k, k), *bias, pads=[k // 2] * 4, kernel_shape=[k, k])
            channels = after
            kind = self.rng.integers(0, 5)
            if kind == 0:
                x = self.norm(x, channels, 2)
            elif kind < 3:
                x = self.add("Relu", x) if kind == 1 else self.add("Gelu", x, domain=GRAPHCORE)
            else:
                x, size = self.pool("AveragePool" if kind == 3 else "MaxPool", x, size)
        return self.add("Flatten", self.add("GlobalAveragePool", x), axis=1), shape, channels

    def attention(self):
        width, length = int(self.rng.choice([8, 16])), 3
        x = "x"
        for _ in range(self.rng.integers(1, 3)):
            q, k, v = (self.add("MatMul", x, self.weight(width, width)) for _ in range(3))
            scores = self.add("MatMul", q, self.add("Transpose", k, perm=[0, 2, 1]))
            y = self.add("Add", self.add("MatMul", self.add("Softmax", scores, axis=2), v), x)
            flat = self.norm(self.add("Reshape", y, self.constant(np.array([BATCH * length, width]))), width, 1)
            x = self.add("Reshape", flat, self.constant(np.array([BATCH, length, width])))
        return self.add("ReduceMean", x, axes=[1], keepdims=0), [BATCH, length, width], width

    def dense(self):
        width = int(self.rng.choice([4, 8, 16]))
        shape, x = [BATCH, width], "x"
        for _ in range(self.rng.integers(1, 4)):
            after = int(self.rng.choice([4, 8, 16]))
            x = self.add("Gemm", x, self.weight(width, after), self.weight(after, scale=0.1))
            width = after
            x = self.add(str(self.rng.choice(["Relu", "Tanh", "Sigmoid", "Softplus", "LeakyRelu", "Elu"])), x)
            if self.rng.integers(0, 3) == 0:
                x = self.add("Mul", x, self.weight(width, scale=0.7))
        return x, shape, width

    def loss(self, x):
        kind = self.rng.integers(0, 3)
        if kind == 0:
            labels = self.constant(self.rng.integers(0, CLASSES, BATCH).astype(np.int32))
            return self.add("Nll", self.add("Softmax", x, axis=1), labels, domain=GRAPHCORE, reduction=1)
        if kind == 1:
            return self.add("L1", x, domain=GRAPHCORE, reduction=1, **{"lambda": 0.5})
        return self.add("IdentityLoss", self.add("Mul", x, x), domain=GRAPHCORE, reduction=1)

    def build(self):
        """(model, inputs of a step, loss)."""
        layers = (self.convolutions, self.attention, self.dense)[self.rng.integers(0, 3)]
        x, shape, width = layers()
        loss = self.loss(self.add("MatMul", x, self.weight(width, CLASSES)))
        inputs = [helper.make_tensor_value_info("x", self.onnx_type, shape)]
        graph = helper.make_graph(self.nodes, "g", inputs, [onnx.ValueInfoProto(name=loss)], self.initializers)
        opsets = [helper.make_opsetid("", 11), helper.make_opsetid(GRAPHCORE, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=6).SerializeToString()
        return model, on_grid(self.rng, (BATCHES, *shape)).astype(self.dtype), loss


def losses(seed, type_name, optimizer):
    model, x, loss = Network(seed, type_name).build()
    device = popart.DeviceManager().createCpuDevice()
    flow = popart.DataFlow(BATCHES, [loss])
    session = popart.TrainingSession(model, flow, loss, OPTIMIZERS[optimizer](), device)
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    values = []
    for _ in range(3):
        session.run(popart.PyStepIO({"x": x}, anchors))
        values.append(np.array(anchors[loss]).astype(np.float64))
    return np.concatenate(values)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("seed", range(12))
def test_networks_of_16_bits_follow_float32(seed, optimizer):
    expected = losses(seed, "float32", optimizer)
    for type_name, tolerance in TOLERANCES.items():
        got = losses(seed, type_name, optimizer)
        assert np.abs(got - expected).max() <= tolerance * np.abs(expected).max(), type_name
