"""First values of layers are SciPy's truncated normal numbers, from the same random numbers of NumPy."""

import numpy as np
import popxl
import pytest
from popxl_addons.layers import Linear
from popxl_addons.layers.initial import normal
from scipy.stats import truncnorm


def scipys(*shape):
    return truncnorm.rvs(-2, 2, loc=0, scale=0.02, size=shape)


@pytest.mark.parametrize("shape", [(), (0,), (3,), (5, 7), (1 << 14,), (129, 257), (700, 401)])
def test_numbers_and_generator_are_those_of_scipy(shape):
    np.random.seed(3)
    expected = [scipys(*shape), scipys(*shape)]
    following = np.random.uniform()
    np.random.seed(3)
    source = normal(*shape)
    for values in expected:
        np.testing.assert_allclose(source(), values, rtol=1e-13, atol=1e-16)
    assert np.random.uniform() == following


@pytest.mark.parametrize("shape", [(), (5, 7), (129, 257)])
def test_skipping_leaves_the_generator_as_a_call_does(shape):
    np.random.seed(4)
    normal(*shape)()
    following = np.random.uniform()
    np.random.seed(4)
    normal(*shape).skip()
    assert np.random.uniform() == following


def test_the_second_draw_fills_the_weight():
    np.random.seed(5)
    scipys(6, 4)
    expected = scipys(6, 4).astype(np.float32)
    np.random.seed(5)
    ir = popxl.Ir()
    with ir.main_graph:
        factories, _ = Linear(4).create_graph(popxl.variable(np.zeros((2, 6), np.float32)))
        variables = factories.init()
    np.testing.assert_allclose(ir._variable_data[variables.weight.id], expected, rtol=1e-6)
