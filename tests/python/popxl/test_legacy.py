"""popart.ir: the older interface."""

import numpy as np
import popart.ir as pir
import popart.ir.ops as ops
import pytest


def test_text_and_methods():
    ir = pir.Ir()
    main = ir.main_graph()
    assert main.ir() == ir and main.get_main_graph() is main and ir != 3
    with main:
        v = pir.variable(3, dtype=pir.int8, name="variable_a")
        c = pir.constant(1, dtype=pir.int8, name="constant_b")
        o = v + c
        stream = pir.h2d_stream([1], pir.float32, name="s")
    assert repr(v) == "Tensor[name=variable_a type=popart.ir.dtypes.int8 shape=()]"
    assert o.dtype == pir.int8 and v.ir() == ir
    assert stream.tensor_id() == "s" == stream.tensor_id
    assert main.get_variables() == (v,) and main.get_constants() == (c,)
    assert ir.create_empty_graph("plain").id == "plain"
    with pytest.raises(Exception, match="plain"):
        ir.create_empty_graph("plain")


def test_calls_return_plain_tensors():
    ir = pir.Ir()
    with ir.main_graph():
        x = pir.variable(np.ones(3, np.float32))
        one = ir.create_graph(lambda a: a + 1, x)
        two = ir.create_graph(lambda a: (a, a * 2), x)
        none = ir.create_graph(lambda a: None, x)
        assert isinstance(ops.call(one, x), pir.Tensor)
        assert len(ops.call(two, x)) == 2
        assert ops.call(none, x) is None
        info = ops.call_with_info(one, subgraph_in_to_parent_in={one.get_input_tensors()[0]: x})
        assert info.get_input_tensors() == (x,)
        with pytest.raises(ValueError, match="inputs"):
            ops.call(one)
        with pytest.raises(TypeError):
            ops.call(one, 1.0)
        with pytest.raises(ValueError, match="more than 1"):
            ops.repeat(one, 1, x)
        with pytest.raises(IndexError):
            x[np.array([1])]
