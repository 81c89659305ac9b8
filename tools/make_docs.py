"""Write the pages of docs/ that are made from the tables of the library.

Usage: make_docs.py [--check]. With --check nothing is written; the exit code is 1 when a page differs.
"""

import argparse
import sys
from pathlib import Path

import popart_core

ROOT = Path(__file__).resolve().parents[1]
MADE = "<!-- Made by ./dev docs from {source}; edit there. -->\n"

OPTIONS = """# Session options

Every member of `SessionOptions`, and what it does here.

- **built**: as documented for PopART.
- **refused**: the values named raise `popart_exception` when the session is made, with the option and what to do in
  the message. They change results, or promise something that is not built.
- **warned**: the values named are accepted, and a warning (once per process) names the option and what does not
  happen. Results do not depend on them; they promise memory, time or files that nothing here gives.
- **no effect**: nothing that a program gets depends on the option: results and planned memory are the same bits with
  any value. `tests/python/popart/test_options.py` tries them all.

A member of a struct without a row of its own falls under the row of the struct. Values that contradict each other
(for example `accumulationFactor` above 1 without `enableGradientAccumulation`) are refused too, whatever the row
says.

| Option | State | Values | What happens, or does not |
|---|---|---|---|
"""

KEYS = """
## Keys of the option maps

`SessionOptions` has six maps of texts that PopART hands to Poplar's libraries. These keys are known; any other key is
named in a warning with the nearest known one. A name that ends in `*` stands for all keys that begin so. A *warned*
key warns unless its value is `false`, `0` or `none`.

| Map | Key | State | Remark |
|---|---|---|---|
"""

PATTERNS = """
## Patterns

Every name of `Patterns`. **rewrite**: the documented rewrite, tested in `tests/transforms` or `tests/unit/patterns`.
The others are accepted; what they would do happens elsewhere, or has no meaning here.

| Pattern | State | Remarks |
|---|---|---|
"""

ENVIRONMENT = """# Environment variables

All that the library and its Python packages read; an empty variable counts as one that is not set. Tests have
variables of their own ([testing.md](testing.md)).

| Variable | Without it | Meaning |
|---|---|---|
"""


def sentence(text: str) -> str:
    """A remark as a sentence: capital letter, full stop."""
    if not text:
        return ""
    return text[0].upper() + text[1:] + ("" if text.endswith(".") else ".")


def row(*cells: str) -> str:
    """One line of a table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def options_page() -> str:
    """docs/options.md."""
    page = MADE.format(source="src/pipeline/options_table.cpp and option_keys.cpp") + OPTIONS
    for name, kind, values, remark in popart_core._optionRows():
        page += row(f"`{name}`", kind, values, sentence(remark))
    page += KEYS
    for name, key, kind, remark in popart_core._optionKeys():
        page += row(f"`{name}`", f"`{key}`", kind, sentence(remark))
    page += PATTERNS
    for names, state, remark in popart_core._patternNotes():
        page += row(", ".join(f"`{name}`" for name in names.split(", ")), state, remark)
    return page


def environment_page() -> str:
    """docs/environment.md."""
    page = MADE.format(source="src/base/environment.cpp") + ENVIRONMENT
    for name, fallback, meaning in popart_core._environmentVariables():
        page += row(f"`{name}`", fallback, meaning)
    return page


PAGES = {"docs/options.md": options_page, "docs/environment.md": environment_page}


def main() -> int:
    """Write or check all pages; returns the exit code."""
    parser = argparse.ArgumentParser(description="Write the pages of docs/ that are made from tables.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a page differs")
    check = parser.parse_args().check
    stale = []
    for name, make in PAGES.items():
        path, page = ROOT / name, make()
        if path.is_file() and path.read_text() == page:
            continue
        stale.append(name)
        if not check:
            path.write_text(page)
    if check and stale:
        print(f"{', '.join(stale)}: not what the tables say. ./dev docs mends it")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
