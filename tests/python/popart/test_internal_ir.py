"""`popart._internal.ir` shows the real graphs, ops and tensors, and edits them."""

import numpy as np
import popart
import popart._internal.ir as _ir
import popxl
import pytest
from popart import popart_exception
from popart._internal.ir.view import Region
from popxl import ops
from popxl.transforms import autodiff
from popxl_addons.patterns import apply_pre_alias_patterns

A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.arange(9, dtype=np.float32).reshape(3, 3) - 4


@pytest.fixture(name="program")
def fixture_program():
    """main: a @ b + c, stored."""
    ir = popxl.Ir()
    with ir.main_graph:
        a, b, c = (popxl.variable(v, name=n) for v, n in ((A, "a"), (B, "b"), (A, "c")))
        out = popxl.d2h_stream((2, 3), popxl.float32)
        ops.host_store(out, ops.matmul(a, b) + c)
    return ir, out


def run(ir, out):
    with popxl.Session(ir, "cpu") as session:
        return session.run()[out]


def test_an_op_is_one_object(program):
    main = program[0].main_graph._pb_graph
    product = main.getOps()[0]
    assert product is main.getOps()[0] is main.getOp(product.id) is product.outTensor(0).getProducer()
    assert product.getGraph() is main and main.getTensor("a") is product.inTensor(0)


def test_questions(program):
    main = program[0].main_graph._pb_graph
    product, sum_, _ = main.getOps()
    a, c = main.getTensor("a"), main.getTensor("c")
    assert a.info == popart.TensorInfo("FLOAT", [2, 3]) and a.consumers.getOps() == [product]
    assert sum_.inIndex(c) == 1 and sum_.outIndex(sum_.outTensor(0)) == 0
    assert [sum_.hasInputTensor(x) for x in (c, "c", 1, a, "a", 2)] == [True, True, True, False, False, False]
    with pytest.raises(popart_exception, match="outputs"):
        product.outIndex(a)
    assert {t.id for t in main.getTensors()} >= {"a", "b", "c"}
    assert not main.hasInputId("a") and not main.hasOutputId("a")


def test_edits_change_what_runs(program):
    ir, out = program
    main = ir.main_graph._pb_graph
    sum_ = main.getOps()[1]
    sum_.disconnectInTensor(1)
    sum_.connectInTensor(1, "a")
    sum_.setup()
    np.testing.assert_allclose(run(ir, out), A @ B + A)


def test_an_op_in_the_place_of_another(program):
    """CloneIntoGraph and the edits that connect the copy; the erased op's result becomes that of the copy."""
    ir, out = program
    main = ir.main_graph._pb_graph
    sum_ = main.getOps()[1]
    copy, given, made = sum_.cloneIntoGraph(main), sum_.getInputIds(), sum_.outId(0)
    assert copy.id != sum_.id and copy.opType() == "Add" and copy.getInputIds() == []
    sum_.disconnectAllInputs()
    sum_.disconnectAllOutputs()
    main.eraseOp(sum_.id)
    for i, tensor in enumerate(reversed(given)):
        copy.connectInTensor(i, tensor)
    copy.connectOutTensor(0, made)
    copy.setup()
    np.testing.assert_allclose(run(ir, out), A @ B + A)


def test_a_copy_in_another_graph(program):
    ir, _ = program
    product = ir.main_graph._pb_graph.getOps()[0]
    graph = ir.create_empty_graph("other")
    inputs = [graph._pb_graph.addInput(f"{graph.id}/{n}", 11, s, [], False) for n, s in (("p", [4, 3]), ("q", [3, 5]))]
    copy = product.cloneIntoGraph(graph._pb_graph)
    for i, tensor in enumerate(inputs):
        copy.connectInTensor(i, tensor.id)
    copy.createAndConnectOutTensor(0, f"{graph.id}/r")
    copy.setup()
    assert copy.outTensor(0).shape() == (4, 5) and copy.getGraph() is graph._pb_graph
    with pytest.raises(popart_exception, match="another Ir"):
        product.cloneIntoGraph(popxl.Ir().main_graph._pb_graph)


@pytest.mark.parametrize("ask", [lambda op: op.id, lambda op: op.setup(), lambda op: op.settings.name, repr])
def test_an_erased_op_refuses(program, ask):
    main = program[0].main_graph._pb_graph
    op = main.getOps()[-1]
    assert ask(op) is not Ellipsis
    main.eraseOp(op.id)
    with pytest.raises(popart_exception, match=r"HostStore\.\d+ was erased"):
        ask(op)
    assert len(main.getOps()) == 2


