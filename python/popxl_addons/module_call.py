"""ModuleCall: a call of a module from the `build` of another one, as a separate graph (`Module.call_module`)."""

import inspect
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from popxl.tensor import Tensor

from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.variable_factory import NamedVariableFactories

if TYPE_CHECKING:
    from popxl_addons.module import Module

Choose = Callable[[GraphWithNamedArgs], Iterable[Tensor]] | None

_METHODS = ("auto", "build_grad", "autodiff", "none")


class ModuleCall:
    """A prepared call: the result of `Module.call_module`.

    Args:
        caller: module whose `build` runs.
        module: module to call.
        name: key of its variables in the caller.
        autodiff: which gradient graph to make.
        grads_provided: chooses the outputs whose gradients are given.
        grads_required: chooses the inputs whose gradients to compute.

    Attributes:
        var_factories: factories of the callee's variables, after the call.
        graph: graph of the callee, after the call.
        n_outputs_pre_autodiff: number of its outputs without those for its gradient graph, after the call.
    """

    var_factories: NamedVariableFactories
    graph: GraphWithNamedArgs
    n_outputs_pre_autodiff: int

    def __init__(
        self,
        caller: "Module",
        module: "Module",
        name: str | None,
        autodiff: str,
        grads_provided: Choose,
        grads_required: Choose,
    ) -> None:
        if autodiff not in _METHODS:
            raise ValueError(f"call_module: autodiff: got {autodiff!r}, expected one of {_METHODS}.")
        self._caller, self._module, self._autodiff = caller, module, autodiff
        self._name = type(module).__name__ if name is None else name
        self._grads_provided, self._grads_required = grads_provided, grads_required

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        """Create the callee's graph, and its gradient graph if requested, and call the graph.

        Args:
            *args: tensors, as arguments of the callee's `build`.
            **kwargs: as `args`.

        Returns:
            The outputs of the callee's `build`.

        Raises:
            ValueError: the caller has variables of this name, or arguments do not fit.
        """
        self.var_factories, self.graph = self._module.create_graph(*args, **kwargs)
        variables = self._add_variables()
        self._caller.called_graphs_grad_info.update(self.graph.called_graphs_grad_info)
        self.n_outputs_pre_autodiff = len(self.graph.graph.outputs)
        self._differentiate()
        given = inspect.signature(self._module.build).bind(*args, **kwargs)
        outputs = self.graph.bind(variables).call(*given.args, *given.kwargs.values())
        return outputs[: self.n_outputs_pre_autodiff]

    def _add_variables(self) -> NamedTensors:
        if self._caller._attached.get(self._name) is not self._module:
            return self._caller.add_variable_inputs(self._name, self.var_factories)
        # the attribute already provides the callee's variables
        own = {key: self._module._register(key, f, False) for key, f in self.var_factories.to_dict().items()}
        return NamedTensors.from_dict(own)

    def _differentiate(self) -> None:
        if self._autodiff == "none" or (self._autodiff == "auto" and not self._module.implements_grad_graph):
            return
        provided, required = (
            None if choose is None else choose(self.graph) for choose in (self._grads_provided, self._grads_required)
        )
        self._caller.called_graphs_grad_info[self.graph] = self.graph.autodiff(
            provided, required, method=self._autodiff
        )
