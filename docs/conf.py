"""Settings of the documentation site: Sphinx reads the Markdown pages of this folder and the docstrings.

Run by ``./dev docs``. Nothing on the site comes from the network. Docstrings are plain text with Google's sections:
characters that reStructuredText would read as markup are escaped here.
"""

import inspect
import re
from typing import Any

import popart

project = "PopART"
version = release = popart.__version__
html_title = f"PopART {version}"
copyright = "the authors; MIT licence"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 4
html_theme = "furo"
html_copy_source = False
html_show_sphinx = False
maximum_signature_line_length = 100
toc_object_entries_show_parents = "hide"
suppress_warnings = ["misc.highlighting_failure"]  # a fragment of a program, which the lexer of its language refuses

autodoc_default_options = {"members": True, "undoc-members": False, "member-order": "bysource"}
autodoc_typehints = "signature"
python_use_unqualified_type_names = True

MARKUP = re.compile(r"``.*?``|`[^`\n]+`|\*(?!\s)|(?<=\S)\*|\||(?<=\w)_(?!\w)|\bdocs/([\w/-]+)\.md")


def escaped(line: str) -> str:
    """A line of a docstring as reStructuredText: names in code style, pages as links, all else as it stands."""

    def replace(found: re.Match) -> str:
        text = found[0]
        if found[1]:
            return f":doc:`{text} </{found[1]}>`"
        if text.startswith("``"):
            return text
        return f"``{text[1:-1]}``" if text.startswith("`") else "\\" + text

    return MARKUP.sub(replace, line)


def escape_docstring(_: Any, __: str, ___: str, ____: Any, _____: Any, lines: list[str]) -> None:
    """Make a docstring reStructuredText, before its sections are read."""
    lines[:] = [escaped(line) for line in lines]


def keep_properties(_: Any, __: str, ___: str, item: Any, ____: Any, lines: list[str]) -> None:
    """Undo, for a property, what reads the text before a colon as its type."""
    if isinstance(item, property):
        lines[:] = [escaped(line) for line in inspect.cleandoc(item.__doc__ or "").splitlines()]


def show_public_names(_: Any, __: str, ___: str, ____: Any, _____: Any, signature: str, result: str) -> tuple:
    """Signatures name what programs import: popart, not its compiled part."""
    return tuple(text and text.replace("popart_core.", "popart.") for text in (signature, result))


def setup(app: Any) -> None:
    """Connect the steps; napoleon, which reads sections, stands between the first two (priority 500)."""
    app.connect("autodoc-process-docstring", escape_docstring, priority=400)
    app.connect("autodoc-process-docstring", keep_properties, priority=600)
    app.connect("autodoc-process-signature", show_public_names)
