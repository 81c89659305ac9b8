"""Programs of one function, for tests: run it on 1 or more replicas, with its gradients."""

import numpy as np
import popxl
import popxl.ops as ops
import popxl_addons as addons
from popxl_addons import patterns


def run(replicas, build, *values):
    """Results of `build` on tensors with one value per replica; each result has one value per replica."""
    ir = popxl.Ir(replication=replicas)
    with ir.main_graph, popxl.in_sequence():
        streams = [popxl.h2d_stream(v.shape[(replicas > 1) :], popxl.dtype.as_dtype(v.dtype)) for v in values]
        outs = []
        for t in build(*[ops.host_load(s) for s in streams]):
            outs.append(popxl.d2h_stream(t.shape, t.dtype))
            ops.host_store(outs[-1], t)
    patterns.apply_pre_alias_patterns(ir)
    with popxl.Session(ir, "cpu") as session:
        got = session.run(dict(zip(streams, values, strict=True)))
    return [got[o] for o in outs]


def with_gradients(function, wanted, *inputs, gradient=None):
    """Outputs of a graph of `function` and the gradients of its first `wanted` inputs; `gradient`: of its output."""
    graph = addons.GraphWithNamedArgs(popxl.gir().create_graph(function, *[t.spec for t in inputs]))
    backward = graph.autodiff(grads_provided=graph.graph.outputs[:1], grads_required=graph.graph.inputs[:wanted])
    info = graph.call_with_info(*inputs)
    y = info.outputs[0]
    gradient = popxl.constant(np.ones(y.shape, np.float32)) if gradient is None else gradient
    return [y, *backward.call(gradient, args=backward.grad_graph_info.inputs_dict(info))]


def mse_scale(x, format):
    """The scale that `fp8_mse_scale` finds, by the steps of the reference sheet (19.10) in float64."""
    start, span, q = (85, 18, 2.0**-14) if format == popxl.float8_143 else (78, 33, 2.0**-16)
    levels = np.exp2(np.arange(254) - 126.0)
    magnitude = np.abs(x.astype(np.float64).reshape(-1))
    h = np.array([np.sum((magnitude >= a) & (magnitude < b)) for a, b in zip(levels, [*levels[1:], np.inf])])
    mse = []
    for lo in range(start, start + 62):
        hi = lo + span
        mse.append(
            np.sum(h[1:lo] * levels[1:lo] ** 2)
            + np.sum(h[lo:hi] * levels[lo:hi] ** 2 * q)
            + np.sum(h[hi:] * (levels[hi - 1] - levels[hi:]) ** 2)
        )
    least = np.flatnonzero(np.array(mse) == min(mse))
    return -(least[0] + len(least) // 2 - 31)
