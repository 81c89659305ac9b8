"""``popart-profile``: where the time and the memory of a model go, as a page, a trace and JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import pva

import popart
from popart.profile.facts import Profile
from popart.profile.model import ModelProfile
from popart.profile.recording import write
from popart.tools import files
from popart.tools.command import ExitCode, UsageError, plain_parser, run_as_process
from popart.tools.output import bytes_text, flops_text, table, time_text
from popart.tools.run import feeds_of
from popart.tools.running import run_model

DESCRIPTION = """Run an ONNX model some times and write where its time and memory go: a page (HTML), a trace for
Perfetto, and JSON. With --loss: of training steps.

Inputs are random unless files give them, as with popart-run. Of a JSON file that a profile wrote, the page is made
anew. --compare BEFORE.json AFTER.json makes a page that compares two profiles."""

PROGRAM = "popart-profile"
MOST_LAYERS = 10  # that are printed
LEARNING_RATE = 1e-6  # of training steps on random inputs: their values do not matter


def arguments_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The parsed command line."""
    parser = plain_parser(PROGRAM, DESCRIPTION)
    parser.add_argument("model", type=Path, nargs="?", help="ONNX file, or the JSON file of a profile")
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    files.add_shape_arguments(parser)
    parser.add_argument(
        "--input", action="append", default=[], metavar="[NAME=]FILE", help="array of an input, as with popart-run"
    )
    parser.add_argument("--seed", type=int, default=0, help="of random inputs (default 0)")
    parser.add_argument(
        "--integers", default="0,2", metavar="LOW,HIGH", help="random whole numbers are LOW to HIGH - 1 (default 0,2)"
    )
    parser.add_argument(
        "--loss", metavar="NAME", help="profile training steps with this loss: cross_entropy, mse, or a tensor"
    )
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="runs that are recorded (default 5)")
    parser.add_argument("--warm-up", type=int, default=2, metavar="N", help="runs before them (default 2)")
    parser.add_argument("--threads", type=int, metavar="N", help="threads that compute")
    parser.add_argument(
        "--device", choices=("cpu", "ipu_model"), default="cpu",
        help="ipu_model: the page has estimates of an IPU, too (default cpu)",
    )  # fmt: skip
    parser.add_argument("--ipus", type=int, metavar="N", help="IPUs of an ipu_model (default 1)")
    parser.add_argument("--tiles", type=int, metavar="N", help="tiles of each of them (default: all of an IPU)")
    parser.add_argument(
        "--output", type=Path, metavar="FOLDER", help="where the files are written (default: MODEL-profile)"
    )
    parser.add_argument(
        "--compare", type=Path, nargs=2, metavar=("BEFORE.json", "AFTER.json"), help="compare two profiles on one page"
    )
    parsed = parser.parse_args(arguments)
    if (parsed.model is None) == (parsed.compare is None):
        parser.error("give either a model, or --compare BEFORE.json AFTER.json")
    for name, least in (("runs", 1), ("warm_up", 0), ("threads", 1), ("ipus", 1), ("tiles", 1)):
        if getattr(parsed, name) is not None and getattr(parsed, name) < least:
            option = name.replace("_", "-")
            parser.error(f"--{option}: got {getattr(parsed, name)}, expected {least} or more")
    if parsed.device == "cpu" and (parsed.ipus or parsed.tiles):
        parser.error("--ipus and --tiles: got device cpu, expected --device ipu_model")
    return parsed


def device_of(parsed: argparse.Namespace) -> popart.DeviceInfo:
    """The device of a command line."""
    manager = popart.DeviceManager()
    if parsed.device == "cpu":
        return manager.createCpuDevice()
    given = {"numIPUs": parsed.ipus, "tilesPerIPU": parsed.tiles}
    return manager.createIpuModelDevice({name: str(count) for name, count in given.items() if count})


def read_report(path: Path) -> pva.Report:
    """A report from its file.

    Args:
        path: The file.

    Returns:
        The report.

    Raises:
        UsageError: There is no such file, or it is not a profile.
    """
    files.require_file(path, "a profile")
    try:
        report = pva.openReport(path)
        Profile(report._facts)
    except ValueError as problem:
        raise UsageError(f"file '{path}': {problem}") from None
    return report


def profile_inference(parsed: argparse.Namespace) -> pva.Report:
    """The profile of runs of a model."""
    facts = files.describe(parsed.model)
    feeds = feeds_of(parsed, facts, PROGRAM)
    running = run_model(parsed.model, facts, feeds, (), parsed.threads, parsed.model.stem, device_of(parsed))
    if running.session is None:
        raise UsageError(f"model '{parsed.model}': it works on text, which the host does. Profile a model of numbers")
    return running.session.profile(running.run, parsed.runs, parsed.warm_up)


