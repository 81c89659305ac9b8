"""BERT with popxl_addons: pre-training on masked words, and answers to questions.

One graph of an encoder layer is called once for each layer with its own variables. Weights come from and go to the
package `transformers` by name. `python bert.py` trains a small one on random text and prints its losses.
"""

import argparse
import math
import time
from dataclasses import dataclass

import numpy as np
import popxl
import popxl_addons as addons
from popxl import ops
from popxl_addons.layers import Embedding, LayerNorm, Linear
from training import StepProgram, linear, padded

IGNORED = -100  # label of words that are not masked


@dataclass(frozen=True)
class BertConfig:
    """Sizes of the network; those of BERT base by default."""

    vocab_size: int = 30522
    positions: int = 512
    token_types: int = 2
    hidden: int = 768
    heads: int = 12
    layers: int = 12
    feed_forward: int = 3072
    eps: float = 1e-12
    dtype: popxl.dtype = popxl.float32
    recompute: bool = False  # encoder layers are computed again in the backward pass


class Embeddings(addons.Module):
    """Sum of a word's, a position's and a token type's row, normalised."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.eps = config.eps
        self.word = Embedding(config.dtype, config.vocab_size, config.hidden)
        self.position = Embedding(config.dtype, config.positions, config.hidden)
        self.token_type = Embedding(config.dtype, config.token_types, config.hidden)
        self.norm = LayerNorm()

    def build(self, words: popxl.Tensor, token_types: popxl.Tensor) -> popxl.Tensor:
        """(batch, sequence) integers → (batch * sequence, hidden)."""
        positions = popxl.constant(np.arange(words.shape[1], dtype=np.int32), name="positions")
        x = self.word(words) + self.position(positions) + self.token_type(token_types)
        return self.norm(ops.reshape(x, (words.nelms, x.shape[-1])), self.eps)


class SelfAttention(addons.Module):
    """Attention of all heads, the output projection, and the residual's layer norm."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.qkv = Linear(3 * config.hidden)
        self.output = Linear(config.hidden)
        self.norm = LayerNorm()

    def build(self, x: popxl.Tensor, bias: popxl.Tensor) -> popxl.Tensor:
        """x: (batch * sequence, hidden); bias: (batch, 1, 1, sequence), added to the scores."""
        batch, length, heads = bias.shape[0], bias.shape[-1], self.config.heads
        size = self.config.hidden // heads
        parts = ops.split(self.qkv(x), 3, axis=1)
        q, k, v = (ops.transpose(ops.reshape(t, (batch, length, heads, size)), (0, 2, 1, 3)) for t in parts)
        scores = q @ ops.transpose(k, (0, 1, 3, 2)) * (1 / math.sqrt(size)) + bias
        mixed = ops.transpose(ops.softmax(scores, -1) @ v, (0, 2, 1, 3))
        return self.norm(x + self.output(ops.reshape(mixed, x.shape)), self.config.eps)


class FeedForward(addons.Module):
    """Two projections with a gelu between, and the residual's layer norm."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.eps = config.eps
        self.up = Linear(config.feed_forward)
        self.down = Linear(config.hidden)
        self.norm = LayerNorm()

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """(rows, hidden) → (rows, hidden)."""
        return self.norm(x + self.down(ops.geluerf(self.up(x))), self.eps)


class EncoderLayer(addons.Module):
    """One layer."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(config)
        self.feed_forward = FeedForward(config)

    def build(self, x: popxl.Tensor, bias: popxl.Tensor) -> popxl.Tensor:
        """(batch * sequence, hidden) → the same."""
        return self.feed_forward(self.attention(x, bias))


