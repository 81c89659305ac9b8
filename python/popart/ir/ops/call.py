"""Calls and loops of the older interface: tensors only, and a plain result when there is one output."""

from collections.abc import Mapping
from typing import Any

from popxl.ops.call import CallSiteInfo, changed_inputs
from popxl.ops.call import call_with_info as _call_with_info
from popxl.ops.control import repeat_with_info as _repeat_with_info

from popart.ir.graph import Graph
from popart.ir.tensor import Tensor

Result = Tensor | tuple[Tensor, ...] | None


class CallInfo:
    """Maps the tensors of a called graph to the tensors at one call site."""

    def __init__(self, site: CallSiteInfo) -> None:
        self._site = site

    @property
    def called_graph(self) -> Graph:
        """The graph that is called."""
        return self._site.called_graph

    def subgraph_in_to_op_in_index(self, idx: int) -> int:
        """Return the op's input index of a graph input.

        Args:
            idx: number of the input or output.

        Returns:
            The result.
        """
        return self._site.graph_to_parent_input_index(idx)

    def op_in_to_subgraph_in_index(self, idx: int) -> int:
        """Return the graph's input index of an op input.

        Args:
            idx: number of the input or output.

        Returns:
            The result.
        """
        return self._site.parent_to_graph_input_index(idx)

    def subgraph_out_to_op_out_index(self, idx: int) -> int:
        """Return the op's output index of a graph output.

        Args:
            idx: number of the input or output.

        Returns:
            The result.
        """
        return self._site.graph_to_parent_output_index(idx)

    def op_out_to_subgraph_out_index(self, idx: int) -> int:
        """Return the graph's output index of an op output.

        Args:
            idx: number of the input or output.

        Returns:
            The result.
        """
        return self._site.parent_to_graph_output_index(idx)

    def subgraph_to_op_tensor(self, subgraph_tensor: Tensor) -> Tensor:
        """Return the parent tensor of a graph input or output.

        Args:
            subgraph_tensor: tensor of the called graph.

        Returns:
            The result.
        """
        return self._site.graph_to_parent(subgraph_tensor)

    def op_in_to_subgraph_in_tensor(self, parent_tensor: Tensor) -> Tensor:
        """Return the graph input that a parent tensor is connected to.

        Args:
            parent_tensor: tensor of the calling graph.

        Returns:
            The result.
        """
        return self._site.parent_to_graph(parent_tensor)

    def get_op_input_tensor(self, idx: int) -> Tensor:
        """Return the tensor at an input of the op.

        Args:
            idx: number of the input or output.

        Returns:
            The result.
        """
        return self._site.parent_input(idx)

    def get_op_output_tensor(self, idx: int) -> Tensor:
        """Return the tensor at an output of the op.

        Args:
            idx: number of the input or output.

        Returns:
            The result.
        """
        return self._site.parent_output(idx)

    def get_input_tensors(self) -> tuple[Tensor, ...]:
        """Return the connected tensors."""
        return self._site.inputs

    def get_output_tensors(self) -> tuple[Tensor, ...]:
        """Return the results."""
        return self._site.outputs

    def set_op_input_modified(self, op_tensor: Tensor) -> None:
        """Declare that the call changes an input, because ops of the graph do.

        Args:
            op_tensor: input of the call.
        """
        self._site.set_parent_input_modified(op_tensor, infer_modified_regions=True)


def _checked(subgraph: Graph, inputs: tuple[Any, ...], mapping: Mapping[Tensor, Tensor] | None, check: bool) -> None:
    for value in [*inputs, *(mapping or {}).values()]:
        if not isinstance(value, Tensor):
            raise TypeError(f"Inputs of a call must be tensors: got {type(value).__name__}.")
    given = len(inputs) + len(mapping or {})
    if check and given != len(subgraph.inputs):
        raise ValueError(f"{subgraph!r} has {len(subgraph.inputs)} inputs: got {given}.")


def _result(outputs: tuple[Tensor, ...]) -> Result:
    if not outputs:
        return None
    return outputs[0] if len(outputs) == 1 else outputs


def call(
    subgraph: Graph, *subgraph_fn_param_inputs: Tensor, subgraph_in_to_parent_in: Mapping[Tensor, Tensor] | None = None
) -> Result:
    """Call a graph.

    Args:
        subgraph: graph to call.
        *subgraph_fn_param_inputs: values of the first graph inputs.
        subgraph_in_to_parent_in: graph input → value, for the others.

    Returns:
        None, one tensor, or a tuple, by the number of outputs.
    """
    info = call_with_info(subgraph, *subgraph_fn_param_inputs, subgraph_in_to_parent_in=subgraph_in_to_parent_in)
    return _result(info.get_output_tensors())


def call_with_info(
    subgraph: Graph,
    *inputs: Tensor,
    subgraph_in_to_parent_in: Mapping[Tensor, Tensor] | None = None,
    check_inputs: bool = True,
) -> CallInfo:
    """As `call`, returning the description of the call site.

    Args:
        subgraph: the graph to call.
        *inputs: values of inputs, by position.
        subgraph_in_to_parent_in: graph input → value.
        check_inputs: check shapes and element types of the inputs.

    Returns:
        The call site.

    Raises:
        ValueError: the number of inputs differs.
    """
    _checked(subgraph, inputs, subgraph_in_to_parent_in, check_inputs)
    return CallInfo(_call_with_info(subgraph, *inputs, inputs_dict=subgraph_in_to_parent_in, check_inputs=check_inputs))


def repeat(
    repeat_subgraph: Graph,
    repeat_trip_count: int,
    *inputs: Tensor,
    subgraph_in_to_parent_in: dict[Tensor, Tensor] | None = None,
) -> Result:
    """Run a graph repeatedly; every input is carried.

    Args:
        repeat_subgraph: body with as many inputs as outputs.
        repeat_trip_count: number of iterations, above 1.
        *inputs: initial values.
        subgraph_in_to_parent_in: graph input → initial value, for the others; in-place changes by the body change the
            caller's tensor.

    Returns:
        The outputs after the last iteration: one tensor, or a tuple.

    Raises:
        ValueError: the count is below 2, or the numbers of inputs and outputs differ.
    """
    if repeat_trip_count <= 1:
        raise ValueError(f"repeat_trip_count: got {repeat_trip_count}, expected more than 1.")
    if len(repeat_subgraph.inputs) != len(repeat_subgraph.outputs):
        raise ValueError(
            f"repeat: {repeat_subgraph!r} has {len(repeat_subgraph.inputs)} inputs and "
            f"{len(repeat_subgraph.outputs)} outputs; the numbers must be equal."
        )
    _checked(repeat_subgraph, inputs, subgraph_in_to_parent_in, True)
    site = _repeat_with_info(repeat_subgraph, repeat_trip_count, *inputs, inputs_dict=subgraph_in_to_parent_in)
    _mark_modified(site, repeat_subgraph, subgraph_in_to_parent_in or {})
    return _result(site.outputs)


def _mark_modified(site: CallSiteInfo, body: Graph, given: Mapping[Tensor, Tensor]) -> None:
    """Declare that a loop changes those of the given inputs that its body changes in place."""
    changed = changed_inputs(body)
    (call,) = site.called_graph._pb_graph.getOps()
    for index, graph_input in enumerate(body.inputs):
        if index in changed and graph_input in given:
            call.addModified(index)
            site._op.addModified(site.called_graph._pb_graph.inputIndex(call.inTensor(index)))
