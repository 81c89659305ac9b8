"""Checks the length of files and the width of C++ lines. Usage: sizes.py [ROOT].

A file of more than 600 lines is named; one of more than 1,000 is an error, and so is a C++ line, comment or not, wider
than 120 columns.

Counts the C++ and Python files that git tracks or would add, tests included; generated files are not in git.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

NAMED_ABOVE = 600
ERROR_ABOVE = 1000
COLUMNS = 120  # clang-format keeps code within them and leaves comments as they are


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


def wide_lines(name: str, text: str) -> list[str]:
    """C++ lines of one file that are wider than the limit.

    Args:
        name: Path relative to the repository.
        text: Content of the file.

    Returns:
        One line per problem.
    """
    if not name.endswith((".cpp", ".hpp", ".inc")):
        return []
    return [
        f"{name}:{number}: error: got {len(line)} columns, expected at most {COLUMNS}. Wrap the line."
        for number, line in enumerate(text.splitlines(), 1)
        if len(line) > COLUMNS
    ]


def main(arguments: list[str]) -> int:
    """Print long files; returns 1 when one is over the limit."""
    root = Path(arguments[0] if arguments else ".").resolve()
    lengths = file_lengths(root)
    long_files = sorted((item for item in lengths.items() if item[1] > NAMED_ABOVE), key=lambda item: -item[1])
    for name, lines in long_files:
        kind = "error" if lines > ERROR_ABOVE else "note"
        limit = ERROR_ABOVE if lines > ERROR_ABOVE else NAMED_ABOVE
        print(f"{name}: {kind}: got {lines} lines, expected at most {limit}. Split it by topic.")
    wide = [line for name in lengths for line in wide_lines(name, (root / name).read_text())]
    print("\n".join(wide), end="\n" if wide else "")
    return int(bool(wide) or any(lines > ERROR_ABOVE for lines in lengths.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
