"""Factories of variables: what they draw, and the inputs, variables and files that they make."""

import numpy as np
import popdist
import popxl
import popxl.ops as ops
import popxl_addons as addons
import pytest
import torch
from popxl_addons.remote import NamedRemoteBuffers

F32 = np.float32


class Draws:
    """Gives 0, 1, 2, …; keeps count of the calls."""

    def __init__(self, shape=(2,), dtype=F32):
        self.calls, self.shape, self.dtype = 0, shape, dtype

    def __call__(self):
        self.calls += 1
        return np.full(self.shape, self.calls, self.dtype)


@pytest.fixture
def ir():
    ir = popxl.Ir(replication=4)
    with ir.main_graph:
        yield ir


def host(ir, t):
    return ir._variable_data[t.id]


def test_calls_of_a_function(ir):
    draws = Draws()
    factory = addons.VariableFactory(draws, name="w")
    assert draws.calls == 2  # a check, thrown away, and the first value, which stays first in line
    first, second = factory.create_tensor(), factory.create_tensor("other")
    np.testing.assert_array_equal([host(ir, first), host(ir, second)], [[2, 2], [3, 3]])
    assert (first.name, second.name, draws.calls) == ("w", "other", 3)
    assert factory.data_iter.peek()[0] == 4


def test_a_function_that_fails():
    ir = popxl.Ir()
    with ir.main_graph, pytest.raises(ValueError, match="data_iter") as caught:
        addons.VariableFactory(lambda: 1 / 0)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(
    ("data", "exception"),
    [
        *[(3.0, ValueError), (None, ValueError), (lambda: None, ValueError), (lambda: object(), ValueError)],
        *[(lambda: 3.0, AttributeError), (lambda: [1.0, 2.0], AttributeError), ([1, 2], AttributeError)],
    ],
)
def test_data_of_other_kinds(ir, data, exception):
    with pytest.raises(exception):
        addons.VariableFactory(data)


def test_facts(ir):
    factory = addons.VariableFactory(lambda: np.zeros((3, 2)), name="w", by_ref=True)
    assert (factory.dtype, factory.shape, factory.meta_shape) == (popxl.float64, (3, 2), None)  # not narrowed
    assert factory.by_ref and not factory.replica_sharded and factory.replica_grouping == ir.replica_grouping()
    factory = addons.VariableFactory(lambda: torch.ones(4), popxl.float16)
    assert (factory.dtype, factory.shape, factory.name) == (popxl.float16, (4,), None)
    assert host(ir, factory.create_tensor("h")).dtype == np.float16


def test_one_value_per_group(ir):
    values = iter(np.arange(0, 40, 10))
    factory = addons.VariableFactory(values, popxl.int32, "offset", replica_grouping=ir.replica_grouping(group_size=1))
    assert factory.shape == ()
    t = factory.create_tensor()
    assert t.shape_on_host == (4,) and t.shape == ()
    np.testing.assert_array_equal(host(ir, t), [0, 10, 20, 30])
    with pytest.raises(StopIteration):
        factory.create_tensor()
    draws = Draws((2, 3))
    factory = addons.VariableFactory(draws, replica_grouping=ir.replica_grouping(1, 2))
    assert factory.next_data().shape == (2, 2, 3) and draws.calls == 3
    assert factory.next_data(empty=True).shape == (2, 2, 3) and draws.calls == 3


def test_sharded_factories(ir):
    factory = addons.VariableFactory(Draws((3, 4)), name="w", shard_over=4)
    assert (factory.shape, factory.meta_shape, factory.replica_sharded) == ((3,), (3, 4), True)
    assert factory.next_data().shape == factory.next_data(empty=True).shape == (3, 4)
    with pytest.raises(AssertionError):
        addons.VariableFactory(Draws(), shard_over=4, replica_grouping=ir.replica_grouping(1, 2))


def test_inputs(ir):
    graph = ir.create_empty_graph("g")
    with graph:
        plain = addons.VariableFactory(Draws(), name="w", by_ref=True).create_input()
        prefixed = addons.VariableFactory(Draws((4,)), name="w", shard_over=2).create_input("layer")
        t, factory = addons.add_variable_input("b", Draws((3,)), popxl.float16)
        s, sharded = addons.add_replica_sharded_variable_input("s", Draws((8,)), by_ref=True)
        _, half = addons.add_replica_sharded_variable_input("h", Draws((8,)), shard_over=2)
        _, whole = addons.add_replica_sharded_variable_input("z", Draws((8,)), shard_over=0)
    assert [t.name for t in graph.inputs] == ["w", "layer.w", "b", "s", "h", "z"]
    assert plain in graph._by_ref_inputs and s in graph._by_ref_inputs and t not in graph._by_ref_inputs
    assert (prefixed.shape, prefixed.meta_shape, t.dtype, factory.name) == ((2,), (4,), popxl.float16, "b")
    assert (s.shape, s.meta_shape, sharded.by_ref, half.shape, whole.shape) == ((2,), (8,), True, (4,), (2,))


def test_memory_maps(ir, tmp_path):
    draws = Draws((2, 3))
    factory = addons.VariableFactory(draws, name="w", replica_grouping=ir.replica_grouping(1, 2))
    folder = tmp_path / "new" / "folder"
    mapped = factory.next_memmap(str(folder), "w")
    assert mapped.shape == (2, 2, 3) and mapped.mode == "w+" and draws.calls == 3
    mapped.flush()
    assert (folder / "w.npy").stat().st_size == 2 * 2 * 3 * 4  # no header
    np.testing.assert_array_equal(np.fromfile(folder / "w.npy", F32).reshape(2, 6)[:, 0], [2, 3])
    assert factory.next_memmap(str(folder), "w").mode == "r+"
    assert factory.next_memmap(str(folder), "w", read_only_if_exists=True).mode == "r" and draws.calls == 3
    assert not factory.next_memmap(str(folder), "z", empty=True).any() and draws.calls == 3
    t = factory.create_tensor(memmap_dir=str(folder))
    assert isinstance(host(ir, t), np.memmap) and t.shape == (2, 3)


