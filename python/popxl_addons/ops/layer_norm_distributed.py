"""Layer norm over an axis that lies in parts on the replicas of a group."""

import popxl
from popxl import ops

from popxl_addons.ops.replicated_all_reduce_TP import replicated_all_reduce


def layer_norm_distributed(
    t: popxl.Tensor,
    w: popxl.Tensor,
    b: popxl.Tensor,
    epsilon: float = 1e-5,
    group: popxl.ReplicaGrouping | None = None,
) -> popxl.Tensor:
    """Return ``(t - mean) / sqrt(variance + epsilon) * w + b`` with mean and variance over the whole last axis.

    Args:
        t: this replica's part, of shape (n, h).
        w: its scale, of shape (h,).
        b: its bias, of shape (h,).
        epsilon: added to the variance.
        group: replicas that hold the parts, default all.

    Returns:
        Tensor of the shape and dtype of t; statistics are computed in float32.

    Raises:
        AssertionError: wrong ranks.
    """
    assert (t.rank, w.rank, b.rank) == (2, 1, 1), f"layer_norm_distributed: got {t}, {w}, {b}, expected ranks 2, 1, 1."
    group = group or popxl.gcg().ir.replica_grouping()
    size = t.shape[1] * group.group_size
    x = ops.cast(t, popxl.float32)
    centred = x - replicated_all_reduce(ops.sum(x, 1, keepdims=True), group=group) / size
    variance = replicated_all_reduce(ops.sum(centred * centred, 1, keepdims=True), group=group) / size
    return ops.cast(centred / ops.sqrt(variance + epsilon), t.dtype) * w + b
