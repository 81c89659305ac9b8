"""Resize and Upsample against ONNX's reference, ONNX Runtime, PyTorch and finite differences."""

import itertools

import numpy as np
import popart
import pytest
import torch
from onnx.reference import ReferenceEvaluator

from tests.python.onnx.single_node import Node, check_gradients, gradients, runtime_values, values
from tests.python.popart.training_runs import ready, training_session

RNG = np.random.default_rng(7)
X = RNG.standard_normal((1, 2, 5, 6)).astype(np.float32)
TRANSFORMATIONS = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"]
SCALES = [(1.0, 1.0, 1.7, 0.6), (1.0, 1.0, 2.0, 3.0), (1.0, 1.0, 0.5, 0.34)]
NEAREST = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]


def resize(scales=None, sizes=None, roi=None, opset=19, x=X, **attributes):
    """A Resize node whose sizes are constants."""
    given = [
        x,
        None if roi is None else np.array(roi, np.float32),
        None if scales is None else np.array(scales, np.float32),
        None if sizes is None else np.array(sizes, np.int64),
    ]
    return Node("Resize", given, attributes, opset=opset, constant=(1, 2, 3))


def reference_values(node):
    """What ONNX's own reference computes."""
    model = node.model(variables=False)
    names = [i.name for i in model.graph.input]
    return ReferenceEvaluator(model).run(None, dict(zip(names, node.streams(), strict=True)))


def check(node):
    for got, expected in zip(values(node), reference_values(node), strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
def test_values_by_coordinate(transformation, scales):
    for mode, exclude in itertools.product(("nearest", "linear", "cubic"), (0, 1)):
        if mode == "cubic" or not exclude:
            attributes = {"mode": mode, "exclude_outside": exclude, "cubic_coeff_a": -0.5 if exclude else -0.75}
            check(resize(scales, coordinate_transformation_mode=transformation, **attributes))
    for mode in NEAREST:
        check(resize(scales, coordinate_transformation_mode=transformation, mode="nearest", nearest_mode=mode))
    for mode in ("linear", "cubic"):
        check(resize(scales, coordinate_transformation_mode=transformation, mode=mode, antialias=1))


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_sizes_axes_and_policies(mode):
    check(resize(sizes=(1, 2, 7, 4), mode=mode))
    check(resize(sizes=(7, 4), mode=mode, axes=[2, 3]))
    check(resize(scales=(2.5, 0.7), mode=mode, axes=[3, 2]))
    for policy in ("stretch", "not_larger", "not_smaller"):
        check(resize(sizes=(9, 8), mode=mode, axes=[2, 3], keep_aspect_ratio_policy=policy))


IMAGES = [(1, 3, 1, 1), (2, 3, 1, 4), (1, 3, 4, 1), (1, 1, 1, 1)]


# Cubic interpolation is defined for images alone.
@pytest.mark.parametrize(
    ("shape", "mode"),
    [*itertools.product([*IMAGES, (1, 2, 1, 1, 1)], ("nearest", "linear")), *((shape, "cubic") for shape in IMAGES)],
)
def test_axes_of_one_element(shape, mode):
    """One pixel becomes an image, as behind a global pool; a line becomes several."""
    sizes = (*shape[:2], *(3 + i for i in range(len(shape) - 2)))
    x = RNG.standard_normal(shape).astype(np.float32)
    for transformation in TRANSFORMATIONS:
        check(resize(sizes=sizes, x=x, mode=mode, coordinate_transformation_mode=transformation))
    check_gradients(resize(sizes=sizes, x=x, mode=mode), [0])
    image = RNG.standard_normal(sizes).astype(np.float32)
    check(resize(sizes=(*shape[:2], *[1] * (len(shape) - 2)), x=image, mode=mode))


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_crops(mode):
    """Parts outside of the input have the extrapolation value; the gradient does not reach them."""
    roi = (0, 0, -0.3, 0.2, 1, 1, 0.9, 1.4)
    node = resize(
        sizes=(1, 2, 4, 7), roi=roi, mode=mode, extrapolation_value=9.0,
        coordinate_transformation_mode="tf_crop_and_resize",
    )  # fmt: skip
    check(node)
    check_gradients(node, [0])


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.int32, np.float16, np.float64])
def test_element_types(kind):
    x = (abs(X) * 100).clip(0, 255).astype(kind) if kind == np.uint8 else (X * 60).clip(-128, 127).astype(kind)
    check(resize((1, 1, 2, 0.5), x=x, mode="nearest"))
    for mode in ("linear", "cubic"):
        node = resize((1, 1, 1.7, 0.5), x=x, mode=mode)
        (got,), (expected,) = values(node), reference_values(node)
        assert got.dtype == expected.dtype
        # The reference has weights of cubic in float32.
        off = 1 if np.dtype(kind).kind in "iu" else 2e-3 if kind == np.float16 else 1e-5 if mode == "cubic" else 1e-12
        off *= 1 if np.dtype(kind).kind in "iu" else abs(x).max()
        assert (abs(got.astype(np.float64) - expected.astype(np.float64)) <= off).all()


