"""Calling graphs: `call`, `call_with_info` and the description of a call site."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from popart_core import popart_exception

from popxl.context import get_current_context, get_current_graph
from popxl.ops.utils import check_in_graph
from popxl.tensor import Constant, HostScalarTensor, Tensor, TensorLike, _is_torch, constant
from popxl.utils import table_to_string

if TYPE_CHECKING:
    from popxl.graph import Graph


class _SiteInfo:
    """An op that calls graphs, described from the graph that contains it."""

    def __init__(self, op: Any, parent: "Graph") -> None:
        self._site = op
        self._site_id = op.id
        self._parent = parent

    @property
    def _op(self) -> Any:
        """The op.

        Raises:
            RuntimeError: a transform has moved it into another graph.
        """
        if self._site_id in self._parent._erased_ops:
            raise RuntimeError(
                f"A call in {self._parent!r} was moved into another graph by a transform: its call site is gone. Ask "
                "for its tensors before the transform."
            )
        return self._site

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Tensors connected to the op, in order."""
        return tuple(self._parent.get_tensor(i) for i in self._op.getInputIds())

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """Results of the op, in order."""
        return tuple(self._parent.get_tensor(i) for i in self._op.getOutputIds())

    def parent_input(self, idx: int) -> Tensor:
        """Return the tensor at input `idx` of the op.

        Raises:
            IndexError: no tensor is connected there.
        """
        if not (0 <= idx < self._op.inputCount() and self._op.hasInput(idx)):
            raise IndexError(
                f"{self._op.debugName()} has no input {idx}: it has {sorted(self._op.getInputIndexMap())}."
            )
        return self._parent.get_tensor(self._op.inId(idx))

    def parent_output(self, idx: int) -> Tensor:
        """Return the tensor at output `idx` of the op.

        Raises:
            IndexError: there is no such output.
        """
        if not 0 <= idx < self._op.outputCount():
            raise IndexError(f"{self._op.debugName()} has no output {idx}: it has {self._op.outputCount()}.")
        return self._parent.get_tensor(self._op.outId(idx))

    def _input_index(self, parent_tensor: Tensor) -> int:
        """Return the first input of the op that a tensor of the parent graph is connected to.

        Raises:
            ValueError: it is not connected to the op.
        """
        for index, tensor_id in self._op.getInputIndexMap().items():
            if tensor_id == parent_tensor.id:
                return index
        raise ValueError(f"Tensor {parent_tensor} is not an input of {self._op.debugName()}.")


class CallSiteInfo(_SiteInfo):
    """Maps between the tensors of a called graph and those at one call site: the call `op` in the graph `parent`."""

    _first_input = 0  # op index of the first graph input
    _first_output = 0  # graph index of the op's first output

    def __init__(self, op: Any, called: "Graph", parent: "Graph") -> None:
        super().__init__(op, parent)
        self._called = called

    @property
    def called_graph(self) -> "Graph":
        """The graph that is called."""
        return self._called

    def graph_to_parent_input_index(self, idx: int) -> int:
        """Return the op's input index of input `idx` of the called graph."""
        return idx

    def parent_to_graph_input_index(self, idx: int) -> int:
        """Return the graph's input index of input `idx` of the op."""
        return idx

    def graph_to_parent_output_index(self, idx: int) -> int:
        """Return the op's output index of output `idx` of the called graph."""
        return idx - self._first_output

    def parent_to_graph_output_index(self, idx: int) -> int:
        """Return the graph's output index of output `idx` of the op."""
        return idx + self._first_output

    def graph_to_parent(self, graph_tensor: Tensor) -> Tensor:
        """Return the parent tensor of an input or output of the called graph.

        Args:
            graph_tensor: tensor of the called graph.

        Returns:
            The result.

        Raises:
            ValueError: the tensor is neither input nor output.
        """
        if graph_tensor in self._called:
            called, tensor = self._called._pb_graph, graph_tensor._pb_tensor
            i = called.inputIndex(tensor)
            if i >= 0 and self._op.hasInput(i):
                return self.parent_input(i)
            i = called.outputIndex(tensor)
            if i >= self._first_output:
                return self.parent_output(i - self._first_output)
        raise ValueError(f"Tensor {graph_tensor} is neither input nor output of {self._called!r}.")

    def parent_to_graph(self, parent_tensor: Tensor) -> Tensor:
        """Return the input of the called graph that a parent tensor is connected to (the first one).

        Args:
            parent_tensor: tensor of the calling graph.

        Returns:
            The result.

        Raises:
            ValueError: the tensor is not an input of the call.
        """
        return self._called.inputs[self._input_index(parent_tensor)]

    def _mark_recomputed(self) -> None:
        """Mark the call as recomputation of another call; the two calls are never merged."""
        self._op.setRecomputed()

    def set_parent_input_modified(self, parent_tensor: Tensor, infer_modified_regions: bool = False) -> None:
        """Declare that the call changes an input in place.

        Args:
            parent_tensor: an input of the call; for a tensor connected several times, the first input is marked.
            infer_modified_regions: mark only when the called graph changes the tensor.

        Raises:
            BuildError: a Session exists for the program.
            ValueError: the tensor is not an input of the call.
        """
        parent_tensor.ir._check_open("its calls")
        index = self._input_index(parent_tensor)
        if infer_modified_regions and index not in changed_inputs(self._called):
            return
        self._op.addModified(index)


