"""Gradient graphs from `Module.build_grad`: the values that forward graphs pass to them, and how the two connect."""

import inspect
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

import popxl
from popxl.tensor import Tensor
from popxl.transforms.autodiff import ExpectedConnection, ExpectedConnectionType, GradGraphInfo

from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.utils import duplicate_items

if TYPE_CHECKING:
    from popxl_addons.module import Module

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Aux:
    """Values that `build` stores by key for `build_grad`.

    `build_grad` reads a stored tensor as an input of the gradient graph; it reads other values unchanged.
    """

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._graph: popxl.Graph | None = None
        self._inputs: dict[str, Tensor] = {}

    def __setitem__(self, key: str, value: Any) -> None:
        self._values[key] = value

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __getitem__(self, key: str) -> Any:
        if self._graph is None:
            raise Exception(f"aux['{key}']: values can be read in `build_grad` only. Use the value itself.")
        value = self._values[key]
        if not isinstance(value, Tensor):
            return value
        if key not in self._inputs:
            with self._graph:
                self._inputs[key] = popxl.graph_input(value.shape, value.dtype, key, meta_shape=value.meta_shape)
        return self._inputs[key]

    def _take(self) -> dict[str, Any]:
        """Return the stored values and clear them."""
        values, self._values = self._values, {}
        return values

    @contextmanager
    def _readable(self, values: dict[str, Any]) -> Iterator[dict[str, Tensor]]:
        """Make `values` readable in the current graph; yield a dict that collects key → input as they are read."""
        before = (self._values, self._graph, self._inputs)
        self._values, self._graph, self._inputs = values, popxl.gcg(), {}
        try:
            yield self._inputs
        finally:
            self._values, self._graph, self._inputs = before


class VarGrad:
    """Gradients of variables, which `build_grad` assigns by the dotted name of the variable."""

    def __init__(self) -> None:
        self._variables: Mapping[str, Tensor] | None = None
        self._gradients: dict[str, Tensor] = {}

    def __setitem__(self, name: str, gradient: Tensor) -> None:
        if self._variables is None:
            raise Exception(f"var_grad['{name}']: gradients can be stated in `build_grad` only.")
        if not isinstance(gradient, Tensor):
            raise TypeError(f"var_grad['{name}']: got {type(gradient).__name__}, expected a popxl.Tensor.")
        if name not in self._variables:
            raise KeyError(f"var_grad: there is no variable '{name}'. Available: {list(self._variables)}.")
        _check_shape(f"var_grad['{name}']", gradient, self._variables[name])
        self._gradients[name] = gradient

    @contextmanager
    def _writable(self, variables: Mapping[str, Tensor]) -> Iterator[dict[str, Tensor]]:
        """Accept gradients of `variables`; yield a dict that collects name → gradient as they are assigned."""
        before = (self._variables, self._gradients)
        self._variables, self._gradients = variables, {}
        try:
            yield self._gradients
        finally:
            self._variables, self._gradients = before


def create_grad_graph_info(
    ir: popxl.Ir,
    fwd_graph: popxl.Graph,
    grad_graph: popxl.Graph,
    grad_input_to_fwd_output: Mapping[Tensor, Tensor],
    grad_output_to_fwd_input: Mapping[Tensor, Tensor],
    fwd_tensors: Iterable[Tensor],
) -> GradGraphInfo:
    """Make the description of a handwritten gradient graph.

    Args:
        ir: the program.
        fwd_graph: the forward graph.
        grad_graph: its gradient graph.
        grad_input_to_fwd_output: for each input of the gradient graph, in order, the tensor of the forward graph that
            it is, or whose gradient it is.
        grad_output_to_fwd_input: for each output, in order, the tensor of the forward graph whose gradient it is.
        fwd_tensors: tensors of the forward graph whose values, not gradients, are inputs of the gradient graph.

    Returns:
        The description, for `GraphWithNamedArgs.from_grad_graph` or as a value of ``called_graphs_grad_info``.

    Raises:
        ValueError: a graph belongs to another program.
    """
    for name, graph in (("fwd_graph", fwd_graph), ("grad_graph", grad_graph)):
        if graph.ir != ir:
            raise ValueError(f"create_grad_graph_info: {name}: {graph!r} belongs to {graph.ir!r}, expected {ir!r}.")
    values = set(fwd_tensors)
    kinds = ExpectedConnectionType
    inputs = [(t, kinds.Fwd if t in values else kinds.FwdGrad) for t in grad_input_to_fwd_output.values()]
    outputs = [(t, kinds.FwdGrad) for t in grad_output_to_fwd_input.values()]
    return _info(fwd_graph, grad_graph, inputs, outputs)