def profile_training(parsed: argparse.Namespace) -> pva.Report:
    """The profile of training steps of a model."""
    trainer = popart.Trainer(
        str(parsed.model), parsed.loss, popart.optim.SGD(lr=LEARNING_RATE), num_threads=parsed.threads,
        seed=parsed.seed, device=device_of(parsed),
    )  # fmt: skip
    facts = files.describe(parsed.model)
    of_file = {entry["name"]: entry["shape"] for entry in facts["inputs"]}
    entries = [
        {"name": one.name, "type": str(one.dtype), "shape": list(one.shape or ())} for one in trainer._model.inputs
    ]
    for entry in entries:
        if entry["shape"] and isinstance(entry["shape"][0], str):  # the batch, which the trainer leaves open
            entry["shape"][0] = (of_file.get(entry["name"]) or entries[0]["shape"])[0]  # a label for each sample
    batch = feeds_of(parsed, {**facts, "inputs": entries}, PROGRAM)
    trainer.step(batch)
    report = trainer.session.profile(lambda: trainer.step(batch), parsed.runs, parsed.warm_up)
    return pva.Report(json.dumps({**report._facts, "session": parsed.model.stem}))  # not the trainer's name


def summary_of(profile: Profile) -> dict[str, Any]:
    """What is printed of a profile."""
    estimate = {}
    if "model" in profile.facts:
        model = ModelProfile(profile.facts)
        estimate["estimate"] = {
            "cycles": model.model["cycles"], "ms": model.run_nanoseconds / 1e6, "bytesOfTile": model.tile_bytes,
        }  # fmt: skip
    return estimate | {
        "runMs": profile.run_nanoseconds / 1e6,
        "flops": sum(step.flops * step.calls for step in profile.steps),
        "memory": profile.facts["memory"],
        "phasesMs": {one.name: one.nanoseconds / 1e6 for one in profile.by_phase()},
        "layers": [
            {"layer": one.name, "ms": one.nanoseconds / 1e6, "share": one.nanoseconds / profile.step_nanoseconds}
            for one in profile.by_layer()
        ],
    }


def text_of(profile: Profile, written: Sequence[Path]) -> str:
    """A profile for people."""
    lines = []
    if "model" in profile.facts:
        model = ModelProfile(profile.facts)
        machine = model.model["machine"]
        lines.append(
            f"estimate for {machine['version']}: {model.model['cycles']:,.0f} cycles, "
            f"{time_text(model.run_nanoseconds / 1e9)}; {bytes_text(model.tile_bytes)} of "
            f"{bytes_text(machine['bytesPerTile'])} of a tile. On the host:"
        )
    if profile.runs:
        whole = max(profile.step_nanoseconds, 1e-9)
        flops = sum(step.flops * step.calls for step in profile.steps)
        rate = flops_text(flops / max(profile.run_nanoseconds, 1.0) * 1e9)
        phases = ", ".join(f"{one.name} {one.nanoseconds / whole:.1%}" for one in profile.by_phase())
        lines.append(f"one run: {time_text(profile.run_nanoseconds / 1e9)}, {flops_text(flops)}, {rate}/s; {phases}")
        rows = [
            [one.name, time_text(one.nanoseconds / 1e9), f"{one.nanoseconds / whole:.1%}"]
            for one in profile.by_layer()[:MOST_LAYERS]
        ]
        lines.append(table(rows, ["layer", "time", "share"]))
    lines.append(f"memory: {bytes_text(profile.facts['memory']['total'])}")
    return "\n".join([*lines, *(f"written: {file}" for file in written)])


def command(arguments: Sequence[str] | None = None) -> int:
    """Profile a model, or make a page of profiles; the exit code of the command."""
    parsed = arguments_of(arguments)
    if parsed.compare:
        before, after = (read_report(path) for path in parsed.compare)
        folder = parsed.output or Path(".")
        folder.mkdir(parents=True, exist_ok=True)
        written = [folder / "compared.html"]
        after.to_html(written[0], before)
    elif parsed.model.suffix == ".json":
        after = read_report(parsed.model)
        folder = parsed.output or parsed.model.parent
        folder.mkdir(parents=True, exist_ok=True)
        written = [folder / f"{parsed.model.stem}.html", folder / f"{parsed.model.stem}.trace.json"]
        after.to_html(written[0])
        after.to_trace(written[1])
    else:
        files.require_file(parsed.model)
        after = profile_training(parsed) if parsed.loss else profile_inference(parsed)
        folder = parsed.output or Path(f"{parsed.model.stem}-profile")
        written = write(after, folder, "profile")
    profile = Profile(after._facts)
    if parsed.json:
        print(files.json_text({**summary_of(profile), "written": [str(file) for file in written]}))
    else:
        print(text_of(profile, written))
    return ExitCode.DONE


def main() -> NoReturn:
    """The command of the wheel."""
    run_as_process(PROGRAM, command)


if __name__ == "__main__":
    main()
