"""Statements of popxl.md, section 21, and popxl-ops.md, section 13: transforms and call sites."""

import numpy as np
import popart
import popxl
import pytest
from popxl import TensorByRef, TensorSpec, ops
from popxl.transforms import ExpectedConnectionType, autodiff

FLOAT = popxl.float32
SPEC = TensorSpec((2,), FLOAT)
Fwd, FwdGrad = ExpectedConnectionType.Fwd, ExpectedConnectionType.FwdGrad


@pytest.fixture
def ir():
    ir = popxl.Ir()
    with ir.main_graph:
        yield ir


def var(value=(1, 2), name="v"):
    return popxl.variable(np.asarray(value, np.float32), name=name)


def results(ir, *tensors):
    streams = [popxl.d2h_stream(t.shape, t.dtype) for t in tensors]
    for stream, t in zip(streams, tensors, strict=True):
        ops.host_store(stream, t)
    with popxl.Session(ir, "cpu") as session:
        got = session.run()
    return [got[stream] for stream in streams]


def types(graph):
    return [op.opType() for op in graph._pb_graph.getOps()]


# ---- autodiff


def test_arguments_of_another_kind(ir):
    graph = ir.create_graph(lambda x: x * x, var())
    info, site = autodiff(graph), ops.conditional_with_info(popxl.constant(True), *[graph] * 2, *[[var(name="b")]] * 2)
    for wrong in (3, None, graph, site):
        with pytest.raises(TypeError, match="fwd_call_info"):
            info.inputs_dict(wrong)
        with pytest.raises(TypeError, match="grad_call_info"):
            info.fwd_graph_ins_to_grad_parent_outs(wrong)
        with pytest.raises(TypeError, match="fwd_call_info"):
            info.fwd_parent_ins_to_grad_parent_outs(wrong, wrong)
    with pytest.raises(TypeError, match="decompose_sum"):
        popxl.transforms.decompose_sum(3)


def test_the_typical_flow(ir):
    x, w = var(np.ones((3, 5)), "x"), var(np.full((5, 2), 2), "w")
    graph = ir.create_graph(lambda x, w: ops.relu(x @ w), x, w)
    info = autodiff(graph)
    site = ops.call_with_info(graph, inputs_dict=dict(zip(graph.inputs, (x, w), strict=True)))
    dy = popxl.constant(np.arange(6, dtype=np.float32).reshape(3, 2))
    back = ops.call_with_info(info.graph, dy, inputs_dict=info.inputs_dict(site))
    grads = info.fwd_parent_ins_to_grad_parent_outs(site, back)
    assert list(grads) == [x, w] and tuple(grads.values()) == back.outputs
    inside = info.fwd_graph_ins_to_grad_parent_outs(back)
    assert list(inside) == list(graph.inputs) and list(inside.values()) == list(grads.values())
    dx, dw = results(ir, *grads.values())
    d = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.testing.assert_allclose(dx, d @ np.full((2, 5), 2, np.float32))
    np.testing.assert_allclose(dw, np.ones((5, 3), np.float32) @ d)


def test_facts_of_gradient_graphs(ir):
    graph = ir.create_graph(lambda x, w: ops.relu(x @ w), TensorSpec((3, 5), FLOAT), TensorSpec((5, 2), FLOAT))
    info = autodiff(graph)
    x, w = graph.inputs
    assert info.forward_graph is graph and info.graph in ir.main_graph.ir._graphs.values()
    assert [(c.fwd_tensor, c.connection_type) for c in info.expected_inputs] == [
        (graph.outputs[0], FwdGrad), (graph.outputs[0], Fwd), (w, Fwd), (x, Fwd),
    ]  # fmt: skip
    assert [(c.fwd_tensor, c.connection_type) for c in info.expected_outputs] == [(x, FwdGrad), (w, FwdGrad)]
    assert info.inputs == (graph.outputs[0], graph.outputs[0], w, x) and info.outputs == (x, w)
    assert all(t.dtype is FLOAT for t in info.graph.outputs) and types(info.graph).count("Sum") == 3


