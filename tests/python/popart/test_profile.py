"""Profiles of sessions: what is recorded, where it is written, and that the session continues as before."""

from __future__ import annotations

import gc
import json
from itertools import pairwise

import numpy as np
import popart
import popxl
import pva
import pytest
from popart.profile.facts import PHASES, WHOLE_STEP, Profile, changes, walk
from popart.profile.page import page_of
from popart.profile.trace import trace_of
from popxl import ops

ROWS, WIDTH, LAYERS = 64, 96, 3
X = np.linspace(-1, 1, ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH)


def made(training=True, threads=2, name="model", device=None, replicas=1, **engine_options):
    """A session of named layers: net/block0/product, net/block0/squash and so on."""
    builder = popart.Builder()
    y = builder.addInputTensor("FLOAT", [ROWS, WIDTH], "x")
    for i in range(LAYERS):
        weight = np.random.default_rng(i).normal(size=(WIDTH, WIDTH), scale=0.1).astype(np.float32)
        w = builder.addInitializedInputTensor(weight, f"w{i}")
        y = builder.aiOnnx.matmul([y, w], debugContext=f"net/block{i}/product")
        y = builder.aiOnnx.tanh([y], debugContext=f"net/block{i}/squash")
    options = popart.SessionOptions()
    options.engineOptions = {"num_threads": str(threads), **engine_options}
    options.enableReplicatedGraphs, options.replicatedGraphCount = replicas > 1, replicas
    device = device or popart.DeviceManager().createCpuDevice()
    if not training:
        builder.addOutputTensor(y)
        flow = popart.DataFlow(1, [y])
        session = popart.InferenceSession(builder.getModelProto(), flow, device, userOptions=options, name=name)
        session.prepareDevice()
        return session
    loss = builder.aiGraphcore.l1loss([y], 0.1)
    optimizer = popart.SGD({"defaultLearningRate": (0.1, False), "defaultMomentum": (0.9, True)})
    flow = popart.DataFlow(1, [loss])
    session = popart.TrainingSession(
        builder.getModelProto(), flow, loss, optimizer, device, userOptions=options, name=name
    )
    session.prepareDevice()
    session.weightsFromHost()
    return session


def step_of(session):
    return popart.PyStepIO({"x": X}, session.initAnchorArrays())


def values(session):
    """Weights as the device has them."""
    session.weightsToHost()
    arrays = {f"w{i}": np.zeros((WIDTH, WIDTH), np.float32) for i in range(LAYERS)}
    session.readWeights(popart.PyWeightsIO(arrays))
    return arrays


def test_a_profile_has_the_layers_phases_and_threads_of_its_runs():
    session = made()
    report = session.profile(step_of(session), runs=3, warmUp=1)
    profile = Profile(report._facts)
    assert len(profile.runs) == 3 and len(report.execution.runs) == 3
    layers = {step.layer for step in profile.steps}
    assert {f"net/block{i}/product" for i in range(LAYERS)} <= layers
    assert {step.phase for step in profile.steps} >= {"forward", "backward", "host"}
    assert {one.name for one in profile.by_phase()} <= set(PHASES)
    products = [step for step in profile.steps if step.layer == "net/block1/product" and step.phase == "forward"]
    assert products and sum(step.flops for step in products) >= 2 * ROWS * WIDTH * WIDTH
    assert all(step.title.startswith(step.name) for step in profile.steps)
    root = profile.scopes()
    assert set(root.children["net"].children) == {f"block{i}" for i in range(LAYERS)}
    assert root.nanoseconds == pytest.approx(sum(child.nanoseconds for child in root.children.values()))
    assert 0 < profile.step_nanoseconds <= profile.run_nanoseconds * 1.5
    assert profile.machine["flopsPerSecond"] > 1e8 and profile.machine["bytesPerSecond"] > 1e8
    assert profile.limit_nanoseconds > 0
    assert len(profile.passes) > 20 and all(one.nanoseconds >= 0 for one in profile.passes)
    assert len(profile.between_runs) == 2


def test_values_that_stay_in_the_memory_of_the_host_count_no_bytes():
    session = made()
    profile = Profile(session.profile(step_of(session))._facts)
    entries = [entry for entry in walk(profile.facts["programs"]) if entry["kernel"] == "host load"]
    assert [entry["bytes"] for entry in entries if entry.get("canShareHostMemory")] == [X.nbytes]
    loads = [step for step in profile.steps if step.kernel == "host load"]
    assert loads and all(step.bytes == 0 for step in loads)


