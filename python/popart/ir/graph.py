"""Ir and Graph of the older interface."""

import inspect
from collections.abc import Callable
from typing import Any

import popxl.graph as _graph
import popxl.ir as _ir
from popxl.tensor import TensorByRef

from popart.ir.tensor import Constant, Tensor, Variable


class Graph(_graph.Graph):
    """A graph; calling it returns it, so that ``ir.main_graph()`` works."""

    _checks_placement = False

    def __call__(self) -> "Graph":
        """Return the graph itself."""
        return self

    def get_main_graph(self) -> "Graph":
        """Return the main graph of the Ir."""
        return self.main_graph

    def get_input_tensors(self) -> tuple[Tensor, ...]:
        """Return the inputs in order."""
        return self.inputs

    def get_output_tensors(self) -> tuple[Tensor, ...]:
        """Return the outputs in order."""
        return self.outputs

    def get_tensors(self) -> tuple[Tensor, ...]:
        """Return all tensors."""
        return self.tensors

    def get_variables(self) -> tuple[Variable, ...]:
        """Return the variables."""
        return self.variables

    def get_constants(self) -> tuple[Constant, ...]:
        """Return the constants."""
        return self.constants

    def __contains__(self, value: object) -> bool:
        return isinstance(value, Tensor) and super().__contains__(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _graph.Graph) and super().__eq__(other)

    __hash__ = _graph.Graph.__hash__


class Ir(_ir.Ir):
    """A program; calling it returns it, so that ``graph.ir()`` works."""

    _graph_class = Graph
    _tensor_classes = (Tensor, Variable, Constant)

    def __init__(self) -> None:
        super().__init__()

    def __call__(self) -> "Ir":
        """Return the Ir itself."""
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ir.Ir) and super().__eq__(other)

    __hash__ = _ir.Ir.__hash__

    def create_empty_graph(self, name: str | None = None) -> Graph:
        """Make a graph whose id is the plain name.

        Returns:
            The graph, without inputs and outputs.

        Raises:
            popart_exception: a graph of this name exists.
        """
        self._check_open("its graphs")
        return self._graph(self._pb_ir.createGraph(name or "graph"))

    def create_graph(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Graph:
        """Make a graph by calling `fn` with graph inputs instead of its tensor arguments.

        Args:
            fn: function or module.
            *args: arguments of `fn`; tensors become graph inputs, anything else is passed on.
            **kwargs: as `args`.

        Returns:
            The graph; its outputs are what `fn` returned.

        Raises:
            TypeError: `fn` is neither function nor module, or the arguments do not fit.
            ValueError: a tensor is given twice, or `fn` returns something else than tensors.
        """
        name, signature, annotations = _ir._describe(fn)
        tensors = [a for a in args if isinstance(a, Tensor)]
        if len({t.id for t in tensors}) != len(tensors):
            raise ValueError("create_graph: the same tensor is given for two arguments.")
        graph = self._new_graph(name)
        with graph:
            call_args, call_kwargs = _as_inputs(graph, signature, annotations, args, kwargs)
            for tensor in _ir._as_outputs(fn(*call_args, **call_kwargs)):
                if tensor not in graph:
                    raise ValueError(f"Tensor {tensor} returned by `{name}` is not in the graph {graph.id}.")
                graph._mark_output(tensor)
        return graph


def _as_inputs(
    graph: Graph,
    signature: inspect.Signature,
    annotations: dict[str, Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[list, dict]:
    positional = [
        p.name for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]

    def convert(value: Any, name: str) -> Any:
        if not isinstance(value, Tensor):
            return value
        return graph._add_input(value.shape, value.dtype, name, annotations.get(name) is TensorByRef, ())

    call_args = []
    for i, value in enumerate(args):
        name = positional[i] if i < len(positional) else getattr(value, "id", "")
        call_args.append(convert(value, name))
    return call_args, {name: convert(value, name) for name, value in kwargs.items()}
