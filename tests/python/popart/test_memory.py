"""Memory: what a session predicts is what the process grows by, and no second copy of large weights is kept."""

import json
import subprocess
import sys

import numpy as np
import pytest

import onnx
from onnx import TensorProto, helper, numpy_helper

# Runs a model in a process of its own and prints the report, and by how much the process grew without library code.
MEASURE = """
import json, re, sys
from pathlib import Path
import numpy as np
import popart

def resident():
    text = Path("/proc/self/status").read_text()
    return {key: int(re.search(key + r":\\s+(\\d+)", text).group(1)) << 10 for key in ("VmRSS", "RssFile", "VmHWM")}

def run(path, training):
    flow = popart.DataFlow(1, ["loss" if training else "output"])
    device = popart.DeviceManager().createCpuDevice()
    model = Path(path).read_bytes()
    Path("/proc/self/clear_refs").write_text("5")
    before = resident()
    if training:
        values = {"defaultLearningRate": (0.1, True), "defaultMomentum": (0.9, True)}
        session = popart.TrainingSession(model, flow, "loss", popart.SGD(values), device)
    else:
        session = popart.InferenceSession(model, flow, device)
    session.prepareDevice()
    if training:
        session.weightsFromHost()
    anchors = session.initAnchorArrays()
    shape = session.getInfo("input").shape()
    for _ in range(2):
        session.run(popart.PyStepIO({"input": np.ones(shape, np.float32)}, anchors))
    after = resident()
    code = after["RssFile"] - before["RssFile"]
    report = {}
    for line in session.getSummaryReport().splitlines():
        if line.endswith(" bytes"):
            key, _, value = line.strip().rpartition(": ")
            report[key] = int(value.split()[0])
    return session, {"report": report, "peak": after["VmHWM"] - before["VmRSS"] - code}

keep, _ = run(sys.argv[1], False)
keep_too, answer = run(sys.argv[2], sys.argv[3] == "training")
print(json.dumps(answer))
"""


def save(path, rows, width, layers, transposed, loss=False):
    """Gemm layers with ReLU; `transposed`: weights lie as (out, in)."""
    rng = np.random.default_rng(0)
    nodes, weights, value = [], [], "input"
    for layer in range(layers):
        weights.append(numpy_helper.from_array(rng.normal(0, 0.01, (width, width)).astype(np.float32), f"w{layer}"))
        result = "output" if layer == layers - 1 else f"r{layer}"
        nodes.append(helper.make_node("Gemm", [value, f"w{layer}"], [f"g{layer}"], transB=int(transposed)))
        nodes.append(helper.make_node("Relu", [f"g{layer}"], [result]))
        value = result
    outputs = [helper.make_tensor_value_info("output", TensorProto.FLOAT, [rows, width])]
    if loss:
        nodes.append(helper.make_node("ReduceMean", ["output"], ["loss"], keepdims=0))
        outputs = [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])]
    graph = helper.make_graph(
        nodes, "layers", [helper.make_tensor_value_info("input", TensorProto.FLOAT, [rows, width])], outputs, weights
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return str(path)


def measure(tmp_path, *arguments):
    small = save(tmp_path / "small.onnx", 2, 8, 2, transposed=True)
    result = subprocess.run([sys.executable, "-c", MEASURE, small, *arguments], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("mode", ["inference", "training"])
def test_predicted_peak_is_what_the_process_grows_by(tmp_path, mode, transposed):
    path = save(tmp_path / "large.onnx", 64, 1500, 6, transposed, loss=mode == "training")
    answer = measure(tmp_path, path, mode)
    report, weights = answer["report"], 6 * 1500 * 1500 * 4
    assert report["predicted peak"] == report["total"] + report["host copies"] + report["program"]
    assert report["predicted peak"] == pytest.approx(answer["peak"], rel=0.05)
    copies = 3 if mode == "training" else 2  # on the host; on the device, with momentum when training
    assert answer["peak"] < (copies + 0.5) * weights
    assert report["activations"] <= 1.05 * report["largest live set"]
