"""Type checkers read the installed wheel: nothing in a correct program, every mistake in a wrong one.

mypy is as strict as it gets, and so is pyright (as basedpyright, which brings what it runs on). This tree is not on
their path.
"""

import json
import os
import re
import sys
from pathlib import Path

import pytest

from tests.install.wheel_programs import run

PRESET = os.environ.get("POPART_PRESET", "dev")
pytestmark = pytest.mark.skipif(PRESET in ("asan", "tsan"), reason="a wheel has no sanitizers")

PROGRAM = '''
from collections.abc import Iterator

import numpy as np
import popart
import popxl
import popxl.ops as ops


def batches(count: int) -> Iterator[dict[str, np.ndarray]]:
    """Batches of a data set."""
    for _ in range(count):
        yield {"x": np.zeros((2, 4), np.float32), "label": np.zeros(2, np.int32)}


def build() -> tuple[bytes, str, str]:
    """A model, its input and its loss."""
    builder = popart.Builder()
    builder.aiOnnxOpsetVersion(11)
    x = builder.addInputTensor("FLOAT", [2, 4], "x")
    w = builder.addInitializedInputTensor(np.zeros((4, 3), np.float32))
    y = builder.aiOnnx.softmax([builder.aiOnnx.matmul([x, w])], axis=1, debugContext="y")
    parts: list[str] = builder.aiOnnxOpset11.split([y], num_outputs=2, axis=0)
    loss = builder.aiGraphcore.l1loss([parts[0]], 0.1, reduction=popart.ReductionType.Mean)
    builder.addOutputTensor(loss)
    return builder.getModelProto(), x, loss


def train_with_session() -> float:
    """Trains with a session."""
    model, x, loss = build()
    options = popart.SessionOptions()
    options.accumulationFactor = 1
    options.enableGradientAccumulation = False
    session = popart.TrainingSession(
        model,
        popart.DataFlow(1, {loss: popart.AnchorReturnType("All")}),
        loss,
        popart.SGD({"defaultLearningRate": (0.1, True)}),
        popart.DeviceManager().createCpuDevice(),
        userOptions=options,
        patterns=popart.Patterns(),
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({x: np.zeros((2, 4), np.float32)}, anchors))
    session.modelToHost("trained.onnx")
    return float(anchors[loss].sum())


def train_with_trainer() -> dict[str, float]:
    """Trains a file."""
    optimizer = popart.optim.AdamW(lr=1e-3)
    trainer = popart.Trainer("classifier.onnx", loss="cross_entropy", optimizer=optimizer)
    history = trainer.fit(batches(4), epochs=3, metrics=["accuracy"])
    print(history["loss"], trainer.weights["w"].shape)
    trainer.save("trained.onnx")
    model = popart.load("trained.onnx")
    print(model(np.zeros((2, 4), np.float32)))
    return trainer.evaluate(batches(2), metrics=["accuracy"])


def run_popxl() -> np.ndarray:
    """Runs a program of popxl."""
    ir = popxl.Ir(replication=1)
    with ir.main_graph:
        x_stream = popxl.h2d_stream((2, 4), popxl.float32, name="x")
        y_stream = popxl.d2h_stream((2, 3), popxl.float32, name="y")
        w = popxl.variable(np.ones((4, 3), np.float32), name="w")
        y = ops.gelu(ops.host_load(x_stream) @ w)
        ops.host_store(y_stream, y + popxl.constant(1.0))
    with popxl.Session(ir, "cpu") as session:
        outputs = session.run({x_stream: np.eye(2, 4, dtype=np.float32)})
    return outputs[y_stream]
'''

