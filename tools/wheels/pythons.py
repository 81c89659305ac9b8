"""The Pythons of a machine: which of them a wheel is made for, which are left out and why."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from machines import THIS, Machine

OLDEST = (3, 11)
STABLE_ABI = (3, 12)  # from here on one wheel serves all (wheel.py-api in pyproject.toml)

ASK = """
import json, os, platform, sys, sysconfig
print(json.dumps({
    "implementation": platform.python_implementation(), "version": list(sys.version_info[:3]),
    "prefix": os.path.realpath(sys.base_prefix), "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    "headers": os.path.isfile(os.path.join(sysconfig.get_paths()["include"], "Python.h")),
}))
"""


@dataclass(frozen=True)
class Python:
    """An interpreter: program, version (major, minor, patch), folder, and whether it can compile modules."""

    program: Path
    version: tuple[int, int, int]
    prefix: Path
    headers: bool

    @property
    def minor(self) -> tuple[int, int]:
        """Major and minor version."""
        return self.version[:2]

    @property
    def abi(self) -> str:
        """The wheel tag that serves this interpreter: ``cp311-cp311`` or ``cp312-abi3``."""
        if self.minor >= STABLE_ABI:
            return f"cp{STABLE_ABI[0]}{STABLE_ABI[1]}-abi3"
        tag = f"cp{self.version[0]}{self.version[1]}"
        return f"{tag}-{tag}"

    def __str__(self) -> str:
        return f"Python {'.'.join(str(n) for n in self.version)} ({self.program})"


def candidates() -> Iterator[Path]:
    """Programs named python3 or python3.N on the path, in the usual folders and in those of pyenv and uv."""
    home = Path.home()
    data = Path(os.environ.get("XDG_DATA_HOME", home / ".local/share"))
    folders = [Path(word) for word in os.environ.get("PATH", "").split(os.pathsep) if word]
    folders += [Path("/usr/bin"), Path("/usr/local/bin")]
    folders += sorted(Path(os.environ.get("PYENV_ROOT", home / ".pyenv")).glob("versions/*/bin"))
    folders += sorted(Path(os.environ.get("UV_PYTHON_INSTALL_DIR", data / "uv/python")).glob("*/bin"))
    for folder in dict.fromkeys(folders):
        if folder.parts[-2:] == (".pyenv", "shims"):
            continue  # scripts that start what is in versions/
        for program in sorted(folder.glob("python3*")):
            if re.fullmatch(r"python3(\.\d+)?t?", program.name) and os.access(program, os.X_OK):
                yield program


def ask(program: Path, machine: Machine = THIS) -> Python | str:
    """What an interpreter says of itself.

    Args:
        program: Path of the interpreter.
        machine: Machine that it is for.

    Returns:
        The Python, or why no wheel is made for it.
    """
    try:
        words, env = machine.command(program, "-I", "-c", ASK), os.environ | machine.environment()
        answer = subprocess.run(words, capture_output=True, text=True, timeout=60, env=env)
    except (OSError, subprocess.TimeoutExpired) as failure:
        return f"does not run: {failure}"
    if answer.returncode:
        return f"does not run: {answer.stderr.strip().splitlines()[0] if answer.stderr.strip() else answer.returncode}"
    facts = json.loads(answer.stdout)
    version = tuple(facts["version"])
    name = ".".join(str(n) for n in version)
    if facts["implementation"] != "CPython":
        return f"is {facts['implementation']} {name}, not CPython"
    if version[:2] < OLDEST:
        return f"is version {name}, older than {OLDEST[0]}.{OLDEST[1]}"
    if facts["free_threaded"]:
        return f"is version {name} without the interpreter's lock, on which popart_core relies"
    return Python(program, version, Path(facts["prefix"]), facts["headers"])


def find(programs: list[Path]) -> tuple[list[Python], list[tuple[Path, str]]]:
    """The Pythons that wheels are made for, each once, oldest first.

    Args:
        programs: Interpreters to look at; empty: all of this machine.

    Returns:
        Pythons, and the programs that were left out with the reason.
    """
    found: dict[tuple[Path, tuple[int, int]], Python] = {}
    skipped: dict[str, tuple[Path, str]] = {}
    for program in programs or candidates():
        answer = ask(program)
        if isinstance(answer, Python):
            found.setdefault((answer.prefix, answer.minor), answer)
        else:
            skipped.setdefault(f"{program.parent} {answer}", (program, answer))
    return sorted(found.values(), key=lambda python: python.version), list(skipped.values())
