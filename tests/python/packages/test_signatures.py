"""inspect.signature works on every public callable, and help() fits a terminal."""

import enum
import inspect
import types
from collections.abc import Iterator

import popart
import pytest

from tests.python.packages.test_help import COMPILED, MODULES, compiled_help, public

WIDTH = 120


def our_members(made: type) -> dict[str, object]:
    """Members of a class that it or a base of ours defines."""
    bases = [base for base in made.__mro__ if base.__module__.startswith(("popart", "popxl", "popdist", "pva"))]
    return {name: getattr(made, name) for base in reversed(bases) for name in vars(base) if hasattr(made, name)}


def callables(module) -> Iterator[tuple[str, object]]:
    """Public functions of a module, classes that can be called, and what can be called of the classes."""
    for name, value in public(module):
        if not inspect.isclass(value):
            if callable(value):
                yield name, value
            continue
        members = our_members(value)
        if not issubclass(value, enum.Enum):
            if not isinstance(members.get("__init__"), types.WrapperDescriptorType | None):  # else only we make objects
                yield name, value
            for member, found in members.items():
                if (
                    (not member.startswith("_") or member == "__init__")
                    and callable(found)
                    and not inspect.isclass(found)
                ):
                    yield f"{name}.{member}", found


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_public_callable_has_a_signature(module):
    without = []
    for name, value in callables(module):
        try:
            inspect.signature(value)
        except (TypeError, ValueError):
            without.append(name)
    assert without == []


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_lines_of_help_are_short(module):
    long = []
    for name, value in callables(module):
        text = compiled_help(value)[0] if type(value).__name__ in COMPILED else value.__doc__ or ""
        long += [name for line in text.splitlines() if len(line) > WIDTH]
    assert long == []


def test_a_signature_says_names_types_and_defaults():
    signature = inspect.signature(popart.ConstSGD)
    assert list(signature.parameters) == [
        "learning_rate", "weight_decay", "loss_scaling", "clip_norm_settings",
    ]  # fmt: skip
    assert signature.parameters["loss_scaling"].default == 1.0
    assert str(signature.parameters["learning_rate"]) == "learning_rate: float"
    assert signature.bind(0.1, loss_scaling=2.0).arguments == {"learning_rate": 0.1, "loss_scaling": 2.0}
    with pytest.raises(TypeError, match="rate"):
        signature.bind(rate=0.1)


def test_a_method_of_an_object_has_no_self():
    manager = popart.DeviceManager()
    unbound = inspect.signature(popart.DeviceManager.createIpuModelDevice)
    assert list(unbound.parameters) == ["self", "opts"]
    assert list(inspect.signature(manager.createIpuModelDevice).parameters) == ["opts"]


def test_what_reads_a_property_has_a_signature():
    """It has no name, which documentation asks for."""
    getters = [found.fget for found in vars(popart.DeviceInfo).values() if isinstance(found, property)]
    assert getters and all(list(inspect.signature(getter).parameters) == ["self"] for getter in getters)


def test_overloads_have_one_signature_that_all_calls_fit():
    signature = inspect.signature(popart.AnchorReturnType)
    signature.bind("All")
    signature.bind("EveryN", 2)
    signature.bind("All", tileSet=popart.TileSet.Compute)
    assert "returnPeriod" in signature.parameters
    for call in ((2, {"a": popart.AnchorReturnType("All")}), (2, ["a"], popart.AnchorReturnType("All"))):
        inspect.signature(popart.DataFlow).bind(*call)
