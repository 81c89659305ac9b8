"""The commands of a wheel: programs in ``popart/bin``, which take the place of the Python process.

Function ``some_name`` runs the program ``some-name``: a command is one line of ``[project.scripts]`` in pyproject.toml,
from which the build takes the list of programs as well.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn


def __getattr__(name: str) -> Callable[[], NoReturn]:
    program = Path(__file__).parent / "bin" / name.replace("_", "-")
    if not os.access(program, os.X_OK):
        raise AttributeError(f"popart._commands: there is no program '{program}'")

    def run() -> NoReturn:
        os.execv(program, [program.name, *sys.argv[1:]])

    return run
