"""popxl_addons.remote: trees of buffers, graphs that load and store them, variables in them."""

import numpy as np
import popxl
import popxl.ops as ops
import popxl_addons as addons
import pytest
from popxl_addons.remote import NamedRemoteBuffers, load_remote, store_remote

RNG = np.random.default_rng(12)


class Linear(addons.Module):
    """y = x w + b."""

    def build(self, x, width):
        w = self.add_variable_input("w", lambda: RNG.normal(0, 0.3, (x.shape[-1], width)).astype(np.float32), x.dtype)
        b = self.add_variable_input("b", lambda: RNG.normal(size=width).astype(np.float32), x.dtype)
        return x @ w + b


def test_layers_streamed_in_a_loop():
    """Three layers of one graph: each iteration loads its weights, uses them and stores them halved."""
    layers, width = 3, 4
    start = RNG.normal(size=(2, width)).astype(np.float32)
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x = popxl.variable(start)
        factories, layer = Linear().create_graph(x.spec, width)
        buffers = addons.named_variable_buffers(factories, layers, shard_over_dict=False)
        weights = [factories.init_remote(buffers, i, f"layer{i}") for i in range(layers)]
        load, names = addons.load_remote_graph(buffers, layers)
        store = addons.store_remote_graph(buffers, layers)
        assert names == ["b", "w"]

        def step(h, i):
            loaded = addons.NamedTensors.pack(names, load.call(i))
            (result,) = layer.bind(loaded).call(h)
            store.bind(loaded.map(lambda t: t * 0.5)).call(i)
            return result, i + 1

        body = ir.create_graph(step, x.spec, popxl.TensorSpec((), popxl.int32))
        h, _ = ops.repeat(body, layers, x, popxl.constant(0, popxl.int32))
        out = popxl.d2h_stream(h.shape, h.dtype)
        ops.host_store(out, h)
    assert weights[1].w.name == "layer1.w"
    with popxl.Session(ir, "cpu") as session:
        first = [{k: session.get_tensor_data(t).copy() for k, t in w.to_dict().items()} for w in weights]
        got = session.run()[out]
        halved = [{k: session.get_tensor_data(t) for k, t in w.to_dict().items()} for w in weights]
    expected = start
    for values, after in zip(first, halved, strict=True):
        expected = expected @ values["w"] + values["b"]
        for key, value in values.items():
            np.testing.assert_array_equal(after[key], value * np.float32(0.5))
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_inline_loads_and_stores_of_shared_names():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        a, b = popxl.variable(np.ones(3, np.float32), name="a"), popxl.variable(np.ones((2, 2), np.float32), name="b")
        buffers = addons.named_buffers(addons.NamedTensors(a=a, b=b), entries=2)
        assert (buffers.b.tensor_shape, buffers.b.entries) == ((2, 2), 2)
        store_remote(buffers, addons.NamedTensors(a=a * 3.0, other=b), 1)
        loaded = load_remote(buffers, 1)
        assert list(loaded.to_dict()) == ["a", "b"]
        out = popxl.d2h_stream((3,), popxl.float32)
        ops.host_store(out, loaded.a)
    with popxl.Session(ir, "cpu") as session:
        np.testing.assert_array_equal(session.run()[out], [3, 3, 3])


def test_buffers_of_parts():
    ir = popxl.Ir(replication=4)
    with ir.main_graph:
        x = popxl.variable(np.ones((2, 4), np.float32))
        factories, _ = Linear().create_graph(x.spec, 6)
        sharded = addons.named_variable_buffers(factories, shard_over_dict={"b": 2})
        assert (sharded.w.tensor_shape, sharded.w.meta_shape) == ((6,), (4, 6))
        assert (sharded.b.tensor_shape, sharded.b.meta_shape) == ((3,), (6,))
        whole = addons.named_variable_buffers(factories, entries=3, shard_over_dict=1)
        assert (whole.w.tensor_shape, whole.w.meta_shape, whole.w.entries) == ((4, 6), (), 3)
        variables = factories.init_remote(sharded)
        assert variables.w.meta_shape == (4, 6)
        with pytest.raises(ValueError, match="cannot be cut into 4 equal parts"):
            addons.named_variable_buffers(factories)
        with pytest.raises(ValueError, match=r"parts of .[bw]."):
            addons.named_variable_buffers(factories, shard_over_dict=5)
        with pytest.raises(KeyError):
            factories.init_remote(NamedRemoteBuffers(w=sharded.w))
        x + 1  # a session needs an op
    with popxl.Session(ir, "cpu") as session:
        assert session.get_tensor_data(variables.w).shape == (4, 6)


def test_a_part_keeps_its_shape():
    with popxl.Ir(replication=2).main_graph:
        buffer = addons.create_remote_buffer(popxl.TensorSpec((3,), popxl.float16, (2, 3)), 5)
        assert (buffer.tensor_shape, buffer.meta_shape, buffer.entries) == ((3,), (2, 3), 5)
