"""Labelled image sets in the files of MNIST, and the normalisation of their pixels."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import popart_core

from popart.data.idx import read_idx

_PREFIX = {"train": "train", "test": "t10k"}


@dataclass(frozen=True)
class Normalisation:
    """Pixels 0..255 become ``(pixel / 255 - mean) / std``.

    Attributes:
        mean: Subtracted after scaling to 0..1.
        std: Divisor.
    """

    mean: float
    std: float

    @classmethod
    def of(cls, images: np.ndarray) -> "Normalisation":
        """Mean and standard deviation over all pixels of uint8 `images`, from their histogram."""
        counts = np.bincount(images.reshape(-1), minlength=256).astype(np.float64)
        levels = np.arange(256) / 255.0
        mean = float(counts @ levels / counts.sum())
        return cls(mean, float(np.sqrt(counts @ (levels - mean) ** 2 / counts.sum())) or 1.0)

    def table(self) -> np.ndarray:
        """The normalised value of each pixel value: float32 ``(256,)``."""
        return ((np.arange(256) / 255.0 - self.mean) / self.std).astype(np.float32)


@dataclass(frozen=True)
class ImageSet:
    """Grey images and their classes.

    Attributes:
        images: uint8 ``(N, H, W)``.
        labels: int32 ``(N,)``.
    """

    images: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.images)

    def first(self, count: int) -> "ImageSet":
        """The first `count` images, or all if there are fewer."""
        return ImageSet(self.images[:count], self.labels[:count])


def _find(folder: Path, stem: str, rank: int) -> Path:
    names = [f"{stem}{separator}idx{rank}-ubyte{ending}" for separator in "-." for ending in ("", ".gz")]
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(f"image set '{folder}': none of the files {', '.join(names)} is there.")


def load_images(folder: str | Path, part: Literal["train", "test"]) -> ImageSet:
    """Load one part of an image set stored in MNIST's files (``train-images-idx3-ubyte`` ..., gzip or not).

    Args:
        folder: Folder with the files.
        part: ``"train"`` or ``"test"``.

    Returns:
        Images ``(N, H, W)`` and labels ``(N,)``.

    Raises:
        FileNotFoundError: A file is missing.
        IdxFormatError: A file is damaged or has the wrong rank.
        popart_exception: No images, or images and labels differ in number or type.
    """
    folder = Path(folder)
    images = read_idx(_find(folder, f"{_PREFIX[part]}-images", 3), rank=3)
    labels = read_idx(_find(folder, f"{_PREFIX[part]}-labels", 1), rank=1)
    if images.dtype != np.uint8 or labels.dtype != np.uint8:
        raise popart_core.popart_exception(
            f"image set '{folder}': wrong types: got {images.dtype} and {labels.dtype}, expected uint8 and uint8."
        )
    if len(images) != len(labels) or images.size == 0:
        raise popart_core.popart_exception(
            f"image set '{folder}': images and labels do not fit: got shapes {images.shape} and {labels.shape}, "
            "expected (N, H, W) and (N,) with the same N above 0."
        )
    return ImageSet(images, labels.astype(np.int32))