def test_provided_and_required(ir):
    def forward(x, y, z):
        return x * y, y * z

    graph = ir.create_graph(forward, SPEC, SPEC, SPEC)
    first, second = graph.outputs
    info = autodiff(graph, [second, first], [graph.inputs[2], graph.inputs[0]])
    assert info.inputs[:2] == (second, first) and info.outputs == (graph.inputs[2], graph.inputs[0])
    one = autodiff(graph, [second], [graph.inputs[1]])
    assert [c.connection_type for c in one.expected_inputs].count(FwdGrad) == 1


def test_a_provided_gradient_of_a_tensor_used_inside(ir):
    v = var((3, 4))
    graph = ir.create_graph(lambda x: (lambda y: (y, y * y))(x * 2.0), v)
    info = autodiff(graph)
    site = ops.call_with_info(graph, v)
    ones, tens = popxl.constant(np.ones(2, np.float32)), popxl.constant(np.full(2, 10, np.float32))
    (dx,) = ops.call(info.graph, ones, tens, inputs_dict=info.inputs_dict(site))
    (got,) = results(ir, dx)
    np.testing.assert_allclose(got, 2 * (1 + 10 * 2 * 2 * np.array([3, 4])))


def test_gradients_provided_inside_are_warned_of(ir, capfd):
    graph = ir.create_graph(lambda x: ops.relu(x * 2.0), SPEC)
    inside = graph.get_tensor(f"{graph.id}/mul_out")
    assert autodiff(graph, [inside]).inputs[0] is inside
    assert "mul_out" in capfd.readouterr().err


@pytest.mark.parametrize("after", [True, False])
def test_extra_outputs_reach_call_sites(ir, after):
    v = var()
    graph = ir.create_graph(lambda x: ops.gelu(x * 2.0), v)
    assert len(graph.outputs) == 1
    sites = [ops.call_with_info(graph, v) for _ in range(2)] if after else []
    info = autodiff(graph)
    sites = sites or [ops.call_with_info(graph, v) for _ in range(2)]
    assert graph.outputs[0].name == "gelu_out"
    assert [t.name for t in graph.outputs[1:]] == [t.name for t in info.inputs[1:] if t not in graph.inputs]
    for site in sites:
        assert len(site.outputs) == len(graph.outputs)
        assert all("autodiff_output__t" in t.name for t in site.outputs[1:]) or not after
        (dx,) = ops.call(info.graph, popxl.constant(np.ones(2, np.float32)), inputs_dict=info.inputs_dict(site))
    assert dx.shape == (2,)


def test_constants_are_inputs_of_gradient_graphs(ir):
    graph = ir.create_graph(lambda x: x * popxl.constant(np.array([2, 3], np.float32), name="c"), SPEC)
    info = autodiff(graph)
    assert [t.name for t in info.inputs[1:]] == ["c", "mul_out", "x"]
    assert "c" in [t.name for t in graph.outputs]


def test_activations_are_computed_again_for_conditionals(ir):
    graph = ir.create_graph(lambda x: ops.gelu(x * 2.0), SPEC)
    ops.conditional(popxl.constant(True), graph, graph, [var()], [var()])
    info = autodiff(graph)
    assert len(graph.outputs) == 1 and "Mul" in types(info.graph)


def test_nested_graphs(ir):
    inner = ir.create_graph(lambda x: ops.gelu(x), SPEC)
    outer = ir.create_graph(lambda x: ops.call(inner, x)[0] * 2.0, SPEC)
    infos = autodiff(outer, return_all_grad_graphs=True)
    assert set(infos) == {inner, outer} and infos[inner].graph.id == f"{inner.id}_bwd"
    known = autodiff(ir.create_graph(lambda x: ops.call(inner, x)[0], SPEC), called_graphs_grad_info=infos)
    assert infos[inner].graph in known.graph.called_graphs


