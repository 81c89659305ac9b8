"""Errors for names that do not exist: they say which ones are near."""

import sys
from collections.abc import Iterable
from typing import Any

import popart_core


def nearest_names(wanted: str, known: Iterable[str]) -> str:
    """A sentence with up to three of the names `known` that resemble `wanted`, by the rule of ``src/base/nearest.hpp``.

    Returns:
        Such as ``". Nearest names: gelu, elu"``; empty when nothing resembles it.
    """
    found = popart_core._nearest(wanted, list(known))
    return f". Nearest names: {', '.join(found)}" if found else ""


def no_attribute(owner: str, name: str, known: Iterable[str]) -> AttributeError:
    """The error for an attribute that is not there.

    Args:
        owner: What was asked, as Python puts it: ``module 'popart'``.
        name: The attribute.
        known: Those there are; private ones are not suggested.

    Returns:
        The error, to be raised.
    """
    public = () if name.startswith("_") else (other for other in known if not other.startswith("_"))
    return AttributeError(f"{owner} has no attribute '{name}'{nearest_names(name, public)}")


def suggest_in_modules(*names: str) -> None:
    """Make imported modules suggest the nearest of their names when asked for one that they lack."""

    def install(module: Any) -> None:
        def __getattr__(name: str) -> Any:
            raise no_attribute(f"module '{module.__name__}'", name, dir(module))

        module.__getattr__ = __getattr__

    for name in names:
        install(sys.modules[name])


def suggest_in_classes(*classes: type, sets: bool = False) -> None:
    """Make objects of classes suggest the nearest attribute when asked for one that they lack.

    Args:
        *classes: Classes without a ``__getattr__`` of their own.
        sets: Also when an attribute is set, in classes whose objects take no new ones.
    """

    def __getattr__(self: Any, name: str) -> Any:
        raise no_attribute(f"'{type(self).__name__}' object", name, dir(type(self)))

    def __setattr__(self: Any, name: str, value: Any) -> None:
        try:
            object.__setattr__(self, name, value)
        except (AttributeError, TypeError) as error:
            if not hasattr(self, name):
                raise no_attribute(f"'{type(self).__name__}' object", name, dir(type(self))) from None
            if isinstance(error, AttributeError):
                raise
            wanted = type(getattr(self, name)).__name__
            raise TypeError(
                f"{type(self).__name__}.{name}: got {value!r} of type {type(value).__name__}, expected {wanted}"
            ) from None

    for item in classes:
        item.__getattr__ = __getattr__
        if sets:
            item.__setattr__ = __setattr__
