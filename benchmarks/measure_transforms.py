"""The table of --transforms: each row of `transforms` on each of its networks, compared with the form without it.

Both forms run in one process: first their losses are compared, then they take turns; rounds in which the machine
changed are repeated (`machine_state.py`). A row whose losses differ by more than its limit is not timed. Memory is
measured for each form in a process with no other data, as for the name ``memory``; a form that several rows are
compared with is measured once for each network.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from figures import attempt, figures, memory_figures
from machine_state import Rounds, summary
from processes import Worker, WorkerFailed, ask_once, progress

import transforms

SIDES = ("ours", "plain")
COLUMNS = ("with ms", "without", "speed", "plan MB", "without", "peak MB", "plan/peak", "without", "losses")
CLOSE = 0.05  # largest difference between predicted and measured peak


class Exports:
    """The folder of exported networks; each is written when it is first needed."""

    def __init__(self, folder: Path, budget: float) -> None:
        self.folder, self._budget = folder, budget
        self.warm_up = self._export("call_overhead", "warm_up", 1)

    def _export(self, name: str, into: str, share: int) -> Path:
        folder = self.folder / into
        if not folder.exists():
            progress(f"{name}: export" + (f" of 1/{share} of the batch" if share > 1 else ""))
            folder.mkdir()
            ask_once(self._budget, "export", name, str(folder), str(share))
        return folder

    def provide(self, row: transforms.Row, network: str) -> None:
        """Export the networks for the forms of a row."""
        forms = [row.ours, row.plain, row.expected or row.plain]
        for share in sorted({form.share for form in forms}):
            self._export(transforms.NETWORKS[network], f"{network}_{share}", share)


class TransformTable:
    """Measures rows; plain forms once for each network."""

    def __init__(self, exports: Exports, args: argparse.Namespace) -> None:
        self._exports, self._args = exports, args
        self._memory: dict[tuple[str, str], dict[str, Any]] = {}

    def entry(self, name: str) -> dict[str, Any]:
        """Everything about one row on one network."""
        row, network = transforms.NAMES[name]
        entry = {"name": name, "transform": row.name, "network": network, "beside": row.plain.name}
        return entry | attempt(self._measure, name, row, network)

    def _measure(self, name: str, row: transforms.Row, network: str) -> dict[str, Any]:
        self._exports.provide(row, network)
        facts, rounds = self._rounds(name, row, network)
        sides = {}
        for side in SIDES:
            memory = attempt(self._memory_of, name, row, side, network, facts["limit"])
            sides[side] = facts[side] | {"memory": memory}
            if rounds:
                sides[side] |= figures([time for turn in rounds.turns_of(side) for time in turn])
        entry = {
            "ours": sides["ours"],
            "plain": sides["plain"],
            **{k: facts[k] for k in ("difference", "bound", "limit")},
        }
        if not rounds:
            return entry | {"error": f"wrong losses: differ by {facts['difference']:.2g}, allowed {facts['bound']:.2g}"}
        speed = sides["plain"]["median_ms"] / sides["ours"]["median_ms"]
        return entry | {"speed": speed, "rounds": rounds.entry()}

    def _rounds(self, name: str, row: transforms.Row, network: str) -> tuple[dict[str, Any], Rounds | None]:
        progress(f"{name}: building, comparing losses")
        worker = Worker("transform", row.name, network, str(self._exports.folder))
        try:
            facts = worker.receive(self._args.budget)
            if facts["bound"] is not None and not facts["difference"] <= facts["bound"]:
                return facts, None

            def turn(side: str) -> list[float]:
                worker.send({"side": side, "seconds": self._args.turn})
                return worker.receive(self._args.budget)["times_ms"]

            rounds = Rounds(self._args.rounds, self._args.round_trips)
            for line in rounds.run(lambda: SIDES, turn):
                progress(f"{name}: {line}")
            return facts, rounds
        finally:
            worker.close()

    def _memory_of(self, name: str, row: transforms.Row, side: str, network: str, limit: int) -> dict[str, Any]:
        if side == "plain" and (network, row.plain.name) in self._memory:
            return self._memory[network, row.plain.name]
        progress(f"{name}: memory, {side}")
        given = str(limit if side == "ours" else 0)
        folder, warm_up = str(self._exports.folder), str(self._exports.warm_up)
        answer = ask_once(self._args.budget, "transform_memory", row.name, side, network, folder, warm_up, given)
        found = memory_figures(answer)
        if side == "plain":
            self._memory[network, row.plain.name] = found
        return found


def agreement(entry: dict[str, Any]) -> str:
    """How closely the losses agree, as text."""
    if entry["bound"] is None:
        return "others"
    return "same bits" if entry["difference"] == 0 else f"to {entry['difference']:.0e}"


def print_entry(entry: dict[str, Any]) -> None:
    """One line of the table, and a line for each failure."""
    cells = ["failed"] + ["-"] * (len(COLUMNS) - 1)
    sides = [entry[side] for side in SIDES if side in entry]
    memories = [side["memory"] for side in sides if "error" not in side["memory"]]
    if sides and "speed" in entry:
        cells = [f"{side['median_ms']:.2f}" for side in sides] + [f"{entry['speed']:.2f}"]
        cells += [f"{side['planned_total_bytes'] / 1e6:.1f}" for side in sides]
        cells += ["-"] * 3
        if len(memories) == len(sides):
            ratios = [memory["predicted_by_measured"] for memory in memories]
            cells[-3:] = [f"{memories[0]['measured_peak_bytes'] / 1e6:.1f}"]
            cells += [f"{ratio:.3f}" + ("!" if abs(ratio - 1) > CLOSE else "") for ratio in ratios]
        cells.append(agreement(entry))
    rounds = "  " + summary(entry["rounds"]) if "rounds" in entry else ""
    print(f"{entry['name']:<30}" + "".join(f"{cell:>11}" for cell in cells) + rounds, flush=True)
    texts = [entry.get("error"), *(side["memory"].get("error") for side in sides)]
    for text in filter(None, texts):
        print(f"    {text}", flush=True)


def measure(names: list[str], args: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure rows by name, such as ``recompute_gpt``, and print each result at once."""
    print(f"{'transform':<30}" + "".join(f"{column:>11}" for column in COLUMNS) + "  round trip", flush=True)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            table = TransformTable(Exports(Path(folder), args.budget), args)
        except WorkerFailed as error:
            print(f"    no network can be exported: {error}")
            return []
        for name in names:
            results.append(table.entry(name))
            print_entry(results[-1])
    return results
