"""Loops and branches over graphs."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from popart_core import popart_exception

from popxl import dtypes
from popxl.context import get_current_graph
from popxl.ops.call import CallSiteInfo, _connect_inputs, _create, _modified_inputs, _SiteInfo
from popxl.ops.utils import check_in_graph
from popxl.tensor import Tensor, TensorLike

if TYPE_CHECKING:
    from popxl.graph import Graph


class LoopSiteInfo(CallSiteInfo):
    """Call site of a repeat. The called graph is a wrapper of the body; op inputs 0 and 1 are not connected."""

    _first_input = 2
    _first_output = 1


def repeat(
    graph: "Graph",
    repeat_count: int,
    *inputs: TensorLike | Iterable[TensorLike],
    inputs_dict: Mapping[Tensor, TensorLike] | None = None,
) -> tuple[Tensor, ...]:
    """Run a graph repeatedly.

    Output i of one iteration is input i of the next; inputs beyond the outputs stay the same.

    Args:
        graph: body; its first inputs match its outputs.
        repeat_count: number of iterations; 0 returns the initial values.
        *inputs: as in `call`.
        inputs_dict: as in `call`.

    Returns:
        The carried values after the last iteration.

    Raises:
        ValueError: negative count, fewer inputs than outputs, or as `call`.
    """
    return repeat_with_info(graph, repeat_count, *inputs, inputs_dict=inputs_dict).outputs


def repeat_with_info(
    graph: "Graph",
    repeat_count: int,
    *inputs: TensorLike | Iterable[TensorLike],
    inputs_dict: Mapping[Tensor, TensorLike] | None = None,
    check_inputs: bool = True,
) -> CallSiteInfo:
    """Run a graph as `repeat` does, and return the description of the call site.

    Args:
        graph: the graph to call.
        repeat_count: number of iterations.
        *inputs: values of the inputs, by position.
        inputs_dict: graph input → value.
        check_inputs: raise an error for missing inputs; otherwise they may be connected until a session is made.

    Returns:
        The call site; its called graph is a wrapper around the body.

    Raises:
        ValueError: as `repeat`.
    """
    if repeat_count < 0:
        raise ValueError(f"repeat_count: got {repeat_count}, expected 0 or more.")
    if len(graph.inputs) < len(graph.outputs):
        raise ValueError(
            f"repeat: {graph!r} has {len(graph.inputs)} inputs, fewer than its {len(graph.outputs)} outputs."
        )
    parent = get_current_graph()
    ir = parent.ir
    given = _connect_inputs(graph, inputs, inputs_dict, check_inputs)
    tensors = [given.get(i) for i in range(len(graph.inputs))]
    modified = _modified_inputs(graph, tensors)
    wrapper = ir._new_graph(f"{graph.id}__loop_wrapper")
    output_ids = []
    with wrapper:
        pb = wrapper._pb_graph
        pb.addInput(pb.addScope("Iterator___"), dtypes.int32._core, [], [], False)
        condition = pb.addInput(pb.addScope("LoopCond___"), dtypes.bool._core, [], [], False)
        body_inputs = []
        for graph_input, tensor in zip(graph.inputs, tensors):
            name = (graph_input if tensor is None else tensor).name
            made = pb.addInput(pb.uniqueId(name), graph_input.dtype._core, list(graph_input.shape), [], False)
            body_inputs.append(ir._tensor(wrapper, made))
        inner_ids = []
        for out in graph.outputs:
            inner_ids.append(f"{pb.addScope(out.name)}__t{ir._pb_ir.getAndIncrTensorCounter()}")
            output_ids.append(f"{parent._pb_graph.addScope(out.name)}__t{ir._pb_ir.getAndIncrTensorCounter()}")
        label = f"{wrapper.name}--call--{graph.name}"
        attributes = {"callee": graph.id, "modified": modified}
        _create("Call", label, body_inputs, inner_ids, attributes)
        pb.markAsOutput(condition.id)
        for inner in inner_ids:
            pb.markAsOutput(inner)
    op = _create(
        "Loop",
        f"{parent.name}--loop--{graph.name}",
        [None, None, *tensors],
        output_ids,
        {
            "body": wrapper.id,
            "trip_count": repeat_count,
            "carried": len(output_ids),
            "modified": [i + 2 for i in modified],
        },
    )
    return LoopSiteInfo(op, wrapper, parent)


class ConditionalSiteInfo(_SiteInfo):
    """Maps between the tensors of the two branches and the tensors of an If op.

    The op's inputs are the condition, the inputs of the then branch, the inputs of the else branch.
    """

    def __init__(self, op: Any, then_branch: "Graph", else_branch: "Graph", parent: "Graph") -> None:
        super().__init__(op, parent)
        self._then, self._else = then_branch, else_branch

    @property
    def called_graph(self) -> tuple["Graph", "Graph"]:
        """(then branch, else branch)."""
        return (self._then, self._else)

    def graph_to_parent_input_index(self, idx: int, then_branch: bool = True) -> int:
        """Return the op's input index of input `idx` of a branch.

        Returns:
            The index.

        Raises:
            IndexError: the branch has no such input.
        """
        count = len((self._then if then_branch else self._else).inputs)
        if not 0 <= idx < count:
            raise IndexError(f"The branch has no input {idx}; it has {count}.")
        return 1 + idx + (0 if then_branch else len(self._then.inputs))

    def is_parent_index_in_then_branch(self, idx: int) -> bool:
        """Whether input `idx` of the op belongs to the then branch.

        Returns:
            True for the then branch, False for the else branch.

        Raises:
            IndexError: the op has no such branch input.
        """
        if not 1 <= idx <= len(self._then.inputs) + len(self._else.inputs):
            raise IndexError(f"The op has no branch input {idx}.")
        return idx <= len(self._then.inputs)

    def parent_to_graph_input_index(self, idx: int) -> int:
        """Return the branch's input index of input `idx` of the op."""
        return idx - 1 - (0 if self.is_parent_index_in_then_branch(idx) else len(self._then.inputs))

    def graph_to_parent_output_index(self, idx: int, then_branch: bool = True) -> int:
        """Return the op's output index of output `idx` of a branch.

        Raises:
            IndexError: there is no such output.
        """
        if not 0 <= idx < len(self._then.outputs):
            raise IndexError(f"The branches have no output {idx}.")
        return idx

    def parent_to_graph_output_index(self, idx: int, then_branch: bool = True) -> int:
        """Return the branch's output index of output `idx` of the op."""
        return self.graph_to_parent_output_index(idx, then_branch)

    def graph_to_parent(self, graph_tensor: Tensor) -> Tensor:
        """Return the parent tensor of an input or output of one of the branches.

        Args:
            graph_tensor: tensor of a branch.

        Returns:
            The input or output of the op.

        Raises:
            ValueError: the tensor is neither input nor output of a branch.
        """
        for branch in (self._then, self._else):
            if graph_tensor not in branch:
                continue
            graph, tensor = branch._pb_graph, graph_tensor._pb_tensor
            if (i := graph.inputIndex(tensor)) >= 0:
                return self.parent_input(self.graph_to_parent_input_index(i, branch is self._then))
            if (i := graph.outputIndex(tensor)) >= 0:
                return self.parent_output(i)
        raise ValueError(f"Tensor {graph_tensor} is neither input nor output of {self._then!r} or {self._else!r}.")

    def parent_to_graph(self, parent_tensor: Tensor) -> Tensor:
        """Return the input of a branch that a parent tensor is connected to (the first one).

        Args:
            parent_tensor: tensor of the graph of the conditional.

        Returns:
            Input of the then branch, or of the else branch if only that one has the tensor.

        Raises:
            ValueError: the tensor is not an input of a branch.
        """
        index = self._input_index(parent_tensor)
        if index == 0:
            raise ValueError(f"Tensor {parent_tensor} is the condition of {self._op.debugName()}: no branch gets it.")
        branch = self._then if self.is_parent_index_in_then_branch(index) else self._else
        return branch.inputs[self.parent_to_graph_input_index(index)]

    def set_parent_input_modified(self, *args: Any, **kwargs: Any) -> None:
        """Not possible for branches.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("Inputs of a conditional cannot be modified in place.")


def conditional(
    cond: Tensor,
    then_branch: "Graph",
    else_branch: "Graph",
    then_inputs: Iterable[TensorLike] | None = None,
    else_inputs: Iterable[TensorLike] | None = None,
    then_inputs_dict: Mapping[Tensor, TensorLike] | None = None,
    else_inputs_dict: Mapping[Tensor, TensorLike] | None = None,
) -> tuple[Tensor, ...]:
    """Run one of two graphs.

    Args:
        cond: scalar bool tensor.
        then_branch: graph to run when it is true.
        else_branch: graph to run when it is false; same number, shapes and dtypes of outputs.
        then_inputs: inputs of the then branch by position.
        else_inputs: inputs of the else branch by position.
        then_inputs_dict: inputs of the then branch by graph tensor.
        else_inputs_dict: inputs of the else branch by graph tensor.

    Returns:
        The outputs of the branch that ran (ONNX If-16).

    Raises:
        ValueError: the numbers of outputs differ, or as `call`.
        NotImplementedError: a branch has by-ref inputs.
        popart_exception: shapes or dtypes differ, or cond is not a bool.
    """
    return conditional_with_info(
        cond, then_branch, else_branch, then_inputs, else_inputs, then_inputs_dict, else_inputs_dict
    ).outputs


def conditional_with_info(
    cond: Tensor,
    then_branch: "Graph",
    else_branch: "Graph",
    then_inputs: Iterable[TensorLike] | None = None,
    else_inputs: Iterable[TensorLike] | None = None,
    then_inputs_dict: Mapping[Tensor, TensorLike] | None = None,
    else_inputs_dict: Mapping[Tensor, TensorLike] | None = None,
    check_inputs: bool = True,
) -> ConditionalSiteInfo:
    """Run one of two graphs as `conditional` does, and return the description of the call site.

    Args:
        cond: boolean scalar.
        then_branch: graph of the true case.
        else_branch: graph of the false case.
        then_inputs: values of inputs of the true case, by position.
        else_inputs: values of inputs of the false case, by position.
        then_inputs_dict: graph input → value, true case.
        else_inputs_dict: graph input → value, false case.
        check_inputs: raise an error for missing inputs; otherwise they may be connected until a session is made.

    Returns:
        The call site.

    Raises:
        ValueError: as `conditional`.
        NotImplementedError: as `conditional`.
        popart_exception: as `conditional`.
    """
    parent = get_current_graph()
    check_in_graph(parent, cond=cond)
    if cond.dtype != dtypes.bool:
        raise popart_exception(f"conditional: '{cond.name}' must be a bool: got {cond.dtype}. Cast it first.")
    if len(then_branch.outputs) != len(else_branch.outputs):
        raise ValueError(
            f"The branches have different numbers of outputs: {len(then_branch.outputs)} and "
            f"{len(else_branch.outputs)}."
        )
    if then_branch._by_ref_inputs or else_branch._by_ref_inputs:
        raise NotImplementedError("Branches of a conditional cannot have TensorByRef inputs.")
    then_given = _connect_inputs(then_branch, then_inputs or (), then_inputs_dict, check_inputs)
    else_given = _connect_inputs(else_branch, else_inputs or (), else_inputs_dict, check_inputs)
    tensors = [cond]
    for branch, given in ((then_branch, then_given), (else_branch, else_given)):
        tensors += [given.get(i) for i in range(len(branch.inputs))]
    names = (f"{t.name}_or_{e.name}" for t, e in zip(then_branch.outputs, else_branch.outputs))
    output_ids = parent._create_tensor_ids(names)
    attributes = {"then_branch": then_branch.id, "else_branch": else_branch.id}
    op = _create("If", f"{parent.name}--if", tensors, output_ids, attributes)
    return ConditionalSiteInfo(op, then_branch, else_branch, parent)
