"""Training through QuantizeLinear and DequantizeLinear: the straight-through gradient.

It is 1 inside of the range and 0 outside.

The oracle is torch.fake_quantize; scales and zero points stay.
"""

import numpy as np
import popart
import pytest
import torch

from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT
RATE = 0.5
RANGES = {np.int8: (-128, 127), np.uint8: (0, 255), np.int16: (-32768, 32767)}


def node(kind, inputs, output, **attributes):
    return helper.make_node(kind, inputs, [output], **attributes)


def model_of(nodes, x, target, weights, opset):
    nodes = [
        *nodes,
        node("Sub", ["y", "target"], "difference"),
        node("Mul", ["difference", "difference"], "squares"),
        node("ReduceMean", ["squares"], "loss", keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, FLOAT, value.shape) for name, value in (("x", x), ("target", target))],
        [helper.make_tensor_value_info("loss", FLOAT, [])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def trained(model, feeds, names):
    session = popart.TrainingSession(
        fnModel=model.SerializeToString(),
        dataFlow=popart.DataFlow(1, ["loss"]),
        loss="loss",
        optimizer=popart.SGD({"defaultLearningRate": (RATE, True)}),
        deviceInfo=popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO(feeds, anchors))
    values = {name: np.zeros(shape, np.float32) for name, shape in names.items()}
    session.weightsToHost()
    session.readWeights(popart.PyWeightsIO(values))
    return float(anchors["loss"]), values


def moved(way):
    """The nodes between QuantizeLinear and DequantizeLinear, and what they do to a tensor."""
    if way == "nothing":
        return [], "q", lambda t: t
    if way == "transpose":
        return [node("Transpose", ["q"], "moved", perm=[1, 0])], "moved", lambda t: t.t()
    if way == "reshape":
        return [node("Reshape", ["q", "shape"], "moved")], "moved", lambda t: t.reshape(6, 4)
    return (
        [node("Concat", ["q", "q"], "both", axis=0), node("Slice", ["both", "from", "to"], "moved")],
        "moved",
        lambda t: torch.cat([t, t])[2:8],
    )


@pytest.mark.parametrize("way", ["nothing", "transpose", "reshape", "joined_and_cut"])
@pytest.mark.parametrize("kind", list(RANGES), ids=lambda kind: kind.__name__)
def test_weights_get_the_straight_through_gradient(kind, way):
    rng = np.random.default_rng(0)
    least, most = RANGES[kind]
    scale = np.float32(0.004 if kind is not np.int16 else 2e-5)  # so that some weights are out of the range
    zero = kind(most // 2 if least == 0 else 3)
    nodes, last, move = moved(way)
    w = rng.normal(0, 0.4, size=(4, 6) if way == "transpose" else (6, 4)).astype(np.float32)
    x, target = rng.normal(size=(8, 6)).astype(np.float32), rng.normal(size=(8, 4)).astype(np.float32)
    weights = {"w": w, "s": scale, "z": zero, "shape": np.int64([6, 4]), "from": np.int64([2]), "to": np.int64([8])}
    used = {"s", "z", "w"} | {name for n in nodes for name in n.input if name in weights}
    model = model_of(
        [
            node("QuantizeLinear", ["w", "s", "z"], "q"),
            *nodes,
            node("DequantizeLinear", [last, "s", "z"], "d"),
            node("MatMul", ["x", "d"], "y"),
        ],
        x,
        target,
        {name: value for name, value in weights.items() if name in used},
        21,
    )
    own = torch.tensor(w, requires_grad=True)
    fake = torch.fake_quantize_per_tensor_affine(own, float(scale), int(zero), least, most)
    loss = ((torch.tensor(x) @ move(fake) - torch.tensor(target)) ** 2).mean()
    loss.backward()
    outside = own.grad == 0
    assert outside.any() and not outside.all()
    got, values = trained(model, {"x": x, "target": target}, {"w": w.shape, "s": ()})
    np.testing.assert_allclose(got, loss.item(), rtol=1e-4)
    np.testing.assert_allclose(values["w"], w - RATE * own.grad.numpy(), rtol=1e-3, atol=1e-5)
    assert values["s"] == scale


def test_scales_by_channel_and_quantised_activations():
    rng = np.random.default_rng(1)
    w = rng.normal(0, 0.4, size=(5, 3, 3, 3)).astype(np.float32)
    x, target = rng.normal(size=(2, 3, 6, 6)).astype(np.float32), rng.normal(size=(2, 5, 4, 4)).astype(np.float32)
    scales = np.linspace(0.002, 0.008, 5).astype(np.float32)
    model = model_of(
        [
            node("QuantizeLinear", ["x", "sx", "zx"], "xq"),
            node("DequantizeLinear", ["xq", "sx", "zx"], "xd"),
            node("QuantizeLinear", ["w", "s", "z"], "q", axis=0),
            node("DequantizeLinear", ["q", "s", "z"], "d", axis=0),
            node("Conv", ["xd", "d"], "h"),
            node("QuantizeLinear", ["h", "sh", "zh"], "hq"),
            node("DequantizeLinear", ["hq", "sh", "zh"], "y"),
        ],
        x,
        target,
        {
            "w": w,
            "s": scales,
            "z": np.zeros(5, np.int8),
            "sx": np.float32(0.02),
            "zx": np.uint8(128),
            "sh": np.float32(0.03),
            "zh": np.int8(0),
        },
        17,
    )
    own = torch.tensor(w, requires_grad=True)
    fw = torch.fake_quantize_per_channel_affine(
        own, torch.tensor(scales), torch.zeros(5, dtype=torch.int32), 0, -128, 127
    )
    fx = torch.fake_quantize_per_tensor_affine(torch.tensor(x), 0.02, 128, 0, 255)
    y = torch.fake_quantize_per_tensor_affine(torch.nn.functional.conv2d(fx, fw), 0.03, 0, -128, 127)
    loss = ((y - torch.tensor(target)) ** 2).mean()
    loss.backward()
    got, values = trained(model, {"x": x, "target": target}, {"w": w.shape, "s": (5,), "sx": ()})
    np.testing.assert_allclose(got, loss.item(), rtol=1e-3)
    np.testing.assert_allclose(values["w"], w - RATE * own.grad.numpy(), rtol=2e-3, atol=1e-4)
    np.testing.assert_array_equal(values["s"], scales)


def test_small_floats_pass_the_gradient_inside_of_their_range():
    rng = np.random.default_rng(2)
    w = np.concatenate([rng.normal(size=(5, 4)), [[500.0, -500.0, 1.0, 2.0]]]).astype(np.float32)
    x, target = rng.normal(size=(8, 6)).astype(np.float32), rng.normal(size=(8, 4)).astype(np.float32)
    model = model_of(
        [
            node("QuantizeLinear", ["w", "s"], "q", output_dtype=TensorProto.FLOAT8E4M3FN),
            node("DequantizeLinear", ["q", "s"], "d"),
            node("MatMul", ["x", "d"], "y"),
        ],
        x,
        target,
        {"w": w, "s": np.float32(1)},
        21,
    )
    own = torch.tensor(w, requires_grad=True)
    inside = own.clamp(-448, 448)
    fake = inside + (inside.to(torch.float8_e4m3fn).float() - inside).detach()
    loss = ((torch.tensor(x) @ fake - torch.tensor(target)) ** 2).mean()
    loss.backward()
    _, values = trained(model, {"x": x, "target": target}, {"w": w.shape})
    np.testing.assert_allclose(values["w"], w - RATE * own.grad.numpy(), rtol=1e-3, atol=1e-4)


def test_dynamic_quantisation_passes_the_gradient():
    rng = np.random.default_rng(3)
    w = rng.normal(size=(6, 4)).astype(np.float32)
    x, target = rng.normal(size=(8, 6)).astype(np.float32), rng.normal(size=(8, 4)).astype(np.float32)
    model = model_of(
        [
            helper.make_node("DynamicQuantizeLinear", ["w"], ["q", "s", "z"]),
            node("DequantizeLinear", ["q", "s", "z"], "d"),
            node("MatMul", ["x", "d"], "y"),
        ],
        x,
        target,
        {"w": w},
        17,
    )
    scale = (max(w.max(), 0) - min(w.min(), 0)) / 255
    zero = int(np.clip(np.rint(-min(w.min(), 0) / scale), 0, 255))
    own = torch.tensor(w, requires_grad=True)
    fake = torch.fake_quantize_per_tensor_affine(own, float(scale), zero, 0, 255)
    loss = ((torch.tensor(x) @ fake - torch.tensor(target)) ** 2).mean()
    loss.backward()
    _, values = trained(model, {"x": x, "target": target}, {"w": w.shape})
    np.testing.assert_allclose(values["w"], w - RATE * own.grad.numpy(), rtol=1e-3, atol=1e-4)
