"""Members of the core's graphs, ops and tensors that programs use in addition to those of the compiled classes.

They are attached to the core's classes, like those of programs (`programs.py`). They read the core's objects, and edit
them with functions of the core. Any use of an op, tensor or graph that was erased raises `popart_exception`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from popart_core import DataType, _TensorInfoCore, popart_exception
from popart_core import _ir as _core

from popart._internal.ir.view import Region
from popart._names import nearest_names

_CALLS = ("Call", "Loop")
_LOOP_INPUTS = 2  # iteration and condition


# ---- graphs
def _index(ids: list[str], tensor_id: str, what: str, graph: Any) -> int:
    if tensor_id not in ids:
        near = nearest_names(tensor_id, ids)
        raise popart_exception(f"graph '{graph.id}': '{tensor_id}' is not an {what}: expected one of {ids}{near}.")
    return ids.index(tensor_id)


def _get_input_index(self: Any, tensor_id: str) -> int:
    """Return the number of an input."""
    return _index(self.getInputIds(), tensor_id, "input", self)


def _get_output_index(self: Any, tensor_id: str) -> int:
    """Return the number of an output."""
    return _index(self.getOutputIds(), tensor_id, "output", self)


def _erase_op(self: Any, op_id: int) -> None:
    """Erase the op with this id; nothing may read what it made."""
    _core.eraseOps(self, {op_id})


def _closed_graphs(ir: Any) -> set[str]:
    if not hasattr(ir, "_closed_graphs"):
        ir._closed_graphs = set()
    return ir._closed_graphs


def _set_can_be_recursively_autodiffed(self: Any, value: bool) -> None:
    """Say whether autodiff of a caller may differentiate the graph; False: it needs the graph's gradient info."""
    change = _closed_graphs(self.getIr()).discard if value else _closed_graphs(self.getIr()).add
    change(self.id)


def _get_can_be_recursively_autodiffed(self: Any) -> bool:
    """Whether autodiff of a caller may differentiate the graph."""
    return self.id not in _closed_graphs(self.getIr())


