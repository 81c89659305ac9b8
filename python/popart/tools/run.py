"""``popart-run``: run an ONNX model on random or given inputs, time it, compare it with ONNX Runtime."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import popart_core

from popart.tools import files, output
from popart.tools.command import ExitCode, UsageError, model_parser, run_as_process
from popart.tools.compare import (
    Source,
    Tolerance,
    first_difference,
    in_both,
    of_onnx_runtime,
    of_other_model,
    operators_of,
)
from popart.tools.running import run_model

DESCRIPTION = """Run an ONNX model once or many times.

Inputs are random unless files give them. Open dimensions are 1 unless --dim, --shape or the files say them.
--check compares the results with ONNX Runtime's, --compare with those of another model or of a file that --output
wrote; --bisect names the first operator whose results differ."""

TIMES = {"p50": "medianMs", "p90": "p90Ms", "p99": "p99Ms", "best": "bestMs", "worst": "worstMs"}  # name: key


def arguments_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The parsed command line."""
    parser = model_parser("popart-run", DESCRIPTION)
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
    parser.add_argument("--values", action="store_true", help="print the values of the results too")
    parser.add_argument("--check", action="store_true", help="compare the results with ONNX Runtime's")
    parser.add_argument(
        "--compare", type=Path, metavar="OTHER", help="compare with another ONNX model on the same inputs, or FILE.npz"
    )
    parser.add_argument(
        "--bisect", action="store_true", help="with --check or --compare MODEL: name the first operator that differs"
    )
    parser.add_argument("--rtol", type=float, default=1e-3, help="relative tolerance of comparisons (default 1e-3)")
    parser.add_argument("--atol", type=float, default=1e-4, help="absolute tolerance of comparisons (default 1e-4)")
    parsed = parser.parse_args(arguments)
    if parsed.bisect and parsed.check == bool(parsed.compare and parsed.compare.suffix != ".npz"):
        parser.error("--bisect: give either --check or --compare MODEL with it, which say what to compare with")
    for name in ("runs", "threads"):
        if getattr(parsed, name) is not None and getattr(parsed, name) < 1:
            parser.error(f"--{name}: got {getattr(parsed, name)}, expected 1 or more")
    for name in ("seconds", "warm_up", "rtol", "atol"):
        value = getattr(parsed, name)
        if value is not None and not (0 <= value < math.inf):  # nor NaN
            parser.error(f"--{name.replace('_', '-')}: got {value}, expected a number of 0 or more")
    return parsed


def given_arrays(
    texts: Sequence[str], names: Sequence[str], sequences: Sequence[str], weights: Sequence[str] = ()
) -> dict[str, np.ndarray]:
    """Arrays of the files that ``--input`` names: of ``names``, ``weights``, and of the tensors of ``sequences``."""
    arrays: dict[str, np.ndarray] = {}
    for text in texts:
        name, equals, file = text.partition("=")
        if not equals and Path(text).suffix == ".npz":
            arrays.update(files.read_archive(Path(text)))
        elif equals:
            arrays[name] = files.read_array(Path(file))
        elif len(names) == 1:
            arrays[names[0]] = files.read_array(Path(text))
        else:
            raise UsageError(f"--input {text}: the model has {len(names)} inputs. Say which: NAME={text}")
    for name in arrays:
        if name not in names and name not in weights and name.rpartition("/")[0] not in sequences:
            raise files.unknown_name("--input", name, names, "input ")
    return arrays


def feeds_of(parsed: argparse.Namespace, facts: dict[str, Any], program: str = "popart-run") -> dict[str, np.ndarray]:
    """An array for each input, and for each tensor of a sequence; says which sizes were chosen."""
    inputs = [entry for entry in facts["inputs"] if not entry.get("sequence")]
    sequences = [entry for entry in facts["inputs"] if entry.get("sequence")]
    weights = [entry["name"] for entry in facts["inputsWithValues"]]  # what is given counts, else the model's values
    given = given_arrays(parsed.input, [e["name"] for e in inputs], [e["name"] for e in sequences], weights)
    symbols = {
        d: size
        for entry in inputs if entry["name"] in given and entry["shape"] is not None
        for d, size in zip(entry["shape"], given[entry["name"]].shape, strict=False) if isinstance(d, str) and d != "?"
    }  # fmt: skip
    others = [entry for entry in inputs if entry["name"] not in given]
    others += [entry for entry in sequences if f"{entry['name']}/0" not in given]
    unused = symbols.keys() - {d for entry in others for d in entry["shape"] or []}
    asked = [*(f"{name}={size}" for name, size in symbols.items()), *parsed.dim]
    dims = [text for text in asked if text.rpartition("=")[0] not in unused]
    shapes, notes = files.input_shapes(others, parsed.shape, dims)
    for note in notes:
        print(f"{program}: {note}", file=sys.stderr)
    bounds = popart_core._whole_numbers(parsed.integers, "--integers")
    if len(bounds) != 2 or bounds[0] >= bounds[1]:
        raise UsageError(f"--integers: got '{parsed.integers}', expected LOW,HIGH with LOW below HIGH")
    random = files.random_arrays(shapes, parsed.seed, (bounds[0], bounds[1]))
    order = [entry["name"] for entry in facts["inputs"]] + weights
    arrays = {**random, **given}
    names = sorted(arrays, key=lambda name: order.index(name if name in order else name.rpartition("/")[0]))
    return {name: arrays[name] for name in names}


