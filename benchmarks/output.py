"""How ./dev bench shows figures: rows of a table in the terminal, and a file for programs."""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
import subprocess
from pathlib import Path
from typing import Any

import machine_state
import measure_building

ROOT = Path(__file__).resolve().parents[1]
# Programs that are compared with other forms of the same work instead of peers (loops.py, popxl_gpt.py).
OTHER_FORMS = {"gpt_repeat_train_b8": ["unrolled"], "popxl_gpt_train": ["onnx", "torch_step"]}


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write the figures for programs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")


def machine(probe: dict[str, Any]) -> dict[str, Any]:
    """The facts about the machine on which the figures depend."""
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    return {
        "cpu": cpu.group(1) if cpu else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": 2,
        "system": platform.platform(),
        "python": platform.python_version(),
        "load_1min": os.getloadavg()[0],
        "commit": commit,
        "limit": probe,
    }


def cell(result: dict[str, Any] | None) -> str:
    """Median time as text."""
    if result is None:
        return "-"
    if "median_ms" not in result:
        return "failed"
    decimals = 3 if result["median_ms"] >= 0.1 else 5
    around = f" ±{50 * result['spread']:.0f}%" if "spread" in result else ""
    return f"{result['median_ms']:.{decimals}f}{around}"


def print_row(entry: dict[str, Any], peers: list[str]) -> None:
    """One line of the table, and a line for each failure."""
    if "goal" in entry:
        print(measure_building.row_of(entry), flush=True)
        return
    name = " ".join(filter(None, [entry["name"], entry.get("network")]))
    ours = entry["ours"]
    if "predicted_peak_bytes" in ours:
        predicted, peak, grown = (
            ours[f"{what}_bytes"] / 1e6 for what in ("predicted_peak", "measured_peak", "measured_growth")
        )
        print(
            f"{name:<30} predicted {predicted:.1f} MB, peak {peak:.1f} MB (ratio {ours['predicted_by_measured']:.3f}), "
            f"grown {grown:.1f} MB, arena / live set {ours['arena_to_largest_live_set']:.3f}",
            flush=True,
        )
        for peer, result in entry["peers"].items():
            if "error" in result:
                print(f"    {peer}: {result['error']}", flush=True)
                continue
            theirs, share = result["measured_peak_bytes"], ours["measured_peak_bytes"] / result["measured_peak_bytes"]
            print(f"{'  ' + peer:<30} peak {theirs / 1e6:.1f} MB (ours is {share:.2f} of it)", flush=True)
        return
    if "us_per_operator" in ours:
        times = ours["us_per_operator"]
        print(f"{name:<30} {statistics.median(times):.1f} us by operator, best {min(times):.1f}", flush=True)
        return
    ratio, share = entry["ratio_to_best_peer"], entry["share_of_limit"]
    columns = [cell(ours), *(cell(entry["peers"].get(peer)) for peer in peers)]
    columns += [f"{ratio:.2f}" if ratio else "-", f"{100 * share:.1f} %" if share else "-"]
    rounds = "  " + machine_state.summary(entry["rounds"]) if "rounds" in entry else ""
    print(f"{name:<26}" + "".join(f"{column:>16}" for column in columns) + rounds, flush=True)
    for beside in OTHER_FORMS.get(entry["name"], []):
        form = entry["peers"].get(beside, {})
        speed = f"{form['median_ms'] / ours['median_ms']:.2f}" if {"median_ms"} <= form.keys() & ours.keys() else "-"
        print(f"{'  ' + beside:<26}{cell(form):>16}{speed:>16}")
    if "ours_cpp" in entry:
        print(f"{'  from C++':<26}{cell(entry['ours_cpp']):>16}")
    if entry["name"] == "load_time" and "error" not in ours:
        times = [side["median_new_session_ms"] for side in (ours, entry["peers"]["compiling"])]
        print(f"{'  in a new session':<26}{times[0]:>16.3f}{times[1] / times[0]:>16.2f}")
    if entry["name"] == "startup":
        imports = [entry["peers"].get(peer, {}).get("median_import_ms") for peer in peers]
        columns = [f"{value:.3f}" if value else "-" for value in [ours.get("median_import_ms"), *imports]]
        print(f"{'  import alone':<26}" + "".join(f"{column:>16}" for column in columns))
    for implementation, result in [("ours", ours), *entry["peers"].items()]:
        if "error" in result:
            print(f"    {implementation}: {result['error']}")
