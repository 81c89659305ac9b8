"""Graph creation, contexts, calls, loops and branches."""

import gc
import weakref

import numpy as np
import popart_core
import popxl
import popxl.ops as ops
import pytest
from popart_core import _ir, popart_exception
from popxl import TensorSpec, float32
from popxl_addons.patterns import apply_pre_alias_patterns
from programs import evaluate

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_wrappers_are_unique():
    ir = popxl.Ir()
    assert ir.main_graph is ir.main_graph
    with ir.main_graph:
        x = popxl.variable(1.0)
    assert ir.main_graph.get_tensor(x.id) is x
    assert x in ir.main_graph
    with pytest.raises(TypeError):
        1 in ir.main_graph  # noqa: B015
    with pytest.raises(TypeError):
        assert ir == 1


def test_building_needs_a_graph():
    with pytest.raises(RuntimeError, match="no current graph"):
        popxl.variable(1.0)
    with popxl.Ir().main_graph, pytest.raises(RuntimeError, match="different Irs"), popxl.Ir().main_graph:
        pass


def test_create_graph_binds_arguments():
    ir = popxl.Ir()
    spec = TensorSpec((2,), float32)

    def fn(a, many, flag, *rest, scale=2.0, **named):
        assert isinstance(many, list) and flag == "x" and scale == 2.0 and list(named) == ["extra"]
        return [a, *many, *rest, named["extra"]]

    graph = ir.create_graph(fn, spec, (spec, spec), "x", spec, extra=spec)
    assert list(graph.inputs_by_name) == ["a", "many_0", "many_1", "rest_0", "extra"]
    assert graph.outputs == graph.inputs
    with pytest.raises(ValueError, match="signature"):
        ir.create_graph(fn)
    with pytest.raises(TypeError, match="mixes"):
        ir.create_graph(fn, spec, [spec, 1], "x")
    with pytest.raises(ValueError, match="returns"):
        ir.create_graph(lambda x: 5, spec)
    with pytest.raises(TypeError, match="function"):
        ir.create_graph(5, spec)


def test_tensors_of_other_graphs_are_refused():
    ir = popxl.Ir()
    with ir.main_graph:
        w = popxl.variable(X)
        with pytest.raises(ValueError, match="not in the current graph"):
            ir.create_graph(lambda x: ops.add(x, w), w)
        sub = ir.create_empty_graph()
        with sub, pytest.raises(ValueError, match="main graph"):
            popxl.variable(1.0)


def test_call_connects_inputs():
    def fn(a, b, c):
        return a + b * c, b

    def build(x):
        graph = popxl.gir().create_graph(fn, x, x, TensorSpec((), float32))
        with pytest.raises(ValueError, match="Missing inputs"):
            ops.call(graph, x)
        with pytest.raises(ValueError, match="Too many"):
            ops.call(graph, x, x, 1.0, 2.0)
        with pytest.raises(ValueError, match="twice"):
            ops.call(graph, x, inputs_dict={graph.inputs[0]: x})
        info = ops.call_with_info(graph, [x, x], inputs_dict={graph.inputs[2]: 3.0})
        assert info.inputs[:2] == (x, x) and info.parent_to_graph(x) == graph.inputs[0]
        assert info.graph_to_parent(graph.outputs[0]) == info.outputs[0]
        return info.outputs

    got = evaluate(build, X)
    np.testing.assert_array_equal(got[0], X + 3 * X)
    np.testing.assert_array_equal(got[1], X)


def test_by_ref_inputs_reach_the_caller():
    def increase(x: popxl.TensorByRef, y):
        ops.add_(x, y)

    def keep(x, y):
        ops.add_(x, y)

    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        v, w = popxl.variable(X), popxl.variable(X)
        one = popxl.constant(np.ones_like(X))
        ops.call(ir.create_graph(increase, v, one), v, one)
        ops.call(ir.create_graph(keep, w, one), w, one)
    with popxl.Session(ir) as session:
        session.run()
        np.testing.assert_array_equal(session.get_tensor_data(v), X + 1)
        np.testing.assert_array_equal(session.get_tensor_data(w), X)


