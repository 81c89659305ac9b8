"""The placement of nodes and attributes of single nodes: the part of the Builder that adds no operators."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

import numpy as np
import popart_core


def custom_attribute(name: str, value: Any) -> tuple[str, str, Any]:
    """(name, kind, value) of an attribute; the type of the Python or NumPy value decides the kind."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    elif isinstance(value, list | tuple):
        value = [v.item() if isinstance(v, np.generic) else v for v in value]
    kinds = {str: "string", int: "int", bool: "int", float: "float"}
    if type(value) in kinds:
        return name, kinds[type(value)], value
    if isinstance(value, list):
        if all(isinstance(v, int) for v in value):
            return name, "ints", list(value)
        if all(isinstance(v, float) for v in value):
            return name, "floats", list(value)
        if all(isinstance(v, str) for v in value):
            return name, "strings", list(value)
    raise popart_core.popart_exception(
        f"customOp attribute '{name}': got {value!r}, expected str, int, float, a list of int, of float or of str"
    )


def _names(outputs: str | Iterable[str]) -> set[str]:
    return {outputs} if isinstance(outputs, str) else set(outputs)


_Result = TypeVar("_Result")


def _both_spellings(method: Callable[..., _Result]) -> Callable[..., _Result]:
    """Let a method take one output name or several: the keyword is ``nodeOutputName`` or ``nodeOutputNames``."""

    @wraps(method)
    def either(self: "Placement", *args: Any, **kwargs: Any) -> _Result:
        if "nodeOutputName" in kwargs:
            kwargs["nodeOutputNames"] = kwargs.pop("nodeOutputName")
        return method(self, *args, **kwargs)

    return either


