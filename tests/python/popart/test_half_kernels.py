"""Training on 16-bit operands: kernels read and write them without casts and copies in FLOAT, and follow PyTorch."""

import re

import ml_dtypes
import numpy as np
import popart
import pytest
import torch
from torch.nn import functional

import onnx
from tests.python.popart.test_attention_in_transforms import kernels_of
from tests.python.popart.training_runs import ready, training_session

ELEMENTS = {name: getattr(onnx.TensorProto, name) for name in ("FLOAT16", "BFLOAT16", "FLOAT")}
TYPES = {"FLOAT16": np.float16, "BFLOAT16": ml_dtypes.bfloat16, "FLOAT": np.float32}
BATCH, LENGTH, WIDTH, HEADS, CLASSES = 8, 48, 64, 4, 48
RATE, STEPS = 1 / 32, 6


def narrowed(tensor, dtype):
    values = onnx.numpy_helper.to_array(tensor).astype(TYPES[dtype])
    made = onnx.TensorProto(name=tensor.name, data_type=ELEMENTS[dtype], dims=tensor.dims, raw_data=values.tobytes())
    tensor.CopyFrom(made)


def in_type(proto, dtype):
    """The model with all its FLOAT inputs, weights and constants in another type."""
    model = onnx.load_from_string(proto)
    tensors = [a.t for node in model.graph.node for a in node.attribute if a.HasField("t")]
    for tensor in [*model.graph.initializer, *tensors]:
        if tensor.data_type == ELEMENTS["FLOAT"]:
            narrowed(tensor, dtype)
    for info in [*model.graph.input, *model.graph.output, *model.graph.value_info]:
        if info.type.tensor_type.elem_type == ELEMENTS["FLOAT"]:
            info.type.tensor_type.elem_type = ELEMENTS[dtype]
    return model.SerializeToString()


class Network:
    """A builder whose weights are kept for PyTorch, in float32 with the values of the 16-bit type."""

    def __init__(self, dtype, shape):
        self.dtype, self.builder, self.weights = dtype, popart.Builder(), {}
        self.o, self.rng = self.builder.aiOnnx, np.random.default_rng(7)
        self.x = self.builder.addInputTensor("FLOAT", shape, "x")

    def weight(self, name, shape, scale=0.2):
        values = self.rng.normal(0, scale, shape).astype(TYPES[self.dtype]).astype(np.float32)
        self.weights[name] = torch.tensor(values, requires_grad=True)
        return self.builder.addInitializedInputTensor(values, name)

    def ones(self, name, shape):
        self.weights[name] = torch.ones(shape, requires_grad=True)
        return self.builder.addInitializedInputTensor(np.ones(shape, np.float32), name)

    def number(self, value):
        return self.builder.aiOnnx.constant(np.array(value, np.float32))

    def session(self, logits):
        labels = self.builder.addInputTensor("INT32", [BATCH], "labels")
        self.loss = self.builder.aiGraphcore.nllloss([self.o.softmax([logits], 1), labels])
        rule = popart.SGD({"defaultLearningRate": (RATE, False)})
        return ready(training_session(in_type(self.builder.getModelProto(), self.dtype), self.loss, rule))


def attention_network(dtype):
    n = Network(dtype, [BATCH, LENGTH, WIDTH])
    o = n.o
    split, joined = (o.constant(np.array(s)) for s in ([BATCH, LENGTH, HEADS, -1], [BATCH, LENGTH, WIDTH]))
    flat = o.constant(np.array([BATCH * LENGTH, WIDTH]))
    h = o.reshape([n.x, flat])
    h = n.builder.aiGraphcore.groupnormalization([h, n.ones("scale", [WIDTH]), n.weight("shift", [WIDTH])], 1)[0]
    h = o.reshape([h, joined])

    def heads(name):
        product = o.add([o.matmul([h, n.weight(name, [WIDTH, WIDTH])]), n.weight(f"b{name}", [WIDTH])])
        return o.transpose([o.reshape([product, split])], [0, 2, 1, 3])

    q, k, v = (heads(name) for name in "qkv")
    scores = o.mul([o.matmul([q, o.transpose([k], [0, 1, 3, 2])]), n.number(0.25)])
    y = o.reshape([o.transpose([o.matmul([o.softmax([scores], 3), v])], [0, 2, 1, 3]), joined])
    h = o.add([n.x, o.matmul([y, n.weight("out", [WIDTH, WIDTH])])])
    h = o.relu([o.add([o.matmul([h, n.weight("up", [WIDTH, 3 * WIDTH])]), n.weight("b_up", [3 * WIDTH])])])
    h = o.matmul([h, n.weight("down", [3 * WIDTH, WIDTH])])
    wide = o.reshape([h, o.constant(np.array([BATCH, LENGTH * WIDTH]))])
    return n, o.matmul([wide, n.weight("head", [LENGTH * WIDTH, CLASSES], 0.005)])


