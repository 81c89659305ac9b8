"""Trainer.fit: data of any form, validation, early stop, schedules, checkpoints that resume to the bit, loggers."""

import csv

import numpy as np
import popart
import pytest
import torch
from tensorboard.backend.event_processing import event_accumulator as events
from torch.utils.data import DataLoader, TensorDataset

WIDTH, CLASSES = 6, 3
DATA = torch.randn(60, WIDTH, generator=torch.Generator().manual_seed(0))
LABELS = DATA[:, :CLASSES].argmax(1)


def model(dropout=0.1):
    rng = np.random.default_rng(0)
    builder = popart.Builder()
    h = builder.addInputTensor("FLOAT", [4, WIDTH], "x")
    labels = builder.addInputTensor("INT32", [4], "labels")
    for i, columns in enumerate((8, CLASSES)):
        shape = (builder.getTensorShape(h)[1], columns)
        weight = builder.addInitializedInputTensor(rng.normal(0, 0.5, shape).astype(np.float32), f"w{i}")
        h = builder.aiOnnx.matmul([h, weight])
        h = builder.aiOnnx.dropout([h], 1, dropout)[0] if i == 0 and dropout else h
    probabilities = builder.aiOnnx.softmax([h])
    builder.addOutputTensor(probabilities)
    loss = builder.aiGraphcore.nllloss([probabilities, labels], popart.ReductionType.Mean)
    return builder.getModelProto(), loss


def trainer(accumulation=1, dropout=0.1, optimizer=None, **arguments):
    proto, loss = model(dropout)
    return popart.Trainer(
        proto, loss, optimizer or popart.optim.AdamW(lr=0.02), seed=3, accumulation=accumulation, **arguments
    )


def loader(epoch=0, size=8):
    """Shuffled by epoch; the last batch has 4 samples."""
    order = torch.Generator().manual_seed(epoch)
    return DataLoader(TensorDataset(DATA, LABELS), size, shuffle=True, generator=order)


def losses_of(of, data=loader, **options):
    seen = []
    of.fit(data, progress=False, on_step=lambda now: seen.append(now["loss"]), **options)
    return seen


def test_a_loader_trains():
    history = trainer().fit(loader, epochs=8, progress=False)
    assert history[-1]["loss"] < 0.7 * history[0]["loss"]
    assert history["epoch"] == list(range(1, 9))
    assert history["update"] == [8 * epoch for epoch in history["epoch"]]
    assert all(
        row["items_per_second"] > 0 and row["seconds"] > 0 and row["lr"] == pytest.approx(0.02) for row in history
    )


def rows(names=("x", "labels")):
    return [dict(zip(names, batch, strict=True)) for batch in loader()]


@pytest.mark.parametrize(("data", "inputs"), [
    (lambda: loader(), ["x", "labels"]),
    (lambda: [(labels, x) for x, labels in loader()], ["labels", "x"]),
    (lambda: rows(), None),
    (lambda: [{**row, "other": 1} for row in rows()], None),
    (lambda: rows(("pixels", "class")), {"pixels": "x", "class": "labels"}),
    (lambda: (lambda epoch: iter(rows())), None),
    (lambda: [{name: value.tolist() for name, value in row.items()} for row in rows()], None),
], ids=["tuples", "another order", "dictionaries", "more keys", "keys by name", "function", "lists"])  # fmt: skip
def test_forms_of_data_are_the_same(data, inputs):
    by_steps = trainer()
    expected = [by_steps.step({"x": x.numpy(), "labels": y.numpy()}) for x, y in loader()]
    assert losses_of(trainer(inputs=inputs), data()) == expected


