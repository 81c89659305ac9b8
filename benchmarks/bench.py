"""Measures this repository and its peers in turns. Run it with ./dev bench.

Every implementation of a name runs in a separate process (`worker.py`); all are pinned to the same two cores. First all
of them build the network, and their results are compared with the first peer's. Then they take turns for several
rounds, so that a change of the machine's speed affects all of them. A turn begins with a warm-up; the other processes
are stopped during a turn. The round trip of a cache line between the cores is measured before and after each turn;
rounds in which it changed are repeated (`machine_state.py`).
The report has the median and the best time of one call, half the range of the turns' medians (±), the ratio of the
best peer's median to ours (above 1: ours is faster) and the share of the machine's limit that ours reaches.

The limit of a name is the longer of two times: its multiply-adds (matrix products and convolutions) at the measured
multiply-add rate of two cores, and the bytes of weights and optimizer state that it must read or write at the measured
rate at which two cores read a block of that size (from cache if it fits). The share is that time divided by our median.

A program with a loop (`loops.py`) is compared with another form of the same work instead of peers; both are ours. The
GPT of examples/popxl (`popxl_gpt.py`) is compared with the same network through ONNX, and with PyTorch with its whole
step compiled. The rows of `transforms.py` (--transforms, or by name) are also compared with other forms; their results
are in a separate table (`measure_transforms.py`).

With --before FOLDER the names are also measured with another checkout of this repository, built for release; with
--same-bits their results are compared to the bit.

Figures without turns: call_overhead (one tiny operator, from Python and from C++), compile_time (construction to the
end of the first call), inline_compile_time (by operator, for graphs that are called many times), load_time (a stored
program instead of the passes; ratio to compiling), memory (the session's prediction and the growth of the process,
without peers), popxl_build and popxl_transformer12 (building programs in popxl, `building.py`), startup (import and
first result in a new process). docs/benchmarks.md explains each.
"""

from __future__ import annotations

import argparse
import difflib
import signal
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import measure_building
import measure_ops
import measure_ranks
import measure_same_bits
import measure_transforms
from figures import attempt, figures, geometric_mean, largest_difference, memory_figures, spread, with_ratio
from machine_state import Rounds, RoundTrips, print_exchange, run_probe
from output import OTHER_FORMS, machine, print_row, write_json
from processes import Worker, WorkerFailed, ask_once, progress

import transforms

