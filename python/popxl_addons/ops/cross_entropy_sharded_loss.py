"""Cross entropy of logits whose classes are divided among the replicas of a group."""

import popxl
from popxl import ops
from popxl.ops.utils import emit

from popxl_addons.ops.replicated_strided_collectives import members_of


def cross_entropy_of_parts(
    logits: popxl.Tensor, indices: popxl.Tensor, group: popxl.ReplicaGrouping | None
) -> popxl.Tensor:
    """Return the loss of each sample, of shape (n,)."""
    names = [f"{logits.name}_loss", f"{logits.name}_negative_log_softmax"]
    return emit("CrossEntropySharded", {"logits": logits, "indices": indices}, names, members_of(group))[0]


def cross_entropy_sharded_loss(
    logits: popxl.Tensor,
    indices: popxl.Tensor,
    ignore_index: popxl.Tensor | None = None,
    replica_grouping: popxl.ReplicaGrouping | None = None,
    reduction: str = "mean",
    available_memory_proportion: float | None = 0.4,
) -> popxl.Tensor:
    """Return the cross entropy of logits with the class axis sharded over replicas.

    Args:
        logits: this replica's part of the classes, of shape (n, c).
        indices: labels of shape (n,), the same on all replicas, but counted from the replica's first class: 0 … c - 1
            are classes of this replica, others are classes of other replicas.
        ignore_index: label whose samples are ignored, counted like the indices.
        replica_grouping: replicas that hold the parts, default all.
        reduction: ``"mean"`` (over the samples that are not ignored), ``"sum"`` or ``"none"``.
        available_memory_proportion: hint, without effect.

    Returns:
        The loss, equal on all replicas: a scalar, with ``"none"`` of shape (n,).

    Raises:
        ValueError: the reduction is unknown.
        popart_exception: ranks are wrong, or the numbers of samples differ.
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"cross_entropy_sharded_loss: reduction: got {reduction!r}, expected 'mean', 'sum' or 'none'.")
    loss = cross_entropy_of_parts(logits, indices, replica_grouping)
    if ignore_index is None:
        return loss if reduction == "none" else ops.mean(loss) if reduction == "mean" else ops.sum(loss)
    counts = ops.cast(ops.logical_not(ops.equal(indices, ignore_index)), loss.dtype)
    loss = loss * counts
    if reduction == "none":
        return loss
    return ops.sum(loss) / ops.sum(counts) if reduction == "mean" else ops.sum(loss)
