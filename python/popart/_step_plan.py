"""Plans of a trainer's steps: what depends on shapes is computed once, for all steps with the same shapes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from popart._arrays import as_input
from popart._model_inputs import Feed
from popart.session import TrainingSession

_ARRAY = np.ndarray


class StepPlan:
    """The session of a step, the shapes of its arrays, and the arrays for its results."""

    __slots__ = (
        "_by_key",
        "_by_place",
        "_feed",
        "_loss",
        "_losses",
        "_outputs",
        "lr",
        "lr_factor",
        "session",
        "shapes",
        "whole",
    )

    def __init__(
        self,
        feed: Feed,
        session: TrainingSession,
        shapes: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        cut: Mapping[str, np.ndarray],
        loss: str,
        outputs: Sequence[str],
    ) -> None:
        """Make the plan for steps whose arrays have the shapes of the given ones.

        Args:
            feed: The feed of the trainer.
            session: The session, set to these shapes.
            shapes: The shapes that the session was set to.
            arrays: Arrays of the inputs, for whole batches.
            cut: The same arrays with dimensions for micro-batches and replicas.
            loss: Name of the loss.
            outputs: Names of the other tensors that a step returns.
        """
        self._feed, self.session, self.shapes = feed, session, shapes
        self.whole = {name: array.shape for name, array in arrays.items()}
        # For each input: its position or key in a batch, its name, and the type and shapes of its array.
        rows = [
            (name, arrays[name].dtype, arrays[name].shape, None if cut[name] is arrays[name] else cut[name].shape)
            for name in feed.order
        ]
        self._by_key = tuple((key, *row) for key, row in zip(feed.keys, rows, strict=True))
        self._by_place = tuple((place, *row) for place, row in enumerate(rows))
        made = session.initAnchorArrays()
        self._loss = loss
        self._losses = {name: made[name] for name in made if name not in outputs}
        self._outputs = tuple((name, made[name].shape, made[name].dtype) for name in outputs)
        self.lr: float | None = None  # that the session has of an optimizer of popart.optim
        self.lr_factor: float | None = None

    def cut(self, batch: Any) -> dict[str, np.ndarray] | None:
        """Convert a batch, as ``Trainer.step`` takes it, to the arrays for the session.

        Returns:
            The arrays; None if the batch has other shapes than the plan.

        Raises:
            popart_runtime_error: Numbers are of another kind, or do not fit the type.
        """
        kind = type(batch)
        if kind is dict:
            rows = self._by_key
        elif (kind is tuple or kind is list) and len(batch) == len(self._by_place):
            rows = self._by_place
        else:
            return None
        arrays = {}
        try:
            for place, name, dtype, shape, parts in rows:
                value = batch[place]
                if type(value) is not _ARRAY:
                    value = as_input(value)
                if value.shape != shape:
                    return None
                if value.dtype is not dtype or not value.flags.c_contiguous:
                    value = self._feed.inputs[name].array(value, self._feed.what)
                arrays[name] = value if parts is None else value.reshape(parts)
        except KeyError:
            return None
        return arrays

    def results(self) -> dict[str, np.ndarray]:
        """Make arrays for the results of a step. Arrays of outputs are new each time, so callers may keep them.

        Returns:
            The arrays by name.
        """
        if not self._outputs:
            return self._losses
        return {**self._losses, **{name: np.empty(shape, dtype) for name, shape, dtype in self._outputs}}

    def mean_loss(self, results: Mapping[str, np.ndarray]) -> float:
        """Compute the mean of the losses of micro-batches and replicas.

        Returns:
            The mean, summed in double precision.
        """
        losses = results[self._loss]
        return losses.item() if losses.ndim == 0 else float(losses.mean(dtype=np.float64))
