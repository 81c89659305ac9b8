"""Cases of MaxRoiPool: the largest element of each bin, whose bounds are whole elements."""

import numpy as np

from tests.cases.case import Case, floats

IMAGE = floats(2, 3, 6, 5)
# (image, x1, y1, x2, y2): whole, halves, partly outside, wholly outside, one element, upside down
BOXES = np.array(
    [
        [0, 0, 0, 4, 5],
        [1, 1.5, 2.5, 3.25, 4],
        [1, -3, -2, 2, 3],
        [0, 3, 1, 9, 9],
        [0, 20, 20, 30, 30],
        [1, 2, 2, 2, 2],
        [1, 4, 4, 1, 1],
    ],
    np.float32,
)


def half_away(x: float) -> int:
    """Round halves away from zero."""
    return int(np.sign(x) * np.floor(abs(x) + 0.5))


def bounds(low: float, high: float, bins: int, size: int) -> list[slice]:
    """Return the elements of each bin along an axis."""
    first, last = half_away(low), half_away(high)
    length = max(last - first + 1, 1)
    edges = [(first + b * length // bins, first - (-(b + 1) * length // bins)) for b in range(bins)]
    return [slice(min(max(a, 0), size), min(max(b, 0), size)) for a, b in edges]


def roi_pool(bins: tuple[int, int], scale: float):
    """Return the oracle of MaxRoiPool with `bins` (rows, columns)."""

    def formula(x, rois):
        result = np.zeros((len(rois), x.shape[1], *bins))
        for n, (image, x1, y1, x2, y2) in enumerate(rois):
            rows = bounds(y1 * scale, y2 * scale, bins[0], x.shape[2])
            columns = bounds(x1 * scale, x2 * scale, bins[1], x.shape[3])
            for i, j in np.ndindex(*bins):
                part = x[int(image), :, rows[i], columns[j]]
                if part.size:
                    result[n, :, i, j] = part.max((1, 2))
        return result

    return formula


def case(bins: tuple[int, int], scale: float, name: str) -> Case:
    """Return a case over all boxes."""
    attributes = {"pooled_shape": list(bins), "spatial_scale": scale}
    return Case("MaxRoiPool", [IMAGE, BOXES], attributes, roi_pool(bins, scale), gradients=[0], name=name)


BINS = {"pooled_shape": [2, 3]}
OTHER_IMAGE = BOXES + np.array([1, 0, 0, 0, 0], np.float32)
CASES = [
    case((2, 3), 1.0, "bins"),
    case((4, 2), 0.5, "scaled"),
    case((1, 1), 2.0, "larger"),
    case((7, 8), 1.0, "more_bins_than_elements"),
    Case("MaxRoiPool", [IMAGE, OTHER_IMAGE], BINS, fails="an index is out of range", name="another_image"),
    Case("MaxRoiPool", [IMAGE, BOXES * np.float32("nan")], BINS, fails="an index is out of range"),
    Case("MaxRoiPool", [floats(3, 6, 5), BOXES], BINS, refuses="dimensions (N, C, H, W)"),
    Case("MaxRoiPool", [IMAGE, BOXES[:, :4]], BINS, refuses="shape (n, 5)"),
    Case("MaxRoiPool", [IMAGE, BOXES], {"pooled_shape": [2]}, refuses="pooled_shape must be (rows, columns)"),
    Case("MaxRoiPool", [IMAGE, BOXES], {"pooled_shape": [2, 0]}, refuses="pooled_shape must be between"),
    Case("MaxRoiPool", [IMAGE, BOXES], {**BINS, "spatial_scale": -1.0}, refuses="spatial_scale must be positive"),
]
