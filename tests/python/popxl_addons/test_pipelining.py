"""pipelined_execution: stages work on successive micro-batches; the same bits as one micro-batch after the other."""

import json
import os
import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import popxl
import popxl.ops as ops
import popxl_addons as addons
import pytest
from popxl_addons.transforms.repeat_graph import repeat_graph

RNG = np.random.default_rng(187)
BATCH, WIDTH = 4, 6


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


class Plain:
    """The interface of a pipeline for one micro-batch after the other."""

    def stage(self, stage):
        return nullcontext()

    def stash_and_restore_tensor(self, t, from_stage=None):
        return t

    def stash_and_restore_activations(self, call_info, grad_info):
        return grad_info.inputs_dict(call_info)


def execute(body, steps, pipelined):
    """Build `body(pipeline)` as a pipeline, or `steps` times."""
    if pipelined:
        with addons.pipelined_execution(steps) as pipeline:
            body(pipeline)
    else:
        for _ in range(steps):
            body(Plain())


class Layer(addons.Module):
    """A product and an activation."""

    def build(self, x):
        w = self.add_variable_input("w", lambda: np.eye(WIDTH, dtype=np.float32), x.dtype)
        return ops.sin(x @ w)


# ---- inference
def infer(pipelined, xs, stages, runs=1, mode=True):
    """Layer s on IPU s, and the input added to the output three stages later."""
    steps = len(xs)
    ir = popxl.Ir()
    ir.num_host_transfers = steps
    with ir.main_graph, nullcontext() if mode is None else popxl.in_sequence(mode):
        source, sink = (
            popxl.h2d_stream((BATCH, WIDTH), popxl.float32),
            popxl.d2h_stream((BATCH, WIDTH), popxl.float32),
        )
        factories, layer = Layer().create_graph(popxl.TensorSpec((BATCH, WIDTH), popxl.float32))
        variables = [factories.init(f"layer{s}") for s in range(stages)]

        def body(pipeline):
            first = h = None
            for s in range(stages):
                with pipeline.stage(s), popxl.ipu(s):
                    if s == 0:
                        first = h = ops.host_load(source, "x")
                    (h,) = layer.bind(variables[s]).call(h)
                    if s == stages - 1:
                        kept = pipeline.stash_and_restore_tensor(first) if stages > 1 else first
                        ops.host_store(sink, h + kept.copy_to_ipu(s, 0))
                    else:
                        h = h.copy_to_ipu(s + 1)

        execute(body, steps, pipelined)
    rng = np.random.default_rng(1)
    with popxl.Session(ir, "cpu") as session:
        session.write_variables_data({v.w: rng.normal(size=(WIDTH, WIDTH)).astype(np.float32) for v in variables})
        results = [session.run({source: xs})[sink] for _ in range(runs)]
    return results, ir


@pytest.mark.parametrize(("stages", "steps"), [(1, 2), (2, 4), (3, 6), (3, 7), (4, 11)])
def test_inference(stages, steps):
    xs = normal(steps, BATCH, WIDTH)
    (expected,), _ = infer(False, xs, stages)
    for got in infer(True, xs, stages, runs=3)[0]:  # rings go on where they were
        np.testing.assert_array_equal(got, expected)


def called(graph):
    """Calls of a graph in order: base names of the graphs, loops as (trip count, base names in the body)."""
    names = []
    for op in graph._pb_graph.getOpSchedule():
        for target in op.getCalledGraphs():
            inner = graph.ir._graph(target)
            if op.opType() == "Loop":
                (body,) = inner.called_graphs
                names.append((op.attributes()["trip_count"], called(body)))
            else:
                names.append(inner.name.split("_subgraph")[0])
    return names


def test_structure():
    _, ir = infer(True, normal(7, BATCH, WIDTH), 3)
    main = ir.main_graph
    assert [op.opType() for op in main._pb_graph.getOps()] == ["Call"]
    (pipeline,) = main.called_graphs
    assert pipeline.name.startswith("pipeline_graph_subgraph(")
    assert pipeline.outputs == ()
    copies = ["ipu_copies", "ipu_copies"]
    assert called(pipeline) == [
        *["loads_stage_0", "stage_0", "ipu_copies"],
        *["loads_stage_0", "stage_0", "stage_1", *copies],
        (7 - 2, ["loads_stage_0", "stage_0", "stage_1", "stage_2", "stores_stage_2", *copies]),
        *["stage_1", "stage_2", "stores_stage_2", "ipu_copies"],
        *["stage_2", "stores_stage_2"],
    ]
    names = {t.name.split("__t")[0] for t in main.variables}
    assert {"counter", "stash"} <= names
    (stash,) = [t for t in main.variables if t.name == "stash"]
    assert stash.shape == (3, BATCH, WIDTH)
    assert all((t.shape, t.dtype) == ((1,), popxl.uint32) for t in main.variables if t.name.startswith("counter"))


