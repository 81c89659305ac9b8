"""Updates in micro-batches and replicas are those of PyTorch for the whole batch: sums, weighted means, time first."""

import io
import warnings

import numpy as np
import popart
import popart_core
import pytest
import torch
from torch import nn

WIDTH, CLASSES = 6, 4
CLOSE = {"rtol": 3e-4, "atol": 3e-5}
PARTS = [{"accumulation": 4}, {"replicas": 2}, {"accumulation": 2, "replicas": 2}]
RATE = 0.05
functional = nn.functional
WEIGHT = torch.tensor([0.2, 1.0, 3.0, 0.5])


def network():
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh(), nn.Linear(8, CLASSES))


def exported(module, arguments, names, dynamic, outputs=("y",), **options):
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module, arguments, out, dynamo=False, input_names=names, output_names=list(outputs), dynamic_axes=dynamic,
            do_constant_folding=False, **options,
        )  # fmt: skip
    return out.getvalue()


def file_of(module):
    return exported(module, (torch.zeros(8, WIDTH),), ["x"], {"x": {0: "batch"}, "y": {0: "batch"}})


def data(count, ignored=(), seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, WIDTH, generator=generator)
    labels = x[:, :CLASSES].argmax(1)
    labels[list(ignored)] = -100
    return x, labels


def by_torch(module, loss, batches, rate=RATE):
    optimizer = torch.optim.SGD(module.parameters(), lr=rate)
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        value = loss(module(x), y)
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses


def assert_weights(trainer, module, names=None):
    for name, value in module.state_dict().items():
        np.testing.assert_allclose(trainer.weights[(names or {}).get(name, name)], value, err_msg=name, **CLOSE)


# Name, options, PyTorch's loss, labels for x and class numbers.
LOSSES = {
    "sum": ("cross_entropy", {"reduction": "sum"}, lambda y, t: functional.cross_entropy(y, t, reduction="sum")),
    "ignored": ("cross_entropy", {}, functional.cross_entropy),
    "weights": ("cross_entropy", {"weight": WEIGHT}, lambda y, t: functional.cross_entropy(y, t, WEIGHT)),
    "weights and another number": (
        "cross_entropy",
        {"weight": WEIGHT, "ignore_index": 1},
        lambda y, t: functional.cross_entropy(y, t.clamp(min=0), WEIGHT, ignore_index=1),
    ),
    "smoothing": (
        "cross_entropy",
        {"weight": WEIGHT, "label_smoothing": 0.2},
        lambda y, t: functional.cross_entropy(y, t, WEIGHT, label_smoothing=0.2),
    ),
    "weighted sum": (
        "cross_entropy",
        {"weight": WEIGHT, "reduction": "sum"},
        lambda y, t: functional.cross_entropy(y, t, WEIGHT, reduction="sum"),
    ),
}
IGNORED = (0, 1, 2, 3, 5, 12)


@pytest.mark.parametrize("parts", PARTS, ids=str)
@pytest.mark.parametrize("name", LOSSES)
def test_losses_of_classes(name, parts):
    loss, options, oracle = LOSSES[name]
    module = network()
    trainer = popart.Trainer(file_of(module), loss, popart.optim.SGD(lr=RATE), loss_options=options, **parts)
    batches = [data(16, IGNORED), data(8), data(5, (3, 4), seed=1), data(16, (15,), seed=2)]
    if name == "weights and another number":
        batches = [(x, y.clamp(min=0)) for x, y in batches]
    np.testing.assert_allclose([trainer.step(b) for b in batches], by_torch(module, oracle, batches), **CLOSE)
    assert_weights(trainer, module)
    x, y = batches[0]
    with torch.no_grad():
        value = oracle(module(x), y).item()
    samples = len(x) if options.get("reduction") == "sum" else 1
    np.testing.assert_allclose(trainer.evaluate([(x, y)])["loss"], value / samples, **CLOSE)


