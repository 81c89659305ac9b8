"""Jobs with Open MPI 5, whichever version the system has: tests of this folder in processes that find it first."""

import os
import re
import subprocess
import sys

import pytest

from tests.python.popdist.jobs import ROOT

FOLDER = ROOT / ".venv" / "open-mpi-5"
HERE = "tests/python/popdist"
SLICES = {
    "transport": [f"{HERE}/test_mpi.py"],
    "instances": [
        f"{HERE}/test_instances.py::test_collectives_of_all_instances_and_of_some[2]",
        f"{HERE}/test_instances.py::test_programs_use_mpi4py_as_well",
        f"{HERE}/test_instances.py::test_sessions_and_popdist_begin_in_either_order[popdist]",
    ],
    "poprun": [
        f"{HERE}/test_instances.py::test_poprun_starts_a_job_whose_instances_meet",
        f"{HERE}/test_failures.py::test_poprun_names_the_instance[exit]",
        f"{HERE}/test_failures.py::test_poprun_names_the_instance[kill]",
    ],
    "ends": [
        f"{HERE}/test_failures.py::test_an_instance_that_fails_ends_the_job[exception-popdist]",
        f"{HERE}/test_failures.py::test_an_instance_that_fails_where_mpi4py_initialised_mpi[raise-popdist]",
        f"{HERE}/test_failures.py::test_an_instance_may_end_long_before_the_others",
    ],
}

if not (FOLDER / "bin" / "mpirun").exists():
    pytest.skip(f"there is no {FOLDER}: ./dev setup installs requirements-mpi.txt", allow_module_level=True)


def output_of(*words):
    """Of a Python program that finds Open MPI 5 first."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    for name, folder in {"PATH": "bin", "LD_LIBRARY_PATH": "lib"}.items():
        env[name] = os.pathsep.join([str(FOLDER / folder), *filter(None, [env.get(name)])])
    command = ["timeout", "-k", "5", "300", sys.executable, *words]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=env, stdin=subprocess.DEVNULL)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


def test_program_and_library_are_those_of_version_5():
    code = """
import os
from tests.python.popdist.jobs import lines_of
lines, log = lines_of("popdist.init()", environment={"POPART_LOG_LEVEL": "INFO"})
from popdist.poprun.command import find_mpirun
print(find_mpirun(), log)
"""
    found = output_of("-c", code)
    assert re.search(r"version=\(5, ", found), found
    libraries = {os.path.dirname(file) for file in re.findall(r"MPI: (/\S+)", found)}
    assert libraries == {str(FOLDER.resolve() / "lib")}, found


@pytest.mark.parametrize("name", SLICES)
def test_jobs_run_with_version_5(name):
    found = output_of("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *SLICES[name])
    last = found.strip().splitlines()[-1]
    assert re.fullmatch(r"=*\s*\d+ passed in .*", last), found
