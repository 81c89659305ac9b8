"""Statements of popxl.md, sections 6 and 13 to 15: sessions, data of variables, remote buffers, replica groupings."""

import os
import subprocess
import sys

import numpy as np
import popart
import popxl
import pytest
from popxl import TensorSpec, ops

FLOAT = popxl.float32


def values(*shape):
    return np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)


class Program:
    """Input of a shape, a variable that is added to it and grows by 1 in each run, and the sum as output."""

    def __init__(self, shape=(2,), replicas=1, transfers=1, loop=False):
        self.ir = popxl.Ir(replicas)
        self.ir.num_host_transfers = transfers
        with self.ir.main_graph, popxl.in_sequence():
            self.source = popxl.h2d_stream(shape, FLOAT, "source")
            self.sink = popxl.d2h_stream(shape, FLOAT, "sink")
            self.v = popxl.variable(np.zeros(shape, np.float32), name="v")

            def step(v):
                ops.host_store(self.sink, ops.host_load(self.source) + v)
                return v + 1.0

            graph = self.ir.create_graph(step, self.v.spec)
            (new,) = ops.repeat(graph, transfers, self.v) if loop else ops.call(graph, self.v)
            ops.var_updates.copy_var_update_(self.v, new)


# ---- attaching


def test_attaching_and_transfers():
    program = Program()
    session = popxl.Session(program.ir, "cpu")
    assert not session.is_attached and session.ir is program.ir and session.ir_ is program.ir
    with session as entered:
        assert entered is session and session.is_attached
        session.run({program.source: values(2)})
        with session:
            session.run({program.source: values(2)})
        assert session.is_attached
        assert session.run({program.source: values(2)})[program.sink].tolist() == [3, 4]
    assert not session.is_attached and session.get_tensor_data(program.v).tolist() == [3, 3]
    with session:
        assert session.run({program.source: values(2)})[program.sink].tolist() == [4, 5]


def test_an_exception_leaves_the_host_values():
    program = Program()
    session = popxl.Session(program.ir)
    with pytest.raises(ZeroDivisionError), session:
        session.run({program.source: values(2)})
        1 / 0  # noqa: B018
    assert not session.is_attached and session.get_tensor_data(program.v).tolist() == [0, 0]


def test_weights_that_stay_on_the_device():
    program = Program()
    session = popxl.Session(program.ir, weights_to_host_on_exit=False)
    with session:
        session.run({program.source: values(2)})
    assert session.get_tensor_data(program.v).tolist() == [0, 0]
    with session:
        session.run({program.source: values(2)})
        session.weights_to_host()
    assert session.get_tensor_data(program.v).tolist() == [1, 1]


@pytest.mark.parametrize("device", ["cpu", "ipu_model", "ipu_hw"])
def test_devices(device):
    program = Program()
    with popxl.Session(program.ir, device) as session:
        assert session.run({program.source: values(2)})[program.sink].tolist() == [1, 2]


def test_an_attached_device_gets_the_weights_at_once():
    program = Program()
    device = popart.DeviceManager().createCpuDevice()
    device.attach()
    session = popxl.Session(program.ir, device)
    assert session.is_attached
    assert session.run({program.source: values(2)})[program.sink].tolist() == [1, 2]


def test_a_device_as_large_as_the_program():
    ir = popxl.Ir(2)
    with ir.main_graph, popxl.ipu(2):
        ops.host_store(popxl.d2h_stream((2,), FLOAT), ops.init((2,), FLOAT))
    with popxl.Session(ir, "ipu_model") as session:
        assert session.device.numIpus == 8


def test_several_sessions_at_once():
    programs = [Program() for _ in range(3)]
    sessions = [popxl.Session(p.ir) for p in programs]
    with sessions[0], sessions[1], sessions[2]:
        for i in range(3):
            for k, (program, session) in enumerate(zip(programs, sessions, strict=True)):
                got = session.run({program.source: k * values(2)})[program.sink]
                assert got.tolist() == (k * values(2) + i).tolist()


# ---- running


def test_expected_inputs_and_outputs():
    program = Program((2, 3))
    session = popxl.Session(program.ir)
    assert session.expected_inputs() == {program.source}
    made = session.create_host_outputs()
    assert {s: (a.shape, a.dtype) for s, a in made.items()} == {program.sink: ((2, 3), np.dtype(np.float32))}
    with session:
        assert session.run_with_outputs({program.source: values(2, 3)}, made) is None
    np.testing.assert_array_equal(made[program.sink], values(2, 3))


