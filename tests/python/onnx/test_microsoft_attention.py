"""Attention, MultiHeadAttention, GroupQueryAttention and RotaryEmbedding of com.microsoft against ONNX Runtime."""

import itertools

import numpy as np
import popart
import pytest

from onnx import TensorProto
from tests.python.onnx.microsoft_node import check_like_runtime, microsoft
from tests.python.onnx.single_node import runtime_values, values
from tests.python.popart.training_runs import ready, training_session

B, S, N, H = 2, 5, 2, 4
HIDDEN = N * H


def floats(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def int32(values):
    return np.array(values, np.int32)


def projected(**changes):
    """Inputs of Attention by name."""
    given = {
        "input": floats(B, S, 6),
        "weights": floats(6, 3 * HIDDEN) * 0.5,
        "bias": floats(3 * HIDDEN),
        "mask": None,
        "past": None,
        "added": None,
    }
    return list((given | changes).values())


MASKS = {
    "none": None,
    "lengths": int32([3, 5]),
    "ends_and_starts": int32([4, 5, 1, 0]),
    "two_dimensions": int32([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]]),
    "three_dimensions": int32(np.tril(np.ones((B, S, S)))),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_attention_masks(mask, unidirectional):
    node = microsoft("Attention", projected(mask=MASKS[mask]), {"num_heads": N, "unidirectional": unidirectional})
    check_like_runtime(node)


@pytest.mark.parametrize("attributes", [{"scale": 0.3}, {"mask_filter_value": -5.0}, {}])
def test_attention_attributes(attributes):
    node = microsoft("Attention", projected(mask=MASKS["two_dimensions"]), {"num_heads": N, **attributes})
    check_like_runtime(node)


def test_attention_without_bias():
    """ONNX Runtime ends the process without one: its values with zeros."""
    zeros = np.zeros(3 * HIDDEN, np.float32)
    expected = runtime_values(microsoft("Attention", projected(bias=zeros), {"num_heads": N}))
    got = values(microsoft("Attention", projected(bias=None), {"num_heads": N}))
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-5, atol=1e-5)


def test_attention_with_values_of_another_size():
    sizes = [HIDDEN, HIDDEN, 3 * N]
    inputs = projected(weights=floats(6, sum(sizes)), bias=floats(sum(sizes)))
    check_like_runtime(microsoft("Attention", inputs, {"num_heads": N, "qkv_hidden_sizes": sizes}))


@pytest.mark.parametrize("unidirectional", [0, 1])
@pytest.mark.parametrize("mask", [None, "two", "lengths"])
def test_attention_with_a_past(unidirectional, mask):
    past = floats(2, B, N, 3, H)
    masks = {None: None, "two": int32([[0, 1, 1, 1, 1, 1, 1, 1], [1] * 7 + [0]]), "lengths": int32([6, 8])}
    node = microsoft(
        "Attention", projected(past=past, mask=masks[mask]), {"num_heads": N, "unidirectional": unidirectional}, "yp"
    )
    check_like_runtime(node)


@pytest.mark.parametrize("shape", [(1, 1), (B, 1), (1, N), (B, N)])
def test_attention_bias_of_scores(shape):
    inputs = projected(added=floats(*shape, S, S), mask=MASKS["two_dimensions"])
    check_like_runtime(microsoft("Attention", inputs, {"num_heads": N}))


def test_attention_gradients():
    node = microsoft("Attention", projected(mask=MASKS["two_dimensions"]), {"num_heads": N, "unidirectional": 1})
    check_like_runtime(node, gradients=[0, 1, 2])


def test_attention_gpt2_mask_of_four_dimensions():
    """Rows from the past on, and as many keys as there are, as the mask of two dimensions says."""
    mask = int32(np.tril(np.ones((B, 1, 9, 9))))
    causal = microsoft("Attention", projected(), {"num_heads": N, "unidirectional": 1})
    masked = microsoft("Attention", projected(mask=mask), {"num_heads": N})
    np.testing.assert_allclose(values(masked)[0], values(causal)[0], rtol=1e-6, atol=1e-6)


