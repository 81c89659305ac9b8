"""Differentiation of graphs: `autodiff` and the description of gradient graphs."""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from popart._internal import ir as _core_ir
from popart_core import _ir as _core
from popart_core import getLogger, popart_exception

from popxl.graph import Graph
from popxl.tensor import Tensor

if TYPE_CHECKING:
    from popxl.ir import Ir
    from popxl.ops.call import CallSiteInfo


class ExpectedConnectionType(Enum):
    """What an input or output of a gradient graph is: a forward tensor or the gradient of one."""

    Fwd = "Fwd"
    FwdGrad = "FwdGrad"


_TYPES = (ExpectedConnectionType.Fwd, ExpectedConnectionType.FwdGrad)


class ExpectedConnection:
    """One input or output of a gradient graph."""

    def __init__(self) -> None:
        raise TypeError("Cannot create an ExpectedConnection directly.")

    @classmethod
    def _make(cls, fwd_tensor: Tensor, connection_type: ExpectedConnectionType) -> "ExpectedConnection":
        self = object.__new__(cls)
        self._fwd_tensor = fwd_tensor
        self._connection_type = connection_type
        return self

    @classmethod
    def _from_pb(cls, fwd_graph: Any, pb_ec: _core_ir.ExpectedConnection) -> "ExpectedConnection":
        """Make it from the core's description; the forward graph is the core's or popxl's."""
        graph = fwd_graph if isinstance(fwd_graph, Graph) else Graph._from_pb(fwd_graph)
        return cls._make(graph.get_tensor(pb_ec.fwdId), _TYPES[pb_ec.type])

    @property
    def _pb_ec(self) -> _core_ir.ExpectedConnection:
        kind = _core_ir.ExpectedConnectionType(_TYPES.index(self._connection_type))
        return _core_ir.ExpectedConnection(self._fwd_tensor.id, kind)

    @property
    def fwd_tensor(self) -> Tensor:
        """Tensor of the forward graph."""
        return self._fwd_tensor

    @property
    def connection_type(self) -> ExpectedConnectionType:
        """The tensor itself (Fwd) or its gradient (FwdGrad)."""
        return self._connection_type

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ExpectedConnection)
            and self._fwd_tensor == other._fwd_tensor
            and self._connection_type is other._connection_type
        )

    def __hash__(self) -> int:
        return hash((self._fwd_tensor, self._connection_type))

    def __repr__(self) -> str:
        return f"({self._connection_type}, {self._fwd_tensor})"


def _require_call(name: str, call: Any, graph: Graph) -> None:
    """Check that an argument is the call site of a graph.

    Raises:
        TypeError: it is not a call of this graph.
    """
    called = getattr(call, "called_graph", None)
    if not isinstance(called, Graph) or called != graph:
        found = f"{call!r}, no call site" if called is None else f"a call of {called!r}"
        raise TypeError(f"{name}: got {found}, expected a call of {graph!r}.")


