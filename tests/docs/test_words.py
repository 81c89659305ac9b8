"""Pages, docstrings and messages use the words of the field, not those of this project's older texts."""

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, without_fences

# Word -> what to write instead. Only words that have no other use in these texts.
INSTEAD = {
    r"alike": "in the same way",
    r"beside": "next to, compared with, in addition to",
    r"gives? back": "returns",
    r"hands? (?:on|over)": "passes",
    r"in the place of": "instead of",
    r"lies": "is stored, is in",
    r"lying": "stored, in",
    r"meetings?": "collective",
    r"one behind the other": "one after the other",
    r"otherwise than": "in a different … from",
    r"rightly": "correctly",
    r"stands? for": "replaces, means",
    r"what it gives": "its result",
    r"whoever": "the name of the caller",
}
READMES = (*(ROOT / "src").rglob("README.md"), *(ROOT / "python").rglob("README.md"))
PAGES = sorted({*ROOT.glob("*.md"), *READMES, *(page for page in DOCS.rglob("*.md") if page.parent.name != "design")})
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')  # of C++
COMMENT = re.compile(r"(?:^|\s)//(.*)")  # of C++
CPP = (".cpp", ".hpp", ".inc")
# Folders whose comments use these words as well: every room, and all other sources.
FOLDERS = [
    *(f"src/{room.name}" for room in sorted((ROOT / "src").iterdir()) if room.is_dir()),
    *("include", "python", "tools", "benchmarks", "examples", "tests"),
]


def prose(text: str) -> str:
    """A page without its blocks and code, with as many lines."""
    return re.sub(r"`[^`]+`", lambda code: "\n" * code[0].count("\n"), without_fences(text))


def found_words(text: str) -> list[str]:
    """Line and word of every word that a page has to do without, with what to write instead."""
    text = prose(text)
    found = []
    for word, instead in INSTEAD.items():
        for match in re.finditer(rf"\b{word.replace(' ', chr(92) + 's+')}\b", text, re.IGNORECASE):
            found.append(f"line {text[: match.start()].count(chr(10)) + 1}: {match[0]!r}; write: {instead}")
    return found


def python_texts(path: Path) -> Iterator[str]:
    """Docstrings and messages of a module: its literals that are more than a word."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.value


def cpp_texts(path: Path) -> Iterator[str]:
    """Messages and help texts of a source: its literals that are more than a word."""
    for line in path.read_text().splitlines():
        if not line.lstrip().startswith("//"):
            yield from (text for text in LITERAL.findall(line) if " " in text)


def cpp_comments(path: Path) -> str:
    """Comments of a source, each on its line."""
    matches = map(COMMENT.search, path.read_text().splitlines())
    return "\n".join(match[1] if match else "" for match in matches)


@pytest.mark.parametrize("folder", ["python", "src", "include", "tools"])
def test_docstrings_and_messages_use_words_of_the_field(folder):
    found = []
    for path in sorted((ROOT / folder).rglob("*.*")):
        texts = {".py": python_texts, ".cpp": cpp_texts, ".hpp": cpp_texts}.get(path.suffix)
        for text in texts(path) if texts else ():
            found += [f"{path.relative_to(ROOT)}: {text[:60]!r}: {word}" for word in found_words(text)]
    assert found == []


def python_comments(path: Path) -> str:
    """Comments of a module, each on its line."""
    with path.open("rb") as file:
        tokens = list(tokenize.tokenize(file.readline))
    lines = {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}
    return "\n".join(lines.get(line, "") for line in range(1, tokens[-1].end[0] + 1))


@pytest.mark.parametrize("folder", FOLDERS)
def test_comments_use_words_of_the_field(folder):
    found = []
    for path in sorted((ROOT / folder).rglob("*.*")):
        comments = python_comments if path.suffix == ".py" else cpp_comments if path.suffix in CPP else None
        words = found_words(comments(path)) if comments else []
        found += [f"{path.relative_to(ROOT)}: {word}" for word in words]
    assert found == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_use_words_of_the_field(page):
    assert found_words(page.read_text()) == []


def test_texts_are_found_in_sources(tmp_path):
    """Literals, and neither names nor comments."""
    (tmp_path / "a.py").write_text(
        '"""One text."""\nlies = "lies"  # it lies\nraise ValueError(f"it lies at {lies}")\n'
    )
    assert list(python_texts(tmp_path / "a.py")) == ["One text.", "it lies at "]
    assert python_comments(tmp_path / "a.py") == "\n# it lies\n\n"
    (tmp_path / "a.cpp").write_text('// "it lies"\nint lies = f("name", "it \\"lies\\" here");  // it lies\n')
    assert list(cpp_texts(tmp_path / "a.cpp")) == ['it \\"lies\\" here']
    assert cpp_comments(tmp_path / "a.cpp") == ' "it lies"\n it lies'


def test_words_are_found_in_prose_alone():
    text = "One.\n```python\nlies = 1\n```\nIt `lies`, and a value lies\nin the place\nof another. Relies.\n"
    assert found_words(text) == [
        "line 6: 'in the place\\nof'; write: instead of",
        "line 5: 'lies'; write: is stored, is in",
    ]
