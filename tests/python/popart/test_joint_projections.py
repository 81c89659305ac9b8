"""Attention that reads queries, keys and values from one projection, without copies of its slices."""

from __future__ import annotations

import io
import warnings
from collections import Counter

import numpy as np
import popart
import pytest
import torch
from torch import nn
from torch.nn import functional

import onnx

BATCH, LENGTH, HEADS, SIZE, STEPS, RATE = 2, 12, 3, 8, 3, 0.05
WIDTH = HEADS * SIZE
PLAIN = {"disable_passes": "readSlicesInPlace, writeSlicesInPlace"}


def heads(x: torch.Tensor, count: int = HEADS) -> torch.Tensor:
    """``(N, T, count * size)`` as ``(N, count, T, size)``."""
    return x.reshape(*x.shape[:-1], count, SIZE).transpose(1, 2)


def in_chunks(x: torch.Tensor) -> list[torch.Tensor]:
    return [heads(part) for part in x.chunk(3, dim=-1)]


def unbound(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.reshape(*x.shape[:-1], 3, HEADS, SIZE).permute(2, 0, 3, 1, 4).unbind(0)


def interleaved(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """As GPT-NeoX: q, k and v of a head are neighbours."""
    return x.reshape(*x.shape[:-1], HEADS, 3 * SIZE).transpose(1, 2).chunk(3, dim=-1)


def length_first(x: torch.Tensor) -> list[torch.Tensor]:
    """As torch.nn.MultiheadAttention for inputs ``(T, N, width)``."""
    x = x.transpose(0, 1).reshape(LENGTH, BATCH, 3, WIDTH).unsqueeze(0).transpose(0, 3).squeeze(3)
    return [part.reshape(LENGTH, BATCH * HEADS, SIZE).transpose(0, 1).reshape(BATCH, HEADS, LENGTH, SIZE) for part in x]


SPLITS = {"chunks": in_chunks, "unbind": unbound, "interleaved": interleaved, "length first": length_first}


class Attention(nn.Module):
    """Attention of a joint projection; `split` makes q, k and v of its result."""

    def __init__(self, split, causal: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.split, self.causal = split, causal
        self.projection, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.split(self.projection(x))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(*x.shape))


class SharedKeys(Attention):
    """One head of keys and values for all queries: q, k and v are slices of different widths."""

    def __init__(self) -> None:
        super().__init__(None)
        self.projection = nn.Linear(WIDTH, WIDTH + 2 * SIZE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.projection(x).split([WIDTH, SIZE, SIZE], dim=-1)
        scores = heads(q) @ heads(k, 1).transpose(-2, -1) * SIZE**-0.5
        y = torch.softmax(scores, -1) @ heads(v, 1)
        return self.out(y.transpose(1, 2).reshape(*x.shape))


class KeysOfMemory(nn.Module):
    """Cross attention: keys and values of one projection, queries of another."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.query, self.both = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        k, v = (heads(part) for part in self.both(x.flip(1)).chunk(2, dim=-1))
        y = functional.scaled_dot_product_attention(heads(self.query(x)), k, v)
        return y.transpose(1, 2).reshape(*x.shape)


def exported(network: nn.Module, x: torch.Tensor, dynamo: bool) -> bytes:
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(network, (x,), file, input_names=["x"], output_names=["y"], dynamo=dynamo, verbose=False)
    return file.getvalue()


def operators(session) -> Counter[str]:
    model = onnx.load_from_string(session._loweredModel(False))
    return Counter(node.op_type for node in model.graph.node)


def trained(model: bytes, x: np.ndarray, **engine: str):
    """Losses of the mean of squares over some steps, the final gradient of x, and the operators of the program."""
    builder = popart.Builder(model)
    loss = builder.aiGraphcore.l1loss([builder.aiOnnx.mul(["y", "y"])], 1.0, reduction=popart.ReductionType.Mean)
    gradient = popart.reservedGradientPrefix() + "x"
    options = popart.SessionOptions()
    options.engineOptions = engine
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, [loss, gradient]),
        loss,
        popart.ConstSGD(RATE),
        popart.DeviceManager().createCpuDevice(),
        userOptions=options,
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors, losses = session.initAnchorArrays(), []
    for _ in range(STEPS):
        session.run(popart.PyStepIO({"x": x}, anchors))
        losses.append(float(anchors[loss].reshape(-1)[0]))
    return losses, anchors[gradient].reshape(x.shape).copy(), operators(session)


def trained_by_torch(network: nn.Module, x: np.ndarray):
    given, losses = torch.tensor(x, requires_grad=True), []
    optimizer = torch.optim.SGD(network.parameters(), lr=RATE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        given.grad = None
        loss = (network(given) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses, given.grad.numpy()


COPIES = {"Slice", "Split", "Transpose", "Gather", "Expand"}
NETWORKS = {name: (lambda split=split: Attention(split)) for name, split in SPLITS.items()}
NETWORKS |= {"shared keys": SharedKeys, "keys of memory": KeysOfMemory}


# Operators of the networks themselves, and of gradients that are summed over the heads.
OTHERS = {"keys of memory": {"Slice"}, "shared keys": {"Transpose"}}


@pytest.mark.parametrize("dynamo", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_training_follows_torch_without_copies(name: str, dynamo: bool) -> None:
    network = NETWORKS[name]()
    x = np.random.default_rng(1).normal(size=(BATCH, LENGTH, WIDTH)).astype(np.float32)
    model = exported(network, torch.tensor(x), dynamo)
    losses, gradient, program = trained(model, x)
    assert program["FusedAttention"] == program["FusedAttentionGrad"] == 1
    copied, of_gradients, plain = trained(model, x, **PLAIN)
    assert not (COPIES - OTHERS.get(name, set())) & set(program), program
    assert sum(plain[type] for type in COPIES) > sum(program[type] for type in COPIES), plain
    assert losses == copied
    if name == "length first":  # the products after it are of other shapes
        np.testing.assert_allclose(gradient, of_gradients, rtol=1e-4, atol=1e-9)
    else:
        assert np.array_equal(gradient, of_gradients)
    expected, gradient_of_torch = trained_by_torch(network, x)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    np.testing.assert_allclose(gradient, gradient_of_torch, rtol=1e-4, atol=1e-7)


class OneSliceElsewhere(Attention):
    """A quarter of the projection is read by something else, which is not attention."""

    def __init__(self) -> None:
        super().__init__(None)
        self.projection = nn.Linear(WIDTH, 4 * WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        *parts, gate = self.projection(x).chunk(4, dim=-1)
        y = functional.scaled_dot_product_attention(*(heads(part) for part in parts))
        return y.transpose(1, 2).reshape(*x.shape) * torch.sigmoid(gate)


def inferred(model: bytes, x: np.ndarray, **engine: str):
    options = popart.SessionOptions()
    options.engineOptions = engine
    session = popart.InferenceSession(
        model, popart.DataFlow(1, ["y"]), popart.DeviceManager().createCpuDevice(), userOptions=options
    )
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": x}, anchors))
    return anchors["y"].reshape(x.shape).copy(), operators(session), session


def test_slices_stay_where_the_projection_would_live_longer() -> None:
    """Without a reader for every element, the projection would be kept in memory for a part of it."""
    network = OneSliceElsewhere()
    x = np.random.default_rng(1).normal(size=(BATCH, LENGTH, WIDTH)).astype(np.float32)
    y, program, _ = inferred(exported(network, torch.tensor(x), dynamo=False), x)
    assert program["FusedAttention"] == 1
    assert program["Slice"] >= 3, program
    np.testing.assert_allclose(y, network(torch.tensor(x)).detach().numpy(), rtol=1e-4, atol=1e-6)


def test_memory_does_not_grow() -> None:
    network = Attention(in_chunks)
    x = np.random.default_rng(1).normal(size=(BATCH, LENGTH, WIDTH)).astype(np.float32)
    model = exported(network, torch.tensor(x), dynamo=False)

    def activations(**engine: str) -> int:
        report = inferred(model, x, **engine)[2].getSummaryReport()
        return next(int(line.split()[1]) for line in report.splitlines() if "activations:" in line)

    assert activations() < activations(**PLAIN)
