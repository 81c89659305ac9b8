"""Readers of image sets, and division of data into the arrays of session steps.

Data sets stay in memory as bytes. The images of a step are gathered and normalised by two NumPy calls for any batch
size, so that preparing a step takes less time than training on it.
"""

from popart.data.batches import Batches
from popart.data.idx import IdxFormatError, read_idx
from popart.data.images import ImageSet, Normalisation, load_images

__all__ = ["Batches", "IdxFormatError", "ImageSet", "Normalisation", "load_images", "read_idx"]
