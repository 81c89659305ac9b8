"""Operator methods of the ai.onnx operator sets that have no fixed class, generated from the core's operator table."""

from functools import cache
from typing import Any, NamedTuple

import popart_core

from popart.opset_methods import AI_ONNX, Method


class Attribute(NamedTuple):
    """An attribute of one version of an operator: name, ONNX type in lower case, default as text."""

    name: str
    kind: str
    required: bool
    default: str | None


class Form(NamedTuple):
    """One version of an operator. A count of -1 means any number.

    `inputs` and `outputs` are names separated by spaces; "?" marks an optional one and "*" a variadic one.
    """

    type: str
    since: int
    min_inputs: int
    max_inputs: int
    min_outputs: int
    max_outputs: int
    inputs: str
    outputs: str
    attributes: list[Attribute]


_METHOD_NAMES = {method.op_type: name for name, method in AI_ONNX.items()}
_NUMBERS = {"int": int, "float": float, "string": str, "ints": int, "floats": float, "strings": str}
_LISTS = ("ints", "floats", "strings")
_KINDS = (*_NUMBERS, "tensor", "graph")
_COUNTED_BY_NODE = "num_outputs"  # attribute of Split: the core sets it


@cache
def forms(opset: int) -> dict[str, Form]:
    """The operators of an ai.onnx operator set, by type. Newer sets have those of the newest set in the table."""
    rows = (Form(*row) for row in popart_core._operatorForms(opset))
    return {row.type: row._replace(attributes=[Attribute(*a) for a in row.attributes]) for row in rows}


def method_name(op_type: str) -> str:
    """Name of the builder method of an operator."""
    return _METHOD_NAMES.get(op_type, op_type.lower())


def _fixed_defaults(known: Method | None) -> dict[str, str | None]:
    """Parameters of the newest fixed form in their order, with the text of their defaults; None where required."""
    text = known.signatures[max(known.signatures)] if known else ""
    signature = eval(f"__import__('inspect').signature(lambda {text}: None)")  # text of our tables, no user input
    return {p.name: None if p.default is p.empty else repr(p.default) for p in signature.parameters.values()}


def _default(attribute: Attribute, fixed: str | None) -> str:
    if attribute.default is not None:
        read = _NUMBERS[attribute.kind]
        if attribute.kind in _LISTS:
            return repr([read(part) for part in attribute.default.split(",")])
        return repr(read(attribute.default))
    if fixed is not None:
        return fixed if fixed in ("None", "[]") else "None"
    return "[]" if attribute.kind in _LISTS and attribute.name != "axes" else "None"


def _method(form: Form) -> Method:
    """The builder method of one version: attributes in the order of the fixed classes, then the others by name."""
    known = AI_ONNX.get(method_name(form.type))
    fixed = _fixed_defaults(known)
    if form.type == "Constant":
        return Method(form.type, form.since, form.since, {0: "value, is_value_sparse=False"}, has_args=False)
    attributes = {a.name: a for a in form.attributes if a.kind in _KINDS and a.name != _COUNTED_BY_NODE}
    order = [*(name for name in fixed if name in attributes), *(name for name in attributes if name not in fixed)]
    required = [name for name in order if attributes[name].required]
    optional = [
        f"{name}={_default(attributes[name], fixed.get(name))}" for name in order if not attributes[name].required
    ]
    varies = form.min_outputs != form.max_outputs
    words = ["num_outputs"] if "num_outputs" in fixed else []
    words += [*required, *optional]
    if known is None and varies:
        words.append("num_outputs=None")
    kinds = {a.name: a.kind for a in attributes.values()}
    outputs = known.outputs if known else form.min_outputs
    return Method(
        form.type, form.since, form.since, {0: ", ".join(words)}, outputs, form.max_inputs != 0, kinds, form.inputs
    )


@cache
def methods_of(opset: int) -> dict[str, Method]:
    """The builder methods of an ai.onnx operator set, by name."""
    return {method_name(form.type): _method(form) for form in forms(opset).values()}


def union_parameters(name: str, oldest: int, newest: int) -> tuple[dict[str, Any], list[Method]]:
    """List the parameters of a method over several operator sets, for type checkers.

    Args:
        name: The method.
        oldest: First operator set.
        newest: Last operator set.

    Returns:
        Parameter texts by name, those of the newest version first, and the versions.
    """
    import inspect

    versions = []
    for opset in range(newest, oldest - 1, -1):
        method = methods_of(opset).get(name)
        if method and method not in versions:
            versions.append(method)
    parameters: dict[str, Any] = {}
    for method in versions:
        signature = inspect.signature(eval(f"lambda {method.signatures[0]}: None"))
        for parameter in signature.parameters.values():
            parameters.setdefault(parameter.name, []).append(parameter)
    return parameters, versions
