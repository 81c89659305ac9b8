"""Checks that public C++ declarations say what they promise. Usage: contracts.py [ROOT].

Reads the headers below include/popart line by line, in the layout that clang-format gives them. A declaration of a
namespace, or of the public part of a class, has a comment: on its own lines, or above it. A comment above speaks for
the declarations below it up to the next blank line; a heading ("// ---- weights") does so when it says a sentence.
A type that the comment at the top of its file names is described there. Need none: what the language names
(`= default`, destructors, comparisons, overrides, specialisations, forward declarations, `friend`), enumerators,
members whose whole definition is the one line that is seen, constructors that only store what they are given.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TYPE = re.compile(r"^(?:template <[^;{]*>\s*)?(class|struct|union|enum class|enum)\s+(\w+)")
ACCESS = re.compile(r"^(public|protected|private):$")
NAMED_BY_THE_LANGUAGE = re.compile(
    r"= (default|delete);|\boverride\b|\bfriend\b|\boperator(==|!=|<|\(\))\(|^(virtual )?~\w+\(|^template <>"
    r"|\bstruct std::hash<|^using [\w:<>, ]+::\w+;|^(template <[^>]*>\s*)?(class|struct|enum class) \w+;"
)
STORES_ARGUMENTS = re.compile(r"^(explicit )?(\w+)\(.*\)\s*(:\s.*)?\{\s*\}$")
MACRO_CALL = re.compile(r"^[A-Z][A-Z0-9_]*\(.*\)$")
LITERAL = re.compile(r""""(\\.|[^"\\])*"|'(\\.|[^'\\])'""")


@dataclass
class Scope:
    """Whose declarations are being read: "namespace" or "type", and whether users see them."""

    kind: str
    public: bool
    name: str = ""


@dataclass
class Statement:
    """A declaration, or the first line of a scope (then it ends in "{"), or "}", or an access specifier."""

    text: str
    line: int
    lines: int = 1
    commented: bool = False


def says_something(comment: str) -> bool:
    """Whether a comment line speaks for what follows: a bare heading does not."""
    return not comment.startswith("// ----") or ":" in comment or "." in comment


def is_complete(text: str, depth: int) -> bool:
    """Whether a statement ends here; `depth`: braces open in it. Bodies of functions belong to it."""
    if depth == 1 and text.endswith("{"):
        found = TYPE.match(text)
        return text.startswith(("namespace", "inline namespace")) or bool(found and "enum" not in found.group(1))
    return depth == 0 and (text.endswith((";", "}")) or bool(MACRO_CALL.match(text)))


def statements(text: str) -> Iterator[Statement]:
    """The statements of a header in order, without preprocessor lines."""
    spoken = in_macro = False
    current: Statement | None = None
    depth = 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = LITERAL.sub("0", raw.strip())
        if in_macro or line.startswith("#"):
            in_macro = line.endswith("\\")
            continue
        if current is None and (not line or line.startswith("//")):
            spoken = bool(line) and says_something(line)
            continue
        code = re.sub(r"\s*//.*$", "", line)
        if current is None and (ACCESS.match(code) or re.fullmatch(r"\};?", code)):
            yield Statement(code.rstrip(";"), number)
            spoken = spoken and code != "}"
            continue
        if current is None:
            current = Statement("", number, 0, spoken)
        current.text = f"{current.text} {code}".strip()
        current.lines += 1
        current.commented = current.commented or "//" in line
        depth += code.count("{") - code.count("}")
        if is_complete(current.text, depth):
            spoken = spoken and not current.text.endswith("{")
            yield current
            current, depth = None, 0


def scope_of(statement: str, outer: Scope) -> Scope:
    """The scope that a statement ending in an open brace begins."""
    found = TYPE.match(statement)
    if not found:
        return Scope("namespace", True)
    seen = outer.public and "std::hash<" not in statement
    return Scope("type", seen and found.group(1) != "class", found.group(2))


def needs_comment(statement: Statement, scope: Scope) -> bool:
    """Whether nothing in the language, and nothing on its one line, says what a declaration is."""
    text = statement.text
    if NAMED_BY_THE_LANGUAGE.search(text) or MACRO_CALL.match(text):
        return False
    if scope.kind == "type" and statement.lines == 1 and text.endswith("}") and not TYPE.match(text):
        return False
    constructor = STORES_ARGUMENTS.match(text)
    return not (constructor and constructor.group(2) == scope.name)


def check_file(name: str, text: str) -> list[str]:
    """Problems of one header.

    Args:
        name: Path relative to the repository.
        text: Content of the file.

    Returns:
        One line per declaration without comment.
    """
    opening = re.match(r"(//.*\n)*", text)
    introduced = set(re.findall(r"\w+", opening.group())) if opening else set()
    problems = []
    scopes = [Scope("namespace", True)]
    for statement in statements(text):
        scope = scopes[-1]
        if statement.text == "}":
            scopes.pop()
            continue
        if access := ACCESS.match(statement.text):
            scope.public = access.group(1) == "public" and all(outer.public for outer in scopes[:-1])
            continue
        declared = TYPE.match(statement.text)
        is_type = declared is not None and "{" in statement.text
        described = statement.commented or (is_type and declared.group(2) in introduced)
        begins = statement.text.endswith("{")
        wanted = scope.public and not described and (is_type or not begins)
        if wanted and needs_comment(statement, scope):
            what = statement.text[:90]
            problems.append(f"{name}:{statement.line}: has no comment: {what}. Say what it promises.")
        if begins:
            scopes.append(scope_of(statement.text, scope))
    if len(scopes) != 1:
        problems.append(f"{name}: cannot be read: got {len(scopes) - 1} open braces at its end. Run ./dev format.")
    return problems


def check_tree(root: Path) -> list[str]:
    """Problems of all public headers that git tracks or would add."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "include"]
    names = subprocess.check_output(listing, cwd=root, text=True).splitlines()
    headers = [name for name in sorted(names) if name.endswith(".hpp") and (root / name).is_file()]
    return [problem for name in headers for problem in check_file(name, (root / name).read_text())]


def main(arguments: list[str]) -> int:
    """Print all problems; returns 1 when there is one."""
    problems = check_tree(Path(arguments[0] if arguments else ".").resolve())
    for problem in problems:
        print(problem)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
