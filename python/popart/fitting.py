"""The loop of ``Trainer.fit``: epochs, validation, schedule, checkpoints, early stop, loggers, progress."""

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from popart_core import popart_runtime_error

from popart import optim
from popart._names import nearest_names
from popart._training_sessions import facts_of
from popart.loggers import logger_of
from popart.metrics import GROWING, Metric
from popart.schedules import Factor, Schedule, bound

if TYPE_CHECKING:
    from popart.trainer import Trainer

Data = Iterable[Any] | Callable[[int], Iterable[Any]]

# Columns of every history.
_COLUMNS = ("epoch", "update", "loss", "lr", "seconds", "items_per_second")


class History(list[dict[str, Any]]):
    """The rows of the epochs; ``history["loss"]`` is a column."""

    def __getitem__(self, key: Any) -> Any:
        """Return the row with a number, or the column with a name."""
        return [row[key] for row in self] if isinstance(key, str) else super().__getitem__(key)


@dataclass
class Settings:
    """The arguments of ``Trainer.fit``."""

    epochs: int
    validate: Data | None
    metrics: Sequence[str | Metric]
    patience: int | None
    monitor: str | None
    mode: str | None
    schedule: Schedule | Factor | None
    checkpoint: Path | None
    save_every: int
    restore_best: bool
    log: Sequence[Any]
    log_every: int
    on_step: Callable[[dict[str, Any]], Any] | None
    on_epoch: Callable[[dict[str, Any]], Any] | None
    progress: bool


def require_batches(what: str, data: Any, or_function: bool = False) -> None:
    """Check data.

    Args:
        what: Function and argument, for the message.
        data: The argument.
        or_function: Whether a function of the epoch is data.

    Raises:
        TypeError: It gives no batches.
    """
    gives_batches = isinstance(data, Iterable) or hasattr(data, "__getitem__") or (or_function and callable(data))
    if isinstance(data, str | bytes) or not gives_batches:
        more = ", or a function of the epoch" if or_function else ""
        raise TypeError(f"{what}: got {data!r}, expected batches, such as a DataLoader{more}")


def _of_epoch(data: Data, epoch: int) -> Iterable[Any]:
    if hasattr(data, "set_epoch"):
        data.set_epoch(epoch)
    return data(epoch) if callable(data) else data


