"""Run the notebooks of examples/notebooks and store their text and pictures.

Usage: run_notebooks.py [NOTEBOOK ...]. Each runs in a new folder, in a kernel of this Python. Outputs that change from
run to run (times, counts of earlier runs) are not stored.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

import nbclient
import nbformat

FOLDER = Path(__file__).resolve().parents[1] / "examples/notebooks"
SECONDS = 300  # for one cell


def run(path: Path) -> nbformat.NotebookNode:
    """Run a notebook from its first cell.

    Returns:
        The notebook with new outputs; the file is not changed.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell raises, with its traceback.
    """
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        client = nbclient.NotebookClient(
            notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": folder}}
        )
        client.execute(env=os.environ | {"PYTHONWARNINGS": "ignore"})
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    return notebook


def main() -> int:
    """Run the named notebooks, or all; returns the exit code."""
    parser = argparse.ArgumentParser(description="Run notebooks and store their outputs.")
    parser.add_argument("notebooks", nargs="*", type=Path, help="files (default: all of examples/notebooks)")
    for path in parser.parse_args().notebooks or sorted(FOLDER.glob("*.ipynb")):
        nbformat.write(run(path), path)
        print(path.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