@pytest.mark.parametrize("parts", PARTS, ids=str)
@pytest.mark.parametrize(("loss", "options", "oracle"), [
    ("mse", {"reduction": "sum"}, lambda y, t: functional.mse_loss(y, t, reduction="sum")),
    ("huber", {"reduction": "sum"}, lambda y, t: functional.huber_loss(y, t, reduction="sum")),
    ("binary_cross_entropy", {"reduction": "sum", "weight": WEIGHT},
     lambda y, t: functional.binary_cross_entropy_with_logits(y, t, WEIGHT, reduction="sum")),
    ("kl_divergence", {"from_logits": True, "reduction": "batchmean"},
     lambda y, t: functional.kl_div(y.log_softmax(1), t, reduction="batchmean")),
    ("kl_divergence", {"from_logits": True, "reduction": "sum"},
     lambda y, t: functional.kl_div(y.log_softmax(1), t, reduction="sum")),
    ("mae", {}, functional.l1_loss),
], ids=["mse", "huber", "binary", "batchmean", "divergence", "mean"])  # fmt: skip
def test_losses_of_values(loss, options, oracle, parts):
    module = network()
    trainer = popart.Trainer(file_of(module), loss, popart.optim.SGD(lr=0.01), loss_options=options, **parts)
    batches = [(x, torch.softmax(2 * x[:, :CLASSES], 1)) for x, _ in (data(16), data(6, seed=1), data(16, seed=2))]
    np.testing.assert_allclose([trainer.step(b) for b in batches], by_torch(module, oracle, batches, 0.01), **CLOSE)
    assert_weights(trainer, module)


@pytest.mark.parametrize("parts", [{}, {"accumulation": 2}], ids=["whole", "parts"])
def test_a_history_of_sums_has_means_of_samples(parts):
    def oracle(y, t):
        return functional.cross_entropy(y, t, reduction="sum")

    module = network()
    options = {"reduction": "sum"}
    trainer = popart.Trainer(file_of(module), "cross_entropy", popart.optim.SGD(lr=RATE), loss_options=options, **parts)
    loader = [data(8, seed=seed) for seed in range(4)]
    history = trainer.fit(loader, validate=loader, progress=False)
    joined = loader if not parts else [tuple(map(torch.cat, zip(*loader[i : i + 2], strict=True))) for i in (0, 2)]
    np.testing.assert_allclose(history[0]["loss"], sum(by_torch(module, oracle, joined)) / 32, **CLOSE)
    with torch.no_grad():
        value = sum(oracle(module(x), y).item() for x, y in loader) / 32
    np.testing.assert_allclose(history[0]["val_loss"], value, **CLOSE)


@pytest.mark.parametrize("parts", PARTS, ids=str)
def test_functions_may_mix_them(parts):
    def loss(builder):
        labels = builder.addInputTensor("INT32", ["batch"], "labels")
        classes = popart.losses.cross_entropy(builder, "y", labels, weight=WEIGHT)
        flat = builder.aiOnnx.mul(["y", "y"])
        penalty = popart.losses.mse(builder, flat, "y", reduction="sum")
        half = builder.aiOnnx.constant(np.array(0.5, np.float32))
        return builder.aiOnnx.add([builder.aiOnnx.mul([classes, half]), builder.aiOnnx.mul([penalty, half])])

    def oracle(y, t):
        return (functional.cross_entropy(y, t, WEIGHT) + functional.mse_loss(y * y, y, reduction="sum")) / 2

    module = network()
    trainer = popart.Trainer(file_of(module), loss, popart.optim.SGD(lr=0.01), **parts)
    batches = [data(16, IGNORED), data(16, seed=1), data(7, (0, 1), seed=2)]
    np.testing.assert_allclose([trainer.step(b) for b in batches], by_torch(module, oracle, batches, 0.01), **CLOSE)
    assert_weights(trainer, module)


@pytest.mark.parametrize("name", ["ignored", "weights"])
def test_parts_and_batches_without_a_label(name):
    loss, options, oracle = LOSSES[name]
    module = network()
    trainer = popart.Trainer(
        file_of(module), loss, popart.optim.SGD(lr=RATE), loss_options=options, accumulation=2
    )  # fmt: skip
    first = data(8, range(4))
    assert trainer.step(first) == pytest.approx(by_torch(module, oracle, [first])[0], rel=1e-4)
    assert_weights(trainer, module)
    assert np.isnan(trainer.step(data(8, range(8))))  # the mean of nothing, with gradients of 0
    assert np.isnan(trainer.evaluate([data(8, range(8))])["loss"])
    assert_weights(trainer, module)
    second = data(8, seed=1)
    np.testing.assert_allclose(trainer.step(second), by_torch(module, oracle, [second])[0], **CLOSE)


# ---- losses that the file has


