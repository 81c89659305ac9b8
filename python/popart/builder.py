"""Builder: writes ONNX models node by node."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

import numpy as np
import popart_core

from popart.opsets import NAMESPACES, OPSETS, AiGraphcoreOpset1, AiOnnxMlOpset1, Opset, debug_name_of


def _custom_attribute(name: str, value: Any) -> tuple[str, str, Any]:
    """The same for customOp, where the type is that of the Python value alone."""
    kinds = {str: "string", int: "int", bool: "int", float: "float"}
    if type(value) in kinds:
        return name, kinds[type(value)], value
    if isinstance(value, list | tuple) and value:
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
    """For methods that take one output's name or several: the keyword is ``nodeOutputName`` or ``nodeOutputNames``."""

    @wraps(method)
    def either(self: "Builder", *args: Any, **kwargs: Any) -> _Result:
        if "nodeOutputName" in kwargs:
            kwargs["nodeOutputNames"] = kwargs.pop("nodeOutputName")
        return method(self, *args, **kwargs)

    return either


class Builder:
    """Writes an ONNX model: inputs, weights, operators, placement.

    Example::

        builder = popart.Builder()
        x = builder.addInputTensor("FLOAT", [4, 8])
        w = builder.addInitializedInputTensor(np.zeros((8, 2), np.float32))
        y = builder.aiOnnx.matmul([x, w])
    """

    def __init__(
        self,
        modelProtoOrFilename: str | bytes | None = None,
        opsets: dict[str, int] | None = None,
        builderCore: Any = None,
    ) -> None:
        """Start a model, or continue one.

        Args:
            modelProtoOrFilename: File name or bytes of a model to continue.
            opsets: Versions such as ``{"ai.onnx": 9, "ai.graphcore": 1}``.
            builderCore: Core of a subgraph builder (internal).

        Raises:
            KeyError: `opsets` lacks one of the two domains.
            ValueError: Another version of ai.graphcore than 1.
            popart_exception: The model to continue does not load.
        """
        if builderCore is not None:
            self._core = builderCore
        elif modelProtoOrFilename is None:
            self._core = popart_core._BuilderCore()
        else:
            self._core = popart_core._BuilderCore.fromModel(modelProtoOrFilename)
        self._version: int | None = None
        self._default_version = 10
        fixed = self._core.opset("ai.onnx")
        if opsets:
            self._version, graphcore = opsets["ai.onnx"], opsets["ai.graphcore"]
            if graphcore != 1:
                raise ValueError(f"Builder: ai.graphcore opset: got {graphcore}, expected 1")
        else:
            self._version = fixed

    # ---- operator namespaces
    def _namespace(self, version: int) -> Opset:
        if self._version is not None and self._version != version:
            raise RuntimeError(
                f"Builder: ai.onnx opset {version} asked for, but opset {self._version} is already defined"
            )
        if version not in OPSETS:
            raise popart_core.popart_exception(
                f"Builder: ai.onnx opset: got {version}, expected 6 to 11. A model of a newer opset takes operators of "
                "ai.graphcore only"
            )
        self._version = version
        return NAMESPACES[version](self._core)

    @property
    def aiOnnx(self) -> Any:
        """Operators of ai.onnx in the opset of this builder (10 unless fixed)."""
        return self._namespace(self._version if self._version is not None else self._default_version)

    @property
    def aiGraphcore(self) -> Any:
        """Operators of ai.graphcore."""
        return AiGraphcoreOpset1(self._core)

    aiGraphcoreOpset1 = aiGraphcore

    @property
    def aiOnnxMlOpset1(self) -> AiOnnxMlOpset1:
        """ai.onnx.ml, without methods."""
        return AiOnnxMlOpset1(self._core)

    def aiOnnxOpsetVersion(self, version: int) -> None:
        """Use ai.onnx opset ``version`` from now on.

        Raises:
            popart_exception: There is no such opset (6 to 11).
        """
        self._version = None
        self._namespace(version)

    def __getattr__(self, name: str) -> Any:
        """Opset namespaces by name; everything else belongs to the core builder."""
        if name == "_core":
            raise AttributeError(name)
        if name.startswith("aiOnnxOpset") and name[len("aiOnnxOpset") :].isdigit():
            return self._namespace(int(name[len("aiOnnxOpset") :]))
        return getattr(self._core, name)

    def createSubgraphBuilder(self) -> "Builder":
        """A builder for the body of a Loop, If or call."""
        child = Builder(builderCore=self._core.createSubgraphBuilder())
        child._version = self._version
        return child

    def reshape_const(self, aiOnnx: Any, args: list[str], shape: Iterable[int], debugContext: Any = "") -> str:
        """Reshape to a constant shape: an INT64 Constant and a Reshape."""
        wanted = aiOnnx.constant(np.array(list(shape), dtype=np.int64), debugContext=debugContext)
        return aiOnnx.reshape([args[0], wanted], debugContext=debugContext)

    # ---- tensors
    def addInputTensor(self, *args: Any, **kwargs: Any) -> str:
        """Add a model input.

        Forms: ``(tensorInfo[, settings], debugContext="")`` and ``(dataType, shape[, settings], debugContext="")``.

        Returns:
            Name of the tensor: ``<scopes>/<debug name>``, without a debug name ``input``.

        Raises:
            TypeError: An argument is of another kind.
            popart_exception: An unknown type name, or a negative dimension.
        """
        debug_context = kwargs.pop("debugContext", kwargs.pop("debugPrefix", ""))
        rest = [*args, *kwargs.values()]
        if isinstance(rest[0], str):
            info, rest = popart_core._TensorInfoCore(rest[0], [int(dim) for dim in rest[1]]), rest[2:]
        else:
            info, rest = rest[0], rest[1:]
        settings = None
        for value in rest:
            if isinstance(value, str | popart_core.DebugContext):
                debug_context = value
            elif isinstance(value, popart_core.InputSettings):
                settings = value
            else:
                raise TypeError(f"addInputTensor: unexpected argument {value!r}")
        name = self._core.addInputTensor(info, debug_name_of(debug_context))
        if settings is not None:
            self._core.setInputSettings(name, settings)
        return name

    def addUntypedInputTensor(self, debugContext: Any = "") -> str:
        """Add an input without type to a subgraph builder.

        Returns:
            Name of the tensor.

        Raises:
            popart_exception: This is no subgraph builder.
        """
        return self._core.addUntypedInputTensor(debug_name_of(debugContext))

    def addInitializedInputTensor(
        self,
        initVal: np.ndarray,
        *args: Any,
        debugContext: Any = "",
        debugPrefix: Any = "",
        variableSettings: popart_core.VariableSettings | None = None,
    ) -> str:
        """Add a weight with its first value.

        Args:
            initVal: The value; float64, complex and bfloat16 arrays are refused.
            *args: Optionally ``VariableSettings``, then a debug context.
            debugContext: Name of the tensor.
            debugPrefix: Old spelling of debugContext.
            variableSettings: Which replicas share the weight; kept in the model.

        Returns:
            Id of the tensor.

        Raises:
            TypeError: An argument is of another kind.
            popart_exception: The element type is refused.
        """
        context = debugContext or debugPrefix
        settings = variableSettings
        for value in args:
            if isinstance(value, str | popart_core.DebugContext):
                context = value
            elif isinstance(value, popart_core.VariableSettings):
                settings = value
            else:
                raise TypeError(f"addInitializedInputTensor: unexpected argument {value!r}")
        name = self._core.addInitializedInputTensor(np.asarray(initVal, order="C"), debug_name_of(context))
        if settings is not None:
            self._core.setVariableSettings(name, settings)
        return name

    def getTensorShape(self, id: str) -> list[int]:
        """Shape of a tensor.

        Returns:
            Dimension sizes.

        Raises:
            popart_exception: No tensor of that id (known ones are named), or its shape is not known.
        """
        return self._core.getTensorInfo(id).shape()

    def getTensorDtypeString(self, id: str) -> str:
        """Lower-case type name of a tensor, such as ``float32``.

        Returns:
            The name.

        Raises:
            popart_exception: As `getTensorShape`.
        """
        return self._core.getTensorInfo(id).data_type_lcase()

    def customOp(
        self,
        opName: str,
        opVersion: int,
        domain: str,
        inputs: list[str],
        attributes: dict[str, Any],
        numOutputs: int = 1,
        name: str = "",
    ) -> list[str]:
        """Add an operator of any domain.

        Args:
            opName: Type of the operator.
            opVersion: Its version.
            domain: Its domain; the domain's opset is recorded as 1.
            inputs: Ids of its inputs, "" for an absent one.
            attributes: Values of type int, float, str, or lists of one of them.
            numOutputs: Number of outputs.
            name: Debug name.

        Returns:
            Ids of its outputs.

        Raises:
            popart_exception: An unknown input, or an attribute of another type.
        """
        typed = [_custom_attribute(key, value) for key, value in attributes.items()]
        return self._core.addNode(domain, opVersion, opName, list(inputs), numOutputs, typed, name)

    def embedReplicationFactor(self, replicationFactor: int) -> None:
        """Store the replication factor in the model's metadata."""
        self._core.setMetadata("__replicationFactor", str(replicationFactor))

    # ---- scopes
    @contextmanager
    def nameScope(self, name: str) -> Iterator[None]:
        """Prefix names of what is added inside with ``name/``."""
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
        """Shared form of placement methods: a scope when one argument is given, a node's attribute when two are."""
        if isinstance(first, str | set | list | tuple):
            self._core.addNodeAttribute(
                (attribute, "int", int(default if value is None else value)), _names(first), True
            )
            return None
        return self._scoped(attribute, "int", int(default if first is None else first))

    def virtualGraph(self, nodeOutputNames: Any = None, value: Any = None) -> Any:
        """Place nodes on an IPU, either those added inside a ``with`` block or the named ones.

        Returns:
            A context manager without names; with names nothing.

        Raises:
            popart_exception: No node has exactly these outputs.
        """
        return self._place("__ipu_number", nodeOutputNames, value, 0)

    def executionPhase(self, nodeOutputNames: Any = None, value: Any = None) -> Any:
        """Put nodes into an execution phase."""
        return self._place("__execution_phase", nodeOutputNames, value, 0)

    def pipelineStage(self, nodeOutputNames: Any = None, value: Any = None) -> Any:
        """Put nodes into a pipeline stage."""
        return self._place("__pipeline_stage", nodeOutputNames, value, 0)

    def recomputeOutput(self, nodeOutputNames: Any = None, value: Any = None) -> Any:
        """Say whether outputs are kept or computed again for the backward pass."""
        return self._place("__recompute_output_in_backward_pass", nodeOutputNames, value, 0)

    @_both_spellings
    def recomputeOutputInBackwardPass(self, nodeOutputNames: Any, value: Any = None) -> None:
        """Mark outputs to be computed again in the backward pass."""
        self._place("__recompute_output_in_backward_pass", _names(nodeOutputNames), value, 2)

    @_both_spellings
    def getRecomputeOutputInBackwardPass(self, nodeOutputNames: Any) -> bool:
        """Whether outputs are marked to be computed again."""
        name = "__recompute_output_in_backward_pass"
        return bool(self._core.getNodeAttribute(name, _names(nodeOutputNames))[2] == 2)

    def schedulePriority(self, value: float) -> Any:
        """Give nodes added inside a priority in the schedule."""
        return self._scoped("__schedule_priority", "float", float(value))

    def outputTensorLocation(self, nodeOutputNames: Any = None, value: Any = None) -> Any:
        """Say where outputs are kept."""
        if isinstance(nodeOutputNames, str | set | list):
            location = value if value is not None else popart_core.TensorLocation()
            attribute = ("__output_tensor_location", "ints", location.serialize())
            self._core.addNodeAttribute(attribute, _names(nodeOutputNames), True)
            return None
        location = nodeOutputNames if nodeOutputNames is not None else popart_core.TensorLocation()
        return self._scoped("__output_tensor_location", "ints", location.serialize())

    @contextmanager
    def outlineAttributes(self, attributes: dict[str, str]) -> Iterator[None]:
        """Attributes that keep nodes apart in outlining; inner scopes add to outer ones."""
        key = "__outline_attribute"
        previous = self._core.getScopeAttribute(key)[2] if self._core.hasScopeAttribute(key) else []
        flat = [str(text) for item in attributes.items() for text in item]
        with self._scoped(key, "strings", [*previous, *flat]):
            yield

    def commGroup(self, type: int = 0, groupSize: int = 0) -> Any:
        """Replica group of collectives added inside."""
        return self._scoped("commGroup", "ints", [int(type), int(groupSize)])

    # ---- queries of the current scope
    def getVirtualGraph(self, nodeOutputNames: Any = None) -> int:
        """IPU number of the scope, or of a node.

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
        """Keep patterns away from a node."""
        attribute = ("__exclude_patterns", "strings", list(patternNames))
        self._core.addNodeAttribute(attribute, _names(nodeOutputName), True)

    def setPartialsType(self, nodeOutputName: Any, partialsType: str) -> None:
        """Type of partial sums of a Conv or MatMul (a hint).

        Raises:
            popart_exception: The node is neither Conv nor MatMul.
        """
        self._require_type(nodeOutputName, "setPartialsType", ("Conv", "MatMul"))
        self._core.addNodeAttribute(("__partialsType", "string", str(partialsType)), _names(nodeOutputName), True)

    def getPartialsType(self, nodeOutputName: Any) -> str:
        """Type of partial sums; ``"FLOAT"`` unless set.

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
        """Share of memory a node may use, in (0, 1] (a hint).

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
        """Dithering of a Conv (a hint).

        Raises:
            popart_exception: The node is no Conv.
        """
        self._require_type(nodeOutputName, "setEnableConvDithering", ("Conv",))
        attribute = ("__enable_conv_dithering", "int", int(enableConvDithering))
        self._core.addNodeAttribute(attribute, _names(nodeOutputName), True)

    def setSerializeMatMul(self, nodeOutputName: Any, mode: str, factor: int = 0, keep_precision: bool = False) -> None:
        """Split a MatMul into ``factor`` parts (a hint).

        Args:
            nodeOutputName: Outputs of the MatMul.
            mode: ``"input_channels"``, ``"reducing_dim"``, ``"output_channels"`` or ``"none"``.
            factor: Number of parts.
            keep_precision: Add the parts in the type of partial sums.

        Raises:
            popart_exception: Another mode, or no such node.
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
        """Priorities of in-place variants of a node."""
        names = _names(nodeOutputName)
        self._core.addNodeAttribute(("__inplace_op_names", "strings", list(prefs)), names, True)
        self._core.addNodeAttribute(
            ("__inplace_op_priorities", "floats", [float(v) for v in prefs.values()]), names, True
        )

    def addNodeAttribute(self, attributeName: str, attributeValue: Any, nodeOutputNames: Any) -> None:
        """Add an attribute to a node; one of that name must not exist.

        Raises:
            popart_exception: The node has it already, there is no such node, or the value's type is not supported.
        """
        attribute = _custom_attribute(attributeName, attributeValue)
        self._core.addNodeAttribute(attribute, _names(nodeOutputNames), False)

    def _node_attribute(self, name: str, nodeOutputNames: Any, kinds: tuple[str, ...]) -> Any:
        _, kind, value = self._core.getNodeAttribute(name, _names(nodeOutputNames))
        if kind not in kinds:
            raise popart_core.popart_exception(
                f"node attribute '{name}': another type: got {kind}, expected {kinds[0]}"
            )
        return value

    def nodeHasAttribute(self, attributeName: str, nodeOutputNames: Any) -> bool:
        """Whether a node has an attribute."""
        return self._core.nodeHasAttribute(attributeName, _names(nodeOutputNames))

    def removeNodeAttribute(self, attributeName: str, nodeOutputNames: Any) -> None:
        """Remove an attribute of a node; it must exist.

        Raises:
            popart_exception: The node does not have it, or there is no such node.
        """
        self._core.removeNodeAttribute(attributeName, _names(nodeOutputNames))

    def getAllNodeAttributeNames(self, nodeOutputNames: Any) -> list[str]:
        """Names of a node's attributes."""
        return self._core.getAllNodeAttributeNames(_names(nodeOutputNames))


def _attribute_getter(kind: str) -> Callable[..., Any]:
    def getter(self: Builder, attributeName: str, nodeOutputNames: Any) -> Any:
        return self._node_attribute(attributeName, nodeOutputNames, (kind,))

    getter.__doc__ = f"Value of a node's attribute of kind {kind}."
    return getter


for _getter, _kind in (
    ("getInt64NodeAttribute", "int"),
    ("getInt64VectorNodeAttribute", "ints"),
    ("getFloatNodeAttribute", "float"),
    ("getFloatVectorNodeAttribute", "floats"),
    ("getStringNodeAttribute", "string"),
    ("getStringVectorNodeAttribute", "strings"),
):
    setattr(Builder, _getter, _attribute_getter(_kind))
