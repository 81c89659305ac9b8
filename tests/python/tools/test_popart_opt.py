"""popart-opt as its users call it: views, files, exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx.parser
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
        assert result.returncode == 2
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
        ("chainDepthfirst", "there is no pass 'chainDepthfirst'. Nearest names: chainDepthFirst"),
        ("flatten", "pass 'flatten' cannot be switched off: kernels exist only for flat"),
    ],
)
def test_unknown_and_needed_passes_cannot_be_switched_off(name: str, message: str) -> None:
    result = run("-", "--lower", "--disable-pass", name, text=TEXT)
    assert result.returncode == 2 and "--disable-pass: " + message in result.stderr


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
    assert refused.returncode == 2 and "does not apply" in refused.stderr


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
    result = run(tmp_path / "m.onnx", "--verify", "--values")
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
        (["-"], "main {\n  ^\n}", 2, "popart-opt: IR text line 2: unexpected character"),
        (["/no/such/file"], "", 2, "popart-opt: file '/no/such/file': it does not exist, expected a file with IR text"),
        (["/"], "", 2, "popart-opt: file '/': it is a folder, expected a file with IR text"),
        (
            ["-", "-o", "/no/such/folder/out.ir"],
            "main {\n}\n",
            2,
            "popart-opt: --output: file '/no/such/folder/out.ir' cannot be written",
        ),
        (["-", "--pass", "flaten"], "main {\n}\n", 2, "there is no pass 'flaten'. Nearest names: flatten"),
        (["-", "-k", "yy"], WITH_OUTPUTS, 2, "--keep: the program has no tensor 'yy'. Nearest names: y"),
        (["-", "--dim", "n=2"], WITH_OUTPUTS, 2, "--shape and --dim: got IR text, whose shapes are known"),
        (["-", "--lanes", "some"], WITH_OUTPUTS, 2, "popart-opt: --lanes: some not in {auto,always,never}"),
        (
            ["-", "--colour"],
            "",
            2,
            "popart-opt: The following argument was not expected: --colour. See popart-opt --help",
        ),
        ([], "", 2, "popart-opt: input is required. See popart-opt --help"),
    ],
)
def test_refusals(arguments: list[str], text: str, code: int, message: str) -> None:
    result = run(*arguments, text=text)
    assert result.returncode == code
    assert message in result.stderr and result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_help() -> None:
    result = run("--help")
    assert result.returncode == 0
    assert "--list-passes" in result.stdout
    assert all(letter.isprintable() or letter == "\n" for letter in result.stdout)
    assert "{auto,always,never}" in result.stdout and "{marked,chosen,standard,norms,stages,all}" in result.stdout


OPEN = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[batch, 3] x, float[batch, ?] z, seq(float[n]) s, optional(float[2]) o) => (float[batch, 40] y)
{ y = MatMul(x, w) }
"""


