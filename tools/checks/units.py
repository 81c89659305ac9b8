"""Checks that files compiled as one unit do not define one name twice. Usage: units.py [ROOT].

cmake/Units.cmake joins neighbouring files of a room in some builds (release, asan). Which files share a unit changes
with every new file, so names in unnamed namespaces must differ in the whole room. Functions may be overloads.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ALONE = ("src/backends/cpu/kernels/", "src/backends/cpu/vector/", "src/backends/cuda/")  # never joined
DEFINITION = re.compile(
    r"(?P<open>^(?:inline )?namespace(?: (?P<space>[\w:]+))? \{)|(?P<close>^\}  // namespace)|"
    r"^(?:[\w:<>,*&]+ )+[*&]?(?P<function>\w+)\((?P<parameters>[^;{}]*)\)(?: const)?(?: noexcept)? \{|"
    r"^(?:struct|class|enum class) (?P<type>\w+)[^;{]*\{|"
    r"^const(?:expr|init)? (?:[\w:<>,*&]+ )+[*&]?(?P<constant>\w+)(?= =|\[|\{|\([\"\d])",
    re.MULTILINE,
)
PARAMETER_NAME = re.compile(r"\b\w+(?: = [^,]*)?(?=,|$)")


def room_of(name: str) -> str:
    """The folder whose files cmake/Units.cmake joins: src/<room> or src/backends/<room>."""
    parts = name.split("/")
    return "/".join(parts[: 3 if parts[1] == "backends" else 2])


def unnamed_definitions(text: str) -> set[str]:
    """What a file defines in unnamed namespaces: "popart::onnx typeOf(const Op &)", "popart::onnx Row"."""
    spaces: list[str] = []
    found = set()
    for match in DEFINITION.finditer(text):
        if match["open"]:
            spaces.append(match["space"] or "")
        elif match["close"]:
            spaces.pop()
        elif "" in spaces:
            name = match["type"] or match["constant"]
            if match["function"]:
                types = PARAMETER_NAME.sub("", " ".join(match["parameters"].split()))
                name = f"{match['function']}({types})"
            found.add(f"{'::'.join(space for space in spaces if space)} {name}")
    return found


def clashes(files: dict[str, str]) -> list[str]:
    """Definitions that two files of one room share.

    Args:
        files: Contents by path relative to the repository.

    Returns:
        One line per definition.
    """
    places = defaultdict(list)
    for name, text in sorted(files.items()):
        if not name.startswith(ALONE):
            for definition in unnamed_definitions(text):
                places[room_of(name), definition].append(name)
    return [
        f"{names[0]}: error: '{definition.split(' ', 1)[1]}' is also defined in {', '.join(names[1:])}. Builds that "
        f"join files of a room fail: rename one, or share one definition."
        for (_, definition), names in sorted(places.items())
        if len(names) > 1
    ]


def main(arguments: list[str]) -> int:
    """Print all clashes; returns 1 when there is one."""
    root = Path(arguments[0] if arguments else ".").resolve()
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "src/*.cpp"]
    names = subprocess.check_output(listing, cwd=root, text=True).splitlines()
    problems = clashes({name: (root / name).read_text() for name in names if (root / name).is_file()})
    print("\n".join(problems), end="\n" if problems else "")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
