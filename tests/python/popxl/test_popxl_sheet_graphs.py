"""Statements of popxl.md, sections 1 to 4 and 10 to 12: Ir, graphs, create_graph, streams, contexts."""

import subprocess
import sys
from typing import List, Tuple  # noqa: UP035

import numpy as np
import popxl
import pytest
from popxl import TensorByRef, TensorSpec, ops

FLOAT = popxl.float32
SPEC = TensorSpec((2,), FLOAT)


@pytest.fixture
def ir():
    ir = popxl.Ir()
    with ir.main_graph:
        yield ir


def var(value=(1, 2), name="v", **more):
    return popxl.variable(np.asarray(value, np.float32), name=name, **more)


# ---- 1. package


def test_star_import_shadows_builtins():
    scope = {}
    exec("from popxl import *", scope)
    assert scope["float"] is popxl.float32 and scope["bool"] is popxl.bool and "ops" not in scope


def test_ops_and_transforms_are_loaded():
    code = "import popxl; popxl.ops.add; popxl.transforms.autodiff; popxl.fp8_utils.host_fp8_mse_scale; popxl.utils"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_missing_module_is_a_runtime_error():
    code = (
        "import sys; sys.modules['popart_core'] = None\n"
        "try: import popxl\nexcept RuntimeError as e: print('popart_core' in str(e), 'Python' in str(e))"
    )
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert result.stdout.split() == ["True", "True"]


# ---- 2. Ir


def test_facts_of_an_ir():
    first, second = popxl.Ir(), popxl.Ir()
    assert second.id > first.id and first != second and first == first and hash(first) == hash(first.id)
    assert repr(first) == f"Ir[id={first.id}]"
    assert first.main_graph is first.main_graph and first.main_graph.id == first.main_graph.name == ""
    assert first.replication_factor == first.instance_replication_factor == first.num_host_transfers == 1
    first.replication_factor, first.num_host_transfers = 4, 3
    options = first._pb_ir.getSessionOptions()
    assert options.enableReplicatedGraphs and options.replicatedGraphCount == 4
    assert first.replication_factor == 4 and first.num_host_transfers == 3
    assert popxl.Ir(replication=2).replication_factor == 2


def test_replicas_by_session_options(ir):
    options = ir._pb_ir.getSessionOptions()
    options.enableReplicatedGraphs, options.replicatedGraphCount = True, 2
    assert ir.replication_factor == ir.instance_replication_factor == 2
    options.enableDistributedReplicatedGraphs, options.globalReplicationFactor = True, 4
    assert ir.replication_factor == 4 and ir.instance_replication_factor == 2
    assert popxl.replica_sharded_buffer((8,), FLOAT).tensor_shape == (2,)


def test_wrappers_are_the_same_objects(ir):
    v = var()
    assert ir.main_graph.get_tensor("v") is v and ir.main_graph.variables[0] is v
    graph = ir.create_graph(lambda x: x + 1, SPEC)
    ops.call(graph, v)
    assert ir.main_graph.called_graphs[0] is graph and graph.inputs[0] is graph.inputs[0]


def test_only_used_streams_are_listed(ir):
    used, unused = popxl.h2d_stream((2,), FLOAT), popxl.h2d_stream((2,), FLOAT)
    out, no_out = popxl.d2h_stream((2,), FLOAT), popxl.d2h_stream((2,), FLOAT)

    def inner(x):
        ops.host_store(out, x + ops.host_load(used))

    ops.call(ir.create_graph(inner, SPEC), var())
    assert ir.get_all_h2d_streams() == {used} and ir.get_all_d2h_streams() == {out}
    assert unused not in ir.get_all_h2d_streams() and no_out not in ir.get_all_d2h_streams()


def test_dot_checkpoint(ir, tmp_path):
    ops.call(ir.create_graph(lambda x: x + 1, SPEC), var())
    ir.dot_checkpoint("here", tmp_path / "a" / "b")
    files = list((tmp_path / "a" / "b").glob("*.dot"))
    assert files and all("digraph" in f.read_text() for f in files)
    assert ir._pb_ir.getSessionOptions().logDir == str(tmp_path / "a" / "b")


def test_dot_checkpoint_of_the_environment(ir, tmp_path, monkeypatch):
    var() + 1
    monkeypatch.setenv("POPART_DOT_CHECKS", "first:second")
    for check in ("first", "third"):
        ir.dot_checkpoint(check, str(tmp_path / check))
    assert list((tmp_path / "first").glob("*.dot")) and not list((tmp_path / "third").glob("*.dot"))


# ---- 3. Graph