@pytest.mark.parametrize("accumulation", [1, 3])
@pytest.mark.parametrize("stop", [1, 2, 3, 5])
def test_training_resumes_to_the_bit(tmp_path, stop, accumulation):
    """Stopped after some updates, in an epoch or at its end."""
    whole = losses_of(trainer(accumulation), epochs=3)
    seen = []

    def end(now):
        seen.append(now["loss"])
        if len(seen) == stop + 1:
            raise KeyboardInterrupt  # what the last checkpoint does not have is done again

    options = {"epochs": 3, "checkpoint": tmp_path / "run", "save_every": 1}
    with pytest.raises(KeyboardInterrupt):
        trainer(accumulation).fit(loader, on_step=end, progress=False, **options)
    assert seen == whole[: stop + 1]
    again = trainer(accumulation)
    again._sessions._seed = 99
    assert losses_of(again, **options) == whole[stop:]
    assert losses_of(trainer(accumulation), **options) == []
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["best.safetensors", "last.safetensors"]


@pytest.mark.parametrize(
    "options", [{"epochs": 2}, {"epochs": 9, "patience": 1, "monitor": "epoch"}], ids=["epochs", "patience"]
)
def test_finished_training_has_its_weights_again(tmp_path, options):
    """The same program, called once more: the weights are those of the checkpoint, not those of the file."""
    first, again = trainer(), trainer()
    for one in (first, again):
        assert one.fit(loader, checkpoint=tmp_path, progress=False, **options)["epoch"] == [1, 2]
    for name, value in first.weights.items():
        np.testing.assert_array_equal(again.weights[name], value)


@pytest.mark.parametrize("update", [5, 8, 11])
def test_an_epoch_that_was_interrupted_has_its_row(tmp_path, update):
    """Also where all of its updates were done: the validation sees the trained weights, the loss counts all updates."""
    options = {"epochs": 2, "validate": list(loader())}
    whole = trainer().fit(loader, progress=False, **options)
    options |= {"checkpoint": tmp_path, "progress": False}
    trainer().fit(loader, on_step=lambda now: now["update"] < update, **options)
    history = trainer().fit(loader, **options)
    for column in ("epoch", "update", "loss", "val_loss"):
        assert history[column] == whole[column]


def test_the_history_goes_on_with_the_checkpoint(tmp_path):
    whole = trainer().fit(loader, epochs=4, validate=list(loader()), metrics=["accuracy"], progress=False)
    for epochs in (1, 3, 4):
        history = trainer().fit(
            loader, epochs=epochs, validate=list(loader()), metrics=["accuracy"], checkpoint=tmp_path, progress=False
        )
    for column in ("epoch", "update", "loss", "val_loss", "val_accuracy"):
        assert history[column] == whole[column]


def test_a_data_set_hears_of_its_epoch():
    class Epochs(list):
        def set_epoch(self, epoch):
            heard.append(epoch)

    heard = []
    trainer().fit(Epochs(loader()), epochs=2, progress=False)
    assert heard == [0, 1]


def test_progress_shows_loss_rate_and_time_left(capfd):
    trainer().fit(loader(), epochs=2)
    text = capfd.readouterr().err
    assert "epoch 2/2" in text
    assert "items/s" in text
    assert "loss " in text
    assert "8/8" in text


def test_a_callback_stops(tmp_path):
    seen = []
    history = trainer().fit(
        loader, epochs=3, progress=False, on_step=lambda now: seen.append(now["update"]) or len(seen) < 11
    )
    assert seen == list(range(1, 12))
    assert history["epoch"] == [1]
    history = trainer().fit(loader, epochs=5, progress=False, on_epoch=lambda row: row["epoch"] < 2)
    assert history["epoch"] == [1, 2]
    options = {"epochs": 3, "checkpoint": tmp_path}
    first = []
    trainer().fit(loader, progress=False, on_step=lambda now: first.append(now["loss"]) or len(first) < 11, **options)
    assert first + losses_of(trainer(), **options) == losses_of(trainer(), epochs=3)


def test_patience_stops_and_the_best_epoch_comes_back(tmp_path):
    """The learning rate is far too large from the third epoch on."""
    for folder in (tmp_path, None):
        training = trainer(dropout=0, optimizer=popart.optim.SGD(lr=0.05))
        best = {}

        def remember(row, training=training, best=best):
            if row["epoch"] == 2:
                best.update(training.weights)

        history = training.fit(
            loader, epochs=20, validate=loader(), patience=2, restore_best=True, checkpoint=folder, progress=False,
            schedule=lambda update: 1.0 if update < 16 else 4000.0, on_epoch=remember,
        )  # fmt: skip
        assert history["epoch"] == [1, 2, 3, 4]
        for name, value in best.items():
            np.testing.assert_array_equal(training.weights[name], value)


