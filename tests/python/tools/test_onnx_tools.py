"""popart-run, popart-inspect and popart-convert as their users call them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import onnxruntime
import popart.backend
import pytest
import torch
from torch import nn

import onnx
from onnx import TensorProto, helper, numpy_helper


def run(tool: str, *arguments: str | Path, expect: int = 0) -> subprocess.CompletedProcess[str]:
    """Call popart-<tool>."""
    result = subprocess.run(
        [sys.executable, "-m", f"popart.tools.{tool}", *map(str, arguments)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert result.returncode == expect, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    return result


def facts(tool: str, *arguments: str | Path, expect: int = 0) -> dict:
    return json.loads(run(tool, *arguments, "--json", expect=expect).stdout)


class Network(nn.Module):
    """Convolution, a norm, attention over positions, a resize, a cast and a class probability."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 16, 3, padding=1), nn.LayerNorm(16)
        self.attention, self.out = nn.Linear(16, 48), nn.Linear(16, 5)

    def forward(self, x):
        y = nn.functional.interpolate(self.conv(x).relu(), scale_factor=2.0, mode="nearest")
        y = self.norm(y.flatten(2).transpose(1, 2))
        q, k, v = self.attention(y).chunk(3, -1)
        y = (q @ k.transpose(1, 2) * 0.25).softmax(-1) @ v
        return self.out(y.mean(1)).softmax(-1)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("model") / "network.onnx"
    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Network().eval(), (torch.zeros(2, 3, 4, 4),), path, dynamo=False, opset_version=13,
            input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}},
        )  # fmt: skip
    return path


def small(path: Path, nodes, inputs, outputs, weights=(), opset=17) -> Path:
    graph = helper.make_graph(nodes, "small", inputs, outputs, list(weights))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
    return path


def expected(model: Path, x: np.ndarray) -> np.ndarray:
    return onnxruntime.InferenceSession(str(model)).run(None, {"x": x})[0]


# ---- popart-run


def test_run_on_random_inputs_agrees_with_onnx_runtime(model):
    found = facts("run", model, "--dim", "batch=3", "--check", "--runs", "5", "--threads", "1")
    assert [entry["shape"] for entry in found["inputs"]] == [[3, 3, 4, 4]]
    assert found["outputs"][0]["shape"] == [3, 5]
    assert found["outputs"][0]["mean"] == pytest.approx(0.2, rel=1e-4)
    assert found["check"][0]["equal"] and found["check"][0]["elements"] == 15
    times = found["times"]
    assert times["runs"] == 5
    order = [times[name] for name in ("bestMs", "medianMs", "p90Ms", "p99Ms", "worstMs")]
    assert order == sorted(order) and times["bestMs"] <= times["quartilesMs"][0] <= times["medianMs"]
    assert times["items"] == 3 and times["itemsPerSecond"] == pytest.approx(3 * times["runsPerSecond"])
    text = run("run", model, "--seconds", "0.05", "--warm-up", "0", "--check", "--dim", "batch=2")
    assert "ONNX Runtime, y: equal" in text.stdout and "items/s of a batch of 2" in text.stdout
    assert all(name in text.stdout for name in ("p50 ", "p90 ", "p99 ", "runs/s"))
    text = run("run", model)
    assert "(batch) is taken as 1; say it with --dim batch=N" in text.stderr


@pytest.mark.parametrize("form", ["npy", "npz", "pb", "only"])
def test_run_on_given_inputs_writes_what_it_computes(model, tmp_path, form):
    x = np.random.default_rng(2).normal(size=(4, 3, 4, 4)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "x.npz", x=x)
    (tmp_path / "x.pb").write_bytes(numpy_helper.from_array(x).SerializeToString())
    given = {"npy": "x={}/x.npy", "npz": "{}/x.npz", "pb": "x={}/x.pb", "only": "{}/x.npy"}[form].format(tmp_path)
    target = tmp_path / ("out.npz" if form == "npz" else "out")
    found = facts("run", model, "--input", given, "--output", target)
    (written,) = found["written"]
    result = np.load(written)["y"] if form == "npz" else np.load(written)
    np.testing.assert_allclose(result, expected(model, x), rtol=1e-4, atol=1e-5)


