"""Divides an image set into the arrays of session steps: shuffled by seed, normalised, contiguous.

Each step is one gather of bytes and one table look-up over all its batches; there is no loop over samples.
"""

from collections.abc import Iterator
from typing import Literal

import numpy as np
import popart_core

from popart.data.images import ImageSet, Normalisation


class Batches:
    """Steps of `batches_per_step` batches each.

    The next step overwrites the yielded arrays: copy them to keep them.

    Example::

        for images, labels in Batches(train, batch_size=8, batches_per_step=100, seed=0).epoch(0):
            session.run(popart.PyStepIO({"images": images, "labels": labels}, anchors))
    """

    def __init__(
        self,
        data: ImageSet,
        batch_size: int,
        batches_per_step: int = 1,
        *,
        seed: int | None = None,
        normalisation: Normalisation | None = None,
        last: Literal["drop", "repeat"] = "drop",
    ) -> None:
        """Plan the steps.

        Args:
            data: Images and labels.
            batch_size: Samples per batch.
            batches_per_step: Batches per yielded array, as in ``popart.DataFlow``.
            seed: Seed of the shuffling; None keeps the order of `data`.
            normalisation: Normalisation of the pixels; None: computed from `data`.
            last: What to do with samples that do not fill a step: leave them out, or fill the step with samples from
                the start.

        Raises:
            popart_exception: A size is below 1, or no step is full and `last` is ``"drop"``.
        """
        self._data, self._seed = data, seed
        self._shape = (batches_per_step, batch_size, *data.images.shape[1:])
        self._per_step = batch_size * batches_per_step
        if min(batch_size, batches_per_step) < 1:
            raise popart_core.popart_exception(
                f"Batches: got batch size {batch_size} and {batches_per_step} batches per step, expected at least 1."
            )
        whole, rest = divmod(len(data), self._per_step)
        self._steps = whole + (rest > 0 and last == "repeat")
        if self._steps == 0:
            raise popart_core.popart_exception(
                f"Batches: too few samples for one step: got {len(data)}, expected at least {self._per_step}. "
                "Use smaller batches, fewer batches per step, or last='repeat'."
            )
        self._table = (normalisation or Normalisation.of(data.images)).table()
        self._bytes = np.empty((self._per_step, *data.images.shape[1:]), np.uint8)
        self._images = np.empty(self._shape, np.float32)
        self._labels = np.empty((batches_per_step, batch_size), np.int32)

    def __len__(self) -> int:
        """Steps per epoch."""
        return self._steps

    def order(self, epoch: int) -> np.ndarray:
        """Indices of the samples in the order in which `epoch` uses them, ``(steps * samples per step,)``."""
        count = len(self._data)
        order = np.arange(count)
        if self._seed is not None:
            order = np.random.default_rng([self._seed, epoch]).permutation(count)
        return np.resize(order, self._steps * self._per_step)

    def epoch(self, epoch: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Walk through one epoch.

        Args:
            epoch: Number of the epoch; together with the seed it determines the order.

        Yields:
            Images float32 ``(batches per step, batch size, H, W)`` and labels int32 ``(batches per step, batch size)``.
        """
        order = self.order(epoch)
        for start in range(0, len(order), self._per_step):
            chosen = order[start : start + self._per_step]
            # mode="clip": with "raise", NumPy first gathers into a temporary buffer.
            np.take(self._data.images, chosen, axis=0, out=self._bytes, mode="clip")
            np.take(self._table, self._bytes.reshape(self._shape), out=self._images, mode="clip")
            np.take(self._data.labels, chosen, out=self._labels.reshape(-1), mode="clip")
            yield self._images, self._labels
