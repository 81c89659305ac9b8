"""The check of public headers names declarations without a comment and leaves alone what speaks for itself."""

import pytest

from tools.checks.contracts import check_file

HEAD = "// Thing: what it is.\n#pragma once\n\nnamespace popart {\n\n"


def problems(declarations):
    return check_file("include/popart/thing.hpp", HEAD + declarations + "\n}  // namespace popart\n")


@pytest.mark.parametrize(
    "declarations",
    [
        "int size();  // elements",
        "// Throws popart::error.\nint size();\nint rank();",
        "class Thing {\n public:\n  Thing() = default;\n  ~Thing();\n\n private:\n  int size_ = 0;\n};",
        "// A pair.\nstruct Pair {\n  // Both in bytes.\n  int a = 0;\n  int b = 0;\n};",
        "class Thing {\n public:\n  int size() const { return 1; }\n  bool operator==(const Thing &) const;\n};",
        "// Kinds.\nenum class Kind {\n  A = 0,\n  B,\n};",
        "class Other;\nstruct Thing;",
        "class Thing {\n public:\n  explicit Thing(int size) : size_(size) {}\n};",
        '// Says \'{\' and "};".\nstd::string text() {\n  return "};";\n}',
        "CALL_OF_A_MACRO(name)",
    ],
)
def test_described_declaration_is_accepted(declarations):
    assert problems(declarations) == []


@pytest.mark.parametrize(
    ("declarations", "named"),
    [
        ("int size();", "int size();"),
        ("// Throws popart::error.\nint size();\n\nint rank();", "int rank();"),
        ("// ---- sizes\nint size();", "int size();"),
        ("class Other {\n public:\n  int size_;  // elements\n};", "class Other {"),
        ("class Thing {\n public:\n  int size(int axis) const;\n};", "int size(int axis) const;"),
        ("// A pair.\nstruct Pair {\n  int a = 0;  // bytes\n  int b = 0;\n};", "int b = 0;"),
        ("enum class Kind {\n  A = 0,\n  B,\n};\n", "enum class Kind {"),
        ("// Kinds.\nenum class Kind {\n  A = 0,\n  B,\n};\n\nint size();", "int size();"),
        ("template <class T>\nT first(const T *values) {\n  return values[0];\n}", "T first"),
    ],
)
def test_declaration_without_comment_is_named(declarations, named):
    found = problems(declarations)
    assert len(found) == 1
    assert named in found[0]


def test_header_that_cannot_be_read_is_named():
    assert "cannot be read" in check_file("include/popart/thing.hpp", HEAD + "class Thing {\n public:\n")[0]