# ---- MultiHeadAttention


def multi_head(**changes):
    given = {
        "query": floats(B, S, HIDDEN, seed=1),
        "key": floats(B, 7, HIDDEN, seed=2),
        "value": floats(B, 7, HIDDEN, seed=3),
        "bias": None,
        "mask": None,
        "added": None,
        "past_key": None,
        "past_value": None,
    }
    return list((given | changes).values())


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("mask", [None, "lengths", "two", "three"])
def test_multi_head_masks(bias, mask):
    masks = {
        None: None,
        "lengths": int32([4, 7]),
        "two": int32([[1] * 4 + [0] * 3, [0] + [1] * 6]),
        "three": int32(np.tril(np.ones((B, S, 7)))),
    }
    inputs = multi_head(bias=floats(3 * HIDDEN) if bias else None, mask=masks[mask])
    check_like_runtime(microsoft("MultiHeadAttention", inputs, {"num_heads": N}))


@pytest.mark.parametrize("attributes", [{"scale": 0.2}, {"mask_filter_value": -3.0}])
def test_multi_head_attributes(attributes):
    inputs = multi_head(mask=int32([4, 7]))
    check_like_runtime(microsoft("MultiHeadAttention", inputs, {"num_heads": N, **attributes}))


def plain(packed):
    """The parts of packed heads, each as (batch, length, size)."""
    parts = (packed[:, :, :, i] for i in range(packed.shape[3]))
    return [np.ascontiguousarray(p).reshape(*packed.shape[:2], HIDDEN) for p in parts]


def test_multi_head_packed():
    """No kernel of ONNX Runtime's CPU provider: its values with the parts."""
    packed = floats(B, S, N, 3, H)
    got = values(microsoft("MultiHeadAttention", [packed], {"num_heads": N}))
    expected = runtime_values(microsoft("MultiHeadAttention", plain(packed), {"num_heads": N}))
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-5, atol=1e-5)


def test_multi_head_keys_and_values_packed():
    """As above."""
    packed = floats(B, 7, N, 2, H)
    got = values(microsoft("MultiHeadAttention", multi_head(key=packed, value=None), {"num_heads": N}))
    key, value = plain(packed)
    expected = runtime_values(microsoft("MultiHeadAttention", multi_head(key=key, value=value), {"num_heads": N}))
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-5, atol=1e-5)


def test_multi_head_keys_as_heads():
    inputs = multi_head(key=floats(B, N, 7, H), value=floats(B, N, 7, H, seed=4))
    check_like_runtime(microsoft("MultiHeadAttention", inputs, {"num_heads": N}))


def test_multi_head_values_of_another_size():
    check_like_runtime(microsoft("MultiHeadAttention", multi_head(value=floats(B, 7, 3 * N)), {"num_heads": N}))


@pytest.mark.parametrize(("unidirectional", "bias"), itertools.product([0, 1], [False, True]))
def test_multi_head_with_a_past(unidirectional, bias):
    inputs = multi_head(
        key=floats(B, S, HIDDEN, seed=2),
        value=floats(B, S, HIDDEN, seed=3),
        bias=floats(3 * HIDDEN) if bias else None,
        past_key=floats(B, N, 3, H),
        past_value=floats(B, N, 3, H, seed=5),
    )
    attributes = {"num_heads": N, "unidirectional": unidirectional}
    check_like_runtime(microsoft("MultiHeadAttention", inputs, attributes, "ykv"))


def test_multi_head_scores():
    check_like_runtime(microsoft("MultiHeadAttention", multi_head(), {"num_heads": N}, "y--q"))


@pytest.mark.parametrize("shape", [(1, 1), (B, N)])
def test_multi_head_bias_of_scores(shape):
    check_like_runtime(microsoft("MultiHeadAttention", multi_head(added=floats(*shape, S, 7)), {"num_heads": N}))


def test_multi_head_gradients():
    node = microsoft("MultiHeadAttention", multi_head(bias=floats(3 * HIDDEN), mask=int32([4, 7])), {"num_heads": N})
    check_like_runtime(node, gradients=[0, 1, 2, 3])


