"""``popart-run``: run an ONNX model on random or given inputs, time it, compare it with ONNX Runtime."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from popart_core import DataFlow, DeviceManager, InputShapeInfo, PyStepIO, SessionOptions
from tqdm import tqdm

from popart.session import InferenceSession
from popart.tensorinfo import TensorInfo
from popart.tools import files

DESCRIPTION = """Run an ONNX model once or many times.

Inputs are random unless files give them. Open dimensions are 1 unless --dim, --shape or the files say them.
Status: 0 when all went well, 1 when results differ from ONNX Runtime's, 2 for what cannot be run."""


def arguments_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The parsed command line."""
    parser = files.parser("popart-run", DESCRIPTION)
    files.add_shape_arguments(parser)
    parser.add_argument(
        "--input", action="append", default=[], metavar="[NAME=]FILE",
        help="array of an input: NAME=FILE.npy or NAME=FILE.pb; or FILE.npz, whose arrays have the inputs' names",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="of random inputs (default 0)")
    parser.add_argument(
        "--integers", default="0,2", metavar="LOW,HIGH", help="random whole numbers are LOW to HIGH - 1 (default 0,2)"
    )
    parser.add_argument(
        "--output", type=Path, metavar="PATH", help="write results: FILE.npz, or a folder for .npy files"
    )
    parser.add_argument("--anchor", action="append", default=[], metavar="TENSOR", help="another tensor to return")
    parser.add_argument("--runs", type=int, metavar="N", help="time so many runs")
    parser.add_argument(
        "--seconds", type=float, metavar="S", help="time runs for so long (default: one run, not timed)"
    )
    parser.add_argument("--warm-up", type=float, default=0.3, metavar="S", help="seconds of runs before (default 0.3)")
    parser.add_argument("--threads", type=int, metavar="N", help="threads that compute")
    parser.add_argument("--check", action="store_true", help="compare the results with ONNX Runtime's")
    parser.add_argument("--rtol", type=float, default=1e-3, help="relative tolerance of --check (default 1e-3)")
    parser.add_argument("--atol", type=float, default=1e-4, help="absolute tolerance of --check (default 1e-4)")
    parsed = parser.parse_args(arguments)
    for name in ("runs", "threads"):
        if getattr(parsed, name) is not None and getattr(parsed, name) < 1:
            parser.error(f"--{name}: got {getattr(parsed, name)}, expected 1 or more")
    return parsed


def given_arrays(
    texts: Sequence[str], names: Sequence[str], sequences: Sequence[str], weights: Sequence[str] = ()
) -> dict[str, np.ndarray]:
    """Arrays of the files that ``--input`` names: of ``names``, ``weights``, and of the tensors of ``sequences``."""
    arrays: dict[str, np.ndarray] = {}
    for text in texts:
        name, equals, file = text.partition("=")
        if not equals and Path(text).suffix == ".npz":
            files.require_file(Path(text))
            try:
                with np.load(text, allow_pickle=False) as archive:
                    arrays.update({key: archive[key] for key in archive.files})
            except (*files.NOT_ARRAYS, OSError, AttributeError) as problem:  # the last one: an array, no archive
                raise files.UsageError(f"'{text}' holds no arrays: {problem}") from None
        elif equals:
            arrays[name] = files.read_array(Path(file))
        elif len(names) == 1:
            arrays[names[0]] = files.read_array(Path(text))
        else:
            raise files.UsageError(f"--input {text}: the model has {len(names)} inputs. Say which: NAME={text}")
    for name in arrays:
        if name not in names and name not in weights and name.rpartition("/")[0] not in sequences:
            raise files.UsageError(f"--input: the model has no input '{name}'. It has {', '.join(names) or 'none'}")
    return arrays


def feeds_of(parsed: argparse.Namespace, facts: dict[str, Any]) -> dict[str, np.ndarray]:
    """An array for each input, and for each tensor of a sequence; says which sizes were chosen."""
    inputs = [entry for entry in facts["inputs"] if not entry.get("sequence")]
    sequences = [entry for entry in facts["inputs"] if entry.get("sequence")]
    weights = [entry["name"] for entry in facts["inputsWithValues"]]  # what is given counts, else the model's values
    given = given_arrays(parsed.input, [e["name"] for e in inputs], [e["name"] for e in sequences], weights)
    symbols = {
        str(d): str(size)
        for entry in inputs if entry["name"] in given and entry["shape"] is not None
        for d, size in zip(entry["shape"], given[entry["name"]].shape, strict=False) if isinstance(d, str) and d != "?"
    }  # fmt: skip
    others = [entry for entry in inputs if entry["name"] not in given]
    others += [entry for entry in sequences if f"{entry['name']}/0" not in given]
    asked = {**symbols, **files.pairs(parsed.dim, "--dim")}
    known = {d for entry in others for d in entry["shape"] or []}
    dims = [f"{name}={size}" for name, size in asked.items() if name in known or name not in symbols]
    shapes, notes = files.input_shapes(others, parsed.shape, dims)
    for note in notes:
        print(f"popart-run: {note}", file=sys.stderr)
    bounds = files.whole_numbers(parsed.integers, "--integers")
    if len(bounds) != 2 or bounds[0] >= bounds[1]:
        raise files.UsageError(f"--integers: got '{parsed.integers}', expected LOW,HIGH with LOW below HIGH")
    random = files.random_arrays(shapes, parsed.seed, (bounds[0], bounds[1]))
    order = [entry["name"] for entry in facts["inputs"]] + weights
    arrays = {**random, **given}
    names = sorted(arrays, key=lambda name: order.index(name if name in order else name.rpartition("/")[0]))
    return {name: arrays[name] for name in names}


def infos_of(feeds: dict[str, np.ndarray]) -> InputShapeInfo:
    """Types and shapes of arrays."""
    infos = InputShapeInfo()
    for name, array in feeds.items():
        infos.add(name, TensorInfo(array.dtype.names[0] if array.dtype.names else array.dtype.name, array.shape))
    return infos


def session_for(
    parsed: argparse.Namespace, facts: dict[str, Any], outputs: list[str], feeds: dict[str, np.ndarray]
) -> InferenceSession:
    """A session ready to run for the shapes of ``feeds``."""
    whole = {entry["name"] for entry in facts["inputs"] if not entry.get("sequence") and not entry.get("optional")}
    whole |= {entry["name"] for entry in facts["inputsWithValues"]}
    infos = infos_of({name: array for name, array in feeds.items() if name not in whole})
    options = SessionOptions()
    options.engineOptions["max_shape_programs"] = "1"
    if parsed.threads is not None:
        options.engineOptions["num_threads"] = str(parsed.threads)
    device = DeviceManager().createCpuDevice()
    session = InferenceSession(
        str(parsed.model), DataFlow(1, outputs), device, infos, userOptions=options, name="popart-run"
    )
    session.prepareDevice()
    session.setInputShapes(feeds)
    return session


def holds_text(facts: dict[str, Any]) -> bool:
    """Whether the model has inputs or outputs of text, which the host works on."""
    return any(entry["type"] == "string" for entry in [*facts["inputs"], *facts["outputs"]])


def runner_on_host(
    parsed: argparse.Namespace, facts: dict[str, Any], feeds: dict[str, np.ndarray]
) -> Callable[[], dict[str, np.ndarray]]:
    """What runs a model of text: its outputs by name, tensors of sequences as "name/0", …."""
    onnx = files.import_onnx()
    from popart.backend import BackendRep  # needs onnx

    if parsed.anchor:
        raise files.UsageError("--anchor: a model of text returns its outputs alone. Leave it out")
    options = SessionOptions()
    if parsed.threads is not None:
        options.engineOptions["num_threads"] = str(parsed.threads)
    model = BackendRep(onnx.load(str(parsed.model)), options)

    def run() -> dict[str, np.ndarray]:
        results = model.run(named_feeds(facts, feeds))
        shown: dict[str, np.ndarray] = {}
        for entry, value in zip(facts["outputs"], results, strict=True):
            parts = {f"{entry['name']}/{i}": part for i, part in enumerate(value)} if isinstance(value, list) else None
            for name, part in ({entry["name"]: value} if parts is None else parts).items():
                array = np.asarray(part)
                shown[name] = array.astype(str) if array.dtype.kind == "O" else array
        return shown

    run()  # compiles
    return run


def times_of(run: Callable[[], Any], parsed: argparse.Namespace) -> list[float]:
    """Seconds of each timed run, behind a warm-up."""
    end = time.perf_counter() + parsed.warm_up
    while time.perf_counter() < end:
        run()
    seconds: list[float] = []
    total = parsed.runs
    with tqdm(total=total, unit="run", disable=not sys.stderr.isatty(), leave=False) as bar:
        end = time.perf_counter() + (parsed.seconds if total is None else float("inf"))
        while (len(seconds) < total) if total is not None else (time.perf_counter() < end or not seconds):
            start = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - start)
            bar.update()
    return seconds


def spread_of(seconds: list[float]) -> dict[str, Any]:
    """Median, best, worst and quartiles, in milliseconds."""
    milliseconds = sorted(value * 1e3 for value in seconds)
    quartiles = statistics.quantiles(milliseconds, n=4) if len(milliseconds) > 1 else [milliseconds[0]] * 3
    return {
        "runs": len(milliseconds),
        "medianMs": statistics.median(milliseconds),
        "bestMs": milliseconds[0],
        "worstMs": milliseconds[-1],
        "quartilesMs": [quartiles[0], quartiles[2]],
    }


def compared(
    parsed: argparse.Namespace,
    facts: dict[str, Any],
    feeds: dict[str, np.ndarray],
    results: dict[str, np.ndarray],
) -> list[Any]:
    """How far each output is from ONNX Runtime's."""
    try:
        import onnxruntime
    except ImportError:
        raise files.UsageError("--check needs the package onnxruntime. Install it: pip install onnxruntime") from None
    try:
        oracle = onnxruntime.InferenceSession(str(parsed.model), providers=["CPUExecutionProvider"])
        expected = oracle.run(None, named_feeds(facts, feeds))
    except Exception as problem:  # its exceptions share no class
        raise files.UsageError(f"ONNX Runtime does not run the model: {problem}") from None
    rows = []
    for output, value in zip(oracle.get_outputs(), expected, strict=True):
        parts = {f"{output.name}/{i}": part for i, part in enumerate(value)} if isinstance(value, list) else None
        for name, theirs in ({output.name: value} if parts is None else parts).items():
            rows.append({"output": name, **difference(results.get(name), np.asarray(theirs), parsed)})
    return rows


