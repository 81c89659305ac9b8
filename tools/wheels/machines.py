#!/usr/bin/env python3
"""Machines that wheels are made for: this one, and those that Debian has a cross compiler for.

    machines.py aarch64    make the folder build/aarch64-root of the preset aarch64

A machine of another architecture is a folder with Debian's packages for it: headers and libraries to compile with, and
a Python to test with. qemu runs its programs. A second folder has the Python of a newer Debian release, which tests the
wheel of the stable ABI.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Debian packages of this machine that a wheel for another one needs.
HOST_PACKAGES = {"aarch64": ["g++-aarch64-linux-gnu", "mmdebstrap", "qemu-user-static"]}
DEBIAN_NAMES = {"aarch64": "arm64"}
# Debian packages in the folder: what the build links, and Python with what makes environments.
PACKAGES = [
    "libc6-dev",
    "libcli11-dev",
    "libfmt-dev",
    "libgmock-dev",
    "libgtest-dev",
    "libhwy-dev",
    "libopenmpi-dev",
    "libprotobuf-dev",
    "libpython3-dev",
    "libre2-dev",
    "libspdlog-dev",
    "libstdc++6",
    "libxxhash-dev",
    "nlohmann-json3-dev",
    "python3",
    "python3-venv",
    "zlib1g-dev",
]
# The Debian release whose Python tests the wheel of the stable ABI where that of this machine's release is too old, and
# the packages for it.
NEWER_RELEASE = "trixie"
PYTHON_PACKAGES = ["libstdc++6", "python3", "python3-venv"]
# Lets the kernel start programs of another architecture with qemu, for one command and what it starts.
WITH_EMULATION = (
    "mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc && "
    'cat "$0" > /proc/sys/fs/binfmt_misc/register && exec "$@"'
)


@dataclass(frozen=True)
class Machine:
    """A machine by its name, as ``uname -m`` says it, and the folder with its packages; None: this machine."""

    name: str = platform.machine()
    root: Path | None = None

    @property
    def triple(self) -> str:
        """What the names of its compilers and of its library folder begin with."""
        return f"{self.name}-linux-gnu"

    @property
    def policy(self) -> str:
        """The policy that its wheels follow, which is their platform tag."""
        return f"manylinux_2_28_{self.name}"

    @property
    def is_this(self) -> bool:
        """Whether it is the machine that runs this program."""
        return self.root is None

    def tool(self, name: str) -> list[str]:
        """A program of the compiler, such as ``gcc`` or ``nm``, with what it must be told."""
        if self.root is None:
            return [name]
        told = [f"--sysroot={self.root}"] if name in ("gcc", "g++") else []
        return [f"{self.triple}-{name}", *told]

    def library_folders(self) -> list[Path]:
        """Folders with the libraries of the machine's system; none for this machine, whose tools know them."""
        if self.root is None:
            return []
        return [self.root / folder / self.triple for folder in ("lib", "usr/lib")]

    def libraries(self) -> dict[str, Path]:
        """Path of each library of the machine's system, by the name that the dynamic linker looks for."""
        if self.root is None:
            listing = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
            found = reversed(re.findall(r"^\s*(\S+) \(libc6,[^)]*\) => (\S+)$", listing, re.MULTILINE))
            return {name: Path(path) for name, path in found}
        return {path.name: path for folder in self.library_folders() for path in folder.glob("*.so*")}

    def python(self) -> Path:
        """The Python of the machine's system."""
        return (self.root or Path("/")) / "usr/bin/python3"

    def pip(self) -> list[str | Path]:
        """The arguments of a Python of the machine that run pip."""
        if self.root is None:
            return ["-m", "pip"]
        # Debian's wheel of pip: ensurepip looks for it below /usr, and qemu does not turn every call to the folder.
        (wheel,) = (self.root / "usr/share/python-wheels").glob("pip-*.whl")
        return [wheel / "pip"]

    def command(self, *words: str | Path) -> list[str | Path]:
        """A command that runs programs of the machine, and starts others of them."""
        if self.root is None or Path(f"/proc/sys/fs/binfmt_misc/qemu-{self.name}").exists():
            return list(words)
        rule = f"/usr/lib/binfmt.d/qemu-{self.name}.conf"
        return ["unshare", "--map-root-user", "--mount", "sh", "-c", WITH_EMULATION, rule, *words]

    def environment(self) -> dict[str, str]:
        """Variables of the environment for `command`."""
        return {} if self.root is None else {"QEMU_LD_PREFIX": str(self.root)}


