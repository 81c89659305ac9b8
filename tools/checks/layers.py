"""Checks that rooms include only the rooms below them and say where to start. Usage: layers.py [ROOT].

The allowed directions are the table ROOMS; whatever a room may include, that room's own needs come with it.
Each public header belongs to a room and obeys the same directions: those of include/popart by the table PUBLIC_HEADERS,
those of include/popdist to the room popdist. Public headers include only std and one another. Generated ONNX messages
and the headers of kernel libraries appear only in the .cpp files of their room. A room that has source files has a
README.md of at most 30 lines.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

# room -> rooms directly below it
ROOMS: dict[str, tuple[str, ...]] = {
    "base": (),
    "ir": ("base",),
    "ops": ("ir",),
    "schedule": ("ir",),
    "memory": ("schedule", "executable"),
    "onnx": ("autodiff",),
    "autodiff": ("ops", "schedule"),
    "patterns": ("ops", "schedule"),
    "transforms": ("ops", "schedule"),
    "pipeline": ("onnx", "autodiff", "patterns", "transforms", "lower"),
    "executable": ("ir",),
    "exchange": ("executable",),
    "runtime": ("exchange",),
    "lower": ("ops", "schedule", "memory", "executable"),
    "fitting": ("pipeline",),
    "session": ("pipeline", "runtime"),
    "popdist": ("session",),
    "backends/ref": ("ops", "executable"),
    "backends/cpu": ("ops", "memory", "backends/collectives"),
    "backends/collectives": ("executable",),
    "backends/ipu_model": ("runtime",),
    "backends/cuda": ("ops", "executable"),
}
TOP_ROOM = "api"

# room -> public headers that belong to it; those of the top room are all others
PUBLIC_HEADERS: dict[str, tuple[str, ...]] = {
    "base": (
        "attributes",
        "commgroup",
        "datatype",
        "debugcontext",
        "error",
        "half",
        "ids",
        "logger",
        "logging",
        "names",
        "raremap",
        "replicagrouping",
        "replicatedstreammode",
        "tensordata",
        "tensorinfo",
        "tensorlocation",
        "tensornames",
        "variablesettings",
        "version",
        "voiddata",
    ),
    "ir": (
        "graph",
        "ir",
        "op",
        "opdef",
        "operators.gen",
        "operatoridentifier",
        "opmanager",
        "opserialiser",
        "region",
        "shapeinference",
        "tensor",
        "tensors",
    ),
    "ops": ("op/collectiveoperator", "op/init", "op/loss", "op/scatterreduce", "op/tensorremap"),
    "onnx": ("inferenceform", "inputsettings", "losses", "trainabletensor"),
    "patterns": ("patterns/patterns",),
    "transforms": ("clipnormsettings", "optimizervalue", "optimizervaluemap", "transforms/transform", "updaterule"),
    "pipeline": ("sessionoptions",),
    "fitting": ("memoryfit",),
    "runtime": ("interrupt", "runstatistics"),
    "session": ("devicemanager",),
}

# beginning of an include path -> rooms whose .cpp files may contain it
THIRD_PARTY: dict[str, tuple[str, ...]] = {
    "onnx_proto/": ("onnx",),
    "google/protobuf/": ("onnx",),
    "hwy/": ("backends/cpu", "base"),
    "cuda": ("backends/cuda",),
    "mpi.h": ("exchange",),
}

PUBLIC_FOLDERS = ("popart/", "popdist/")
PYTHON_ROOMS = ("bindings", "popart", "popxl", "popxl_addons", "popdist", "pva", "popart_commands")
MOST_README_LINES = 30

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def rooms_below(room: str) -> set[str]:
    """All rooms that a room may include, itself among them."""
    found = {room}
    for lower in ROOMS[room]:
        found |= rooms_below(lower)
    return found


def room_of(path: str) -> str | None:
    """Room of a path relative to src/ or include/; None when it names no room.

    Args:
        path: For example "backends/cpu/x.hpp", which is of room "backends/cpu", or "popart/op.hpp", of room "ir".
    """
    if path.startswith("popart/"):
        header = path.removeprefix("popart/").removesuffix(".hpp")
        return next((room for room, headers in PUBLIC_HEADERS.items() if header in headers), TOP_ROOM)
    parts = path.split("/")
    for length in (2, 1):
        room = "/".join(parts[:length])
        if len(parts) > length and (room in ROOMS or room == TOP_ROOM):
            return room
    return None


def third_party_problem(name: str, room: str, include: str) -> str | None:
    """What is wrong with a third-party include, if anything."""
    for prefix, rooms in THIRD_PARTY.items():
        if include.startswith(prefix):
            if room not in rooms:
                return f"{name}: includes {include}, which belongs to {', '.join(rooms)} only"
            if name.endswith(".hpp") and not name.endswith("-inl.hpp"):
                return f"{name}: includes {include} in a header. Include it in the .cpp files of its room."
    return None


def check_file(name: str, text: str) -> list[str]:
    """Problems of one file.

    Args:
        name: Path relative to the repository, below src/ or include/.
        text: Content of the file.

    Returns:
        One line per forbidden include.
    """
    problems = []
    public = name.startswith("include/")
    room = room_of(name.removeprefix("include/" if public else "src/"))
    if room is None:
        return [f"{name}: is in no room. Rooms are {', '.join([*ROOMS, TOP_ROOM])}."]
    for include in INCLUDE.findall(text):
        target = room_of(include)
        if public and target and not include.startswith(PUBLIC_FOLDERS):
            problems.append(f"{name}: includes {include}. Public headers include only std and one another.")
        elif public and include.startswith((*THIRD_PARTY, "fmt/", "spdlog/", "nlohmann/")):
            problems.append(f"{name}: includes {include}. Users do not have that header.")
        elif not public and (problem := third_party_problem(name, room, include)):
            problems.append(problem)
        elif target and room != TOP_ROOM and target not in rooms_below(room):
            allowed = ", ".join(sorted(rooms_below(room)))
            problems.append(f"{name}: includes {include} of room {target}; {room} may include {allowed}")
    return problems


def check_public_headers(root: Path) -> list[str]:
    """Headers that the table PUBLIC_HEADERS names and that are not there, those that the build makes left out."""
    named = [header for headers in PUBLIC_HEADERS.values() for header in headers]
    return [
        f"include/popart/{header}.hpp: PUBLIC_HEADERS of layers.py names it. Take it out or add the header."
        for header in named
        if not header.endswith(".gen") and not (root / "include/popart" / f"{header}.hpp").is_file()
    ]


def check_tree(root: Path) -> list[str]:
    """Problems of all C++ files below include/ and src/ that git tracks or would add."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "src", "include"]
    names = subprocess.check_output(listing, cwd=root, text=True).splitlines()
    problems = []
    for name in sorted(names):
        if name.endswith((".cpp", ".hpp")) and (root / name).is_file():
            problems += check_file(name, (root / name).read_text())
    return problems


def check_readmes(root: Path) -> list[str]:
    """Rooms with source files whose README.md is missing or too long."""
    rooms = [f"src/{room}" for room in (*ROOMS, TOP_ROOM)] + [f"python/{room}" for room in PYTHON_ROOMS]
    problems = []
    for room in [*rooms, *(f"include/{folder.rstrip('/')}" for folder in PUBLIC_FOLDERS)]:
        folder = root / room
        if not any(path.suffix in (".cpp", ".hpp", ".py") for path in folder.glob("*")):
            continue
        readme = folder / "README.md"
        if not readme.is_file():
            problems.append(f"{room}: has no README.md. Say in it where to start reading.")
        elif (lines := len(readme.read_text().splitlines())) > MOST_README_LINES:
            problems.append(f"{room}/README.md: got {lines} lines, expected at most {MOST_README_LINES}.")
    return problems


def main(arguments: list[str]) -> int:
    """Print all problems; returns 1 when there is one."""
    root = Path(arguments[0] if arguments else ".").resolve()
    problems = check_tree(root) + check_public_headers(root) + check_readmes(root)
    for problem in problems:
        print(problem)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