def right(outputs, batch):
    """Share of samples whose largest score is that of their class."""
    return float((outputs.argmax(1) == batch["labels"]).mean())


def test_the_largest_value_of_a_function_may_be_best(tmp_path):
    training, seen = trainer(optimizer=popart.optim.AdamW(lr=0.05)), {}
    history = training.fit(
        loader, epochs=6, validate=loader(), metrics=[right], monitor="val_right", mode="max", restore_best=True,
        progress=False, on_epoch=lambda row: seen.update({row["epoch"]: dict(training.weights)}),
    )  # fmt: skip
    values = history["val_right"]
    assert max(values) > values[0]
    best = seen[1 + values.index(max(values))]
    for name, value in best.items():
        np.testing.assert_array_equal(training.weights[name], value)


@pytest.mark.parametrize(("schedule", "oracle"), [
    (popart.optim.constant(), lambda o: torch.optim.lr_scheduler.ConstantLR(o, factor=1.0)),
    (popart.optim.cosine(), lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 24)),
    (popart.optim.cosine(final=0.1, total=12), lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 12, 0.1)),
    (popart.optim.linear(final=0.25), lambda o: torch.optim.lr_scheduler.LinearLR(o, 1.0, 0.25, 24)),
    (popart.optim.step(2, gamma=0.5), lambda o: torch.optim.lr_scheduler.StepLR(o, 16, 0.5)),
    (
        popart.optim.step([3, 10], gamma=0.5, unit="update"),
        lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [3, 10], 0.5),
    ),
    (popart.optim.one_cycle(), lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 1.0, 24)),
    (lambda update: 0.9**update, lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda t: 0.9**t)),
], ids=["constant", "cosine", "cosine total", "linear", "step", "milestones", "one cycle", "function"])  # fmt: skip
def test_schedules_are_those_of_torch(schedule, oracle):
    seen = []
    training = trainer(optimizer=popart.optim.SGD(lr=1.0, momentum=0.9))
    training.fit(loader, epochs=3, schedule=schedule, progress=False, on_step=lambda now: seen.append(now["lr"]))
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0, momentum=0.9)
    scheduler, expected = oracle(optimizer), []
    ends = 12 if "12" in repr(schedule) and getattr(schedule, "total", None) == 12 else 24
    for _ in range(min(24, ends + 1)):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    expected += expected[-1:] * (24 - len(expected))
    np.testing.assert_allclose(seen, expected, rtol=1e-5, atol=1e-7)


def test_a_warm_up_comes_first():
    factor = popart.optim.cosine(warmup=4).bind(12, None)
    np.testing.assert_allclose([factor(i) for i in range(5)], [0.25, 0.5, 0.75, 1.0, 1.0])
    np.testing.assert_allclose([factor(i) for i in (8, 12, 20)], [0.5, 0.0, 0.0], atol=1e-12)


def test_schedules_that_need_a_length():
    endless = iter(lambda: (DATA[:8], LABELS[:8]), None)
    with pytest.raises(ValueError, match="does not say how many batches it has"):
        trainer().fit(endless, schedule=popart.optim.cosine(), progress=False)


class Recorder:
    def __init__(self):
        self.rows = []

    def log(self, values):
        self.rows.append(values)


