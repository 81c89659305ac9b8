"""Tables that layers read as data, products that are weights, and parameters of which the file writes a part.

The oracle is the PyTorch module for exported files; hand-written ones say what trains, and one step shows it.
"""

import copy

import numpy as np
import onnxruntime
import popart
import pytest
import torch
from torch import nn
from torch.nn import functional

import onnx
from tests.models.circulation.exporting import Form, export
from tests.python.onnx.trained_models import (
    RATE,
    model_of,
    node,
    saved,
    step,
    trainer,
    trains,
    values_of,
    with_square_loss,
)

random = np.random.default_rng(0)


def drawn(*shape):
    return random.normal(size=shape).astype(np.float32)


# Coordinates of a grid on a logarithmic scale: few numbers, each of them several times.
GRID = np.stack(np.meshgrid(*[np.sign(c) * np.log2(1 + np.abs(c)) for c in [np.arange(-3.0, 4.0)] * 2]), -1)
GRID = GRID.reshape(-1, 2).astype(np.float32)
TABLE, FIRST, SECOND, BIAS = drawn(5, 2), drawn(2, 6), drawn(6, 3), drawn(6)
FACTORS = {"w": drawn(3, 2), "u": drawn(3, 1), "v": drawn(1, 2)}
LAYERS = {"table": TABLE, "w1": FIRST, "b1": BIAS, "w2": SECOND}


def layers(*function):
    """Two layers on a table, `function` between them, whose result is a matrix of weights."""
    return [
        node("MatMul", ["table", "w1"], "h"),
        node("Add", ["h", "b1"], "i"),
        *function,
        node("MatMul", ["j", "w2"], "k"),
        node("Transpose", ["k"], "t"),
        node("MatMul", ["x", "t"], "y"),
    ]


