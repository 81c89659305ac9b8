"""Builder: writes ONNX models node by node."""

import functools
import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import popart_core

from popart._arrays import as_array, as_shape
from popart._names import no_attribute
from popart.builder_placement import Placement, custom_attribute
from popart.opsets import (
    NAMESPACES,
    AiGraphcoreOpset1,
    AiOnnx,
    AiOnnxMlOpset1,
    AiOnnxOpset6,
    AiOnnxOpset7,
    AiOnnxOpset8,
    AiOnnxOpset9,
    AiOnnxOpset10,
    AiOnnxOpset11,
    debug_name_of,
    opset_class,
)

_DEBUG = str | popart_core.DebugContext
_INPUT_FORMS: tuple[dict[str, Any], ...] = tuple(
    {**what, **settings, "debugContext": _DEBUG}
    for what in ({"tensorInfo": popart_core._TensorInfoCore}, {"dataType": str, "shape": Iterable})
    for settings in ({}, {"settings": popart_core.InputSettings})
)


def _input_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments of addInputTensor by name; the types decide which form of the call it is."""
    for form in _INPUT_FORMS:
        given = {**dict(zip(form, args, strict=False)), **kwargs}
        required = set(form) - {"debugContext"}
        fits = len(args) <= len(form) and len(given) == len(args) + len(kwargs) and required <= set(given) <= set(form)
        typed = fits and all(isinstance(value, form[name]) for name, value in given.items())
        if typed and not isinstance(given.get("shape"), str):
            return given
    forms = ["(" + ", ".join(form) + ")" for form in _INPUT_FORMS]
    raise TypeError(f"addInputTensor: got {args} and {kwargs}, expected one of {' '.join(forms)}")


def _open_shape(shape: list[Any]) -> list[tuple[int, str]]:
    """Sizes and names of a shape; open dimensions have size -1 and a name."""
    found = [(-1, size) if isinstance(size, str) else (*as_shape([size], "addInputTensor"), "") for size in shape]
    if any(size < 0 and not name for size, name in found):
        raise popart_core.popart_exception(
            f"addInputTensor: got shape {shape}, expected sizes of 0 or more, and names for dimensions that are open"
        )
    return found


if TYPE_CHECKING:
    from popart._loss_parts import LossParts
    from popart.opsets import NewerOpsets

    class _Delegated(NewerOpsets, popart_core._BuilderCore):
        """The attributes that `Builder.__getattr__` finds, for type checkers."""
else:
    _Delegated = object


class Builder(Placement, _Delegated):
    """Writes an ONNX model: inputs, weights, operators, placement.

    Example::

        builder = popart.Builder()
        x = builder.addInputTensor("FLOAT", [4, 8])
        w = builder.addInitializedInputTensor(np.zeros((8, 2), np.float32))
        y = builder.aiOnnx.matmul([x, w])
    """

    _loss_parts: "LossParts | None" = None  # of a trainer that adds a loss

    def __init__(
        self,
        modelProtoOrFilename: str | bytes | None = None,
        opsets: dict[str, int] | None = None,
        builderCore: Any = None,
    ) -> None:
        """Start a model, or continue one.

        Args:
            modelProtoOrFilename: File name or bytes of a model to continue.
            opsets: Versions such as ``{"ai.onnx": 17, "ai.graphcore": 1}``.
            builderCore: Core of a subgraph builder (internal).

        Raises:
            KeyError: `opsets` lacks one of the two domains.
            ValueError: The version of ai.graphcore is not 1.
            popart_exception: The model to continue does not load.
        """
        if builderCore is not None:
            self._core = builderCore
        elif modelProtoOrFilename is None:
            self._core = popart_core._BuilderCore()
        else:
            self._core = popart_core._BuilderCore.fromModel(modelProtoOrFilename)
        self._version: int | None = self._core.opset("ai.onnx")
        if opsets:
            self._version, graphcore = opsets["ai.onnx"], opsets["ai.graphcore"]
            if graphcore != 1:
                raise ValueError(f"Builder: ai.graphcore opset: got {graphcore}, expected 1")
            self._core.speakOpset(self._version)

    def __repr__(self) -> str:
        inputs, outputs = self.getInputTensorIds(), self.getOutputTensorIds()
        return f"<popart.Builder: {', '.join(inputs) or 'no inputs'} -> {', '.join(outputs) or 'no outputs'}>"

    def _repr_html_(self) -> str:
        """A table in a notebook."""
        from popart._notebook import facts_html, listed

        names = (("inputs", self.getInputTensorIds()), ("outputs", self.getOutputTensorIds()))
        return facts_html("popart.Builder", [(what, listed(ids) or "none") for what, ids in names])

    # ---- operator namespaces
    def _namespace(self, version: int) -> Any:
        if self._version is not None and self._version != version:
            raise RuntimeError(
                f"Builder: aiOnnxOpset{version} asked for, but opset {self._version} of ai.onnx is already defined. "
                "Use one version of a domain in a model"
            )
        newest = popart_core._newestOnnxOpset()
        if version < 6 or (version > newest and version != self._core.opset("ai.onnx")):
            raise popart_core.popart_exception(f"Builder: ai.onnx opset: got {version}, expected 6 to {newest}")
        self._version = version
        self._core.speakOpset(version)
        return opset_class(version)(self._core)

    def opset(self, domain: str = "ai.onnx") -> int:
        """Return the version of an operator set of the model, such as that of the file it continues.

        Args:
            domain: The domain; for ai.onnx the result is the version of `aiOnnx`, 10 for a new model.

        Returns:
            The version, as `customOp` takes it.

        Raises:
            popart_exception: The model has no operator set of the domain.
        """
        if domain in ("", "ai.onnx"):
            return self._version if self._version is not None else self._core.spokenOpset()
        version = self._core.opset(domain)
        if version is None and domain == "ai.graphcore":
            return 1
        if version is None:
            raise popart_core.popart_exception(f"Builder: the model has no operator set of the domain '{domain}'")
        return version

    @property
    def aiOnnx(self) -> AiOnnx:
        """Operators of ai.onnx in the operator set of this model: see `opset`.

        The methods have the signatures of that operator set. A new model uses 10 unless you choose another one.
        """
        return self._namespace(self.opset())

    @property
    def aiOnnxOpset6(self) -> AiOnnxOpset6:
        """Operators of ai.onnx opset 6."""
        return self._namespace(6)

    @property
    def aiOnnxOpset7(self) -> AiOnnxOpset7:
        """Operators of ai.onnx opset 7."""
        return self._namespace(7)

    @property
    def aiOnnxOpset8(self) -> AiOnnxOpset8:
        """Operators of ai.onnx opset 8."""
        return self._namespace(8)

    @property
    def aiOnnxOpset9(self) -> AiOnnxOpset9:
        """Operators of ai.onnx opset 9."""
        return self._namespace(9)

    @property
    def aiOnnxOpset10(self) -> AiOnnxOpset10:
        """Operators of ai.onnx opset 10."""
        return self._namespace(10)

    @property
    def aiOnnxOpset11(self) -> AiOnnxOpset11:
        """Operators of ai.onnx opset 11."""
        return self._namespace(11)

    @property
    def aiGraphcore(self) -> AiGraphcoreOpset1:
        """Operators of ai.graphcore."""
        return AiGraphcoreOpset1(self._core)

    aiGraphcoreOpset1 = aiGraphcore

    @property
    def aiOnnxMlOpset1(self) -> AiOnnxMlOpset1:
        """ai.onnx.ml, without methods."""
        return AiOnnxMlOpset1(self._core)

    def aiOnnxOpsetVersion(self, version: int) -> None:
        """Use ai.onnx opset ``version`` for all following operators.

        Raises:
            popart_exception: There is no such opset (6 to the newest one of ONNX).
        """
        self._version = None
        self._namespace(version)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:  # annotated with the operator sets below
            """Look up other names in the core builder; for an unknown opset the error lists the known ones."""
            if name == "_core":
                raise AttributeError(name)
            if name.startswith("aiOnnxOpset") and name[len("aiOnnxOpset") :].isdigit():
                return self._namespace(int(name[len("aiOnnxOpset") :]))
            try:
                return getattr(self._core, name)
            except AttributeError:
                raise no_attribute("'Builder' object", name, [*dir(type(self)), *dir(self._core)]) from None

    def createSubgraphBuilder(self) -> "Builder":
        """Return a builder for the body of a Loop, If or call."""
        child = Builder(builderCore=self._core.createSubgraphBuilder())
        child._version = self._version
        return child

    def reshape_const(self, aiOnnx: Any, args: list[str], shape: Iterable[int], debugContext: Any = "") -> str:
        """Reshape to a constant shape: an INT64 Constant and a Reshape.

        Args:
            aiOnnx: Operator set to add to.
            args: The tensor, in a list.
            shape: New dimension sizes; one may be -1.
            debugContext: Name.

        Returns:
            Id of the reshaped tensor.
        """
        wanted = aiOnnx.constant(np.array(as_shape(shape, "reshape_const"), dtype=np.int64), debugContext=debugContext)
        return aiOnnx.reshape([args[0], wanted], debugContext=debugContext)

    # ---- tensors
    def addInputTensor(self, *args: Any, **kwargs: Any) -> str:
        """Add a model input.

        Forms: ``(tensorInfo[, settings], debugContext="")`` and ``(dataType, shape[, settings], debugContext="")``. A
        size of `shape` may be a name, as in ``["batch", 3]``: the ONNX file then leaves the dimension open. Give its
        size to the session (`InputShapeInfo`, ``engineOptions["max_shape_programs"]``, `popart.load`) or to a command
        (``--dim batch=8``). The builder does not know the shapes of tensors that depend on an open dimension.

        Returns:
            Name of the tensor: ``<scopes>/<debug name>``, or ``input`` if there is no debug name.

        Raises:
            TypeError: An argument has a wrong type.
            popart_exception: A type name is unknown, a dimension is negative, or the name of a dimension is empty or in
                a subgraph.
        """
        if "debugPrefix" in kwargs:
            kwargs["debugContext"] = kwargs.pop("debugPrefix")
        given = _input_arguments(args, kwargs)
        settings, debug_context = given.get("settings"), given.get("debugContext", "")
        if "tensorInfo" in given:
            name = self._core.addInputTensor(given["tensorInfo"], debug_name_of(debug_context))
        else:
            shape = _open_shape(list(given["shape"]))
            name = self._core.addOpenInputTensor(given["dataType"], shape, debug_name_of(debug_context))
        if settings is not None:
            self._core.setInputSettings(name, settings)
        return name

    def addUntypedInputTensor(self, debugContext: Any = "") -> str:
        """Add an input without type to a subgraph builder.

        Args:
            debugContext: Name of the tensor.

        Returns:
            Name of the tensor.

        Raises:
            popart_exception: This is not a subgraph builder.
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
            initVal: The value: an array of NumPy, PyTorch or a similar library. float64, complex and bfloat16 are
                refused.
            *args: Optionally ``VariableSettings``, then a debug context.
            debugContext: Name of the tensor.
            debugPrefix: Old spelling of debugContext.
            variableSettings: Which replicas share the weight; stored in the model.

        Returns:
            Id of the tensor.

        Raises:
            TypeError: An argument has a wrong type.
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
        name = self._core.addInitializedInputTensor(np.asarray(as_array(initVal), order="C"), debug_name_of(context))
        if settings is not None:
            self._core.setVariableSettings(name, settings)
        return name

    def getTensorShape(self, id: str) -> list[int]:
        """Shape of a tensor.

        Returns:
            Dimension sizes.

        Raises:
            popart_exception: No tensor has that id (the message lists the ids), or its shape is not known.
        """
        return self._core.getTensorInfo(id).shape()

    def getTensorDtypeString(self, id: str) -> str:
        """Lower-case type name of a tensor, such as ``float32``.

        Args:
            id: The tensor.

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
        """Add an operator of any domain: from a C++ library, from Python (`popxl.define_op`), or from ai.onnx.

        ``builder.customOp("Gelu", builder.opset(), "ai.onnx", [x], {})`` is ``builder.aiOnnx.gelu([x])``.

        Args:
            opName: Type of the operator.
            opVersion: Its version; for ai.onnx the operator set of the model, see `opset`.
            domain: Its domain; the domain's opset is recorded as 1.
            inputs: Ids of its inputs, "" for an absent one.
            attributes: Values of type int, float, str, or lists of one of them.
            numOutputs: Number of outputs.
            name: Debug name.

        Returns:
            Ids of its outputs.

        Raises:
            popart_exception: An input is unknown, an attribute is unknown or has the wrong type, the number of outputs
                is wrong, or the inputs do not fit.
        """
        typed = [custom_attribute(key, value) for key, value in attributes.items()]
        version = self._core.recordedVersion(domain, opVersion)
        return self._core.addNode(domain, version, opName, list(inputs), numOutputs, typed, name)

    def embedReplicationFactor(self, replicationFactor: int) -> None:
        """Store the replication factor in the model's metadata.

        From then on, shapes of weights with replica groups, and of collectives, are inferred for this number.

        Args:
            replicationFactor: Number of replicas.

        Raises:
            popart_exception: The number is below 1.
        """
        self._core.embedReplicationFactor(replicationFactor)


Builder.__getattr__.__annotations__["return"] = functools.reduce(operator.or_, NAMESPACES.values())
