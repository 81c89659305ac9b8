"""The C++ examples build against the installed package, run, and write files that ONNX Runtime reads."""

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import onnx
from onnx import TensorProto, helper, numpy_helper
from tests.python.popdist.jobs import ONLY_HERE, environment_of, timed

ROOT = Path(__file__).resolve().parents[2]
PRESET = os.environ.get("POPART_PRESET", "dev")


def run(*command):
    """Run a command and return what it prints."""
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Folder with the built programs."""
    if PRESET in ("asan", "tsan"):
        pytest.skip(f"a program needs the flags of preset {PRESET} to link with its library")
    folder = tmp_path_factory.mktemp("cpp")
    run("cmake", "--install", ROOT / "build" / PRESET, "--prefix", folder / "prefix")
    build = folder / "build"
    settings = [f"-DCMAKE_PREFIX_PATH={folder / 'prefix'}", "-DCMAKE_BUILD_TYPE=Debug"]
    run("cmake", "-S", ROOT / "examples/cpp", "-B", build, "-G", "Ninja", *settings)
    run("cmake", "--build", build)
    return build


def save(path, nodes, inputs, outputs, weights):
    """Write a model of opset 13 from nodes, (name, shape) pairs and weights by name."""
    info = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in part]
            for part in (inputs, outputs)]  # fmt: skip
    tensors = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "model", *info, tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def save_classifier(path, rng):
    """Write a classifier of 20 features and 4 classes for batches of 16; returns its weights."""
    weights = {
        "w1": rng.normal(0, 0.2, (20, 32)).astype(np.float32),
        "b1": np.zeros(32, np.float32),
        "w2": rng.normal(0, 0.2, (32, 4)).astype(np.float32),
    }
    nodes = [
        helper.make_node("MatMul", ["images", "w1"], ["product"]),
        helper.make_node("Add", ["product", "b1"], ["sum"]),
        helper.make_node("Relu", ["sum"], ["hidden"]),
        helper.make_node("MatMul", ["hidden", "w2"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["probabilities"], axis=-1),
    ]
    save(path, nodes, [("images", [16, 20])], [("probabilities", [16, 4])], weights)
    return weights


def test_ten_lines_train_and_run_a_file(programs, tmp_path):
    rng = np.random.default_rng(3)
    model, trained = tmp_path / "model.onnx", tmp_path / "trained.onnx"
    save_classifier(model, rng)
    centres = 2 * rng.normal(size=(4, 20))
    labels = rng.integers(0, 4, 160).astype(np.int32)
    images = (centres[labels] + rng.normal(size=(160, 20))).astype(np.float32)
    images.tofile(tmp_path / "images.f32")
    labels.tofile(tmp_path / "labels.i32")
    printed = run(programs / "train", model, tmp_path / "images.f32", tmp_path / "labels.i32", trained)
    losses = [float(value) for value in re.findall(r"loss ([\d.]+)", printed)]
    assert len(losses) == 8
    assert losses[-1] < 0.2 * losses[0]

    runtime = onnxruntime.InferenceSession(str(trained), providers=["CPUExecutionProvider"])
    (probabilities,) = runtime.run(["probabilities"], {"images": images[:16]})
    row = [float(value) for value in re.search(r"first row (.*)", printed)[1].split()]
    np.testing.assert_allclose(row, probabilities[0], atol=1e-4)
    first = -np.log(onnx_probabilities(model, images)[np.arange(160), labels])
    assert losses[0] < first.mean()  # weights change within the first step


def onnx_probabilities(model, images):
    """What ONNX Runtime computes, batch by batch."""
    runtime = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    return np.concatenate([runtime.run(["probabilities"], {"images": part})[0] for part in np.split(images, 10)])


def test_train_mlp_learns_and_saves_a_model_that_onnx_runtime_loads(programs, tmp_path):
    rng = np.random.default_rng(0)
    model, trained = tmp_path / "model.onnx", tmp_path / "trained.onnx"
    weights = save_classifier(model, rng)
    printed = run(programs / "train_mlp", model, trained, 8)
    losses = [float(value) for value in re.findall(r"loss ([\d.]+)", printed)]
    assert len(losses) == 8
    assert losses[-1] < 0.5 * losses[0]
    assert float(re.findall(r"accuracy ([\d.]+)", printed)[-1]) > 0.9

    runtime = onnxruntime.InferenceSession(str(trained), providers=["CPUExecutionProvider"])
    (probabilities,) = runtime.run(["probabilities"], {"images": rng.normal(size=(16, 20)).astype(np.float32)})
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(trained).graph.initializer}
    assert all(not np.array_equal(values[name], weights[name]) for name in weights)


@pytest.mark.parametrize(
    ("nodes", "cubes"),
    [
        ([("Mul", ["x", "x"], "t"), ("Mul", ["t", "x"], "y")], 1),
        ([("Mul", ["x", "x"], "t"), ("Mul", ["t", "t"], "y")], 0),  # a fourth power is no cube
    ],
)
def test_custom_op_replaces_products(programs, tmp_path, nodes, cubes):
    model = tmp_path / "model.onnx"
    nodes = [helper.make_node(kind, inputs, [output]) for kind, inputs, output in nodes]
    save(model, nodes, [("x", [4])], [("y", [4])], {})
    printed = run(programs / "custom_op", model)
    assert f"Cube operators: {cubes}\n" in printed
    assert ("y = -1 0.125 8 27" if cubes else "y = 1 0.0625 16 81") in printed


def test_custom_op_is_found_by_its_onnx_name(programs, tmp_path):
    model = tmp_path / "model.onnx"
    node = helper.make_node("Cube", ["x"], ["y"], domain="custom.ops")
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    graph = helper.make_graph([node], "model", info[:1], info[1:])
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("custom.ops", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), model)
    assert "Cube operators: 1\ny = -1 0.125 8 27" in run(programs / "custom_op", model)


@pytest.mark.parametrize("instances", [1, 2, 3])
def test_processes_exchange_arrays(programs, instances):
    """Without a launcher, and in jobs of mpirun."""
    launcher = ["mpirun", "--oversubscribe", "--bind-to", "none", *ONLY_HERE, "-n", str(instances)]
    command = [*(launcher if instances > 1 else []), str(programs / "processes")]
    result, _ = timed(command, 60, environment_of({}))
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout == f"12 numbers from 1 to 12, mean loss {78 // instances}, weights 1.5\n"


@pytest.mark.parametrize("program", ["train", "train_mlp", "custom_op"])
def test_missing_model_is_one_line_on_stderr(programs, tmp_path, program):
    others = {"train": ["images.f32", "labels.i32", "out.onnx"], "train_mlp": ["out.onnx"], "custom_op": []}
    arguments = [tmp_path / name for name in ("absent.onnx", *others[program])]
    result = subprocess.run([str(word) for word in (programs / program, *arguments)], capture_output=True, text=True)
    assert result.returncode == 1
    assert "absent.onnx" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