def changed_inputs(graph: "Graph") -> set[int]:
    """Return the numbers of the inputs whose memory ops of `graph` modify, directly or through aliases."""
    inputs_of: dict[str, set[int]] = {tensor: {i} for i, tensor in enumerate(graph._pb_graph.getInputIds())}
    changed: set[int] = set()
    for op in graph._pb_graph.getOps():
        modified = set(op.getModified())
        for i, tensor_id in op.getInputIndexMap().items():
            if tensor_id not in inputs_of:
                continue
            if op.modifiesInput(i) or i in modified:
                changed |= inputs_of[tensor_id]
            for o, out in op.getOutputIndexMap().items():
                if op.aliasesInput(i, o):
                    inputs_of[out] = inputs_of.get(out, set()) | inputs_of[tensor_id]
    return changed


def _flatten(inputs: Iterable[Any]) -> list[TensorLike]:
    result: list[TensorLike] = []
    for value in inputs:
        if isinstance(value, (Tensor, str)) or not hasattr(value, "__iter__") or _is_scalar_array(value):
            result.append(value)
        else:
            result.extend(value)
    return result


def _is_scalar_array(value: Any) -> bool:
    return (isinstance(value, np.ndarray) or _is_torch(value)) and value.ndim == 0


def _to_parent_tensor(graph_tensor: Tensor, value: Tensor | HostScalarTensor) -> Tensor:
    if isinstance(value, Tensor):
        return value
    try:
        data = np.asarray(value.detach().cpu().numpy() if _is_torch(value) else value)
        if data.size == 0 or data.dtype == object or data.dtype.kind in "US":
            raise TypeError("no numbers")
        return constant(data, graph_tensor.dtype)
    except (TypeError, ValueError) as e:
        raise TypeError(f"Input {graph_tensor} of the graph: cannot make a constant from {value!r}.") from e


def _connect_inputs(
    graph: "Graph",
    inputs: Iterable[Any],
    inputs_dict: Mapping[Tensor, TensorLike] | None,
    check_inputs: bool,
    skip: int = 0,
) -> dict[int, Tensor]:
    """Return graph input index → parent tensor.

    Raises:
        ValueError: too many, repeated, missing or foreign inputs.
        TypeError: a value cannot become a constant.
    """
    current = get_current_graph()
    graph_inputs = graph.inputs[skip:]
    positional = _flatten(inputs)
    if len(positional) > len(graph_inputs):
        raise ValueError(f"Too many inputs for {graph!r}: got {len(positional)}, expected at most {len(graph_inputs)}.")
    given: dict[int, Tensor] = {}
    for i, value in enumerate(positional):
        given[i] = _to_parent_tensor(graph_inputs[i], value)
    positions = {t: i for i, t in enumerate(graph_inputs)}
    for graph_tensor, value in (inputs_dict or {}).items():
        if graph_tensor not in positions:
            raise ValueError(f"Tensor {graph_tensor} in inputs_dict is not an input of {graph!r}.")
        index = positions[graph_tensor]
        if index in given:
            raise ValueError(f"Input {graph_tensor} of {graph!r} is given twice: by position and in inputs_dict.")
        given[index] = _to_parent_tensor(graph_tensor, value)
    for index, tensor in given.items():
        check_in_graph(current, **{graph_inputs[index].name: tensor})
    if check_inputs and len(given) != len(graph_inputs):
        raise ValueError(_missing_message(graph, graph_inputs, given))
    return given


