"""First values of layers are SciPy's truncated normal numbers, from the same random numbers of NumPy, in this order."""

import tracemalloc

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl_addons.layers import LayerNorm, Linear
from popxl_addons.layers.initial import normal, ones, zeros
from popxl_addons.optimizers.adam import AdamOptimizerStep
from scipy.stats import truncnorm

# of few numbers, of as many as NumPy draws and one more, of several parts of a thread each
SHAPES = [(), (0,), (3,), (5, 7), (1 << 14,), ((1 << 14) + 1,), (129, 257), (700, 801), (3, 1 << 18)]


def scipys(*shape):
    return truncnorm.rvs(-2, 2, loc=0, scale=0.02, size=shape)


def check_equal(values, expected):
    assert values.dtype == expected.dtype and values.shape == np.shape(expected)
    np.testing.assert_allclose(values, expected, rtol=1e-13, atol=1e-16)


@pytest.fixture
def ir():
    ir = popxl.Ir()
    with ir.main_graph:
        yield ir


def host(ir, t):
    return ir._variable_data[t.id]


@pytest.mark.parametrize("shape", SHAPES)
def test_numbers_and_generator_are_those_of_scipy(shape):
    np.random.seed(3)
    expected = [np.asarray(scipys(*shape)) for _ in range(2)]
    following = np.random.uniform()
    np.random.seed(3)
    source = normal(*shape)
    for values in expected:
        check_equal(source(), values)
    assert np.random.uniform() == following


@pytest.mark.parametrize("drawn", [0, 1, 311, 623])
@pytest.mark.parametrize("shape", [(5, 7), (700, 801)])
def test_from_any_place_of_the_generator(shape, drawn):
    """Its words come in blocks of 624; a number takes two, and integers of 32 bits one."""
    np.random.seed(6)
    np.random.randint(0, 1 << 32, drawn, np.uint32)
    np.random.normal()  # leaves another number behind, which stays
    expected, following = scipys(*shape), np.random.normal(size=3)
    np.random.seed(6)
    np.random.randint(0, 1 << 32, drawn, np.uint32)
    np.random.normal()
    check_equal(normal(*shape)(), expected)
    np.testing.assert_array_equal(np.random.normal(size=3), following)


@pytest.mark.parametrize("shape", [(5, 7), (129, 257)])
def test_another_generator_of_numpys_functions(shape):
    before = np.random.get_bit_generator()
    try:
        np.random.set_bit_generator(np.random.PCG64(8))
        expected = scipys(*shape)
        np.random.set_bit_generator(np.random.PCG64(8))
        check_equal(normal(*shape)(), expected)
    finally:
        np.random.set_bit_generator(before)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_factory_draws_as_if_it_called_its_source_twice(ir, shape):
    np.random.seed(4)
    scipys(*shape)
    first, following, second = scipys(*shape), np.random.uniform(), scipys(*shape)
    np.random.seed(4)
    factory = addons.VariableFactory(normal(*shape), popxl.float32, "w")
    assert np.random.uniform() == following
    made = factory.create_tensor()
    np.testing.assert_allclose(host(ir, made), first, rtol=1e-6)
    np.testing.assert_allclose(host(ir, factory.create_tensor()), second, rtol=1e-6)


def test_the_second_draw_fills_the_weight(ir):
    np.random.seed(5)
    scipys(6, 4)
    expected = scipys(6, 4).astype(np.float32)
    np.random.seed(5)
    factories, _ = Linear(4).create_graph(popxl.variable(np.zeros((2, 6), np.float32)))
    variables = factories.init()
    np.testing.assert_allclose(host(ir, variables.weight), expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", [popxl.float16, popxl.float32, popxl.float64, popxl.int32, popxl.bool, None])
@pytest.mark.parametrize("source", [normal(129, 257), ones(3, 2), zeros(3, 2), zeros()], ids=lambda s: str(s.shape))
def test_variables_have_the_values_of_a_call_in_their_type(ir, source, dtype):
    np.random.seed(9)
    source()
    expected = source()
    np.random.seed(9)
    factory = addons.VariableFactory(source, dtype, "w")
    made = host(ir, factory.create_tensor())
    expected = expected.astype(expected.dtype if dtype is None else dtype.as_numpy())
    assert made.dtype == expected.dtype
    np.testing.assert_array_equal(made, expected)


def test_values_that_were_looked_at_are_not_those_of_the_variable(ir):
    factory = addons.VariableFactory(normal(3, 2), popxl.float64, "w")
    first = factory.data_iter.peek()
    kept = first.copy()
    made = factory.create_tensor()
    first[...] = 7
    np.testing.assert_array_equal(host(ir, made), kept)
    assert not np.array_equal(factory.next_data(), kept)


def test_one_value_for_each_group():
    ir = popxl.Ir(replication=4)
    with ir.main_graph:
        np.random.seed(2)
        scipys(2, 3)
        expected = [scipys(2, 3), scipys(2, 3)]
        np.random.seed(2)
        factory = addons.VariableFactory(normal(2, 3), popxl.float32, "w", replica_grouping=ir.replica_grouping(1, 2))
        np.testing.assert_allclose(host(ir, factory.create_tensor()), expected, rtol=1e-6)


def test_a_file_has_the_values_of_a_call(ir, tmp_path):
    np.random.seed(1)
    scipys(4, 3)
    expected = scipys(4, 3)
    np.random.seed(1)
    factory = addons.VariableFactory(normal(4, 3), popxl.float32, "w")
    made = factory.create_tensor(memmap_dir=str(tmp_path))
    np.testing.assert_allclose(host(ir, made), expected, rtol=1e-6)


@pytest.mark.parametrize("source", [normal(2, -1), ones(-3), zeros(2.5), normal(1.5)], ids=lambda s: str(s.shape))
def test_shapes_that_are_none_fail_in_the_check(ir, source):
    with pytest.raises(ValueError, match="Passed callable via `data_iter` throws error") as caught:
        addons.VariableFactory(source, popxl.float32, "w")
    assert isinstance(caught.value.__cause__, (TypeError, ValueError))


def test_variables_outside_of_the_main_graph_are_refused(ir):
    with ir.create_empty_graph("g"):
        factory = addons.VariableFactory(zeros(2), popxl.float32, "w")
        with pytest.raises(ValueError, match="main graph"):
            factory.create_tensor()


def test_values_take_memory_when_variables_are_made(ir):
    """A graph of large layers and their optimizer is built without the numbers."""
    size = 1024

    class Step(addons.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.norm, self.adam = Linear(size), LayerNorm(), AdamOptimizerStep()

        def build(self, x, v, g):
            self.adam(v, g, lr=0.1)
            return self.norm(self.linear(x))

    x, v = (popxl.variable(np.zeros((n, size), np.float32)) for n in (1, size))
    tracemalloc.start()
    factories, _ = Step().create_graph(x, popxl.TensorSpec(v.shape, v.dtype), popxl.TensorSpec(v.shape, v.dtype))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < size * size
    weight = host(ir, factories.init().linear.weight)
    assert weight.shape == (size, size) and 0.015 < weight.std() < 0.02 and abs(weight).max() <= 0.04
