"""Layer norm over an axis that is divided among the replicas of a group."""

import popxl
from popxl.ops.utils import emit

from popxl_addons.ops.replicated_strided_collectives import members_of


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
        AssertionError: a rank is wrong.
        popart_exception: w or b has a wrong number of elements.
    """
    assert (t.rank, w.rank, b.rank) == (2, 1, 1), f"layer_norm_distributed: got {t}, {w}, {b}, expected ranks 2, 1, 1."
    names = [f"{t.name}_layer_norm", f"{t.name}_mean", f"{t.name}_inv_std_dev"]
    attributes = {**members_of(group), "epsilon": float(epsilon)}
    return emit("LayerNormDistributed", {"t": t, "w": w, "b": b}, names, attributes)[0]


__all__ = ["layer_norm_distributed"]
