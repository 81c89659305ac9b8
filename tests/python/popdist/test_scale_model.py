"""tools/scale_model.py: its times against formulas, against SimGrid, and for 65,536 processes."""

import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import popart
import pytest

ROOT = Path(__file__).resolve().parents[3]
FILE = ROOT / "tools" / "scale_model.py"


@pytest.fixture(scope="module")
def model():
    """The tool as a module."""
    spec = importlib.util.spec_from_file_location("scale_model", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def step(name, **given):
    return {"type": "OnTileExecute", "name": name, "kernel": "k", "children": [], "predictedNanoseconds": 5.0, **given}


def collective(elements, channel, is_published):
    return {
        "operation": "all-reduce",
        "type": "FLOAT",
        "groupSize": 2,
        "stride": 1,
        "elements": elements,
        "resultElements": [] if is_published else elements,
        "isPublished": is_published,
        "keeps": False,
        "channel": channel,
    }


def test_the_report_of_a_session_is_read(model):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [4, 8], "x")
    w = builder.addInitializedInputTensor(np.ones((8, 16), np.float32), "w")
    loss = builder.aiGraphcore.identityloss([builder.aiOnnx.matmul([x, w])], popart.ReductionType.Mean)
    options = popart.SessionOptions()
    options.enableReplicatedGraphs, options.replicatedGraphCount = True, 2
    options.engineOptions = {"debug.instrument": "true"}
    device = popart.DeviceManager().createCpuDevice()
    session = popart.TrainingSession(
        builder.getModelProto(), popart.DataFlow(1, [loss]), loss, popart.ConstSGD(0.1), device, userOptions=options
    )
    session.prepareDevice()
    session.weightsFromHost()
    session.run(popart.PyStepIO({"x": np.ones((2, 4, 8), np.float32)}, session.initAnchorArrays()))
    profile = model.Profile(json.loads(session._report()))
    assert profile.replicas == 2
    waited = [s.collective for s in profile.steps if s.collective and not s.collective.isPublished]
    assert sum(sum(c.elements) for c in waited) >= 8 * 16 and all(c.operation == "all-reduce" for c in waited)


def report_of(elements, first_ms=1.0, second_ms=1.0, trips=1):
    """A program that computes, publishes, computes and waits, in a loop; two runs, the first of which is slow."""
    body = [
        step("first"),
        step("publish", collective=collective([elements], 0, True)),
        step("second"),
        step("wait", collective=collective([elements], 0, False)),
    ]
    loop = {
        "type": "Repeat",
        "name": "loop",
        "kernel": "loop",
        "tripCount": trips,
        "children": [{"type": "Sequence", "name": "", "children": body}],
    }
    times = {"first": first_ms * 1e6, "publish": 1000.0, "second": second_ms * 1e6, "wait": 77e6}
    steps = [{"name": n, "kernel": "k", "calls": trips, "cycles": trips * ns} for n, ns in times.items()]
    slow = [{**one, "cycles": 3 * one["cycles"]} for one in steps]
    runs = [{"steps": slow}, {"steps": steps}]
    return {"target": {"clockFrequency": 1e9}, "programs": [loop], "runs": runs}


def test_a_hidden_exchange_costs_nothing(model):
    """What is left are the steps, with the predicted time of the one that waits."""
    profile = model.Profile(report_of(1024, trips=3))
    row = model.predict(profile, model.Job(2), model.Network())
    assert row["step_ms"] == pytest.approx(3 * (2 + 0.001 + 5e-6)) and row["exposed_ms"] == 0
    assert row["efficiency"] == pytest.approx(1)