# ---- RotaryEmbedding


def tables(positions, size):
    angles = np.arange(positions)[:, None] / 10.0 ** np.arange(size // 2)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("positions", [[3], [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0]]])
@pytest.mark.parametrize("flat", [False, True])
def test_rotary_embedding(interleaved, positions, flat):
    x = floats(B, S, HIDDEN) if flat else floats(B, N, S, H)
    node = microsoft("RotaryEmbedding", [x, np.array(positions, np.int64), *tables(9, H)], {"interleaved": interleaved})
    check_like_runtime(node, gradients=[0])


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding_of_a_part(interleaved):
    attributes = {"interleaved": interleaved, "num_heads": N, "rotary_embedding_dim": 4}
    node = microsoft("RotaryEmbedding", [floats(B, S, N * 6), np.array([1], np.int64), *tables(9, 4)], attributes)
    check_like_runtime(node)


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize(("layout", "section"), [(0, [2, 1, 1]), (0, [0, 3, 1]), (1, [2, 1, 1]), (1, [4, 0, 0])])
def test_rotary_embedding_of_three_positions(layout, section, interleaved, flat):
    size = 8
    x = floats(B, S, N * size) if flat else floats(B, N, S, size)
    positions = np.random.default_rng(3).integers(0, 9, (3, B, S))
    given = {"interleaved": interleaved, "mrope_layout": layout, "mrope_section": section, "num_heads": N}
    check_like_runtime(microsoft("MRotaryEmbedding", [x, positions, *tables(9, size)], given), gradients=[0])


# ---- GroupQueryAttention

HEADS, SHARED, SIZE = 4, 2, 16


def grouped(length, total, capacity, lengths, **changes):
    given = {
        "query": floats(B, length, HEADS * SIZE, seed=1),
        "key": floats(B, length, SHARED * SIZE, seed=2),
        "value": floats(B, length, SHARED * SIZE, seed=3),
        "past_key": floats(B, SHARED, capacity, SIZE, seed=4) if capacity else None,
        "past_value": floats(B, SHARED, capacity, SIZE, seed=5) if capacity else None,
        "seqlens_k": int32([n - 1 for n in lengths]),
        "total": int32(total),
        "cos": None,
        "sin": None,
        "positions": None,
        "added": None,
        "sink": None,
    }
    return list((given | changes).values())


def group_query(inputs, constant=(6,), outputs="ykv", **attributes):
    return microsoft(
        "GroupQueryAttention", inputs, {"num_heads": HEADS, "kv_num_heads": SHARED, **attributes}, outputs, constant
    )


ROTARY = dict(zip(("cos", "sin"), tables(16, SIZE), strict=True))


@pytest.mark.parametrize("rotary", [None, 0, 1])
def test_group_query_prompt(rotary):
    attributes = {} if rotary is None else {"do_rotary": 1, "rotary_interleaved": rotary}
    inputs = grouped(6, 6, 0, [6, 6], **({} if rotary is None else ROTARY))
    check_like_runtime(group_query(inputs, **attributes))


@pytest.mark.parametrize("attributes", [{"local_window_size": 2}, {"softcap": 0.5}, {"scale": 0.1}])
def test_group_query_attributes(attributes):
    check_like_runtime(group_query(grouped(6, 6, 0, [6, 6]), **attributes))


def test_group_query_smooth_softmax():
    check_like_runtime(group_query(grouped(6, 6, 0, [6, 6]), smooth_softmax=1))


def test_group_query_sink():
    check_like_runtime(group_query(grouped(6, 6, 0, [6, 6], sink=floats(HEADS))))


@pytest.mark.parametrize("output", [1, 2])
def test_group_query_scores(output):
    inputs = grouped(1, 6, 5, [6, 6])
    check_like_runtime(group_query(inputs, outputs="ykvq", qk_output=output))


def check_cache(node, lengths):
    """Results and caches equal ONNX Runtime's, in the rows that samples have: it does not say what is behind them."""
    got, expected = values(node), runtime_values(node)
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-5, atol=1e-5)
    for ours, theirs in zip(got[1:], expected[1:], strict=True):
        assert ours.shape == theirs.shape
        for sample, length in enumerate(lengths):
            np.testing.assert_allclose(ours[sample, :, :length], theirs[sample, :, :length], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("constant", [(6,), (5, 6)])
@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("capacity", [5, 9])
def test_group_query_next_token(constant, rotary, capacity):
    """The past as long as it is, or a buffer that has further rows."""
    inputs = grouped(1, 6, capacity, [6, 6], **(ROTARY if rotary else {}))
    check_cache(group_query(inputs, constant, do_rotary=int(rotary)), [6, 6])


@pytest.mark.parametrize("window", [-1, 3])
@pytest.mark.parametrize("constant", [(6,), (5, 6)])
def test_group_query_next_token_of_samples_of_other_lengths(window, constant):
    node = group_query(grouped(1, 6, 9, [4, 6], **ROTARY), constant, do_rotary=1, local_window_size=window)
    check_cache(node, [4, 6])


def test_group_query_prompt_into_a_buffer():
    check_cache(group_query(grouped(6, 6, 9, [6, 6], **ROTARY), do_rotary=1), [6, 6])


def test_group_query_packed():
    packed = floats(B, 6, (HEADS + 2 * SHARED) * SIZE)
    check_like_runtime(group_query(grouped(6, 6, 0, [6, 6], query=packed, key=None, value=None)))


def test_group_query_bias_of_scores():
    check_like_runtime(group_query(grouped(6, 6, 0, [6, 6], added=floats(B, 1, 6, 6))))


def test_group_query_half():
    inputs = [a.astype(np.float16) if a is not None and a.dtype == np.float32 else a for a in grouped(6, 6, 0, [6, 6])]
    check_like_runtime(group_query(inputs), rtol=5e-3, atol=5e-3, element=TensorProto.FLOAT16)


def test_group_query_gradients():
    check_like_runtime(group_query(grouped(6, 6, 0, [6, 6], **ROTARY), do_rotary=1), gradients=[0, 1, 2])


def test_group_query_total_length_must_be_known():
    model = group_query(grouped(1, 6, 5, [6, 6]), constant=()).model(variables=False).SerializeToString()
    with pytest.raises(popart.popart_exception, match="must be known when the graph is built"):
        popart.InferenceSession(model, popart.DataFlow(1, ["y"]), popart.DeviceManager().createCpuDevice())


# ---- the kernel without scores


def kernels_of(node):
    """Operators of the compiled program of a session that trains the node's inputs."""
    weights = [floats(*y.shape, seed=8) for y in values(node)]
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 1})
    model = node.model(variables=True, weights=weights).SerializeToString()
    session = ready(training_session(model, "loss", popart.ConstSGD(0.1), device=device))
    return {step.name.split(".")[0] for program in session.getReport().compilation.programs for step in program}


LONG = 24
FUSED = {
    "Attention": (
        [floats(B, LONG, 16), floats(16, 48) / 4, floats(48), int32([[1] * 20 + [0] * 4] * B)],
        {"num_heads": N, "unidirectional": 1},
    ),
    "MultiHeadAttention": ([floats(B, LONG, 16, seed=i) for i in range(3)], {"num_heads": N}),
    "GroupQueryAttention": (
        [floats(B, LONG, w) for w in (32, 16, 16)] + [None, None, int32([LONG - 1] * B), int32(LONG)],
        {"num_heads": 4, "kv_num_heads": 2, "local_window_size": 8},
    ),
}


@pytest.mark.parametrize("operator", FUSED)
def test_programs_have_no_matrix_of_scores(operator):
    inputs, attributes = FUSED[operator]
    constant = [6] if operator == "GroupQueryAttention" else []
    kernels = kernels_of(microsoft(operator, inputs, attributes, constant=constant))
    assert {"FusedAttention", "FusedAttentionGrad"} <= kernels and not {"Softmax", "SoftmaxGrad"} & kernels