def _info(fwd_graph: popxl.Graph, grad_graph: popxl.Graph, inputs: list, outputs: list) -> GradGraphInfo:
    made = ([ExpectedConnection._make(t, kind) for t, kind in pairs] for pairs in (inputs, outputs))
    return GradGraphInfo._make(grad_graph, fwd_graph, *made)


def make_grad_graph(
    module: "Module",
    forward: GraphWithNamedArgs,
    grads_provided: Iterable[Tensor] | None,
    grads_required: Iterable[Tensor] | None,
) -> GraphWithNamedArgs:
    """Build the gradient graph of a module's graph; see `Module.create_grad_graph`."""
    graph, variables = forward.graph, forward.args.to_dict()
    provided = _checked("grads_provided", grads_provided, graph.outputs, "outputs")
    required = _checked("grads_required", grads_required, graph.inputs, "inputs")
    _check_parameters(module)
    names = {t: name for name, t in variables.items()}
    others = [t for t in required if t not in names]
    used: dict[str, Tensor] = {}
    gradients: dict[str, Tensor] = {}

    @wraps(module.build_grad)
    def build(*grads: Tensor) -> Any:
        with module.aux._readable(forward._aux) as read, module.var_grad._writable(variables) as stated:
            result = module.build_grad(*grads)
            used.update(read)
            gradients.update(stated)
        return result

    made = graph.ir.create_graph(build, *(t.spec for t in provided))
    what = f"{type(module).__name__}.build_grad"
    if len(made.outputs) != len(others):
        raise Exception(
            f"{what}: got {len(made.outputs)} gradients, expected {len(others)}: one for each required input that is "
            f"not a variable: {[t.name for t in others]}."
        )
    if missing := [names[t] for t in required if t in names and names[t] not in gradients]:
        raise Exception(f"{what}: there is no gradient of the variables {missing}. State it with self.var_grad[name].")
    for i, (t, gradient) in enumerate(zip(others, made.outputs)):
        _check_shape(f"{what}: output {i}", gradient, t)
    outputs = [*others, *(t for t in required if t in names)]
    for t in outputs[len(others) :]:
        made._mark_output(gradients[names[t]])
    for t in forward._aux.values():
        if isinstance(t, Tensor):
            graph._mark_output(t)
    kinds = ExpectedConnectionType
    inputs = [(t, kinds.FwdGrad) for t in provided] + [(forward._aux[key], kinds.Fwd) for key in used]
    return GraphWithNamedArgs.from_grad_graph(_info(graph, made, inputs, [(t, kinds.FwdGrad) for t in outputs]))


def _checked(name: str, given: Iterable[Tensor] | None, allowed: tuple[Tensor, ...], kind: str) -> list[Tensor]:
    tensors = list(allowed if given is None else given)
    if foreign := [t for t in tensors if t not in allowed]:
        raise ValueError(f"{name}: {foreign} are not {kind} of the forward graph, expected some of {list(allowed)}.")
    if repeated := duplicate_items(tensors):
        raise ValueError(f"{name}: got {repeated} more than once, expected each once.")
    return tensors


def _check_parameters(module: "Module") -> None:
    for parameter in inspect.signature(module.build_grad).parameters.values():
        if parameter.kind not in _POSITIONAL:
            raise TypeError(
                f"{type(module).__name__}.build_grad: parameter `{parameter}`: got {parameter.kind.description}, "
                "expected positional parameters only, one for each provided gradient."
            )


def _check_shape(what: str, gradient: Tensor, of: Tensor) -> None:
    if gradient.shape != of.shape or gradient.meta_shape != of.meta_shape:
        raise ValueError(
            f"{what}: got shape {gradient.shape} (meta shape {gradient.meta_shape}), expected {of.shape} "
            f"({of.meta_shape}), that of {of}."
        )
