"""batch_serialise: a graph step by step with inputs and outputs in streams and remote buffers, with the same bits."""

import logging

import numpy as np
import popxl
import popxl.ops as ops
import popxl_addons as addons
import pytest

RNG = np.random.default_rng(18)
STEPS, BATCH, WIDTH = 4, 3, 5
MODES = ["compute", "io", "io_overlapped"]


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


class Layer(addons.Module):
    """A product and an activation."""

    def build(self, x):
        w = self.add_variable_input("w", lambda: np.eye(x.shape[1], dtype=np.float32), x.dtype)
        return ops.sin(x @ w)


class CountingLayer(Layer):
    """A layer that counts its runs."""

    def build(self, x):
        runs = self.add_variable_input("runs", lambda: np.zeros((), np.float32), x.dtype, by_ref=True)
        ops.add_(runs, popxl.constant(1, popxl.float32))
        return super().build(x)


def new_ir(replicas=1, tiles=32):
    ir = popxl.Ir(replication=replicas)
    ir._pb_ir.getSessionOptions().numIOTiles = tiles
    return ir


def run(ir, inputs=None, weights=None):
    """Results by stream, and the session's Ir variables are up to date afterwards."""
    with popxl.Session(ir, "cpu") as session:
        if weights:
            session.write_variables_data(weights)
        return session.run(inputs)


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
@pytest.mark.parametrize("io_mode", MODES)
def test_streams(io_mode, steps):
    x, w = normal(steps, BATCH, WIDTH), normal(WIDTH, WIDTH)
    ir = new_ir()
    ir.num_host_transfers = steps
    with ir.main_graph, popxl.in_sequence():
        source = popxl.h2d_stream((BATCH, WIDTH), popxl.float32, "x")
        sink, echo = (popxl.d2h_stream((BATCH, WIDTH), popxl.float32, name) for name in ("y", "x_back"))
        factories, graph = CountingLayer().create_graph(popxl.TensorSpec((BATCH, WIDTH), popxl.float32))
        inner = graph.graph
        result = addons.batch_serialise(
            graph,
            steps,
            {inner.inputs[0]: source},
            {inner.outputs[0]: sink, inner.inputs[0]: echo},
            {},
            io_mode=io_mode,
        )
        variables = factories.init()
        result.graph.bind(variables).call(0)
    with popxl.Session(ir, "cpu") as session:
        session.write_variable_data(variables.w, w)
        got = session.run({source: x.squeeze(0) if steps == 1 else x})
        assert session.get_tensor_data(variables.runs) == steps
    np.testing.assert_allclose(got[sink].reshape(x.shape), np.sin(x @ w), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(got[echo].reshape(x.shape), x)


def test_graph_and_names():
    ir = new_ir()
    with ir.main_graph:
        _, graph = CountingLayer().create_graph(popxl.TensorSpec((BATCH, WIDTH), popxl.float32))
        inner = graph.graph
        buffer = addons.batch_serial_buffer(inner.outputs[0], STEPS, 3)
        assert (buffer.tensor_shape, buffer.entries) == ((BATCH, WIDTH), 3 * STEPS)
        loads = {inner.inputs[0]: (addons.batch_serial_buffer(inner.inputs[0]), 2)}
        result = addons.batch_serialise(graph, STEPS, loads, {}, {inner.outputs[0]: (buffer, None)}, rows=3)
    outer = result.graph.graph
    assert outer.name.startswith("CountingLayer__repeat_graph_subgraph(")
    assert [t.name for t in outer.inputs] == ["batch_serial_loop_index", "runs", "w"]
    assert (outer.inputs[0].shape, outer.inputs[0].dtype) == ((), popxl.int32)
    assert outer.inputs[1] in outer._by_ref_inputs and outer.inputs[2] not in outer._by_ref_inputs
    assert outer.outputs == ()
    assert result.graph.args.to_dict() == {"runs": outer.inputs[1], "w": outer.inputs[2]}
    assert result.remap_tensors(graph.args).to_dict() == result.graph.args.to_dict()
    assert isinstance(loads[inner.inputs[0]], addons.RemoteHandle)  # converted in the caller's dictionary
    assert loads[inner.inputs[0]].buffer.entries == STEPS * (2 + 3)
    assert result.stored_buffers[inner.outputs[0]].buffer is buffer


@pytest.mark.parametrize("io_mode", MODES)
def test_rows_and_offsets(io_mode):
    """Three rows: what row r stores in row r + 1, the next call loads; a number for each row is added."""
    rows, x = 3, normal(STEPS, WIDTH)
    extra = normal(rows, STEPS, WIDTH)
    ir = new_ir()
    ir.num_host_transfers = STEPS
    with ir.main_graph, popxl.in_sequence():
        spec = popxl.TensorSpec((WIDTH,), popxl.float32)
        graph = addons.GraphWithNamedArgs(ir.create_graph(lambda x, b, c: x * 2 + b + c, spec, spec, spec))
        inner = graph.graph
        hidden, extras, same = (popxl.remote_buffer((WIDTH,), popxl.float32, 1) for _ in range(3))
        variables = [
            popxl.remote_variable(extra[r, i], addons_entries(extras, rows * STEPS), r * STEPS + i)
            for r in range(rows)
            for i in range(STEPS)
        ]
        constants = [popxl.remote_variable(x[i], addons_entries(same, STEPS), i) for i in range(STEPS)]
        assert len(variables) + len(constants) == (rows + 1) * STEPS
        backwards = addons.RemoteHandle(extras, lambda row: 2 - row)
        result = addons.batch_serialise(
            graph,
            STEPS,
            {inner.inputs[0]: (hidden, 0), inner.inputs[1]: backwards, inner.inputs[2]: (same, None)},
            {},
            {inner.outputs[0]: (hidden, 1)},
            rows=rows,
            io_mode=io_mode,
        )
        assert hidden.entries == STEPS * (rows + 1)
        source, sink = popxl.h2d_stream((WIDTH,), popxl.float32), popxl.d2h_stream((WIDTH,), popxl.float32)
        for i in range(STEPS):
            ops.remote_store(hidden, i, ops.host_load(source))
        for r in range(rows):
            result.graph.bind().call(r)
        for i in range(STEPS):
            ops.host_store(sink, ops.remote_load(hidden, rows * STEPS + i))
    got = run(ir, {source: x})[sink]
    expected = x
    for r in range(rows):
        expected = expected * np.float32(2) + extra[2 - r] + x
    np.testing.assert_array_equal(got, expected)


def addons_entries(buffer, entries):
    buffer.entries = max(buffer.entries, entries)
    return buffer


@pytest.mark.parametrize("io_mode", MODES)
def test_seeds(io_mode):
    """Each step has a seed of its own; the chain of seeds is that of splitting by hand, whatever the mode."""
    ir = new_ir()
    ir.num_host_transfers = STEPS
    with ir.main_graph, popxl.in_sequence():
        seed = popxl.variable(np.array([5, 6], np.uint32), name="seed")

        def noise(seed):
            return ops.random_normal(seed, (WIDTH,))

        graph = addons.GraphWithNamedArgs(ir.create_graph(noise, seed.spec))
        inner = graph.graph
        plain, sink = popxl.d2h_stream((WIDTH,), popxl.float32), popxl.d2h_stream((WIDTH,), popxl.float32)
        result = addons.batch_serialise(
            graph, STEPS, {}, {inner.outputs[0]: sink}, {}, seed_input=inner.inputs[0], io_mode=io_mode
        )
        assert [t.name for t in result.graph.graph.inputs] == ["batch_serial_loop_index", "batch_serial_random_seed"]
        result.graph.bind().call(0, seed)
        running = seed
        for _ in range(STEPS):
            used, running = ops.split_random_seed(running)
            ops.host_store(plain, ops.random_normal(used, (WIDTH,)))
    got = run(ir)
    np.testing.assert_array_equal(got[sink], got[plain])
    assert len({tuple(row) for row in got[sink]}) == STEPS


@pytest.mark.parametrize("io_mode", MODES)
def test_shard_groups(io_mode):
    """Remote tensors in parts over the replicas: gathered before, sliced after; the replicas compute the same."""
    x = normal(STEPS, 2, 8)
    ir = new_ir(replicas=2)
    ir.num_host_transfers = STEPS
    with ir.main_graph, popxl.in_sequence():
        group = ir.replica_grouping()
        graph = addons.GraphWithNamedArgs(
            ir.create_graph(lambda x: ops.tanh(x), popxl.TensorSpec((2, 8), popxl.float32))
        )
        inner = graph.graph
        before = addons.batch_serial_buffer(inner.inputs[0], STEPS, 1, group)
        after = addons.batch_serial_buffer(inner.outputs[0], STEPS, 1, group)
        assert (after.tensor_shape, after.meta_shape) == ((8,), (2, 8))
        data = [popxl.remote_replica_sharded_variable(x[i], before, i) for i in range(STEPS)]
        result = addons.batch_serialise(
            graph,
            STEPS,
            {inner.inputs[0]: (before, 0, group)},
            {},
            {inner.outputs[0]: (after, 0, group)},
            io_mode=io_mode,
        )
        result.graph.bind().call(0)
        sink = popxl.d2h_stream((2, 8), popxl.float32)
        for i in range(STEPS):
            whole = ops.collectives.replicated_all_gather(ops.remote_load(after, i))
            ops.host_store(sink, whole)
    assert len(data) == STEPS
    got = run(ir)[sink]
    np.testing.assert_allclose(got, np.stack([np.tanh(x)] * 2, 1), rtol=1e-6, atol=1e-6)


# ---- gradients
def move(spec, source, target, io_mode):
    """Move what every step has from a stream or buffer to another one."""
    graph = addons.GraphWithNamedArgs(popxl.gir().create_graph(lambda x: ops.identity(x), spec))
    value, result = graph.graph.inputs[0], graph.graph.outputs[0]
    to_host = isinstance(target, popxl.DeviceToHostStream)
    streams, buffers = ({result: target}, {}) if to_host else ({}, {result: target})
    addons.batch_serialise(graph, STEPS, {value: source}, streams, buffers, io_mode=io_mode).graph.bind().call(0)


def plain_layers(forward, backward, weights, accumulators, source, sinks):
    for _ in range(STEPS):
        h, infos = ops.host_load(source), []
        for bound in weights:
            infos.append(forward.bind(bound).call_with_info(h))
            h = infos[-1].outputs[0]
        ops.host_store(sinks[0], h)
        for info, accumulator in zip(reversed(infos), reversed(accumulators), strict=True):
            (h,) = backward.bind(accumulator).call(h, args=backward.grad_graph_info.inputs_dict(info))
        ops.host_store(sinks[1], h)


def serial_layers(forward, backward, weights, accumulators, source, sinks, io_mode, group, stores_activation):
    """Phased execution: one graph for the layers, called for each with its number as row."""
    fwd, bwd, rows = forward.graph, backward.graph, len(weights)
    group = group and popxl.gir().replica_grouping()
    spec = fwd.inputs[0].spec
    hidden, grads = (addons.batch_serial_buffer(spec, STEPS, rows + 1, group) for _ in range(2))
    loads = {fwd.inputs[0]: (hidden, 0, group), bwd.inputs[0]: (grads, 1, group)}
    stores = {fwd.outputs[0]: (hidden, 1, group), bwd.outputs[0]: (grads, 0, group)}
    if stores_activation:  # the activation that only the gradient reads
        stores[fwd.outputs[1]] = group or (addons.batch_serial_buffer(fwd.outputs[1], STEPS, rows), 0)
    forward_result, gradient_result = addons.batch_serialise_fwd_and_grad(
        forward, backward, forward.args, STEPS, loads, {}, stores, rows=rows, io_mode=io_mode
    )
    assert all(isinstance(h, (addons.RemoteHandle, popxl.ReplicaGrouping)) for h in stores.values())
    assert gradient_result.graph.grad_graph_info is backward.grad_graph_info
    assert list(backward.args.to_dict()) == ["w", "mean_accum_counter", "accum.w"]
    stored = forward_result.stored_buffers
    assert set(stored) == {*fwd.outputs}
    assert stored[fwd.outputs[1]].buffer.entries == STEPS * rows
    move(spec, source, (hidden, 0, group), io_mode)
    for r, bound in enumerate(weights):
        forward_result.graph.bind(bound).call(r)
    move(spec, (hidden, rows, group), sinks[0], io_mode)
    move(spec, (hidden, rows, group), (grads, rows, group), io_mode)
    for r in reversed(range(rows)):
        named = accumulators[r].copy()
        named.insert("w", weights[r].w)
        gradient_result.graph.bind(named).call(r)
    move(spec, (grads, 0, group), sinks[1], io_mode)


def layers(xs, ws, replicas=1, serial=True, **arguments):
    """Outputs, gradients of the input, and mean gradients of the weights of layers over the micro-batches."""
    ir = new_ir(replicas)
    ir.num_host_transfers = STEPS
    with ir.main_graph, popxl.in_sequence():
        spec = popxl.TensorSpec((BATCH, 2 * WIDTH), popxl.float32)
        factories, forward = Layer().create_graph(spec)
        accum_factories, backward = addons.autodiff_with_accumulation(
            forward, [forward.args.w], grads_required=[forward.graph.inputs[0]]
        )
        weights = [factories.init(f"layer{r}") for r in range(len(ws))]
        accumulators = [accum_factories.init(f"layer{r}") for r in range(len(ws))]
        source = popxl.h2d_stream(spec.shape, spec.dtype)
        sinks = [popxl.d2h_stream(spec.shape, spec.dtype) for _ in range(2)]
        build = serial_layers if serial else plain_layers
        build(forward, backward, weights, accumulators, source, sinks, **arguments)
    with popxl.Session(ir, "cpu") as session:
        session.write_variables_data({t.w: w for t, w in zip(weights, ws, strict=True)})
        got = session.run({source: xs})
        assert all(session.get_tensor_data(t.mean_accum_counter) == STEPS for t in accumulators)
        mean = [session.get_tensor_data(t.accum.w) for t in accumulators]
    return [*(got[s] for s in sinks), *mean]


@pytest.fixture(scope="module")
def weights():
    return [normal(2 * WIDTH, 2 * WIDTH) * np.float32(0.3) for _ in range(3)]


@pytest.mark.parametrize("stores_activation", [False, True])
@pytest.mark.parametrize("io_mode", MODES)
def test_forward_and_gradient(io_mode, stores_activation, weights):
    xs = normal(STEPS, BATCH, 2 * WIDTH)
    plain = layers(xs, weights, serial=False)
    serial = layers(xs, weights, io_mode=io_mode, group=None, stores_activation=stores_activation)
    for ours, expected in zip(serial, plain, strict=True):
        np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("stores_activation", [False, True])
def test_forward_and_gradient_in_parts(stores_activation, weights):
    """Everything remote lies in parts over two replicas, which compute the same."""
    xs = np.repeat(normal(STEPS, 1, BATCH, 2 * WIDTH), 2, 1)
    plain = layers(xs, weights, replicas=2, serial=False)
    serial = layers(xs, weights, replicas=2, io_mode="io", group="all", stores_activation=stores_activation)
    for ours, expected in zip(serial, plain, strict=True):
        np.testing.assert_array_equal(ours, expected)


def test_a_gradient_must_be_loaded():
    ir = new_ir()
    with ir.main_graph:
        _, forward = Layer().create_graph(popxl.TensorSpec((BATCH, WIDTH), popxl.float32))
        backward = forward.autodiff()
        x = popxl.h2d_stream((BATCH, WIDTH), popxl.float32)
        with pytest.raises(ValueError, match="load_handles"):
            addons.batch_serialise_fwd_and_grad(
                forward, backward, forward.args, STEPS, {forward.graph.inputs[0]: x}, {}, {}
            )
        with pytest.raises(AttributeError, match="grad_graph_info"):
            addons.batch_serialise_fwd_and_grad(forward, forward, forward.args, STEPS, {}, {}, {})


def test_refusals(caplog):
    ir = new_ir(tiles=0)
    with ir.main_graph:
        _, graph = Layer().create_graph(popxl.TensorSpec((BATCH, WIDTH), popxl.float32))
        x, y = graph.graph.inputs[0], graph.graph.outputs[0]
        source, sink = popxl.h2d_stream(x.shape, x.dtype), popxl.d2h_stream(y.shape, y.dtype)

        def serialise(steps=STEPS, loads=None, streams=None, buffers=None, **arguments):
            arguments = {"io_mode": "compute", **arguments}
            loads = {x: source} if loads is None else loads
            return addons.batch_serialise(graph, steps, loads, streams or {}, buffers or {}, **arguments)

        for io_mode in ("io", "io_overlapped"):
            with pytest.raises(ValueError, match="numIOTiles"):
                serialise(io_mode=io_mode)
        with pytest.raises(ValueError, match="io_mode: got 'none'"):
            serialise(io_mode="none")
        with pytest.raises(ValueError, match="rows: got 0"):
            serialise(rows=0)
        with pytest.raises(ValueError, match="steps: got 0"):
            serialise(steps=0)
        with pytest.raises(TypeError, match="load_handles"):
            serialise(loads={x: sink})
        with pytest.raises(TypeError, match="store_streams"):
            serialise(streams={y: source})
        with pytest.raises(TypeError, match="store_buffers"):
            serialise(buffers={y: popxl.remote_buffer(y.shape, y.dtype)})
        with pytest.raises(KeyError):  # a named input that is loaded
            serialise(loads={graph.args.w: popxl.h2d_stream((WIDTH, WIDTH), popxl.float32)})
    ir = new_ir()
    with ir.main_graph:
        graph = addons.GraphWithNamedArgs(ir.create_graph(lambda x: x + 1, popxl.TensorSpec((2,), popxl.float32)))
        with caplog.at_level(logging.WARNING):
            addons.batch_serialise(
                graph,
                1,
                {graph.graph.inputs[0]: popxl.h2d_stream((2,), popxl.float32)},
                {},
                {},
                io_mode="io_overlapped",
            )
        assert "2 steps" in caplog.text


@pytest.mark.parametrize("io_mode", MODES)
def test_activations_of_streamed_inputs_are_stored(io_mode):
    """The input comes from the host, so that the gradient's own copy of it goes through a buffer made for it."""
    xs, gs, w = normal(STEPS, BATCH, WIDTH), normal(STEPS, BATCH, WIDTH), normal(WIDTH, WIDTH)
    ir = new_ir()
    ir.num_host_transfers = STEPS
    with ir.main_graph, popxl.in_sequence():
        spec = popxl.TensorSpec((BATCH, WIDTH), popxl.float32)
        factories, forward = Layer().create_graph(spec)
        accum_factories, backward = addons.autodiff_with_accumulation(
            forward, forward.args.tensors, grads_required=forward.graph.inputs[:1]
        )
        x, grad = (popxl.h2d_stream(spec.shape, spec.dtype) for _ in range(2))
        y, dx = (popxl.d2h_stream(spec.shape, spec.dtype) for _ in range(2))
        fwd, bwd = forward.graph, backward.graph
        kept = addons.batch_serial_buffer(spec, STEPS)
        forward_result, gradient_result = addons.batch_serialise_fwd_and_grad(
            forward,
            backward,
            forward.args,
            STEPS,
            {fwd.inputs[0]: x, bwd.inputs[0]: grad},
            {fwd.outputs[0]: y, bwd.outputs[0]: dx},
            {bwd.inputs[0]: (kept, 0)},  # an input may be stored too
            io_mode=io_mode,
        )
        assert set(forward_result.stored_buffers) == {fwd.inputs[0], fwd.outputs[1]}
        assert gradient_result.stored_buffers == {bwd.inputs[0]: addons.RemoteHandle(kept, 0)}
        variables, state = factories.init(), accum_factories.init()
        forward_result.graph.bind(variables).call(0)
        named = state.copy()
        named.update(variables)
        gradient_result.graph.bind(named).call(0)
        sink = popxl.d2h_stream(spec.shape, spec.dtype)
        for i in range(STEPS):
            ops.host_store(sink, ops.remote_load(kept, i))
    with popxl.Session(ir, "cpu") as session:
        session.write_variable_data(variables.w, w)
        got = session.run({x: xs, grad: gs})
        mean = session.get_tensor_data(state.accum.w)
    h = xs.astype(np.float64) @ w
    dh = gs * np.cos(h)
    np.testing.assert_allclose(got[y], np.sin(h), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(got[dx], dh @ w.T, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(mean, (xs.transpose(0, 2, 1) @ dh).mean(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(got[sink], gs)


def test_what_is_loaded_from_a_buffer_is_not_stored_again():
    ir = new_ir()
    with ir.main_graph:
        graph = addons.GraphWithNamedArgs(ir.create_graph(lambda x: x + 1, popxl.TensorSpec((2,), popxl.float32)))
        x = graph.graph.inputs[0]
        here, there = popxl.remote_buffer((2,), popxl.float32), popxl.remote_buffer((2,), popxl.float32)
        result = addons.batch_serialise(graph, STEPS, {x: (here, 0)}, {}, {x: (there, 0)}, io_mode="compute")
        assert result.stored_buffers[x].buffer is here
        (body,) = result.graph.graph.called_graphs[0].called_graphs
        assert "RemoteStore" not in [op.opType() for op in body._pb_graph.getOps()]
