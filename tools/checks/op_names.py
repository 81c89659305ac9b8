"""Checks that C++ code asks the rows of operators and does not compare their names. Usage: op_names.py [ROOT].

A name in a string may be misspelt, and every place that has one must be found when an operator changes: `op.is("Loop")`
is `op.is(Role::Loop)`, and what holds for several operators is a fact on their rows (include/popart/opdef.hpp).
Patterns and ONNX importers are lists of operators by nature.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOMS_OF_NAMES = ("src/patterns/", "src/onnx/")
# op.is("Loop"), op->opType() == "Loop", def.base().type() != "Concat", opid.type == "Loop"
COMPARISON = re.compile(
    r'(?:\.|->)is\(\s*"|'
    r'(?:\b(?:def|base|opDef)\([^()]*\)(?:\.|->)type\(\)|\bopType\(\)|\bopid\.type)\s*[!=]=\s*"|'
    r'"\s*[!=]=\s*\w+(?:\.|->)opType\(\)'
)


def check_file(name: str, text: str) -> list[str]:
    """Comparisons of operator names in one file.

    Args:
        name: Path relative to the repository.
        text: Content of the file.

    Returns:
        One line per comparison.
    """
    if name.startswith(ROOMS_OF_NAMES):
        return []
    return [
        f"{name}:{number}: compares an operator's name: {line.strip()}. Ask for a Role or a fact of the row."
        for number, line in enumerate(text.splitlines(), 1)
        if COMPARISON.search(line)
    ]


def main(arguments: list[str]) -> int:
    """Print all problems; returns 1 when there is one."""
    root = Path(arguments[0] if arguments else ".").resolve()
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "src", "include"]
    names = sorted(subprocess.check_output(listing, cwd=root, text=True).splitlines())
    problems = [
        problem
        for name in names
        if name.endswith((".cpp", ".hpp", ".inc")) and (root / name).is_file()
        for problem in check_file(name, (root / name).read_text())
    ]
    for problem in problems:
        print(problem)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
