"""The square of a gradient's norm."""

import popxl
from popxl.ops.utils import emit_one


def grad_reduce_square_add(t: popxl.Tensor, loss_scaling: int | float | popxl.Tensor) -> popxl.Tensor:
    """Return ``sum(t^2) / loss_scaling^2``, summed in float32.

    Args:
        t: float tensor of any shape.
        loss_scaling: factor by which the gradient is scaled; a number or a float scalar.

    Returns:
        float32 scalar. It has no gradient.

    Raises:
        popart_exception: the scaling is not a scalar.
    """
    if not isinstance(loss_scaling, popxl.Tensor):
        loss_scaling = popxl.constant(loss_scaling, popxl.float32)
    inputs = {"t": t, "loss_scaling": loss_scaling}
    return emit_one("GradReduceSquareAdd", inputs, f"{t.name}_square_sum")


__all__ = ["grad_reduce_square_add"]