class Bert(addons.Module):
    """Embeddings and encoder."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.encoder = addons.Module()

    def build(self, words: popxl.Tensor, token_types: popxl.Tensor, mask: popxl.Tensor) -> popxl.Tensor:
        """(batch, sequence) integers; mask: 0 where there is no word. → (batch * sequence, hidden)."""
        x = self.embeddings(words, token_types)
        bias = ops.reshape((1 - ops.cast(mask, self.config.dtype)) * -10000.0, (mask.shape[0], 1, 1, mask.shape[1]))
        factories, layer = EncoderLayer(self.config).create_graph(x, bias)
        if self.config.recompute:
            needed = (layer.graph.inputs[0], *layer.args.tensors)
            again = addons.recompute_graph(layer.autodiff(grads_provided=layer.graph.outputs, grads_required=needed))
            self.called_graphs_grad_info[layer.graph] = again.grad_graph_info
        for i in range(self.config.layers):
            variables = self.encoder.add_variable_inputs(i, factories)
            x, *_ = layer.bind(variables).call(x, bias)
        return x


class MaskedWords(addons.Module):
    """BERT with the head that predicts words; the projection to words is the table of the embedding."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.bert = Bert(config)
        self.dense = Linear(config.hidden)
        self.norm = LayerNorm()

    def build(self, words: popxl.Tensor, token_types: popxl.Tensor, mask: popxl.Tensor) -> popxl.Tensor:
        """→ scores of shape (batch * sequence, words of the vocabulary)."""
        x = self.bert(words, token_types, mask)
        x = self.norm(ops.geluerf(self.dense(x)), self.config.eps)
        table = self.bert.embeddings.word.weight
        bias = self.add_variable_input("bias", lambda: np.zeros(table.shape[0]), self.config.dtype)
        return (x @ ops.transpose(table) + bias)[:, : self.config.vocab_size]


class PreTraining(addons.Module):
    """The mean cross entropy of masked words."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.model = MaskedWords(config)

    def build(
        self, words: popxl.Tensor, token_types: popxl.Tensor, mask: popxl.Tensor, labels: popxl.Tensor
    ) -> popxl.Tensor:
        """labels: (batch, sequence), `IGNORED` where no word was masked. → scalar."""
        scores = self.model(words, token_types, mask)
        return addons.cross_entropy(scores, ops.flatten(labels), ignore_index=IGNORED)


class QuestionAnswering(addons.Module):
    """BERT with the head that scores each word as the first and as the last one of the answer."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.bert = Bert(config)
        self.head = Linear(2)

    def build(
        self, words: popxl.Tensor, token_types: popxl.Tensor, mask: popxl.Tensor
    ) -> tuple[popxl.Tensor, popxl.Tensor]:
        """→ scores of starts and ends, each (batch, sequence)."""
        scores = ops.reshape(self.head(self.bert(words, token_types, mask)), (*words.shape, 2))
        start, end = ops.split(scores, 2, axis=2)
        return ops.squeeze(start), ops.squeeze(end)


# ---- weights of the package transformers


def norm(weights: dict[str, np.ndarray], ours: str, theirs: str) -> dict[str, np.ndarray]:
    """Weight and bias of a layer norm."""
    return {f"{ours}.{name}": weights[f"{theirs}.{name}"] for name in ("weight", "bias")}


def bert_arrays(weights: dict[str, np.ndarray], config: BertConfig) -> dict[str, np.ndarray]:
    """Arrays of `Bert` by the names of its variables.

    Args:
        weights: arrays of a model of transformers by name, which begin with "bert.".
        config: sizes of the network.

    Returns:
        Arrays of `Bert` by the names of its variables.
    """
    result = norm(weights, "embeddings.norm", "bert.embeddings.LayerNorm")
    tables = (("word", config.vocab_size), ("position", config.positions), ("token_type", config.token_types))
    for name, rows in tables:
        table = weights[f"bert.embeddings.{name}_embeddings.weight"]
        result[f"embeddings.{name}.weight"] = padded(table, Embedding.get_vocab_shard_size(rows, 1))
    for i in range(config.layers):
        ours, theirs = f"encoder.{i}", f"bert.encoder.layer.{i}"
        attention = f"{theirs}.attention"
        parts = [f"{attention}.self.{name}" for name in ("query", "key", "value")]
        result |= linear(weights, f"{ours}.attention.qkv", *parts)
        result |= linear(weights, f"{ours}.attention.output", f"{attention}.output.dense")
        result |= norm(weights, f"{ours}.attention.norm", f"{attention}.output.LayerNorm")
        result |= linear(weights, f"{ours}.feed_forward.up", f"{theirs}.intermediate.dense")
        result |= linear(weights, f"{ours}.feed_forward.down", f"{theirs}.output.dense")
        result |= norm(weights, f"{ours}.feed_forward.norm", f"{theirs}.output.LayerNorm")
    return result