class TopoCons:
    """The order constraints of a graph that do not follow from its data."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph

    def insert(self, before: Any, after: Any, tied: bool = False) -> None:
        """Require that one op runs before another.

        Args:
            before: op of the graph.
            after: op of the graph.
            tied: accepted without effect: the scheduler decides which ops run next to each other.

        Raises:
            popart_exception: an op of another graph, or the same op twice.
        """
        self._check(before, after)
        if before.id == after.id:
            raise popart_exception(f"topoCons.insert: {before.debugName()} cannot run before itself.")
        if not self.contains(before, after):
            self._graph.addConstraint(before.id, after.id)

    def contains(self, before: Any, after: Any) -> bool:
        """Whether this constraint exists."""
        return (before.id, after.id) in _core.constraints(self._graph)

    def getBefores(self, op: Any) -> list[Any]:
        """Return the ops that constraints require before an op."""
        return self._ops({before for before, after in _core.constraints(self._graph) if after == op.id})

    def getAfters(self, op: Any) -> list[Any]:
        """Return the ops that constraints require after an op."""
        return self._ops({after for before, after in _core.constraints(self._graph) if before == op.id})

    def transferToSubgraph(self, replacement: Any, op_map: Mapping[Any, Any], removeOld: bool = True) -> None:
        """Transfer the constraints of ops that moved into a called graph to their copies and to the call.

        Args:
            replacement: op of this graph that calls the other one.
            op_map: op of this graph → its copy, or its copies, in the called graph.
            removeOld: remove the constraints of the ops of this graph.

        Raises:
            popart_exception: an op of another graph.
        """
        self._check(replacement, *op_map)
        copies = {op.id: list(to) if isinstance(to, Iterable) else [to] for op, to in op_map.items()}
        for before, after in _core.constraints(self._graph):
            if before in copies and after in copies:
                for a, b in zip(copies[before], copies[after], strict=True):
                    a.getGraph().topoCons.insert(a, b)
            elif not removeOld and (before in copies or after in copies):
                self._graph.addConstraint(
                    replacement.id if before in copies else before, replacement.id if after in copies else after
                )
        for op in copies if removeOld else ():
            _core.moveConstraints(self._graph, op, replacement.id)

    def _ops(self, ids: set[int]) -> list[Any]:
        return [self._graph.getOp(i) for i in sorted(ids)]

    def _check(self, *ops: Any) -> None:
        for op in ops:
            if op.getGraph() != self._graph:
                raise popart_exception(
                    f"topoCons of graph '{self._graph.id}': {op.debugName()} belongs to graph '{op.getGraph().id}'."
                )


# ---- ops
def _require(op: Any, types: tuple[str, ...], member: str) -> None:
    if op.opType() not in types:
        raise AttributeError(f"{op.debugName()} has no {member}: expected an op of type {' or '.join(types)}.")


def _first(op: Any, indices: Mapping[int, str], tensor: Any, what: str) -> int:
    for i, tensor_id in indices.items():
        if tensor_id == tensor.id:
            return i
    raise popart_exception(f"{op.debugName()}: '{tensor.id}' is none of its {what} {list(indices.values())}.")


def _in_index(self: Any, tensor: Any) -> int:
    """Return the first input that is this tensor."""
    return _first(self, self.getInputIndexMap(), tensor, "inputs")


def _out_index(self: Any, tensor: Any) -> int:
    """Return the output that is this tensor."""
    return _first(self, self.getOutputIndexMap(), tensor, "outputs")


def _has_input_tensor(self: Any, tensor: Any) -> bool:
    """Whether an input is this tensor, given as a tensor, as its id or as the number of the input."""
    if isinstance(tensor, int):
        return self.hasInput(tensor)
    return getattr(tensor, "id", tensor) in self.getInputIds()


_add_modified_input = _core.Op.addModified


def _add_modified(self: Any, index: int, regions: Iterable[Region] | None = None) -> None:
    """Declare that a call or loop changes an input; if regions are given, only if one of them is not empty."""
    _require(self, _CALLS, "addModified")
    if not self.hasInput(index):
        raise popart_exception(f"{self.debugName()}: addModified: it has no input {index}.")
    if regions is None or any(not region.isEmpty() for region in regions):
        _add_modified_input(self, index)


def _get_called_graph(self: Any) -> Any:
    """Return the graph that a call or loop runs."""
    _require(self, _CALLS, "getCalledGraph")
    return self.getCalledGraphs()[0]


def _get_trip_count_value(self: Any) -> int:
    """Return the number of iterations of a loop."""
    _require(self, ("Loop",), "getTripCountValue")
    return self.attributes()["trip_count"]


def _get_num_explicit_inputs(self: Any) -> int:
    """Return the inputs of a loop that are not the same in every iteration."""
    _require(self, ("Loop",), "getNumExplicitInputs")
    return _LOOP_INPUTS + self.attributes()["carried"]


def _same_index(self: Any, subgraph: int, index: int) -> int:
    """Return the number on the other side of a call: operands have the order of the called graph's inputs."""
    _require(self, _CALLS, "opInToSubgraphInIndex and subgraphInToOpInIndex")
    return index


def _subgraph_output(self: Any, subgraph: int, index: int) -> int:
    """Return the output of the called graph that is an output of the op; loops do not return the condition."""
    _require(self, _CALLS, "opOutToSubgraphOutIndex")
    return index + (self.opType() == "Loop")


def _op_output(self: Any, subgraph: int, index: int) -> int:
    """Return the output of the op that is an output of the called graph; -1 for the condition of a loop."""
    _require(self, _CALLS, "subgraphOutToOpOutIndex")
    return index - (self.opType() == "Loop")


def _get_source_ipu(self: Any, tensor_id: str | None = None) -> int:
    """Return the IPU that a copy reads from."""
    _require(self, ("IpuCopy",), "getSourceIpu")
    return self.attributes()["source"]


# ---- hints for planned tile memory, kept without effect
class ConvOptions:
    """Hints of a convolution."""

    def __init__(self) -> None:
        self.availableMemoryProportions: list[float] = []


def _hints(op: Any) -> dict[str, Any]:
    ir = op.getGraph().getIr()
    if not hasattr(ir, "_op_hints"):
        ir._op_hints = {}
    return ir._op_hints.setdefault(op.id, {})


def _set_available_memory_proportion(self: Any, value: float) -> None:
    """Set the share of tile memory that the op may use."""
    _hints(self)["proportion"] = value


def _get_available_memory_proportion(self: Any) -> float | None:
    """Return the share of tile memory that the op may use, None unless set."""
    return _hints(self).get("proportion")


def _set_conv_options(self: Any, options: ConvOptions) -> None:
    """Set the hints of a convolution."""
    _hints(self)["convolution"] = options


