"""Predicts the step time of large jobs, from the profile of a program and the schedules of its exchanges.

FILE is the report of a session of the job with two processes or more: the text of ``session._report()``, if
``SessionOptions.engineOptions`` has ``debug.instrument`` = ``true`` and at least one step has run. It has the steps
with their measured times, and the collectives of replicas. The library itself plans how collectives of N processes
exchange data (src/exchange, through the Python module popart_testing). All processes do the same, so the model follows
one of them:

- a step takes its measured time, multiplied by the number of processes that share a core; a step that waits for others
  takes the predicted time of its computation, because its measured time includes the waiting, but at most that time;
- an exchange begins where its operands are published. Exchanges use the network one after the other in that order. The
  messages of a round take a fixed time each; then their bytes take time: those to other hosts at the rate of the host's
  line, which its processes share, the others at the rate of memory; then terms are joined. Latencies of different
  exchanges overlap, those of the rounds of one exchange do not;
- a step that waits continues when its exchange is complete;
- if the thread of the exchange has no separate core, a run takes at least the time of computing and exchanging
  together; the measured times include this time for the job of the report;
- stragglers: with deviations of ``--sigma`` of the step, the slowest of P processes takes sigma sqrt(2 ln P) longer.

Groups of all replicas of the program become groups of all replicas of the larger job; other groups do not change.
Pipelines (steps that run at the same time) are not modelled. If operands have fewer cache lines than there are
processes, predictions are up to 1.7 times too long, because not all processes have a part then. ``--simgrid`` compares
the times of exchanges with those of SimGrid (Debian: python3-simgrid) on a fat tree.

Run it with the Python packages of the build, like ``./dev test``:
``PYTHONPATH=python:build/dev/python python tools/scale_model.py report.json --processes 2 64 1024 65536``.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MOST_ITERATIONS = 10_000  # of a loop with collectives


@dataclass(frozen=True)
class Network:
    """The cost of messages, in nanoseconds. The processes of a host share its line and its memory.

    Attributes:
        latency: Time from one host to another, without the bytes of the message.
        message: Time for which a process is busy with a message.
        byte: Time on the line of a host, in each direction; with an oversubscribed network its share there.
        local_latency: The latency between processes of one host.
        local_byte: Time for a byte between processes of one host.
        join_byte: Time to join a byte of a term.
    """

    latency: float = 20e3
    message: float = 2e3
    byte: float = 0.8
    local_latency: float = 5e3
    local_byte: float = 0.2
    join_byte: float = 0.1


@dataclass(frozen=True)
class Job:
    """Processes, replicas of each, and where they run.

    Attributes:
        processes_of_host: Number of processes of a host; their ranks are consecutive.
        threads: Threads with which each process computes.
        cores_of_host: None: enough for all threads, including those of exchanges.
    """

    processes: int
    replicas_of_each: int = 1
    processes_of_host: int = 1
    threads: int = 1
    cores_of_host: int | None = None

    @property
    def on_host(self) -> int:
        """Processes that share a host."""
        return min(self.processes, self.processes_of_host)

    @property
    def sharing_a_core(self) -> float:
        """The factor by which computing takes longer."""
        return max(1.0, self.on_host * self.threads / self.cores_of_host) if self.cores_of_host else 1.0

    @property
    def has_cores_for_exchange(self) -> bool:
        """Whether the threads of exchanges take no core from computing."""
        return not self.cores_of_host or self.cores_of_host >= self.on_host * (self.threads + 1)


@dataclass
class Collective:
    """One collective of the program, from the report."""

    operation: str
    type: str
    groupSize: int
    stride: int
    elements: list[int]
    resultElements: list[int]
    isPublished: bool
    keeps: bool
    channel: int

    def widened(self, replicas: int, of_program: int) -> Collective:
        """The same in a job of `replicas` replicas; the program was compiled for `of_program`."""
        if self.groupSize < of_program:
            return self
        elements, results = self.elements, self.resultElements
        if self.operation == "reduce-scatter":
            results = [-(-n // replicas) for n in elements]
        elif self.operation == "all-gather":
            elements = [-(-n // replicas) for n in results]
        facts = self.__dict__ | {"groupSize": replicas, "elements": elements, "resultElements": results}
        return Collective(**facts)


@dataclass
class Step:
    """A step of the program: nanoseconds of its work, and the collective that it publishes for or waits in."""

    nanoseconds: float
    collective: Collective | None = None


class Profile:
    """The steps of one run, in order.

    Attributes:
        steps: Loops with collectives are unrolled; other steps between two collectives are combined.
        replicas: Replicas for which the program was compiled.
    """

    def __init__(self, report: dict[str, Any]) -> None:
        """Read the text of a report.

        Raises:
            SystemExit: The report has no timed run, no collectives, or steps that run at the same time.
        """
        if not report["runs"]:
            raise SystemExit(
                "scale_model: the report has no timed run. Set engineOptions['debug.instrument'] = 'true', and make "
                "the report after a step"
            )
        self._measured: dict[tuple[str, str], deque[float]] = defaultdict(deque)
        for name, kernel, nanoseconds in self._medians(report):
            self._measured[name, kernel].append(nanoseconds)
        self.steps: list[Step] = []
        self._add(self._walk(report["programs"]))
        groups = [s.collective.groupSize * s.collective.stride for s in self.steps if s.collective]
        if not groups:
            raise SystemExit(
                "scale_model: the program has no collectives. Make the report in a job of several replicas"
            )
        self.replicas = max(groups)

    @staticmethod
    def _medians(report: dict[str, Any]) -> Iterator[tuple[str, str, float]]:
        runs = report["runs"][1:] or report["runs"]  # the first one warms up
        per_nanosecond = report["target"]["clockFrequency"] / 1e9
        for same in zip(*(run["steps"] for run in runs), strict=True):
            each = [step["cycles"] / per_nanosecond / step["calls"] for step in same]
            yield same[0]["name"], same[0]["kernel"], statistics.median(each)

    def _walk(self, nodes: list[dict[str, Any]]) -> list[Step]:
        steps: list[Step] = []
        for node in nodes:
            inner = [self._walk(child["children"]) for child in node["children"]]
            measured = self._measured[node["name"], node["kernel"]]
            own = measured.popleft() if measured else 0.0
            if not inner:
                facts = node.get("collective")
                collective = Collective(**{key: facts[key] for key in Collective.__annotations__}) if facts else None
                waits = collective is not None and not collective.isPublished
                if waits:
                    predicted = node["predictedNanoseconds"]
                    own = min(predicted, own or predicted)
                steps.append(Step(own, collective))
            elif node["type"] == "Repeat":
                trips = max(1, node["tripCount"])
                if any(step.collective for step in inner[0]):
                    if trips > MOST_ITERATIONS:
                        raise SystemExit(f"scale_model: loop '{node['name']}' has {trips} iterations with collectives")
                    steps += inner[0] * trips
                else:
                    steps.append(Step(own or trips * sum(step.nanoseconds for step in inner[0])))
            else:  # the longer of two branches; the same for lanes, which run at the same time
                if node["type"] != "If" and any(step.collective for branch in inner for step in branch):
                    raise SystemExit(
                        f"scale_model: '{node['name']}' runs steps with collectives at the same time, which is not "
                        "modelled: set engineOptions['lanes'] = 'never'"
                    )
                steps += max(inner, key=lambda branch: sum(step.nanoseconds for step in branch))
        return steps

    def _add(self, steps: list[Step]) -> None:
        for step in steps:
            last = self.steps[-1] if self.steps else None
            if last and not last.collective and not step.collective:
                last.nanoseconds += step.nanoseconds
            else:
                self.steps.append(Step(step.nanoseconds, step.collective))


@dataclass
class Exchange:
    """One collective of one process, planned.

    Attributes:
        rounds: The rounds from `popart_testing.plan_exchange`.
        occupied: Nanoseconds for which it keeps the network or the thread of the exchange busy.
        latencies: Nanoseconds of its rounds that other exchanges may use.
    """

    algorithm: str = "none"
    rounds: list[Any] = field(default_factory=list)
    occupied: float = 0.0
    latencies: float = 0.0


class Planner:
    """Plans exchanges of a process with the most work; the others have the same or less."""

    def __init__(self, job: Job, network: Network) -> None:
        import popart_testing

        self.job, self.network, self._testing = job, network, popart_testing
        self._layout = popart_testing.ReplicaLayout(job.processes, job.replicas_of_each, job.processes_of_host)
        self._known: dict[str, Exchange] = {}

    def rounds(self, collective: Collective, process: int = 0) -> tuple[str, list[Any]]:
        """Algorithm and rounds of one process."""
        import popart_core

        n = self.network
        return self._testing.plan_exchange(
            self._layout, process, collective.operation, getattr(popart_core.DataType, collective.type),
            collective.groupSize, collective.stride, collective.elements, collective.resultElements, collective.keeps,
            n.latency, n.message, n.byte,
        )  # fmt: skip

    def plan(self, collective: Collective) -> Exchange:
        """The collective with its costs."""
        key = json.dumps(collective.__dict__)
        if key not in self._known:
            # For short operands only some processes join a part. The last one does.
            both = [self._planned(collective, process) for process in {0, self.job.processes - 1}]
            self._known[key] = max(both, key=lambda exchange: exchange.occupied + exchange.latencies)
        return self._known[key]

    def _planned(self, collective: Collective, process: int) -> Exchange:
        exchange = Exchange(*self.rounds(collective, process))
        for one in exchange.rounds:
            occupied, latency = self._costs(one, process)
            exchange.occupied += occupied
            exchange.latencies += latency
        return exchange

    def _costs(self, one: Any, process: int) -> tuple[float, float]:
        n, own = self.network, self._layout.host_of(process)
        far, near = [0, 0], [0, 0]  # bytes sent and received
        for direction, messages in enumerate((one.sends, one.receives)):
            for peer, size in messages:
                (near if self._layout.host_of(peer) == own else far)[direction] += size
        moved = self.job.on_host * max(max(far) * n.byte, max(near) * n.local_byte)
        latency = n.latency if any(far) else n.local_latency if any(near) else 0.0
        return len(one.sends) * n.message + moved + one.joined_bytes * n.join_byte, latency


def predict(
    profile: Profile, job: Job, network: Network, sigma: float = 0.0, measured: Job | None = None
) -> dict[str, Any]:
    """Times of one run in a job, in milliseconds. `measured`: the job of the report; None: it had enough cores.

    Returns:
        ``step_ms``, ``compute_ms``, ``exchange_ms`` (sum of the times of all exchanges), ``occupied_ms`` (of the
        network and the thread of the exchange), ``exposed_ms`` (waited for), ``efficiency``, and how many exchanges use
        which algorithm.
    """
    planner = Planner(job, network)
    replicas = job.processes * job.replicas_of_each
    now = computed = occupied = exchanged = waited = free = 0.0
    ready: dict[int, float] = {}
    begun: dict[int, float] = {}
    algorithms: dict[str, int] = defaultdict(int)
    for step in profile.steps:
        collective = step.collective
        own = step.nanoseconds * job.sharing_a_core
        if collective and collective.isPublished:
            now, computed = now + own, computed + own
            begun[collective.channel] = now
            continue
        if collective:
            exchange = planner.plan(collective.widened(replicas, profile.replicas))
            begin = begun.pop(collective.channel, now)
            # Exchanges were published in this order too, so those before this one are in `free`.
            free = max(free, begin) + exchange.occupied
            ready[collective.channel] = free + exchange.latencies
            occupied += exchange.occupied
            exchanged += ready[collective.channel] - begin
            waited += max(0.0, ready[collective.channel] - now)
            now = max(now, ready[collective.channel])
            algorithms[exchange.algorithm] += 1
        now, computed = now + own, computed + own
    if not job.has_cores_for_exchange:
        there = 0.0
        if measured and not measured.has_cores_for_exchange:
            there = predict(profile, measured, network)["occupied_ms"] * 1e6 * job.sharing_a_core
        now = max(now, computed + max(0.0, occupied - there))
    now += sigma * computed * math.sqrt(2 * math.log(job.processes))
    return {
        "processes": job.processes,
        "replicas": replicas,
        "step_ms": now / 1e6,
        "compute_ms": computed / 1e6,
        "exchange_ms": exchanged / 1e6,
        "occupied_ms": occupied / 1e6,
        "exposed_ms": waited / 1e6,
        "efficiency": computed / job.sharing_a_core / now,
        "algorithms": dict(algorithms),
    }


# ---- SimGrid ----------------------------------------------------------------------------------


def compare_with_simgrid(profile: Profile, job: Job, network: Network) -> dict[str, Any]:
    """Time of the largest collective alone: predicted, and simulated with the rounds of all processes.

    Raises:
        SystemExit: No Python on this machine has SimGrid, or the simulation failed.
    """
    planner = Planner(job, network)
    replicas = job.processes * job.replicas_of_each
    waits = [s.collective for s in profile.steps if s.collective and not s.collective.isPublished]
    largest = max(waits, key=lambda c: sum(c.elements)).widened(replicas, profile.replicas)
    rounds = []
    for process in range(job.processes):
        _, own = planner.rounds(largest, process)
        rounds.append([{"sends": r.sends, "receives": r.receives, "joined": r.joined_bytes} for r in own])
    request = {"network": network.__dict__, "processes_of_host": job.processes_of_host, "rounds": rounds}
    for python in dict.fromkeys([sys.executable, "/usr/bin/python3"]):
        if subprocess.run([python, "-c", "import simgrid"], capture_output=True).returncode == 0:
            break
    else:
        raise SystemExit("scale_model: no Python has the module simgrid. Install Debian's package python3-simgrid")
    replay = subprocess.run(
        [python, str(HERE / "simgrid_replay.py")], input=json.dumps(request), capture_output=True, text=True
    )
    if replay.returncode:
        raise SystemExit(f"scale_model: the simulation failed: {replay.stderr.strip()[-600:]}")
    planned = planner.plan(largest)
    predicted = (planned.occupied + planned.latencies) / 1e6
    simulated = json.loads(replay.stdout)["nanoseconds"] / 1e6
    return {
        "processes": job.processes,
        "algorithm": planned.algorithm,
        "predicted_ms": predicted,
        "simulated_ms": simulated,
        "predicted_by_simulated": predicted / simulated,
    }


# ---- command line -----------------------------------------------------------------------------


def parse_arguments() -> argparse.Namespace:
    """Command line."""
    plain = Network()
    parser = argparse.ArgumentParser(
        prog="scale_model.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("report", type=Path, metavar="FILE", help="report of a session, as JSON")
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 8, 64, 1024, 65536], metavar="P")
    parser.add_argument(
        "--replicas-of-each", type=int, default=1, metavar="N", help="replicas of a process (default: 1)"
    )
    parser.add_argument("--processes-of-host", type=int, default=1, metavar="N", help="default: 1")
    parser.add_argument("--threads", type=int, default=1, help="that each process computes with (default: 1)")
    parser.add_argument("--cores-of-host", type=int, metavar="N", help="default: enough for all threads")
    parser.add_argument("--gbit", type=float, default=8 / plain.byte, help="of a host's line, each way (default: 10)")
    parser.add_argument(
        "--oversubscription", type=float, default=1.0, help="how much less than its line a host gets (default: 1)"
    )
    parser.add_argument("--latency", type=float, default=plain.latency / 1e3, metavar="US", help="default: 20")
    parser.add_argument("--message", type=float, default=plain.message / 1e3, metavar="US", help="default: 2")
    parser.add_argument(
        "--local-latency", type=float, default=plain.local_latency / 1e3, metavar="US", help="default: 5"
    )
    parser.add_argument(
        "--local-gbytes", type=float, default=1 / plain.local_byte, help="GB/s within a host (default: 5)"
    )
    parser.add_argument("--join-gbytes", type=float, default=1 / plain.join_byte, help="GB/s of joins (default: 10)")
    parser.add_argument("--sigma", type=float, default=0.0, help="deviation of a process's step, as its share")
    parser.add_argument("--simgrid", action="store_true", help="compare exchanges with SimGrid instead")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    return parser.parse_args()


def main() -> None:
    """Print the table."""
    args = parse_arguments()
    profile = Profile(json.loads(args.report.read_text()))
    network = Network(
        args.latency * 1e3, args.message * 1e3, 8 / args.gbit * args.oversubscription, args.local_latency * 1e3,
        1 / args.local_gbytes, 1 / args.join_gbytes,
    )  # fmt: skip
    rows = []
    if args.simgrid:
        print(f"{'processes':>10}{'algorithm':>12}{'predicted ms':>14}{'simulated ms':>14}{'ratio':>8}")
    else:
        print(f"{'processes':>10}{'step ms':>12}{'compute':>12}{'exchange':>12}{'exposed':>12}{'efficiency':>12}")
    for processes in args.processes:
        job = Job(processes, args.replicas_of_each, args.processes_of_host, args.threads, args.cores_of_host)
        if args.simgrid:
            rows.append(row := compare_with_simgrid(profile, job, network))
            times = f"{row['predicted_ms']:>14.3f}{row['simulated_ms']:>14.3f}"
            print(f"{processes:>10}{row['algorithm']:>12}{times}{row['predicted_by_simulated']:>8.2f}", flush=True)
        else:
            rows.append(row := predict(profile, job, network, args.sigma))
            times = "".join(f"{row[key]:>12.3f}" for key in ("step_ms", "compute_ms", "exchange_ms", "exposed_ms"))
            print(f"{processes:>10}{times}{row['efficiency']:>12.3f}", flush=True)
    if args.json:
        args.json.write_text(json.dumps({"network": network.__dict__, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
