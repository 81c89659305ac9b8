"""Sharded tensors of replicas: specs, gathers and reductions, one by one and as graphs over trees of tensors."""

import numpy as np
import popxl
import popxl.ops as ops
import popxl_addons as addons
import pytest
from popxl_addons import named_replica_grouping as groupings
from popxl_addons import rts
from popxl_addons.named_replica_grouping import NamedReplicaGrouping

RNG = np.random.default_rng(3)


def run(replicas, build, *values):
    """Results of `build` on tensors with one value per replica; each result has one value per replica."""
    ir = popxl.Ir(replication=replicas)
    with ir.main_graph, popxl.in_sequence():
        streams = [popxl.h2d_stream(v.shape[1:], popxl.float32) for v in values]
        results = build(*[ops.host_load(s) for s in streams])
        outs = []
        for t in results:
            outs.append(popxl.d2h_stream(t.shape, t.dtype))
            ops.host_store(outs[-1], t)
    with popxl.Session(ir, "cpu") as session:
        got = session.run(dict(zip(streams, values, strict=True)))
    return [got[o] for o in outs]


def test_specs():
    ir = popxl.Ir(replication=4)
    with ir.main_graph:
        t, odd = popxl.variable(np.ones((2, 6), np.float32)), popxl.variable(np.ones(3, np.float32))
        every, alone = ir.replica_grouping(), ir.replica_grouping(group_size=1)
        assert rts.replica_sharded_spec(t, every) == popxl.TensorSpec((3,), popxl.float32, (2, 6))
        assert rts.replica_sharded_spec(t, alone) == t.spec
        assert rts.replica_sharded_spec(odd, every) == odd.spec


@pytest.mark.parametrize("use_io_tiles", [False, True])
def test_reduce_and_gather(use_io_tiles):
    x, y = RNG.normal(size=(4, 2, 6)).astype(np.float32), RNG.normal(size=(4, 3)).astype(np.float32)

    def build(a, b):
        tensors = addons.NamedTensors.from_dict({"layer.w": a, "b": b})
        reduce, names = rts.reduce_replica_sharded_graph(tensors, "mean", use_io_tiles)
        assert names == ["b", "layer.w"]
        parts = reduce.bind().call(args={reduce.args.b: b, reduce.args.layer.w: a})
        assert [(p.shape, p.meta_shape) for p in parts] == [((3,), ()), ((3,), (2, 6))]
        named = addons.NamedTensors.from_dict(dict(zip(names, parts, strict=True)))
        gather, names = rts.all_gather_replica_sharded_graph(named, use_io_tiles)
        return gather.bind().call(args=gather.args.to_mapping(named))

    whole_b, whole_w = run(4, build, x, y)
    np.testing.assert_allclose(whole_b, np.broadcast_to(y.mean(0), y.shape), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(whole_w, np.broadcast_to(x.mean(0), x.shape), rtol=1e-5, atol=1e-6)


def test_parts_over_fewer_replicas_than_are_joined():
    x = RNG.normal(size=(4, 8)).astype(np.float32)

    def build(t):
        pairs = popxl.gcg().ir.replica_grouping(group_size=2)
        part = rts.reduce_replica_sharded_tensor(t, shard_group=pairs)
        assert part.shape == (4,)
        return [part, rts.gather_replica_sharded_tensor(part, replica_group=pairs)]

    part, whole = run(4, build, x)
    np.testing.assert_allclose(whole, np.broadcast_to(x.sum(0), x.shape), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(part, np.stack([whole[r].reshape(2, 4)[r % 2] for r in range(4)]))


def test_groups_by_name():
    ir = popxl.Ir(replication=4)
    with ir.main_graph:
        t = popxl.variable(np.ones(4, np.float32))
        pairs = NamedReplicaGrouping.build_groups(["w"], ir.replica_grouping(group_size=2))
        graph, names = rts.reduce_replica_sharded_graph(addons.NamedTensors.from_dict({"w": t}), shard_groups=pairs)
        assert names == ["w"]
        assert graph.graph.outputs[0].shape == (2,)
        with pytest.raises(KeyError):
            rts.all_gather_replica_sharded_graph(addons.NamedTensors.from_dict({"v": t}), replica_groups=pairs)


# ---- the near part of a grouping
def test_link_domains(monkeypatch, caplog):
    monkeypatch.delenv("POPDIST_NUM_TOTAL_REPLICAS", raising=False)
    monkeypatch.setenv("POPLAR_TARGET_OPTIONS", '{"ipuLinkDomainSize": "4"}')
    ir = popxl.Ir(replication=8)
    with ir.main_graph:
        every, pairs, far = ir.replica_grouping(), ir.replica_grouping(2, 2), ir.replica_grouping(4, 2)
        assert groupings.get_ild_size_from_popdist() == 4
        assert groupings.is_cross_ild(every) and groupings.is_cross_ild(far) and not groupings.is_cross_ild(pairs)
        assert groupings.get_ild_replica_grouping() == ir.replica_grouping(1, 4)
        assert groupings.get_ild_replica_grouping(ir.replica_grouping(2, 4)) == pairs
        assert groupings.get_ild_replica_grouping(pairs) is pairs
        with pytest.raises(ValueError, match="stride: got 4"):
            groupings.get_ild_replica_grouping(far)
        mixed = ir.replica_grouping_from_assignments([0, 1, 1, 0, 2, 3, 3, 2])
        assert groupings.get_ild_replica_grouping(mixed) == mixed.const_rg
        with pytest.raises(ValueError, match="must repeat"):
            groupings.get_ild_replica_grouping(ir.replica_grouping_from_assignments([0, 1, 1, 0, 2, 2, 3, 3]))
        monkeypatch.setenv("POPLAR_TARGET_OPTIONS", "{}")
        monkeypatch.setenv("POPDIST_NUM_TOTAL_REPLICAS", "8")
        assert [groupings.get_ild_size_from_popdist() for _ in range(2)] == [8, 8]
        assert caplog.text.count("ipuLinkDomainSize") == 1


def test_one_process():
    ir = popxl.Ir(replication=4)
    with ir.main_graph:
        every, pairs = ir.replica_grouping(), ir.replica_grouping(group_size=2)
        assert groupings.fill_none_group(None, pairs) is pairs
        assert groupings.fill_none_group(every, pairs) is every
        assert not groupings.is_cross_instance(every)
        assert groupings.get_instance_replica_grouping() == every
        assert groupings.get_instance_replica_grouping(pairs) is pairs
        mixed = ir.replica_grouping_from_assignments([0, 1, 1, 0])
        assert groupings.get_instance_replica_grouping(mixed) == mixed.const_rg
