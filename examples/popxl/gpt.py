"""GPT with popxl_addons: layers in parts over replicas, state in parts over the others, one layer on the device.

Replicas form a grid: those beside each other hold parts of each layer (`--parts`: heads of the attention, columns of
the feed-forward, words of the vocabulary), the others share the batch. Two programs train it:

* `TrainingProgram`: everything in memory.
* `PhasedProgram`: weights and Adam state of layers lie in remote buffers, cut over the replicas that share them. A
  layer is loaded and gathered before it runs, forward and again backward; each replica updates its part and stores it.

Weights come from the package `transformers` by name. `python gpt.py --replicas 4 --parts 2 --phased` trains a small one
on random text and prints its losses; so does a job of several processes, whose replicas are those of the job:
`poprun --num-replicas 4 --num-instances 2 python gpt.py --parts 2 --phased`.
"""

import argparse
import math
import time
from dataclasses import dataclass

import numpy as np
import popdist
import popxl
import popxl_addons as addons
from popxl import ops
from popxl_addons import rts
from popxl_addons.layers import Embedding, LayerNorm, Linear
from popxl_addons.ops.cross_entropy_sharded_loss import cross_entropy_sharded_loss
from popxl_addons.ops.replicated_all_reduce_TP import (
    replicated_all_reduce_identical_grad_inputs,
    replicated_all_reduce_identical_inputs,
)
from popxl_addons.optimizers.adam import AdamOptimizerStep
from popxl_addons.patterns import apply_pre_alias_patterns
from popxl_addons.remote import NamedRemoteBuffers
from training import Optimizer, loss_and_gradients, padded

IGNORED = -100  # label of words without a successor


@dataclass(frozen=True)
class GptConfig:
    """Sizes of the network, those of GPT-2 by default, and on how many replicas its layers lie."""

    vocab_size: int = 50257
    positions: int = 1024
    hidden: int = 768
    heads: int = 12
    layers: int = 12
    eps: float = 1e-5
    dtype: popxl.dtype = popxl.float32
    parts: int = 1

    @property
    def members(self) -> popxl.ReplicaGrouping:
        """Replicas that hold the parts of one layer."""
        return popxl.gir().replica_grouping(group_size=self.parts)

    @property
    def peers(self) -> popxl.ReplicaGrouping:
        """Replicas that hold the same part."""
        return self.members.transpose()


def enter(x: popxl.Tensor, config: GptConfig) -> popxl.Tensor:
    """Begin a block in parts: gradients of the parts are summed."""
    return replicated_all_reduce_identical_inputs(x, group=config.members)


def leave(x: popxl.Tensor, config: GptConfig) -> popxl.Tensor:
    """End a block in parts: its results are summed."""
    return replicated_all_reduce_identical_grad_inputs(x, group=config.members)


class InParts(addons.Module):
    """A module with a projection whose rows lie in parts; its bias is added once, to the sum."""

    def __init__(self, config: GptConfig) -> None:
        super().__init__()
        self.config = config
        self.down = Linear(config.hidden, bias=False, replica_grouping=config.peers)

    def project(self, x: popxl.Tensor) -> popxl.Tensor:
        """Return the projection of all parts."""
        y = leave(self.down(x), self.config)
        return y + self.add_variable_input("bias", lambda: np.zeros(self.config.hidden), y.dtype)


