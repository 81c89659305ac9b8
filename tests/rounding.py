"""How far sums may lie apart that were added in another order: for tests that compare them.

Relative to the result a sum that cancels has no bound. Its error is bounded by its terms: each addition rounds a
partial sum that is at most the sum of their magnitudes.
"""

import numpy as np


def of_sum(terms, axis=None, dtype=np.float32, steps=8):
    """Most that a sum of `terms` over `axis`, computed in `dtype`, may lie from the exact one.

    `steps` is how many roundings a term goes through: those of the terms themselves, and the depth of the additions.
    """
    return steps * float(np.finfo(dtype).eps) * np.abs(np.asarray(terms, np.float64)).sum(axis).max()
