"""T5 with popxl_addons: an encoder and a decoder whose attention knows how far words are apart.

Scores of the attention have a bias by distance, looked up in a table that all layers of a stack share; there are no
positions otherwise. Weights come from the package `transformers` by name. `python t5.py` trains a small one to repeat
random text and prints its losses.
"""

import argparse
import math
import time
from dataclasses import dataclass

import numpy as np
import popxl
import popxl_addons as addons
from popxl import ops
from popxl_addons.layers import Embedding, Linear
from training import StepProgram, padded

IGNORED = -100  # label of words that do not count
MASKED = -10000.0  # score of words that must not be seen


@dataclass(frozen=True)
class T5Config:
    """Sizes of the network; those of the small T5 by default."""

    vocab_size: int = 32128
    hidden: int = 512
    head_size: int = 64
    heads: int = 8
    feed_forward: int = 2048
    encoder_layers: int = 6
    decoder_layers: int = 6
    buckets: int = 32
    max_distance: int = 128
    eps: float = 1e-6
    dtype: popxl.dtype = popxl.float32
    recompute: bool = False  # layers are computed again in the backward pass


def buckets(queries: int, keys: int, both_ways: bool, config: T5Config) -> np.ndarray:
    """Row of the table for each query and key: one for each small distance, then ranges that grow.

    Args:
        queries: number of queries.
        keys: number of keys.
        both_ways: half of the table is for keys behind the query; else these share row 0.
        config: sizes of the network.

    Returns:
        int32 array of shape (queries, keys).
    """
    distance = np.arange(keys)[None, :] - np.arange(queries)[:, None]
    rows, first = config.buckets, 0
    if both_ways:
        rows //= 2
        first = (distance > 0) * rows
        distance = np.abs(distance)
    else:
        distance = np.maximum(-distance, 0)
    exact = rows // 2
    share = np.log(np.maximum(distance, 1) / exact) / math.log(config.max_distance / exact)
    far = np.minimum(exact + (share * (rows - exact)).astype(np.int64), rows - 1)
    return (first + np.where(distance < exact, distance, far)).astype(np.int32)


class Norm(addons.Module):
    """x over the root of its mean square, scaled; computed in float32."""

    def __init__(self, eps: float) -> None:
        super().__init__()
        self.eps = eps

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """(…, hidden) → the same."""
        weight = self.add_variable_input("weight", lambda: np.ones(x.shape[-1]), x.dtype)
        wide = ops.cast(x, popxl.float32)
        square = ops.mean(wide * wide, -1, keepdims=True)
        return ops.cast(wide / ops.sqrt(square + self.eps), x.dtype) * weight


class Attention(addons.Module):
    """Attention of all heads, behind a norm and beside a residual."""

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.config = config
        width = config.heads * config.head_size
        self.norm = Norm(config.eps)
        self.q, self.k, self.v = (Linear(width, bias=False) for _ in range(3))
        self.output = Linear(config.hidden, bias=False)

    def heads(self, t: popxl.Tensor) -> popxl.Tensor:
        """(batch, length, width) → (batch, heads, length, size)."""
        shape = (*t.shape[:2], self.config.heads, self.config.head_size)
        return ops.transpose(ops.reshape(t, shape), (0, 2, 1, 3))

    def build(self, x: popxl.Tensor, bias: popxl.Tensor, memory: popxl.Tensor | None = None) -> popxl.Tensor:
        """x: (batch, length, hidden); bias: added to the scores; memory: what is attended to, x itself by default."""
        normed = self.norm(x)
        memory = normed if memory is None else memory
        q, k, v = self.heads(self.q(normed)), self.heads(self.k(memory)), self.heads(self.v(memory))
        weights = ops.softmax(q @ ops.transpose(k, (0, 1, 3, 2)) + bias, -1)
        mixed = ops.transpose(weights @ v, (0, 2, 1, 3))
        return x + self.output(ops.reshape(mixed, (*x.shape[:2], mixed.shape[2] * mixed.shape[3])))


class FeedForward(addons.Module):
    """Two projections with a relu between, behind a norm and beside a residual."""

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.norm = Norm(config.eps)
        self.up = Linear(config.feed_forward, bias=False)
        self.down = Linear(config.hidden, bias=False)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """(…, hidden) → the same."""
        return x + self.down(ops.relu(self.up(self.norm(x))))


