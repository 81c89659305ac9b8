"""Operators of popxl_addons inside of layers that are called, repeated, recomputed and pipelined, on two replicas.

Oracle: the same layer inline in the main graph; the operators themselves have theirs in the tests beside this one.
"""

import numpy as np
import popxl
import popxl.ops as ops
import popxl_addons as addons
import pytest
from popxl_addons import patterns
from popxl_addons.layers.layer_norm_distributed import LayerNormDistributed
from popxl_addons.layers.linear_fp8 import LinearFP8
from popxl_addons.ops import replicated_all_reduce_TP as tp
from popxl_addons.ops.linear_layout import linear_layout
from popxl_addons.ops.rotary_pos_embed import rotary_pos_embed, trig_table_constants

RNG = np.random.default_rng(11)
ROWS, WIDTH, REPLICAS, MICRO_BATCHES = 6, 4, 2, 4


class Layer(addons.Module):
    """Everything that needs other replicas or a gradient of its own."""

    def __init__(self):
        super().__init__()
        self.norm = LayerNormDistributed(popxl.gir().replica_grouping())

    def build(self, x):
        x = self.norm(linear_layout(x))
        turned = rotary_pos_embed(ops.reshape(x, (1, ROWS, 1, WIDTH)), *trig_table_constants(ROWS, WIDTH))
        both = tp.replicated_all_reduce_identical_grad_inputs(ops.reshape(turned, (ROWS, WIDTH)) * x)
        return x + tp.replicated_all_reduce_identical_inputs(both) * 0.1


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def differentiate(kind, layer, weights, x, dy, turns):
    """Output, gradient of x and of the weights, of `turns` layers behind each other."""
    names = {t: n for n, t in layer.args.to_dict().items()}
    backward = layer.autodiff(grads_required=[layer.graph.inputs[0], *layer.args.tensors])
    if kind == "recomputed":
        backward = addons.recompute_graph(backward)
    calls = []
    for _ in range(turns):
        calls.append(layer.bind(weights).call_with_info(x))
        x = calls[-1].outputs[0]
    sums = {}
    for call in reversed(calls):
        info = backward.grad_graph_info
        back = backward.call_with_info(dy, args=info.inputs_dict(call))
        grads = info.fwd_graph_ins_to_grad_parent_outs(back)
        dy = grads[layer.graph.inputs[0]]
        for t, n in names.items():
            sums[n] = grads[t] if n not in sums else sums[n] + grads[t]
    return [x, dy, *(sums[n] for n in sorted(sums))]


def run(kind, x, dy, turns=2):
    ir = popxl.Ir(replication=REPLICAS)
    with ir.main_graph, popxl.in_sequence():
        streams = [popxl.h2d_stream((ROWS, WIDTH), popxl.float32) for _ in range(2)]
        given = [ops.host_load(s) for s in streams]
        factories, layer = Layer().create_graph(given[0])
        weights = factories.init()
        if kind == "inline":

            def chain(x, w, b):
                for _ in range(turns):
                    (x,) = layer.call(x, args=layer.args.to_mapping(addons.NamedTensors(norm=named(w, b))))
                return x

            whole = addons.GraphWithNamedArgs(popxl.gir().create_graph(chain, given[0], *weights.norm.tensors))
            backward = whole.autodiff()
            info = whole.call_with_info(given[0], *sorted_by_key(weights))
            results = [info.outputs[0], *backward.call(given[1], args=backward.grad_graph_info.inputs_dict(info))]
            results = [*results[:2], results[3], results[2]]
        else:
            results = differentiate(kind, layer, weights, *given, turns)
        outs = [popxl.d2h_stream(t.shape, t.dtype) for t in results]
        for stream, t in zip(outs, results, strict=True):
            ops.host_store(stream, t)
    patterns.apply_pre_alias_patterns(ir)
    with popxl.Session(ir, "cpu") as session:
        got = session.run(dict(zip(streams, (x, dy), strict=True)))
    return [got[s] for s in outs]


def named(w, b):
    return addons.NamedTensors(weight=w, bias=b)


def sorted_by_key(weights):
    return weights.norm.weight, weights.norm.bias


