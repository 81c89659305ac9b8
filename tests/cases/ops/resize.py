"""Cases of Resize; coordinates and weights are checked in tests/python/onnx/test_resize.py."""

import numpy as np
import torch

from tests.cases.case import Case, floats, ints


def interpolated(mode):
    """PyTorch's interpolation of (N, C, H, W) to 7 by 3."""

    def run(x):
        return torch.nn.functional.interpolate(torch.from_numpy(np.array(x)), (7, 3), mode=mode).numpy()

    return run


SIZES = {"sizes": [2, 3, 7, 3]}
IMAGE = floats(2, 3, 4, 5)
CASES = [
    Case("Resize", [IMAGE], SIZES | {"mode": "linear"}, interpolated("bilinear"), gradients=[0], name="linear"),
    Case("Resize", [IMAGE], SIZES | {"mode": "cubic"}, interpolated("bicubic"), gradients=[0], name="cubic"),
    Case(
        "Resize",
        [IMAGE],
        SIZES | {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        interpolated("nearest"),
        gradients=[0],
        name="nearest",
    ),
    Case("Resize", [floats(2, 3)], {"scales": [2.0, 3.0]}, lambda x: x.repeat(2, 0).repeat(3, 1), gradients=[0]),
    Case("Resize", [ints(2, 3)], {"scales": [2.0, 1.0]}, lambda x: x.repeat(2, 0)),
    Case("Resize", [IMAGE], {"scales": [1.0, 1.0, 0.5, 0.4], "mode": "linear", "antialias": 1}, gradients=[0]),
    Case("Resize", [floats(2, 3)], {"scales": [2.0]}, refuses="one number per axis"),
    Case("Resize", [floats(2, 3)], {"sizes": [2, -1]}, refuses="negative"),
    Case("Resize", [floats(2, 3)], {"scales": [2.0, 2.0], "mode": "area"}, refuses="mode"),
]
