"""Replicas in one process: data per replica, collectives over groups, variables with one value per group."""

import numpy as np
import popart_core
import popxl
import popxl.ops as ops
import pytest
from popxl.ops import collectives
from popxl.transforms import autodiff

RNG = np.random.default_rng(5)


def run_replicated(replicas, build, *inputs):
    """Result of `build` on tensors that are loaded from streams, one value per replica; results: (replicas, ...)."""
    ir = popxl.Ir(replication=replicas)
    with ir.main_graph, popxl.in_sequence():
        dtypes = [popxl.dtypes.dtype.as_dtype(x.dtype) for x in inputs]
        streams = [popxl.h2d_stream(x.shape[1:], dtype) for x, dtype in zip(inputs, dtypes, strict=True)]
        result = build(*[ops.host_load(s) for s in streams])
        out = popxl.d2h_stream(result.shape, result.dtype)
        ops.host_store(out, result)
    with popxl.Session(ir, "cpu") as session:
        return session.run(dict(zip(streams, inputs, strict=True)))[out].reshape(replicas, *result.shape)


def groups_of(replicas, stride, size):
    """Replicas of each group, and for each replica its group's members."""
    blocks = range(0, replicas, stride * size)
    groups = [[b + i + j * stride for j in range(size)] for b in blocks for i in range(stride)]
    return {r: g for g in groups for r in g}


REDUCTIONS = {
    "add": lambda x: x.sum(0),
    "mean": lambda x: x.mean(0),
    "min": lambda x: x.min(0),
    "max": lambda x: x.max(0),
    "square_add": lambda x: (x * x).sum(0),
}
GROUPINGS = [(2, 1, 2), (3, 1, 3), (4, 1, 2), (4, 2, 2), (8, 2, 2), (8, 1, 8)]


