"""GridSample, AffineGrid and their relatives against PyTorch, MaxRoiPool against ONNX Runtime; gradients."""

import itertools

import numpy as np
import popart
import pytest
import torch

from tests.python.onnx.single_node import Node, check_gradients, gradients, output_weights, runtime_values, values

RNG = np.random.default_rng(4)
MODES = {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}
PADDINGS = ("zeros", "border", "reflection")


def sample(mode, padding, corners, image=(2, 3, 5, 6), places=(4, 3), reach=1.6, opset=20):
    x = RNG.standard_normal(image).astype(np.float32)
    grid = RNG.uniform(-reach, reach, (image[0], *places, len(places))).astype(np.float32)
    attributes = {"mode": mode, "padding_mode": padding, "align_corners": corners}
    return Node("GridSample", [x, grid], attributes, opset=opset)


def torch_sample(node):
    x, grid = (torch.from_numpy(a).requires_grad_() for a in node.inputs)
    a = node.attributes
    mode = MODES[a["mode"]] if a["mode"] in MODES else a["mode"]
    y = torch.nn.functional.grid_sample(x, grid, mode, a["padding_mode"], bool(a["align_corners"]))
    return y, x, grid


@pytest.mark.parametrize(("mode", "padding", "corners"), itertools.product(MODES, PADDINGS, (0, 1)))
def test_samples_and_gradients_are_those_of_pytorch(mode, padding, corners):
    node = sample(mode, padding, corners)
    np.testing.assert_allclose(values(node)[0], torch_sample(node)[0].detach().numpy(), rtol=1e-4, atol=2e-5)
    node = node.in_double()
    y, x, grid = torch_sample(node)
    (weights,) = output_weights(node, [y.detach().numpy()])
    (y * torch.from_numpy(weights)).sum().backward()
    wanted = [0] if mode == "nearest" else [0, 1]  # rounded positions have no slope
    for got, expected in zip(gradients(node, wanted, [weights]), (x.grad, grid.grad), strict=False):
        np.testing.assert_allclose(got, expected.numpy(), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("mode", "padding", "corners"), itertools.product(("nearest", "linear"), PADDINGS, (0, 1)))
def test_volumes(mode, padding, corners):
    node = sample(mode, padding, corners, (1, 2, 3, 4, 5), (2, 3, 2))
    np.testing.assert_allclose(values(node)[0], torch_sample(node)[0].detach().numpy(), rtol=1e-4, atol=2e-5)


