"""Reports: memory over the program and steps with times, read through `pva` as published programs do."""

import json
import time

import numpy as np
import popart
import pva
import pytest

MANAGER = popart.DeviceManager()
LAYERS, WIDTH, ROWS = 6, 32, 64


def session_on(device, batches=1, recompute=False, **engine_options):
    """A training session of tanh layers, ready to run."""
    builder = popart.Builder()
    y = builder.addInputTensor("FLOAT", [ROWS, WIDTH], "x")
    for i in range(LAYERS):
        w = builder.addInitializedInputTensor(np.eye(WIDTH, dtype=np.float32), f"w{i}")
        y = builder.aiOnnx.matmul([y, w])
        for _ in range(2):
            y = builder.aiOnnx.tanh([builder.aiOnnx.sin([y])])
            if recompute:
                builder.recomputeOutputInBackwardPass(y)
    loss = builder.aiGraphcore.l1loss([y], 0.1)
    options = popart.SessionOptions()
    options.instrumentWithHardwareCycleCounter = True
    for name, value in engine_options.items():
        options.engineOptions[name.replace("_", ".")] = value
    flow = popart.DataFlow(batches, [loss])
    session = popart.TrainingSession(
        builder.getModelProto(), flow, loss, popart.ConstSGD(0.1), device, userOptions=options
    )
    session.prepareDevice()
    session.weightsFromHost()
    return session


def run(session, times=1, name=""):
    anchors = session.initAnchorArrays()
    batches = session.dataFlow.batchesPerStep()
    for _ in range(times):
        session.run(popart.PyStepIO({"x": np.ones((batches, ROWS, WIDTH), np.float32)}, anchors), name)


def cpu():
    return MANAGER.createCpuDevice()


def model(**options):
    return MANAGER.createIpuModelDevice(options)


@pytest.mark.parametrize("device", [cpu, model, lambda: model(tilesPerIPU=8)])
def test_target(device):
    device = device()
    target = session_on(device).getReport().compilation.target
    assert (target.numIPUs, target.tilesPerIpu) == (device.numIpus, device.tilesPerIPU)
    assert target.numTiles == device.numIpus * device.tilesPerIPU and target.clockFrequency > 0
    assert (target.bytesPerTile is None) == (device.type == popart.DeviceType.Cpu)


@pytest.mark.parametrize("device", [cpu, model])
def test_memory_of_tiles_adds_up_to_the_plan(device):
    session = session_on(device())
    tiles = session.getReport().compilation.tiles
    plan = dict(line.strip().split(": ") for line in session.getSummaryReport().splitlines() if line.endswith("bytes"))
    sizes = {name: int(text.split()[0]) for name, text in plan.items()}
    assert sum(tile.memory.total.includingGaps for tile in tiles) == sizes["total"]
    gaps = sizes["activations"] - sizes["largest live set"]
    assert sum(tile.memory.total.excludingGaps for tile in tiles) == sizes["total"] - gaps
    assert sum(tile.memory.alwaysLiveBytes for tile in tiles) == sizes["variables"] + sizes["constants"]


def test_recomputation_shows_in_the_memory_of_tiles(monkeypatch):
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", json.dumps({"autoReport.all": True}))
    totals = {}
    for recompute in (False, True):
        session = session_on(model(), recompute=recompute)
        run(session)
        report = session.getReport()
        assert report.execution.totalCycles.total > 0
        totals[recompute] = sum(t.memory.total.excludingGaps for t in report.compilation.tiles)
    assert 0 < totals[True] < totals[False]


def test_memory_over_the_program_stays_below_its_peak():
    session = session_on(cpu(), batches=2)
    compilation = session.getReport().compilation
    live = [step.notAlwaysLiveBytes for step in compilation.livenessProgramSteps]
    summary = session.getSummaryReport()
    arena = int(next(line for line in summary.splitlines() if "activations" in line).split()[1])
    assert 0 < max(live) <= arena
    names = {variable.name for variable in compilation.variables}
    assert {f"w{i}" for i in range(LAYERS)} <= names


