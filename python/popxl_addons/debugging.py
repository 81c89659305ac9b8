"""Printing while a program runs, controlled by the level in MODEL_LOG_LEVEL."""

import os
from typing import Any

import popxl
from popxl import ops

__all__ = ["print_tensor", "print_text"]

_LEVELS = {"TRACE": 0, "DEBUG": 1, "INFO": 2, "WARN": 3}
_LEVEL = _LEVELS[os.environ.get("MODEL_LOG_LEVEL", "INFO")]


def print_tensor(t: popxl.Tensor, *args: Any, level: str = "DEBUG", **kwargs: Any) -> popxl.Tensor:
    """Print a tensor when the program runs, if the environment variable MODEL_LOG_LEVEL includes this level.

    Args:
        t: the tensor.
        *args: as in `popxl.ops.print_tensor`.
        level: ``"TRACE"``, ``"DEBUG"``, ``"INFO"`` or ``"WARN"``. MODEL_LOG_LEVEL is one of them, INFO unless set, and
            is read once.
        **kwargs: as in `popxl.ops.print_tensor`.

    Returns:
        The printed tensor, or t.

    Raises:
        KeyError: the level is unknown.
    """
    return ops.print_tensor(t, *args, **kwargs) if _LEVELS[level] >= _LEVEL else t


def print_text(text: str, num: popxl.Tensor | None = None, level: str = "DEBUG") -> None:
    """Print a text when the program runs; `print_tensor` with the text as title.

    Args:
        text: the text.
        num: tensor to print after the text, default a constant.
        level: as in `print_tensor`.

    Raises:
        KeyError: the level is unknown.
    """
    if _LEVELS[level] >= _LEVEL:
        ops.print_tensor(popxl.constant(0, name="print_text") if num is None else num, text)