def test_facts_of_a_graph(ir):
    v = var()
    c = popxl.constant(np.ones(2, np.float32), name="c")
    stream = popxl.h2d_stream((2,), FLOAT, "s")
    main = ir.main_graph
    assert main.inputs == main.outputs == () and main.variables == (v,) and main.constants == (c,)
    assert [t.id for t in main.tensors] == ["c", "s", "v"] and stream.tensor_id == "s"
    graph = ir.create_graph(lambda b, a: (b + a, b), SPEC, SPEC)
    assert list(graph.inputs_by_name) == ["b", "a"] and tuple(graph.inputs_by_name.values()) == graph.inputs
    assert graph.outputs[1] is graph.inputs[0] and graph.ir is ir and graph.main_graph is main
    assert graph.name == graph.id and graph.variables == ()
    assert v in main and v not in graph and graph != main and hash(main) == hash(ir.main_graph)


def test_called_graphs(ir):
    one, two = (ir.create_graph(lambda x: x + 1, SPEC) for _ in range(2))
    v = var()
    ops.call(one, v), ops.call(one, v)
    ops.conditional(popxl.constant(True), one, two, [v], [v])
    body = ir.create_graph(lambda x: x * 2.0, SPEC)
    site = ops.repeat_with_info(body, 2, v)
    assert set(ir.main_graph.called_graphs) == {one, two, site.called_graph}
    assert len(ir.main_graph.called_graphs) == 3 and site.called_graph.called_graphs == (body,)


def test_graphs_are_contexts(ir):
    graph = ir.create_empty_graph()
    with graph as entered, graph:
        assert entered is graph is popxl.gcg() and popxl.gmg() is ir.main_graph and popxl.gir() is ir
    with pytest.raises(ZeroDivisionError), graph:
        1 / 0  # noqa: B018
    assert popxl.gcg() is ir.main_graph


def test_hooks_see_the_ops_of_their_graph(ir):
    seen = []
    graph = ir.create_empty_graph()
    first = ir.main_graph.register_op_created_hook(lambda op: seen.append(("first", op.opType(), op.getGraph().id)))
    second = ir.main_graph.register_op_created_hook(lambda op: seen.append(("second", op.opType(), op.id)))
    assert first >= 1 and second != first
    ops.init((2,), FLOAT)
    with graph:
        ops.init((2,), FLOAT)
    assert seen == [("first", "Init", ""), ("second", "Init", 100)]
    ir.main_graph.remove_op_created_hook(first)
    ops.relu(var())
    assert [s[0] for s in seen[2:]] == ["second"]


def test_one_tensor_returned_twice(ir):
    def twice(x):
        y = x + 1
        return y, y, x

    a, b, c = ops.call(ir.create_graph(twice, SPEC), var())
    stream = [popxl.d2h_stream((2,), FLOAT) for _ in range(3)]
    for s, t in zip(stream, (a, b, c), strict=True):
        ops.host_store(s, t)
    with popxl.Session(ir, "cpu") as session:
        assert [session.run()[s].tolist() for s in stream] == [[2, 3], [2, 3], [1, 2]]


# ---- 4. create_graph


def test_names_of_functions(ir):
    class Layer(popxl.Module):
        def build(self, x):
            return x + 1

        def method(self, x):
            return x

    def local(x):
        return x

    here = "test_names_of_functions"
    assert ir.create_graph(Layer(), SPEC).id == f"{here}.Layer_subgraph(0)"
    assert ir.create_graph(Layer().method, SPEC).id == f"{here}.Layer.method_subgraph(1)"
    assert ir.create_graph(local, SPEC).id == f"{here}.local_subgraph(2)"
    assert ir.create_graph(lambda x: x, SPEC).id == f"{here}.<lambda>_subgraph(3)"
    assert ir.create_empty_graph("body").id == "body_subgraph(4)"
    assert ir.create_empty_graph().id == "graph_subgraph(5)"


def test_kinds_of_arguments(ir):
    given = {}

    def build(t, spec, items, empty, numbers, flag, d, *more, key=3, **named):
        given.update(locals())

    d = {"x": 1}
    graph = ir.create_graph(
        build, var(), SPEC, (SPEC, var()), [], (1, 2), True, d, SPEC, SPEC, named_b=SPEC, named_a=var()
    )
    assert list(graph.inputs_by_name) == [
        "t", "spec", "items_0", "items_1", "more_0", "more_1", "named_b", "named_a",
    ]  # fmt: skip
    assert type(given["items"]) is list and given["empty"] == [] and given["numbers"] == (1, 2)
    assert given["flag"] is True and given["d"] is d and given["key"] == 3
    assert type(given["more"]) is tuple and list(given["named"]) == ["named_b", "named_a"]
    assert graph.outputs == ()