def times_of(run: Callable[[], Any], parsed: argparse.Namespace) -> list[float]:
    """Seconds of each timed run, after a warm-up."""
    from tqdm import tqdm  # here: only timed runs wait for it

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


def items_of(feeds: Mapping[str, np.ndarray], results: Mapping[str, np.ndarray]) -> int | None:
    """The size of the batch: the first dimension, where all inputs and outputs have the same one; None: they do not."""
    sizes = {array.shape[0] if array.ndim else None for array in (*feeds.values(), *results.values())}
    return sizes.pop() if feeds and len(sizes) == 1 else None


def spread_of(seconds: list[float], items: int | None) -> dict[str, Any]:
    """Times of runs.

    Args:
        seconds: One for each run.
        items: That a run takes; None: that is not known.

    Returns:
        Percentiles, best, worst and quartiles in milliseconds, runs per second, and items per second or None.
    """
    milliseconds = np.array(seconds) * 1e3
    low, median, high, p90, p99 = (float(p) for p in np.percentile(milliseconds, [25, 50, 75, 90, 99]))
    rate = len(seconds) / max(sum(seconds), 1e-9)
    return {
        "runs": len(seconds),
        "medianMs": median,
        "p90Ms": p90,
        "p99Ms": p99,
        "bestMs": float(milliseconds.min()),
        "worstMs": float(milliseconds.max()),
        "quartilesMs": [low, high],
        "runsPerSecond": rate,
        "items": items,
        "itemsPerSecond": None if items is None else rate * items,
    }


def rate_text(rate: float) -> str:
    """A number of runs or items per second, with at least four significant digits."""
    return f"{rate:,.0f}" if rate >= 1000 else f"{rate:.4g}"


def times_text(times: Mapping[str, Any]) -> str:
    """The times for people."""
    values = {name: output.time_text(times[key] / 1e3) for name, key in TIMES.items()}
    rate = f"{rate_text(times['runsPerSecond'])} runs/s"
    if times["items"] not in (None, 1):
        rate += f", {rate_text(times['itemsPerSecond'])} items/s of a batch of {times['items']:,}"
    return f"{times['runs']:,} runs: " + ", ".join(f"{name} {text}" for name, text in values.items()) + f"; {rate}"


def comparisons(
    parsed: argparse.Namespace, facts: dict[str, Any], feeds: dict[str, np.ndarray], results: dict[str, np.ndarray]
) -> dict[str, Any]:
    """What --check, --compare and --bisect find: "check", "compare" and "bisect" of the result."""
    tolerance = Tolerance(parsed.rtol, parsed.atol)
    found: dict[str, Any] = {}
    source: Source | None = None
    operators = operators_of(parsed.model) if parsed.bisect else []
    if parsed.check:
        found["check"] = tolerance.rows(results, of_onnx_runtime(parsed.model, facts, feeds)([]))
        source = of_onnx_runtime(parsed.model, facts, feeds, optimised=False)
    if parsed.compare and parsed.compare.suffix == ".npz":
        found["compare"] = tolerance.rows(results, files.read_archive(parsed.compare))
    elif parsed.compare:
        source = of_other_model(parsed.compare, facts, feeds, parsed.threads)
        found["compare"] = tolerance.rows(results, source(parsed.anchor))
        if parsed.bisect:
            outputs = [entry["name"] for entry in facts["outputs"]]
            operators = in_both(operators, operators_of(parsed.compare), outputs)
    if parsed.bisect and source is not None:

        def ours(names: Sequence[str]) -> Mapping[str, np.ndarray]:
            return run_model(parsed.model, facts, feeds, names, parsed.threads).results

        found["bisect"] = first_difference(operators, ours, source, tolerance, feeds)
    return found


