"""Writes the skeleton of a new operator by copying the rows of an existing one. Used by `./dev new-op`.

From the file below src/ops that defines LIKE it takes the statements that make LIKE's rows (its gradient and
in-place rows included) and the local functions these use, under the new name, as a file of its own; it enters the new
family in catalog.hpp and catalog.cpp, and copies the cases of LIKE from tests/cases/ops. Existing files of the
new operator are never overwritten.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from dataclasses import dataclass
from pathlib import Path

STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
CHARACTER = re.compile(r"'(?:[^'\\\n]|\\.)'")


class NewOpError(Exception):
    """The skeleton cannot be written; the text says why and what to do."""


@dataclass(frozen=True)
class Item:
    """A declaration or statement: its text with leading comment lines, and the name it defines, if any."""

    text: str
    name: str | None


def blanked(text: str) -> str:
    """The text with comments, strings and characters overwritten by blanks of the same length."""
    for pattern in (STRING, COMMENT, CHARACTER):
        text = pattern.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
    return text


def split_items(text: str) -> list[str]:
    """Split C++ text into its outermost declarations or statements, comments kept with what follows them."""
    bare = blanked(text)
    items, depth, start = [], 0, 0
    for position, letter in enumerate(bare):
        depth += (letter in "({[") - (letter in ")}]")
        ends_block = letter == "}" and not bare[position + 1 :].lstrip().startswith((";", ",", ")", "."))
        if depth == 0 and (letter == ";" or ends_block):
            items.append(text[start : position + 1].strip("\n"))
            start = position + 1
    return [item for item in items if item.strip()]


def defined_name(text: str) -> str | None:
    """Name that a C++ declaration defines."""
    bare = blanked(text).strip()
    found = re.match(r"(?:using|struct|class|enum class|enum)\s+(\w+)", bare)
    found = found or re.match(r"[^({=;]*?(\w+)\s*(?:\[[^\]]*\])?\s*[({=;]", bare)
    return found.group(1) if found else None


def body_of(text: str, header: str) -> list[str]:
    """Contents of all blocks that open with a header pattern, such as a namespace."""
    bare, bodies = blanked(text), []
    for match in re.finditer(header, bare):
        depth, position = 1, match.end()
        while depth and position < len(bare):
            depth += (bare[position] == "{") - (bare[position] == "}")
            position += 1
        bodies.append(text[match.end() : position - 1])
    return bodies


def snake_case(name: str) -> str:
    """LogSoftmax -> log_softmax."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def row_statements(function: str, like: str) -> list[str]:
    """Statements of a function that make the rows of LIKE, its gradients and in-place variants."""
    row = re.compile(rf"{like}(?:(?:Arg\d|Lhs|Rhs|Data|Weights)?Grad|Inplace)?")
    found = []
    for statement in split_items(function[function.index("{") + 1 : function.rindex("}")]):
        names = [literal.strip('"') for literal in STRING.findall(COMMENT.sub("", statement))]
        types = [name for name in names if not re.fullmatch(r"ai\.\w+(\.\w+)*", name)]
        if types and row.fullmatch(types[0]) and re.search(r"\brows\b", blanked(statement)):
            found.append(statement.rstrip())
    return found


def needed_items(statements: list[str], items: list[Item]) -> list[Item]:
    """The local declarations that some statements use, directly or through one another, in file order."""
    needed: set[str] = set()
    pending = list(statements)
    while pending:
        words = set(re.findall(r"\w+", blanked(pending.pop())))
        for item in items:
            if item.name in words and item.text not in needed:
                needed.add(item.text)
                pending.append(item.text)
    return [item for item in items if item.text in needed]


def find_rows(root: Path, like: str) -> tuple[Path, list[str], list[Item]]:
    """File that defines LIKE, the statements that make its rows, and the local declarations they use.

    Raises:
        NewOpError: No such operator, or its row is not made by a statement of its own.
    """
    mentioned = []
    for path in sorted((root / "src/ops").glob("*/*.cpp")):
        text = path.read_text()
        if f'"{like}"' in text:
            mentioned.append(str(path.relative_to(root)))
        outer = "".join(body_of(text, r"namespace popart::ops\s*\{"))
        local = "".join(body_of(outer, r"namespace\s*\{"))
        declarations = split_items(outer) if not local else split_items(outer.replace(local, "")) + split_items(local)
        statements = [s for item in declarations if "{" in item for s in row_statements(item, like)]
        if any(f'"{like}"' in statement for statement in statements):
            items = [Item(item, defined_name(item)) for item in split_items(local)]
            return path, statements, needed_items(statements, items)
    where = f" It is mentioned in {', '.join(mentioned)}: add the new row there by hand." if mentioned else ""
    raise NewOpError(f"new-op: no statement below src/ops makes a row of type {like}.{where}")


def check_free(root: Path, name: str) -> None:
    """Refuse a type that code below src/ops names already.

    Raises:
        NewOpError: The type exists.
    """
    for path in sorted((root / "src/ops").glob("*/*.cpp")):
        if f'"{name}"' in STRING.findall(COMMENT.sub("", path.read_text())):
            raise NewOpError(f"new-op: {path.relative_to(root)} names an operator {name} already. Choose another name.")


