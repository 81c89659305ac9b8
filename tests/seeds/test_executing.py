"""The fragments of "Executing graphs" (document 001), as printed, each in the context that it needs.

A fragment is found by its first and last line; the names it uses are put into its namespace before it runs.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import popart
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from documents import Document, find_document, run_program

ROOT = Path(__file__).resolve().parents[2]
GUIDE = find_document("001")
FLOAT = np.float32


@pytest.fixture
def guide() -> Document:
    """The document, read from its beginning."""
    if GUIDE is None:
        pytest.skip("needs the document 001 (set POPART_SEEDS)")
    return Document(GUIDE)


def cpu() -> popart.DeviceInfo:
    return popart.DeviceManager().createCpuDevice()


def addition() -> tuple[popart.Builder, str]:
    """A model that adds the inputs a and b, of one element each, and a weight w = 10."""
    builder = popart.Builder()
    a, b = (builder.addInputTensor("FLOAT", [1], name) for name in "ab")
    w = builder.addInitializedInputTensor(np.array([10], FLOAT), "w")
    out = builder.aiOnnx.add([builder.aiOnnx.add([a, b]), w])
    builder.addOutputTensor(out)
    return builder, out


def training(rate: float = 0.5) -> tuple[popart.TrainingSession, str]:
    """A session that minimises the sum of a * w; the gradient of w is a."""
    builder = popart.Builder()
    a = builder.addInputTensor("FLOAT", [1], "a")
    w = builder.addInitializedInputTensor(np.array([10], FLOAT), "w")
    product = builder.aiOnnx.mul([a, w])
    loss = builder.aiGraphcore.identityloss([product], reduction=popart.ReductionType.Sum)
    builder.addOutputTensor(loss)
    optimizer = popart.SGD({"defaultLearningRate": (rate, False)})
    session = popart.TrainingSession(builder.getModelProto(), popart.DataFlow(1, [loss]), loss, optimizer, cpu())
    session.prepareDevice()
    return session, loss


def weight(session: popart.TrainingSession) -> float:
    """The value of w on the device."""
    value = np.empty(1, FLOAT)
    session.weightsToHost()
    session.readWeights(popart.PyWeightsIO({"w": value}))
    return float(value[0])


def test_step_io(guide: Document):
    """Arrays for results, random inputs, one run."""
    builder, out = addition()
    session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [out]), cpu())
    session.prepareDevice()
    namespace = {"popart": popart, "np": np, "session": session}
    run_program(guide.text("# Create buffers to receive results from the execution", "session.run(stepio)"), namespace)
    expected = namespace["data_a"] + namespace["data_b"] + 10
    np.testing.assert_allclose(namespace["anchors"][out], expected, rtol=1e-6)


def test_weights_go_to_the_device_and_the_learning_rate_changes_between_steps(guide: Document):
    """WeightsFromHost and updateOptimizerFromHost."""
    session, _ = training(rate=0.5)
    stepio = popart.PyStepIO({"a": np.ones(1, FLOAT)}, session.initAnchorArrays())
    with pytest.raises(popart.popart_runtime_error, match="weightsFromHost"):
        session.run(stepio)
    run_program(guide.text("session.weightsFromHost()", "session.weightsFromHost()"), {"session": session})
    fragment = guide.text("# Update learning rate parameter between training steps",
                          "session.updateOptimizerFromHost(popart.SGD(stepLr))")  # fmt: skip
    values, rates = [10.0], [0.25, 0.125, 2.0]
    for step in range(len(rates)):
        run_program(fragment, {"popart": popart, "session": session, "learningRate": rates, "step": step})
        session.run(stepio)
        values.append(weight(session))
    np.testing.assert_allclose(np.diff(values), [-rate for rate in rates], rtol=1e-6)


RETURNS = {
    "ALL": [11.0, 12.0, 13.0, 14.0],
    "EVERYN": [12.0, 14.0],
    "FINAL": [14.0],
    "SUM": [50.0],
}


def test_every_return_type_of_the_document(guide: Document):
    """DataFlow of the example; each AnchorReturnTypeId returns what its line says."""
    assert re.findall(r"AnchorReturnTypeId\.(\w+)", "\n".join(guide.lines)) == list(RETURNS)
    builder, out = addition()
    namespace = {"popart": popart, "o": out}
    line = 'df = popart.DataFlow(1, {o: popart.AnchorReturnType("ALL")})'
    run_program(guide.text(line, line), namespace)
    assert namespace["df"].anchors() == [out] and namespace["df"].batchesPerStep() == 1
    for kind, expected in RETURNS.items():
        returned = popart.AnchorReturnType(kind, 2) if kind == "EVERYN" else popart.AnchorReturnType(kind)
        session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(4, {out: returned}), cpu())
        session.prepareDevice()
        anchors = session.initAnchorArrays()
        inputs = {"a": np.arange(4, dtype=FLOAT), "b": np.ones(4, FLOAT)}
        session.run(popart.PyStepIO(inputs, anchors))
        np.testing.assert_allclose(anchors[out].reshape(-1), expected, rtol=1e-6)


def test_anchors_may_differ_from_the_outputs_of_the_model(guide: Document):
    """Any tensor can be anchored, a model's output need not be."""
    assert "any tensor can be anchored" in " ".join(guide.lines)
    builder, out = addition()
    (inner,) = set(builder.getValueTensorIds()) - {out}
    session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [inner]), cpu())
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"a": np.ones(1, FLOAT), "b": np.ones(1, FLOAT)}, anchors))
    assert list(anchors) == [inner] and anchors[inner] == [2.0]


