"""Runs of programs with passes switched off: what a run gives, which passes changed the program, and comparison."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import popart

import onnx
from onnx import numpy_helper
from tests.python.popart.training_runs import inference_session, ready, training_session

Array = np.ndarray
Results = dict[str, Array]
Tried = tuple[list[str], list[str]]
TOOL = Path(__file__).resolve().parents[2] / "build" / os.environ.get("POPART_PRESET", "dev") / "bin" / "popart-opt"

# Sums in another order, and roundings to 16 bits in other places, relative to the largest value of an array. The bounds
# hold for programs of a few layers after a few updates.
ROUNDING = {"float64": 1e-12, "float32": 5e-5, "float16": 1e-2, "bfloat16": 6e-2}


@dataclass(frozen=True)
class Program:
    """A model, its options and its inputs.

    Attributes:
        build: Makes the model; gives its proto, its loss (None: inference) and further tensors to look at.
        feeds: Inputs of one micro-batch by name; each of `runs` runs gets other rounds of them (see `inputs_of`).
        optimizer: Makes the optimizer.
        options: Members of SessionOptions by name.
        ipus: Number of IPUs of one replica; above 1 the device is a model of IPUs.
        batches: Batches per step.
        factor: Micro-batches of an update.
        replicas: Replicas.
        runs: Number of runs.
        rounding: Factor on ROUNDING, with the reason in a comment.
        floor: Values this small, and smaller, may differ by as much as this one: sums that cancel to nothing.
        apart: Passes without which the results differ by more, with the reason.
    """

    build: Callable[[], tuple[bytes, str | None, list[str]]]
    feeds: Mapping[str, Array]
    optimizer: Callable[[], popart.Optimizer] = lambda: popart.ConstSGD(0.05)
    options: Mapping[str, object] | None = None
    ipus: int = 1
    batches: int = 1
    factor: int = 1
    replicas: int = 1
    runs: int = 2
    rounding: float = 1.0
    floor: float = 0.0
    apart: Mapping[str, str] = field(default_factory=dict)


def inputs_of(program: Program) -> Results:
    """The inputs of one step: every micro-batch and replica gets the values of `feeds` rolled by one more place."""
    lead = tuple(n for n in (program.batches, program.factor, program.replicas) if n > 1)
    inputs = {}
    for name, value in program.feeds.items():
        rolled = [np.roll(value, i) for i in range(int(np.prod(lead)))]
        inputs[name] = np.ascontiguousarray(np.stack(rolled).reshape(lead + value.shape) if lead else value)
    return inputs


def session_of(program: Program, off: str) -> tuple[popart.Session, list[str]]:
    """A session that is ready to run, and its anchors."""
    proto, loss, names = program.build()
    options = popart.SessionOptions()
    options.enableGradientAccumulation, options.accumulationFactor = program.factor > 1, program.factor
    options.enableReplicatedGraphs, options.replicatedGraphCount = program.replicas > 1, program.replicas
    for name, value in (program.options or {}).items():
        setattr(options, name, value)
    options.engineOptions = {"num_threads": "2", **options.engineOptions, "disable_passes": off}
    devices = popart.DeviceManager()
    ipus = program.ipus * program.replicas
    device = devices.createCpuDevice() if ipus == 1 else devices.createIpuModelDevice({"numIPUs": ipus})
    anchors = [*names, *([loss] if loss else [])]
    if loss is None:
        return ready(inference_session(proto, anchors, options, program.batches, device)), anchors
    session = training_session(proto, loss, program.optimizer(), options, anchors, program.batches, device)
    return ready(session, seed=7 if "Dropout" in str(onnx.load_from_string(proto)) else None), anchors


def results_of(program: Program, off: str = "") -> Results:
    """Anchors of all runs, and weights and optimizer state after them."""
    session, anchors = session_of(program, off)
    results = {}
    for run in range(program.runs):
        values = session.initAnchorArrays()
        session.run(popart.PyStepIO(inputs_of(program), values))
        results |= {f"{name} of run {run}": values[name].copy() for name in anchors}
    if isinstance(session, popart.TrainingSession):
        with tempfile.TemporaryDirectory() as folder:
            session.modelToHost(f"{folder}/model.onnx")
            for tensor in onnx.load(f"{folder}/model.onnx").graph.initializer:
                results[f"{tensor.name} afterwards"] = numpy_helper.to_array(tensor)
    return results


@functools.cache
def switchable_passes() -> tuple[str, ...]:
    """Names of the passes that may be switched off, in their order; those that run on request alone are left out."""
    listing = subprocess.run([TOOL, "--list-passes"], capture_output=True, text=True, check=True).stdout
    rows = re.findall(r"^(\w+) +(\w+): (.*)$", listing, re.MULTILINE)
    return tuple(name for name, phase, text in rows if phase != "OnRequest" and "(needed: " not in text)


@contextlib.contextmanager
def environment(name: str, value: str) -> Iterator[None]:
    """A variable of the environment has a value meanwhile."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before


