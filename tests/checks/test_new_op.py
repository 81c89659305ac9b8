"""`./dev new-op` copies exactly the rows, local functions and cases of the operator it is given."""

import pytest

from tools.new_op import NewOpError, write_skeleton

SOURCE = """\
// Two families in one file; "Wave" in a comment does not count.
#include "ops/catalog.hpp"

namespace popart::ops {
namespace {

void inferWave(InferContext &c) { c.out(0, c.in(0)); }

OpDef waveRow(const char *type) {
  return OpDef("ai.graphcore", type, {1}).input("x", kFloats).output("y").infer(inferWave);
}

double unrelated(double x) { return x; }

}  // namespace

OpDefs waveOps() {
  OpDefs rows;
  rows.push_back(waveRow("Wave").vjp([](VjpBuilder &b) { b.grad(0, b.emit("WaveGrad", {b.gradOut(0)})); }));
  rows.push_back(OpDef("ai.graphcore", "WaveGrad", {1}).input("g", kFloats).output("grad").noGrad("not built; yet"));
  rows.push_back(OpDef("ai.graphcore", "Still", {1}).input("x", kFloats).output("y"));
  return rows;
}

}  // namespace popart::ops
"""
CASES = '''\
"""Cases of waves."""
import numpy as np

CASES = [
    {"op": "Wave", "inputs": [np.ones(3)]},
    {"op": "Still", "inputs": [np.zeros(3)]},
]
'''


@pytest.fixture
def tree(tmp_path):
    """A repository with one operator file, its catalog and its cases."""
    (tmp_path / "src/ops/math").mkdir(parents=True)
    (tmp_path / "tests/cases/ops").mkdir(parents=True)
    (tmp_path / "src/ops/math/wave.cpp").write_text(SOURCE)
    (tmp_path / "src/ops/catalog.hpp").write_text("OpDefs waveOps();  // Wave\nOpDefs otherOps();\n")
    (tmp_path / "src/ops/catalog.cpp").write_text("    ops::waveOps,\n    ops::otherOps,\n")
    (tmp_path / "tests/cases/ops/wave.py").write_text(CASES)
    return tmp_path


def test_rows_and_what_they_use_are_copied(tree):
    write_skeleton(tree, "LongRipple", "Wave")
    text = (tree / "src/ops/math/long_ripple.cpp").read_text()
    assert 'waveRow("LongRipple")' in text
    assert '"LongRippleGrad", {1}' in text
    assert 'emit("LongRippleGrad"' in text
    assert "OpDefs longRippleOps()" in text
    assert "inferWave" in text
    assert "unrelated" not in text
    assert "Still" not in text


def test_family_is_entered_next_to_its_model(tree):
    write_skeleton(tree, "Ripple", "Wave")
    assert (tree / "src/ops/catalog.hpp").read_text().splitlines()[1] == "OpDefs rippleOps();"
    assert (tree / "src/ops/catalog.cpp").read_text().splitlines()[1] == "    ops::rippleOps,"


def test_only_cases_of_the_model_are_copied(tree):
    write_skeleton(tree, "Ripple", "Wave")
    namespace: dict = {}
    exec((tree / "tests/cases/ops/ripple.py").read_text(), namespace)
    assert [case["op"] for case in namespace["CASES"]] == ["Ripple"]


@pytest.mark.parametrize(
    ("name", "like", "fragment"),
    [
        ("ripple", "Wave", "expected a type name"),
        ("Ripple", "Storm", "makes a row of type Storm"),
        ("Wave", "Wave", "names an operator Wave already"),
        ("Still", "Wave", r"wave\.cpp names an operator Still already"),
    ],
)
def test_refusal_says_why_and_changes_nothing(tree, name, like, fragment):
    before = {path: path.read_text() for path in tree.rglob("*") if path.is_file()}
    with pytest.raises(NewOpError, match=fragment):
        write_skeleton(tree, name, like)
    assert {path: path.read_text() for path in tree.rglob("*") if path.is_file()} == before