def test_a_removed_graph_refuses(program):
    ir, _ = program
    with ir.main_graph:
        graph = ir.create_graph(lambda x: x + 1, popxl.TensorSpec((2,), popxl.float32))
        spare = ir.create_graph(lambda x: x + 2, popxl.TensorSpec((2,), popxl.float32))
        ops.call(graph, popxl.variable(np.ones(2, np.float32)))
    with pytest.raises(popart_exception, match="is called by"):
        ir._pb_ir.removeGraph(graph.id)
    pb, op = spare._pb_graph, spare._pb_graph.getOps()[0]
    ir._pb_ir.removeIsolatedGraphs()
    assert [g.id for g in ir._pb_ir.getAllGraphs()] == ["", graph.id]
    for ask in (lambda: pb.getOps(), lambda: op.opType(), lambda: op.getGraph()):
        with pytest.raises(popart_exception, match="was removed"):
            ask()
    with pytest.raises(popart_exception, match="main graph"):
        ir._pb_ir.removeGraph("")


def test_handles_keep_the_program():
    op = popxl.Ir()._pb_ir.getMainGraph()
    op.addStream("s", 11, [2])
    assert op.getTensor("s").shape() == (2,)


def test_outputs_by_number(program):
    ir, _ = program
    graph = ir.create_graph(lambda x: (x + 1, x + 2), popxl.TensorSpec((2,), popxl.float32))._pb_graph
    first, second = graph.getOutputIds()
    for number in (2, -1):
        with pytest.raises(popart_exception, match="2 outputs"):
            graph.removeOutput(number)
    graph.removeOutput(0)
    assert graph.getOutputIds() == [second] != [first]


def test_settings(program):
    main = program[0].main_graph._pb_graph
    settings = main.getOps()[0].settings
    assert (settings.name, settings.scope, settings.vgraphId, settings.pipelineStage) == ("matmul", "", 0, None)
    assert settings.executionContext == _ir.ExecutionContext.Normal
    settings.vgraphId, settings.schedulePriority, settings.excludePatterns = 3, 2.5, {"OpToIdentity"}
    again = main.getOps()[0].settings
    assert (again.vgraphId, again.schedulePriority, again.excludePatterns) == (3, 2.5, {"OpToIdentity"})
    assert main.getOps()[0].getVirtualGraphId() == 3
    again.vgraphId = None
    assert not main.getOps()[0].hasVirtualGraphId()


def test_topological_constraints():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.ones(2, np.float32), name="x")
        for _ in range(4):
            x + 1
    main = ir.main_graph._pb_graph
    one, two, three, four = main.getOps()
    cons = main.topoCons
    for before, after in ((two, one), (three, two), (four, three)):
        cons.insert(before, after)
    assert cons.contains(two, one) and not cons.contains(one, two)
    assert cons.getBefores(two) == [three] and cons.getAfters(two) == [one]
    assert main.getOpSchedule(True) == [four, three, two, one]
    with pytest.raises(popart_exception, match="itself"):
        cons.insert(one, one)
    graph = ir.create_empty_graph("moved")
    copies = {op: op.cloneIntoGraph(graph._pb_graph) for op in (two, three)}
    with pytest.raises(popart_exception, match="belongs to graph"):
        cons.insert(one, copies[two])
    stand_in = main.getOps()[0].cloneIntoGraph(main)
    cons.transferToSubgraph(stand_in, copies)
    assert cons.contains(stand_in, one) and cons.contains(four, stand_in) and not cons.contains(three, two)
    assert graph._pb_graph.topoCons.contains(copies[three], copies[two])


def test_a_loop_gets_an_input_and_an_output():
    """X ← 2 x, three times, becomes x ← 2 x and y ← y + x."""
    ir = popxl.Ir()
    with ir.main_graph:
        x, _ = (popxl.variable(np.array([1.0, 3.0], np.float32), name=n) for n in "xy")
        body = ir.create_graph(lambda x: x * 2, x)
        info = ops.repeat_with_info(body, 3, x)
        loop, wrapper = info._op, info.called_graph
        loop.addLoopInput(3, "y", f"{wrapper.id}/y")
        with wrapper:
            total = wrapper.get_tensor(f"{wrapper.id}/y") + wrapper.inputs[2]
        loop.addLoopOutput(1, "total", total.id)
        loop.setup()
        assert loop.getNumExplicitInputs() == 4 and len(loop.getOutputIds()) == 2
        assert loop.opOutToSubgraphOutIndex(0, 1) == 2 and loop.subgraphOutToOpOutIndex(0, 2) == 1
        outs = [popxl.d2h_stream((2,), popxl.float32) for _ in range(2)]
        for out, t in zip(outs, (info.outputs[0].id, "total")):
            ops.host_store(out, ir.main_graph.get_tensor(t))
    ir._pb_ir.verify()
    with popxl.Session(ir, "cpu") as session:
        results = session.run()
    start = np.array([1.0, 3.0], np.float32)
    np.testing.assert_allclose(results[outs[0]], start * 8)
    np.testing.assert_allclose(results[outs[1]], start + start * (1 + 2 + 4))
    for refused in (
        lambda: loop.addLoopInput(1, "y", "z"),
        lambda: loop.addLoopInput(9, "y", "z"),
        lambda: loop.addLoopInput(3, "y", f"{wrapper.id}/y"),
        lambda: loop.addLoopOutput(0, "total", total.id),
        lambda: ir.main_graph._pb_graph.getOps()[-1].addLoopInput(2, "y", "z"),
    ):
        with pytest.raises(popart_exception, match="addLoop"):
            refused()