def masked_words_arrays(weights: dict[str, np.ndarray], config: BertConfig) -> dict[str, np.ndarray]:
    """Arrays of `MaskedWords` from those of `BertForMaskedLM`, by name."""
    head = "cls.predictions"
    result = {f"bert.{name}": value for name, value in bert_arrays(weights, config).items()}
    result |= linear(weights, "dense", f"{head}.transform.dense")
    result |= norm(weights, "norm", f"{head}.transform.LayerNorm")
    bias = weights[f"{head}.bias"]
    rows = Embedding.get_vocab_shard_size(config.vocab_size, 1)
    return result | {"bias": np.pad(bias, (0, rows - bias.size))}


def question_answering_arrays(weights: dict[str, np.ndarray], config: BertConfig) -> dict[str, np.ndarray]:
    """Arrays of `QuestionAnswering` from those of `BertForQuestionAnswering`, by name."""
    result = {f"bert.{name}": value for name, value in bert_arrays(weights, config).items()}
    return result | linear(weights, "head", "qa_outputs")


# ---- programs


class TrainingProgram(StepProgram):
    """A pre-training step on (words, token_types, mask, labels), each (batch, length) for every replica.

    Args:
        config: sizes of the network.
        batch: texts of a replica.
        length: words of a text.
        rate: learning rate.
        replicas: they share the batch.
        **options: of `StepProgram`.
    """

    def __init__(
        self, config: BertConfig, batch: int, length: int, rate: float = 1e-3, replicas: int = 1, **options: object
    ) -> None:
        names = ("words", "token_types", "mask", "labels")
        super().__init__(PreTraining(config), dict.fromkeys(names, (batch, length)), rate, replicas, **options)


class InferenceProgram:
    """Outputs of a model for a batch of texts."""

    def __init__(self, model: addons.Module, batch: int, length: int) -> None:
        self.ir = popxl.Ir()
        with self.ir.main_graph, popxl.in_sequence():
            names = ("words", "token_types", "mask")
            self.inputs = addons.InputStreams(**{name: ((batch, length), popxl.int32) for name in names})
            loaded = [ops.host_load(stream) for stream in self.inputs]
            factories, graph = model.create_graph(*loaded)
            self.variables = factories.init()
            results = graph.bind(self.variables).call(*loaded)
            self.outputs = [popxl.d2h_stream(t.shape, t.dtype) for t in results]
            for stream, t in zip(self.outputs, results):
                ops.host_store(stream, t)

    def run(self, session: popxl.Session, *batch: np.ndarray) -> list[np.ndarray]:
        """Return the outputs for (words, token_types, mask)."""
        got = session.run(dict(zip(self.inputs, batch, strict=True)))
        return [got[stream] for stream in self.outputs]


def random_batch(config: BertConfig, batch: int, length: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Random texts, one in seven words masked by the last word of the vocabulary: words, types, mask, labels."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, config.vocab_size - 1, (batch, length), dtype=np.int32)
    masked = rng.random(words.shape) < 1 / 7
    masked[:, 0] = True  # one at least
    labels = np.where(masked, words, IGNORED).astype(np.int32)
    words = np.where(masked, config.vocab_size - 1, words).astype(np.int32)
    types = np.broadcast_to(np.arange(length, dtype=np.int32) >= length // 2, words.shape).astype(np.int32)
    lengths = rng.integers(length // 2, length + 1, (batch, 1))
    mask = (np.arange(length) < lengths).astype(np.int32)
    return words, types, mask, np.where(mask, labels, IGNORED).astype(np.int32)


def main() -> None:
    """Train a small BERT to repeat one batch."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--recompute", action="store_true")
    args = parser.parse_args()
    config = BertConfig(
        vocab_size=512,
        positions=args.length,
        hidden=args.hidden,
        heads=4,
        layers=args.layers,
        feed_forward=4 * args.hidden,
        recompute=args.recompute,
    )
    with addons.timer("building"):
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
