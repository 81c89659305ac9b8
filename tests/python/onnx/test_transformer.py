"""Attention, FlexAttention, RotaryEmbedding, SwiGLU, TensorScatter, LinearAttention and CausalConvWithState.

Values in ONNX's own cases: test_backend_nodes.py. Here: against PyTorch, gradients, refusals.
"""

import numpy as np
import popart
import pytest
import torch

from onnx import TensorProto, helper
from tests.python.onnx.single_node import Node, check_gradients, gradients, output_weights, values

BATCH, HEADS, QUERIES, KEYS, SIZE = 2, 4, 3, 5, 6
RNG = np.random.default_rng(11)


def normal(*shape, scale=0.7):
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


def attention(own=HEADS, keys=KEYS, more=(), outputs="y", opset=25, **attributes):
    """One node of four dimensions; `own` heads of keys and values."""
    inputs = [normal(BATCH, HEADS, QUERIES, SIZE), normal(BATCH, own, keys, SIZE), normal(BATCH, own, keys, SIZE + 1)]
    return Node("Attention", [*inputs, *more], attributes, outputs, opset)


MASK = RNG.random((QUERIES, KEYS)) < 0.6
MASK[1] = False  # no key at all
ATTENTIONS = {
    "plain": attention(),
    "grouped": attention(own=2),
    "one-head-of-keys": attention(own=1, scale=0.3),
    "causal": attention(is_causal=1),
    "mask": attention(more=[normal(BATCH, 1, QUERIES, KEYS)]),
    "boolean-mask": attention(own=2, more=[MASK]),
    "boolean-mask-of-heads": attention(more=[RNG.random((HEADS, QUERIES, KEYS)) < 0.7], is_causal=1),
    "softcap": attention(softcap=0.8),
    "windows": attention(left_window_size=1, right_window_size=1),
    "lengths": attention(more=[None, None, None, ints(3, 5)], is_causal=1),
    "short-mask": attention(more=[normal(QUERIES, 4), None, None, ints(3, 4)]),
    "past": attention(
        own=2,
        more=[None, normal(BATCH, 2, 2, SIZE), normal(BATCH, 2, 2, SIZE + 1)],
        outputs="ykv",
        is_causal=1,
    ),
    "scores-0": attention(outputs="y--s", softcap=0.8),
    "scores-1": attention(outputs="y--s", softcap=0.8, qk_matmul_output_mode=1),
    "scores-2": attention(outputs="y--s", softcap=0.8, qk_matmul_output_mode=2, more=[normal(QUERIES, KEYS)]),
    "scores-3": attention(outputs="y--s", qk_matmul_output_mode=3, more=[normal(QUERIES, KEYS)]),
}


def torch_attention(node):
    """Outputs of an Attention node of four dimensions as the operator's text states them; and its float inputs."""
    q, k, v, mask, past_key, past_value, lengths, *_ = [
        None if a is None else torch.from_numpy(np.array(a)) for a in [*node.inputs, *[None] * 7]
    ]
    given = [t for t in (q, k, v, mask, past_key, past_value) if t is not None and t.is_floating_point()]
    for t in given:
        t.requires_grad_()
    before = 0 if past_key is None else past_key.shape[2]
    if past_key is not None:
        k, v = torch.cat([past_key, k], 2), torch.cat([past_value, v], 2)
    present = [k, v]
    count = q.shape[1] // k.shape[1]
    keys = k.shape[2]
    k, v = k.repeat_interleave(count, 1), v.repeat_interleave(count, 1)
    a = {name: float(np.float32(x)) if isinstance(x, float) else x for name, x in node.attributes.items()}
    raw = q @ k.transpose(2, 3) * a.get("scale", q.shape[3] ** -0.5)
    capped = torch.tanh(raw / a["softcap"]) * a["softcap"] if "softcap" in a else raw
    bias = torch.zeros(1, 1, q.shape[2], keys, dtype=q.dtype)
    forbid = torch.zeros(1, 1, q.shape[2], keys, dtype=torch.bool)
    offset = torch.full((1, 1, 1, 1), before) if lengths is None else lengths.view(-1, 1, 1, 1) - q.shape[2]
    distance = torch.arange(q.shape[2]).view(-1, 1) + offset - torch.arange(keys)
    if a.get("is_causal"):
        forbid = forbid | (distance < 0)
    if "left_window_size" in a:
        forbid = forbid | (distance > a["left_window_size"]) | (-distance > a["right_window_size"])
    if lengths is not None:
        forbid = forbid | (torch.arange(keys) >= lengths.view(-1, 1, 1, 1))
    if mask is not None and mask.dtype == torch.bool:
        forbid = forbid | ~mask
    elif mask is not None:
        bias = bias + torch.nn.functional.pad(mask, (0, keys - mask.shape[-1]), value=-torch.inf)
    masked = capped + bias.masked_fill(forbid, -torch.inf)
    empty = (masked == -torch.inf).all(3, keepdim=True)
    probabilities = torch.softmax(masked.masked_fill(empty, 0), 3).masked_fill(empty, 0)
    scores = [raw, capped, masked, probabilities][a.get("qk_matmul_output_mode", 0)]
    results = [probabilities @ v, *present, scores]
    return [r for r, letter in zip(results, node.outputs, strict=False) if letter != "-"], given


