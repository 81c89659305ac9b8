"""Counts in how many files operators are stated, and updates the table in docs/add-an-op.md.

A file states an operator if its code (without comments and docstrings) names the type: as a word or string, as an
enumerator (kGelu, kIntAbs), or, in Python, as a function that makes the op or a list that exports that function.
Usage: count_statements.py [--write]. Prints the table; with --write writes it into the page.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/add-an-op.md"
BEGIN, END = "<!-- count_statements.py: begin -->\n", "<!-- count_statements.py: end -->\n"

# One operator of each kind.
OPERATORS = {
    "plain": "CumSum",
    "view": "Squeeze",
    "element-wise": "Gelu",
    "spatial": "GroupNormalization",
    "gradient row": "SoftmaxGrad",
}

# Column by the beginning of a path; the first match counts.
PLACES = {
    "src/ops/": "definition",
    "src/backends/ref/": "`ref`",
    "src/backends/": "`cpu`",
    "src/onnx/": "ONNX",
    "src/api/": "ONNX",
    "python/popart/opset_methods.py": "ONNX",
    "python/": "Python",
    "tests/": "cases",
    "src/": "passes",
    "include/": "passes",
}
COLUMNS = ["definition", "`ref`", "`cpu`", "cases", "Python", "ONNX", "passes"]

CPP_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


def sources(root: Path) -> list[Path]:
    """Files that may state an operator: library, Python packages, operator cases."""
    places = ["src", "include", "python", "tests/cases", "tests/unit/support"]
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *places]
    names = subprocess.check_output(listing, cwd=root, text=True).splitlines()
    found = [root / name for name in sorted(set(names)) if name.endswith((".cpp", ".hpp", ".inc", ".py"))]
    return [path for path in found if path.is_file()]


def cpp_code(text: str) -> str:
    """C++ text without comments."""
    return CPP_STRING_OR_COMMENT.sub(lambda m: m.group() if m.group().startswith('"') else " ", text)


def names_in_cpp(text: str, type_: str) -> bool:
    """Whether C++ code names the operator type."""
    return re.search(rf"(?<![\w])(?:k(?:Int|Mask)?)?{type_}(?!\w)", cpp_code(text)) is not None


def makers(tree: ast.AST, type_: str) -> set[str]:
    """Functions of a Python module that name the operator type in a string that is not a docstring."""
    found = set()
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and any(
            isinstance(node, ast.Constant) and node.value == type_ for node in ast.walk(function)
        ):
            found.add(function.name)
    return found


def names_in_python(tree: ast.AST, type_: str, functions: set[str]) -> bool:
    """Whether a Python module names the operator type, or exports one of the functions that make it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and (node.value == type_ or node.value in functions):
            return True
        if isinstance(node, ast.alias) and node.name in functions:
            return True
    return False


def statements(root: Path, types: list[str]) -> dict[str, dict[str, list[str]]]:
    """Files that state each operator type.

    Args:
        root: The repository.
        types: Operator types.

    Returns:
        By type and column of the table, the paths relative to root.
    """
    texts = {path: path.read_text() for path in sources(root)}
    trees = {path: ast.parse(text) for path, text in texts.items() if path.suffix == ".py"}
    found: dict[str, dict[str, list[str]]] = {}
    for type_ in types:
        functions = {
            name
            for path, tree in trees.items()
            if "popxl/ops" in path.as_posix()
            for name in makers(tree, type_)
            if not name.startswith("_")
        }
        columns: dict[str, list[str]] = {column: [] for column in COLUMNS}
        for path, text in texts.items():
            tree = trees.get(path)
            if names_in_cpp(text, type_) if tree is None else names_in_python(tree, type_, functions):
                name = path.relative_to(root).as_posix()
                columns[next(column for start, column in PLACES.items() if name.startswith(start))].append(name)
        found[type_] = columns
    return found


def table(root: Path) -> str:
    """Markdown table of the number of files that state each operator of OPERATORS."""
    found = statements(root, list(OPERATORS.values()))
    lines = [f"| Operator | Kind | Files | {' | '.join(COLUMNS)} |", "|---|---|" + "---|" * (len(COLUMNS) + 1)]
    for kind, type_ in OPERATORS.items():
        counts = [len(found[type_][column]) for column in COLUMNS]
        lines.append(f"| {type_} | {kind} | {sum(counts)} | {' | '.join(map(str, counts))} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Print the table, and with --write write it into the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put the table into docs/add-an-op.md")
    parser.add_argument("--files", metavar="TYPE", help="list the files that state one operator instead")
    args = parser.parse_args(arguments)
    if args.files:
        for column, names in statements(ROOT, [args.files])[args.files].items():
            for name in names:
                print(f"{column:12} {name}")
        return 0
    text = table(ROOT)
    print(text, end="")
    if args.write:
        page = PAGE.read_text()
        begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
        PAGE.write_text(page[:begin] + text + page[end:])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
