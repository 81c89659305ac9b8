"""Measures this repository beside its peers. Run it with ./dev bench.

Every implementation of a name lives in its own process (`worker.py`), pinned to the same two cores. First all build and
their results are compared with the first peer's; then they take turns for several rounds, so that a change of the
machine's speed meets all of them. Reported are the median and the best time of one call, the ratio of the best peer's
median to ours (above 1: ours is faster) and the share of the machine's measured multiply-add limit that ours reaches.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import select
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

INFERENCE_NAMES = ["mlp_b1", "mlp_b8", "mlp_b80", "alexnet_b1", "resnet50_b1", "resnet50_b8", "bert_base_s128_b1"]
TRAINING_NAMES = [
    "mlp_train_b8",
    "mlp_train_b80",
    "lenet_train_b32",
    "resnet18_train_b8",
    "gpt_train_b8",
    "bert_tiny_train_b8",
]
NAMES = [*INFERENCE_NAMES, *TRAINING_NAMES, "call_overhead", "compile_time", "memory"]
COMPILE_TIME_NETWORKS = ["mlp_train_b8", "resnet50_b1"]
MEMORY_NETWORKS = ["mlp_train_b80", "resnet50_b8"]
INFERENCE_PEERS = ["torch_eager", "torch_compile", "onnxruntime", "openvino"]
TRAINING_PEERS = ["torch_eager", "torch_compile", "jax"]
PEERS = list(dict.fromkeys([*INFERENCE_PEERS, *TRAINING_PEERS]))
RESULT_TOLERANCE = {"inference": 2e-3, "training": 1e-3}
PAUSE_S = 0.05


class WorkerFailed(Exception):
    """A worker answered with an error, ended, or exceeded its time."""


class Worker:
    """A process of `worker.py` and its answers."""

    def __init__(self, *arguments: str) -> None:
        """Start ``worker.py`` with `arguments`."""
        command = [sys.executable, str(HERE / "worker.py"), *arguments]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        self._pending = b""
        self._errors = b""

    def receive(self, seconds: float) -> dict[str, Any]:
        """Next answer.

        Raises:
            WorkerFailed: An error answer, no answer in time, or the end of the process.
        """
        deadline = time.monotonic() + seconds
        assert self._process.stdout and self._process.stderr
        out, err = self._process.stdout.fileno(), self._process.stderr.fileno()
        while b"\n" not in self._pending:
            ready, _, _ = select.select([out, err], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise WorkerFailed(f"no result within its {seconds:.0f} s")
            if err in ready:
                self._errors = (self._errors + os.read(err, 1 << 16))[-4000:]
            if out in ready:
                piece = os.read(out, 1 << 20)
                if not piece:
                    raise WorkerFailed(self._ending())
                self._pending += piece
        line, self._pending = self._pending.split(b"\n", 1)
        message = json.loads(line)
        if "error" in message:
            raise WorkerFailed(message["error"])
        return message

    def _ending(self) -> str:
        code = self._process.wait()
        last = self._errors.decode(errors="replace").strip().splitlines() or [""]
        return f"ended with exit code {code}: {last[-1][:300]}"

    def send(self, message: dict[str, Any]) -> None:
        """Send one request."""
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise WorkerFailed(self._ending()) from None

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe:
                pipe.close()


def ask_once(seconds: float, *arguments: str) -> dict[str, Any]:
    """The one answer of a worker that measures by itself."""
    worker = Worker(*arguments)
    try:
        return worker.receive(seconds)
    finally:
        worker.close()


def figures(times_ms: list[float]) -> dict[str, Any]:
    """Median and best of a list of times."""
    return {"median_ms": statistics.median(times_ms), "best_ms": min(times_ms), "calls": len(times_ms)}


def largest_difference(result: list[float], expected: list[float]) -> float:
    """Largest difference, relative to the largest expected magnitude; infinite when sizes differ or a value is NaN."""
    if len(result) != len(expected):
        return float("inf")
    scale = max(map(abs, expected)) or 1.0
    worst = max(abs(a - b) for a, b in zip(result, expected, strict=True)) / scale
    return worst if all(a == a for a in result) else float("inf")


class Measurement:
    """One name, measured for ours and its peers."""

    def __init__(self, name: str, peers: list[str], args: argparse.Namespace) -> None:
        self.name, self.args = name, args
        self.training = name in TRAINING_NAMES
        allowed = TRAINING_PEERS if self.training else INFERENCE_PEERS
        # The first peer's result is what the others are compared with.
        self.order = [*(peer for peer in allowed if peer in peers), "ours"]
        self.workers: dict[str, Worker] = {}
        self.times: dict[str, list[float]] = {}
        self.errors: dict[str, str] = {}
        self.differences: dict[str, float] = {}
        self.build_s: dict[str, float] = {}

    def run(self) -> dict[str, Any]:
        """Build, compare, measure; returns the entry of ``results``."""
        try:
            self._build()
            for _ in range(self.args.rounds):
                for implementation in list(self.workers):
                    self._turn(implementation)
        finally:
            for worker in self.workers.values():
                worker.close()
        return self._entry()

    def _fail(self, implementation: str, error: Exception | str) -> None:
        self.errors[implementation] = str(error)
        self.times.pop(implementation, None)
        worker = self.workers.pop(implementation, None)
        if worker:
            worker.close()

    def _build(self) -> None:
        expected: list[float] | None = None
        tolerance = RESULT_TOLERANCE["training" if self.training else "inference"]
        for implementation in self.order:
            self.workers[implementation] = Worker(implementation, self.name)
            try:
                message = self.workers[implementation].receive(self.args.budget)
            except WorkerFailed as error:
                self._fail(implementation, error)
                continue
            self.build_s[implementation] = message["build_s"]
            if expected is None:
                expected = message["result"]
            difference = largest_difference(message["result"], expected)
            self.differences[implementation] = difference
            if difference > tolerance:
                self._fail(implementation, f"wrong result: differs by {difference:.2g}, allowed {tolerance:.2g}")

    def _turn(self, implementation: str) -> None:
        time.sleep(PAUSE_S)  # threads of the previous one stop spinning
        worker = self.workers[implementation]
        try:
            worker.send({"seconds": self.args.turn})
            self.times.setdefault(implementation, []).extend(worker.receive(self.args.budget)["times_ms"])
        except WorkerFailed as error:
            self._fail(implementation, error)

    def _result_of(self, implementation: str) -> dict[str, Any]:
        if implementation not in self.times:
            return {"error": self.errors.get(implementation, "not measured")}
        return {
            **figures(self.times[implementation]),
            "build_s": self.build_s[implementation],
            "difference": self.differences[implementation],
        }

    def _entry(self) -> dict[str, Any]:
        peers = {peer: self._result_of(peer) for peer in self.order if peer != "ours"}
        ours = self._result_of("ours")
        medians = [peer["median_ms"] for peer in peers.values() if "median_ms" in peer]
        ratio = min(medians) / ours["median_ms"] if medians and "median_ms" in ours else None
        return {"name": self.name, "ours": ours, "peers": peers, "ratio_to_best_peer": ratio, "share_of_limit": None}


def run_probe(args: argparse.Namespace) -> dict[str, Any]:
    """The C++ probe: multiply-add limit of the machine and time of a call from C++; an error text on failure."""
    preset = os.environ.get("POPART_PRESET", "release")
    program = ROOT / "build" / preset / "bin" / "popart-bench-probe"
    if not program.is_file():
        return {"error": f"{program} is missing. Build it with ./dev build {preset}."}
    with tempfile.TemporaryDirectory() as folder:
        model = str(Path(folder) / "call_overhead.onnx")
        try:
            wanted = "call_overhead" in args.names
            arguments = [ask_once(args.budget, "export", "call_overhead", model)["path"]] if wanted else []
            result = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=args.budget)
        except subprocess.TimeoutExpired:
            return {"error": f"no result within its {args.budget:.0f} s"}
        except WorkerFailed as error:
            return {"error": str(error)}
    if result.returncode:
        return {"error": (result.stderr.strip().splitlines() or ["no message"])[-1]}
    return json.loads(result.stdout)


def count_flops(name: str, budget: float) -> int | None:
    """Operations of one call, counted by PyTorch in a process of its own; None when that fails."""
    code = f"import networks; print(networks.flops_of(networks.BENCHMARKS[{name!r}]))"
    command = [sys.executable, "-c", code]
    try:
        result = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=budget)
    except subprocess.TimeoutExpired:
        return None
    return int(result.stdout.split()[-1]) if result.returncode == 0 else None


def measure_network(name: str, args: argparse.Namespace, probe: dict[str, Any]) -> list[dict[str, Any]]:
    """One name with peers."""
    entry = Measurement(name, args.peers, args).run()
    if name == "call_overhead":
        entry["ours_cpp"] = probe.get("call_overhead", probe)
    elif "median_ms" in entry["ours"] and "flops_per_s" in probe:
        flops = count_flops(name, args.budget)
        if flops:
            entry["share_of_limit"] = flops / (entry["ours"]["median_ms"] * 1e-3) / probe["flops_per_s"]
    return [entry]


def measure_compile_time(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Session construction to the end of the first run, in fresh sessions."""
    entries = []
    for network in COMPILE_TIME_NETWORKS:
        entry: dict[str, Any] = {"name": "compile_time", "network": network, "peers": {}}
        try:
            times = ask_once(args.budget, "compile_time", network, str(args.rounds))["times_ms"]
            entry["ours"] = figures(times)
        except WorkerFailed as error:
            entry["ours"] = {"error": str(error)}
        entries.append({**entry, "ratio_to_best_peer": None, "share_of_limit": None})
    return entries


