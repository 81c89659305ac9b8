"""The commands of a wheel: programs in ``popart/bin``, which take the place of the Python process."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn


def _run(name: str) -> NoReturn:
    program = Path(__file__).parent / "bin" / name
    os.execv(program, [name, *sys.argv[1:]])


def popart_cache() -> NoReturn:
    """Run ``popart-cache``: list, prune and clear a folder of compiled programs."""
    _run("popart-cache")


def popart_opt() -> NoReturn:
    """Run ``popart-opt``: read a model or IR text, run passes, print the result."""
    _run("popart-opt")