@pytest.mark.parametrize("processes", [2, 3, 8])
def test_an_exposed_exchange_takes_what_the_formula_says(model, processes):
    """Direct: 2 (latency + (P - 1) message) + 2 (P - 1) / P N byte, and the joins; less the step that hides it."""
    elements, network = 64 * 4 * 9 * 1000, model.Network(latency=1e4, message=1e3, byte=0.5, join_byte=0.25)
    profile = model.Profile(report_of(elements))
    row = model.predict(profile, model.Job(processes), network)
    others, parts = processes - 1, 4 * elements / processes
    messages = 2 * (1e4 + others * 1e3) + 2 * others * parts * 0.5
    exchange = messages + others * parts * 0.25
    assert row["algorithms"] == {"direct": 1}
    assert row["exchange_ms"] * 1e6 == pytest.approx(exchange, rel=1e-3)
    assert row["step_ms"] * 1e6 == pytest.approx(1e6 + 1000 + exchange + 5, rel=1e-3)
    assert row["exposed_ms"] * 1e6 == pytest.approx(exchange - 1e6, rel=1e-3)


def test_processes_of_a_host_share_its_line_memory_and_cores(model):
    elements = 1 << 20
    profile = model.Profile(report_of(elements))
    network = model.Network(latency=0, message=0, byte=1.0, local_latency=0, local_byte=0.0, join_byte=0.0)
    apart = model.predict(profile, model.Job(4), network)
    pairs = model.predict(profile, model.Job(4, processes_of_host=2), network)
    # Of three peers one is near; the line has the bytes of both processes.
    assert pairs["exchange_ms"] == pytest.approx(apart["exchange_ms"] * 2 / 3 * 2, rel=1e-3)
    crowded = model.predict(profile, model.Job(4, processes_of_host=4, cores_of_host=2), network)
    assert crowded["compute_ms"] == pytest.approx(2 * apart["compute_ms"])
    assert crowded["efficiency"] == pytest.approx(0.5)


def test_larger_jobs_choose_the_algorithm_of_the_library(model):
    """65,536 processes are planned and predicted within seconds; halving has 2 log2 P latencies."""
    profile = model.Profile(report_of(64 << 16))
    network = model.Network(latency=1e4, message=1e3, byte=0, local_byte=0, join_byte=0)
    begin = time.monotonic()
    row = model.predict(profile, model.Job(1 << 16, processes_of_host=8), network)
    assert time.monotonic() - begin < 10
    assert row["algorithms"] == {"halving": 1} and row["replicas"] == 1 << 16
    latencies = 2 * (3 * network.local_latency + 13 * 1e4)  # the first three rounds stay on the host
    assert row["exchange_ms"] * 1e6 == pytest.approx(latencies + 2 * 16 * 1e3)


@pytest.mark.parametrize(
    "change, text",
    [
        ({"runs": []}, "no timed run"),
        ({"programs": [step("first")]}, "no collectives"),
    ],
)
def test_reports_that_say_too_little_are_refused(model, change, text):
    with pytest.raises(SystemExit, match=text):
        model.Profile(report_of(64) | change)


def has_simgrid():
    """Whether the system's Python has it."""
    found = subprocess.run(["/usr/bin/python3", "-c", "import simgrid"], capture_output=True)
    return found.returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not has_simgrid(), reason="needs Debian's python3-simgrid, which ./dev setup does not install")
@pytest.mark.parametrize(
    "processes, each_host, elements",
    [
        *((p, 1, n) for p in (4, 24, 64, 256, 1024) for n in (1 << 18, 1 << 20, 1 << 24)),
        *((64, 8, n) for n in (1 << 20, 1 << 24)),  # of shorter ones latencies count, which overlap within a host
    ],
)
def test_simgrid_agrees_within_15_percent(model, processes, each_host, elements):
    """The rounds of all processes on a fat tree. Memory of hosts, which the simulation does not share, is fast."""
    profile, job = model.Profile(report_of(elements)), model.Job(processes, processes_of_host=each_host)
    row = model.compare_with_simgrid(profile, job, model.Network(local_byte=1e-3))
    assert row["predicted_by_simulated"] == pytest.approx(1, abs=0.15), row
