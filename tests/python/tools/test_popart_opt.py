"""popart-opt as its users call it: views, files, exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "build" / os.environ.get("POPART_PRESET", "dev") / "bin" / "popart-opt"
TEXT = """main {
  stream %in : float32[2, 3]
  variable %w : float32[3, 4] = 0.5
  %x : float32[2, 3] = HostLoad() {stream = "in"}
  %y : float32[2, 4] = MatMul(%x, %w)
  HostStore(%y) {stream = "y"}
}
"""


def run(*arguments: str | Path, text: str = "") -> subprocess.CompletedProcess[str]:
    """Call popart-opt with `text` on its standard input."""
    return subprocess.run([PROGRAM, *arguments], input=text, capture_output=True, text=True, timeout=60)


def test_prints_what_it_read() -> None:
    result = run("-", text=TEXT)
    assert (result.returncode, result.stdout, result.stderr) == (0, TEXT, "")


def test_verify_alone_prints_nothing() -> None:
    result = run("-", "--verify", text=TEXT)
    assert (result.returncode, result.stdout) == (0, "")


def test_writes_files_whole(tmp_path: Path) -> None:
    out = tmp_path / "out.ir"
    assert run("-", "-o", out, text=TEXT).returncode == 0
    assert out.read_text() == TEXT
    assert [path.name for path in tmp_path.iterdir()] == ["out.ir"]


def memory_totals(text: str) -> dict[str, int]:
    """Bytes by name at the end of the memory plan of a program."""
    plan = run("-", "--memory", "--device", "ref", text=text).stdout
    return {name: int(count) for name, count in re.findall(r"^([a-z ]+): (\d+) bytes$", plan, re.MULTILINE)}


def test_views() -> None:
    assert run("-", "--schedule", text=TEXT).stdout.splitlines()[1:] == [
        "  HostLoad.100",
        "  MatMul.101",
        "  HostStore.102",
    ]
    assert run("-", "--dot", text=TEXT).stdout.startswith('digraph "main" {')
    assert [op["type"] for op in json.loads(run("-", "--json", text=TEXT).stdout)["maingraph"]] == [
        "HostLoad",
        "MatMul",
        "HostStore",
    ]
    totals = memory_totals(TEXT)
    assert totals["variables"] == 3 * 4 * 4
    assert totals["total"] >= totals["arena"] + totals["variables"]
    assert totals["arena"] >= (2 * 3 + 2 * 4) * 4


def test_summary_hides_long_values() -> None:
    program = "main {\n  const %c : int32[17] = [" + ", ".join(map(str, range(17))) + "]\n}\n"
    assert "= hash " in run("-", "--summary", text=program).stdout


TRAINING_PASSES = {
    "addLossOps",
    "checkLoss",
    "growBackwardPass",
    "addWeightUpdates",
    "recomputeActivations",
    "addAccumulationLoop",
}
# What must have run before a pass.
BEFORE = {
    "addWeightUpdates": ["growBackwardPass"],
    "ensureFp32LossScale": ["growBackwardPass"],
    "recomputeActivations": ["growBackwardPass"],
    "transformAutomaticLossScale": ["growBackwardPass", "addWeightUpdates"],
    "mergeUpdates": ["growBackwardPass", "addWeightUpdates"],
    "stageForwardPass": ["placeOnVirtualGraphs"],
    "stageBackwardPass": ["placeOnVirtualGraphs", "stageForwardPass", "growBackwardPass"],
}
WITH_LOSS = """main {
  stream %in : float32[2, 3]
  variable %w : float32[3, 4] = 0.5
  %y : float32[2, 4] = MatMul(%in, %w)
  %loss : float32[] = ReduceSum(%y) {axes = [0, 1], keepdims = 0}
}
"""


def test_every_listed_pass_can_be_named() -> None:
    names = [line.split()[0] for line in run("--list-passes").stdout.splitlines()]
    assert {"flatten", "simplify", "decompose", "foldConstants", "prune", "assignLayouts"} <= set(names)
    assert set(names) >= TRAINING_PASSES
    assert len(names) == len(set(names))
    for name in names:
        words = [word for first in BEFORE.get(name, []) for word in ("-p", first)]
        options = ["--verify", "--loss", "loss", "--loss-scale", "8", "--check-floats", "--off-chip", "weights"]
        options += ["--stochastic-rounding", "--ignore-labels", "--threads", "2"]
        options += ["--replicas", "2", "--shard", "weights", "--phases", "2", "--batches-per-step", "4"]
        options += ["--ipus", "2", "--pipeline"] if "tage" in name or "ipeline" in name else ["--ipus", "1"]
        text = WITH_LOSS.replace("float32", "float16") if "LossScale" in name else WITH_LOSS
        result = run("-", *words, "--pass", name, *options, *([] if words else ["--keep", "loss"]), text=text)
        assert result.returncode == 0, (name, result.stderr)


def test_training_passes_without_a_loss_are_refused() -> None:
    for name in TRAINING_PASSES:
        result = run("-", "--pass", name, text=WITH_LOSS)
        assert result.returncode == 1
        assert f"pass '{name}' does not apply: it belongs to training" in result.stderr


def test_passes_of_preparation_and_lowering_show_a_training_step() -> None:
    passes = ["setUpRandomSeeds", "growBackwardPass", "addWeightUpdates", "prune", "storeAnchors", "loadStreams"]
    words = [word for name in passes for word in ("-p", name)]
    lowered = run("-", *words, "--loss", "loss", "--keep", "loss", "--lower", "--print", text=WITH_LOSS).stdout
    assert "VariableAssign(%w" in lowered
    assert '<layout = "packed' in lowered
    again = run("-", "--memory", "--steps", text=lowered)  # a lowered program compiles as it is
    assert again.returncode == 0, again.stderr
    assert "matmul" in again.stdout and "store loss <-" in again.stdout


def test_passes_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["-", "--lower", "--print"]
    everything = run(*words, text=TEXT).stdout
    assert '<layout = "packed' in everything
    without = run(*words, "--disable-pass", "assignLayouts", "--disable-pass", "prune", text=TEXT).stdout
    assert "layout" not in without and "MatMul(" in without
    monkeypatch.setenv("POPART_DISABLE_PASSES", "assignLayouts")
    assert run(*words, text=TEXT).stdout == without
    assert run(*words, "--disable-pass", "prune", text=TEXT).stdout == everything  # the option comes first
    monkeypatch.setenv("POPART_DISABLE_PASSES", "applyPatterns")
    identity = TEXT.replace("MatMul(%x, %w)", "MatMul(%x, %w)\n  %z : float32[2, 4] = Identity(%y)").replace(
        "(%y) {", "(%z) {"
    )
    assert run("-", "-p", "applyPatterns", text=identity).stdout == run("-", text=identity).stdout


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("chainDepthfirst", "there is no pass 'chainDepthfirst'. Nearest names: [chainDepthFirst"),
        ("flatten", "pass 'flatten' cannot be switched off: kernels exist for flat"),
    ],
)
def test_unknown_and_needed_passes_cannot_be_switched_off(name: str, message: str) -> None:
    result = run("-", "--lower", "--disable-pass", name, text=TEXT)
    assert result.returncode == 1 and "--disable-pass: " + message in result.stderr


def test_passes_of_the_device_and_reasons_are_listed() -> None:
    lines = run("--list-passes").stdout.splitlines()
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in lines}
    assert rows["chainDepthFirst"].startswith("Device: ") and "needed" not in rows["chainDepthFirst"]
    assert rows["growBackwardPass"].endswith("(needed: there are no gradients without it)")


def test_fusion_acts_on_the_cpu_and_not_on_ref() -> None:
    chain = TEXT.replace(
        "HostStore(%y)", "%n : float32[2, 4] = Neg(%y)\n  %z : float32[2, 4] = Exp(%n)\n  HostStore(%z)"
    )
    fused = run("-", "-p", "fuseElementwise", text=chain)
    assert "FusedElementwise(" in fused.stdout
    refused = run("-", "-p", "fuseElementwise", "--device", "ref", text=chain)
    assert refused.returncode == 1 and "does not apply" in refused.stderr


def test_reads_onnx(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.ones((3, 4), np.float32), "w")
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])],
        "g",
        [value("x", TensorProto.FLOAT, [2, 3])],
        [value("y", TensorProto.FLOAT, [2, 4])],
        [weight],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "m.onnx")
    result = run(tmp_path / "m.onnx", "--verify", "--print")
    assert result.returncode == 0, result.stderr
    assert "variable %w : float32[3, 4] = 1\n" in result.stdout
    assert "%y : float32[2, 4] = Relu(%m)" in result.stdout
    assert run("-", text=result.stdout).stdout == result.stdout


WITH_OUTPUTS = """main {
  stream %x : float32[2, 3]
  variable %w : float32[3, 4] = 0.5
  %m : float32[2, 4] = MatMul(%x, %w)
  %y : float32[2, 4] = Relu(%m)
  %unused : float32[2, 4] = Neg(%m)
  return %y
}
"""


def test_outputs_of_the_main_graph_stay() -> None:
    flat = run("-", "-p", "flatten", "-p", "simplify", "-p", "prune", "--verify", "--print", text=WITH_OUTPUTS).stdout
    assert "return %y" in flat and "Relu" in flat and "unused" not in flat
    plan = run("-", "--memory", text=WITH_OUTPUTS).stdout
    values = {value for line in plan.splitlines()[1:] for value in line.split("  ")[-1].split(", ")}
    assert "y" in values and "unused" not in values
    assert memory_totals(WITH_OUTPUTS)["arena"] >= 2 * 4 * 4


def test_random_seeds_are_given_once(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("RandomNormalLike", ["x"], ["a"]), helper.make_node("RandomUniformLike", ["a"], ["b"])],
        "g",
        [value("x", TensorProto.FLOAT, [4])],
        [value("b", TensorProto.FLOAT, [4])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "m.onnx")
    once = run(tmp_path / "m.onnx", "-p", "setUpRandomSeeds").stdout
    assert once.count("= ModifyRandomSeed(") == 2
    assert run("-", "-p", "setUpRandomSeeds", text=once).stdout == once


@pytest.mark.parametrize(
    ("arguments", "text", "code", "message"),
    [
        (["-"], "main {\n  ^\n}", 1, "popart-opt: IR text line 2: unexpected character"),
        (["/no/such/file"], "", 1, "input file '/no/such/file': cannot be read"),
        (
            ["-", "-o", "/no/such/folder/out.ir"],
            "main {\n}\n",
            1,
            "output file '/no/such/folder/out.ir': cannot be written",
        ),
        (["-", "--pass", "flaten"], "main {\n}\n", 1, "pass 'flaten' does not exist. Nearest names: [flatten"),
        (["-", "-k", "yy"], WITH_OUTPUTS, 1, "tensor 'yy' to keep does not exist. Nearest names: [y"),
        (["-", "--colour"], "", 2, "--colour"),
        ([], "", 2, "input"),
    ],
)
def test_refusals(arguments: list[str], text: str, code: int, message: str) -> None:
    result = run(*arguments, text=text)
    assert result.returncode == code
    assert message in result.stderr + result.stdout


def test_help() -> None:
    result = run("--help")
    assert result.returncode == 0
    assert "--list-passes" in result.stdout


LAYERS = """main {
  stream %x : float32[64, 64]
""" + "".join(f"  variable %w{i} : float32[64, 64] = 0.5\n" for i in range(6))
LAYERS += "".join(f"  %h{i} = MatMul(%{f'g{i - 1}' if i else 'x'}, %w{i})\n  %g{i} = Gelu(%h{i})\n" for i in range(6))
LAYERS += "  %loss = ReduceMean(%g5) {axes = [0, 1], keepdims = 0}\n}\n"


def test_a_program_is_changed_until_it_fits() -> None:
    whole = ("-", "--loss", "loss", "--keep", "loss", "--max-memory")
    roomy = run(*whole, "1G", text=LAYERS)
    needed = re.fullmatch(r"  it fits as it is: (\d+) bytes\n", roomy.stdout)
    assert needed, roomy.stderr
    tight = run(*whole, str(int(needed[1]) * 3 // 4), "--print", text=LAYERS)
    assert tight.returncode == 0, tight.stderr
    assert f"  as it is: {needed[1]} bytes" in tight.stdout
    fitted = re.search(r"  as it runs: (\d+) bytes", tight.stdout)
    assert fitted and int(fitted[1]) <= int(needed[1]) * 3 // 4
    assert "___recomputed" in tight.stdout
    none = run(*whole, "1K", text=LAYERS)
    assert (none.returncode, none.stdout) == (1, "")
    assert "does not fit the memory limit" in none.stderr
