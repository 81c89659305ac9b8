"""Writes the skeleton of a new operator from tools/templates. Used by `./dev new-op`.

The operator gets a separate file with one row, a line in catalog.hpp and one in catalog.cpp, and a case file. Of the
existing files only the catalog is changed.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from string import Template

TEMPLATES = Path(__file__).resolve().parent / "templates"


class NewOpError(Exception):
    """The skeleton cannot be written; the message has the reason and a remedy."""


def snake_case(name: str) -> str:
    """LogSoftmax -> log_softmax."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def check_free(root: Path, name: str) -> None:
    """Refuse a type that is already named in code below src/ops.

    Raises:
        NewOpError: The type exists.
    """
    for path in sorted((root / "src/ops").glob("*/*.cpp")):
        code = re.sub(r"//[^\n]*", "", path.read_text())
        if f'"{name}"' in code:
            raise NewOpError(f"new-op: {path.relative_to(root)} names an operator {name} already. Choose another name.")


def with_line(text: str, line: str, before: str) -> str:
    """Text with a line inserted before the first line that contains `before`."""
    lines = text.splitlines()
    at = next(i for i, found in enumerate(lines) if before in found)
    return "\n".join([*lines[:at], line, *lines[at:]]) + "\n"


def write_skeleton(root: Path, name: str, family: str) -> list[str]:
    """Write all files of the new operator.

    Args:
        root: The repository.
        name: Type of the new operator, for example Gelu.
        family: Folder below src/ops.

    Returns:
        One line per file that says what to do there.

    Raises:
        NewOpError: The name is not a type name or already exists, or there is no such family.
    """
    if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", name):
        raise NewOpError(f"new-op: got the name {name}, expected a type name such as Gelu")
    families = sorted(path.name for path in (root / "src/ops").iterdir() if path.is_dir())
    if family not in families:
        raise NewOpError(f"new-op: got the family {family}, expected one of {', '.join(families)}")
    check_free(root, name)
    row = root / "src/ops" / family / f"{snake_case(name)}.cpp"
    cases = root / "tests/cases/ops" / f"{snake_case(name)}.py"
    for path in (row, cases):
        if path.exists():
            raise NewOpError(f"new-op: {path.relative_to(root)} exists already. Choose another name or delete it.")
    function = name[0].lower() + name[1:] + "Ops"
    header, listing = root / "src/ops/catalog.hpp", root / "src/ops/catalog.cpp"
    header.write_text(with_line(header.read_text(), f"OpDefs {function}();  // {name}", "// ---- made by lowering"))
    listing.write_text(with_line(listing.read_text(), f"    ops::{function},", "// ---- made by lowering"))
    for path, template in ((row, "op.cpp.in"), (cases, "cases.py.in")):
        text = Template((TEMPLATES / template).read_text())
        path.write_text(text.substitute(name=name, function=function))
    return [
        f"{row.relative_to(root)}: state attributes, shape rule, gradient and ONNX names",
        f"{cases.relative_to(root)}: replace the inputs and expected values",
        "src/backends/ref: add the kernel, unless the row has a decomposition (docs/add-an-op.md)",
    ]


def main(arguments: list[str]) -> int:
    """Command line: new_op.py NAME --family FOLDER."""
    parser = argparse.ArgumentParser(prog="./dev new-op", description=__doc__.splitlines()[0])
    parser.add_argument("name", help="type of the new operator, for example Gelu")
    parser.add_argument("--family", required=True, help="folder below src/ops, for example math")
    args = parser.parse_args(arguments)
    try:
        for note in write_skeleton(Path(__file__).resolve().parents[1], args.name, args.family):
            print(note)
    except NewOpError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
