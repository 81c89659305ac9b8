"""``popart-inspect``: what an ONNX model holds, and how it would run here."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import popart_core
from popart_core import DataFlow, DeviceManager, SessionOptions

from popart.session import InferenceSession
from popart.tools import files
from popart.tools.command import ExitCode, UsageError, model_parser, run_as_process
from popart.tools.layers import layer_rows, layers_of, rolled_up
from popart.tools.output import bytes_text, flops_text, styled, table

DESCRIPTION = """Show inputs, outputs, operators and parameters of an ONNX model, and the program it becomes:
operations, memory, kernels, operators on the reference backend, nodes that are refused. With --layers: a row for each
layer. With --training: what trains in it, and why."""

MOST_TIMES = 1e100  # loops in loops multiply: sums of what they do stay finite


def arguments_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The parsed command line."""
    parser = model_parser("popart-inspect", DESCRIPTION)
    files.add_shape_arguments(parser)
    parser.add_argument("--file-only", action="store_true", help="do not compile")
    parser.add_argument(
        "--layers", action="store_true", help="list the layers: output shape, parameters, operations and their share"
    )
    parser.add_argument(
        "--depth", type=int, metavar="N", help="one row for all layers whose names begin with the same N scopes"
    )
    parser.add_argument("--steps", action="store_true", help="list every step of the program with its layer and kernel")
    parser.add_argument("--training", action="store_true", help="only show which tensors train, and why")
    for option in ("trainable", "frozen"):
        parser.add_argument(
            f"--{option}",
            action="append",
            default=[],
            metavar="NAME",
            help=f"as {option}= of a session; implies --training",
        )
    parser.add_argument("--threads", type=int, metavar="N", help="threads to plan for")
    parsed = parser.parse_args(arguments)
    if parsed.depth is not None and parsed.depth < 1:
        raise UsageError(f"--depth: got {parsed.depth}, expected 1 or more")
    parsed.layers = parsed.layers or parsed.depth is not None
    return parsed


def kernel_steps(steps: list[dict[str, Any]], times: float = 1) -> Iterator[dict[str, Any]]:
    """The steps that compute, with how often they run; a loop of unknown length counts once."""
    for step in steps:
        if "flops" in step:
            yield {**step, "times": times}
        inner = min(times * max(step.get("tripCount", 1), 1), MOST_TIMES)
        for child in step["children"]:
            yield from kernel_steps(child["children"] if child["type"] == "Sequence" else [child], inner)


