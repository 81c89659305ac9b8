"""One implementation in a process of its own, driven by bench.py over stdin and stdout with one JSON line per turn.

``worker.py IMPLEMENTATION NAME`` builds, answers ``{"build_s", "result"}`` and then, for each request
``{"seconds": S}``, runs for about S seconds and answers ``{"times_ms"}``. A failure is answered as ``{"error"}``.
Libraries that print do so to stderr, because stdout belongs to the protocol.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

THREADS = 2


def answer(stream: TextIO, message: dict[str, Any]) -> None:
    """Send one line."""
    stream.write(json.dumps(message) + "\n")
    stream.flush()


def measure(call: Callable[[], object], seconds: float) -> list[float]:
    """Milliseconds of each call made during about `seconds`; at least one call."""
    times = []
    start = end = time.perf_counter()
    while not times or end - start < seconds:
        begin = end
        call()
        end = time.perf_counter()
        times.append((end - begin) * 1e3)
    return times


def resident_bytes() -> int:
    """Memory of this process that is in RAM."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def compile_times(name: str, repetitions: int) -> dict[str, Any]:
    """Milliseconds from session construction to the end of the first run, repeated."""
    import implementations

    benchmark = implementations.networks.BENCHMARKS[name]
    kind = implementations.OursTraining if benchmark.training else implementations.OursInference
    times = []
    for _ in range(repetitions):
        runner = kind(benchmark)
        start = time.perf_counter()
        runner.open()
        runner.call()
        times.append((time.perf_counter() - start) * 1e3)
    return {"times_ms": times}


def memory(name: str) -> dict[str, Any]:
    """Planned bytes of ours, as the session reports them, and the growth of the process up to the second run."""
    import implementations

    benchmark = implementations.networks.BENCHMARKS[name]
    kind = implementations.OursTraining if benchmark.training else implementations.OursInference
    runner = kind(benchmark)
    import popart

    popart.DeviceManager().createCpuDevice()
    before = resident_bytes()
    runner.open()
    for _ in range(2):
        runner.call()
    growth = resident_bytes() - before
    planned = {}
    for line in runner.session.getSummaryReport().splitlines():
        if line.endswith(" bytes"):
            key, _, value = line.strip().rpartition(": ")
            planned[key] = int(value.split()[0])
    return {"planned": planned, "growth": growth}


def export(name: str, path: str) -> dict[str, Any]:
    """Write a network as an ONNX file, for the C++ probe."""
    import implementations

    network, inputs, _ = implementations.networks.instantiate(implementations.networks.BENCHMARKS[name])
    Path(path).write_bytes(implementations.export(network, inputs, training=False))
    return {"path": path}


def serve(implementation: str, name: str, stream: TextIO) -> None:
    """Build, report, then answer requests until stdin closes."""
    import implementations

    start = time.perf_counter()
    runner = implementations.build(implementation, name)
    result = runner.check(implementations.networks.BENCHMARKS[name].training)
    answer(stream, {"build_s": time.perf_counter() - start, "result": result.reshape(-1).tolist()})
    for line in sys.stdin:
        answer(stream, {"times_ms": measure(runner.call, json.loads(line)["seconds"])})


def main() -> None:
    """Command line of the worker."""
    stream = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    task, *arguments = sys.argv[1:]
    try:
        if task == "compile_time":
            answer(stream, compile_times(arguments[0], int(arguments[1])))
        elif task == "memory":
            answer(stream, memory(arguments[0]))
        elif task == "export":
            answer(stream, export(*arguments))
        else:
            serve(task, arguments[0], stream)
    except Exception as error:
        text = str(error).strip().splitlines() or [""]
        answer(stream, {"error": f"{type(error).__name__}: {text[0][:300]}"})


if __name__ == "__main__":
    main()
