"""Cases of RoiAlign: each bin is rows x image x columns, for the mean of interpolation along an axis is a matrix."""

import numpy as np

from tests.cases.case import Case, floats


def axis_matrix(low: float, high: float, bins: int, size: int, ratio: int, shift: float) -> np.ndarray:
    """Return the weights (bins, size) with which the elements along an axis count in each bin."""
    start, length = low - shift, high - low
    if not shift:
        length = max(length, 1.0)
    count = ratio or int(np.ceil(length / bins))
    weights = np.zeros((bins, size))
    for b in range(bins):
        for i in range(count):
            at = start + length / bins * (b + (i + 0.5) / count)
            if -1 <= at <= size:
                at = min(max(at, 0), size - 1)
                for element in range(size):
                    weights[b, element] += max(0.0, 1 - abs(at - element)) / count
    return weights


def roi_align(bins: tuple[int, int], scale: float, ratio: int, shift: float = 0.0):
    """Return the oracle of RoiAlign with `bins` (rows, columns)."""

    def formula(x, rois, images):
        result = []
        for (x1, y1, x2, y2), image in zip(rois * scale, images, strict=True):
            rows = axis_matrix(y1, y2, bins[0], x.shape[2], ratio, shift)
            columns = axis_matrix(x1, x2, bins[1], x.shape[3], ratio, shift)
            result.append(rows @ x[image] @ columns.T)
        return np.stack(result)

    return formula


IMAGE = floats(2, 3, 6, 5)
# One lies partly outside, one wholly, one is a point.
BOXES = np.array(
    [[0, 0, 4, 5], [1.5, 2.25, 3.75, 4], [-3, -2, 2, 3], [3, 1, 9, 9], [20, 20, 30, 30], [2, 2, 2, 2]], np.float32
)
IMAGES = np.array([0, 1, 1, 0, 0, 1], np.int64)


def case(bins: tuple[int, int], scale: float, ratio: int, name: str, shift: float = 0.0) -> Case:
    """Return a case over all boxes."""
    attributes = {"output_height": bins[0], "output_width": bins[1], "spatial_scale": scale, "sampling_ratio": ratio}
    if shift:
        attributes["coordinate_transformation_mode"] = "half_pixel"
    oracle = roi_align(bins, scale, ratio, shift)
    # float16 boxes are other boxes where positions meet the edge of the image; so no float16 beside float32 boxes.
    return Case("RoiAlign", [IMAGE, BOXES, IMAGES], attributes, oracle, gradients=[0], name=name)


CASES = [
    case((2, 3), 1.0, 2, "bins"),
    case((3, 2), 0.5, 1, "scaled"),
    case((2, 2), 1.0, 0, "as_many_samples_as_fit"),
    case((2, 3), 1.0, 2, "half_pixel", 0.5),
    Case("RoiAlign", [IMAGE, BOXES, IMAGES + 1], {}, fails="an index is out of range"),
    Case("RoiAlign", [floats(3, 6, 5), BOXES, IMAGES], {}, refuses="dimensions (N, C, H, W)"),
    Case("RoiAlign", [IMAGE, BOXES[:, :3], IMAGES], {}, refuses="shape (n, 4)"),
    Case("RoiAlign", [IMAGE, BOXES, IMAGES[:4]], {}, refuses="one image for each box"),
    Case("RoiAlign", [IMAGE, BOXES, IMAGES], {"mode": "max"}, refuses="mode is not built"),
]
