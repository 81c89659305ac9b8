"""The device of a popxl.Session: given, or acquired when the session attaches."""

import time
from typing import Any

from popart_core import DeviceConnectionType, DeviceInfo, DeviceManager, DeviceType, popart_exception

from popxl.utils import HW_DEVICE_CONNECTION_TIMEOUT


class SessionDevice:
    """The session's device: the given one, or one of the requested kind, held while the session is attached."""

    def __init__(self, description: str | DeviceInfo, core: Any, replicas: int) -> None:
        self._description = description
        self._core = core
        self._needed = core.ipus() * replicas
        self._ipus = 1 << (self._needed - 1).bit_length()
        self.info: DeviceInfo | None = None
        self.is_attached = False
        if isinstance(description, DeviceInfo) and description.isAttached:
            self.attach()

    def attach(self) -> bool:
        """Attach to the device and load the program on it.

        Returns:
            True.

        Raises:
            RuntimeError: No device has as many IPUs as the program needs, or none became free in time.
            popart_exception: The device given has fewer IPUs, is in use, or is an offline device.
        """
        given = self._description
        if isinstance(given, DeviceInfo) and given.type != DeviceType.Cpu and given.numIpus < self._needed:
            raise popart_exception(
                f"Session: the device does not suit the program: got {given.numIpus} IPUs, expected {self._needed} for "
                "all replicas. Acquire a device with that many IPUs."
            )
        self.info = given if isinstance(given, DeviceInfo) else self._acquire()
        self._core.load(self.info)
        self.is_attached = True
        return True

    def detach(self) -> None:
        """Release the device."""
        if self.info is not None:
            self.info.detach()
        self.info = None
        self.is_attached = False

    def _acquire(self) -> DeviceInfo:
        manager = DeviceManager()
        if self._description == "cpu":
            return manager.createCpuDevice()
        if self._description == "ipu_model":
            return manager.createIpuModelDevice({"numIPUs": self._ipus})
        if not manager.enumerateDevices(numIpus=self._ipus):
            raise RuntimeError(
                f"Session: no device has the IPUs that the program needs: expected {self._ipus}. Place ops on fewer "
                "IPUs, or set POPART_VIRTUAL_IPUS to more."
            )
        deadline = time.monotonic() + HW_DEVICE_CONNECTION_TIMEOUT
        while True:
            info = manager.tryAcquireAvailableDevice(self._ipus, connectionType=DeviceConnectionType.OnDemand)
            if info is not None and info.attach():
                return info
            if time.monotonic() > deadline:
                raise RuntimeError(f"Session: no device with {self._ipus} IPUs became free in time.")
            time.sleep(0.05)