def test_differentiating_twice(ir):
    graph = ir.create_graph(lambda x: ops.gelu(x * 2.0), SPEC)
    first, second, third = (autodiff(graph) for _ in range(3))
    assert first.graph.id == f"{graph.id}_bwd"
    numbers = [int(i.graph.id.removeprefix(f"{graph.id}_bwd_")) for i in (second, third)]
    assert numbers[1] == numbers[0] + 1
    outputs = len(graph.outputs)
    autodiff(graph)
    assert len(graph.outputs) == outputs


def test_detached_tensors_and_views(ir):
    graph = ir.create_graph(lambda x: ops.detach(x) * x, SPEC)
    info = autodiff(graph)
    v = var((3, 4))
    site = ops.call_with_info(graph, v)
    (dx,) = ops.call(info.graph, popxl.constant(np.ones(2, np.float32)), inputs_dict=info.inputs_dict(site))
    autodiff(ir.create_graph(lambda x: ops.slice_(x.reshape_((2, 1)), [0], [1]) * 2.0, SPEC))
    (got,) = results(ir, dx)
    np.testing.assert_allclose(got, [3, 4])


def test_broadcasts_are_summed(ir):
    graph = ir.create_graph(lambda x, b: x + b, TensorSpec((3, 2), FLOAT), SPEC)
    info = autodiff(graph)
    assert [t.shape for t in info.graph.outputs] == [(3, 2), (2,)]


def test_a_parent_tensor_for_two_inputs(ir):
    v = var()
    graph = ir.create_graph(lambda a, b: a * 2.0 + b * 3.0, SPEC, SPEC)
    info = autodiff(graph)
    site = ops.call_with_info(graph, v, v)
    back = ops.call_with_info(info.graph, popxl.constant(np.ones(2, np.float32)), inputs_dict=info.inputs_dict(site))
    assert info.fwd_parent_ins_to_grad_parent_outs(site, back) == {v: back.parent_output(1)}


def test_decomposed_sums(ir):
    v = var((3, 4))
    graph = ir.create_graph(lambda x: x * 2.0 + x * 3.0 + x, v)
    info = autodiff(graph)
    assert popxl.transforms.decompose_sum(info.graph) is info.graph
    assert "Sum" not in types(info.graph) and "Init" in types(info.graph)
    site = ops.call_with_info(graph, v)
    (dx,) = ops.call(info.graph, popxl.constant(np.ones(2, np.float32)), inputs_dict=info.inputs_dict(site))
    (got,) = results(ir, dx)
    np.testing.assert_allclose(got, [6, 6])


# ---- exchanges


def exchanges(graph):
    lines = graph._pb_graph.printSchedule({}).splitlines()[2:-1]
    return [line.split(".")[0].strip() for line in lines]


def streams():
    return popxl.h2d_stream((2,), FLOAT), popxl.h2d_stream((3,), FLOAT), popxl.d2h_stream((2,), FLOAT)


@pytest.mark.parametrize("in_order", [True, False, None])
def test_loads_and_stores_merge(ir, in_order):
    a, b, out = streams()
    v = var()

    def build():
        x = v + 1
        with popxl.transforms.merge_exchange():
            y, z = ops.host_load(a), ops.host_load(b)
            ops.host_store(out, x)
        return ops.sum(y, keepdims=False) + ops.sum(z, keepdims=False)

    if in_order is None:
        total = build()
    else:
        with popxl.in_sequence(in_order):
            total = build()
    assert sorted(exchanges(ir.main_graph)) == sorted(
        ["Add", "Init", "Init", "MultiExchange", "ReduceSum", "ReduceSum", "Add"]
    )
    last = popxl.d2h_stream((), FLOAT)
    ops.host_store(last, total)
    with popxl.Session(ir) as session:
        got = session.run({a: np.ones(2, np.float32), b: np.ones(3, np.float32)})
    assert got[out].tolist() == [2, 3] and got[last] == 5


