"""The training networks of `networks` as JAX functions over PyTorch's parameters, and their optimizer steps.

Images have channels last (`channels_last`, `images_last`), as XLA prefers on CPUs; linear layers multiply by the
transposed weight. Batch norm computes batch statistics and updates running ones, so that the work equals PyTorch's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, nn
from networks import Optimizer

Params = dict[str, Any]


def linear(p: Params, name: str, x: jax.Array) -> jax.Array:
    """PyTorch's Linear."""
    return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]


def conv(p: Params, name: str, x: jax.Array, stride: int = 1, padding: int = 0) -> jax.Array:
    """PyTorch's Conv2d, with or without bias."""
    y = lax.conv_general_dilated(
        x, p[f"{name}.weight"], (stride, stride), [(padding, padding)] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return y + p[f"{name}.bias"] if f"{name}.bias" in p else y


def channels_last(value: Any) -> Any:
    """A convolution's weight of PyTorch's layout as ``(H, W, I, O)``; other parameters unchanged."""
    return value.transpose(2, 3, 1, 0) if value.ndim == 4 else value


def images_last(value: Any) -> Any:
    """Images ``(N, C, H, W)`` as ``(N, H, W, C)``; other inputs unchanged."""
    return value.transpose(0, 2, 3, 1) if value.ndim == 4 else value


def max_pool(x: jax.Array, window: int, stride: int, padding: int = 0) -> jax.Array:
    """Max pooling over height and width."""
    pads = [(0, 0), (padding, padding), (padding, padding), (0, 0)]
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, window, window, 1), (1, stride, stride, 1), pads)


def layer_norm(p: Params, name: str, x: jax.Array) -> jax.Array:
    """Layer norm over the last axis."""
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]


def mlp(p: Params, state: Params, x: jax.Array) -> tuple[jax.Array, Params]:
    """`networks.Mlp`."""
    for layer in ("0", "2", "4"):
        x = nn.gelu(linear(p, layer, x), approximate=False)
    return linear(p, "6", x), state


def lenet(p: Params, state: Params, x: jax.Array) -> tuple[jax.Array, Params]:
    """`networks.LeNet`."""
    x = max_pool(nn.relu(conv(p, "0", x, padding=2)), 2, 2)
    x = max_pool(nn.relu(conv(p, "3", x)), 2, 2).transpose(0, 3, 1, 2).reshape(x.shape[0], -1)
    return linear(p, "11", nn.relu(linear(p, "9", nn.relu(linear(p, "7", x))))), state


def resnet18(p: Params, state: Params, x: jax.Array) -> tuple[jax.Array, Params]:
    """Torchvision's ResNet-18 in training mode."""
    new_state = dict(state)

    def norm(name: str, x: jax.Array) -> jax.Array:
        mean, count = x.mean((0, 1, 2)), x.size // x.shape[-1]
        variance = (x**2).mean((0, 1, 2)) - mean**2
        for kind, value in (("mean", mean), ("var", variance * count / (count - 1))):
            new_state[f"{name}.running_{kind}"] = 0.9 * state[f"{name}.running_{kind}"] + 0.1 * value
        scale = p[f"{name}.weight"] * lax.rsqrt(variance + 1e-5)
        return x * scale + (p[f"{name}.bias"] - mean * scale)

    def block(name: str, x: jax.Array, stride: int) -> jax.Array:
        y = nn.relu(norm(f"{name}.bn1", conv(p, f"{name}.conv1", x, stride, 1)))
        y = norm(f"{name}.bn2", conv(p, f"{name}.conv2", y, 1, 1))
        if f"{name}.downsample.0.weight" in p:
            x = norm(f"{name}.downsample.1", conv(p, f"{name}.downsample.0", x, stride))
        return nn.relu(x + y)

    x = max_pool(nn.relu(norm("bn1", conv(p, "conv1", x, 2, 3))), 3, 2, 1)
    for layer in range(1, 5):
        for index in range(2):
            x = block(f"layer{layer}.{index}", x, 2 if layer > 1 and index == 0 else 1)
    return linear(p, "fc", x.mean((1, 2))), new_state