# ---- training
def train(pipelined, xs, labels, optimizer, mode=True):
    """Two layers on two IPUs: forward in stages 0 and 1, backward in 1 and 2; accumulators, then an update."""
    steps = len(xs)
    ir = popxl.Ir()
    ir.num_host_transfers = steps
    with ir.main_graph, popxl.in_sequence():
        source = popxl.h2d_stream((BATCH, WIDTH), popxl.float32, "x")
        label_source = popxl.h2d_stream((BATCH,), popxl.int32, "labels")
        sink = popxl.d2h_stream((), popxl.float32, "loss")
        factories, layer = Layer().create_graph(popxl.TensorSpec((BATCH, WIDTH), popxl.float32))
        accum_factories, backward = addons.autodiff_with_accumulation(
            layer, layer.args.tensors, grads_required=[layer.graph.inputs[0]]
        )
        variables = [factories.init(f"layer{s}") for s in range(2)]
        accumulators = [accum_factories.init(f"layer{s}") for s in range(2)]
        info = backward.grad_graph_info

        def body(pipeline):
            with pipeline.stage(0), popxl.ipu(0):
                first = layer.bind(variables[0]).call_with_info(ops.host_load(source, "x"))
                h = first.outputs[0].copy_to_ipu(1)
            with pipeline.stage(1), popxl.ipu(1):
                second = layer.bind(variables[1]).call_with_info(h)
                loss, dx = addons.cross_entropy_with_grad(second.outputs[0], ops.host_load(label_source, "labels"))
                ops.host_store(sink, loss)
                given = pipeline.stash_and_restore_activations(second, info)
                (dx,) = backward.bind(accumulators[1]).call(dx, args=given)
                dx = dx.copy_to_ipu(0)
            with pipeline.stage(2), popxl.ipu(0):
                given = pipeline.stash_and_restore_activations(first, info)
                backward.bind(accumulators[0]).call(dx, args=given)

        with popxl.in_sequence(mode):
            execute(body, steps, pipelined)
        for ipu, (variable, state) in enumerate(zip(variables, accumulators, strict=True)):
            assert variable.w.ipu == state.accum.w.ipu == ipu
            with popxl.ipu(ipu):
                optimizer(variable.w, state.accum.w)
                ops.var_updates.accumulator_zero_(state.mean_accum_counter)
    rng = np.random.default_rng(2)
    with popxl.Session(ir, "cpu") as session:
        session.write_variables_data({v.w: rng.normal(size=(WIDTH, WIDTH)).astype(np.float32) for v in variables})
        losses = [session.run({source: xs, label_source: labels})[sink] for _ in range(4)]
        values = [session.get_tensor_data(v) for v in ir.main_graph.variables if "stash" not in v.name]
        weights = [session.get_tensor_data(v.w) for v in variables]
        assert len(values) >= 4
    return [*losses, *weights]


def sgd(w, grad):
    ops.scaled_add_(w, grad, b=-0.1)


def momentum(w, grad):
    velocity = popxl.variable(np.zeros(w.shape, np.float32))
    ops.var_updates.accumulate_moving_average_(velocity, grad, 0.9)
    ops.scaled_add_(w, velocity, b=-0.1)


def adam(w, grad):
    m, v = (popxl.variable(np.zeros(w.shape, np.float32)) for _ in range(2))
    step = popxl.variable(np.zeros((), np.float32))
    ops.var_updates.accumulate_moving_average_(m, grad, 0.9)
    ops.var_updates.accumulate_moving_average_square_(v, grad, 0.99)
    update = ops.var_updates.adam_updater(m, v, time_step=step, beta1=0.9, beta2=0.99)
    ops.scaled_add_(w, update, b=-0.01)


