"""The PopXL example trains as PyTorch does: same network, weights, batches and order, loss by loss."""

from pathlib import Path

import numpy as np
import popart.data
import pytest
import torch

from tests.models.examples import load_example

FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")
BATCH, RATE, MOMENTUM, IMAGES = 16, 0.01, 0.9, 4000

pytestmark = [
    pytest.mark.models,
    pytest.mark.skipif(not FASHION_MNIST.is_dir(), reason="needs Debian's dataset-fashion-mnist"),
]


@pytest.fixture(scope="module")
def example():
    """The module examples/popxl_mnist.py."""
    return load_example("popxl_mnist")


def torch_network(weights: dict[str, np.ndarray]) -> torch.nn.Module:
    """The example's network with its first weights."""
    network = torch.nn.Sequential(torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    with torch.no_grad():
        for layer, name in ((network[0], "hidden"), (network[2], "scores")):
            layer.weight.copy_(torch.from_numpy(weights[f"{name}.weight"].T))
            layer.bias.copy_(torch.from_numpy(weights[f"{name}.bias"]))
    return network


def test_example_follows_torch_step_by_step(example):
    train = popart.data.load_images(FASHION_MNIST, "train").first(IMAGES)
    normalisation = popart.data.Normalisation.of(train.images)
    batches = [(x[0].copy(), y[0].copy()) for x, y in
               popart.data.Batches(train, BATCH, seed=0, normalisation=normalisation).epoch(0)]  # fmt: skip
    assert len(batches) == IMAGES // BATCH
    session, inputs, loss_stream, variables = example.training_program(BATCH, RATE, MOMENTUM)
    named = variables.named_tensors
    with session:
        first = {name: session.get_tensor_data(tensor).copy() for name, tensor in named.items()}
        ours = [float(session.run(dict(zip(inputs, batch, strict=True)))[loss_stream]) for batch in batches]
    last = session.get_tensors_data(variables.tensors)

    network = torch_network(first)
    optimizer = torch.optim.SGD(network.parameters(), lr=RATE, momentum=MOMENTUM)
    theirs = []
    for images, labels in batches:
        scores = network(torch.from_numpy(images).reshape(BATCH, -1))
        log_probabilities = torch.log_softmax(scores, -1)[torch.arange(BATCH), torch.from_numpy(labels).long()]
        loss = -log_probabilities.mean()
        # The loss that is reported, not its gradient, counts a probability as at least 1e-7.
        theirs.append(-log_probabilities.clamp(min=float(np.log(1e-7))).mean().item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    got = torch.from_numpy(last[named["hidden.weight"]].T)
    np.testing.assert_allclose(got, network[0].weight.detach(), rtol=0, atol=1e-4)
    assert np.mean(ours[-50:]) < 0.6 * np.mean(ours[:50])
