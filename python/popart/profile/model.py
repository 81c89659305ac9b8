"""Estimates of a program by the model of an IPU: the key "model" of a report's JSON.

`ModelProfile` has estimated times instead of measured ones, so that layers, kernels, limits and comparisons are
computed as for other profiles. The guide "The model of an IPU" describes what an estimate includes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from popart.profile.facts import Profile, Step, walk

PARTS = ("compute", "memory", "link", "sync")


@dataclass(frozen=True)
class Cycles:
    """Time of a step on the tiles, in cycles of one call.

    Attributes:
        calls: Per run, an integer; 0 for the shorter one of two branches.
        compute: Operations. In parallel with `memory`, so the longer of both counts.
        memory: Bytes of the tiles' memory.
        link: Bytes from or to the host or remote memory.
        sync: Synchronisation of all tiles.
        link_bytes: Number of bytes that cross the link.
    """

    calls: float
    compute: float
    memory: float
    link: float
    sync: float
    link_bytes: float

    @property
    def bound(self) -> str:
        """The longest part: one of `PARTS`."""
        counted = self.counted()
        return max(PARTS, key=counted.__getitem__)

    def counted(self) -> dict[str, float]:
        """Cycles of a call by part; their sum is the cycles of the call."""
        computes = self.compute >= self.memory
        return {
            "compute": self.compute if computes else 0.0, "memory": 0.0 if computes else self.memory,
            "link": self.link, "sync": self.sync,
        }  # fmt: skip


@dataclass(frozen=True)
class Move:
    """Data that a step moves: from and to the host or remote memory, within the device, between replicas.

    Attributes:
        kind: ``host``, ``remote memory``, ``copy``, or ``collective`` with its operation.
        bytes: Per call; for a collective, those of a replica.
    """

    kind: str
    bytes: float


@dataclass(frozen=True)
class Stored:
    """A value in tile memory.

    Attributes:
        name: Name of the value.
        bytes: Bytes on all tiles together.
        always: Whether it is live in the whole program: variables and constants.
        first: Number of the first step that uses it; -1: none.
        last: Number of the last one.
    """

    name: str
    bytes: int
    always: bool
    first: int
    last: int


class ModelProfile(Profile):
    """A program on the IPUs of a model. Its times are estimates; it has no runs.

    Args:
        facts: The JSON of a report, which has the key "model".

    Raises:
        KeyError: It has no such key.
        ValueError: As for `Profile`.
    """

    def __init__(self, facts: Mapping[str, Any]) -> None:
        """Read the steps with their estimates."""
        self.model: Mapping[str, Any] = facts["model"]
        rows = self.model["steps"]
        self.cycles = [
            Cycles(*(row[key] for key in ("calls", *(f"{part}Cycles" for part in PARTS), "linkBytes"))) for row in rows
        ]
        super().__init__({**facts, "runs": []})

    def _fill_times(self) -> None:
        for row, step in zip(self.model["steps"], self.program, strict=True):
            step.calls = round(row["calls"]) if row["cycles"] > 0 else 0
            step.nanoseconds = row["cycles"] * row["calls"] * self.nanoseconds_per_cycle

    @property
    def nanoseconds_per_cycle(self) -> float:
        """Nanoseconds per cycle of an IPU."""
        return 1e9 / self.model["machine"]["clockFrequency"]

    @property
    def tiles(self) -> int:
        """Number of tiles of all IPUs of a replica."""
        return self.model["tiles"]

    @property
    def run_nanoseconds(self) -> float:  # type: ignore[override]
        """Time of a run, estimated."""
        return self.model["cycles"] * self.nanoseconds_per_cycle

    @property
    def machine(self) -> Mapping[str, Any]:
        """Operations and bytes per second of all tiles together."""
        one = self.model["machine"]
        per_second = self.tiles * one["clockFrequency"]
        return {
            "flopsPerSecond": one["flopsPerCycle"] * per_second, "bytesPerSecond": one["bytesPerCycle"] * per_second,
        }  # fmt: skip

    def cycles_of_run(self, step: Step) -> float:
        """Cycles of all calls of a step in a run."""
        row = self.model["steps"][step.number]
        return row["cycles"] * row["calls"]

    @cached_property
    def parts(self) -> dict[str, float]:
        """Cycles of a run by part (`PARTS`)."""
        sums = dict.fromkeys(PARTS, 0.0)
        for cycles in self.cycles:
            for part, count in cycles.counted().items():
                sums[part] += count * cycles.calls
        return sums

    @cached_property
    def moves(self) -> dict[int, Move]:
        """The steps that move values, by number."""
        moves: dict[int, Move] = {}
        for entry in walk(self.facts["programs"]):
            number = entry["number"]
            if collective := entry.get("collective"):
                # A step that waits for data of a publishing step moves nothing more.
                gives = collective["isPublished"] or collective["channel"] < 0
                bytes_ = collective["bytes"] if gives else 0
                moves[number] = Move(f"collective, {collective['operation']}", bytes_)
            elif entry["type"] == "StreamCopy":
                kind = "host" if entry["phase"] == "host" else "remote memory"
                moves[number] = Move(kind, self.cycles[number].link_bytes)
            elif entry["type"] == "DoExchange":
                moves[number] = Move("copy", entry["bytes"] / 2)  # read and written
        return moves

    @cached_property
    def memory_parts(self) -> list[tuple[str, bool, int]]:
        """Contents of tile memory at the peak: name, whether it is always live, bytes on all tiles together."""
        memory = self.facts["memory"]
        return [
            ("weights and state", True, memory["variables"]),
            ("constants", True, memory["constants"]),
            ("activations at the peak", False, memory["largestLiveSet"]),
            ("gaps between activations", False, memory["arena"] - memory["largestLiveSet"]),
        ]

    @cached_property
    def tile_bytes(self) -> float:
        """Bytes in the memory of a tile at the peak."""
        return sum(bytes_ for _, _, bytes_ in self.memory_parts) / self.tiles

    @cached_property
    def stored(self) -> list[Stored]:
        """The values in tile memory, the largest first. Those that are not always live may share their memory."""
        values = [
            Stored(row["name"], row["bytes"], row["place"] != "arena", row["first"], row["last"])
            for row in self.facts["graph"]["variables"]
            if row["place"] != "row"  # a part of another one
        ]
        return sorted(values, key=lambda value: -value.bytes)
