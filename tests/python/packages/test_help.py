"""help() of every public class and function says what it is and names each parameter."""

import enum
import inspect
import re
from collections.abc import Iterator
from types import ModuleType

import popart
import popart.ir
import popart.ir.ops
import popdist
import popxl
import popxl.ops
import popxl.transforms
import popxl_addons
import pytest
from popart.opsets import _Deferred

MODULES = [popart, popart.ir, popart.ir.ops, popxl, popxl.ops, popxl.transforms, popxl_addons, popdist]
OURS = ("popart", "popxl", "popdist")
COMPILED = ("nb_func", "nb_method")


def arguments_of(signature: str) -> list[str]:
    """Names in a signature line of the compiled module."""
    depth, parts = 0, [""]
    for char in signature:
        depth += (char in "[({") - (char in "])}")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    names = [re.split("[:=]", part)[0].strip() for part in parts]
    return [name for name in names if name and name not in ("self", "/", "*")]


def compiled_help(function: object) -> tuple[str, list[str]]:
    """Docstring without its signature lines, and the parameters those name."""
    signature = re.compile(r"(?:\d+\. ``)?" + re.escape(function.__name__) + r"\((.*)\) -> .*")
    body, names = [], []
    for line in (function.__doc__ or "").splitlines():
        if found := signature.fullmatch(line.strip()):
            names += arguments_of(found[1])
        elif line.strip() != "Overloaded function.":
            body.append(line)
    return "\n".join(body), names


def python_parameters(function: object) -> list[str]:
    """Parameters that callers give by name or position."""
    parameters = inspect.signature(function).parameters.values()
    open_ended = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [p.name for p in parameters if p.name not in ("self", "cls") and p.kind not in open_ended]


def missing_in(text: str, names: list[str]) -> list[str]:
    """What a docstring does not say."""
    if not text.strip():
        return ["a docstring"]
    return [name for name in names if not re.search(rf"\b{re.escape(name)}\b", text)]


def gaps_of_class(made: type) -> Iterator[tuple[str, list[str]]]:
    """(member, what its docstring does not say)."""
    yield "", missing_in(made.__doc__ or "", [])
    if issubclass(made, enum.Enum | BaseException):
        return
    for name, found in dict(vars(made)).items():
        member = getattr(made, name) if isinstance(found, _Deferred) else found
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(member, staticmethod | classmethod):
            member = member.__func__
        if type(member).__name__ in COMPILED:
            yield name, missing_in(*compiled_help(member))
        elif isinstance(member, property):
            if not made.__module__.startswith("popart_core"):
                yield name, missing_in(member.__doc__ or "", [])
        elif inspect.isfunction(member):
            text = member.__doc__ or ""
            if name == "__init__":
                text += made.__doc__ or ""
            yield name, missing_in(text, python_parameters(member))


def public(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Public names of a module and what they stand for, if it is ours."""
    for name in getattr(module, "__all__", None) or [name for name in dir(module) if not name.startswith("_")]:
        value = getattr(module, name)
        if (getattr(value, "__module__", None) or "").startswith(OURS) and not inspect.ismodule(value):
            yield name, value


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_help_names_every_parameter(module):
    gaps = {}
    for name, value in public(module):
        if inspect.isclass(value):
            gaps |= {f"{name}.{member}": missing for member, missing in gaps_of_class(value)}
        elif type(value).__name__ in COMPILED:
            gaps[name] = missing_in(*compiled_help(value))
        elif inspect.isfunction(value):
            gaps[name] = missing_in(value.__doc__ or "", python_parameters(value))
    assert not {name: missing for name, missing in gaps.items() if missing}


def test_methods_of_sessions_say_what_they_take():
    """Methods that the compiled base class of sessions gives them."""
    for base in popart.TrainingSession.__mro__:
        if base.__module__.startswith("popart_core"):
            assert not [gap for gap in gaps_of_class(base) if gap[0] not in ("", "__init__") and gap[1]], base


def test_keys_of_optimizers_are_documented():
    for made, keys in ((popart.SGD, 7), (popart.Adam, 7), (popart.Adaptive, 6)):
        known = set(re.findall(r"\b(default[A-Z]\w+|nesterov|lossScaling)\b", made.__init__.__doc__))
        assert len(known) == keys
        with pytest.raises(popart.popart_exception) as refused:
            made({"defaultNothing": (0, True)})
        assert known <= set(re.findall(r"\w+", str(refused.value)))
