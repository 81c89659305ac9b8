"""Division of the batch of an update into micro-batches and replicas."""

from collections.abc import Mapping, Sequence

import numpy as np
from popart_core import popart_runtime_error

Arrays = Mapping[str, np.ndarray]


class Division:
    """Micro-batches and replicas of updates, and the dimension along which each input is cut."""

    def __init__(self, axes: Mapping[str, int], accumulation: int, replicas: int) -> None:
        """Keep the settings.

        Args:
            axes: Dimension of samples of each input that has one.
            accumulation: Micro-batches for each update.
            replicas: Parts of each micro-batch.
        """
        self._axes, self._accumulation, self._replicas = dict(axes), accumulation, replicas
        # With samples first, an input may have several rows for each sample; otherwise rows have another order.
        self._rows_may_differ = not any(self._axes.values())
        self._micro = 0  # largest micro-batch of a replica so far

    @property
    def usual(self) -> tuple[int, int]:
        """Micro-batches and replicas of the settings."""
        return self._accumulation, self._replicas

    @property
    def is_along_first(self) -> bool:
        """Whether all inputs are cut along their first dimension: a cut is a reshape."""
        return self._rows_may_differ

    def axes(self, arrays: Arrays) -> dict[str, int]:
        """The dimensions of samples of the arrays that have one."""
        return {name: axis for name, axis in self._axes.items() if name in arrays and axis < arrays[name].ndim}

    def samples(self, arrays: Arrays) -> int:
        """The number of samples of a batch; 1 if no array has a dimension of samples."""
        return next((arrays[name].shape[axis] for name, axis in self.axes(arrays).items()), 1)

    def require_samples(self, arrays: Arrays) -> None:
        """Check that no array of a batch is empty.

        Raises:
            popart_runtime_error: An array has no samples.
        """
        for name, axis in self.axes(arrays).items():
            if arrays[name].shape[axis] == 0:
                raise popart_runtime_error(
                    f"Trainer: '{name}': got no samples, expected 1 or more: shape {list(arrays[name].shape)}"
                )

    def parts(self, samples: int) -> tuple[int, int]:
        """Micro-batches and replicas for an update of this many samples.

        Returns:
            The numbers of the settings. If they do not divide the samples: one replica, and the fewest micro-batches
            that are not larger than usual.
        """
        asked = self._accumulation * self._replicas
        if samples % asked == 0:
            self._micro = max(self._micro, samples // asked)
            return self.usual
        usual = max(self._micro, samples // asked, 1)
        parts = next(n for n in range(1, samples + 1) if samples % n == 0 and samples // n <= usual)
        return parts, 1

    def cut(self, arrays: Arrays, parts: tuple[int, int]) -> dict[str, np.ndarray]:
        """Add dimensions for micro-batches and replicas in front of arrays, where these numbers are not 1.

        Returns:
            The arrays. Those without a dimension of samples are the same in all parts.

        Raises:
            popart_runtime_error: An array does not have as many samples as the others.
        """
        front = tuple(n for n in parts if n != 1)
        if not front:
            return dict(arrays)
        axes, count, samples = self.axes(arrays), parts[0] * parts[1], self.samples(arrays)
        cut = {}
        for name, array in arrays.items():
            axis = axes.get(name)
            if axis is None:
                cut[name] = np.ascontiguousarray(np.broadcast_to(array, (*front, *array.shape)))
                continue
            size, before, after = array.shape[axis], array.shape[:axis], array.shape[axis + 1 :]
            if size % count or not (self._rows_may_differ or size == samples):
                expected = f"a multiple of {count}" if self._rows_may_differ else f"{samples}"
                raise popart_runtime_error(
                    f"Trainer: '{name}': got {size} samples in dimension {axis} of {list(array.shape)}, expected "
                    f"{expected}, as of the other inputs"
                )
            apart = np.moveaxis(array.reshape(*before, count, size // count, *after), axis, 0)
            cut[name] = np.ascontiguousarray(apart).reshape(*front, *before, size // count, *after)
        return cut

    def joined(self, batches: Sequence[Arrays]) -> dict[str, np.ndarray]:
        """Join the batches of an update along their dimension of samples.

        Returns:
            The arrays of the update.

        Raises:
            popart_runtime_error: Their shapes differ, or values that all samples share.
        """
        if len(batches) == 1:
            return dict(batches[0])
        joined = {}
        axes = self.axes(batches[0])
        for name, array in batches[0].items():
            axis, others = axes.get(name), [batch[name] for batch in batches[1:]]
            if axis is None:
                if not all(np.array_equal(other, array, equal_nan=True) for other in others):
                    raise popart_runtime_error(
                        f"fit: '{name}': batches of one update have different values, expected the same ones, as it "
                        "has no dimension of samples. Set accumulation to 1"
                    )
                joined[name] = array
                continue
            shapes = {other.shape[:axis] + other.shape[axis + 1 :] for other in (array, *others)}
            if len(shapes) > 1:
                raise popart_runtime_error(
                    f"fit: '{name}': batches of one update differ in shape: got {sorted(map(list, shapes))} without "
                    f"dimension {axis}, which counts samples. Pad them, or set accumulation to 1"
                )
            joined[name] = np.concatenate([array, *others], axis)
        return joined
