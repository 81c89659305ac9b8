"""Runs every *.ir file of this folder: a program, passes, and the program they must give.

    // What the case shows.
    // RUN: flatten simplify
    <program before>
    // EXPECT
    <program after>

Passes run for the CPU device; words of a RUN line that begin with ``--`` are options of popart-opt. A file without
``// EXPECT`` shows a pass that must change nothing. Passes run twice: the second run must change nothing, unless
a line ``// ONCE: reason`` says why not. Columns per panel of packed layouts depend on the machine and are written as N.
``python tests/transforms/test_transforms.py --update`` rewrites the expectations for review.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent
BUILD = FOLDER.parents[1] / "build" / os.environ.get("POPART_PRESET", "dev")
SEPARATOR = "// EXPECT\n"
CASES = sorted(FOLDER.glob("*.ir"))


@dataclass
class Case:
    """One file: header comments, passes, text before and after (None: the passes change nothing)."""

    head: str
    passes: list[str]
    before: str
    after: str | None


def read_case(path: Path) -> Case:
    """Split a case file; AssertionError when it has no RUN line."""
    text = path.read_text()
    run = re.search(r"^// RUN: (.+)\n", text, re.MULTILINE)
    assert run, f"{path.name}: no line '// RUN: <passes>'"
    before, separator, after = text[run.end() :].partition(SEPARATOR)
    return Case(text[: run.end()], run.group(1).split(), before, after if separator else None)


def optimise(program: str, passes: list[str]) -> str:
    """The program after the passes, verified after each, as printed by popart-opt."""
    words = [str(BUILD / "bin" / "popart-opt"), "-", "--verify", "--print"]
    options = False
    for word in passes:
        options = options or word.startswith("--")
        words += [word] if options else ["--pass", word]
    result = subprocess.run(words, input=program, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    return re.sub(r'(layout = "packed(?:_conv)?(?:_t)?|/packed(?:_conv)?(?:_t)?)\d+', r"\1N", result.stdout)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_transform(path: Path) -> None:
    """The passes give the expected text, and running them again changes nothing."""
    case = read_case(path)
    after = optimise(case.before, case.passes)
    assert after == (case.after if case.after is not None else optimise(case.before, []))
    if "\n// ONCE: " not in case.head:
        assert optimise(after, case.passes) == after


def test_there_are_cases() -> None:
    """An empty folder would make the test above pass without testing anything."""
    assert CASES


if __name__ == "__main__":
    assert sys.argv[1:] == ["--update"], __doc__
    for file in CASES:
        found = read_case(file)
        if found.after is not None:
            file.write_text(found.head + found.before + SEPARATOR + optimise(found.before, found.passes))
