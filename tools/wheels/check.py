"""Uses an installed wheel, in an environment that has it: packages, a training session, a PopXL program, every command.

Needs nothing but the wheel and what it depends on. Ends with an error if anything is missing, or if a library was
loaded that belongs neither to the environment, nor to Python, nor to every Linux system.
"""

import importlib
import json
import re
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import popart
import popxl
import popxl.ops as ops

PACKAGES = ["popart_core", "popart", "popxl", "popdist", "pva", "popxl_addons", "popart_commands"]
SYSTEM = re.compile(r"(lib(c|m|dl|rt|pthread|util|gcc_s|stdc\+\+)\.so[.\d]*|ld-linux.*)$")
LIST_LIBRARIES = """
import importlib, json, sys
for name in json.loads(sys.argv[1]):
    try:
        importlib.import_module(name)
    except ImportError:
        pass
print(json.dumps([line.split(maxsplit=5)[5].strip() for line in open("/proc/self/maps") if ".so" in line]))
"""


def train() -> None:
    """A product trained by gradient descent: the loss follows NumPy's formula."""
    data, weights = np.full((4, 3), 0.5, np.float32), np.ones((3, 2), np.float32)
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [4, 3])
    w = builder.addInitializedInputTensor(weights, "w")
    loss = builder.aiGraphcore.l1loss([builder.aiOnnx.matmul([x, w])], 1.0, reduction=popart.ReductionType.Sum)
    session = popart.TrainingSession(
        fnModel=builder.getModelProto(),
        dataFlow=popart.DataFlow(1, [loss]),
        loss=loss,
        optimizer=popart.ConstSGD(0.05),
        deviceInfo=popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    for _ in range(3):
        session.run(popart.PyStepIO({x: data}, anchors))
        np.testing.assert_allclose(anchors[loss], np.abs(data @ weights).sum(), rtol=1e-5)
        weights = weights - np.float32(0.05) * (data.T @ np.ones((4, 2), np.float32))


def run_popxl() -> None:
    """A PopXL program gives what NumPy gives."""
    ir = popxl.Ir()
    with ir.main_graph:
        stream = popxl.d2h_stream((2, 2), popxl.float32)
        ops.host_store(stream, popxl.variable(np.eye(2, dtype=np.float32)) + 1.0)
    with popxl.Session(ir) as session:
        np.testing.assert_array_equal(session.run()[stream], np.eye(2) + 1)


def refuse_a_damaged_model() -> None:
    """The parser of messages refuses what is no model, with our exception."""
    Path("damaged.onnx").write_bytes(b"\xff\x00 no model")
    try:
        popart.Builder("damaged.onnx")
    except popart.popart_exception:
        return
    raise AssertionError("a damaged model was not refused")


def commands() -> list[str]:
    """Names of the programs that the wheel installs."""
    return sorted(entry.name for entry in distribution("openpopart").entry_points if entry.group == "console_scripts")


def foreign_libraries() -> set[str]:
    """Libraries that come with our modules alone and are neither the wheel's nor every system's."""
    others = sorted(name for name in sys.modules if name.split(".")[0] not in {*PACKAGES, "__main__"})
    without_us = json.loads(subprocess.check_output([sys.executable, "-c", LIST_LIBRARIES, json.dumps(others)]))
    maps = Path("/proc/self/maps").read_text().splitlines()
    with_us = {line.split(maxsplit=5)[5] for line in maps if ".so" in line}
    inside = str(Path(popart.__file__).resolve().parents[1])
    return {f for f in with_us - set(without_us) if not SYSTEM.match(Path(f).name) and not f.startswith(inside)}


def main() -> int | str:
    """Run all checks; returns the exit code, or what is wrong."""
    for name in PACKAGES:
        importlib.import_module(name)
    train()
    run_popxl()
    refuse_a_damaged_model()
    for name in commands():
        subprocess.run([Path(sys.executable).with_name(name), "--help"], check=True, stdout=subprocess.DEVNULL)
    foreign = foreign_libraries()
    return f"loaded from the system: {', '.join(sorted(foreign))}" if foreign else 0


if __name__ == "__main__":
    sys.exit(main())
