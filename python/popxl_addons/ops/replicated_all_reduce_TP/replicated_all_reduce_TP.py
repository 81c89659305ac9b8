"""All-reduces with the gradients for layers whose weights are divided among replicas."""

import popxl

from popxl_addons.ops.replicated_strided_collectives import Group, all_reduce_with_gradient


def replicated_all_reduce(t: popxl.Tensor, op: str = "add", group: Group = None) -> popxl.Tensor:
    """Sum over the replicas of each group; the gradient is the sum of the gradients.

    Args:
        t: tensor of any shape.
        op: ``"add"``.
        group: replicas that take part, default all.

    Returns:
        Tensor of the shape and dtype of t.

    Raises:
        ValueError: unknown operator.
        popart_exception: the operator is not ``"add"``.
    """
    return all_reduce_with_gradient("ReplicatedAllReduceTP", t, op, group)


def replicated_all_reduce_identical_inputs(t: popxl.Tensor, op: str = "add", group: Group = None) -> popxl.Tensor:
    """Return t, which is equal on the replicas of a group; gradients are summed (start of a tensor-parallel part)."""
    return all_reduce_with_gradient("ReplicatedAllReduceTP", t, op, group, "identical_inputs")


def replicated_all_reduce_identical_grad_inputs(t: popxl.Tensor, op: str = "add", group: Group = None) -> popxl.Tensor:
    """Sum over each group; equal gradients pass unchanged (end of a tensor-parallel part)."""
    return all_reduce_with_gradient("ReplicatedAllReduceTP", t, op, group, "identical_grad_inputs")
