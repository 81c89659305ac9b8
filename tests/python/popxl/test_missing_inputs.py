"""Calls, loops and conditionals with `check_inputs=False` leave inputs open until the program is compiled."""

import numpy as np
import popart
import popxl
import pytest
from popxl import ops
from popxl.transforms import autodiff

X, W = np.array([[1.0, -2.0, 3.0]], np.float32), np.array([[4.0, 5.0, -6.0]], np.float32)


def called(x, w, open_input):
    graph = popxl.gcg().ir.create_graph(lambda a, b: a - b, x, w)
    given = {graph.inputs[1 - open_input]: w if open_input == 0 else x}
    return ops.call_with_info(graph, inputs_dict=given, check_inputs=False), open_input, X - W


def repeated(x, w, open_input):
    graph = popxl.gcg().ir.create_graph(lambda a, b: a * b, x, w)
    given = {graph.inputs[1 - open_input]: w if open_input == 0 else x}
    return ops.repeat_with_info(graph, 3, inputs_dict=given, check_inputs=False), 2 + open_input, X * W**3


def chosen(x, w, open_input):
    """Input 0 lacks in the branch that is run, input 1 in the other one."""
    yes = popxl.gcg().ir.create_graph(lambda a, b: a + b, x, w)
    no = popxl.gcg().ir.create_graph(lambda a, b: a * b, x, w)
    inputs = [{yes.inputs[1]: w}, {no.inputs[0]: x, no.inputs[1]: w}]
    if open_input == 1:
        inputs = [{yes.inputs[0]: x, yes.inputs[1]: w}, {no.inputs[0]: x}]
    site = ops.conditional_with_info(
        popxl.constant(True),
        yes,
        no,
        then_inputs_dict=inputs[0],
        else_inputs_dict=inputs[1],
        check_inputs=False,
    )
    return site, (1, 4)[open_input], X + W


@pytest.mark.parametrize("open_input", [0, 1])
@pytest.mark.parametrize("make", [called, repeated, chosen])
def test_an_input_is_connected_later(make, open_input):
    ir = popxl.Ir()
    with ir.main_graph:
        x, w = popxl.variable(X, name="x"), popxl.variable(W, name="w")
        site, index, expected = make(x, w, open_input)
        with pytest.raises(IndexError, match=f"no input {index}"):
            site.parent_input(index)
        stream = popxl.d2h_stream(X.shape, popxl.float32)
        ops.host_store(stream, site.outputs[0])
    with pytest.raises(popart.popart_exception, match=f"input {index} is not connected"):
        popxl.Session(ir, "cpu")
    site._op.connectInTensor(index, (x, w)[open_input].id)
    with popxl.Session(ir, "cpu") as session:
        np.testing.assert_allclose(session.run()[stream], expected, rtol=1e-6)


@pytest.mark.parametrize("function", ["call_with_info", "repeat_with_info"])
def test_missing_inputs_are_refused_unless_they_may_lack(function):
    ir = popxl.Ir()
    with ir.main_graph:
        x, w = popxl.variable(X), popxl.variable(W)
        graph = ir.create_graph(lambda a, b: a * b, x, w)
        count = () if function == "call_with_info" else (2,)
        with pytest.raises(ValueError, match="1 of 2 are missing"):
            getattr(ops, function)(graph, *count, x)
        with pytest.raises(ValueError, match="Too many inputs"):
            getattr(ops, function)(graph, *count, x, w, x, check_inputs=False)


def test_a_call_without_its_inputs_has_no_gradient():
    ir = popxl.Ir()
    with ir.main_graph:
        x, w = popxl.variable(X), popxl.variable(W)
        inner = ir.create_graph(lambda a, b: a * b, x, w)
        outer = ir.create_graph(lambda a: ops.call_with_info(inner, a, check_inputs=False).outputs[0], x)
        with pytest.raises(popart.popart_exception, match="input 1 is not connected"):
            autodiff(outer)
