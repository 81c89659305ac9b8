"""Cross entropy: softmax over the last axis, then the negative log likelihood."""

import popxl
import popxl.ops as ops


def cross_entropy(
    x: popxl.Tensor, labels: popxl.Tensor, ignore_index: int | None = None, reduction: str = "mean"
) -> popxl.Tensor:
    """Return the cross entropy loss.

    Args:
        x: logits of shape (…, C).
        labels: integers of shape (…).
        ignore_index: label whose rows are ignored.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Returns:
        The loss: a scalar, with ``"none"`` the shape of labels.

    Raises:
        ValueError: the reduction is unknown.
    """
    return ops.nll_loss(ops.softmax(x, -1), labels, ignore_index, reduction)


def cross_entropy_with_grad(
    x: popxl.Tensor,
    labels: popxl.Tensor,
    loss_scaling: float | popxl.Tensor = 1,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> tuple[popxl.Tensor, popxl.Tensor]:
    """Return the cross entropy loss and the gradient of the logits.

    Args:
        x: logits of shape (…, C).
        labels: integers of shape (…).
        loss_scaling: factor of the gradient; the loss is not scaled.
        ignore_index: label whose rows are ignored.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Returns:
        (loss, gradient of shape (…, C)).

    Raises:
        ValueError: the reduction is unknown.
    """
    if not isinstance(loss_scaling, popxl.Tensor):
        loss_scaling = popxl.constant(loss_scaling, popxl.float32)
    probs = ops.softmax(x, -1)
    return ops.nll_loss_with_softmax_grad(probs, labels, loss_scaling, ignore_index, reduction)
