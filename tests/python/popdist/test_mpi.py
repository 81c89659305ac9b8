"""The transport on MPI in real jobs: the program tests/ranks/mpi_job.cpp, started by mpirun."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.python.popdist.jobs import ONLY_HERE

BUILD = Path(__file__).resolve().parents[3] / "build" / os.environ.get("POPART_PRESET", "dev")
PROGRAM = BUILD / "bin" / "popart_mpi_job"


def job(processes, *words, network=(), environment=None):
    """Result of a job, and the seconds that it took; nothing leaves this machine."""
    options = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(processes), *ONLY_HERE]
    command = ["timeout", "-k", "5", "60", "mpirun", *options, *network, str(PROGRAM), *words]
    begin = time.monotonic()
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(environment or {})})
    return result, time.monotonic() - begin


def lines_of(processes, *words):
    """What all processes of a job without a failure say, sorted."""
    result, _ = job(processes, *words)
    assert result.returncode == 0, result.stdout + result.stderr
    return sorted(result.stdout.splitlines())


SOCKETS = ("--mca", "btl", "tcp,self")


@pytest.mark.parametrize(
    ("processes", "words", "network"),
    [(2, [], ()), (3, [], ()), (2, [], SOCKETS), (2, ["65536"], ())],
    ids=["2", "3", "sockets", "parts"],
)
def test_messages_of_all_sizes_in_both_directions(processes, words, network):
    """0 bytes to 8 MiB in 1 to 40 pieces, all at the same time; with an argument in parts of so many bytes."""
    result, _ = job(processes, "channels", *words, network=network)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("processes", [2, 3])
def test_operations_have_the_bits_of_the_tree(processes):
    assert lines_of(processes, "operations") == []


@pytest.mark.parametrize("processes", [2, 3])
def test_texts_are_gathered(processes):
    assert lines_of(processes, "gather") == []


def test_a_failure_ends_the_messages_of_all_with_its_process_and_text():
    """And a new transport works."""
    operation = "exchange of replicas: process 1 on host 'host0' (replica 1): index 9 is out of range"
    assert lines_of(3, "abort") == ["MPI: process 1: index 9 is out of range"] * 3 + [operation] * 3


@pytest.mark.parametrize(("who", "number"), [("first", 0), ("last", 2)])
def test_a_process_that_does_not_come_is_named(who, number):
    text = f"MPI: process {number} did not reach a point that all processes must reach together within 0.3 s. "
    lines = lines_of(3, "absent", who)
    assert len(lines) == 2
    assert all(line.startswith(text) for line in lines)


@pytest.mark.parametrize(("how", "code"), [("kill", 137), ("leave", 3)])
def test_the_loss_of_a_process_ends_the_job(how, code):
    """One is killed; one leaves while the others are in an operation, which they would never leave."""
    result, seconds = job(2, "lose", how)
    assert result.returncode == code, result.stdout + result.stderr
    assert seconds < 10
    if how == "leave":
        assert "process 0 did not reach a point" in result.stderr


def test_a_job_of_another_launcher_is_refused():
    result, _ = job(2, "join", "4")
    assert result.returncode != 0
    assert "MPI: the launcher started 4 processes, MPI knows of 2. Its library (Open MPI v" in result.stderr
    assert "set POPART_MPI_LIBRARY" in result.stderr


def test_the_library_is_the_one_that_is_asked_for():
    result, _ = job(1, "join", "1", environment={"POPART_MPI_LIBRARY": "/no/such/libmpi.so.40"})
    assert result.returncode != 0
    assert "failed: environment variable POPART_MPI_LIBRARY: cannot load '/no/such/libmpi.so.40': " in result.stderr
