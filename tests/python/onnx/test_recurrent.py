"""RNN, GRU, LSTM of ai.onnx and Lstm of ai.graphcore against ONNX Runtime, PyTorch and finite differences."""

import numpy as np
import popart
import pytest
import torch

from tests.python.onnx.single_node import Node, check_gradients, gradients, output_weights, runtime_values, values

STEPS, BATCH, INPUT, HIDDEN = 5, 3, 4, 6
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
LENGTHS = np.array([5, 2, 3], np.int32)
RNG = np.random.default_rng(3)


def normal(*shape, scale=0.6):
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def layer(type, direction="forward", bias=True, lengths=None, states=True, peepholes=False, outputs=None, **attributes):
    """One layer with `layout` 0; random values."""
    count, gates = 1 + (direction == "bidirectional"), GATES[type]
    inputs = [normal(STEPS, BATCH, INPUT), normal(count, gates * HIDDEN, INPUT), normal(count, gates * HIDDEN, HIDDEN)]
    inputs.append(normal(count, 2 * gates * HIDDEN) if bias else None)
    inputs.append(lengths)
    inputs.append(normal(count, BATCH, HIDDEN) if states else None)
    if type == "LSTM":
        inputs.append(normal(count, BATCH, HIDDEN) if states else None)
        inputs.append(normal(count, 3 * HIDDEN) if peepholes else None)
    attributes = {"direction": direction, "hidden_size": HIDDEN} | attributes
    return Node(type, inputs, attributes, outputs or ("yhc" if type == "LSTM" else "yh"))


LAYERS = {
    **{f"{t}-{d}": layer(t, d) for t in GATES for d in ("forward", "reverse", "bidirectional")},
    **{
        f"{t}-lengths-{d}": layer(t, d, lengths=LENGTHS) for t in GATES for d in ("forward", "reverse", "bidirectional")
    },
    **{f"{t}-bare": layer(t, bias=False, states=False) for t in GATES},
    **{f"{t}-clip": layer(t, clip=0.3) for t in GATES},
    "GRU-linear": layer("GRU", "bidirectional", linear_before_reset=1),
    "GRU-linear-bare": layer("GRU", bias=False, linear_before_reset=1),
    "LSTM-peepholes": layer("LSTM", "bidirectional", peepholes=True),
    "LSTM-peepholes-lengths": layer("LSTM", "reverse", peepholes=True, lengths=LENGTHS, clip=0.5),
    "LSTM-input_forget": layer("LSTM", input_forget=1),
    "LSTM-last": layer("LSTM", outputs="--c"),
    "GRU-last": layer("GRU", "bidirectional", outputs="-h"),
    "RNN-functions": layer("RNN", "bidirectional", activations=["LeakyRelu", "Relu"], activation_alpha=[0.2]),
    "LSTM-functions": layer(
        "LSTM",
        activations=["HardSigmoid", "ScaledTanh", "Affine"],
        activation_alpha=[0.3, 1.2, 0.7],
        activation_beta=[0.4, 0.8, 0.1],
    ),
    "GRU-functions": layer("GRU", activations=["HardSigmoid", "Softsign"]),
    "RNN-elu": layer("RNN", activations=["Elu"], activation_alpha=[0.5]),
    "RNN-threshold": layer("RNN", activations=["ThresholdedRelu"], activation_alpha=[0.4]),
    "RNN-softplus": layer("RNN", activations=["Softplus"]),
}
# Not differentiable where their pieces meet: steps of finite differences may cross that.
KINKED = ("clip", "functions", "elu", "threshold", "peepholes-lengths")


@pytest.mark.parametrize("name", LAYERS)
def test_values_are_those_of_onnx_runtime(name):
    node = LAYERS[name]
    for got, expected in zip(values(node), runtime_values(node), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [n for n in LAYERS if not any(k in n for k in KINKED)])
