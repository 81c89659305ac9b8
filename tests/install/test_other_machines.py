"""Builds for other machines: their headers are of this Python's version; kernels run on every 64-bit ARM processor."""

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.install.wheel_programs import run

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools/wheels"))
machines = import_module("machines")

# Instructions of ARMv8's extension for cryptography. A product of polynomials is one of them for 64 bits alone.
CRYPTOGRAPHY = re.compile(r"\t(aes\w+|sha\d\w*|pmull2?\s.*\.1q,.*|eor3|rax1|xar|bcax)\b")
# Says that the processor has none of these instructions: bits 3 to 6 of AT_HWCAP.
WITHOUT_CRYPTOGRAPHY = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/auxv.h>
unsigned long getauxval(unsigned long type) {
  unsigned long (*next)(unsigned long) = (unsigned long (*)(unsigned long))dlsym(RTLD_NEXT, "getauxval");
  return type == AT_HWCAP ? next(type) & ~0x78ul : next(type);
}
"""
ASK = """
#include <stdio.h>
#include <sys/auxv.h>
int main(void) { printf("%lu\\n", getauxval(AT_HWCAP) & 0x78); }
"""


@pytest.mark.parametrize("headers", [[], ["python3.10"], ["python3.10", "python3.11"]])
def test_a_folder_with_headers_of_another_python_is_refused(tmp_path, headers):
    for name in headers:
        (tmp_path / "usr/include" / name).mkdir(parents=True)
    found = ", ".join(headers) or "no Python"
    with pytest.raises(SystemExit, match=rf"got headers of {found}, expected python3\.12.*rm -r \.venv"):
        machines.require_same_python(tmp_path, (3, 12))


def test_a_folder_with_headers_of_this_python_is_accepted(tmp_path):
    (tmp_path / f"usr/include/python3.{sys.version_info[1]}").mkdir(parents=True)
    machines.require_same_python(tmp_path)


@pytest.fixture(scope="module")
def arm():
    """The machine aarch64, whose unit tests were built here."""
    machine = machines.machine_of("aarch64")
    if machine.is_this or not (ROOT / "build/aarch64/bin/popart_unit_tests").is_file():
        pytest.skip("./dev test --machine aarch64 has not been run here")
    return machine


def test_the_library_has_no_instruction_that_some_arm_processors_lack(arm):
    files = [ROOT / "build/aarch64/lib/libpopart.so", arm.libraries()["libhwy.so.1"]]
    count = 0
    for file in files:
        with subprocess.Popen([*arm.tool("objdump"), "-d", file], stdout=subprocess.PIPE, text=True) as listing:
            for line in listing.stdout:
                count += "\tfmla\t" in line
                assert not CRYPTOGRAPHY.search(line), f"{file.name}: {line}"
    assert count > 1000  # the kernels were looked at


def test_kernels_run_where_the_processor_has_no_cryptography(arm, tmp_path):
    (tmp_path / "without.c").write_text(WITHOUT_CRYPTOGRAPHY)
    (tmp_path / "ask.c").write_text(ASK)
    library, ask = tmp_path / "without.so", tmp_path / "ask"
    for words in (["-shared", "-fPIC", tmp_path / "without.c", "-o", library], [tmp_path / "ask.c", "-o", ask]):
        built = run(*arm.tool("gcc"), *words)
        assert built.returncode == 0, built.stderr
    env = os.environ | arm.environment()
    emulator = ["qemu-aarch64-static", "-E", f"LD_PRELOAD={library}"]
    assert run(*emulator, ask, env=env).stdout == "0\n"
    tests = ROOT / "build/aarch64/bin/popart_unit_tests"
    result = run(*emulator, tests, "--gtest_filter=InstructionSets.a_processor*:TrainingStep.*", env=env)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "WARNING: CPU supports" not in result.stderr  # Highway's, where it does not find NEON