def test_unused_variables_keep_their_data():
    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable(values(2))
        ops.init((2,), FLOAT)
        popxl.h2d_stream((2,), FLOAT)
    with popxl.Session(ir) as session:
        assert session.expected_inputs() == set() and session.run() == {}
        session.write_variable_data(v, 2 * values(2))
    assert session.get_tensor_data(v).tolist() == [2, 4]


def test_a_scalar_output_is_an_array_without_dimensions():
    ir = popxl.Ir()
    with ir.main_graph:
        sink = popxl.d2h_stream((), FLOAT)
        ops.host_store(sink, popxl.constant(0.5))
    with popxl.Session(ir) as session:
        got = session.run()[sink]
    assert isinstance(got, np.ndarray) and got.shape == () and f"{got:.4f}" == "0.5000"


@pytest.mark.parametrize(
    ("shape", "given"), [((1,), 5.0), ((), np.full((1, 1), 5, np.float32)), ((2,), [5, 5]), ((1, 2), [[5, 5]])]
)
def test_inputs_of_other_forms(shape, given):
    program = Program(shape)
    with popxl.Session(program.ir) as session:
        assert np.all(session.run({program.source: given})[program.sink] == 5)


def test_torch_inputs():
    torch = pytest.importorskip("torch")
    program = Program()
    with popxl.Session(program.ir) as session:
        assert session.run({program.source: torch.tensor([1.0, 2.0])})[program.sink].tolist() == [1, 2]


@pytest.mark.parametrize("loop", [True, False])
def test_slices_of_transfers(loop):
    program = Program(transfers=3, loop=loop)
    data = values(4, 2)  # one more than is needed
    with popxl.Session(program.ir) as session:
        for run in range(2):
            got = session.run({program.source: data})[program.sink]
            steps = np.arange(3, dtype=np.float32)[:, None] + 3 * run if loop else run
            assert got.shape == (3, 2)
            np.testing.assert_array_equal(got if loop else got[:1], (data[:3] if loop else data[:1]) + steps)


def test_streams_wrap_and_have_cursors_of_their_own():
    ir = popxl.Ir()
    ir.num_host_transfers = 2
    with ir.main_graph, popxl.in_sequence():
        a, b = popxl.h2d_stream((), FLOAT), popxl.h2d_stream((), FLOAT)
        sinks = [popxl.d2h_stream((), FLOAT) for _ in range(2)]
        loads = [ops.host_load(a), ops.host_load(a), ops.host_load(b), ops.host_load(a)]
        ops.host_store(sinks[0], loads[1] - loads[0])
        ops.host_store(sinks[0], loads[2])
        ops.host_store(sinks[1], loads[3])
    with popxl.Session(ir) as session:
        for _ in range(2):
            got = session.run({a: [3, 10], b: [5, 6]})
            assert got[sinks[0]].tolist() == [7, 5] and got[sinks[1]][0] == 3


def test_transfers_before_replicas():
    program = Program((2,), replicas=2, transfers=3, loop=True)
    data = values(3, 2, 2)
    with popxl.Session(program.ir) as session:
        assert session.create_host_outputs()[program.sink].shape == (3, 2, 2)
        got = session.run({program.source: data})[program.sink]
    np.testing.assert_array_equal(got, data + np.arange(3, dtype=np.float32)[:, None, None])


# ---- data of variables


def test_data_of_constants_and_variables():
    ir = popxl.Ir()
    with ir.main_graph:
        c, v = popxl.constant(values(2, 2)), popxl.variable(3.0)
        ops.init((2,), FLOAT)
    session = popxl.Session(ir)
    assert session.get_tensors_data([c, v]).keys() == {c, v}
    np.testing.assert_array_equal(session.get_tensor_data(c), values(2, 2))
    session.write_variable_data(v, 7)
    assert session.get_tensor_data(v) == 7 and session.get_tensor_data(v).shape == ()
    view = session.get_tensor_data(v)
    session.write_variables_data({v: np.float32(8)})
    assert view == 8


NUMBERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