class WithLoss(nn.Module):
    def __init__(self, loss):
        super().__init__()
        self.body, self.loss = network(), loss

    def forward(self, x, labels):
        return self.loss(self.body(x), labels)


def squares(y, t):
    return (y - functional.one_hot(t.clamp(min=0), CLASSES)).square()


def file_with(loss):
    module = WithLoss(loss)
    dynamic = {"x": {0: "batch"}, "labels": {0: "batch"}}
    proto = exported(module, (*data(8)[:1], data(8)[1]), ["x", "labels"], dynamic, ("loss",))
    return module.body, proto


@pytest.mark.parametrize("parts", [{"accumulation": 4}, {"accumulation": 2, "replicas": 2}], ids=str)
@pytest.mark.parametrize("oracle", [
    functional.cross_entropy,
    lambda y, t: functional.cross_entropy(y, t, WEIGHT),
    lambda y, t: functional.cross_entropy(y, t, reduction="sum") / 8,
    lambda y, t: 3 * functional.nll_loss(y.log_softmax(1), t),
    lambda y, t: squares(y, t).sum(),
    lambda y, t: squares(y, t).mean(0).sum(),
    lambda y, t: squares(y, t).mean(1).sum(),
    lambda y, t: (y * y).sum() + functional.cross_entropy(y, t, reduction="sum"),
], ids=["classes", "weights", "sum", "likelihood", "squares", "features", "samples", "both"])  # fmt: skip
def test_losses_of_files(oracle, parts):
    module, proto = file_with(oracle)
    trainer = popart.Trainer(proto, "loss", popart.optim.SGD(lr=0.01), **parts)
    batches = [data(16, IGNORED), data(8, seed=1), data(16, (15,), seed=2), data(8, (0, 1), seed=3)]
    np.testing.assert_allclose([trainer.step(b) for b in batches], by_torch(module, oracle, batches, 0.01), **CLOSE)
    assert_weights(trainer, module, {name: f"body.{name}" for name in module.state_dict()})


def test_losses_of_files_that_cannot_be_joined():
    def penalised(y, t):
        return functional.cross_entropy(y, t, reduction="sum") + (y * y).mean()

    _, proto = file_with(penalised)
    with pytest.raises(ValueError, match=r"'loss' adds sums over samples to means.*popart\.losses"):
        popart.Trainer(proto, "loss", popart.optim.SGD(lr=0.1), accumulation=2)
    popart.Trainer(proto, "loss", popart.optim.SGD(lr=0.1)).step(data(8))

    def mixed(y, t):
        return functional.cross_entropy(y, t) + (y * y).mean()

    module, proto = file_with(mixed)
    trainer = popart.Trainer(proto, "loss", popart.optim.SGD(lr=RATE), accumulation=2)
    batch = data(8)
    assert trainer.step(batch) == pytest.approx(by_torch(module, mixed, [batch])[0], rel=1e-4)
    with pytest.raises(popart.popart_exception, match="the loss ignores 1 of 8 labels"):
        trainer.step(data(8, (3,)))
    _, proto = file_with(lambda y, t: functional.cross_entropy(y, t, WEIGHT) + (y * y).mean())
    with pytest.raises(ValueError, match="a term with class weights"):
        popart.Trainer(proto, "loss", popart.optim.SGD(lr=0.1), replicas=2)


# ---- time first

TIME, BATCH = 5, 8


class Recurrent(nn.Module):
    """Time first, as nn.LSTM has it by default."""

    def __init__(self, kind=nn.LSTM):
        super().__init__()
        torch.manual_seed(4)
        self.rnn, self.head = kind(WIDTH, 7), nn.Linear(7, CLASSES)

    def forward(self, x):
        return self.head(self.rnn(x)[0])


