"""Programs eight times as long take about eight times as long to build and compile; quadratic passes would take 64."""

import time

import numpy as np
import popart
import popxl
import popxl.ops as ops
import pytest
from popxl.transforms import autodiff

SMALL, LARGE = 300, 2400
ONES = np.ones((4, 4), np.float32)


def compile_popxl(build, length):
    ir = popxl.Ir()
    with ir.main_graph:
        variable = popxl.variable(ONES, name="v")
        with popxl.in_sequence():
            result = build(ir, variable, length)
            ops.host_store(popxl.d2h_stream(result.shape, result.dtype), result)
    popxl.Session(ir)


def chain(ir, v, length):
    h = v
    for _ in range(length):
        h = h + v
    return h


def updates_in_place(ir, v, length):
    for _ in range(length):
        ops.add_(v, v * 2.0)
    return v


def calls(ir, v, length):
    graph = ir.create_graph(ops.sin, v)
    h = v
    for _ in range(length):
        (h,) = ops.call(graph, h)
    return h


def gradients(ir, v, length):
    graph = ir.create_graph(lambda x: chain(ir, ops.sin(x), length), v)
    info = ops.call_with_info(graph, v)
    grads = autodiff(graph)
    return ops.call(grads.graph, popxl.constant(ONES), inputs_dict=grads.inputs_dict(info))[0]


def compile_popart(length):
    """A weight, its optimizer state and an anchor for each layer."""
    builder = popart.Builder()
    h = builder.addInputTensor("FLOAT", [4, 4])
    anchors = {}
    for _ in range(length):
        h = builder.aiOnnx.matmul([h, builder.addInitializedInputTensor(ONES)])
        anchors[h] = popart.AnchorReturnType("All")
    loss = builder.aiGraphcore.l1loss([h], 0.1)
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, anchors),
        loss,
        popart.Adam({"defaultLearningRate": (0.1, False)}),
        popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()


PROGRAMS = [chain, updates_in_place, calls, gradients, compile_popart]


@pytest.mark.parametrize("program", PROGRAMS)
def test_time_grows_with_the_length_of_the_program(program):
    def seconds(length):
        start = time.process_time()
        if program is compile_popart:
            compile_popart(length)
        else:
            compile_popxl(program, length)
        return time.process_time() - start

    seconds(10)
    small = min(seconds(SMALL) for _ in range(3))
    large = min(seconds(LARGE) for _ in range(2))
    assert large < 30 * small, f"{LARGE} parts took {large:.2f} s, {SMALL} took {small:.2f} s"
