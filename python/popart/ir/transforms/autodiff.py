"""Differentiation of graphs; see `popxl.transforms.autodiff`."""

from collections.abc import Iterable, Mapping

from popxl.transforms.autodiff import ExpectedConnection, ExpectedConnectionType
from popxl.transforms.autodiff import GradGraphInfo as _GradGraphInfo
from popxl.transforms.autodiff import autodiff as _autodiff

from popart.ir.graph import Graph
from popart.ir.ops.call import CallInfo
from popart.ir.tensor import Tensor


class GradGraphInfo(_GradGraphInfo):
    """A gradient graph with the meaning of its inputs and outputs."""

    def get_input_tensors(self) -> tuple[Tensor, ...]:
        """Return the forward tensor of each input."""
        return self.inputs

    def get_output_tensors(self) -> tuple[Tensor, ...]:
        """Return the forward tensor of each output."""
        return self.outputs


def _convert(info: _GradGraphInfo) -> GradGraphInfo:
    made = object.__new__(GradGraphInfo)
    made.__dict__.update(info.__dict__)
    return made


def autodiff(
    graph: Graph,
    grads_provided: Iterable[Tensor] | None = None,
    grads_required: Iterable[Tensor] | None = None,
    called_graphs_grad_info: Mapping[Graph, GradGraphInfo] | None = None,
    return_all_grad_graphs: bool = False,
) -> GradGraphInfo | dict[Graph, GradGraphInfo]:
    """Make the gradient graph of a graph; arguments as for `popxl.transforms.autodiff`."""
    infos = _autodiff(graph, grads_provided, grads_required, called_graphs_grad_info, True)
    result = {g: _convert(info) for g, info in infos.items()}
    return result if return_all_grad_graphs else result[graph]


def get_expected_forward_inputs_from_call(call_info: CallInfo, grad_info: GradGraphInfo) -> dict[Tensor, Tensor]:
    """Return gradient graph input → parent tensor for the forward tensors it reads.

    Raises:
        TypeError: the call belongs to another graph.
    """
    return grad_info.inputs_dict(call_info._site)


__all__ = [
    "ExpectedConnection",
    "ExpectedConnectionType",
    "GradGraphInfo",
    "autodiff",
    "get_expected_forward_inputs_from_call",
]
