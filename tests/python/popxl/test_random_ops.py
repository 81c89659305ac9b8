"""Random operators: what the seed decides, ranges, element types, gradients."""

import numpy as np
import popxl
import pytest
from popxl import ops
from programs import evaluate, gradients

SEED = np.array([7, 11], np.uint32)
X = np.linspace(1, 2, 600, dtype=np.float32).reshape(20, 30)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("p", [0.0, 0.25, 0.75])
def test_dropout_keeps_the_mean(dtype, p):
    x = X.astype(dtype)
    got = evaluate(lambda t, s: ops.dropout(t, s, p), x, SEED)
    assert got.dtype == dtype
    kept = got != 0
    assert abs(kept.mean() - (1 - p)) < 0.08
    np.testing.assert_allclose(got[kept], x[kept] / (1 - p), rtol=2e-3 if dtype == np.float16 else 1e-6)


def test_gradients_of_dropout_have_its_mask():
    dy = X[::-1].copy()
    for function in (lambda t, s: ops.dropout(t, s, 0.5), lambda t, s: ops.shaped_dropout(t, s, (20, 1), 0.5)):
        forward = evaluate(function, X, SEED)
        (got,) = gradients(popxl.Ir(), function, [X, SEED], dy, before=True, wanted=[0])
        np.testing.assert_allclose(got, np.where(forward != 0, 2 * dy, 0), rtol=1e-6)


@pytest.mark.parametrize("shape", [(20, 1), (30,), (1, 1), (20, 30)])
def test_one_mask_for_all_that_it_is_broadcast_to(shape):
    got = evaluate(lambda t, s: ops.shaped_dropout(t, s, shape, 0.4), X, SEED)
    mask = got != 0
    row = np.broadcast_to(mask[tuple(slice(0, 1) if n == 1 else slice(None) for n in (1, 1, *shape)[-2:])], X.shape)
    np.testing.assert_array_equal(mask, row)
    np.testing.assert_allclose(got[mask], (X / 0.6)[mask], rtol=1e-6)


def test_equal_seeds_give_equal_masks():
    first, second, other = evaluate(
        lambda t, s, o: [ops.dropout(t, s, 0.5), ops.dropout(t, s, 0.5), ops.dropout(t, o, 0.5)], X, SEED, SEED + 1
    )
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()


@pytest.mark.parametrize("dtype", [popxl.float32, popxl.float16])
def test_ranges(dtype):
    uniform, normal = evaluate(
        lambda s: [ops.random_uniform(s, (70, 30), -1, 3, dtype), ops.random_normal(s, [2100], 2, 0.5, dtype)], SEED
    )
    assert uniform.dtype == normal.dtype == dtype.as_numpy()
    assert uniform.min() >= -1 and uniform.max() < 3
    assert abs(uniform.mean() - 1) < 0.1 and abs(normal.mean() - 2) < 0.1 and abs(normal.std() - 0.5) < 0.05


def test_seeds_that_are_split_differ():
    seeds = evaluate(lambda s: ops.split_random_seed(s, 5), SEED)
    assert all(seed[0] == SEED[0] and seed.dtype == np.uint32 for seed in seeds)
    assert len({int(seed[1]) for seed in seeds}) == 5
