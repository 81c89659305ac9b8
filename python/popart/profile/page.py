"""The page of a profile: one HTML file that loads nothing, made from ``page.html`` in this folder.

Tables and drawings are complete without JavaScript; a script in the file searches, sorts, folds scopes and describes
the element under the pointer (decision 0101).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from html import escape
from importlib.resources import files
from string import Template

from popart.profile import model_page
from popart.profile.facts import NO_LAYER, PHASES, WHOLE_STEP, Change, Event, Profile, Step, Sum, changes
from popart.profile.model import ModelProfile
from popart.profile.pieces import (
    MOST_VALUES,
    bar_cell,
    cards,
    cell,
    key,
    layer_cell,
    ms,
    name_cells,
    name_text,
    number_cell,
    percent,
    phase_cell,
    row,
    table,
    value_cell,
)
from popart.tools.output import bytes_text, flops_text

OTHER = "other"  # time of a run outside of its steps
MOST_CHANGES = 400  # rows of a table of differences
SHORTEST = 1 / 20_000  # of the time line: shorter events are drawn with this length
LEAST_NAMED = 0.08  # share of a bar whose name fits into it
UNEVEN = 0.1  # part of a run by which the medians of its steps may differ from it


def page_of(profile: Profile, before: Profile | None = None) -> str:
    """The page of a profile.

    Args:
        profile: The profile.
        before: A profile to compare it with: of the same model before a change, for example.

    Returns:
        HTML.
    """
    parts: list[tuple[str, str, Iterable[str]]] = []
    model = ModelProfile(profile.facts) if "model" in profile.facts else None
    if model is not None:
        estimated_before = ModelProfile(before.facts) if before is not None and "model" in before.facts else None
        parts += _model_parts(model, estimated_before)
        parts.append(("memory", "Memory", _memory(profile)))
        if profile.runs:
            parts.append(("run", "Run on the host", _overview(profile)))
    measured = " on the host" if model is not None else ""
    if before is not None:
        parts.append(("compared", f"Compared{measured}", _compared(before, profile)))
    if profile.runs:
        parts += [
            ("layers", f"Layers{measured}", _layers(profile)),
            ("kinds", f"Kernels{measured}", _kinds(profile)),
            ("steps", f"Steps{measured}", _steps(profile)),
        ]
        if profile.events:
            parts.append(("time", f"Time line{measured}", _time_line(profile)))
    if model is None:
        parts.append(("memory", "Memory", _memory(profile)))
    if profile.busy:
        parts.append(("threads", f"Threads{measured}", _threads(profile)))
    if profile.replica_times:
        parts.append(("replicas", f"Replicas{measured}", _replicas(profile)))
    parts.append(("host", "Host", _host(profile)))
    body = ["<nav>", *(f'<a href="#{name}">{title}</a>' for name, title, _ in parts), "</nav>"]
    body += _overview(profile) if model is None else model_page.overview(model)
    for name, title, lines in parts:
        body += [f'<section><h2 id="{name}">{title}</h2>', *lines, "</section>"]
    shown = {"program": [step.title for step in profile.program], "live": profile.live_bytes}
    template = Template(files("popart.profile").joinpath("page.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=escape(f"Profile of {profile.session}"),
        subtitle=escape(_subtitle(profile)),
        body="\n".join(body),
        footer=_footer(profile),
        facts=json.dumps(shown).replace("<", "\\u003c"),
    )


def _model_parts(model: ModelProfile, before: ModelProfile | None) -> list[tuple[str, str, Iterable[str]]]:
    """The estimates of the model of an IPU."""
    parts: list[tuple[str, str, Iterable[str]]] = []
    if before is not None:
        parts.append(("model-compared", "Compared", _compared(before, model, "model-")))
    return [
        *parts,
        ("tiles", "Tiles", model_page.tiles(model)),
        ("model-layers", "Layers", _layers(model, "model-")),
        ("model-steps", "Compute sets", model_page.steps(model)),
        ("exchange", "Exchange", model_page.exchange(model)),
        ("values", "Values", model_page.values(model)),
        ("constants", "Machine", model_page.constants(model)),
    ]


def _subtitle(profile: Profile) -> str:
    runs = f"median of {len(profile.runs)} runs" if len(profile.runs) > 1 else f"{len(profile.runs)} run"
    threads = "1 thread" if profile.threads == 1 else f"{profile.threads} threads"
    processor = profile.machine.get("processor")
    said = f"{runs}, {threads}" + (f" of {processor}" if processor else "")
    if "model" in profile.facts:
        target = profile.facts["target"]
        ipus = f"{target['numIPUs']} IPU" + ("s" if target["numIPUs"] > 1 else "")
        said = f"Estimates of a model of {ipus} with {target['tilesPerIpu']:,} tiles each; on the host: {said}"
    return said + _replica_text(profile)


def _replica_text(profile: Profile) -> str:
    """Which of several replicas was recorded."""
    replicas = profile.replicas
    if replicas["all"] == 1:
        return ""
    said = f"; replica {replicas['recorded']} of {replicas['all']}"
    if replicas["here"] < replicas["all"]:
        said += (
            f", the first of process with replicas {replicas['first']} to {replicas['first'] + replicas['here'] - 1}"
        )
    return said


def _footer(profile: Profile) -> str:
    if not profile.machine:
        return "The machine was not measured, so shares of its limit are left out."
    flops = flops_text(profile.machine["flopsPerSecond"])
    bytes_ = bytes_text(profile.machine["bytesPerSecond"])
    tiles = "Limits of estimated layers are those of all tiles together. " if "model" in profile.facts else ""
    return tiles + escape(
        f"Limit of the machine: {flops}/s and {bytes_}/s, measured here with {profile.machine['threads']} threads "
        f"({profile.machine['measured']}). The limit of a step is the longer of its operations at that rate and its "
        "bytes at that rate, both by the compiler's cost model. Above 100 %, operands come from caches or have "
        "16 bits, or the machine was busy while it was measured. FLOP are floating-point operations; a multiplication "
        "with its addition counts two."
    )


# ---- pieces ----------------------------------------------------------------------------------------


def _flops(count: float) -> str:
    return flops_text(count) if count else ""


def _bar(sums: Sum, whole: float) -> str:
    """A bar whose length is the share of the time, in the colours of its phases."""
    total = max(whole, 1e-9)
    parts = "".join(
        f'<span class="{phase}" style="width:{100 * sums.phases[phase] / total:.3f}%"></span>'
        for phase in PHASES
        if sums.phases.get(phase)
    )
    return f'<td class="bar" data-value="{sums.nanoseconds:.6g}"><span>{parts}</span></td>'


def _limit_cell(profile: Profile, flops: float, bytes_: float, nanoseconds: float) -> str:
    limit = profile.limit(flops, bytes_, nanoseconds)
    if limit is None:
        return cell("", -1)
    return cell(f"{percent(limit.share)} {limit.bound}", limit.share)


# ---- parts -----------------------------------------------------------------------------------------


def _overview(profile: Profile) -> Iterator[str]:
    """The most important figures, and the time of a run by phase."""
    memory = profile.facts["memory"]
    figures = [(bytes_text(memory["total"]), "memory of the program")]
    if profile.live_bytes:
        figures.append((bytes_text(profile.live_bytes[profile.peak]), "activations at the peak"))
    if profile.runs:
        flops = sum(step.flops * step.calls for step in profile.steps)
        seconds = max(profile.run_nanoseconds, 1.0) / 1e9
        first = [
            (ms(profile.run_nanoseconds), "one run"),
            (flops_text(flops), "operations of a run"),
            (f"{flops_text(flops / seconds)}/s", "reached"),
        ]
        if profile.machine:
            first.append(
                (percent(profile.limit_nanoseconds / max(profile.run_nanoseconds, 1.0)), "of the machine's limit")
            )
        if profile.busy:
            threads = [nanoseconds for busy in profile.busy.values() for nanoseconds in busy]
            share = sum(threads) / (len(threads) * max(profile.run["nanoseconds"] if profile.run else 0, 1))
            first.append((percent(share), "threads busy"))
        figures = [*first, *figures]
    yield from cards(figures)
    if not profile.runs:
        yield "<p>No run was recorded, so times are left out.</p>"
        return
    outside = profile.outside_nanoseconds
    whole = max(profile.step_nanoseconds + outside, 1.0)
    phases = [(one.name, one.nanoseconds) for one in profile.by_phase()]
    if outside > 0:
        phases.append((OTHER, outside))
    parts = "".join(
        f'<span class="{name}" style="width:{100 * time / whole:.3f}%" title="{name}: {ms(time)}">'
        f"{name if time > LEAST_NAMED * whole else ''}</span>"
        for name, time in phases
    )
    yield f'<div class="parts">{parts}</div><div>'
    for name, time in phases:
        yield key(name, f"{name} {ms(time)} ({percent(time / whole)})")
    yield "</div>"
    said = ["Host moves values between host and program."]
    said.append("Other is the time of a run between its steps." if outside > 0 else "Some steps run at the same time.")
    if any(step.phase == "backward" and any("/update" in text for text in step.fused) for step in profile.steps):
        said.append("Updates of weights that are fused with their gradients count as backward.")
    if outside > 0 and abs(profile.run_nanoseconds - whole) > UNEVEN * profile.run_nanoseconds:
        times = [run["nanoseconds"] for run in profile.runs]
        said.append(
            f"Runs took {ms(min(times))} to {ms(max(times))}, and the medians of their steps add up to {ms(whole)}: "
            "other programs used the machine at the same time. Profile it again when it is idle."
        )
    yield f"<p>{' '.join(said)}</p>"


LAYER_COLUMNS = [
    ("layer", "name"), ("time", "number"), ("share", "number"), ("by phase", "bar"), ("operations", "number"),
    ("limit", "number"), ("steps", "number"),
]  # fmt: skip


def _layers(profile: Profile, prefix: str = "") -> Iterator[str]:
    """The tree of scopes; `prefix`: of ids."""
    yield (
        "<p>Scopes are the parts of layer names between slashes. The gradient and the update of a layer count for the "
        "layer. Where kernels are fused, the time counts for the layer that does most of the work.</p>"
    )
    tools = "".join(
        f'<button type="button" data-for="{prefix}layers-table" data-depth="{depth}">{text}</button>'
        for depth, text in ((0, "fold"), (1, "1 level"), (99, "all"))
    )
    whole = profile.step_nanoseconds
    rows = _scope_rows(profile, profile.scopes(), 0, whole, "")
    yield from table(f"{prefix}layers-table", LAYER_COLUMNS, rows, tools)


def _scope_rows(profile: Profile, scope: Sum, depth: int, whole: float, path: str) -> Iterator[str]:
    for child in sorted(scope.children.values(), key=lambda one: -one.nanoseconds):
        full = f"{path}/{child.name}" if path else child.name
        tree = ""
        closed = ""
        if child.children:
            folded = depth > 0
            closed = ' data-closed="1"' if folded else ""
            tree = (
                f'<button type="button" class="tree" aria-expanded="{"false" if folded else "true"}" '
                f'aria-label="open or close {escape(child.name)}">{"▸" if folded else "▾"}</button>'
            )
        indent = f' style="padding-left:{24 + 18 * depth}px"'
        name = f'<td class="name"{indent} data-value="{escape(full)}">{tree}{name_text(child.name)}</td>'
        cells = [
            name,
            cell(ms(child.nanoseconds), child.nanoseconds),
            cell(percent(child.nanoseconds / max(whole, 1e-9)), child.nanoseconds),
            _bar(child, whole),
            cell(_flops(child.flops), child.flops),
            _limit_cell(profile, child.flops, child.bytes, child.nanoseconds),
            cell(f"{child.steps:,}", child.steps),
        ]
        yield row(cells, full, f' data-depth="{depth}"{closed}')
        yield from _scope_rows(profile, child, depth + 1, whole, full)


KIND_COLUMNS = [
    ("kernel", "name"), ("time", "number"), ("share", "number"), ("by phase", "bar"), ("operations", "number"),
    ("bytes", "number"), ("limit", "number"), ("steps", "number"),
]  # fmt: skip


def _kinds(profile: Profile) -> Iterator[str]:
    """Kinds of kernels, and operators."""
    for title, name, sums in (
        ("By kind of kernel", "kernels-table", profile.sums(lambda step: step.kind)),
        ("By operator", "operators-table", profile.sums(lambda step: step.operator)),
    ):
        yield f"<p>{title}.</p>"
        columns = KIND_COLUMNS if name == "kernels-table" else [("operator", "name"), *KIND_COLUMNS[1:]]
        rows = [_kind_row(profile, one) for one in sums]
        yield from table(name, columns, rows)


def _kind_row(profile: Profile, one: Sum) -> str:
    whole = max(profile.step_nanoseconds, 1e-9)
    cells = [
        name_cells(one.name),
        cell(ms(one.nanoseconds), one.nanoseconds),
        cell(percent(one.nanoseconds / whole), one.nanoseconds),
        _bar(one, whole),
        cell(_flops(one.flops), one.flops),
        cell(bytes_text(one.bytes), one.bytes),
        _limit_cell(profile, one.flops, one.bytes, one.nanoseconds),
        cell(f"{one.steps:,}", one.steps),
    ]
    return row(cells, one.name)


STEP_COLUMNS = [
    ("step", "number"), ("layer and operator", "name"), ("phase", "name"), ("kernel, and what was fused", "kernel"),
    ("time", "number"), ("share", "number"), ("calls", "number"), ("rate", "number"), ("bytes", "number"),
    ("limit", "number"), ("threads", "number"),
]  # fmt: skip


def _steps(profile: Profile) -> Iterator[str]:
    """Every step that ran."""
    yield (
        "<p>In the order of the program. Click the title of a column to sort. Limit: what bounds the step, and the "
        "share of that rate that it reaches. Threads: how many worked on it, and for what share of their time.</p>"
    )
    yield from table("steps-table", STEP_COLUMNS, [_step_row(profile, step) for step in profile.steps])


def _step_row(profile: Profile, step: Step) -> str:
    flops, bytes_ = step.flops * step.calls, step.bytes * step.calls
    details = "".join(f"<small>{name_text(text)}</small>" for text in step.fused)
    if step.refusal:
        details += f'<small class="worse">slow: {escape(step.refusal)}</small>'
    threads = ""
    if step.threads:
        threads = f"{step.threads} ({100 * step.busy:.0f} %)"
    rate = f"{flops_text(flops / step.nanoseconds * 1e9)}/s" if flops and step.nanoseconds else ""
    cells = [
        number_cell(step),
        layer_cell(step),
        phase_cell(step),
        f'<td class="kernel" data-value="{escape(step.kernel)}">{escape(step.kernel)}{details}</td>',
        cell(ms(step.nanoseconds), step.nanoseconds),
        cell(percent(step.nanoseconds / max(profile.step_nanoseconds, 1e-9)), step.nanoseconds),
        cell(f"{step.calls:,}", step.calls),
        cell(rate, flops / step.nanoseconds if step.nanoseconds else 0),
        cell(bytes_text(bytes_), bytes_),
        cell("", -1) if step.phase == "host" else _limit_cell(profile, flops, bytes_, step.nanoseconds),
        cell(threads, step.threads + step.busy),
    ]
    return row(cells, " ".join([step.title, step.phase, step.kernel, *step.fused]))


ROW, GAP, WIDTH = 18, 5, 100_000  # of the time line: height of a row, space below it, length


def _time_line(profile: Profile) -> Iterator[str]:
    """When each step ran in one run, and when each thread worked."""
    of_replicas = " of each replica" if len(profile.events_by_replica) > 1 else ""
    yield (
        f"<p>One run, from left to right: the steps{of_replicas}, and below them what each thread did. The trace file "
        "shows the same in Perfetto (ui.perfetto.dev).</p>"
    )
    yield '<div class="tools">'
    for text, factor in (("zoom in", 2), ("zoom out", 0.5), ("all", 0)):
        yield f'<button type="button" data-zoom="{factor}">{text}</button>'
    yield "".join(key(one.name, one.name) for one in profile.by_phase())
    yield "</div>"
    rows: list[str] = []
    pieces: list[str] = []
    span = max(event[3] for events in profile.events_by_replica.values() for event in events)
    for number, events in profile.events_by_replica.items():
        prefix = f"replica {number}: " if of_replicas else ""
        pieces += _pieces(profile, events, len(rows), max(span, 1), prefix)
        rows += [f"{prefix}steps", *(f"thread {i}" for i in range(len(profile.busy.get(number, []))))]
    labels = "".join(f'<span style="height:{ROW + GAP}px">{row}</span>' for row in rows)
    high = len(rows) * (ROW + GAP)
    yield f'<div class="line"><div class="labels">{labels}</div><div class="chart" id="time-line">'
    yield (
        f'<svg viewBox="0 0 {WIDTH} {high}" role="img" preserveAspectRatio="none" style="height:{high}px" '
        'aria-label="time line of a run">'
    )
    yield from pieces
    yield '</svg></div></div><div class="said" id="time-said">Point at a step.</div>'


def _pieces(profile: Profile, events: Iterable[Event], first: int, span: int, prefix: str) -> Iterator[str]:
    """The pieces of a replica, whose rows begin at `first`, on a line that is `span` nanoseconds long."""
    for number, thread, begin, end, busy in events:
        is_step = thread == WHOLE_STEP
        long = max(WIDTH * (end - begin) / span, WIDTH * SHORTEST)
        said = ms(end - begin) + ("" if is_step else f", of it {ms(busy)} in tasks")
        yield (
            f'<rect class="{profile.program[number].phase}" x="{WIDTH * begin / span:.1f}" '
            f'y="{(first + (0 if is_step else thread + 1)) * (ROW + GAP)}" width="{long:.1f}" height="{ROW}" '
            f'data-step="{number}" data-said="{prefix}{"steps" if is_step else f"thread {thread}"}, {said}"></rect>'
        )


def _memory(profile: Profile) -> Iterator[str]:
    """Memory over the program, and its contents at the peak."""
    memory = profile.facts["memory"]
    parts = {
        "arena": "activations", "variables": "weights and state", "constants": "constants",
        "scratch": "scratch of kernels", "remote": "remote variables, not on the device",
    }  # fmt: skip
    yield from cards((bytes_text(memory[name]), what) for name, what in parts.items() if memory[name])
    live = profile.live_bytes
    if not live or not live[profile.peak]:
        return
    title = profile.program[profile.peak].title
    yield f"<p>Activations in use during each step. The peak is at step {profile.peak}: {escape(title)}.</p>"
    width, high, most = 1000, 200, live[profile.peak]
    points = []
    for i, bytes_ in enumerate(live):
        y = f"{high - (high - 12) * bytes_ / most:.1f}"
        points += [f"{width * i / len(live):.2f},{y}", f"{width * (i + 1) / len(live):.2f},{y}"]
    at = width * (profile.peak + 0.5) / len(live)
    yield (
        f'<div class="chart" id="memory-chart"><svg viewBox="0 0 {width} {high}" preserveAspectRatio="none" role="img" '
        f'aria-label="memory in use over the steps of the program">'
        f'<polygon class="area" points="0,{high} {" ".join(points)} {width},{high}"></polygon>'
        f'<polyline class="edge" points="{" ".join(points)}" vector-effect="non-scaling-stroke"></polyline>'
        f'<line class="mark" x1="{at:.2f}" x2="{at:.2f}" y1="0" y2="{high}" vector-effect="non-scaling-stroke"></line>'
        '</svg></div><div class="said" id="memory-said">Point at the curve.</div>'
    )
    alive = profile.alive(profile.peak)
    yield "<p>Values in memory at the peak. Some may share their memory.</p>"
    columns = [
        ("value, and the layer that makes it", "name"),
        ("size", "number"),
        ("share", "bar"),
        ("from step", "number"),
        ("to step", "number"),
    ]
    rows = []
    for value in alive[:MOST_VALUES]:
        used = [profile.program[number] for number in (value.first, value.last)]
        cells = [
            value_cell(value.name, used[0]),
            cell(bytes_text(value.bytes), value.bytes),
            bar_cell("forward", value.bytes / most, value.bytes),
            *map(number_cell, used),
        ]
        rows.append(row(cells, " ".join([value.name, *(step.title for step in used)])))
    yield from table("memory-table", columns, rows)
    if len(alive) > MOST_VALUES:
        yield f"<p>{len(alive) - MOST_VALUES:,} smaller values are left out.</p>"


def _threads(profile: Profile) -> Iterator[str]:
    """How busy each thread was in one run."""
    whole = profile.run["nanoseconds"] if profile.run else 1
    yield (
        "<p>Time in tasks of kernels in one run. The rest is waiting: for other threads, for steps on fewer threads, "
        "for the host.</p>"
    )
    columns = [
        ("thread", "number"), ("busy", "number"), ("idle", "number"), ("share", "number"), ("", "bar"),
    ]  # fmt: skip
    has_replicas = len(profile.busy) > 1
    if has_replicas:
        columns.insert(0, ("replica", "number"))
    rows = []
    for number, threads in profile.busy.items():
        for i, busy in enumerate(threads):
            cells = [
                *([cell(str(number), number)] if has_replicas else []),
                cell(str(i), i),
                cell(ms(busy), busy),
                cell(ms(max(0.0, whole - busy)), whole - busy),
                cell(percent(busy / whole), busy),
                bar_cell("forward", busy / whole, busy),
            ]
            rows.append(row(cells, f"replica {number} thread {i}"))
    yield from table("threads-table", columns, rows)


def _replicas(profile: Profile) -> Iterator[str]:
    """Time of each replica of the process."""
    recorded = profile.replicas["recorded"]
    yield (
        f"<p>Time of all steps of a run. Layers, kernels and steps on this page are those of replica {recorded}. In "
        "collectives, replicas exchange values and wait for each other: the one with the least time in them is the "
        "last to arrive.</p>"
    )
    columns = [
        ("replica", "number"), ("in steps", "number"), ("of it in collectives", "number"), ("share", "number"),
        ("", "bar"),
    ]  # fmt: skip
    most = max(one.nanoseconds for one in profile.replica_times)
    rows = []
    for one in profile.replica_times:
        rest = one.nanoseconds - one.collective_nanoseconds
        bar = "".join(
            f'<span class="{colour}" style="width:{100 * time / max(most, 1):.3f}%"></span>'
            for colour, time in (("forward", rest), ("other", one.collective_nanoseconds))
        )
        cells = [
            cell(str(one.replica), one.replica),
            cell(ms(one.nanoseconds), one.nanoseconds),
            cell(ms(one.collective_nanoseconds), one.collective_nanoseconds),
            cell(percent(one.collective_nanoseconds / max(one.nanoseconds, 1)), one.collective_nanoseconds),
            f'<td class="bar" data-value="{one.nanoseconds:.6g}"><span>{bar}</span></td>',
        ]
        rows.append(row(cells, f"replica {one.replica}"))
    yield from table("replicas-table", columns, rows)


def _host(profile: Profile) -> Iterator[str]:
    """Work of the host: data, time between runs, passes of the compiler."""
    if profile.runs:
        times = [run["nanoseconds"] for run in profile.runs]
        yield f"<p>Runs: {', '.join(ms(time) for time in times)}."
        if profile.between_runs:
            yield (
                f" Between them the program did other things (loading data, for example) for "
                f"{', '.join(ms(time) for time in profile.between_runs)}."
            )
        yield "</p>"
    if not profile.passes:
        return
    total = sum(one.nanoseconds for one in profile.passes)
    yield f"<p>Passes of the compiler: {ms(total)} in all.</p>"
    columns = [("order", "number"), ("pass", "name"), ("phase", "name"), ("time", "number"), ("share", "bar")]
    rows = []
    for i, one in enumerate(profile.passes):
        cells = [
            cell(str(i), i),
            name_cells(one.name, one.group),
            cell(ms(one.nanoseconds), one.nanoseconds),
            bar_cell("host", one.nanoseconds / max(total, 1), one.nanoseconds),
        ]
        rows.append(row(cells, f"{one.name} {one.group}"))
    yield from table("passes-table", columns, rows)


# ---- comparison ------------------------------------------------------------------------------------


def _compared(before: Profile, after: Profile, prefix: str = "") -> Iterator[str]:
    """Two profiles side by side; `prefix`: of ids."""
    ratio = after.run_nanoseconds / before.run_nanoseconds if before.run_nanoseconds else 0.0
    yield (
        f"<p>One run took {ms(before.run_nanoseconds)} in '{escape(before.session)}' before, and takes "
        f"{ms(after.run_nanoseconds)} in '{escape(after.session)}': {ratio:.3f} times as long. Memory of the program: "
        f"{bytes_text(before.facts['memory']['total'])} before, {bytes_text(after.facts['memory']['total'])} now. "
        "The rest of the page is about the second profile.</p>"
    )
    by_layer = [profile.sums(lambda step: f"{step.layer or NO_LAYER}, {step.phase}") for profile in (before, after)]
    by_kernel = [profile.sums(lambda step: step.kind) for profile in (before, after)]
    for what, name, (one, two) in (
        ("layer and phase", "layer-changes", by_layer),
        ("kind of kernel", "kernel-changes", by_kernel),
    ):
        rows = changes(one, two)
        columns = [
            (what, "name"), ("before", "number"), ("now", "number"), ("difference", "number"), ("ratio", "number"),
        ]  # fmt: skip
        yield f"<p>By {what}, largest difference first.</p>"
        yield from table(prefix + name, columns, [_change_row(change) for change in rows[:MOST_CHANGES]])
        if len(rows) > MOST_CHANGES:
            yield f"<p>{len(rows) - MOST_CHANGES:,} smaller differences are left out.</p>"


def _change_row(change: Change) -> str:
    kind = "worse" if change.difference > 0 else "better"
    sign = "+" if change.difference >= 0 else "−"
    ratio = change.after / change.before if change.before and change.after else None
    cells = [
        name_cells(change.name),
        *(cell("" if time is None else ms(time), time or 0.0) for time in (change.before, change.after)),
        cell(f'<span class="{kind}">{sign}{ms(abs(change.difference))}</span>', change.difference),
        cell("" if ratio is None else f"{ratio:.3f}", ratio or 0.0),
    ]
    return row(cells, change.name)