QKV = {"w": drawn(3, 6), "q": drawn(2), "k": np.zeros(2, np.float32), "v": drawn(2)}
# Name: nodes, initializers, those that train.
FILES = {
    "layers_on_a_table": (layers(node("Relu", ["i"], "j")), LAYERS, {"w1", "b1", "w2"}),
    "gates_on_a_table": (
        layers(node("Sigmoid", ["i"], "s"), node("Mul", ["i", "s"], "j")),
        LAYERS,
        {"w1", "b1", "w2"},
    ),
    "one_layer_on_a_table": (
        [
            node("Gemm", ["table", "w1", "b1"], "h"),
            node("Tanh", ["h"], "i"),
            node("MatMul", ["z", "i"], "y"),
        ],
        {"table": TABLE, "w1": FIRST, "b1": BIAS},
        {"w1", "b1"},
    ),
    "one_layer_on_a_grid": (
        [
            node("MatMul", ["grid", "w1"], "h"),
            node("Add", ["h", "b"], "i"),
            node("Transpose", ["i"], "t"),
            node("MatMul", ["x", "t"], "y"),
        ],
        {"grid": GRID, "w1": FIRST[:, :3].copy(), "b": BIAS[:3]},
        {"w1", "b"},
    ),
    "queries": (
        [
            node("MatMul", ["table", "w1"], "h"),
            node("Add", ["h", "b1"], "q"),
            node("MatMul", ["x", "w3"], "keys"),
            node("Transpose", ["q"], "t"),
            node("MatMul", ["keys", "t"], "s"),
            node("Softmax", ["s"], "y", axis=0),
        ],
        {"table": TABLE, "w1": FIRST, "b1": BIAS, "w3": drawn(3, 6)},
        {"table", "w1", "b1", "w3"},
    ),
    "low_rank": (
        [node("MatMul", ["u", "v"], "d"), node("Add", ["w", "d"], "s"), node("MatMul", ["x", "s"], "y")],
        FACTORS,
        {"w", "u", "v"},
    ),
    "low_rank_of_whole_numbers": (
        [node("MatMul", ["u", "v"], "d"), node("MatMul", ["x", "d"], "y")],
        {"u": np.arange(1, 7, dtype=np.float32).reshape(3, 2), "v": drawn(2, 2)},
        {"u", "v"},
    ),
    "layers_without_a_bias_on_a_grid": (
        [
            node("MatMul", ["grid", "w1"], "h"),
            node("Relu", ["h"], "i"),
            node("MatMul", ["i", "w2"], "j"),
            node("Transpose", ["j"], "t"),
            node("MatMul", ["x", "t"], "y"),
        ],
        {"grid": GRID, "w1": FIRST, "w2": SECOND},
        {"w1", "w2"},
    ),
    "low_rank_alone": (
        [node("MatMul", ["u", "v"], "d"), node("MatMul", ["x", "d"], "h"), node("Relu", ["h"], "y")],
        {"u": FACTORS["u"], "v": FACTORS["v"]},
        {"u", "v"},
    ),
    "low_rank_with_a_scale": (
        [
            node("MatMul", ["u", "v"], "d"),
            node("Mul", ["d", "two"], "e"),
            node("Add", ["w", "e"], "s"),
            node("Gemm", ["x", "s", "b"], "y"),
        ],
        FACTORS | {"two": np.float32(2), "b": BIAS[:2]},
        {"w", "u", "v", "b"},
    ),
    "low_rank_transposed": (
        [
            node("Transpose", ["u"], "ut"),
            node("Transpose", ["v"], "vt"),
            node("MatMul", ["vt", "ut"], "d"),
            node("Transpose", ["d"], "e"),
            node("Reshape", ["e", "shape"], "f"),
            node("MatMul", ["x", "f"], "y"),
        ],
        {"u": FACTORS["u"], "v": FACTORS["v"], "shape": np.array([3, 2], np.int64)},
        {"u", "v"},
    ),
    "low_rank_by_length": (  # DoRA
        [
            node("MatMul", ["u", "v"], "d"),
            node("Add", ["w", "d"], "s"),
            node("ReduceL2", ["s"], "n", axes=[0], keepdims=1),
            node("Div", ["s", "n"], "e"),
            node("Mul", ["e", "m"], "f"),
            node("MatMul", ["x", "f"], "y"),
        ],
        FACTORS | {"m": np.abs(drawn(2))},
        {"w", "u", "v", "m"},
    ),
    "graph_that_is_learnt": (  # softmax(relu(E1 E2)) between the nodes of a graph
        [
            node("MatMul", ["e1", "e2"], "d"),
            node("Relu", ["d"], "r"),
            node("Softmax", ["r"], "a"),
            node("MatMul", ["x", "a"], "y"),
        ],
        {"e1": drawn(3, 2), "e2": drawn(2, 3)},
        {"e1", "e2"},
    ),
    "part_of_a_bias_is_zero": (
        [
            node("MatMul", ["x", "w"], "h"),
            node("ScatterND", ["b", "places", "zeros"], "c"),
            node("Add", ["h", "c"], "y"),
        ],
        {"w": QKV["w"], "b": BIAS, "places": np.array([[2], [3]]), "zeros": QKV["k"]},
        {"w", "b"},
    ),
    "elements_of_a_bias_are_zero": (
        [
            node("MatMul", ["x", "w"], "h"),
            node("ScatterElements", ["b", "places", "zeros"], "c"),
            node("Add", ["h", "c"], "y"),
        ],
        {"w": QKV["w"], "b": BIAS, "places": np.array([2, 3]), "zeros": QKV["k"]},
        {"w", "b"},
    ),
    "zeros_hold_a_bias": (
        [
            node("MatMul", ["x", "w"], "h"),
            node("ScatterElements", ["zeros", "places", "q"], "c"),
            node("Add", ["h", "c"], "y"),
        ],
        {"w": QKV["w"], "zeros": np.zeros(6, np.float32), "places": np.array([1, 2]), "q": QKV["q"]},
        {"w", "q"},
    ),
    "bias_by_a_condition": (
        [
            node("MatMul", ["x", "w"], "h"),
            node("Where", ["kept", "b", "zeros"], "c"),
            node("Add", ["h", "c"], "y"),
        ],
        {"w": QKV["w"], "kept": np.array([1, 1, 0, 0, 1, 1], bool), "b": BIAS, "zeros": np.zeros(6, np.float32)},
        {"w", "b"},
    ),
    "joined_bias": (
        [
            node("MatMul", ["x", "w"], "h"),
            node("Concat", ["q", "k", "v"], "c", axis=0),
            node("Add", ["h", "c"], "y"),
        ],
        QKV,
        {"w", "q", "v"},
    ),
    "joined_biases_that_are_fresh": (
        [
            node("MatMul", ["x", "w"], "h"),
            node("Concat", ["q", "v"], "c", axis=0),
            node("Add", ["h", "c"], "y"),
        ],
        {"w": QKV["w"], "q": np.zeros(4, np.float32), "v": np.ones(2, np.float32)},
        {"w", "q", "v"},
    ),
    "padded_slice_of_a_bias": (
        [
            node("MatMul", ["x", "w"], "h"),
            node("Slice", ["b", "first", "last"], "c"),
            node("Pad", ["c", "pads", "zero"], "d"),
            node("Add", ["h", "d"], "y"),
        ],
        {
            "w": QKV["w"],
            "b": BIAS,
            "first": np.array([1]),
            "last": np.array([4]),
            "pads": np.array([2, 1]),
            "zero": np.float32(0),
        },
        {"w", "b"},
    ),
    "exponents_that_are_picked": (
        [
            node("Gather", ["c", "places"], "e"),
            node("MatMul", ["x", "w"], "h"),
            node("Abs", ["h"], "i"),
            node("Pow", ["i", "e"], "y"),
        ],
        {"w": QKV["w"], "c": 1 + np.abs(drawn(9)), "places": np.arange(1, 7)},
        {"w"},
    ),
    "zeros_that_are_written_into": (
        [node("MatMul", ["x", "w"], "h"), node("ScatterND", ["zeros", "places", "h"], "y")],
        {"w": QKV["w"], "zeros": np.zeros((8, 6), np.float32), "places": np.array([[1], [2], [4], [6]])},
        {"w"},
    ),
}
INPUTS = {"x": [4, 3], "z": [4, 5]}


