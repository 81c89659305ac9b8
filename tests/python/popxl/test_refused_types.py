"""Element types that an operator does not take: refused in the op's own line, and the graph stays as it was."""

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
def test_refused_where_the_op_is_made(name):
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        stream = popxl.h2d_stream((2, 3), popxl.float32, "x")
        x = ops.host_load(stream)
        with pytest.raises(
            popart_core.popart_exception, match=r"element type this operator does not take: got \w+"
        ) as e:
            REFUSED[name]()
        assert any(entry.path.name == "test_refused_types.py" for entry in e.traceback)
        result = popxl.d2h_stream((2, 3), popxl.float32, "y")
        ops.host_store(result, ops.exp(x))
    with popxl.Session(ir, "cpu") as session:  # nothing of the refused op is left
        (y,) = session.run({stream: FLOATS}).values()
    np.testing.assert_allclose(y, np.exp(FLOATS), rtol=1e-6)
