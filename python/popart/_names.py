"""Errors for unknown names: they suggest similar names, or the name that PopART has for the name of another library."""

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

import popart_core

_F = TypeVar("_F", bound=Callable[..., Any])


def nearest_names(wanted: str, known: Iterable[str]) -> str:
    """Suggest up to three of the names `known` that resemble `wanted`, by the rule of ``src/base/nearest.hpp``.

    Returns:
        A sentence such as ``". Nearest names: gelu, elu"``; empty if no name is similar.
    """
    return popart_core._nearest_text(wanted, list(known))


def no_attribute(owner: str, name: str, known: Iterable[str]) -> AttributeError:
    """Make the error for an attribute that does not exist.

    Args:
        owner: The object, as Python names it in errors: ``module 'popart'``.
        name: The attribute.
        known: The attributes that exist; private ones are not suggested.

    Returns:
        The error, to be raised.
    """
    public = () if name.startswith("_") else (other for other in known if not other.startswith("_"))
    return AttributeError(f"{owner} has no attribute '{name}'{nearest_names(name, public)}")


def suggest_in_modules(*names: str, inside: Iterable[str] = ()) -> None:
    """Make modules suggest similar names when an attribute does not exist.

    Args:
        *names: Names of the modules.
        inside: Names of their submodules, whose names are suggested too.
    """

    def install(module: Any) -> None:
        def __getattr__(name: str) -> Any:
            for part in inside:
                if name in getattr(module, part).__all__:
                    raise AttributeError(
                        f"module '{module.__name__}' has no attribute '{name}': write {module.__name__}.{part}.{name}"
                    )
            raise no_attribute(f"module '{module.__name__}'", name, dir(module))

        module.__getattr__ = __getattr__

    for name in names:
        install(sys.modules[name])


def explain_keywords(known_elsewhere: Mapping[str, str]) -> Callable[[_F], _F]:
    """Make a function raise an error for unknown keyword arguments, with similar names or the name to use instead.

    Args:
        known_elsewhere: For keyword arguments of other libraries, the text that says what to write.

    Returns:
        A decorator.
    """

    def decorate(function: _F) -> _F:
        names = list(inspect.signature(function).parameters)
        what = function.__qualname__.removesuffix(".__init__")

        @functools.wraps(function)
        def checked(*args: Any, **keywords: Any) -> Any:
            for name in keywords:
                if name not in names:
                    more = f": {known_elsewhere[name]}" if name in known_elsewhere else nearest_names(name, names)
                    raise TypeError(f"{what}: there is no argument '{name}'{more}")
            return function(*args, **keywords)

        return cast(_F, checked)

    return decorate


def suggest_in_classes(*classes: type, sets: bool = False) -> None:
    """Make objects of classes suggest similar names when an attribute does not exist.

    Args:
        *classes: Classes without their own ``__getattr__``.
        sets: Also when an attribute is assigned; for classes whose objects take no new attributes.
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