def test_specs_keep_shape_dtype_and_meta_shape(ir):
    graph = ir.create_graph(lambda x: x, TensorSpec((3,), popxl.float16, (2, 3)))
    assert graph.inputs[0].spec == TensorSpec((3,), popxl.float16, (2, 3))


def test_one_tensor_for_two_parameters(ir):
    v = var()
    graph = ir.create_graph(lambda a, b: a + b, v, v)
    assert [t.name for t in graph.inputs] == ["a", "b"]


def test_inputs_and_outputs_made_inside(ir):
    def build(x):
        first = popxl.graph_input((2,), FLOAT, "first")
        second = popxl.graph_input((2,), FLOAT, "second")
        early = x + first
        popxl.graph_output(early)
        return early + second

    graph = ir.create_graph(build, SPEC)
    assert [t.name for t in graph.inputs] == ["x", "first", "second"]
    assert [t.name for t in graph.outputs] == ["add_out", "add_out__t0"]


def by_references(ir, function, *arguments, **named):
    """Whether each input of a graph whose function adds 1 to all of them reaches its variable."""
    graph = ir.create_graph(function, *arguments, **named)
    variables = [var(name=f"v{i}") for i in range(len(graph.inputs))]
    with graph, popxl.in_sequence():
        for t in graph.inputs:
            ops.add_(t, popxl.constant(np.ones(2, np.float32)))
    ops.call(graph, *variables)
    with popxl.Session(ir, "cpu") as session:
        session.run()
    return [session.get_tensor_data(v).tolist() == [2, 3] for v in variables]


def test_annotations_by_reference(ir):
    def plain(a: TensorByRef, b, c: "TensorByRef"):
        pass

    assert by_references(ir, plain, SPEC, SPEC, SPEC) == [True, False, False]


def test_annotations_by_reference_of_containers(ir):
    def several(a: List[TensorByRef], b: Tuple[TensorByRef], *c: TensorByRef, **d: TensorByRef):  # noqa: UP006
        pass

    assert by_references(ir, several, [SPEC, SPEC], (SPEC,), SPEC, d=SPEC) == [True] * 5


def test_a_module_called_is_inlined(ir):
    class Add(popxl.Module):
        def build(self, x, *, by):
            return x + by

    y = Add()(var(), by=1)
    assert y in ir.main_graph and ir.main_graph.called_graphs == ()


def test_create_graph_needs_no_current_graph():
    ir = popxl.Ir()
    outer = ir.create_graph(lambda x: ops.call(ir.create_graph(lambda y: y + 1, x), x), SPEC)
    assert len(outer.called_graphs) == 1


# ---- 10. streams


def test_streams(ir):
    graph = ir.create_empty_graph()
    with graph, popxl.name_scope("scope"):
        inside = popxl.h2d_stream((2, 3), popxl.float16, "x")
        out = popxl.d2h_stream((2,), FLOAT)
    assert inside.tensor_id == "scope/x" and out.tensor_id == "scope/d2h_stream"
    assert popxl.h2d_stream((), FLOAT).tensor_id == "h2d_stream"
    same = popxl.h2d_stream((), FLOAT)
    assert same.tensor_id == "h2d_stream__t0" and same != inside and {same: 1}[same] == 1
    assert inside.spec == TensorSpec((2, 3), popxl.float16) and inside.shape == (2, 3)
    assert inside.dtype is popxl.float16
    assert str(inside) == "HostToDeviceStream Tensor[scope/x popxl.dtypes.float16 (2, 3)]"
    assert str(out) == "DeviceToHostStream Tensor[scope/d2h_stream popxl.dtypes.float32 (2,)]"
    assert repr(out).startswith("<popxl.streams.DeviceToHostStream object at 0x")


# ---- 11. contexts


def test_ipus(ir):
    with popxl.ipu(2) as two:
        a = ops.init((2,), FLOAT)
        with popxl.ipu(1):
            b = ops.init((2,), FLOAT)
        c = ops.init((2,), FLOAT)
    assert two == 2 and (a.ipu, b.ipu, c.ipu, ops.init((2,), FLOAT).ipu) == (2, 1, 2, 0)
    assert a.copy_to_ipu(5).ipu == 5 and a.copy_to_ipu(5).name.startswith(f"{a.name}_c5")