def test_run_says_when_results_differ(tmp_path):
    noise = small(
        tmp_path / "noise.onnx",
        [helper.make_node("RandomNormal", [], ["n"], shape=[5]), helper.make_node("Add", ["x", "n"], ["y"])],
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [5])],
    )  # fmt: skip
    result = run("run", noise, "--check", expect=1)
    assert "DIFFERS in 5 of 5" in result.stdout


def test_run_returns_other_tensors(model):
    inner = next(node.output[0] for node in onnx.load(model).graph.node if node.op_type == "Relu")
    found = facts("run", model, "--anchor", inner)
    assert {entry["name"]: entry["shape"] for entry in found["outputs"]}[inner] == [1, 16, 4, 4]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--dim", "width=3"], "has no 'width'. It has batch"),
        (["--dim", "batch"], "expected NAME=VALUE"),
        (["--shape", "x=1,a"], "expected whole numbers"),
        (["--shape", "z=1"], "has no 'z'. It has x"),
        (["--shape", "x=1,5,4,4"], "fixes dimension 1 to 3"),
        (["--input", "q=absent.npy"], "absent.npy"),
        (["--input", "x={folder}/text.npy"], "holds no array"),
        (["--input", "x={folder}/text.pb"], "holds no TensorProto"),
        (["--runs", "0"], "expected 1 or more"),
        (["--seconds", "-1"], "--seconds: got -1.0, expected a number of 0 or more"),
        (["--warm-up", "inf"], "--warm-up: got inf, expected a number of 0 or more"),
        (["--check", "--rtol", "-1"], "--rtol: got -1.0, expected a number of 0 or more"),
        (["--check", "--atol", "nan"], "--atol: got nan, expected a number of 0 or more"),
        (["--output", "{folder}/absent/x.npz"], "absent/x.npz': cannot be written: there is no folder"),
        (["--integers", "5,5"], "LOW below HIGH"),
    ],
)
def test_run_refuses_what_it_cannot_use(model, tmp_path, arguments, part):
    (tmp_path / "text.npy").write_text("no array")
    (tmp_path / "text.pb").write_bytes(b"\xff\xff")
    result = run("run", model, *(a.format(folder=tmp_path) for a in arguments), expect=2)
    assert part in result.stderr


@pytest.mark.parametrize(("arguments", "part"), [
    (["--outputs", "y"], "--outputs: does nothing without --inference"),
    (["--fold-batch-norm"], "--fold-batch-norm: does nothing without --inference"),
    (["--keep-io"], "--keep-io: does nothing without --float16 or --bfloat16"),
    (["--fold", "--max-folded-bytes", "-1"], "--max-folded-bytes: got -1, expected 0 or more"),
])  # fmt: skip
def test_convert_refuses_options_without_effect(model, tmp_path, arguments, part):
    assert part in run("convert", model, tmp_path / "out.onnx", *arguments, expect=2).stderr
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize("tool", ["run", "inspect", "convert"])
def test_files_that_are_no_models(tmp_path, tool):
    more = [tmp_path / "out.onnx"] if tool == "convert" else []
    (tmp_path / "damaged.onnx").write_bytes(b"\xff\x00 no model")
    assert "damaged.onnx" in run(tool, tmp_path / "damaged.onnx", *more, expect=2).stderr
    assert "absent.onnx" in run(tool, tmp_path / "absent.onnx", *more, expect=2).stderr
    assert not (tmp_path / "out.onnx").exists()
    assert f"popart-{tool}" in run(tool, "--help").stdout


# ---- popart-inspect


def doubled_text(path: Path) -> Path:
    """Text and numbers, each twice."""
    nodes = [
        helper.make_node("StringConcat", ["words", "words"], ["twice"]),
        helper.make_node("Add", ["x", "x"], ["y"]),
    ]
    words = helper.make_tensor_value_info("words", TensorProto.STRING, [2])
    twice = helper.make_tensor_value_info("twice", TensorProto.STRING, [2])
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in "xy")
    return small(path, nodes, [words, x], [twice, y], opset=20)


