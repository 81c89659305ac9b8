"""Jobs of several processes (./dev bench --ranks): the cost of the other processes, and PyTorch's time for the same.

``scaling``: two processes with one thread and one processor each train a network, each on half of the batch (`linked`).
In turns with them run two processes with the same program that are not connected (`alone`), so that the memory's
bandwidth is in both; one process with both replicas as threads on the same two processors (`threads`); and
PyTorch's DistributedDataParallel over gloo, as it is and compiled. The losses of the first steps are compared before
anything is timed. Weak scaling is the median step of `alone` by that of `linked`. In a job of its own every run is
timed: the exposed share is the time that a replica waits for exchanges by the time that exchanges are under way. It
has a goal for models of more than 10 MB.
``start``: the time from the start of four linked processes to the first steps of all, and the same for one process
alone; and the largest memory of a process.
``kill``: one of two processes is killed while they train. Reported are the seconds to the end of the job, its exit code
and its messages.
``model``: steps of two and four processes, predicted by tools/scale_model.py from the profile of two, divided by the
measured ones; by messages, which the model predicts. If processes share cores, the prediction includes that.
``link``: sums of 32 MiB between two hosts, which are network namespaces of this machine (`two_hosts`), compared with
the limit of a line of 1 Gbit/s.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from figures import attempt, figures, largest_difference, spread
from machine_state import Rounds, summary
from processes import HERE, WorkerFailed, ask_once, progress
from rank_jobs import RankJob
from rank_worker import SUMS
from two_hosts import LINE_BITS_PER_S, TwoHosts

PROCESSES, MANY = 2, 4
LINK_SUM = "sum_32_mib"
NETWORKS = ["gpt_train_b8", "resnet18_train_b8", "bert_tiny_train_b8", "conv_vae_train_b64", "mlp_train_b80"]
START_NETWORK = "mlp_train_b80"
PARTS = ["scaling", "start", "kill", "link", "model"]
KINDS = ["ddp", "ddp_compile", "alone", "threads", "linked"]
PEERS = ["alone", "threads", "ddp", "ddp_compile"]
LOSS_TOLERANCE = 1e-3
LEAST_OVERLAPPED_BYTES = 10_000_000
GOALS = {
    "exposed": 0.15,
    "ratio": 1.5,
    "to_threads": 1.1,  # with shared memory
    "start_s": 2.0,
    "memory_bytes": 64 << 20,
    "end_s": 10.0,
    "link": 0.85,
}


def exposed_goal(model_bytes: int) -> float | None:
    """The largest share of exchanges that may be waited for; None for small models."""
    return GOALS["exposed"] if model_bytes > LEAST_OVERLAPPED_BYTES else None


def scaling_goal(step_ms: float) -> float | None:
    """The required weak scaling for steps of this length; None for short ones."""
    return 0.93 if step_ms >= 50 else 0.85 if step_ms >= 5 else None


class Scaling:
    """One network in all kinds of jobs."""

    def __init__(self, name: str, folder: Path, args: argparse.Namespace) -> None:
        self.name, self.folder, self.args = name, folder, args
        self.jobs: dict[str, RankJob] = {}
        self.errors: dict[str, str] = {}
        self.typical_ms: dict[str, float] = {}
        self.rounds = Rounds(args.rounds, args.round_trips)

    def run(self) -> dict[str, Any]:
        """Build, compare losses, measure in turns, and measure exchanges; the entry of ``results``."""
        ask_once(self.args.budget, "export", self.name, str(self.folder), str(PROCESSES))
        try:
            for kind in KINDS:
                self._build(kind)
            for line in self.rounds.run(lambda: list(self.jobs), self._turn):
                progress(f"ranks {self.name}: {line}")
        finally:
            for job in self.jobs.values():
                job.close()
        return self._entry(attempt(self._profile))

    def _build(self, kind: str) -> None:
        progress(f"ranks {self.name}: {kind}: building")
        try:
            processes = 1 if kind == "threads" else PROCESSES
            job = RankJob(kind, self.name, self.folder, processes, self.args.budget, shares=PROCESSES)
        except WorkerFailed as error:
            self.errors[kind] = str(error)
            return
        self.jobs[kind] = job
        # Before the first update all have the same weights; exchanges of a job's replicas have an effect only after it.
        steps = slice(0, 1 if kind == "alone" else None)
        reference = self.jobs.get("ddp", job)
        found, expected = (
            [loss for answer in of.first for losses in answer["losses"] for loss in losses[steps]]
            for of in (job, reference)
        )
        difference = largest_difference(found, expected)
        if difference > LOSS_TOLERANCE:
            self.errors[kind] = f"wrong losses: they differ by {difference:.2g}, allowed {LOSS_TOLERANCE:.2g}"
            self.jobs.pop(kind).close()

    def _turn(self, kind: str) -> list[float] | None:
        job, budget = self.jobs[kind], self.args.budget
        try:
            if kind not in self.typical_ms:
                times = job.times_ms(3, 2, budget)
                self.typical_ms[kind] = statistics.median(time for of_rank in times for time in of_rank)
            calls, warm_up = (
                max(1, round(seconds * 1e3 / self.typical_ms[kind])) for seconds in (self.args.turn, self.args.warm_up)
            )
            return [time for of_rank in job.times_ms(calls, warm_up, budget) for time in of_rank]
        except WorkerFailed as error:
            self.errors[kind] = str(error)
            self.jobs.pop(kind).close()
            return None

    def _profile(self) -> dict[str, Any]:
        progress(f"ranks {self.name}: exchanges")
        job = RankJob("profiled", self.name, self.folder, PROCESSES, self.args.budget)
        job.close()
        profiles = [answer["profile"] for answer in job.first]
        total = {key: sum(sum(p[key]) for p in profiles) for key in ("run_ns", "exchange_ns", "wait_ns")}
        runs = sum(len(p["run_ns"]) for p in profiles)
        return {
            "exposed_share": total["wait_ns"] / total["exchange_ns"] if total["exchange_ns"] else None,
            "exchange_ms": total["exchange_ns"] / runs / 1e6,
            "wait_ms": total["wait_ns"] / runs / 1e6,
            "exchange_bytes": profiles[0]["exchange_bytes"],
            "model_bytes": (self.folder / "model.onnx").stat().st_size,
        }

    def _result_of(self, kind: str) -> dict[str, Any]:
        turns = self.rounds.turns_of(kind)
        if kind in self.errors or not turns:
            return {"error": self.errors.get(kind, "not measured")}
        return figures([time for turn in turns for time in turn]) | {"spread": spread(turns)}

    def _entry(self, profile: dict[str, Any]) -> dict[str, Any]:
        ours, peers = self._result_of("linked"), {kind: self._result_of(kind) for kind in PEERS}
        entry = {"name": "ranks", "network": self.name, "ours": ours, "peers": peers, "exchange": profile}
        entry |= {"weak_scaling": None, "to_threads": None, "ratio_to_best_peer": None}
        entry["rounds"] = self.rounds.entry()
        if "median_ms" in ours:
            medians = {
                kind: peer["median_ms"] / ours["median_ms"] for kind, peer in peers.items() if "median_ms" in peer
            }
            entry["weak_scaling"] = medians.pop("alone", None)
            if "threads" in medians:
                entry["to_threads"] = 1 / medians.pop("threads")
            entry["ratio_to_best_peer"] = min(medians.values(), default=None)
        return entry


def measure_start(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Four linked processes and one alone: seconds and memory."""
    ask_once(args.budget, "export", START_NETWORK, str(folder), str(MANY))
    seconds: dict[str, list[float]] = {"alone": [], "linked": []}
    memory: dict[str, list[int]] = {"alone": [], "linked": []}
    for number in range(args.rounds):
        for kind, processes in (("alone", 1), ("linked", MANY)):
            progress(f"ranks start: {kind}, {number + 1} of {args.rounds}")
            job = RankJob(kind, START_NETWORK, folder, processes, args.budget, shares=MANY)
            job.close()
            seconds[kind].append(job.started_s)
            memory[kind].append(max(answer["peak_bytes"] for answer in job.first))
    profiled = RankJob("profiled", START_NETWORK, folder, MANY, args.budget)
    profiled.close()
    found = {
        kind: {"median_s": statistics.median(seconds[kind]), "peak_bytes": statistics.median(memory[kind])}
        for kind in seconds
    }
    return {
        "name": "ranks_start",
        "network": START_NETWORK,
        "processes": MANY,
        **found,
        "exchange_bytes": profiled.first[0]["profile"]["exchange_bytes"],
    }


