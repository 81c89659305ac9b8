"""Counts the lines of the twenty tasks in examples/tasks, and writes the table into the README of that folder.

A line counts if it has code: blank lines, comments and docstrings do not count. Programs of both sides are formatted by
the same formatter. Usage: count_tasks.py [--write]. Prints the table; with --write writes it into the page.
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import tokenize
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "examples/tasks"
PAGE = FOLDER / "README.md"
BEGIN, END = "<!-- count_tasks.py: begin -->\n", "<!-- count_tasks.py: end -->\n"
PEERS = {"torch": "PyTorch", "onnxruntime": "ONNX Runtime"}

# In the order of the table.
TASKS = (
    "train", "early_stopping", "evaluate", "resume", "any_batch", "mixed_precision", "freeze", "python_operator",
    "schedule", "accumulate", "inner_tensors", "weights_as_arrays", "safetensors_files", "serve", "profile_step",
    "limit_threads", "limit_memory", "seed", "fine_tune_bert", "quantised",
)  # fmt: skip

_NO_CODE = (
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
)  # fmt: skip


def code_lines(text: str) -> int:
    """How many lines of a Python program have code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            lines.difference_update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)


@dataclass(frozen=True)
class Task:
    """One task: its programs, and the library of the second one."""

    name: str
    ours: Path
    peer: Path | None
    library: str

    @property
    def title(self) -> str:
        """The first sentence of our program."""
        text = ast.get_docstring(ast.parse(self.ours.read_text())) or self.name
        return text.splitlines()[0].removesuffix(".")

    def counts(self) -> tuple[int, int]:
        """Lines of our program and of the other one; 0 if there is none."""
        return code_lines(self.ours.read_text()), 0 if self.peer is None else code_lines(self.peer.read_text())


def tasks(folder: Path = FOLDER) -> list[Task]:
    """The tasks in the order of the table."""
    found = []
    for name in TASKS:
        peers = [library for library in PEERS if (folder / f"{name}_{library}.py").is_file()]
        peer = folder / f"{name}_{peers[0]}.py" if peers else None
        found.append(Task(name, folder / f"{name}.py", peer, PEERS[peers[0]] if peers else ""))
    return found


def table(folder: Path = FOLDER) -> str:
    """Markdown table of the lines of each task, and their sums."""
    lines = ["| Task | PopART | Other | Lines here | Lines there |", "|---|---|---|---|---|"]
    totals = [0, 0]
    for task in tasks(folder):
        ours, peer = task.counts()
        totals = [totals[0] + ours, totals[1] + peer]
        other = f"[{task.library}]({task.peer.name})" if task.peer else "none has it"
        lines.append(f"| {task.title} | [{task.name}]({task.ours.name}) | {other} | {ours} | {peer or '-'} |")
    lines.append(f"| All | | | {totals[0]} | {totals[1]} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Print the table, and with --write write it into the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put the table into examples/tasks/README.md")
    text = table()
    print(text, end="")
    if parser.parse_args(arguments).write:
        page = PAGE.read_text()
        begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
        PAGE.write_text(page[:begin] + text + page[end:])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
