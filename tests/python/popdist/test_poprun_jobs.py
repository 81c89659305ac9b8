"""Jobs of poprun: output, exit codes, signals, restarts; with an mpirun that is a script, and with Open MPI's own."""

import os
import re
import signal
import subprocess
import sys

import pytest
from popdist.poprun import launch
from popdist.poprun.main import run

TWO = ["--num-instances=2", "--num-replicas=4"]
LOG = re.compile(r"\d\d:\d\d:\d\d\.\d{3} \d+ POPRUN \[([IDWE])\] (.*)")


@pytest.fixture(autouse=True)
def root_is_allowed(monkeypatch):
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")


@pytest.fixture
def mpirun(tmp_path, monkeypatch):
    """Makes an mpirun whose version is 4.1.4, and which does otherwise what a text for the shell says."""

    def make(text):
        file = tmp_path / "bin" / "mpirun"
        file.parent.mkdir()
        file.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "mpirun (Open MPI) 4.1.4" && exit\n{text}\n')
        file.chmod(0o755)
        monkeypatch.setenv("PATH", f"{file.parent}:{os.environ['PATH']}")

    return make


def log_of(text):
    """(level, text) of the lines of poprun's log."""
    return [found.groups() for line in text.splitlines() if (found := LOG.fullmatch(line))]


def say(instance, text, stream="stdout"):
    return f"echo '[1,{instance}]<{stream}>:{text}'{' >&2' if stream == 'stderr' else ''}"


@pytest.mark.parametrize("code", [0, 1, 3, 137])
def test_output_and_exit_code_are_those_of_mpirun(mpirun, capfdbinary, code):
    mpirun(f"printf 'a\\377b'; echo err >&2; exit {code}")
    assert run([*TWO, "sh"]) == code
    out, err = capfdbinary.readouterr()
    assert out == b"a\xffb" and err.startswith(b"err\n")
    assert (b"[E] the job ended with exit code" in err) == (code != 0)


def test_the_log_says_what_is_run(mpirun, capfd):
    mpirun("exit 0")
    assert run(["-v", *TWO, "--offline-mode=1", "--vipu-partition=p", "sh", "-c", "echo 'a b'"]) == 0
    err = capfd.readouterr().err
    assert "|      poprun topology      |" in err
    unused, running, waiting, ended = log_of(err)
    assert unused == ("I", "options without effect here: --offline-mode, --vipu-partition")
    assert running[1].startswith("running: ") and running[1].endswith("sh -c 'echo '\"'\"'a b'\"'\"''")
    assert re.fullmatch(r"waiting for mpirun \(PID \d+\)", waiting[1])
    assert ended == ("I", "mpirun ended with exit code 0")
    assert run(["-vv", *TWO, "sh"]) == 0
    details = [text for level, text in log_of(capfd.readouterr().err) if level == "D"]
    assert "Open MPI 4.1.4" in details[0] and "instance 1 (host localhost, replicas 2 to 3): POPDIST_NUM" in details[2]
    assert run([*TWO, "sh"]) == 0
    assert capfd.readouterr().err == ""


def test_the_table_alone_starts_nothing(mpirun, capfd):
    mpirun("echo started")
    assert run(["--print-topology=yes"]) == 0
    out, err = capfd.readouterr()
    assert out == "" and "poprun topology" in err
    assert run(["--print-topology=yes", "sh"]) == 0
    out, err = capfd.readouterr()
    assert out == "started\n" and "poprun topology" in err


def test_output_of_others_is_hidden(mpirun, capfd):
    lines = [say(0, "first"), say(1, "mine"), say(0, "e0", "stderr"), say(1, "e1", "stderr"), "echo of mpirun >&2"]
    mpirun("; ".join([*lines, "printf '[1,1]<stdout>:no end'"]))
    assert run([*TWO, "--only-output-from-instance=1", "sh"]) == 0
    assert capfd.readouterr() == (
        "[1,1]<stdout>:mine\n[1,1]<stdout>:no end",
        "[1,1]<stderr>:e1\nof mpirun\n",
    )


def test_the_last_lines_of_others_show_when_the_job_fails(mpirun, capfd):
    loop = 'i=0; while [ $i -lt 30 ]; do echo "[1,0]<stdout>:line $i"; i=$((i + 1)); done'
    mpirun(f"{loop}; {say(0, 'why', 'stderr')}; printf '  Process name: [[2,1],0]\\n' >&2; exit 3")
    assert run([*TWO, "--only-output-from-instance=1", "sh"]) == 3
    out, err = capfd.readouterr()
    assert out == ""
    assert log_of(err) == [
        ("E", "instance 0 (host localhost, replicas 0 to 1) ended the job, with exit code 3"),
        ("E", "last lines of instance 0:"),
    ]
    shown = re.findall(r"line (\d+)", err)
    assert shown == [str(i) for i in range(10, 30)] and "[1,0]<stderr>:why" in err


def test_parts_of_lines_are_told_apart(mpirun, capfd):
    """Open MPI 4 writes what has no end of line as it comes."""
    mpirun("printf '[1,0]<stdout>:a[1,1]<stdout>:b[1,0]<stdout>:\\n[1,1]<stdout>:\\n'; exit 1")
    assert run([*TWO, "--only-output-from-instance=1", "sh"]) == 1
    out, err = capfd.readouterr()
    assert out == "[1,1]<stdout>:b\n"
    assert err.splitlines()[-1] == "[1,0]<stdout>:a"


