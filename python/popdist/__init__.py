"""popdist: facts about the instances of a job, and collectives of their hosts.

An instance is one process of the program. `poprun` (or plain ``mpirun``, or ``srun --mpi=pmix``) starts several. A
process that none of them started is the only instance, and all functions work in it, without MPI. In a job of
several instances `init` and the collectives load Open MPI 4 or 5.
"""

from popdist._backend import (
    finalizeBackend,
    init,
    initializeBackend,
    isBackendInitialized,
    registerBackend,
    registerDefaultBackend,
)
from popdist._collectives import (
    allGather,
    allReduce,
    broadcast,
    defaultCommunicatorId,
    execute_on_instances,
    registerCommunicator,
    synchronize,
)
from popdist._job import (
    checkNumIpusPerReplica,
    getDeviceId,
    getInstanceIndex,
    getLocalInstanceIndex,
    getNumInstances,
    getNumIpusPerReplica,
    getNumLocalReplicas,
    getNumTotalReplicas,
    getReplicaIndexOffset,
    isPopdistEnvSet,
)

getGlobalReplicaOffset = getReplicaIndexOffset  # its name in the first version of this package

__all__ = [
    "allGather",
    "allReduce",
    "broadcast",
    "checkNumIpusPerReplica",
    "defaultCommunicatorId",
    "execute_on_instances",
    "finalizeBackend",
    "getDeviceId",
    "getInstanceIndex",
    "getLocalInstanceIndex",
    "getNumInstances",
    "getNumIpusPerReplica",
    "getNumLocalReplicas",
    "getNumTotalReplicas",
    "getReplicaIndexOffset",
    "init",
    "initializeBackend",
    "isBackendInitialized",
    "isPopdistEnvSet",
    "registerBackend",
    "registerCommunicator",
    "registerDefaultBackend",
    "synchronize",
]
