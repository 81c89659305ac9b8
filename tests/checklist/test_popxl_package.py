"""The names, signatures and members of the package `popxl` are those of its reference sheet."""

import builtins
import importlib
import inspect
import sys

import numpy as np
import popxl
import pytest

from tests.checklist import popxl_package as sheet
from tests.checklist.signatures import accepts, own


def resolve(name):
    value = popxl
    for part in name.split("."):
        inner = sys.modules.get(f"{value.__name__}.{part}") if inspect.ismodule(value) else None
        value = getattr(value, part) if inner is None or not name.startswith("ops.") else inner
    return value


@pytest.mark.parametrize("name", sheet.ALL.split())
def test_exported_name(name):
    assert name in popxl.__all__ and hasattr(popxl, name)


def test_nothing_else_is_exported():
    ours = {"custom_op", "define_op"}  # decision 0039
    assert sorted(set(popxl.__all__) - ours) == sorted(sheet.ALL.split())


@pytest.mark.parametrize(
    ("module", "name"), [(m, name) for m, names in sheet.MODULES.items() for name in names.split()]
)
def test_name_in_a_module(module, name):
    assert hasattr(importlib.import_module(module), name)


@pytest.mark.parametrize(("name", "text"), [row[1:] for row in sheet.CALLS])
def test_signature(name, text):
    assert accepts(resolve(name), text, popxl), f"{name}({text}): got {own(resolve(name))}"


@pytest.mark.parametrize(("owner", "name"), [(row[1], name) for row in sheet.MEMBERS for name in row[2].split()])
def test_member(owner, name):
    owner = resolve(owner)
    assert hasattr(owner, name) or name in getattr(owner, "__annotations__", ())


@pytest.mark.parametrize(("owner", "name"), [(row[1], name) for row in sheet.ABSENT for name in row[2].split()])
def test_absent_member(owner, name):
    assert not hasattr(resolve(owner), name)


@pytest.mark.parametrize(("name", "members"), [row[1:] for row in sheet.ENUMS])
def test_enumeration(name, members):
    enumeration = resolve(name)
    assert all(getattr(enumeration, member).name == member for member in members.split())


@pytest.mark.parametrize("row", sheet.DTYPES, ids=lambda row: row[0])
def test_dtype(row):
    name, is_int, is_float, is_signed, is_complex, array_type, python, torch_type = row
    found = getattr(popxl, name)
    facts = (found.name, found.is_int, found.is_floating_point, found.is_signed, found.is_complex)
    assert facts == (name, bool(is_int), bool(is_float), bool(is_signed), bool(is_complex))
    assert repr(found) == str(found) == f"popxl.dtypes.{name}" and popxl.dtype.from_name(name) is found
    assert found.as_numpy() == np.dtype(array_type) and popxl.dtype.as_dtype(np.dtype(array_type)) is found
    assert popxl.dtype.as_dtype(name) is found and popxl.dtype.as_dtype(np.zeros(2, array_type)) is found
    if python:
        assert popxl.dtype.as_dtype(getattr(builtins, python)) is found
    torch = pytest.importorskip("torch")
    if torch_type is None:
        with pytest.raises(TypeError, match=name):
            found.as_torch()
        return
    assert found.as_torch() is getattr(torch, torch_type)
    assert popxl.dtype.as_dtype(found.as_torch()) is found
    assert popxl.dtype.as_dtype(torch.zeros(2, dtype=found.as_torch())) is found


@pytest.mark.parametrize(("alias", "name"), sheet.ALIASES.items())
def test_alias_of_a_dtype(alias, name):
    assert getattr(popxl, alias) is getattr(popxl, name) is getattr(popxl.dtypes, alias)


@pytest.mark.parametrize(("name", "value"), sheet.OPTIONS.items())
def test_session_option_of_a_new_ir(name, value):
    found = getattr(popxl.Ir()._pb_ir.getSessionOptions(), name)
    assert getattr(found, "name", found) == value
