"""Operator methods of the builder, made from the tables of ``opset_methods.py``: one class per domain and version."""

import inspect
from collections.abc import Callable, Sequence
from enum import Enum
from functools import cache
from typing import Any

import numpy as np
import popart_core

from popart.onnx_forms import methods_of
from popart.opset_methods import (
    AI_GRAPHCORE,
    AI_ONNX,
    FLOAT_ATTRIBUTES,
    FLOATS_ATTRIBUTES,
    LIST_ATTRIBUTES,
    STRING_ATTRIBUTES,
    STRINGS_ATTRIBUTES,
    Method,
)

OPSETS = range(6, 12)
_ONNX_TYPES = {"FLOAT": 1, "UINT8": 2, "INT8": 3, "UINT16": 4, "INT16": 5, "INT32": 6, "INT64": 7, "BOOL": 9,
               "FLOAT16": 10, "DOUBLE": 11, "UINT32": 12, "UINT64": 13, "BFLOAT16": 16}  # fmt: skip
_NEWER_TYPES = {"STRING": 8, "COMPLEX64": 14, "COMPLEX128": 15, "FLOAT8E4M3FN": 17, "FLOAT8E4M3FNUZ": 18,
                "FLOAT8E5M2": 19, "FLOAT8E5M2FNUZ": 20, "UINT4": 21, "INT4": 22}  # fmt: skip
_COLLECTIVES = ("Add", "Mean", "Mul", "Min", "Max", "LogicalAnd", "LogicalOr", "SquareAdd", "Local")


def _plain(value: Any) -> Any:
    """Convert a NumPy scalar or array, or a member of an enumeration, to a Python number, list or number."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return _plain(value.value) if isinstance(value, Enum) else value


def _kind_of(name: str, default: Any) -> str:
    """The kind of attribute that an operator method accepts: that of its default value, else that of its name."""
    for kind, names in _KINDS.items():
        if name in names:
            return kind
    if isinstance(default, str):
        return "string"
    return "ints" if isinstance(default, list) or name in LIST_ATTRIBUTES else "int"


_KINDS = {
    "floats": FLOATS_ATTRIBUTES, "strings": STRINGS_ATTRIBUTES, "float": FLOAT_ATTRIBUTES, "string": STRING_ATTRIBUTES,
}  # fmt: skip


def _number(value: Any, of: type) -> Any:
    plain = _plain(value)
    if of is str:
        if not isinstance(plain, str):
            raise TypeError(f"got {value!r}, expected a string")
        return plain
    if isinstance(plain, str | list | tuple | None) or (of is int and isinstance(plain, float)):
        raise TypeError(f"got {value!r}, expected {'an integer' if of is int else 'a number'}")
    return of(plain)


_ELEMENTS = {"int": int, "ints": int, "float": float, "floats": float, "string": str, "strings": str}


def _typed_attribute(name: str, value: Any, kind: str, keeps_empty: bool = False) -> tuple[str, str, Any] | None:
    """(name, kind, value) for the core; None if absent. An empty list counts as absent unless `keeps_empty`."""
    if hasattr(value, "createSubgraphBuilder"):
        return name, "graph", value._core
    if kind == "tensor":
        return name, "tensor", np.asarray(value, order="C")
    if kind == "graph" and value is not None:
        raise TypeError(f"{name}: got {value!r}, expected a builder from createSubgraphBuilder")
    value = _plain(value)
    if value is None or (isinstance(value, Sequence) and len(value) == 0 and not keeps_empty and value != ""):
        return None
    element = _ELEMENTS[kind]
    try:
        if kind not in ("ints", "floats", "strings"):
            return name, kind, _number(value, element)
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise TypeError(f"got {value!r}, expected a list")
        return name, kind, [_number(v, element) for v in value]
    except TypeError as error:
        raise TypeError(f"{name}: {error}") from None


def debug_name_of(debug_context: Any) -> str:
    """Name of a debug context, which may be a plain string."""
    return debug_context.getPathName() if isinstance(debug_context, popart_core.DebugContext) else str(debug_context)


def _adapt_attributes(op_type: str, given: dict[str, Any]) -> dict[str, Any]:
    """Convert attributes whose Python form differs from that of the model."""
    if op_type in ("Cast", "BitCast"):
        name, types = str(given["to"]).upper(), _ONNX_TYPES | _NEWER_TYPES
        if name not in types:
            raise popart_core.popart_exception(
                f"{op_type}: unknown type: got '{given['to']}', expected one of {list(types)}"
            )
        given["to"] = types[name]
    if "collectiveOperator" in given:
        operator, group = given.pop("collectiveOperator"), given.pop("commGroup")
        if operator is not None:
            given["op"] = (
                operator if isinstance(operator, str) else _COLLECTIVES[int(getattr(operator, "value", operator))]
            )
        if group is not None:
            grouping = group if isinstance(group, Sequence) else [int(group.type), group.replicaGroupSize]
            given["commGroup"] = [int(v) for v in grouping]
    if given.pop("is_value_sparse", False):
        given["sparse_value"] = given.pop("value")
    return given


def _input_ids(inputs: Any, takes_one: bool) -> list[str]:
    """The ids of a node's inputs, from a list or, if the method takes a single id, from one id."""
    if isinstance(inputs, str):
        if not takes_one:
            raise TypeError(f"args: got {inputs!r}, expected a list of tensor ids")
        return [inputs]
    ids = list(inputs)
    for tensor_id in ids:
        if not isinstance(tensor_id, str):
            raise TypeError(f"args: got {tensor_id!r} in the list, expected tensor ids, which are strings")
    return ids