def test_repeat_carries_the_first_inputs():
    def body(acc, rate):
        return acc * rate + 1

    def build(x, count):
        graph = popxl.gir().create_graph(body, x, TensorSpec((), float32))
        return ops.repeat(graph, count, x, 2.0)

    expected = X
    for count in range(4):
        np.testing.assert_array_equal(evaluate(lambda x, n=count: build(x, n), X)[0], expected)
        expected = expected * 2 + 1
    with pytest.raises(ValueError, match="repeat_count"):
        evaluate(lambda x: build(x, -1), X)


def test_repeat_changes_by_ref_inputs():
    def body(total: popxl.TensorByRef, x):
        ops.add_(total, x)

    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        total, x = popxl.variable(np.zeros_like(X)), popxl.variable(X)
        ops.repeat(ir.create_graph(body, total, x), 5, total, x)
    with popxl.Session(ir) as session:
        session.run()
        np.testing.assert_array_equal(session.get_tensor_data(total), 5 * X)


def test_host_loads_inside_a_loop_take_successive_slices():
    ir = popxl.Ir()
    ir.num_host_transfers = 4
    with ir.main_graph:
        into, out = popxl.h2d_stream((3,), float32, "in"), popxl.d2h_stream((3,), float32, "out")

        def body(total):
            with popxl.in_sequence():
                total = total + ops.host_load(into)
                ops.host_store(out, total)
            return total

        zero = popxl.constant(np.zeros(3, np.float32))
        ops.repeat(ir.create_graph(body, zero), 4, zero)
    data = np.arange(12, dtype=np.float32).reshape(4, 3)
    with popxl.Session(ir) as session:
        np.testing.assert_array_equal(session.run({into: data})[out], np.cumsum(data, 0))


@pytest.mark.parametrize("flag", [True, False])
def test_conditional_runs_one_branch(flag: bool):
    def build(cond, x):
        yes = popxl.gir().create_graph(lambda a: a + 1, x)
        no = popxl.gir().create_graph(lambda a, b: a * b, x, x)
        return ops.conditional(cond, yes, no, [x], [x, x])

    np.testing.assert_array_equal(evaluate(build, np.array(flag), X)[0], X + 1 if flag else X * X)


def test_in_place_changes_need_an_order():
    def program(ordered):
        ir = popxl.Ir()
        with ir.main_graph:
            v = popxl.variable(X)
            with popxl.in_sequence(ordered or "pass"):
                ops.add_(v, popxl.constant(np.ones_like(X)))
                out = popxl.d2h_stream(X.shape, float32)
                ops.host_store(out, v)
        return ir, out

    ir, _ = program(False)
    with pytest.raises(popart_core.popart_exception, match="ambiguity"):
        popxl.Session(ir)
    ir, out = program(True)
    with popxl.Session(ir) as session:
        np.testing.assert_array_equal(session.run()[out], X + 1)


def test_hooks_see_the_ops_of_their_graph():
    ir = popxl.Ir()
    seen = []
    with ir.main_graph:
        handle = ir.main_graph.register_op_created_hook(lambda op: seen.append(op.opType()))
        x = popxl.variable(X) + 1
        ir.create_graph(lambda a: ops.relu(a), x)
        ir.main_graph.remove_op_created_hook(handle)
        ops.relu(x)
    assert seen == ["Add"]
    with pytest.raises(ValueError, match="hook"):
        ir.main_graph.remove_op_created_hook(handle)


def test_placement():
    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable(X)
        with pytest.raises(popxl.errors.UndefinedValue):
            _ = v.ipu
        with popxl.ipu(1):
            a = v + 1
        assert a.ipu == 1 and a.tile_set == "compute"
        b = popxl.variable(X) + 1
        assert b.ipu == 0
        with pytest.raises(ValueError, match="different IPUs"):
            _ = a + b
        with popxl.io_tiles():
            assert ops.identity(v).tile_set == "io"


def test_internal_op_classes():
    import popart._internal.ir as _ir

    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(X)
        _ = x @ x.T + 1
    made = ir.main_graph._pb_graph.getOps()
    assert [isinstance(op, _ir.op.MatMulOp) for op in made] == [False, True, False]
    assert isinstance(made[2], _ir.op.AddOp) and isinstance(made[0], _ir.op.TransposeOp) and isinstance(made[0], _ir.Op)
    with pytest.raises(AttributeError):
        _ = _ir.op.NoSuchOp


