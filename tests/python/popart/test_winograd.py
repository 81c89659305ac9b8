"""Convolutions of 3 x 3 windows by Winograd's algorithm, against PyTorch, and the pass that allows it."""

from __future__ import annotations

import numpy as np
import popart
import pytest
import torch
from popart.profile.facts import walk

from tests.python.popart.training_runs import inference_session, options_with, ready, training_session

BATCH, CHANNELS, WIDTH, SIZE = 4, 16, 64, 12
DIRECT = {"disable_passes": "allowWinograd"}


class Net(torch.nn.Module):
    """Two convolutions that Winograd's algorithm computes, forward and backward; the image needs a gradient too."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first = torch.nn.Conv2d(CHANNELS, WIDTH, 3, padding=1)
        self.second = torch.nn.Conv2d(WIDTH, CHANNELS, 3, padding=(0, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


def images(batch: int = BATCH) -> np.ndarray:
    return np.random.default_rng(2).normal(size=(batch, CHANNELS, SIZE, SIZE + 1)).astype(np.float32)


def built(net: Net, batch: int = BATCH):
    """The builder, the result and the names of the weights."""
    builder = popart.Builder()
    h = builder.addInputTensor("FLOAT", [batch, CHANNELS, SIZE, SIZE + 1], "x")
    names = []
    for layer, pads in ((net.first, [1, 1, 1, 1]), (net.second, [0, 2, 0, 2])):
        given = [value.detach().numpy().copy() for value in (layer.weight, layer.bias)]
        names += [builder.addInitializedInputTensor(value, f"v{len(names) + i}") for i, value in enumerate(given)]
        h = builder.aiOnnx.conv([h, *names[-2:]], pads=pads)
        h = builder.aiOnnx.relu([h]) if layer is net.first else h
    return builder, h, names


def kernels(session) -> list[str]:
    return [step["kernel"] for step in walk(session.getReport()._facts["programs"]) if "conv" in step["kernel"]]


def trained(steps: int = 3, **options):
    """Losses, weights, the gradient of the image, and the kernels of convolutions."""
    builder, y, names = built(Net())
    loss = builder.aiGraphcore.l1loss([y], 0.1, reduction=popart.ReductionType.Sum)
    gradient = popart.reservedGradientPrefix() + "x"
    session = training_session(
        builder.getModelProto(), loss, popart.ConstSGD(1e-3), options_with(**options), [loss, gradient]
    )
    ready(session)
    anchors, losses = session.initAnchorArrays(), []
    for _ in range(steps):
        session.run(popart.PyStepIO({"x": images()}, anchors))
        losses.append(float(anchors[loss].sum()))
    session.weightsToHost()
    weights = {name: np.zeros(session.getInfo(name).shape(), np.float32) for name in names}
    session.readWeights(popart.PyWeightsIO(weights))
    return losses, [weights[name] for name in names], anchors[gradient].copy(), kernels(session)


def test_training_follows_torch():
    losses, weights, gradient, used = trained()
    assert set(used) == {"conv winograd", "conv data gradient winograd", "conv weight gradient winograd update"}
    net, x = Net(), torch.from_numpy(images()).requires_grad_()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    for got in losses:
        optimizer.zero_grad(), x.grad is not None and x.grad.zero_()
        loss = 0.1 * net(x).abs().sum()
        loss.backward()
        optimizer.step()
        np.testing.assert_allclose(got, loss.item(), rtol=1e-5)
    np.testing.assert_allclose(gradient, x.grad.numpy(), rtol=1e-4, atol=1e-5)
    for got, wanted in zip(weights, net.parameters(), strict=True):
        np.testing.assert_allclose(got, wanted.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_direct_sums_on_request():
    _, weights, gradient, used = trained(engineOptions=DIRECT)
    assert used and not any("winograd" in name for name in used)
    _, other, fast, _ = trained()
    assert any((a != b).any() for a, b in zip(weights, other, strict=True)), "both computed the same sums"
    for a, b in zip([*weights, gradient], [*other, fast], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("option", [{"num_threads": "1"}, {"num_threads": "3"}])
def test_threads_change_no_bit(option):
    for a, b in zip(trained(engineOptions=option)[1], trained()[1], strict=True):
        np.testing.assert_array_equal(a, b)


def test_an_image_has_the_same_bits_in_any_batch():
    def result(batch):
        builder, y, _ = built(Net(), batch)
        session = inference_session(builder.getModelProto(), [y])
        ready(session)
        assert all("winograd" in name for name in kernels(session))
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO({"x": images(5)[:batch]}, anchors))
        return anchors[y]

    np.testing.assert_array_equal(result(1)[0], result(5)[0])


def test_a_constant_image_of_large_numbers_keeps_small_differences():
    """Sums of four inputs do not overflow where direct sums do not."""
    builder, y, _ = built(Net(), 1)
    session = inference_session(builder.getModelProto(), [y])
    ready(session)
    anchors = session.initAnchorArrays()
    x = np.full((1, CHANNELS, SIZE, SIZE + 1), 1e30, np.float32)
    session.run(popart.PyStepIO({"x": x}, anchors))
    with torch.no_grad():
        wanted = Net()(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(anchors[y], wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())
