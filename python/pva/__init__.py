"""pva: reports of compiled programs and their runs.

``session.getReport()`` returns a `Report`; `openReport` reads one that `Report.save` wrote. Sizes are in bytes, times
in cycles of the target's clock: on a host device a cycle is a nanosecond. The memory of a program is one block, and
reports divide it equally among the tiles. Facts that a device does not have are None, such as `Target.bytesPerTile`.
`Report.to_html` and `Report.to_trace` show a report (guide "Profiling").
"""

import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from popart._names import nearest_names

__all__ = ["Report", "openReport"]


class _Facts:
    """Read-only attributes that print themselves."""

    def __init__(self, **facts: Any) -> None:
        self.__dict__.update(facts)

    def __getattr__(self, name: str) -> Any:
        known = [key for key in self.__dict__ if not key.startswith("_")]
        near = nearest_names(name, known) or f". It has {', '.join(known)}"
        raise AttributeError(f"{type(self).__name__} has no '{name}'{near}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.__dict__.items() if k[0] != '_')})"


class Target(_Facts):
    """The device: numIPUs, tilesPerIpu, numTiles, clockFrequency in Hz, bytesPerTile, type."""


class MemorySize(_Facts):
    """includingGaps and excludingGaps: bytes with and without memory that no value uses at the peak."""


class TileMemory(_Facts):
    """total (`MemorySize`), alwaysLiveBytes (variables and constants), notAlwaysLiveBytes."""


class Tile(_Facts):
    """memory (`TileMemory`)."""


class Graph(_Facts):
    """numVars: pieces of memory; numVertices and numComputeSets: kernel steps; numEdges: None, as there are none."""


class Variable(_Facts):
    """name, size in bytes, place (arena, variable, constant, row), offset; first and last step that use it, or -1."""


class LiveStep(_Facts):
    """program: name of the step; notAlwaysLiveBytes: bytes that hold a value of the program during it."""


class Program:
    """A step of the program, or a sequence of them.

    Attributes:
        type: ``OnTileExecute`` (a kernel), ``StreamCopy``, ``DoExchange`` (a copy), ``Repeat``, ``If``, ``Sequence``.
        name: ``FusedConv.198``; empty for the sequences in loops and branches.
        title: The name and that of the operator, as schedules print them: ``FusedConv.198  /conv1/Conv``.
        layer: Name of the layer that it works for: ``/conv1/Conv``, for its gradient as well.
        phase: ``forward``, ``backward``, ``update`` or ``host``.
        kernel: Kernel that was chosen.
        fused: Operators that the kernel computes, where they are several.
        children: What is in it.
    """

    def __init__(self, facts: dict[str, Any]) -> None:
        """Take a node of the tree."""
        self.type: str = facts["type"]
        self.name: str = facts["name"]
        self.title: str = facts.get("title", self.name)
        self.layer: str = facts.get("layer", "")
        self.phase: str = facts.get("phase", "")
        self.kernel: str = facts.get("kernel", "")
        self.fused: list[str] = facts.get("fused", [])
        self.children = [Program(child) for child in facts["children"]]

    def accept(self, visitor: Any) -> None:
        """Call ``visitor.visit<type>(self)`` where it has such a method, which visits the children itself."""
        visit = getattr(visitor, "visit" + self.type, None)
        if visit is not None:
            visit(self)

    def __iter__(self) -> Iterator["Program"]:
        """This program and all below it."""
        yield self
        for child in self.children:
            yield from child

    def __repr__(self) -> str:
        return f"Program(type={self.type!r}, title={self.title!r}, {len(self.children)} children)"


class Cycles:
    """First and last cycle of a step or a run: ``from`` (also `from_`) and `to`; `total` is their difference."""

    def __init__(self, first: float, last: float) -> None:
        """Take both ends."""
        self.from_, self.to = round(first), round(last)
        setattr(self, "from", self.from_)

    @property
    def total(self) -> int:
        """Cycles between the two."""
        return self.to - self.from_

    def __repr__(self) -> str:
        return f"Cycles({self.from_} to {self.to})"


class Ipu(_Facts):
    """cycles (`Cycles`) of one IPU in a step."""


class ExecutionStep(_Facts):
    """program (`Program`), cycles (`Cycles`), calls in the run, ipus (one `Ipu` for each of the target)."""


class Run(_Facts):
    """name, steps, microseconds, cycles."""


class Compilation:
    """What is known of the program before it runs."""

    def __init__(self, facts: dict[str, Any]) -> None:
        """Take the facts of a report."""
        self._facts = facts
        target = facts["target"]
        self.target = Target(numTiles=target["numIPUs"] * target["tilesPerIpu"], **target)
        self.programs = [Program(step) for step in facts["programs"]]

    @cached_property
    def tiles(self) -> list[Tile]:
        """The tiles, with equal shares of the program's memory; the shares add up to all of it."""
        memory, count = self._facts["memory"], self.target.numTiles
        whole = {
            "gaps": memory["total"],
            "dense": memory["total"] - memory["arena"] + memory["largestLiveSet"],
            "always": memory["variables"] + memory["constants"],
        }

        def share(name: str, tile: int) -> int:
            return whole[name] * (tile + 1) // count - whole[name] * tile // count

        return [
            Tile(
                memory=TileMemory(
                    total=MemorySize(includingGaps=share("gaps", i), excludingGaps=share("dense", i)),
                    alwaysLiveBytes=share("always", i),
                    notAlwaysLiveBytes=share("dense", i) - share("always", i),
                )
            )
            for i in range(count)
        ]

    @cached_property
    def variables(self) -> list[Variable]:
        """Every piece of memory with the value that it was made for."""
        return [
            Variable(**{"size" if key == "bytes" else key: value for key, value in row.items()})
            for row in self._facts["graph"]["variables"]
        ]

    @cached_property
    def livenessProgramSteps(self) -> list[LiveStep]:
        """Memory in use over the program; the bodies of loops are there once."""
        rows = self._facts["graph"]["liveness"]
        return [LiveStep(program=row["step"], notAlwaysLiveBytes=row["bytes"]) for row in rows]

    @cached_property
    def graph(self) -> Graph:
        """Sizes of the program."""
        kernels = [p for step in self.programs for p in step if p.type == "OnTileExecute"]
        return Graph(numVars=len(self.variables), numVertices=len(kernels), numComputeSets=len(kernels), numEdges=None)

    @property
    def prngSeed(self) -> None:
        """None: seeds are inputs of the program."""
        return None


class Execution:
    """What runs took.

    Attributes:
        runs: The recorded runs; none where the session was not asked to profile. ``steps`` are theirs.
        totalCycles: Of all runs since the program was loaded: estimates on a model of IPUs, else measured nanoseconds,
            or predicted ones where no option of reports (``debug.…``, ``autoReport.…``) is set.
    """

    def __init__(self, facts: dict[str, Any], compilation: Compilation) -> None:
        """Take the facts of a report."""
        programs = {p.name: p for step in compilation.programs for p in step}
        self.runs: list[Run] = []
        now = 0.0
        for run in facts["runs"]:
            start, steps = now, []
            for step in run["steps"]:
                cycles = Cycles(now, now + step["cycles"])
                ipus = [Ipu(cycles=cycles) for _ in range(compilation.target.numIPUs)]
                steps.append(
                    ExecutionStep(program=programs.get(step["name"]), cycles=cycles, calls=step["calls"], ipus=ipus)
                )
                now += step["cycles"]
            microseconds = run["nanoseconds"] / 1e3
            now = max(now, start + microseconds * compilation.target.clockFrequency / 1e6)
            self.runs.append(Run(name=run["name"], steps=steps, microseconds=microseconds, cycles=Cycles(start, now)))
        self.totalCycles = Cycles(0, facts["totalCycles"])

    @property
    def steps(self) -> list[ExecutionStep]:
        """The steps of all runs in order. Calls of a step in a loop are one step with the time of all of them."""
        return [step for run in self.runs for step in run.steps]


class Report:
    """A compiled program (`compilation`) and its first runs (`execution`)."""

    def __init__(self, text: str) -> None:
        """Take the JSON of ``Session.getReport``."""
        self._text = text
        facts = json.loads(text)
        self._facts = facts
        self.compilation = Compilation(facts)
        self.execution = Execution(facts, self.compilation)

    def save(self, path: str | Path) -> None:
        """Write the report to a file that `openReport` reads."""
        Path(path).write_text(self._text, encoding="utf-8")

    def to_html(self, path: str | Path, before: "Report | None" = None) -> None:
        """Write the report as a page: one HTML file that loads nothing.

        It shows the time of layers, kernels and steps, when each thread worked, the memory over the program, and the
        passes of the compiler. Without recorded runs (``session.profile``) it shows what is known of the program.

        Args:
            path: The file.
            before: Another report, with which the page compares this one.

        Raises:
            ValueError: One of the reports is of another version of the library.
        """
        from popart.profile.page import page_of

        page = page_of(self._profile(), before._profile() if before is not None else None)
        Path(path).write_text(page, encoding="utf-8")

    def to_trace(self, path: str | Path) -> None:
        """Write the recorded runs as a trace for Perfetto and ``chrome://tracing``.

        It has a track for steps, one for each thread, a counter of memory in use, and the passes of the compiler. Each
        replica of the process has a group of tracks.

        Args:
            path: The file, JSON.

        Raises:
            ValueError: The report is of another version of the library.
        """
        from popart.profile.trace import trace_of

        Path(path).write_text(json.dumps(trace_of(self._profile())), encoding="utf-8")

    def _profile(self) -> Any:
        from popart.profile.facts import Profile

        return Profile(self._facts)

    def _summary(self) -> list[tuple[str, str]]:
        """Names and values that say most of the report."""
        from popart.tools.output import bytes_text, time_text

        facts, runs = self._facts, self.execution.runs
        model = facts.get("model")
        rows = [("device", facts["target"]["type"]), ("steps", str(self.compilation.graph.numComputeSets))]
        rows.append(("memory", bytes_text(facts["memory"]["total"])))
        if model:
            seconds = model["cycles"] / model["machine"]["clockFrequency"]
            rows.append(("estimate of a run", f"{model['cycles']:,.0f} cycles, {time_text(seconds)}"))
        if runs:
            middle = sorted(run.microseconds for run in runs)[len(runs) // 2]
            rows.append((f"median of {len(runs)} runs" if len(runs) > 1 else "run", time_text(middle / 1e6)))
        return rows

    def __repr__(self) -> str:
        return f"Report({', '.join(f'{name}: {value}' for name, value in self._summary())})"

    def _repr_html_(self) -> str:
        """A table in a notebook; `to_html` makes the whole page."""
        from popart._notebook import facts_html

        return facts_html(f"Report of '{self._facts['session']}'", self._summary())


def openReport(path: str | Path) -> Report:
    """Read a report.

    Args:
        path: A file that `Report.save` wrote.

    Returns:
        The report.

    Raises:
        OSError: There is no such file.
        ValueError: It is not a report.
    """
    try:
        return Report(Path(path).read_text(encoding="utf-8"))
    except (KeyError, TypeError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"openReport: '{path}' is not a report that Report.save wrote: {error!r}") from None
