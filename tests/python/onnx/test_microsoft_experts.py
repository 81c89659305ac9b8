"""Mixtures of experts against ONNX Runtime; gradients against finite differences."""

import numpy as np
import popart
import pytest

from tests.python.onnx.microsoft_node import check_like_runtime, microsoft
from tests.python.onnx.single_node import values

SIZE, INNER, EXPERTS = 8, 6, 5


def floats(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def mixture(rows, kind="silu", bias=True, **attributes):
    width = 2 * INNER if kind == "swiglu" else INNER
    if kind == "swiglu":
        attributes["swiglu_fusion"] = 1
    inputs = [
        floats(*rows, SIZE),
        floats(int(np.prod(rows)), EXPERTS, seed=1),
        floats(EXPERTS, width, SIZE) / 2,
        floats(EXPERTS, width) if bias else None,
        floats(EXPERTS, SIZE, INNER) / 2,
        floats(EXPERTS, SIZE) if bias else None,
    ]
    return microsoft("MoE", inputs, {"activation_type": kind, **attributes})


# One row takes the weights of its experts, seven rows are computed by all experts.
ROWS = pytest.mark.parametrize("rows", [(1,), (7,), (2, 3), (1, 2)])


@ROWS
@pytest.mark.parametrize("kind", ["relu", "gelu", "silu", "identity", "swiglu"])
@pytest.mark.parametrize("k", [1, 2])
def test_activations(rows, kind, k):
    check_like_runtime(mixture(rows, kind, k=k), rtol=1e-4, atol=1e-4)


@ROWS
@pytest.mark.parametrize("normalised", [0, 1])
@pytest.mark.parametrize("bias", [False, True])
def test_shares(rows, normalised, bias):
    check_like_runtime(mixture(rows, "relu", bias, k=3, normalize_routing_weights=normalised), rtol=1e-4, atol=1e-4)


@ROWS
def test_gates_with_other_numbers(rows):
    given = {"activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 0.5}
    check_like_runtime(mixture(rows, "swiglu", k=2, **given), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [(1,), (7,)])
def test_gradients(rows):
    check_like_runtime(mixture(rows, k=2), rtol=1e-4, atol=1e-4, gradients=[0, 1, 2, 3, 4, 5])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"k": 9}, "attribute k: got 9, expected 1 to 5"),
        ({"kind": "tanh"}, "activation_type: got 'tanh'"),
        ({"use_sparse_mixer": 1}, "use_sparse_mixer"),
    ],
)
def test_what_cannot_be_is_refused(given, message):
    with pytest.raises(popart.popart_exception, match=message):
        values(mixture((3,), **given))


# ---- weights of 2, 4 and 8 bits

WIDE, WIDER = 32, 64


def packed_mixture(rows, bits, block=0, zeros=False, given=False, dtype=np.float32, **attributes):
    """A node of QMoE; its weights are the same for each call with the same sizes."""
    rng = np.random.default_rng((bits, block, zeros))
    kind = attributes.setdefault("activation_type", "silu")
    if kind == "swiglu":
        attributes["swiglu_fusion"] = 1

    def layer(outputs, size):
        blocks = size // block if block else 1
        shape = (EXPERTS, outputs, blocks) if block else (EXPERTS, outputs)
        points = (EXPERTS, outputs, -(-blocks * bits // 8)) if block else (EXPERTS, -(-outputs * bits // 8))
        weight = rng.integers(0, 256, (EXPERTS, outputs, size * bits // 8)).astype(np.uint8)
        zero = rng.integers(0, 256, points).astype(np.uint8) if zeros else None
        return weight, (rng.random(shape) / 2**bits).astype(dtype), zero

    first, second = layer(2 * WIDER if kind == "swiglu" else WIDER, WIDE), layer(WIDE, WIDER)
    count = int(np.prod(rows))
    inputs = [floats(*rows, WIDE).astype(dtype), floats(count, EXPERTS, seed=1).astype(dtype), *first[:2]]
    inputs += [floats(EXPERTS, first[0].shape[1]).astype(dtype), *second[:2], floats(EXPERTS, WIDE).astype(dtype)]
    inputs += [None, None, None, first[2], second[2]]
    if given:
        inputs += [None, rng.random((count, EXPERTS)).astype(dtype)]
    if block:
        attributes["block_size"] = block
    fixed = [i for i in (2, 3, 4, 5, 6, 7, 11, 12) if inputs[i] is not None]
    return microsoft("QMoE", inputs, {"expert_weight_bits": bits, **attributes}, constant=fixed)


@pytest.mark.parametrize("rows", [(1,), (2, 3)])
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("block", [0, 16])
@pytest.mark.parametrize("zeros", [False, True])
def test_packed_weights(rows, bits, block, zeros):
    # ONNX Runtime multiplies blocks of 8 bits with rows of 8 bits.
    near = 2e-2 if bits == 8 and block else 1e-4
    check_like_runtime(packed_mixture(rows, bits, block, zeros, k=2), rtol=near, atol=10 * near)


@pytest.mark.parametrize("rows", [(1,), (2, 3)])
@pytest.mark.parametrize("normalised", [0, 1])
def test_shares_of_packed_experts(rows, normalised):
    """Without weights of their own they are always normalised."""
    for given in (False, True):
        node = packed_mixture(rows, 4, zeros=True, given=given, k=2, normalize_routing_weights=normalised)
        check_like_runtime(node, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["relu", "gelu", "swiglu"])
def test_activations_of_packed_experts(kind):
    check_like_runtime(packed_mixture((7,), 4, 32, activation_type=kind, k=2), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"quant_type": "fp4"}, "quant_type: got 'fp4'"),
        ({"weights_prepacked": 1}, "weights_prepacked"),
        ({"expert_weight_bits": 3}, "got 3, expected 2, 4 or 8"),
        ({"block_size": 48}, "block_size: got 48"),
    ],
)
def test_packing_that_is_not_read(given, message):
    with pytest.raises(popart.popart_exception, match=message):
        values(packed_mixture((3,), 4, **given))
