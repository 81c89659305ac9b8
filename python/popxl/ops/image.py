"""Ops on images of shape (N, C, H, W)."""

from collections.abc import Sequence

from popxl.ops.utils import emit_one
from popxl.tensor import Tensor

_MODES = ("nearest", "linear", "cubic")
_NEAREST_MODES = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_COORDINATE_MODES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize")


def interpolate(
    t: Tensor,
    scale_factor: Sequence[float] = (1.0, 1.0, 1.0, 1.0),
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
    coordinate_transformation_mode: str = "half_pixel",
) -> Tensor:
    """Resize by a scale per dimension.

    Args:
        t: tensor of any shape.
        scale_factor: one scale per dimension; new sizes are floor(size * scale).
        mode: ``"nearest"``, ``"linear"`` or ``"cubic"``.
        nearest_mode: rounding rule of mode ``"nearest"``.
        coordinate_transformation_mode: how coordinates of the output map to those of the input.

    Returns:
        Tensor of the new sizes and the dtype of t (ONNX Resize-11).

    Raises:
        ValueError: unknown mode.
        popart_exception: there is not exactly one positive scale for each dimension.
    """
    for what, value, allowed in (
        ("mode", mode, _MODES),
        ("nearest_mode", nearest_mode, _NEAREST_MODES),
        ("coordinate_transformation_mode", coordinate_transformation_mode, _COORDINATE_MODES),
    ):
        if value not in allowed:
            raise ValueError(f"{what}: got {value!r}, expected one of {', '.join(allowed)}.")
    attributes = {
        "scales": [float(s) for s in scale_factor],
        "mode": mode,
        "nearest_mode": nearest_mode,
        "coordinate_transformation_mode": coordinate_transformation_mode,
    }
    return emit_one("Resize", {"t": t}, "interpolate_out", attributes)


def roi_align(
    t: Tensor,
    rois: Tensor,
    batch_index: Tensor,
    output_size: tuple[int, int],
    spatial_scale: float,
    sampling_ratio: int,
) -> Tensor:
    """Average-pool regions of interest (n, 4) of t into (n, C, *output_size) (ONNX RoiAlign-10).

    Args:
        t: the tensor.
        rois: boxes (x1, y1, x2, y2), shape (R, 4).
        batch_index: image of each box, shape (R,).
        output_size: height and width of the result of each region.
        spatial_scale: factor that converts coordinates of boxes to positions in t.
        sampling_ratio: samples per cell and axis; 0: depends on the size of the region.

    Returns:
        Tensor of shape (n, C, *output_size) and the dtype of t.

    Raises:
        popart_exception: the rank of t is not 4, or the shapes of the boxes and their image numbers are wrong. An image
            number out of range ends the run with popart_runtime_error.
    """
    attributes = {
        "output_height": int(output_size[0]),
        "output_width": int(output_size[1]),
        "spatial_scale": float(spatial_scale),
        "sampling_ratio": int(sampling_ratio),
    }
    inputs = {"t": t, "rois": rois, "batch_index": batch_index}
    return emit_one("RoiAlign", inputs, "roi_align_out", attributes)
