"""What trains in a file: the classification of its floating-point initializers (decisions/0078).

The oracle is the PyTorch module: its parameters train, its buffers do not, and steps of training give its weights.
"""

import copy
import io
import warnings

import numpy as np
import popart
import pytest
import torch
from torch import nn

import onnx
from onnx import helper
from tests.python.onnx.trained_models import (
    RATE,
    model_of,
    node,
    reasons,
    saved,
    step,
    trainer,
    trains,
    values_of,
)

STEPS = 3

# ---- models


def exported(module, inputs, dynamo, opset=18, training=True, folding=False):
    file = io.BytesIO()
    mode = torch.onnx.TrainingMode.TRAINING if training else torch.onnx.TrainingMode.EVAL
    more = {} if dynamo else {"training": mode, "do_constant_folding": folding}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            copy.deepcopy(module).train(training),
            inputs,
            file,
            dynamo=dynamo,
            opset_version=opset,
            verbose=False,
            **more,
        )
    return onnx.load_from_string(file.getvalue())


# ---- modules: parameters, buffers, and forms that exporters give them


class InputNormalised(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.4, 0.5, 0.6]))
        self.register_buffer("std", torch.tensor([0.2, 0.25, 0.3]))
        self.register_buffer("table", torch.randn(4, 3))
        self.body = nn.Linear(3, 2)

    def forward(self, x):
        return self.body((x - self.mean) / self.std + self.table)


class ByMultiplication(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.4, 0.5, 0.6]))
        self.register_buffer("factor", torch.tensor([5.0, 4.0, 3.0]))
        self.body = nn.Linear(3, 2)

    def forward(self, x):
        return self.body((x - self.mean) * self.factor)


class Transposed(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 3))
        self.norm = nn.GroupNorm(2, 4)
        self.scale = nn.Parameter(torch.rand(4))

    def forward(self, x):
        return self.norm(x @ self.w.t()) * self.scale.view(1, 4)


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.slope = nn.PReLU(4)
        self.gamma = nn.Parameter(torch.full((4, 1, 1), 0.5))
        self.up = nn.ConvTranspose2d(4, 2, 2)
        self.instance = nn.InstanceNorm2d(2, affine=True)

    def forward(self, x):
        return self.instance(self.up(self.slope(self.norm(self.first(x))) * self.gamma))


class Causal(nn.Module):
    """Attention with a mask and sines of positions as buffers."""

    def __init__(self):
        super().__init__()
        position = torch.arange(6.0).unsqueeze(1) * torch.tensor([1.0, 0.1])
        self.register_buffer("sines", torch.cat([position.sin(), position.cos()], 1))
        self.register_buffer("mask", torch.full((6, 6), float("-inf")).triu(1))
        self.token = nn.Embedding(9, 4)
        self.position = nn.Parameter(torch.randn(1, 6, 4))
        self.qkv = nn.Linear(4, 12)
        self.norm = nn.LayerNorm(4)

    def forward(self, ids):
        x = self.token(ids) + self.sines + self.position
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = q @ k.transpose(-2, -1) / 2 + self.mask
        return self.norm(x + scores.softmax(-1) @ v)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 4, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(8, 3, batch_first=True)

    def forward(self, x):
        return self.gru(self.lstm(x)[0])[0]


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 4)
        self.inner = nn.Linear(4, 4)

    def forward(self, ids):
        return torch.tanh(self.inner(self.table(ids))) @ self.table.weight.t()


def image():
    return torch.randn(2, 3, 6, 6)


MODULES = {
    "input_normalised": (InputNormalised, lambda: torch.randn(4, 3)),
    "by_multiplication": (ByMultiplication, lambda: torch.randn(4, 3)),
    "transposed": (Transposed, lambda: torch.randn(5, 3)),
    "convolutions": (Convolutions, image),
    "causal": (Causal, lambda: torch.randint(0, 9, (2, 6))),
    "recurrent": (Recurrent, lambda: torch.randn(2, 5, 3)),
    "tied": (Tied, lambda: torch.tensor([[0, 3, 3]])),
}


def numpy_feed(x):
    return x.numpy().astype(np.int64) if not x.is_floating_point() else x.numpy()


