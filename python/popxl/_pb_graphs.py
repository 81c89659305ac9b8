"""Members of the core's graphs, ops and tensors that programs use besides those that the core has itself.

They are attached to the core's classes, as those of `popxl._pb_session` are.
"""

from typing import Any

from popart_core import _ir as _core
from popart_core import popart_exception

_CALLS = ("Call", "Loop")
_LOOP_INPUTS = 2  # iteration and condition


# ---- graphs
def _index(ids: list[str], tensor_id: str, what: str, graph: Any) -> int:
    if tensor_id not in ids:
        raise popart_exception(f"graph '{graph.id}': '{tensor_id}' is no {what}: expected one of {ids}.")
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


# ---- ops
def _require(op: Any, types: tuple[str, ...], member: str) -> None:
    if op.opType() not in types:
        raise AttributeError(f"{op.debugName()} has no {member}: expected an op of type {' or '.join(types)}.")


def _in_index(self: Any, tensor: Any) -> int:
    """Return the first input that is this tensor."""
    for i, tensor_id in self.getInputIndexMap().items():
        if tensor_id == tensor.id:
            return i
    raise popart_exception(f"{self.debugName()}: '{tensor.id}' is none of its inputs {self.getInputIds()}.")


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
    """Return the number on the other side of a call: operands stand in the order of the called graph's inputs."""
    _require(self, _CALLS, "opInToSubgraphInIndex and subgraphInToOpInIndex")
    return index


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


_core.Graph.getInputIndex = _get_input_index
_core.Graph.getOutputIndex = _get_output_index
_core.Graph.eraseOp = _erase_op
_core.Graph.setCanBeRecursivelyAutodiffed = _set_can_be_recursively_autodiffed
_core.Graph.getCanBeRecursivelyAutodiffed = _get_can_be_recursively_autodiffed
_core.Op.inIndex = _in_index
_core.Op.getCalledGraph = _get_called_graph
_core.Op.getTripCountValue = _get_trip_count_value
_core.Op.getNumExplicitInputs = _get_num_explicit_inputs
_core.Op.opInToSubgraphInIndex = _same_index
_core.Op.subgraphInToOpInIndex = _same_index
_core.Op.getSourceIpu = _get_source_ipu
_core.Op.setAvailableMemoryProportion = _set_available_memory_proportion
_core.Op.getAvailableMemoryProportion = _get_available_memory_proportion
_core.Op.setConvOptions = _set_conv_options
_core.Op.getConvOptions = _get_conv_options
_core.Op.setUseFullyConnectedPass = _set_use_fully_connected_pass
_core.Op.useFullyConnectedPass = _use_fully_connected_pass
_core.Tensor.consumers = property(Consumers, doc="The ops that read the tensor.")
