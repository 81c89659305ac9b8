"""Tensors routed into called graphs. Oracle: NumPy."""

import numpy as np
import popxl
import popxl.ops as ops
import popxl_addons as addons
import pytest
from popxl_addons.route_tensor import called_graph_paths

X = np.arange(3, dtype=np.float32)


class Program:
    """main calls outer, which calls inner; main repeats inner too."""

    def __init__(self, transfers):
        self.ir = popxl.Ir()
        self.ir.num_host_transfers = transfers
        with self.ir.main_graph, popxl.in_sequence():
            self.x = popxl.variable(X, name="x")
            self.a = popxl.variable(np.ones(3, np.float32), name="a")
            self.inner = self.ir.create_graph(lambda a: a * 2.0, self.a)
            self.outer = self.ir.create_graph(lambda a: ops.call(self.inner, a)[0] + 1.0, self.a)

    def run(self, stream):
        with popxl.Session(self.ir, "cpu") as session:
            result = session.run()[stream]
            return result, session.get_tensor_data(self.x)

    def stores_in_inner(self, modified=False):
        """In inner: store a + x, and with `modified` add 1 to x afterwards."""
        stream = popxl.d2h_stream((3,), popxl.float32)
        with self.inner, popxl.in_sequence():
            routed = addons.route_tensor_into_graph(self.x, modified=modified)
            ops.host_store(stream, self.inner.inputs[0] + routed)
            if modified:
                ops.add_(routed, popxl.constant(np.ones(3, np.float32)))
        return stream, routed


def test_through_calls():
    p = Program(2)
    with p.ir.main_graph, popxl.in_sequence():
        ops.call(p.outer, p.a)
        ops.call(p.outer, p.a * 5.0)
        stream, routed = p.stores_in_inner()
    assert routed is p.inner.inputs[1] and routed.name == "x" and len(p.outer.inputs) == 2
    got, x = p.run(stream)
    np.testing.assert_array_equal(got, [1 + X, 5 + X])
    np.testing.assert_array_equal(x, X)


def test_changes_through_calls_and_repeats():
    p = Program(4)
    with p.ir.main_graph, popxl.in_sequence():
        ops.call(p.outer, p.a)
        ops.repeat(p.inner, 3, p.a)
        stream, routed = p.stores_in_inner(modified=True)
        assert routed in p.inner._by_ref_inputs
    got, x = p.run(stream)
    np.testing.assert_array_equal(got, [1 + X, 1 + X + 1, 2 + X + 2, 4 + X + 3])
    np.testing.assert_array_equal(x, X + 4)


def test_inputs_that_are_there_are_used_again():
    ir = popxl.Ir()
    with ir.main_graph:
        x, a = popxl.variable(X), popxl.variable(X)
        graph = ir.create_graph(lambda a, b: a + b, x, x)
        ops.call(graph, a, x)
        ops.call(graph, x, x)
        assert addons.route_tensor_into_graph(x, graph) is graph.inputs[1]
        assert addons.route_tensor_into_graph(a, graph) is graph.inputs[2]
        assert addons.route_tensor_into_graph(a, graph) is graph.inputs[2] and len(graph.inputs) == 3
        assert addons.route_tensor_into_graph(x, ir.main_graph) is x is addons.route_tensor_into_graph(x)
        body = ir.create_graph(lambda a: a * 2.0, x)
        ops.repeat(body, 2, x)
        assert addons.route_tensor_into_graph(x, body) is body.inputs[1]  # the first one changes with the iterations
        assert addons.route_tensor_into_graph(x, body) is body.inputs[1]


def test_paths():
    p = Program(1)
    with p.ir.main_graph:
        ops.call(p.outer, p.a)
        ops.call(p.inner, p.a)
        alone = p.ir.create_graph(lambda a: a, p.a)
    main = p.ir.main_graph
    assert addons.is_subgraph(main, p.inner) and addons.is_subgraph(p.outer, p.inner) and addons.is_subgraph(main, main)
    assert not addons.is_subgraph(p.inner, p.outer) and not addons.is_subgraph(main, alone)
    assert called_graph_paths(main, p.inner) == {("", p.inner.id), ("", p.outer.id, p.inner.id)}
    assert called_graph_paths(main, main) == {("",)} and called_graph_paths(main, alone) == set()


def test_refusals():
    p = Program(1)
    with p.ir.main_graph:
        with pytest.raises(ValueError, match="does not call"):
            addons.route_tensor_into_graph(p.x, p.outer)
        ops.call(p.outer, p.a)
        with pytest.raises(ValueError, match="does not call"):
            addons.route_tensor_into_graph(p.inner.inputs[0], p.outer)
        ops.call(p.inner, p.a)
        with pytest.raises(ValueError, match="called by"):  # main has no tensor of outer
            addons.route_tensor_into_graph(p.outer.inputs[0], p.inner)
        flag = popxl.constant(True)
        ops.conditional(flag, p.inner, p.inner, [p.a], [p.a])
        with pytest.raises(ValueError, match="If"):
            addons.route_tensor_into_graph(p.x, p.inner)
    assert len(p.inner.inputs) == len(p.outer.inputs) == 1
