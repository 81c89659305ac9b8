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


def samples(low: float, high: float, bins: int, size: int, ratio: int) -> list[list[list[tuple[int, float]]]]:
    """Return by bin and sample the two elements that are read, with their weights."""
    length = max(high - low, 1.0)
    count = ratio or int(np.ceil(length / bins))
    result = []
    for b in range(bins):
        result.append([])
        for i in range(count):
            at = low + length / bins * (b + (i + 0.5) / count)
            if not -1 <= at <= size:
                result[-1].append([(0, 0.0), (0, 0.0)])
                continue
            at = min(max(at, 0), size - 1)
            element = int(at)
            result[-1].append([(element, 1 - (at - element)), (min(element + 1, size - 1), at - element)])
    return result


def roi_max(bins: tuple[int, int], ratio: int):
    """Return the oracle of mode max: the largest of elements times weights, as in onnx's reference."""

    def formula(x, rois, images):
        result = np.zeros((len(rois), x.shape[1], *bins))
        for n, ((x1, y1, x2, y2), image) in enumerate(zip(rois, images, strict=True)):
            rows = samples(y1, y2, bins[0], x.shape[2], ratio)
            columns = samples(x1, x2, bins[1], x.shape[3], ratio)
            for i, k in np.ndindex(*bins):
                taps = [(a, b) for row in rows[i] for a in row for column in columns[k] for b in column]
                terms = [wy * wx * x[image, :, at, to] for (at, wy), (to, wx) in taps]
                result[n, :, i, k] = np.max(terms, axis=0)
        return result

    return formula


IMAGE = floats(2, 3, 6, 5)
# One box is partly outside, one completely, one is a point.
BOXES = np.array(
    [[0, 0, 4, 5], [1.5, 2.25, 3.75, 4], [-3, -2, 2, 3], [3, 1, 9, 9], [20, 20, 30, 30], [2, 2, 2, 2]], np.float32
)
IMAGES = np.array([0, 1, 1, 0, 0, 1], np.int64)


def case(
    bins: tuple[int, int], scale: float, ratio: int, name: str, shift: float = 0.0, boxes: np.ndarray = BOXES
) -> Case:
    """Return a case over all boxes."""
    attributes = {"output_height": bins[0], "output_width": bins[1], "spatial_scale": scale, "sampling_ratio": ratio}
    if shift:
        attributes["coordinate_transformation_mode"] = "half_pixel"
    oracle = roi_align(bins, scale, ratio, shift)
    # float16 boxes differ where positions are at the edge of the image; so float16 is not compared with float32 boxes.
    return Case("RoiAlign", [IMAGE, boxes, IMAGES], attributes, oracle, gradients=[0], name=name)


CASES = [
    case((2, 3), 1.0, 2, "bins"),
    case((3, 2), 0.5, 1, "scaled"),
    case((2, 2), 1.0, 0, "as_many_samples_as_fit"),
    case((2, 3), 1.0, 2, "half_pixel", 0.5),
    case((2, 2), 1.0, 0, "boxes_far_larger_than_the_image", boxes=BOXES * np.float32(2048) - np.float32(3000)),
    Case("RoiAlign", [IMAGE, BOXES, IMAGES + 1], {}, fails="an index is out of range"),
    Case("RoiAlign", [floats(3, 6, 5), BOXES, IMAGES], {}, refuses="dimensions (N, C, H, W)"),
    Case("RoiAlign", [IMAGE, BOXES[:, :3], IMAGES], {}, refuses="shape (n, 4)"),
    Case("RoiAlign", [IMAGE, BOXES, IMAGES[:4]], {}, refuses="one image for each box"),
    Case(
        "RoiAlign",
        [IMAGE, BOXES, IMAGES],
        {"output_height": 2, "output_width": 3, "sampling_ratio": 2, "mode": "max"},
        roi_max((2, 3), 2),
        gradients=[0],
        name="max",
    ),
    Case(
        "RoiAlign",
        [IMAGE, BOXES, IMAGES],
        {"output_height": 3, "output_width": 2, "mode": "max"},
        roi_max((3, 2), 0),
        gradients=[0],
        name="max_as_many_samples_as_fit",
    ),
    Case("RoiAlign", [IMAGE, BOXES, IMAGES], {"mode": "min"}, refuses="unknown mode"),
]
