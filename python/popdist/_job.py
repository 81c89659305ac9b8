"""The job that this process belongs to, as the variables of its launcher say.

The first launcher of this order that set its variables counts: `poprun` (``POPDIST_*``), Open MPI's ``mpirun``
(``OMPI_COMM_WORLD_*``, more than one process), Slurm's ``srun --mpi=pmix`` (``SLURM_*``, more than one task). In jobs
of the last two each process has ``POPDIST_NUM_LOCAL_REPLICAS`` replicas. Variables are read anew by each call, and an
empty one counts as unset. Every function raises ValueError for a variable that is not a number or contradicts another.
"""

import os
import warnings
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Job:
    """Where this process is in its job."""

    total: int  # replicas of all instances
    local: int  # replicas of this instance
    offset: int  # global number of its first replica
    uniform: bool  # all instances have equally many replicas
    local_instance: int  # number of this instance among those of its host
    index: int | None  # number of this instance, where a variable says it
    instances: int | None  # number of all instances, likewise


def isPopdistEnvSet() -> bool:
    """Whether a launcher started this process as part of a job: `poprun`, or another one with several processes."""
    return _launcher() != ""


def getNumTotalReplicas() -> int:
    """Replicas of all instances; 1 in a plain process."""
    return job().total


def getNumLocalReplicas() -> int:
    """Replicas of this instance; 1 in a plain process."""
    return job().local


def getReplicaIndexOffset() -> int:
    """Global number of the first replica of this instance; 0 in a plain process."""
    return job().offset


def getNumIpusPerReplica() -> int:
    """IPUs of each replica; 1 unless the job says otherwise."""
    return whole_number("POPDIST_NUM_IPUS_PER_REPLICA", 1, least=1)


def getLocalInstanceIndex() -> int:
    """Number of this instance among those of its host, from 0; 0 in a plain process."""
    return job().local_instance


def getInstanceIndex() -> int:
    """Number of this instance in its job, from 0. RuntimeError if instances have different numbers of replicas."""
    return _place()[0]


def getNumInstances() -> int:
    """Number of instances of the job. RuntimeError if they have different numbers of replicas."""
    return _place()[1]


def job() -> Job:
    """The job of this process."""
    started_by = _launcher()
    if started_by == "poprun":
        return _checked(
            Job(
                total=whole_number("POPDIST_NUM_TOTAL_REPLICAS", 1, least=1),
                local=whole_number("POPDIST_NUM_LOCAL_REPLICAS", 1, least=1),
                offset=whole_number("POPDIST_REPLICA_INDEX_OFFSET", 0),
                uniform=whole_number("POPDIST_UNIFORM_REPLICAS_PER_INSTANCE", 1) != 0,
                local_instance=whole_number("POPDIST_LOCAL_INSTANCE_INDEX", 0),
                index=_given("POPDIST_INSTANCE_INDEX"),
                instances=_given("POPDIST_NUM_INSTANCES"),
            )
        )
    if started_by == "mpirun":
        return _one_of("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK")
    if started_by == "srun":
        return _one_of("SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID")
    return Job(total=1, local=1, offset=0, uniform=True, local_instance=0, index=0, instances=1)


def _launcher() -> str:
    """Who started this process as part of a job; empty for a plain process."""
    if os.environ.get("POPDIST_NUM_TOTAL_REPLICAS"):
        return "poprun"
    if os.environ.get("OMPI_COMM_WORLD_SIZE"):
        return "mpirun" if whole_number("OMPI_COMM_WORLD_SIZE", 1, least=1) > 1 else ""
    # A batch script has the number of tasks, too; only a process that srun started with PMIx has a rank.
    if os.environ.get("PMIX_RANK") and os.environ.get("SLURM_PROCID") and whole_number("SLURM_NTASKS", 1, least=1) > 1:
        return "srun"
    if (size := os.environ.get("WORLD_SIZE", "")).isdecimal() and int(size) > 1:
        _warn_of_torchrun()
    return ""


@cache
def _warn_of_torchrun() -> None:
    warnings.warn(
        f"WORLD_SIZE is {os.environ['WORLD_SIZE']}: this process seems to be started by torchrun, which starts no MPI, "
        "so for popdist it is a job of its own. Start the program with poprun or mpirun.",
        RuntimeWarning,
        stacklevel=4,
    )


def _one_of(size: str, rank: str, local_rank: str) -> Job:
    """The job of a launcher that knows processes and no replicas."""
    local, instances, index = (
        whole_number("POPDIST_NUM_LOCAL_REPLICAS", 1, least=1),
        whole_number(size, 1, least=1),
        whole_number(rank, 0),
    )
    if index >= instances:
        raise ValueError(f"{rank}: got {index}, expected a number below {size}, which is {instances}.")
    return Job(local * instances, local, local * index, True, whole_number(local_rank, 0), index, instances)


def _checked(found: Job) -> Job:
    """The job, if its numbers fit one another."""
    if found.offset + found.local > found.total:
        raise ValueError(
            f"POPDIST_REPLICA_INDEX_OFFSET + POPDIST_NUM_LOCAL_REPLICAS: got {found.offset} + {found.local}, expected "
            f"at most POPDIST_NUM_TOTAL_REPLICAS, which is {found.total}."
        )
    if found.uniform and (found.total % found.local or found.offset % found.local):
        raise ValueError(
            f"POPDIST_NUM_TOTAL_REPLICAS, POPDIST_REPLICA_INDEX_OFFSET: got {found.total} and {found.offset}, expected "
            f"multiples of POPDIST_NUM_LOCAL_REPLICAS, which is {found.local}. Set "
            "POPDIST_UNIFORM_REPLICAS_PER_INSTANCE=0 when instances have different numbers of replicas."
        )
    return found


def _place() -> tuple[int, int]:
    """Number of this instance, and of all; unless a variable says them they follow from the replicas."""
    found = job()
    if not found.uniform:
        raise RuntimeError(
            "The instances of this job have different numbers of replicas (POPDIST_UNIFORM_REPLICAS_PER_INSTANCE is "
            "0), so that their number and index do not follow from them. Use getReplicaIndexOffset."
        )
    index = found.offset // found.local if found.index is None else found.index
    return index, found.total // found.local if found.instances is None else found.instances


def _given(name: str) -> int | None:
    return whole_number(name, 0) if os.environ.get(name) else None


def whole_number(name: str, default: int, *, least: int = 0) -> int:
    """The number that an environment variable has."""
    text = os.environ.get(name)
    if not text:
        return default
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise ValueError(f"{name}: got '{text}', expected a whole number of {least} or more.")
    return number


def seconds(name: str, default: float) -> float:
    """The time above 0 that an environment variable has."""
    text = os.environ.get(name)
    if not text:
        return default
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= 366 * 24 * 3600:
        raise ValueError(f"{name}: got '{text}', expected seconds: a number above 0, at most a year.")
    return number