@pytest.mark.parametrize("dtype", [*NUMBERS, "float16", "float64", "bool"])
def test_data_of_every_type(dtype):
    ir = popxl.Ir()
    data = np.array([0, 1, 1], dtype)
    with ir.main_graph:
        v = popxl.variable(data, downcast=False)
        ops.init((2,), FLOAT)
    with popxl.Session(ir) as session:
        assert session.get_tensor_data(v).dtype == data.dtype and session.get_tensor_data(v).tolist() == data.tolist()
        session.write_variable_data(v, data[::-1])
    assert session.get_tensor_data(v).tolist() == data[::-1].tolist()


GROUPS = {  # replicas, stride, group size, shape on the host and data of all replicas of ()
    "one": (4, 1, 4, (), (4,)),
    "two": (4, 1, 2, (2,), (4,)),
    "strided": (4, 2, 2, (2,), (4,)),
    "each": (4, 1, 1, (4,), (4,)),
}


@pytest.mark.parametrize("row", GROUPS.values(), ids=GROUPS)
@pytest.mark.parametrize("mode", ["one_per_group", "all_replicas"])
def test_shapes_of_grouped_variables(row, mode):
    replicas, stride, size, on_host, of_all = row
    ir = popxl.Ir(replicas)
    grouping = ir.replica_grouping(stride, size)
    with ir.main_graph:
        v = popxl.variable(values(*on_host, 3), replica_grouping=grouping, retrieval_mode=mode)
        ops.add_(v, popxl.constant(values(3)))
    assert v.shape == v.shape_on_replica == (3,) and v.shape_on_host == (*on_host, 3)
    assert v.retrieval_mode == mode and v.replica_grouping == grouping
    with popxl.Session(ir) as session:
        session.run()
        got = session.get_tensor_data(v)
    expected = values(*on_host, 3) + values(3)
    if mode == "all_replicas" and size > 1:
        expected = np.stack([expected[g] if on_host else expected for g in grouping.assignment])
        assert got.shape == (*of_all, 3)
    np.testing.assert_array_equal(got, expected)


def test_an_irregular_grouping():
    ir = popxl.Ir(6)
    grouping = ir.replica_grouping_from_assignments([0, 0, 1, 0, 1, 1])
    with ir.main_graph:
        v = popxl.variable(values(2, 3), replica_grouping=grouping)
        sink = popxl.d2h_stream((3,), FLOAT)
        ops.host_store(sink, v)
    with popxl.Session(ir) as session:
        np.testing.assert_array_equal(session.run()[sink], values(2, 3)[[0, 0, 1, 0, 1, 1]])
        session.write_variable_data(v, -values(2, 3))
        np.testing.assert_array_equal(session.run()[sink], -values(2, 3)[[0, 0, 1, 0, 1, 1]])
    np.testing.assert_array_equal(session.get_tensor_data(v), -values(2, 3))


# ---- 14. remote buffers and variables


def test_facts_of_remote_buffers():
    ir = popxl.Ir()
    with ir.main_graph:
        first, second = popxl.remote_buffer((2, 3), FLOAT), popxl.RemoteBuffer((4,), popxl.float16, 3)
    assert (first.remote_buffer_id, second.remote_buffer_id) == (1, 2) and first != second
    assert (second.tensor_shape, second.tensor_dtype, second.entries) == ((4,), popxl.float16, 3)
    assert first.entries == 1 and first.meta_shape == () and hash(first) == hash((ir, 1))
    first.entries, first.meta_shape = 5, (6, 3)
    assert first.entries == 5 and first.meta_shape == (6, 3)
    first.set_remote_buffer_info(popxl.int32, (7,), 2)
    assert (first.tensor_shape, first.tensor_dtype, first.entries) == ((7,), popxl.int32, 2)
    with pytest.raises(AttributeError):
        first.tensor_shape = (3,)


def test_remote_variables():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((2,), FLOAT, 3)
        v = popxl.remote_variable(values(2), buffer, 1, name="far")
        x = ops.remote_load(buffer, 1)
        ops.remote_store(buffer, 1, x + 1)
        ops.remote_store(buffer, 2, x)
        sink = popxl.d2h_stream((2,), FLOAT)
        ops.host_store(sink, ops.remote_load(buffer, 0))
    assert v.name == "far" and v.shape == (2,) and v in ir.main_graph.variables
    with popxl.Session(ir) as session:
        assert session.run()[sink].tolist() == [0, 0]
        assert session.get_tensor_data(v).tolist() == [2, 3]
        session.write_variable_data(v, 5 * values(2))
        session.run()
    assert session.get_tensor_data(v).tolist() == [6, 11]


