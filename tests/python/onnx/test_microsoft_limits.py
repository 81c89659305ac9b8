"""Nodes of com.microsoft with ranks, counts and blocks that no network has: results, or typed refusals."""

import numpy as np
import popart
import popart_core
import pytest

from tests.python.onnx.microsoft_node import microsoft
from tests.python.onnx.single_node import values

BIG = 2**62


def f(*shape):
    return np.ones(shape, np.float32)


def u(*shape):
    return np.ones(shape, np.uint8)


def i(*shape):
    return np.ones(shape, np.int32)


# Operator, operands, attributes, indices of constant operands.
NODES = {
    "pool_of_rank_1": ("NhwcMaxPool", [f(3)], {"kernel_shape": [2, 2]}, ()),
    "pool_of_rank_0": ("NhwcMaxPool", [f()], {"kernel_shape": [2, 2]}, ()),
    "convolution_of_rank_1": ("NhwcConv", [f(3), f(2, 2, 2, 2)], {}, ()),
    "mean_of_rank_1": (
        "QLinearAveragePool", [u(3), f(), u(), f(), u()], {"channels_last": 1, "kernel_shape": [1]}, (),
    ),
    "columns_beyond_memory": (
        "MatMulNBits", [f(2, 16), u(2, 1, 8), f(2, 1)], {"K": 16, "N": BIG, "block_size": 16}, (),
    ),
    "rows_beyond_memory": (
        "MatMulNBits", [f(2, 16), u(2, 1, 8), f(2, 1)], {"K": 2**63 - 1, "N": 2, "block_size": 16}, (),
    ),
    "block_beyond_memory": (
        "MatMulNBits", [f(2, 16), u(2, 1, 8), f(2, 1)], {"K": 16, "N": 2, "block_size": BIG}, (),
    ),
    "four_bits_beyond_memory": ("MatMulBnb4", [f(2, 16), u(8), f(1)], {"K": BIG, "N": 16, "block_size": 16}, ()),
    "heads_beyond_count": (
        "GroupQueryAttention", [f(1, 2, 8), None, None, None, None, i(1), np.array(2, np.int32)],
        {"num_heads": 2, "kv_num_heads": 2**63 - 1}, (6,),
    ),
    "length_beyond_count": (
        "GroupQueryAttention",
        [f(1, 1, 8), f(1, 1, 4), f(1, 1, 4), f(1, 1, 2, 4), f(1, 1, 2, 4), np.array([2**63 - 1]),
         np.array(3, np.int32)],
        {"num_heads": 2, "kv_num_heads": 1}, (5, 6),
    ),
    "sizes_beyond_count": (
        "Attention", [f(1, 2, 4), f(4, 12)], {"num_heads": 2, "qkv_hidden_sizes": [BIG, BIG, 12 - 2**63]}, (),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NODES)
def test_what_cannot_be_is_refused(name):
    type, operands, attributes, constants = NODES[name]
    with pytest.raises(popart.popart_exception, match=type):
        values(microsoft(type, operands, attributes, constant=constants))


def test_attention_of_no_sequence_has_no_result():
    operands = [
        f(0, 1, 8), f(0, 1, 4), f(0, 1, 4), f(0, 1, 2, 4), f(0, 1, 2, 4), i(0), np.array(3, np.int32),
    ]  # fmt: skip
    node = microsoft("GroupQueryAttention", operands, {"num_heads": 2, "kv_num_heads": 1}, constant=(5, 6))
    assert values(node)[0].shape == (0, 1, 8)


def test_blocks_of_no_element_are_read():
    operands = [f(3, 0), np.array([1], np.int64), f(3, 1)]
    node = microsoft("GatherBlockQuantized", operands, {"block_size": 0})
    assert values(node)[0].shape == (1, 0)


# What ONNX Runtime's optimizer (up to level extended) and quantizer write, and common operators of converters.
WRITTEN = [
    "FusedConv", "FusedMatMul", "FusedGemm", "Gelu", "FastGelu", "BiasGelu", "QuickGelu", "SkipLayerNormalization",
    "SkipSimplifiedLayerNormalization", "EmbedLayerNormalization", "Attention", "MultiHeadAttention",
    "GroupQueryAttention", "RotaryEmbedding", "BiasAdd", "BiasSoftmax", "BiasDropout", "GroupNorm", "SkipGroupNorm",
    "NhwcMaxPool", "QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax",
    "QLinearConcat", "QLinearAveragePool", "QLinearGlobalAveragePool", "QLinearReduceMean", "QLinearWhere",
    "QLinearConv", "QEmbedLayerNormalization", "QGemm", "QAttention", "DynamicQuantizeMatMul",
    "DynamicQuantizeLSTM", "MatMulIntegerToFloat", "MatMulNBits", "GatherBlockQuantized", "Trilu", "Inverse",
    "CDist", "ExpandDims", "Unique", "Pad", "ConvTransposeWithDynamicPads", "Range", "CropAndResize", "Irfft",
    "Rfft",
]  # fmt: skip


@pytest.mark.parametrize("operator", WRITTEN)
def test_what_tools_write_is_read(operator):
    """Each name has a rule: a node without inputs is refused for what it lacks, not for its operator."""
    known = {entry.type for entry in popart_core.getSupportedOperations(True) if entry.domain == "com.microsoft"}
    assert operator in known


def test_layer_norms_are_in_the_default_domain_too():
    known = {entry.type for entry in popart_core.getSupportedOperations(True) if entry.domain == "ai.onnx"}
    assert {"LayerNormalization", "SimplifiedLayerNormalization"} <= known