def transformer(p: Params, state: Params, x: jax.Array, *, heads: int, causal: bool) -> tuple[jax.Array, Params]:
    """`networks.Transformer`."""
    n, t = x.shape
    x = p["tokens.weight"][x] + p["positions.weight"][:t]
    width = x.shape[-1]
    x = x if causal else layer_norm(p, "norm", x)

    def attention(name: str, x: jax.Array) -> jax.Array:
        q, k, v = (linear(p, f"{name}.{part}", x).reshape(n, t, heads, -1) for part in ("query", "key", "value"))
        y = nn.dot_product_attention(q, k, v, is_causal=causal)
        return linear(p, f"{name}.out", y.reshape(n, t, width))

    def feed_forward(name: str, x: jax.Array) -> jax.Array:
        return linear(p, f"{name}.down", nn.gelu(linear(p, f"{name}.up", x), approximate=False))

    layers = 1 + max(int(name.split(".")[1]) for name in p if name.startswith("blocks."))
    for name in (f"blocks.{layer}" for layer in range(layers)):
        if causal:
            x = x + attention(f"{name}.attention", layer_norm(p, f"{name}.norm1", x))
            x = x + feed_forward(name, layer_norm(p, f"{name}.norm2", x))
        else:
            x = layer_norm(p, f"{name}.norm1", x + attention(f"{name}.attention", x))
            x = layer_norm(p, f"{name}.norm2", x + feed_forward(name, x))
    return linear(p, "head", layer_norm(p, "norm", x) if causal else x), state


FORWARD: dict[str, Callable[..., tuple[jax.Array, Params]]] = {
    "mlp_train_b8": mlp,
    "mlp_train_b80": mlp,
    "lenet_train_b32": lenet,
    "resnet18_train_b8": resnet18,
    "gpt_train_b8": partial(transformer, heads=6, causal=True),
    "bert_tiny_train_b8": partial(transformer, heads=12, causal=False),
}


def _updated(rule: Optimizer, p: Params, grads: Params, moments: Params, step: jax.Array) -> tuple[Params, Params]:
    """Parameters and moments after one update."""
    if rule.kind == "sgd":
        velocity = {name: rule.momentum * moments[name][0] + grads[name] for name in p}
        return {name: p[name] - rule.lr * velocity[name] for name in p}, {name: (velocity[name],) for name in p}
    first = {name: 0.9 * moments[name][0] + 0.1 * grads[name] for name in p}
    second = {name: 0.999 * moments[name][1] + 0.001 * grads[name] ** 2 for name in p}
    mean, scale = 1 / (1 - 0.9**step), 1 / (1 - 0.999**step)
    decay = 1 - rule.lr * rule.weight_decay
    updated = {
        name: decay * p[name] - rule.lr * mean * first[name] / (jnp.sqrt(scale * second[name]) + 1e-8) for name in p
    }
    return updated, {name: (first[name], second[name]) for name in p}


def train_step(name: str, rule: Optimizer) -> Callable[..., tuple[jax.Array, Params, Params, Params]]:
    """Compiled step: (params, state, moments, step, x, labels) to (loss, params, state, moments)."""

    def loss_of(p: Params, state: Params, x: jax.Array, labels: jax.Array) -> tuple[jax.Array, Params]:
        logits, state = FORWARD[name](p, state, x)
        scores = nn.log_softmax(logits.reshape(-1, logits.shape[-1]))
        return -jnp.take_along_axis(scores, labels.reshape(-1, 1), 1).mean(), state

    def step(
        p: Params, state: Params, moments: Params, count: jax.Array, x: jax.Array, labels: jax.Array
    ) -> tuple[jax.Array, Params, Params, Params]:
        (loss, state), grads = jax.value_and_grad(loss_of, has_aux=True)(p, state, x, labels)
        p, moments = _updated(rule, p, grads, moments, count)
        return loss, p, state, moments

    return jax.jit(step, donate_argnums=(0, 1, 2))


def initial_moments(rule: Optimizer, p: Params) -> Params:
    """Zero moments: one per parameter for SGD, two for Adam."""
    return {
        name: tuple(jnp.zeros_like(value) for _ in range(1 if rule.kind == "sgd" else 2)) for name, value in p.items()
    }