def test_events_are_inside_of_their_run_and_their_step():
    session = made()
    profile = Profile(session.profile(step_of(session))._facts)
    for run in profile.runs:
        assert run["lostEvents"] == 0
        calls = {}
        for number, thread, begin, end, busy in run["events"]:
            assert 0 <= begin <= end <= run["nanoseconds"] and 0 <= busy <= end - begin
            assert WHOLE_STEP <= thread < profile.threads
            if thread == WHOLE_STEP:
                calls.setdefault(number, []).append((begin, end))
        for number, thread, begin, end, _ in run["events"]:
            if thread != WHOLE_STEP:
                assert any(first <= begin and end <= last for first, last in calls[number])
        assert {number: len(times) for number, times in calls.items()} == {
            row["number"]: row["calls"] for row in run["steps"]
        }
        for row in run["steps"]:
            assert sum(last - first for first, last in calls[row["number"]]) == row["nanoseconds"]


def test_training_goes_on_with_the_same_bits_while_it_is_profiled():
    plain, profiled = made(), made()
    for _ in range(4):
        plain.run(step_of(plain))
    profiled.run(step_of(profiled))
    step = step_of(profiled)
    calls = []

    def run():
        calls.append(1)
        profiled.run(step)

    profiled.profile(run, runs=1, warmUp=1)
    assert len(calls) == 2
    profiled.run(step)
    expected, got = values(plain), values(profiled)
    assert all(np.array_equal(expected[name], got[name]) for name in expected)
    assert not np.array_equal(expected["w0"], values(made())["w0"])


def test_a_session_is_not_timed_before_and_after_its_profile():
    session = made(training=False)
    step = step_of(session)
    session.run(step)
    assert session.getReport().execution.runs == []
    session.profile(step, runs=2)
    session.run(step)
    assert session._runsToProfile() == (0, 0)
    assert session.getReport().execution.runs == []


@pytest.mark.parametrize(("runs", "before"), [(0, 1), (-1, 1), (1, -1)])
def test_numbers_of_runs_that_make_no_sense_are_refused(runs, before):
    session = made(training=False)
    with pytest.raises(ValueError, match=f"runs: got {runs}" if runs < 1 else f"warmUp: got {before}"):
        session.profile(step_of(session), runs=runs, warmUp=before)


def test_a_session_that_is_not_loaded_is_refused():
    session = made(training=False)
    session.setEngineIsLoaded(False)
    with pytest.raises(popart.popart_runtime_error, match="profileRuns"):
        session.profile(step_of(session))


def test_a_run_that_fails_ends_the_profile():
    session = made(training=False)

    def run():
        raise RuntimeError("no data")

    with pytest.raises(RuntimeError, match="no data"):
        session.profile(run)
    assert session._runsToProfile() == (0, 0)


def test_lanes_and_loops_have_events_of_all_their_steps():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [8, 4, 16], "x")
    w, r = (builder.addInitializedInputTensor(np.full((2, 64, 16), 0.1, np.float32), name) for name in ("W", "R"))
    y, *_ = builder.aiOnnx.lstm([x, w, r], 3, clip=None, direction="bidirectional", hidden_size=16)
    builder.addOutputTensor(y)
    options = popart.SessionOptions()
    options.engineOptions = {"num_threads": "2", "pipeline.concurrent": "always"}
    device = popart.DeviceManager().createCpuDevice()
    session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), device, userOptions=options)
    session.prepareDevice()
    data = np.ones((8, 4, 16), np.float32)
    profile = Profile(session.profile(popart.PyStepIO({"x": data}, session.initAnchorArrays()), runs=1)._facts)
    (run,) = profile.runs
    counted = {row["number"]: row["calls"] for row in run["steps"]}
    assert max(counted.values()) >= 8
    whole = [event for event in run["events"] if event[1] == WHOLE_STEP]
    assert {number: sum(e[0] == number for e in whole) for number in counted} == counted
    assert {event[1] for event in run["events"]} == {WHOLE_STEP, 0, 1}


# ---- files


