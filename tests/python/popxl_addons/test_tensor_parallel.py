"""Collectives with gradients and layers in parts over replicas, against one replica's program and NumPy."""

import numpy as np
import popart
import popxl
import popxl.ops as ops
import popxl_addons as addons
import pytest
import torch
from popxl_addons import patterns
from popxl_addons.ops import replicated_all_reduce_TP as tp
from popxl_addons.ops import replicated_strided_collectives as strided
from popxl_addons.ops.cross_entropy_sharded_loss import cross_entropy_sharded_loss
from popxl_addons.ops.cross_entropy_sharded_wr_loss import cross_entropy_sharded_wr_loss
from popxl_addons.ops.layer_norm_distributed import layer_norm_distributed

from tests import rounding
from tests.python.popxl_addons.programs import run, with_gradients

RNG = np.random.default_rng(19)


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


# ---- all-reduces
GROUPS = [(1, None), (1, 2), (2, 2)]


def members(stride, size, replicas=4):
    size = size or replicas // stride
    blocks = np.arange(replicas).reshape(-1, size, stride)
    return [list(blocks[b, :, i]) for b in range(len(blocks)) for i in range(stride)]


def reduced(values, stride, size, mean=False):
    result = np.empty_like(values)
    for group in members(stride, size):
        result[group] = values[group].mean(0) if mean else values[group].sum(0)
    return result


# (function, operator, whether values and gradients are reduced)
STRIDED = (
    (strided.replicated_all_reduce_strided, True, True),
    (strided.replicated_all_reduce_strided_identical_inputs, False, True),
    (strided.replicated_all_reduce_strided_identical_grad_inputs, True, False),
)
SUMS = (
    (tp.replicated_all_reduce, True, True),
    (tp.replicated_all_reduce_identical_inputs, False, True),
    (tp.replicated_all_reduce_identical_grad_inputs, True, False),
)
REDUCTIONS = [
    *((f, op, *how) for op in ("add", "mean") for f, *how in STRIDED),
    *((f, "add", *how) for f, *how in SUMS),
]


@pytest.mark.parametrize(("stride", "size"), GROUPS)
@pytest.mark.parametrize(("function", "op", "forward", "backward"), REDUCTIONS)
def test_all_reduces(function, op, forward, backward, stride, size):
    x, g = normal(4, 3, 2), normal(4, 3, 2)

    def build(x, g):
        group = popxl.gir().replica_grouping(stride, size)
        return with_gradients(lambda t: function(t, op, group), 1, x, gradient=g)

    y, dx = run(4, build, x, g)
    mean = op == "mean"
    np.testing.assert_allclose(y, reduced(x, stride, size, mean) if forward else x, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dx, reduced(g, stride, size, mean) if backward else g, rtol=1e-5, atol=1e-6)


def test_names_and_refusals():
    ir = popxl.Ir(replication=2)
    with ir.main_graph:
        t = popxl.variable(np.ones(3, np.float32), name="t")
        assert tp.replicated_all_reduce(t)._pb_tensor.getProducer().opType() == "ReplicatedAllReduceTP"
        y = strided.replicated_all_reduce_strided(t)
        assert y._pb_tensor.getProducer().opType() == "ReplicatedAllReduceStrided"
        assert y._pb_tensor.getProducer().opDomain() == "popxl.addons.ops"
        for function in (strided.replicated_all_reduce_strided, strided.replicated_reduce_scatter_strided):
            with pytest.raises(popart.popart_exception, match=r"max|Max"):
                function(t, "max")
        with pytest.raises(popart.popart_exception, match="Mean"):
            tp.replicated_all_reduce(t, "mean")
        with pytest.raises(KeyError):
            patterns.apply_pre_alias_patterns(ir, "some")