def _get_conv_options(self: Any) -> ConvOptions:
    """Return the hints of a convolution."""
    return _hints(self).setdefault("convolution", ConvOptions())


def _set_use_fully_connected_pass(self: Any, value: bool) -> None:
    """Say whether the product is planned together with its gradients."""
    _hints(self)["fully connected"] = value


def _use_fully_connected_pass(self: Any) -> bool:
    """Whether the product is planned together with its gradients."""
    return _hints(self).get("fully connected", True)


# ---- tensors
class Consumers:
    """The ops that read a tensor."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def getOps(self) -> list[Any]:
        """Return the ops, each once."""
        return [op for op in self._tensor.getGraph().getOps() if self._tensor.id in op.getInputIds()]

    def getTotal(self) -> int:
        """Return the number of inputs that are this tensor."""
        return sum(op.getInputIds().count(self._tensor.id) for op in self.getOps())


def _info(self: Any) -> _TensorInfoCore:
    """Return type and shape; for a shard also the shape of the whole tensor."""
    shapes = [list(self.shape()), list(self.metaShape())]
    return _TensorInfoCore(DataType(self.dataType()), *shapes[: 2 if shapes[1] else 1])


def _aliases(tensor: Any) -> set[str]:
    """Ids of the tensors of a graph that share memory with one tensor: its views, and the tensors that it views."""
    pairs = [
        (op.inId(i), op.outId(o))
        for op in tensor.getGraph().getOps()
        for i in op.getInputIndexMap()
        for o in op.getOutputIndexMap()
        if op.aliasesInput(i, o)
    ]
    found, waiting = {tensor.id}, [tensor.id]
    while waiting:
        one = waiting.pop()
        fresh = {b if a == one else a for a, b in pairs if one in (a, b)} - found
        found |= fresh
        waiting += fresh
    return found


def _modified_regions_by_ops(self: Any, ops: Iterable[Any], aliases: Any = None) -> list[Region]:
    """Return the parts of a tensor whose memory ops change, through views too: all of it, or none.

    Args:
        self: the tensor.
        ops: ops of the tensor's graph.
        aliases: ignored, the aliases of the graph are used.
    """
    same = _aliases(self)
    changed = any(op.modifiesInput(i) for op in ops for i, tensor in op.getInputIndexMap().items() if tensor in same)
    return [Region.getFull(self.shape())] if changed else []


_MEMBERS = {
    _core.Graph: {
        "getInputIndex": _get_input_index,
        "getOutputIndex": _get_output_index,
        "hasInputId": lambda self, tensor_id: tensor_id in self.getInputIds(),
        "hasOutputId": lambda self, tensor_id: tensor_id in self.getOutputIds(),
        "eraseOp": _erase_op,
        "setCanBeRecursivelyAutodiffed": _set_can_be_recursively_autodiffed,
        "getCanBeRecursivelyAutodiffed": _get_can_be_recursively_autodiffed,
        "topoCons": property(TopoCons, doc="The order constraints that data does not give."),
    },
    _core.Op: {
        "inIndex": _in_index,
        "outIndex": _out_index,
        "hasInputTensor": _has_input_tensor,
        "addModified": _add_modified,
        "getCalledGraph": _get_called_graph,
        "getTripCountValue": _get_trip_count_value,
        "getNumExplicitInputs": _get_num_explicit_inputs,
        "opInToSubgraphInIndex": _same_index,
        "subgraphInToOpInIndex": _same_index,
        "opOutToSubgraphOutIndex": _subgraph_output,
        "subgraphOutToOpOutIndex": _op_output,
        "getSourceIpu": _get_source_ipu,
        "setAvailableMemoryProportion": _set_available_memory_proportion,
        "getAvailableMemoryProportion": _get_available_memory_proportion,
        "setConvOptions": _set_conv_options,
        "getConvOptions": _get_conv_options,
        "setUseFullyConnectedPass": _set_use_fully_connected_pass,
        "useFullyConnectedPass": _use_fully_connected_pass,
    },
    _core.Tensor: {
        "consumers": property(Consumers, doc="The ops that read the tensor."),
        "info": property(_info, doc="Type and shape."),
        "modifiedRegionsByOps": _modified_regions_by_ops,
    },
}
for _class, _members in _MEMBERS.items():
    for _name, _member in _members.items():
        setattr(_class, _name, _member)