def test_files_of_the_first_process(ir, tmp_path, monkeypatch):
    waits = []
    monkeypatch.setattr(popdist, "synchronize", lambda: waits.append(1))
    monkeypatch.setenv("POPDIST_NUM_TOTAL_REPLICAS", "4")
    monkeypatch.setenv("POPDIST_INSTANCE_INDEX", "1")
    draws = Draws()
    factory = addons.VariableFactory(draws)
    with pytest.raises(FileNotFoundError):
        factory.next_memmap(str(tmp_path), "w")
    monkeypatch.setenv("POPDIST_INSTANCE_INDEX", "0")
    factory.next_memmap(str(tmp_path), "w")
    monkeypatch.setenv("POPDIST_INSTANCE_INDEX", "1")
    np.testing.assert_array_equal(factory.next_memmap(str(tmp_path), "w"), [2, 2])
    assert len(waits) == 3 and draws.calls == 2


def factories(**kinds):
    return addons.NamedVariableFactories.from_dict(kinds)


def test_variables_of_a_tree(ir):
    order = []

    def make(name):
        def draw():
            order.append(name)
            return np.ones(2, F32)

        return addons.VariableFactory(draw, name=name)

    tree = factories(**{"b.w": make("w"), "a": make("a"), "b.c": make("c")})
    order.clear()
    made = tree.init()
    assert list(made.to_dict()) == ["a", "b.c", "b.w"] and [t.name for t in made.tensors] == ["a", "b.c", "b.w"]
    again = tree.init("p")
    assert [t.name for t in again.tensors] == ["p.a", "p.b.c", "p.b.w"] and order == ["a", "c", "w"]  # peeked before
    assert tree.init().a.name == "a__t0"
    assert tree.replica_groupings.to_dict() == dict.fromkeys(["b.w", "a", "b.c"], ir.replica_grouping())
    with pytest.raises(KeyError, match=r"b\.c"):
        tree.init_remote(NamedRemoteBuffers(a=popxl.remote_buffer((2,), popxl.float32)))


def test_tensors_of_a_tree(ir):
    group = ir.replica_grouping(1, 2)
    tree = factories(
        b=addons.VariableFactory(Draws((4,)), name="x", replica_grouping=group, shard_over=2),
        a=addons.VariableFactory(Draws((3,), np.float16), name="y"),
    )
    graph = ir.create_empty_graph("g")
    with graph:
        zero, undefined = tree.init_zero(), tree.init_undef()
        assert list(zero.to_dict()) == list(undefined.to_dict()) == ["b", "a"]
        assert [t.name for t in zero.to_dict().values()] == ["b", "a"]
        assert (zero.b.shape, zero.b.meta_shape, zero.a.dtype) == ((2,), (), popxl.float16)
    kinds = [op.opType() for op in graph._pb_graph.getOps()]
    assert kinds == ["Init"] * 4


def test_variables_in_remote_buffers(ir):
    whole = addons.VariableFactory(Draws((2, 2)), name="whole")
    sharded = addons.VariableFactory(Draws((8,)), name="sharded", shard_over=4)
    tree = factories(x=whole, y=sharded)
    buffers = addons.named_variable_buffers(tree, 3, shard_over_dict=1)
    made = tree.init_remote(buffers, 2, "layer")
    assert [t.name for t in made.tensors] == ["layer.x", "layer.y"]
    assert (made.x.shape, made.y.shape, made.y.meta_shape) == ((2, 2), (2,), (8,))
    with ir.main_graph:
        stream = popxl.d2h_stream((2, 2), popxl.float32)
        ops.host_store(stream, ops.remote_load(buffers.x, 2))
    with popxl.Session(ir, "cpu") as session:
        np.testing.assert_array_equal(session.run()[stream], np.full((4, 2, 2), 2))
        np.testing.assert_array_equal(session.get_tensor_data(made.y), np.full(8, 2))


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("elements", [2, 4])
def test_a_file_of_another_size_is_refused_and_stays(tmp_path, read_only, elements):
    file = tmp_path / "w.npy"
    np.ones(elements, np.float32).tofile(file)
    with popxl.Ir().main_graph:
        factory = addons.VariableFactory(lambda: np.zeros(3, np.float32), name="w")
        with pytest.raises(ValueError, match=rf"w\.npy.*{4 * elements} bytes.*12"):
            factory.create_tensor(memmap_dir=str(tmp_path), read_only_if_exists=read_only)
    assert file.stat().st_size == 4 * elements


def test_a_file_that_was_not_filled_is_made_again(tmp_path):
    """A program that ends while it draws leaves no file of zeros behind."""

    def draws():
        yield np.ones(3, np.float32)
        raise KeyboardInterrupt

    with popxl.Ir().main_graph:
        factory = addons.VariableFactory(draws(), name="w")
        factory.next_data()
        with pytest.raises(KeyboardInterrupt):
            factory.create_tensor(memmap_dir=str(tmp_path))
        made = addons.VariableFactory(lambda: np.full(3, 2, np.float32)).next_memmap(str(tmp_path), "w")
    assert made.tolist() == [2, 2, 2] and made.filename == tmp_path / "w.npy"
