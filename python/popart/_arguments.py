"""Checks of the arguments of public functions. A wrong kind raises TypeError, a wrong value ArgumentError.

Both say the function, the argument, what was given and what is expected: ``Trainer: accumulation: got '2', expected a
whole number, 1 or more``.
"""

import math
import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from popart_core import popart_exception

from popart._names import nearest_names


class ArgumentError(popart_exception, ValueError):
    """An argument has a value that the function does not take."""


def _fault(kind: type[Exception], what: str, value: Any, expected: str) -> Exception:
    return kind(f"{what}: got {value!r}, expected {expected}")


def _bounds(least: float | None, most: float | None, above: float | None = None) -> str:
    if above is not None:
        return f", above {above}"
    if least is not None and most is not None:
        return f" from {least} to {most}"
    return "" if least is None else f", {least} or more"


def whole(what: str, value: Any, least: int | None = None, most: int | None = None) -> int:
    """Check a whole number.

    Args:
        what: Function and argument, for the message.
        value: The argument: an integer of Python or of another library.
        least: Smallest value; None: any.
        most: Largest value; None: any.

    Returns:
        The number.

    Raises:
        TypeError: It is no integer, or a bool.
        ArgumentError: It is out of range.
    """
    expected = f"a whole number{_bounds(least, most)}"
    try:
        number = operator.index(value)
    except TypeError:
        raise _fault(TypeError, what, value, expected) from None
    if isinstance(value, bool | np.bool_):
        raise _fault(TypeError, what, value, expected)
    if (least is not None and number < least) or (most is not None and number > most):
        raise _fault(ArgumentError, what, value, expected)
    return number


def number(
    what: str, value: Any, least: float | None = None, most: float | None = None, above: float | None = None
) -> float:
    """Check a finite number.

    Args:
        what: As `whole`.
        value: The argument: a number of Python or of another library.
        least: Smallest value; None: any.
        most: Largest value; None: any.
        above: Bound that the value has to exceed; None: none.

    Returns:
        The number.

    Raises:
        TypeError: It is no number, or a bool.
        ArgumentError: It is NaN, infinite or out of range.
    """
    expected = f"a finite number{_bounds(least, most, above)}"
    try:
        made = math.nan if isinstance(value, str | bytes | bool | np.bool_) else float(value)
        is_number = not isinstance(value, str | bytes | bool | np.bool_)
    except (TypeError, ValueError):
        is_number = False
    if not is_number:
        raise _fault(TypeError, what, value, expected)
    fits = (least is None or made >= least) and (most is None or made <= most) and (above is None or made > above)
    if not math.isfinite(made) or not fits:
        raise _fault(ArgumentError, what, value, expected)
    return made


def flag(what: str, value: Any) -> bool:
    """Check a bool.

    Returns:
        The bool.

    Raises:
        TypeError: It is none.
    """
    if not isinstance(value, bool | np.bool_):
        raise _fault(TypeError, what, value, "True or False")
    return bool(value)


def one_of(what: str, value: Any, known: Sequence[str]) -> str:
    """Check a name.

    Returns:
        The name.

    Raises:
        TypeError: It is no text.
        ArgumentError: It is none of `known`.
    """
    expected = f"one of {', '.join(map(repr, known))}"
    if not isinstance(value, str):
        raise _fault(TypeError, what, value, expected)
    if value not in known:
        raise ArgumentError(f"{what}: got {value!r}, expected {expected}{nearest_names(value, known)}")
    return value


def names(what: str, value: Any) -> list[str]:
    """Check names: several, or one.

    Returns:
        The names; none for None.

    Raises:
        TypeError: It is something else.
    """
    if value is None:
        return []
    found = [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)
    if isinstance(value, bytes) or not all(isinstance(name, str) for name in found):
        raise _fault(TypeError, what, value, "a name or a list of names")
    return found


def mapping(what: str, value: Any, of: str) -> dict[str, Any]:
    """Check a dictionary whose keys are text.

    Returns:
        A copy; empty for None.

    Raises:
        TypeError: It is something else.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise _fault(TypeError, what, value, f"a dictionary of {of} by name")
    return dict(value)


def function(what: str, value: Any) -> Any:
    """Check a function.

    Returns:
        The function; None for None.

    Raises:
        TypeError: It cannot be called.
    """
    if value is not None and not callable(value):
        raise _fault(TypeError, what, value, "a function")
    return value


def file_path(what: str, value: Any) -> Path:
    """Check the name of a file or folder.

    Returns:
        The path.

    Raises:
        TypeError: It is neither text nor a path.
    """
    if not isinstance(value, str | os.PathLike):
        raise _fault(TypeError, what, value, "the name of a file or folder")
    return Path(value)


def text(what: str, value: Any) -> str:
    """Check a text.

    Returns:
        The text.

    Raises:
        TypeError: It is none.
    """
    if not isinstance(value, str):
        raise _fault(TypeError, what, value, "text")
    return value


def optional(check: Callable[..., Any], what: str, value: Any, *bounds: Any, **named: Any) -> Any:
    """Check an argument that may be None.

    Returns:
        None, or what `check` returns.

    Raises:
        TypeError: As `check`.
        ArgumentError: As `check`.
    """
    return None if value is None else check(what, value, *bounds, **named)
