"""The names, signatures and members of the package `popart.ir` are those of its reference sheet."""

import importlib

import popart.ir as pir
import popart.ir.ops
import pytest

from tests.checklist import popart_ir as sheet
from tests.checklist.signatures import accepts, own


def resolve(name):
    value = pir
    for part in name.split("."):
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("name", sheet.ALL.split())
def test_exported_name(name):
    assert name in pir.__all__ and hasattr(pir, name)


@pytest.mark.parametrize("name", sheet.OPS.split())
def test_operator(name):
    assert name in popart.ir.ops.__all__ and hasattr(popart.ir.ops, name)


@pytest.mark.parametrize(
    ("module", "name"), [(m, name) for m, names in sheet.MODULES.items() for name in names.split()]
)
def test_name_in_a_module(module, name):
    assert hasattr(importlib.import_module(module), name)


@pytest.mark.parametrize(("name", "text"), [row[1:] for row in sheet.CALLS])
def test_signature(name, text):
    assert accepts(resolve(name), text, popart.ir.ops), f"{name}({text}): got {own(resolve(name))}"


@pytest.mark.parametrize(("owner", "name"), [(row[1], name) for row in sheet.MEMBERS for name in row[2].split()])
def test_member(owner, name):
    assert hasattr(resolve(owner), name)


@pytest.mark.parametrize(("name", "members"), [row[1:] for row in sheet.ENUMS])
def test_enumeration(name, members):
    assert all(hasattr(resolve(name), member) for member in members.split())


@pytest.mark.parametrize("name", sheet.PROGRAM.split())
def test_member_of_a_program(name):
    assert hasattr(pir.Ir()._pb_ir, name)
