"""Checks that no file keeps the marks of a merge. Usage: conflicts.py [ROOT].

Looks at the files that git tracks or would add.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MARKS = r"^(<{7}|>{7})( |$)"  # the line between them may underline a title


def marks(root: Path) -> list[str]:
    """Lines that a merge has left.

    Args:
        root: A git working tree.

    Returns:
        One line per mark.
    """
    search = ["git", "grep", "--untracked", "-InE", MARKS]
    found = subprocess.run(search, cwd=root, capture_output=True, text=True).stdout.splitlines()
    return [f"{line}: error: a merge has left its mark. Keep one side." for line in found]


def main(arguments: list[str]) -> int:
    """Print marks; returns 1 when there is one."""
    found = marks(Path(arguments[0] if arguments else ".").resolve())
    print("\n".join(found), end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
