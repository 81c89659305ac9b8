"""Runs small popxl programs in tests: host values in, host values out."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import popxl
import popxl.ops as ops


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
