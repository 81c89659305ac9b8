"""A hint about the place of a tensor in memory."""

import popxl
from popxl.ops.utils import emit_one


def linear_layout(t: popxl.Tensor, bs: int = 1) -> popxl.Tensor:
    """Return t; on IPUs its elements lie in blocks spread over the tiles in order.

    Args:
        t: tensor of any shape.
        bs: elements of a block; no effect here.

    Returns:
        Tensor of the shape, dtype and values of t; gradients pass.
    """
    return emit_one("LinearLayout", {"t": t}, f"{t.name}_linear_layout", {"block_size": int(bs)})


__all__ = ["linear_layout"]