@pytest.mark.parametrize("optimizer", [sgd, momentum, adam])
def test_training(optimizer):
    xs, labels = normal(6, BATCH, WIDTH), RNG.integers(0, WIDTH, (6, BATCH)).astype(np.int32)
    plain, pipelined = train(False, xs, labels, optimizer), train(True, xs, labels, optimizer)
    for ours, expected in zip(pipelined, plain, strict=True):
        np.testing.assert_array_equal(ours, expected)
    assert not np.array_equal(plain[0], plain[3])


# ---- stages at the same time
@pytest.fixture
def together(monkeypatch):
    """A function that makes stages run at the same time on so many threads, or one after the other."""

    def choose(rule, threads):
        monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", json.dumps({"pipeline.concurrent": rule}))
        monkeypatch.setenv("POPART_NUM_THREADS", str(threads))

    return choose


@pytest.mark.parametrize("threads", [2, 3, 8])
@pytest.mark.parametrize(("stages", "steps"), [(2, 4), (4, 9)])
def test_inference_at_the_same_time(together, stages, steps, threads):
    xs = normal(steps, BATCH, WIDTH)
    (expected,), _ = infer(False, xs, stages)
    together("always", threads)
    for got in infer(True, xs, stages, runs=3)[0]:
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("optimizer", [sgd, momentum, adam])
def test_training_at_the_same_time(together, optimizer, threads):
    xs, labels = normal(7, BATCH, WIDTH), RNG.integers(0, WIDTH, (7, BATCH)).astype(np.int32)
    plain = train(False, xs, labels, optimizer)
    together("always", threads)
    for ours, expected in zip(train(True, xs, labels, optimizer), plain, strict=True):
        np.testing.assert_array_equal(ours, expected)


RING = """
import numpy as np, popxl, popxl.ops as ops, popxl_addons as addons
ir = popxl.Ir()
ir.num_host_transfers = 8
with ir.main_graph, popxl.in_sequence():
    source, sink = popxl.h2d_stream((64, 64), popxl.float32), popxl.d2h_stream((64, 64), popxl.float32)
    weights = [popxl.variable(np.eye(64, dtype=np.float32)) for _ in range(3)]
    with addons.pipelined_execution(8) as pipeline:
        with pipeline.stage(0), popxl.ipu(0):
            first = ops.host_load(source)
            h = ops.sin(first @ weights[0]).copy_to_ipu(1)
        with pipeline.stage(1), popxl.ipu(1):
            h = ops.sin(h @ weights[1]).copy_to_ipu(2)
        with pipeline.stage(2), popxl.ipu(2):
            h = ops.sin(h @ weights[2]) + pipeline.stash_and_restore_tensor(first).copy_to_ipu(2, 0)
            ops.host_store(sink, h)
popxl.Session(ir, "cpu")
"""


@pytest.mark.parametrize(("rule", "threads", "found"), [("always", 2, True), ("never", 2, False), ("always", 1, False)])
def test_whether_stages_run_at_the_same_time(together, monkeypatch, rule, threads, found):
    """As the log says it: a stash does not make a stage wait for the one that fills it."""
    together(rule, threads)
    monkeypatch.setenv("POPART_LOG_LEVEL", "INFO")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    log = subprocess.run([sys.executable, "-c", RING], capture_output=True, text=True, check=True).stderr
    assert ("stages of a pipeline run at the same time" in log) is found


def small(body, steps=4, transfers=None, variables=()):
    """Run ``body(pipeline, source, sink)`` on numbers 0, 1, … of shape (2,)."""
    ir = popxl.Ir()
    ir.num_host_transfers = transfers or steps
    with ir.main_graph, popxl.in_sequence():
        source, sink = popxl.h2d_stream((2,), popxl.float32), popxl.d2h_stream((2,), popxl.float32)
        with addons.pipelined_execution(steps) as pipeline:
            body(pipeline, source, sink)
    data = np.arange(2 * steps, dtype=np.float32).reshape(steps, 2)
    with popxl.Session(ir, "cpu") as session:
        return data, session.run({source: data})[sink]


def test_stashed_scalars_have_one_dimension():
    shapes = []

    def body(pipeline, source, sink):
        with pipeline.stage(0), popxl.ipu(0):
            x = ops.host_load(source)
            total = ops.sum(x)
            y = x.copy_to_ipu(1)
        with pipeline.stage(1), popxl.ipu(1):
            restored = pipeline.stash_and_restore_tensor(total)
            shapes.append(restored.shape)
            ops.host_store(sink, y + restored.copy_to_ipu(1, 0))

    data, got = small(body)
    assert shapes == [(1,)]
    np.testing.assert_array_equal(got, data + data.sum(1, keepdims=True))