def test_gradients_are_those_of_finite_differences(name):
    node = LAYERS[name]
    wanted = [i for i, a in enumerate(node.inputs) if a is not None and a.dtype == np.float32]
    check_gradients(node, wanted)


@pytest.mark.parametrize("type", GATES)
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "lengths"])
def test_batch_first_is_the_same_transposed(type, lengths):
    node = layer(type, "bidirectional", lengths=lengths)
    turned = [None if a is None else a.swapaxes(0, 1) if i in (0, 5, 6) else a for i, a in enumerate(node.inputs)]
    other = values(Node(type, turned, node.attributes | {"layout": 1}, node.outputs))
    expected = values(node)
    np.testing.assert_array_equal(other[0], expected[0].transpose(2, 0, 1, 3))
    for got, states in zip(other[1:], expected[1:], strict=True):
        np.testing.assert_array_equal(got, states.swapaxes(0, 1))


@pytest.mark.parametrize("opset", [6, 7, 11, 14, 21])
@pytest.mark.parametrize("type", GATES)
def test_every_version(type, opset):
    node = layer(type, "bidirectional")
    older = Node(type, node.inputs, node.attributes, node.outputs, opset)
    for got, expected in zip(values(older), values(node), strict=True):
        np.testing.assert_array_equal(got, expected)


def from_torch(blocks, order):
    """Weights of PyTorch with the gates in ONNX's order."""
    parts = np.split(blocks.detach().numpy(), len(order))
    return np.concatenate([parts[i] for i in order])[None]


@pytest.mark.parametrize(
    ("type", "module", "order"),
    [("RNN", torch.nn.RNN, [0]), ("GRU", torch.nn.GRU, [1, 0, 2]), ("LSTM", torch.nn.LSTM, [0, 3, 1, 2])],
)
def test_gradients_are_those_of_pytorch(type, module, order):
    torch.manual_seed(0)
    net = module(INPUT, HIDDEN)
    x = torch.randn(STEPS, BATCH, INPUT, requires_grad=True)
    w, r = (from_torch(getattr(net, n), order) for n in ("weight_ih_l0", "weight_hh_l0"))
    bias = np.concatenate([from_torch(getattr(net, n), order) for n in ("bias_ih_l0", "bias_hh_l0")], 1)
    attributes = {"hidden_size": HIDDEN} | ({"linear_before_reset": 1} if type == "GRU" else {})
    node = Node(type, [x.detach().numpy(), w, r, bias], attributes, "y")
    (weights,) = output_weights(node, values(node))
    (net(x)[0][:, None] * torch.from_numpy(weights)).sum().backward()
    got = gradients(node, [0, 1, 2, 3], [weights])
    expected = [x.grad.numpy(), from_torch(net.weight_ih_l0.grad, order), from_torch(net.weight_hh_l0.grad, order)]
    expected.append(np.concatenate([from_torch(getattr(net, n).grad, order) for n in ("bias_ih_l0", "bias_hh_l0")], 1))
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def graphcore_lstm(order, node):
    """Inputs of ai.graphcore's lstm that mean the same as those of the ONNX node `node`."""
    x, w, r, bias, _, hidden, cell, _ = node.inputs
    gates = [np.split(a[0], 4) for a in (w, r)]
    weights = np.stack([np.concatenate([gates[0][i].T, gates[1][i].T]) for i in order])
    total = bias[0].reshape(2, 4, HIDDEN).sum(0)
    return x, weights, total[order], np.stack([hidden[0], cell[0]])


