"""The parts of a profile's page with the estimates of the model of an IPU."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape

from popart.profile.facts import Step
from popart.profile.model import PARTS, ModelProfile
from popart.profile.pieces import (
    MOST_VALUES,
    bar_cell,
    cards,
    cell,
    key,
    layer_cell,
    ms,
    name_cells,
    number_cell,
    percent,
    phase_cell,
    row,
    table,
    value_cell,
)
from popart.tools.output import bytes_text, flops_text

COLOURS = {"compute": "forward", "memory": "backward", "link": "host", "sync": "other"}
MEANINGS = {
    "compute": "operations of steps that are bound by them",
    "memory": "bytes of the tiles' memory, in steps that are bound by them",
    "link": "bytes from and to the host and remote memory",
    "sync": "all tiles wait for each other before a step",
}
UNKNOWN = (
    "Exchange between tiles takes no time here. On an IPU, every step whose operands are on other tiles has some.",
    "All values and all work are spread evenly. On an IPU, the tile with the most decides.",
    "Code, the state of vertices and copies of a value on several tiles take no memory here, and temporary values of "
    "operators neither.",
    "Operations count as FLOAT, in 16 bits too, where an IPU is up to four times as fast.",
    "Steps and their fusion are those that were planned for the host.",
)


def overview(profile: ModelProfile) -> Iterator[str]:
    """The most important figures, and the cycles of a run by part."""
    model = profile.model
    flops = sum(step.flops * step.calls for step in profile.steps)
    always = sum(bytes_ for _, is_always, bytes_ in profile.memory_parts if is_always)
    whole_bytes = sum(bytes_ for _, _, bytes_ in profile.memory_parts)
    full = model["machine"]["bytesPerTile"]
    share = _of(flops / profile.machine["flopsPerSecond"] * 1e9, profile.run_nanoseconds)
    yield from cards(
        [
            (f"{model['cycles']:,.0f}", "cycles of a run"),
            (ms(profile.run_nanoseconds), f"at {model['machine']['clockFrequency'] / 1e9:g} GHz"),
            (flops_text(flops), "operations of a run"),
            (percent(share), "of the peak rate"),
            (percent(profile.tile_bytes / full), f"of a tile's {bytes_text(full)} in use at the peak"),
            (_on_tile(profile, always), "always live on a tile"),
            (_on_tile(profile, whole_bytes - always), "not always live on a tile"),
        ]
    )
    if profile.tile_bytes > full:
        yield (
            f'<p class="worse">The program does not fit: a tile needs {_on_tile(profile, whole_bytes)} and has '
            f"{bytes_text(full)}. Use more IPUs, or see the guide “Making it fit”.</p>"
        )
    whole = max(model["cycles"], 1e-9)
    spans = "".join(
        f'<span class="{COLOURS[part]}" style="width:{100 * count / whole:.3f}%" title="{part}"></span>'
        for part, count in profile.parts.items()
        if count
    )
    yield f'<div class="parts">{spans}</div><div>'
    for part, count in profile.parts.items():
        yield key(COLOURS[part], f"{part} {count:,.0f} cycles ({percent(count / whole)})")
    yield "</div><p>This is an estimate, and rather a lower bound. It does not know:</p><ul>"
    yield from (f"<li>{escape(text)}</li>" for text in UNKNOWN)
    if model["openLoops"]:
        yield f"<li>Loops whose length data decide count as one iteration. This program has {model['openLoops']}.</li>"
    yield "</ul>"


def tiles(profile: ModelProfile) -> Iterator[str]:
    """Memory and cycles of a tile."""
    of_replica = " of a replica" if profile.replicas["all"] > 1 else ""
    full = profile.model["machine"]["bytesPerTile"]
    yield (
        f"<p>{profile.tiles:,} tiles{of_replica}. Each has the same share of every value and of every step, so that "
        "this table is true of all of them.</p>"
    )
    columns = [
        ("memory", "name"), ("live", "name"), ("all tiles", "number"), ("a tile", "number"),
        ("of its memory", "number"), ("", "bar"),
    ]  # fmt: skip
    rows = []
    for name, is_always, bytes_ in profile.memory_parts:
        share = bytes_ / profile.tiles / full
        live = "always" if is_always else "not always"
        cells = [
            name_cells(name, live),
            cell(bytes_text(bytes_), bytes_),
            cell(_on_tile(profile, bytes_), bytes_),
            cell(percent(share), bytes_),
            bar_cell("forward" if is_always else "backward", share, bytes_),
        ]
        rows.append(row(cells, f"{name} {live}"))
    yield from table("tile-memory", columns, rows)
    memory = profile.facts["memory"]
    left_out = [
        f"{bytes_text(memory[name])} of {what}"
        for name, what in (("scratch", "working memory of the host's kernels"), ("remote", "remote memory"))
        if memory[name]
    ]
    if left_out:
        yield f"<p>Not in tile memory, and not counted: {' and '.join(left_out)}.</p>"
    columns = [("cycles", "name"), ("of what", "name"), ("in a run", "number"), ("share", "number"), ("", "bar")]
    rows = []
    whole = max(profile.model["cycles"], 1e-9)
    for part in PARTS:
        count = profile.parts[part]
        cells = [
            name_cells(part, MEANINGS[part]),
            cell(f"{count:,.0f}", count),
            cell(percent(count / whole), count),
            bar_cell(COLOURS[part], count / whole, count),
        ]
        rows.append(row(cells, f"{part} {MEANINGS[part]}"))
    yield from table("tile-cycles", columns, rows)


def steps(profile: ModelProfile) -> Iterator[str]:
    """Every step as a compute set, with its cycles."""
    yield (
        "<p>A kernel counts as one compute set. Its cycles are the longer of its operations and its bytes, and the "
        "synchronisation before it.</p>"
    )
    columns = [
        ("step", "number"), ("layer and operator", "name"), ("phase", "name"), ("calls", "number"),
        ("cycles of a call", "number"), ("in a run", "number"), ("share", "number"), ("bound by", "name"),
        ("compute", "number"), ("memory", "number"), ("link", "number"), ("sync", "number"),
    ]  # fmt: skip
    yield from table("model-steps-table", columns, [_step_row(profile, step) for step in profile.steps])


def _step_row(profile: ModelProfile, step: Step) -> str:
    one, whole = profile.cycles[step.number], profile.cycles_of_run(step)
    cells = [
        number_cell(step),
        layer_cell(step),
        phase_cell(step),
        cell(f"{step.calls:,}", step.calls),
        cell(f"{whole / one.calls:,.0f}", whole / one.calls),
        cell(f"{whole:,.0f}", whole),
        cell(percent(_of(whole, profile.model["cycles"])), whole),
        name_cells(one.bound),
        *(cell(f"{getattr(one, part):,.0f}" if getattr(one, part) else "", getattr(one, part)) for part in PARTS),
    ]
    return row(cells, " ".join([step.title, step.phase, one.bound]))


def exchange(profile: ModelProfile) -> Iterator[str]:
    """Data movement: from and to the host, remote memory, copies, collectives."""
    link = sum(one.link_bytes * one.calls for one in profile.cycles)
    yield (
        f"<p>{bytes_text(link)} cross the link to the host and to remote memory in a run, which takes "
        f"{profile.parts['link']:,.0f} cycles. Copies and collectives of replicas count as traffic of the tiles' own "
        "memory. What steps read from other tiles is not known.</p>"
    )
    columns = [
        ("step", "number"), ("what it moves", "name"), ("kind", "name"), ("calls", "number"),
        ("bytes in a run", "number"), ("cycles in a run", "number"), ("share", "number"),
    ]  # fmt: skip
    rows = []
    for step in profile.steps:
        moved = profile.moves.get(step.number)
        if moved is None:
            continue
        kind, bytes_ = moved.kind, moved.bytes * step.calls
        whole = profile.cycles_of_run(step)
        cells = [
            number_cell(step),
            layer_cell(step),
            name_cells(kind),
            cell(f"{step.calls:,}", step.calls),
            cell(bytes_text(bytes_), bytes_),
            cell(f"{whole:,.0f}", whole),
            cell(percent(_of(whole, profile.model["cycles"])), whole),
        ]
        rows.append(row(cells, f"{step.title} {kind}"))
    if rows:
        yield from table("exchange-table", columns, rows)


def values(profile: ModelProfile) -> Iterator[str]:
    """The largest values, always live or not."""
    yield (
        "<p>Variables and constants are always live. The others are in memory from their first to their last step, and "
        "may share it.</p>"
    )
    columns = [
        ("value", "name"), ("live", "name"), ("all tiles", "number"), ("a tile", "number"), ("from step", "number"),
        ("to step", "number"),
    ]  # fmt: skip
    rows = []
    for value in profile.stored[:MOST_VALUES]:
        live = "always" if value.always else "not always"
        used = [profile.program[number] if number >= 0 else None for number in (value.first, value.last)]
        cells = [
            value_cell(value.name, None if value.always else used[0]),
            name_cells(live),
            cell(bytes_text(value.bytes), value.bytes),
            cell(_on_tile(profile, value.bytes), value.bytes),
            *map(number_cell, used),
        ]
        rows.append(row(cells, " ".join([value.name, live, *(step.title for step in used if step)])))
    yield from table("values-table", columns, rows)
    if len(profile.stored) > MOST_VALUES:
        yield f"<p>{len(profile.stored) - MOST_VALUES:,} smaller values are left out.</p>"


def constants(profile: ModelProfile) -> Iterator[str]:
    """The constants of the machine, with their sources."""
    one, target = profile.model["machine"], profile.facts["target"]
    source, assumed, device = one["source"], "an assumption", "the device"
    rows = [
        ("IPUs of the device", f"{target['numIPUs']:,}", device),
        ("tiles of an IPU", f"{target['tilesPerIpu']:,}", device),
        ("tiles of a replica", f"{profile.tiles:,}", device),
        ("clock", f"{one['clockFrequency'] / 1e9:g} GHz", source),
        ("operations of a tile", f"{one['flopsPerCycle']:g} in a cycle, in FLOAT", source),
        ("memory traffic of a tile", f"{one['bytesPerCycle']:g} bytes in a cycle", source),
        ("memory of a tile", bytes_text(one["bytesPerTile"]), source),
        ("synchronisation", f"{one['syncCycles']:g} cycles before a step", assumed),
        ("link", f"{one['linkBytesPerCycle']:g} bytes in a cycle, to all tiles", assumed),
    ]
    yield f"<p>IPU version {escape(one['version'])}.</p>"
    columns = [("constant", "name"), ("value", "name"), ("source", "name")]
    lines = [row([name_cells(*texts)], " ".join(texts)) for texts in rows]
    yield from table("constants-table", columns, lines)


def _on_tile(profile: ModelProfile, bytes_: int) -> str:
    """The share of a tile, in whole bytes."""
    return bytes_text(math.ceil(bytes_ / profile.tiles))


def _of(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