class Run:
    """One call of ``fit``."""

    def __init__(self, trainer: "Trainer", data: Data, settings: Settings) -> None:
        """Check the settings, and read how far the checkpoint got.

        Raises:
            popart_runtime_error: Settings contradict each other.
        """
        self._trainer, self._data, self._settings = trainer, data, settings
        require_batches("fit: data", data, or_function=True)
        if settings.validate is not None:
            require_batches("fit: validate", settings.validate, or_function=True)
        if settings.metrics and settings.validate is None:
            raise popart_runtime_error("fit: metrics are of the validation: got none. Give validate=<data>")
        if settings.schedule is not None and not isinstance(trainer.optimizer, optim.Optimizer):
            raise popart_runtime_error(
                f"fit: a schedule needs an optimizer of popart.optim: got {type(trainer.optimizer).__name__}"
            )
        self._monitor, self._sign = self._monitored()
        self._loggers = [logger_of(item) for item in settings.log]
        self._history, self._update = History(), 0
        self._best, self._waited = math.inf, 0
        self._best_state: dict[str, np.ndarray] | None = None
        self._first = (0, 0)
        self._total, self._samples = 0.0, 0  # sum of the losses of the samples of an epoch, and their number
        self._factor: Factor | None = None
        self._restored = True
        if settings.checkpoint is not None:
            settings.checkpoint.mkdir(parents=True, exist_ok=True)
            if self._last.exists():
                self._take(facts_of(self._last))

    def _monitored(self) -> tuple[str, int]:
        """The column that says which epoch is best, and the sign of what is smallest there."""
        settings = self._settings
        columns, functions = list(_COLUMNS), []
        if settings.validate is not None:
            names = self._trainer._metrics(settings.metrics).names
            columns += ["val_loss", *(f"val_{name}" for name in names)]
            functions = [f"val_{name}" for name, m in zip(names, settings.metrics, strict=True) if callable(m)]
        monitor = settings.monitor or ("loss" if settings.validate is None else "val_loss")
        if monitor not in columns:
            raise popart_runtime_error(
                f"fit: monitor: the history has no column '{monitor}'{nearest_names(monitor, columns)}"
            )
        if settings.mode not in (None, "min", "max") or (settings.mode is None and monitor in functions):
            raise popart_runtime_error(
                f"fit: mode: got {settings.mode!r} for '{monitor}', expected 'max' if its largest value is best, or "
                "'min'"
            )
        mode = settings.mode or ("max" if monitor.removeprefix("val_") in GROWING else "min")
        return monitor, -1 if mode == "max" else 1

    @property
    def _last(self) -> Path:
        assert self._settings.checkpoint is not None
        return self._settings.checkpoint / "last.safetensors"

    @property
    def _best_file(self) -> Path:
        assert self._settings.checkpoint is not None
        return self._settings.checkpoint / "best.safetensors"

    # ---- checkpoints

    def _take(self, facts: Mapping[str, Any]) -> None:
        self._first = facts["epoch"], facts["step"]
        self._update, self._best, self._waited = facts["update"], facts["best"], facts["waited"]
        self._total, self._samples = facts["total"], facts["samples"]
        self._history = History(facts["history"])
        self._restored = False

    def _save(self, path: Path, epoch: int, step: int) -> None:
        facts = {
            "epoch": epoch,
            "step": step,
            "update": self._update,
            "best": self._best,
            "waited": self._waited,
            "total": self._total,
            "samples": self._samples,
            "history": list(self._history),
        }
        self._trainer.save_state(path, facts)

    def _restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restore the checkpoint; called with the first batch, whose shapes decide which program is needed."""
        if not self._restored:
            self._trainer._prepared(arrays)
            self._trainer.load_state(self._last)
            self._restored = True

    # ---- data

    def _updates(self, data: Iterable[Any]) -> Iterator[dict[str, np.ndarray]]:
        """The arrays of each update: those of as many batches as the update has micro-batches."""
        trainer = self._trainer
        batches = (trainer._feed.arrays(batch) for batch in data)
        while chosen := list(itertools.islice(batches, trainer._division.usual[0])):
            yield trainer._division.joined(chosen)

    def _length(self, data: Iterable[Any]) -> int | None:
        """Number of updates of an epoch; None if the data has no length."""
        if not isinstance(data, Sized):
            return None
        return -(-len(data) // self._trainer._division.usual[0])

    # ---- the loop

    def run(self) -> History:
        """Train.

        Returns:
            The history, with the rows of the checkpoint.
        """
        settings = self._settings
        first_epoch, first_step = self._first
        for epoch in range(first_epoch, settings.epochs):
            if self._is_patience_over():
                break
            data = _of_epoch(self._data, epoch)
            length = self._length(data)
            if self._factor is None:
                total = None if length is None else length * settings.epochs
                self._factor = bound(settings.schedule, total, length)
            going = self._epoch(epoch, first_step if epoch == first_epoch else 0, data, length)
            if not going:
                break
        if not self._restored:  # nothing was left to do
            for arrays in itertools.islice(self._updates(_of_epoch(self._data, first_epoch)), 1):
                self._restore(arrays)
        if settings.restore_best:
            self._bring_best()
        return self._history

    def _epoch(self, epoch: int, skip: int, data: Iterable[Any], length: int | None) -> bool:
        """Run one epoch; returns False to stop."""
        from tqdm import tqdm

        settings, trainer = self._settings, self._trainer
        samples, start = 0, time.perf_counter()
        label = f"epoch {epoch + 1}/{settings.epochs}"
        stopped, step = False, skip
        with tqdm(total=length, initial=skip, desc=label, unit="step", disable=not settings.progress) as shown:
            for step, arrays in enumerate(self._updates(data)):
                self._restore(arrays)
                if step < skip:
                    continue
                rate = self._set_rate()
                loss = trainer._step(arrays)
                size = trainer.samples(arrays)
                samples += size
                self._total, self._samples = self._total + trainer._of_samples(loss, size), self._samples + size
                self._update += 1
                seconds = time.perf_counter() - start
                shown.set_postfix_str(f"loss {loss:.4f}, {samples / seconds:.1f} items/s", refresh=False)
                shown.update()
                if not self._after_step(epoch, step, loss, rate):
                    stopped = True
                    break
        if self._samples == 0:
            raise popart_runtime_error(f"fit: the data of epoch {epoch + 1} has no batches")
        if stopped:
            if settings.checkpoint is not None:
                self._save(self._last, epoch, step + 1)
            return False
        seconds = time.perf_counter() - start
        row = {
            "epoch": epoch + 1,
            "update": self._update,
            "loss": self._total / self._samples,
            "lr": self._rate(),
            "seconds": seconds,
            "items_per_second": samples / seconds,
        }
        self._total, self._samples = 0.0, 0
        return self._end_of_epoch(epoch, row)

    def _rate(self) -> float | None:
        optimizer = self._trainer.optimizer
        return optimizer.lr * optimizer.lr_factor if isinstance(optimizer, optim.Optimizer) else None

    def _set_rate(self) -> float | None:
        if self._factor is not None:
            self._trainer.optimizer.lr_factor = self._factor(self._update)
        return self._rate()

    def _after_step(self, epoch: int, step: int, loss: float, rate: float | None) -> bool:
        """Callback, loggers and checkpoint after an update; returns False to stop."""
        settings = self._settings
        if settings.log_every and self._update % settings.log_every == 0:
            self._log({"epoch": epoch + 1, "update": self._update, "loss": loss, "lr": rate})
        now = {"epoch": epoch, "step": step, "update": self._update, "loss": loss, "lr": rate}
        if settings.on_step is not None and settings.on_step({**now, "results": self._trainer.results}) is False:
            return False
        if settings.checkpoint is not None and settings.save_every and (step + 1) % settings.save_every == 0:
            self._save(self._last, epoch, step + 1)
        return True

    def _end_of_epoch(self, epoch: int, row: dict[str, Any]) -> bool:
        """Validation, best epoch, checkpoint, loggers and callback; returns False to stop."""
        settings = self._settings
        if settings.validate is not None:
            values = self._trainer.evaluate(_of_epoch(settings.validate, epoch), settings.metrics)
            row.update({f"val_{name}": value for name, value in values.items()})
        self._history.append(row)
        is_best = self._is_best(row)
        if settings.checkpoint is not None:
            if is_best:
                self._save(self._best_file, epoch + 1, 0)
            self._save(self._last, epoch + 1, 0)
        elif is_best and settings.restore_best:
            self._best_state = self._trainer._sessions.values()
        self._log(row)
        if settings.on_epoch is not None and settings.on_epoch(dict(row)) is False:
            return False
        return not self._is_patience_over()

    def _is_best(self, row: Mapping[str, Any]) -> bool:
        measure = self._sign * float(row[self._monitor])
        if measure < self._best:
            self._best, self._waited = measure, 0
            return True
        self._waited += 1
        return False

    def _is_patience_over(self) -> bool:
        return self._settings.patience is not None and self._waited >= max(1, self._settings.patience)

    def _bring_best(self) -> None:
        if self._settings.checkpoint is not None and self._best_file.exists():
            self._trainer.load_state(self._best_file)
        elif self._best_state is not None:
            self._trainer._sessions.write(self._best_state)

    def _log(self, values: Mapping[str, Any]) -> None:
        for log in self._loggers:
            log(dict(values))
