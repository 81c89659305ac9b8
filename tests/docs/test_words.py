"""Pages use the words of the field: words of this project's older texts that readers have to guess are not used."""

import re

import pytest

from tests.docs.pages import BLOCK, DOCS, ROOT

# Word -> what to write instead. Only words that have no other use on these pages.
INSTEAD = {
    r"beside": "next to, compared with, in addition to",
    r"in the place of": "instead of",
    r"lies": "is stored, is in",
    r"meetings?": "collective",
    r"otherwise than": "in a different … from",
    r"rightly": "correctly",
    r"stands? for": "replaces, means",
    r"whoever": "the name of the caller",
}
# Decisions and designs record how things came about; their words are not corrected afterwards.
INSIDE = {"decisions", "design"}
PAGES = sorted({*ROOT.glob("*.md"), *(page for page in DOCS.rglob("*.md") if page.parent.name not in INSIDE)})


def prose(text: str) -> str:
    """A page without its blocks and code, with as many lines."""
    text = BLOCK.sub(lambda block: "\n" * block[0].count("\n"), text)
    return re.sub(r"`[^`]+`", lambda code: "\n" * code[0].count("\n"), text)


def found_words(text: str) -> list[str]:
    """Line and word of every word that a page has to do without, with what to write instead."""
    text = prose(text)
    found = []
    for word, instead in INSTEAD.items():
        for match in re.finditer(rf"\b{word.replace(' ', chr(92) + 's+')}\b", text, re.IGNORECASE):
            found.append(f"line {text[: match.start()].count(chr(10)) + 1}: {match[0]!r}; write: {instead}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_use_words_of_the_field(page):
    assert found_words(page.read_text()) == []


def test_words_are_found_in_prose_alone():
    text = "One.\n```python\nlies = 1\n```\nIt `lies`, and a value lies\nin the place\nof another. Relies.\n"
    assert found_words(text) == [
        "line 6: 'in the place\\nof'; write: instead of",
        "line 5: 'lies'; write: is stored, is in",
    ]
