"""The table of docs/add-an-op.md is what tools/count_statements.py counts, and it counts statements only."""

import ast
import subprocess

import pytest

from tools import count_statements


def test_page_has_the_table():
    page = count_statements.PAGE.read_text()
    begin = page.index(count_statements.BEGIN) + len(count_statements.BEGIN)
    written = page[begin : page.index(count_statements.END)]
    assert written == count_statements.table(count_statements.ROOT), (
        "run: python tools/count_statements.py --write; a count that grew needs a reason"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('row("Wave")', True),
        ("ElementOp::kWave", True),
        ("INT_UNARY(Wave, Bits, return x;)", True),
        ("kIntWave", True),
        ("// like Wave", False),
        ("/* Wave */ int x;", False),
        ('"// not a comment" Wave', True),
        ('row("WaveGrad")', False),
        ("ShortWave", False),
    ],
)
def test_cpp(text, expected):
    assert count_statements.names_in_cpp(text, "Wave") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('emit("Wave", t)', True),
        ('"""Wave: a docstring."""', False),
        ("from ops import wave", True),
        ('__all__ = ["wave"]', True),
        ("# Wave", False),
    ],
)
def test_python(text, expected):
    assert count_statements.names_in_python(ast.parse(text), "Wave", {"wave"}) == expected


def test_files_are_sorted_into_columns(tmp_path):
    files = {
        "src/ops/math/wave.cpp": 'OpDef("ai.graphcore", "Wave", {1})',
        "src/backends/ref/wave.cpp": '{"Wave", wave}',
        "src/backends/cpu/vector/rows.inc": "UNARY(Wave, 1, (), return x;)",
        "src/lower/pass.cpp": 'op.is("Wave")',
        "python/popxl/ops/math.py": 'def wave(t):\n    """A Wave."""\n    return emit("Wave", t)\n',
        "python/popxl/__init__.py": "from .ops.math import wave\n",
        "tests/cases/ops/wave.py": 'CASES = [Case("Wave")]\n',
        "pages/wave.md": "Wave",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    found = count_statements.statements(tmp_path, ["Wave"])["Wave"]
    assert {column: len(names) for column, names in found.items() if names} == {
        "definition": 1,
        "`ref`": 1,
        "`cpu`": 1,
        "cases": 1,
        "Python": 2,
        "passes": 1,
    }
