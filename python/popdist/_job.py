"""The job of this process, as the variables of its launcher describe it.

Launchers are tried in this order, and the first one that has set its variables is used: `poprun` (``POPDIST_*``), Open
MPI's ``mpirun`` (``OMPI_COMM_WORLD_*``, several processes), Slurm's ``srun --mpi=pmix`` (``SLURM_*``, several tasks).
With the last two, each process has ``POPDIST_NUM_LOCAL_REPLICAS`` replicas. Each call reads the variables again, and an
empty one counts as unset. Every function raises ValueError for a variable that is not a number or contradicts another.
"""

from popart_core import _popdist


def isPopdistEnvSet() -> bool:
    """Whether a launcher started this process as part of a job: `poprun`, or another one with several processes."""
    return _popdist.isPopdistEnvSet()


def getNumTotalReplicas() -> int:
    """Replicas of all instances; 1 in a plain process."""
    return _popdist.getNumTotalReplicas()


def getNumLocalReplicas() -> int:
    """Replicas of this instance; 1 in a plain process."""
    return _popdist.getNumLocalReplicas()


def getReplicaIndexOffset() -> int:
    """Global number of the first replica of this instance; 0 in a plain process."""
    return _popdist.getReplicaIndexOffset()


def getNumIpusPerReplica() -> int:
    """IPUs of each replica; 1 unless the job has another number."""
    return _popdist.getNumIpusPerReplica()


def getLocalInstanceIndex() -> int:
    """Number of this instance among those of its host, from 0; 0 in a plain process."""
    return _popdist.getLocalInstanceIndex()


def getInstanceIndex() -> int:
    """Number of this instance in its job, from 0. RuntimeError if instances have different numbers of replicas."""
    return _popdist.getInstanceIndex()


def getNumInstances() -> int:
    """Number of instances of the job. RuntimeError if they have different numbers of replicas."""
    return _popdist.getNumInstances()


def checkNumIpusPerReplica(numIpusPerReplica: int) -> bool:
    """Whether the job has the IPUs per replica that a program needs.

    Args:
        numIpusPerReplica: IPUs that a replica of the program needs.

    Returns:
        False if the launcher was given another number; True if it was given none.
    """
    return _popdist.checkNumIpusPerReplica(numIpusPerReplica)


def getDeviceId(ipusPerReplica: int = 0) -> int:
    """Number of a device for the replicas of this instance, for ``DeviceManager.acquireDeviceById``.

    Args:
        ipusPerReplica: IPUs of each replica; 0: as in the environment, else 1.

    Returns:
        Number of a free device; if there is none, of one in use.

    Raises:
        ValueError: `ipusPerReplica` is negative.
        popart_exception: the number of IPUs of all local replicas is not a power of two.
        RuntimeError: no device has that many IPUs.
    """
    return _popdist.getDeviceId(ipusPerReplica)
