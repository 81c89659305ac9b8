"""Remote buffers and variables: loads and stores in programs, loops and replicas; values for the host; files."""

import os

import numpy as np
import popart
import popxl
import popxl.ops as ops
import pytest
from popxl.ops import collectives

RNG = np.random.default_rng(31)
ROWS = 3


def values(*shape):
    return RNG.normal(size=shape).astype(np.float32)


@pytest.fixture(params=["memory", "file"])
def backing(request, monkeypatch, tmp_path):
    """Where remote memory lies."""
    if request.param == "file":
        monkeypatch.setenv("POPART_REMOTE_MEMORY", str(tmp_path))
    else:
        monkeypatch.delenv("POPART_REMOTE_MEMORY", raising=False)
    return request.param


def test_rows_are_loaded_changed_and_stored(backing):
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((2, 3), popxl.float32, ROWS)
        starts = values(ROWS, 2, 3)
        variables = [popxl.remote_variable(v, buffer, i) for i, v in enumerate(starts)]
        first = ops.remote_load(buffer, 0)
        last = ops.remote_load(buffer, ROWS - 1, name="last")
        ops.remote_store(buffer, 1, first + last)
        again = ops.remote_load(buffer, 1)
        target = popxl.variable(np.zeros((2, 3), np.float32))
        ops.remote_load_(buffer, 2, target)
        out = popxl.d2h_stream((2, 3), popxl.float32)
        ops.host_store(out, again)
    assert (first.name, last.name) == ("id_1_offset_offset_remote_loaded", "last_remote_loaded")
    with popxl.Session(ir, "cpu") as session:
        np.testing.assert_array_equal(session.run()[out], starts[0] + starts[2])
        np.testing.assert_array_equal(session.get_tensor_data(variables[1]), starts[0] + starts[2])
        np.testing.assert_array_equal(session.get_tensor_data(variables[0]), starts[0])
        np.testing.assert_array_equal(session.get_tensor_data(target), starts[2])
        session.write_variable_data(variables[0], 2 * starts[0])
        np.testing.assert_array_equal(session.run()[out], 2 * starts[0] + starts[2])


def test_stores_and_loads_keep_their_order_without_a_sequence():
    """Only the program's text orders them: no value leads from one to the next."""
    ir = popxl.Ir()
    with ir.main_graph:
        buffer = popxl.remote_buffer((4,), popxl.float32)
        start = values(4)
        popxl.remote_variable(start, buffer)
        before = ops.remote_load(buffer, 0)
        slow = before
        for _ in range(4):
            slow = slow * 2.0
        ops.remote_store(buffer, 0, slow)
        after = ops.remote_load(buffer, 0)
        streams = [popxl.d2h_stream((4,), popxl.float32) for _ in range(2)]
        for stream, value in zip(streams, (before, after), strict=True):
            ops.host_store(stream, value)
    with popxl.Session(ir, "cpu") as session:
        results = session.run()
    np.testing.assert_array_equal(results[streams[0]], start)
    np.testing.assert_array_equal(results[streams[1]], 16 * start)


@pytest.mark.parametrize("kind", [popxl.uint32, popxl.int32])
def test_a_loop_streams_one_layer_at_a_time(backing, kind):
    """The weights of all layers lie in remote memory; one is in the device's at a time, and is changed on the way."""
    layers, width = 5, 8
    weights, x = 0.3 * values(layers, width, width), values(2, width)
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((width, width), popxl.float32, layers)
        variables = [popxl.remote_variable(w, buffer, i) for i, w in enumerate(weights)]

        def layer(h, index):
            w = ops.remote_load(buffer, index)
            result = ops.gelu(h @ w)
            ops.remote_store(buffer, index, w * 0.5)
            return result, index + 1

        graph = ir.create_graph(layer, popxl.TensorSpec((2, width), popxl.float32), popxl.TensorSpec((), kind))
        h, _ = ops.repeat(graph, layers, popxl.variable(x), popxl.constant(0, kind))
        out = popxl.d2h_stream(h.shape, h.dtype)
        ops.host_store(out, h)
    plain = popxl.Ir()
    with plain.main_graph:
        h = popxl.variable(x)
        for w in weights:
            h = ops.gelu(h @ popxl.variable(w))
        expected = popxl.d2h_stream(h.shape, h.dtype)
        ops.host_store(expected, h)
    with popxl.Session(plain, "cpu") as session:
        wanted = session.run()[expected]
    with popxl.Session(ir, "cpu") as session:
        np.testing.assert_array_equal(session.run()[out], wanted)
        for variable, w in zip(variables, weights, strict=True):
            np.testing.assert_array_equal(session.get_tensor_data(variable), w * np.float32(0.5))


