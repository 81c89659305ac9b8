"""What trains where no operator with parameters comes before, tables of formulas, and parts of parameters.

The oracle is the PyTorch module: its parameters train as its optimizer trains them, its buffers stay.
"""

import copy

import numpy as np
import popart
import pytest
import torch
from torch import nn

import onnx
from tests.models.circulation.exporting import Form, export
from tests.python.onnx.trained_models import RATE, model_of, node, saved, step, trainer, values_of

LENGTH, WIDTH = 8, 6


class Joined(nn.Module):
    """A token before an input of embedded rows, and a table of positions added to both."""

    def __init__(self):
        super().__init__()
        self.token, self.places = nn.Parameter(torch.randn(1, 1, WIDTH)), nn.Parameter(torch.randn(LENGTH + 1, WIDTH))
        self.out = nn.Linear(WIDTH, 3)

    def forward(self, x):
        return self.out(torch.tanh(torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places))


class Added(nn.Module):
    """Positions added to an input that one number scales; freshly made positions are zeros."""

    def __init__(self, fresh=False):
        super().__init__()
        self.places = nn.Parameter(torch.zeros(1, LENGTH, WIDTH) if fresh else torch.randn(1, LENGTH, WIDTH))
        self.out = nn.Linear(WIDTH, 3)

    def forward(self, x):
        return self.out(torch.tanh(x * 2.5 + self.places))


