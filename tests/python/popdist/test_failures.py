"""Jobs in which an instance fails outside of a run, or does not come: who is named, with which exit code, and when.

What fails inside of a run is in test_sessions.py.
"""

import re
import time

import pytest

from tests.python.popdist.jobs import failing, lines_of, poprun

FAILS = {
    "exception": ("raise ValueError('it went wrong')", 1),
    "exit": ("sys.exit(3)", 3),
    "builtin exit": ("exit(4)", 4),
    "quit": ("quit(7)", 7),
    "raise": ("raise SystemExit(3)", 3),
    "raise text": ("raise SystemExit('it went wrong')", 1),
    "raise in a function": ("def end():\n        raise SystemExit(6)\n    end()", 6),
    "raise in a pool": ("from concurrent.futures import ThreadPoolExecutor as P\n    P(1).submit(exit, 8).result()", 8),
    "raise of a subclass": ("raise type('End', (SystemExit,), {})(9)", 9),
    "argparse": ("import argparse\n    argparse.ArgumentParser().parse_args(['--unknown'])", 2),
    "_exit": ("os._exit(5)", 5),
    "kill": ("os.kill(os.getpid(), 9)", 137),
}
# For jobs in which the exit code is known before MPI is finalised: there the forms of SystemExit are the same.
SOME = ("exception", "exit", "_exit", "kill")
WAITS = {
    "popdist": "popdist.init()\npopdist.synchronize()\nwait = popdist.synchronize",
    "session": "session = ready(training())\nwait = lambda: step(session)",
    "work": "popdist.init()\npopdist.synchronize()\nwait = lambda: time.sleep(60)",
}
SECONDS = 10  # from a failure to the end of the job


def program(how, waits):
    """Instance 1 fails while the others wait for it."""
    return f"""
{WAITS[waits]}
if popdist.getInstanceIndex() == 1:
    os.write(2, f"failed at {{time.time()}}\\n".encode())
    {FAILS[how][0]}
wait()
"""


def check_end(result, code):
    assert result.returncode == code, result.stderr
    (begin,) = re.findall(r"failed at ([\d.]+)", result.stderr)
    assert time.time() - float(begin) < SECONDS


@pytest.mark.parametrize(
    ("how", "waits"),
    [*((how, "popdist") for how in SOME), ("exception", "session"), ("kill", "session"), ("exit", "work")],
)
def test_an_instance_that_fails_ends_the_job(how, waits):
    result, _ = failing(program(how, waits))
    check_end(result, FAILS[how][1])
    if how == "exception":
        assert "ValueError: it went wrong" in result.stderr
    if how in ("exception", "exit"):
        end = rf"process 1 on host '.*' \(replicas 2 to 3\) ends the job with exit code {FAILS[how][1]}: "
        assert re.search(end, result.stderr), result.stderr


@pytest.mark.parametrize("how", SOME)
def test_poprun_names_the_instance(how):
    result, _ = poprun(program(how, "popdist"), "--only-output-from-instance=0")
    check_end(result, FAILS[how][1])
    named = rf"instance 1 \(host localhost, replicas 2 to 3\) ended the job, with exit code {FAILS[how][1]}\n"
    assert re.search(named, result.stderr), result.stderr
    assert "last lines of instance 1:" in result.stderr


def test_all_may_fail_with_words_of_their_own():
    """Every instance tells its failure before the job ends."""
    code = (
        "popdist.init()\ntime.sleep(popdist.getInstanceIndex())\nraise ValueError(f'of {popdist.getInstanceIndex()}')"
    )
    result, _ = failing(code)
    assert result.returncode == 1
    assert "ValueError: of 0" in result.stderr and "ValueError: of 1" in result.stderr


def test_an_instance_may_end_long_before_the_others():
    """What one does alone after the last collective, as saving a model, is not cut off."""
    code = """
popdist.init()
popdist.synchronize()
if popdist.getInstanceIndex() == 0:
    time.sleep(4)
    print("saved", flush=True)
"""
    assert lines_of(code)[0] == ["saved"]


def test_instances_that_do_not_come_are_named_on_all_others(tmp_path):
    """Those that do not come end when the others have their errors."""
    code = f"""
from pathlib import Path
folder = Path({str(tmp_path)!r})
popdist.init()
popdist.synchronize()
if popdist.getInstanceIndex() > 1:
    while len(list(folder.iterdir())) < 2:
        time.sleep(0.01)
    sys.exit()
for attempt in range(2):
    try:
        popdist.broadcast([1.5], 1)
    except popart.popart_runtime_error as e:
        os.write(1, f"{{popdist.getInstanceIndex()}}: {{e}}\\n".encode())
(folder / str(popdist.getInstanceIndex())).touch()
"""
    lines, log = lines_of(code, 4, 1, environment={"POPDIST_TIMEOUT": "2"})
    warning = r"W: popdist: broadcast from 1 of float64 \[1\]: waiting for process 2 .*, process 3 .* since 1 s"
    assert len(re.findall(warning, log)) == 2
    assert [line[:2] for line in lines] == ["0:", "0:", "1:", "1:"]
    place = r"on host '.*' \(replica {0}\)"
    for line in lines:
        assert re.search(
            r"popdist: broadcast from 1 of float64 \[1\]: process 2 "
            + place.format(2)
            + ", process 3 "
            + place.format(3)
            + r" did not come within 2 s\. Look for a process that stopped",
            line,
        ), line