def attention_in_torch(w, x):
    h = functional.layer_norm(x, (WIDTH,), w["scale"], w["shift"], 1e-5)
    q, k, v = ((h @ w[c] + w[f"b{c}"]).reshape(BATCH, LENGTH, HEADS, -1).transpose(1, 2) for c in "qkv")
    y = torch.softmax(q @ k.transpose(2, 3) * 0.25, -1) @ v
    h = x + y.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH) @ w["out"]
    h = torch.relu(h @ w["up"] + w["b_up"]) @ w["down"]
    return h.reshape(BATCH, -1) @ w["head"]


def convolutional_network(dtype):
    n = Network(dtype, [BATCH, 3, 20, 18])
    o, h = n.o, n.x
    for i, (inputs, outputs, kernel, stride, pad) in enumerate(
        [(3, 16, 5, 2, 2), (16, 34, 3, 1, 1), (34, 40, 3, 2, 1), (40, 16, 1, 1, 0)]
    ):
        w = n.weight(f"w{i}", [outputs, inputs, kernel, kernel], 0.1)
        h = o.conv([h, w], strides=[stride, stride], pads=[pad] * 4, kernel_shape=[kernel, kernel])
        h = n.builder.aiGraphcore.groupnormalization(
            [h, n.ones(f"scale{i}", [outputs]), n.weight(f"shift{i}", [outputs])], 2
        )[0]
        h = o.relu([h])
    flat = o.reshape([h, o.constant(np.array([BATCH, 400]))])
    return n, o.matmul([flat, n.weight("head", [400, CLASSES], 0.02)])


def convolutional_in_torch(w, x):
    for i, (stride, pad) in enumerate([(2, 2), (1, 1), (2, 1), (1, 0)]):
        x = functional.conv2d(x, w[f"w{i}"], stride=stride, padding=pad)
        x = torch.relu(functional.group_norm(x, 2, w[f"scale{i}"], w[f"shift{i}"], 1e-5))
    return x.reshape(BATCH, -1) @ w["head"]


NETWORKS = {
    "attention": (attention_network, attention_in_torch),
    "convolutions": (convolutional_network, convolutional_in_torch),
}


def data_of(network, dtype):
    rng = np.random.default_rng(3)
    shape = [BATCH, LENGTH, WIDTH] if network == "attention" else [BATCH, 3, 20, 18]
    return rng.normal(size=shape).astype(TYPES[dtype]), rng.integers(0, CLASSES, BATCH).astype(np.int32)


def planned_bytes(session):
    return int(re.search(r"total: (\d+) bytes", session.getSummaryReport())[1])


@pytest.mark.parametrize("dtype", ["FLOAT16", "BFLOAT16"])
@pytest.mark.parametrize("network", NETWORKS)
def test_training_follows_torch_without_casts(network, dtype):
    build, in_torch = NETWORKS[network]
    n, logits = build(dtype)
    weights = n.weights
    session = n.session(logits)
    assert "Cast" not in kernels_of(session)
    x, labels = data_of(network, dtype)
    anchors, losses, expected = session.initAnchorArrays(), [], []
    for _ in range(STEPS):
        session.run(popart.PyStepIO({"x": x, "labels": labels}, anchors))
        losses.append(float(anchors[n.loss]))
        logits_in_float = in_torch(weights, torch.tensor(x.astype(np.float32)))
        loss = functional.cross_entropy(logits_in_float, torch.tensor(labels).long())
        expected.append(loss.item())
        for w, gradient in zip(weights.values(), torch.autograd.grad(loss, list(weights.values())), strict=True):
            with torch.no_grad():
                w -= RATE * gradient
    precision = 2e-2 if dtype == "FLOAT16" else 6e-2
    np.testing.assert_allclose(losses, expected, rtol=precision, atol=precision)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("dtype", ["FLOAT16", "BFLOAT16"])
def test_training_plans_less_memory_than_in_float(dtype):
    plans = []
    for t in (dtype, "FLOAT"):
        n, logits = attention_network(t)
        plans.append(planned_bytes(n.session(logits)))
    assert plans[0] < 0.75 * plans[1], plans
