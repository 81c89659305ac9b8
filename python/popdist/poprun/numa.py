"""Binds a program to a NUMA node and runs it. Started as a file, on the host of the instance: numa.py INDEX PROGRAM….

Nodes are those of /sys/devices/system/node that have a processor which this process may run on; the instance with
number INDEX on its host gets node INDEX modulo their number. If the system has no nodes, nothing is bound.
"""

import os
import sys
from pathlib import Path


def nodes(allowed: set[int], root: str = "/") -> list[list[int]]:
    """The `allowed` processors of each NUMA node that has some, in the order of nodes. `root`: folder of the files."""
    folders = Path(root, "sys/devices/system/node").glob("node[0-9]*")
    found = []
    for folder in sorted(folders, key=lambda folder: int(folder.name[4:])):
        processors = []
        for item in (folder / "cpulist").read_text().strip().split(","):
            first, _, last = item.partition("-")
            processors += range(int(first), int(last or first) + 1) if item else []
        found.append([number for number in processors if number in allowed])
    return [processors for processors in found if processors]


def run(index: int, program: list[str]) -> int:
    """Bind this process and replace it by a program; returns an exit code only if that fails."""
    if found := nodes(os.sched_getaffinity(0)):
        os.sched_setaffinity(0, found[index % len(found)])
    try:
        os.execvp(program[0], program)
    except OSError as problem:
        print(f"poprun: program '{program[0]}' cannot be started: {problem.strerror}", file=sys.stderr)
        return 127


if __name__ == "__main__":
    sys.exit(run(int(sys.argv[1]), sys.argv[2:]))
