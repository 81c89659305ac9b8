"""Pieces of a page: tables that can be searched and sorted, figures, bars."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from popart.profile.facts import NO_LAYER, Step
from popart.tools.output import time_text

MOST_VALUES = 200  # rows of a table of values in memory


def cards(figures: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Figures in a row: each a text and its meaning."""
    yield '<div class="cards">'
    yield from (f'<div class="card"><b>{escape(text)}</b><span>{escape(what)}</span></div>' for text, what in figures)
    yield "</div>"


def key(colour: str, text: str) -> str:
    """A square of a colour and its meaning."""
    return f'<span class="key {colour}">{text}</span>'


def cell(text: str, value: float | None = None, kind: str = "number") -> str:
    """A cell; `value`: its sort key."""
    data = "" if value is None else f' data-value="{value:.6g}"'
    return f'<td class="{kind}"{data}>{text}</td>'


def name_text(name: str) -> str:
    """A name, escaped; lines break after its slashes."""
    return escape(name).replace("/", "/<wbr>")


def name_cells(*names: str) -> str:
    """Cells with names."""
    return "".join(f'<td class="name">{name_text(name)}</td>' for name in names)


def number_cell(step: Step | None) -> str:
    """A cell with the number of a step, and its title as a hint; None: an empty cell."""
    if step is None:
        return cell("", -1)
    return f'<td class="number" data-value="{step.number}" title="{escape(step.title)}">{step.number}</td>'


def value_cell(name: str, maker: Step | None) -> str:
    """A cell with a value in memory, and the layer whose step makes it below."""
    layer = f"<small>{name_text(maker.layer)}</small>" if maker and maker.layer else ""
    return f'<td class="name" data-value="{escape(name)}">{name_text(name)}{layer}</td>'


def layer_cell(step: Step) -> str:
    """A cell with the layer of a step, and its name below."""
    return (
        f'<td class="name" data-value="{escape(step.layer)}">{name_text(step.layer or NO_LAYER)}'
        f"<small>{escape(step.name)}</small></td>"
    )


def phase_cell(step: Step) -> str:
    """A cell with the phase of a step in its colour."""
    return f'<td class="phase {step.phase}"><span class="dot"></span>{step.phase}</td>'


def bar_cell(colour: str, share: float, value: float) -> str:
    """A cell with a bar, whose length is a share of the cell; `value`: its sort key."""
    part = f'<span class="{colour}" style="width:{min(100.0, 100 * share):.3f}%"></span>'
    return f'<td class="bar" data-value="{value:.6g}"><span>{part}</span></td>'


def table(name: str, titles: Sequence[tuple[str, str]], rows: Iterable[str], tools: str = "") -> Iterator[str]:
    """A table that can be searched and sorted.

    Args:
        name: Its id.
        titles: Of the columns, each with its class.
        rows: Lines of HTML.
        tools: More buttons above it.
    """
    label = f"Search in {name.replace('-', ' ')}"
    yield '<div class="tools">'
    yield f'<input type="search" data-table="{name}" placeholder="{label}" aria-label="{label}">'
    yield f'{tools}<span class="found" data-found="{name}"></span></div>'
    heads = "".join(f'<th class="{kind}"><button type="button">{title}</button></th>' for title, kind in titles)
    yield f'<div class="scroll"><table id="{name}"><thead><tr>{heads}</tr></thead><tbody>'
    yield from rows
    yield "</tbody></table></div>"


def row(cells: Iterable[str], text: str, attributes: str = "") -> str:
    """A row; `text`: the text that is searched."""
    return f'<tr data-text="{escape(text.lower())}"{attributes}>{"".join(cells)}</tr>'


def ms(nanoseconds: float) -> str:
    """A time with its unit."""
    return time_text(nanoseconds / 1e9)


def percent(share: float) -> str:
    """A share in percent."""
    return f"{100 * share:.1f} %"