class Mixer(nn.Module):
    """Time first without a recurrent operator: a mean over time joins the samples of a row."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.first, self.head = nn.Linear(WIDTH, 7), nn.Linear(7, CLASSES)

    def forward(self, x):
        y = self.first(x).tanh()
        return self.head(y - y.mean(0))


NAMED = {"x": {0: "time", 1: "batch"}, "y": {0: "time", 1: "batch"}}
UNNAMED = {"x": {0: "d0", 1: "d1"}, "y": {0: "d0", 1: "d1"}}


def sequences(samples, seed=0, time=TIME):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(time, samples, WIDTH, generator=generator)
    return x, x[..., :CLASSES].argmax(-1)


def by_time(y, t):
    return functional.cross_entropy(y.flatten(0, 1), t.flatten(0, 1))


def loss_by_time(builder):
    """(time, batch, classes) and (time, batch)."""
    shape = popart_core._declaredShape(builder._core, "y")
    labels = builder.addInputTensor("INT32", shape[:2], "labels")
    return popart.losses.cross_entropy(builder, builder.aiOnnx.transpose(["y"], perm=[0, 2, 1]), labels)


@pytest.mark.parametrize("parts", PARTS, ids=str)
@pytest.mark.parametrize(("module", "dynamic", "arguments"), [
    (Recurrent, NAMED, {}),
    (Recurrent, UNNAMED, {}),
    (Mixer, NAMED, {}),
    (Mixer, UNNAMED, {"batch_axis": 1}),
    (Mixer, UNNAMED, {"batch_axis": "d1"}),
    (Mixer, None, {"batch_axis": 1}),
], ids=["lstm", "lstm unnamed", "names", "number", "name", "fixed"])  # fmt: skip
def test_time_may_come_first(module, dynamic, arguments, parts):
    network = module()
    proto = exported(network, (sequences(BATCH)[0],), ["x"], dynamic)
    trainer = popart.Trainer(proto, loss_by_time, popart.optim.SGD(lr=RATE), **arguments, **parts)
    assert trainer.samples(trainer._feed.arrays(sequences(BATCH))) == BATCH
    batches = [sequences(8), sequences(6, 1), sequences(8, 2)]
    np.testing.assert_allclose([trainer.step(b) for b in batches], by_torch(network, by_time, batches), **CLOSE)
    assert_mixed_weights(trainer, network, batches[0][0])


def test_a_file_that_fixes_its_samples_is_not_cut_along_time():
    network = Recurrent()
    trainer = popart.Trainer(
        exported(network, (sequences(BATCH)[0],), ["x"], None), loss_by_time, popart.optim.SGD(lr=RATE), accumulation=2
    )
    assert trainer.samples(trainer._feed.arrays(sequences(BATCH))) == BATCH
    with pytest.raises(popart.popart_exception, match="Expand"):  # the exporter wrote states of 8 samples
        trainer.step(sequences(BATCH))


def assert_mixed_weights(trainer, network, x):
    """By results: exporters store the weights of recurrent layers in another order."""
    with torch.no_grad():
        np.testing.assert_allclose(trainer.predict(x), network(x), rtol=1e-3, atol=1e-4)


def test_batches_of_a_loader_are_joined_along_samples():
    network = Mixer()
    proto = exported(network, (sequences(BATCH)[0],), ["x"], NAMED)
    trainer = popart.Trainer(proto, loss_by_time, popart.optim.SGD(lr=RATE), accumulation=2)
    loader = [sequences(4, seed) for seed in range(4)]
    trainer.fit(loader, progress=False)
    joined = [tuple(torch.cat(pair, 1) for pair in zip(*loader[i : i + 2], strict=True)) for i in (0, 2)]
    by_torch(network, by_time, joined)
    assert_mixed_weights(trainer, network, loader[0][0])


def test_lengths_of_time_may_differ_between_updates():
    network = Mixer()
    proto = exported(network, (sequences(BATCH)[0],), ["x"], NAMED)
    trainer = popart.Trainer(proto, loss_by_time, popart.optim.SGD(lr=RATE), accumulation=2)
    batches = [sequences(4, 0, 5), sequences(4, 1, 3), sequences(6, 2, 7)]
    np.testing.assert_allclose([trainer.step(b) for b in batches], by_torch(network, by_time, batches), **CLOSE)


def test_two_open_dimensions_without_names_are_refused():
    proto = exported(Mixer(), (sequences(BATCH)[0],), ["x"], UNNAMED)
    with pytest.raises(ValueError, match=r"'x' float32 \(d0, d1, 6\) has two open dimensions.*batch_axis=0, or batch"):
        popart.Trainer(proto, loss_by_time, popart.optim.SGD(lr=RATE), accumulation=2)
    popart.Trainer(proto, loss_by_time, popart.optim.SGD(lr=RATE)).step(sequences(BATCH))


def test_rows_in_another_order_are_refused():
    """(time * batch) labels, time first: a part of them is no part of the samples."""
    proto = exported(Mixer(), (sequences(BATCH)[0],), ["x"], NAMED)

    def loss(builder):
        labels = builder.addInputTensor("INT32", ["rows"], "labels")
        flat = builder.reshape_const(builder.aiOnnx, ["y"], [-1, CLASSES])
        return popart.losses.cross_entropy(builder, flat, labels)

    trainer = popart.Trainer(proto, loss, popart.optim.SGD(lr=RATE), accumulation=2)
    x, y = sequences(BATCH)
    with pytest.raises(popart.popart_exception, match=r"'labels': got 40 samples in dimension 0 .*expected 8"):
        trainer.step((x, y.flatten()))


@pytest.mark.parametrize(("given", "error", "text"), [
    ("time_", ValueError, "batch_axis: got 'time_', expected the name of an open dimension, one of batch, time"),
    (3, ValueError, "batch_axis: got 3, expected a dimension of an input"),
    (-1, ValueError, "batch_axis: got -1, expected a whole number, 0 or more"),
    (1.0, TypeError, "batch_axis: got 1.0"),
])  # fmt: skip
def test_dimensions_that_no_input_has(given, error, text):
    proto = exported(Mixer(), (sequences(BATCH)[0],), ["x"], NAMED)
    with pytest.raises(error, match=text):
        popart.Trainer(proto, loss_by_time, popart.optim.SGD(lr=RATE), batch_axis=given)


# ---- files, states and metrics


def test_files_for_training_have_the_loss_of_whole_batches(tmp_path):
    loss, options, _ = LOSSES["weights"]
    module = network()
    trainer = popart.Trainer(file_of(module), loss, popart.optim.Adam(lr=RATE), loss_options=options, accumulation=2)
    plain = popart.Trainer(file_of(module), loss, popart.optim.Adam(lr=RATE), loss_options=options)
    assert trainer.loss == plain.loss
    first, second = data(8, (0, 1)), data(8, (5,), seed=1)
    trainer.step(first)
    trainer.save(tmp_path / "training.onnx", form="training")
    trainer.save(tmp_path / "inference.onnx")
    assert popart.load(tmp_path / "inference.onnx").inputs == ["x"]
    again = popart.Trainer(tmp_path / "training.onnx", trainer.loss, popart.optim.Adam(lr=RATE))
    assert again.inputs == ["x", "labels"]
    np.testing.assert_allclose(again.step(second), trainer.step(second), **CLOSE)  # also with the optimizer's state
    for name in trainer.weights:
        np.testing.assert_allclose(again.weights[name], trainer.weights[name], **CLOSE)


def test_states_of_other_optimizers_and_weights_are_refused(tmp_path):
    def made(optimizer, **arguments):
        return popart.Trainer(file_of(network()), "cross_entropy", optimizer, **arguments)

    trainer = made(popart.optim.Adam(lr=RATE))
    trainer.step(data(8))
    trainer.save_state(tmp_path / "state")
    for other in (made(popart.optim.SGD(lr=RATE)), made(popart.optim.Adam(lr=RATE), frozen="0.*")):
        with pytest.raises(
            popart.popart_exception, match="that this trainer does not have: it is of another optimizer"
        ):
            other.load_state(tmp_path / "state")
    same = made(popart.optim.Adam(lr=RATE), accumulation=2)
    same.load_state(tmp_path / "state")
    np.testing.assert_allclose(same.step(data(8, seed=1)), trainer.step(data(8, seed=1)), **CLOSE)


def test_metrics_leave_out_what_the_loss_ignores():
    module = network()
    x, labels = data(16)
    labels[:9] = 255
    trainer = popart.Trainer(
        file_of(module), "cross_entropy", popart.optim.SGD(lr=RATE), loss_options={"ignore_index": 255}
    )
    right = (module(x).argmax(1) == labels)[9:].float().mean().item()
    history = trainer.fit([(x, labels)], validate=[(x, labels)], metrics=["accuracy"], progress=False)
    assert history[0]["val_accuracy"] * 7 == pytest.approx(round(history[0]["val_accuracy"] * 7))
    trainer = popart.Trainer(
        file_of(module), "cross_entropy", popart.optim.SGD(lr=RATE), loss_options={"ignore_index": 255}
    )
    assert trainer.evaluate([(x, labels)], ["accuracy"])["accuracy"] == pytest.approx(right)
