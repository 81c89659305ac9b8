"""The rows of `building`: how long popxl takes to build a program, and the times that it must not exceed.

``popxl_build`` returns microseconds by operator, and by variable of modules. ``popxl_transformer12`` returns
milliseconds for the parts of building and compiling a training program of twelve layers: graphs and variables,
automatic differentiation, optimizer, session.
"""

from __future__ import annotations

import argparse
from typing import Any

from figures import attempt, figures
from processes import ask_once, progress

OPERATORS = 4000
KINDS = {"operators": "operator", "in_sequence": "operator", "modules": "operator", "variables": "variable"}
NETWORKS = ("calls", "one_graph")
GOALS = {"popxl_build": 15.0, "popxl_transformer12": 1500.0}  # us by operator or variable; ms


def measure_popxl_build(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Microseconds of Python by operator, of plain functions and of modules, and by variable of modules."""
    entries = []
    for kind in KINDS:
        progress(f"popxl_build: {kind}")
        ours = attempt(ask_once, args.budget, "popxl_build", kind, str(OPERATORS), str(args.rounds))
        entries.append({"name": "popxl_build", "network": kind, "ours": ours, "goal": GOALS["popxl_build"]})
    return entries


def measure_transformer12(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Milliseconds of the parts, with layers as calls of a graph and with all layers in one."""
    entries = []
    for kind in NETWORKS:
        progress(f"popxl_transformer12: {kind}")
        ours = attempt(ask_once, args.budget, "popxl_transformer12", kind, str(args.rounds))
        if "parts_ms" in ours:
            ours = {"parts": {part: figures(times) for part, times in ours["parts_ms"].items()}}
        entry = {"name": "popxl_transformer12", "network": kind, "ours": ours, "goal": GOALS["popxl_transformer12"]}
        entries.append(entry)
    return entries


def row_of(entry: dict[str, Any]) -> str:
    """One line of the table."""
    name, ours, goal = f"{entry['name']} {entry['network']}", entry["ours"], entry["goal"]
    if "error" in ours:
        return f"{name:<30} failed: {ours['error']}"
    if "microseconds" in ours:
        best = min(ours["microseconds"])
        return f"{name:<30} best {best:.1f} us by {KINDS[entry['network']]}, asked {goal:.0f}"
    parts = ", ".join(f"{part} {times['best_ms']:.0f}" for part, times in ours["parts"].items())
    return f"{name:<30} best ms: {parts}; asked {goal:.0f}"