def test_models_of_text_run(tmp_path):
    model = doubled_text(tmp_path / "text.onnx")
    assert "input 'words' holds text" in run("run", model, expect=2).stderr
    np.save(tmp_path / "words.npy", np.array(["ab", "c"]))
    given = ["--input", f"words={tmp_path / 'words.npy'}"]
    found = facts("run", model, *given, "--check", "--output", tmp_path / "out.npz", "--runs", "2", "--warm-up", "0")
    assert [row["equal"] for row in found["check"]] == [True, True] and found["times"]["runs"] == 2
    with np.load(tmp_path / "out.npz") as arrays:
        assert arrays["twice"].tolist() == ["abab", "cc"]
    assert "a model with text" in run("run", model, *given, "--anchor", "y", expect=2).stderr


def test_an_initializer_that_is_an_input_may_be_given(tmp_path):
    x, w = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in "xw")
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])
    weight = numpy_helper.from_array(np.full(3, 2, np.float32), "w")
    model = small(tmp_path / "m.onnx", [helper.make_node("Mul", ["x", "w"], ["y"])], [x, w], [y], [weight])
    np.save(tmp_path / "x.npy", np.array([1, 2, 3], np.float32))
    np.save(tmp_path / "w.npy", np.array([5, 6, 7], np.float32))
    for more, expected in (([], [2, 4, 6]), (["--input", f"w={tmp_path / 'w.npy'}"], [5, 12, 21])):
        out = tmp_path / "out.npz"
        run("run", model, "--input", f"x={tmp_path / 'x.npy'}", *more, "--check", "--output", out)
        with np.load(out) as arrays:
            assert arrays["y"].tolist() == expected


def test_inspect_counts_what_is_there(model):
    found = facts("inspect", model, "--dim", "batch=2", "--steps", "--threads", "1")
    graph = onnx.load(model).graph
    assert sum(found["operators"].values()) == len(graph.node)
    assert found["operators"]["MatMul"] == sum(node.op_type == "MatMul" for node in graph.node)
    assert found["inputs"] == [{"name": "x", "type": "float32", "shape": ["batch", 3, 4, 4]}]
    sizes = [numpy_helper.to_array(tensor) for tensor in graph.initializer]
    assert found["parameters"]["elements"] == sum(array.size for array in sizes)
    assert found["parameters"]["bytes"] == sum(array.nbytes for array in sizes)
    program = found["program"]
    # 2 FLOP per multiply-add of convolution and products over a batch of 2; norms and the rest add to it
    positions, products = 2 * 64, 16 * 48 + 2 * 64 * 16
    least = 2 * (2 * 16 * 16 * 27 + positions * products)
    assert least <= program["flops"] <= 1.5 * least
    assert sum(row["steps"] for row in program["kernels"]) == len(program["steps"])
    memory = program["memory"]
    assert memory["total"] == sum(memory[part] for part in ("arena", "constants", "variables", "scratch"))
    text = run("inspect", model).stdout
    assert "input x: float32 [batch, 3, 4, 4]" in text and "one run: " in text and "matmul" in text
    assert re.search(r"^total +[\d.]+ KiB$", text, re.MULTILINE)


def test_inspect_names_operators_on_the_reference_backend(tmp_path):
    value = helper.make_tensor_value_info
    path = small(
        tmp_path / "double.onnx", [helper.make_node("MatMul", ["x", "x"], ["y"])],
        [value("x", TensorProto.DOUBLE, [4, 4])], [value("y", TensorProto.DOUBLE, [4, 4])],
    )  # fmt: skip
    (fallback,) = facts("inspect", path)["program"]["fallbacks"]
    assert "MatMul" in fallback["op"] and fallback["reason"]
    assert "on the reference backend" in run("inspect", path).stdout


