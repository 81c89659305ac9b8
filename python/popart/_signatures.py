"""Signatures of the compiled functions, for `inspect.signature`, `help()` and editors.

nanobind describes each overload of a function as a line of Python. When a signature is asked for, that line becomes an
`inspect.Signature`. Calls are as fast as before: the functions are not wrapped; their three types get one attribute.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Sequence
from typing import Any

Parameter = inspect.Parameter


class _Written(str):
    """An annotation or a default value that is printed literally."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _value(node: ast.expr, values: Sequence[Any]) -> Any:
    """A default value: the object that a mark ``_default_N`` means, or the literal text."""
    found = isinstance(node, ast.Name) and re.fullmatch(r"_default_(\d+)", node.id)
    value = values[int(found[1])] if found else _Written(ast.unparse(node))
    return value


def _overload(line: str, values: Sequence[Any]) -> inspect.Signature:
    """The signature of one overload.

    Args:
        line: A definition, in which a backslash and a number mean a default value.
        values: Default values.

    Returns:
        Its signature.
    """
    written = re.sub(r"\\(\d+)", r"_default_\1", line[line.index("(") :].rstrip(":"))
    definition = ast.parse(f"def function{written}: ...").body[0]  # that of a property has no name
    assert isinstance(definition, ast.FunctionDef)
    given = definition.args

    def made(argument: ast.arg, kind: Any, default: ast.expr | None = None) -> Parameter:
        written = Parameter.empty if argument.annotation is None else _Written(ast.unparse(argument.annotation))
        value = Parameter.empty if default is None else _value(default, values)
        return Parameter(argument.arg, kind, default=value, annotation=written)

    positional = [(a, Parameter.POSITIONAL_ONLY) for a in given.posonlyargs]
    positional += [(a, Parameter.POSITIONAL_OR_KEYWORD) for a in given.args]
    defaults = [None] * (len(positional) - len(given.defaults)) + list(given.defaults)
    parameters = [made(*item, default) for item, default in zip(positional, defaults)]
    if given.vararg:
        parameters.append(made(given.vararg, Parameter.VAR_POSITIONAL))
    parameters += [made(a, Parameter.KEYWORD_ONLY, d) for a, d in zip(given.kwonlyargs, given.kw_defaults)]
    if given.kwarg:
        parameters.append(made(given.kwarg, Parameter.VAR_KEYWORD))
    result = inspect.Signature.empty if definition.returns is None else _Written(ast.unparse(definition.returns))
    return inspect.Signature(parameters, return_annotation=result)


def _merged(overloads: Sequence[inspect.Signature]) -> inspect.Signature:
    """One signature that accepts the calls of every overload; parameters that not all overloads have are optional."""
    # An overload without values accepts all arguments that the others refuse (python/bindings/misfits.hpp).
    overloads = [o for o in overloads if all(p.annotation != "typing.Never" for p in o.parameters.values())]
    longest = max(overloads, key=lambda overload: len(overload.parameters))
    names = list(longest.parameters)
    for overload in overloads:
        places = [names.index(name) if name in names else -1 for name in overload.parameters]
        if -1 in places or places != sorted(places):
            named = [Parameter("args", Parameter.VAR_POSITIONAL), Parameter("kwargs", Parameter.VAR_KEYWORD)]
            first = [p for p in longest.parameters.values() if p.name == "self"]
            return inspect.Signature([p.replace(kind=Parameter.POSITIONAL_ONLY) for p in first] + named)
    parameters, optional = [], False
    for parameter in longest.parameters.values():
        others = [o.parameters[parameter.name] for o in overloads if parameter.name in o.parameters]
        kinds = dict.fromkeys(other.annotation for other in others)
        if Parameter.empty not in kinds:
            parameter = parameter.replace(annotation=_Written(" | ".join(kinds)))
        optional = optional or len(others) < len(overloads)
        if optional and parameter.default is Parameter.empty and parameter.kind is not Parameter.VAR_POSITIONAL:
            parameter = parameter.replace(default=_Written("..."))
        parameters.append(parameter)
    results = dict.fromkeys(overload.return_annotation for overload in overloads)
    single = results if inspect.Signature.empty in results else [_Written(" | ".join(results))]
    return inspect.Signature(parameters, return_annotation=next(iter(single)))


def _of_function(function: Any) -> inspect.Signature:
    """The signature of a compiled function, or of a method with its ``self``."""
    return _merged([_overload(line, values or ()) for line, _, values in function.__nb_signature__])


def _of_bound_method(method: Any) -> inspect.Signature:
    """The signature of a compiled method of an object: without ``self``."""
    whole = _of_function(method.__func__)
    return whole.replace(parameters=list(whole.parameters.values())[1:])


def give_signatures(function: Any, method: Any, bound_method: Any) -> None:
    """Give every compiled function a `__signature__`.

    Args:
        function: A function of the compiled module.
        method: A method, as its class has it.
        bound_method: A method of an object.
    """
    type(function).__signature__ = property(_of_function)
    type(method).__signature__ = property(_of_function)
    type(bound_method).__signature__ = property(_of_bound_method)