def test_scalar_activations_have_the_shape_that_the_gradient_takes():
    def body(pipeline, source, sink):
        graph = popxl.gir().create_graph(lambda x: x * ops.sum(ops.sin(x)), popxl.TensorSpec((2,), popxl.float32))
        gradient = addons.autodiff(graph)
        with pipeline.stage(0), popxl.ipu(0):
            call = ops.call_with_info(graph, ops.host_load(source))
            y = call.outputs[0].copy_to_ipu(1)
        with pipeline.stage(1), popxl.ipu(1):
            dy = (y * 0 + 1).copy_to_ipu(0)
        with pipeline.stage(2), popxl.ipu(0):
            activations = pipeline.stash_and_restore_activations(call, gradient.grad_graph_info)
            assert () in [t.shape for t in activations]
            ops.host_store(sink, gradient.call(dy, args=activations)[0])

    data, got = small(body, steps=6)
    sums = np.sin(data).sum(1, keepdims=True) + data.sum(1, keepdims=True) * np.cos(data)
    np.testing.assert_allclose(got, sums, rtol=1e-5)


def test_variables_change_once_for_every_micro_batch():
    def body(pipeline, source, sink):
        count = popxl.variable(np.zeros(2, np.float32), name="count")
        with pipeline.stage(0), popxl.ipu(0):
            x = ops.host_load(source).copy_to_ipu(1)
        with pipeline.stage(1), popxl.ipu(1):
            ops.add_(count, popxl.constant(np.ones(2, np.float32)))
            ops.host_store(sink, x + count)

    data, got = small(body, steps=5)
    np.testing.assert_array_equal(got, data + np.arange(1, 6, dtype=np.float32)[:, None])


def test_copies_read_in_their_own_stage_and_in_the_next():
    def body(pipeline, source, sink):
        with pipeline.stage(0):
            x = ops.host_load(source).copy_to_ipu(1, 0)
            doubled = (x * 2).copy_to_ipu(2, 1)
        with pipeline.stage(1):
            y = x + doubled.copy_to_ipu(1, 2)  # both arrive here
            z = (y + 1).copy_to_ipu(2, 1)
            kept = x.copy_to_ipu(2, 1)
        with pipeline.stage(2):
            late = pipeline.stash_and_restore_tensor(x, from_stage=1)
            ops.host_store(sink, z + kept + late)

    data, got = small(body, steps=6)
    np.testing.assert_array_equal(got, 5 * data + 1)


def test_a_copy_in_the_stage_that_receives():
    def body(pipeline, source, sink):
        with pipeline.stage(0), popxl.ipu(0):
            x = ops.host_load(source)
        with pipeline.stage(1), popxl.ipu(1):
            ops.host_store(sink, x.copy_to_ipu(1, 0) * 3)

    data, got = small(body)
    np.testing.assert_array_equal(got, 3 * data)


def test_stages_may_be_entered_again_and_loads_may_be_in_any():
    def body(pipeline, source, sink):
        with pipeline.stage(0), popxl.ipu(0):
            x = ops.host_load(source)
        with pipeline.stage(1), popxl.ipu(1):
            one = ops.host_load(popxl.h2d_stream((2,), popxl.float32, "other"))
        with pipeline.stage(0), popxl.ipu(0):
            y = (x + 1).copy_to_ipu(1)
        with pipeline.stage(1), popxl.ipu(1):
            ops.host_store(sink, y - one)

    ir = popxl.Ir()
    ir.num_host_transfers = 4
    with ir.main_graph:
        source, sink = popxl.h2d_stream((2,), popxl.float32), popxl.d2h_stream((2,), popxl.float32)
        with addons.pipelined_execution(4) as pipeline:
            body(pipeline, source, sink)
        (other,) = ir.get_all_h2d_streams() - {source}
    data = normal(4, 2)
    with popxl.Session(ir, "cpu") as session:
        got = session.run({source: data, other: data})[sink]
    np.testing.assert_array_equal(got, (data + 1) - data)