def peer_losses(module, xs):
    module = copy.deepcopy(module).train()
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE)
    losses = []
    for x in xs:
        optimizer.zero_grad()
        loss = module(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, module


# The exporter based on torch.export always folds, and writes batch norm in inference form alone.
FORMS = {"torchscript-unfolded": (False, False), "torchscript-folded": (False, True), "dynamo": (True, False)}


@pytest.mark.parametrize(
    ("name", "form"), [(n, f) for n in MODULES for f in FORMS if (n, f) != ("convolutions", "dynamo")]
)
def test_what_pytorch_trains_trains_and_gives_its_losses(name, form, tmp_path):
    dynamo, folding = FORMS[form]
    torch.manual_seed(1)
    module, sample = MODULES[name][0](), MODULES[name][1]
    xs = [sample() for _ in range(STEPS)]
    model = exported(module, (xs[0],), dynamo, folding=folding)
    parameters, buffers = dict(module.named_parameters()), dict(module.named_buffers())
    for key, value in trains(model).items():
        if key in parameters:
            assert value, key
        if key in buffers:
            assert not value, key
    session, feed = trainer(model), model.graph.input[0].name
    losses = [step(session, {feed: numpy_feed(x)}) for x in xs]
    expected, trained = peer_losses(module, xs)
    np.testing.assert_allclose(losses, expected, rtol=2e-4)
    after, state = values_of(saved(session, tmp_path)), trained.state_dict()
    for key in set(after) & set(state):
        if "running" in key:  # the exporter has run the network once
            continue
        np.testing.assert_allclose(after[key], state[key].numpy(), rtol=1e-3, atol=1e-5, err_msg=key)


def test_inputs_declared_anew_keep_what_the_file_says():
    model = exported(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), (torch.randn(2, 3),), True)
    before = popart.trainable_tensors(model.SerializeToString())
    assert any("of parameter" in t.reason or "exporter" in t.reason for t in before)
    transformer = popart.GraphTransformer(model.SerializeToString())
    transformer.declareInputs({model.graph.input[0].name: ["batch", "3"]})
    after = popart.trainable_tensors(transformer.getModelProto())
    assert [(t.name, t.trains, t.reason) for t in after] == [(t.name, t.trains, t.reason) for t in before]