class EncoderLayer(addons.Module):
    """Attention and feed-forward."""

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.feed_forward = FeedForward(config)

    def build(self, x: popxl.Tensor, bias: popxl.Tensor) -> popxl.Tensor:
        """(batch, length, hidden) → the same."""
        return self.feed_forward(self.attention(x, bias))


class DecoderLayer(addons.Module):
    """Attention to earlier words, attention to the encoder's result, feed-forward."""

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.cross = Attention(config)
        self.feed_forward = FeedForward(config)

    def build(
        self, x: popxl.Tensor, bias: popxl.Tensor, memory: popxl.Tensor, memory_bias: popxl.Tensor
    ) -> popxl.Tensor:
        """(batch, length, hidden) → the same."""
        return self.feed_forward(self.cross(self.attention(x, bias), memory_bias, memory))


class Stack(addons.Module):
    """Layers that share a graph and a table of biases, and a norm at the end."""

    def __init__(self, config: T5Config, decoder: bool) -> None:
        super().__init__()
        self.config, self.decoder = config, decoder
        self.table = Embedding(config.dtype, config.buckets, config.heads)
        self.layers = addons.Module()
        self.norm = Norm(config.eps)

    def position_bias(self, length: int) -> popxl.Tensor:
        """(1, heads, length, length): added to scores by distance; in the decoder later words are masked."""
        rows = popxl.constant(buckets(length, length, not self.decoder, self.config), popxl.int32, "buckets")
        bias = ops.reshape(ops.transpose(self.table(rows), (2, 0, 1)), (1, self.config.heads, length, length))
        if not self.decoder:
            return bias
        return bias + popxl.constant(np.triu(np.full((length, length), MASKED), 1), self.config.dtype)

    def build(self, x: popxl.Tensor, mask: popxl.Tensor, memory: popxl.Tensor | None = None) -> popxl.Tensor:
        """x: (batch, length, hidden); mask: (batch, 1, 1, words of the encoder), added to its scores."""
        bias = self.position_bias(x.shape[1])
        given = (bias, memory, mask) if memory is not None else (bias + mask,)
        kind, count = (
            (DecoderLayer, self.config.decoder_layers) if self.decoder else (EncoderLayer, self.config.encoder_layers)
        )
        factories, layer = kind(self.config).create_graph(x, *given)
        if self.config.recompute:
            again = addons.recompute_graph(layer.autodiff(grads_required=self.differentiable(layer)))
            self.called_graphs_grad_info[layer.graph] = again.grad_graph_info
        for i in range(count):
            x, *_ = layer.bind(self.layers.add_variable_inputs(i, factories)).call(x, *given)
        return self.norm(x)

    def differentiable(self, layer: addons.GraphWithNamedArgs) -> list[popxl.Tensor]:
        """Inputs of a layer that have a gradient: all but the mask."""
        inputs = layer.graph.inputs
        return [*inputs[: 3 if self.decoder else 2], *layer.args.tensors]


class T5(addons.Module):
    """Encoder, decoder and the mean cross entropy of the decoder's words."""

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.config = config
        self.word = Embedding(config.dtype, config.vocab_size, config.hidden)
        self.encoder = Stack(config, decoder=False)
        self.decoder = Stack(config, decoder=True)

    def build(self, words: popxl.Tensor, mask: popxl.Tensor, before: popxl.Tensor, labels: popxl.Tensor) -> tuple:
        """Integers of shape (batch, length); before: the decoder's words, one place later. → loss, scores."""
        dtype = self.config.dtype
        bias = ops.reshape((1 - ops.cast(mask, dtype)) * MASKED, (mask.shape[0], 1, 1, mask.shape[1]))
        memory = self.encoder(self.word(words), bias)
        x = self.decoder(ops.gather(self.word.weight, before), bias, memory)
        rows = ops.reshape(x, (before.nelms, self.config.hidden)) * self.config.hidden**-0.5
        scores = (rows @ ops.transpose(self.word.weight))[:, : self.config.vocab_size]
        return addons.cross_entropy(scores, ops.flatten(labels), ignore_index=IGNORED), scores