@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.parametrize("replicas, stride, size", GROUPINGS)
def test_all_reduce(replicas, stride, size, op):
    x = RNG.normal(size=(replicas, 3, 67)).astype(np.float32)

    def build(t):
        group = popxl.gcg().ir.replica_grouping(stride=stride, group_size=size)
        return collectives.replicated_all_reduce(t, op, group)

    got = run_replicated(replicas, build, x)
    for replica, members in groups_of(replicas, stride, size).items():
        np.testing.assert_allclose(got[replica], REDUCTIONS[op](x[members]), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(got[replica], got[members[0]])


def tree_sum(terms, dtype=np.float32):
    """Sum over the first dimension, neighbours first: level by level, in `dtype`."""
    level = list(terms.astype(dtype))
    while len(level) > 1:
        level = [sum(level[i + 1 : i + 2], level[i]) for i in range(0, len(level), 2)]
    return level[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("replicas, stride, size", [*GROUPINGS, (5, 1, 5), (6, 1, 6), (7, 1, 7), (12, 2, 6)])
def test_sums_follow_a_tree_over_the_members(replicas, stride, size, dtype):
    x = (RNG.normal(size=(replicas, 5000)) * np.exp2(RNG.integers(-4, 5, size=(replicas, 5000)))).astype(dtype)
    got = run_replicated(replicas, lambda t: collectives.replicated_all_reduce(t, "add", grouped(stride, size)), x)
    scattered = run_replicated(
        replicas, lambda t: collectives.replicated_reduce_scatter(t, "add", grouped(stride, size)), x
    )
    for replica, members in groups_of(replicas, stride, size).items():
        expected = tree_sum(x[members]).astype(dtype)  # float32, rounded once
        np.testing.assert_array_equal(got[replica], expected)
        own = np.resize(np.append(expected, np.zeros(size, dtype)), (size, -(-5000 // size)))[members.index(replica)]
        np.testing.assert_array_equal(scattered[replica], own)


@pytest.mark.parametrize("replicas", [4, 6, 8])
def test_a_tree_is_not_less_precise_than_a_sum_from_left_to_right(replicas):
    x = RNG.normal(size=(replicas, 20000)).astype(np.float32)
    got = run_replicated(replicas, collectives.replicated_all_reduce, x)[0]
    exact = x.astype(np.float64).sum(0)
    from_left = np.add.accumulate(x, 0, dtype=np.float32)[-1]
    assert np.square(got - exact).sum() <= np.square(from_left - exact).sum()


@pytest.mark.parametrize("dtype", [np.float16, np.int32, np.uint32, np.int8])
def test_element_types(dtype):
    x = RNG.integers(0, 20, size=(4, 1000)).astype(dtype)
    got = run_replicated(4, collectives.replicated_all_reduce, x)
    np.testing.assert_array_equal(got, np.broadcast_to(x.sum(0, dtype=dtype), got.shape))


@pytest.mark.parametrize("replicas, stride, size", GROUPINGS)
def test_logical_reductions(replicas, stride, size):
    x = RNG.integers(0, 2, size=(replicas, 50)).astype(bool)
    for op, join in (("and", np.logical_and), ("or", np.logical_or)):
        got = run_replicated(
            replicas, lambda t, op=op: collectives.replicated_all_reduce(t, op, grouped(stride, size)), x
        )
        for replica, members in groups_of(replicas, stride, size).items():
            np.testing.assert_array_equal(got[replica], join.reduce(x[members]))


@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.parametrize("replicas, stride, size", GROUPINGS)
def test_reduce_scatter_and_all_gather_by_group(replicas, stride, size, op):
    x = RNG.normal(size=(replicas, 2 * size + 1)).astype(np.float32)

    def scatter(t):
        return collectives.replicated_reduce_scatter(t, op, grouped(stride, size))

    parts = run_replicated(replicas, scatter, x)
    gathered = run_replicated(
        replicas,
        lambda t: collectives.replicated_all_gather(scatter(t), 0, grouped(stride, size), output_shape="concat"),
        x,
    )
    for replica, members in groups_of(replicas, stride, size).items():
        whole = np.zeros(3 * size, np.float32)
        whole[: 2 * size + 1] = REDUCTIONS[op](x[members])
        np.testing.assert_allclose(gathered[replica], whole, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(parts[replica], gathered[replica].reshape(size, 3)[members.index(replica)])


@pytest.mark.parametrize("n", [8, 9, 1, 4097])
def test_reduce_scatter_pads_with_zeros(n):
    x = RNG.normal(size=(4, n)).astype(np.float32)
    got = run_replicated(4, collectives.replicated_reduce_scatter, x)
    chunk = -(-n // 4)
    expected = np.zeros(4 * chunk, np.float32)
    expected[:n] = x.sum(0)
    np.testing.assert_allclose(got.reshape(-1), expected, rtol=1e-5, atol=1e-6)


def test_all_gather_forms():
    x = RNG.normal(size=(4, 2, 3)).astype(np.float32)
    got = run_replicated(4, lambda t: collectives.replicated_all_gather(t, axis=0, output_shape="concat"), x)
    np.testing.assert_array_equal(got[2], x.reshape(8, 3))
    got = run_replicated(4, lambda t: collectives.replicated_all_gather(t, axis=1, output_shape="concat"), x)
    np.testing.assert_array_equal(got[1], np.concatenate(list(x), axis=1))
    got = run_replicated(4, lambda t: collectives.replicated_all_gather(t, axis=1, output_shape="new_axis"), x)
    np.testing.assert_array_equal(got[3], np.stack(list(x), axis=1))


def grouped(stride, size):
    return popxl.gcg().ir.replica_grouping(stride=stride, group_size=size)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("replicas, stride, size", GROUPINGS)
def test_all_to_all(replicas, stride, size, axis):
    x = RNG.normal(size=(replicas, 2 * size, 3 * size, size)).astype(np.float32)
    got = run_replicated(replicas, lambda t: collectives.replicated_all_to_all(t, axis, grouped(stride, size)), x)
    for replica, members in groups_of(replicas, stride, size).items():
        place = members.index(replica)
        expected = np.concatenate([np.split(x[m], size, axis)[place] for m in members], axis)
        np.testing.assert_array_equal(got[replica], expected)


@pytest.mark.parametrize("root", [0, 1])
@pytest.mark.parametrize("replicas, stride, size", GROUPINGS)
def test_broadcast(replicas, stride, size, root):
    x = RNG.normal(size=(replicas, 5, 7)).astype(np.float32)
    got = run_replicated(replicas, lambda t: collectives.replicated_broadcast(t, root, grouped(stride, size)), x)
    for replica, members in groups_of(replicas, stride, size).items():
        np.testing.assert_array_equal(got[replica], x[members[root]])


def test_gradients_of_exchanges():
    """The loss of a replica is the sum of its results times weights of its own."""
    x, w = RNG.normal(size=(2, 4, 8, 3)).astype(np.float32)

    def gradient_of(exchange):
        def build(t, weights):
            ir = popxl.gcg().ir
            graph = ir.create_graph(lambda t, weights: ops.sum(exchange(t) * weights), t, weights)
            backward = popxl.transforms.autodiff(graph, grads_required=graph.inputs[:1])
            called = ops.call_with_info(graph, t, weights)
            given = popxl.constant(np.ones((), np.float32))
            return ops.call(backward.graph, given, inputs_dict=backward.inputs_dict(called))[0]

        return run_replicated(4, build, x, w)

    swapped = w.reshape(4, 4, 2, 3).swapaxes(0, 1).reshape(4, 8, 3)
    np.testing.assert_array_equal(gradient_of(collectives.replicated_all_to_all), swapped)
    expected = np.zeros_like(w)
    expected[2] = w.sum(0)
    np.testing.assert_allclose(
        gradient_of(lambda t: collectives.replicated_broadcast(t, 2)), expected, rtol=1e-5, atol=1e-6
    )


def test_exchanges_refuse_what_does_not_fit():
    with pytest.raises(ValueError, match="axis 0 of size 3 does not divide by the group size 2"):
        run_replicated(2, collectives.replicated_all_to_all, np.ones((2, 3), np.float32))
    with pytest.raises(ValueError, match="root: got 2, expected 0 to 1"):
        run_replicated(2, lambda t: collectives.replicated_broadcast(t, 2), np.ones((2, 3), np.float32))


def test_slices_and_gathers_are_inverse():
    x = np.broadcast_to(RNG.normal(size=(7, 3)).astype(np.float32), (4, 7, 3)).copy()

    def there_and_back(t):
        shard = collectives.replica_sharded_slice(t)
        assert shard.shape == (6,)
        assert shard.meta_shape == (7, 3)
        return collectives.replicated_all_gather(shard)

    np.testing.assert_array_equal(run_replicated(4, there_and_back, x), x)
    y = RNG.normal(size=(4, 8, 3)).astype(np.float32)
    got = run_replicated(4, lambda t: collectives.replicated_slice(t, axis=0), y)
    np.testing.assert_array_equal(got, np.stack([y[r, 2 * r : 2 * r + 2] for r in range(4)]))


def test_in_place_reduction_of_a_variable():
    ir = popxl.Ir(replication=2)
    with ir.main_graph, popxl.in_sequence():
        x = popxl.h2d_stream((2,), popxl.float32)
        total = popxl.variable(np.zeros(2, np.float32), name="total", retrieval_mode="all_replicas")
        ops.var_updates.accumulate_(total, ops.host_load(x))
        collectives.replicated_all_reduce_(total)
    with popxl.Session(ir, "cpu") as session:
        session.run({x: np.array([[1, 2], [10, 20]], np.float32)})
        np.testing.assert_array_equal(session.get_tensor_data(total), [[11, 22], [11, 22]])


@pytest.mark.parametrize("stride", [1, 2])
def test_variables_with_one_value_per_group(stride):
    replicas = 4
    ir = popxl.Ir(replication=replicas)
    first = np.array([[1, 2, 3], [10, 20, 30]], np.float32)
    with ir.main_graph, popxl.in_sequence():
        grouping = ir.replica_grouping(stride=stride, group_size=2)
        v = popxl.variable(first, name="v", replica_grouping=grouping)
        assert v.shape == (3,)
        assert v.shape_on_host == (2, 3)
        out = popxl.d2h_stream(v.shape, v.dtype)
        ops.host_store(out, v)
        ops.var_updates.accumulate_(v, popxl.constant(np.ones(3, np.float32)))
    group = [r % stride + stride * (r // (2 * stride)) for r in range(replicas)]
    with popxl.Session(ir, "cpu") as session:
        np.testing.assert_array_equal(session.run()[out], first[group])
        np.testing.assert_array_equal(session.run()[out], first[group] + 1)
        np.testing.assert_array_equal(session.get_tensor_data(v), first + 2)
        session.write_variable_data(v, first * 5)
        np.testing.assert_array_equal(session.run()[out], (first * 5)[group])
    np.testing.assert_array_equal(session.get_tensor_data(v), first * 5 + 1)


def test_groups_without_a_constant_stride():
    ir = popxl.Ir(replication=4)
    first = np.array([[1], [2]], np.float32)
    with ir.main_graph, popxl.in_sequence():
        grouping = ir.replica_grouping_from_assignments([0, 1, 1, 0])
        v = popxl.variable(first, name="v", replica_grouping=grouping)
        out = popxl.d2h_stream(v.shape, v.dtype)
        ops.host_store(out, v)
        ops.var_updates.accumulate_(v, popxl.constant(np.ones(1, np.float32)))
    with popxl.Session(ir, "cpu") as session:
        np.testing.assert_array_equal(session.run()[out], first[[0, 1, 1, 0]])
        np.testing.assert_array_equal(session.get_tensor_data(v), first + 1)


def test_all_replicas_of_a_group_come_back():
    ir = popxl.Ir(replication=4)
    with ir.main_graph, popxl.in_sequence():
        x = popxl.h2d_stream((), popxl.float32)
        grouping = ir.replica_grouping(group_size=2)
        v = popxl.variable(
            np.array([1, 2], np.float32), name="v", replica_grouping=grouping, retrieval_mode="all_replicas"
        )
        ops.var_updates.accumulate_(v, ops.host_load(x))
    session = popxl.Session(ir, "cpu")
    np.testing.assert_array_equal(session.get_tensor_data(v), [1, 1, 2, 2])
    with session:
        session.run({x: np.array([0.5, 1.5, 2.5, 3.5], np.float32)})
        np.testing.assert_array_equal(session.get_tensor_data(v), [1.5, 2.5, 4.5, 5.5])
        with pytest.raises(NotImplementedError, match="all_replicas"):
            session.write_variable_data(v, np.zeros(2, np.float32))


def test_transfers_come_before_replicas():
    ir = popxl.Ir(replication=2)
    ir.num_host_transfers = 3
    with ir.main_graph, popxl.in_sequence():
        x, y = popxl.h2d_stream((2,), popxl.float32), popxl.d2h_stream((2,), popxl.float32)

        def body():
            ops.host_store(y, ops.host_load(x) * 2.0)

        ops.repeat(ir.create_graph(body), 3)
    value = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
    with popxl.Session(ir, "cpu") as session:
        np.testing.assert_array_equal(session.run({x: value})[y], value * 2)
        with pytest.raises(ValueError, match="wrong shape"):
            session.run({x: np.zeros((3, 3, 2), np.float32)})


def train(replicas, steps=20, rate=0.1):
    """Weights after data parallel training on one global batch of 8 rows per step."""
    rng = np.random.default_rng(0)
    data, wanted = rng.normal(size=(steps, 8, 5)).astype(np.float32), rng.normal(size=(steps, 8, 3)).astype(np.float32)
    ir = popxl.Ir(replication=replicas)
    rows = 8 // replicas
    with ir.main_graph, popxl.in_sequence():
        x, t = popxl.h2d_stream((rows, 5), popxl.float32), popxl.h2d_stream((rows, 3), popxl.float32)
        w = popxl.variable(rng.normal(size=(5, 3)).astype(np.float32), name="w")

        def forward(x, t, w):
            error = x @ w - t
            return ops.sum(error * error)

        xs, ts = ops.host_load(x), ops.host_load(t)
        graph = ir.create_graph(forward, xs, ts, w)
        gradient = autodiff(graph, grads_required=[graph.inputs[2]])
        site = ops.call_with_info(graph, xs, ts, w)
        grads = ops.call(gradient.graph, popxl.constant(np.float32(1)), inputs_dict=gradient.inputs_dict(site))
        grad = collectives.replicated_all_reduce(grads[0])
        ops.scaled_add_(w, grad, b=-rate / 8)
    with popxl.Session(ir, "cpu") as session:
        for i in range(steps):
            shape = (replicas, rows) if replicas > 1 else (rows,)
            session.run({x: data[i].reshape(*shape, 5), t: wanted[i].reshape(*shape, 3)})
        return session.get_tensor_data(w).copy()


@pytest.mark.parametrize("replicas", [2, 4])
def test_data_parallel_training(replicas):
    np.testing.assert_allclose(train(replicas), train(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(train(replicas), train(replicas))


def test_a_failure_ends_all_replicas():
    def build(index):
        rows = ops.gather(popxl.constant(np.ones((4, 2), np.float32)), index)
        return collectives.replicated_all_reduce(rows)

    with pytest.raises(popart_core.popart_runtime_error, match="index is out of range: got 7"):
        run_replicated(2, build, np.array([[1], [7]], np.int32))


def test_replicas_that_do_not_meet_are_told_so():
    ir = popxl.Ir(replication=2)
    with ir.main_graph, popxl.in_sequence():
        s = popxl.h2d_stream((), popxl.bool)

        def reduces(x):
            return collectives.replicated_all_reduce(x)

        def doubles(x):
            return x * 2.0

        x = popxl.variable(np.ones(3, np.float32))
        y = ops.conditional(ops.host_load(s), ir.create_graph(reduces, x), ir.create_graph(doubles, x), [x], [x])[0]
        out = popxl.d2h_stream(y.shape, y.dtype)
        ops.host_store(out, y)
    with popxl.Session(ir, "cpu") as session:
        np.testing.assert_array_equal(session.run({s: np.array([True, True])})[out], np.full((2, 3), 2.0))
        with pytest.raises(popart_core.popart_runtime_error, match="do not reach it"):
            session.run({s: np.array([True, False])})
        np.testing.assert_array_equal(session.run({s: np.array([False, False])})[out], np.full((2, 3), 2.0))


def test_groups_that_do_not_fit():
    with popxl.Ir(replication=4).main_graph:
        v = popxl.variable(np.ones(4, np.float32))
        group = popxl.gcg().ir.replica_grouping(stride=4, group_size=2)
        with pytest.raises(ValueError, match="must divide the replication factor"):
            collectives.replicated_all_reduce(v, group=group)
