"""Steps of a trainer: what shapes decide is found once, for all steps with arrays of the same shapes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from popart._arrays import as_array
from popart._model_inputs import Feed
from popart.session import TrainingSession

_ARRAY = np.ndarray


class StepPlan:
    """The session of a step, the shapes of its arrays, and the arrays that its results go to."""

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
        """Plan the steps that are like a given one.

        Args:
            feed: Of the trainer.
            session: Set to the shapes of these arrays.
            shapes: That the session was set to.
            arrays: Of the inputs, whole batches.
            cut: The same, with dimensions for micro-batches and replicas.
            loss: Name of the loss.
            outputs: Names of the other tensors that a step returns.
        """
        self._feed, self.session, self.shapes = feed, session, shapes
        # For each input: where a batch has it, its name, and type and shapes of its array.
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
        """The arrays that the session gets for a batch, as ``Trainer.step`` takes it.

        Returns:
            The arrays; None: the batch is not like the planned ones.

        Raises:
            popart_runtime_error: Numbers of another kind, or that do not fit.
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
                    value = as_array(value)
                if value.shape != shape:
                    return None
                if value.dtype is not dtype or not value.flags.c_contiguous:
                    value = self._feed.inputs[name].array(value, self._feed.what)
                arrays[name] = value if parts is None else value.reshape(parts)
        except KeyError:
            return None
        return arrays

    def results(self) -> dict[str, np.ndarray]:
        """Arrays for the results of a step: new ones for outputs, which callers may keep.

        Returns:
            By name.
        """
        if not self._outputs:
            return self._losses
        return {**self._losses, **{name: np.empty(shape, dtype) for name, shape, dtype in self._outputs}}

    def mean_loss(self, results: Mapping[str, np.ndarray]) -> float:
        """The mean of the losses of micro-batches and replicas.

        Returns:
            The mean, summed in double precision.
        """
        losses = results[self._loss]
        return losses.item() if losses.ndim == 0 else float(losses.mean(dtype=np.float64))
