"""Handwritten gradients below transforms: recomputation, batch serialisation, accumulation of a caller's gradients."""

import numpy as np
import popxl
import popxl.ops as ops
import popxl_addons as addons
import pytest

RNG = np.random.default_rng(3)
SPEC = popxl.TensorSpec((2, 3), popxl.float32)


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


class Scaled(addons.Module):
    """y = sin(x) w, with a gradient that is `factor` times as large as it should be."""

    def __init__(self, factor=3.0):
        super().__init__()
        self.factor = factor

    def build(self, x):
        w = self.add_variable_input("w", lambda: normal(2, 3), x.dtype)
        self.aux["sin"], self.aux["cos"], self.aux["w"] = ops.sin(x), ops.cos(x), w
        return ops.sin(x) * w

    def build_grad(self, dy):
        dy = dy * self.factor
        self.var_grad["w"] = dy * self.aux["sin"]
        return dy * self.aux["cos"] * self.aux["w"]


class Caller(addons.Module):
    def __init__(self):
        super().__init__()
        self.scaled = Scaled()

    def build(self, x):
        (y,) = self.call_module(self.scaled, "scaled")(x)
        return y * y


def gradients(x, w, dy, factor=3.0):
    return factor * dy * np.cos(x) * w, factor * dy * np.sin(x)


@pytest.mark.parametrize("recomputes", [False, True])
def test_recomputation(recomputes):
    x, dy = normal(2, 3), normal(2, 3)
    ir = popxl.Ir()
    with ir.main_graph:
        facts, graph = Scaled().create_graph(SPEC)
        bwd = graph.autodiff()
        if recomputes:
            bwd = addons.recompute_graph(bwd)
            assert [t.name for t in bwd.graph.inputs] == ["dy", "w", "x"]
        variables = facts.init()
        info = graph.bind(variables).call_with_info(popxl.variable(x))
        outputs = bwd.call(popxl.variable(dy), args=bwd.grad_graph_info.inputs_dict(info))
        streams = [addons.host_store(t) for t in outputs]
    with popxl.Session(ir, "cpu") as session:
        got, w = session.run(), session.get_tensor_data(variables.w)
    for stream, value in zip(streams, gradients(x, w, dy), strict=True):
        np.testing.assert_allclose(got[stream], value, rtol=1e-5, atol=1e-6)


def test_accumulation_in_a_caller():
    steps = 3
    x, dy = normal(steps, 2, 3), normal(steps, 2, 3)
    ir = popxl.Ir()
    ir.num_host_transfers = steps
    with ir.main_graph, popxl.in_sequence():
        module = Caller()
        assert list(module.create_graph(SPEC)[0].to_dict()) == ["scaled.w"]
        facts, graph = module.create_graph(SPEC)  # again
        accumulators, bwd = addons.autodiff_with_accumulation(graph, graph.args.tensors)
        assert list(accumulators.to_dict()) == ["mean_accum_counter", "accum.scaled.w"]
        variables, state = facts.init(), accumulators.init()
        x_stream, dy_stream = (popxl.h2d_stream((2, 3), popxl.float32) for _ in range(2))
        for _ in range(steps):
            info = graph.bind(variables).call_with_info(ops.host_load(x_stream))
            args = bwd.grad_graph_info.inputs_dict(info)
            bwd.bind(state).call(ops.host_load(dy_stream), args=args)
    with popxl.Session(ir, "cpu") as session:
        session.run({x_stream: x, dy_stream: dy})
        w, got = session.get_tensor_data(variables.scaled.w), session.get_tensor_data(state.accum.scaled.w)
    y = np.sin(x) * w
    np.testing.assert_allclose(got, gradients(x, w, 2 * y * dy)[1].mean(0), rtol=1e-4, atol=1e-5)


def test_batch_serialisation():
    steps = 4
    x, dy = normal(steps, 2, 3), normal(steps, 2, 3)
    ir = popxl.Ir()
    ir.num_host_transfers = steps
    with ir.main_graph, popxl.in_sequence():
        facts, graph = Scaled().create_graph(SPEC)
        (y,) = graph.graph.outputs
        bwd = graph.autodiff()
        x_stream, dy_stream = (popxl.h2d_stream((2, 3), popxl.float32) for _ in range(2))
        y_out, dx_out, dw_out = (popxl.d2h_stream((2, 3), popxl.float32) for _ in range(3))
        forward, backward = addons.batch_serialise_fwd_and_grad(
            graph,
            bwd,
            graph.args,
            steps,
            {graph.graph.inputs[0]: x_stream, bwd.graph.inputs[0]: dy_stream},
            {y: y_out, bwd.graph.outputs[0]: dx_out, bwd.graph.outputs[1]: dw_out},
            {},
            io_mode="compute",
        )
        variables = facts.init()
        forward.graph.bind(variables).call(0)
        backward.graph.bind(variables).call(0)
    with popxl.Session(ir, "cpu") as session:
        got, w = session.run({x_stream: x, dy_stream: dy}), session.get_tensor_data(variables.w)
    dx, dw = gradients(x, w, dy)
    for stream, value in ((y_out, np.sin(x) * w), (dx_out, dx), (dw_out, dw)):
        np.testing.assert_allclose(got[stream], value, rtol=1e-5, atol=1e-6)


def test_pipelining():
    steps = 6
    x = normal(steps, 2, 3)
    ir = popxl.Ir()
    ir.num_host_transfers = steps
    with ir.main_graph, popxl.in_sequence():
        facts, graph = Scaled().create_graph(SPEC)
        bwd = graph.autodiff()
        variables = facts.init()
        x_stream, dx_out = popxl.h2d_stream((2, 3), popxl.float32), popxl.d2h_stream((2, 3), popxl.float32)
        with addons.pipelined_execution(steps) as pipeline:
            with pipeline.stage(0), popxl.ipu(0):
                info = graph.bind(variables).call_with_info(ops.host_load(x_stream))
                y = info.outputs[0].copy_to_ipu(1, 0)
            with pipeline.stage(1), popxl.ipu(1):
                dy = (y * y).copy_to_ipu(0, 1)
            with pipeline.stage(2), popxl.ipu(0):
                args = pipeline.stash_and_restore_activations(info, bwd.grad_graph_info)
                ops.host_store(dx_out, bwd.call(dy, args=args)[0])
    with popxl.Session(ir, "cpu") as session:
        got, w = session.run({x_stream: x})[dx_out], session.get_tensor_data(variables.w)
    y = np.sin(x) * w
    np.testing.assert_allclose(got, gradients(x, w, y * y)[0], rtol=1e-4, atol=1e-5)