def test_options_and_the_environment_write_a_profile_of_the_first_runs(tmp_path, monkeypatch):
    """2 runs warm up, 5 are recorded; then the session runs as if nothing had been asked."""
    session = made(name="by option", profile=str(tmp_path / "a"))
    step = step_of(session)
    for i in range(9):
        session.run(step)
        assert ("run" in session.__dict__) == (i < 6)
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [
        "by_option-1.html", "by_option-1.json", "by_option-1.trace.json",
    ]  # fmt: skip
    assert len(pva.openReport(tmp_path / "a" / "by_option-1.json").execution.runs) == 5
    monkeypatch.setenv("POPART_PROFILE", str(tmp_path / "b"))
    first, second = made(training=False), made(training=False, profile="none")
    for one in (first, second):
        step = step_of(one)
        for _ in range(4):
            one.run(step)
    del first, second, one
    gc.collect()
    (report,) = (pva.openReport(path) for path in (tmp_path / "b").glob("model-?.json"))
    assert len(report.execution.runs) == 2  # the session ended before all were recorded


def test_a_followed_session_computes_the_same(tmp_path):
    plain, followed = made(), made(profile=str(tmp_path))
    for session in (plain, followed):
        step = step_of(session)
        for _ in range(9):
            session.run(step)
    expected, got = values(plain), values(followed)
    assert all(np.array_equal(expected[name], got[name]) for name in expected)


def test_a_second_profile_does_not_take_the_place_of_the_first(tmp_path):
    for _ in range(2):
        session = made(training=False, profile=str(tmp_path), **{"autoReport.executionProfileProgramRunCount": "1"})
        for _ in range(3):
            session.run(step_of(session))
    assert sorted(path.name for path in tmp_path.glob("*.html")) == ["model-1.html", "model-2.html"]


