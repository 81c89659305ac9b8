"""Functions for tests of modules."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import popxl
from popxl import ops

from popxl_addons.module import Module
from popxl_addons.named_tensors import NamedTensors

__all__ = ["TensorInput", "ops_of_type", "run_module"]

Weights = Mapping[popxl.Tensor, np.ndarray]


def ops_of_type(ops: Iterable[Any], op_type: type) -> int:
    """Return how many ops are of a type.

    Args:
        ops: ops of a graph, as ``graph._pb_graph.getOps()`` returns them.
        op_type: a class of `popart._internal.ir.op`.

    Returns:
        The number.
    """
    return sum(isinstance(op, op_type) for op in ops)


class TensorInput:
    """Marks an argument of `run_module` as a tensor.

    Args:
        data: its value.
        dtype: its element type, default that of the value.
    """

    def __init__(self, data: np.ndarray, dtype: popxl.dtype | None = None) -> None:
        self.data = data
        self.dtype = dtype


def run_module(
    module: Module,
    *args: Any,
    weights: Weights | Callable[[NamedTensors], Weights] | None = None,
    **kwargs: Any,
) -> list[np.ndarray]:
    """Run a module once, in a new program.

    Args:
        module: the module.
        *args: arguments of its `build`; each `TensorInput` becomes a tensor.
        weights: values of variables, or a function that returns them for the tree of variables.
        **kwargs: as `args`.

    Returns:
        The outputs in order.
    """
    ir = popxl.Ir()
    with ir.main_graph:
        given = [_to_tensor(a) for a in args]
        named = {key: _to_tensor(a) for key, a in kwargs.items()}
        factories, graph = module.create_graph(*given, **named)
        variables = factories.init()
        tensors = [t for t in (*given, *named.values()) if isinstance(t, popxl.Tensor)]
        outputs = graph.bind(variables).call(*tensors)
        streams = [popxl.d2h_stream(t.shape, t.dtype) for t in outputs]
        for stream, t in zip(streams, outputs):
            ops.host_store(stream, t)
    with popxl.Session(ir, "ipu_hw") as session:
        if weights is not None:
            session.write_variables_data(weights(variables) if callable(weights) else weights)
        results = session.run()
    return [results[stream] for stream in streams]


def _to_tensor(argument: Any) -> Any:
    return popxl.variable(argument.data, argument.dtype) if isinstance(argument, TensorInput) else argument
