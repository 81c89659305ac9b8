"""Element types that an operator does not take: the op is made, and the session refuses it (decisions/0088)."""

import numpy as np
import popart_core
import popxl
import popxl.ops as ops
import pytest

FLOATS, WHOLE = np.ones((2, 3), np.float32), np.ones((2, 3), np.int32)

REFUSED = {
    "dropout": lambda: ops.dropout(popxl.variable(WHOLE), popxl.constant(np.zeros(2, np.uint32)), 0.5),
    "swish": lambda: ops.swish(popxl.variable(WHOLE)),
    "nll_loss": lambda: ops.nll_loss(popxl.variable(FLOATS), popxl.variable(np.ones(2, np.float32))),
    "softmax": lambda: ops.softmax(popxl.variable(WHOLE), -1),
    "adam_updater": lambda: ops.var_updates.adam_updater(
        popxl.variable(WHOLE),
        popxl.variable(WHOLE),
        time_step=popxl.variable(np.float32(0)),
        beta1=popxl.constant(0.9),
        beta2=popxl.constant(0.9),
    ),
    "gather": lambda: ops.gather(popxl.variable(FLOATS), popxl.variable(np.ones(2, np.float32))),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_session_refuses(name):
    ir = popxl.Ir()
    with ir.main_graph:
        made = REFUSED[name]()
    assert made.shape in ((2, 3), (), (2, 2))
    with pytest.raises(popart_core.popart_exception, match=r"element type this operator does not take: got \w+"):
        popxl.Session(ir, "cpu")


def test_types_inside_of_called_graphs_are_checked():
    ir = popxl.Ir()
    with ir.main_graph:
        inner = ir.create_graph(ops.swish, popxl.TensorSpec((2, 3), popxl.int32))
        ops.call(inner, popxl.variable(WHOLE))
    with pytest.raises(popart_core.popart_exception, match="does not take: got int32"):
        popxl.Session(ir, "cpu")


def test_operands_of_different_types_are_refused_at_once():
    with popxl.Ir().main_graph, pytest.raises(popart_core.popart_exception, match="element types differ"):
        ops.add(popxl.variable(FLOATS), popxl.variable(WHOLE))
