"""popdist in a plain process: one instance, rank 0.

Programs ask ``isPopdistEnvSet`` while they are imported and the other functions without a guard. The functions read the
variables that ``poprun`` sets; each raises ValueError when its variable is no number.
"""

import os

__all__ = [
    "getGlobalReplicaOffset",
    "getInstanceIndex",
    "getNumInstances",
    "getNumLocalReplicas",
    "getNumTotalReplicas",
    "isPopdistEnvSet",
]


def isPopdistEnvSet() -> bool:
    """Whether this process was started by ``poprun``."""
    return "POPDIST_NUM_TOTAL_REPLICAS" in os.environ


def getInstanceIndex() -> int:
    """Rank of this process; 0 in a plain process."""
    return int(os.environ.get("POPDIST_INSTANCE_INDEX", "0"))


def getNumInstances() -> int:
    """Number of processes; 1 in a plain process."""
    return int(os.environ.get("POPDIST_NUM_INSTANCES", "1"))


def getNumLocalReplicas() -> int:
    """Replicas of this process."""
    return int(os.environ.get("POPDIST_NUM_LOCAL_REPLICAS", "1"))


def getNumTotalReplicas() -> int:
    """Replicas of all processes."""
    return int(os.environ.get("POPDIST_NUM_TOTAL_REPLICAS", "1"))


def getGlobalReplicaOffset() -> int:
    """Number of replicas in processes of lower rank."""
    return int(os.environ.get("POPDIST_REPLICA_INDEX_OFFSET", "0"))
