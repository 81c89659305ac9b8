"""Losses on any output of a model: functions that add nodes to a builder and return the id of the loss.

Formulas, arguments and reductions are those of ``torch.nn.functional``; `popart.losses` has these names.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from popart_core import (
    ReductionType,
    _binaryCrossEntropyLoss,
    _cosineEmbeddingLoss,
    _crossEntropyLoss,
    _ctcLoss,
    _hingeEmbeddingLoss,
    _hingeLoss,
    _huberLoss,
    _klDivergenceLoss,
    _meanAbsoluteErrorLoss,
    _meanSquaredErrorLoss,
    _nllLoss,
    _smoothL1Loss,
    _tripletMarginLoss,
    popart_exception,
)

from popart._arguments import flag, number, whole
from popart._arrays import as_array
from popart._loss_parts import count_of, type_of

_REDUCTIONS = {"mean": ReductionType.Mean, "sum": ReductionType.Sum, "none": ReductionType.NoReduction}


def _reduction(given: str | ReductionType, also: tuple[str, ...] = ()) -> ReductionType:
    if isinstance(given, ReductionType):
        return given
    if isinstance(given, str) and given in also:
        return ReductionType.Sum
    if not isinstance(given, str) or given not in _REDUCTIONS:
        expected = ", ".join(repr(name) for name in (*_REDUCTIONS, *also))
        raise popart_exception(f"Loss: reduction: got {given!r}, expected one of {expected}")
    return _REDUCTIONS[given]


def _factor(builder: Any, given: Any) -> str:
    """Id of a weight: the given id, or that of a constant with the values of the given array."""
    if given is None:
        return ""
    if isinstance(given, str):
        return given
    values = np.asarray(as_array(given) if not isinstance(given, list | tuple | int | float) else given, np.float32)
    return builder.aiOnnx.constant(values)


def _summed(builder: Any, loss: str, reduction: ReductionType) -> str:
    """The loss, which a trainer is told of if it is a sum."""
    is_sum = builder._loss_parts is not None and reduction == ReductionType.Sum
    return builder._loss_parts.add(builder, loss) if is_sum else loss


def _of_classes(
    builder: Any, labels: str, weight: str, ignore_index: int, reduction: ReductionType, make: Callable[..., str]
) -> str:
    """A loss of class numbers. Its mean divides by what counts: a trainer that cuts updates divides the sum itself."""
    parts = builder._loss_parts
    are_numbers = parts is not None and parts.are_cut and "INT" in type_of(builder, labels)
    if not are_numbers or reduction != ReductionType.Mean:
        return _summed(builder, make(reduction), reduction)
    return parts.add(builder, make(ReductionType.Sum), count_of(builder, labels, weight, ignore_index))


def cross_entropy(
    builder: Any,
    logits: str,
    labels: str,
    *,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    name: str = "",
) -> str:
    """Cross entropy of the softmax of logits, ``torch.nn.functional.cross_entropy``.

    Example::

        builder = popart.Builder("resnet18.onnx")
        labels = builder.addInputTensor("INT32", [16], "labels")
        loss = popart.losses.cross_entropy(builder, "logits", labels)

    Args:
        builder: The model.
        logits: Id of ``(N, C, d...)`` or ``(C)``.
        labels: Id of class numbers, integers ``(N, d...)`` or ``()``, or of probabilities, floats like the logits.
        weight: Factor of each class: an array ``(C,)`` or the id of a tensor. It does not train.
        ignore_index: Class number of rows that have no loss and do not count in the mean.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``. The loss of a session must be a scalar.
        label_smoothing: Part of each label that is spread over all classes, 0 to 1.
        name: Debug name.

    Returns:
        Id of the loss, FLOAT (DOUBLE for DOUBLE).

    Raises:
        popart_exception: A tensor is unknown, operands do not fit, or the operator set is older than 7.
    """
    factor = _factor(builder, weight)
    ignored = whole("cross_entropy: ignore_index", ignore_index)
    smoothing = number("cross_entropy: label_smoothing", label_smoothing)

    def make(joins: ReductionType) -> str:
        return _crossEntropyLoss(builder._core, logits, labels, factor, ignored, smoothing, joins, name)

    return _of_classes(builder, labels, factor, ignored, _reduction(reduction), make)


def categorical_cross_entropy(
    builder: Any,
    logits: str,
    probabilities: str,
    *,
    weight: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    name: str = "",
) -> str:
    """`cross_entropy` with the probabilities of the classes as labels, such as one-hot rows or mixed ones.

    Args:
        builder: The model.
        logits: As in `cross_entropy`.
        probabilities: Id of floats like the logits. Each row should sum to 1.
        weight: As in `cross_entropy`.
        reduction: ``"mean"`` (over the rows), ``"sum"`` or ``"none"``.
        label_smoothing: As in `cross_entropy`.
        name: Debug name.

    Returns:
        Id of the loss.

    Raises:
        popart_exception: As in `cross_entropy`.
    """
    return cross_entropy(
        builder, logits, probabilities, weight=weight, reduction=reduction, label_smoothing=label_smoothing, name=name
    )


def nll(
    builder: Any,
    log_probabilities: str,
    labels: str,
    *,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    name: str = "",
) -> str:
    """Negative log probability of the labelled class, ``torch.nn.functional.nll_loss``.

    Args:
        builder: The model.
        log_probabilities: Id of ``(N, C, d...)`` or ``(C)``, such as the output of a log softmax.
        labels: Id of class numbers ``(N, d...)`` or ``()``.
        weight: As in `cross_entropy`.
        ignore_index: As in `cross_entropy`.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        name: Debug name.

    Returns:
        Id of the loss.

    Raises:
        popart_exception: As in `cross_entropy`.
    """
    factor, ignored = _factor(builder, weight), whole("nll: ignore_index", ignore_index)

    def make(joins: ReductionType) -> str:
        return _nllLoss(builder._core, log_probabilities, labels, factor, ignored, joins, name)

    return _of_classes(builder, labels, factor, ignored, _reduction(reduction), make)


def binary_cross_entropy(
    builder: Any,
    logits: str,
    labels: str,
    *,
    weight: Any = None,
    pos_weight: Any = None,
    reduction: str = "mean",
    name: str = "",
) -> str:
    """Cross entropy of the sigmoid of logits, ``torch.nn.functional.binary_cross_entropy_with_logits``.

    Args:
        builder: The model.
        logits: Id of a tensor of any shape.
        labels: Id of numbers from 0 to 1 of the same shape, floats or integers.
        weight: Factor of each element's loss, an array or an id that broadcasts to the logits.
        pos_weight: Factor of the positive part, in the same form.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        name: Debug name.

    Returns:
        Id of the loss.

    Raises:
        popart_exception: As in `cross_entropy`.
    """
    factors = _factor(builder, weight), _factor(builder, pos_weight)
    joins = _reduction(reduction)
    return _summed(builder, _binaryCrossEntropyLoss(builder._core, logits, labels, *factors, joins, name), joins)


def mse(builder: Any, input: str, target: str, *, reduction: str = "mean", name: str = "") -> str:
    """Squared differences, ``torch.nn.functional.mse_loss``.

    Args:
        builder: The model.
        input: Id of a tensor of any shape.
        target: Id of a tensor of the same shape.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        name: Debug name.

    Returns:
        Id of the loss.

    Raises:
        popart_exception: As in `cross_entropy`.
    """
    joins = _reduction(reduction)
    return _summed(builder, _meanSquaredErrorLoss(builder._core, input, target, joins, name), joins)


def mae(builder: Any, input: str, target: str, *, reduction: str = "mean", name: str = "") -> str:
    """Absolute differences, ``torch.nn.functional.l1_loss``.

    Args:
        builder: The model.
        input: Id of a tensor of any shape.
        target: Id of a tensor of the same shape.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        name: Debug name.

    Returns:
        Id of the loss.

    Raises:
        popart_exception: As in `cross_entropy`.
    """
    joins = _reduction(reduction)
    return _summed(builder, _meanAbsoluteErrorLoss(builder._core, input, target, joins, name), joins)


def huber(builder: Any, input: str, target: str, *, delta: float = 1.0, reduction: str = "mean", name: str = "") -> str:
    """Half the square of a difference up to `delta`, linear above, ``torch.nn.functional.huber_loss``.

    Args:
        builder: The model.
        input: Id of a tensor of any shape.
        target: Id of a tensor of the same shape.
        delta: Where the linear part begins, positive.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        name: Debug name.

    Returns:
        Id of the loss.

    Raises:
        popart_exception: As in `cross_entropy`, or `delta` is not positive.
    """
    joins, delta = _reduction(reduction), number("huber: delta", delta)
    return _summed(builder, _huberLoss(builder._core, input, target, delta, joins, name), joins)


def smooth_l1(
    builder: Any, input: str, target: str, *, beta: float = 1.0, reduction: str = "mean", name: str = ""
) -> str:
    """The Huber loss with ``delta=beta``, divided by `beta`, ``torch.nn.functional.smooth_l1_loss``.

    Args:
        builder: The model.
        input: Id of a tensor of any shape.
        target: Id of a tensor of the same shape.
        beta: Where the linear part begins; 0 gives the absolute difference.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        name: Debug name.

    Returns:
        Id of the loss.

    Raises:
        popart_exception: As in `cross_entropy`, or `beta` is negative.
    """
    joins, beta = _reduction(reduction), number("smooth_l1: beta", beta)
    return _summed(builder, _smoothL1Loss(builder._core, input, target, beta, joins, name), joins)


def kl_divergence(
    builder: Any,
    input: str,
    target: str,
    *,
    from_logits: bool = False,
    log_target: bool = False,
    reduction: str = "mean",
    name: str = "",
) -> str:
    """``target * (log(target) - input)`` of the elements, ``torch.nn.functional.kl_div``.

    Args:
        builder: The model.
        input: Id of log probabilities; with `from_logits`, of logits ``(N, C, d...)`` or ``(C)``.
        target: Id of probabilities of the same shape.
        from_logits: Take the log softmax of the input over its classes first.
        log_target: The target contains logarithms of probabilities.
        reduction: ``"mean"``, ``"batchmean"`` (the sum divided by the size of dimension 0), ``"sum"`` or ``"none"``.
        name: Debug name.

    Returns:
        Id of the loss.

    Raises:
        popart_exception: As in `cross_entropy`.
    """
    by_batch = reduction == "batchmean"
    joins = _reduction(reduction, ("batchmean",))
    forms = flag("kl_divergence: from_logits", from_logits), flag("kl_divergence: log_target", log_target)
    loss = _klDivergenceLoss(builder._core, input, target, *forms, by_batch, joins, name)
    return loss if by_batch else _summed(builder, loss, joins)


def hinge(
    builder: Any, input: str, labels: str, *, margin: float = 1.0, reduction: str = "mean", name: str = ""
) -> str:
    """``max(0, margin - label * input)`` of the elements.

    Args:
        builder: The model.
        input: Id of a tensor of any shape.
        labels: Id of -1 and 1 of the same shape, floats or integers.
        margin: Distance from 0 above which there is no loss.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        name: Debug name.

    Returns:
        Id of the loss.

    Raises:
        popart_exception: As in `cross_entropy`.
    """
    joins, margin = _reduction(reduction), number("hinge: margin", margin)
    return _summed(builder, _hingeLoss(builder._core, input, labels, margin, joins, name), joins)


def hinge_embedding(
    builder: Any, input: str, labels: str, *, margin: float = 1.0, reduction: str = "mean", name: str = ""
) -> str:
    """The input where the label is 1, ``max(0, margin - input)`` where it is -1.

    ``torch.nn.functional.hinge_embedding_loss``.

    Args:
        builder: The model.
        input: Id of a tensor of any shape, such as distances.
        labels: Id of -1 and 1 of the same shape, floats or integers.
        margin: Distance above which there is no loss.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        name: Debug name.

    Returns:
        Id of the loss.

    Raises:
        popart_exception: As in `cross_entropy`.
    """
    joins, margin = _reduction(reduction), number("hinge_embedding: margin", margin)
    return _summed(builder, _hingeEmbeddingLoss(builder._core, input, labels, margin, joins, name), joins)


def cosine_embedding(
    builder: Any,
    first: str,
    second: str,
    labels: str,
    *,
    margin: float = 0.0,
    reduction: str = "mean",
    name: str = "",
) -> str:
    """``1 - cos`` of rows whose label is 1, ``max(0, cos - margin)`` where it is -1.

    ``torch.nn.functional.cosine_embedding_loss``.

    Args:
        builder: The model.
        first: Id of ``(N, D)`` or ``(D)``.
        second: Id of the same shape.
        labels: Id of -1 and 1, ``(N)`` or ``()``, floats or integers.
        margin: The cosine up to which rows of label -1 cost nothing.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        name: Debug name.

    Returns:
        Id of the loss.

    Raises:
        popart_exception: As in `cross_entropy`.
    """
    joins, margin = _reduction(reduction), number("cosine_embedding: margin", margin)
    loss = _cosineEmbeddingLoss(builder._core, [first, second, labels], margin, joins, name)
    return _summed(builder, loss, joins)


def triplet_margin(
    builder: Any,
    anchor: str,
    positive: str,
    negative: str,
    *,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
    name: str = "",
) -> str:
    """``max(0, d(anchor, positive) - d(anchor, negative) + margin)``, ``torch.nn.functional.triplet_margin_loss``.

    Args:
        builder: The model.
        anchor: Id of ``(N, D)`` or ``(D)``.
        positive: Id of the same shape.
        negative: Id of the same shape.
        margin: By how much the negative has to be further away.
        p: Order of the norm of the distance, positive.
        eps: Added to each difference.
        swap: Take the distance of negative and positive where it is the smaller one.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        name: Debug name.

    Returns:
        Id of the loss.

    Raises:
        popart_exception: As in `cross_entropy`, or `p` is not positive.
    """
    ids, joins = [anchor, positive, negative], _reduction(reduction)
    given = {"margin": margin, "p": p, "eps": eps}
    numbers = [number(f"triplet_margin: {what}", value) for what, value in given.items()]
    loss = _tripletMarginLoss(builder._core, ids, *numbers, flag("triplet_margin: swap", swap), joins, name)
    return _summed(builder, loss, joins)


def ctc(
    builder: Any,
    log_probabilities: str,
    targets: str,
    input_lengths: str,
    target_lengths: str,
    *,
    from_logits: bool = False,
    blank: int = 0,
    zero_infinity: bool = False,
    reduction: str = "mean",
    name: str = "",
) -> str:
    """Connectionist temporal classification, ``torch.nn.functional.ctc_loss``.

    Args:
        builder: The model.
        log_probabilities: Id of ``(T, N, C)``; with `from_logits`, of logits.
        targets: Id of class numbers ``(N, S)``, integers; numbers after the length of a sample are ignored.
        input_lengths: Id of ``(N)``, integers.
        target_lengths: Id of ``(N)``, integers.
        from_logits: Take the log softmax over the classes first.
        blank: Class number of the blank.
        zero_infinity: Whether the loss of samples without an alignment is 0 instead of infinity.
        reduction: ``"mean"`` (of the losses divided by the target lengths), ``"sum"`` or ``"none"``.
        name: Debug name.

    Returns:
        Id of the loss.

    Raises:
        popart_exception: As in `cross_entropy`.
    """
    ids, joins = [log_probabilities, targets, input_lengths, target_lengths], _reduction(reduction)
    from_logits, zero_infinity = flag("ctc: from_logits", from_logits), flag("ctc: zero_infinity", zero_infinity)
    loss = _ctcLoss(builder._core, ids, from_logits, whole("ctc: blank", blank, 0), zero_infinity, joins, name)
    return _summed(builder, loss, joins)