@pytest.mark.parametrize(
    "message",
    [
        "  Process name: [[26076,1],1]",
        "   Process name: [prterun-vm-2613@1,1]",
        "mpirun noticed that process rank 1 with PID 77 on node a exited on signal 9 (Killed).",
        "prterun noticed that process\nrank 1 with PID 77 on node a exited on\nsignal 9 (Killed).",
        "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD",
        "This error was first reported for process rank\n1; it may have",
    ],
)
def test_the_instance_that_mpirun_names_is_named_with_its_replicas(mpirun, capfd, message):
    mpirun(f"echo '{message}' >&2; exit 9")
    assert run([*TWO, "sh"]) == 9
    expected = ("E", "instance 1 (host localhost, replicas 2 to 3) ended the job, with exit code 9")
    assert log_of(capfd.readouterr().err) == [expected]


def test_a_job_that_failed_is_started_again(mpirun, capfd, tmp_path):
    mpirun(f"echo run >> {tmp_path}/runs; [ $(wc -l < {tmp_path}/runs) = 3 ] || exit 4")
    assert run(["--max-restarts=1", *TWO, "sh"]) == 4
    assert [text for level, text in log_of(capfd.readouterr().err) if level == "W"] == [
        "starting the job again (1 of 1)"
    ]
    assert run(["--max-restarts=5", *TWO, "sh"]) == 0
    assert len((tmp_path / "runs").read_text().split()) == 3


def processes_with(word):
    found = []
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{number}/cmdline") as file:
                found += [number] if word in file.read() else []
        except OSError:
            continue
    return found


@pytest.mark.parametrize("name, code", [("TERM", 143), ("INT", 130), ("HUP", 129)])
def test_a_signal_ends_the_job(mpirun, capfd, name, code):
    """The script sends it to poprun, which passes on SIGTERM; the job is not started again."""
    mpirun(f"trap 'exit 1' TERM; kill -{name} $PPID; while :; do sleep 0.05; done")
    before = signal.getsignal(signal.SIGINT)
    assert run(["--max-restarts=3", *TWO, "sh"]) == code
    assert log_of(capfd.readouterr().err) == [("W", f"SIG{name} ended the job")]
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("second", [False, True])
def test_what_ignores_the_signal_is_killed(mpirun, capfd, monkeypatch, second):
    """After the time for it, or at the second signal; with processes in groups of their own."""
    monkeypatch.setattr(launch, "GRACE_SECONDS", 60 if second else 1)
    mark = f"popdist-{os.getpid()}-{second}"
    child = f"{sys.executable} -Sc 'import os, time; os.setpgid(0, 0); os.write(1, b\".\\n\"); time.sleep(600)' {mark}"
    again = "sleep 0.2; kill -TERM $PPID;" if second else ""
    mpirun(f"trap '' TERM; {child} & read line < /dev/null; kill -TERM $PPID; {again} while :; do sleep 1; done")
    assert run([*TWO, "sh"]) == 143
    assert processes_with(mark) == []


def test_nothing_is_left_when_mpirun_is_killed(mpirun, capfd):
    mark = f"popdist-{os.getpid()}-left"
    mpirun(f"sh -c 'while :; do sleep 0.1; done' {mark} & kill -KILL $$")
    assert run([*TWO, "sh"]) == 137
    assert processes_with(mark) == []


# ---- Open MPI, which ./dev setup installs


def poprun(*words, timeout=100, **options):
    command = [sys.executable, "-m", "popdist.poprun", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL, **options)


def text_of(instance, output):
    """What one instance wrote; mpirun puts a tag in front of each part of a line."""
    parts = re.split(r"\[1,(\d+)\]<stdout>: ?", output)
    return "".join(text for number, text in zip(parts[1::2], parts[2::2]) if int(number) == instance)


PROGRAM = """
import json, popdist, sys
popdist.init()
place = [popdist.getInstanceIndex(), popdist.getNumInstances(), popdist.getReplicaIndexOffset()]
print(json.dumps([place, popdist.getLocalInstanceIndex(), popdist.isBackendInitialized(), sys.argv[1:]]))
"""


def test_instances_know_where_they_are():
    result = poprun(*TWO, "--numa-aware=yes", "--mpi-local-args=-x A='1 2'", sys.executable, "-c", PROGRAM, "a b", "-x")
    assert result.returncode == 0, result.stderr
    expected = [f'[[{i}, 2, {2 * i}], {i}, true, ["a b", "-x"]]\n' for i in range(2)]
    assert [text_of(i, result.stdout) for i in range(2)] == expected


def test_the_exit_code_of_an_instance_is_that_of_the_job():
    script = "echo out; exit $((POPDIST_REPLICA_INDEX_OFFSET * 2))"
    result = poprun(*TWO, "--only-output-from-instance=0", "sh", "-c", script)
    assert result.returncode == 4
    assert text_of(0, result.stdout) in ("out\n", "") and text_of(1, result.stdout) == ""
    assert log_of(result.stderr)[0][0] == "E"


def test_processes_of_mpirun_are_a_job():
    code = "import popdist; print(popdist.isPopdistEnvSet(), popdist.getNumInstances(), popdist.getInstanceIndex())"
    command = ["mpirun", "--bind-to", "none", "--oversubscribe", "-np", "2", sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, timeout=100, stdin=subprocess.DEVNULL)
    assert sorted(result.stdout.splitlines()) == ["True 2 0", "True 2 1"], result.stderr


def test_a_signal_ends_all_instances(tmp_path):
    mark = f"popdist-{os.getpid()}-real"
    program = ["sh", "-c", "trap '' TERM; echo here; while :; do sleep 0.1; done", mark]
    command = [sys.executable, "-m", "popdist.poprun", *TWO, *program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL) as job:
        try:
            seen = [job.stdout.readline() for _ in range(2)]
            assert all(b"here" in line for line in seen), job.stderr.read()
            assert len(processes_with(mark)) >= 3
            job.send_signal(signal.SIGTERM)
            assert job.wait(timeout=100) == 143
        finally:
            job.kill()
    assert processes_with(mark) == []
