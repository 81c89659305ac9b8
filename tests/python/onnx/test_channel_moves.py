"""Networks that join, cut and shuffle the channels between convolutions, against ONNX Runtime."""

import json

import numpy as np
import onnxruntime
import popart_core
import pytest

from onnx import ModelProto, TensorProto, helper, numpy_helper
from tests.inference import infer, prepare

RNG = np.random.default_rng(83)


class Network:
    """A graph of operators on images, with random constant weights."""

    def __init__(self, *shape: int) -> None:
        self.shape, self.nodes, self.constants, self.names = shape, [], [], 0

    def add(self, op: str, *inputs: str, outputs: int = 1, **attributes):
        """The name of the result, or the list of several."""
        self.names += outputs
        results = [f"t{self.names - i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, results, **attributes))
        return results[0] if outputs == 1 else results

    def constant(self, array: np.ndarray) -> str:
        """The name of a constant."""
        self.constants.append(numpy_helper.from_array(array, f"c{len(self.constants)}"))
        return self.constants[-1].name

    def conv(self, x: str, channels: int, filters: int, size: int = 1, group: int = 1) -> str:
        """A convolution that keeps height and width, and an activation."""
        weights = RNG.normal(size=(filters, channels // group, size, size)) / np.sqrt(channels / group) / size
        names = [self.constant(a.astype(np.float32)) for a in (weights, RNG.normal(size=filters))]
        return self.add("Relu", self.add("Conv", x, *names, pads=[size // 2] * 4, group=group))

    def shuffle(self, x: str, channels: int, groups: int) -> str:
        """Channels of groups by turns."""
        n, _, h, w = self.shape
        shapes = [(n, groups, channels // groups, h, w), (n, channels, h, w)]
        first, last = (self.constant(np.array(shape, np.int64)) for shape in shapes)
        return self.add("Reshape", self.add("Transpose", self.add("Reshape", x, first), perm=[0, 2, 1, 3, 4]), last)

    def split(self, x: str, *sizes: int) -> list[str]:
        """Pieces of so many channels."""
        return self.add("Split", x, self.constant(np.array(sizes, np.int64)), outputs=len(sizes), axis=1)

    def model(self, *outputs: str) -> ModelProto:
        """With input x."""
        shaped = [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)]
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "network", shaped, values, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def shuffled_units(net: Network, groups: int) -> list[str]:
    """Half of the channels go round a branch, four times; then all are read."""
    channels = 12 * groups
    x = net.conv("x", net.shape[1], channels, 3)
    half = channels // groups
    for _ in range(4):
        kept, taken = net.split(x, channels - half, half)
        branch = net.conv(net.conv(net.conv(taken, half, half), half, half, 3, half), half, half)
        x = net.shuffle(net.add("Concat", kept, branch, axis=1), channels, groups)
    return [net.conv(x, channels, 7), net.conv(x, channels, channels, 3, channels)]


def reduced_stage(net: Network) -> list[str]:
    """What is shuffled goes through a depthwise convolution and an activation to sums over channels."""
    x = net.conv("x", net.shape[1], 12)
    x = net.shuffle(net.add("Concat", x, net.conv(x, 12, 12), axis=1), 24, 2)
    return [net.conv(net.conv(x, 24, 24, 3, 24), 24, 10), net.conv(net.add("Tanh", x), 24, 4, 3)]


def joined_pieces(net: Network) -> list[str]:
    """Pieces and what is made of the last ones, joined; a piece of a join; a join that a slice takes apart again."""
    x = net.conv("x", net.shape[1], 24)
    first, second = net.split(x, 10, 14)
    third = net.conv(second, 14, 9, 3)
    y = net.conv(net.add("Concat", first, second, third, axis=1), 33, 8)
    back, _ = net.split(net.add("Concat", y, third, axis=1), 8, 9)
    part = net.split(net.add("Concat", first, third, y, axis=1), 5, 17, 5)[1]
    return [net.conv(part, 17, 6), net.conv(back, 8, 8, 1, 8)]


def moved_outputs(net: Network) -> list[str]:
    """Moves whose results are read outside, and by others than convolutions."""
    x = net.conv("x", net.shape[1], 16)
    shuffled = net.shuffle(net.add("Concat", x, net.conv(x, 16, 16), axis=1), 32, 4)
    steps = [net.constant(np.array([a], np.int64)) for a in (30, -33, 1, -3)]
    backwards = net.add("Slice", shuffled, *steps)
    return [shuffled, backwards, net.add("Softmax", backwards, axis=1), net.conv(backwards, 11, 5)]


def dense_block(net: Network) -> list[str]:
    """Each layer reads all that was made before: joined anew, part by part, or to the last join."""
    x = net.conv("x", net.shape[1], 12, 3)
    whole, parts = x, [x]
    for channels in (12, 20, 28):
        parts.append(net.conv(net.conv(net.add("Elu", whole), channels, 16), 16, 8, 3))
        whole = net.add("Concat", *(parts if channels < 28 else (whole, parts[-1])), axis=1)
    pooled = net.add("AveragePool", whole, kernel_shape=[2, 2], strides=[2, 2])
    return [net.conv(pooled, 36, 5), net.conv(whole, 36, 7, 3)]


def parallel_branches(net: Network) -> list[str]:
    """Branches of convolutions and a pool, joined; one of them is read elsewhere, another joined twice."""
    x = net.conv("x", net.shape[1], 16, 3)
    pooled = net.add("MaxPool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    branches = [net.conv(x, 16, 24), net.conv(net.conv(x, 16, 8), 8, 20, 3), net.conv(pooled, 16, 12)]
    joined = net.add("Concat", *branches, net.conv(x, 16, 16, 3, 16), axis=1)
    again = net.add("Concat", branches[2], net.conv(branches[1], 20, 4), branches[2], axis=1)
    return [net.conv(joined, 72, 6), net.conv(again, 28, 6, 3), net.conv(branches[0], 24, 3, 3, 3)]


def down_and_up(net: Network) -> list[str]:
    """An encoder and a decoder that joins what both made at each size."""
    x = net.conv("x", net.shape[1], 8, 3)
    skip = net.conv(x, 8, 16, 3)
    low = net.conv(net.add("MaxPool", skip, kernel_shape=[2, 2], strides=[2, 2]), 16, 24, 3)
    weights = net.constant(RNG.normal(size=(24, 16, 2, 2)).astype(np.float32) / 10)
    high = net.add("ConvTranspose", low, weights, kernel_shape=[2, 2], strides=[2, 2])
    return [net.conv(net.add("Concat", skip, high, axis=1), 32, 8, 3)]


NETWORKS = {
    "a dense block": ((2, 3, 8, 6), dense_block),
    "branches": ((1, 4, 7, 9), parallel_branches),
    "down and up": ((2, 3, 8, 12), down_and_up),
    "units of two groups": ((1, 3, 9, 7), lambda net: shuffled_units(net, 2)),
    "units of three groups": ((2, 5, 6, 6), lambda net: shuffled_units(net, 3)),
    "a stage": ((2, 3, 7, 5), reduced_stage),
    "pieces": ((1, 4, 8, 5), joined_pieces),
    "pieces of a batch": ((3, 4, 5, 5), joined_pieces),
    "outputs": ((2, 3, 4, 6), moved_outputs),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_results_are_those_of_onnx_runtime(name):
    shape, build = NETWORKS[name]
    net = Network(*shape)
    outputs = build(net)
    model = net.model(*outputs).SerializeToString()
    feeds = {"x": RNG.normal(size=shape).astype(np.float32)}
    expected = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(outputs, feeds)
    for got, want in zip(infer(model, feeds, outputs), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)


def test_units_copy_channels_once():
    """Nothing is joined or transposed, and nothing but the first half is sliced by itself."""
    net = Network(1, 3, 9, 8)
    outputs = shuffled_units(net, 2)
    session = prepare(net.model(*outputs).SerializeToString(), outputs)
    text = json.dumps(json.loads(popart_core._Session._report(session))["programs"])
    assert (text.count("pick channels"), text.count("slice channels")) == (4, 1)
    assert not any(kernel in text for kernel in ("concat", "transpose"))
