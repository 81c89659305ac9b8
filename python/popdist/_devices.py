"""The device of this instance: as many IPUs as its replicas need."""

from popdist._job import getNumIpusPerReplica, getNumLocalReplicas, whole_number


def checkNumIpusPerReplica(numIpusPerReplica: int) -> bool:
    """Whether the job's IPUs per replica are what a program needs.

    Args:
        numIpusPerReplica: IPUs that a replica of the program needs.

    Returns:
        False when the launcher was told another number; True when it was told none.
    """
    return whole_number("POPDIST_NUM_IPUS_PER_REPLICA", numIpusPerReplica, least=1) == numIpusPerReplica


def getDeviceId(ipusPerReplica: int = 0) -> int:
    """Number of a device for the replicas of this instance, for ``DeviceManager.acquireDeviceById``.

    Args:
        ipusPerReplica: IPUs of each replica; 0: as the environment says, else 1.

    Returns:
        Number of a device that is free; where none is, of one that is in use.

    Raises:
        ValueError: `ipusPerReplica` is negative.
        popart_exception: the IPUs of all local replicas are not a power of two.
        RuntimeError: there is no device with so many IPUs.
    """
    import popart_core

    if ipusPerReplica < 0:
        raise ValueError(f"getDeviceId: ipusPerReplica: got {ipusPerReplica}, expected 0 or more.")
    ipus = getNumLocalReplicas() * (ipusPerReplica or getNumIpusPerReplica())
    manager = popart_core.DeviceManager()
    device = manager.tryAcquireAvailableDevice(ipus)
    if device is not None:
        device.detach()
        return device.id
    devices = manager.enumerateDevices(numIpus=ipus)
    if not devices:
        raise RuntimeError(
            f"getDeviceId: there is no device with {ipus} IPUs, for {getNumLocalReplicas()} local replicas. Set "
            f"POPART_VIRTUAL_IPUS={ipus} or more."
        )
    return devices[0].id