def test_one_dimension():
    """A row of an image of one row."""
    x, grid = RNG.standard_normal((2, 3, 7)).astype(np.float32), RNG.uniform(-1.2, 1.2, (2, 5, 1)).astype(np.float32)
    (got,) = values(Node("GridSample", [x, grid], {"mode": "linear"}, opset=20))
    flat = np.concatenate([grid, np.zeros_like(grid)], -1)[:, None]
    expected = torch.nn.functional.grid_sample(
        torch.from_numpy(x[:, :, None]), torch.from_numpy(flat), align_corners=False
    )
    np.testing.assert_allclose(got, expected.numpy()[:, :, 0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("padding", PADDINGS)
def test_far_places_and_images_of_one_pixel(padding):
    for image, reach in (((1, 1, 1, 1), 3.0), ((1, 2, 4, 3), 40.0)):
        for mode in MODES:
            node = sample(mode, padding, 0, image, reach=reach)
            np.testing.assert_allclose(values(node)[0], torch_sample(node)[0].detach().numpy(), rtol=1e-3, atol=1e-4)


def test_infinities_outside_do_not_spread():
    """Nothing of the image is multiplied by zero where the grid lies outside."""
    node = sample("linear", "zeros", 0, reach=9.0)
    x = np.full_like(node.inputs[0], np.inf)
    (got,) = values(Node("GridSample", [x, node.inputs[1]], node.attributes, opset=20))
    outside = (np.abs(node.inputs[1]) > 2).any(-1)
    np.testing.assert_array_equal(got[np.broadcast_to(outside[:, None], got.shape)], 0)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest"])
def test_version_16(mode):
    node = sample(mode, "zeros", 1, opset=16)
    np.testing.assert_allclose(values(node)[0], torch_sample(node)[0].detach().numpy(), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("change", [{"mode": "area"}, {"padding_mode": "wrap"}])
def test_refusals(change):
    node = sample("linear", "zeros", 0)
    with pytest.raises(popart.popart_exception, match=next(iter(change))):
        values(Node("GridSample", node.inputs, node.attributes | change, opset=20))


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (2, 1, 3, 2, 4), (1, 1, 1, 3)])
def test_affine_grid(size, corners):
    spatial = len(size) - 2
    theta = RNG.standard_normal((size[0], spatial, spatial + 1)).astype(np.float32)
    node = Node("AffineGrid", [theta, np.array(size)], {"align_corners": corners}, opset=20, constant=[1])
    expected = torch.nn.functional.affine_grid(torch.from_numpy(theta), list(size), bool(corners))
    np.testing.assert_allclose(values(node)[0], expected.numpy(), rtol=1e-5, atol=1e-6)
    check_gradients(node, [0])


@pytest.mark.parametrize(("group", "parts", "masked"), [(1, 1, False), (2, 1, True), (1, 2, True)])
def test_deformable_convolution(group, parts, masked):
    """A convolution of samples that PyTorch's grid_sample takes; its gradients."""
    channels, out, kernel, stride, pad, dilation = 4, 6, (3, 2), 2, 1, 2
    x = RNG.standard_normal((2, channels, 7, 8)).astype(np.float32)
    weight = RNG.standard_normal((out, channels // group, *kernel)).astype(np.float32)
    taps = kernel[0] * kernel[1]
    places = [(s + 2 * pad - dilation * (k - 1) - 1) // stride + 1 for s, k in zip((7, 8), kernel, strict=True)]
    offset = RNG.uniform(-1.3, 1.3, (2, parts * taps * 2, *places)).astype(np.float32)
    mask = RNG.random((2, parts * taps, *places)).astype(np.float32) if masked else None
    bias = RNG.standard_normal(out).astype(np.float32)
    attributes = {"group": group, "offset_group": parts, "pads": [pad] * 4}
    attributes |= {"strides": [stride] * 2, "dilations": [dilation] * 2, "kernel_shape": list(kernel)}
    node = Node("DeformConv", [x, weight, offset, bias, mask], attributes, opset=22)
    moved = offset.reshape(2, parts, *kernel, 2, *places)
    columns = np.zeros((2, channels, *kernel, *places), np.float32)
    for part in range(parts):
        own = slice(part * channels // parts, (part + 1) * channels // parts)
        for i, j in np.ndindex(*kernel):
            base = np.meshgrid(
                *[np.arange(p) * stride - pad + t * dilation for p, t in zip(places, (i, j), strict=True)],
                indexing="ij",
            )
            at = [moved[:, part, i, j, d] + base[d] for d in (0, 1)]
            grid = np.stack([2 * at[1] / 7 - 1, 2 * at[0] / 6 - 1], -1).astype(np.float32)
            taken = torch.nn.functional.grid_sample(
                torch.from_numpy(x[:, own]), torch.from_numpy(grid), align_corners=True
            )
            factor = 1 if mask is None else mask.reshape(2, parts, *kernel, *places)[:, part, i, j][:, None]
            columns[:, own, i, j] = taken.numpy() * factor
    parted = columns.reshape(2, group, channels // group, *kernel, *places)
    weights = weight.reshape(group, out // group, channels // group, *kernel)
    expected = np.einsum("ngcijhw,gocij->ngohw", parted, weights).reshape(2, out, *places) + bias.reshape(out, 1, 1)
    np.testing.assert_allclose(values(node)[0], expected, rtol=1e-4, atol=1e-4)
    check_gradients(node, [i for i, a in enumerate(node.inputs) if a is not None])


@pytest.mark.parametrize("size", [(1, 2, 6, 8), (2, 3, 9)])
def test_unpooling(size):
    x = RNG.standard_normal(size).astype(np.float32)
    pool = [torch.nn.functional.max_pool1d, torch.nn.functional.max_pool2d][len(size) - 3]
    y, places = pool(torch.from_numpy(x), 3 if len(size) == 3 else 2, return_indices=True)
    plane = int(np.prod(size[2:]))
    flat = places.numpy() + np.arange(size[0] * size[1]).reshape(size[0], size[1], *[1] * (len(size) - 2)) * plane
    kernel = [3] if len(size) == 3 else [2, 2]
    node = Node("MaxUnpool", [y.numpy(), flat], {"kernel_shape": kernel, "strides": kernel}, opset=11)
    expected = np.zeros(x.size, np.float32)
    expected[flat.ravel()] = y.numpy().ravel()
    np.testing.assert_array_equal(values(node)[0], expected.reshape(size))
    check_gradients(node, [0])


@pytest.mark.parametrize("bins", [(1, 1), (3, 2), (7, 7)])
@pytest.mark.parametrize("opset", [6, 21, 22])
def test_regions_pooled(bins, opset):
    x = RNG.standard_normal((2, 3, 11, 13)).astype(np.float32)
    corners = RNG.uniform(-3, 16, (20, 4)).astype(np.float32)
    corners[5:, 2:] += np.abs(corners[5:, :2])
    rois = np.concatenate([RNG.integers(0, 2, (20, 1)).astype(np.float32), corners], 1)
    node = Node("MaxRoiPool", [x, rois], {"pooled_shape": bins, "spatial_scale": 0.75}, opset=opset)
    expected = Node("MaxRoiPool", node.inputs, node.attributes, opset=min(opset, 21))  # ONNX Runtime has no version 22
    np.testing.assert_array_equal(values(node)[0], runtime_values(expected)[0])
    check_gradients(node, [0])