def test_modified_regions():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.ones((2, 3), np.float32), name="x")
        ops.add_(ops.reshape_(x, (6,)), popxl.constant(1.0, popxl.float32))
        y = popxl.variable(np.ones(3, np.float32), name="y")
        info = ops.call_with_info(ir.create_graph(lambda t: t + 1, y), y)
    main = ir.main_graph._pb_graph
    assert main.getTensor("x").modifiedRegionsByOps(main.getOps()) == [Region.getFull([2, 3])]
    assert main.getTensor("y").modifiedRegionsByOps(main.getOps()) == []
    call = info._op
    call.addModified(0, [Region.getEmpty(1)])
    assert call.getModified() == []
    call.addModified(0, [Region.getFull([3])])
    assert call.getModified() == [0] and main.getTensor("y").modifiedRegionsByOps([call]) == [Region.getFull([3])]
    with pytest.raises(popart_exception, match="no input 4"):
        call.addModified(4)


def test_source_of_a_copy_between_ipus():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.ones(2, np.float32), name="x")
        ops.ipu_copy(x, 2, 1)
        x + 1
    copy, sum_ = ir.main_graph._pb_graph.getOps()
    copy.connectInTensor(0, "x", 3)
    assert copy.getSourceIpu() == 3
    with pytest.raises(popart_exception, match="source_ipu"):
        sum_.connectInTensor(0, "x", 3)


# ---- patterns in place
def loss(x, w, b):
    return ops.exp(ops.relu(x @ w + b) * x) / (x * x + 1.0) - ops.sqrt(x * x + 2.0)


def gradients(patterns):
    """Loss and gradients of a call; types of the gradient graph's ops."""
    rng = np.random.default_rng(5)
    values = [rng.normal(size=s).astype(np.float32) for s in ((4, 4), (4, 4), (4,), (4, 4))]
    ir = popxl.Ir()
    with ir.main_graph:
        x, w, b, seed = (popxl.variable(v, name=n) for v, n in zip(values, "xwbs"))
        graph = ir.create_graph(loss, x, w, b)
        gradient = autodiff(graph)
        call = ops.call_with_info(graph, x, w, b)
        back = ops.call_with_info(gradient.graph, seed, inputs_dict=gradient.inputs_dict(call))
        outs = [popxl.d2h_stream(t.shape, t.dtype) for t in (call.outputs[0], *back.outputs)]
        for out, t in zip(outs, (call.outputs[0], *back.outputs)):
            ops.host_store(out, t)
    before = [t.id for t in (*gradient.graph.inputs, *gradient.graph.outputs)]
    if patterns:
        apply_pre_alias_patterns(ir, patterns)
    assert [t.id for t in (*gradient.graph.inputs, *gradient.graph.outputs)] == before
    ir._pb_ir.verify()
    with popxl.Session(ir, "cpu") as session:
        results = session.run()
    return [results[out] for out in outs], [op.opType() for op in gradient.graph._pb_graph.getOps()]


def test_patterns_rewrite_gradient_graphs():
    plain, types = gradients(None)
    assert {"MulArg0Grad", "DivArg1Grad", "MatMulLhsGrad", "SqrtGrad"} <= set(types)
    for level in ("minimal", "default", "all"):
        rewritten, types = gradients(level)
        left = {t for t in types if t.endswith("Grad")}
        assert left <= (
            {"ReluGrad"} if level != "minimal" else {"ReluGrad", "AddArg0Grad", "AddArg1Grad", "SubArg0Grad"}
        )
        for a, b in zip(plain, rewritten):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert gradients("no_patterns")[1] == gradients(None)[1]


def test_patterns_leave_marks_of_places():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.ones(2, np.float32), name="x")
        same = ops.reshape(x, (2,))
        y = ops.ipu_copy(ops.detach(same), 1, 0)
        out = popxl.d2h_stream((2,), popxl.float32)
        with popxl.ipu(1):
            ops.host_store(out, y + 1)
    apply_pre_alias_patterns(ir)
    assert [op.opType() for op in ir.main_graph._pb_graph.getOps()] == ["Detach", "IpuCopy", "Add", "HostStore"]
    with pytest.raises(popart_exception, match="was erased"):
        same._pb_tensor.shape()
    np.testing.assert_array_equal(run(ir, out), [2, 2])
