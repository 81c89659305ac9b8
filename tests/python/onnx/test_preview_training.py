"""Adam, Adagrad and Momentum of ai.onnx.preview.training: their formulas, two tensors at a time."""

import numpy as np
import popart
import pytest

from tests.python.onnx.single_node import Node, values

RNG = np.random.default_rng(5)
DOMAIN = "ai.onnx.preview.training"
RATE = np.float32(0.1)


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def node(type, states, count, outputs, **attributes):
    shapes = [(3, 4), (5,)]
    tensors = [[normal(*s) for s in shapes] for _ in range(2)]
    tensors += [[np.abs(normal(*s)) for s in shapes] for _ in range(states)]
    inputs = [RATE, np.int64(count), *[t for kind in tensors for t in kind]]
    return Node(type, inputs, attributes, outputs, domain=DOMAIN), list(zip(*tensors, strict=True))


def compare(given, results):
    """`results`: for each tensor its new value and states; outputs have each kind for all tensors."""
    for got, expected in zip(values(given), [r for kind in zip(*results, strict=True) for r in kind], strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("count", [0, 3])
def test_adam(count):
    given, tensors = node("Adam", 2, count, "abcdef", alpha=0.8, beta=0.9, norm_coefficient=0.01, epsilon=1e-3)

    def update(x, g, v, h):
        g = 0.01 * x + g
        v, h = 0.8 * v + 0.2 * g, 0.9 * h + 0.1 * g * g
        rate = RATE * np.sqrt(1 - 0.9**count) / (1 - 0.8**count) if count else RATE
        return x - rate * v / (np.sqrt(h) + 1e-3), v, h

    compare(given, [update(*t) for t in tensors])


def test_adagrad():
    given, tensors = node("Adagrad", 1, 4, "abcd", norm_coefficient=0.02, decay_factor=0.1, epsilon=1e-3)

    def update(x, g, h):
        g = 0.02 * x + g
        h = h + g * g
        return x - RATE / 1.4 * g / (np.sqrt(h) + 1e-3), h

    compare(given, [update(*t) for t in tensors])


@pytest.mark.parametrize("mode", ["standard", "nesterov"])
@pytest.mark.parametrize("count", [0, 2])
def test_momentum(mode, count):
    given, tensors = node("Momentum", 1, count, "abcd", norm_coefficient=0.03, alpha=0.7, beta=0.4, mode=mode)

    def update(x, g, v):
        g = 0.03 * x + g
        v = 0.7 * v + (0.4 if count else 1) * g
        return x - RATE * (g + 0.7 * v if mode == "nesterov" else v), v

    compare(given, [update(*t) for t in tensors])


def test_refusals():
    given, _ = node("Momentum", 1, 0, "abcd", norm_coefficient=0.0, alpha=0.7, beta=0.4, mode="other")
    with pytest.raises(popart.popart_exception, match="mode"):
        values(given)
    given, _ = node("Adagrad", 1, 0, "abcd")
    with pytest.raises(popart.popart_exception, match="inputs for each tensor"):
        values(Node("Adagrad", given.inputs[:-1], {}, "abcd", domain=DOMAIN))
