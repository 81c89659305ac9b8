"""Graphs with names for some inputs (GraphWithNamedArgs), and graphs with values bound to some inputs (BoundGraph)."""

from collections.abc import Iterable, Mapping
from typing import Any

import popxl
import popxl.ops as ops
from popxl.ops import CallSiteInfo
from popxl.transforms import GradGraphInfo

from popxl_addons.graph_common import CalledGraphsGradInfoLike, to_called_graphs_grad_info
from popxl_addons.named_tensors import NamedTensors, TensorMap

CallArgs = popxl.Tensor | Iterable[popxl.Tensor] | int | float


class BoundGraph:
    """A graph with tensors bound to some inputs.

    Args:
        graph: the graph.
        args: graph input → tensor.
    """

    def __init__(self, graph: popxl.Graph, args: TensorMap | None = None) -> None:
        self.graph = graph
        self.args: dict[popxl.Tensor, popxl.Tensor] = dict(args or {})

    def call(self, *targs: CallArgs, args: TensorMap | None = None) -> tuple[popxl.Tensor, ...]:
        """Call the graph.

        Args:
            *targs: values of the inputs that are not bound, by position.
            args: graph input → tensor; overrides bound tensors.

        Returns:
            One tensor per output.

        Raises:
            ValueError: inputs are missing or too many, or a tensor belongs to another graph.
        """
        return ops.call(self.graph, *targs, inputs_dict=self._merged(args))

    def call_with_info(self, *targs: CallArgs, args: TensorMap | None = None) -> CallSiteInfo:
        """Call the graph as `call` does, and return the description of the call site.

        Args:
            *targs: values of the inputs that are not bound, by position.
            args: graph input → tensor; overrides bound tensors.

        Returns:
            The call site.
        """
        return ops.call_with_info(self.graph, *targs, inputs_dict=self._merged(args))

    def bind(self, args: TensorMap) -> "BoundGraph":
        """Return a copy with additional tensors bound; they replace existing ones.

        Args:
            args: graph input → tensor.

        Returns:
            The bound graph.
        """
        return BoundGraph(self.graph, self._merged(args))

    def subgraph_io_map(
        self,
        *targs: popxl.Tensor | Iterable[popxl.Tensor],
        args: TensorMap | None = None,
        outs: Iterable[popxl.Tensor] | None = None,
    ) -> dict[popxl.Tensor, popxl.Tensor]:
        """Map graph outputs to `outs`, and graph inputs to the values of a call with these arguments.

        Args:
            *targs: values of the inputs that are not bound, by position.
            args: graph input → tensor; overrides bound tensors.
            outs: values of the outputs.

        Returns:
            Graph tensor → value.

        Raises:
            TypeError: `outs` is not given.
        """
        merged = self._merged(args)
        given = [t for value in targs for t in ([value] if isinstance(value, popxl.Tensor) else value)]
        # compat: without `outs` this fails (test_module.py::test_bound_graphs)
        return {**dict(zip(self.graph.outputs, outs)), **dict(zip(self.graph.inputs, given)), **merged}

    def _merged(self, args: TensorMap | None) -> dict[popxl.Tensor, popxl.Tensor]:
        return {**self.args, **(args or {})}