def test_infinities_of_widened_numbers_are_found_where_they_were_narrow(tmp_path):
    """What PyTorch's exporter makes of torch.isinf: nothing is computed in float64, which the CPU backend does not."""
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.DOUBLE),
        helper.make_node("IsInf", ["wide"], ["infinite"]),
        helper.make_node("IsNaN", ["wide"], ["missing"]),
        helper.make_node("Or", ["infinite", "missing"], ["y"]),
    ]
    path = small(
        tmp_path / "infinite.onnx", nodes,
        [value("x", TensorProto.FLOAT, [6])], [value("y", TensorProto.BOOL, [6])],
    )  # fmt: skip
    assert facts("inspect", path)["program"]["fallbacks"] == []
    x = np.array([np.inf, -np.inf, np.nan, 0.0, np.finfo(np.float32).max, 1e-45], np.float32)
    result = popart.backend.prepare(onnx.load(path)).run({"x": x})[0]
    np.testing.assert_array_equal(result, ~np.isfinite(x))


def test_inspect_lists_refused_nodes_with_reasons(tmp_path):
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Gadget", ["x"], ["where"], name="first"),
        helper.make_node("Cast", ["where"], ["y"], to=1),
        helper.make_node("Gizmo", ["x"], ["z"], name="second"),
    ]
    outputs = [value("y", TensorProto.FLOAT, None), value("z", TensorProto.FLOAT, None)]
    path = small(tmp_path / "refused.onnx", nodes, [value("x", TensorProto.FLOAT, [3])], outputs)
    found = facts("inspect", path, expect=1)
    assert [(row["node"], row["operator"]) for row in found["refused"]] == [("first", "Gadget"), ("second", "Gizmo")]
    assert all(row["reason"] for row in found["refused"])
    assert found["afterRefused"] == 1 and "program" not in found
    assert "refused: Gizmo 'second'" in run("inspect", path, expect=1).stdout


def test_inspect_shows_what_trains(model):
    torch.manual_seed(1)
    rows = facts("inspect", model, "--training")
    parameters = sum(p.numel() for p in Network().parameters())
    assert sum(int(np.prod(row["shape"])) for row in rows if row["trains"]) == parameters
    assert all(row["reason"] and row["type"] == "float32" for row in rows)
    frozen = facts("inspect", model, "--frozen", "conv.*")
    assert {row["name"] for row in frozen if "frozen" in row["reason"]} == {"conv.weight", "conv.bias"}
    text = run("inspect", model, "--training").stdout
    assert f"{parameters:,} of " in text and "parameter: W of Conv" in text
    assert "Nearest names" in run("inspect", model, "--frozen", "con.weight*", expect=2).stderr


def test_inspect_of_the_file_alone(model):
    assert "program" not in facts("inspect", model, "--file-only")


# ---- popart-convert


def test_convert_to_a_newer_opset(model, tmp_path):
    out = tmp_path / "new.onnx"
    found = facts("convert", model, out, "--opset", "18")
    assert found["opsets"] == {"ai.onnx": 18}
    x = np.random.default_rng(3).normal(size=(2, 3, 4, 4)).astype(np.float32)
    np.testing.assert_allclose(expected(out, x), expected(model, x), rtol=1e-5)
    assert facts("run", out, "--check")["check"][0]["equal"]
    assert "expected 13 (the model's) to" in run("convert", model, out, "--opset", "9", expect=2).stderr


def test_convert_to_a_newer_opset_of_a_set_that_is_imported_twice(model, tmp_path):
    twice, out = tmp_path / "twice.onnx", tmp_path / "new.onnx"
    changed = onnx.load(model)
    changed.opset_import.extend([helper.make_opsetid("ai.onnx", 13), helper.make_opsetid("ai.onnx.ml", 3)])
    onnx.save(changed, twice)
    assert facts("convert", twice, out, "--opset", "18")["opsets"] == {"ai.onnx": 18, "ai.onnx.ml": 3}


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("keep", [True, False])
def test_convert_to_16_bits(model, tmp_path, kind, keep):
    out = tmp_path / "reduced.onnx"
    facts("convert", model, out, f"--{kind}", *(["--keep-io"] if keep else []))
    written = onnx.load(out)
    number = TensorProto.FLOAT16 if kind == "float16" else TensorProto.BFLOAT16
    io = TensorProto.FLOAT if keep else number
    assert [v.type.tensor_type.elem_type for v in [*written.graph.input, *written.graph.output]] == [io, io]
    x = np.random.default_rng(4).normal(size=(2, 3, 4, 4)).astype(np.float32)
    if keep:
        np.save(tmp_path / "x.npy", x)
        (file,) = facts("run", out, "--input", f"x={tmp_path / 'x.npy'}", "--output", tmp_path / "out")["written"]
        np.testing.assert_allclose(np.load(file), expected(model, x), atol=2e-3 if kind == "float16" else 2e-2)
        if kind == "float16":
            np.testing.assert_allclose(expected(out, x), expected(model, x), atol=2e-3)
    else:
        assert facts("run", out)["outputs"][0]["type"] == kind
    weights = [t.data_type for t in written.graph.initializer if len(t.dims) > 1]
    assert set(weights) == {number}


