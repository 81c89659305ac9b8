"""What the programs of this folder share: gradients of a module's variables, and a step of Adam for each of them."""

from collections.abc import Mapping

import numpy as np
import popxl
import popxl_addons as addons
from popxl import ops
from popxl_addons.optimizers.adam import AdamOptimizerStep


def loss_and_gradients(
    graph: addons.GraphWithNamedArgs, variables: addons.NamedTensors, *inputs: popxl.Tensor, loss_scaling: float = 1.0
) -> tuple[popxl.Tensor, dict[str, popxl.Tensor]]:
    """Call a graph whose first output is a loss, and its gradient graph.

    Variables of integers have no gradient.

    Args:
        graph: the graph; its named inputs are the variables.
        variables: the variables.
        *inputs: values of the other inputs.
        loss_scaling: gradient of the loss.

    Returns:
        The loss and the gradients of the variables by name, times `loss_scaling`.
    """
    trained = {name: t for name, t in graph.args.to_dict().items() if t.dtype.is_floating_point}
    backward = graph.autodiff(grads_provided=graph.graph.outputs[:1], grads_required=trained.values())
    call = graph.bind(variables).call_with_info(*inputs)
    loss = call.outputs[0]
    first = popxl.constant(loss_scaling, loss.dtype, "first_gradient")
    back = backward.call_with_info(first, args=backward.grad_graph_info.inputs_dict(call))
    by_input = backward.grad_graph_info.fwd_graph_ins_to_grad_parent_outs(back)
    return loss, {name: by_input[t] for name, t in trained.items()}


class Optimizer:
    """Adam for all variables of a program: equal shapes share one graph.

    Args:
        rate: learning rate, a number or a scalar.
        **options: of `AdamOptimizerStep`.
    """

    def __init__(self, rate: float | popxl.Tensor, **options: object) -> None:
        self.rate = rate
        self.options = options
        self.steps: dict[tuple, tuple[addons.NamedVariableFactories, addons.GraphWithNamedArgs]] = {}

    def update(self, variables: addons.NamedTensors, gradients: Mapping[str, popxl.Tensor]) -> None:
        """Update variables by name; gradients are averaged over the replicas that share a variable."""
        for name, gradient in gradients.items():
            variable = variables[name]
            group = variable.replica_grouping
            if group.group_size > 1:
                gradient = ops.collectives.replicated_all_reduce(gradient, "mean", group)
            kind = (variable.spec.shape, variable.dtype, group.stride, group.group_size)
            if kind not in self.steps:
                arguments = {"replica_grouping": group, "lr": self.rate, **self.options}
                self.steps[kind] = AdamOptimizerStep().create_graph(variable, gradient, **arguments)
            factories, graph = self.steps[kind]
            state = factories.init(f"adam.{name}")
            rate = (self.rate,) if isinstance(self.rate, popxl.Tensor) else ()
            graph.bind(state).call(variable, gradient, *rate)


class StepProgram:
    """A training step of a module whose output is a loss and whose inputs are integers.

    Args:
        module: the module.
        shapes: shapes of its inputs on a replica, by name and in order.
        rate: learning rate.
        replicas: they share the batch.
        loss_scaling: factor of the gradients, for float16.
        first_order_dtype: type of the mean of gradients that Adam keeps.
    """

    def __init__(
        self,
        module: addons.Module,
        shapes: Mapping[str, tuple[int, ...]],
        rate: float,
        replicas: int = 1,
        loss_scaling: float = 1.0,
        first_order_dtype: popxl.dtype = popxl.float16,
    ) -> None:
        self.ir = popxl.Ir(replication=replicas)
        with self.ir.main_graph, popxl.in_sequence():
            self.inputs = addons.InputStreams(**{name: (shape, popxl.int32) for name, shape in shapes.items()})
            loaded = [ops.host_load(stream) for stream in self.inputs]
            factories, graph = module.create_graph(*loaded)
            self.variables = factories.init()
            loss, gradients = loss_and_gradients(graph, self.variables, *loaded, loss_scaling=loss_scaling)
            optimizer = Optimizer(rate, loss_scaling=loss_scaling, first_order_dtype=first_order_dtype)
            optimizer.update(self.variables, gradients)
            self.outputs = addons.OutputStreams(loss=((), loss.dtype))
            ops.host_store(self.outputs.loss, loss)

    def session(self, device: str = "cpu") -> popxl.Session:
        """Return a session that runs a step."""
        return popxl.Session(self.ir, device)

    def step(self, session: popxl.Session, *batch: np.ndarray) -> np.ndarray:
        """Run a step on arrays of the inputs; return the loss of each replica."""
        return session.run(dict(zip(self.inputs, batch, strict=True)))[self.outputs.loss]


def weights_of(variables: addons.NamedTensors, arrays: Mapping[str, np.ndarray]) -> addons.WeightsDict:
    """Return arrays by variable, in the variables' types."""
    return addons.WeightsDict(
        {v: np.ascontiguousarray(arrays[name], v.dtype.as_numpy()) for name, v in variables.to_dict().items()}
    )


def padded(table: np.ndarray, rows: int) -> np.ndarray:
    """Return the table with rows of zeros at its end: tables of `Embedding` have a multiple of 16 rows."""
    return np.pad(table, ((0, rows - len(table)), (0, 0)))


def linear(weights: dict[str, np.ndarray], ours: str, *theirs: str) -> dict[str, np.ndarray]:
    """Return weight and bias of a linear layer by our names; several layers lie beside each other in one."""
    return {
        f"{ours}.weight": np.concatenate([weights[f"{name}.weight"].T for name in theirs], 1),
        f"{ours}.bias": np.concatenate([weights[f"{name}.bias"] for name in theirs]),
    }