def test_in_a_graph_that_is_called():
    """Without stashes a pipeline may be in any graph; ops before and after it stay in order."""
    ir = popxl.Ir()
    ir.num_host_transfers = 4
    source, sink = popxl.h2d_stream, popxl.d2h_stream
    with ir.main_graph, popxl.in_sequence():
        source, sink = popxl.h2d_stream((2,), popxl.float32), popxl.d2h_stream((2,), popxl.float32)
        w = popxl.variable(np.ones(2, np.float32))

        def work(w: popxl.TensorByRef):
            ops.add_(w, popxl.constant(np.ones(2, np.float32)))
            with addons.pipelined_execution(4) as pipeline:
                with pipeline.stage(0), popxl.ipu(0):
                    x = (ops.host_load(source) * w).copy_to_ipu(1)
                with pipeline.stage(1), popxl.ipu(1):
                    ops.host_store(sink, x)
            ops.add_(w, popxl.constant(np.ones(2, np.float32)))

        ops.call(ir.create_graph(work, w), w)
    data = normal(4, 2)
    with popxl.Session(ir, "cpu") as session:
        got = session.run({source: data})[sink]
        np.testing.assert_array_equal(session.get_tensor_data(w), [3, 3])
    np.testing.assert_array_equal(got, data * 2)


def test_ops_that_call_and_change_in_place():
    """Loops, branches, products in place and remote memory inside of stages."""
    ir = popxl.Ir()
    ir.num_host_transfers = 5
    with ir.main_graph, popxl.in_sequence():
        source, sink = popxl.h2d_stream((2,), popxl.float32), popxl.d2h_stream((2,), popxl.float32)
        spec = popxl.TensorSpec((2,), popxl.float32)
        double = ir.create_graph(lambda x: x + x, spec)
        negate = ir.create_graph(lambda x: ops.negate(x), spec)
        last = popxl.remote_variable(np.zeros(2, np.float32), popxl.remote_buffer((2,), popxl.float32))
        with addons.pipelined_execution(5) as pipeline:
            with pipeline.stage(0), popxl.ipu(0):
                x = ops.host_load(source)
                ops.add_(x, popxl.constant(np.ones(2, np.float32)))
                (y,) = ops.repeat(double, 3, x)
                y = y.copy_to_ipu(1)
            with pipeline.stage(1), popxl.ipu(1):
                (z,) = ops.conditional(ops.greater(ops.sum(y), popxl.constant(0.0)), double, negate, [y], [y])
                before = ops.remote_load(popxl_buffer(last), 0)
                ops.remote_store(popxl_buffer(last), 0, z)
                ops.host_store(sink, z + before)
    data = normal(5, 2)
    with popxl.Session(ir, "cpu") as session:
        got = session.run({source: data})[sink]
    y = (data + np.float32(1)) * 8
    z = np.where(y.sum(1, keepdims=True) > 0, 2 * y, -y)
    np.testing.assert_allclose(got, z + np.concatenate([np.zeros((1, 2), np.float32), z[:-1]]), rtol=1e-6)


def popxl_buffer(variable):
    return variable._row.buffer


def test_recomputation_replicas_and_repeated_pipelines():
    """Two replicas, recomputed activations, two pipelines' worth of micro-batches in one loop; against NumPy."""
    steps, rounds, replicas = 6, 2, 2
    xs = normal(steps * rounds, replicas, BATCH, WIDTH)
    ir = popxl.Ir(replication=replicas)
    ir.num_host_transfers = steps * rounds
    with ir.main_graph, popxl.in_sequence():
        source = popxl.h2d_stream((BATCH, WIDTH), popxl.float32)
        factories, layer = Layer().create_graph(popxl.TensorSpec((BATCH, WIDTH), popxl.float32))
        facts, backward = addons.autodiff_with_accumulation(layer, layer.args.tensors, layer.graph.outputs[:1])
        again = addons.recompute_graph(backward)
        variables, state = factories.init(), facts.init()
        with addons.pipelined_execution(steps) as pipeline:
            with pipeline.stage(0), popxl.ipu(0):
                call = layer.bind(variables).call_with_info(ops.host_load(source))
                y = call.outputs[0].copy_to_ipu(1)
            with pipeline.stage(1), popxl.ipu(1):
                dy = (y * 2).copy_to_ipu(0)
            with pipeline.stage(2), popxl.ipu(0):
                given = pipeline.stash_and_restore_activations(call, again.grad_graph_info)
                again.bind(state).call(dy, args=given)
        repeat_graph(ir.main_graph, rounds)
        mean = ops.collectives.replicated_all_reduce(state.accum.w, "mean")
        sink = popxl.d2h_stream(mean.shape, mean.dtype)
        ops.host_store(sink, mean)
    w = normal(WIDTH, WIDTH)
    with popxl.Session(ir, "cpu") as session:
        session.write_variables_data({variables.w: w})
        got = session.run({source: xs})[sink]
    x = xs.reshape(-1, BATCH, WIDTH).astype(np.float64)
    h = x @ w
    expected = (x.transpose(0, 2, 1) @ (np.cos(h) * 2 * np.sin(h))).mean(0)
    np.testing.assert_allclose(got.reshape(-1, WIDTH, WIDTH)[:2], np.stack([expected] * 2), rtol=1e-4, atol=1e-5)


