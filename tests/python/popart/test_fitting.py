"""fit: loaders, dictionaries and functions of the epoch feed a session; checkpoints go on with the same bits."""

import numpy as np
import popart
import pytest
import torch
from popart.fitting import fit
from torch.utils.data import DataLoader, TensorDataset

BATCH, WIDTH, CLASSES = 4, 6, 3
DATA = torch.randn(64, WIDTH, generator=torch.Generator().manual_seed(0))
LABELS = DATA[:, :CLASSES].argmax(1)  # int64, as PyTorch has labels


def training(batches=2, accumulation=2):
    """A classifier with dropout, trained with Adam."""
    rng = np.random.default_rng(0)
    builder = popart.Builder()
    h = builder.addInputTensor("FLOAT", [BATCH, WIDTH], "x")
    labels = builder.addInputTensor("INT32", [BATCH], "labels")
    for i, columns in enumerate((8, CLASSES)):
        shape = (builder.getTensorShape(h)[1], columns)
        weight = builder.addInitializedInputTensor(rng.normal(0, 0.5, shape).astype(np.float32), f"w{i}")
        h = builder.aiOnnx.matmul([h, weight])
        h = builder.aiOnnx.dropout([h], 1, 0.1)[0] if i == 0 else h
    loss = builder.aiGraphcore.nllloss([builder.aiOnnx.softmax([h]), labels])
    options = popart.SessionOptions()
    options.enableGradientAccumulation, options.accumulationFactor = accumulation > 1, accumulation
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(batches, [loss]),
        loss,
        popart.Adam({"defaultLearningRate": (0.02, False)}),
        popart.DeviceManager().createCpuDevice(),
        userOptions=options,
    )
    session.prepareDevice()
    session.setRandomSeed(3)
    session.weightsFromHost()
    return session


def loader(epoch=0):
    """Shuffled by epoch."""
    order = torch.Generator().manual_seed(epoch)
    return DataLoader(TensorDataset(DATA, LABELS), BATCH, shuffle=True, generator=order)


def losses_of(session, data, **options):
    seen = []
    fit(session, data, progress=False, on_step=lambda *now: seen.append(next(iter(now[2].values())).copy()), **options)
    return np.array(seen)


def test_a_loader_trains():
    losses = losses_of(training(), loader(), inputs=["x", "labels"], epochs=8)
    assert losses.shape == (8 * 4, 2, 2)
    assert losses[-4:].mean() < 0.6 * losses[:4].mean()


def rows(names=("x", "labels")):
    return [dict(zip(names, batch, strict=True)) for batch in loader()]


@pytest.mark.parametrize(("data", "inputs"), [
    (lambda: loader(), ["x", "labels"]),
    (lambda: rows(), None),
    (lambda: [{**row, "other": 1} for row in rows()], ["x", "labels"]),
    (lambda: rows(("pixels", "class")), {"pixels": "x", "class": "labels"}),
    (lambda: (lambda epoch: iter(rows())), None),
    (lambda: [{name: value.tolist() for name, value in row.items()} for row in rows()], None),
], ids=["tuples", "dictionaries", "chosen keys", "keys by name", "function", "lists"])  # fmt: skip
def test_forms_of_data_are_the_same(data, inputs):
    by_arrays = training()
    anchors, expected = by_arrays.initAnchorArrays(), []
    batches = list(loader())
    for start in range(0, 16, 4):
        x, labels = (np.stack([batch[i].numpy() for batch in batches[start : start + 4]]) for i in (0, 1))
        by_arrays.run(popart.PyStepIO({"x": x, "labels": labels.astype(np.int32)}, anchors))
        expected.append(next(iter(anchors.values())).copy())
    np.testing.assert_array_equal(losses_of(training(), data(), inputs=inputs), expected)


@pytest.mark.parametrize("stop", [1, 3, 4, 6])
def test_training_resumes_to_the_bit(tmp_path, stop):
    """Stopped after some steps, in an epoch or at its end."""
    whole = losses_of(training(), loader, inputs=["x", "labels"], epochs=3)
    file, steps = tmp_path / "run.npz", []

    def end(epoch, step, anchors):
        steps.append(next(iter(anchors.values())).copy())
        if len(steps) == stop + 1:
            raise KeyboardInterrupt  # what the last checkpoint does not have is done again

    options = {"inputs": ["x", "labels"], "epochs": 3, "checkpoint": file, "every": 1, "progress": False}
    with pytest.raises(KeyboardInterrupt):
        fit(training(), loader, on_step=end, **options)
    np.testing.assert_array_equal(steps, whole[: stop + 1])
    session = training()
    session.setRandomSeed(99)
    rest = []
    count = fit(session, loader, on_step=lambda e, s, a: rest.append(next(iter(a.values())).copy()), **options)
    assert count == 12 - stop
    np.testing.assert_array_equal(rest, whole[stop:])
    assert fit(session, loader, **options) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["run.npz"]


def test_a_data_set_hears_of_its_epoch():
    class Epochs(list):
        def set_epoch(self, epoch):
            heard.append(epoch)

    heard = []
    fit(training(), Epochs(loader()), inputs=["x", "labels"], epochs=2, progress=False)
    assert heard == [0, 1]


def test_progress_names_the_loss(capfd):
    fit(training(), loader(), inputs=["x", "labels"])
    assert "epoch 1/1" in capfd.readouterr().err


@pytest.mark.parametrize(("data", "inputs", "text"), [
    ([(DATA[:4], LABELS[:4])], ["x"], "gives 2 values: got 1 names"),
    ([(DATA[:4], LABELS[:4])], ["x", "label"], "'label'.*Nearest existing names: .labels"),
    ([(DATA[:3], LABELS[:3])], ["x", "labels"], r"'x': got a micro-batch of shape \[3, 6\], expected \[4, 6\]"),
    ([{"x": DATA[:4], "label": LABELS[:4]}], ["x", "labels"], "no 'labels'. Nearest names: label"),
])  # fmt: skip
def test_refusals(data, inputs, text):
    with pytest.raises(popart.popart_exception, match=text):
        fit(training(), data, inputs=inputs, progress=False)
