"""The commands that are compiled programs, which replace the Python process.

They are in the folder ``popart/bin`` of a wheel, or in the build tree of ``popart_core``. Function ``some_name`` runs
the program ``some-name``. The build takes the list of programs from pyproject.toml as well.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn


def _folders() -> Iterator[Path]:
    yield Path(__file__).parents[1] / "popart" / "bin"
    core = importlib.util.find_spec("popart_core")
    if core is not None and core.origin is not None:
        yield Path(core.origin).resolve().parents[1] / "bin"


def program_path(name: str) -> Path | None:
    """The file of a program, or None where there is none."""
    return next((path for folder in _folders() if os.access(path := folder / name, os.X_OK)), None)


def run_program(name: str, arguments: Sequence[str]) -> NoReturn:
    """Replace this process by a program.

    Args:
        name: Name of the program.
        arguments: Arguments of its command line.

    Raises:
        FileNotFoundError: There is no such program.
    """
    path = program_path(name)
    if path is None:
        raise FileNotFoundError(f"program '{name}' is not built. Build it with './dev build --target {name}'")
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and the program would inherit that
    os.execv(path, [name, *arguments])


def __getattr__(name: str) -> Callable[[], NoReturn]:
    program = name.replace("_", "-")
    if name.startswith("_") or program_path(program) is None:
        raise AttributeError(f"popart_commands.programs: there is no program '{program}'")
    return lambda: run_program(program, sys.argv[1:])
