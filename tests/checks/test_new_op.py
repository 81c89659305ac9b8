"""`./dev new-op` writes a row, its cases and two lines of the catalog, and nothing else."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tools.new_op import NewOpError, write_skeleton

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tree(tmp_path):
    """The catalog of the repository and one family."""
    (tmp_path / "src/ops/math").mkdir(parents=True)
    (tmp_path / "tests/cases/ops").mkdir(parents=True)
    (tmp_path / "src/ops/math/wave.cpp").write_text('rows.push_back(OpDef("ai.graphcore", "Wave", {1}));  // "Still"\n')
    for name in ("catalog.hpp", "catalog.cpp"):
        shutil.copy(ROOT / "src/ops" / name, tmp_path / "src/ops" / name)
    return tmp_path


def test_the_row_compiles(tree):
    write_skeleton(tree, "LongRipple", "math")
    command = ["c++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"]
    includes = [f"-I{tree / 'src'}", f"-I{ROOT / 'src'}", f"-I{ROOT / 'include'}"]
    row = tree / "src/ops/math/long_ripple.cpp"
    assert '"LongRipple"' in row.read_text()
    result = subprocess.run([*command, *includes, row], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_the_catalog_lists_the_row(tree):
    write_skeleton(tree, "Ripple", "math")
    header, listing = ((tree / "src/ops" / name).read_text() for name in ("catalog.hpp", "catalog.cpp"))
    assert "OpDefs rippleOps();  // Ripple\n// ---- made by lowering" in header
    assert "    ops::rippleOps,\n    // ---- made by lowering" in listing


def test_the_cases_are_of_the_operator(tree):
    write_skeleton(tree, "Ripple", "math")
    namespace: dict = {}
    exec((tree / "tests/cases/ops/ripple.py").read_text(), namespace)
    assert [case.type for case in namespace["CASES"]] == ["Ripple"]


@pytest.mark.parametrize(
    ("name", "family", "fragment"),
    [
        ("ripple", "math", "expected a type name"),
        ("Ripple", "storm", "expected one of math"),
        ("Wave", "math", r"wave\.cpp names an operator Wave already"),
    ],
)
def test_refusal_says_why_and_changes_nothing(tree, name, family, fragment):
    before = {path: path.read_text() for path in tree.rglob("*") if path.is_file()}
    with pytest.raises(NewOpError, match=fragment):
        write_skeleton(tree, name, family)
    assert {path: path.read_text() for path in tree.rglob("*") if path.is_file()} == before


def test_a_type_that_only_a_comment_names_is_free(tree):
    assert write_skeleton(tree, "Still", "math")
