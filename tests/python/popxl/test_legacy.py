"""popart.ir: the older interface."""

import numpy as np
import popart
import popart.ir as pir
import popart.ir.ops as ops
import pytest
from popart.ir.remote_buffer_handle import RemoteBufferHandle


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


def test_remote_buffers(monkeypatch):
    monkeypatch.setattr(RemoteBufferHandle, "_buffers", {})
    ir = pir.Ir()
    with ir.main_graph(), pir.in_sequence():
        x = pir.variable(np.array([1, 2, 3], np.float32))
        handle = RemoteBufferHandle(repeats=2)
        assert handle.remote_buffer_id == 1
        ops.remote_store(x, 1, handle)
        assert (handle.tensor_shape, handle.tensor_dtype) == ((3,), pir.float32)
        ops.remote_store(x + x, pir.constant(0, pir.uint32), handle)
        first, second = (
            ops.remote_load(x),
            ops.remote_load(x, 1, handle),
        )  # the first finds the handle by shape and type
        assert first.name == "remote_load_out"
        other = pir.variable(np.zeros(3, np.float32))
        ops.remote_load_(other, 0, handle)
        streams = [pir.d2h_stream((3,), pir.float32) for _ in range(3)]
        for stream, value in zip(streams, (first, second, other), strict=True):
            ops.host_store(stream, value)
        with pytest.raises(ValueError, match="Cannot reset the shape of remote buffer 1"):
            ops.remote_load(pir.variable(np.zeros(2, np.float32)), 0, handle)
        with pytest.raises(ValueError, match="no entry 2"):
            ops.remote_load(x, 2, handle)
    program = ir._pb_ir
    returned = {s.tensor_id(): popart.AnchorReturnType("All") for s in streams}
    program.setDataFlow(popart.DataFlow(1, returned))
    session = popart.InferenceSession.fromIr(ir=program, deviceInfo=popart.DeviceManager().createCpuDevice())
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.weightsFromHost()
    session.run(popart.PyStepIO({}, anchors))
    for stream, wanted in zip(streams, ([2, 4, 6], [1, 2, 3], [2, 4, 6]), strict=True):
        np.testing.assert_array_equal(anchors[stream.tensor_id()].reshape(-1), wanted)


@pytest.mark.parametrize("in_loop", [False, True])
def test_the_main_graph_runs_once_and_loops_take_slices(in_loop: bool):
    steps = 4
    ir = pir.Ir()
    with ir.main_graph(), pir.in_sequence():
        source = pir.h2d_stream((2,), pir.float32, "source")
        sums = pir.d2h_stream((2,), pir.float32, "sums")
        total = pir.variable(np.zeros(2, np.float32), name="total")

        def body(a):
            with pir.in_sequence():
                b = a + ops.host_load(source, "x")
                ops.host_store(sums, b)
            return b

        graph = ir.create_graph(body, total)
        result = ops.repeat(graph, steps, total) if in_loop else ops.call(graph, total)
        ops.var_updates.copy_var_update_(total, result)
    program = ir._pb_ir
    program.setDataFlow(popart.DataFlow(steps, {sums.tensor_id(): popart.AnchorReturnType("All")}))
    session = popart.InferenceSession.fromIr(ir=program, deviceInfo=popart.DeviceManager().createCpuDevice())
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    data = np.arange(2 * steps, dtype=np.float32).reshape(steps, 2)
    session.run(popart.PyStepIO({source.tensor_id(): data}, anchors))
    expected = np.cumsum(data, 0) if in_loop else np.concatenate([data[:1], np.zeros((steps - 1, 2), np.float32)])
    np.testing.assert_array_equal(anchors[sums.tensor_id()], expected)
    weights = {total.id: np.empty(2, np.float32)}
    session.weightsToHost()
    session.readWeights(popart.PyWeightsIO(weights))
    np.testing.assert_array_equal(weights[total.id], expected[-1 if in_loop else 0])
