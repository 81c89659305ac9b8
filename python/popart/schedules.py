"""Learning-rate schedules: factors of an optimizer's learning rates by the number of the update.

``popart.optim`` exports the same functions::

    trainer.fit(loader, epochs=5, schedule=popart.optim.cosine(warmup=500))

Any function of the update's number is a schedule too, such as ``lambda update: 0.99**update``, the argument of
``torch.optim.lr_scheduler.LambdaLR``.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from popart._arguments import ArgumentError, number, one_of, optional, whole

Factor = Callable[[int], float]


@dataclass(frozen=True)
class Schedule:
    """A schedule. Its length may depend on the length of the training.

    Args:
        name: Name for messages.
        shape: Factor as a function of the update since the warm-up, the number of updates after it, and the updates of
            an epoch.
        warmup: Updates in which the factor grows to 1: ``(update + 1) / warmup``.
        total: Updates of the whole schedule; None: those of the training.
        needs_total: Whether the shape depends on the number of updates.
        needs_epochs: Whether the shape depends on the length of epochs.
    """

    name: str
    shape: Callable[[int, int, int], float]
    warmup: int = 0
    total: int | None = None
    needs_total: bool = True
    needs_epochs: bool = False

    def __post_init__(self) -> None:
        whole(f"schedule '{self.name}': warmup", self.warmup, 0)
        optional(whole, f"schedule '{self.name}': total", self.total, 1)

    def bind(self, total: int | None, per_epoch: int | None) -> Factor:
        """Compute the factor as a function of the update's number.

        Args:
            total: Updates of the training; None: not known.
            per_epoch: Updates of an epoch; None: not known.

        Returns:
            The function; after the end of the schedule it keeps its last value.

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
    """A constant learning rate, after a warm-up of `warmup` updates.

    Returns:
        The schedule.

    Raises:
        TypeError: `warmup` is no whole number.
        ValueError: It is negative.
    """
    return Schedule("constant", lambda at, total, epoch: 1.0, warmup, needs_total=False)


def step(
    step_size: int | Sequence[int],
    gamma: float = 0.1,
    warmup: int = 0,
    unit: Literal["epoch", "update"] = "epoch",
) -> Schedule:
    """Multiply by `gamma` at each step, as ``StepLR`` and ``MultiStepLR`` of PyTorch.

    Args:
        step_size: Distance between two steps, or a list of their positions, in units.
        gamma: The factor.
        warmup: Updates in which the learning rate first grows.
        unit: What `step_size` counts: epochs or updates. The warm-up does not count.

    Returns:
        The schedule.

    Raises:
        TypeError: An argument has another kind.
        ValueError: A step size is below 1, `gamma` is negative, or the unit is unknown.
    """
    are_positions = isinstance(step_size, Iterable)
    given = list(step_size) if isinstance(step_size, Iterable) else [step_size]
    sizes = sorted(whole("schedule 'step': step_size", size, 1) for size in given)
    if not sizes:
        raise ArgumentError(f"schedule 'step': step_size: got {step_size!r}, expected one position or more")
    factor = number("schedule 'step': gamma", gamma, 0)
    one_of("schedule 'step': unit", unit, ("epoch", "update"))

    def shape(at: int, total: int, epoch: int) -> float:
        count = at // epoch if unit == "epoch" else at
        return factor ** (sum(count >= size for size in sizes) if are_positions else count // sizes[0])

    return Schedule("step", shape, warmup, needs_total=False, needs_epochs=unit == "epoch")


def cosine(warmup: int = 0, final: float = 0.0, total: int | None = None) -> Schedule:
    """Decrease along half a cosine: ``final + (1 - final) (1 + cos(pi t / T)) / 2``, ``CosineAnnealingLR`` of PyTorch.

    Args:
        warmup: Updates in which the learning rate first grows.
        final: Factor at the end.
        total: Updates until the end, including the warm-up; None: those of the training.

    Returns:
        The schedule.

    Raises:
        TypeError: An argument has another kind.
        ValueError: A number is out of range.
    """
    number("schedule 'cosine': final", final, 0)

    def shape(at: int, length: int, epoch: int) -> float:
        return final + (1 - final) * (1 + math.cos(math.pi * at / length)) / 2

    return Schedule("cosine", shape, warmup, total)


def linear(warmup: int = 0, final: float = 0.0, total: int | None = None) -> Schedule:
    """Decrease linearly.

    Args:
        warmup: Updates in which the learning rate first grows.
        final: Factor at the end.
        total: Updates until the end, including the warm-up; None: those of the training.

    Returns:
        The schedule.

    Raises:
        TypeError: An argument has another kind.
        ValueError: A number is out of range.
    """
    number("schedule 'linear': final", final, 0)
    return Schedule("linear", lambda at, length, epoch: 1 + (final - 1) * at / length, warmup, total)


def one_cycle(
    pct_start: float = 0.3, div_factor: float = 25.0, final_div_factor: float = 1e4, total: int | None = None
) -> Schedule:
    """Increase to the learning rate, then decrease far below it: ``OneCycleLR`` of PyTorch with constant momentum.

    Args:
        pct_start: Fraction of the updates in which the learning rate increases.
        div_factor: The learning rate of the optimizer, which is the largest, is divided by this at the start.
        final_div_factor: The learning rate of the start is divided by this at the end.
        total: Updates of the cycle; None: those of the training.

    Returns:
        The schedule.

    Raises:
        TypeError: An argument has another kind.
        ValueError: A number is out of range.
    """
    number("schedule 'one_cycle': pct_start", pct_start, 0, 1)
    number("schedule 'one_cycle': div_factor", div_factor, above=0)
    number("schedule 'one_cycle': final_div_factor", final_div_factor, above=0)
    first, last = 1 / div_factor, 1 / div_factor / final_div_factor

    def between(start: float, end: float, share: float) -> float:
        return end + (start - end) / 2 * (1 + math.cos(math.pi * share))

    def shape(at: int, length: int, epoch: int) -> float:
        peak, end = pct_start * length - 1, length - 1
        if at <= peak:
            return between(first, 1.0, at / peak if peak > 0 else 1.0)
        return between(1.0, last, min(1.0, (at - peak) / (end - peak)) if end > peak else 1.0)

    return Schedule("one_cycle", shape, 0, total)


def bound(schedule: Schedule | Factor | None, total: int | None, per_epoch: int | None) -> Factor | None:
    """Convert a schedule or a function to a function of the update's number.

    Returns:
        The function; None without a schedule.

    Raises:
        TypeError: `schedule` is neither of the two.
        ValueError: As `Schedule.bind`.
    """
    if schedule is None:
        return None
    if isinstance(schedule, Schedule):
        return schedule.bind(total, per_epoch)
    if callable(schedule):
        return schedule
    raise TypeError(f"schedule: got {schedule!r}, expected one of popart.optim or a function of the update's number")