def named_feeds(facts: dict[str, Any], feeds: dict[str, np.ndarray]) -> dict[str, Any]:
    """The arrays of sequences as lists."""
    sequences = {entry["name"]: [] for entry in facts["inputs"] if entry.get("sequence")}
    named: dict[str, Any] = dict(sequences)
    for name, array in feeds.items():
        if name.rpartition("/")[0] not in sequences:
            named[name] = array
    for name, arrays in sequences.items():
        while f"{name}/{len(arrays)}" in feeds:
            arrays.append(feeds[f"{name}/{len(arrays)}"])
    return named


def difference(ours: np.ndarray | None, theirs: np.ndarray, parsed: argparse.Namespace) -> dict[str, Any]:
    """How far one array is from another; one of another size differs in all elements."""
    if ours is not None and ours.size == theirs.size and theirs.dtype.kind in "OU":
        differing = int((ours.astype(str).reshape(theirs.shape) != theirs.astype(str)).sum())
        return {"equal": differing == 0, "differing": differing, "elements": theirs.size, "largestDifference": 0.0}
    if ours is None or ours.size != theirs.size or theirs.dtype.kind not in "fiubcV":
        return {"equal": False, "differing": theirs.size, "elements": theirs.size, "largestDifference": 0.0}
    wide = np.complex128 if "c" in (ours.dtype.kind, theirs.dtype.kind) else np.float64
    ours, theirs = ours.astype(wide).reshape(theirs.shape), theirs.astype(wide)
    close = np.isclose(ours, theirs, rtol=parsed.rtol, atol=parsed.atol, equal_nan=True)
    finite = np.isfinite(ours) & np.isfinite(theirs)
    return {
        "equal": bool(close.all()),
        "differing": int((~close).sum()),
        "elements": int(close.size),
        "largestDifference": float(np.abs(ours[finite] - theirs[finite]).max(initial=0.0)),
    }