def test_replicas_have_remote_memory_of_their_own():
    replicas = 4
    ir = popxl.Ir(replication=replicas)
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((3,), popxl.float32, 2)
        pairs = ir.replica_grouping(group_size=2)
        starts, whole = values(2, 3), values(3)
        paired = popxl.remote_variable(starts, buffer, 0, replica_grouping=pairs)
        shared = popxl.remote_variable(whole, buffer, 1, retrieval_mode="all_replicas")
        each = popxl.variable(np.arange(4, dtype=np.float32), replica_grouping=ir.replica_grouping(group_size=1))
        ops.remote_store(buffer, 1, ops.remote_load(buffer, 1) + each)
        out = popxl.d2h_stream((3,), popxl.float32)
        ops.host_store(out, ops.remote_load(buffer, 0))
    with popxl.Session(ir, "cpu") as session:
        np.testing.assert_array_equal(session.run()[out], np.repeat(starts, 2, axis=0))
        np.testing.assert_array_equal(session.get_tensor_data(paired), starts)
        each_replica = whole + np.arange(4, dtype=np.float32)[:, None]
        np.testing.assert_array_equal(session.get_tensor_data(shared), each_replica)


@pytest.mark.parametrize(("size", "parts"), [(4, 4), (4, 2), (2, 2)])
def test_sharded_variables_in_remote_memory(size, parts):
    ir = popxl.Ir(replication=4)
    with ir.main_graph, popxl.in_sequence():
        grouping = ir.replica_grouping(group_size=size)
        host_shape = (4 // size, 3, 5) if size < 4 else (3, 5)
        buffer = popxl.replica_sharded_buffer(host_shape, popxl.float32, grouping, parts, entries=2)
        assert (buffer.tensor_shape, buffer.meta_shape) == ((-(-15 // parts),), (3, 5))
        start = values(*host_shape)
        variable = popxl.remote_replica_sharded_variable(start, buffer, 1, replica_grouping=grouping)
        assert (variable.shape, variable.meta_shape) == (buffer.tensor_shape, (3, 5))
        part = ops.remote_load(buffer, 1)
        assert part.meta_shape == (3, 5)
        whole = collectives.replicated_all_gather(part, group=ir.replica_grouping(group_size=parts))
        ops.scaled_add_(part, part, b=1.0)
        ops.remote_store(buffer, 1, part)
        out = popxl.d2h_stream((3, 5), popxl.float32)
        ops.host_store(out, whole)
    with popxl.Session(ir, "cpu") as session:
        got = session.run()[out]
        np.testing.assert_array_equal(got, start.reshape(-1, 3, 5)[grouping.assignment])
        np.testing.assert_array_equal(session.get_tensor_data(variable), 2 * start)


def test_entries_may_grow_after_the_first_use():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((2,), popxl.float32)
        ops.remote_store(buffer, 0, popxl.constant([1.0, 2.0]))
        buffer.entries = 4
        ops.remote_store(buffer, 3, ops.remote_load(buffer, 0) * 3.0)
        untouched = ops.remote_load(buffer, 2)
        streams = [popxl.d2h_stream((2,), popxl.float32) for _ in range(2)]
        ops.host_store(streams[0], ops.remote_load(buffer, 3))
        ops.host_store(streams[1], untouched)
    with popxl.Session(ir, "cpu") as session:
        results = session.run()
    np.testing.assert_array_equal(results[streams[0]], [3, 6])
    np.testing.assert_array_equal(results[streams[1]], [0, 0])


def test_remote_tensors_are_listed_and_located():
    ir = popxl.Ir()
    with ir.main_graph:
        buffer = popxl.remote_buffer((2,), popxl.float32)
        remote, near = popxl.remote_variable(values(2), buffer, name="far"), popxl.variable(values(2), name="near")
        ops.remote_load(buffer, 0)
    assert [v.name for v in ir.main_graph.variables] == ["far", "near"]
    assert remote.location_info.isRemote()
    assert not near.location_info.isRemote()
    assert all(not t.id.startswith("RemoteBuffer") for t in ir.main_graph.tensors)


def test_memory_is_not_the_devices(monkeypatch):
    """A program whose weights are larger than the limit runs when they are remote."""
    width = 512
    monkeypatch.setenv("POPART_MAX_MEMORY", "4M")  # one layer has 1 MiB

    def program(remote):
        ir = popxl.Ir()
        with ir.main_graph, popxl.in_sequence():
            h = popxl.variable(values(1, width))
            buffer = popxl.remote_buffer((width, width), popxl.float32, 8)
            for i in range(8):
                w = values(width, width)
                if remote:
                    popxl.remote_variable(w, buffer, i)
                h = h @ (ops.remote_load(buffer, i) if remote else popxl.variable(w))
            out = popxl.d2h_stream(h.shape, h.dtype)
            ops.host_store(out, h)
        return ir

    with popxl.Session(program(True), "cpu") as session:
        session.run()
    with pytest.raises(popart.OutOfMemoryException), popxl.Session(program(False), "cpu"):
        pass


def test_an_offset_out_of_range_ends_the_run():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((2,), popxl.float32, 3)
        offset = popxl.h2d_stream((), popxl.int32)
        out = popxl.d2h_stream((2,), popxl.float32)
        ops.host_store(out, ops.remote_load(buffer, ops.host_load(offset)))
    with popxl.Session(ir, "cpu") as session:
        for wrong in (3, -1):
            with pytest.raises(popart.popart_runtime_error, match=f"got {wrong}, expected 0 to 2"):
                session.run({offset: np.array(wrong, np.int32)})
        session.run({offset: np.array(2, np.int32)})


def test_files_have_no_name_and_a_folder_that_cannot_be_used_is_named(monkeypatch, tmp_path):
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((1024,), popxl.float32, 4)
        popxl.remote_variable(values(1024), buffer)
        out = popxl.d2h_stream((1024,), popxl.float32)
        ops.host_store(out, ops.remote_load(buffer, 0))
    monkeypatch.setenv("POPART_REMOTE_MEMORY", str(tmp_path))
    with popxl.Session(ir, "cpu") as session:
        session.run()
        assert os.listdir(tmp_path) == []
    monkeypatch.setenv("POPART_REMOTE_MEMORY", str(tmp_path / "missing"))
    with pytest.raises(popart.popart_runtime_error, match="POPART_REMOTE_MEMORY: no file can be"):
        popxl.Session(ir, "cpu").__enter__()


def test_refusals():
    ir = popxl.Ir()
    with ir.main_graph:
        buffer = popxl.remote_buffer((2, 3), popxl.float32, 2)
        x = popxl.variable(values(2, 3))
        remote = popxl.remote_variable(values(2, 3), buffer)
        with pytest.raises(ValueError, match="no entry 2: expected 0 to 1"):
            ops.remote_load(buffer, 2)
        with pytest.raises(ValueError, match="no entry -1"):
            popxl.remote_variable(values(2, 3), buffer, -1)
        with pytest.raises(ValueError, match="got shape"):
            ops.remote_store(buffer, 0, popxl.variable(values(3, 2)))
        with pytest.raises(ValueError, match="float16"):
            ops.remote_load_(buffer, 0, popxl.variable(values(2, 3).astype(np.float16)))
        with pytest.raises(ValueError, match="uint32 or int32"):
            ops.remote_load(buffer, x)
        with pytest.raises(ValueError, match="remote variable"):
            ops.add(x, remote)
        with pytest.raises(ValueError, match="remote variable"):
            ops.remote_store(buffer, 0, remote)
        with pytest.raises(ValueError, match="one replica"):
            popxl.remote_replica_sharded_variable(values(2, 3), buffer)
    with popxl.Ir(replication=2).main_graph:
        sharded = popxl.replica_sharded_buffer((4,), popxl.float32)
        with pytest.raises(ValueError, match="not parts of a value of shape"):
            popxl.remote_replica_sharded_variable(values(6), sharded)
        with pytest.raises(ValueError, match="divisor of the group size 2"):
            popxl.replica_sharded_buffer((4,), popxl.float32, shard_over=3)


def test_values_of_one_group_may_be_stacked_as_those_of_several(backing):
    """popxl.md, section 6: data of shape (1, *buffer shape) are accepted with one group."""
    ir, start = popxl.Ir(), values(1, 2, 3)
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((2, 3), popxl.float32, ROWS)
        variable = popxl.remote_variable(start, buffer, 1)
        ops.remote_store(buffer, 1, ops.remote_load(buffer, 1) * 2.0)
        for shape, dtype in [((3, 2), popxl.float32), ((1, 1, 2, 3), popxl.float32), ((1, 2, 3), popxl.int32)]:
            with pytest.raises(ValueError, match="does not match the remote buffer"):
                popxl.remote_variable(np.ones(shape, dtype.as_numpy()), buffer, 0)
    with popxl.Session(ir, "cpu") as session:
        session.run()
        np.testing.assert_array_equal(session.get_tensor_data(variable), start * 2)
        session.write_variable_data(variable, start)
        session.run()
        np.testing.assert_array_equal(session.get_tensor_data(variable), start * 2)