def test_a_folder_that_cannot_be_written_to_does_not_end_the_program(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    session = made(training=False, profile=str(tmp_path / "file"))
    with caplog.at_level("WARNING", logger="popart"):
        for _ in range(7):
            session.run(step_of(session))
    assert any("file" in record.message and "Give another folder" in record.message for record in caplog.records)


def test_all_replicas_of_the_process_are_timed():
    session = made(replicas=3)
    step = popart.PyStepIO({"x": np.stack([X] * 3)}, session.initAnchorArrays())
    report = session.profile(step, runs=2, warmUp=1)
    profile = Profile(report._facts)
    assert profile.replicas == {"all": 3, "first": 0, "here": 3, "recorded": 0}
    assert [one.replica for one in profile.replica_times] == [0, 1, 2]
    for one in profile.replica_times:
        assert 0 < one.collective_nanoseconds < one.nanoseconds < 2 * profile.run_nanoseconds
    for run in profile.runs:
        calls = {row["number"]: row["calls"] for row in run["steps"]}
        assert [other["replica"] for other in run["otherReplicas"]] == [1, 2]
        for other in run["otherReplicas"]:  # the same program, in the same runs
            assert {row["number"]: row["calls"] for row in other["steps"]} == calls
            assert other["lostEvents"] == 0
            whole = [event for event in other["events"] if event[1] == WHOLE_STEP]
            for row in other["steps"]:
                spans = [end - begin for number, _, begin, end, _ in whole if number == row["number"]]
                assert (len(spans), sum(spans)) == (row["calls"], row["nanoseconds"])
            assert all(0 <= begin <= end <= run["nanoseconds"] for _, _, begin, end, _ in other["events"])
    assert list(profile.events_by_replica) == list(profile.busy) == [0, 1, 2]
    page = page_of(profile)
    assert "replica 0 of 3" in page and 'id="replicas-table"' in page
    assert all(f">replica {number}: steps<" in page for number in range(3))
    trace = trace_of(profile)["traceEvents"]
    groups = {event["args"]["name"]: event["pid"] for event in trace if event["name"] == "process_name"}
    assert list(groups) == [*(f"replica {number} of session 'model'" for number in range(3)), "compiler"]
    for number in range(3):
        of_replica = [event for event in trace if event["pid"] == groups[f"replica {number} of session 'model'"]]
        threads = {event["args"]["name"] for event in of_replica if event["name"] == "thread_name"}
        assert {"steps", "thread 0"} <= threads
        assert len([event for event in of_replica if event["ph"] == "X"]) > 2 * len(calls)
    alone = Profile(made(training=False).getReport()._facts)
    assert alone.replica_times == [] and 'id="replicas-table"' not in page_of(alone)


def test_a_trace_has_a_track_for_each_thread_and_a_counter(tmp_path):
    session = made()
    report = session.profile(step_of(session), runs=2)
    report.to_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {event["args"]["name"] for event in trace if event["ph"] == "M"}
    assert {"runs", "steps", "thread 0", "thread 1", "compiler"} <= names
    spans = [event for event in trace if event["ph"] == "X"]
    assert all(span["dur"] >= 0 and span["ts"] >= 0 for span in spans)
    assert any(event["ph"] == "C" and event["args"]["bytes in use"] > 0 for event in trace)
    tracks = {}
    for span in spans:
        tracks.setdefault((span["pid"], span["tid"]), []).append((span["ts"], span["ts"] + span["dur"]))
    for key, times in tracks.items():  # viewers draw what overlaps as if one called the other
        times.sort()
        if key[0] == 1:
            assert all(before[1] <= after[0] + 1e-3 for before, after in pairwise(times)), key


def test_live_bytes_at_the_peak_are_those_of_the_memory_plan():
    session = made()
    profile = Profile(session.profile(step_of(session), runs=1)._facts)
    memory = profile.facts["memory"]
    # the plan counts places, which are aligned
    assert 0.95 * memory["largestLiveSet"] <= profile.live_bytes[profile.peak] <= memory["largestLiveSet"]
    alive = profile.alive(profile.peak)
    assert sum(value.bytes for value in alive) >= profile.live_bytes[profile.peak]
    assert [value.bytes for value in alive] == sorted((value.bytes for value in alive), reverse=True)


def test_files_that_have_events_of_one_replica_are_shown():
    """Those that earlier builds wrote."""
    session = made(replicas=2)
    step = popart.PyStepIO({"x": np.stack([X] * 2)}, session.initAnchorArrays())
    facts = session.profile(step, runs=1)._facts
    for run in facts["runs"]:
        for other in run["otherReplicas"]:
            del other["events"], other["lostEvents"]
    profile = Profile(facts)
    assert list(profile.events_by_replica) == [0]
    page = page_of(profile)
    assert 'id="time-line"' in page and "replica 1: steps" not in page and 'id="replicas-table"' in page
    assert len(trace_of(profile)["traceEvents"]) > len(profile.events)


def test_changes_are_sorted_by_their_size():
    session = made(training=False)
    before, after = (Profile(session.profile(step_of(session), runs=1)._facts) for _ in range(2))
    rows = changes(before.by_layer(), after.by_layer())
    assert {row.name for row in rows} == {one.name for one in before.by_layer()}
    sizes = [abs(row.difference) for row in rows]
    assert sizes == sorted(sizes, reverse=True)


def test_a_report_of_another_version_is_refused(tmp_path):
    session = made(training=False)
    facts = {**session.getReport()._facts, "version": 99}
    with pytest.raises(ValueError, match="99"):
        pva.Report(json.dumps(facts)).to_html(tmp_path / "page.html")


def test_the_summary_says_how_to_profile():
    session = made(training=False)
    summary = session.getSummaryReport()
    assert "session.profile" in summary and "POPART_PROFILE" in summary


def test_step_times_keep_what_a_summary_has_shown(tmp_path, monkeypatch):
    """A summary forgets the runs that it showed, and the table of POPART_STEP_TIMES keeps them."""
    monkeypatch.setenv("POPART_STEP_TIMES", str(tmp_path / "times.txt"))
    session = made(training=False)
    for _ in range(3):
        session.run(step_of(session))
    session.getSummaryReport()
    del session
    gc.collect()
    table = (tmp_path / "times.txt").read_text()
    (row,) = [line for line in table.splitlines() if "block1/product" in line and "%" in line and "," in line]
    assert row.split()[1] == "3"
    assert "by scope:" in table and "  net/block1\n" in table.split("by scope:")[1]


def test_every_view_names_the_layer_as_the_report_does():
    session = made(training=False)
    titles = {step.title for step in session.getReport().compilation.programs if step.type == "OnTileExecute"}
    assert any("block0/product" in title for title in titles)
    threads = session.getThreadReport()
    assert all(title in threads for title in titles)


def test_representations():
    session = made(training=False, name="mine")
    assert "InferenceSession 'mine', prepared" in repr(session)
    report = session.profile(step_of(session), runs=1)
    assert "run: " in repr(report) and "<table>" in report._repr_html_()
    assert repr(popart.Builder()) == "<popart.Builder: no inputs -> no outputs>"


def test_a_popxl_program_writes_a_profile_by_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("POPART_PROFILE", str(tmp_path))
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x = popxl.h2d_stream((ROWS, WIDTH), popxl.float32, "x")
        y = popxl.d2h_stream((ROWS, WIDTH), popxl.float32, "y")
        with popxl.name_scope("block"):
            result = ops.gelu(ops.matmul(ops.host_load(x), popxl.variable(np.eye(WIDTH, dtype=np.float32), name="w")))
        ops.host_store(y, result)
    with popxl.Session(ir, "cpu") as session:
        first = session.run({x: X})[y]
        for _ in range(8):
            assert np.array_equal(session.run({x: X})[y], first)
    (file,) = tmp_path.glob("popxl-?.json")
    profile = Profile(pva.openReport(file)._facts)
    assert len(profile.runs) == 5
    assert any(step.layer.startswith("block/") for step in profile.steps)


def recurrent_ir(replicas=1):
    """A program with a counter: every run adds to a variable."""
    ir = popxl.Ir(replication=replicas)
    with ir.main_graph, popxl.in_sequence():
        x = popxl.h2d_stream((ROWS, WIDTH), popxl.float32, "x")
        y = popxl.d2h_stream((ROWS, WIDTH), popxl.float32, "y")
        count = popxl.variable(np.zeros((), np.float32), name="count")
        with popxl.name_scope("block"):
            weight = popxl.variable(np.eye(WIDTH, dtype=np.float32), name="w")
            result = ops.gelu(ops.matmul(ops.host_load(x), weight))
        ops.var_updates.accumulate_(count, popxl.constant(np.ones((), np.float32)))
        ops.host_store(y, result + count)
    return ir, x, y, count


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_popxl_session_has_profiles(tmp_path, replicas):
    ir, x, y, count = recurrent_ir(replicas)
    given = X if replicas == 1 else np.stack([X] * replicas)
    with popxl.Session(ir, "cpu") as session:
        first = session.run({x: given})[y]
        report = session.profile({x: given}, runs=3, warm_up=1, folder=tmp_path)
        profile = Profile(report._facts)
        assert len(profile.runs) == 3 and profile.replicas["here"] == replicas
        assert any(step.layer.startswith("block/") for step in profile.steps)
        assert sum(step.nanoseconds for step in profile.steps) > 0
        assert sorted(file.suffix for file in tmp_path.iterdir()) == [".html", ".json", ".json"]
        after = session.run({x: given})[y]  # the device kept its values, and profiled runs count
        np.testing.assert_allclose(after - first, 5, rtol=1e-6)
        second = session.profile(lambda: session.run({x: given}), runs=1, warm_up=0)
        assert len(Profile(second._facts).runs) == 1
        assert "<html" in page_of(Profile(second._facts)) and trace_of(Profile(second._facts))["traceEvents"]
    assert session.get_tensor_data(count) == 7


def test_a_popxl_session_without_inputs_has_profiles():
    ir = popxl.Ir()
    with ir.main_graph:
        count = popxl.variable(np.zeros((), np.float32), name="count")
        ops.var_updates.accumulate_(count, popxl.constant(np.ones((), np.float32)))
    with popxl.Session(ir, "cpu") as session:
        assert len(Profile(session.profile(runs=2)._facts).runs) == 2
    assert session.get_tensor_data(count) == 4


def test_profiles_of_popxl_that_are_refused():
    ir, x, _, _ = recurrent_ir()
    session = popxl.Session(ir, "cpu")
    with pytest.raises(ValueError, match="not attached to a device"):
        session.profile({x: X})
    with session:
        with pytest.raises(ValueError, match="runs: got 0, expected a whole number, 1 or more"):
            session.profile({x: X}, runs=0)
        with pytest.raises(ValueError, match="warm_up: got -1"):
            session.profile({x: X}, warm_up=-1)
        with pytest.raises(TypeError, match="runs: got '3'"):
            session.profile({x: X}, runs="3")
        with pytest.raises(ValueError, match="inputs do not match"):
            session.profile()
        assert len(Profile(session.profile({x: X}, runs=1)._facts).runs) == 1  # the session still runs after a refusal
