"""Traces for Perfetto (https://ui.perfetto.dev) and ``chrome://tracing``: the JSON form of Chrome's trace events.

A process in Chrome's terms is a group of tracks here. One is the program, with a track for its runs, tracks for steps
and threads, and the counter of memory in use; of several replicas each has a group. The last group is the compiler.
Times are microseconds from the first event.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

from popart.profile.facts import WHOLE_STEP, Event, Profile, Step, events_of

PROGRAM, COMPILER, OTHERS = 1, 2, 3  # groups; OTHERS: the first group of replicas other than the recorded one
RUNS, STEPS, THREADS = 1, 10, 100  # first number of the tracks of a kind


def trace_of(profile: Profile) -> dict[str, Any]:
    """The trace of all recorded runs and of the compiler's passes, to be written as JSON."""
    begins = [run["begin"] for run in profile.runs] + [one.begin for one in profile.passes]
    origin = min(begins, default=0)
    recorded = profile.replicas["recorded"]
    events: list[dict[str, Any]] = []
    tracks: dict[int, int] = {}  # by group: those of steps
    groups = {recorded: PROGRAM}
    for i, run in enumerate(profile.runs):
        begin = run["begin"] - origin
        title = f"run {i}" + (f" '{run['name']}'" if run["name"] else "")
        events.append(_span(title, PROGRAM, RUNS, begin, run["nanoseconds"], {}))
        for replica, found in events_of(run, recorded).items():
            group = groups.setdefault(replica, OTHERS + len(groups) - 1)
            whole = sorted((event for event in found if event[1] == WHOLE_STEP), key=lambda event: event[2])
            for event, track in _tracks(whole):
                step = profile.program[event[0]]
                tracks[group] = max(tracks.get(group, 1), track + 1)
                events.append(_of_step(step, group, STEPS + track, begin, event))
                if group == PROGRAM:
                    events.append(_memory(begin + event[2], profile.live_bytes[step.number]))
            for event in found:
                if event[1] != WHOLE_STEP:
                    events.append(_of_step(profile.program[event[0]], group, THREADS + event[1], begin, event))
    names: list[dict[str, Any]] = []  # before the events, because viewers order groups by their first appearance
    for replica, group in groups.items():
        of = f"replica {replica} of " if profile.replicas["all"] > 1 else "program of "
        names.append(_named("process_name", group, 0, f"{of}session '{profile.session}'"))
        count = tracks.get(group, 1)
        names += [_named("thread_name", group, STEPS + i, f"steps {i}" if i else "steps") for i in range(count)]
        if replica in profile.busy:
            names += [_named("thread_name", group, THREADS + i, f"thread {i}") for i in range(profile.threads)]
    names += [_named("thread_name", PROGRAM, RUNS, "runs"), _named("process_name", COMPILER, 0, "compiler")]
    for one in profile.passes:
        events.append(_span(one.name, COMPILER, 1, one.begin - origin, one.nanoseconds, {"phase": one.group}))
    return {"traceEvents": names + events, "displayTimeUnit": "ns", "otherData": {"machine": dict(profile.machine)}}


def _memory(begin: int, bytes_: int) -> dict[str, Any]:
    """The bytes in use from a time on."""
    return {
        "name": "memory of the program", "ph": "C", "pid": PROGRAM, "ts": begin / 1e3, "args": {"bytes in use": bytes_},
    }  # fmt: skip


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


def _of_step(step: Step, group: int, track: int, begin: int, event: Event) -> dict[str, Any]:
    """A call of a step, or the work of a thread in it."""
    arguments = {
        "step": step.title, "kernel": step.kernel, "phase": step.phase,
        "GFLOP": step.flops / 1e9, "MB": step.bytes / 1e6, "busy us": event[4] / 1e3,
    }  # fmt: skip
    if step.fused:
        arguments["fused"] = "; ".join(step.fused)
    return _span(step.layer or step.name, group, track, begin + event[2], event[3] - event[2], arguments, step.phase)


def _span(
    name: str, group: int, track: int, begin: int, nanoseconds: int, arguments: dict[str, Any], category: str = "host"
) -> dict[str, Any]:
    return {
        "name": name, "cat": category, "ph": "X", "pid": group, "tid": track,
        "ts": begin / 1e3, "dur": nanoseconds / 1e3, "args": arguments,
    }  # fmt: skip


def _named(kind: str, group: int, track: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": group, "tid": track, "args": {"name": name}}
