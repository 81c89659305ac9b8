"""Loggers for ``Trainer.fit(log=[...])``: any object with a method ``log(dict)``, such as a run of Weights & Biases.

Example::

    trainer.fit(loader, epochs=5, log=[popart.loggers.CSV("run.csv"), popart.loggers.TensorBoard("runs/1")])
"""

import csv
import importlib
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from popart._files import replacing


class Logger(Protocol):
    """The interface that `fit` calls: after every ``log_every`` updates, and at the end of each epoch."""

    def log(self, values: Mapping[str, Any]) -> Any:
        """Record values by name; ``update`` is the number of the update, from 1 on."""


class CSV:
    """A CSV file with a line for each call, and a column for each name."""

    def __init__(self, path: str | Path, append: bool = False) -> None:
        """Start the file.

        Args:
            path: The file; it is overwritten unless `append` is true.
            append: Whether to keep the lines that the file has.
        """
        self._path, self._names = Path(path), []
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if append and self._path.exists():
            with self._path.open(newline="") as file:
                self._names = next(csv.reader(file), [])
        else:
            self._path.write_text("")

    def log(self, values: Mapping[str, Any]) -> None:
        """Add a line; a new name becomes a new column."""
        if new := [name for name in values if name not in self._names]:
            with self._path.open(newline="") as file:
                rows = list(csv.DictReader(file))
            self._names += new
            text = io.StringIO(newline="")
            writer = csv.DictWriter(text, self._names)
            writer.writeheader()
            writer.writerows(rows)
            with replacing(self._path) as file:
                file.write(text.getvalue().encode())
        with self._path.open("a", newline="") as file:
            csv.DictWriter(file, self._names).writerow(values)


class TensorBoard:
    """Scalars for TensorBoard. Needs ``tensorboard`` with PyTorch, or ``tensorboardX``."""

    def __init__(self, folder: str | Path) -> None:
        """Open the folder.

        Args:
            folder: Where the events are written.

        Raises:
            ImportError: Neither package is installed.
        """
        for module in ("torch.utils.tensorboard", "tensorboardX"):
            try:
                writer = importlib.import_module(module).SummaryWriter
                break
            except ImportError:
                continue
        else:
            raise ImportError(
                "popart.loggers.TensorBoard: a writer of events is needed: pip install tensorboardX, or tensorboard "
                "with PyTorch"
            )
        self._writer = writer(str(folder))

    def log(self, values: Mapping[str, Any]) -> None:
        """Write every number as a scalar of its update."""
        step = int(values.get("update", 0))
        for name, value in values.items():
            if name != "update" and isinstance(value, int | float):
                self._writer.add_scalar(name, value, step)
        self._writer.flush()


def logger_of(item: Any) -> Callable[[Mapping[str, Any]], Any]:
    """Convert a logger, a function, or the name of a CSV file to the function to call with values.

    Returns:
        The function.

    Raises:
        TypeError: `item` is none of these.
    """
    if isinstance(item, str | Path) and str(item).endswith(".csv"):
        return CSV(item).log
    if callable(getattr(item, "log", None)):
        return item.log
    if callable(item):
        return item
    raise TypeError(f"log: got {item!r}, expected something with log(dict), a function, or the name of a .csv file")