@cache
def _signature_of(parameters: str) -> inspect.Signature:
    """Signature of a parameter list; cached, because many methods have the same one."""
    return inspect.signature(eval(f"lambda {parameters}: None"))  # text of our tables, no user input


def _doc_of(method: Method, domain: str, opset: int, signature: inspect.Signature) -> str:
    """The docstring of a builder method."""
    names = method.inputs.replace("?", " (optional)").replace("*", " (any number)").replace(") ", "), ")
    texts = {
        "args": f"Ids of the inputs{': ' + names if names else ', in their order'}. An empty one is absent.",
        "num_outputs": "How many outputs to make.",
        "debugContext": "Name of the node.",
    }
    lines = [f"Add {method.op_type} of {domain}, operator set {opset}.", "", "Args:"]
    for parameter in signature.parameters.values():
        text = texts.get(parameter.name)
        if text is None:
            default = "" if parameter.default is parameter.empty else f"; default {parameter.default!r}"
            text = f"Attribute of the operator{default}."
        lines.append(f"    {parameter.name}: {text}")
    counted = signature.parameters.get("num_outputs")
    several = counted is not None or method.outputs > 1
    if counted is not None and counted.default is None:
        result = "Id of the first output; of a number of outputs a list of their ids."
    else:
        result = "Ids of the outputs." if several else "Id of the output." if method.outputs else "Nothing."
    lines += [
        "",
        "Returns:",
        f"    {result}",
        "",
        "Raises:",
        "    popart_exception: An unknown input, or a wrong number of them.",
    ]
    return "\n".join(lines)


def _make_method(name: str, domain: str, opset: int, method: Method) -> Callable[..., Any]:
    """Make the function of one builder method for one opset."""
    text = method.signatures[max(first for first in method.signatures if first <= opset)]
    counted = "num_outputs" in text
    args = ["args=()" if name == "abort" else "args"] if method.has_args else []
    parameters = ", ".join([*args, *([text] if text else []), 'debugContext=""'])
    signature = _signature_of(parameters)
    holds_tensor = method.op_type in _TENSOR_OPERATORS
    kinds = {parameter.name: _kind_of(parameter.name, parameter.default) for parameter in signature.parameters.values()}
    kinds |= method.kinds or {}
    kinds |= _OTHER_KINDS | ({"value": "tensor", "sparse_value": "tensor"} if holds_tensor else {})
    takes_one_id = domain == "ai.graphcore" and name in _ONE_INPUT

    # If a list may be absent, an empty list means something else: a reduction over no axes reduces nothing.
    distinct_when_empty = {p.name for p in signature.parameters.values() if p.default is None}

    def is_default(key: str, value: Any) -> bool:
        default = signature.parameters[key].default
        return default is not inspect.Parameter.empty and type(value) is type(default) and value == default

    def typed(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], Any, Any, list[Any]]:
        for spelling, parameter in _OTHER_SPELLINGS:
            if spelling in kwargs and spelling not in signature.parameters:
                kwargs[parameter] = kwargs.pop(spelling)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = dict(bound.arguments)
        if method.op_type in _RECURRENT:  # compat: nodes have only given attributes, so that programs can add others
            given = {key: value for key, value in given.items() if not is_default(key, value)}
            given.setdefault("debugContext", "")
        inputs = given.pop("args", [])
        debug_context = given.pop("debugContext")
        wanted = given.pop("num_outputs") if counted else None
        outputs = method.outputs if wanted is None else _number(wanted, int)
        listed = wanted is not None or outputs > 1
        adapted = _adapt_attributes(method.op_type, given)
        attributes = [
            _typed_attribute(_MODEL_NAMES.get(key, key), value, kinds.get(key, "int"), key in distinct_when_empty)
            for key, value in adapted.items()
        ]
        return _input_ids(inputs, takes_one_id), (outputs, listed), debug_name_of(debug_context), attributes

    def call(self: "Opset", *args: Any, **kwargs: Any) -> Any:
        try:
            inputs, (outputs, listed), debug_name, attributes = typed(args, kwargs)
        except TypeError as error:
            raise TypeError(f"{name}: {error}. Its signature in {domain} {opset}: {name}{signature}") from None
        ids = self._add(method.op_type, inputs, outputs, attributes, debug_name)
        if listed:
            return ids
        return ids[0] if ids else None

    call.__name__ = name
    call.__qualname__ = f"{domain}.{name}"
    call.__doc__ = _doc_of(method, domain, opset, signature)
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