@pytest.mark.parametrize("before", [True, False])
def test_collector_is_as_it_was_after_building(before):
    seen = []

    def build(fails):
        seen.append(gc.isenabled())
        popxl.gir().create_graph(lambda: None)  # the end of an inner graph does not end the pause
        seen.append(gc.isenabled())
        if fails:
            raise KeyError

    ir, was = popxl.Ir(), gc.isenabled()
    try:
        (gc.enable if before else gc.disable)()
        ir.create_graph(build, False)
        with pytest.raises(KeyError):
            ir.create_graph(build, True)
        assert seen == [False] * 4 and gc.isenabled() is before
    finally:
        (gc.enable if was else gc.disable)()


def test_objects_of_ops_and_tensors_are_the_same_while_they_are_held():
    """Also of results that no function returned, and anew after the last holder has let go."""
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.ones((2, 4), np.float32), name="x")
        scale = popxl.variable(np.ones(4, np.float32), name="scale")
        y = ops.layer_norm(x, scale, scale)
    pb = ir.main_graph._pb_graph
    (op,) = pb.getOps()
    assert op is pb.getOps()[0] and op.outTensor(0) is y._pb_tensor and op.inTensor(0) is x._pb_tensor
    mean = ir.main_graph.get_tensor(op.outTensor(1).id)
    assert mean.shape == (2,) and mean is ir.main_graph.get_tensor(mean.id) and mean in ir.main_graph.tensors
    assert [t.name for t in ir.main_graph.tensors if t.name.startswith("group_norm")] == [
        "group_norm_inv_std_dev",
        "group_norm_mean",
        "group_norm_out",
    ]
    held = weakref.ref(op)
    del op
    assert held() is None and pb.getOps()[0].opType() == "GroupNormalization"


def test_tensors_of_a_removed_graph_are_refused():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.ones(2, np.float32))
        gone = ir.create_graph(lambda x: x + x, x)
        there = ir.create_graph(lambda x: x * x, x)
    t, unasked = gone.inputs[0], gone.outputs[0]
    with there, pytest.raises(ValueError, match="is not in the current graph"):
        ops.tanh(t)
    ir._pb_ir.removeGraph(gone.id)
    with pytest.raises(popart_exception, match="was removed from its Ir"):
        assert t.shape
    with pytest.raises(popart_exception, match="was removed from its Ir"):
        assert unasked.shape
    with gone, pytest.raises(popart_exception, match="was removed from its Ir"):
        ops.tanh(t)


@pytest.mark.parametrize("is_asked", [True, False])
def test_erased_tensors_are_refused(is_asked):
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.ones(2, np.float32), name="x")
        same = ops.reshape(x, (2,))
        if is_asked:
            assert same.shape == (2,)
        _ = same + x
        apply_pre_alias_patterns(ir)
        with pytest.raises(popart_exception, match=f"tensor '{same._id}' was erased from the main graph"):
            assert same.shape
        with pytest.raises(popart_exception, match=f"tensor '{same._id}' was erased from the main graph"):
            ops.add(x, same)
        assert len(ir.main_graph._pb_graph.getOps()) == 1


def test_ops_in_sequence_run_after_the_one_before():
    """Whatever groups, other graphs and refused ops stand in between."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x = popxl.variable(np.ones(2, np.float32))
        first = ops.tanh(x)
        with popxl.in_sequence(False):
            group = [ops.exp(x), ops.log(x)]
        last = ops.sin(x)
        with pytest.raises(popart_exception):
            ops.matmul(x, popxl.constant(np.ones((3, 3), np.float32)))
        after = ops.cos(x)
        with popxl.in_sequence("pass"):
            ops.negate(x)
    number = {t: t._pb_tensor.getProducer().id for t in (first, *group, last, after)}
    edges = set(_ir.orderEdges(ir.main_graph._pb_graph))
    for before, later in ((first, group[0]), (first, group[1]), (group[0], last), (group[1], last), (last, after)):
        assert (number[before], number[later]) in edges
    assert len(edges) == 5