# ---- refusals
def build(body, steps=4):
    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable(np.ones(2, np.float32))
        with addons.pipelined_execution(steps) as pipeline:
            body(pipeline, v)


def test_too_few_steps():
    def body(pipeline, v):
        for s in range(3):
            with pipeline.stage(s):
                _ = v + 1

    build(body, 6)
    with pytest.raises(ValueError, match="5 steps are too few for 3 stages"):
        build(body, 5)


def test_ops_outside_of_stages():
    with pytest.raises(RuntimeError, match=r"Add.*no stage"):
        build(lambda pipeline, v: v + 1)
    with pytest.raises(RuntimeError, match="there is no op"):
        build(lambda pipeline, v: None)
    ir = popxl.Ir()
    with pytest.raises(ValueError, match=r"stage: got -1"), ir.main_graph, addons.pipelined_execution(2) as pipeline:
        pipeline.stage(-1).__enter__()


def test_values_of_other_stages():
    def crosses(pipeline, v):
        with pipeline.stage(0):
            x = v + 1
        with pipeline.stage(1):
            _ = x + 1

    def crosses_two(pipeline, v):
        with pipeline.stage(0):
            x = (v + 1).copy_to_ipu(1)
        with pipeline.stage(1):
            _ = x + 1
        with pipeline.stage(2):
            _ = x + 1

    for body in (crosses, crosses_two):
        with pytest.raises(RuntimeError, match=r"of stage [12] reads .* of stage 0"):
            build(body, 6)


def test_stash_refusals():
    def outside(pipeline, v):
        pipeline.stash_and_restore_tensor(v)

    def no_producer(pipeline, v):
        with pipeline.stage(1):
            pipeline.stash_and_restore_tensor(v)

    def same_stage(pipeline, v):
        with pipeline.stage(1):
            pipeline.stash_and_restore_tensor(v + 1)

    def sub_graph(pipeline, v):
        ir = popxl.gir()

        def work(x):
            with addons.pipelined_execution(4) as inner:
                with inner.stage(0):
                    y = x + 1
                with inner.stage(1):
                    inner.stash_and_restore_tensor(y)

        with pipeline.stage(0):
            ir.create_graph(work, v)

    def part(pipeline, v):
        with pipeline.stage(0):
            y = ops.collectives.replica_sharded_slice(v)
        with pipeline.stage(1):
            pipeline.stash_and_restore_tensor(y)

    def activations(pipeline, v):
        pipeline.stash_and_restore_activations(None, None)

    with pytest.raises(RuntimeError, match="stash_and_restore_tensor: no stage is current"):
        build(outside)
    with pytest.raises(RuntimeError, match="no stage makes"):
        build(no_producer)
    with pytest.raises(TypeError, match="from stage 1 and is wanted in stage 1"):
        build(same_stage)
    with pytest.raises(ValueError, match="main graph"):
        build(sub_graph)
    with pytest.raises(ValueError, match="part of a tensor"):
        build(part)
    with pytest.raises(RuntimeError, match="stash_and_restore_activations: no stage is current"):
        build(activations)


def test_what_was_moved_is_gone():
    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable(np.ones(2, np.float32))
        graph = ir.create_graph(lambda x: x + 1, v)
        with addons.pipelined_execution(2) as pipeline, pipeline.stage(0):
            info = ops.call_with_info(graph, v)
            y = info.outputs[0]
        assert y.shape == (2,)
        with pytest.raises(RuntimeError, match="moved into another graph"):
            _ = info.outputs
        _ = y + 1
    with pytest.raises(addons_error(), match="nothing produces it"):
        popxl.Session(ir, "cpu")


def addons_error():
    import popart

    return popart.popart_exception