@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_gradients_are_those_of_finite_differences(mode, transformation, scales):
    check_gradients(resize(scales, mode=mode, coordinate_transformation_mode=transformation), [0])
    if mode != "nearest":
        check_gradients(resize(scales, mode=mode, coordinate_transformation_mode=transformation, antialias=1), [0])


@pytest.mark.parametrize(
    ("mode", "options"),
    [
        ("nearest", {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
        ("bilinear", {"mode": "linear"}),
        ("bilinear", {"mode": "linear", "antialias": 1, "exclude_outside": 1}),
        ("bicubic", {"mode": "cubic"}),
    ],
)
@pytest.mark.parametrize("size", [(10, 12), (3, 4), (8, 5)])
def test_values_and_gradients_are_those_of_pytorch(mode, options, size):
    x = torch.from_numpy(X).requires_grad_()
    antialias = {"antialias": True} if "antialias" in options else {}
    y = torch.nn.functional.interpolate(x, size, mode=mode, **antialias)
    if antialias and mode == "bicubic":
        options = options | {"cubic_coeff_a": -0.5}
    node = resize(sizes=(1, 2, *size), **options)
    (got,) = values(node)
    np.testing.assert_allclose(got, y.detach().numpy(), rtol=1e-4, atol=1e-5)
    weights = RNG.standard_normal(got.shape).astype(np.float32)
    (y * torch.from_numpy(weights)).sum().backward()
    np.testing.assert_allclose(gradients(node, [0], [weights])[0], x.grad.numpy(), rtol=1e-4, atol=1e-5)


def version_10(scales, mode, **attributes):
    given = [X, np.array(scales, np.float32)]
    return Node("Resize", given, {"mode": mode, **attributes}, opset=10, constant=(1,))


@pytest.mark.parametrize("scales", [(1, 1, 2, 3), (1, 1, 0.6, 0.6), (1, 1, 1.5, 0.5), (1, 1, 0.75, 1)])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_version_10_is_that_of_popart_and_pytorch(mode, scales):
    """Nearest is the floor of o / scale, linear has half-pixel coordinates; values and gradients."""
    node = version_10(scales, mode)
    x = torch.tensor(X, requires_grad=True)
    named = {"nearest": "nearest", "linear": "bilinear"}[mode]
    expected = torch.nn.functional.interpolate(x, scale_factor=scales[2:], mode=named)
    (got,) = values(node)
    np.testing.assert_allclose(got, expected.detach().numpy(), rtol=1e-5, atol=1e-6)
    weights = RNG.standard_normal(got.shape).astype(np.float32)
    expected.backward(torch.tensor(weights))
    np.testing.assert_allclose(gradients(node, [0], [weights])[0], x.grad.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "attributes",
    [
        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        {"coordinate_transformation_mode": "align_corners", "nearest_mode": "round_prefer_ceil"},
        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "ceil"},
    ],
)
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_version_10_reads_the_attributes_of_version_11(mode, attributes):
    scales = (1, 1, 0.6, 1.7)
    expected = reference_values(resize(scales, mode=mode, **attributes))[0]
    np.testing.assert_allclose(values(version_10(scales, mode, **attributes))[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("transformation", ["half_pixel", "asymmetric", "align_corners"])
@pytest.mark.parametrize("scales", [(1, 1, 0.6, 1.7), (1, 1, 1, 2), (1, 1, 0.5, 1)])
def test_nearest_as_pytorch(scales, transformation):
    """Whatever the coordinates, the floor of o / scale."""
    attributes = {"nearest_mode": "pytorch", "coordinate_transformation_mode": transformation}
    expected = torch.nn.functional.interpolate(torch.tensor(X), scale_factor=scales[2:], mode="nearest")
    np.testing.assert_array_equal(values(resize(scales, opset=11, **attributes))[0], expected.numpy())


@pytest.mark.parametrize("scales", [(1, 1, 2, 3), (1, 1, 0.75, 1.5), (1, 1, 0.4, 0.5)])
@pytest.mark.parametrize("nearest_mode", NEAREST)
def test_half_pixels_of_tensorflow(nearest_mode, scales):
    """The coordinate (o + 0.5) / scale of version 11, beside ONNX Runtime."""
    attributes = {"nearest_mode": nearest_mode, "coordinate_transformation_mode": "tf_half_pixel_for_nn"}
    node = Node("Resize", [X, np.zeros(0, np.float32), np.array(scales, np.float32)], attributes, opset=11)
    node = Node(node.type, node.inputs, attributes, opset=11, constant=(1, 2))
    np.testing.assert_array_equal(values(node)[0], runtime_values(node)[0])


def test_nearest_as_pytorch_in_all_sizes():
    """Where o / scale is a whole number, rounding decides."""
    for size, sizes in ((5, range(1, 14)), (14, (2, 4, 8, 32)), (20, (12, 24)), (21, (3, 9))):
        x = np.arange(size, dtype=np.float32).reshape(1, 1, size)
        for wanted in sizes:
            node = resize(sizes=(1, 1, wanted), opset=11, x=x, nearest_mode="pytorch")
            expected = torch.nn.functional.interpolate(torch.tensor(x), wanted, mode="nearest")
            np.testing.assert_array_equal(values(node)[0], expected.numpy(), err_msg=f"{size} to {wanted}")


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("given", [{"scales": (1, 1, 2, 0.5)}, {"sizes": (0, 2, 10, 3)}])
def test_an_empty_batch(mode, given):
    assert values(resize(**given, mode=mode, x=X[:0]))[0].shape == (0, 2, 10, 3)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_upsample_in_every_version(mode):
    scales = np.array((1, 1, 2, 3), np.float32)
    by_input = Node("Upsample", [X, scales], {"mode": mode}, opset=9, constant=(1,))
    by_attribute = Node("Upsample", [X], {"mode": mode, "scales": scales.tolist()}, opset=8)
    by_name = Node(
        "Upsample",
        [X],
        {"mode": "bilinear" if mode == "linear" else mode, "height_scale": 2.0, "width_scale": 3.0},
        opset=6,
    )
    (expected,) = runtime_values(by_input)
    for node in (by_input, by_attribute, by_name):
        np.testing.assert_allclose(values(node)[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (resize((1, 1, 2, 2), (1, 2, 3, 4)), "exactly one of scales and sizes"),
        (resize((1, 1, 2)), "one number per axis"),
        (resize((1, 1, 2, -1)), "not positive"),
        (resize((1, 1, 2, 2), mode="area"), "mode"),
        (resize((2, 2), axes=[2, 2]), "repeated"),
        (resize((1, 1, 2, 2), coordinate_transformation_mode="tf_crop_and_resize"), "roi"),
        (resize((1, 1, 2, 2), coordinate_transformation_mode="half"), "coordinate_transformation_mode"),
        (resize((1, 1, 2, 2), antialias=1), "antialias"),
        (resize(sizes=(1, 2, 3, 3), x=X[:0]), "an axis without elements gives none"),
    ],
    ids=str,
)
def test_refusals(node, text):
    with pytest.raises(popart.popart_exception, match=text):
        values(node)


@pytest.mark.parametrize("size", [(3, 2000), (40, 2), (700, 9)])
def test_long_rows(size):
    """Hundreds of elements by element of the output, or of its gradient."""
    image = RNG.standard_normal((1, 2, 60, 1500)).astype(np.float32)
    node = resize(sizes=(1, 2, *size), x=image, mode="linear", antialias=1, exclude_outside=1)
    (got,) = values(node)
    x = torch.tensor(image, requires_grad=True)
    expected = torch.nn.functional.interpolate(x, size, mode="bilinear", antialias=True)
    np.testing.assert_allclose(got, expected.detach().numpy(), rtol=1e-4, atol=1e-5)
    weights = np.linspace(-1, 1, got.size, dtype=np.float32).reshape(got.shape)
    (dx,) = gradients(node, [0], [weights])
    expected.backward(torch.tensor(weights))
    np.testing.assert_allclose(dx, x.grad.numpy(), rtol=1e-4, atol=1e-5)


def interpolating(mode, size):
    """The attributes of PyTorch's interpolation, and it."""
    if mode == "nearest":
        attributes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return attributes, lambda x: torch.nn.functional.interpolate(x, size, mode="nearest")
    return {"mode": mode}, lambda x: torch.nn.functional.interpolate(x, size, mode="bi" + mode)


@pytest.mark.parametrize("size", [(37, 67), (80, 130), (20, 33), (41, 200), (7, 16), (40, 65)])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_rows_longer_than_vectors(mode, size):
    """Whole vectors and what is left of a row, taps near each other and apart, repeated rows, one axis alone."""
    image = RNG.standard_normal((2, 3, 40, 65)).astype(np.float32)
    attributes, run = interpolating(mode, size)
    node = resize(sizes=(2, 3, *size), x=image, **attributes)
    x = torch.tensor(image, requires_grad=True)
    expected = run(x)
    (got,) = values(node)
    np.testing.assert_allclose(got, expected.detach().numpy(), rtol=1e-4, atol=1e-4)  # PyTorch's coordinates are floats
    weights = RNG.standard_normal(got.shape).astype(np.float32)
    expected.backward(torch.tensor(weights))
    np.testing.assert_allclose(gradients(node, [0], [weights])[0], x.grad.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_between_convolutions(mode):
    """Channels last: values, and the gradients that reach the weights on both sides."""
    x, weights = RNG.standard_normal((2, 5, 9, 8)), [RNG.standard_normal(s) for s in ((7, 5, 3, 3), (4, 7, 1, 1))]
    x, weights = x.astype(np.float32), [w.astype(np.float32) for w in weights]
    attributes, run = interpolating(mode, (14, 12))
    builder = popart.Builder()
    image = builder.addInputTensor("FLOAT", x.shape)
    ids = [builder.addInitializedInputTensor(w) for w in weights]
    hidden = builder.aiOnnxOpset11.conv([image, ids[0]])
    sizes = builder.aiOnnxOpset11.constant(np.array([2, 7, 14, 12]))
    wide = builder.customOp("Resize", 11, "ai.onnx", [hidden, "", "", sizes], attributes)[0]
    y = builder.aiOnnxOpset11.conv([wide, ids[1]])
    loss = builder.aiGraphcore.l1loss([y], 0.1, popart.ReductionType.Sum)
    anchors = [y, *(popart.reservedGradientPrefix() + w for w in ids)]
    session = ready(training_session(builder.getModelProto(), loss, popart.SGD({}), anchors=anchors))
    arrays = session.initAnchorArrays()
    session.run(popart.PyStepIO({image: x}, arrays))
    ws = [torch.tensor(w, requires_grad=True) for w in weights]
    expected = torch.nn.functional.conv2d(run(torch.nn.functional.conv2d(torch.tensor(x), ws[0])), ws[1])
    (0.1 * expected.abs()).sum().backward()
    for anchor, value in zip(anchors, [expected.detach(), *(w.grad for w in ws)], strict=True):
        np.testing.assert_allclose(arrays[anchor], value.numpy(), rtol=1e-4, atol=1e-4)