def test_exchanges_with_an_op_between_them(ir):
    a, b, out = streams()
    with popxl.in_sequence(True), popxl.transforms.merge_exchange():
        x = ops.host_load(a)
        y = x + 1
        ops.host_load(b)
        ops.host_store(out, y)
    assert exchanges(ir.main_graph) == ["Init", "Init", "HostLoad", "Add", "MultiExchange"]


def test_an_op_that_may_run_elsewhere_is_not_between(ir):
    a, b, out = streams()
    with popxl.transforms.merge_exchange():
        y = ops.host_load(a) + 1
        ops.host_load(b)
        ops.host_store(out, y)
    assert exchanges(ir.main_graph) == ["Init", "Init", "MultiExchange", "Add", "HostStore"]


def test_remote_stores_and_loads_of_one_entry_stay_apart(ir):
    buffer = popxl.remote_buffer((2,), FLOAT)
    v = var()
    with popxl.in_sequence(True), popxl.transforms.merge_exchange():
        ops.remote_store(buffer, 0, v)
        x = ops.remote_load(buffer, 0)
    assert "MultiExchange" not in exchanges(ir.main_graph)
    assert results(ir, x)[0].tolist() == [1, 2]


def test_hooks_get_what_was_merged(ir):
    seen = []
    ir.main_graph.register_op_created_hook(lambda op: seen.append(op.opType()))
    a, b, _ = streams()
    with popxl.transforms.merge_exchange():
        ops.host_load(a), ops.host_load(b)
    assert seen == ["Init", "HostLoad", "Init", "HostLoad", "MultiExchange"]


def test_a_block_that_fails_keeps_its_order(ir):
    a, b, _ = streams()
    with pytest.raises(ZeroDivisionError), popxl.in_sequence(True), popxl.transforms.merge_exchange():
        ops.host_load(a), ops.host_load(b)
        1 / 0  # noqa: B018
    assert exchanges(ir.main_graph) == ["Init", "HostLoad", "Init", "HostLoad"]


def test_io_tile_exchanges(ir):
    a, b, out = streams()
    v = var()
    with popxl.transforms.io_tile_exchange():
        x = ops.host_load(a)
        ops.host_load(b)
        ops.host_store(out, v)
    assert x.tile_set == "io" and exchanges(ir.main_graph) == ["Init", "Init", "MultiExchange"]
    with pytest.raises(RuntimeError, match="add"), popxl.transforms.io_tile_exchange():
        ops.host_load(a)
        _ = v + 1
    with popxl.transforms.io_tile_exchange(verify_overlap=False):
        ops.host_store(out, ops.host_load(a))
    with popxl.transforms.io_tile_exchange():
        pass


# ---- call sites


def test_call_sites(ir):
    graph = ir.create_graph(lambda a, b: (a + b, a), SPEC, SPEC)
    v, w = var(name="v"), var(name="w")
    site = ops.call_with_info(graph, v, inputs_dict={graph.inputs[1]: [3, 4]})
    a, _ = graph.inputs
    assert site.called_graph is graph and site.inputs[0] is v and site.inputs[1].dtype is FLOAT
    assert site.parent_input(0) is v and site.parent_output(1) is site.outputs[1]
    assert [site.graph_to_parent_input_index(i) for i in (0, 1)] == [0, 1]
    assert site.graph_to_parent(a) is v and site.graph_to_parent(graph.outputs[0]) is site.outputs[0]
    assert site.parent_to_graph(v) is a and len(ops.call(graph, [v, w])) == 2
    both = ops.call_with_info(graph, v, v)
    assert both.parent_to_graph(v) is a
    empty = ir.create_graph(lambda x: None, SPEC)
    assert ops.call(empty, v) == ()


def test_values_of_calls_become_constants(ir):
    graph = ir.create_graph(lambda a, b: a + b, TensorSpec((2,), popxl.float16), TensorSpec((), popxl.float16))
    (y,) = ops.call(graph, [[1, 2]], inputs_dict={graph.inputs[1]: 3})
    assert results(ir, y)[0].tolist() == [4, 5]


