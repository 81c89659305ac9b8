"""Members of the core's graphs, ops and tensors that programs use, and the names of popart._internal.ir besides ops."""

import numpy as np
import popart._internal.ir as _ir
import popxl
import popxl.ops as ops
import pytest
from popart import popart_exception
from popart._internal.ir.view import Region


@pytest.fixture
def program():
    """main: a call of a graph of two inputs, a repeat of it, a copy between IPUs."""
    ir = popxl.Ir()
    with ir.main_graph:
        x, y = (popxl.variable(np.ones(2, np.float32), name=name) for name in "xy")
        graph = ir.create_graph(lambda a, b: a * b, x, y)
        ops.call(graph, x, y)
        ops.repeat(graph, 3, x, y)
        ops.ipu_copy(x, 2, 1)
    return ir, graph


def test_graphs(program):
    ir, graph = program
    pb = graph._pb_graph
    assert [pb.getInputIndex(i) for i in pb.getInputIds()] == [0, 1] and pb.getOutputIndex(pb.getOutputIds()[0]) == 0
    with pytest.raises(popart_exception, match="is not an input"):
        pb.getInputIndex("x")
    assert pb.getCanBeRecursivelyAutodiffed()
    pb.setCanBeRecursivelyAutodiffed(False)
    assert not pb.getCanBeRecursivelyAutodiffed() and ir.main_graph._pb_graph.getCanBeRecursivelyAutodiffed()
    with ir.main_graph:
        caller = ir.create_graph(lambda a, b: ops.call(graph, a, b)[0], *[popxl.TensorSpec((2,), popxl.float32)] * 2)
        with pytest.raises(popart_exception, match="<lambda>"):
            popxl.transforms.autodiff(caller)
        pb.setCanBeRecursivelyAutodiffed(True)
        assert popxl.transforms.autodiff(caller).graph.outputs
    main = ir.main_graph._pb_graph
    ir._pb_ir.setPatterns(_ir.patterns.Patterns(_ir.patterns.PatternsLevel.Default))
    for each in ir._pb_ir.getAllGraphs():
        ir._pb_ir.applyPreAliasPatterns(each)
        ir._pb_ir.applyInplacePattern(each)
    main.eraseOp(main.getOps()[-1].id)
    assert [op.opType() for op in main.getOps()] == ["Call", "Loop"]


def test_ops(program):
    ir, graph = program
    call, loop, copy = ir.main_graph._pb_graph.getOps()
    assert call.getCalledGraph().id == graph.id and loop.getCalledGraph().id in [g.id for g in loop.getCalledGraphs()]
    assert loop.getTripCountValue() == 3 and loop.getNumExplicitInputs() == 3 and copy.getSourceIpu() == 1
    assert call.inIndex(call.inTensor(1)) == 1 and loop.inIndex(call.inTensor(0)) == 2
    assert call.opInToSubgraphInIndex(0, 1) == 1 == loop.subgraphInToOpInIndex(0, 1)
    with pytest.raises(popart_exception, match="none of its inputs"):
        copy.inIndex(call.inTensor(1))
    for op, member in ((copy, "getCalledGraph"), (call, "getTripCountValue"), (call, "getSourceIpu")):
        with pytest.raises(AttributeError, match=member):
            getattr(op, member)()


def test_consumers(program):
    ir, _ = program
    x = ir.main_graph.variables[0]
    assert [op.opType() for op in x._pb_tensor.consumers.getOps()] == ["Call", "Loop", "IpuCopy"]
    with ir.main_graph:
        x + x
    assert x._pb_tensor.consumers.getTotal() == 5


def test_edges_of_ops(program):
    ir, graph = program
    call = ir.main_graph._pb_graph.getOps()[0]
    x, y = call.getInputIds()
    call.connectInTensor(1, x)
    assert call.getInputIds() == [x, x]
    call.disconnectInTensor(1)
    assert call.getInputIds() == [x] and not call.hasInput(1)
    call.connectInTensor(1, y)
    call.setup()
    with pytest.raises(popart_exception):
        call.connectInTensor(0, "unknown")
    call.disconnectAllInputs()
    assert call.getInputIds() == [] and len(graph.inputs) == 2


def test_names_of_the_module():
    assert (_ir.patterns.Patterns, _ir.patterns.PatternsLevel.Default) == (_ir.Patterns, _ir.PatternsLevel.Default)
    assert _ir.op.exchange.HostLoadOp is _ir.op.HostLoadOp
    full, empty = Region.getFull([2, 3]), _ir.view.Region.getEmpty(2)
    assert (full.nelms(), full.isEmpty(), full.getLower(), full.getUpper()) == (6, False, [0, 0], [2, 3])
    assert empty.isEmpty() and empty.rank() == 2 and full == Region([0, 0], [2, 3]) != empty
    assert not Region.getFull([]).isEmpty()
    connection = _ir.ExpectedConnection("x", _ir.ExpectedConnectionType.FwdGrad)
    assert (connection.fwdId, connection.type) == ("x", _ir.ExpectedConnectionType.FwdGrad)
