"""popart-run --compare and --bisect, and the layers that popart-inspect lists."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import popart
import pytest
import torch
from popart.tools import files
from popart.tools.compare import Tolerance, first_difference, of_onnx_runtime, operators_of
from popart.tools.run import items_of, spread_of
from popart.tools.running import run_model

import onnx
from onnx import TensorProto, helper, numpy_helper
from tests.python.tools.test_onnx_tools import Network, facts, model, run, small  # noqa: F401 (model: a fixture)

LAYERS = 70  # more than one group of operators whose results are kept together


@pytest.fixture(scope="module")
def chain(tmp_path_factory) -> Path:
    """Products with a tanh behind each, as many as make several groups."""
    rng = np.random.default_rng(1)
    nodes, weights, name = [], [], "x"
    for i in range(LAYERS):
        weights.append(numpy_helper.from_array(rng.normal(size=(8, 8), scale=0.4).astype(np.float32), f"w{i}"))
        nodes.append(helper.make_node("MatMul", [name, f"w{i}"], [f"h{i}"], name=f"product{i}"))
        name = "y" if i == LAYERS - 1 else f"a{i}"
        nodes.append(helper.make_node("Tanh", [f"h{i}"], [name], name=f"tanh{i}"))
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", 8]) for n in "xy")
    return small(tmp_path_factory.mktemp("chain") / "chain.onnx", nodes, [x], [y], weights)


def with_other_weights(path: Path, layer: int, target: Path) -> Path:
    """The model with other weights of one operator."""
    changed = onnx.load(path)
    (weight,) = [tensor for tensor in changed.graph.initializer if tensor.name == f"w{layer}"]
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * np.float32(1.5), weight.name))
    onnx.save(changed, target)
    return target


@pytest.mark.parametrize("layer", [0, 20, LAYERS - 1])
def test_bisection_names_the_operator_with_other_weights(chain, tmp_path, layer):
    other = with_other_weights(chain, layer, tmp_path / "other.onnx")
    given = ("--compare", other, "--bisect", "--dim", "batch=3")
    found = facts("run", chain, *given, expect=1)
    assert not found["compare"][0]["equal"]
    operator = found["bisect"]["operator"]
    assert (operator["kind"], operator["name"]) == ("MatMul", f"product{layer}")
    assert found["bisect"]["compared"] == 2 * layer + 1 and found["bisect"]["operators"] == 2 * LAYERS
    assert all(far < 1e-4 for far in operator["inputs"].values())
    text = run("run", chain, *given, expect=1).stdout
    assert f"first operator that differs: MatMul 'product{layer}' ({2 * layer + 1} of {2 * LAYERS} " in text
    assert f"  its result, h{layer}: DIFFERS in 24 of 24" in text


def test_bisection_against_onnx_runtime_names_the_operator_with_other_weights(chain, tmp_path):
    """PopART runs one file and ONNX Runtime the other one."""
    other = with_other_weights(chain, 33, tmp_path / "other.onnx")
    described = files.describe(chain)
    feeds = {"x": np.random.default_rng(2).normal(size=(2, 8)).astype(np.float32)}

    def ours(names):
        return run_model(chain, described, feeds, names).results

    for reference, expected in ((other, "product33"), (chain, None)):
        theirs = of_onnx_runtime(reference, described, feeds, optimised=False)
        found = first_difference(operators_of(chain), ours, theirs, Tolerance(1e-3, 1e-4), feeds)
        assert (found["operator"] and found["operator"]["name"]) == expected
        assert found["notes"] == []


def test_bisection_of_a_check(model, tmp_path):  # noqa: F811
    found = facts("run", model, "--check", "--bisect", "--dim", "batch=2")
    assert found["bisect"]["operator"] is None and found["bisect"]["notes"] == []
    assert found["bisect"]["compared"] == found["bisect"]["operators"] == len(onnx.load(model).graph.node)
    noise = small(
        tmp_path / "noise.onnx",
        [
            helper.make_node("Neg", ["x"], ["m"], name="before"),
            helper.make_node("RandomNormal", [], ["n"], shape=[5], name="noise"),
            helper.make_node("Add", ["m", "n"], ["y"], name="after"),
        ],
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [5])],
    )
    text = run("run", noise, "--check", "--bisect", expect=1).stdout
    assert "first operator that differs: RandomNormal 'noise' (2 of 3 operators compared)" in text
    for wrong in (["--bisect"], ["--bisect", "--compare", "a.npz"], ["--bisect", "--check", "--compare", "m.onnx"]):
        assert "--bisect: give either --check or --compare MODEL" in run("run", noise, *wrong, expect=2).stderr


def test_bisection_reads_weights_outside_of_the_file(chain, tmp_path):
    outside = tmp_path / "outside.onnx"
    onnx.save(onnx.load(chain), outside, save_as_external_data=True, location="w.bin", size_threshold=0)
    found = facts("run", outside, "--check", "--bisect")["bisect"]
    assert found["operator"] is None and found["compared"] == 2 * LAYERS


def test_compare_with_a_converted_model(model, tmp_path):  # noqa: F811
    half, renamed = tmp_path / "half.onnx", tmp_path / "renamed.onnx"
    run("convert", model, half, "--float16")
    given = ("--dim", "batch=2", "--compare")
    assert facts("run", model, *given, half, "--rtol", "1e-2")["compare"][0]["equal"]
    strict = run("run", model, *given, half, "--rtol", "0", "--atol", "1e-9", expect=1)
    assert f"{half}, y: DIFFERS in 10 of 10" in strict.stdout
    changed = onnx.load(model)
    for node in changed.graph.node:
        for values in (node.input, node.output):
            values[:] = [{"x": "images", "y": "classes"}.get(name, name) for name in values]
    changed.graph.input[0].name, changed.graph.output[0].name = "images", "classes"
    onnx.save(changed, renamed)
    (row,) = facts("run", model, *given, renamed)["compare"]
    assert row == {"output": "y", "equal": True, "differing": 0, "elements": 10, "largestDifference": 0.0}
    found = facts("run", model, *given, renamed, "--bisect")["bisect"]  # the last result has another name there
    assert found["operator"] is None and found["compared"] == len(onnx.load(model).graph.node) and not found["notes"]
    found = facts("run", model, *given, half, "--bisect", "--rtol", "1e-2", "--atol", "1e-2")["bisect"]
    assert found["operator"] is None and found["compared"] >= 10 and not found["notes"]
    two = small(
        tmp_path / "two.onnx", [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Abs", ["x"], ["z"])],
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "yz"],
    )  # fmt: skip
    assert "has 2 outputs (y, z), expected 1: y" in run("run", model, "--compare", two, expect=2).stderr


def test_compare_with_results_of_before(model, tmp_path):  # noqa: F811
    out = tmp_path / "out.npz"
    run("run", model, "--output", out)
    assert facts("run", model, "--compare", out)["compare"][0]["equal"]
    assert not facts("run", model, "--compare", out, "--seed", "5", expect=1)["compare"][0]["equal"]


def test_values_are_printed_when_they_are_asked_for(model, tmp_path):  # noqa: F811
    found = facts("run", model, "--values", "--output", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as arrays:
        np.testing.assert_allclose(found["outputs"][0]["values"], arrays["y"], rtol=1e-6)
        shown = np.array2string(arrays["y"])
    assert f"y =\n{shown}" in run("run", model, "--values").stdout
    assert "values" not in facts("run", model)["outputs"][0]


def test_percentiles_and_items():
    seconds = [i / 1000 for i in range(1, 101)]
    times = spread_of(seconds, 8)
    expected = np.percentile(np.arange(1, 101), [50, 90, 99])
    np.testing.assert_allclose([times["medianMs"], times["p90Ms"], times["p99Ms"]], expected)
    assert times["runsPerSecond"] == pytest.approx(100 / sum(seconds))
    assert times["itemsPerSecond"] == pytest.approx(800 / sum(seconds))
    assert spread_of([0.5], None)["itemsPerSecond"] is None
    square, row, scalar = np.zeros((4, 4)), np.zeros((1, 4)), np.zeros(())
    assert items_of({"x": square}, {"y": square}) == 4
    assert items_of({"x": square}, {"y": row}) is None
    assert items_of({"x": square, "s": scalar}, {"y": square}) is None


# ---- layers


def test_layers_count_parameters_and_operations(model):  # noqa: F811
    batch, positions = 2, 8 * 8
    found = facts("inspect", model, "--layers", "--dim", f"batch={batch}")
    rows = {row["layer"]: row for row in found["layers"]}
    network = Network()
    by_kind = {
        "Conv": (sum(p.numel() for p in network.conv.parameters()), batch * 16 * 16 * 27),
        "attention": (sum(p.numel() for p in network.attention.parameters()), batch * positions * 16 * 48),
        "out": (sum(p.numel() for p in network.out.parameters()), batch * 16 * 5),
    }
    for word, (parameters, products) in by_kind.items():
        layers = [row for name, row in rows.items() if word in name and "norm" not in name]
        assert sum(row["parameters"] for row in layers) == parameters, word
        added = sum(np.prod(row["outputShape"]) for row in layers if "Add" in row["operators"])
        computed = sum(row["flops"] for row in layers)
        assert 2 * products <= computed <= 2 * products + 2 * added, word
    assert sum(row["parameters"] for row in rows.values()) == sum(p.numel() for p in network.parameters())
    assert sum(row["share"] for row in rows.values()) == pytest.approx(1)
    assert rows["/conv/Conv"]["outputShape"] == [batch, 16, 4, 4] and rows["/conv/Conv"]["operators"] == ["Conv"]
    text = run("inspect", model, "--layers", "--dim", f"batch={batch}").stdout
    assert "output shape" in text and f"[{batch}, 16, 4, 4]" in text and text.count("\ntotal ") == 2


def test_layers_of_one_scope_are_one_row(model):  # noqa: F811
    every = facts("inspect", model, "--layers")["layers"]
    rows = facts("inspect", model, "--depth", "1")["layers"]
    assert len(rows) < len(every) and len({row["layer"] for row in rows}) == len(rows)
    for key in ("parameters", "flops"):
        assert sum(row[key] for row in rows) == sum(row[key] for row in every)
    assert {"/conv", "/attention", "/out"} <= {row["layer"] for row in rows}
    assert "--depth: got 0, expected 1 or more" in run("inspect", model, "--depth", "0", expect=2).stderr


@pytest.mark.filterwarnings("ignore")
def test_layers_of_loops_count_their_trips(tmp_path):
    lstm = torch.nn.LSTM(6, 5)
    path = tmp_path / "lstm.onnx"
    torch.onnx.export(  # with the legacy exporter, which makes one node of it
        lstm,
        (torch.zeros(7, 2, 6),),
        path,
        dynamo=False,
        opset_version=17,
        input_names=["x"],
        output_names=["y", "h", "c"],
    )
    (layer,) = [row for row in facts("inspect", path, "--layers")["layers"] if "Loop" in row["operators"]]
    products = 7 * 2 * 4 * 5 * (6 + 5)
    assert layer["parameters"] == sum(p.numel() for p in lstm.parameters())
    assert 2 * products < layer["flops"] < 3 * products


def test_the_model_of_layers_is_the_one_that_runs(model):  # noqa: F811
    found = facts("inspect", model, "--layers")
    counted = sum(row["flops"] for row in found["layers"])
    assert counted == pytest.approx(found["program"]["flops"], rel=0.3)


def test_an_initializer_that_is_stored_once_for_several_weights_counts_once(tmp_path):
    """Exporters keep one of equal tensors, and read it through Identity where the others were read."""
    nodes = [
        helper.make_node("Identity", ["first.weight"], ["second.weight"]),
        helper.make_node("LayerNormalization", ["x", "first.weight"], ["a"], name="first"),
        helper.make_node("MatMul", ["a", "w"], ["b"], name="product"),
        helper.make_node("LayerNormalization", ["b", "second.weight"], ["y"], name="second"),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 6]) for name in "xy")
    arrays = {"first.weight": np.ones(6, np.float32), "w": np.eye(6, dtype=np.float32)}
    weights = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    path = small(tmp_path / "norms.onnx", nodes, [x], [y], weights)
    assert {t.name: t.source for t in popart.trainable_tensors(str(path))} == {
        "first.weight": "first.weight", "second.weight": "first.weight", "w": "w"
    }  # fmt: skip
    found = facts("inspect", path, "--layers")
    assert {row["layer"]: row["parameters"] for row in found["layers"]} == {"first": 6, "product": 36, "second": 0}
    assert sum(row["parameters"] for row in found["layers"]) == found["parameters"]["elements"]


# ---- sizes


def test_convert_fixes_open_dimensions(model, tmp_path):  # noqa: F811
    out = tmp_path / "fixed.onnx"
    assert facts("convert", model, out, "--dim", "batch=4")["fixed"] == 2
    graph = onnx.load(out).graph
    shapes = [[d.dim_value for d in v.type.tensor_type.shape.dim] for v in (*graph.input, *graph.output)]
    assert shapes == [[4, 3, 4, 4], [4, 5]]
    onnx.checker.check_model(onnx.load(out), full_check=True)
    assert facts("run", out, "--compare", model)["compare"][0]["equal"]
    by_shape = tmp_path / "shape.onnx"
    run("convert", model, by_shape, "--shape", "x=4,3,4,4")
    assert onnx.load(by_shape).graph == graph
    wrong = run("convert", model, out, "--shape", "x=4,3,5,4", expect=2).stderr
    assert "--shape: 'x': got [4, 3, 5, 4], expected float32 [batch, 3, 4, 4], batch = 4" in wrong
    wrong = run("convert", model, out, "--shape", "x=4,3,4,4", "--dim", "batch=2", expect=2).stderr
    assert "got [4, 3, 4, 4], expected float32 [batch, 3, 4, 4], batch = 2" in wrong
    assert "has no 'bach'. Nearest names: batch" in run("convert", model, out, "--dim", "bach=2", expect=2).stderr


def test_convert_fixes_dimensions_without_a_name(tmp_path):
    value = helper.make_tensor_value_info
    path = small(
        tmp_path / "open.onnx", [helper.make_node("Abs", ["x"], ["y"])],
        [value("x", TensorProto.FLOAT, [None, 3])], [value("y", TensorProto.FLOAT, ["rows", 3])],
    )  # fmt: skip
    out = tmp_path / "fixed.onnx"
    assert facts("convert", path, out, "--shape", "x=5,3")["fixed"] == 1
    assert [d.dim_value for d in onnx.load(out).graph.input[0].type.tensor_type.shape.dim] == [5, 3]
