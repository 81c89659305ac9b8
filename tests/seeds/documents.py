"""Programs inside text dumps of published documents.

A dump has prose, programs and their output in one stream, without indentation. A program is found by its first and last
line. Indentation is repaired from the text alone: a logical line that ends with a colon opens a level, `dedents` names
the lines where levels close. Nothing else of the program changes.
"""

import contextlib
import io
import os
import re
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [
    os.environ.get("POPART_SEEDS", ""),
    str(ROOT.parent / "shared" / "seeds"),
    str(ROOT.parent.parent / "shared" / "seeds"),
]


def find_document(prefix: str) -> "Path | None":
    """Return the document whose file name starts with `prefix`, or None."""
    for folder in FOLDERS:
        if folder and Path(folder).is_dir():
            for path in sorted(Path(folder).glob(f"{prefix}_*.txt")):
                return path
    return None


class Document:
    """The lines of a document, read from top to bottom."""

    def __init__(self, path: Path):
        self.lines = path.read_text().splitlines()
        self.position = 0

    def _find(self, text: str, start: int) -> int:
        for i in range(start, len(self.lines)):
            if self.lines[i].strip() == text:
                return i
        raise AssertionError(f"the document has no line {text!r} after line {start + 1}")

    def program(self, first: str, last: str, dedents: Sequence[tuple[str, int]] = ()) -> str:
        """Return the next program from line `first` to line `last`, indented."""
        begin = self._find(first, self.position)
        end = self._find(last, begin)
        self.position = end + 1
        return indent(self.lines[begin : end + 1], dedents)

    def text(self, first: str, last: str) -> str:
        """Return the next program from line `first` to line `last` as it stands."""
        begin = self._find(first, self.position)
        end = self._find(last, begin)
        self.position = end + 1
        return "\n".join(self.lines[begin : end + 1]) + "\n"

    def next_line(self, start: str) -> str:
        """Return the next line that starts with `start`, stripped; the position stays."""
        for line in self.lines[self.position :]:
            if line.strip().startswith(start):
                return line.strip()
        raise AssertionError(f"the document has no line that starts with {start!r} after line {self.position + 1}")

    def output(self, first: str, last: str) -> list[str]:
        """Return the next printed lines from `first` to `last`, stripped."""
        begin = self._find(first, self.position)
        end = self._find(last, begin)
        self.position = end + 1
        return printed_lines("\n".join(self.lines[begin : end + 1]))


def _depth_change(line: str) -> int:
    code = re.sub(r"\"[^\"]*\"|'[^']*'", "", line).split("#")[0]
    return sum(code.count(c) for c in "([{") - sum(code.count(c) for c in ")]}")


def indent(lines: Sequence[str], dedents: Sequence[tuple[str, int]]) -> str:
    """Return the lines with four spaces per level; `dedents` are (start of line, level) in order of appearance."""
    closing = list(dedents)
    result, level, depth, opens = [], 0, 0, False
    for raw in lines:
        line = raw.strip()
        if depth == 0:
            if opens:
                level += 1
            if closing and line.startswith(closing[0][0]):
                level = closing.pop(0)[1]
        result.append("    " * level + line)
        depth += _depth_change(line)
        opens = depth == 0 and line.split("#")[0].rstrip().endswith(":")
    if closing:
        raise AssertionError(f"the program has no line that starts with {closing[0][0]!r}")
    return "\n".join(result) + "\n"


def printed_lines(text: str) -> list[str]:
    """Return the non-empty lines of printed text, stripped, with object addresses made equal."""
    return [re.sub(r"0x[0-9a-f]+", "0x0", line.strip()) for line in text.splitlines() if line.strip()]


def run_program(program: str, namespace: dict) -> list:
    """Run a program and return the lines it prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(program, "<document>", "exec"), namespace)
    return printed_lines(out.getvalue())
