"""popdist for programs of the package `popart`: session options and device of this instance."""

import popdist
from popart_core import DeviceConnectionType, DeviceInfo, DeviceManager, SessionOptions, SyncPattern

__all__ = ["configureSessionOptions", "getDevice"]


def configureSessionOptions(options: SessionOptions) -> SessionOptions:
    """Set the options for the numbers of replicas of this instance and of the job.

    Args:
        options: changed in place. ``enableReplicatedGraphs`` and ``replicatedGraphCount`` follow from the local
            replicas; ``enableDistributedReplicatedGraphs``, ``globalReplicationFactor`` and ``globalReplicaOffset``
            from all.

    Returns:
        The same object.

    Raises:
        ValueError: a variable of the job is not a number, or contradicts another one.
    """
    local, total = popdist.getNumLocalReplicas(), popdist.getNumTotalReplicas()
    options.enableReplicatedGraphs = local > 1
    options.replicatedGraphCount = local
    options.enableDistributedReplicatedGraphs = total > local
    options.globalReplicationFactor = total
    options.globalReplicaOffset = popdist.getReplicaIndexOffset()
    return options


def getDevice(
    ipusPerReplica: int = 0,
    connectionType: DeviceConnectionType = DeviceConnectionType.Always,
    pattern: SyncPattern = SyncPattern.Full,
) -> DeviceInfo:
    """The device of this instance.

    Args:
        ipusPerReplica: IPUs of each replica; 0: as in the environment, else 1.
        connectionType: when it is attached.
        pattern: how IPUs synchronise; kept, no effect here.

    Returns:
        A device with local replicas x IPUs per replica.

    Raises:
        ValueError: `ipusPerReplica` is negative.
        RuntimeError: no device has that many IPUs.
        popart_exception: no such device is free, or the number of IPUs is not a power of two.
    """
    return DeviceManager().acquireDeviceById(popdist.getDeviceId(ipusPerReplica), pattern, connectionType)
