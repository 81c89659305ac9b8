"""Learning-rate schedules: factors of an optimizer's learning rates by the number of the update.

``popart.optim`` has them too::

    trainer.fit(loader, epochs=5, schedule=popart.optim.cosine(warmup=500))

A function of the update's number, such as ``lambda update: 0.99**update``, is a schedule as well, as the function of
``torch.optim.lr_scheduler.LambdaLR``.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

Factor = Callable[[int], float]


@dataclass(frozen=True)
class Schedule:
    """A schedule whose length may be that of the training.

    Args:
        name: For people.
        shape: The factor by update since the warm-up, updates after the warm-up and updates of an epoch.
        warmup: Updates in which the factor grows to 1: ``(update + 1) / warmup``.
        total: Updates of the whole schedule; None: those of the training.
        needs_total: Whether the shape depends on it.
        needs_epochs: Whether the shape depends on the length of epochs.
    """

    name: str
    shape: Callable[[int, int, int], float]
    warmup: int = 0
    total: int | None = None
    needs_total: bool = True
    needs_epochs: bool = False

    def __post_init__(self) -> None:
        if self.warmup < 0:
            raise ValueError(f"schedule '{self.name}': invalid warmup: got {self.warmup}, expected 0 or more updates")

    def bind(self, total: int | None, per_epoch: int | None) -> Factor:
        """The factor as a function of the update's number.

        Args:
            total: Updates of the training; None: not known.
            per_epoch: Updates of an epoch; None: not known.

        Returns:
            The function; behind the end of the schedule it stays at its last value.

        Raises:
            ValueError: The shape needs a number that is not known.
        """
        total = self.total if self.total is not None else total
        if self.needs_total and total is None:
            raise ValueError(
                f"schedule '{self.name}': the data does not say how many batches it has. Give total=<updates>"
            )
        if self.needs_epochs and per_epoch is None:
            raise ValueError(
                f"schedule '{self.name}': the data does not say how many batches an epoch has. Give unit='update'"
            )
        length = max(1, (total or 1) - self.warmup)

        def factor(update: int) -> float:
            if update < self.warmup:
                return (update + 1) / self.warmup
            at = update - self.warmup
            return self.shape(min(at, length) if self.needs_total else at, length, per_epoch or 1)

        return factor


def constant(warmup: int = 0) -> Schedule:
    """The learning rate as it is, after a warm-up.

    Returns:
        The schedule.
    """
    return Schedule("constant", lambda at, total, epoch: 1.0, warmup, needs_total=False)


def step(
    step_size: int | Sequence[int],
    gamma: float = 0.1,
    warmup: int = 0,
    unit: Literal["epoch", "update"] = "epoch",
) -> Schedule:
    """Multiply by `gamma` again and again, as ``StepLR`` and ``MultiStepLR`` of PyTorch.

    Args:
        step_size: How often, or after how many of the unit each time.
        gamma: The factor.
        warmup: Updates in which the learning rate grows first.
        unit: What `step_size` counts: epochs or updates. The warm-up does not count.

    Returns:
        The schedule.

    Raises:
        ValueError: A step size below 1, or another unit.
    """
    sizes = [step_size] if isinstance(step_size, int) else sorted(step_size)
    if unit not in ("epoch", "update") or not sizes or sizes[0] < 1:
        raise ValueError(
            f"schedule 'step': got step_size {step_size} and unit '{unit}', expected 1 or more of 'epoch' or 'update'"
        )

    def shape(at: int, total: int, epoch: int) -> float:
        count = at // epoch if unit == "epoch" else at
        drops = count // sizes[0] if isinstance(step_size, int) else sum(count >= size for size in sizes)
        return gamma**drops

    return Schedule("step", shape, warmup, needs_total=False, needs_epochs=unit == "epoch")


def cosine(warmup: int = 0, final: float = 0.0, total: int | None = None) -> Schedule:
    """Fall along half a cosine, as ``CosineAnnealingLR`` of PyTorch: ``final + (1 - final) (1 + cos(pi t / T)) / 2``.

    Args:
        warmup: Updates in which the learning rate grows first.
        final: Factor at the end.
        total: Updates until the end, warm-up included; None: those of the training.

    Returns:
        The schedule.
    """

    def shape(at: int, length: int, epoch: int) -> float:
        return final + (1 - final) * (1 + math.cos(math.pi * at / length)) / 2

    return Schedule("cosine", shape, warmup, total)


def linear(warmup: int = 0, final: float = 0.0, total: int | None = None) -> Schedule:
    """Fall along a line.

    Args:
        warmup: Updates in which the learning rate grows first.
        final: Factor at the end.
        total: Updates until the end, warm-up included; None: those of the training.

    Returns:
        The schedule.
    """
    return Schedule("linear", lambda at, length, epoch: 1 + (final - 1) * at / length, warmup, total)


def one_cycle(
    pct_start: float = 0.3, div_factor: float = 25.0, final_div_factor: float = 1e4, total: int | None = None
) -> Schedule:
    """Rise to the learning rate and fall far below it, as ``OneCycleLR`` of PyTorch without a cycle of the momentum.

    Args:
        pct_start: Share of the updates that rise.
        div_factor: The learning rate begins with this fraction of its largest value, which is the optimizer's.
        final_div_factor: It ends with this fraction of the one it began with.
        total: Updates of the cycle; None: those of the training.

    Returns:
        The schedule.
    """
    first, last = 1 / div_factor, 1 / div_factor / final_div_factor

    def between(start: float, end: float, share: float) -> float:
        return end + (start - end) / 2 * (1 + math.cos(math.pi * share))

    def shape(at: int, length: int, epoch: int) -> float:
        peak, end = pct_start * length - 1, length - 1
        if at <= peak:
            return between(first, 1.0, at / peak)
        return between(1.0, last, min(1.0, (at - peak) / (end - peak)) if end > peak else 1.0)

    return Schedule("one_cycle", shape, 0, total)


def bound(schedule: Schedule | Factor | None, total: int | None, per_epoch: int | None) -> Factor | None:
    """The factor of a schedule, or of a function, as a function of the update.

    Returns:
        It; None without a schedule.

    Raises:
        TypeError: Something else.
        ValueError: As `Schedule.bind`.
    """
    if schedule is None:
        return None
    if isinstance(schedule, Schedule):
        return schedule.bind(total, per_epoch)
    if callable(schedule):
        return schedule
    raise TypeError(f"schedule: got {schedule!r}, expected one of popart.optim or a function of the update's number")