# Operators whose nodes have only the attributes that were given; those whose `value` is a tensor; methods of
# ai.graphcore that take one id; kinds that replace others; attribute names that Python does not allow.
_RECURRENT = frozenset(("RNN", "LSTM", "GRU"))
_TENSOR_OPERATORS = frozenset(("Constant", "ConstantOfShape"))
_ONE_INPUT = frozenset(("reshape",))
_OTHER_KINDS = {"to": "int", "op": "string", "commGroup": "ints", "lambda_": "float"}
_MODEL_NAMES = {"lambda_": "lambda", "commGroup": "__collectiveCommGroup"}

# Spellings of keywords that all methods accept.
_OTHER_SPELLINGS = (("debugPrefix", "debugContext"), ("debug_context", "debugContext"), ("debugName", "debugContext"),
                    ("name", "debugContext"), ("lambda", "lambda_"))  # fmt: skip


class Opset:
    """Operator methods of one domain and version, bound to a builder."""

    _domain = ""
    _version = 0

    def __init__(self, core: Any) -> None:
        self._core = core

    @property
    def version(self) -> int:
        """Opset version."""
        return self._version

    def __str__(self) -> str:
        return type(self).__name__.replace("Opset", "")

    __repr__ = __str__

    def _add(
        self, op_type: str, inputs: list[str], outputs: int, attributes: Sequence[Any], debug_name: str
    ) -> list[str]:
        present = [attribute for attribute in attributes if attribute is not None]
        return self._core.addNode(self._domain, self._version, op_type, inputs, outputs, present, debug_name)


