"""Prints a table by tool: how many files load, equal ONNX Runtime and train correctly, here and in onnx2torch.

    python -m tests.corpus.report [--slow] [--details FILE] [WORD ...]

A file trains correctly if the right tensors train, the loss is attached by name and three steps equal PyTorch's.
"""

import argparse
import json
import logging
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from tests.corpus import checks, onnx2torch_columns
from tests.corpus.files import File, Made
from tests.corpus.table import FILES

OURS = ["load", "equal ORT", "classified", "train", "saved"]
THEIRS = ["load (onnx2torch)", "equal ORT (onnx2torch)", "train (onnx2torch)"]


@dataclass
class Row:
    """The results of one file: for each column "" if it is right, otherwise what is wrong; and the seconds it took."""

    name: str
    tool: str
    found: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def note(self, column: str, check: Callable[[], bool | list[str] | None]) -> None:
        """Run a check, which returns a list of faults or whether the file is right, or raises an exception."""
        try:
            result = check()
            faults = "; ".join(result) if isinstance(result, list) else "" if result is not False else "no"
        except Exception as error:
            faults = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        self.found[column] = faults


def look(file: File, with_other: bool) -> Row:
    """All checks of a file."""
    row, start = Row(file.name, file.tool), time.process_time()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        try:
            made = file.make(Path(folder))
        except Exception as error:
            row.found["made"] = f"{type(error).__name__}: {error}"
            return row
        _ours(row, file, made, Path(folder))
        row.seconds = time.process_time() - start
        if with_other:
            row.note(THEIRS[0], lambda: onnx2torch_columns.loads(made))
            row.note(THEIRS[1], lambda: onnx2torch_columns.equals_onnx_runtime(file, made))
            if file.trains:
                row.note(THEIRS[2], lambda: onnx2torch_columns.training_differs(file, made))
    return row


def _ours(row: Row, file: File, made: Made, folder: Path) -> None:
    row.note("load", lambda: checks.ours(made, made.draw(), checks.output_names(made.source)) and None)
    row.note("equal ORT", lambda: checks.differs_from_onnx_runtime(file, made))
    if not file.trains:
        return
    row.note("classified", lambda: checks.classification_differs(file, made))
    saved: list[str] = ["not trained"]

    def train() -> list[str]:
        faults, saved[:] = checks.training_differs(file, made, folder)
        return faults

    row.note("train", train)
    row.note("saved", lambda: saved)


def table(rows: list[Row]) -> str:
    """The table: for each tool and column, how many files are right, of those that have the column."""
    columns = [c for c in OURS + THEIRS if any(c in row.found for row in rows)]
    lines = [["tool", "files", *columns]]
    tools = list(dict.fromkeys(row.tool for row in rows))
    for tool in [*tools, None]:
        of = [row for row in rows if tool in (row.tool, None)]
        cells = []
        for column in columns:
            about = [row.found[column] for row in of if column in row.found]
            cells.append(f"{sum(not fault for fault in about)} of {len(about)}" if about else "")
        lines.append([tool or "all", str(len(of)), *cells])
    marked = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([marked[0], "|---" * len(lines[0]) + "|", *marked[1:]])


def main() -> None:
    """Check the files that the command line names and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only files whose names or tools contain one of them")
    parser.add_argument("--slow", action="store_true", help="files under the label slow too")
    parser.add_argument("--alone", action="store_true", help="without onnx2torch")
    parser.add_argument("--details", type=Path, help="write each file's findings there, a line of JSON for each")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    rows = []
    for file in FILES.values():
        chosen = not options.words or any(word in f"{file.name} {file.tool}" for word in options.words)
        if not chosen or (file.slow and not options.slow):
            continue
        rows.append(look(file, not options.alone))
        if options.details:
            with options.details.open("a") as out:
                out.write(json.dumps(asdict(rows[-1])) + "\n")
    print(table(rows))
    for row in rows:
        for column in ("made", *OURS):
            if row.found.get(column):
                print(f"{row.name}: {column}: {row.found[column]}")


if __name__ == "__main__":
    main()
