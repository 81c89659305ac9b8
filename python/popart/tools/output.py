"""How commands print: tables (rich), sizes, times and counts with their units.

On a terminal a table has colours and folds long cells at the width of the terminal. Into a pipe or a file it is plain
text as wide as its cells, which starts faster: rich is loaded for terminals, and for the width of letters that are not
ASCII. rich respects ``NO_COLOR``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any

import popart_core

NUMBER = re.compile(r"-?[\d,]+(\.\d+)?(e[-+]?\d+)?(%| \w+)?$")  # with a unit or without


def _on_terminal(shown: Any) -> str:
    """What rich prints on the terminal of stdout, as text."""
    from rich.console import Console

    console = Console(highlight=False, emoji=False, markup=False)
    with console.capture() as captured:
        console.print(shown, end="")
    return captured.get().rstrip("\n")


def styled(text: str, style: str) -> str:
    """A short text in a style of rich, such as ``bold red``, where stdout is a terminal."""
    if not sys.stdout.isatty():
        return text
    from rich.text import Text

    return _on_terminal(Text(text, style=style))


def table(rows: Sequence[Sequence[Any]], titles: Sequence[str], total: Sequence[Any] = ()) -> str:
    """Columns side by side.

    Args:
        rows: Cells; whole numbers get separators. A column of numbers alone is aligned to the right.
        titles: One for each column.
        total: A last row; empty: none.

    Returns:
        The lines, without a line break at the end.
    """
    every = [*rows, *([total] if total else [])]
    right = [bool(every) and all(is_number(row[i]) for row in every) for i in range(len(titles))]
    texts = [[cell_text(cell) for cell in row] for row in every]
    if not sys.stdout.isatty():
        return _plain([list(titles), *texts], right)
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_edge=False)
    for title, of_numbers in zip(titles, right, strict=True):
        made.add_column(Text(title), justify="right" if of_numbers else "left", overflow="fold")
    for i, row in enumerate(texts):
        style = "bold" if total and i == len(texts) - 1 else ""
        made.add_row(*(Text(text, style=style) for text in row))
    return "\n".join(line.rstrip() for line in _on_terminal(made).split("\n"))


def _plain(rows: list[list[str]], right: list[bool]) -> str:
    """The lines of a table in a pipe or a file: neither styles nor folds, so rich's console need not be loaded."""

    def width(text: str) -> int:
        if text.isascii():
            return len(text)
        from rich.cells import cell_len

        return cell_len(text)

    widths = [max(width(row[i]) for row in rows) for i in range(len(right))]
    lines = []
    for row in rows:
        gaps = [" " * (most - width(text)) for text, most in zip(row, widths, strict=True)]
        cells = [gap + text if last else text + gap for text, gap, last in zip(row, gaps, right, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def is_number(cell: Any) -> bool:
    """Whether a cell is aligned to the right: a number, such a text with or without a unit, or nothing."""
    return isinstance(cell, int | float) or not str(cell) or bool(NUMBER.match(str(cell)))


def cell_text(cell: Any) -> str:
    """The text of a cell; whole numbers with separators, characters that a terminal would obey as escapes."""
    if isinstance(cell, int) and not isinstance(cell, bool):
        return f"{cell:,}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(cell))


def bytes_text(count: float) -> str:
    """A size, as ``src/base/units.hpp`` says: ``12 B``, ``1.500 KiB``, ``128.1 MiB``."""
    return popart_core._bytes_text(count)


def time_text(seconds: float) -> str:
    """A time: ``0.8 us``, ``12.50 ms``, ``3.000 s``."""
    return popart_core._time_text(seconds)


def flops_text(count: float) -> str:
    """Floating-point operations: ``512 FLOP``, ``3.633 GFLOP``."""
    return popart_core._flops_text(count)
