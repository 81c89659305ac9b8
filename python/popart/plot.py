"""Plots of training. They need matplotlib.

Example::

    history = trainer.fit(loader, epochs=3)
    popart.plot.losses(history["loss"], "loss.png")
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 75  # most points in the window of the running mean


def losses(
    values: "Sequence[float] | np.ndarray", path: str | Path | None = None, axes: "Axes | None" = None
) -> "Axes":
    """Plot the loss of every batch and its running mean.

    Args:
        values: Losses in the order of the batches.
        path: File to write, such as ``loss.png`` or ``loss.svg``; None: no file.
        axes: Axes to draw in; None: those of a new figure of ``matplotlib.pyplot``.

    Returns:
        The axes.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: There are no values, or they are not a list of numbers.
        OSError: The file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("plot.losses: the package 'matplotlib' is needed: pip install matplotlib") from None
    numbers = np.asarray(values, np.float64)
    if numbers.ndim != 1 or not numbers.size:
        raise ValueError(
            f"plot.losses: got values of shape {list(numbers.shape)}, expected a list of at least one loss"
        )
    window = max(1, len(numbers) // POINTS)
    sums = np.cumsum(np.concatenate([[0.0], numbers]))
    if axes is None and path is not None:  # a new figure that no window shows
        axes = Figure(figsize=(8, 4.5), layout="constrained").subplots()
    elif axes is None:
        from matplotlib import pyplot

        _, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    axes.plot(numbers, linewidth=0.4, alpha=0.4, label="each batch")
    means = (sums[window:] - sums[:-window]) / window
    axes.plot(np.arange(window, len(numbers) + 1) - 1, means, label=f"mean of {window}")
    axes.set(xlabel="iteration", ylabel="loss", ylim=(0, None) if numbers.min() >= 0 else (None, None))
    axes.legend()
    if path is not None:
        axes.get_figure(root=True).savefig(path, dpi=120)
    return axes
