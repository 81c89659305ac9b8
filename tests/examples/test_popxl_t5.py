"""The T5 of examples/popxl gives the scores, gradients and training of the package transformers."""

import numpy as np
import popxl
import pytest
import torch

from tests.examples.popxl_programs import arrays_of, close, evaluate, load, scatter

transformers = pytest.importorskip("transformers", reason="the peer of this program")
t5 = load("t5")

BATCH, LENGTH = 4, 12
TOLERANCE = {popxl.float32: 1e-4, popxl.float16: 2e-2}


def sizes(**more):
    return t5.T5Config(90, 64, 16, 4, 128, 2, 2, buckets=16, max_distance=10, **more)


def make_model():
    config = sizes()
    theirs = transformers.T5Config(
        vocab_size=config.vocab_size,
        d_model=config.hidden,
        d_kv=config.head_size,
        d_ff=config.feed_forward,
        num_layers=config.encoder_layers,
        num_decoder_layers=config.decoder_layers,
        num_heads=config.heads,
        relative_attention_num_buckets=config.buckets,
        relative_attention_max_distance=config.max_distance,
        dropout_rate=0.0,
        decoder_start_token_id=0,
        tie_word_embeddings=True,
    )
    return scatter(transformers.T5ForConditionalGeneration(theirs))


def run(model, words, mask, before, labels):
    tensors = {"input_ids": words, "attention_mask": mask, "decoder_input_ids": before, "labels": labels}
    return model(**{name: torch.tensor(t).long() for name, t in tensors.items()})


@pytest.mark.parametrize("both_ways", [True, False])
def test_buckets(both_ways):
    config = t5.T5Config()
    attention = transformers.models.t5.modeling_t5.T5Attention
    distance = torch.arange(300)[None, :] - torch.arange(200)[:, None]
    expected = attention._relative_position_bucket(distance, both_ways, config.buckets, config.max_distance)
    np.testing.assert_array_equal(t5.buckets(200, 300, both_ways, config), expected)


@pytest.mark.parametrize("dtype", [popxl.float32, popxl.float16])
def test_scores(dtype):
    model, config = make_model(), sizes(dtype=dtype)
    batch = t5.random_batch(config, BATCH, LENGTH, seed=3)
    expected = run(model, *batch)
    loss, scores = evaluate(
        lambda _: t5.T5(config), t5.t5_arrays(arrays_of(model), config), *batch, gradients=False
    ).values()
    close(scores.reshape(expected.logits.shape), expected.logits.detach().numpy(), "scores", TOLERANCE[dtype])
    close(loss, expected.loss.item(), "loss", TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [popxl.float32, popxl.float16])
@pytest.mark.parametrize("recompute", [False, True])
def test_gradients(recompute, dtype):
    model, config = make_model(), sizes(dtype=dtype, recompute=recompute)
    batch = t5.random_batch(config, BATCH, LENGTH, seed=4)
    run(model, *batch).loss.backward()
    scaling = 512 if dtype == popxl.float16 else 1  # gradients of 1e-4 would lose digits
    got = evaluate(lambda _: t5.T5(config), t5.t5_arrays(arrays_of(model), config), *batch, loss_scaling=scaling)
    del got["loss"]
    expected = t5.t5_arrays(arrays_of(model, gradients=True), config)
    assert set(got) == set(expected)
    for name, gradient in expected.items():
        if dtype == popxl.float32:
            close(got[name], gradient, name)
        else:  # a relu that turns moves single elements, in PyTorch's own float16 by a tenth
            error = np.linalg.norm(got[name] - gradient) / max(np.linalg.norm(gradient), 1e-3)
            assert error < 5e-2, name


@pytest.mark.parametrize(("replicas", "recompute"), [(1, False), (1, True), (2, False), (4, True)])
def test_training_follows_torch(replicas, recompute):
    model, config = make_model(), sizes(recompute=recompute)
    weights = {name: a.copy() for name, a in t5.t5_arrays(arrays_of(model), config).items()}
    batches = []
    for seed in range(4):
        words, _, before, _ = t5.random_batch(config, BATCH, LENGTH, seed)
        # All words count, so the means of replicas have equal weights.
        batches.append((words, np.ones_like(words), before, words))
    program = t5.TrainingProgram(config, BATCH // replicas, LENGTH, 1e-2, replicas, first_order_dtype=popxl.float32)
    losses, expected = [], []
    with program.session() as session:
        session.write_variables_data(load("training").weights_of(program.variables, weights))
        for batch in batches:
            given = (t.reshape(replicas, -1, LENGTH) if replicas > 1 else t for t in batch)
            losses.append(np.mean(program.step(session, *given)))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2, betas=(0.9, 0.999), eps=1e-5, weight_decay=1e-2)
    for batch in batches:
        optimizer.zero_grad()
        loss = run(model, *batch).loss
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    np.testing.assert_allclose(losses, expected, rtol=1e-3)