class SelfAttention(InParts):
    """Each replica has some of the heads."""

    def __init__(self, config: GptConfig) -> None:
        super().__init__(config)
        self.qkv = Linear(3 * config.hidden // config.parts, replica_grouping=config.peers)

    def build(self, x: popxl.Tensor, words: popxl.Tensor) -> popxl.Tensor:
        """x: (batch * sequence, hidden); words: (batch, sequence)."""
        (batch, length), heads = words.shape, self.config.heads // self.config.parts
        size = self.config.hidden // self.config.heads
        parts = ops.split(self.qkv(enter(x, self.config)), 3, axis=1)
        q, k, v = (ops.transpose(ops.reshape(t, (batch, length, heads, size)), (0, 2, 1, 3)) for t in parts)
        later = np.triu(np.full((length, length), -np.inf), 1)  # what is hidden for certain is not computed
        scores = q @ ops.transpose(k, (0, 1, 3, 2)) * (1 / math.sqrt(size)) + popxl.constant(later, x.dtype)
        mixed = ops.transpose(ops.softmax(scores, -1) @ v, (0, 2, 1, 3))
        return self.project(ops.reshape(mixed, (x.shape[0], heads * size)))


class FeedForward(InParts):
    """Each replica has some of the columns."""

    def __init__(self, config: GptConfig) -> None:
        super().__init__(config)
        self.up = Linear(4 * config.hidden // config.parts, replica_grouping=config.peers)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """(rows, hidden) → (rows, hidden)."""
        return self.project(ops.gelu(self.up(enter(x, self.config))))


class DecoderLayer(addons.Module):
    """Attention to earlier words, then feed-forward; each behind a layer norm and beside a residual."""

    def __init__(self, config: GptConfig) -> None:
        super().__init__()
        self.eps = config.eps
        self.norm_1, self.norm_2 = LayerNorm(), LayerNorm()
        self.attention = SelfAttention(config)
        self.feed_forward = FeedForward(config)

    def build(self, x: popxl.Tensor, words: popxl.Tensor) -> popxl.Tensor:
        """x: (batch * sequence, hidden); words: for their shape."""
        x = x + self.attention(self.norm_1(x, self.eps), words)
        return x + self.feed_forward(self.norm_2(x, self.eps))


class WordsOfPart(addons.Module):
    """Base of modules that know which words of the vocabulary their replica has."""

    def __init__(self, config: GptConfig) -> None:
        super().__init__()
        self.config = config

    def shifted(self, words: popxl.Tensor) -> popxl.Tensor:
        """Return words counted from the first one of the part."""
        first = Embedding.get_offsets(self.config.vocab_size, self.config.parts).astype(np.int32)
        self.first = self.add_variable_input("first", iter(first), popxl.int32, replica_grouping=self.config.peers)
        return words - self.first


class Embeddings(WordsOfPart):
    """Sum of a word's and a position's row."""

    def __init__(self, config: GptConfig) -> None:
        super().__init__(config)
        self.word = Embedding(config.dtype, config.vocab_size, config.hidden, replica_grouping=config.peers)
        self.position = Embedding(config.dtype, config.positions, config.hidden)

    def build(self, words: popxl.Tensor) -> popxl.Tensor:
        """(batch, sequence) → (batch * sequence, hidden)."""
        positions = popxl.constant(np.arange(words.shape[1], dtype=np.int32), name="positions")
        x = leave(self.word(self.shifted(words)), self.config) + self.position(positions)
        return ops.reshape(x, (words.nelms, self.config.hidden))


class NextWord(WordsOfPart):
    """The mean cross entropy of the next word; the projection to words is the table of the embedding."""

    def __init__(self, config: GptConfig) -> None:
        super().__init__(config)
        self.norm = LayerNorm()

    def build(self, x: popxl.Tensor, table: popxl.Tensor, labels: popxl.Tensor) -> popxl.Tensor:
        """x: (rows, hidden); table: words of the part; labels: (batch, sequence). → scalar."""
        scores = enter(self.norm(x, self.config.eps), self.config) @ ops.transpose(table)
        targets = self.shifted(ops.flatten(labels))
        numbers = popxl.constant(np.arange(table.shape[0], dtype=np.int32)) + self.first
        unused = ops.greater(numbers, popxl.constant(self.config.vocab_size - 1, popxl.int32))
        scores = ops.where(unused, popxl.constant(-10000.0, scores.dtype), scores)  # rows that fill the table up
        ignored = popxl.constant(IGNORED, popxl.int32) - self.first
        return cross_entropy_sharded_loss(scores, targets, ignored, self.config.members)


class LanguageModel(addons.Module):
    """The whole network with its loss."""

    def __init__(self, config: GptConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.decoder = addons.Module()
        self.head = NextWord(config)

    def build(self, words: popxl.Tensor, labels: popxl.Tensor) -> popxl.Tensor:
        """(batch, sequence) integers → scalar."""
        x = self.embeddings(words)
        factories, layer = DecoderLayer(self.config).create_graph(x, words)
        for i in range(self.config.layers):
            (x,) = layer.bind(self.decoder.add_variable_inputs(i, factories)).call(x, words)
        return self.head(x, self.embeddings.word.weight, labels)


# ---- weights of the package transformers


def cut(array: np.ndarray, parts: int, axis: int) -> np.ndarray:
    """Return equal pieces of an axis, stacked in front when there are several."""
    return array if parts == 1 else np.stack(np.split(array, parts, axis))


def decoder_layer_arrays(weights: dict[str, np.ndarray], name: str, parts: int) -> dict[str, np.ndarray]:
    """Arrays of `DecoderLayer` by the names of its variables, from those that begin with `name`."""
    result = {}
    for ours, theirs in (("norm_1", "ln_1"), ("norm_2", "ln_2")):
        result |= {f"{ours}.{kind}": weights[f"{name}.{theirs}.{kind}"] for kind in ("weight", "bias")}
    for kind in ("weight", "bias"):  # the last axis is q, k and v behind each other, each with all heads
        pieces = [cut(t, parts, -1) for t in np.split(weights[f"{name}.attn.c_attn.{kind}"], 3, -1)]
        result[f"attention.qkv.{kind}"] = np.concatenate(pieces, -1)
        result[f"feed_forward.up.{kind}"] = cut(weights[f"{name}.mlp.c_fc.{kind}"], parts, -1)
    for ours, theirs in (("attention", "attn"), ("feed_forward", "mlp")):
        result[f"{ours}.down.weight"] = cut(weights[f"{name}.{theirs}.c_proj.weight"], parts, 0)
        result[f"{ours}.bias"] = weights[f"{name}.{theirs}.c_proj.bias"]
    return result


def language_model_arrays(weights: dict[str, np.ndarray], config: GptConfig) -> dict[str, np.ndarray]:
    """Arrays of `LanguageModel` from those of `GPT2LMHeadModel`, by name; parts are stacked in front."""
    rows = config.parts * Embedding.get_vocab_shard_size(config.vocab_size, config.parts)
    positions = Embedding.get_vocab_shard_size(config.positions, 1)
    result = {
        "embeddings.word.weight": cut(padded(weights["transformer.wte.weight"], rows), config.parts, 0),
        "embeddings.position.weight": padded(weights["transformer.wpe.weight"], positions),
        "head.norm.weight": weights["transformer.ln_f.weight"],
        "head.norm.bias": weights["transformer.ln_f.bias"],
    }
    for i in range(config.layers):
        layer = decoder_layer_arrays(weights, f"transformer.h.{i}", config.parts)
        result |= {f"decoder.{i}.{name}": value for name, value in layer.items()}
    return result


# ---- programs


class Program:
    """What both programs have: streams, a session and a step.

    Args:
        config: sizes of the network.
        batch: texts of the replicas that hold one copy of the network.
        length: words of a text.
        replicas: a multiple of the parts of a layer; in a job of several processes those of the job.
    """

    def __init__(self, config: GptConfig, batch: int, length: int, replicas: int) -> None:
        self.ir = popxl.Ir(replication="popdist" if popdist.isPopdistEnvSet() else replicas)
        self.shape = (batch, length)
        self.copies = (replicas // config.parts, config.parts)
        with self.ir.main_graph, popxl.in_sequence():
            self.inputs = addons.InputStreams(words=(self.shape, popxl.int32), labels=(self.shape, popxl.int32))
            self.outputs = addons.OutputStreams(loss=((), config.dtype))
            words, labels = (ops.host_load(stream) for stream in self.inputs)
            # filled by the programs: variables by the names of `LanguageModel`
            self.variables: dict[str, popxl.Tensor] = {}
            ops.host_store(self.outputs.loss, self.build(config, words, labels))
        apply_pre_alias_patterns(self.ir)

    def build(self, config: GptConfig, words: popxl.Tensor, labels: popxl.Tensor) -> popxl.Tensor:
        """Make the step; return the loss."""
        raise NotImplementedError

    def write(self, session: popxl.Session, arrays: dict[str, np.ndarray]) -> None:
        """Write arrays, by the names of `LanguageModel`, into the variables."""
        given = {v: arrays[name] for name, v in self.variables.items() if name in arrays}
        session.write_variables_data({v: np.ascontiguousarray(a, v.dtype.as_numpy()) for v, a in given.items()})

    def step(self, session: popxl.Session, words: np.ndarray, labels: np.ndarray) -> float:
        """Train on texts of all copies of the network; return the mean loss."""
        copies, parts = self.copies
        first, count = popdist.getReplicaIndexOffset(), self.ir.instance_replication_factor

        def given(t: np.ndarray) -> np.ndarray:  # for the replicas of this process
            t = t.reshape(copies, 1, *self.shape)
            t = np.broadcast_to(t, (copies, parts, *self.shape)).reshape(copies * parts, *self.shape)
            return np.ascontiguousarray(t[first : first + count] if count > 1 else t[first])

        losses = session.run(dict(zip(self.inputs, map(given, (words, labels)))))[self.outputs.loss]
        return float(np.mean(popdist.allGather(losses.reshape(-1))))


class TrainingProgram(Program):
    """A step with everything in memory."""

    def __init__(
        self, config: GptConfig, batch: int, length: int, replicas: int = 1, rate: float = 1e-3, **options: object
    ) -> None:
        self.optimizer = Optimizer(rate, **options)
        super().__init__(config, batch, length, replicas)

    def build(self, config: GptConfig, words: popxl.Tensor, labels: popxl.Tensor) -> popxl.Tensor:
        """Make the step; return the loss."""
        factories, graph = LanguageModel(config).create_graph(words, labels)
        variables = factories.init()
        self.variables = variables.to_dict()
        loss, gradients = loss_and_gradients(graph, variables, words, labels)
        self.optimizer.update(variables, gradients)
        return loss


class PhasedProgram(Program):
    """A step with one layer on the device: weights and state of the layers in parts in remote buffers."""

    def __init__(
        self, config: GptConfig, batch: int, length: int, replicas: int = 1, rate: float = 1e-3, **options: object
    ) -> None:
        self.rate, self.options = rate, options
        self.optimizer = Optimizer(rate, **options)
        super().__init__(config, batch, length, replicas)

    def build(self, config: GptConfig, words: popxl.Tensor, labels: popxl.Tensor) -> popxl.Tensor:
        """Make the step; return the loss."""
        self.make_graphs(config, words, labels)
        ends = addons.NamedTensors(
            embeddings=self.embedding_facts.init("embeddings"), head=self.head_facts.init("head")
        )
        self.variables |= ends.to_dict()
        self.init_layers(config.layers)

        first = self.embedding.bind(ends.embeddings).call_with_info(words)
        x, calls = first.outputs[0], []
        for i in range(config.layers):
            calls.append(self.layer.bind(self.gathered(i)).call_with_info(x, words))
            x = calls[i].outputs[0]
        table = ends.embeddings.word.weight
        last = self.head.bind(ends.head).call_with_info(x, table, labels)

        dx, table_gradient, *norm_gradients = self.backward(
            self.head_gradient, last, popxl.constant(1, config.dtype, "first_gradient")
        )
        for i in reversed(range(config.layers)):
            dx = self.backward_and_update(i, calls[i], dx)
        gradients = self.named_gradients(
            self.embedding, self.backward(self.embedding_gradient, first, dx), "embeddings"
        )
        gradients["embeddings.word.weight"] = gradients["embeddings.word.weight"] + table_gradient
        gradients |= self.named_gradients(self.head, norm_gradients, "head")
        self.optimizer.update(ends, gradients)
        return last.outputs[0]

    def make_graphs(self, config: GptConfig, words: popxl.Tensor, labels: popxl.Tensor) -> None:
        """Make graphs of the layer, of what is before and behind, and of their gradients."""
        self.embedding_facts, self.embedding = Embeddings(config).create_graph(words)
        x = self.embedding.graph.outputs[0].spec
        self.layer_facts, self.layer = DecoderLayer(config).create_graph(x, words)
        table = self.embedding.args.word.weight.spec
        self.head_facts, self.head = NextWord(config).create_graph(x, table, labels)

        self.embedding_gradient = self.embedding.autodiff(grads_required=floats(self.embedding.args))
        head_inputs = [*self.head.graph.inputs[:2], *floats(self.head.args)]
        self.head_gradient = self.head.autodiff(grads_required=head_inputs)
        # activations inside of a layer are computed again: its input alone is kept
        layer_inputs = [self.layer.graph.inputs[0], *floats(self.layer.args)]
        self.layer_gradient = addons.recompute_graph(self.layer.autodiff(grads_required=layer_inputs))

    def init_layers(self, layers: int) -> None:
        """Make the remote variables of all layers and the graphs that move and update them."""
        weights = addons.named_variable_buffers(self.layer_facts, layers)
        self.load, self.names = addons.load_remote_graph(weights)
        parts = addons.NamedTensors.pack(self.names, self.load.graph.outputs)
        self.groups = self.layer_facts.replica_groupings
        self.gather, self.gathered_names = rts.all_gather_replica_sharded_graph(parts, replica_groups=self.groups)

        self.updates, facts = {}, {}
        for name, part in parts.to_dict().items():
            options = {"lr": self.rate, "replica_grouping": self.groups[name], **self.options}
            facts[name], self.updates[name] = AdamOptimizerStep().create_graph(part.spec, part.spec, **options)
        states = addons.NamedVariableFactories.from_dict(facts)
        buffers = NamedRemoteBuffers(weights=weights, state=addons.named_variable_buffers(states, layers, 1))
        self.load_all, self.all_names = addons.load_remote_graph(buffers)
        self.store_all = addons.store_remote_graph(buffers)
        for i in range(layers):
            made = self.layer_facts.init_remote(weights, i, f"decoder.{i}")
            self.variables |= {f"decoder.{i}.{name}": v for name, v in made.to_dict().items()}
            states.init_remote(buffers.state, i, f"state.{i}")

    def gathered(self, i: int) -> addons.NamedTensors:
        """Load a layer's parts and return the whole weights."""
        return self.whole(addons.NamedTensors.pack(self.names, self.load.call(i)))

    def whole(self, parts: addons.NamedTensors) -> addons.NamedTensors:
        """Return the whole weights of parts."""
        return addons.NamedTensors.pack(self.gathered_names, self.gather.bind(parts).call())

    def backward(
        self,
        gradient: addons.GraphWithNamedArgs,
        call: ops.CallSiteInfo,
        *given: popxl.Tensor,
        args: dict | None = None,
    ) -> tuple[popxl.Tensor, ...]:
        """Call the gradient graph of a call."""
        return gradient.call(*given, args={**gradient.grad_graph_info.inputs_dict(call), **(args or {})})

    def backward_and_update(self, i: int, call: ops.CallSiteInfo, dy: popxl.Tensor) -> popxl.Tensor:
        """Load a layer again, take its gradients, update this replica's parts; return the gradient of its input."""
        loaded = addons.NamedTensors.pack(self.all_names, self.load_all.call(i))
        weights = self.whole(loaded.weights)
        info = self.layer_gradient.grad_graph_info
        by_input = dict(zip(info.inputs, self.layer_gradient.graph.inputs))
        again = {by_input[t]: weights[name] for name, t in self.layer.args.to_dict().items() if t in by_input}
        dx, *gradients = self.backward(self.layer_gradient, call, dy, args=again)
        for name, gradient in self.named_gradients(self.layer, gradients).items():
            group = self.groups[name]
            part = rts.reduce_replica_sharded_tensor(gradient, "mean", group, group)
            self.updates[name].bind(loaded.state[name]).call(loaded.weights[name], part)
        self.store_all.bind(loaded).call(i)
        return dx

    @staticmethod
    def named_gradients(
        graph: addons.GraphWithNamedArgs, gradients: tuple[popxl.Tensor, ...], prefix: str = ""
    ) -> dict[str, popxl.Tensor]:
        """Return gradients of the float variables of a graph by name."""
        names = {t: name for name, t in graph.args.to_dict().items()}
        front = f"{prefix}." if prefix else ""
        return {front + names[t]: g for t, g in zip(floats(graph.args), gradients, strict=True)}


def floats(args: addons.NamedTensors) -> list[popxl.Tensor]:
    """Return the variables that are trained."""
    return [t for t in args.tensors if t.dtype.is_floating_point]


def random_batch(config: GptConfig, texts: int, length: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Random texts and their words one place later."""
    words = np.random.default_rng(seed).integers(0, config.vocab_size, (texts, length), dtype=np.int32)
    return words, np.concatenate([words[:, 1:], np.full((texts, 1), IGNORED, np.int32)], 1)


def main() -> None:
    """Train a small GPT to repeat one batch."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=4, help="texts of each copy of the network")
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument(
        "--replicas", type=int, default=popdist.getNumTotalReplicas(), help="default: those of the job, else 1"
    )
    parser.add_argument("--parts", type=int, default=1, help="replicas that hold the parts of a layer")
    parser.add_argument("--phased", action="store_true", help="one layer on the device at a time")
    args = parser.parse_args()
    config = GptConfig(512, args.length, args.hidden, 4, args.layers, parts=args.parts)
    np.random.seed(0)  # first weights are equal on all instances of a job
    kind = PhasedProgram if args.phased else TrainingProgram
    program = kind(config, args.batch, args.length, args.replicas, 3e-3)
    texts = args.batch * args.replicas // args.parts
    batch = random_batch(config, texts, args.length)
    with popxl.Session(program.ir, "cpu") as session:
        for step in range(args.steps):
            start = time.perf_counter()
            loss = program.step(session, *batch)
            speed = texts / (time.perf_counter() - start)
            if popdist.getInstanceIndex() == 0:
                print(f"step {step + 1:3d}  loss {loss:8.5f}  {speed:8.1f} texts/s", flush=True)


if __name__ == "__main__":
    main()
