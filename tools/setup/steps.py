"""Steps of ./dev: where things are, progress lines, programs that are run.

Standard library only, because it runs before .venv exists.
"""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
START = time.monotonic()


class StepFailed(Exception):
    """A step of a command failed; the text says which and what to do."""


def say(text: str) -> None:
    """Print one progress line with the seconds since the start."""
    print(f"[{time.monotonic() - START:7.1f}s] {text}", flush=True)


def run(command: Sequence[str | Path], *, env: dict[str, str] | None = None, quiet: bool = False) -> None:
    """Run a command in the repository root and raise StepFailed when it fails.

    Args:
        command: Program and arguments.
        env: Environment; the current one when absent.
        quiet: Show the output only when the command fails.
    """
    words = [str(word) for word in command]
    output = subprocess.PIPE if quiet else None
    try:
        errors = subprocess.STDOUT if quiet else None
        result = subprocess.run(words, cwd=ROOT, env=env, stdout=output, stderr=errors, text=True)
    except FileNotFoundError:
        raise StepFailed(f"{words[0]}: not found. Run ./dev setup.") from None
    if result.returncode:
        if quiet:
            print(result.stdout, flush=True)
        shown = shlex.join(words[:8]) + (" …" if len(words) > 8 else "")
        raise StepFailed(f"{shown}: exit code {result.returncode}")