@pytest.mark.parametrize("full", [0, 1])
def test_lstm_of_graphcore(full):
    """Gates in the order forget, input, candidate, output; outputs: hidden states (all or the last), the last cell."""
    node = layer("LSTM")
    inputs = list(graphcore_lstm([2, 0, 3, 1], node))
    own = Node("LSTM", inputs, {"outputFullSequence": full}, "yc", domain="ai.graphcore", opset=11)
    y, h, c = runtime_values(node)
    got = values(own)
    np.testing.assert_allclose(got[0], y[:, 0] if full else h[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got[1], c[0], rtol=1e-5, atol=1e-6)
    check_gradients(Node("LSTM", inputs, {"outputFullSequence": full}, "yc", 13, "ai.graphcore"), range(4))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"activations": ["Foo"]}, "'Foo' is not supported"),
        ({"direction": "both"}, "direction"),
        ({"hidden_size": 7}, "hidden_size"),
        ({"activations": ["Tanh", "Tanh"]}, "activations"),
        ({"clip": -1.0}, "clip"),
        ({"activation_alpha": [1.0]}, "activation_alpha"),
    ],
)
def test_refusals(change, text):
    node = layer("RNN")
    with pytest.raises(popart.popart_exception, match=text):
        values(Node("RNN", node.inputs, node.attributes | change, "y"))


@pytest.mark.parametrize("type", GATES)
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_fewer_activations_than_directions_have_are_refused(type, direction):
    needed = {"RNN": 1, "GRU": 2, "LSTM": 3}[type] * (1 + (direction == "bidirectional"))
    for count in range(1, needed):
        node = layer(type, direction, activations=["Tanh"] * count)
        with pytest.raises(popart.popart_exception, match=f"attribute activations: got {count} names"):
            values(node)


def test_lstm_of_popart_takes_the_function_of_its_gates_alone():
    node = layer("LSTM", activations=["HardSigmoid"])
    whole = Node("LSTM", node.inputs, node.attributes | {"activations": ["HardSigmoid", "Tanh", "Tanh"]}, "y", 11)
    own = Node("LSTM", node.inputs, node.attributes, "y", 11)
    np.testing.assert_array_equal(values(own)[0], values(whole)[0])


@pytest.mark.parametrize("bad", [-1, STEPS + 1, 2**31 - 1])
@pytest.mark.parametrize("type", GATES)
@pytest.mark.parametrize("constant", [True, False])
def test_lengths_out_of_range_are_refused(type, bad, constant):
    """When the model is read, or in the run that brings them; the same model runs with lengths that fit."""
    node = layer(type, lengths=np.full(BATCH, STEPS, np.int32))
    inputs = [*node.inputs]
    inputs[4] = np.array([STEPS] * (BATCH - 1) + [bad], np.int32)
    wrong = Node(type, inputs, node.attributes, "y", constant=(4,) if constant else ())
    kind = popart.popart_exception if constant else popart.popart_runtime_error
    with pytest.raises(kind, match=f"sequence_lens.*out of range.*{bad}.*0 to {STEPS}"):
        values(wrong)
    assert np.isfinite(values(Node(type, node.inputs, node.attributes, "y"))[0]).all()


def test_shapes_that_contradict_each_other_are_refused():
    node = layer("LSTM")
    inputs = [*node.inputs[:3], node.inputs[3][:, 1:], *node.inputs[4:]]
    with pytest.raises(popart.popart_exception, match=r"input 3 \(B\)"):
        values(Node("LSTM", inputs, node.attributes, "y"))


def test_builder_trains_an_lstm():
    """The Builder's methods of every opset, used in a training session."""
    for opset in range(6, 12):
        builder = popart.Builder(opsets={"ai.onnx": opset, "ai.onnx.ml": 1, "ai.graphcore": 1})
        onnx = getattr(builder, f"aiOnnxOpset{opset}")
        node = layer("LSTM")
        x = builder.addInputTensor(popart.TensorInfo("FLOAT", node.inputs[0].shape))
        names = [x] + [builder.addInitializedInputTensor(a) for a in node.inputs[1:4]]
        y, hidden, cell = onnx.lstm(names, 3)
        assert builder.getTensorShape(y) == [STEPS, 1, BATCH, HIDDEN]
        assert builder.getTensorShape(hidden) == builder.getTensorShape(cell) == [1, BATCH, HIDDEN]