def with_changes(run: Callable[[], Results]) -> tuple[Results, list[str]]:
    """What `run` gives with all passes on, and the switchable passes that changed a program meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        with environment("POPART_PASS_DUMP", folder):
            results = run()
        changed, text = set(), None
        for path in sorted(Path(folder).iterdir(), key=lambda path: int(path.stem.split("-")[0])):
            if path.read_text() != text:
                changed.add(path.stem.split("-", 1)[1])
            text = path.read_text()
    return results, [name for name in switchable_passes() if name in changed]


def difference(got: Results, expected: Results, rounding: float = 1.0, floor: float = 0.0) -> str:
    """What differs by more than rounding; empty: nothing."""
    if got.keys() != expected.keys():
        return f"other results: got {sorted(got)}, expected {sorted(expected)}"
    for name, value in expected.items():
        other = got[name]
        if (other.shape, other.dtype) != (value.shape, value.dtype):
            return f"{name}: got {other.dtype}{other.shape}, expected {value.dtype}{value.shape}"
        if value.dtype.kind not in "fV":
            if not np.array_equal(other, value):
                return f"{name}: got {other.ravel()[:8]}, expected {value.ravel()[:8]}"
            continue
        bound = rounding * ROUNDING[str(value.dtype)]
        a, b = other.astype(np.float64), value.astype(np.float64)
        if not np.array_equal(np.isfinite(a), np.isfinite(b)) or not np.array_equal(np.isnan(a), np.isnan(b)):
            return f"{name}: other elements are infinite or no numbers"
        finite = np.isfinite(b)
        most = np.abs(a[finite] - b[finite]).max(initial=0)
        largest = np.abs(b[finite]).max(initial=floor)
        if most > bound * largest:
            return f"{name}: differs by {most:.3g}, expected at most {bound:.1g} of {largest:.3g}"
    return ""


def compare(
    run: Callable[[str], Results], expected: Results, name: str, rounding: float = 1.0, floor: float = 0.0
) -> str:
    """What goes wrong when `run` is called with the pass `name` off; empty: nothing."""
    try:
        text = difference(run(name), expected, rounding, floor)
    except popart.popart_exception as problem:
        text = f"{type(problem).__name__}: {problem}"
    return f"without {name}: {text}" if text else ""


def problems_of(program: Program | Callable[[], Results], passes: Container[str] | None = None) -> Tried:
    """What goes wrong with passes off, one at a time, and these passes.

    Args:
        program: What is run; of a function, passes are off by environment.
        passes: The passes to try, of those that change the program; None: all of these.

    Returns:
        One text for each pass without which the results differ, and the names of the passes that were tried.
    """

    def run(off: str) -> Results:
        if isinstance(program, Program):
            return results_of(program, off)
        with environment("POPART_DISABLE_PASSES", off):
            return program()

    expected, changed = with_changes(lambda: run(""))
    plain = program if isinstance(program, Program) else Program(lambda: (b"", None, []), {})
    tried = [name for name in changed if name not in plain.apart and (passes is None or name in passes)]
    texts = [compare(run, expected, name, plain.rounding, plain.floor) for name in tried]
    return [text for text in texts if text], tried