class GraphWithNamedArgs:
    """A graph and names for some of its inputs.

    Args:
        graph: the graph.
        args: tree of graph inputs.
        grad_graph_info: description, if this is a gradient graph.
        from_module: module that built the graph.
        aux: values stored while building.
        called_graphs_grad_info: gradient infos of graphs that this one calls.
    """

    def __init__(
        self,
        graph: popxl.Graph,
        args: NamedTensors | None = None,
        grad_graph_info: GradGraphInfo | None = None,
        from_module: Any = None,
        aux: Mapping[str, Any] | None = None,
        called_graphs_grad_info: CalledGraphsGradInfoLike | None = None,
    ) -> None:
        self.graph = graph
        self.args = args if args is not None else NamedTensors()
        self._grad_graph_info = grad_graph_info
        self._from_module = from_module
        self._aux = dict(aux or {})
        self.called_graphs_grad_info = to_called_graphs_grad_info(called_graphs_grad_info)
        self.autodiff_applied = False

    @classmethod
    def from_grad_graph(cls, grad_graph_info: GradGraphInfo, args: NamedTensors | None = None) -> "GraphWithNamedArgs":
        """Wrap a gradient graph.

        Args:
            grad_graph_info: what `autodiff` returned.
            args: named inputs of the graph.

        Returns:
            The wrapper.
        """
        return cls(grad_graph_info.graph, args, grad_graph_info)

    @property
    def grad_graph_info(self) -> GradGraphInfo:
        """Description of the gradient graph.

        Raises:
            AttributeError: this is not a gradient graph.
        """
        if self._grad_graph_info is None:
            raise AttributeError(f"{self.graph!r} is not a gradient graph: it has no grad_graph_info.")
        return self._grad_graph_info

    @grad_graph_info.setter
    def grad_graph_info(self, value: GradGraphInfo) -> None:
        self._grad_graph_info = value

    def bind(self, args: NamedTensors | None = None) -> BoundGraph:
        """Bind tensors to the named inputs with the same names; other names are ignored.

        Args:
            args: tensors by name.

        Returns:
            The graph with these inputs bound.
        """
        return BoundGraph(self.graph, self.args.to_mapping(args) if args is not None else None)

    def call(self, *targs: CallArgs, args: TensorMap | None = None) -> tuple[popxl.Tensor, ...]:
        """Call the graph; see `BoundGraph.call`.

        Args:
            *targs: values of the inputs, by position.
            args: graph input → tensor.

        Returns:
            One tensor per output.
        """
        return self.bind().call(*targs, args=args)

    def call_with_info(self, *targs: CallArgs, args: TensorMap | None = None) -> CallSiteInfo:
        """Call the graph; see `BoundGraph.call_with_info`.

        Args:
            *targs: values of the inputs, by position.
            args: graph input → tensor.

        Returns:
            The call site.
        """
        return self.bind().call_with_info(*targs, args=args)

    def copy(self) -> "GraphWithNamedArgs":
        """Return a wrapper of the same graph with copied names."""
        return GraphWithNamedArgs(self.graph, self.args.copy(), self._grad_graph_info)

    def print_schedule(self) -> str:
        """Return the ops of the graph in execution order as text."""
        names = {t.id: name for name, t in self.args.to_dict().items()}
        return self.graph._pb_graph.printSchedule(names)

    def autodiff(
        self,
        grads_provided: Iterable[popxl.Tensor] | None = None,
        grads_required: Iterable[popxl.Tensor] | None = None,
        called_graphs_grad_info: CalledGraphsGradInfoLike | None = None,
        method: str = "auto",
        force: bool = False,
    ) -> "GraphWithNamedArgs":
        """Make the gradient graph.

        Args:
            grads_provided: outputs whose gradients are given, default all.
            grads_required: inputs whose gradients to compute, default all.
            called_graphs_grad_info: gradient infos of called graphs.
            method: ``"auto"``, ``"build_grad"`` (handwritten) or ``"autodiff"``.
            force: allow to differentiate the graph a second time.

        A handwritten gradient takes no `called_graphs_grad_info`.

        Returns:
            The gradient graph, with `grad_graph_info`; its inputs have no names.

        Raises:
            ValueError: unknown method.
            Exception: the graph was differentiated before, or there is no handwritten gradient.
            popart_exception: as `popxl.transforms.autodiff`.
        """
        if method not in ("auto", "build_grad", "autodiff"):
            raise ValueError(f"method: got {method!r}, expected 'auto', 'build_grad' or 'autodiff'.")
        if self.autodiff_applied and not force:
            raise Exception("Autodiff has already been applied to this graph. Pass force=True to apply it again.")
        module = self._from_module
        by_hand = module is not None and module.implements_grad_graph
        if method == "build_grad" and not by_hand:
            raise Exception(
                f"autodiff: {self.graph!r} has no handwritten gradient: from_module is {module!r}, expected a module "
                "that overrides `build_grad`. Take method='autodiff'."
            )
        if by_hand and method != "autodiff":
            result = module.create_grad_graph(self, grads_provided, grads_required)
        else:
            from popxl_addons.transforms.autodiff import autodiff

            result = autodiff(self, grads_provided, grads_required, called_graphs_grad_info)
        self.autodiff_applied = True
        return result