class GradGraphInfo:
    """A gradient graph and how it connects to calls of its forward graph."""

    def __init__(self) -> None:
        raise TypeError("Cannot create a GradGraphInfo directly; use popxl.transforms.autodiff.")

    @classmethod
    def _make(
        cls, graph: Graph, forward: Graph, inputs: list[ExpectedConnection], outputs: list[ExpectedConnection]
    ) -> "GradGraphInfo":
        self = object.__new__(cls)
        self._graph = graph
        self._forward = forward
        self._expected_inputs = tuple(inputs)
        self._expected_outputs = tuple(outputs)
        return self

    @classmethod
    def _from_pb(cls, ir: "Ir", pb_info: Any) -> "GradGraphInfo":
        forward = ir._graph(ir._pb_ir.getGraph(pb_info.forward))

        def connections(pairs: Iterable[tuple[str, int]]) -> list[ExpectedConnection]:
            return [ExpectedConnection._make(forward.get_tensor(i), _TYPES[kind]) for i, kind in pairs]

        graph = ir._graph(ir._pb_ir.getGraph(pb_info.gradient))
        return cls._make(graph, forward, connections(pb_info.expectedInputs), connections(pb_info.expectedOutputs))

    def _to_pb(self) -> Any:
        def pairs(connections: Iterable[ExpectedConnection]) -> list[tuple[str, int]]:
            return [(c.fwd_tensor.id, _TYPES.index(c.connection_type)) for c in connections]

        return _core.BwdGraphInfo(
            self._forward.id, self._graph.id, pairs(self._expected_inputs), pairs(self._expected_outputs)
        )

    @property
    def graph(self) -> Graph:
        """The gradient graph."""
        return self._graph

    @property
    def forward_graph(self) -> Graph:
        """The differentiated graph."""
        return self._forward

    @property
    def expected_inputs(self) -> tuple[ExpectedConnection, ...]:
        """What each input of the gradient graph is."""
        return self._expected_inputs

    @property
    def expected_outputs(self) -> tuple[ExpectedConnection, ...]:
        """What each output of the gradient graph is."""
        return self._expected_outputs

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Forward tensor of each input."""
        return tuple(c.fwd_tensor for c in self._expected_inputs)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """Forward tensor of each output."""
        return tuple(c.fwd_tensor for c in self._expected_outputs)

    def inputs_dict(self, fwd_call_info: "CallSiteInfo") -> dict[Tensor, Tensor]:
        """Return gradient graph input → parent tensor for the forward tensors it reads.

        Args:
            fwd_call_info: a call of the forward graph.

        Raises:
            TypeError: it is a call of another graph.
        """
        _require_call("fwd_call_info", fwd_call_info, self._forward)
        return {
            graph_input: fwd_call_info.graph_to_parent(c.fwd_tensor)
            for graph_input, c in zip(self._graph.inputs, self._expected_inputs)
            if c.connection_type is ExpectedConnectionType.Fwd
        }

    def fwd_graph_ins_to_grad_parent_outs(self, grad_call_info: "CallSiteInfo") -> dict[Tensor, Tensor]:
        """Return forward graph tensor → its gradient at a call of the gradient graph.

        Args:
            grad_call_info: call of the gradient graph.

        Returns:
            The result.

        Raises:
            TypeError: it is a call of another graph.
        """
        _require_call("grad_call_info", grad_call_info, self._graph)
        return {c.fwd_tensor: grad_call_info.parent_output(i) for i, c in enumerate(self._expected_outputs)}

    def fwd_parent_ins_to_grad_parent_outs(
        self, fwd_call_info: "CallSiteInfo", grad_call_info: "CallSiteInfo"
    ) -> dict[Tensor, Tensor]:
        """Return tensor given to the forward call → its gradient.

        Args:
            fwd_call_info: a call of the forward graph.
            grad_call_info: the call of the gradient graph that belongs to it.

        Raises:
            TypeError: a call is of another graph.
        """
        _require_call("fwd_call_info", fwd_call_info, self._forward)
        grads = self.fwd_graph_ins_to_grad_parent_outs(grad_call_info)
        return {fwd_call_info.graph_to_parent(t): grad for t, grad in grads.items()}

    def __repr__(self) -> str:
        lines = ["GradGraphInfo[", f"  graph={self._graph.id}", "  expected_inputs=["]
        lines += [f"    {c!r}" for c in self._expected_inputs]
        lines += ["  ]", "  expected_outputs=["]
        lines += [f"    {c!r}" for c in self._expected_outputs]
        return "\n".join([*lines, "  ]", "]"])


def autodiff(
    graph: Graph,
    grads_provided: Iterable[Tensor] | None = None,
    grads_required: Iterable[Tensor] | None = None,
    called_graphs_grad_info: Mapping[Graph, GradGraphInfo] | None = None,
    return_all_grad_graphs: bool = False,
) -> GradGraphInfo | dict[Graph, GradGraphInfo]:
    """Make the gradient graph of a graph.

    Tensors that the gradient graph reads become extra outputs of `graph` and of its call sites.

    Args:
        graph: graph to differentiate.
        grads_provided: tensors whose gradients are given, default all outputs; a tensor that is not an output causes a
            warning.
        grads_required: tensors whose gradients to return, default all inputs.
        called_graphs_grad_info: infos of graphs that `graph` calls.
        return_all_grad_graphs: return the infos of all graphs that were differentiated.

    Returns:
        The info of `graph`, or a mapping from graph to info.

    Raises:
        popart_exception: the graph changes tensors in place, a required gradient does not exist, or it calls a graph
            whose own gradient graph is not among the infos.
    """
    _check_called_graphs(graph, called_graphs_grad_info or {})
    known = [info._to_pb() for info in (called_graphs_grad_info or {}).values()]
    provided = None if grads_provided is None else [t.id for t in grads_provided]
    required = None if grads_required is None else [t.id for t in grads_required]
    ir = graph.ir
    ir._check_open("its graphs")
    if inner := sorted(set(provided or ()) - {t.id for t in graph.outputs}):
        getLogger("python").warn(
            f"autodiff: {graph!r}: gradients are provided for tensors that are not outputs of the graph: {inner}"
        )
    infos = _core.differentiate(ir._pb_ir, graph.id, provided, required, known)
    result = {}
    for pb_info in infos:
        info = GradGraphInfo._from_pb(ir, pb_info)
        result[info.forward_graph] = info
    return result if return_all_grad_graphs else result[graph]


def _check_called_graphs(graph: Graph, known: Mapping[Graph, GradGraphInfo]) -> None:
    for called in graph.called_graphs:
        if called in known:
            continue
        if not called._pb_graph.getCanBeRecursivelyAutodiffed():
            raise popart_exception(
                f"autodiff of {graph.id or 'the main graph'}: it calls {called.id}, which has a gradient of its own "
                "and must not be differentiated. Pass its GradGraphInfo in called_graphs_grad_info."
            )
        _check_called_graphs(called, known)