def test_ipus_of_unplaced_ops(ir):
    with popxl.ipu(None):
        a = ops.init((2,), FLOAT)
    with pytest.raises(popxl.errors.UndefinedValue):
        _ = a.ipu
    with pytest.raises(ValueError, match="source"):
        a.copy_to_ipu(1)
    assert a.copy_to_ipu(1, 0).ipu == 1


def test_contexts_are_decorators(ir):
    @popxl.ipu(3)
    @popxl.in_sequence(True)
    @popxl.name_scope("deep")
    def build():
        return ops.init((2,), FLOAT, "x")

    assert build().ipu == 3 and build().name == "deep/x__t0"


def test_tile_sets(ir):
    with popxl.io_tiles():
        a = ops.init((2,), FLOAT)
    b = ops.init((2,), FLOAT)
    assert (a.tile_set, b.tile_set) == ("io", "compute")
    assert (ops.io_tile_copy(a).tile_set, ops.io_tile_copy(b).tile_set) == ("compute", "io")
    with pytest.raises(ValueError, match="tile set"):
        ops.add(a, b)


def test_name_scopes(ir):
    with popxl.name_scope("a") as outer, popxl.name_scope("b") as scopes:
        x = ops.init((2,), FLOAT, "x")
        with ir.create_empty_graph("g"):
            y = ops.init((2,), FLOAT, "x")
    assert (outer is not None and list(scopes) == []) or list(scopes) == ["a", "b"]
    assert x.name == y.name == "a/b/x" and y.id == "g_subgraph(0)/a/b/x"
    assert x._pb_tensor.getProducer().debugName().find("a/b/init") >= 0


def test_values_come_back_after_an_exception(ir):
    contexts = [popxl.ipu(4), popxl.io_tiles(), popxl.name_scope("s"), popxl.in_sequence(True)]
    for context in contexts:
        with pytest.raises(ZeroDivisionError), context:
            1 / 0  # noqa: B018
    x = ops.init((2,), FLOAT, "x")
    assert x.ipu == 0 and x.tile_set == "compute" and x.name == "x"


def order(graph):
    return [op.id for op in graph._pb_graph.getOpSchedule()]


def test_in_sequence_true_is_a_chain(ir):
    with popxl.in_sequence(True):
        ids = [(var() + i)._pb_tensor.getProducer().id for i in range(4)]
    assert order(ir.main_graph) == ids


def test_an_unordered_group_between_its_neighbours(ir):
    with popxl.in_sequence(True):
        first = ops.init((2,), FLOAT)._pb_tensor.getProducer().id
        with popxl.in_sequence(False):
            group = [ops.init((2,), FLOAT)._pb_tensor.getProducer().id for _ in range(3)]
        last = ops.init((2,), FLOAT)._pb_tensor.getProducer().id
    ids = order(ir.main_graph)
    assert ids[0] == first and set(ids[1:4]) == set(group) and ids[4] == last


def test_a_small_product_before_a_large_sum_that_was_written_first(ir):
    x = popxl.variable(np.zeros((64, 64), np.float32))
    row = popxl.variable(np.zeros((1, 64), np.float32))
    with popxl.in_sequence(False):
        total = x + 1
        small = row @ x
    ids = order(ir.main_graph)
    assert ids.index(small._pb_tensor.getProducer().id) < ids.index(total._pb_tensor.getProducer().id)


def test_building_another_graph_does_not_disturb_the_order(ir):
    with popxl.in_sequence(True):
        first = ops.init((2,), FLOAT)
        graph = ir.create_graph(lambda x: x + 1, SPEC)
        second = ops.init((2,), FLOAT)
        with popxl.in_sequence("pass"):
            ops.init((2,), FLOAT)
    main = ir.main_graph._pb_graph
    from popart_core import _ir as core

    producers = [t._pb_tensor.getProducer().id for t in (first, second)]
    assert core.constraints(main) == [tuple(producers)] and core.constraints(graph._pb_graph) == []


def test_execution_contexts(ir):
    with popxl.context._execution_context(popxl.ExecutionContext.WeightsToHostFragment):
        a = ops.init((2,), FLOAT)
    names = [t._pb_tensor.getProducer().executionContext() for t in (a, ops.init((2,), FLOAT))]
    assert [getattr(n, "name", n) for n in names] in (["WeightsToHostFragment", "Normal"], [3, 0])


def test_op_debug_context_bare_and_named():
    @popxl.context.op_debug_context
    def one(x):
        return x

    @popxl.context.op_debug_context("other")
    def two(x):
        return x

    assert one(1) == two(1) == 1 and one.__name__ == "one"
    with popxl.context.debug_context_frame_offset(1):
        assert popxl.context.get_current_context() is popxl.context.get_current_context()