class AiGraphcoreOpset1(Opset):
    """Operators of ai.graphcore."""

    _domain = "ai.graphcore"
    _version = 1

    def call(self, args: list[str], num_outputs: int, callee: Any, debugName: str = "") -> list[str]:
        """Run a subgraph.

        Args:
            args: Ids of its inputs, by position.
            num_outputs: How many outputs it has.
            callee: Its builder, from `Builder.createSubgraphBuilder`.
            debugName: Name of the node.

        Returns:
            Ids of the outputs.
        """
        return self._add("Call", list(args), num_outputs, [("callee", "graph", callee._core)], debugName)

    def packedDataBlock(
        self,
        args: list[str],
        maxSequenceLengths: list[int],
        resultSize: int,
        callbackBatchSize: int,
        callback: Any,
        debugName: str = "",
    ) -> str:
        """Run a subgraph on sequences of different lengths that are packed in tensors, one batch at a time.

        Sequence i of a packed tensor is the rows ``data[offsets[i] : offsets[i] + lengths[i]]``. For each packed tensor
        the subgraph gets a tensor ``(callbackBatchSize, maxSequenceLength, *row)``, padded with zeros after the end of
        each sequence and where the last batch has fewer sequences. It returns ``(callbackBatchSize, length, *row)``.
        The first rows of result i are written to the rows of the output that its offset and length name; other rows are
        zero. If results overlap, the later one is kept. The operator has no gradient.

        Args:
            args: Ids of data, offsets and lengths for each packed tensor, then of offsets and lengths of the results.
                Offsets and lengths: UINT32 or INT32, one for each sequence.
            maxSequenceLengths: The length of the longest sequence, for each packed tensor.
            resultSize: Rows of the result.
            callbackBatchSize: Number of sequences in one batch of the subgraph.
            callback: Builder of the subgraph, from `Builder.createSubgraphBuilder`.
            debugName: Name of the node.

        Returns:
            Id of the result, ``(resultSize, *row)``.

        Raises:
            popart_exception: When the session is made: a size is not positive, lists have different lengths, or the
                subgraph has other inputs or outputs. In a run: a sequence is too long, or an index is out of range.
        """
        numbers = {"resultSize": resultSize, "callbackBatchSize": callbackBatchSize}
        attributes = [
            _typed_attribute("maxSequenceLengths", maxSequenceLengths, "ints"),
            *(_typed_attribute(key, value, "int") for key, value in numbers.items()),
            ("callback", "graph", callback._core),
        ]
        return self._add("PackedDataBlock", list(args), 1, attributes, debug_name_of(debugName))[0]

    def init(self, shape: list[int], data_type: Any, init_type: Any, *rest: Any, debugContext: Any = "") -> str:
        """Make a tensor: ``init(shape, data_type, init_type[, batch_axis], debugContext="")``."""
        batch_axis = rest[0] if rest and isinstance(rest[0], int) else -1
        context = rest[-1] if rest and not isinstance(rest[-1], int) else debugContext
        name = popart_core.DataType(int(data_type)).name
        attributes = {"dtype": _ONNX_TYPES[name], "init_type": int(init_type), "batch_axis": batch_axis}
        typed = [("shape", "ints", [int(dim) for dim in shape]), *((key, "int", v) for key, v in attributes.items())]
        return self._core.addNode(self._domain, 1, "Init", [], 1, typed, debug_name_of(context))[0]

    def multiconv(
        self,
        args: Sequence[Sequence[str]],
        dilations: Sequence[Sequence[int]] = (),
        inDilations: Sequence[Sequence[int]] = (),
        pads: Sequence[Sequence[int]] = (),
        outPads: Sequence[Sequence[int]] = (),
        strides: Sequence[Sequence[int]] = (),
        availableMemoryProportions: Sequence[float] = (),
        partialsTypes: Sequence[str] = (),
        planType: str | None = None,
        perConvReservedTiles: int | None = None,
        cycleBackOff: float | None = None,
        enableConvDithering: Sequence[int] = (),
        debugContext: Any = "",
    ) -> list[str]:
        """Several convolutions that do not depend on each other; ranks and groups may differ.

        Args:
            args: For each convolution its data, weight and, if it has one, bias.
            dilations: Dilations of the weights, one list for each convolution; empty: all 1. The same holds for the
                other lists.
            inDilations: Dilations of the data.
            pads: Padding of the data, before and after each spatial dimension.
            outPads: Padding of the result, in the same order.
            strides: Steps between windows.
            availableMemoryProportions: For IPUs; a number for each convolution, checked and not used.
            partialsTypes: For IPUs; checked and not used.
            planType: For IPUs: "parallel" or "serial".
            perConvReservedTiles: For IPUs.
            cycleBackOff: For IPUs.
            enableConvDithering: For IPUs, a number for each convolution.
            debugContext: Name of the node.

        Returns:
            Ids of the outputs. One for each convolution.

        Raises:
            popart_exception: There is no convolution, one has not two or three inputs, a list does not have one entry
                for each convolution, or operands do not fit.
        """
        count = len(args)
        if count == 0:
            raise popart_core.popart_exception("multiconv: got no convolution, expected one list of inputs for each.")
        for i, operands in enumerate(args):
            if len(operands) not in (2, 3):
                raise popart_core.popart_exception(
                    f"multiconv: convolution {i} has {len(operands)} inputs, expected data, weight and perhaps bias."
                )
        attributes: list[Any] = [("inputs_per_conv", "ints", [len(operands) for operands in args])]
        lists = {"dilations": dilations, "inDilations": inDilations, "pads": pads, "outPads": outPads,
                 "strides": strides, "availableMemoryProportions": availableMemoryProportions,
                 "partialsTypes": partialsTypes, "enableConvDithering": enableConvDithering}  # fmt: skip
        for name, given in lists.items():
            if len(given) not in (0, count):
                raise popart_core.popart_exception(
                    f"multiconv: {name} has {len(given)} entries, expected one for each of {count} convolutions."
                )
            if name in ("dilations", "inDilations", "pads", "outPads", "strides"):
                attributes += [(f"{name}_{i}", "ints", [int(v) for v in one]) for i, one in enumerate(given)]  # type: ignore[union-attr]
        if planType not in (None, "parallel", "serial"):
            raise popart_core.popart_exception(f"multiconv: planType is {planType!r}, expected 'parallel' or 'serial'.")
        flat = [operand for operands in args for operand in operands]
        return self._add("MultiConv", flat, count, attributes, debug_name_of(debugContext))

    def printtensor(
        self,
        args: list[str],
        print_gradient: int = 1,
        debugContext: Any = "",
        title: str = "",
        summariseThreshold: int = 1000,
        edgeItems: int = 3,
        maxLineWidth: int = 75,
        digits: int = 8,
        floatFormat: int = 0,
        separator: str = " ",
        openBracket: str = "[",
        closeBracket: str = "]",
    ) -> str:
        """Print a tensor at run time; use the returned id instead of the argument.

        Args:
            args: The tensor, in a list.
            print_gradient: 1: print its gradient as well.
            debugContext: Name of the node.
            title: First word of a line.
            summariseThreshold: Elements above which the middle is left out.
            edgeItems: Elements shown at each end if the middle is left out.
            maxLineWidth: Characters of a line.
            digits: Digits after the point.
            floatFormat: 0: as needed, 1: fixed, 2: scientific, 3: no format.
            separator: Between elements.
            openBracket: Before a row.
            closeBracket: After a row.

        Returns:
            Id of the tensor to use.
        """
        numbers = dict(
            print_gradient=print_gradient,
            summariseThreshold=summariseThreshold,
            edgeItems=edgeItems,
            maxLineWidth=maxLineWidth,
            digits=digits,
            floatFormat=floatFormat,
        )
        texts = dict(title=title, separator=separator, openBracket=openBracket, closeBracket=closeBracket)
        attributes = [_typed_attribute(key, value, "int") for key, value in numbers.items()]
        attributes += [_typed_attribute(key, value, "string") for key, value in texts.items()]
        return self._add("PrintTensor", list(args), 1, attributes, debug_name_of(debugContext))[0]