@pytest.mark.parametrize("name", list(FILES))
def test_what_trains_moves_and_nothing_else(name, tmp_path):
    nodes, weights, expected = FILES[name]
    read = {value for n in nodes for value in n.input}
    inputs = {key: shape for key, shape in INPUTS.items() if key in read}
    model = model_of(nodes, inputs, ["y"], weights)
    onnx.checker.check_model(model)
    assert {key for key, value in trains(model).items() if value} == expected
    feeds = {key: drawn(*shape) for key, shape in inputs.items()}
    session = trainer(model)
    loss = step(session, feeds)
    (right,) = onnxruntime.InferenceSession(with_square_loss(model).SerializeToString()).run(["loss"], feeds)
    assert loss == pytest.approx(float(right), rel=1e-5)
    after = values_of(saved(session, tmp_path))
    moved = {key for key, value in weights.items() if not np.array_equal(after[key], value)}
    assert moved == expected


def test_a_recurrent_bias_of_zeros_trains():
    """Keras writes one bias, PyTorch two of which one may be fresh: both are operands of the operator."""
    nodes = [
        node("Concat", ["b", "r"], "j", axis=0),
        node("Unsqueeze", ["j", "zero"], "bias"),
        node("LSTM", ["s", "w", "u", "bias"], ["", "y"], hidden_size=2),
    ]
    forget = np.float32([0, 0, 0, 0, 1, 1, 0, 0])
    weights = {"b": forget, "r": np.zeros(8, np.float32), "w": drawn(1, 8, 3), "u": drawn(1, 8, 2)}
    found = trains(model_of(nodes, {"s": [5, 1, 3]}, ["y"], weights | {"zero": np.array([0])}))
    assert all(found[key] for key in weights)


def test_reasons_say_what_reads_a_table():
    nodes, weights, _ = FILES["layers_on_a_table"]
    found = {
        t.name: t for t in popart.trainable_tensors(model_of(nodes, {"x": [4, 3]}, ["y"], weights).SerializeToString())
    }
    assert found["table"].doubtful
    assert found["table"].reason == "data of a layer: A of MatMul (output 'h')"
    assert found["w1"].reason.startswith("parameter") and not found["w1"].doubtful
    assert found["b1"].reason.startswith("bias")