@pytest.mark.parametrize("kind", ["called", "recomputed"])
def test_calls_and_recomputation(kind):
    x, dy = normal(REPLICAS, ROWS, WIDTH), normal(REPLICAS, ROWS, WIDTH)
    for got, expected in zip(run(kind, x, dy), run("inline", x, dy), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_repeats():
    x = normal(REPLICAS, ROWS, WIDTH)
    values = {}
    for kind in ("calls", "repeat"):
        ir = popxl.Ir(replication=REPLICAS)
        with ir.main_graph, popxl.in_sequence():
            stream, out = popxl.h2d_stream((ROWS, WIDTH), popxl.float32), popxl.d2h_stream((ROWS, WIDTH), popxl.float32)
            t = ops.host_load(stream)
            factories, layer = Layer().create_graph(t)
            bound = layer.bind(factories.init())
            if kind == "repeat":
                (t,) = ops.repeat(layer.graph, 3, t, inputs_dict=bound.args)
            else:
                for _ in range(3):
                    (t,) = bound.call(t)
            ops.host_store(out, t)
        patterns.apply_pre_alias_patterns(ir)
        with popxl.Session(ir, "cpu") as session:
            values[kind] = session.run({stream: x})[out]
    np.testing.assert_array_equal(values["repeat"], values["calls"])


def test_pipelines():
    """Two stages on two IPUs give, micro-batch by micro-batch, what one call after the other gives."""
    x = normal(MICRO_BATCHES, REPLICAS, ROWS, WIDTH)
    values = {}
    for pipelined in (False, True):
        ir = popxl.Ir(replication=REPLICAS)
        ir.num_host_transfers = MICRO_BATCHES
        with ir.main_graph, popxl.in_sequence():
            stream, out = popxl.h2d_stream((ROWS, WIDTH), popxl.float32), popxl.d2h_stream((ROWS, WIDTH), popxl.float32)
            factories, layer = Layer().create_graph(popxl.TensorSpec((ROWS, WIDTH), popxl.float32))
            bounds = [layer.bind(factories.init(f"stage{i}")) for i in range(2)]
            if pipelined:
                with addons.pipelined_execution(MICRO_BATCHES) as pipeline:
                    with pipeline.stage(0), popxl.ipu(0):
                        (t,) = bounds[0].call(ops.host_load(stream))
                        t = t.copy_to_ipu(1)
                    with pipeline.stage(1), popxl.ipu(1):
                        ops.host_store(out, bounds[1].call(t)[0])
            else:
                for _ in range(MICRO_BATCHES):
                    (t,) = bounds[0].call(ops.host_load(stream))
                    ops.host_store(out, bounds[1].call(t)[0])
        patterns.apply_pre_alias_patterns(ir)
        with popxl.Session(ir, "cpu") as session:
            values[pipelined] = session.run({stream: x})[out]
    np.testing.assert_allclose(values[True], values[False], rtol=1e-6, atol=1e-6)


def test_linear_fp8_in_a_layer_that_is_recomputed():
    class Net(addons.Module):
        def build(self, x):
            y, *_ = self.call_module(LinearFP8(WIDTH), "fc")(ops.gelu(x))
            return y

    x, dy, results = normal(ROWS, WIDTH), normal(ROWS, WIDTH), {}
    w = normal(WIDTH, WIDTH)
    for recompute in (False, True):
        ir = popxl.Ir()
        with ir.main_graph, popxl.in_sequence():
            t, g = popxl.variable(x), popxl.variable(dy)
            factories, graph = Net().create_graph(t)
            backward = graph.autodiff()
            backward = addons.recompute_graph(backward) if recompute else backward
            variables = factories.init()
            call = graph.bind(variables).call_with_info(t)
            grads = backward.call(g, args=backward.grad_graph_info.inputs_dict(call))
            outs = [popxl.d2h_stream(v.shape, v.dtype) for v in grads]
            for stream, v in zip(outs, grads, strict=True):
                ops.host_store(stream, v)
        with popxl.Session(ir, "cpu") as session:
            session.write_variables_data({variables.fc.weight: w})
            got = session.run()
        results[recompute] = [got[s] for s in outs]
    for again, plain in zip(results[True], results[False], strict=True):
        np.testing.assert_array_equal(again, plain)
