"""The notebooks run from the first cell to the last, and print and draw what is stored in them."""

import re

import nbformat
import pytest

from tests.docs.pages import same_text
from tools.run_notebooks import FOLDER, run

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def texts(cell):
    """Lines that a cell prints, or shows as its last value; pictures are one line each."""
    lines = []
    for output in cell.outputs:
        if output.output_type == "stream":
            lines += output.text.splitlines()
        elif "image/png" in output.data:
            lines.append("picture")
        else:
            lines += output.data["text/plain"].splitlines()
    return lines


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_it_computes(path):
    stored = nbformat.read(path, as_version=4)
    for cell, ran in zip(stored.cells, run(path).cells, strict=True):
        if cell.cell_type == "code":
            assert same_text(texts(ran), texts(cell)), f"{cell.source}\nprinted {texts(ran)}\nand not {texts(cell)}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_with_its_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert any("picture" in texts(cell) for cell in code)
    prose = "".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    for target in re.findall(r"\]\(([^)# ]+)\)", prose):
        assert (path.parent / target).is_file(), target