INFERENCE_NAMES = ["mlp_b1", "mlp_b8", "mlp_b80", "alexnet_b1", "resnet50_b1", "resnet50_b8", "bert_base_s128_b1"]
TRAINING_NAMES = [
    "mlp_train_b8",
    "mlp_train_b80",
    "lenet_train_b32",
    "resnet18_train_b8",
    "gpt_train_b8",
    "bert_tiny_train_b8",
]
FROZEN_NAMES = ["resnet18_head_train_b8"]  # everything except the head is frozen
# Networks that were not used for tuning (second_set.py).
SECOND_INFERENCE_NAMES = [
    *("convnext_tiny_b1", "shufflenet_v2_b1", "swin_t_b1", "googlenet_b1"),
    *("fcn_resnet50_b1", "wav2vec_features_b1", "gru_s64_b1", "decoder_cached_b1"),
]
SECOND_TRAINING_NAMES = [
    *("convnext_tiny_train_b8", "gru_train_b16", "conv_vae_train_b64"),
    *("recommender_train_b512", "segmentation_train_b2"),
]
SECOND_NAMES = [*SECOND_INFERENCE_NAMES, *SECOND_TRAINING_NAMES]
# Classes of layers that the second set lacks (third_set.py).
THIRD_INFERENCE_NAMES = [
    *("bottlenecks_relu6_b1", "bottlenecks_silu_b1", "densely_connected_b1", "patch_encoder_b1"),
    *("encoder_decoder_256_b1", "decoder_s64_b1", "lstm_s100_b1"),
]
THIRD_TRAINING_NAMES = ["bottlenecks_relu6_train_b8", "patch_encoder_train_b8", "lstm_train_b8"]
THIRD_NAMES = [*THIRD_INFERENCE_NAMES, *THIRD_TRAINING_NAMES]
INLINED_CALLS = [24, 96, 384]
NAMES = [
    *INFERENCE_NAMES,
    *TRAINING_NAMES,
    *FROZEN_NAMES,
    *SECOND_NAMES,
    *THIRD_NAMES,
    *OTHER_FORMS,
    "call_overhead",
    "compile_time",
    "inline_compile_time",
    "load_time",
    "memory",
    "popxl_build",
    "popxl_transformer12",
    "startup",
]
# One class of convolutions each, only measured when named; "convolutions" means all of them.
CONVOLUTION_CLASSES = [
    *("stem7x7", "3x3_56", "3x3_28", "3x3_14", "3x3_7", "3x3_stride2"),
    *("1x1_56", "1x1_28", "1x1_14", "1x1_7", "groups32_28", "depthwise_28"),
]
CONVOLUTION_NAMES = [f"conv_{c}_{kind}" for kind in ("b8", "train_b8") for c in CONVOLUTION_CLASSES]
# Names that are one ONNX file; with weights if they train.
EXPORTED_NAMES = [*INFERENCE_NAMES, *TRAINING_NAMES, *FROZEN_NAMES, *SECOND_NAMES, *THIRD_NAMES, *CONVOLUTION_NAMES]
# One name for several names.
GROUPS = {
    "convolutions": CONVOLUTION_NAMES,
    "first_set": [*INFERENCE_NAMES, *TRAINING_NAMES],
    "second_set": SECOND_NAMES,
    "third_set": THIRD_NAMES,
    **{row.name: [f"{row.name}_{network}" for network in row.networks] for row in transforms.ROWS},
}
COMPILE_TIME_NETWORKS = ["mlp_train_b8", "resnet50_b1", "bert_base_s128_b1", "gpt_train_b8"]
INFERENCE_PEERS = ["torch_eager", "torch_compile", "torch_autotune", "onnxruntime", "openvino"]
TRAINING_PEERS = ["torch_eager", "torch_compile", "torch_autotune", "torch_step", "jax"]
BEFORE = "before"  # another checkout of this repository
PEERS = list(dict.fromkeys([*INFERENCE_PEERS, *TRAINING_PEERS]))
STARTUP_PEERS = ["torch_eager", "onnxruntime", "openvino", "jax"]
COMPILED_ONCE = [
    "torch_compile",
    "torch_autotune",
    "torch_step",
    "jax",
]  # a second compilation in the same process would find a warm cache
RESULT_TOLERANCE = {"inference": 2e-3, "training": 1e-3}


def peers_of(name: str, chosen: list[str]) -> list[str]:
    """The chosen peers that have this name."""
    if BEFORE in chosen:
        return [BEFORE]
    if name in OTHER_FORMS:
        return OTHER_FORMS[name]
    known = TRAINING_PEERS if is_training(name) else INFERENCE_PEERS
    return [peer for peer in known if peer in chosen and (peer != "jax" or name in TRAINING_NAMES)]


def program_of(implementation: str, args: argparse.Namespace) -> tuple[str, Path | None]:
    """The implementation that the worker runs, and its checkout; None: this one."""
    return ("ours", args.before) if implementation == BEFORE else (implementation, None)


def is_training(name: str) -> bool:
    """Whether the name measures a training step."""
    return "_train_" in name


