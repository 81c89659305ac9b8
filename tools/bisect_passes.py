"""Finds the compiler pass that breaks a program: runs a command repeatedly, each time with half of the passes off.

    python tools/bisect_passes.py -- python check.py

The command must exit with 0 if and only if the program's result is right. It must fail with all passes on, and must not
fail with all passes off that may be off. Passes are switched off with POPART_DISABLE_PASSES.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence


def switchable_passes(tool: str) -> list[str]:
    """Names of the passes that may be switched off, in the order of `popart-opt --list-passes`."""
    listing = subprocess.run([tool, "--list-passes"], capture_output=True, text=True, check=True).stdout
    rows = re.findall(r"^(\w+) +(\w+): (.*)$", listing, re.MULTILINE)
    return [name for name, phase, text in rows if phase != "OnRequest" and "(needed: " not in text]


def find_culprit(passes: Sequence[str], is_right: Callable[[Sequence[str]], bool]) -> Sequence[str]:
    """Find, by halving, the fewest passes without which the result is right.

    Args:
        passes: Names to choose from, in order.
        is_right: Whether the result is right with these passes off.

    Returns:
        One name; several if no half of them is enough.

    Raises:
        ValueError: The result is right with all passes on, or wrong with all of `passes` off.
    """
    if is_right([]):
        raise ValueError("the result is right with all passes on")
    if not is_right(passes):
        raise ValueError("the result is wrong with all passes off, so that none of them is to blame")
    while len(passes) > 1:
        middle = len(passes) // 2
        halves = (passes[:middle], passes[middle:])
        right = next((half for half in halves if is_right(half)), None)
        if right is None:
            break
        passes = right
    return passes


def main() -> int:
    """Print the passes found; 1 if there is nothing to find."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", default="popart-opt", help="path of popart-opt")
    parser.add_argument("command", nargs="+", help="the command, after --")
    given = parser.parse_args()

    def is_right(off: Sequence[str]) -> bool:
        environment = os.environ | {"POPART_DISABLE_PASSES": ",".join(off)}
        right = subprocess.run(given.command, env=environment, capture_output=True).returncode == 0
        print(f"{'right' if right else 'wrong'} without {', '.join(off) or 'none'}", file=sys.stderr)
        return right

    try:
        print(*find_culprit(switchable_passes(given.tool), is_right), sep="\n")
    except ValueError as problem:
        print(f"bisect_passes: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