def test_sharded_buffers():
    ir = popxl.Ir(4)
    with ir.main_graph:
        whole = popxl.replica_sharded_buffer((3, 5), FLOAT)
        halves = popxl.replica_sharded_buffer((3, 5), FLOAT, shard_over=2, entries=4)
        grouped = popxl.replica_sharded_buffer((2, 3, 5), FLOAT, ir.replica_grouping(group_size=2))
    assert (whole.tensor_shape, whole.meta_shape, whole.entries) == ((4,), (3, 5), 1)
    assert (halves.tensor_shape, halves.meta_shape, halves.entries) == ((8,), (3, 5), 4)
    assert (grouped.tensor_shape, grouped.meta_shape) == ((8,), (3, 5))


def test_sharded_remote_variables():
    ir = popxl.Ir(2)
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((4,), FLOAT)
        v = popxl.remote_replica_sharded_variable(values(7), buffer, name="far")
        assert buffer.meta_shape == (7,) and v.meta_shape == (7,) and v.shape == (4,) and v.shape_on_host == (7,)
        part = ops.remote_load(buffer, 0)
        assert part.meta_shape == (7,)
        ops.remote_store(buffer, 0, part + 1)
    with popxl.Session(ir) as session:
        session.run()
    np.testing.assert_array_equal(session.get_tensor_data(v), values(7) + 1)