def _missing_message(graph: "Graph", graph_inputs: tuple[Tensor, ...], given: dict[int, Tensor]) -> str:
    missing = [(i, t) for i, t in enumerate(graph_inputs) if i not in given]
    connected = [(i, graph_inputs[i], t) for i, t in sorted(given.items())]
    return (
        f"Not enough inputs for {graph!r}: {len(missing)} of {len(graph_inputs)} are missing.\n"
        "Missing inputs:\n" + table_to_string([("Index", "Graph tensor"), *missing]) + "\n"
        "Connected inputs:\n" + table_to_string([("Index", "Graph tensor", "Parent tensor"), *connected])
    )


def _modified_inputs(graph: "Graph", tensors: Sequence[Tensor | None]) -> list[int]:
    """Return the numbers of the by-ref inputs of `graph`.

    Raises:
        popart_exception: a constant would be changed.
    """
    modified = [i for i, t in enumerate(graph.inputs) if t in graph._by_ref_inputs]
    for i in modified:
        if isinstance(tensors[i], Constant):
            raise popart_exception(
                f"{graph!r} changes its input {graph.inputs[i]}: got the constant {tensors[i]}, expected a variable or "
                "the result of an op."
            )
    return modified


def _create(
    op_type: str, label: str, inputs: list[Tensor | None], output_ids: list[str], attributes: dict[str, Any]
) -> Any:
    ctx = get_current_context()
    op = ctx.graph._create_op(
        op_type, [None if t is None else t.id for t in inputs], output_ids, attributes, ctx._get_op_settings(label)
    )
    ctx._op_created(op)
    return op


def call(
    graph: "Graph", *inputs: TensorLike | Iterable[TensorLike], inputs_dict: Mapping[Tensor, TensorLike] | None = None
) -> tuple[Tensor, ...]:
    """Call a graph.

    Args:
        graph: graph to call.
        *inputs: values of the first graph inputs; lists are flattened, other values become constants.
        inputs_dict: graph input → value, for inputs not given by position.

    Returns:
        One tensor per graph output.

    Raises:
        ValueError: too many, repeated, missing or foreign inputs.
        TypeError: a value cannot become a constant.
        popart_exception: shapes or dtypes differ.
    """
    return call_with_info(graph, *inputs, inputs_dict=inputs_dict).outputs


def call_with_info(
    graph: "Graph",
    *inputs: TensorLike | Iterable[TensorLike],
    inputs_dict: Mapping[Tensor, TensorLike] | None = None,
    check_inputs: bool = True,
) -> CallSiteInfo:
    """Call a graph as `call` does, and return the description of the call site.

    Args:
        graph: graph to call.
        *inputs: as in `call`.
        inputs_dict: as in `call`.
        check_inputs: raise an error for missing inputs; otherwise they may be connected until a session is made.

    Returns:
        The call site.

    Raises:
        ValueError: as `call`; missing inputs only with `check_inputs`.
        TypeError: as `call`.
        popart_exception: as `call`, or a constant is given to a by-ref input.
    """
    parent = get_current_graph()
    given = _connect_inputs(graph, inputs, inputs_dict, check_inputs)
    tensors = [given.get(i) for i in range(len(graph.inputs))]
    output_ids = parent._create_tensor_ids(t.name for t in graph.outputs)
    modified = _modified_inputs(graph, tensors)
    label = f"{parent.name}--call--{graph.name}"
    op = _create("Call", label, tensors, output_ids, {"callee": graph.id, "modified": modified})
    return CallSiteInfo(op, graph, parent)
