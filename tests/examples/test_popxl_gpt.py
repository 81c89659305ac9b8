"""The GPT of examples/popxl, in parts over 1, 2 and 4 replicas, gives what the package transformers gives."""

import numpy as np
import popxl
import pytest
import torch

from tests.examples.popxl_programs import arrays_of, close, evaluate, load, scatter

transformers = pytest.importorskip("transformers", reason="the peer of this program")
gpt = load("gpt")

TEXTS, LENGTH, VOCABULARY = 4, 10, 90  # a vocabulary that is filled up, whatever the parts
GRIDS = [(1, 1), (2, 2), (4, 4), (4, 2), (2, 1)]  # replicas, parts
TOLERANCE = {popxl.float32: 1e-4, popxl.float16: 2e-2}


def sizes(**more):
    return gpt.GptConfig(VOCABULARY, 20, 64, 4, 2, **more)


@pytest.fixture(scope="module")
def model():
    config = sizes()
    return scatter(
        transformers.GPT2LMHeadModel(
            transformers.GPT2Config(
                vocab_size=config.vocab_size,
                n_positions=config.positions,
                n_embd=config.hidden,
                n_head=config.heads,
                n_layer=config.layers,
                resid_pdrop=0.0,
                embd_pdrop=0.0,
                attn_pdrop=0.0,
            )
        )
    )


def torch_loss(model, words):
    long = torch.tensor(words).long()
    return model(input_ids=long, labels=long).loss


def over_replicas(t, replicas, parts):
    """(texts, …) → (replicas, texts of a copy, …), the same for the replicas of a copy."""
    if replicas == 1:
        return t
    copies = replicas // parts
    return np.repeat(t.reshape(copies, len(t) // copies, *t.shape[1:]), parts, axis=0)


@pytest.mark.parametrize("dtype", [popxl.float32, popxl.float16])
@pytest.mark.parametrize(("replicas", "parts"), GRIDS)
def test_loss_and_gradients(model, replicas, parts, dtype):
    config = sizes(parts=parts, dtype=dtype)
    words, labels = gpt.random_batch(config, TEXTS, LENGTH, seed=1)
    model.zero_grad()
    loss = torch_loss(model, words)
    loss.backward()
    inputs = [over_replicas(t, replicas, parts) for t in (words, labels)]
    weights = gpt.language_model_arrays(arrays_of(model), config)
    got = evaluate(lambda _: gpt.LanguageModel(config), weights, *inputs, replicas=replicas)
    if replicas > 1:  # the mean over copies, of each part
        got = {n: g.reshape(-1, parts, *g.shape[1:]).mean(0, np.float32) for n, g in got.items()}
    close(got.pop("loss"), np.full(parts if replicas > 1 else (), loss.item()), "loss", TOLERANCE[dtype])
    expected = gpt.language_model_arrays(arrays_of(model, gradients=True), config)
    assert set(got) == set(expected)
    for name, gradient in expected.items():
        in_parts = got[name] if got[name].shape == gradient.shape else got[name][0]
        close(in_parts, gradient, name, TOLERANCE[dtype])
        if in_parts is not got[name]:  # the same on all replicas of a copy
            close(got[name], np.stack([gradient] * parts), name, TOLERANCE[dtype])


def adam_losses(model, batches, rate):
    start = {name: p.clone() for name, p in model.state_dict().items()}
    optimizer = torch.optim.AdamW(model.parameters(), rate, betas=(0.9, 0.999), eps=1e-5, weight_decay=1e-2)
    losses = []
    for words, _ in batches:
        optimizer.zero_grad()
        loss = torch_loss(model, words)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.load_state_dict(start)
    return losses


@pytest.mark.parametrize("kind", ["TrainingProgram", "PhasedProgram"])
@pytest.mark.parametrize(("replicas", "parts"), GRIDS)
def test_training_follows_torch(model, kind, replicas, parts):
    config = sizes(parts=parts)
    weights = {name: a.copy() for name, a in gpt.language_model_arrays(arrays_of(model), config).items()}
    batches = [gpt.random_batch(config, TEXTS, LENGTH, seed) for seed in range(4)]
    texts = TEXTS * parts // replicas
    program = getattr(gpt, kind)(config, texts, LENGTH, replicas, 1e-2, first_order_dtype=popxl.float32)
    with popxl.Session(program.ir, "cpu") as session:
        program.write(session, weights)
        losses = [program.step(session, *batch) for batch in batches]
    np.testing.assert_allclose(losses, adam_losses(model, batches, 1e-2), rtol=1e-3)


def test_the_phased_program_keeps_layers_in_parts():
    config = sizes(parts=2)
    program = gpt.PhasedProgram(config, 2, LENGTH, 4)
    for name, variable in program.variables.items():
        if not name.startswith("decoder"):
            continue
        copies = variable.replica_grouping.group_size
        assert copies == 4 or ".attention." in name or ".feed_forward." in name
        assert variable.meta_shape and variable.nelms * copies == np.prod(variable.meta_shape), name