class Measurement:
    """One name, measured for ours and its peers."""

    def __init__(self, name: str, peers: list[str], args: argparse.Namespace) -> None:
        self.name, self.args = name, args
        self.training = is_training(name) or name in OTHER_FORMS
        # The others are compared with the first peer's result.
        self.order = [*peers_of(name, peers), "ours"]
        self.workers: dict[str, Worker] = {}
        self.rounds = Rounds(args.rounds, args.round_trips)
        self.errors: dict[str, str] = {}
        self.differences: dict[str, float] = {}
        self.build_s: dict[str, float] = {}

    def run(self) -> dict[str, Any]:
        """Build, compare, measure; returns the entry of ``results``."""
        try:
            self._build()
            for line in self.rounds.run(lambda: list(self.workers), self._turn):
                progress(f"{self.name}: {line}")
        finally:
            for worker in self.workers.values():
                worker.close()
        return self._entry()

    def _fail(self, implementation: str, error: Exception | str) -> None:
        self.errors[implementation] = str(error)
        worker = self.workers.pop(implementation, None)
        if worker:
            worker.close()

    def _build(self) -> None:
        expected: list[float] | None = None
        tolerance = RESULT_TOLERANCE["training" if self.training else "inference"]
        for implementation in self.order:
            progress(f"{self.name}: {implementation}: building")
            program, checkout = program_of(implementation, self.args)
            self.workers[implementation] = Worker(program, self.name, checkout=checkout)
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
                continue
            self.workers[implementation].pause()

    def _turn(self, implementation: str) -> list[float] | None:
        worker = self.workers[implementation]
        worker.resume()
        try:
            worker.send({"seconds": self.args.turn, "warm_up": self.args.warm_up})
            times_ms = worker.receive(self.args.budget)["times_ms"]
            worker.pause()
        except WorkerFailed as error:
            self._fail(implementation, error)
            return None
        return times_ms

    def _result_of(self, implementation: str) -> dict[str, Any]:
        turns = self.rounds.turns_of(implementation)
        if implementation in self.errors or not turns:
            return {"error": self.errors.get(implementation, "not measured")}
        return {
            **figures([time for turn in turns for time in turn]),
            "spread": spread(turns),
            "build_s": self.build_s[implementation],
            "difference": self.differences[implementation],
        }

    def _entry(self) -> dict[str, Any]:
        peers = {peer: self._result_of(peer) for peer in self.order if peer != "ours"}
        ours = self._result_of("ours")
        return with_ratio({"name": self.name, "ours": ours, "peers": peers, "rounds": self.rounds.entry()})


def limit_of(name: str, budget: float) -> dict[str, Any]:
    """The shortest possible time of one call on this machine by multiply-adds and bytes; an error text on failure."""
    try:
        work = ask_once(budget, "work", name)
    except WorkerFailed as error:
        return {"error": str(error)}
    probe = run_probe(budget, "--bytes", str(work["bytes"]))
    if not probe.get("flops_per_s"):
        return {"error": probe.get("error", "the probe knows no multiply-add of this processor")}
    compute_ms = work["flops"] / probe["flops_per_s"] * 1e3
    memory_ms = work["bytes"] / probe["bytes_per_s"][str(work["bytes"])] * 1e3
    return {**work, "compute_ms": compute_ms, "memory_ms": memory_ms, "limit_ms": max(compute_ms, memory_ms)}