@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention_is_that_of_pytorch(name):
    node = ATTENTIONS[name]
    expected, _ = torch_attention(node)
    for got, y in zip(values(node), expected, strict=True):
        np.testing.assert_allclose(got, y.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ATTENTIONS)
def test_gradients_of_attention_are_those_of_pytorch(name):
    node = ATTENTIONS[name].in_double()
    expected, given = torch_attention(node)
    weights = output_weights(node, [y.detach().numpy() for y in expected])
    sum((y * torch.from_numpy(w)).sum() for y, w in zip(expected, weights, strict=True)).backward()
    wanted = [i for i, a in enumerate(node.inputs) if a is not None and a.dtype == np.float64]
    for got, t in zip(gradients(node, wanted, weights), given, strict=True):
        np.testing.assert_allclose(got, t.grad.numpy(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", ["boolean-mask", "short-mask", "past"])
def test_gradients_of_attention_are_those_of_finite_differences(name):
    check_gradients(ATTENTIONS[name], range(3))


def test_masked_rows_have_no_gradient():
    """A query that sees no key gives zeros, and zeros go back."""
    node = ATTENTIONS["boolean-mask"]
    weights = output_weights(node, values(node))
    grads = gradients(node, range(3), weights)
    assert all(np.isfinite(g).all() for g in grads)
    np.testing.assert_array_equal(grads[0][:, :, 1], 0)
    np.testing.assert_array_equal(values(node)[0][:, :, 1], 0)


def test_three_dimensions_are_four_in_a_row():
    q, k, v = normal(BATCH, QUERIES, HEADS * SIZE), normal(BATCH, KEYS, 2 * SIZE), normal(BATCH, KEYS, 2 * SIZE)
    flat = Node("Attention", [q, k, v], {"q_num_heads": HEADS, "kv_num_heads": 2}, opset=23)

    def heads(x, count):
        return np.ascontiguousarray(x.reshape(*x.shape[:2], count, SIZE).transpose(0, 2, 1, 3))

    whole = Node("Attention", [heads(q, HEADS), heads(k, 2), heads(v, 2)], opset=23)
    expected = values(whole)[0].transpose(0, 2, 1, 3).reshape(q.shape)
    np.testing.assert_allclose(values(flat)[0], expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("precision", [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE])
def test_softmax_precision(precision):
    node = attention(outputs="y--s", softmax_precision=precision, qk_matmul_output_mode=3)
    expected, _ = torch_attention(node)
    tolerance = 2e-3 if precision == TensorProto.FLOAT16 else 1e-5
    for got, y in zip(values(node), expected, strict=True):
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, y.detach().numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (attention(own=3), "not a multiple"),
        (attention(qk_matmul_output_mode=4), "qk_matmul_output_mode"),
        (attention(left_window_size=-2), "window sizes"),
        (attention(softmax_precision=TensorProto.INT32), "softmax_precision"),
        (attention(more=[None, normal(BATCH, HEADS, 2, SIZE)]), "come together"),
        (attention(scale=-1.0), "scale"),
        (attention(more=[normal(QUERIES, KEYS + 1)]), "attn_mask"),
    ],
)
def test_refusals_of_attention(node, text):
    with pytest.raises(popart.popart_exception, match=text):
        values(node)


def graph(op, **attributes):
    """A graph of one op that changes its input."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.DOUBLE, [BATCH, HEADS, QUERIES, KEYS]) for n in "xy")
    return helper.make_graph([helper.make_node(op, ["x"], ["y"], **attributes)], "change", [x], [y])


@pytest.mark.parametrize("part", ["score_mod", "prob_mod"])
def test_flex_attention_has_gradients(part):
    inputs = attention(own=2).inputs
    node = Node("FlexAttention", inputs, {part: graph("Tanh")}, domain="ai.onnx.preview", opset=23)
    check_gradients(node, range(3))
    q, k, v = (torch.from_numpy(a).double() for a in inputs)
    k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
    scores = q @ k.transpose(2, 3) * SIZE**-0.5
    scores = torch.tanh(scores) if part == "score_mod" else scores
    probabilities = torch.softmax(scores, 3)
    expected = (torch.tanh(probabilities) if part == "prob_mod" else probabilities) @ v
    np.testing.assert_allclose(values(node.in_double())[0], expected.numpy(), rtol=1e-10)


def rotary(x, ids=True, count=8, **attributes):
    tables = [normal(7, count // 2) for _ in range(2)]
    positions = RNG.integers(0, 7, (BATCH, QUERIES))
    if not ids:
        tables = [t[positions] for t in tables]
    return Node("RotaryEmbedding", [x, *tables, *([positions] if ids else [])], attributes, opset=23)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("part", [0, 4])
@pytest.mark.parametrize("ids", [False, True])
def test_rotary_embedding(interleaved, part, ids):
    """A head's pairs as complex numbers, turned by cos + i sin."""
    x = normal(BATCH, HEADS, QUERIES, 8)
    node = rotary(x, ids, part or 8, interleaved=interleaved, rotary_embedding_dim=part)
    cos, sin = (t[node.inputs[3]] if ids else t for t in node.inputs[1:3])
    turned = part or 8
    pairs = (x[..., 0:turned:2], x[..., 1:turned:2]) if interleaved else np.split(x[..., :turned], 2, -1)
    z = (pairs[0] + 1j * pairs[1]) * (cos + 1j * sin)[:, None]
    expected = x.copy()
    if interleaved:
        expected[..., 0:turned:2], expected[..., 1:turned:2] = z.real, z.imag
    else:
        expected[..., :turned] = np.concatenate([z.real, z.imag], -1)
    np.testing.assert_allclose(values(node)[0], expected, rtol=1e-5, atol=1e-6)
    check_gradients(node, range(3))


def test_swiglu_has_gradients():
    node = Node("SwiGLU", [normal(3, 4), normal(3, 4)], {"alpha": 1.3}, opset=28)
    a, b = node.inputs
    np.testing.assert_allclose(values(node)[0], a / (1 + np.exp(-1.3 * a)) * b, rtol=1e-5)
    check_gradients(node, range(2))


@pytest.mark.parametrize("axis", [-2, 1, 3])
@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_tensor_scatter(axis, mode):
    shape = [2, 5, 6, 7]
    past = normal(*shape)
    shape[axis] = 3
    starts = ints(0, 2) if mode == "linear" else ints(3, 6)
    node = Node("TensorScatter", [past, normal(*shape), starts], {"axis": axis, "mode": mode}, opset=24)
    expected = past.copy()
    for sample, start in enumerate(starts):
        rows = np.moveaxis(expected[sample], axis % 4 - 1, 0)
        for i, row in enumerate(np.moveaxis(node.inputs[1][sample], axis % 4 - 1, 0)):
            rows[(start + i) % len(rows)] = row
    np.testing.assert_array_equal(values(node)[0], expected)
    check_gradients(node, range(2))


def test_tensor_scatter_beyond_the_cache_ends_the_run():
    node = Node("TensorScatter", [normal(1, 4, 2), normal(1, 2, 2), ints(3)], opset=24)
    with pytest.raises(popart.popart_exception):
        values(node)


RULES = {"linear": "", "gated": "g", "delta": "b", "gated_delta": "gb"}


def linear_attention(rule, queries=4, own=2, per_head=False, past=True, steps=3):
    needs = RULES[rule]
    inputs = [normal(BATCH, steps, queries * 3), normal(BATCH, steps, own * 3), normal(BATCH, steps, own * 5)]
    inputs.append(normal(BATCH, own, 3, 5) if past else None)
    inputs.append(-np.abs(normal(BATCH, steps, own if per_head else own * 3)) if "g" in needs else None)
    inputs.append(1 / (1 + np.exp(normal(BATCH, steps, own))) if "b" in needs else None)
    attributes = {"update_rule": rule, "q_num_heads": queries, "kv_num_heads": own}
    return Node("LinearAttention", inputs, attributes, "ys", 27)


def linear_attention_formula(node):
    q, k, v, state, decay, beta = (None if a is None else np.array(a, np.float64) for a in node.inputs)
    own, count = node.attributes["kv_num_heads"], node.attributes["q_num_heads"]
    batch, steps, _ = q.shape
    q, k, v = q.reshape(batch, steps, count, 3), k.reshape(batch, steps, own, 3), v.reshape(batch, steps, own, 5)
    state = np.zeros((batch, own, 3, 5)) if state is None else state
    y = np.zeros((batch, steps, count, 5))
    for t in range(steps):
        if decay is not None:
            state = state * np.exp(decay[:, t]).reshape(batch, own, -1, 1)
        fresh = v[:, t]
        if beta is not None:
            fresh = beta[:, t, :, None] * (fresh - np.einsum("bhkv,bhk->bhv", state, k[:, t]))
        state = state + np.einsum("bhk,bhv->bhkv", k[:, t], fresh)
        y[:, t] = np.einsum("bhkv,bhk->bhv", np.repeat(state, count // own, 1), q[:, t]) / np.sqrt(3)
    return y.reshape(batch, steps, -1), state


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("per_head", [False, True])
def test_linear_attention(rule, per_head):
    for past, own, steps in ((True, 2, 3), (False, 4, 1)):
        node = linear_attention(rule, own=own, per_head=per_head, past=past, steps=steps)
        for got, expected in zip(values(node), linear_attention_formula(node), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
        check_gradients(node, [i for i, a in enumerate(node.inputs) if a is not None])


@pytest.mark.parametrize(
    ("change", "text"),
    [({"update_rule": "gated"}, "decay"), ({"q_num_heads": 3}, "multiple"), ({"update_rule": "x"}, "update_rule")],
)
def test_refusals_of_linear_attention(change, text):
    node = linear_attention("linear")
    with pytest.raises(popart.popart_exception, match=text):
        values(Node(node.type, node.inputs, node.attributes | change, "ys", 27))


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("activation", ["none", "silu"])
@pytest.mark.parametrize("length", [2, 6])
def test_causal_convolution(size, activation, length):
    x, past, weight, bias = normal(2, 3, length), normal(2, 3, size - 1), normal(3, 1, size), normal(3)
    node = Node("CausalConvWithState", [x, weight, bias, past], {"activation": activation}, "ys", 27)
    padded = torch.from_numpy(np.concatenate([past, x], 2))
    y = torch.nn.functional.conv1d(padded, torch.from_numpy(weight), torch.from_numpy(bias), groups=3)
    y = torch.nn.functional.silu(y) if activation == "silu" else y
    got, state = values(node)
    np.testing.assert_allclose(got, y.numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(state, padded.numpy()[:, :, length:])
    check_gradients(node, range(4 if size > 1 else 3))
