"""Objects of the module `popart` print what the sheet says, and no public class prints an address."""

import inspect
import re

import popart
import pytest

from tests.checklist import popart_python_forms as sheet


def value_of(expression):
    return eval(expression, dict(vars(popart)))


@pytest.mark.parametrize(("expression", "text", "shown"), [row[1:] for row in sheet.DOCUMENTED])
def test_documented_form(expression, text, shown):
    value = value_of(expression)
    assert str(value) == text
    if shown is not None or not text:
        assert repr(value) == (shown if shown is not None else repr(value))
    else:
        assert repr(value) == text


@pytest.mark.parametrize(("expression", "text"), [row[1:] for row in sheet.OWN])
def test_own_form(expression, text):
    value = value_of(expression)
    assert repr(value) == str(value) == text


def test_options_show_what_differs():
    options = popart.SessionOptions()
    options.enablePipelining = True
    options.engineOptions["a"] = "b"
    options.batchSerializationSettings.factor = 2
    text = repr(options)
    assert text.startswith("SessionOptions(") and "enablePipelining=True" in text and "engineOptions={'a': 'b'}" in text
    assert "batchSerializationSettings=BatchSerializationSettings(factor=2" in text and "enableOutlining" not in text


# Handles and services, which hold nothing to show.
HANDLES = [
    "Builder",
    "DebugContext",
    "DebugInfo",
    "DeveloperSettings",
    "DeviceManager",
    "GraphTransformer",
    "InferenceSession",
    "IStepIO",
    "IWeightsIO",
    "InputShapeInfo",
    "Logger",
    "Loss",
    "L1Loss",
    "NllLoss",
    "IdentityLoss",
    "MemoryFit",
    "NumericsReport",
    "Optimizer",
    "OutOfMemoryError",
    "PyStepIO",
    "PyStepIOCallback",
    "PyWeightsIO",
    "SourceLocation",
    "TrainingSession",
]


@pytest.mark.parametrize("name", sorted(n for n in popart.__all__ if inspect.isclass(getattr(popart, n))))
def test_every_class_has_a_form(name):
    cls = getattr(popart, name)
    if name not in HANDLES and not name.startswith("_"):
        assert cls.__repr__ is not object.__repr__, f"{name} prints an address"


@pytest.mark.parametrize("name", sorted(n for n in popart.__all__ if hasattr(getattr(popart, n), "__members__")))
def test_members_of_enumerations_print_name_and_number(name):
    enumeration = getattr(popart, name)
    for member in enumeration:
        assert repr(member) == f"<{name}.{member.name}: {int(member)}>"
        assert re.fullmatch(rf"{name}\.{member.name}", str(member)) or name in ("DeviceType", "SyncPattern")


def test_enumerations_convert():
    assert popart.DataType(11) == popart.DataType.FLOAT == popart.DataType["FLOAT"]
    assert {popart.DataType.FLOAT: 1}[popart.DataType.FLOAT] == 1
