"""Sessions whose replicas are in several processes: jobs of mpirun against one process with as many replicas."""

import contextlib
import os
import re
from pathlib import Path

import numpy as np
import pva
import pytest
from popart.profile.facts import Profile

from tests.python.popdist.jobs import ROOT, failing, lines_of, run

# ---- the same bits ----------------------------------------------------------------------------


BY_MESSAGES = {"POPLAR_ENGINE_OPTIONS": '{"replicas.sharedMemory": "false"}'}


def outcome_of(folder, processes, *words, seconds=120, environment=None):
    """What the networks of same_bits.py compute in so many processes: the files of all of them, in their order."""
    program = ["-m", "tests.python.popdist.same_bits", str(folder), *words]
    result, _ = run(program, processes=processes, local=4 // processes, seconds=seconds, environment=environment)
    assert result.returncode == 0, result.stdout + result.stderr
    files = [np.load(path) for path in sorted(folder.glob("*.npz"), key=lambda path: int(path.stem))]
    assert len(files) == processes
    return files


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """By number of processes; `BY_MESSAGES`: of two that share no memory."""
    found = {processes: outcome_of(tmp_path_factory.mktemp("bits"), processes) for processes in (1, 2, 4)}
    return found | {"messages": outcome_of(tmp_path_factory.mktemp("bits"), 2, environment=BY_MESSAGES)}


def cases():
    """Names of the networks, without importing what they need."""
    text = (ROOT / "tests/python/popdist/same_bits.py").read_text()
    return [*re.findall(r'^    "([\w ,]+)": \(', text[text.index("CASES = {") :], re.MULTILINE), "popxl"]


@pytest.mark.parametrize("processes", [2, 4, "messages"])
@pytest.mark.parametrize("case", cases())
def test_processes_and_threads_give_the_same_bits(outcomes, case, processes):
    """Losses of the replicas of each process; weights and optimizer state, whole on every process."""
    (whole,) = outcomes[1]
    parts = outcomes[processes]
    require_same_bits(case, whole, parts, has_statistics=case == "statistics")


@pytest.mark.slow
def test_a_hundred_updates_give_the_same_bits(tmp_path_factory):
    """Five networks, three optimizers, state whole and in parts, gradients in FLOAT and in FLOAT16."""
    (whole,), *others = (
        outcome_of(tmp_path_factory.mktemp("long"), processes, "long", seconds=900) for processes in (1, 2, 4)
    )
    cases = sorted({name.split("/")[0] for name in whole.files})
    assert len(cases) == 5 * 3 * 2 + 2 * 3 * 2
    for case in cases:
        assert np.isfinite(whole[f"{case}/loss"]).all(), case
        assert whole[f"{case}/loss"].shape[:2] == (50, 2)  # updates
        for parts in others:
            require_same_bits(case, whole, parts, has_statistics=case.startswith("norms"))


def require_same_bits(case, whole, parts, has_statistics):
    """What the processes of a job have of a case is what one process has of it."""
    losses = np.concatenate([part[f"{case}/loss"] for part in parts], axis=-1)
    assert losses.tobytes() == whole[f"{case}/loss"].tobytes()
    # Replicas and steps have data of their own; FLOAT16 has few values.
    assert np.unique(losses).size > losses.size // (2 if losses.itemsize > 2 else 4)
    names = [name for name in whole.files if name.startswith(f"{case}/") and name != f"{case}/loss"]
    assert len(names) > 4
    for number, part in enumerate(parts):
        assert {name for name in part.files if name.startswith(f"{case}/")} == {*names, f"{case}/loss"}
        for name in names:
            if has_statistics and number > 0 and name.split("/")[1][0] in "mv":
                continue  # statistics are of each replica: a process reads those of its first one
            assert part[name].tobytes() == whole[name].tobytes(), name


# ---- memory that processes share --------------------------------------------------------------

SEGMENTS = """
def segments():
    with open("/proc/self/maps") as maps:
        mapped = sum("memfd:popart replicas" in line for line in maps)
    files = [os.readlink(f"/proc/self/fd/{file}") for file in os.listdir("/proc/self/fd") if int(file) > 2 and
             os.path.exists(f"/proc/self/fd/{file}")]
    return mapped, sum("popart replicas" in file for file in files)
"""


@pytest.mark.parametrize("shares", [True, False])
def test_processes_of_a_host_share_memory(shares):
    """Its own segment and those of the others, without an open file; gone with the session. By option: none."""
    code = f"""{SEGMENTS}
session = ready(training(engineOptions={{"replicas.sharedMemory": "{str(shares).lower()}"}}))
step(session)
before = segments()
result = digest(session)
del session
print(result, *before, *segments(), flush=True)
"""
    lines, log = lines_of(code, 4, 1, environment={"POPART_LOG_LEVEL": "INFO"})
    assert len(lines) == 4 and len(set(lines)) == 1
    assert lines[0].split()[1:] == ["4" if shares else "0", "0", "0", "0"]
    off = "exchange by messages, and not in memory that they share: process 0 on host"
    assert (off in log) == (not shares)
    assert ('engineOptions["replicas.sharedMemory"] is false' in log) == (not shares)
    whole, _ = lines_of("session = ready(training())\nstep(session)\nprint(digest(session))", 1, 4)
    assert whole == [lines[0].split()[0]]


def test_a_killed_process_leaves_no_segment():
    """Neither a mapping in any process nor a name."""
    code = """
session = ready(training())
step(session)
with open("/proc/self/maps") as maps:
    numbers = {line.split()[4] for line in maps if "memfd:popart replicas" in line}
os.write(1, f"{' '.join(sorted(numbers))}\\n".encode())
popdist.init()
popdist.synchronize()
if popdist.getInstanceIndex() == 1:
    os.kill(os.getpid(), 9)
step(session)
"""
    names = set(os.listdir("/dev/shm"))
    result, seconds = failing(code)
    assert result.returncode == 137 and seconds < 60, result.stderr
    numbers = set(result.stdout.split())
    assert len(numbers) == 2
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            lines = [line for line in maps.read_text().splitlines() if "memfd:popart replicas" in line]
            assert not numbers & {line.split()[4] for line in lines}, maps
    assert not [name for name in set(os.listdir("/dev/shm")) - names if "popart" in name]


def test_processes_that_cannot_share_memory_say_why():
    """One of them may not make files of that size."""
    code = f"""{SEGMENTS}
import resource
popdist.init()
if popdist.getInstanceIndex() == 1:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
session = training()
session.prepareDevice()
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
session.weightsFromHost()
step(session)
print(digest(session), *segments(), flush=True)
"""
    lines, log = lines_of(code, environment={"POPART_LOG_LEVEL": "INFO"})
    whole, _ = lines_of("session = ready(training())\nstep(session)\nprint(digest(session))", 1, 4)
    assert lines == [f"{whole[0]} 0 0"] * 2
    reason = r"by messages, and not in memory that they share: process 1 on host '.*' \(replicas 2 to 3\): ftruncate: "
    assert len(re.findall(reason, log)) == 2


# ---- the host's side --------------------------------------------------------------------------


def test_first_values_that_differ_are_named_and_can_be_made_equal():
    """Upstream, nothing broadcasts first values."""
    code = """
session = training(seed=7 + popdist.getInstanceIndex())
session.prepareDevice()
session.broadcastWeights(1)
session.weightsFromHost()
step(session)
print(digest(session), flush=True)
"""
    lines, log = lines_of(code)
    assert len(lines) == 2 and len(set(lines)) == 1
    assert re.search(
        r"W: .* variables begin with other values in process 1 on host '.*' \(replicas 2 to 3\) .* 'w0'", log
    )
    assert lines[0] in lines_of("session = ready(training(seed=8))\nstep(session)\nprint(digest(session))", 1, 4)[0]
    code = "session = training(seed=popdist.getInstanceIndex())\nsession.broadcastWeights()\nready(session)"
    assert "other values" not in lines_of(code)[1]


@pytest.mark.parametrize("processes, local", [(1, 4), (2, 2), (4, 1)])
def test_a_checkpoint_goes_on_with_another_number_of_processes(processes, local, tmp_path):
    """Two updates in two processes, then two in another number of them, are four updates; state in parts."""
    code = f"""
session = ready(training(model=sys.argv[1] if len(sys.argv) > 1 else None, **in_parts()))
for number in range(int(os.environ["FIRST"]), int(os.environ["END"])):
    step(session, number)
save(session, {str(tmp_path)!r})
print(digest(session), flush=True)
"""
    first, _ = lines_of(code, environment={"FIRST": "0", "END": "2"})
    assert len(set(first)) == 1
    goes_on = code.replace("sys.argv[1] if len(sys.argv) > 1 else None", repr(str(tmp_path / "0.onnx")))
    resumed, _ = lines_of(goes_on, processes, local, environment={"FIRST": "2", "END": "4"})
    through, _ = lines_of(code, 1, 4, environment={"FIRST": "0", "END": "4"})
    assert set(resumed) == set(through) and len(resumed) == processes


@pytest.mark.parametrize("parts", [False, True])
def test_one_process_may_save_alone(parts):
    """Where every process has the values, or all have read them, nothing is exchanged."""
    code = f"""
session = ready(training(**in_parts() if {parts} else {{}}))
step(session)
if {parts}:
    session.weightsToHost()
if popdist.getInstanceIndex() == 0:
    print(digest(session), flush=True)
step(session)
"""
    assert len(lines_of(code)[0]) == 1


def test_the_report_tells_the_memory_of_the_exchange():
    code = """
report = ready(training()).getSummaryReport().splitlines()
print(next(line for line in report if "exchange between processes" in line), flush=True)
"""
    lines, _ = lines_of(code)
    assert len(lines) == 2 and all(int(line.split()[-2]) > 0 for line in lines)


def test_the_memory_limit_counts_the_exchange():
    """With one byte less than program and exchange need, all processes choose smaller collectives; then they refuse."""
    code = """
import json
def memory_of(session):
    session.prepareDevice()
    return json.loads(session._report())["memory"]
memory = memory_of(training())
total = memory["total"]
assert memory["exchange"] > 0
assert total > memory["arena"] + memory["scratch"] + memory["exchange"] // 2
assert memory_of(training(engineOptions={"max_memory": str(2 * total)})) == memory
smaller = memory_of(training(engineOptions={"max_memory": str(2 * total - 1)}))["total"]
assert smaller < total
try:
    training(engineOptions={"max_memory": str(total)}).prepareDevice()
except popart.popart_exception as e:
    print(total, smaller, *str(e).split(), flush=True)
"""
    lines, _ = lines_of(code)
    assert len(lines) == 2 and lines[0] == lines[1]
    assert re.search(r"scratch, \d+ exchange between processes\), expected at most", lines[0])


def test_reports_tell_the_exchanges():
    """Their time in each run, and what replicas exchange: of a sum, every gradient once."""
    code = """
import json
session = ready(training(engineOptions={"debug.instrument": "true"}))
step(session)
report = json.loads(session._report())
def of(nodes):
    for node in nodes:
        yield from [node["collective"]] if "collective" in node else []
        for child in node["children"]:
            yield from of(child["children"])
waits = [c for c in of(report["programs"]) if not c["isPublished"]]
run, = report["runs"]
assert run["nanoseconds"] >= run["exchangeWaitNanoseconds"] >= 0 and run["exchangeNanoseconds"] > 0
sizes = sorted(n for c in waits for n in c["elements"])  # layouts may pad the matrices of 8 x 5 and 6 x 8
print(len(sizes), sizes[0] >= 40, sizes[1] >= 48, {(c["operation"], c["groupSize"]) for c in waits}, flush=True)
"""
    lines, _ = lines_of(code)
    assert lines == ["2 True True {('all-reduce', 4)}"] * 2


def test_each_process_has_a_file_of_step_times(tmp_path):
    file = tmp_path / "times"
    lines_of("session = ready(training())\nstep(session)", environment={"POPART_STEP_TIMES": str(file)})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["times.0", "times.1"]
    for path in tmp_path.iterdir():
        assert path.read_text().count("in all; by kernel:") == 2  # a table of each replica


PROFILED = """
session = ready(training({given}))
step(session)
report = {call}
step(session, 2)
assert session.getReport().execution.runs == []
facts = report._facts if report else {{}}
of_replicas = [run["otherReplicas"] for run in facts.get("runs", [])]
print(popdist.getInstanceIndex(), digest(session), len(of_replicas), facts.get("replicas"), flush=True)
"""


@pytest.mark.parametrize(("given", "local"), [("", 2), ("**in_parts()", 1)], ids=["whole", "parts"])
def test_all_processes_profile_a_session_together(given, local, tmp_path):
    """Each profile has the replicas of its process. Training has the same bits as without one, also in parts."""
    call = f"session.profile(lambda: step(session, 1), runs=2, warmUp=1, folder={str(tmp_path)!r})"
    processes = 4 // local
    profiled, log = lines_of(PROFILED.format(given=given, call=call), processes, local)
    plain, _ = lines_of(PROFILED.format(given=given, call="[step(session, 1) for _ in range(3)] and None"), 2, 2)
    assert {line.split()[1] for line in profiled} == {line.split()[1] for line in plain} and len(plain) == 2
    assert "other values" not in log
    for process, line in enumerate(profiled):
        replicas = {"all": 4, "first": local * process, "here": local, "recorded": local * process}
        assert line.endswith(f" 2 {replicas}")
    names = {2: ["s-0-1", "s-2-3"], 1: [f"-{number}" for number in range(4)]}[local]
    files = [f"profile-replica{name}.{kind}" for name in names for kind in ("html", "json", "trace.json")]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(files)
    for name in names:
        profile = Profile(pva.openReport(tmp_path / f"profile-replica{name}.json")._facts)
        assert len(profile.events_by_replica) == local and all(profile.events_by_replica.values())


def test_what_one_process_raises_while_all_profile_ends_the_job():
    """It does not wait for the others, which are in a run."""
    code = """
session = ready(training())
def run():
    if popdist.getInstanceIndex() == 1:
        raise ValueError("no data today")
    step(session)
session.profile(run)
"""
    result, seconds = failing(code)
    assert "no data today" in result.stderr and seconds < 60


def test_a_process_that_does_not_profile_is_named_in_time():
    code = """
session = ready(training(engineOptions={"replicas.timeout": "2"}))
try:
    if popdist.getInstanceIndex() == 0:
        session.profile(lambda: step(session))
    else:
        time.sleep(5)
except popart.popart_runtime_error as e:
    print(e, flush=True)
"""
    lines, _ = lines_of(code)
    assert len(lines) == 1 and "process 1" in lines[0]


def test_first_values_of_popxl_programs_are_compared():
    code = """
import popxl
from popxl import ops
ir = popxl.Ir(replication="popdist")
with ir.main_graph:
    same = popxl.variable(np.arange(4, dtype=np.float32), name="same")
    other = popxl.variable(np.full(4, popdist.getInstanceIndex() // {per_value}, np.float32), name="other")
    ops.host_store(popxl.d2h_stream((4,), popxl.float32), ops.collectives.replicated_all_reduce(same + other))
with popxl.Session(ir, "cpu") as session:
    session.run()
"""
    _, log = lines_of(code.replace("{per_value}", "2"), processes=3, local=1)
    assert re.search(
        r"W: .*'popxl': variables begin with other values in process 2 on host '.*' \(replica 2\) .* 'other'\. Make",
        log,
    )
    assert "other values" not in lines_of(code.replace("{per_value}", "4"))[1]


def test_inference_sessions_give_the_results_of_their_replicas():
    """Sums over replicas 0 and 2, and 1 and 3."""
    code = "print(popdist.getInstanceIndex(), inference(), flush=True)"
    assert lines_of(code)[0] == ["0 [2.0, 4.0]", "1 [2.0, 4.0]"]
    assert lines_of(code, 1, 4)[0] == ["0 [2.0, 4.0, 2.0, 4.0]"]


@pytest.mark.parametrize("order", ["before", "after"])
def test_programs_use_mpi4py_as_well(order):
    """The session or mpi4py initialises MPI."""
    code = f"""
if {order!r} == "before":
    from mpi4py import MPI
session = ready(training())
step(session)
from mpi4py import MPI
print(MPI.COMM_WORLD.allreduce(popdist.getInstanceIndex() + 1), flush=True)
step(session)
"""
    assert "".join(lines_of(code)[0]) == "33"  # two processes write at the same time


COMPILES = {
    "popart": """
options = dict(enableEngineCaching=True, cachePath={folder!r})
if {offline}:
    training(device=offline_device(), **options).prepareDevice(False)
else:
    session = ready(training(**options))
    step(session)
    print(digest(session), flush=True)
""",
    "popxl": """
import popxl
from popxl import ops
ir = popxl.Ir(replication="popdist")
with ir.main_graph:
    x = popxl.variable(np.arange(4, dtype=np.float32), name="x")
    y = popxl.d2h_stream((4,), popxl.float32)
    ops.host_store(y, ops.collectives.replicated_all_reduce(x))
if {offline}:
    popxl.Session(ir, offline_device())
else:
    with popxl.Session(ir, "cpu") as session:
        print(session.run()[y].tolist(), flush=True)
""",
}
WITHOUT_OTHERS = """
if popdist.getNumInstances() == 1:
    os.environ |= {"POPDIST_NUM_TOTAL_REPLICAS": "4", "POPDIST_REPLICA_INDEX_OFFSET": "2"}
"""


@pytest.mark.parametrize("interface", COMPILES)
@pytest.mark.parametrize("processes", [2, 1])
def test_what_an_offline_device_compiled_is_run(interface, processes, tmp_path):
    """In a job, or by one process without the others; the job that runs compiles nothing."""
    environment = {"POPXL_CACHE_DIR": str(tmp_path), "POPART_LOG_LEVEL": "DEBUG"}

    def job(offline, processes, **given):
        code = WITHOUT_OTHERS + COMPILES[interface].format(offline=offline, folder=str(tmp_path))
        return lines_of(code, processes, 2, **given)

    begins = "compilation begins"
    nothing, log = job(True, processes, environment=environment)
    assert nothing == [] and begins in log
    kept = sorted(tmp_path.iterdir())
    assert len(kept) == 1
    found, log = job(False, 2, environment=environment)
    assert begins not in log and log.count("the program comes from") == 2
    assert sorted(tmp_path.iterdir()) == kept
    (kept[0]).unlink()
    expected, log = job(False, 2, environment=environment)
    assert begins in log and found == expected and len(found) == 2


# ---- values that are compared after each run --------------------------------------------------

CHANGES = {
    "numbers": "session.updateOptimizerFromHost(adam(0.02))",
    "all": "session.writeWeights(popart.PyWeightsIO({'w1': np.zeros((8, 5), np.float32)}))",
}


@pytest.mark.parametrize("compared", CHANGES)
def test_a_process_with_other_values_is_named(compared):
    """One changes its learning rate, or a weight; all get the error. What is equal is not named."""
    code = f"""
session = ready(training(engineOptions={{"replicas.compare": {compared!r}}}))
step(session)
if popdist.getInstanceIndex() == 2:
    {CHANGES[compared]}
session.weightsFromHost()
try:
    step(session, 1)
except popart.popart_runtime_error as e:
    print(e, flush=True)
"""
    lines, _ = lines_of(code, 4, 1)
    assert len(lines) == 4 and len(set(lines)) == 1
    name = {"numbers": ".*earningRate.*", "all": "w1"}[compared]
    place = r"process 2 on host '.*' \(replica 2\)"
    assert re.search(rf"run 2: the variable '{name}' has other values in {place} than in most processes", lines[0])


def test_weights_are_no_numbers():
    code = f"""
session = ready(training(engineOptions={{"replicas.compare": "numbers"}}))
if popdist.getInstanceIndex() == 1:
    {CHANGES["all"]}
session.weightsFromHost()
step(session)
print("no error", flush=True)
"""
    assert lines_of(code)[0] == ["no error"] * 2


def test_inputs_that_all_replicas_share_are_compared():
    code = """
builder = popart.Builder()
x = builder.addInputTensor("FLOAT", [2], "x")
shared = builder.addInputTensor("FLOAT", [2], popart.InputSettings(popart.ReplicatedStreamMode.Broadcast), "shared")
y = builder.aiOnnx.add([x, shared])
options = popdist.popart.configureSessionOptions(popart.SessionOptions())
options.engineOptions = {"replicas.compare": "numbers"}
device = popart.DeviceManager().createCpuDevice()
session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), device, userOptions=options)
session.prepareDevice()
me = popdist.getInstanceIndex()
for number in range(2):
    values = {"x": np.full((2, 2), me, np.float32), "shared": np.full(2, number * me, np.float32)}
    try:
        session.run(popart.PyStepIO(values, session.initAnchorArrays()))
    except popart.popart_runtime_error as e:
        print(e, flush=True)
"""
    lines, _ = lines_of(code)
    assert len(lines) == 2 and len(set(lines)) == 1
    assert re.search(
        r"run 2: the input 'shared' has other values in process 1 on host .* \(replicas 2 to 3\)", lines[0]
    )


def test_values_of_popxl_programs_are_compared():
    code = """
import popxl
from popxl import ops
ir = popxl.Ir(replication="popdist")
with ir.main_graph:
    step = popxl.variable(float(popdist.getInstanceIndex() // 2), popxl.float32, name="step")
    ops.host_store(popxl.d2h_stream((), popxl.float32), ops.collectives.replicated_all_reduce(step))
try:
    with popxl.Session(ir, "cpu") as session:
        session.run()
except popart.popart_runtime_error as e:
    print(e, flush=True)
"""
    option = {"POPLAR_ENGINE_OPTIONS": '{"replicas.compare": "numbers"}'}
    lines, _ = lines_of(code, 3, 1, environment=option)
    assert len(lines) == 3
    assert all("run 1: the variable 'step' has other values in process 2 on host" in line for line in lines)
    assert lines_of(code, 2, 1, environment=option)[0] == []


# ---- failures ---------------------------------------------------------------------------------


def test_options_that_do_not_suit_the_job():
    """A process that was started alone; two of three replicas each where there are two."""
    alone = "import popdist\npopdist.getNumTotalReplicas = lambda: 4\nready(training())"
    result, _ = failing(alone, processes=1, local=2)
    assert "got 2 replicas in 1 processes, expected 4. Start the program with poprun or mpirun" in result.stderr
    result, _ = failing("popdist.getReplicaIndexOffset = lambda: 0\nready(training())")
    assert "got replica 0 as the first one of process 1, expected 2." in result.stderr


def test_different_programs_are_refused_on_all_processes():
    code = """
try:
    ready(training(width=5 + popdist.getInstanceIndex() // 2))
except popart.popart_runtime_error as e:
    print(e, flush=True)
"""
    lines, _ = lines_of(code, 3, 1)
    assert len(lines) == 3 and len(set(lines)) == 1
    assert re.search(r"program of process 2 on host '.*' \(replica 2\) differs from that of most processes", lines[0])


@pytest.mark.parametrize("environment", [{}, BY_MESSAGES], ids=["memory", "messages"])
@pytest.mark.parametrize("where", ["callback", "array", "label"])
def test_a_failure_reaches_all_processes(where, environment):
    """What one process raises in a run, all do, naming it with host and replicas; later runs fail as well."""
    code = f"""
session = ready(training())
step(session)
for attempt in range(2):
    try:
        failing_step(session, {where!r} if popdist.getInstanceIndex() == 1 else None)
    except Exception as e:
        print(popdist.getInstanceIndex(), attempt, type(e).__name__, *str(e).split(), flush=True)
"""
    lines, _ = lines_of(code, environment=environment)
    assert [line.split()[:2] for line in lines] == [["0", "0"], ["0", "1"], ["1", "0"], ["1", "1"]]
    for line in lines[:2]:
        assert "popart_runtime_error" in line
        assert re.search(r"process 1 on host '.*' \(replicas 2 to 3\): .*" + FAILURES[where], line), line
    assert FAILURES[where] in lines[2]


FAILURES = {"callback": "no data today", "array": "unexpected number of elements", "label": "a label is out of range"}


@pytest.mark.parametrize("environment", [{}, BY_MESSAGES], ids=["memory", "messages"])
def test_a_process_that_does_not_come_is_named_in_time(environment):
    """It does not run."""
    code = """
session = ready(training(engineOptions={"replicas.timeout": "2"}))
if popdist.getInstanceIndex() == 1:
    time.sleep(5)
try:
    step(session)
except popart.popart_runtime_error as e:
    print(popdist.getInstanceIndex(), e, flush=True)
"""
    lines, _ = lines_of(code, environment=environment)
    assert len(lines) == 2
    assert re.search(r"no message came for 2 s, waiting for process 1 on host '.*' \(replicas 2 to 3\)", lines[0])