def test_convert_keeps_operands_that_take_no_16_bit_type(tmp_path):
    """Bodies of If are converted with the graph; Resize's scales stay float32."""
    value, node = helper.make_tensor_value_info, helper.make_node
    branch = [
        helper.make_graph([node(op, ["x"], [op])], op, [], [value(op, TensorProto.FLOAT, [1, 1, 2, 2])])
        for op in ("Exp", "Neg")
    ]
    nodes = [
        node("If", ["c"], ["b"], then_branch=branch[0], else_branch=branch[1]),
        node("Resize", ["b", "", "scales"], ["y"], mode="nearest"),
    ]
    path = small(
        tmp_path / "if.onnx", nodes,
        [value("x", TensorProto.FLOAT, [1, 1, 2, 2]), value("c", TensorProto.BOOL, [])],
        [value("y", TensorProto.FLOAT, [1, 1, 4, 4])],
        [numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales")],
    )  # fmt: skip
    out = tmp_path / "if16.onnx"
    run("convert", path, out, "--float16", "--keep-io")
    onnx.checker.check_model(onnx.load(out), full_check=True)
    feeds = {"x": np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2) / 4, "c": np.array(True)}
    results = [onnxruntime.InferenceSession(str(p)).run(None, feeds)[0] for p in (path, out)]
    np.testing.assert_allclose(results[1], results[0], rtol=2e-3)


def test_convert_moves_values_out_and_in(model, tmp_path):
    outside, inside = tmp_path / "out" / "m.onnx", tmp_path / "in.onnx"
    large = small(
        tmp_path / "large.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 64])],
        [numpy_helper.from_array(np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32), "w")],
    )  # fmt: skip
    found = facts("convert", large, outside, "--external", "values.bin")
    assert (outside.parent / "values.bin").stat().st_size >= 64 * 64 * 4
    assert len(found["written"]) == 2 and outside.stat().st_size < 1000
    facts("convert", outside, inside, "--embed")
    x = np.ones((1, 64), np.float32)
    for path in (outside, inside):
        np.testing.assert_array_equal(expected(path, x), expected(large, x))
        assert facts("run", path, "--check")["check"][0]["equal"]
    assert "without folders" in run("convert", large, outside, "--external", "../x.bin", expect=2).stderr


# ---- sequences, optional values and numbers that are not finite


@pytest.fixture
def sequences(tmp_path) -> Path:
    """The last tensor of a sequence, doubled, and the sequence the other way round."""
    value, node = helper.make_tensor_value_info, helper.make_node
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2, "n"]))
    nodes = [
        node("Constant", [], ["last"], value_int=-1),
        node("SequenceAt", ["s", "last"], ["a"]),
        node("Add", ["a", "a"], ["y"]),
        node("SequenceEmpty", [], ["none"], dtype=1),
        node("SequenceInsert", ["none", "y"], ["one"]),
        node("SequenceInsert", ["one", "a"], ["t"]),
    ]
    return small(
        tmp_path / "sequences.onnx", nodes, [helper.make_value_info("s", kind)],
        [value("y", TensorProto.FLOAT, [2, "n"]), helper.make_value_info("t", kind)],
    )  # fmt: skip


