"""Losses of updates that are cut into parts: micro-batches and replicas.

Gradients of parts are averaged. The mean of the parts is the loss of all samples if each part is a mean over as many
elements. A sum, and a mean that does not count all elements, are multiplied by a factor, which is an input of the
program. With n parts, sums s_i and counts c_i, the loss of a part is

    a sum:   n s_i               the mean of the parts is s_1 + ... + s_n
    a mean:  n s_i / sum(c)      the mean of the parts is sum(s) / sum(c)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from popart_core import _lossInput, _lossJoin, popart_runtime_error

from popart._arguments import ArgumentError


@dataclass(frozen=True)
class PartFactor:
    """A factor of the losses of parts.

    Args:
        id: Input of the program.
        count: Tensor that counts what a mean divides by; empty: the loss is a sum.
    """

    id: str
    count: str = ""


@dataclass
class LossParts:
    """What the functions of ``popart.losses`` and `add_factor` add to a builder, for a trainer.

    Args:
        are_cut: Whether updates are cut into parts: losses get factors.
        sums: Losses that are sums.
        factors: The factors.
        whole: Pairs of tensors that have to be equal: what a mean counts, and the number of its elements.
    """

    are_cut: bool
    sums: set[str] = field(default_factory=set)
    factors: list[PartFactor] = field(default_factory=list)
    whole: list[tuple[str, str]] = field(default_factory=list)

    def add(self, builder: Any, loss: str, count: str = "") -> str:
        """Multiply a loss, which is a sum, by a factor if updates are cut.

        Args:
            builder: The model.
            loss: Id of the loss.
            count: Id of what the mean divides by; empty: the loss stays a sum.

        Returns:
            Id of the loss to use.
        """
        if self.are_cut:
            to = builder.aiOnnx
            factor = builder.addInputTensor("FLOAT", [], f"{loss}/factor")
            self.factors.append(PartFactor(factor, count))
            loss = to.mul([loss, to.cast([factor], "DOUBLE") if type_of(builder, loss) == "DOUBLE" else factor])
        if not count:
            self.sums.add(loss)
        return loss

    def counts(self) -> list[str]:
        """The tensors that `factors_of` needs of an update."""
        return [*(factor.count for factor in self.factors if factor.count), *(id for pair in self.whole for id in pair)]

    def are_undefined(self, values: Mapping[str, np.ndarray]) -> bool:
        """Whether a mean of no elements is among the losses, given the factors: it is NaN."""
        return any(not values[factor.id].any() for factor in self.factors)


def type_of(builder: Any, id: str) -> str:
    """The element type of a tensor, such as ``"FLOAT"``.

    Returns:
        The name; ``"UNDEFINED"`` if it is not known.
    """
    return _lossInput(builder._core, id)[1]


def add_factor(builder: Any, loss: str) -> str:
    """Give a loss that nodes of a file or of a function make its factor, as the functions of ``popart.losses`` do.

    Args:
        builder: The model.
        loss: Id of the loss.

    Returns:
        Id of the loss to use.

    Raises:
        ArgumentError: Updates are cut, and some terms of the loss are sums; or a term has class weights.
    """
    parts = builder._loss_parts
    if loss in parts.sums:
        return loss
    kind, counted = _lossJoin(builder._core, loss)
    if kind == "sum":
        return parts.add(builder, loss)
    if not parts.are_cut:
        return loss
    if kind == "mixed":
        raise ArgumentError(
            f"Trainer: accumulation and replicas: the loss '{loss}' adds sums over samples to means or penalties, so "
            "the losses of micro-batches cannot be joined. Make it of means, or of functions of popart.losses"
        )
    to = builder.aiOnnx
    if kind == "counted":
        labels, weight, ignored = counted[0]
        count = count_of(builder, labels, weight, ignored)
        any_counts = to.greater([count, to.constant(np.array(0, np.float32))])
        is_double = type_of(builder, loss) == "DOUBLE"
        product = to.mul([loss, to.cast([count], "DOUBLE") if is_double else count])
        nothing = to.constant(np.array(0, np.float64 if is_double else np.float32))
        return parts.add(builder, to.where([any_counts, product, nothing]), count)
    for labels, weight, ignored in counted:
        if weight:
            raise ArgumentError(
                f"Trainer: accumulation and replicas: the loss '{loss}' has a term with class weights, so the losses "
                "of micro-batches cannot be joined. Make that term with popart.losses.cross_entropy in a function, or "
                "set accumulation and replicas to 1"
            )
        size = to.cast([to.size([labels])], "FLOAT")
        parts.whole.append((count_of(builder, labels, weight, ignored), size))
    return loss


def count_of(builder: Any, labels: str, weight: str, ignore_index: int | None) -> str:
    """Add the sum of the weights of class numbers, without those that are ignored.

    Args:
        builder: The model.
        labels: Id of the class numbers.
        weight: Id of weights by class; empty: ones.
        ignore_index: Number that does not count; None: all count.

    Returns:
        Id of the sum, a FLOAT scalar.
    """
    to = builder.aiOnnx
    numbers = to.cast([labels], "INT64")
    if ignore_index is None:
        return to.reducesum([to.cast([to.gather([weight, numbers])], "FLOAT")], keepdims=0)
    is_ignored = to.equal([numbers, to.constant(np.array(ignore_index, np.int64))])
    counts = to.cast([to.logical_not([is_ignored])], "FLOAT")
    if weight:
        known = to.mul([numbers, to.cast([counts], "INT64")])
        counts = to.mul([to.cast([to.gather([weight, known])], "FLOAT"), counts])
    return to.reducesum([counts], keepdims=0)


def factors_of(parts: LossParts, counts: Mapping[str, np.ndarray], number: int) -> dict[str, np.ndarray]:
    """Compute the factors of an update.

    Args:
        parts: Of its loss.
        counts: Of all its samples.
        number: Number of parts.

    Returns:
        The values by input. Where nothing counts, the factor is 0: so are the gradients.

    Raises:
        popart_runtime_error: A term of a loss that is not of ``popart.losses`` does not count all labels.
    """
    for count, size in parts.whole:
        if number > 1 and counts[count] != counts[size]:
            raise popart_runtime_error(
                f"Trainer: the loss ignores {counts[size] - counts[count]:g} of {counts[size]:g} labels of the update, "
                "so the losses of its micro-batches cannot be joined. Make the loss with popart.losses.cross_entropy "
                "in a function, or set accumulation and replicas to 1"
            )
    values = {}
    for factor in parts.factors:
        count = float(counts[factor.count]) if factor.count else 1.0
        values[factor.id] = np.array(number / count if count else 0.0, np.float32)
    return values
