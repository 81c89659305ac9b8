"""Contents of a profile: steps with their times, layers, phases, threads and memory, read from the JSON of a report.

The JSON is that of ``session.getReport()`` (`VERSION`; the guide "Profiling" describes it), with the key "machine" that
`popart.profile.machine` adds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median
from typing import Any

FORMAT = "popart-profile"
VERSION = 1
PHASES = ("forward", "backward", "update", "host")
NO_LAYER = "(no layer)"
WHOLE_STEP = -1  # thread of an event that is a call of a step

Event = tuple[int, int, int, int, int]  # number of the step, thread, begin, end, busy; nanoseconds


@dataclass
class Step:
    """A step of the program.

    Attributes:
        number: Position in the program; steps in a loop come before the steps after the loop.
        name: ``FusedConv.198``.
        title: The name and that of the operator, as schedules print them: ``FusedConv.198  /conv1/Conv``.
        layer: Its layer: ``/conv1/Conv``.
        phase: One of `PHASES`.
        kernel: The chosen kernel.
        fused: Operators that the kernel computes, if there are several.
        refusal: Why no faster kernel supports it; empty if one does.
        flops: Floating-point operations of a call, by the cost model.
        bytes: Bytes that a call reads and writes, by the cost model.
        calls: Number per run.
        nanoseconds: Per run, the median over the runs.
        busy: Share of the time of its threads in which they worked on it; 0 if threads were not recorded.
        threads: Number of threads that worked on it.
    """

    number: int
    name: str
    title: str
    layer: str
    phase: str
    kernel: str
    fused: list[str] = field(default_factory=list)
    refusal: str = ""
    flops: float = 0.0
    bytes: float = 0.0
    calls: int = 0
    nanoseconds: float = 0.0
    busy: float = 0.0
    threads: int = 0

    @property
    def operator(self) -> str:
        """The type of the operator, whether it writes into an operand or not."""
        return re.sub(r"(Lhs|Rhs)?Inplace$", "", self.name.partition(".")[0])

    @property
    def kind(self) -> str:
        """The kind of kernel, without its sizes."""
        return self.kernel.partition("[")[0].strip()


@dataclass(frozen=True)
class Limit:
    """The speed of steps relative to the limit of the machine.

    Attributes:
        share: Shortest possible time divided by the measured time; above 1 if operands come from caches.
        bound: What determines the shortest time: ``compute`` or ``memory``.
    """

    share: float
    bound: str


@dataclass
class Sum:
    """A group of steps: of a layer, a scope, a kind of kernel or a phase.

    Attributes:
        name: Name of the group.
        nanoseconds: Per run.
        flops: Per run.
        bytes: Per run.
        steps: Number of steps.
        phases: Nanoseconds of each phase.
        children: For a scope: its groups, by name.
    """

    name: str
    nanoseconds: float = 0.0
    flops: float = 0.0
    bytes: float = 0.0
    steps: int = 0
    phases: dict[str, float] = field(default_factory=dict)
    children: dict[str, Sum] = field(default_factory=dict)

    def add(self, step: Step) -> None:
        """Add a step."""
        self.nanoseconds += step.nanoseconds
        self.flops += step.flops * step.calls
        self.bytes += step.bytes * step.calls
        self.steps += 1
        self.phases[step.phase] = self.phases.get(step.phase, 0.0) + step.nanoseconds


@dataclass(frozen=True)
class Value:
    """A value in the memory of the program: name, bytes, and the first and last step that use it."""

    name: str
    bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class ReplicaTime:
    """Time of a replica of the process in its steps of a run, the median over the runs.

    Attributes:
        replica: Its number.
        nanoseconds: In all steps.
        collective_nanoseconds: In steps in which replicas exchange values, or wait for each other.
    """

    replica: int
    nanoseconds: float
    collective_nanoseconds: float


@dataclass(frozen=True)
class Pass:
    """A pass of the compiler: phase, name, and when it ran (nanoseconds of the clock of `time.monotonic_ns`)."""

    group: str
    name: str
    begin: int
    nanoseconds: int


class Profile:
    """A report with all facts of a page, a trace and a comparison.

    Args:
        facts: The JSON of a report.

    Raises:
        ValueError: It is not a report, or one of another version.
    """

    def __init__(self, facts: Mapping[str, Any]) -> None:
        """Read the steps; everything else is read on demand."""
        if facts.get("format") != FORMAT or facts.get("version") != VERSION:
            found = f"format {facts.get('format')!r}, version {facts.get('version')!r}"
            raise ValueError(f"profile: got {found}, expected {FORMAT!r}, version {VERSION}. Make it with this release")
        self.facts = facts
        self.session: str = facts["session"]
        self.threads: int = facts["threads"]
        self.runs: list[Mapping[str, Any]] = facts["runs"]
        refusals = {row["op"]: row["reason"] for row in facts["fallbacks"]}
        self.program = [self._step(entry, refusals) for entry in walk(facts["programs"])]
        self._fill_times()

    @staticmethod
    def _step(entry: Mapping[str, Any], refusals: Mapping[str, str]) -> Step:
        # Of a value that can stay in the host's memory nothing says whether its bytes were copied.
        is_known = not entry.get("canShareHostMemory", False)
        return Step(
            number=entry["number"], name=entry["name"], title=entry["title"], layer=entry["layer"],
            phase=entry["phase"], kernel=entry["kernel"], fused=entry.get("fused", []),
            refusal=refusals.get(entry["name"], ""), flops=entry.get("flops", 0.0),
            bytes=entry.get("bytes", 0.0) if is_known else 0.0,
        )  # fmt: skip

    def _fill_times(self) -> None:
        times: dict[int, list[int]] = {}
        for run in self.runs:
            for row in run["steps"]:
                times.setdefault(row["number"], []).append(row["nanoseconds"])
                self.program[row["number"]].calls = row["calls"]
        for number, nanoseconds in times.items():
            self.program[number].nanoseconds = float(median(nanoseconds))
        spans: dict[int, int] = {}
        workers: dict[int, dict[int, int]] = {}
        for number, thread, begin, end, busy in self.events:
            if thread == WHOLE_STEP:
                spans[number] = spans.get(number, 0) + end - begin
            else:
                own = workers.setdefault(number, {})
                own[thread] = own.get(thread, 0) + busy
        for number, threads in workers.items():
            self.program[number].threads = len(threads)
            self.program[number].busy = sum(threads.values()) / max(len(threads) * spans.get(number, 0), 1)

    # ---- steps

    @cached_property
    def steps(self) -> list[Step]:
        """The steps that ran, in the order of the program; a loop or branch is represented by its steps."""
        return [step for step in self.program if step.calls > 0]

    @cached_property
    def step_nanoseconds(self) -> float:
        """Time of all steps of a run; longer than the run if some steps run at the same time."""
        return sum(step.nanoseconds for step in self.steps)

    @cached_property
    def run_nanoseconds(self) -> float:
        """Time of a run, the median over the runs; 0 if none was recorded."""
        return float(median(run["nanoseconds"] for run in self.runs)) if self.runs else 0.0

    @cached_property
    def outside_nanoseconds(self) -> float:
        """Time of a run between its steps, the median over the runs; 0 if steps run at the same time."""
        gaps = [run["nanoseconds"] - sum(row["nanoseconds"] for row in run["steps"]) for run in self.runs]
        return max(0.0, float(median(gaps))) if gaps else 0.0

    @cached_property
    def run(self) -> Mapping[str, Any] | None:
        """The run whose time is nearest the median: the one that is drawn."""
        return min(self.runs, key=lambda run: abs(run["nanoseconds"] - self.run_nanoseconds), default=None)

    @cached_property
    def events(self) -> list[Event]:
        """The events of the recorded replica in `run`, in the order of time."""
        return self.events_by_replica.get(self.replicas["recorded"], [])

    @cached_property
    def events_by_replica(self) -> dict[int, list[Event]]:
        """The events of the process's replicas in `run`, in the order of time; replicas without events are left out."""
        rows = events_of(self.run, self.replicas["recorded"]) if self.run else {}
        return {number: sorted(events, key=lambda event: event[2]) for number, events in rows.items() if events}

    def sums(self, key: Callable[[Step], str]) -> list[Sum]:
        """The groups of steps, those with the most time first."""
        sums: dict[str, Sum] = {}
        for step in self.steps:
            sums.setdefault(key(step), Sum(key(step))).add(step)
        return sorted(sums.values(), key=lambda one: -one.nanoseconds)

    def by_layer(self) -> list[Sum]:
        """The steps by layer."""
        return self.sums(lambda step: step.layer or NO_LAYER)

    def by_phase(self) -> list[Sum]:
        """The steps by phase, in the order of `PHASES`; host: steps that move values from and to the host."""
        return sorted(self.sums(lambda step: step.phase), key=lambda one: PHASES.index(one.name))

    def scopes(self) -> Sum:
        """The steps as a tree of scopes, which are the parts of a layer's name between ``/``."""
        root = Sum("")
        for step in self.steps:
            root.add(step)
            node = root
            for part in step.layer.strip("/").split("/") if step.layer else [NO_LAYER]:
                node = node.children.setdefault(part, Sum(part))
                node.add(step)
        _join_chains(root)
        return root

    # ---- the machine

    @property
    def machine(self) -> Mapping[str, Any]:
        """The measured limits of the machine; empty: not measured."""
        return self.facts.get("machine") or {}

    def limit(self, flops: float, bytes_: float, nanoseconds: float) -> Limit | None:
        """The speed of some work relative to the limit of the machine.

        Args:
            flops: Floating-point operations.
            bytes_: Bytes read and written.
            nanoseconds: Its measured time.

        Returns:
            The limit; None if the machine or the work is unknown.
        """
        if not self.machine or nanoseconds <= 0 or max(flops, bytes_) <= 0:
            return None
        compute = flops / self.machine["flopsPerSecond"] * 1e9
        memory = bytes_ / self.machine["bytesPerSecond"] * 1e9
        return Limit(max(compute, memory) / nanoseconds, "compute" if compute >= memory else "memory")

    @cached_property
    def limit_nanoseconds(self) -> float:
        """Shortest time of a run on the machine, step by step; work outside the cost model takes no time."""
        limits = (self.limit(one.flops * one.calls, one.bytes * one.calls, one.nanoseconds) for one in self.steps)
        return sum(limit.share * one.nanoseconds for limit, one in zip(limits, self.steps, strict=True) if limit)

    # ---- threads

    @cached_property
    def busy(self) -> dict[int, list[float]]:
        """Nanoseconds that each thread of each replica worked on kernels in `run`; empty: threads were not recorded."""
        busy: dict[int, list[float]] = {}
        for number, events in self.events_by_replica.items():
            for _, thread, _, _, nanoseconds in events:
                if thread != WHOLE_STEP:
                    busy.setdefault(number, [0.0] * self.threads)[thread] += nanoseconds
        return busy

    # ---- replicas

    @property
    def replicas(self) -> Mapping[str, int]:
        """Numbers of replicas: in all processes ("all"), in this one ("here", from "first"), and the "recorded" one.

        Most figures describe the recorded replica. Files of earlier builds do not have them: one replica.
        """
        return self.facts.get("replicas", {"all": 1, "first": 0, "here": 1, "recorded": 0})

    @cached_property
    def replica_times(self) -> list[ReplicaTime]:
        """The replicas of the process in the order of their numbers; none if it has one."""
        if self.replicas["here"] == 1 or not self.runs:
            return []
        collectives = {entry["number"] for entry in walk(self.facts["programs"]) if "collective" in entry}
        times: dict[int, list[tuple[int, int]]] = {}
        for run in self.runs:
            for one in [{"replica": self.replicas["recorded"], "steps": run["steps"]}, *run["otherReplicas"]]:
                whole = sum(row["nanoseconds"] for row in one["steps"])
                exchange = sum(row["nanoseconds"] for row in one["steps"] if row["number"] in collectives)
                times.setdefault(one["replica"], []).append((whole, exchange))
        return [ReplicaTime(number, *map(median, zip(*rows, strict=True))) for number, rows in sorted(times.items())]

    # ---- memory

    @cached_property
    def live_bytes(self) -> list[int]:
        """Bytes that hold a value of the program during each step of `program`."""
        return [row["bytes"] for row in self.facts["graph"]["liveness"]]

    @cached_property
    def peak(self) -> int:
        """Number of the step during which most memory is in use."""
        return max(range(len(self.live_bytes)), key=self.live_bytes.__getitem__, default=0)

    def alive(self, number: int) -> list[Value]:
        """The values in memory during a step, the largest first; some may share their memory."""
        rows = self.facts["graph"]["variables"]
        values = [
            Value(row["name"], row["bytes"], row["first"], row["last"])
            for row in rows
            if row["place"] == "arena" and 0 <= row["first"] <= number <= row["last"]
        ]
        return sorted(values, key=lambda value: -value.bytes)

    # ---- the host

    @cached_property
    def passes(self) -> list[Pass]:
        """Passes of the compiler in the order in which they ran."""
        rows = self.facts["passes"]
        return [Pass(row["group"], row["name"], row["begin"], row["nanoseconds"]) for row in rows]

    @cached_property
    def between_runs(self) -> list[int]:
        """Nanoseconds from the end of each run to the begin of the next: work of the program itself.

        The time of writing the profile is not counted.
        """
        own = self.facts.get("pauses", [0] * len(self.runs))
        pairs = zip(self.runs, self.runs[1:], own, strict=False)
        return [max(0, after["begin"] - run["begin"] - run["nanoseconds"] - pause) for run, after, pause in pairs]