@pytest.mark.parametrize(("stride", "size"), GROUPS)
def test_gather_and_scatter(stride, size):
    x = normal(4, 3, 2)

    def build(t):
        group = popxl.gir().replica_grouping(stride, size)
        part = strided.replicated_reduce_scatter_strided(t, "mean", group, True)
        assert part.meta_shape == (3, 2)
        plain = strided.replicated_reduce_scatter_strided(t, "add", group)
        assert plain.meta_shape == ()
        whole, pieces = (strided.replicated_all_gather_strided(p, group) for p in (part, t))
        graph, names = strided.replicated_all_reduce_strided_graph(addons.NamedTensors(b=t, a=part), "add", group)
        assert names == ["a", "b"]
        _, total = graph.bind(addons.NamedTensors(b=t, a=part)).call()
        return [whole, pieces, plain, total]

    whole, pieces, plain, total = run(4, build, x)
    np.testing.assert_allclose(whole, reduced(x, stride, size, mean=True), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(total, reduced(x, stride, size), rtol=1e-5, atol=1e-6)
    for group in members(stride, size):
        chunk = -(-6 // len(group))
        padded = np.pad(x[group].sum(0).reshape(-1), (0, chunk * len(group) - 6))
        for rank, replica in enumerate(group):
            np.testing.assert_array_equal(pieces[replica], x[group].reshape(-1))
            np.testing.assert_allclose(plain[replica], padded.reshape(-1, chunk)[rank], rtol=1e-5, atol=1e-6)


# ---- a tensor-parallel block
def block(x, w1, w2, enter=lambda t: t, leave=lambda t: t):
    return ops.sum(ops.sin(leave(ops.gelu(enter(x) @ w1) @ w2)))


def exact_block(*values):
    """The terms of the block's sum and its gradients in float64."""
    x, w1, w2 = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in values)
    terms = torch.sin(torch.nn.functional.gelu(x @ w1, approximate="tanh") @ w2)
    terms.sum().backward()
    return terms.detach().numpy(), *(t.grad.numpy() for t in (x, w1, w2))


def for_replicas(values):
    """One value for each replica; for one replica the value itself."""
    return np.stack(values) if len(values) > 1 else values[0]


def by_replica(result, replicas):
    return result if replicas > 1 else result[None]


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_a_block_in_parts_has_the_gradients_of_the_whole(parts):
    x, w1, w2 = normal(4, 6), normal(6, 8), normal(8, 6)
    terms, dx, d1, d2 = exact_block(x, w1, w2)

    def in_parts(*t):
        enter, leave = tp.replicated_all_reduce_identical_inputs, tp.replicated_all_reduce_identical_grad_inputs
        return with_gradients(lambda x, w1, w2: block(x, w1, w2, enter, leave), 3, *t)

    columns, rows = (for_replicas(np.split(w, parts, axis)) for w, axis in ((w1, 1), (w2, 0)))
    results = run(parts, in_parts, for_replicas([x] * parts), columns, rows)
    got = [by_replica(r, parts) for r in results]
    # each term is the sine of a sum of 8 products: ten times the roundings of a term that is given
    np.testing.assert_allclose(got[0], [terms.sum()] * parts, rtol=0, atol=rounding.of_sum(terms, steps=80))
    np.testing.assert_allclose(got[1], np.stack([dx] * parts), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.concatenate(got[2], 1), d1, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.concatenate(got[3], 0), d2, rtol=1e-4, atol=1e-5)


# ---- cross entropy
def numpy_cross_entropy(logits, labels):
    x = logits.astype(np.float64)
    x = x - x.max(1, keepdims=True)
    log_softmax = x - np.log(np.exp(x).sum(1, keepdims=True))
    own = labels[:, None] == np.arange(x.shape[1])
    return -np.where(own, log_softmax, 0).sum(1), np.exp(log_softmax) - own


@pytest.mark.parametrize("ignore", [None, 3])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("parts", [1, 2, 4])
def test_cross_entropy_in_parts(parts, reduction, ignore):
    n, c = 5, 12 // parts
    logits = normal(n, parts * c) * np.float32(20)
    logits[:, 5] = -np.inf  # a class that is masked out
    labels = np.array([0, 11, 3, 7, 3], np.int32)
    losses, grads = numpy_cross_entropy(logits, labels)
    counts = np.ones(n) if ignore is None else (labels != ignore).astype(np.float64)
    scale = counts / (counts.sum() if reduction == "mean" else 1)
    expected = losses * scale if reduction == "none" else (losses * scale).sum()

    def build(x, shifted, ignored):
        def function(x, labels, ignored):
            given = None if ignore is None else ignored
            return cross_entropy_sharded_loss(x, labels, given, reduction=reduction)

        return with_gradients(function, 1, x, shifted, ignored)

    offsets = np.arange(parts, dtype=np.int32) * c
    given = (np.split(logits, parts, 1), list(labels - offsets[:, None]), list(np.int32(ignore or 0) - offsets))
    results = run(parts, build, *(for_replicas(values) for values in given))
    loss, dx = (by_replica(r, parts) for r in results)
    for replica in range(parts):
        np.testing.assert_allclose(loss[replica], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.concatenate(dx, 1), grads * scale[:, None], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("stride", "size"), GROUPS)
def test_cross_entropy_over_groups_in_float16(stride, size):
    x, labels = normal(4, 2, 3).astype(np.float16), np.zeros((4, 2), np.int32)
    for group in members(stride, size):
        for rank, replica in enumerate(group):
            labels[replica] -= 3 * rank  # class 0 of the whole

    def build(x, labels):
        group = popxl.gir().replica_grouping(stride, size)
        return [cross_entropy_sharded_loss(x, labels, replica_grouping=group, reduction="none")]

    (loss,) = run(4, build, x, labels)
    for group in members(stride, size):
        whole = np.concatenate(x[group], 1)
        expected, _ = numpy_cross_entropy(whole, np.zeros(2, np.int32))
        np.testing.assert_allclose(loss[group], np.stack([expected] * len(group)), rtol=2e-3, atol=1e-3)


def test_cross_entropy_refusals():
    ir = popxl.Ir()
    with ir.main_graph:
        x, labels = popxl.variable(np.ones((2, 3), np.float32)), popxl.variable(np.ones(2, np.int32))
        with pytest.raises(ValueError, match="reduction: got 'max'"):
            cross_entropy_sharded_loss(x, labels, reduction="max")
        with pytest.raises(popart.popart_exception, match="two dimensions"):
            cross_entropy_sharded_loss(ops.flatten(x), labels)
        with pytest.raises(popart.popart_exception, match="one dimension of 2 samples"):
            cross_entropy_sharded_loss(x, popxl.variable(np.ones(3, np.int32)))


def test_cross_entropy_over_ipus():
    logits, labels = normal(4, 9), np.array([0, 4, 8, 3], np.int32)
    expected, grads = numpy_cross_entropy(logits, labels)

    def build(x, labels):
        def function(a, b, c, labels):
            copies = []
            parts = [a, b, c]
            for i in range(3):
                with popxl.ipu(i):
                    parts[i] = parts[i] * 1
                    copies.append(ops.identity(labels))
            return cross_entropy_sharded_wr_loss(parts, copies)

        parts = [x[:, :2], x[:, 2:6], x[:, 6:]]
        return with_gradients(function, 3, *parts, labels)

    loss, *dx = run(1, build, logits, labels)
    np.testing.assert_allclose(loss, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.concatenate(dx, 1), grads, rtol=1e-5, atol=1e-6)


def test_cross_entropy_over_ipus_refusals():
    ir = popxl.Ir()
    with ir.main_graph:
        x, labels = popxl.variable(np.ones((2, 3), np.float32)), popxl.variable(np.ones(2, np.int32))
        with pytest.raises(ValueError, match="IPU of"):
            cross_entropy_sharded_wr_loss([x], [labels])
        with pytest.raises(ValueError, match="2 logits, 1 indices and 2 IPUs"):
            cross_entropy_sharded_wr_loss([x, x], [labels], [0, 1])
        with popxl.ipu(1):
            y = x + 1
        with popxl.ipu(0):
            moved = ops.identity(labels)
        with pytest.raises(ValueError, match=r"IPUs \[1\], indices on \[0\]"):
            cross_entropy_sharded_wr_loss([y], [moved])
        with pytest.raises(popart.popart_exception, match="indices differ"):
            cross_entropy_sharded_wr_loss([x, x], [labels, popxl.variable(np.ones(3, np.int32))], [0, 1])


# ---- layer norm
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("parts", [1, 2, 4])
def test_layer_norm_in_parts(parts, dtype):
    t, w, b, g = (v.astype(dtype) for v in (normal(3, 8) + 2, normal(8), normal(8), normal(3, 8)))

    def whole(t, w, b, g):
        return with_gradients(lambda t, w, b: ops.layer_norm(t, w, b, 1e-5), 3, t, w, b, gradient=g)

    def in_parts(t, w, b, g):
        return with_gradients(layer_norm_distributed, 3, t, w, b, gradient=g)

    expected = run(1, whole, *(v.astype(np.float32) for v in (t, w, b, g)))
    got = run(parts, in_parts, *(for_replicas(np.split(v, parts, -1)) for v in (t, w, b, g)))
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if dtype == np.float32 else {"rtol": 5e-3, "atol": 1e-2}
    for ours, theirs in zip(got, expected, strict=True):
        assert ours.dtype == dtype
        np.testing.assert_allclose(np.concatenate(by_replica(ours, parts), -1), theirs, **tolerance)


def test_layer_norm_refusal():
    ir = popxl.Ir()
    with ir.main_graph, pytest.raises(AssertionError):
        v = popxl.variable(np.ones((2, 2, 2), np.float32))
        layer_norm_distributed(v, v, v)
