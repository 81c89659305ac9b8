"""Checks file lengths: over 600 lines is named, over 1,000 is an error. Usage: sizes.py [ROOT].

Counts the C++ and Python files that git tracks or would add, tests included; generated files are not in git.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

NAMED_ABOVE = 600
ERROR_ABOVE = 1000


def file_lengths(root: Path) -> dict[str, int]:
    """Number of lines of each C++ and Python file below root.

    Args:
        root: A git working tree.

    Returns:
        Lines by path relative to root.
    """
    patterns = ["*.cpp", "*.hpp", "*.inc", "*.py", "dev"]
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    names = subprocess.check_output(listing, cwd=root, text=True).splitlines()
    return {name: len((root / name).read_bytes().splitlines()) for name in names if (root / name).is_file()}


def main(arguments: list[str]) -> int:
    """Print long files; returns 1 when one is over the limit."""
    root = Path(arguments[0] if arguments else ".").resolve()
    lengths = file_lengths(root)
    long_files = sorted((item for item in lengths.items() if item[1] > NAMED_ABOVE), key=lambda item: -item[1])
    for name, lines in long_files:
        kind = "error" if lines > ERROR_ABOVE else "note"
        limit = ERROR_ABOVE if lines > ERROR_ABOVE else NAMED_ABOVE
        print(f"{name}: {kind}: got {lines} lines, expected at most {limit}. Split it by topic.")
    return int(any(lines > ERROR_ABOVE for lines in lengths.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