def measure_network(name: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    """One name with peers."""
    entry = Measurement(name, args.peers, args).run()
    if name == "call_overhead":
        with tempfile.TemporaryDirectory() as folder:
            try:
                probe = run_probe(args.budget, "--model", ask_once(args.budget, "export", name, folder)["model"])
            except WorkerFailed as error:
                probe = {"error": str(error)}
        entry["ours_cpp"] = probe.get("call_overhead", probe)
    elif "median_ms" in entry["ours"] and name not in OTHER_FORMS:
        entry["limit"] = limit_of(name, args.budget)
        if "limit_ms" in entry["limit"]:
            entry["share_of_limit"] = entry["limit"]["limit_ms"] / entry["ours"]["median_ms"]
    return [entry]


def compile_figures(implementation: str, network: str, args: argparse.Namespace) -> dict[str, Any]:
    """Construction to the end of the first call; in fresh sessions of one process."""
    progress(f"compile_time {network}: {implementation}")
    rounds = 1 if implementation in COMPILED_ONCE else args.rounds
    environment = {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
    program, checkout = program_of(implementation, args)
    result = ask_once(
        args.budget, "compile_time", program, network, str(rounds), environment=environment, checkout=checkout
    )
    return figures(result["times_ms"]) | {"median_cpu_ms": statistics.median(result["cpu_times_ms"])}


def measure_compile_time(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Session construction to the end of the first run, in fresh sessions."""
    entries = []
    for network in COMPILE_TIME_NETWORKS:
        order = ["ours", *(peer for peer in peers_of(network, args.peers) if peer != "torch_eager")]
        found = {who: attempt(compile_figures, who, network, args) for who in order}
        entry = {"name": "compile_time", "network": network, "ours": found.pop("ours"), "peers": found}
        entries.append(with_ratio(entry))
    return entries


def measure_inline_compile_time(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Microseconds of compilation by operator that results from inlining calls of one graph."""
    entries = []
    for calls in INLINED_CALLS:
        progress(f"inline_compile_time: {calls} calls")
        ours = attempt(ask_once, args.budget, "inline_compile_time", str(calls), str(args.rounds))
        entry = {"name": "inline_compile_time", "network": f"{calls} calls", "ours": ours, "peers": {}}
        entries.append(with_ratio(entry))
    return entries


def load_figures(network: str, args: argparse.Namespace) -> dict[str, Any]:
    """Times of loading a program from the folder of stored programs, and of compiling it."""
    progress(f"load_time {network}")
    times = ask_once(args.budget, "load_time", network, str(args.rounds))
    found = {kind: figures(times[kind]) for kind in ("loading", "compiling")}
    for kind, of_kind in found.items():
        of_kind["median_new_session_ms"] = statistics.median(times[kind + "_new"])
    return {"ours": found["loading"], "peers": {"compiling": found["compiling"]}}


def measure_load_time(args: argparse.Namespace) -> list[dict[str, Any]]:
    """The lowered program is read from a file instead of made by the passes; the ratio is to compiling it."""
    entries = []
    for network in COMPILE_TIME_NETWORKS:
        found = attempt(load_figures, network, args)
        found = {"ours": found, "peers": {}} if "error" in found else found
        entries.append(with_ratio({"name": "load_time", "network": network, **found}))
    return entries


def startup_figures(implementation: str, model: str, args: argparse.Namespace) -> dict[str, Any]:
    """Import and first result, each time in a fresh process."""
    progress(f"startup: {implementation}")
    answers = [ask_once(args.budget, "startup", implementation, model) for _ in range(args.rounds)]
    total = figures([answer["import_ms"] + answer["first_result_ms"] for answer in answers])
    return total | {"median_import_ms": statistics.median(answer["import_ms"] for answer in answers)}


def measure_startup(args: argparse.Namespace) -> list[dict[str, Any]]:
    """From the start of the import to the first result of one tiny operator."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            model = ask_once(args.budget, "export", "call_overhead", folder)["model"]
        except WorkerFailed as error:
            return [with_ratio({"name": "startup", "ours": {"error": str(error)}, "peers": {}})]
        order = ["ours", *(peer for peer in STARTUP_PEERS if peer in args.peers)]
        found = {who: attempt(startup_figures, who, model, args) for who in order}
    return [with_ratio({"name": "startup", "ours": found.pop("ours"), "peers": found})]


def memory_of(network: str, folder: Path, warm_up: Path, args: argparse.Namespace) -> dict[str, Any]:
    """The session's prediction and the growth of the process."""
    progress(f"memory {network}")
    (folder / network).mkdir()
    ask_once(args.budget, "export", network, str(folder / network))
    return memory_figures(ask_once(args.budget, "memory", str(folder / network), str(warm_up)))


def peer_memory_of(peer: str, network: str, args: argparse.Namespace) -> dict[str, Any]:
    """The growth of a peer's process."""
    progress(f"memory {network}: {peer}")
    answer = attempt(ask_once, args.budget, "peer_memory", peer, network)
    if "error" in answer:
        return answer
    return {"measured_peak_bytes": answer["peak"], "measured_growth_bytes": answer["growth"]}


def measure_memory(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Planned and measured memory."""
    entries = []
    with tempfile.TemporaryDirectory() as folder:
        warm_up = Path(folder) / "warm_up"
        warm_up.mkdir()
        ask_once(args.budget, "export", "call_overhead", str(warm_up))
        for network in [*INFERENCE_NAMES, *TRAINING_NAMES, *FROZEN_NAMES]:
            ours = attempt(memory_of, network, Path(folder), warm_up, args)
            peers = {peer: peer_memory_of(peer, network, args) for peer in peers_of(network, args.peers)}
            entries.append(with_ratio({"name": "memory", "network": network, "ours": ours, "peers": peers}))
    return entries


def known_name(text: str) -> str:
    """A value of --names. ArgumentTypeError with the nearest names if there is no such benchmark."""
    known = [*NAMES, *GROUPS, *CONVOLUTION_NAMES, *transforms.NAMES]
    if text in known:
        return text
    nearest = ", ".join(difflib.get_close_matches(text, known, n=3)) or "none"
    raise argparse.ArgumentTypeError(
        f"no benchmark is named {text!r}. Nearest names: {nearest}. Separate names by spaces; --help lists them"
    )


def parse_arguments() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="./dev bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--names",
        nargs="+",
        type=known_name,
        default=NAMES,
        metavar="NAME",
        help=", ".join(NAMES)
        + "; convolutions, or one of its names: "
        + ", ".join(CONVOLUTION_NAMES)
        + "; transforms of training on all their networks, or on one, as in recompute_gpt: "
        + ", ".join(transforms.BY_NAME),
    )
    parser.add_argument(
        "--transforms",
        nargs="*",
        choices=[*transforms.TOPICS, *transforms.BY_NAME],
        metavar="TOPIC",
        help="instead of --names: transforms of training, all or those of some topics or rows: "
        + ", ".join(transforms.TOPICS),
    )
    parser.add_argument(
        "--networks",
        nargs="+",
        choices=list(transforms.NETWORKS),
        default=list(transforms.NETWORKS),
        metavar="NETWORK",
        help="of --transforms: " + ", ".join(transforms.NETWORKS),
    )
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS, metavar="PEER", help=", ".join(PEERS))
    parser.add_argument(
        "--before",
        type=Path,
        metavar="FOLDER",
        help="compare with another checkout of this repository, with a release build, instead of peers",
    )
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument(
        "--same-bits",
        action="store_true",
        help="instead of measuring, check that the chosen training names give the same bits with one thread, with two "
        "and at every repetition: losses, weights and optimizer state (exit code 1 when not). With --before: that the "
        "chosen names, also those for inference, give the bits of the other checkout; POPART_DISABLE_PASSES acts on "
        "this one alone",
    )
    parser.add_argument(
        "--ops",
        nargs="*",
        metavar="WORD",
        help="instead of measuring names: operators in three sizes, forward and in a training step, with ONNX "
        "Runtime and PyTorch; those whose names contain a word, or all",
    )
    parser.add_argument(
        "--sizes", nargs="+", choices=["small", "cache", "memory"], help="of --ops (default: all three)"
    )
    parser.add_argument(
        "--ranks",
        nargs="*",
        choices=measure_ranks.PARTS,
        metavar="PART",
        help="instead of measuring names: jobs of several processes, all or some of: "
        + ", ".join(measure_ranks.PARTS)
        + "; networks: training names of --names (default: "
        + ", ".join(measure_ranks.NETWORKS)
        + ")",
    )
    parser.add_argument("--repetitions", type=int, default=100, help="of --same-bits (default: 100)")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--rounds", type=int, help="turns of each implementation (default: 5, quick: 2)")
    parser.add_argument("--turn", type=float, help="seconds of a turn (default: 1, quick: 0.3)")
    parser.add_argument("--warm-up", type=float, help="seconds in front of a turn (default: 0.3, quick: 0.1)")
    parser.add_argument(
        "--budget", type=float, help="seconds that a build or a turn may take (default: 300, quick: 60)"
    )
    args = parser.parse_args()
    if args.ranks is not None:
        args.ranks = args.ranks or measure_ranks.PARTS
        args.networks = measure_ranks.NETWORKS if args.names is NAMES else [n for n in args.names if is_training(n)]
    if args.transforms is None:
        args.names = [n for a in args.names for n in GROUPS.get(a, [a])]
    else:
        args.names = transforms.chosen(args.transforms, args.networks)
    if args.before:
        if set(args.names) & set(transforms.NAMES):
            parser.error("--before: transforms are compared with the plain form; leave them out of --names")
        args.before, args.peers = args.before.resolve(), [BEFORE]
        if not (args.before / "benchmarks" / "worker.py").is_file():
            parser.error(f"--before: {args.before} is no checkout of this repository")
    defaults = (
        {"rounds": 2, "turn": 0.3, "warm_up": 0.1, "budget": 60.0}
        if args.quick
        else {"rounds": 5, "turn": 1.0, "warm_up": 0.3, "budget": 300.0}
    )
    for key, value in defaults.items():
        if getattr(args, key) is None:
            setattr(args, key, value)
    return args


def measure_names(names: list[str], args: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure the names with and without peers, with one row each."""
    header = ["ours", *args.peers, "ratio", "of limit"]
    print(f"{'median ms':<26}" + "".join(f"{column:>16}" for column in header) + "  round trip", flush=True)
    special = {
        "compile_time": measure_compile_time,
        "inline_compile_time": measure_inline_compile_time,
        "load_time": measure_load_time,
        "memory": measure_memory,
        "popxl_build": measure_building.measure_popxl_build,
        "popxl_transformer12": measure_building.measure_transformer12,
        "startup": measure_startup,
    }
    results = []
    for name in names:
        entries = special[name](args) if name in special else measure_network(name, args)
        for entry in entries:
            print_row(entry, args.peers)
        results += entries
    sets = {title.replace("_", " "): GROUPS[title] for title in ("first_set", "second_set", "third_set")}
    for title, chosen in sets.items():
        ratios = [e["ratio_to_best_peer"] for e in results if e["name"] in chosen and e["ratio_to_best_peer"]]
        if mean := geometric_mean(ratios):
            print(f"{title}: geometric mean of {len(ratios)} ratios to the best peer {mean:.2f}", flush=True)
    return results


def main() -> int:
    """Measure the chosen names and print the table; returns the exit code."""
    args = parse_arguments()
    if args.same_bits:
        compared = EXPORTED_NAMES if args.before else TRAINING_NAMES
        return 0 if measure_same_bits.measure(compared, args) else 1
    probe = run_probe(args.budget)
    print_exchange(probe)
    args.round_trips = RoundTrips(lambda: run_probe(args.budget, "--exchange"))
    if args.ops is not None or args.ranks is not None:
        results = measure_ranks.measure(args) if args.ranks is not None else measure_ops.measure(args)
        print_exchange(run_probe(args.budget))
        if args.json:
            write_json(args.json, {"machine": machine(probe), "results": results})
        return 0
    names = [name for name in args.names if name not in transforms.NAMES]
    results = measure_names(names, args) if names else []
    if chosen := [name for name in args.names if name in transforms.NAMES]:
        results += measure_transforms.measure(chosen, args)
    print_exchange(run_probe(args.budget))
    if "error" in probe:
        print(f"    limit of the machine: {probe['error']}")
    if args.json:
        write_json(args.json, {"machine": machine(probe), "results": results})
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the workers end too
    sys.exit(main())
