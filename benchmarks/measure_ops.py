"""./dev bench --ops: every operator of `op_rows`, compared with ONNX Runtime and PyTorch."""

from __future__ import annotations

import argparse
from typing import Any

from figures import geometric_mean
from machine_state import Rounds, summary
from processes import Worker, WorkerFailed, progress

COLUMNS = ("ours", "onnxruntime", "torch_eager")
LOW = 0.7  # smaller ratios are listed again at the end


def chosen_rows(words: list[str]) -> list[dict[str, Any]]:
    """Names and kinds of the rows that contain one of the words."""
    from written_rows import ROWS

    rows = [row for row in ROWS if not words or any(word.lower() in row.name.lower() for word in words)]
    return [{"name": row.name, "kinds": ["forward", *(["training"] if row.trains else [])]} for row in rows]


class OperatorWorker:
    """The process that measures operators; after a failure a new one is started."""

    def __init__(self) -> None:
        self._worker: Worker | None = None

    def ask(self, budget: float, *request: Any) -> dict[str, Any]:
        """The answer to one request, or the text of its failure."""
        self._worker = self._worker or Worker("operators")
        try:
            self._worker.send(request)
            return self._worker.receive(budget)
        except WorkerFailed as error:
            self.close()
            return {"error": str(error)}

    def close(self) -> None:
        """End the process."""
        if self._worker:
            self._worker.close()
        self._worker = None


def entry_of(worker: OperatorWorker, name: str, size: str, kind: str, args: argparse.Namespace) -> dict[str, Any]:
    """One line: the times, and the ratio of the better peer's median to ours.

    A line is one round of `Rounds`, whose turn are all turns of all implementations: it is repeated once if the machine
    changed meanwhile.
    """
    progress(f"{name}: {size}, {kind}")
    request = (name, size, kind, args.turn / 4, args.warm_up / 4, args.rounds)
    rounds = Rounds(1, args.round_trips)
    for line in rounds.run(lambda: ["line"], lambda _: worker.ask(args.budget, *request)):
        progress(f"{name}: {size}, {kind}: {line}")
    answer = rounds.turns_of("line")[-1]
    results = answer.get("results", {"ours": {"error": answer.get("error", "no result")}})
    medians = [r["median_ms"] for peer, r in results.items() if peer != "ours" and "median_ms" in r]
    mine = results.get("ours", {}).get("median_ms")
    ratio = min(medians) / mine if medians and mine else None
    entry = {"operator": name, "size": size, "kind": kind, "results": results}
    return entry | {"ratio_to_best_peer": ratio, "rounds": rounds.entry()}


def print_entry(entry: dict[str, Any]) -> None:
    """One line, and one for each failure."""
    label = f"{entry['operator']}, {entry['size']}, {entry['kind']}"
    cells = [entry["results"].get(column, {}).get("median_ms") for column in COLUMNS]
    ratio = entry["ratio_to_best_peer"]
    texts = [f"{cell:.5f}" if cell is not None else "-" for cell in cells] + [f"{ratio:.2f}" if ratio else "-"]
    print(f"{label:<46}" + "".join(f"{text:>14}" for text in texts) + f"  {summary(entry['rounds'])}", flush=True)
    for name, result in entry["results"].items():
        if "error" in result:
            print(f"    {name}: {result['error']}", flush=True)


def summarise(entries: list[dict[str, Any]]) -> None:
    """Print geometric means, and the ratios below `LOW`."""
    for kind in ("forward", "training", ""):
        ratios = [e["ratio_to_best_peer"] for e in entries if e["kind"].startswith(kind) and e["ratio_to_best_peer"]]
        if mean := geometric_mean(ratios):
            print(f"geometric mean of {len(ratios)} {kind or 'all'} ratios: {mean:.2f}")
    slow = [e for e in entries if e["ratio_to_best_peer"] and e["ratio_to_best_peer"] < LOW]
    for entry in sorted(slow, key=lambda e: e["ratio_to_best_peer"]):
        print(f"below {LOW}: {entry['operator']}, {entry['size']}, {entry['kind']}: {entry['ratio_to_best_peer']:.2f}")


def measure(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure the chosen operators and print each line when it is known."""
    from op_rows import SIZES, WITHOUT_ROW

    print(
        f"{'median ms':<46}" + "".join(f"{column:>14}" for column in (*COLUMNS, "ratio")) + "  round trip", flush=True
    )
    entries = []
    worker = OperatorWorker()
    try:
        for row in chosen_rows(args.ops):
            for size in args.sizes or SIZES:
                for kind in row["kinds"]:
                    entries.append(entry_of(worker, row["name"], size, kind, args))
                    print_entry(entries[-1])
    finally:
        worker.close()
    summarise(entries)
    if not args.ops:
        for reason in dict.fromkeys(WITHOUT_ROW.values()):
            names = [name for name, why in WITHOUT_ROW.items() if why == reason]
            print(f"without a row ({reason}): {', '.join(names)}")
    return entries
