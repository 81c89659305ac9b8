"""Matrix products with constant sparse matrices."""

from typing import TYPE_CHECKING

import numpy as np
import popxl
from popxl.ops.utils import emit_one
from scipy.stats import bernoulli

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


def dense_const_sparse_matmul(lhs: popxl.Tensor, rhs: "csr_matrix", output_cols: int) -> popxl.Tensor:
    """Multiply by a constant sparse matrix.

    Args:
        lhs: float16 or float32 tensor of shape (m, k) or (1, m, k).
        rhs: scipy matrix of shape (k, output_cols) in compressed rows; its values are stored in float32.
        output_cols: number of columns of the result.

    Returns:
        Tensor of shape (m, output_cols) or (1, m, output_cols), of the dtype of lhs. It has no gradient.

    Raises:
        RuntimeError: lhs has another dtype.
        popart_exception: shapes do not fit.
    """
    if lhs.dtype not in (popxl.float16, popxl.float32):
        raise RuntimeError(f"dense_const_sparse_matmul: lhs: got {lhs.dtype}, expected float16 or float32.")
    rhs = rhs.tocsr()
    rows = np.repeat(np.arange(rhs.shape[0]), np.diff(rhs.indptr))
    inputs = {
        "lhs": lhs,
        "values": popxl.constant(np.asarray(rhs.data, np.float32), popxl.float32, "values"),
        "places": popxl.constant((rows * output_cols + rhs.indices).astype(np.int32), popxl.int32, "places"),
    }
    return emit_one("SparseMatmul", inputs, f"{lhs.name}_matmul", {"shape": [rhs.shape[0], int(output_cols)]})


def random_sparse(dense: np.ndarray, density: float = 0.5) -> np.ndarray:
    """Set elements to zero in place with probability ``1 - density``; keep at least one.

    Args:
        dense: the array.
        density: share of elements to keep.

    Returns:
        The same array.
    """
    kept = bernoulli.rvs(density, size=dense.shape).astype(bool)
    if not kept.any():
        kept.flat[0] = True
    dense[~kept] = 0
    return dense


__all__ = ["dense_const_sparse_matmul", "random_sparse"]