class _Deferred:
    """A method that is made when it is first used: the thousand methods of all opsets would slow every import."""

    def __init__(self, *facts: Any) -> None:
        self._facts = facts

    def __get__(self, instance: Any, owner: type) -> Any:
        method = _make_method(*self._facts)
        setattr(owner, method.__name__, method)
        return method if instance is None else getattr(instance, method.__name__)


class AiOnnx(Opset):
    """Operators of ai.onnx: the base of the classes of all operator sets."""


@cache
def opset_class(version: int) -> type[AiOnnx]:
    """The class with the methods of one ai.onnx operator set; 6 to 11 have PopART's signatures, others ONNX's.

    Args:
        version: The operator set, 6 or more; a set that is newer than ONNX's newest one gets the methods of that one.

    Returns:
        The class ``AiOnnxOpset<version>``.
    """
    fixed = {name: row for name, row in AI_ONNX.items() if row.first_opset <= version <= row.last_opset}
    rows = fixed if version in OPSETS else methods_of(version)
    methods: dict[str, Any] = {name: _Deferred(name, "ai.onnx", version, method) for name, method in rows.items()}
    methods |= {"_domain": "ai.onnx", "_version": version, "__doc__": f"Operators of ai.onnx opset {version}."}
    return type(f"AiOnnxOpset{version}", (AiOnnx,), methods)


for _name, _method in AI_GRAPHCORE.items():
    setattr(AiGraphcoreOpset1, _name, _Deferred(_name, "ai.graphcore", 1, _method))

AiOnnxOpset6, AiOnnxOpset7, AiOnnxOpset8, AiOnnxOpset9, AiOnnxOpset10, AiOnnxOpset11 = map(opset_class, OPSETS)


class AiOnnxMlOpset1(Opset):
    """ai.onnx.ml: its operators have no methods."""

    _domain = "ai.onnx.ml"
    _version = 1


NAMESPACES: dict[int, type[Opset]] = {
    6: AiOnnxOpset6,
    7: AiOnnxOpset7,
    8: AiOnnxOpset8,
    9: AiOnnxOpset9,
    10: AiOnnxOpset10,
    11: AiOnnxOpset11,
}