@pytest.fixture(scope="module")
def open_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with open dimensions, a sequence, an optional input, and 120 weights that are all different."""
    model = onnx.parser.parse_model(OPEN)
    weights = np.arange(120, dtype=np.float32).reshape(3, 40) / 7
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    path = tmp_path_factory.mktemp("open") / "open.onnx"
    onnx.save(model, path)
    return path


def test_values_of_onnx_files_are_printed_only_when_asked_for(open_model: Path) -> None:
    plain = run(open_model)
    assert plain.returncode == 0, plain.stderr
    assert "variable %w : float32[3, 40] = hash " in plain.stdout
    assert run(open_model, "--print").stdout == run(open_model, "--summary").stdout == plain.stdout
    whole = run(open_model, "--values").stdout
    assert "hash" not in whole and run("-", text=whole).stdout == whole
    written = open_model.with_suffix(".ir")
    assert run(open_model, "-o", written).stdout == "" and written.read_text() == whole
    assert run(open_model, "--values", "--summary").returncode == 2


def test_sizes_of_open_dimensions(open_model: Path) -> None:
    sized = run(open_model, "--dim", "batch=5", "--shape", "z=5,7", "--shape", "s/0=2", "--shape", "s/1=4")
    assert sized.returncode == 0, sized.stderr
    for line in ("x : float32[5, 3]", "z : float32[5, 7]", "s/0 : float32[2]", "s/1 : float32[4]"):
        assert f"stream %{line}\n" in sized.stdout
    assert sized.stderr == "popart-opt: input 'o' is left out; say its shape with --shape o=...\n"
    assert "stream %o : float32[2]\n" in run(open_model, "--shape", "o=2").stdout


@pytest.mark.parametrize(
    "sizes",
    [
        [],
        ["--dim", "batch=5", "--shape", "z=5,7"],
        ["--dim", "bach=5"],
        ["--dim", "unlike=5"],
        ["--dim", "batch=4,5"],
        ["--dim", "batch=four"],
        ["--dim", "batch"],
        ["--shape", "q=3"],
        ["--shape", "x=2,,3"],
        ["--shape", "x=2,-3"],
        ["--shape", "x=2,3,"],
        ["--shape", "x=281474976710657,3"],
        ["--shape", "o="],
        ["--shape", "s/1=3"],
        ["--dim", "batch=2", "--shape", "x=3,3"],
    ],
)
def test_notes_and_refusals_of_sizes_are_those_of_the_commands_in_python(open_model: Path, sizes: list[str]) -> None:
    ours = run(open_model, *sizes)
    theirs = subprocess.run(
        [sys.executable, "-m", "popart.tools.inspect", open_model, "--file-only", *sizes],
        capture_output=True, text=True,
    )  # fmt: skip
    if theirs.returncode == 2:
        assert ours.returncode == 2 and ours.stdout == ""
        assert ours.stderr == theirs.stderr.replace("popart-inspect", "popart-opt")
    notes = [line for line in theirs.stdout.splitlines() if line.startswith("input '")]
    assert theirs.returncode == 2 or [line.removeprefix("popart-opt: ") for line in ours.stderr.splitlines()] == notes


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
    assert (none.returncode, none.stdout) == (2, "")
    assert "does not fit the memory limit" in none.stderr


# ---- the lowered program as an ONNX model


def lowered(folder: Path, *arguments: str | Path, text: str = "") -> onnx.ModelProto:
    """The model that --onnx writes; it has valid names, in an order in which values are made before they are read."""
    file = folder / "lowered.onnx"
    result = run(*arguments, "--onnx", file, text=text)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    model = onnx.load(str(file))
    check_names(model.graph, set())
    return model


def check_names(graph: onnx.GraphProto, outside: set[str]) -> None:
    """Every operand is an input, an initializer or an earlier result; every tensor has a type and a shape."""
    known = outside | {one.name for one in [*graph.input, *graph.initializer]}
    for node in graph.node:
        assert node.domain == "popart.lowered" and node.name and node.doc_string.startswith(node.name)
        assert {name for name in node.input if name} <= known, node.name
        assert not {name for name in node.output if name} & known, node.name
        known |= {name for name in node.output if name}
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                check_names(attribute.g, known)
    assert {one.name for one in graph.output} <= known
    for info in [*graph.input, *graph.output, *graph.value_info]:
        assert info.type.tensor_type.elem_type != 0 and info.type.tensor_type.HasField("shape"), info.name


def attributes_of(node: onnx.NodeProto) -> dict:
    """Values by name, texts as str."""
    values = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in values.items()}


def test_the_lowered_program_as_onnx(tmp_path: Path) -> None:
    model = lowered(tmp_path, "-", text=TEXT)
    schedule = run("-", "--memory", "--schedule", text=TEXT).stdout
    assert [node.name for node in model.graph.node] == re.findall(r"^  (\w+\.\d+)", schedule, re.MULTILINE)
    assert [node.op_type for node in model.graph.node] == ["HostLoad", "FusedMatMul", "HostStore"]
    product = model.graph.node[1]
    facts = attributes_of(product)
    assert "matmul" in facts["step.kernel"] and facts["trans_a"] == 0
    (weight,) = model.graph.initializer
    assert weight.name in product.input and not weight.raw_data
    shapes = {
        info.name: [d.dim_value for d in info.type.tensor_type.shape.dim]
        for info in [*model.graph.value_info, *model.graph.output]
    }
    assert shapes[product.output[0]] == [2, 4] and shapes[product.input[0]] == [2, 3]


def test_values_are_in_the_file_where_they_are_asked_for(tmp_path: Path) -> None:
    text = TEXT.replace("float32[3, 4] = 0.5", "float32[3, 40] = 0.5").replace("[2, 4]", "[2, 40]")
    flags = ("--device", "ref")
    assert not any(one.raw_data for one in lowered(tmp_path, "-", *flags, text=text).graph.initializer)
    model = lowered(tmp_path, "-", "--values", *flags, text=text)
    (weight,) = model.graph.initializer
    assert np.array_equal(numpy_helper.to_array(weight), np.full((3, 40), 0.5, np.float32))
    onnx.checker.check_model(model)


def test_bodies_of_loops_are_graphs(tmp_path: Path) -> None:
    text = """main {
  stream %in : float32[4]
  variable %w : float32[4] = 0.5
  %x : float32[4] = HostLoad() {stream = "in"}
  %y : float32[4] = Loop(_, _, %x, %w) {body = @"step", carried = 1, modified = [], trip_count = 3}
  HostStore(%y) {stream = "y"}
}

graph @"step" {
  input %iteration : int64[]
  input %condition : bool[]
  input %x : float32[4]
  input %w : float32[4]
  %sum : float32[4] = Add(%x, %w) <name = "layer/sum">
  %y : float32[4] = Tanh(%sum) <name = "layer/root">
  return %condition, %y
}
"""
    model = lowered(tmp_path, "-", "--device", "ref", text=text)
    (loop,) = [node for node in model.graph.node if node.op_type == "Loop"]
    (body,) = [one.g for one in loop.attribute if one.type == onnx.AttributeProto.GRAPH]
    inner = {node.op_type: attributes_of(node) for node in body.node}
    assert {"Add", "Tanh"} <= set(inner) and inner["Tanh"]["step.layer"] == "layer/root"
    assert inner["Add"]["step.phase"] == "forward"


def test_a_training_step_as_onnx(tmp_path: Path) -> None:
    passes = ["setUpRandomSeeds", "growBackwardPass", "addWeightUpdates", "prune", "storeAnchors", "loadStreams"]
    words = [word for name in passes for word in ("-p", name)]
    model = lowered(tmp_path, "-", *words, "--loss", "loss", "--keep", "loss", text=WITH_LOSS)
    phases = {attributes_of(node).get("step.phase") for node in model.graph.node}
    assert {"backward"} <= phases
    packed = [one.name for one in model.graph.initializer if "layout of the device: packed" in one.doc_string]
    assert packed and not any(one.raw_data for one in model.graph.initializer if one.name in packed)


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    result = run("-", "--onnx", tmp_path / "no" / "lowered.onnx", text=TEXT)
    assert result.returncode == 2 and "--onnx: file" in result.stderr