class Placement:
    """Scopes, placement and node attributes for a builder."""

    _core: Any

    # ---- scopes
    @contextmanager
    def nameScope(self, name: str) -> Iterator[None]:
        """Prefix the names of everything that is added inside with ``name/``."""
        self._core.pushNameScope(name)
        try:
            yield
        finally:
            self._core.popNameScope()

    @contextmanager
    def _scoped(self, attribute: str, kind: str, value: Any) -> Iterator[None]:
        previous = self._core.getScopeAttribute(attribute) if self._core.hasScopeAttribute(attribute) else None
        self._core.setScopeAttribute((attribute, kind, value))
        try:
            yield
        finally:
            if previous is None:
                self._core.clearScopeAttribute(attribute)
            else:
                self._core.setScopeAttribute(previous)

    def _place(self, attribute: str, first: Any, value: Any, default: Any) -> Any:
        """Common code of the placement methods: with one argument a scope, with two an attribute of a node."""
        if isinstance(first, str | set | list | tuple):
            self._core.addNodeAttribute(
                (attribute, "int", int(default if value is None else value)), _names(first), True
            )
            return None
        return self._scoped(attribute, "int", int(default if first is None else first))

    def virtualGraph(self, nodeOutputNames: Any = None, value: Any = None) -> Any:
        """Place nodes on an IPU: either the nodes added inside a ``with`` block, or the named ones.

        Args:
            nodeOutputNames: Name, or all names, of the node's results.
            value: Number of the IPU.

        Returns:
            A context manager if no names are given, else None.

        Raises:
            popart_exception: No node has exactly these outputs.
        """
        return self._place("__ipu_number", nodeOutputNames, value, 0)

    def executionPhase(self, nodeOutputNames: Any = None, value: Any = None) -> Any:
        """Put nodes into an execution phase.

        Args:
            nodeOutputNames: Name, or all names, of the node's results.
            value: Number of the phase.

        Returns:
            A context manager for nodes added inside; None when nodes are named.
        """
        return self._place("__execution_phase", nodeOutputNames, value, 0)

    def pipelineStage(self, nodeOutputNames: Any = None, value: Any = None) -> Any:
        """Put nodes into a pipeline stage.

        Args:
            nodeOutputNames: Name, or all names, of the node's results.
            value: Number of the stage.

        Returns:
            A context manager for nodes added inside; None when nodes are named.
        """
        return self._place("__pipeline_stage", nodeOutputNames, value, 0)

    def recomputeOutput(self, nodeOutputNames: Any = None, value: Any = None) -> Any:
        """Say whether outputs are kept or computed again for the backward pass.

        Args:
            nodeOutputNames: Name, or all names, of the node's results.
            value: `RecomputeType`.

        Returns:
            A context manager for nodes added inside; None when nodes are named.
        """
        return self._place("__recompute_output_in_backward_pass", nodeOutputNames, value, 0)

    @_both_spellings
    def recomputeOutputInBackwardPass(self, nodeOutputNames: Any, value: Any = None) -> None:
        """Mark outputs to be computed again in the backward pass.

        Args:
            nodeOutputNames: Name, or all names, of the node's results.
            value: `RecomputeType`.
        """
        self._place("__recompute_output_in_backward_pass", _names(nodeOutputNames), value, 2)

    @_both_spellings
    def getRecomputeOutputInBackwardPass(self, nodeOutputNames: Any) -> bool:
        """Whether outputs are marked to be computed again.

        Args:
            nodeOutputNames: Name, or all names, of the node's results.

        Returns:
            True or False.
        """
        name, outputs = "__recompute_output_in_backward_pass", _names(nodeOutputNames)
        return self._core.nodeHasAttribute(name, outputs) and self._core.getNodeAttribute(name, outputs)[2] == 2

    def schedulePriority(self, value: float) -> Any:
        """Give nodes added inside a priority in the schedule.

        Args:
            value: Priority; higher ones run earlier on IPUs, no effect here.

        Returns:
            A context manager; nodes added inside get the attribute.
        """
        return self._scoped("__schedule_priority", "float", float(value))

    def outputTensorLocation(self, nodeOutputNames: Any = None, value: Any = None) -> Any:
        """Say where outputs are kept.

        Args:
            nodeOutputNames: Name, or all names, of the node's results.
            value: `TensorLocation`.

        Returns:
            A context manager for nodes added inside; None when nodes are named.
        """
        if isinstance(nodeOutputNames, str | set | list):
            location = value if value is not None else popart_core.TensorLocation()
            attribute = ("__output_tensor_location", "ints", location.serialize())
            self._core.addNodeAttribute(attribute, _names(nodeOutputNames), True)
            return None
        location = nodeOutputNames if nodeOutputNames is not None else popart_core.TensorLocation()
        return self._scoped("__output_tensor_location", "ints", location.serialize())

    @contextmanager
    def outlineAttributes(self, attributes: dict[str, str]) -> Iterator[None]:
        """Attributes that keep nodes apart in outlining; inner scopes add to outer ones.

        Args:
            attributes: Names and values, as texts or numbers.

        Returns:
            A context manager; nodes added inside get the attribute.
        """
        key = "__outline_attribute"
        previous = self._core.getScopeAttribute(key)[2] if self._core.hasScopeAttribute(key) else []
        flat = [str(text) for item in attributes.items() for text in item]
        with self._scoped(key, "strings", [*previous, *flat]):
            yield

    def commGroup(self, type: int = 0, groupSize: int = 0) -> Any:
        """Replica group of collectives added inside.

        Args:
            type: Number of the `CommGroupType`.
            groupSize: Replicas of a group.

        Returns:
            A context manager; nodes added inside get the attribute.
        """
        return self._scoped("__collectiveCommGroup", "ints", [int(type), int(groupSize)])

    # ---- queries of the current scope
    def getVirtualGraph(self, nodeOutputNames: Any = None) -> int:
        """IPU number of the scope, or of a node.

        Args:
            nodeOutputNames: Name, or all names, of the node's results.

        Returns:
            The number.

        Raises:
            popart_exception: The scope, or the node, has none.
        """
        if nodeOutputNames is not None:
            return self._core.getNodeAttribute("__ipu_number", _names(nodeOutputNames))[2]
        return self._core.getScopeAttribute("__ipu_number")[2]

    def getExecutionPhase(self) -> int:
        """Execution phase of the scope.

        Returns:
            The number.

        Raises:
            popart_exception: The scope has none.
        """
        return self._core.getScopeAttribute("__execution_phase")[2]

    def getPipelineStage(self) -> int:
        """Pipeline stage of the scope.

        Returns:
            The number.

        Raises:
            popart_exception: The scope has none.
        """
        return self._core.getScopeAttribute("__pipeline_stage")[2]

    def hasVirtualGraph(self) -> bool:
        """Whether the scope has an IPU number."""
        return self._core.hasScopeAttribute("__ipu_number")

    def hasExecutionPhase(self) -> bool:
        """Whether the scope has an execution phase."""
        return self._core.hasScopeAttribute("__execution_phase")

    def hasPipelineStage(self) -> bool:
        """Whether the scope has a pipeline stage."""
        return self._core.hasScopeAttribute("__pipeline_stage")

    # ---- settings of single nodes
    def _require_type(self, nodeOutputName: Any, method: str, types: tuple[str, ...]) -> None:
        found = self._core.nodeType(_names(nodeOutputName))
        if found not in types:
            raise popart_core.popart_exception(f"{method}: got a {found} node, expected {' or '.join(types)}")

    def excludePatterns(self, nodeOutputName: Any, patternNames: list[str]) -> None:
        """Exclude a node from patterns.

        Args:
            nodeOutputName: Name of the result.
            patternNames: Names of patterns.
        """
        attribute = ("__exclude_patterns", "strings", list(patternNames))
        self._core.addNodeAttribute(attribute, _names(nodeOutputName), True)

    def setPartialsType(self, nodeOutputName: Any, partialsType: str) -> None:
        """Set the type of partial sums of a Conv or MatMul (a hint, without effect).

        Args:
            nodeOutputName: Name of the result.
            partialsType: "FLOAT" or "HALF".

        Raises:
            popart_exception: The node is neither Conv nor MatMul.
        """
        self._require_type(nodeOutputName, "setPartialsType", ("Conv", "MatMul"))
        self._core.addNodeAttribute(("__partialsType", "string", str(partialsType)), _names(nodeOutputName), True)

    def getPartialsType(self, nodeOutputName: Any) -> str:
        """Type of partial sums; ``"FLOAT"`` unless set.

        Args:
            nodeOutputName: Name of the result.

        Returns:
            The name of the type.

        Raises:
            popart_exception: The node is neither Conv nor MatMul.
        """
        self._require_type(nodeOutputName, "getPartialsType", ("Conv", "MatMul"))
        names = _names(nodeOutputName)
        if not self._core.nodeHasAttribute("__partialsType", names):
            return "FLOAT"
        return self._core.getNodeAttribute("__partialsType", names)[2]

    @_both_spellings
    def setAvailableMemoryProportion(self, nodeOutputNames: Any, availableMemoryProportion: float) -> None:
        """Set the share of tile memory that a node may use (a hint, without effect).

        Args:
            nodeOutputNames: Name, or all names, of the node's results.
            availableMemoryProportion: Share of memory on tiles, above 0 and at most 1.

        Raises:
            popart_exception: A value outside (0, 1], or no such node.
        """
        if not 0.0 < availableMemoryProportion <= 1.0:
            raise popart_core.popart_exception(
                f"setAvailableMemoryProportion: got {availableMemoryProportion}, expected a value above 0 and at most 1"
            )
        attribute = ("__available_memory_proportion", "float", float(availableMemoryProportion))
        self._core.addNodeAttribute(attribute, _names(nodeOutputNames), True)

    def setEnableConvDithering(self, nodeOutputName: Any, enableConvDithering: int) -> None:
        """Set dithering of a Conv (a hint, without effect).

        Args:
            nodeOutputName: Name of the result.
            enableConvDithering: 0 or 1.

        Raises:
            popart_exception: The node is no Conv.
        """
        self._require_type(nodeOutputName, "setEnableConvDithering", ("Conv",))
        attribute = ("__enable_conv_dithering", "int", int(enableConvDithering))
        self._core.addNodeAttribute(attribute, _names(nodeOutputName), True)

    def setSerializeMatMul(self, nodeOutputName: Any, mode: str, factor: int = 0, keep_precision: bool = False) -> None:
        """Cut a MatMul, its gradients and its optimizer step into ``factor`` parts that run one after the other.

        Args:
            nodeOutputName: Outputs of the MatMul.
            mode: ``"input_channels"``, ``"reducing_dim"``, ``"output_channels"`` or ``"none"``.
            factor: Number of parts.
            keep_precision: Add FLOAT16 parts in FLOAT.

        Raises:
            popart_exception: The mode is unknown, or there is no such node. Sessions raise it when the operands are not
                both of rank 2
                or both of rank 3, and when the dimension is not a multiple of ``factor``.
        """
        modes = ("input_channels", "reducing_dim", "output_channels", "none")
        if mode not in modes:
            raise popart_core.popart_exception(
                f"setSerializeMatMul: unknown mode: got '{mode}', expected one of {modes}"
            )
        names = _names(nodeOutputName)
        self._core.addNodeAttribute(("__serialize_matmul_mode", "string", mode), names, True)
        self._core.addNodeAttribute(("__serialize_matmul_factor", "int", int(factor)), names, True)
        self._core.addNodeAttribute(("__serialize_matmul_keep_precision", "int", int(keep_precision)), names, True)

    def setInplacePreferences(self, nodeOutputName: Any, prefs: dict[str, float]) -> None:
        """Set the priorities of the in-place variants of a node.

        Args:
            nodeOutputName: Name of the result.
            prefs: Priority by in-place operator.
        """
        names = _names(nodeOutputName)
        self._core.addNodeAttribute(("__inplace_op_names", "strings", list(prefs)), names, True)
        self._core.addNodeAttribute(
            ("__inplace_op_priorities", "floats", [float(v) for v in prefs.values()]), names, True
        )

    def addNodeAttribute(self, attributeName: str, attributeValue: Any, nodeOutputNames: Any) -> None:
        """Add an attribute to a node; the node must not have one of that name.

        Args:
            attributeName: The attribute.
            attributeValue: Number, text, or list of one kind.
            nodeOutputNames: Name, or all names, of the node's results.

        Raises:
            popart_exception: The node has it already, there is no such node, or the value's type is not supported.
        """
        attribute = custom_attribute(attributeName, attributeValue)
        self._core.addNodeAttribute(attribute, _names(nodeOutputNames), False)

    def _node_attribute(self, name: str, nodeOutputNames: Any, kinds: tuple[str, ...]) -> Any:
        _, kind, value = self._core.getNodeAttribute(name, _names(nodeOutputNames))
        if kind not in kinds:
            raise popart_core.popart_exception(
                f"node attribute '{name}': another type: got {kind}, expected {kinds[0]}"
            )
        return value

    def nodeHasAttribute(self, attributeName: str, nodeOutputNames: Any) -> bool:
        """Whether a node has an attribute.

        Args:
            attributeName: The attribute.
            nodeOutputNames: Name, or all names, of the node's results.

        Returns:
            True or False.
        """
        return self._core.nodeHasAttribute(attributeName, _names(nodeOutputNames))

    def removeNodeAttribute(self, attributeName: str, nodeOutputNames: Any) -> None:
        """Remove an attribute of a node; it must exist.

        Args:
            attributeName: The attribute.
            nodeOutputNames: Name, or all names, of the node's results.

        Raises:
            popart_exception: The node does not have it, or there is no such node.
        """
        self._core.removeNodeAttribute(attributeName, _names(nodeOutputNames))

    def getAllNodeAttributeNames(self, nodeOutputNames: Any) -> list[str]:
        """Names of a node's attributes.

        Args:
            nodeOutputNames: Name, or all names, of the node's results.

        Returns:
            The value.
        """
        return self._core.getAllNodeAttributeNames(_names(nodeOutputNames))


def _attribute_getter(kind: str) -> Callable[..., Any]:
    def getter(self: Placement, attributeName: str, nodeOutputNames: Any) -> Any:
        return self._node_attribute(attributeName, nodeOutputNames, (kind,))

    getter.__doc__ = f"""Value of a node's attribute of kind {kind}.

    Args:
        attributeName: The attribute.
        nodeOutputNames: Name, or all names, of the node's results.

    Raises:
        popart_exception: There is no such node or attribute, or its kind is another.
    """
    return getter


for _getter, _kind in (
    ("getInt64NodeAttribute", "int"),
    ("getInt64VectorNodeAttribute", "ints"),
    ("getFloatNodeAttribute", "float"),
    ("getFloatVectorNodeAttribute", "floats"),
    ("getStringNodeAttribute", "string"),
    ("getStringVectorNodeAttribute", "strings"),
):
    setattr(Placement, _getter, _attribute_getter(_kind))
