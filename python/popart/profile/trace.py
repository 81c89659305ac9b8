"""Traces for Perfetto (https://ui.perfetto.dev) and ``chrome://tracing``: the JSON form of Chrome's trace events.

Process 1 is the program: a track for its runs, one for steps, one for each thread, and the counter of memory in use.
Process 2 is the compiler. Times are microseconds from the first thing that happened.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

from popart.profile.facts import WHOLE_STEP, Event, Profile, Step

PROGRAM, COMPILER = 1, 2
RUNS, STEPS, THREADS = 1, 10, 100  # first number of the tracks of a kind


def trace_of(profile: Profile) -> dict[str, Any]:
    """The trace of all recorded runs and of the compiler's passes, to be written as JSON."""
    begins = [run["begin"] for run in profile.runs] + [one.begin for one in profile.passes]
    origin = min(begins, default=0)
    events = [
        _named("process_name", PROGRAM, 0, f"program of session '{profile.session}'"),
        _named("process_name", COMPILER, 0, "compiler"),
        _named("thread_name", PROGRAM, RUNS, "runs"),
    ]
    tracks = 1
    for i, run in enumerate(profile.runs):
        begin = run["begin"] - origin
        title = f"run {i}" + (f" '{run['name']}'" if run["name"] else "")
        events.append(_span(title, PROGRAM, RUNS, begin, run["nanoseconds"], {}))
        whole = sorted((tuple(e) for e in run["events"] if e[1] == WHOLE_STEP), key=lambda event: event[2])
        for event, track in _tracks(whole):
            step = profile.program[event[0]]
            tracks = max(tracks, track + 1)
            events.append(_of_step(step, STEPS + track, begin, event))
            live = {"bytes in use": profile.live_bytes[step.number]}
            counter = {"name": "memory of the program", "ph": "C", "pid": PROGRAM, "ts": (begin + event[2]) / 1e3}
            events.append({**counter, "args": live})
        for event in run["events"]:
            if event[1] != WHOLE_STEP:
                events.append(_of_step(profile.program[event[0]], THREADS + event[1], begin, event))
    events += [_named("thread_name", PROGRAM, STEPS + i, f"steps {i}" if i else "steps") for i in range(tracks)]
    events += [_named("thread_name", PROGRAM, THREADS + i, f"thread {i}") for i in range(len(profile.busy))]
    for one in profile.passes:
        events.append(_span(one.name, COMPILER, 1, one.begin - origin, one.nanoseconds, {"phase": one.group}))
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"machine": dict(profile.machine)}}


def _tracks(events: list[Event]) -> Iterator[tuple[Event, int]]:
    """Each event with the number of a track on which nothing else happens at the same time."""
    free: list[int] = []
    running: list[tuple[int, int]] = []  # end, track
    tracks = 0
    for event in events:
        while running and running[0][0] <= event[2]:
            heapq.heappush(free, heapq.heappop(running)[1])
        if free:
            track = heapq.heappop(free)
        else:
            track, tracks = tracks, tracks + 1
        heapq.heappush(running, (event[3], track))
        yield event, track


def _of_step(step: Step, track: int, begin: int, event: Event) -> dict[str, Any]:
    """A call of a step, or what a thread did in it."""
    arguments = {
        "step": step.title, "kernel": step.kernel, "phase": step.phase,
        "GFLOP": step.flops / 1e9, "MB": step.bytes / 1e6, "busy us": event[4] / 1e3,
    }  # fmt: skip
    if step.fused:
        arguments["fused"] = "; ".join(step.fused)
    return _span(step.layer or step.name, PROGRAM, track, begin + event[2], event[3] - event[2], arguments, step.phase)


def _span(
    name: str, process: int, track: int, begin: int, nanoseconds: int, arguments: dict[str, Any], category: str = "host"
) -> dict[str, Any]:
    return {
        "name": name, "cat": category, "ph": "X", "pid": process, "tid": track,
        "ts": begin / 1e3, "dur": nanoseconds / 1e3, "args": arguments,
    }  # fmt: skip


def _named(kind: str, process: int, track: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": process, "tid": track, "args": {"name": name}}
