"""Gradient graphs that accumulate, repeat_graph, remap_grad_info and the recorded hints of tile memory."""

import numpy as np
import popxl
import popxl.ops as ops
import popxl_addons as addons
import pytest
from popxl_addons.named_replica_grouping import NamedReplicaGrouping
from popxl_addons.transforms.autodiff import remap_grad_info
from popxl_addons.transforms.repeat_graph import repeat_graph
from popxl_addons.transforms.use_fc_pass import disable_fc_pass

RNG = np.random.default_rng(182)


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


class Net(addons.Module):
    """Two layers."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = Linear(), Linear()

    def build(self, x, scale):
        return ops.sin(self.fc2(ops.sin(self.fc1(x)))) * scale


class Linear(addons.Module):
    """A product."""

    def build(self, x):
        return x @ self.add_variable_input("weight", lambda: np.eye(3, dtype=np.float32), x.dtype)


# ---- accumulation
def accumulating(ir):
    spec = popxl.TensorSpec((2, 3), popxl.float32)
    factories, graph = Net().create_graph(spec, spec)
    return factories, graph, spec


def test_inputs_outputs_and_names_of_accumulation():
    ir = popxl.Ir()
    with ir.main_graph:
        _, graph, _ = accumulating(ir)
        scale = graph.graph.inputs[1]
        facts, bwd = addons.autodiff_with_accumulation(graph, [*graph.args.tensors, scale])
    names = ["mean_accum_counter", "accum.fc1.weight", "accum.fc2.weight", "accum.scale"]
    assert list(bwd.args.to_dict()) == list(facts.to_dict()) == names
    assert [t.name for t in bwd.graph.inputs[-4:]] == names
    assert all(t in bwd.graph._by_ref_inputs for t in bwd.graph.inputs[-4:])
    assert [t.spec for t in bwd.graph.inputs[-4:]] == [
        popxl.TensorSpec((), popxl.float32),
        *(t.spec for t in [*graph.args.tensors, scale]),
    ]
    assert bwd.graph.outputs == ()  # nothing is required by default
    assert set(bwd.grad_graph_info.outputs) == {*graph.args.tensors, scale}
    assert len(bwd.graph.inputs) == len(bwd.grad_graph_info.expected_inputs) + 4
    types = [op.opType() for op in bwd.graph._pb_graph.getOpSchedule()]
    assert types.count("Accumulate") == 3
    assert types[-1] == "AddLhsInplace"  # the counter, after all accumulators


def test_means_over_micro_batches():
    xs, gs, scales = normal(5, 2, 3), normal(5, 2, 3), normal(5, 2, 3)
    ir = popxl.Ir()
    ir.num_host_transfers = 5
    with ir.main_graph, popxl.in_sequence():
        factories, graph, spec = accumulating(ir)
        x_in, scale_in = graph.graph.inputs[:2]
        facts, bwd = addons.autodiff_with_accumulation(graph, [*graph.args.tensors, scale_in], grads_required=[x_in])
        _, plain_graph = Net().create_graph(spec, spec)
        plain = addons.autodiff(
            plain_graph, grads_required=[*plain_graph.args.tensors, *plain_graph.graph.inputs[1::-1]]
        )
        variables, state, other = factories.init(), facts.init(), popxl.variable(np.zeros((2, 3), np.float32))
        streams = [popxl.h2d_stream(spec.shape, spec.dtype) for _ in range(3)]
        outs = [popxl.d2h_stream(t.shape, t.dtype) for t in (x_in, *graph.args.tensors, scale_in, x_in)]
        for _ in range(5):
            x, scale, g = (ops.host_load(s) for s in streams)
            info = graph.bind(variables).call_with_info(x, scale)
            args = bwd.grad_graph_info.inputs_dict(info)
            args[bwd.args.accum.scale] = other  # wins over what is bound
            (dx,) = bwd.bind(state).call(g, args=args)
            info = plain_graph.bind(variables).call_with_info(x, scale)
            grads = plain.call(g, args=plain.grad_graph_info.inputs_dict(info))
            for stream, t in zip(outs, (dx, *grads), strict=True):
                ops.host_store(stream, t)
        before = popxl.variable(np.zeros((), np.float32))
        ops.add_(before, state.mean_accum_counter)
        ops.var_updates.accumulator_zero_(state.mean_accum_counter)
    with popxl.Session(ir, "cpu") as session:
        session.write_variables_data({v: normal(3, 3) for v in variables.tensors})
        for _ in range(2):  # the counter alone begins a new mean
            got = session.run(dict(zip(streams, (xs, scales, gs), strict=True)))
            dx, d1, d2, dscale, plain_dx = (got[o] for o in outs)
            np.testing.assert_array_equal(dx, plain_dx)
            for accumulated, grad in ((state.accum.fc1.weight, d1), (state.accum.fc2.weight, d2), (other, dscale)):
                np.testing.assert_allclose(session.get_tensor_data(accumulated), grad.mean(0), rtol=1e-5, atol=1e-6)
            assert not session.get_tensor_data(state.accum.scale).any()
        assert session.get_tensor_data(before) == 10
        assert session.get_tensor_data(state.mean_accum_counter) == 0


def test_groups_of_accumulators():
    ir = popxl.Ir(replication=2)
    with ir.main_graph:
        _, graph, _ = accumulating(ir)
        alone = NamedReplicaGrouping.build_groups(["fc1.weight"], ir.replica_grouping(group_size=1))
        facts, _ = addons.autodiff_with_accumulation(graph, graph.args.tensors, replica_groupings=alone)
        assert facts.accum.fc1.weight.replica_grouping.group_size == 1
        assert facts.accum.fc2.weight.replica_grouping.group_size == 2


def test_remapped_gradient_infos():
    ir = popxl.Ir()
    with ir.main_graph:
        _, graph, _ = accumulating(ir)
        info = graph.autodiff().grad_graph_info
        _, twin, _ = accumulating(ir)
        other = twin.autodiff().grad_graph_info
        remapped = remap_grad_info(info, twin.graph, other.graph)
    assert remapped.graph == other.graph and remapped.forward_graph == twin.graph
    assert remapped.expected_inputs == other.expected_inputs
    assert remapped.expected_outputs == other.expected_outputs


# ---- repeat_graph
def test_the_main_graph_repeated():
    ir = popxl.Ir()
    ir.num_host_transfers = 4
    with ir.main_graph, popxl.in_sequence():
        source, sink = popxl.h2d_stream((2,), popxl.float32), popxl.d2h_stream((2,), popxl.float32)
        w = popxl.variable(np.ones(2, np.float32))
        graph = ir.create_graph(lambda a, b: a * b, w, w)
        (y,) = ops.call(graph, ops.host_load(source), w)
        ops.host_store(sink, y)
        ops.add_(w, popxl.constant(np.ones(2, np.float32)))
    assert repeat_graph(ir.main_graph, 1) is ir.main_graph
    body = repeat_graph(ir.main_graph, 4)
    assert body.name.startswith("repeat_graph_subgraph(")
    assert [op.opType() for op in ir.main_graph._pb_graph.getOps()] == ["Loop"]
    assert [op.opType() for op in body._pb_graph.getOpSchedule()] == [
        *["Init", "HostLoad", "Call", "HostStore", "AddLhsInplace"]
    ]
    assert ir.main_graph.variables == (w,)
    data = normal(4, 2)
    with popxl.Session(ir, "cpu") as session:
        for start in (1, 5):
            got = session.run({source: data})[sink]
            np.testing.assert_array_equal(got, data * np.arange(start, start + 4, dtype=np.float32)[:, None])
        np.testing.assert_array_equal(session.get_tensor_data(w), [9, 9])


def test_a_called_graph_repeated():
    ir = popxl.Ir()
    with ir.main_graph:
        w = popxl.variable(np.full(2, 2, np.float32))

        def work(w: popxl.TensorByRef, x):
            with popxl.in_sequence():
                ops.var_updates.accumulator_scale_(w, 2.0)
                return w + 1, x

        graph = ir.create_graph(work, w, w)
        repeat_graph(graph, 3)
        y, x = ops.call(graph, w, popxl.constant(np.full(2, 2, np.float32)))
        streams = [popxl.d2h_stream((2,), popxl.float32) for _ in range(2)]
        for stream, t in zip(streams, (y, x), strict=True):
            ops.host_store(stream, t)
    with popxl.Session(ir, "cpu") as session:
        got = session.run()
        np.testing.assert_array_equal(got[streams[0]], [17, 17])
        np.testing.assert_array_equal(got[streams[1]], [2, 2])
        np.testing.assert_array_equal(session.get_tensor_data(w), [16, 16])


# ---- hints
def test_hints():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.ones((3, 3), np.float32))
        with popxl.ipu(1):
            graph = ir.create_graph(lambda t: t @ t, x)
        ops.call(graph, x @ x)
        ops.conv(x.reshape((1, 1, 3, 3)), x.reshape((1, 1, 3, 3)), pad_type="same_lower")
    product, convolution, inner = (
        next(op for op in g._pb_graph.getOps() if op.opType() == kind)
        for g, kind in ((ir.main_graph, "MatMul"), (ir.main_graph, "Conv"), (graph, "MatMul"))
    )

    def proportions():
        return product.getAvailableMemoryProportion(), inner.getAvailableMemoryProportion()

    assert proportions() == (None, None)
    addons.set_available_memory_proportion_by_ipu(ir, [0.1, 0.2])
    assert proportions() == (0.1, 0.2) and convolution.getConvOptions().availableMemoryProportions == [0.1]
    addons.set_graph_available_memory_proportion_by_ipu(graph, [0.3, 0.4])
    assert proportions() == (0.1, 0.4)
    with pytest.raises(KeyError):
        addons.set_available_memory_proportion_by_ipu(ir, [])
    assert product.useFullyConnectedPass()
    disable_fc_pass(ir)
    assert not product.useFullyConnectedPass() and not inner.useFullyConnectedPass()
    addons.enable_fc_pass(ir)
    assert product.useFullyConnectedPass() and inner.useFullyConnectedPass()
    assert addons.suffix_graph_name("Net_subgraph(3)_bwd_subgraph(4)", "x") == "Net_bwd_x"


# ---- what transforms need of popxl
def test_tile_sets_and_ipus_of_tensors():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.ones(2, np.float32))
        with popxl.io_tiles():
            loaded = ops.remote_load(popxl.remote_buffer((2,), popxl.float32), 0)
        y = ops.io_tile_copy(loaded)
        assert (loaded.tile_set, y.tile_set, ops.io_tile_copy(y).tile_set) == ("io", "compute", "io")
        assert ops.io_tile_copy(x).tile_set == "io"
        assert x.tile_set == "compute"  # of what reads it: a copy to the other set
        z = popxl.variable(np.ones(2, np.float32))
        assert ops.ipu_copy(z, 3, 2).ipu == 3
        assert z.ipu == 2
        with pytest.raises(ValueError, match="tile set"):
            _ = y + loaded
