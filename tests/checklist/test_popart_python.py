"""The names, signatures, numbers and defaults of the module `popart` are those of its reference sheet."""

import ast
import functools
import inspect
import re

import popart
import pytest

from tests.checklist import popart_python as sheet
from tests.checklist import session_options

_FRESH = re.compile(r"^(\w+)\(\)$")


@functools.cache
def resolve(name):
    value = popart
    for part in name.split("."):
        value = getattr(value, part)
    return value


def given(text):
    """Parameters of a row: names with the values of their defaults, in order."""
    signature = ast.parse(f"def f({text}): pass").body[0].args
    names = [a.arg for a in signature.args]
    first = len(names) - len(signature.defaults)
    return {name: ast.unparse(signature.defaults[i - first]) if i >= first else None for i, name in enumerate(names)}


def native_overloads(function):
    """Parameters of each overload of a function of the core."""
    for text, _, defaults in function.__nb_signature__:
        arguments = ast.parse(re.sub(r"\\\d+", "...", text) + ": pass").body[0].args
        names = [a.arg for a in [*arguments.posonlyargs, *arguments.args]]
        first = len(names) - len(defaults or ())
        yield {name: (defaults[i - first],) if i >= first else None for i, name in enumerate(names) if name != "self"}


def overloads(value):
    """Parameters of each form of a callable: a tuple with the default, or None."""
    if inspect.isclass(value):
        value = value.__init__
    if hasattr(value, "__nb_signature__"):
        yield from native_overloads(value)
        return
    yield {
        p.name: None if p.default is p.empty else (p.default,)
        for p in inspect.signature(value).parameters.values()
        if p.name not in ("self", "cls")
    }


def equal(default, text):
    fresh = _FRESH.match(text)
    if default is None and fresh and hasattr(popart, fresh[1]):
        return True  # a new object for each call
    expected = eval(text, dict(vars(popart)))
    if isinstance(default, float):
        return default == pytest.approx(expected)
    return (
        list(default) == expected
        if isinstance(expected, list)
        else default == expected or repr(default) == repr(expected)
    )


def accepts(form, row):
    """Whether a call as the row writes it means the same here; parameters of our own may follow, with defaults."""
    for (name, text), (own, default) in zip(row.items(), form.items(), strict=False):
        if own != name or (text is not None and default is not None and not equal(default[0], text)):
            return False
        if text is not None and default is None:
            return False
    return len(form) >= len(row) and all(default is not None for default in list(form.values())[len(row) :])


@pytest.mark.parametrize(("name", "parameters"), [row[1:] for row in sheet.CALLS])
def test_signature(name, parameters):
    forms = list(overloads(resolve(name)))
    assert any(accepts(form, given(parameters)) for form in forms), f"{name}({parameters}): got {forms}"


@pytest.mark.parametrize(("owner", "name"), [(row[1], name) for row in sheet.MEMBERS for name in row[2].split()])
def test_member(owner, name):
    assert hasattr(resolve(owner), name)


@pytest.mark.parametrize("name", sheet.BUILDER_OBJECT.split())
def test_member_of_a_builder(name):
    assert hasattr(popart.Builder(), name)


@pytest.mark.parametrize("name", sheet.NAMES.split())
def test_name(name):
    assert hasattr(popart, name)


@pytest.mark.parametrize(("name", "members"), [row[1:] for row in sheet.ENUMS])
def test_enumeration(name, members):
    enumeration = resolve(name)
    numbers = {member: int(getattr(enumeration, member)) for member in members.split()}
    assert numbers == {member: number for number, member in enumerate(members.split())}


@pytest.mark.parametrize(("name", "base"), sheet.EXCEPTIONS)
def test_exception(name, base):
    assert resolve(name).__bases__ == (resolve(base) if isinstance(base, str) else base,)


@pytest.mark.parametrize(("middle", "text"), sheet.PREFIXES.items())
def test_prefix(middle, text):
    assert resolve(f"reserved{middle}Prefix")() == text


@pytest.mark.parametrize("scalar", sheet.SCALAR_PREFIXES.split())
@pytest.mark.parametrize("kind", ["Default", "Specific"])
def test_prefix_of_a_scalar(scalar, kind):
    function = resolve(f"reserved{kind}{scalar[0].upper()}{scalar[1:]}Prefix")
    assert function() == f"{scalar}___{kind.lower()}___"


def plain(value):
    """Enumeration members by name, containers as Python's own."""
    if hasattr(value, "name") and hasattr(type(value), "__members__"):
        return value.name
    if isinstance(value, set | frozenset):
        return {plain(v) for v in value}
    if hasattr(value, "items"):
        return dict(value.items())
    return list(value) if isinstance(value, list | tuple) else value


@pytest.mark.parametrize(("name", "default"), session_options.DEFAULTS.items())
def test_default_of_an_option(name, default):
    value = plain(getattr(popart.SessionOptions(), name))
    assert value == (pytest.approx(default) if isinstance(default, float) else default)


@pytest.mark.parametrize(
    ("name", "member", "default"),
    [(name, member, default) for name, row in session_options.STRUCTURES.items() for member, default in row.items()],
)
def test_default_of_a_structure(name, member, default):
    value = plain(getattr(getattr(popart.SessionOptions(), name), member))
    assert value == (pytest.approx(default) if isinstance(default, float) else default)


@pytest.mark.parametrize(("alias", "name"), session_options.ALIASES.items())
def test_other_name_of_an_option(alias, name):
    options = popart.SessionOptions()
    value = {"depth": 2} if "Map" in name else "folder" if "Dir" in name else 3
    setattr(options, alias, value)
    assert plain(getattr(options, name)) == value