def test_programs_are_visited():
    programs = session_on(cpu(), batches=2).getReport().compilation.programs
    assert "Repeat" in {p.type for p in programs}

    class Visitor:
        def __init__(self):
            self.kernels = []

        def visitRepeat(self, program):
            for child in program.children:
                child.accept(self)

        visitSequence = visitRepeat

        def visitOnTileExecute(self, program):
            self.kernels.append(program.kernel)

    visitor = Visitor()
    for program in programs:
        program.accept(visitor)
    assert any("matmul" in kernel for kernel in visitor.kernels)


def test_without_a_profile_the_execution_is_empty():
    session = session_on(cpu())
    run(session)
    execution = session.getReport().execution
    assert execution.runs == execution.steps == [] and execution.totalCycles.total > 0
    assert "Execution profiling not enabled" in session.getSummaryReport()


@pytest.mark.parametrize("device", [cpu, model])
@pytest.mark.parametrize("options", [{}, {"debug_retainDebugInformation": "true"}, {"autoReport_all": "true"}], ids=str)
def test_total_cycles_are_those_of_all_runs(device, options):
    """Of the CPU the time that runs took, at most that of the calls; of a model a multiple of one run's."""
    session = session_on(device(), **options)
    assert session.getReport().execution.totalCycles.total == 0
    start = time.perf_counter()
    run(session)
    took = time.perf_counter() - start
    one = session.getReport().execution.totalCycles.total
    assert one > 0
    if device is cpu and options:
        assert one <= took * 1e9
    run(session, times=3)
    four = session.getReport().execution.totalCycles.total
    assert four > one
    if device is model:
        assert abs(four - 4 * one) <= 4  # rounded


@pytest.mark.parametrize("option", ["autoReport_all", "autoReport_outputExecutionProfile", "debug_instrument"])
def test_steps_of_the_first_runs(option):
    session = session_on(cpu(), **{option: "true"})
    run(session, times=3, name="mine")
    execution = session.getReport().execution
    assert [r.name for r in execution.runs] == ["mine", "mine"]
    for recorded in execution.runs:
        assert recorded.microseconds > 0 and recorded.steps
        times = [(getattr(step.ipus[0].cycles, "from"), step.ipus[0].cycles.to) for step in recorded.steps]
        assert times == sorted(times) and all(first <= last for first, last in times)
        assert all(step.program is not None for step in recorded.steps)
    summary = session.getSummaryReport(resetProfile=False)
    assert "run 0 'mine'" in summary and "matmul" in summary
    assert "Execution" in session.getSummaryReport() and "run 0" not in session.getSummaryReport()
    run(session)
    assert len(session.getReport().execution.runs) == 1


def test_number_of_runs_that_are_kept():
    session = session_on(cpu(), autoReport_all="true", autoReport_executionProfileProgramRunCount="3")
    run(session, times=4)
    assert len(session.getReport().execution.runs) == 3
    with pytest.raises(popart.popart_exception, match="executionProfileProgramRunCount"):
        session_on(cpu(), autoReport_executionProfileProgramRunCount="none")


def test_a_report_is_kept_in_a_file(tmp_path):
    session = session_on(model(), autoReport_all="true")
    run(session)
    report = session.getReport()
    report.save(tmp_path / "profile.pop")
    again = pva.openReport(str(tmp_path / "profile.pop"))
    assert again.execution.totalCycles.total == report.execution.totalCycles.total
    (tmp_path / "other").write_text("{}")
    with pytest.raises(ValueError, match="other"):
        pva.openReport(tmp_path / "other")


def test_cycles_of_a_model_are_estimated_and_shrink_with_tiles():
    cycles = []
    for tiles in (4, 16):
        session = session_on(model(tilesPerIPU=tiles))
        run(session)
        cycles.append(session.getCycleCount())
        run(session)
        assert session.getCycleCount() == cycles[-1]
    assert cycles[0] > cycles[1] > 0


def test_a_cycle_estimate_has_at_least_the_operations_of_the_products():
    tiles = 4
    session = session_on(model(tilesPerIPU=tiles))
    run(session)
    # Forward and weight gradient of each layer, input gradient of all but the first; 32 operations a cycle and tile.
    products = 3 * LAYERS - 1
    assert session.getCycleCount() >= products * 2 * ROWS * WIDTH * WIDTH / (32 * tiles)


def test_unknown_facts_name_those_there_are():
    with pytest.raises(AttributeError, match="numIPUs"):
        session_on(cpu()).getReport().compilation.target.nothing  # noqa: B018
