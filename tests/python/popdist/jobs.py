"""Jobs that tests start: of mpirun, or of poprun."""

import os
import subprocess
import sys
import time
from pathlib import Path

from popdist.poprun.command import find_mpirun

ROOT = Path(__file__).resolve().parents[3]
LAUNCHERS = ("POPDIST_", "OMPI_", "PMIX_", "SLURM_")
# Messages stay on this machine. Open MPI 5 does not take this network for those of mpirun itself.
OF_MPIRUN = () if find_mpirun().is_prrte else ("--mca", "oob_tcp_if_include", "lo")
ONLY_HERE = ("--mca", "btl_tcp_if_include", "lo", *OF_MPIRUN)
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def environment_of(given):
    """That of a plain process, in which programs find this tree, and print a line in one piece."""
    env = {name: value for name, value in os.environ.items() if not name.startswith((*LAUNCHERS, "PYTHONUNBUFFERED"))}
    paths = [str(ROOT), *(path for path in sys.path if path)]
    return env | AS_ROOT | {"PYTHONPATH": os.pathsep.join(paths), "POPART_NUM_THREADS": "1"} | (given or {})


def timed(command, seconds, env):
    """Result of a command that ends in so many seconds, and the seconds that it took."""
    begin = time.monotonic()
    result = subprocess.run(
        ["timeout", "-k", "5", str(seconds), *command],
        capture_output=True,
        text=True,
        env=env,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
    )
    return result, time.monotonic() - begin


def run(program, *words, processes=1, local=1, environment=None, seconds=120):
    """Result of a program in so many processes of `local` replicas, and the seconds that it took."""
    env = environment_of({"POPDIST_NUM_LOCAL_REPLICAS": str(local)} | (environment or {}))
    env |= {} if processes > 1 else {"POPDIST_NUM_TOTAL_REPLICAS": str(local)}
    launcher = ["mpirun", "--oversubscribe", "--bind-to", "none", *ONLY_HERE, "-n", str(processes)]
    return timed([*(launcher if processes > 1 else []), sys.executable, *program, *words], seconds, env)


def poprun(code, *options, instances=2, local=2, environment=None, seconds=120):
    """As `run`, by poprun."""
    sizes = [f"--num-instances={instances}", f"--num-replicas={instances * local}"]
    network = f"--mpi-global-args={' '.join(ONLY_HERE)}"
    command = [sys.executable, "-m", "popdist.poprun", *sizes, network, *options, sys.executable, *program_of(code)]
    return timed(command, seconds, environment_of(environment))


def program_of(code):
    """Words of a program with the helpers of job_helpers.py."""
    return ["-c", "from tests.python.popdist.job_helpers import *\n" + code]


def lines_of(code, processes=2, local=2, **given):
    """What the processes of a job print, sorted, and their log."""
    result, _ = run(program_of(code), processes=processes, local=local, **given)
    assert result.returncode == 0, result.stdout + result.stderr
    return sorted(result.stdout.splitlines()), result.stderr


def failing(code, processes=2, local=2, **given):
    """Result and seconds of a job that fails."""
    result, seconds = run(program_of(code), processes=processes, local=local, **given)
    assert result.returncode != 0, result.stdout + result.stderr
    return result, seconds
