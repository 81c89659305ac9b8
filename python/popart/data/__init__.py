"""Reading image sets and cutting them into the arrays that sessions take.

Data sets stay in memory as bytes; a step's images are gathered and normalised with two NumPy calls, whatever the batch
size, so that feeding a session costs less than training on the data.
"""

from popart.data.batches import Batches
from popart.data.idx import IdxFormatError, read_idx
from popart.data.images import ImageSet, Normalisation, load_images

__all__ = ["Batches", "IdxFormatError", "ImageSet", "Normalisation", "load_images", "read_idx"]
