"""``gc-info``: the devices that ``DeviceManager().enumerateDevices`` lists, with the Ids of ``acquireDeviceById``.

The lines are those of Graphcore's command, so that scripts that read them go on working.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

import popart_core
from popart_core import DeviceManager

from popart.tools import files
from popart.tools.command import ExitCode, UsageError, plain_parser, run_as_process

DESCRIPTION = """List the devices that programs can acquire, or describe one. Here they are virtual IPUs, which compute
on the CPU, and GPUs where there are any."""

TARGETS = {"virtual": "Virtual", "cuda": "CUDA"}  # by the version of a device
TILE_CLOCK = "1330MHz"  # that the model of an IPU counts cycles with


def arguments_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The parsed command line."""
    parser = plain_parser("gc-info", DESCRIPTION)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("-l", "--list-devices", action="store_true", help="list all devices with their Ids")
    what.add_argument("-i", "--device-info", action="store_true", help="describe a device; needs --device-id")
    what.add_argument("--ipu-count", action="store_true", help="print the number of IPUs")
    what.add_argument("--ipu-arch", action="store_true", help="print the architecture of the IPUs")
    what.add_argument("--tile-clock-speed", action="store_true", help="print the clock that cycles are counted with")
    parser.add_argument("-d", "--device-id", type=int, metavar="N", help="Id of the device")
    parser.add_argument(
        "--all-partitions", action="store_true", help="with -l: those of other partitions too; there are none here"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parsed, others = parser.parse_known_args(arguments)
    if others:
        raise UsageError(f"{' '.join(others)}: this asks the hardware of an IPU, and there is none. See gc-info --help")
    if parsed.device_info and parsed.device_id is None:
        raise UsageError("--device-info: no device is named. Give its Id with -d N; gc-info -l lists the Ids")
    return parsed


def all_devices() -> list[Any]:
    """All devices: single IPUs first, then pairs, fours, and so on."""
    found: list[Any] = []
    count = 1
    while group := DeviceManager().enumerateDevices(numIpus=count):
        found += group
        count *= 2
    return found


def target_of(device: Any) -> str:
    """The kind of a single device."""
    return TARGETS.get(device.version, device.version)


def listing(devices: Sequence[Any]) -> str:
    """The devices as ``gc-info -l`` prints them."""
    lines = ["Graphcore device listing:", ""]
    for device in devices:
        if device.numIpus == 1:
            lines.append(f"-+- Id: [{device.id}], target: [{target_of(device)}], IPU#: [{device.driverIds[0]}]")
            continue
        lines.append(f"-+- Id: [{device.id}], target: [Multi IPU]")
        for place, ipu in enumerate(device.driverIds):
            lines.append(f" |--- Id: [{ipu}], DNC Id: [{place}], IPU#: [{ipu}]")
    return "\n".join(lines)


def facts_of(device: Any) -> dict[str, str]:
    """What is known of a device, by the keys of ``gc-info -i``."""
    return {
        "id": str(device.id),
        "target": target_of(device) if device.numIpus == 1 else "Multi IPU",
        "ipus": " ".join(str(ipu) for ipu in device.driverIds),
        "ipu architecture": device.ipuVersion,
        "number of tiles": str(device.numIpus * device.tilesPerIPU),
        "clock": TILE_CLOCK,
        "driver version": popart_core._ownVersion,
        "remote buffers supported": "1",
    }


def command(arguments: Sequence[str] | None = None) -> int:
    """Print what is asked for; the exit code of the command."""
    parsed = arguments_of(arguments)
    devices = all_devices()
    if parsed.device_id is not None:
        devices = [device for device in devices if device.id == parsed.device_id]
        if not devices:
            raise UsageError(f"--device-id: there is no device with Id {parsed.device_id}. gc-info -l lists the Ids")
    answer: Any
    if parsed.list_devices:
        answer, text = [facts_of(device) for device in devices], listing(devices)
    elif parsed.device_info:
        answer = facts_of(devices[0])
        text = "\n".join(["Device Info:", *(f"  {key}: {value}" for key, value in answer.items())])
    elif parsed.ipu_count:
        answer = len({ipu for device in devices for ipu in device.driverIds})
        text = str(answer)
    elif parsed.ipu_arch:
        answer = text = devices[0].ipuVersion
    else:
        answer = text = TILE_CLOCK
    print(files.json_text(answer) if parsed.json else text)
    return ExitCode.DONE


def main() -> NoReturn:
    """The command of the wheel."""
    run_as_process("gc-info", command)


if __name__ == "__main__":
    main()
