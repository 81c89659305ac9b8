"""A hint about the memory layout of a tensor."""

import popxl
from popxl.ops.utils import emit_one


def linear_layout(t: popxl.Tensor, bs: int = 1) -> popxl.Tensor:
    """Return t; on IPUs its elements are stored in blocks that are spread over the tiles in order.

    Args:
        t: tensor of any shape.
        bs: elements of a block; no effect here.

    Returns:
        Tensor of the shape, dtype and values of t; the gradient passes unchanged.
    """
    return emit_one("LinearLayout", {"t": t}, f"{t.name}_linear_layout", {"block_size": int(bs)})


__all__ = ["linear_layout"]
