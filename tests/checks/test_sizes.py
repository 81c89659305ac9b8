"""The check of sizes names wide lines of C++, comments included, counted in characters."""

from tools.checks.sizes import COLUMNS, wide_lines


def test_wide_lines_are_named_by_file_and_number():
    fits, wide = "// " + "é" * (COLUMNS - 3), "// " + "x" * (COLUMNS - 2)
    assert wide_lines("src/ir/graph.cpp", f"{fits}\n{wide}\n") == [
        f"src/ir/graph.cpp:2: error: got {COLUMNS + 1} columns, expected at most {COLUMNS}. Wrap the line."
    ]
    assert wide_lines("python/popxl/ir.py", wide) == []