def text_of(result: dict[str, Any]) -> str:
    """The result for people."""
    lines = [f"compiled in {result['compileMs']:.1f} ms"]
    rows = [[o["name"], o["type"], str(o["shape"]), o["mean"], o["smallest"], o["largest"]] for o in result["outputs"]]
    lines.append(files.table(rows, ["output", "type", "shape", "mean", "smallest", "largest"]))
    if times := result.get("times"):
        low, high = times["quartilesMs"]
        lines.append(
            f"{times['runs']} runs: median {times['medianMs']:.3f} ms (quartiles {low:.3f} to {high:.3f}), "
            f"best {times['bestMs']:.3f}, worst {times['worstMs']:.3f}"
        )
    for row in result.get("check", []):
        verdict = "equal" if row["equal"] else f"DIFFERS in {row['differing']} of {row['elements']}"
        lines.append(f"ONNX Runtime, {row['output']}: {verdict}, largest difference {row['largestDifference']:.3g}")
    lines += [f"written: {file}" for file in result.get("written", [])]
    return "\n".join(lines)


def command(arguments: Sequence[str] | None = None) -> int:
    """Run the model; the status of the command."""
    parsed = arguments_of(arguments)
    files.require_file(parsed.model)
    facts = files.describe(parsed.model)
    feeds = feeds_of(parsed, facts)
    start = time.perf_counter()
    if holds_text(facts):
        run_on_host = runner_on_host(parsed, facts, feeds)
        shown = run_on_host()
        return report(parsed, facts, feeds, shown, run_on_host, (time.perf_counter() - start) * 1e3)
    outputs = files.tensors_of_outputs(parsed.model, infos_of(feeds), SessionOptions(), parsed.anchor)
    names = [tensor for name, lengths in outputs.items() for tensor in (name, *lengths)]
    session = session_for(parsed, facts, list(dict.fromkeys(names + parsed.anchor)), feeds)
    compile_ms = (time.perf_counter() - start) * 1e3
    results = session.initAnchorArrays()
    contiguous = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in feeds.items()}
    step = PyStepIO(contiguous, results)
    session.run(step)
    all_lengths = {length for lengths in outputs.values() for length in lengths}
    shown = {name: array for name, array in results.items() if name not in all_lengths}
    for name, lengths in outputs.items():  # sizes that depend on data: what lies behind them has no meaning
        for length, axis in lengths.items():
            shown[name] = shown[name][(slice(None),) * axis + (slice(int(results[length])),)]
    return report(parsed, facts, feeds, shown, lambda: session.run(step), compile_ms)


