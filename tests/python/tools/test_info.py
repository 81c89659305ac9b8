"""gc-info and popart-info."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import popart
import pytest
from popart.tools import info

from tests.python.tools.test_commands import python, script

IPUS = {**os.environ, "POPART_VIRTUAL_IPUS": "4"}
LIST = """
import json, popart
manager = popart.DeviceManager()
devices = [device for count in (1, 2, 4, 8) for device in manager.enumerateDevices(numIpus=count)]
print(json.dumps([(device.id, device.driverIds) for device in devices]))
"""


def test_gc_info_lists_the_devices_of_the_device_manager():
    devices = json.loads(python("-c", LIST, env=IPUS).stdout)
    lines = script("gc-info", "-l", env=IPUS).stdout.splitlines()
    assert lines[:2] == ["Graphcore device listing:", ""]
    expected = []
    for device, ipus in devices:
        if len(ipus) == 1:
            expected.append(f"-+- Id: [{device}], target: [Virtual], IPU#: [{ipus[0]}]")
        else:
            expected.append(f"-+- Id: [{device}], target: [Multi IPU]")
            expected += [f" |--- Id: [{ipu}], DNC Id: [{i}], IPU#: [{ipu}]" for i, ipu in enumerate(ipus)]
    assert lines[2:] == expected and len(devices) == 7
    assert script("gc-info", "--list-devices", "--all-partitions", env=IPUS).stdout.splitlines() == lines
    listed = json.loads(script("gc-info", "-l", "--json", env=IPUS).stdout)
    assert [int(device["id"]) for device in listed] == [device for device, _ in devices]


def test_an_id_of_gc_info_can_be_acquired():
    text = script("gc-info", "-l").stdout
    (first, *_) = re.findall(r"^-\+- Id: \[(\d+)\], target: \[Multi IPU\]", text, re.MULTILINE)
    with popart.DeviceManager().acquireDeviceById(int(first)) as device:
        assert device.numIpus == 2


def test_gc_info_describes_a_device():
    lines = script("gc-info", "-i", "-d", "4", env=IPUS).stdout.splitlines()
    assert lines[0] == "Device Info:"
    facts = dict(line.strip().split(": ", 1) for line in lines[1:])
    assert (facts["id"], facts["target"], facts["ipus"], facts["clock"]) == ("4", "Multi IPU", "0 1", "1330MHz")
    assert facts["ipu architecture"] == "ipu2" and facts["number of tiles"] == str(2 * 1472)
    assert script("gc-info", "--ipu-count", env=IPUS).stdout == "4\n"
    assert script("gc-info", "--ipu-count", "-d", "5", env=IPUS).stdout == "2\n"
    assert script("gc-info", "--ipu-arch").stdout == "ipu2\n"
    assert script("gc-info", "--tile-clock-speed").stdout == "1330MHz\n"


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["-i"], "no device is named. Give its Id with -d N"),
        (["-i", "-d", "7"], "there is no device with Id 7. gc-info -l lists the Ids"),
        (["-l", "--tile-status"], "--tile-status: this asks the hardware of an IPU, and there is none"),
        ([], "one of the arguments -l/--list-devices"),
    ],
)
def test_gc_info_refuses_what_there_is_not(arguments, part):
    assert part in script("gc-info", *arguments, env=IPUS, expect=2).stderr


def test_the_clock_is_that_of_the_model(tmp_path):
    builder = popart.Builder()
    y = builder.aiOnnx.relu([builder.addInputTensor("FLOAT", [4])])
    session = popart.InferenceSession(
        builder.getModelProto(), popart.DataFlow(1, [y]), popart.DeviceManager().createIpuModelDevice({})
    )
    session.prepareDevice()
    assert json.loads(popart._Session._report(session))["target"]["clockFrequency"] == 1330e6


def test_popart_info_says_what_a_report_needs():
    env = {**os.environ, "POPART_NUM_THREADS": "1", "POPART_VIRTUAL_IPUS": "4"}
    facts = json.loads(script("popart-info", "--json", env=env).stdout)
    assert facts["popart"] == popart.__version__
    assert facts["packages"]["numpy"] == np.__version__
    assert facts["processor"]["threads"] == 1
    chosen = facts["processor"]["instructionSet"]
    assert chosen and facts["processor"]["kernels"].startswith(f"cpu (cpu {chosen}, ")
    assert 1 <= facts["processor"]["allowed"] <= facts["processor"]["processors"]
    assert facts["memory"]["total"] >= facts["memory"]["available"] > 0
    assert facts["environment"]["POPART_VIRTUAL_IPUS"] == "4"
    assert len(facts["devices"]) == 7
    assert facts["build"]["buildType"] and facts["build"]["compiler"]
    text = script("popart-info", env=env).stdout
    assert re.search(rf"^instruction set +{chosen}$", text, re.MULTILINE)
    assert "4 (Virtual); gc-info -l" in text
    assert python("-m", "popart", "--json", env=env).stdout.startswith('{"version"')


@pytest.mark.parametrize(
    ("groups", "files", "quota", "limit"),
    [
        ("0::/a/b\n", {"a/cpu.max": "150000 100000", "a/b/cpu.max": "max 100000"}, 1.5, None),
        ("0::/a/b\n", {"a/memory.max": "4096", "a/b/memory.max": "8192"}, None, 4096),
        ("0::/\n", {"memory.max": "max"}, None, None),
        (
            "4:memory:/j\n2:cpu,cpuacct:/j\n",
            {
                "cpu,cpuacct/j/cpu.cfs_quota_us": "50000",
                "cpu,cpuacct/j/cpu.cfs_period_us": "100000",
                "memory/j/memory.limit_in_bytes": "65536",
            },
            0.5,
            65536,
        ),
        ("4:memory:/\n2:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None, None),
        ("", {}, None, None),
    ],
)
def test_limits_of_control_groups(tmp_path: Path, groups, files, quota, limit):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(groups)
    (tmp_path / "proc/meminfo").write_text("MemTotal:  1024 kB\nMemAvailable:   512 kB\n")
    for name, text in files.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    assert info.processor_quota(tmp_path) == quota
    assert info.memory_limit(tmp_path) == limit
    assert info.memory_of_machine(tmp_path) == {"total": 1 << 20, "available": 1 << 19}