class Prepared(nn.Module):
    """An input less its mean, by subtraction and by addition, divided by its spread, with a padding behind it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.4, 0.5, 0.6, 0.7, 0.2, 0.9]))
        self.register_buffer("less", torch.tensor([-0.4, -0.1, -0.6, -0.7, -0.3, -0.5]))
        self.register_buffer("spread", torch.tensor([0.2, 0.25, 0.3, 0.4, 0.1, 0.6]))
        self.register_buffer("image", torch.randn(LENGTH, WIDTH))
        self.register_buffer("padding", torch.full((2, 1, WIDTH), 0.5))
        self.out = nn.Linear(WIDTH, 3)

    def forward(self, x):
        y = (x - self.mean) / self.spread + self.image
        return self.out(
            torch.cat([torch.tanh(y + self.less), self.padding], 1) + torch.cat([x + self.less, self.padding], 1)
        )


class NormFirst(nn.Module):
    """An input that is normalised, with a bias, and scales that are stored as differences from one."""

    def __init__(self):
        super().__init__()
        self.scale, self.bias = nn.Parameter(torch.randn(WIDTH) / 3), nn.Parameter(torch.randn(WIDTH))
        self.out = nn.Linear(WIDTH, 3)

    def forward(self, x):
        normal = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-3)
        return self.out(torch.tanh(normal * (1 + self.scale) + self.bias))


class Grid(nn.Module):
    """Coordinates joined to an input; places and sizes of anchors that turn results into boxes."""

    def __init__(self):
        super().__init__()
        line = torch.linspace(-1, 1, LENGTH)
        self.register_buffer("coordinates", torch.stack(torch.meshgrid(line, line, indexing="ij"), -1).view(1, -1, 2))
        places = (torch.stack(torch.meshgrid(*[torch.arange(LENGTH)] * 2, indexing="ij"), -1) + 0.5) / 7
        self.register_buffer("places", places.view(-1, 2))
        self.register_buffer("sizes", torch.tensor([[0.11, 0.27], [0.31, 0.13]]).repeat(LENGTH * LENGTH // 2, 1))
        self.register_buffer("strides", torch.tensor([8.0, 16.0, 32.0, 32.0]).repeat(LENGTH * LENGTH // 4)[:, None])
        self.layer = nn.Linear(WIDTH + 2, 4)

    def forward(self, x):
        y = self.layer(torch.cat([x, self.coordinates.expand(x.shape[0], -1, -1)], -1))
        return torch.cat([y[..., :2] * self.sizes + self.places, y[..., 2:].exp() * self.sizes], -1) * self.strides


class Decayed(nn.Module):
    """Weights of all pairs of positions from a rate and their distances."""

    def __init__(self):
        super().__init__()
        self.rate = nn.Parameter(torch.randn(WIDTH))
        self.register_buffer("ages", (torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)).clamp(min=0).float())
        self.register_buffer("seen", torch.ones(LENGTH, LENGTH).tril())
        self.out = nn.Linear(WIDTH, 3)

    def forward(self, x):
        kernel = torch.exp(-nn.functional.softplus(self.rate) * self.ages[..., None]) * self.seen[..., None]
        return self.out(torch.einsum("ijd,njd->nid", kernel, x))


class Turned(nn.Module):
    """Angles of positions that are an input, as rotary embeddings compute them."""

    def __init__(self):
        super().__init__()
        self.register_buffer("frequencies", 100.0 ** (-torch.arange(4) / 4))
        self.out = nn.Linear(2 * 4, 3)

    def forward(self, x):
        angles = (self.frequencies[None, :, None].expand(x.shape[0], -1, 1) @ x[:, None, :, 0]).transpose(1, 2)
        return self.out(torch.cat([angles.cos(), angles.sin()], -1))


def rows_of_input():
    return torch.randn(2, LENGTH, WIDTH)


MODULES = {
    "joined": (Joined, rows_of_input),
    "added": (Added, rows_of_input),
    "added_fresh": (lambda: Added(fresh=True), rows_of_input),
    "prepared": (Prepared, rows_of_input),
    "norm_first": (NormFirst, rows_of_input),
    "grid": (Grid, lambda: torch.randn(2, LENGTH * LENGTH, WIDTH)),
    "decayed": (Decayed, rows_of_input),
    "turned": (Turned, rows_of_input),
}


# The exporter based on torch.export stores a token for each sample, and functions of rates and scales.
STORED_OTHERWISE = {"joined", "decayed", "norm_first"}


def trained_as_the_module(module, draw, form, tmp_path, unfolded=False):
    """Steps on the file and on the module; gives the saved weights and the module's.

    The outputs are compared by their losses.
    """
    xs = [draw() for _ in range(3)]
    model = onnx.load_from_string(export(module.eval(), (xs[0],), form, unfolded=unfolded))
    session = trainer(model)
    losses = [step(session, {"in0": x.numpy()}) for x in xs]
    module = copy.deepcopy(module)
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE)
    expected = []
    for x in xs:
        optimizer.zero_grad()
        loss = module(x).square().mean()
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    np.testing.assert_allclose(losses, expected, rtol=2e-4)
    return model, values_of(saved(session, tmp_path)), module


@pytest.mark.parametrize(
    ("name", "dynamo"), [(n, d) for n in MODULES for d in (False, True) if not (d and n in STORED_OTHERWISE)]
)
def test_parameters_train_and_buffers_stay(name, dynamo, tmp_path):
    torch.manual_seed(3)
    make, draw = MODULES[name]
    module = make()
    model, after, trained = trained_as_the_module(
        module, draw, Form(dynamo, 18 if dynamo else 17), tmp_path, unfolded=not dynamo
    )
    parameters, buffers = dict(trained.named_parameters()), dict(module.named_buffers())
    for tensor in popart.trainable_tensors(model.SerializeToString()):
        if tensor.name in parameters:
            assert tensor.trains, tensor
            right = parameters[tensor.name].detach().numpy()
            np.testing.assert_allclose(after[tensor.name], right, rtol=1e-3, atol=1e-6)
        if tensor.name in buffers:
            assert not tensor.trains, tensor
    if not dynamo:
        assert set(parameters) - set(after) <= {"out.weight", "layer.weight"}


def test_guesses_at_inputs_are_doubtful():
    """Nothing in the file tells a mean from a bias, or a token of zeros from a padding."""
    torch.manual_seed(3)
    for name, doubtful in (("joined", {"token", "places"}), ("prepared", {"less", "image", "padding"})):
        make, draw = MODULES[name]
        file = export(make().eval(), (draw(),), Form(False, 17), unfolded=True)
        found = {t.name: t for t in popart.trainable_tensors(file)}
        assert {key for key, t in found.items() if t.doubtful} == doubtful


# ---- parts of parameters that torch.export's exporter stores


class CutTable(nn.Module):
    """The first rows of a table of positions, by look-up of constant positions."""

    def __init__(self):
        super().__init__()
        self.table, self.first, self.out = nn.Embedding(20, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3)
        self.register_buffer("positions", torch.arange(20)[None])

    def forward(self, x):
        return self.out(torch.tanh(self.first(x) + self.table(self.positions[:, 2 : LENGTH + 2])))


class Parts(nn.Module):
    """Three layers whose weights are one parameter."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3 * WIDTH, WIDTH) / 3)

    def forward(self, x):
        q, k, v = self.weight[:WIDTH], self.weight[WIDTH : 2 * WIDTH], self.weight[2 * WIDTH :]
        return torch.tanh(x @ q.t()) @ k.t() + torch.sigmoid(x @ v.t())