def measure_memory(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Planned against measured memory."""
    entries = []
    for network in MEMORY_NETWORKS:
        entry: dict[str, Any] = {"name": "memory", "network": network, "peers": {}}
        try:
            answer = ask_once(args.budget, "memory", network)
            planned = answer["planned"]
            entry["ours"] = {
                "predicted_peak_bytes": planned["total"],
                "measured_growth_bytes": answer["growth"],
                "arena_to_largest_live_set": planned["activations"] / max(1, planned["largest live set"]),
            }
        except WorkerFailed as error:
            entry["ours"] = {"error": str(error)}
        entries.append({**entry, "ratio_to_best_peer": None, "share_of_limit": None})
    return entries


def machine(probe: dict[str, Any]) -> dict[str, Any]:
    """What the figures depend on."""
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
    return f"{result['median_ms']:.3f}" if "median_ms" in result else "failed"


def print_row(entry: dict[str, Any], peers: list[str]) -> None:
    """One line of the table, and a line for each failure."""
    name = " ".join(filter(None, [entry["name"], entry.get("network")]))
    ours = entry["ours"]
    if "predicted_peak_bytes" in ours:
        print(
            f"{name:<26} predicted {ours['predicted_peak_bytes'] / 1e6:.1f} MB, measured "
            f"{ours['measured_growth_bytes'] / 1e6:.1f} MB, arena / live set {ours['arena_to_largest_live_set']:.3f}"
        )
        return
    ratio, share = entry["ratio_to_best_peer"], entry["share_of_limit"]
    columns = [cell(ours), *(cell(entry["peers"].get(peer)) for peer in peers)]
    columns += [f"{ratio:.2f}" if ratio else "-", f"{100 * share:.1f} %" if share else "-"]
    print(f"{name:<26}" + "".join(f"{column:>14}" for column in columns), flush=True)
    if "ours_cpp" in entry:
        print(f"{'  from C++':<26}{cell(entry['ours_cpp']):>14}")
    for implementation, result in [("ours", ours), *entry["peers"].items()]:
        if "error" in result:
            print(f"    {implementation}: {result['error']}")


def parse_arguments() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="./dev bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--names", nargs="+", choices=NAMES, default=NAMES, metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS, metavar="PEER", help=", ".join(PEERS))
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--rounds", type=int, help="turns of each implementation (default: 5, quick: 2)")
    parser.add_argument("--turn", type=float, help="seconds of a turn (default: 1, quick: 0.3)")
    parser.add_argument(
        "--budget", type=float, help="seconds that a build or a turn may take (default: 300, quick: 60)"
    )
    args = parser.parse_args()
    defaults = {"rounds": 2, "turn": 0.3, "budget": 60.0} if args.quick else {"rounds": 5, "turn": 1.0, "budget": 300.0}
    for key, value in defaults.items():
        if getattr(args, key) is None:
            setattr(args, key, value)
    return args


def main() -> None:
    """Measure the chosen names and print the table."""
    args = parse_arguments()
    probe = run_probe(args)
    header = ["ours", *args.peers, "ratio", "of limit"]
    print(f"{'median ms':<26}" + "".join(f"{column:>14}" for column in header), flush=True)
    results = []
    for name in args.names:
        if name == "compile_time":
            entries = measure_compile_time(args)
        elif name == "memory":
            entries = measure_memory(args)
        else:
            entries = measure_network(name, args, probe)
        for entry in entries:
            print_row(entry, args.peers)
        results += entries
    if "error" in probe:
        print(f"    limit of the machine: {probe['error']}")
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps({"machine": machine(probe), "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