def test_loggers_hear_of_updates_and_epochs(tmp_path):
    recorder, calls = Recorder(), []
    trainer().fit(
        loader, epochs=2, validate=loader(), metrics=["accuracy"], progress=False, log_every=3,
        log=[recorder, calls.append, str(tmp_path / "run.csv"), popart.loggers.CSV(tmp_path / "other" / "run.csv")],
    )  # fmt: skip
    assert [row["update"] for row in recorder.rows] == [3, 6, 8, 9, 12, 15, 16]
    assert calls == recorder.rows
    for path in (tmp_path / "run.csv", tmp_path / "other" / "run.csv"):
        with path.open(newline="") as file:
            found = list(csv.DictReader(file))
        assert [int(row["update"]) for row in found] == [3, 6, 8, 9, 12, 15, 16]
        assert [bool(row["val_accuracy"]) for row in found] == [False, False, True, False, False, False, True]
        assert float(found[-1]["val_loss"]) == recorder.rows[-1]["val_loss"]


def test_tensorboard_has_scalars(tmp_path):
    trainer().fit(loader, epochs=2, progress=False, log=[popart.loggers.TensorBoard(tmp_path)])
    found = events.EventAccumulator(str(tmp_path))
    found.Reload()
    assert [event.step for event in found.Scalars("loss")] == [8, 16]


@pytest.mark.parametrize(("options", "text"), [
    ({"metrics": ["accuracy"]}, "metrics are of the validation"),
    ({"metrics": ["acuracy"], "validate": loader()}, "got 'acuracy'.*Nearest names: accuracy"),
    ({"monitor": "val_lss", "validate": loader()}, "no column 'val_lss'. Nearest names: val_loss"),
    ({"monitor": "val_right", "validate": loader(), "metrics": [right]}, "got None for 'val_right', expected 'max'"),
    ({"mode": "larger"}, "got 'larger' for 'loss', expected 'max' if its largest value is best, or 'min'"),
    ({"validate": loader(), "metrics": [lambda *_: 0, lambda *_: 1]}, "got 2 of the name '<lambda>'"),
])  # fmt: skip
def test_settings_that_are_refused(options, text):
    """Before the first update, not at the end of the first epoch."""
    with pytest.raises(popart.popart_exception, match=text):
        trainer().fit(loader(), progress=False, on_step=lambda now: pytest.fail(str(now)), **options)


def test_data_without_batches():
    with pytest.raises(popart.popart_exception, match="the data of epoch 1 has no batches"):
        trainer().fit([], progress=False)
    with pytest.raises(popart.popart_exception, match="evaluate: the data has no batches"):
        trainer().fit(loader, epochs=2, validate=iter(loader()), progress=False)


@pytest.mark.parametrize(("data", "inputs", "text"), [
    ([(DATA[:4], LABELS[:4])], ["x"], "gives 2 values: got 1 inputs"),
    ([{"x": DATA[:4], "label": LABELS[:4]}], None, "no 'labels'. Nearest names: label"),
    ([(DATA[:4, :2], LABELS[:4])], None, r"'x': got shape \[4, 2\], expected \[batch, 6\]"),
])  # fmt: skip
def test_data_that_is_refused(data, inputs, text):
    with pytest.raises(popart.popart_exception, match=text):
        trainer(inputs=inputs).fit(data, progress=False)


def test_values_that_are_no_samples_are_those_of_all_micro_batches():
    """An update has one value of such an input: those of its other batches are not dropped."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", ["batch", WIDTH], "x")
    scale = builder.addInputTensor("FLOAT", [1], "scale")
    weight = builder.addInitializedInputTensor(np.ones((WIDTH, CLASSES), np.float32), "w")
    builder.addOutputTensor(builder.aiOnnx.matmul([builder.aiOnnx.mul([x, scale]), weight]))
    training = popart.Trainer(builder.getModelProto(), "cross_entropy", popart.optim.SGD(), accumulation=2)
    same, other = ([(DATA[:4], np.full(1, s, np.float32), LABELS[:4]) for s in scales] for scales in ((2, 2), (2, 3)))
    training.fit(same, progress=False)
    with pytest.raises(popart.popart_exception, match="'scale': batches of one update have different values"):
        training.fit(other, progress=False)


def test_names_of_inputs_are_checked():
    with pytest.raises(popart.popart_exception, match=r"no input .label.\. Nearest names: labels"):
        trainer(inputs=["x", "label"])