class Picked(nn.Module):
    """Rows of a table by distance: each of them several times."""

    def __init__(self):
        super().__init__()
        self.table, self.out = nn.Parameter(torch.randn(2 * LENGTH - 1, WIDTH)), nn.Linear(WIDTH, 3)
        places = torch.arange(LENGTH)
        self.register_buffer("distance", places[:, None] - places + LENGTH - 1)

    def forward(self, x):
        bias = self.table[self.distance.view(-1)].view(LENGTH, LENGTH, WIDTH).permute(2, 0, 1)
        return self.out(torch.tanh(x).transpose(1, 2)[..., None, :].add(bias).tanh().mean(-1).transpose(1, 2))


@pytest.mark.parametrize("make", [CutTable, Parts], ids=["rows_of_a_table", "parts"])
def test_parts_of_a_parameter_train(make, tmp_path):
    torch.manual_seed(4)
    module = make()
    _, after, trained = trained_as_the_module(module, rows_of_input, Form(True, 18), tmp_path)
    before = {key: value.numpy() for key, value in module.state_dict().items()}
    held = np.concatenate([v.ravel() for v in after.values() if v.dtype == np.float32])
    name = "table.weight" if make is CutTable else "weight"
    right = trained.state_dict()[name].numpy()
    moved = right != before[name]
    assert moved.sum() == (LENGTH * WIDTH if make is CutTable else moved.size)
    for value in right[moved]:
        assert np.isclose(held, value, rtol=1e-3, atol=1e-6).any()


def test_rows_that_are_there_several_times_stay_and_are_named(capfd):
    torch.manual_seed(4)
    model = onnx.load_from_string(export(Picked(), (rows_of_input(),), Form(True, 18)))
    found = {t.name: t for t in popart.trainable_tensors(model.SerializeToString())}
    stored = {key for key in found if key not in {"out.weight", "out.bias"} and "table" in found[key].reason}
    assert stored and not any(found[key].trains for key in stored)
    popart.getLogger("session").setLevel("WARN")
    trainer(model)
    assert "parameter 'table' cannot train" in "".join(capfd.readouterr())


@pytest.mark.parametrize(("mask", "table_trains"), [
    ([node("Cast", ["u"], "m", to=1)], True),
    ([node("Greater", ["u", "zero"], "g"), node("Cast", ["g"], "m", to=1)], True),
    ([node("Identity", ["u"], "m")], False),  # data that rows of the table scale
], ids=["integers", "comparison", "data"])  # fmt: skip
def test_rows_that_a_mask_multiplies_are_an_embedding(mask, table_trains):
    nodes = [node("Gather", ["table", "ids"], "rows"), node("Unsqueeze", ["mask", "last"], "u"), *mask]
    nodes.append(node("Mul", ["rows", "m"], "kept"))
    nodes += [node("ReduceSum", ["kept", "middle"], "sum", keepdims=0), node("MatMul", ["sum", "w"], "y")]
    rng = np.random.default_rng(0)
    weights = {
        "table": rng.normal(size=(9, WIDTH)).astype(np.float32),
        "w": rng.normal(size=(WIDTH, 2)).astype(np.float32),
        "last": np.int64([2]),
        "middle": np.int64([1]),
        "zero": np.float32(0),
    }
    model = model_of(nodes, {"mask": [4, 5]}, ["y"], weights)
    model.graph.input.append(onnx.helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, [4, 5]))
    found = {t.name: t.trains for t in popart.trainable_tensors(model.SerializeToString())}
    assert found["table"] is table_trains and found["w"]