def test_inspect_shows_sequences(sequences):
    found = facts("inspect", sequences, expect=1)
    assert found["inputs"] == [{"name": "s", "type": "float32", "shape": [2, "n"], "sequence": True}]
    assert [row["node"] for row in found["refused"]] == ["s"] and "InputShapeInfo" in found["refused"][0]["reason"]
    text = run("inspect", sequences, expect=1).stdout
    assert "input s: sequence of float32 [2, n]" in text and "--shape s/0=" in text
    found = facts("inspect", sequences, "--shape", "s/0=2,3", "--shape", "s/1=2,5")
    assert found["shapes"] == {"s/0": [2, 3], "s/1": [2, 5]} and found["program"]["flops"] >= 10
    assert "has no 's/2'" in run("inspect", sequences, "--shape", "s/2=2,3", expect=2).stderr


def test_run_takes_and_gives_sequences(sequences, tmp_path):
    arrays = [np.random.default_rng(i).normal(size=(2, 3 + i)).astype(np.float32) for i in range(2)]
    given = []
    for i, array in enumerate(arrays):
        np.save(tmp_path / f"{i}.npy", array)
        given += ["--input", f"s/{i}={tmp_path / f'{i}.npy'}"]
    found = facts("run", sequences, *given, "--output", tmp_path / "out.npz", "--check")
    written = np.load(tmp_path / "out.npz")
    np.testing.assert_array_equal(written["y"], 2 * arrays[1])
    np.testing.assert_array_equal(written["t/1"], arrays[1])
    assert {row["output"]: row["equal"] for row in found["check"]} == {"y": True, "t/0": True, "t/1": True}
    found = facts("run", sequences, "--shape", "s/0=2,3", "--runs", "2")
    assert [entry["shape"] for entry in found["inputs"]] == [[2, 3]]
    assert "no input 'q/0'" in run("run", sequences, "--input", f"q/0={tmp_path / '0.npy'}", expect=2).stderr


def test_sizes_that_depend_on_data_are_cut(tmp_path):
    value = helper.make_tensor_value_info
    path = small(
        tmp_path / "nonzero.onnx", [helper.make_node("NonZero", ["x"], ["y"])],
        [value("x", TensorProto.FLOAT, [4])], [value("y", TensorProto.INT64, [1, "n"])],
    )  # fmt: skip
    np.save(tmp_path / "x.npy", np.array([0, 1, 0, 2], np.float32))
    found = facts("run", path, "--input", f"x={tmp_path / 'x.npy'}", "--check", "--output", tmp_path / "out.npz")
    assert [entry["shape"] for entry in found["outputs"]] == [[1, 2]] and found["check"][0]["equal"]
    assert np.load(tmp_path / "out.npz")["y"].tolist() == [[1, 3]]


def test_json_of_results_that_are_not_finite(tmp_path):
    value = helper.make_tensor_value_info
    path = small(
        tmp_path / "log.onnx", [helper.make_node("Log", ["x"], ["y"])],
        [value("x", TensorProto.FLOAT, [2])], [value("y", TensorProto.FLOAT, [2])],
    )  # fmt: skip
    np.save(tmp_path / "x.npy", np.array([-1, 0], np.float32))
    text = run("run", path, "--input", f"x={tmp_path / 'x.npy'}", "--json").stdout

    def no_json(constant):
        raise AssertionError(f"{constant} is no JSON")

    (output,) = json.loads(text, parse_constant=no_json)["outputs"]
    assert output["mean"] is None and output["smallest"] is None


ENDLESS = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,), }"


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (lambda path: np.savez(path, a=np.ones(2)), "several arrays"),
        (lambda path: path.write_bytes(b"PK\x03\x04 no archive"), "holds no array"),
        (lambda path: path.write_bytes(b"\x93NUMPY\x01\x00v\x00" + ENDLESS.ljust(117) + b"\n"), "holds no array"),
    ],
)
def test_run_names_damaged_arrays(model, tmp_path, content, part):
    path = tmp_path / "x.npy"
    content(path)
    if (tmp_path / "x.npy.npz").exists():
        (tmp_path / "x.npy.npz").rename(path)
    assert part in run("run", model, "--input", f"x={path}", expect=2).stderr


@pytest.mark.parametrize("shape", ["99999999999999999999,3,4,4", "1000000000,3,1000000000,4", "100000000,3,1000,4"])
def test_run_names_shapes_beyond_all_memory(model, shape):
    """Where no dimension of the model is in the way."""
    assert run("run", model, "--shape", f"x={shape}", expect=2).stderr.count("\n") <= 2


