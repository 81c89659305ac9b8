"""The check of operator names finds comparisons outside the rooms that list operators by nature."""

import pytest

from tools.checks.op_names import check_file


@pytest.mark.parametrize(
    "line",
    [
        'if (op.is("Loop")) return;',
        'return producer->is("Identity");',
        'if (op.def().base().type() != "Concat") return;',
        'op.opType() == "Gelu"',
        'return op.def().type() == "Transpose" || wide;',
        'if (op->opid.type == "Call") return;',
    ],
)
def test_comparison_of_a_name_is_named(line):
    problems = check_file("src/lower/flatten.cpp", f"int a;\n{line}\n")
    assert len(problems) == 1
    assert problems[0].startswith("src/lower/flatten.cpp:2: ")
    assert check_file("src/patterns/shapes.cpp", line) == []
    assert check_file("src/onnx/import/math.cpp", line) == []


@pytest.mark.parametrize(
    "line",
    [
        "if (op.is(Role::Loop)) return;",
        'const int64_t axis = c.axis("axis", rank);',
        'opDef("Loop")',
        'kind == "Add"',
    ],
)
def test_other_uses_of_strings_are_accepted(line):
    assert check_file("src/ops/math/binary.cpp", line) == []