@pytest.mark.parametrize("shard_over", [None, 2])
def test_replica_sharded_variables(shard_over):
    ir = popxl.Ir(4)
    with ir.main_graph, popxl.in_sequence():
        v, part = popxl.replica_sharded_variable(values(3, 3), name="w", shard_over=shard_over)
        length = -(-9 // (shard_over or 4))
        assert part.shape == (length,) and part.meta_shape == (3, 3) and v.shape_on_host == (3, 3)
        assert isinstance(v, popxl.tensor.Variable) and v.name == "w"
        sink = popxl.d2h_stream(part.shape, FLOAT)
        ops.host_store(sink, part)
        ops.add_(part, popxl.constant(np.ones(length, np.float32)))
    padded = np.zeros((shard_over or 4, length), np.float32)
    padded.reshape(-1)[:9] = values(3, 3).ravel()
    with popxl.Session(ir) as session:
        np.testing.assert_array_equal(session.run()[sink], padded[np.arange(4) % (shard_over or 4)])
    np.testing.assert_array_equal(session.get_tensor_data(v), values(3, 3) + 1)


# ---- 15. replica groupings


ASSIGNMENTS = {
    (1, 6): "000000111111",
    (2, 3): "010101232323",
    (4, 3): "012301230123",
    (3, 2): "012012345345",
    (1, 12): "000000000000",
}


@pytest.mark.parametrize(("stride", "size"), ASSIGNMENTS)
def test_regular_groupings(stride, size):
    ir = popxl.Ir(12)
    grouping = ir.replica_grouping(stride, size)
    assert grouping.assignment == [int(c) for c in ASSIGNMENTS[stride, size]]
    assert (grouping.stride, grouping.group_size, grouping.num_groups) == (stride, size, 12 // size)
    assert grouping.is_const and grouping.const_rg is grouping
    assert grouping.to_device_map is None and grouping.to_host_map is None
    assert repr(grouping) == (
        f"ReplicaGrouping(num_replicas=12, stride={stride}, group_size={size}, num_groups={12 // size})"
    )
    assert ir.replica_grouping_from_assignments(grouping.assignment) == grouping
    assert ir.replica_grouping_from_assignments(grouping.assignment).is_const


def test_defaults_of_groupings():
    ir = popxl.Ir(12)
    assert ir.replica_grouping().group_size == 12 and ir.replica_grouping(3).group_size == 4
    single = ir.replica_grouping(4, 1)
    assert single.stride == 1 and single.assignment == list(range(12))
    assert ir.replica_grouping_from_assignments(list(range(12))) == single
    assert ir.replica_grouping() != single and ir.replica_grouping(1, 12) == ir.replica_grouping()
    assert popxl.Ir(12).replica_grouping() != ir.replica_grouping()


@pytest.mark.parametrize(("stride", "size"), [(1, 4), (4, 3), (2, 3), (3, 2), (1, 12), (1, 1)])
def test_transposed_groupings(stride, size):
    grouping = popxl.Ir(12).replica_grouping(stride, size)
    transposed = grouping.transpose()
    position, seen = [], {}
    for group in grouping.assignment:
        position.append(seen.setdefault(group, 0))
        seen[group] += 1
    first = {}
    assert transposed.assignment == [first.setdefault(p, len(first)) for p in position]
    if (stride, size) == (1, 4):
        assert (transposed.stride, transposed.group_size) == (4, 3) and transposed.transpose() == grouping


def test_irregular_groupings():
    ir = popxl.Ir(6)
    grouping = ir.replica_grouping_from_assignments([0, 0, 1, 0, 1, 1])
    assert not grouping.is_const and grouping.group_size == 3 and grouping.num_groups == 2
    assert repr(grouping) == "ReplicaGrouping(assignment=[0, 0, 1, 0, 1, 1])"
    # runs of gap 1: {0, 1}, {3}, {2}, {4, 5}; their sizes have the divisor 1
    assert grouping.const_rg == ir.replica_grouping(1, 1)
    assert grouping.to_device_map == [0, 0, 1, 0, 1, 1] and grouping.to_host_map == [0, 2]
    eight = popxl.Ir(8).replica_grouping_from_assignments([0, 0, 1, 1, 1, 1, 0, 0])
    assert (eight.const_rg.stride, eight.const_rg.group_size) == (1, 2)
    assert eight.to_device_map == [0, 1, 1, 0] and eight.to_host_map == [0, 1]


# ---- 23. environment


def program_in(environment):
    code = (
        "import numpy as np, popxl\nfrom popxl import ops\nir = popxl.Ir()\n"
        "with ir.main_graph:\n"
        "    s = popxl.d2h_stream((2,), popxl.float32)\n"
        "    ops.host_store(s, popxl.variable(np.ones(2, np.float32)) + 1)\n"
        "options = ir._pb_ir.getSessionOptions()\n"
        "print(options.enableEngineCaching, options.cachePath)\n"
        "with popxl.Session(ir, 'ipu_hw') as session: print(session.run()[s].tolist())\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def test_compiled_programs_are_kept(tmp_path):
    for _ in range(2):
        assert program_in({"POPXL_CACHE_DIR": str(tmp_path)}) == [f"True {tmp_path}", "[2.0, 2.0]"]
    assert any(tmp_path.iterdir())


def test_a_device_of_the_environment(monkeypatch):
    monkeypatch.setenv("POPXL_OFFLINE_DEVICE", "ipu_model")
    with popxl.Session(Program().ir, "cpu") as session:
        assert session.device.type == popart.DeviceType.IpuModel
    monkeypatch.setenv("POPXL_OFFLINE_DEVICE", "other")
    with pytest.raises(ValueError, match="other"):
        popxl.Session(Program().ir, "cpu")


def test_the_summary_of_a_session():
    assert "variables" in popxl.Session(Program().ir)._pb_session.getSummaryReport()


def test_compiled_programs_are_kept_where_the_options_say(tmp_path):
    program = Program()
    options = program.ir._pb_ir.getSessionOptions()
    options.enableEngineCaching, options.cachePath = True, str(tmp_path / "kept")
    popxl.Session(program.ir)
    assert any((tmp_path / "kept").iterdir())


def test_inplace_ambiguity_may_be_accepted():
    ir = popxl.Ir()
    ir._pb_ir.getSessionOptions().enableInplaceAmbiguityChecking = False
    with ir.main_graph:
        v = popxl.variable(values(2))
        ops.add_(v, popxl.constant(values(2)))
        _ = v * v
    popxl.Session(ir)


def test_dot_files_of_a_session(tmp_path):
    program = Program()
    options = program.ir._pb_ir.getSessionOptions()
    options.dotChecks, options.logDir = {"FINAL"}, str(tmp_path)
    popxl.Session(program.ir)
    assert list(tmp_path.glob("Final_*.dot")) and not list(tmp_path.glob("PreAlias*"))


def test_a_part_as_graph_input_keeps_its_meta_shape():
    ir = popxl.Ir(2)
    with ir.main_graph:
        _, part = popxl.replica_sharded_variable(values(4))
        graph = ir.create_graph(lambda x: x + 1, part)
        assert graph.inputs[0].spec == TensorSpec((2,), FLOAT, (4,))
