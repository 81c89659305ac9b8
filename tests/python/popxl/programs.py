"""Runs small popxl programs in tests: host values in, host values out."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import popxl
import popxl.ops as ops
from popxl.transforms import autodiff


def evaluate(fn: Callable[..., Any], *arrays: Any, device: str = "ipu_hw") -> Any:
    """Build `fn` on loaded tensors in the main graph of a new Ir, run it and return what it returns as arrays."""
    ir = popxl.Ir()
    with ir.main_graph:
        streams, tensors = [], []
        for i, array in enumerate(arrays):
            array = np.asarray(array)
            streams.append(popxl.h2d_stream(array.shape, popxl.dtype.as_dtype(array.dtype), f"in{i}"))
            tensors.append(ops.host_load(streams[-1], f"x{i}"))
        result = fn(*tensors)
        results: Sequence[Any] = [result] if isinstance(result, popxl.Tensor) else list(result)
        outs = [popxl.d2h_stream(t.shape, t.dtype, f"out{i}") for i, t in enumerate(results)]
        for stream, t in zip(outs, results, strict=True):
            ops.host_store(stream, t)
    with popxl.Session(ir, device) as session:
        values = session.run(dict(zip(streams, arrays, strict=True)), downcast_inputs=False)
    got = [values[s] for s in outs]
    return got[0] if isinstance(result, popxl.Tensor) else got


def gradients(
    ir: popxl.Ir,
    fn: Callable[..., popxl.Tensor],
    values: Sequence[np.ndarray],
    dy: np.ndarray,
    before: bool,
    wanted: Sequence[int] | None = None,
) -> list[np.ndarray]:
    """Gradients of `fn`, called as a graph of `ir` on variables of these values, with respect to each of them.

    Args:
        ir: where the program is built.
        fn: function of as many tensors as there are values.
        values: the first values of the variables.
        dy: gradient of what `fn` returns.
        before: make the gradient graph before the forward call, else after it.
        wanted: the values whose gradients are asked for, default all.
    """
    with ir.main_graph:
        variables, gradient = [popxl.variable(v) for v in values], popxl.constant(dy)
        chosen = list(range(len(values)) if wanted is None else wanted)
        graph = ir.create_graph(fn, *variables)
        required = None if wanted is None else [graph.inputs[i] for i in chosen]
        info = autodiff(graph, grads_required=required) if before else None
        call = ops.call_with_info(graph, *variables)
        info = info or autodiff(graph, grads_required=required)
        grad = ops.call_with_info(info.graph, gradient, inputs_dict=info.inputs_dict(call))
        found = info.fwd_parent_ins_to_grad_parent_outs(call, grad)
        variables = [variables[i] for i in chosen]
        outs = [popxl.d2h_stream(t.shape, t.dtype) for t in variables]
        for out, t in zip(outs, variables, strict=True):
            ops.host_store(out, found[t])
    with popxl.Session(ir) as session:
        got = session.run()
    return [got[out] for out in outs]