def events_of(run: Mapping[str, Any], recorded: int) -> dict[int, list[Event]]:
    """The events of a run by replica, in the order in which they were recorded.

    Args:
        run: One of `Profile.runs`.
        recorded: Number of the replica that has the run's own events.

    Returns:
        By number of the replica. Files of earlier builds have those of one.
    """
    rows = {recorded: run["events"]}
    rows |= {other["replica"]: other.get("events", []) for other in run.get("otherReplicas", [])}
    return {number: [tuple(event) for event in events] for number, events in rows.items()}


def _join_chains(scope: Sum) -> None:
    """Join a scope without steps with the only scope in it: ``conv1`` and ``Conv``."""
    for name, child in list(scope.children.items()):
        while len(child.children) == 1:
            (only,) = child.children.values()
            if only.steps != child.steps:
                break
            only.name = f"{child.name}/{only.name}"
            child = only
        scope.children[name] = child
        _join_chains(child)


def walk(entries: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The steps of a tree in the order of their numbers."""
    for entry in entries:
        if "number" in entry:
            yield entry
        yield from walk(entry["children"])


@dataclass(frozen=True)
class Change:
    """A group of steps of two profiles: name, and nanoseconds per run of both; None: one does not have it."""

    name: str
    before: float | None
    after: float | None

    @property
    def difference(self) -> float:
        """Additional nanoseconds of the second profile."""
        return (self.after or 0.0) - (self.before or 0.0)


def changes(before: Iterable[Sum], after: Iterable[Sum]) -> list[Change]:
    """Sums of two profiles side by side, those that differ most first."""
    one = {row.name: row.nanoseconds for row in before}
    two = {row.name: row.nanoseconds for row in after}
    rows = [Change(name, one.get(name), two.get(name)) for name in dict.fromkeys([*one, *two])]
    return sorted(rows, key=lambda row: -abs(row.difference))