def test_stochastic_rounding_option(guide: Document):
    """The option is taken; float32 results do not depend on it."""
    namespace = {"popart": popart}
    run_program(guide.text("opts = popart.SessionOptions()", "opts.enableStochasticRounding = True"), namespace)
    assert namespace["opts"].enableStochasticRounding is True


def test_session_on_a_device(guide: Document, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A model file, a data flow and a device make a session; prepareDevice and run execute it."""
    monkeypatch.chdir(tmp_path)
    builder, out = addition()
    builder.saveModelProto("onnx.pb")
    title = "5.3. Selecting a device for execution"
    guide.text(title, title)
    namespace = {"popart": popart, "o": out}
    first = 'df = popart.DataFlow(1, {o: popart.AnchorReturnType("ALL")})'
    run_program(guide.text(first, 's = popart.InferenceSession("onnx.pb", deviceInfo=device, dataFlow=df)'), namespace)
    namespace["session"] = namespace["s"]
    run_program(guide.text("session.prepareDevice()", "session.prepareDevice()"), namespace)
    anchors = namespace["session"].initAnchorArrays()
    namespace["stepio"] = popart.PyStepIO({"a": np.ones(1, FLOAT), "b": np.ones(1, FLOAT)}, anchors)
    run_program(guide.text("session.run(stepio)", "session.run(stepio)"), namespace)
    assert anchors[out] == [12.0]


def test_acquiring_devices(guide: Document):
    """Two IPUs, the device of id 5, four IPUs on demand."""
    namespace = {"popart": popart}
    for comment, last, ipus in (
        ("# Acquire a two-IPU pair", "dev = popart.DeviceManager().acquireAvailableDevice(2)", 2),
        ("# Acquire IPU configuration 5", "dev = popart.DeviceManager().acquireDeviceById(5)", 1),
        ("# Acquire four IPUs on demand",
         "dev = popart.DeviceManager().acquireAvailableDevice(4, connectionType=connectionType)", 4),
    ):  # fmt: skip
        run_program(guide.text(comment, last), namespace)
        device = namespace["dev"]
        assert device.numIpus == ipus and device.isAttached == (ipus != 4)
        assert ipus != 1 or device.id == 5
        device.detach()


def test_saving_and_loading_a_model(guide: Document, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """ModelToHost writes trained weights; resetHostWeights and weightsFromHost load them."""
    monkeypatch.chdir(tmp_path)
    session, _ = training(rate=0.5)
    session.weightsFromHost()
    stepio = popart.PyStepIO({"a": np.ones(1, FLOAT)}, session.initAnchorArrays())
    session.run(stepio)
    line = 'session.modelToHost("trained_model.onnx")'
    run_program(guide.text(line, line), {"session": session})
    os.rename("trained_model.onnx", "test.onnx")
    session.run(stepio)
    assert weight(session) == 9.0
    fragment = guide.text('session.resetHostWeights("test.onnx")', "session.weightsFromHost()")
    run_program(fragment, {"session": session})
    assert weight(session) == 9.5


def test_profiling_report(guide: Document):
    """The options are taken; the summary says that execution profiling is not enabled."""
    title = "5.6. Retrieving profiling reports"
    guide.text(title, title)
    first, last = "opts = popart.SessionOptions()", 'opts.engineOptions = {"autoReport.all": "true"}'
    namespace = {"popart": popart}
    run_program(guide.text(first, last), namespace)
    line = 'opts.reportOptions = {"showExecutionSteps": "true"}'
    run_program(guide.text(line, line), namespace)
    builder, out = addition()
    session = popart.InferenceSession(
        builder.getModelProto(), popart.DataFlow(1, [out]), cpu(), userOptions=namespace["opts"]
    )
    session.prepareDevice()
    assert "Execution profiling not enabled" in session.getSummaryReport()


LOGGING_PROGRAM = """
import numpy as np
import popart
{fragment}
builder = popart.Builder()
x = builder.addInputTensor("FLOAT", [1], "x")
y = builder.aiOnnx.relu([x])
device = popart.DeviceManager().createCpuDevice()
session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), device)
session.prepareDevice()
popart.getLogger().debug("said by the program")
"""
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z popart:(\w+) \d+\.\d+ ([TDIWEC]): .+")


def log_lines(fragment: str, **environment: str) -> list[tuple[str, str]]:
    """(module, initial of the level) of every line that a small program logs; each has the documented format."""
    program = LOGGING_PROGRAM.format(fragment=fragment)
    env = {key: value for key, value in os.environ.items() if not key.startswith("POPART_LOG")} | environment
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
    assert result.returncode == 0, result.stderr
    matches = [LINE.fullmatch(line) for line in result.stderr.splitlines()]
    assert all(matches), result.stderr
    return [match.groups() for match in matches if match]


def table_names(guide: Document, title: str, count: int) -> list[str]:
    """The first column of the table of `count` rows below a line."""
    rows = guide.lines[guide.lines.index(title) + 1 :]
    names = [row.removesuffix(" |") for row in rows if re.fullmatch(r"\w+ \|", row)]
    return [name for name in names if name.isupper() or name.islower()][:count]


def test_logging_of_every_module(guide: Document):
    """Debug lines of all modules, then those of the session left out."""
    first = guide.text("# Set all modules to DEBUG level", 'popart.getLogger().setLevel("DEBUG")')
    second = guide.text("# Turn off logging for the session module", 'popart.getLogger("session").setLevel("OFF")')
    lines = log_lines(first)
    assert {"session", "python", "transform"} <= {module for module, _ in lines} and ("session", "I") in lines
    lines = log_lines(first + second)
    modules = {module for module, _ in lines}
    assert "session" not in modules and {"python", "transform"} <= modules


def test_logging_levels_of_the_document(guide: Document):
    """Each level shows itself and what is more severe; OFF shows nothing."""
    names = table_names(guide, "The logging levels, in decreasing verbosity, are shown below.", 7)
    assert names == ["TRACE", "DEBUG", "INFO", "WARN", "ERR", "CRITICAL", "OFF"]
    counts = [len(log_lines("", POPART_LOG_LEVEL=name)) for name in names]
    assert counts == sorted(counts, reverse=True) and counts[1] > counts[2] > counts[3] and counts[-1] == 0


def test_logging_modules_of_the_document(guide: Document, tmp_path: Path):
    """Every module of the table can be set by itself."""
    modules = table_names(guide, "Logging information is generated from the following modules:", 12)
    assert modules[0] == "popart" and modules[-1] == "none"
    config = tmp_path / "levels.json"
    config.write_text(json.dumps(dict.fromkeys(modules, "OFF") | {"session": "DEBUG"}))
    assert {module for module, _ in log_lines("", POPART_LOG_CONFIG=str(config))} == {"session"}


def test_logging_example_lines_have_the_format(guide: Document):
    """The example lines of the document match the expression used above."""
    start = guide.lines.index("An example of log information is:")
    examples = guide.lines[start + 1 : start + 4]
    assert len(examples) == 3 and all(LINE.fullmatch(line) for line in examples)


CPP_PROGRAM = """
#include <popart/logger.hpp>
int main() {{
{fragment}
  popart::logging::session::debug("session, after {{}}", "the fragment");
  popart::logging::ir::debug("ir, after the fragment");
}}
"""


@pytest.mark.parametrize("lines, modules", [(1, ["session", "ir"]), (2, ["ir"])])
def test_logging_from_cpp(guide: Document, tmp_path: Path, lines: int, modules: list[str]):
    """The C++ form of the two settings."""
    preset = os.environ.get("POPART_PRESET", "dev")
    if preset in ("asan", "tsan"):
        pytest.skip(f"a program needs the flags of preset {preset} to link with its library")
    fragment = [guide.text("// Set all modules to DEBUG level", 'popart::logger::setLevel("popart", "DEBUG")')]
    fragment.append(guide.text("// Turn off logging for the session module",
                               'popart::logger::setLevel("session", "OFF")'))  # fmt: skip
    # The document leaves out the semicolons.
    text = "".join(part.rstrip() + ";\n" for part in fragment[:lines])
    source, program, library = tmp_path / "main.cpp", tmp_path / "main", ROOT / "build" / preset / "lib"
    source.write_text(CPP_PROGRAM.format(fragment=text))
    flags = ["-std=c++20", f"-I{ROOT / 'include'}", f"-L{library}", f"-Wl,-rpath,{library}"]
    subprocess.run(["g++", *flags, str(source), "-o", str(program), "-lpopart"], check=True)
    result = subprocess.run([str(program)], capture_output=True, text=True, check=True)
    matches = [LINE.fullmatch(line) for line in result.stderr.splitlines()]
    assert [match.group(1) for match in matches if match] == modules


def test_error_hierarchy(guide: Document):
    """Every error of the document exists, under the base that its name says, and can be caught."""
    start = guide.lines.index("popart_exception")
    names = guide.lines[start : guide.lines.index("5.8.1. Application errors")]
    assert len(names) == 11
    for name in names:
        error = getattr(popart, name.strip())
        assert issubclass(error, Exception)
        if name.startswith("popart_"):
            assert issubclass(error, popart.popart_exception)
        elif name.startswith("poplar_"):
            assert issubclass(error, popart.poplar_exception)
    for name in ("recoverable", "unrecoverable", "unknown"):
        assert issubclass(getattr(popart, f"poplar_{name}_runtime_error"), popart.poplar_system_runtime_error)
    for name in guide.lines[start:]:
        if name.startswith("popart.RecoveryAction."):
            assert hasattr(popart.RecoveryAction, name.split(".")[2])
    with pytest.raises(popart.poplar_recoverable_runtime_error) as caught:
        popart._throw_recoverable_runtime_error("x")
    assert caught.value.recoveryAction == popart.RecoveryAction.IPU_RESET