THIS = Machine()


def machine_of(name: str) -> Machine:
    """The machine of a name; one of another architecture has its folder after `make_root`.

    Args:
        name: As ``uname -m`` says it.

    Returns:
        The machine.
    """
    return THIS if name == THIS.name else Machine(name, ROOT / f"build/{name}-root")


def newer(machine: Machine) -> Machine:
    """The machine with the Python of a newer Debian release; it has its folder after `make_root`.

    Args:
        machine: A machine of another architecture.

    Returns:
        A machine of the same architecture.
    """
    assert machine.root
    return Machine(machine.name, machine.root.with_name(f"{machine.root.name}-{NEWER_RELEASE}"))


def own_release() -> str:
    """The release of this machine's system, as Debian's archive names it."""
    return platform.freedesktop_os_release()["VERSION_CODENAME"]


def make_root(machine: Machine, release: str, packages: list[str]) -> None:
    """Make the folder of a machine, unless it is there with the same packages; an error ends the program.

    Args:
        machine: A machine of another architecture.
        release: Debian's release.
        packages: Debian packages in the folder, without what they depend on.
    """
    assert machine.root
    missing = [
        name
        for name in ("mmdebstrap", f"qemu-{machine.name}-static", *machine.tool("g++")[:1])
        if not shutil.which(name)
    ]
    if missing:
        host_packages = " ".join(HOST_PACKAGES[machine.name])
        sys.exit(f"{machine.name}: not found: {', '.join(missing)}. Install them: apt-get install {host_packages}")
    stamp, wanted = machine.root / "packages", f"{release}\n" + "\n".join(packages)
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    shutil.rmtree(machine.root, ignore_errors=True)
    machine.root.parent.mkdir(parents=True, exist_ok=True)
    words = ["mmdebstrap", "--quiet", "--variant=extract", f"--architectures={DEBIAN_NAMES[machine.name]}"]
    words += ["--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr", f"--include={','.join(packages)}"]
    mode = [] if os.geteuid() else ["--mode=root"]
    result = subprocess.run([*words, *mode, release, machine.root], capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{result.stdout}{result.stderr}\n{machine.root}: mmdebstrap: exit code {result.returncode}")
    stamp.write_text(wanted)


def require_same_python(root: Path, version: tuple[int, int] = sys.version_info[:2]) -> None:
    """End the program unless a folder has the headers of a Python version.

    The preset compiles popart_core for the Python that configures it, with the headers of the folder.

    Args:
        root: Folder of a machine.
        version: Major and minor version.
    """
    found = sorted(path.name for path in root.glob("usr/include/python3.[0-9]*"))
    expected = f"python{version[0]}.{version[1]}"
    if found != [expected]:
        sys.exit(
            f"{root}: got headers of {', '.join(found) or 'no Python'}, expected {expected}, the version of "
            f"{sys.executable}. Make .venv with the system's Python: rm -r .venv, then run /usr/bin/python3 ./dev"
        )


def main() -> int:
    """Make the folder of the named machine; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("machine", choices=sorted(HOST_PACKAGES), help="as `uname -m` says it")
    machine = machine_of(parser.parse_args().machine)
    assert machine.root
    make_root(machine, own_release(), PACKAGES)
    require_same_python(machine.root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