class ContinuousBias(nn.Module):
    """Attention whose scores get what two layers say of the distance between places, without a bias of the keys."""

    def __init__(self, side=4, width=8, heads=2, hidden=16):
        super().__init__()
        self.heads = heads
        near = torch.arange(-side + 1.0, side)
        near = near.sign() * torch.log2(1 + near.abs())
        self.register_buffer("table", torch.stack(torch.meshgrid(near, near, indexing="ij"), -1))
        places = torch.stack(torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")).flatten(1)
        apart = places[:, :, None] - places[:, None] + side - 1
        self.register_buffer("distance", (apart[0] * (2 * side - 1) + apart[1]).flatten())
        self.layers = nn.Sequential(nn.Linear(2, hidden), nn.ReLU(), nn.Linear(hidden, heads, bias=False))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        bias = self.qkv.bias.clone()
        bias[width : 2 * width].zero_()
        qkv = functional.linear(x, self.qkv.weight, bias).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        near = self.layers(self.table).flatten(0, 1)[self.distance].view(length, length, self.heads).permute(2, 0, 1)
        scores = q @ k.transpose(-2, -1) + 4 * torch.sigmoid(near)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class LowRank(nn.Module):
    """A layer whose weight gets a product of two."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 6)
        self.a, self.b = nn.Parameter(torch.randn(2, 8)), nn.Parameter(torch.randn(6, 2))

    def forward(self, x):
        return torch.tanh(functional.linear(x, self.layer.weight + 0.5 * (self.b @ self.a), self.layer.bias))


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("make", [ContinuousBias, LowRank])
def test_modules_train_as_in_pytorch(make, opset, tmp_path):
    torch.manual_seed(0)
    module = make()
    rows = [torch.randn(2, 16, 8) for _ in range(3)]
    model = onnx.load_from_string(export(module, (rows[0],), Form(False, opset)))
    parameters = dict(module.named_parameters())
    found = trains(model)
    assert set(parameters) <= set(found) or make is ContinuousBias  # weights of products are stored transposed
    for key, value in found.items():
        assert value == (key != "table"), key
    assert len(found) == len(parameters) + ("table" in found)
    session, feed = trainer(model), model.graph.input[0].name
    losses = [step(session, {feed: x.numpy()}) for x in rows]
    trained = copy.deepcopy(module)
    optimizer, right = torch.optim.SGD(trained.parameters(), lr=RATE), []
    for x in rows:
        optimizer.zero_grad()
        loss = trained(x).square().mean()
        loss.backward()
        optimizer.step()
        right.append(loss.item())
    np.testing.assert_allclose(losses, right, rtol=1e-5)
    after, state = values_of(saved(session, tmp_path)), trained.state_dict()
    for key in set(after) & set(state):
        np.testing.assert_allclose(after[key], state[key].numpy(), rtol=1e-4, atol=1e-6, err_msg=key)


def test_a_product_with_a_table_in_the_file_is_no_parameter():
    """The exporter based on torch.export folds the first layer on a table: what it stores of its weight is named."""
    torch.manual_seed(0)
    model = onnx.load_from_string(export(ContinuousBias(hidden=512), (torch.randn(2, 16, 8),), Form(True, 18)))
    tensors = popart.trainable_tensors(model.SerializeToString())
    for lost in ("layers.0.weight", "qkv.bias"):
        held = [t for t in tensors if f"parameter '{lost}'" in t.reason]
        assert held, lost
        assert all(t.doubtful and not t.trains for t in held)
    assert {t.name for t in tensors if t.trains} >= {"layers.0.bias", "out.bias"}


def test_many_picks_in_a_row_are_followed_in_time():
    picks = [node("Gather", [f"c{i}", "all"], f"c{i + 1}") for i in range(3000)]
    nodes = [*picks, node("MatMul", ["x", "w"], "h"), node("Mul", ["h", "c3000"], "y")]
    model = model_of(nodes, {"x": [4, 3]}, ["y"], {"w": QKV["w"], "c0": BIAS, "all": np.arange(6)})
    assert trains(model) == {"w": True, "c0": True}


class Affine(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.value, self.layer = value, nn.Linear(8, 8)
        self.alpha, self.beta = nn.Parameter(torch.rand(1, 1, 8)), nn.Parameter(torch.rand(1, 1, 8))

    def forward(self, x):
        return self.layer(torch.addcmul(self.beta, self.alpha, x, value=self.value))


@pytest.mark.parametrize("value", [1, 2])
def test_a_factor_that_the_exporter_multiplied_by_one_trains(value):
    model = onnx.load_from_string(export(Affine(value), (torch.randn(2, 16, 8),), Form(True, 18)))
    (stored,) = [t for t in popart.trainable_tensors(model.SerializeToString()) if "'alpha'" in t.reason]
    assert stored.trains == (value == 1)
