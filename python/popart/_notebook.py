"""HTML of objects for notebooks: small tables with escaped texts. Making them compiles and loads nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

MOST_ROWS = 100  # of a table
MOST_LINES = 400  # of a text


def facts_html(title: str, facts: Iterable[tuple[str, object]]) -> str:
    """Make a table of names and values.

    Args:
        title: Title of the object.
        facts: Names and values; rows whose value is an empty text are left out.

    Returns:
        HTML.
    """
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(str(value))}</td></tr>'
        for name, value in facts
        if value != ""
    )
    return f"<table>{_caption(title)}<tbody>{rows}</tbody></table>"


def rows_html(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Make a table with column titles; of more than 100 rows, the first 100 and the number of rows.

    Args:
        title: Title of the object.
        columns: Their titles.
        rows: A cell for each column.

    Returns:
        HTML.
    """
    head = "".join(f'<th style="text-align:left">{escape(column)}</th>' for column in columns)
    body = "".join(
        "<tr>" + "".join(f'<td style="text-align:left">{escape(str(cell))}</td>' for cell in row) + "</tr>"
        for row in rows[:MOST_ROWS]
    )
    if len(rows) > MOST_ROWS:
        body += f'<tr><td colspan="{len(columns)}">and {len(rows) - MOST_ROWS:,} more</td></tr>'
    return f"<table>{_caption(title)}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def folded_html(title: str, text: str) -> str:
    """Make a text that opens with a click; of more than 400 lines, the first 400 and the number of lines.

    Args:
        title: The line to click on.
        text: Its lines.

    Returns:
        HTML.
    """
    lines = text.rstrip("\n").split("\n")
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], f"and {len(lines) - MOST_LINES:,} more lines"]
    shown = escape("\n".join(lines))
    return f'<details><summary>{escape(title)}</summary><pre style="text-align:left">{shown}</pre></details>'


def _caption(title: str) -> str:
    return f'<caption style="text-align:left"><b>{escape(title)}</b></caption>'


def listed(names: Sequence[object], most: int = 8) -> str:
    """Write names in one line; of many, the first ones and their number.

    Returns:
        The text.
    """
    shown = ", ".join(str(name) for name in names[:most])
    return shown + (f" and {len(names) - most:,} more" if len(names) > most else "")