class OtherFunction(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_scale = nn.Parameter(torch.rand(4))
        self.fc = nn.Linear(3, 4)

    def forward(self, x):
        return self.fc(x) * torch.exp(self.log_scale)


def test_a_parameter_that_is_stored_as_another_function_of_itself_is_named(capfd):
    model = exported(OtherFunction(), (torch.randn(2, 3),), dynamo=True)
    found = trains(model)
    assert found["fc.weight"] and found["fc.bias"]
    (stored,) = set(found) - {"fc.weight", "fc.bias"}
    assert not found[stored] and "log_scale" in reasons(model)[stored]
    popart.getLogger("session").setLevel("WARN")
    trainer(model)
    assert "parameter 'log_scale' cannot train" in "".join(capfd.readouterr())


FUNCTIONS_THEN_MOVES = {
    "exp, permute": lambda p, q: torch.exp(p).permute(1, 0),
    "exp, view of equal size": lambda p, q: torch.exp(p).permute(1, 0).reshape(2, 6).reshape(3, 4),
    "multiple, reshape": lambda p, q: (p * 2).reshape(3, 4),
    "tanh, two transposes": lambda p, q: torch.tanh(p).T.T.reshape(3, 4),
    "softplus, reshape, transpose": lambda p, q: nn.functional.softplus(p).reshape(4, 3).transpose(0, 1),
    "norm, transpose": lambda p, q: nn.functional.normalize(p, dim=0).t(),
    "sum of two, transpose": lambda p, q: (p + q).t(),
    "exp, rows picked": lambda p, q: torch.exp(p.t())[torch.tensor([2, 0, 1])],
    "where, transpose": lambda p, q: torch.where(p > 0.5, p, p * 0).t(),
    "cumulative sum, flip": lambda p, q: p.cumsum(0).flip(0).t(),
    "product of two, joined": lambda p, q: torch.cat([p[:2] * q[:2], p[2:]]).t(),
}
MOVES = {
    "transpose": lambda p, q: p.t(),
    "permute, reshape": lambda p, q: p.permute(1, 0).reshape(2, 6).reshape(3, 4),
    "halves in another order": lambda p, q: torch.cat([p[2:], p[:2]]).t(),
    "halves of two": lambda p, q: torch.cat([p[:2], q[2:]]).t(),
}


class Folded(nn.Module):
    def __init__(self, of_parameters):
        super().__init__()
        self.p, self.q = nn.Parameter(torch.rand(4, 3) + 0.1), nn.Parameter(torch.rand(4, 3) + 0.1)
        self.of_parameters, self.fc = of_parameters, nn.Linear(3, 3)

    def forward(self, x):
        return self.fc(x) @ self.of_parameters(self.p, self.q)


@pytest.mark.parametrize("functions", FUNCTIONS_THEN_MOVES)
def test_functions_whose_results_are_moved_are_not_the_parameter(functions, capfd):
    model = exported(Folded(FUNCTIONS_THEN_MOVES[functions]), (torch.randn(2, 3),), dynamo=True)
    found = trains(model)
    assert found.pop("fc.weight") and found.pop("fc.bias")
    assert found and not any(found.values())
    popart.getLogger("session").setLevel("WARN")
    trainer(model)
    assert "parameter 'p' cannot train" in "".join(capfd.readouterr())


@pytest.mark.parametrize("moves", MOVES)
def test_moved_parameters_train(moves):
    found = trains(exported(Folded(MOVES[moves]), (torch.randn(2, 3),), dynamo=True))
    assert len(found) > 2 and all(found.values())


class Tokens(nn.Module):
    """Learned rows before an input: whether such rows train is a guess."""

    def __init__(self, number):
        super().__init__()
        self.tokens = nn.ParameterList(torch.randn(1, 1, 3) for _ in range(number))
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        return self.fc(torch.cat([*self.tokens, x], 1))


@pytest.mark.parametrize("number", [2, 3, 4, 40])
def test_guesses_are_named_in_few_lines(number, capfd):
    model = exported(Tokens(number), (torch.randn(1, 2, 3),), dynamo=False)
    popart.getLogger("session").setLevel("WARN")
    trainer(model)
    lines = [line for line in "".join(capfd.readouterr()).splitlines() if "guess" in line]
    assert len(lines) == (number if number <= 3 else 1)
    assert number <= 3 or f"{number} tensors train" in lines[0]
    assert all("popart-inspect --training" in line for line in lines)


def test_an_unfolded_function_of_a_parameter_trains():
    found = trains(exported(OtherFunction(), (torch.randn(2, 3),), dynamo=False))
    assert found["log_scale"]


# ---- hand-written models

W = np.random.default_rng(0).normal(size=(3, 2)).astype(np.float32)
C = np.random.default_rng(1).normal(size=3).astype(np.float32)
SLOTS = {
    "exponent": ([node("Pow", ["x", "c"], "q"), node("MatMul", ["q", "w"], "y")], {"w": W, "c": C}, {"w"}),
    "bounds": (
        [node("MatMul", ["x", "w"], "h"), node("Clip", ["h", "low", "high"], "y")],
        {"w": W, "low": np.float32(-1), "high": np.float32(1)},
        {"w"},
    ),
    "numbers": (
        [node("Mul", ["x", "two"], "h"), node("Add", ["h", "one"], "i"), node("MatMul", ["i", "w"], "y")],
        {"w": W, "two": np.float32(2), "one": np.float32([1])},
        {"w"},
    ),
    "bias_of_a_product": (
        [node("MatMul", ["x", "w"], "h"), node("Add", ["h", "b"], "y")],
        {"w": W, "b": C[:2]},
        {"w", "b"},
    ),
    "through_views": (
        [
            node("Transpose", ["v"], "t", perm=[1, 0]),
            node("Identity", ["t"], "i"),
            node("MatMul", ["x", "i"], "h"),
            node("Reshape", ["b", "shape"], "r"),
            node("Add", ["h", "r"], "y"),
        ],
        {"v": W.T.copy(), "b": C[:2], "shape": np.array([1, 2], np.int64)},
        {"v", "b"},
    ),
    "weight_of_two_tensors": (
        [node("Mul", ["g", "w"], "p"), node("Mul", ["p", "half"], "s"), node("MatMul", ["x", "s"], "y")],
        {"w": W, "g": C.reshape(3, 1), "half": np.float32(0.5)},
        {"w", "g"},
    ),
    "pruned_weight": (
        [node("Mul", ["w", "mask"], "p"), node("MatMul", ["x", "p"], "y")],
        {"w": W, "mask": (W > 0).astype(np.float32)},
        {"w"},
    ),
    "quantised_and_back": (
        [
            node("QuantizeLinear", ["w", "s", "z"], "q"),
            node("DequantizeLinear", ["q", "s", "z"], "d"),
            node("MatMul", ["x", "d"], "y"),
        ],
        {"w": W, "s": np.float32(0.02), "z": np.int8(0)},
        {"w"},
    ),
    "resized": (
        [
            node("MatMul", ["x", "w"], "h"),
            node("Reshape", ["h", "shape"], "i"),
            node("Resize", ["i", "", "scales"], "y", mode="nearest"),
        ],
        {"w": W, "shape": np.array([1, 1, 4, 2], np.int64), "scales": np.float32([1, 1, 2, 2])},
        {"w"},
    ),
    "norm_of_groups": (
        [
            node("MatMul", ["x", "w"], "h"),
            node("Reshape", ["h", "groups"], "i"),
            node("InstanceNormalization", ["i", "ones", "zeros"], "n"),
            node("Reshape", ["n", "planes"], "j"),
            node("Mul", ["j", "scale"], "k"),
            node("Add", ["k", "bias"], "y"),
        ],
        {
            "w": W,
            "ones": np.ones(2, np.float32),
            "zeros": np.zeros(2, np.float32),
            "scale": C[:2].reshape(2, 1),
            "bias": C[1:].reshape(2, 1),
            "groups": np.array([1, 2, 4], np.int64),
            "planes": np.array([1, 2, 4], np.int64),
        },
        {"w", "scale", "bias"},
    ),
    "norm_of_instances": (
        [
            node("MatMul", ["x", "w"], "h"),
            node("Reshape", ["h", "planes"], "i"),
            node("InstanceNormalization", ["i", "ones", "zeros"], "n"),
            node("Exp", ["n"], "y"),
        ],
        {
            "w": W,
            "ones": np.ones(2, np.float32),
            "zeros": np.zeros(2, np.float32),
            "planes": np.array([1, 2, 4], np.int64),
        },
        {"w", "ones", "zeros"},
    ),
    "divided": ([node("MatMul", ["x", "w"], "h"), node("Div", ["h", "c"], "y")], {"w": W, "c": C[:2]}, {"w"}),
}


@pytest.mark.parametrize("name", list(SLOTS))
def test_operands_train_by_the_slot_that_reads_them(name):
    nodes, weights, expected = SLOTS[name]
    model = model_of(nodes, {"x": [4, 3]}, ["y"], weights)
    found = trains(model)
    assert {key for key, value in found.items() if value} == expected
    assert set(found) == {key for key, value in weights.items() if np.asarray(value).dtype == np.float32}
    session = trainer(model)
    step(session, {"x": np.abs(np.random.default_rng(2).normal(size=(4, 3))).astype(np.float32) + 0.5})
    arrays = {key: np.zeros_like(np.asarray(value)) for key, value in weights.items() if key in found}
    session.weightsToHost()
    session.readWeights(popart.PyWeightsIO(arrays))
    for key, array in arrays.items():
        assert np.array_equal(array, weights[key]) == (key not in expected), key


def norm_nodes(mean, variance):
    return node("BatchNormalization", ["h", "scale", "bias", mean, variance], ["y", "m", "v"], training_mode=1)


def test_statistics_through_identity_are_tensors_of_their_own(tmp_path):
    """As the exporter writes equal tensors: one initializer, read through Identity where the others were."""
    zeros, ones = np.zeros(2, np.float32), np.ones(2, np.float32)
    model = model_of(
        [
            node("MatMul", ["x", "w"], "h"),
            node("Identity", ["bias"], "mean"),
            node("Identity", ["scale"], "variance"),
            norm_nodes("mean", "variance"),
        ],
        {"x": [4, 3]},
        ["y"],
        {"w": W, "scale": ones, "bias": zeros},
    )
    found = trains(model)
    assert found == {"w": True, "scale": True, "variance": False, "bias": True, "mean": False}
    module = nn.Sequential(nn.Linear(3, 2, bias=False), nn.BatchNorm1d(2, momentum=0.1))
    module[0].weight.data = torch.tensor(W.T.copy())
    xs = [torch.randn(4, 3) for _ in range(STEPS)]
    session = trainer(model)
    losses = [step(session, {"x": x.numpy()}) for x in xs]
    expected, trained = peer_losses(module, xs)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    after = values_of(saved(session, tmp_path))
    np.testing.assert_allclose(after["bias"], trained[1].bias.detach().numpy(), rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(after["scale"], trained[1].weight.detach().numpy(), rtol=1e-3)
    # ONNX takes the variance of the batch as it is, PyTorch that of the population
    np.testing.assert_allclose(after["mean"], trained[1].running_mean.numpy(), rtol=1e-3, atol=1e-6)


def test_training_info_of_the_file_decides():
    nodes = [node("MatMul", ["x", "w"], "h"), node("Add", ["h", "b"], "y")]
    model = model_of(nodes, {"x": [4, 3]}, ["y"], {"w": W, "b": C[:2]})
    info = model.training_info.add()
    binding = info.update_binding.add()
    binding.key, binding.value = "b", "new_b"
    info.algorithm.CopyFrom(helper.make_graph([], "update", [], []))
    assert {t.name: t.trains for t in popart.trainable_tensors(model.SerializeToString())} == {"w": False, "b": True}


def test_guesses_train_where_nothing_else_does(capfd):
    whole = np.float32([[1, 2, 2], [3, 3, 3]])
    product = node("Mul", ["a", "x"], "h")
    alone = model_of([product, node("Relu", ["h"], "y")], {"x": [1]}, ["y"], {"a": whole})
    with_parameter = model_of([product, node("MatMul", ["h", "w"], "y")], {"x": [1]}, ["y"], {"a": whole, "w": W})
    assert trains(alone) == {"a": True}
    assert trains(with_parameter) == {"a": False, "w": True}
    popart.getLogger("session").setLevel("WARN")
    trainer(alone)
    assert "'a' float32[2, 3] trains, by a guess" in "".join(capfd.readouterr())


@pytest.mark.parametrize("kind, value", [("Mul", np.float32(2)), ("Sub", C), ("Div", C), ("Add", np.float32([0.5]))])
def test_operands_that_stay_as_a_rule_train_where_nothing_else_does(kind, value):
    def nodes(output):
        return [node(kind, ["x", "a"], output)]

    assert trains(model_of(nodes("y"), {"x": [2, 3]}, ["y"], {"a": value})) == {"a": True}
    product = model_of([*nodes("h"), node("MatMul", ["h", "w"], "y")], {"x": [2, 3]}, ["y"], {"a": value, "w": W})
    assert trains(product) == {"a": False, "w": True}


def test_a_model_in_which_nothing_trains_is_a_warning(capfd):
    model = model_of([node("Clip", ["x", "", "two"], "y")], {"x": [3]}, ["y"], {"two": np.float32(2)})
    popart.getLogger("session").setLevel("WARN")
    trainer(model)
    assert "nothing trains: got 1 floating-point initializers" in "".join(capfd.readouterr())


def test_models_of_the_builder_train_all_that_the_loss_depends_on():
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [4, 3]))
    exponent = builder.addInitializedInputTensor(np.float32([2.0]))
    term = builder.addInitializedInputTensor(C)
    y = builder.aiOnnx.pow([builder.aiOnnx.add([x, term]), exponent])
    builder.addOutputTensor(y)
    found = popart.trainable_tensors(builder.getModelProto())
    assert all(t.trains and "Builder" in t.reason for t in found)
    assert {t.name for t in found} == {exponent, term}