def measure_kill(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """The end of a job after one process is killed."""
    ask_once(args.budget, "export", START_NETWORK, str(folder), str(PROCESSES))
    progress("ranks kill")
    job = RankJob("linked", START_NETWORK, folder, PROCESSES, args.budget)
    try:
        job.send(1_000_000, 0)
        time.sleep(0.5)  # both are running steps
        os.kill(job.pids[1], signal.SIGKILL)
        begin = time.monotonic()
        try:
            code = job.launched[0].wait(args.budget)
        except subprocess.TimeoutExpired:
            raise WorkerFailed(f"the job did not end within {args.budget:.0f} s") from None
        text = job.output()
        names = re.search(r"instance 1 .*\bhost\b.*\breplica", text)
        return {
            "name": "ranks_kill",
            "end_s": time.monotonic() - begin,
            "exit_code": code,
            "is_named": names is not None,
            "message": names.string[names.start() :].splitlines()[0] if names else text[-400:],
        }
    finally:
        job.close()


def sum_times_ms(name: str, folder: Path, args: argparse.Namespace, hosts: TwoHosts | None = None) -> list[float]:
    """Times of the exchange of one of `SUMS`, by run, from the time when the last process began it."""
    job = RankJob("profiled", name, folder, PROCESSES, args.budget, hosts=hosts, by_messages=True)
    job.close()
    expected = float(sum(range(1, PROCESSES + 1)) * (SUMS[name] // 4))
    found = [loss for answer in job.first for losses in answer["losses"] for loss in losses]
    if found != [expected] * len(found):
        raise WorkerFailed(f"wrong sums: got {found}, expected {expected}")
    return [min(ns) / 1e6 for ns in zip(*(answer["profile"]["exchange_ns"] for answer in job.first), strict=True)]


def measure_model(folder: Path, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Steps of 2 and 4 processes of this host: predicted by tools/scale_model.py from the job of two, and measured.

    The processes send messages, as between hosts: the model does not know shared memory.
    """
    sys.path.append(str(HERE.parent / "tools"))
    import scale_model

    progress("ranks model: sums")
    short, long = (statistics.median(sum_times_ms(name, folder, args)) * 1e6 for name in ("sum_4_kib", "sum_1_mib"))
    plain = scale_model.Network()
    # For two processes: two rounds, each with half of the bytes of both, and one join of half of them.
    latency = max(0.0, short / 2 - plain.message)
    byte = max(0.0, (long - short) / SUMS["sum_1_mib"] - plain.join_byte / 2) / PROCESSES
    network = scale_model.Network(local_latency=latency, local_byte=byte)
    cores = len(os.sched_getaffinity(0))

    def job_of(processes: int) -> Any:
        return scale_model.Job(processes, processes_of_host=processes, cores_of_host=min(cores, processes))

    entries = []
    for name in args.networks:
        (folder / name).mkdir()
        ask_once(args.budget, "export", name, str(folder / name), str(MANY))
        progress(f"ranks model: {name}")
        profiled = RankJob("profiled", name, folder / name, PROCESSES, args.budget, shares=MANY, by_messages=True)
        profiled.close()
        profile = scale_model.Profile(profiled.first[0]["report"])
        steps = {}
        for processes in (PROCESSES, MANY):
            linked = RankJob("linked", name, folder / name, processes, args.budget, shares=MANY, by_messages=True)
            times = linked.times_ms(30, 10, args.budget)
            linked.close()
            predicted = scale_model.predict(profile, job_of(processes), network, measured=job_of(PROCESSES))["step_ms"]
            measured = statistics.median(time for of_rank in times for time in of_rank)
            steps[str(processes)] = {"predicted_ms": predicted, "measured_ms": measured, "ratio": predicted / measured}
        entries.append({"name": "ranks_model", "network": name, "network_ns": network.__dict__, "steps": steps})
    return entries


def measure_link(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Sums between two hosts, compared with the limit of the line."""
    progress("ranks link")
    size = SUMS[LINK_SUM]
    with TwoHosts() as hosts:
        times_ms = sum_times_ms(LINK_SUM, folder, args, hosts)
    sent_bytes = 2 * (PROCESSES - 1) / PROCESSES * size
    line_ms = sent_bytes * 8 / LINE_BITS_PER_S * 1e3
    return {
        "name": "ranks_link",
        "sum_bytes": size,
        "line_ms": line_ms,
        "ours": figures(times_ms),
        "share_of_line": line_ms / statistics.median(times_ms),
    }


def asked(value: float | None, goal: float | None, form: str = ".2f", least: bool = True) -> str:
    """A figure with its goal, and whether the goal is missed."""
    if value is None:
        return "-"
    if goal is None:
        return f"{value:{form}}"
    missed = value < goal if least else value > goal
    return f"{value:{form}} ({'asked ' if missed else ''}{'>=' if least else '<='} {goal:{form}})"


def scaling_row(entry: dict[str, Any]) -> str:
    """One line of the table, and one for each failure."""
    from output import cell

    ours = entry["ours"]
    exposed = entry["exchange"].get("exposed_share")
    columns = [cell(ours), *(cell(entry["peers"][kind]) for kind in PEERS)]
    columns += [
        asked(entry["weak_scaling"], scaling_goal(ours.get("median_ms", 0))),
        asked(entry["to_threads"], GOALS["to_threads"], least=False),
        asked(entry["ratio_to_best_peer"], GOALS["ratio"]),
        asked(exposed, exposed_goal(entry["exchange"].get("model_bytes", 0)), least=False),
    ]
    text = f"{entry['network']:<22}" + "".join(f"{column:>22}" for column in columns) + "  " + summary(entry["rounds"])
    failures = [("linked", ours), *entry["peers"].items(), ("exchange", entry["exchange"])]
    return "\n".join([text, *(f"    {kind}: {r['error']}" for kind, r in failures if "error" in r)])


def other_row(entry: dict[str, Any]) -> str:
    """The line of a figure without peers."""
    name = entry["name"]
    if "error" in entry:
        return f"{name:<22}failed: {entry['error']}"
    if name == "ranks_start":
        one, many = entry["alone"], entry["linked"]
        more_s = many["median_s"] - one["median_s"]
        more_bytes = many["peak_bytes"] - one["peak_bytes"] - entry["exchange_bytes"]
        return (
            f"{name:<22}{entry['processes']} processes {many['median_s']:.2f} s, one {one['median_s']:.2f} s, more "
            f"{asked(more_s, GOALS['start_s'], least=False)} s; memory of one more, exchange aside: "
            f"{asked(more_bytes / 2**20, GOALS['memory_bytes'] / 2**20, '.0f', least=False)} MiB"
        )
    if name == "ranks_kill":
        named = "named" if entry["is_named"] else "NOT NAMED"
        return (
            f"{name:<22}ended after {asked(entry['end_s'], GOALS['end_s'], least=False)} s, exit code "
            f"{entry['exit_code']}, {named}: {entry['message']}"
        )
    if name == "ranks_model":
        steps = (
            f"{processes} processes {s['predicted_ms']:.2f} ms predicted, {s['measured_ms']:.2f} measured "
            f"({s['ratio']:.2f})"
            for processes, s in entry["steps"].items()
        )
        return f"{name:<22}{entry['network']}: {'; '.join(steps)}"
    return (
        f"{name:<22}{entry['ours']['median_ms']:.1f} ms, the line allows {entry['line_ms']:.1f} ms: "
        f"{asked(entry['share_of_line'], GOALS['link'])}"
    )


def measure(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure the parts of `args.ranks`, of the networks of `args.networks`, and print a row for each; the entries."""
    results = []
    with tempfile.TemporaryDirectory() as root:

        def folder(name: str) -> Path:
            made = Path(root, name)
            made.mkdir()
            return made

        if "scaling" in args.ranks:
            header = ["linked", *PEERS, "weak scaling", "to threads", "ratio to DDP", "exposed"]
            print(f"{'median ms':<22}" + "".join(f"{column:>22}" for column in header) + "  round trip", flush=True)
            for name in args.networks:
                entry = {"name": "ranks", "network": name} | attempt(Scaling(name, folder(name), args).run)
                print(other_row(entry) if "error" in entry else scaling_row(entry), flush=True)
                results.append(entry)
        for part, work in (("start", measure_start), ("kill", measure_kill), ("link", measure_link)):
            if part in args.ranks:
                results.append({"name": f"ranks_{part}"} | attempt(work, folder(part), args))
                print(other_row(results[-1]), flush=True)
        if "model" in args.ranks:
            try:
                entries = measure_model(folder("model"), args)
            except WorkerFailed as error:
                entries = [{"name": "ranks_model", "error": str(error)}]
            for entry in entries:
                print(other_row(entry), flush=True)
            results += entries
    return results