@pytest.mark.parametrize(("marked", "infer"), [(False, False), (True, False), (True, True)])
def test_inputs_marked_as_modified(ir, marked, infer):
    def add(x, y):
        ops.add_(x, y)

    graph = ir.create_graph(add, SPEC, SPEC)
    v = var()
    site = ops.call_with_info(graph, v, popxl.constant(np.ones(2, np.float32)))
    if marked:
        site.set_parent_input_modified(v, infer_modified_regions=infer)
    with popxl.Session(ir) as session:
        session.run()
    assert session.get_tensor_data(v).tolist() == ([2, 3] if marked else [1, 2])


def test_loop_sites(ir):
    def body(a, b, c: TensorByRef):
        ops.add_(c, a)
        return a + b

    graph = ir.create_graph(body, SPEC, SPEC, SPEC)
    a, b, c = var((0, 0), "a"), var((1, 2), "b"), var((0, 0), "c")
    with popxl.in_sequence():
        site = ops.repeat_with_info(graph, 3, a, inputs_dict=dict(zip(graph.inputs[1:], (b, c), strict=True)))
    wrapper = site.called_graph
    assert wrapper.called_graphs == (graph,) and site.inputs == (a, b, c) and len(site.outputs) == 1
    assert wrapper.inputs[1].dtype is popxl.bool and len(wrapper.inputs) == 5
    assert site.parent_input(2) is a and [site.graph_to_parent_input_index(i) for i in (2, 3)] == [2, 3]
    assert site.graph_to_parent_output_index(1) == 0 and site.parent_to_graph_output_index(0) == 1
    assert site.parent_to_graph(b) is wrapper.inputs[3] and site.graph_to_parent(wrapper.inputs[2]) is a
    assert site.graph_to_parent(wrapper.outputs[1]) is site.outputs[0]
    (total,) = results(ir, site.outputs[0])
    assert total.tolist() == [3, 6]


def test_by_reference_inputs_of_loops(ir):
    def body(a, c: TensorByRef):
        ops.add_(c, a)
        return a + 1

    graph = ir.create_graph(body, SPEC, SPEC)
    a, c = var((0, 0), "a"), var((0, 0), "c")
    with popxl.in_sequence():
        ops.repeat(graph, 3, a, c)
        (none,) = ops.repeat(graph, 0, a, c)
    (value,) = results(ir, none)
    assert value.tolist() == [0, 0]


def test_conditional_sites(ir):
    then = ir.create_graph(lambda a, b: a + b, SPEC, SPEC)
    other = ir.create_graph(lambda c: c * 2.0, SPEC)
    flag = popxl.constant(False)
    v, w = var(name="v"), var((5, 6), "w")
    site = ops.conditional_with_info(flag, then, other, [v, v], [w])
    assert site.called_graph == (then, other) and site.inputs == (flag, v, v, w)
    assert site.parent_input(0) is flag and site.parent_output(0) is site.outputs[0]
    assert [site.graph_to_parent_input_index(i) for i in (0, 1)] == [1, 2]
    assert site.graph_to_parent_input_index(0, then_branch=False) == 3
    assert [site.parent_to_graph_input_index(i) for i in (1, 2, 3)] == [0, 1, 0]
    assert [site.is_parent_index_in_then_branch(i) for i in (1, 2, 3)] == [True, True, False]
    assert site.graph_to_parent_output_index(0) == site.parent_to_graph_output_index(0, False) == 0
    assert site.graph_to_parent(then.inputs[1]) is v and site.graph_to_parent(other.inputs[0]) is w
    assert site.graph_to_parent(then.outputs[0]) is site.graph_to_parent(other.outputs[0]) is site.outputs[0]
    assert site.parent_to_graph(v) is then.inputs[0] and site.parent_to_graph(w) is other.inputs[0]
    assert results(ir, site.outputs[0])[0].tolist() == [10, 12]


def test_graphs_of_another_ir_are_refused(ir):
    graph = ir.create_graph(lambda x: x, SPEC)
    with pytest.raises((ValueError, popart.popart_exception)):
        autodiff(graph, [var()])