def renamed(text: str, like: str, name: str) -> str:
    """Text in which the string literals that begin with LIKE begin with the new name."""
    return re.sub(rf'"{like}(?=["A-Z])', f'"{name}', text)


def indented(statements: list[str]) -> str:
    """Statements at the indentation of a function body."""
    return "\n".join(statement.strip("\n") for statement in statements)


def row_file(name: str, like: str, source: Path, statements: list[str], items: list[Item]) -> str:
    """Content of the new operator's file."""
    includes = re.findall(r"^#include [^\n]+", source.read_text(), re.MULTILINE)
    local = "\n\n".join(item.text.strip("\n") for item in items)
    namespace = f"namespace {{\n\n{local}\n\n}}  // namespace\n\n" if local else ""
    text = f"""\
// {name}: the operator's formula and that of its gradient stand here.
// Rows copied from {like} ({source.name}); shape rule, gradient and names are to be checked one by one.
{chr(10).join(includes)}

namespace popart::ops {{

{namespace}OpDefs {family_function(name)}() {{
  OpDefs rows;
{indented(statements)}
  return rows;
}}

}}  // namespace popart::ops
"""
    return renamed(text, like, name)


def family_function(name: str) -> str:
    """LogSoftmax -> logSoftmaxOps."""
    return name[0].lower() + name[1:] + "Ops"


def enter_in_catalog(root: Path, name: str, source: Path) -> None:
    """Declare the new family in catalog.hpp and list it in catalog.cpp, next to the family it was copied from."""
    outer = "".join(body_of(source.read_text(), r"namespace popart::ops\s*\{"))
    functions = re.findall(r"^OpDefs (\w+)\(\) \{", outer, re.MULTILINE)
    function = family_function(name)
    changed = {}
    for file, line in (("catalog.hpp", f"OpDefs {function}();"), ("catalog.cpp", f"    ops::{function},")):
        path = root / "src/ops" / file
        lines = path.read_text().splitlines()
        near = [i for i, text in enumerate(lines) if any(re.search(rf"\b{old}\b", text) for old in functions)]
        if not near:
            raise NewOpError(
                f"new-op: {file} does not name {' or '.join(functions)}. Add there by hand: {line.strip()}"
            )
        lines.insert(near[-1] + 1, line)
        changed[path] = "\n".join(lines) + "\n"
    for path, text in changed.items():
        path.write_text(text)


def case_file(root: Path, name: str, like: str) -> str | None:
    """Content of the new case file: the top-level lists of LIKE's case file, reduced to what mentions LIKE."""
    for path in sorted((root / "tests/cases/ops").glob("*.py")):
        text = path.read_text()
        if not re.search(rf"""["']{like}["']""", text):
            continue
        parts = [f'"""Cases of {name}, copied from those of {like}."""']
        for node in ast.parse(text).body:
            source = ast.get_source_segment(text, node) or ""
            is_list = isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.List)
            if is_list:
                elements = [ast.get_source_segment(text, element) or "" for element in node.value.elts]
                kept = [element for element in elements if re.search(rf"""["']{like}["'A-Z]""", element)]
                head = source[: source.index("[")]
                source = f"{head}[\n" + "".join(f"    {element},\n" for element in kept) + "]"
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                continue
            parts.append(source)
        return renamed("\n\n".join(parts) + "\n", like, name)
    return None


def write_skeleton(root: Path, name: str, like: str) -> list[str]:
    """Write all files of the new operator.

    Args:
        root: The repository.
        name: Type of the new operator, for example Gelu.
        like: Type of the operator to copy.

    Returns:
        One line per file, saying what to do there.

    Raises:
        NewOpError: The name is no type name, exists already, or LIKE cannot be copied.
    """
    if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", name):
        raise NewOpError(f"new-op: got the name {name}, expected a type name such as Gelu")
    check_free(root, name)
    source, statements, items = find_rows(root, like)
    target = source.parent / f"{snake_case(name)}.cpp"
    cases = root / "tests/cases/ops" / f"{snake_case(name)}.py"
    for path in (target, cases):
        if path.exists():
            raise NewOpError(f"new-op: {path.relative_to(root)} exists already. Choose another name or delete it.")
    content = case_file(root, name, like)
    enter_in_catalog(root, name, source)
    target.write_text(row_file(name, like, source, statements, items))
    notes = [f"{target.relative_to(root)}: check the formula, shape rule, gradient and ONNX names"]
    if content is None:
        notes.append(f"{cases.relative_to(root)}: {like} has no cases to copy; write them")
    else:
        cases.write_text(content)
        notes.append(f"{cases.relative_to(root)}: replace the inputs and expected values")
    notes.append("src/backends/ref: add the kernel, unless the row has a decomposition (docs/add-an-op.md)")
    return notes


def main(arguments: list[str]) -> int:
    """Command line: new_op.py NAME --like OP."""
    parser = argparse.ArgumentParser(prog="./dev new-op", description=__doc__.splitlines()[0])
    parser.add_argument("name", help="type of the new operator, for example Gelu")
    parser.add_argument("--like", required=True, help="type of the operator to copy, for example Relu")
    args = parser.parse_args(arguments)
    try:
        for note in write_skeleton(Path(__file__).resolve().parents[1], args.name, args.like):
            print(note)
    except NewOpError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
