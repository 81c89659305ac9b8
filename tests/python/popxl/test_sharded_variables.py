"""Variables of which each replica holds a part: the host sees whole values, programs gather and update parts."""

import numpy as np
import popxl
import popxl.ops as ops
import pytest
from popxl.ops import collectives

RNG = np.random.default_rng(6)


def test_parts_and_whole():
    ir = popxl.Ir(replication=4)
    value = RNG.normal(size=(3, 3)).astype(np.float32)
    with ir.main_graph, popxl.in_sequence():
        variable, shard = popxl.replica_sharded_variable(value, name="w")
        assert shard.shape == (3,)
        assert shard.meta_shape == (3, 3)
        assert variable.shape_on_host == (3, 3)
        whole = collectives.replicated_all_gather(shard)
        assert whole.shape == (3, 3)
        parts, wholes = popxl.d2h_stream((3,), popxl.float32), popxl.d2h_stream((3, 3), popxl.float32)
        ops.host_store(parts, shard)
        ops.host_store(wholes, whole)
        ops.scaled_add_(shard, shard, b=1.0)
    padded = np.zeros(12, np.float32)
    padded[:9] = value.reshape(-1)
    with popxl.Session(ir, "cpu") as session:
        results = session.run()
        np.testing.assert_array_equal(results[parts], padded.reshape(4, 3))
        np.testing.assert_array_equal(results[wholes], np.stack([value] * 4))
        np.testing.assert_array_equal(session.get_tensor_data(variable), 2 * value)
        session.write_variable_data(variable, value + 1)
        np.testing.assert_array_equal(session.run()[wholes], np.stack([value + 1] * 4))
    np.testing.assert_array_equal(session.get_tensor_data(variable), 2 * (value + 1))


@pytest.mark.parametrize(("stride", "size", "parts"), [(1, 2, 2), (2, 2, 2), (1, 4, 2), (1, 4, 4)])
def test_groups_and_fewer_parts_than_members(stride, size, parts):
    replicas = 4
    ir = popxl.Ir(replication=replicas)
    with ir.main_graph, popxl.in_sequence():
        grouping = ir.replica_grouping(stride=stride, group_size=size)
        groups = grouping.num_groups
        value = RNG.normal(size=(groups, 5) if groups > 1 else (5,)).astype(np.float32)
        variable, shard = popxl.replica_sharded_variable(value, replica_grouping=grouping, shard_over=parts)
        assert shard.shape == (-(-5 // parts),)
        whole = collectives.replicated_all_gather(shard, group=ir.replica_grouping(stride=stride, group_size=parts))
        out = popxl.d2h_stream(whole.shape, whole.dtype)
        ops.host_store(out, whole)
        ops.var_updates.accumulate_(shard, shard)
    with popxl.Session(ir, "cpu") as session:
        got = session.run()[out]
        np.testing.assert_array_equal(got, value.reshape(groups, 5)[grouping.assignment])
        np.testing.assert_array_equal(session.get_tensor_data(variable), 2 * value)


@pytest.mark.parametrize(("size", "parts"), [(4, 2), (2, 2), (4, 4)])
def test_all_replicas_have_the_value_joined_from_their_neighbours(size, parts):
    ir = popxl.Ir(replication=4)
    with ir.main_graph, popxl.in_sequence():
        grouping = ir.replica_grouping(group_size=size)
        value = RNG.normal(size=(4 // size, 5) if size < 4 else (5,)).astype(np.float32)
        variable, shard = popxl.replica_sharded_variable(
            value, replica_grouping=grouping, shard_over=parts, retrieval_mode="all_replicas"
        )
        each = popxl.variable(np.arange(4, dtype=np.float32), replica_grouping=ir.replica_grouping(group_size=1))
        ops.add_(shard, each)  # neighbours no longer agree
    expected = np.repeat(value.reshape(-1, 5), size, axis=0)
    with popxl.Session(ir, "cpu") as session:
        np.testing.assert_array_equal(session.get_tensor_data(variable), expected)
        session.run()
        length = shard.shape[0]
        for replica in range(4):
            first = replica // parts * parts
            expected[replica] += np.repeat(np.arange(first, first + parts), length)[:5]
        np.testing.assert_array_equal(session.get_tensor_data(variable), expected)
        with pytest.raises(NotImplementedError, match="all_replicas"):
            session.write_variable_data(variable, value)


def momentum_training(replicas, sharded, steps=5):
    """Weights and velocity of a linear model after training; sharded: each replica keeps a part of both."""
    rng = np.random.default_rng(1)
    data = rng.normal(size=(steps, 8, 5)).astype(np.float32)
    first = rng.normal(size=(5, 3)).astype(np.float32)
    ir = popxl.Ir(replication=replicas)
    with ir.main_graph, popxl.in_sequence():
        x = popxl.h2d_stream((8 // replicas, 5), popxl.float32)
        if sharded:
            (w, w_part), (v, v_part) = (
                popxl.replica_sharded_variable(a, name=n) for a, n in ((first, "w"), (np.zeros_like(first), "v"))
            )
            full = collectives.replicated_all_gather(w_part)
        else:
            w = w_part = full = popxl.variable(first, name="w")
            v = v_part = popxl.variable(np.zeros_like(first), name="v")
        batch = ops.host_load(x)
        gradient = ops.transpose(batch) @ (batch @ full)  # of the half sum of squares
        if sharded:
            gradient = collectives.replicated_reduce_scatter(
                gradient, configure_output_for_replicated_tensor_sharding=True
            )
        elif replicas > 1:
            gradient = collectives.replicated_all_reduce(gradient)
        ops.var_updates.accumulate_moving_average_(v_part, gradient, f=0.9)
        ops.scaled_add_(w_part, v_part, b=-0.1)
    with popxl.Session(ir, "cpu") as session:
        for batch in data:
            session.run({x: batch.reshape(*((replicas,) if replicas > 1 else ()), 8 // replicas, 5)})
        return session.get_tensor_data(w).copy(), session.get_tensor_data(v).copy()


@pytest.mark.parametrize("replicas", [2, 4])
def test_sharded_state_trains_to_the_same_bits(replicas):
    whole, parts = momentum_training(replicas, sharded=False), momentum_training(replicas, sharded=True)
    for a, b in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(momentum_training(1, sharded=False), parts, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_refusals():
    with popxl.Ir().main_graph, pytest.raises(ValueError, match="one replica"):
        popxl.replica_sharded_variable(np.ones(4, np.float32))
    with popxl.Ir(replication=4).main_graph, pytest.raises(ValueError, match="divisor of the group size 4"):
        popxl.replica_sharded_variable(np.ones(4, np.float32), shard_over=3)
    with popxl.Ir(replication=4).main_graph, pytest.raises(ValueError, match="Unknown retrieval_mode: got 'each'"):
        popxl.replica_sharded_variable(np.ones(4, np.float32), retrieval_mode="each")
