"""Metrics by name against torch, over batches of different sizes, with ignored labels and more dimensions."""

import numpy as np
import popart
import pytest
import torch
from popart.metrics import Metrics

RNG = np.random.default_rng(3)


def measured(name, outputs, labels, cuts=(4, 9)):
    counted = Metrics([name], "logits", "labels")
    for x, y in zip(np.split(outputs, cuts), np.split(labels, cuts), strict=True):
        counted.add({"logits": x}, {"labels": y}, len(x))
    return counted.means()[name]


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)], ids=["rows", "sequences", "images"])
@pytest.mark.parametrize(("name", "count"), [("accuracy", 1), ("top5", 5)])
def test_largest_classes(name, count, shape):
    outputs = RNG.normal(size=(12, 9, *shape)).astype(np.float32)
    labels = RNG.integers(0, 9, (12, *shape))
    labels[::3] = -100  # ignored
    best = torch.from_numpy(outputs).topk(count, 1).indices
    right = (best == torch.from_numpy(labels)[:, None]).any(1)[torch.from_numpy(labels) >= 0]
    assert measured(name, outputs, labels) == pytest.approx(right.float().mean().item())


def test_probabilities_as_labels():
    outputs, labels = RNG.normal(size=(12, 4)), RNG.dirichlet(np.ones(4), 12)
    assert measured("accuracy", outputs, labels) == pytest.approx((outputs.argmax(1) == labels.argmax(1)).mean())


def test_errors_of_values():
    outputs, labels = RNG.normal(size=(12, 4)), RNG.normal(size=(12, 4))
    assert measured("mse", outputs, labels) == pytest.approx(((outputs - labels) ** 2).mean())
    assert measured("mae", outputs, labels) == pytest.approx(abs(outputs - labels).mean())


def test_functions_get_outputs_and_batch():
    def spread(outputs, batch):
        return float(outputs["a"].max() - batch["x"].min())

    counted = Metrics([spread], "a", None)
    for size in (2, 6):
        counted.add({"a": np.full(size, size), "b": np.zeros(size)}, {"x": np.zeros(size)}, size)
    assert counted.means() == {"spread": (2 * 2 + 6 * 6) / 8}


@pytest.mark.parametrize(("name", "labels", "text"), [
    ("acuracy", "labels", "got 'acuracy', expected one of accuracy, top5, mse, mae. Nearest names: accuracy"),
    ("accuracy", None, "got 'accuracy', the model has no labels"),
])  # fmt: skip
def test_names_that_are_refused(name, labels, text):
    with pytest.raises(popart.popart_exception, match=text):
        Metrics([name], "logits", labels)


def test_shapes_that_do_not_fit():
    with pytest.raises(popart.popart_exception, match=r"got shapes \[4, 2, 2\] and \[4, 4\]"):
        measured("accuracy", np.zeros((12, 4)), np.zeros((12, 2, 2), np.int64))
    for shape in ((12, 1), (12,)):
        with pytest.raises(popart.popart_exception, match="no dimension of classes"):
            measured("accuracy", np.zeros(shape), np.zeros(shape))
    with pytest.raises(popart.popart_exception, match=r"got \[4, 4\] and \[4, 1\]"):
        measured("mse", np.zeros((12, 4)), np.zeros((12, 1)))
