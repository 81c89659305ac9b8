"""The check of units finds definitions that files of one room share, and accepts overloads."""

import pytest

from tools.checks.units import clashes

FILE = "namespace popart::{space} {{\nnamespace {{\n{code}\n}}  // namespace\n}}  // namespace popart::{space}\n"


def two_files(code, other, second="src/onnx/import/b.cpp", space="onnx"):
    """Clashes between two files with the given definitions."""
    return clashes(
        {"src/onnx/a.cpp": FILE.format(space="onnx", code=code), second: FILE.format(space=space, code=other)}
    )


@pytest.mark.parametrize(
    "code",
    [
        "struct Row {\n  int a;\n};",
        "constexpr int64_t kMost = 3;",
        "constexpr const char *kName[] = {};",
        "const std::string kName = name();",
        'const Family kFamily("name", [](int a) { return a; });',
        "std::set<std::string> namesOf(const Graph &graph, int depth = 0) {\n  return {};\n}",
        "void walk(\n    int a,\n    int b) {\n}",
    ],
)
def test_definition_in_two_files_of_a_room_is_named(code):
    problems = two_files(code, code)
    assert len(problems) == 1
    assert problems[0].startswith("src/onnx/a.cpp: error: ") and "src/onnx/import/b.cpp" in problems[0]
    assert two_files(code, code, second="src/lower/b.cpp") == []
    assert two_files(code, code, space="onnx::microsoft") == []


def test_parameters_may_have_other_names():
    assert len(two_files("int f(const Op &op) {\n}", "int f(const Op &other) {\n}")) == 1


def test_overloads_are_accepted():
    assert two_files("int f(const Op &op) {\n}", "int f(const Graph &graph) {\n}") == []


def test_kernels_are_compiled_alone():
    code = FILE.format(space="cpu", code="constexpr int kTasks = 4;")
    assert clashes({f"src/backends/cpu/kernels/{name}.cpp": code for name in "ab"}) == []
    assert len(clashes({f"src/backends/cpu/{name}.cpp": code for name in "ab"})) == 1