@pytest.mark.parametrize("name", [b"\xff.onnx", b"folder"])
@pytest.mark.parametrize("tool", ["run", "inspect", "convert"])
def test_names_that_are_no_files(tmp_path, tool, name):
    (tmp_path / "folder").mkdir()
    path = os.fsencode(tmp_path) + b"/" + name
    if not path.endswith(b"folder"):
        Path(os.fsdecode(path)).write_bytes(b"")
    more = [tmp_path / "out.onnx"] if tool == "convert" else []
    assert "onnx" in run(tool, os.fsdecode(path), *more, expect=2).stderr.lower()


def test_outputs_whose_names_meet_have_files_of_their_own(tmp_path):
    value = helper.make_tensor_value_info
    names = ["a/b", "a_b", "a:b"]
    nodes = [helper.make_node(kind, ["x"], [name]) for kind, name in zip(["Neg", "Abs", "Exp"], names, strict=True)]
    path = small(
        tmp_path / "names.onnx", nodes,
        [value("x", TensorProto.FLOAT, [2])], [value(n, TensorProto.FLOAT, [2]) for n in names],
    )  # fmt: skip
    found = facts("run", path, "--output", tmp_path / "out")
    assert len(set(found["written"])) == 3
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["a_b.npy", "a_b_.npy", "a_b__.npy"]


def test_convert_keeps_model_and_values_apart(model, tmp_path):
    for name in ("m.onnx", "..", "."):
        assert "--external" in run("convert", model, tmp_path / "m.onnx", "--external", name, expect=2).stderr
    assert not list(tmp_path.iterdir())


def test_convert_casts_in_each_branch(tmp_path):
    """An operand that takes no 16-bit type is cast once in every graph that reads it."""
    value, node = helper.make_tensor_value_info, helper.make_node
    branches = [
        helper.make_graph(
            [
                *(node("Resize", ["x", "", "x"], [f"{name}{i}"]) for i in (1, 2)),
                node("Sum", [f"{name}1", f"{name}2"], [name]),
            ],
            name, [], [value(name, TensorProto.FLOAT, None)],
        )
        for name in ("a", "b")
    ]  # fmt: skip
    path = small(
        tmp_path / "m.onnx", [node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])],
        [value("x", TensorProto.FLOAT, [1]), value("c", TensorProto.BOOL, [])], [value("y", TensorProto.FLOAT, None)],
    )  # fmt: skip
    run("convert", path, tmp_path / "out.onnx", "--float16")
    for attribute in onnx.load(tmp_path / "out.onnx").graph.node[0].attribute:
        assert sum(n.op_type == "Cast" and n.input[0] == "x" for n in attribute.g.node) == 1


def test_inspect_counts_loops_in_loops_without_end(tmp_path):
    """Twenty loops inside each other, each of 2^62 iterations: the counts stay finite."""
    value = helper.make_tensor_value_info
    inner = [helper.make_node("Neg", ["v0"], ["n0"])]
    for depth in range(20):
        body = helper.make_graph(
            [helper.make_node("Identity", [f"c{depth}"], [f"d{depth}"]), *inner], f"body{depth}",
            [value(f"i{depth}", TensorProto.INT64, []), value(f"c{depth}", TensorProto.BOOL, []),
             value(f"v{depth}", TensorProto.FLOAT, [2])],
            [value(f"d{depth}", TensorProto.BOOL, []), value(f"n{depth}", TensorProto.FLOAT, [2])],
        )  # fmt: skip
        inner = [helper.make_node("Loop", ["trips", "", f"v{depth + 1}"], [f"n{depth + 1}"], body=body)]
    path = small(
        tmp_path / "loops.onnx", inner, [value("v20", TensorProto.FLOAT, [2])],
        [value("n20", TensorProto.FLOAT, [2])], [numpy_helper.from_array(np.array(2**62), "trips")],
    )  # fmt: skip
    program = facts("inspect", path, "--steps")["program"]
    assert 2.0**200 < program["flops"] < float("inf")
    assert all(row["predictedMs"] is not None for row in program["kernels"])
