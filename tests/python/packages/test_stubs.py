"""Type checkers see the builder's operator methods, the compiled core and the sessions."""

import os
import re
import subprocess
import sys
from pathlib import Path

import popart.opsets
import pytest

ROOT = Path(__file__).resolve().parents[3]
BUILD = ROOT / "build" / os.environ.get("POPART_PRESET", "dev") / "python"

PROGRAM = """
import numpy as np
import popart

builder = popart.Builder()
x = builder.addInputTensor("FLOAT", [2, 4], "x")
w = builder.addInitializedInputTensor(np.zeros((4, 3), np.float32))
y = builder.aiOnnx.softmax([builder.aiOnnx.matmul([x, w])], axis=1, debugContext="y")
split: list[str] = builder.aiOnnxOpset11.split([y], num_outputs=2, axis=0)
loss = builder.aiGraphcore.l1loss([y], 0.1, reduction=popart.ReductionType.Mean)
session = popart.TrainingSession(
    builder.getModelProto(),
    popart.DataFlow(1, {loss: popart.AnchorReturnType("All")}),
    loss,
    popart.SGD({"defaultLearningRate": (0.1, True)}),
    popart.DeviceManager().createCpuDevice(),
)
session.prepareDevice()
"""
WRONG = {
    "y = builder.aiOnnx.softmax([x], axes=1)": "call-arg",
    "y = builder.aiOnnx.matmull([x, x])": "attr-defined",
    "y = builder.aiOnnx.concat([x, x], axis='0')": "arg-type",
    "y = builder.aiOnnxOpset6.erf([x])": "attr-defined",
    "number: int = builder.aiGraphcore.gelu([x])": "assignment",
    "flow = popart.DataFlow('1', {})": "call-overload|arg-type",
    "made = popart.SessionOption()": "attr-defined",
}


def check(program: str, folder: Path) -> str:
    """What mypy prints about a program."""
    (folder / "program.py").write_text(program)
    environment = os.environ | {"MYPYPATH": os.pathsep.join([str(ROOT / "python"), str(BUILD)])}
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--follow-imports=silent",
        "--cache-dir",
        str(folder / "cache"),
        "program.py",
    ]
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert result.returncode in (0, 1), result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("types")


def test_a_program_passes(folder):
    assert "Success" in check(PROGRAM, folder)


def test_mistakes_are_found(folder):
    printed = check(PROGRAM + "\n".join(WRONG), folder)
    first = PROGRAM.count("\n") + 1
    for line, kind in enumerate(WRONG.values(), first):
        assert re.search(rf"^program.py:{line}: error: .*\[({kind})\]$", printed, re.MULTILINE), (line, printed)
    assert printed.count(": error: ") == len(WRONG), printed


def test_stub_has_every_method():
    stub = (ROOT / "python/popart/opsets.pyi").read_text()
    for made in [*popart.opsets.NAMESPACES.values(), popart.opsets.AiGraphcoreOpset1]:
        part = stub.split(f"\nclass {made.__name__}(Opset):")[1].split("\nclass ")[0]
        declared = set(re.findall(r"^    def (\w+)\(", part, re.MULTILINE))
        assert declared == {name for name in vars(made) if not name.startswith("_")}
