"""The BERT of examples/popxl gives the outputs and gradients of the package transformers, and learns."""

import numpy as np
import popxl
import pytest
import torch

from tests.examples.popxl_programs import arrays_of, close, evaluate, load, scatter

transformers = pytest.importorskip("transformers", reason="the peer of this program")
bert = load("bert")

BATCH, LENGTH = 2, 12
TOLERANCE = {popxl.float32: 1e-4, popxl.float16: 2e-2}


def sizes(**more):
    return bert.BertConfig(vocab_size=90, positions=20, hidden=64, heads=4, layers=2, feed_forward=128, **more)


def theirs(kind, config):
    return scatter(
        kind(
            transformers.BertConfig(
                vocab_size=config.vocab_size,
                max_position_embeddings=config.positions,
                hidden_size=config.hidden,
                num_attention_heads=config.heads,
                num_hidden_layers=config.layers,
                intermediate_size=config.feed_forward,
                hidden_dropout_prob=0.0,
                attention_probs_dropout_prob=0.0,
            )
        )
    )


def batch(config):
    return bert.random_batch(config, BATCH, LENGTH, seed=3)


def as_torch(words, types, mask):
    long = [torch.tensor(t).long() for t in (words, types, mask)]
    return dict(zip(("input_ids", "token_type_ids", "attention_mask"), long))


@pytest.mark.parametrize("dtype", [popxl.float32, popxl.float16])
def test_scores_of_masked_words(dtype):
    config = sizes(dtype=dtype)
    model = theirs(transformers.BertForMaskedLM, config)
    *inputs, _ = batch(config)
    expected = model(**as_torch(*inputs)).logits.detach().numpy()
    weights = bert.masked_words_arrays(arrays_of(model), config)
    (got,) = evaluate(lambda _: bert.MaskedWords(config), weights, *inputs, gradients=False).values()
    close(got.reshape(expected.shape), expected, "scores", TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [popxl.float32, popxl.float16])
def test_answers_to_questions(dtype):
    config = sizes(dtype=dtype)
    model = theirs(transformers.BertForQuestionAnswering, config)
    *inputs, _ = batch(config)
    expected = model(**as_torch(*inputs))
    weights = bert.question_answering_arrays(arrays_of(model), config)
    start, end = evaluate(lambda _: bert.QuestionAnswering(config), weights, *inputs, gradients=False).values()
    close(start, expected.start_logits.detach().numpy(), "start", TOLERANCE[dtype])
    close(end, expected.end_logits.detach().numpy(), "end", TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [popxl.float32, popxl.float16])
def test_loss_and_gradients_of_pre_training(dtype):
    config = sizes(dtype=dtype)
    model = theirs(transformers.BertForMaskedLM, config)
    *inputs, labels = batch(config)
    loss = model(**as_torch(*inputs), labels=torch.tensor(labels).long()).loss
    loss.backward()

    def ours(gradients):
        arrays = bert.masked_words_arrays(arrays_of(model, gradients), config)
        return {f"model.{name}": value for name, value in arrays.items()}

    got = evaluate(lambda _: bert.PreTraining(config), ours(False), *inputs, labels)
    close(got.pop("loss"), loss.item(), "loss", TOLERANCE[dtype])
    expected = ours(True)
    assert set(got) == set(expected)
    for name, gradient in expected.items():
        close(got[name], gradient, name, TOLERANCE[dtype])


def train(program, batches, weights):
    with program.session() as session:
        session.write_variables_data(load("training").weights_of(program.variables, weights))
        return [np.mean(program.step(session, *b)) for b in batches]


def adam_losses(model, batches, rate):
    optimizer = torch.optim.AdamW(model.parameters(), rate, betas=(0.9, 0.999), eps=1e-5, weight_decay=1e-2)
    losses = []
    for *inputs, labels in batches:
        optimizer.zero_grad()
        loss = model(**as_torch(*inputs), labels=torch.tensor(labels).long()).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_training_follows_torch():
    config = sizes()
    model = theirs(transformers.BertForMaskedLM, config)
    arrays = bert.masked_words_arrays(arrays_of(model), config)
    weights = {f"model.{name}": value.copy() for name, value in arrays.items()}
    batches = [bert.random_batch(config, BATCH, LENGTH, seed) for seed in range(6)]
    program = bert.TrainingProgram(config, BATCH, LENGTH, 1e-2, first_order_dtype=popxl.float32)
    losses = train(program, batches, weights)
    np.testing.assert_allclose(losses, adam_losses(model, batches, 1e-2), rtol=1e-3)


def test_replicas_and_recomputation_train_the_same():
    config, weights, losses = sizes(), None, {}
    batches = [bert.random_batch(config, 4, LENGTH, seed) for seed in range(3)]
    for name, replicas, more in (("plain", 1, {}), ("two replicas", 2, {}), ("recomputed", 1, {"recompute": True})):
        program = bert.TrainingProgram(
            sizes(**more), 4 // replicas, LENGTH, 1e-2, replicas, first_order_dtype=popxl.float32
        )
        if weights is None:
            factories = program.variables.to_dict().items()
            rng = np.random.default_rng(1)
            weights = {n: 0.1 * rng.normal(size=v.shape) + n.endswith("norm.weight") for n, v in factories}
        # replicas have the mean of their own means: as many masked words in each half
        given = [tuple(halves(t, replicas) for t in alike(b)) for b in batches]
        losses[name] = train(program, given, weights)
    np.testing.assert_allclose(losses["two replicas"], losses["plain"], rtol=1e-4)
    np.testing.assert_allclose(losses["recomputed"], losses["plain"], rtol=1e-6)


def alike(batch):
    words, types, mask, _ = batch
    return words, types, mask, np.where(np.arange(LENGTH) < 3, words, bert.IGNORED).astype(np.int32)


def halves(t, replicas):
    return t.reshape(replicas, -1, t.shape[-1]) if replicas > 1 else t