def by_kernel(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row per kind of kernel, those with the most predicted time first."""
    rows: dict[str, dict[str, Any]] = {}
    for step in steps:
        kind = step["kernel"].partition("[")[0].strip()
        row = rows.setdefault(kind, {"kernel": kind, "steps": 0, "flops": 0.0, "bytes": 0.0, "predictedMs": 0.0})
        row["steps"] += 1
        row["flops"] += step["flops"] * step["times"]
        row["bytes"] += step["bytes"] * step["times"]
        row["predictedMs"] += step["predictedNanoseconds"] * step["times"] / 1e6
    return sorted(rows.values(), key=lambda row: -row["predictedMs"])


def program_of(parsed: argparse.Namespace, facts: dict[str, Any], shapes: dict[str, Any]) -> dict[str, Any]:
    """Facts of the compiled program; raises what the compiler refuses."""
    options = SessionOptions()
    if parsed.threads is not None:
        options.engineOptions["num_threads"] = str(parsed.threads)
    infos = files.shape_infos(shapes)
    outputs = list(files.tensors_of_outputs(parsed.model, infos, options))
    session = InferenceSession(
        str(parsed.model), DataFlow(1, outputs), DeviceManager().createCpuDevice(), infos, userOptions=options,
        name="popart-inspect",
    )  # fmt: skip
    session.prepareDevice(loadEngine=False)
    report = json.loads(popart_core._Session._report(session))
    steps = list(kernel_steps(report["programs"]))
    program = {
        "flops": sum(step["flops"] * step["times"] for step in steps),
        "memory": report["memory"],
        "kernels": by_kernel(steps),
        "fallbacks": report["fallbacks"],
    }
    if parsed.steps:
        keys = ("name", "title", "layer", "phase", "kernel", "flops", "bytes", "times")
        program["steps"] = [{key: step[key] for key in keys} for step in steps]
    return program


def file_text(facts: dict[str, Any]) -> str:
    """What the file holds, for people."""
    opsets = ", ".join(f"{domain} {version}" for domain, version in facts["opsets"].items())
    parameters = facts["parameters"]
    lines = [f"graph '{facts['graph']}' by {facts['producer'] or 'unknown'}; operator sets: {opsets}"]
    for kind in ("inputs", "outputs"):
        lines += [f"{kind[:-1]} {entry['name']}: {files.shape_text(entry)}" for entry in facts[kind]]
    size = bytes_text(parameters["bytes"])
    lines.append(f"parameters: {parameters['elements']:,} in {parameters['tensors']:,} tensors, {size}")
    rows = sorted(([name, count] for name, count in facts["operators"].items()), key=lambda row: -row[1])
    lines.append(table(rows, ["operator", "nodes"]))
    return "\n".join(lines)


def program_text(program: dict[str, Any]) -> str:
    """The compiled program, for people."""
    memory = program["memory"]
    parts = {"activations": "arena", "constants": "constants", "variables": "variables", "scratch": "scratch"}
    lines = [
        f"one run: {flops_text(program['flops'])}",
        table(
            [[name, bytes_text(memory[key])] for name, key in parts.items()],
            ["memory", "size"],
            ["total", bytes_text(memory["total"])],
        ),
    ]
    total = sum(row["predictedMs"] for row in program["kernels"]) or 1.0
    rows = [
        [r["kernel"], r["steps"], flops_text(r["flops"]), bytes_text(r["bytes"]), f"{r['predictedMs'] / total:.1%}"]
        for r in program["kernels"]
    ]
    lines.append(table(rows, ["kernel", "steps", "operations", "memory traffic", "predicted time"]))
    if "steps" in program:
        rows = [[*s["title"].partition("  ")[::2], s["kernel"]] for s in program["steps"]]
        lines.append(table(rows, ["step", "layer", "kernel"]))
    for fallback in program["fallbacks"]:
        where = f"{fallback['op']}  {fallback['layer']}".rstrip()
        lines.append(f"on the reference backend: {where}: {fallback['reason']}")
    return "\n".join(lines)


def layers_text(rows: list[dict[str, Any]]) -> str:
    """The layers, for people."""
    cells = [
        [
            row["layer"],
            ", ".join(row["operators"]),
            str(row["outputShape"]),
            row["parameters"],
            flops_text(row["flops"]),
            f"{row['share']:.1%}",
        ]
        for row in rows
    ]
    total = ["total", "", "", sum(r["parameters"] for r in rows), flops_text(sum(r["flops"] for r in rows)), ""]
    return table(cells, ["layer", "operators", "output shape", "parameters", "operations", "share"], total)


def refused_text(facts: dict[str, Any]) -> list[str]:
    """The refused nodes, for people."""
    title = styled("refused", "bold red")
    lines = [f"{title}: {row['operator']} '{row['node']}': {row['reason']}" for row in facts["refused"]]
    if facts["afterRefused"]:
        lines.append(f"{facts['afterRefused']:,} nodes read what these would have made")
    return lines


def training_rows(parsed: argparse.Namespace) -> list[dict[str, Any]]:
    """What trains in the model, one row for each floating-point initializer."""
    tensors = popart_core.trainable_tensors(str(parsed.model), parsed.trainable, parsed.frozen)
    return [
        {key: getattr(t, key) for key in ("name", "shape", "type", "trains", "reason", "doubtful")} for t in tensors
    ]


def training_text(rows: list[dict[str, Any]]) -> str:
    """What trains in the model, for people."""
    counts = [sum(math.prod(row["shape"]) for row in rows if row["trains"] == trains) for trains in (True, False)]
    trained = sum(row["trains"] for row in rows)
    cells = [
        [row["name"], str(row["shape"]), "yes" if row["trains"] else "no", row["reason"] + " (?)" * row["doubtful"]]
        for row in rows
    ]
    lines = [
        table(cells, ["tensor", "shape", "trains", "reason"]),
        f"{trained:,} of {len(rows):,} floating-point initializers train: {counts[0]:,} of {sum(counts):,} numbers",
    ]
    if any(row["doubtful"] for row in rows):
        lines.append("(?) is a guess: settle it with trainable= or frozen= of the session")
    return "\n".join(lines)


def command(arguments: Sequence[str] | None = None) -> int:
    """Show the model; the exit code of the command."""
    parsed = arguments_of(arguments)
    files.require_file(parsed.model)
    if parsed.training or parsed.trainable or parsed.frozen:
        rows = training_rows(parsed)
        print(files.json_text(rows) if parsed.json else training_text(rows))
        return ExitCode.DONE
    facts = files.describe(parsed.model)
    shapes, notes = files.input_shapes(facts["inputs"], parsed.shape, parsed.dim)
    facts = files.describe(parsed.model, shapes)
    facts["assumed"] = notes
    facts["shapes"] = {name: shape for name, (_, shape) in shapes.items()}
    if not parsed.file_only and not facts["refused"]:
        try:
            if parsed.layers:
                layers = layers_of(parsed.model, shapes)
                facts["layers"] = layer_rows(rolled_up(layers, parsed.depth) if parsed.depth else layers)
            facts["program"] = program_of(parsed, facts, shapes)
        except popart_core.popart_exception as problem:
            facts["refused"] = [{"node": facts["graph"], "operator": "model", "reason": str(problem)}]
    if parsed.json:
        print(files.json_text(facts))
    else:
        parts = [file_text(facts), *notes, *refused_text(facts)]
        if "layers" in facts:
            parts.append(layers_text(facts["layers"]))
        if "program" in facts:
            parts.append(program_text(facts["program"]))
        print("\n".join(parts))
    return ExitCode.DIFFERENT if facts["refused"] else ExitCode.DONE


def main() -> NoReturn:
    """The command of the wheel."""
    run_as_process("popart-inspect", command)


if __name__ == "__main__":
    main()