def test_an_instance_that_never_joins():
    """MPI itself would wait for ever."""
    code = "popdist.init() if popdist.getInstanceIndex() == 0 else time.sleep(60)"
    result, seconds = failing(code, environment={"POPDIST_TIMEOUT": "2"})
    assert "MPI: not all processes of the job came to its start within 2 s." in result.stderr
    assert "popdist.init() or a session" in result.stderr and seconds < 2 + 2 * SECONDS


def test_instances_in_different_groups():
    code = """
popdist.init()
try:
    some = {0, 1} if popdist.getInstanceIndex() == 0 else {0, 1, 2}
    popdist.execute_on_instances(some, popdist.synchronize)
except popart.popart_runtime_error as e:
    os.write(1, f"{e}\\n".encode())
"""
    lines, _ = lines_of(code, 3, 1, environment={"POPDIST_TIMEOUT": "5"})
    assert len(lines) == 3 and any("is in an operation of other processes than this one" in line for line in lines)
    for line in lines:
        assert "is in an operation of other processes than this one" in line or "did not come within 5 s" in line


def test_a_signal_handler_ends_the_wait():
    """As Ctrl-C does: what the handler raises comes out of the collective, and the others are told."""
    code = """
import signal
class Stop(Exception): pass
def stop(*_):
    raise Stop("enough")
popdist.init()
popdist.synchronize()
signal.signal(signal.SIGALRM, stop)
try:
    if popdist.getInstanceIndex() == 0:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        popdist.synchronize()
    else:
        time.sleep(2)
        popdist.synchronize()
except (Stop, popart.popart_runtime_error) as e:
    os.write(1, f"{popdist.getInstanceIndex()} {type(e).__name__} {e}\\n".encode())
"""
    stopped, told = lines_of(code)[0]
    assert stopped == "0 Stop enough"
    assert re.match(r"1 popart_runtime_error process 0 on host '.*' \(replicas 0 to 1\): popdist: synchronize: ", told)
    assert told.endswith("the wait for the others was interrupted")


def test_mpi_of_another_launcher():
    """A process of a job that mpirun did not start."""
    code = """
os.environ |= {"POPDIST_NUM_TOTAL_REPLICAS": "4", "POPDIST_NUM_LOCAL_REPLICAS": "2"}
popdist.init()
"""
    result, _ = failing(code, processes=1)
    assert "MPI: the launcher started 2 processes, MPI knows of 1." in result.stderr
    assert "set POPART_MPI_LIBRARY" in result.stderr


def test_collectives_after_the_end_of_communication():
    code = """
popdist.init()
popdist.synchronize()
popdist.finalizeBackend()
popdist.synchronize()
print("begun again" if popdist.isBackendInitialized() else "", flush=True)
"""
    assert "".join(lines_of(code)[0]).count("begun again") == 2


@pytest.mark.parametrize(
    ("how", "waits"),
    [*((how, "popdist") for how in FAILS if how not in ("_exit", "kill")), ("exit", "session"), ("raise", "work")],
)
def test_an_instance_that_fails_where_mpi4py_initialised_mpi(how, waits):
    """mpi4py finalises MPI then, before the C library gets the exit code."""
    result, _ = failing("from mpi4py import MPI\n" + program(how, waits))
    check_end(result, FAILS[how][1])
    if how in ("exception", "raise text"):
        assert "it went wrong" in result.stderr
    end = rf"process 1 on host '.*' \(replicas 2 to 3\) ends the job with exit code {FAILS[how][1]}: "
    assert re.search(end, result.stderr), result.stderr


def test_an_exit_that_is_caught_where_mpi4py_initialised_mpi():
    """It is no end of the program, and neither is the end of a thread."""
    code = """
import threading
from mpi4py import MPI
popdist.init()
popdist.synchronize()
if popdist.getInstanceIndex() == 1:
    try:
        sys.exit(3)
    except SystemExit as e:
        assert e.code == 3
    try:
        raise SystemExit(5)
    except SystemExit as e:
        assert e.code == 5
        e.code = 6
        assert e.code == 6 and e.args == (5,)
    thread = threading.Thread(target=lambda: sys.exit(4))
    thread.start()
    thread.join()
else:
    time.sleep(3)  # longer than a process that fails waits
    print("saved", flush=True)
sys.exit()
"""
    lines, log = lines_of(code)
    assert lines == ["saved"] and log == ""
