"""The state of the two cores while engines take turns: near or far from each other, by the round trip of a cache line.

A virtual machine may move its processors while programs run. The round trip of a cache line between them is then
several times longer or shorter, which makes light networks slower or faster in every engine. So `Rounds` measures the
round trip before the first turn of a round and after each turn. A round counts if all its round trips are of one state.
A round that does not count is repeated, and so is one in another state than most; there are at most as many repeats as
rounds.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# Two round trips are of different states if one is more than this many times the other. Other machines have other
# nanoseconds, so only the ratio is fixed. Measured were 96-145 ns near and 510-550 ns far, on another machine 53 and
# 330 ns: the ratio is at most 1.5 within a state and at least 3.5 between two.
FAR = 2.0
PROBES = 3  # the median of this many is used: one in some hundreds is wrong by more than a factor of two
NEAR_STATE, FAR_STATE, CHANGED, UNKNOWN = "near", "far", "changed", "unknown"


def pin_to_two_processors() -> None:
    """Pin this process like the workers."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])


def run_probe(budget: float, *arguments: str) -> dict[str, Any]:
    """Run the C++ probe (limits, and on request calls from C++) within `budget` s; an error text on failure."""
    preset = os.environ.get("POPART_PRESET", "release")
    program = ROOT / "build" / preset / "bin" / "popart-bench-probe"
    if not program.is_file():
        return {"error": f"{program} is missing. Build it with ./dev build --preset {preset}."}
    try:
        result = subprocess.run(
            [program, *arguments], capture_output=True, text=True, timeout=budget, preexec_fn=pin_to_two_processors
        )
    except subprocess.TimeoutExpired:
        return {"error": f"no result within its {budget:.0f} s"}
    if result.returncode:
        return {"error": (result.stderr.strip().splitlines() or ["no message"])[-1]}
    return json.loads(result.stdout)


def print_exchange(probe: dict[str, Any]) -> None:
    """Print the distance of the two cores, which a virtual machine can change at any time."""
    if probe.get("exchange_ns"):
        print(f"a cache line goes from core to core and back in {probe['exchange_ns']:.0f} ns", flush=True)


class RoundTrips:
    """The round trips of a run.

    Attributes:
        smallest_ns: Of all round trips of the run, in ns; None before the first one.
    """

    def __init__(self, probe: Callable[[], dict[str, Any]]) -> None:
        """`probe` returns ``exchange_ns`` if it can be measured."""
        self._probe = probe
        self.smallest_ns: float | None = None

    def measure(self) -> float | None:
        """The round trip now, in ns; None if it is unknown."""
        times_ns = [self._probe().get("exchange_ns") for _ in range(PROBES)]
        if not all(times_ns):  # 0: there is only one processor
            return None
        time_ns = statistics.median(times_ns)
        self.smallest_ns = min(time_ns, self.smallest_ns or time_ns)
        return time_ns

    def state_of(self, times_ns: list[float | None]) -> str:
        """``changed`` if these round trips differ by more than `FAR`; else near or far, by the smallest of the run."""
        known = [time for time in times_ns if time is not None]
        if len(known) < len(times_ns) or self.smallest_ns is None:
            return UNKNOWN
        if max(known) > FAR * min(known):
            return CHANGED
        return FAR_STATE if statistics.median(known) > FAR * self.smallest_ns else NEAR_STATE


@dataclass
class Round:
    """One turn of every engine.

    Attributes:
        round_trips_ns: Round trips before the first turn and after each turn.
        measured: What each engine's turn returned, such as the time of each call in ms.
    """

    round_trips_ns: list[float | None]
    measured: dict[str, Any] = field(default_factory=dict)

    def smallest(self) -> float:
        """The smallest round trip, in ns; 0 if one is unknown."""
        return min(time or 0.0 for time in self.round_trips_ns)

    def begins(self, other: Round) -> bool:
        """Whether all round trips of the other are from the smallest one here to `FAR` times as much."""
        times_ns = [time or 0.0 for time in other.round_trips_ns]
        return self.smallest() <= min(times_ns) and max(times_ns) <= FAR * self.smallest()


class Rounds:
    """The rounds of one name: which must still run, and which count."""

    def __init__(self, wanted: int, round_trips: RoundTrips) -> None:
        self.wanted, self._trips = wanted, round_trips
        self.all: list[Round] = []

    def run(self, engines: Callable[[], Sequence[str]], turn: Callable[[str], Any]) -> Iterator[str]:
        """Run rounds until enough count, and report each.

        `engines` returns those that still run; `turn` returns what one engine's turn measured, or None if it failed.
        """
        while len(self.all) < 2 * self.wanted and len(self.counted()) < self.wanted:
            current = Round([self._trips.measure()])
            for engine in engines():
                measured = turn(engine)
                current.round_trips_ns.append(self._trips.measure())
                if measured is not None:
                    current.measured[engine] = measured
            self.all.append(current)
            yield self._line(current)

    def counted(self) -> list[Round]:
        """The rounds of the state that most rounds have; the nearer one, if two have as many.

        None while every round has changed its state; all of them once no more will run.
        """
        same = [one for one in self.all if self.state_of(one) != CHANGED]
        groups = [[other for other in same if one.begins(other)] for one in sorted(same, key=Round.smallest)]
        if groups:
            return max(groups, key=len)
        return self.all if len(self.all) >= 2 * self.wanted else []

    def state_of(self, one: Round) -> str:
        """The state of a round, by the smallest round trip known now."""
        return self._trips.state_of(one.round_trips_ns)

    def turns_of(self, engine: str) -> list[Any]:
        """What the turns of an engine measured in the rounds that count."""
        return [one.measured[engine] for one in self.counted() if engine in one.measured]

    def entry(self) -> dict[str, Any]:
        """For the results: state and round trips (ns) of the rounds that count, and how many did not."""
        counted = self.counted()
        return {
            "state": self._trips.state_of([time for one in counted for time in one.round_trips_ns]),
            "round_trips_ns": [one.round_trips_ns for one in counted],
            "wanted": self.wanted,
            "counted": len(counted),
            "repeated": max(0, len(self.all) - self.wanted),
        }

    def _line(self, one: Round) -> str:
        number, state = len(self.all), self.state_of(one)
        which = (
            f"round {number} of {self.wanted}"
            if number <= self.wanted
            else f"repeat {number - self.wanted} of at most {self.wanted}"
        )
        return f"{which}: {state}, round trips {spoken(one.round_trips_ns)}"


def spoken(times_ns: list[float | None]) -> str:
    """Round trips as text."""
    return " ".join("-" if time is None else f"{time:.0f}" for time in times_ns) + " ns"


def summary(rounds: dict[str, Any]) -> str:
    """Of `Rounds.entry`, for a row of the table: state, median round trip and what was repeated."""
    known = [time for one in rounds["round_trips_ns"] for time in one if time is not None]
    text = f"{rounds['state']} {statistics.median(known):.0f} ns" if known else "unknown"
    if rounds["repeated"]:
        text += f", {rounds['repeated']} repeated"
    if rounds["state"] == CHANGED:
        return text + ", states differ"
    if rounds["counted"] < rounds["wanted"]:
        text += f", {rounds['counted']} of {rounds['wanted']} count"
    return text