def bisect_lines(found: Mapping[str, Any]) -> list[str]:
    """The first operator that differs, for people."""
    lines = [*found["notes"]]
    searched = f"{found['compared']:,} of {found['operators']:,} operators compared"
    operator = found["operator"]
    if operator is None:
        return [*lines, f"no operator differs when its results are kept ({searched})"]
    lines.append(f"first operator that differs: {operator['kind']} '{operator['name']}' ({searched})")
    lines += [row_text("  its result", row) for row in operator["results"]]
    lines += [f"  its input {name}: largest difference {far:.3g}" for name, far in operator["inputs"].items()]
    return lines


def row_text(other: str, row: Mapping[str, Any]) -> str:
    """One comparison for people."""
    verdict = "equal"
    if not row["equal"]:
        verdict = output.styled(f"DIFFERS in {row['differing']:,} of {row['elements']:,}", "bold red")
    return f"{other}, {row['output']}: {verdict}, largest difference {row['largestDifference']:.3g}"


def text_of(result: dict[str, Any]) -> str:
    """The result for people."""
    lines = [f"compiled in {output.time_text(result['compileMs'] / 1e3)}"]
    rows = [[o["name"], o["type"], str(o["shape"]), o["mean"], o["smallest"], o["largest"]] for o in result["outputs"]]
    lines.append(output.table(rows, ["output", "type", "shape", "mean", "smallest", "largest"]))
    lines += [f"{o['name']} =\n{np.array2string(o['array'])}" for o in result["outputs"] if "array" in o]
    if times := result.get("times"):
        lines.append(times_text(times))
    lines += [row_text("ONNX Runtime", row) for row in result.get("check", [])]
    lines += [row_text(result["comparedWith"], row) for row in result.get("compare", [])]
    if "bisect" in result:
        lines += bisect_lines(result["bisect"])
    lines += [f"written: {file}" for file in result.get("written", [])]
    return "\n".join(lines)


def command(arguments: Sequence[str] | None = None) -> int:
    """Run the model; the exit code of the command."""
    parsed = arguments_of(arguments)
    files.require_file(parsed.model)
    facts = files.describe(parsed.model)
    feeds = feeds_of(parsed, facts)
    running = run_model(parsed.model, facts, feeds, parsed.anchor, parsed.threads)
    result: dict[str, Any] = {"model": str(parsed.model), "compileMs": running.compile_ms}
    result["inputs"] = [{"name": n, "type": str(a.dtype), "shape": list(a.shape)} for n, a in feeds.items()]
    result["outputs"] = [outcome(name, array) for name, array in running.results.items()]
    if parsed.runs is not None or parsed.seconds is not None:
        result["times"] = spread_of(times_of(running.run, parsed), items_of(feeds, running.results))
    if parsed.compare:
        result["comparedWith"] = str(parsed.compare)
    result.update(comparisons(parsed, facts, feeds, running.results))
    if parsed.output:
        result["written"] = [str(file) for file in files.write_arrays(parsed.output, running.results)]
    if parsed.values:
        for entry in result["outputs"]:
            array = running.results[entry["name"]]
            entry["values" if parsed.json else "array"] = listed(array) if parsed.json else array
    print(files.json_text(result) if parsed.json else text_of(result))
    different = any(not row["equal"] for row in [*result.get("check", []), *result.get("compare", [])])
    return ExitCode.DIFFERENT if different else ExitCode.DONE


def listed(array: np.ndarray) -> Any:
    """The values as JSON has them: lists of numbers, of texts, or of booleans."""
    return (array if array.dtype.kind in "biuU" else array.astype(np.float64)).tolist()


def outcome(name: str, array: np.ndarray) -> dict[str, Any]:
    """Facts of one result."""
    values = array.astype(np.float64) if array.dtype.kind in "fiubV" and array.dtype.names is None else np.zeros(0)
    figures = (values.mean(), values.min(), values.max()) if values.size else (0.0, 0.0, 0.0)
    mean, smallest, largest = (float(f"{figure:.6g}") for figure in figures)
    return {
        "name": name, "type": str(array.dtype), "shape": list(array.shape),
        "mean": mean, "smallest": smallest, "largest": largest,
    }  # fmt: skip


def main() -> NoReturn:
    """The command of the wheel."""
    run_as_process("popart-run", command)


if __name__ == "__main__":
    main()