def report(
    parsed: argparse.Namespace,
    facts: dict[str, Any],
    feeds: dict[str, np.ndarray],
    shown: dict[str, np.ndarray],
    run: Callable[[], Any],
    compile_ms: float,
) -> int:
    """Time, compare, write and print the results; the status of the command."""
    result: dict[str, Any] = {"model": str(parsed.model), "compileMs": compile_ms}
    result["inputs"] = [{"name": n, "type": str(a.dtype), "shape": list(a.shape)} for n, a in feeds.items()]
    result["outputs"] = [outcome(name, array) for name, array in shown.items()]
    if parsed.runs is not None or parsed.seconds is not None:
        result["times"] = spread_of(times_of(run, parsed))
    if parsed.check:
        result["check"] = compared(parsed, facts, feeds, shown)
    if parsed.output:
        result["written"] = [str(file) for file in files.write_arrays(parsed.output, shown)]
    print(files.json_text(result) if parsed.json else text_of(result))
    return 0 if all(row["equal"] for row in result.get("check", [])) else 1


def outcome(name: str, array: np.ndarray) -> dict[str, Any]:
    """Facts of one result."""
    values = array.astype(np.float64) if array.dtype.kind in "fiubV" and array.dtype.names is None else np.zeros(0)
    figures = (values.mean(), values.min(), values.max()) if values.size else (0.0, 0.0, 0.0)
    mean, smallest, largest = (float(f"{figure:.6g}") for figure in figures)
    return {
        "name": name, "type": str(array.dtype), "shape": list(array.shape),
        "mean": mean, "smallest": smallest, "largest": largest,
    }  # fmt: skip


def main() -> None:
    """The command of the wheel."""
    sys.exit(files.run_command("popart-run", command))


if __name__ == "__main__":
    main()
