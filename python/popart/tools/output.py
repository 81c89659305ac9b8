"""How commands print: tables (rich), sizes, times and counts with their units.

On a terminal a table has colours and folds long cells at the width of the terminal. Into a pipe or a file it is plain
text as wide as its cells. ``NO_COLOR`` is respected by rich.
"""

from __future__ import annotations

import bisect
import re
import sys
from collections.abc import Sequence
from typing import Any

UNLIMITED = 1 << 16  # columns of what is not a terminal
NUMBER = re.compile(r"-?[\d,]+(\.\d+)?(e[-+]?\d+)?(%| \w+)?$")  # with a unit or without


def _console() -> Any:
    """A console of rich for stdout; to what is no terminal it prints plain lines of any length."""
    from rich.console import Console  # here: most calls of the commands print nothing that needs it

    width = None if sys.stdout.isatty() else UNLIMITED
    return Console(width=width, highlight=False, emoji=False, markup=False)


def styled(text: str, style: str) -> str:
    """A text in a style of rich, such as ``bold red``, where stdout is a terminal."""
    if not sys.stdout.isatty():
        return text
    from rich.text import Text

    console = _console()
    with console.capture() as captured:
        console.print(Text(text, style=style), end="", soft_wrap=True)
    return captured.get()


def table(rows: Sequence[Sequence[Any]], titles: Sequence[str], total: Sequence[Any] = ()) -> str:
    """Columns side by side.

    Args:
        rows: Cells; whole numbers get separators. A column of numbers alone is aligned to the right.
        titles: One for each column.
        total: A last row; empty: none.

    Returns:
        The lines, without a line break at the end.
    """
    from rich.table import Table
    from rich.text import Text

    console = _console()
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_edge=False)
    every = [*rows, *([total] if total else [])]
    for i, title in enumerate(titles):
        numbers = bool(every) and all(is_number(row[i]) for row in every)
        made.add_column(Text(title), justify="right" if numbers else "left", overflow="fold")
    for row in every:
        style = "bold" if total and row is every[-1] else ""
        made.add_row(*(Text(cell_text(cell), style=style) for cell in row))
    with console.capture() as captured:
        console.print(made)
    return "\n".join(line.rstrip() for line in captured.get().rstrip("\n").split("\n"))


def is_number(cell: Any) -> bool:
    """Whether a cell is aligned to the right: a number, such a text with or without a unit, or nothing."""
    return isinstance(cell, int | float) or not str(cell) or bool(NUMBER.match(str(cell)))


def cell_text(cell: Any) -> str:
    """The text of a cell; whole numbers with separators, characters that a terminal would obey as escapes."""
    if isinstance(cell, int) and not isinstance(cell, bool):
        return f"{cell:,}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(cell))


def scaled(value: float, unit: str, factors: Sequence[tuple[float, str]]) -> str:
    """A number in the largest unit of which it is at least one.

    Args:
        value: In `unit`, 0 or more.
        unit: Its name.
        factors: Larger units, the smallest first, each with how many of `unit` it is.

    Returns:
        The number with four significant digits, and its unit.
    """
    place = bisect.bisect_right([factor for factor, _ in factors], value)
    if place == 0:
        return f"{value:.4g} {unit}"
    factor, name = factors[place - 1]
    number = value / factor
    digits = 3 if number < 10 else 2 if number < 100 else 1
    return f"{number:,.{digits}f} {name}"


def bytes_text(count: float) -> str:
    """A size: ``12 B``, ``1.500 KiB``, ``128.1 MiB``."""
    return scaled(count, "B", [(2.0**10, "KiB"), (2.0**20, "MiB"), (2.0**30, "GiB"), (2.0**40, "TiB")])


def time_text(seconds: float) -> str:
    """A time: ``0.8 us``, ``12.50 ms``, ``3.000 s``."""
    return scaled(seconds * 1e6, "us", [(1e3, "ms"), (1e6, "s")])


def flops_text(count: float) -> str:
    """Floating-point operations: ``512 FLOP``, ``3.633 GFLOP``."""
    return scaled(count, "FLOP", [(1e3, "kFLOP"), (1e6, "MFLOP"), (1e9, "GFLOP"), (1e12, "TFLOP"), (1e15, "PFLOP")])
