"""Metrics for ``Trainer.evaluate`` and ``Trainer.fit``: by name, or any function of outputs and labels.

A function ``metric(outputs, batch)`` takes the array of the only output, or a dictionary if there are several, and the
arrays of the batch by input; it returns the mean over the batch.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from popart_core import popart_runtime_error

from popart._names import nearest_names

Metric = Callable[[Any, Mapping[str, np.ndarray]], float]


def _classes(labels: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    """Class numbers: the labels themselves, or for class probabilities the index of the largest."""
    if outputs.ndim < 2 or outputs.shape[1] < 2:
        raise popart_runtime_error(
            f"metric: the output has no dimension of classes: got shape {list(outputs.shape)}, expected (N, C, ...). "
            "For yes or no give a function, such as lambda outputs, batch: ((outputs > 0) == batch['labels']).mean()"
        )
    if labels.shape == outputs.shape:
        return labels.argmax(1)
    if labels.shape != (outputs.shape[0], *outputs.shape[2:]):
        raise popart_runtime_error(
            f"metric: the labels do not fit the output: got shapes {list(labels.shape)} and {list(outputs.shape)}, "
            "expected class numbers or probabilities for each row"
        )
    return labels


# Sum and count for an output and its labels, without class numbers that are ignored.
_Sums = Callable[[np.ndarray, np.ndarray, int | None], tuple[float, float]]


def _best_of(count: int) -> _Sums:
    def metric(outputs: np.ndarray, labels: np.ndarray, ignored: int | None) -> tuple[float, float]:
        classes = _classes(labels, outputs)
        if ignored is not None:
            classes = np.where(classes == ignored, -1, classes)
        if count == 1:
            right = outputs.argmax(1) == classes
        else:
            own = np.take_along_axis(outputs, np.expand_dims(np.maximum(classes, 0), 1), 1)
            right = (outputs > own).sum(1) < count
        counted = classes >= 0  # labels with negative numbers are ignored
        return float((right & counted).sum()), float(counted.sum())

    return metric


def _mean_of(error: Callable[[np.ndarray], np.ndarray]) -> _Sums:
    def metric(outputs: np.ndarray, labels: np.ndarray, ignored: int | None) -> tuple[float, float]:
        if outputs.shape != labels.shape:
            raise popart_runtime_error(
                f"metric: output and labels differ in shape: got {list(outputs.shape)} and {list(labels.shape)}"
            )
        difference = outputs.astype(np.float64) - labels
        return float(error(difference).sum()), float(difference.size)

    return metric


def listed(given: Any) -> list[Any]:
    """Metrics or loggers as a list: of several, or of one.

    Returns:
        The list.
    """
    return list(given) if isinstance(given, list | tuple | set | frozenset) else [given]


_BY_NAME = {
    "accuracy": _best_of(1),
    "top5": _best_of(5),
    "mse": _mean_of(np.square),
    "mae": _mean_of(np.abs),
}
# The metrics that are better when they are larger.
GROWING = frozenset({"accuracy", "top5"})


class Metrics:
    """Means of metrics over batches."""

    def __init__(
        self, metrics: Sequence[str | Metric], output: str, labels: str | None, ignored: int | None = None
    ) -> None:
        """Start with no batches.

        Args:
            metrics: Names (accuracy, top5, mse, mae) or functions.
            output: Output that named metrics read.
            labels: Input that named metrics compare it with; None if there is none.
            ignored: Class number that does not count, besides negative ones.

        Raises:
            TypeError: A metric is neither a name nor a function.
            popart_runtime_error: An unknown name, a name where there are no labels, or two metrics of one name.
        """
        self._output, self._labels, self._ignored = output, labels, ignored
        for metric in metrics:
            if not isinstance(metric, str) and not callable(metric):
                raise TypeError(f"metrics: got {metric!r}, expected a name or a function(outputs, batch)")
        names = [m if isinstance(m, str) else getattr(m, "__name__", type(m).__name__) for m in metrics]
        if twice := [name for name in names if names.count(name) > 1]:
            raise popart_runtime_error(
                f"metrics: got {names.count(twice[0])} of the name '{twice[0]}', expected different names. Give each "
                "function a name of its own with def, or __name__"
            )
        self._metrics = dict(zip(names, metrics, strict=True))
        for name, metric in self._metrics.items():
            if isinstance(metric, str) and (metric not in _BY_NAME or labels is None):
                why = "the model has no labels" if metric in _BY_NAME else f"expected one of {', '.join(_BY_NAME)}"
                raise popart_runtime_error(
                    f"metrics: got '{name}', {why}{nearest_names(name, _BY_NAME)}. Or give a function(outputs, batch)"
                )
        self._sums = {name: [0.0, 0.0] for name in self._metrics}

    @property
    def names(self) -> list[str]:
        """Names of the metrics."""
        return list(self._metrics)

    def add(self, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray], samples: int) -> None:
        """Add the metrics of a batch."""
        for name, metric in self._metrics.items():
            if isinstance(metric, str):
                total, count = _BY_NAME[metric](outputs[self._output], batch[self._labels or ""], self._ignored)
            else:
                given = next(iter(outputs.values())) if len(outputs) == 1 else outputs
                total, count = float(metric(given, batch)) * samples, samples
            self._sums[name][0] += total
            self._sums[name][1] += count

    def means(self) -> dict[str, float]:
        """The means of the metrics; NaN if nothing was counted."""
        return {name: total / count if count else float("nan") for name, (total, count) in self._sums.items()}
