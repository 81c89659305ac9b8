"""Normalisations, activations and what they are joined with: com.microsoft, and what ONNX Runtime adds to ai.onnx."""

import numpy as np
import pytest
import torch

from onnx import TensorProto
from tests.python.onnx.microsoft_node import check_like_runtime, microsoft
from tests.python.onnx.single_node import Node, check_gradients, runtime_values, values

FLOAT, INT32 = TensorProto.FLOAT, TensorProto.INT32


def floats(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


X = floats(2, 3, 8)


@pytest.mark.parametrize("opset", [7, 9, 11, 13, 16, 17, 20])
@pytest.mark.parametrize("operator", ["LayerNormalization", "SimplifiedLayerNormalization"])
def test_layer_norms_of_every_operator_set(opset, operator):
    inputs = [X, floats(8, seed=1)] + ([floats(8, seed=2)] if operator == "LayerNormalization" else [])
    check_like_runtime(Node(operator, inputs, {"axis": -1, "epsilon": 1e-5}, opset=opset), gradients=range(len(inputs)))


def test_simplified_layer_norm_statistics():
    node = Node("SimplifiedLayerNormalization", [X, floats(3, 8, seed=1)], {"axis": 1}, "ys", opset=14)
    check_like_runtime(node)


@pytest.mark.parametrize("operator", ["Gelu", "BiasGelu", "FastGelu", "QuickGelu"])
def test_gelus(operator):
    inputs = [X, floats(8)] if operator in ("BiasGelu", "FastGelu") else [X]
    check_like_runtime(microsoft(operator, inputs), gradients=range(len(inputs)))


def test_gelus_with_other_numbers():
    check_like_runtime(microsoft("QuickGelu", [X], {"alpha": 0.7}))
    check_like_runtime(microsoft("FastGelu", [X]))


@pytest.mark.parametrize("skip", [(2, 3, 8), (1, 3, 8), (3, 8)])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("operator", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
def test_skip_layer_norms(operator, skip, bias):
    inputs = [X, floats(*skip, seed=3), floats(8, seed=1)]
    if operator == "SkipLayerNormalization":
        inputs.append(floats(8, seed=2))
    if bias:
        inputs.append(floats(8, seed=4))
    node = microsoft(operator, inputs, {"epsilon": 1e-3}, "y--s")
    check_like_runtime(node, gradients=range(len(inputs)))


def test_skip_layer_norm_statistics():
    node = microsoft("SkipLayerNormalization", [X, X, floats(8), floats(8, seed=1)], {"epsilon": 1e-3}, "ymi")
    _, mean, inverse = values(node)
    total = 2.0 * X
    np.testing.assert_allclose(mean[..., 0], total.mean(-1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(inverse[..., 0], 1 / np.sqrt(total.var(-1) + 1e-3), rtol=1e-5)


@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("positions", [False, True])
def test_embed_layer_norm(segments, mask, positions):
    ids = np.array([[1, 4, 2], [0, 3, 3]], np.int32)
    inputs = [
        ids,
        np.array([[0, 0, 1], [1, 0, 1]], np.int32) if segments else None,
        floats(5, 8),
        floats(6, 8),
        floats(2, 8) if segments else None,
        floats(8),
        floats(8, seed=1),
        np.array([[1, 1, 0], [1, 0, 0]], np.int32) if mask else None,
        np.array([[2, 1, 0], [5, 0, 1]], np.int32) if positions else None,
    ]
    outputs = "yme"
    node = microsoft("EmbedLayerNormalization", inputs, {"epsilon": 1e-4}, outputs)
    check_like_runtime(node, element=[FLOAT, INT32, FLOAT])


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("activation", [0, 1])
def test_group_norm(last, activation):
    x, scale, shift = floats(2, 4, 5, 6), floats(6, seed=1), floats(6, seed=2)
    given = x if last else x.transpose(0, 3, 1, 2)
    attributes = {"groups": 3, "activation": activation, "channels_last": last, "epsilon": 1e-3}
    node = microsoft("GroupNorm", [given, scale, shift], attributes)
    expected = torch.nn.functional.group_norm(
        torch.tensor(x.transpose(0, 3, 1, 2)), 3, torch.tensor(scale), torch.tensor(shift), 1e-3
    )
    expected = torch.nn.functional.silu(expected) if activation else expected
    (y,) = values(node)
    np.testing.assert_allclose(y.transpose(0, 3, 1, 2) if last else y, expected.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("skip", [(2, 4, 5, 6), (2, 6), (2, 1, 1, 6)])
@pytest.mark.parametrize("bias", [False, True])
def test_skip_group_norm(skip, bias):
    x, added, more = floats(2, 4, 5, 6), floats(*skip, seed=3), floats(6, seed=4)
    inputs = [x, floats(6, seed=1), floats(6, seed=2), added] + ([more] if bias else [])
    y, total = values(microsoft("SkipGroupNorm", inputs, {"groups": 2}, "ys"))
    expected = x + added.reshape(2, 1, 1, 6) if len(skip) == 2 else x + added
    expected = expected + more if bias else expected
    np.testing.assert_allclose(total, expected, rtol=1e-6, atol=1e-6)
    plain = values(microsoft("GroupNorm", [total, *inputs[1:3]], {"groups": 2}))[0]
    np.testing.assert_allclose(y, plain, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("activation", ["silu", "sigmoid"])
def test_gated_rms_norm(activation):
    node = microsoft("GatedRMSNorm", [X, floats(4), floats(2, 3, 8, seed=1)], {"activation": activation})
    check_like_runtime(node)


def test_gated_add_and_scaled_silu():
    check_like_runtime(microsoft("GatedAdd", [X, floats(2, 3, 8, seed=1), floats(2, 3, 1)]))
    check_like_runtime(microsoft("ScaledSiLU", [X], {"alpha": 0.3}))
    check_like_runtime(microsoft("ScaledSiLU", [X, np.array(0.3, np.float32)]))


# Operators that ONNX Runtime has for graphics cards alone: against the formulas of its documentation.


def test_bias_split_gelu():
    x, bias = floats(2, 3, 8), floats(8)
    left, right = np.split(x + bias, 2, -1)
    expected = left * torch.nn.functional.gelu(torch.tensor(right)).numpy()
    node = microsoft("BiasSplitGelu", [x, bias])
    np.testing.assert_allclose(values(node)[0], expected, rtol=1e-5, atol=1e-6)
    check_gradients(node, [0, 1])


def test_bias_add():
    x, bias, skip = floats(2, 3, 8), floats(8), floats(2, 3, 8, seed=1)
    np.testing.assert_allclose(values(microsoft("BiasAdd", [x, bias, skip]))[0], x + bias + skip, rtol=1e-6)


@pytest.mark.parametrize(
    ("axis", "inner", "bias"), [(3, 1, (2, 1, 1, 5)), (3, 0, (1, 1, 4, 5)), (3, 0, (4, 5)), (2, 1, (2, 1, 4, 5))]
)
def test_bias_softmax(axis, inner, bias):
    x, added = floats(2, 3, 4, 5), floats(*bias)
    flat = (x + added).reshape(*x.shape[:axis], -1)
    expected = torch.softmax(torch.tensor(flat), -1).numpy().reshape(x.shape)
    node = microsoft("BiasSoftmax", [x, added], {"axis": axis, "is_inner_broadcast": inner})
    np.testing.assert_allclose(values(node)[0], expected, rtol=1e-5, atol=1e-6)
    check_gradients(node, [0, 1])


def test_bias_dropout_of_inference():
    x, bias, residual = floats(2, 3, 8), floats(8), floats(2, 3, 8, seed=1)
    y, mask = values(microsoft("BiasDropout", [x, bias, residual], {}, "ym"))
    np.testing.assert_allclose(y, x + bias + residual, rtol=1e-6)
    assert mask.all() and mask.shape == x.shape


def test_bitmask_dropout_packs_its_mask():
    x = floats(2, 35)
    y, mask = values(microsoft("BitmaskDropout", [x], {}, "ym"))
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(mask, np.array([2**32 - 1, 2**32 - 1, 2**6 - 1], np.uint32))


def test_runtime_oracle_is_asked():
    """The comparison above is with numbers of ONNX Runtime, not with ours."""
    node = microsoft("Gelu", [np.ones((1, 1), np.float32)])
    np.testing.assert_allclose(runtime_values(node)[0], 0.8413447, rtol=1e-6)