FIRST_LINES = """
import numpy as np
import popart
import popxl
import popxl.ops as ops

builder = popart.Builder()
x = builder.addInputTensor("FLOAT", [2, 4])
optimizer = popart.optim.SGD(lr=0.1)
ir = popxl.Ir()
w = popxl.variable(np.ones((4, 3), np.float32))
session = popxl.Session(ir, "cpu")
"""
# A wrong line; what mypy and pyright call the mistake.
WRONG = {
    'builder.addInputTensr("FLOAT", [2, 4])': ("attr-defined", "reportAttributeAccessIssue"),
    "builder.aiOnnx.softmax([x], axes=1)": ("call-arg", "reportCallIssue"),
    "builder.aiOnnx.concat([x, x], axis='0')": ("arg-type", "reportArgumentType"),
    "builder.aiOnnxOpset6.erf([x])": ("attr-defined", "reportAttributeAccessIssue"),
    "builder.aiOnnxOpset17.mish([x], alpha=1)": ("call-arg", "reportCallIssue"),
    "number: int = builder.aiGraphcore.gelu([x])": ("assignment", "reportAssignmentType"),
    "model: str = builder.getModelProto()": ("assignment", "reportAssignmentType"),
    "made = popart.SessionOption()": ("attr-defined", "reportAttributeAccessIssue"),
    'flow = popart.DataFlow("1", {})': ("call-overload", "reportArgumentType"),
    'popart.optim.AdamW(lr="fast")': ("arg-type", "reportArgumentType"),
    'popart.Trainer("a.onnx", loss="mse", optimizer=optimizer, epoch=3)': ("call-arg", "reportCallIssue"),
    "popart.InferenceSession(b'', 1, 2).runn()": ("arg-type|attr-defined", "reportArgumentType"),
    "ir.replicas": ("attr-defined", "reportAttributeAccessIssue"),
    'popxl.variable(1.0, named="w")': ("call-arg", "reportCallIssue"),
    "ops.gelu(w, 1, 2)": ("call-arg", "reportCallIssue"),
    "session.runs({})": ("attr-defined", "reportAttributeAccessIssue"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the two programs."""
    folder = tmp_path_factory.mktemp("types")
    (folder / "correct.py").write_text(PROGRAM)
    (folder / "wrong.py").write_text(FIRST_LINES + "\n".join(WRONG) + "\n")
    return folder


def without_tree() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")}


@pytest.fixture(scope="module")
def found_by_mypy(environment, folder):
    """(file, line, kind) of each mistake."""
    command = ["-m", "mypy", "--strict", "--python-executable", environment / "bin/python", "--cache-dir", "cache"]
    result = run(sys.executable, *command, "correct.py", "wrong.py", cwd=folder, env=without_tree())
    assert result.returncode in (0, 1), result.stdout + result.stderr
    return re.findall(r"^(\w+\.py):(\d+): error: .*\[([\w-]+)\]$", result.stdout, re.MULTILINE)


@pytest.fixture(scope="module")
def found_by_pyright(environment, folder):
    """(file, line, kind) of each mistake."""
    settings = {"typeCheckingMode": "strict", "include": ["correct.py", "wrong.py"]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = ["-m", "basedpyright", "--outputjson", "--pythonpath", environment / "bin/python"]
    result = run(sys.executable, *command, cwd=folder, env=os.environ)
    assert result.returncode in (0, 1), result.stdout + result.stderr
    entries = json.loads(result.stdout)["generalDiagnostics"]
    return [
        (Path(entry["file"]).name, str(entry["range"]["start"]["line"] + 1), entry.get("rule", "")) for entry in entries
    ]


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_nothing_is_wrong_with_a_correct_program(request, checker):
    found = request.getfixturevalue(f"found_by_{checker}")
    assert [item for item in found if item[0] == "correct.py"] == []


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_every_mistake_is_found(request, checker):
    found = request.getfixturevalue(f"found_by_{checker}")
    first = FIRST_LINES.count("\n") + 1
    for line, (text, kinds) in enumerate(WRONG.items(), first):
        expected = kinds[checker == "pyright"].split("|")
        assert any(("wrong.py", str(line), kind) in found for kind in expected), (text, found)
    assert {int(line) for file, line, _ in found if file == "wrong.py"} <= set(range(first, first + len(WRONG)))


def test_the_correct_program_runs(in_environment, tmp_path):
    """What checkers call correct is."""
    (tmp_path / "correct.py").write_text(PROGRAM)
    calls = ["assert correct.run_popxl().shape == (2, 3)", "assert abs(correct.train_with_session() - 0.1 / 3) < 1e-6"]
    result = in_environment("python", "-c", "\n".join(["import correct", *calls]))
    assert result.returncode == 0, result.stderr