# ---- weights of the package transformers


def attention_arrays(weights: dict[str, np.ndarray], ours: str, theirs: str, kind: str) -> dict[str, np.ndarray]:
    """Arrays of `Attention` by our names; `kind` is theirs for the attention in the layer `theirs`."""
    names = {"q": "q", "k": "k", "v": "v", "output": "o"}
    result = {f"{ours}.{our}.weight": weights[f"{theirs}.{kind}.{their}.weight"].T for our, their in names.items()}
    return {**result, f"{ours}.norm.weight": weights[f"{theirs}.layer_norm.weight"]}


def stack_arrays(weights: dict[str, np.ndarray], name: str, layers: int) -> dict[str, np.ndarray]:
    """Arrays of `Stack` from those of the stack called `name`."""
    table = f"{name}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    result = {
        "table.weight": padded(weights[table], Embedding.get_vocab_shard_size(len(weights[table]), 1)),
        "norm.weight": weights[f"{name}.final_layer_norm.weight"],
    }
    kinds = [("attention", "SelfAttention"), *([("cross", "EncDecAttention")] if name == "decoder" else [])]
    for i in range(layers):
        for j, (ours, kind) in enumerate(kinds):
            result |= attention_arrays(weights, f"layers.{i}.{ours}", f"{name}.block.{i}.layer.{j}", kind)
        last, ours = f"{name}.block.{i}.layer.{len(kinds)}", f"layers.{i}.feed_forward"
        result[f"{ours}.norm.weight"] = weights[f"{last}.layer_norm.weight"]
        result[f"{ours}.up.weight"] = weights[f"{last}.DenseReluDense.wi.weight"].T
        result[f"{ours}.down.weight"] = weights[f"{last}.DenseReluDense.wo.weight"].T
    return result


def t5_arrays(weights: dict[str, np.ndarray], config: T5Config) -> dict[str, np.ndarray]:
    """Arrays of `T5` from those of `T5ForConditionalGeneration`, by name."""
    rows = Embedding.get_vocab_shard_size(config.vocab_size, 1)
    result = {"word.weight": padded(weights["shared.weight"], rows)}
    for name, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        result |= {f"{name}.{key}": value for key, value in stack_arrays(weights, name, layers).items()}
    return result


# ---- the program


class TrainingProgram(StepProgram):
    """A step on (words, mask, before, labels), each (batch, length) for every replica."""

    def __init__(
        self, config: T5Config, batch: int, length: int, rate: float = 1e-3, replicas: int = 1, **options: object
    ) -> None:
        names = ("words", "mask", "before", "labels")
        super().__init__(T5(config), dict.fromkeys(names, (batch, length)), rate, replicas, **options)


def random_batch(config: T5Config, batch: int, length: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Random texts to be repeated: words, mask, words one place later (0 first), labels."""
    rng = np.random.default_rng(seed)
    words = rng.integers(1, config.vocab_size, (batch, length), dtype=np.int32)
    mask = (np.arange(length) < rng.integers(length // 2, length + 1, (batch, 1))).astype(np.int32)
    before = np.concatenate([np.zeros((batch, 1), np.int32), words[:, :-1]], 1)
    return words, mask, before, np.where(mask, words, IGNORED).astype(np.int32)


def main() -> None:
    """Train a small T5 to repeat one batch."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=16)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--recompute", action="store_true")
    args = parser.parse_args()
    config = T5Config(512, 64, 16, 4, 256, 2, 2, recompute=args.recompute)
    program = TrainingProgram(config, args.batch, args.length, 3e-3, args.replicas)
    batch = random_batch(config, args.batch * args.replicas, args.length)
    if args.replicas > 1:
        batch = tuple(t.reshape(args.replicas, args.batch, args.length) for t in batch)
    with program.session() as session:
        for step in range(args.steps):
            start = time.perf_counter()
            loss = np.mean(program.step(session, *batch))
            rate = args.batch * args.replicas / (time.perf_counter() - start)
            print(f"step {step + 1:3d}  loss {loss:8.5f}  {rate:8.1f} texts/s")


if __name__ == "__main__":
    main()
