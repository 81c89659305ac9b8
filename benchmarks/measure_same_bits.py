"""./dev bench --same-bits: results for every number of threads, or of another checkout, compared to the bit."""

from __future__ import annotations

import argparse
import tempfile
from typing import Any

from figures import attempt
from output import machine, write_json
from processes import ask_once, packages_of, progress

STEPS = 2
THREADS = (3, 8)  # in addition to 1 and 2


def check_threads(name: str, repetitions: int, args: argparse.Namespace) -> dict[str, Any]:
    """Run once with one thread, repeatedly with two and other numbers; returns which tensors differ in any bit."""
    with tempfile.TemporaryDirectory() as folder:
        progress(f"same bits: {name}: export")
        ask_once(args.budget, "export", name, folder)
        progress(f"same bits: {name}: 1 thread")
        budget = args.budget * max(1, repetitions / 10)
        single = ask_once(budget, "same_bits", folder, "1", "1", str(STEPS))
        progress(f"same bits: {name}: 2 threads, {repetitions} repetitions")
        double = ask_once(budget, "same_bits", folder, "2", str(repetitions), str(STEPS))
        others = [double["digests"]]
        for threads in THREADS:
            progress(f"same bits: {name}: {threads} threads")
            others.append(ask_once(budget, "same_bits", folder, str(threads), "1", str(STEPS))["digests"])
    return {
        "tensors": len(single["digests"]),
        "compared": f"threads 1 = 2 = {' = '.join(map(str, THREADS))}, {repetitions} repetitions",
        "differ": different_tensors(single["digests"], *others),
        "differ_between_repetitions": sorted(double["different"]),
    }


def check_before(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Run once here and once with the packages of the other checkout; returns which tensors differ in any bit."""
    before = packages_of(args.before) | {"POPART_DISABLE_PASSES": ""}
    with tempfile.TemporaryDirectory() as folder:
        ask_once(args.budget, "export", name, folder)
        progress(f"same bits: {name}")
        arguments = ("same_bits", folder, "2", "1", str(STEPS))
        here = ask_once(args.budget, *arguments)["digests"]
        there = ask_once(args.budget, *arguments, environment=before)["digests"]
    return {"tensors": len(here), "compared": f"{args.before} = here", "differ": different_tensors(here, there)}


def different_tensors(digests: dict[str, str], *others: dict[str, str]) -> list[str]:
    """Tensors that any of the others lacks or has with another digest."""
    return sorted({name for name, digest in digests.items() for other in others if other.get(name) != digest})


def measure(compared: list[str], args: argparse.Namespace) -> bool:
    """Check every chosen name that is in `compared`; prints one line each and returns whether all are the same."""
    results = []
    for name in args.names:
        if name not in compared:
            progress(f"same bits: {name}: left out")
            continue
        check = (check_before, name, args) if args.before else (check_threads, name, args.repetitions, args)
        result = {"name": name, "same": False, **attempt(*check)}
        results.append(result)
        if "error" in result:
            print(f"{name:<26} failed: {result['error']}", flush=True)
            continue
        differ = [*result["differ"], *result.get("differ_between_repetitions", [])]
        result["same"] = not differ and result["tensors"] > 0
        verdict = "same bits" if result["same"] else "DIFFERENT BITS"
        print(
            f"{name:<26} {verdict}: {result['tensors']} tensors, {result['compared']}, {STEPS} steps",
            flush=True,
        )
        for tensor in differ[:8]:
            print(f"    differs: {tensor}")
    if args.json:
        write_json(args.json, {"machine": machine({}), "same_bits": results})
    return bool(results) and all(result["same"] for result in results)
