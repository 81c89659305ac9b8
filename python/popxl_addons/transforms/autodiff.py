"""autodiff: gradient graphs of graphs with named arguments."""

from typing import Iterable, Optional, Union

import popxl
from popxl.transforms import autodiff as popxl_autodiff
from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.graph_common import CalledGraphsGradInfoLike, to_called_graphs_grad_info, to_graph


def autodiff(
    graph: Union[GraphWithNamedArgs, popxl.Graph],
    grads_provided: Optional[Iterable[popxl.Tensor]] = None,
    grads_required: Optional[Iterable[popxl.Tensor]] = None,
    called_graphs_grad_info: Optional[CalledGraphsGradInfoLike] = None,
) -> GraphWithNamedArgs:
    """Make the gradient graph; the forward graph gets its activations as extra outputs.

    Args:
        graph: graph to differentiate.
        grads_provided: outputs whose gradients are given, default all.
        grads_required: inputs whose gradients are wanted, default all, variables included.
        called_graphs_grad_info: gradient infos of called graphs; wins over those of `graph`.

    Returns:
        The gradient graph, with `grad_graph_info`.

    Raises:
        popart_exception: as `popxl.transforms.autodiff`.
    """
    own = graph.called_graphs_grad_info if isinstance(graph, GraphWithNamedArgs) else {}
    known = {**own, **to_called_graphs_grad_info(called_graphs_grad_info)}
    forward = to_graph(graph)
    infos = popxl_autodiff(
        forward, grads_provided, grads_required, called_graphs_grad_info=known, return_all_grad_graphs=True
    )
    return GraphWithNamedArgs.from_grad_graph(infos[forward])
