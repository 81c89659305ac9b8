"""Settings of the documentation site: Sphinx reads the Markdown pages of this folder and the docstrings.

Run by ``./dev docs``, or, with a wheel and requirements-docs.txt, by ``python -m sphinx docs site``. Nothing on the
site comes from the network. Docstrings are plain text with Google's sections: characters that reStructuredText would
read as markup are escaped here.
"""

import enum
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import popart
from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import find_pending_xref_condition

project = "PopART"
version = release = popart.__openpopart_version__
html_title = f"PopART {version}"
copyright = "the authors; MIT licence"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
myst_heading_anchors = 4
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["break_code.js"]
copybutton_selector = "div:not(.highlight-output) > div.highlight pre"
filter_pages = ("options", "environment")
html_copy_source = False
html_show_sphinx = False
maximum_signature_line_length = 100
toc_object_entries_show_parents = "hide"
suppress_warnings = ["misc.highlighting_failure"]  # a fragment of a program, which the lexer of its language refuses

autodoc_default_options = {"members": True, "undoc-members": False, "member-order": "bysource"}
autodoc_typehints = "signature"
autoclass_content = "both"  # of a class, and the arguments of its constructor
python_use_unqualified_type_names = True
napoleon_use_ivar = True

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
    """Make a docstring reStructuredText, before its sections are read.

    What is returned begins with a colon: napoleon reads the text in front of the first one as its type.
    """
    lines[:] = [escaped(line) for line in lines]
    for i, line in enumerate(lines[:-1]):
        if line.strip() in ("Returns:", "Yields:"):
            text = lines[i + 1].lstrip()
            lines[i + 1] = lines[i + 1].removesuffix(text) + ": " + text


def keep_properties(_: Any, __: str, ___: str, item: Any, ____: Any, lines: list[str]) -> None:
    """Undo, for a property, what reads the text before a colon as its type."""
    if isinstance(item, property):
        lines[:] = [escaped(line) for line in inspect.cleandoc(item.__doc__ or "").splitlines()]


def show_public_names(_: Any, __: str, ___: str, ____: Any, _____: Any, signature: str, result: str) -> tuple:
    """Signatures name what programs import: popart, not its compiled part."""
    return tuple(text and text.replace("popart_core.", "popart.") for text in (signature, result))


def name_types_fully(_: Any, tree: nodes.document) -> None:
    """Bare names of types are those of the package that the text belongs to, else of popxl; small ones are Python's."""
    for reference in list(tree.findall(pending_xref)):
        name = reference["reftarget"]
        if reference.get("refdomain") != "py" or reference["reftype"] != "class" or "." in name:
            continue
        package = (reference.get("py:module") or "popxl").partition(".")[0]
        owner = next((p for p in (package, "popxl") if hasattr(importlib.import_module(p), name)), None)
        if name.islower() or owner is None:
            # A reference may hold two forms of its text: as it is when found, and as it stands ("*").
            form = find_pending_xref_condition(reference, "*")
            reference.replace_self(form.children if form else reference.children)
        else:
            reference["reftarget"] = f"{owner}.{name}"


def put_pictures_in_pages(app: Any, tree: nodes.document, _: str) -> None:
    """A picture of tools/make_pictures.py becomes a part of its page, so that its ink has the colour of the text."""
    for image in list(tree.findall(nodes.image)):
        if app.builder.format == "html" and image["uri"].endswith(".svg"):
            svg = (Path(app.srcdir) / image["uri"]).read_text()
            svg = re.sub(r'<style class="alone">.*?</style>', "", svg)
            svg = svg.replace("<svg ", '<svg style="max-width: 100%; height: auto" ', 1)
            image.replace_self(nodes.raw("", svg, format="html"))


CLASSES = Path(__file__).parent / "api/classes"  # a page for each class, written before Sphinx looks for pages
API_BLOCK = re.compile(r"^\.\. api:: (\S+)\n\n((?: +\S.*\n)+)", re.MULTILINE)


def private_base(item: type) -> type | None:
    """The class without a public name that a class gets its members from."""
    return item.__bases__[0] if item.__bases__[0].__name__.startswith("_") else None


def has_page(item: Any) -> bool:
    """Whether a name has a page of its own: classes with members."""
    if not inspect.isclass(item) or issubclass(item, BaseException | enum.Enum):
        return False
    own = [*vars(item), *vars(private_base(item) or object)]
    return any(not name.startswith("_") for name in own)


def write_class_pages(_: Any) -> None:
    """Write the pages of the classes that the pages of docs/api list."""
    pages = {}
    for page in (Path(__file__).parent / "api").glob("*.md"):
        for name, listed in API_BLOCK.findall(page.read_text()):
            module = importlib.import_module(name)
            for item in filter(lambda item: has_page(getattr(module, item)), listed.split()):
                title = f"{module.__name__}.{item}"
                lines = [title, "=" * len(title), "", f".. currentmodule:: {name}", "", *entry(module, item)]
                pages[CLASSES / f"{title}.rst"] = "\n".join(lines)
    CLASSES.mkdir(exist_ok=True)
    for old in set(CLASSES.glob("*.rst")) - set(pages):
        old.unlink()
    for path, text in pages.items():
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)


def leave_decisions_out(app: Any) -> None:
    """Keep decisions and designs, which are about how the library is built, out of the search."""
    index_page = getattr(app.builder, "index_page", None)  # only builders of HTML have it

    def index_others(page: str, *rest: Any) -> None:
        if not page.startswith(("decisions/", "design/")):
            index_page(page, *rest)

    if index_page:
        app.builder.index_page = index_others


def add_filter(app: Any, page: str, *_: Any) -> None:
    """Give long lists of options a box that filters them."""
    if page in filter_pages:
        app.add_js_file("filter.js")


def entry(module: Any, name: str) -> list[str]:
    """The lines that document one name of a module, by its kind."""
    item = getattr(module, name)  # an unknown name ends the build
    options = []
    if inspect.isclass(item) and issubclass(item, BaseException):
        kind = "autoexception"
    elif inspect.isclass(item):
        kind = "autoclass"
        options += ["   :undoc-members:"] if issubclass(item, enum.Enum) else []
        options += ["   :inherited-members:"] if private_base(item) else []
    else:
        kind = "autofunction" if callable(item) else "autodata"
    return [f".. {kind}:: {name}", *options, ""]


class Api(SphinxDirective):
    """Documents names of a module: ``.. api:: MODULE`` and the names as its content. Classes get pages of their own."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Hand the names to autodoc."""
        module = importlib.import_module(self.arguments[0])
        names = " ".join(self.content).split()
        pages = [name for name in names if has_page(getattr(module, name))]
        lines = [f".. currentmodule:: {module.__name__}", ""]
        for name in pages:
            summary = (inspect.getdoc(getattr(module, name)) or "").partition("\n\n")[0].replace("\n", " ")
            lines.append(f"- :doc:`{name} <classes/{module.__name__}.{name}>`: {escaped(summary)}")
        lines.append("")
        if pages:
            lines += [".. toctree::", "   :hidden:", ""]
            lines += [f"   {name} <classes/{module.__name__}.{name}>" for name in pages] + [""]
        for name in [name for name in names if name not in pages]:
            lines += entry(module, name)
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app: Any) -> None:
    """Connect the steps; napoleon, which reads sections, is between the first two (priority 500)."""
    app.connect("builder-inited", write_class_pages)
    app.connect("builder-inited", leave_decisions_out)
    app.connect("html-page-context", add_filter)
    app.connect("autodoc-process-docstring", escape_docstring, priority=400)
    app.connect("autodoc-process-docstring", keep_properties, priority=600)
    app.connect("autodoc-process-signature", show_public_names)
    app.connect("doctree-read", name_types_fully, priority=100)
    app.connect("doctree-resolved", put_pictures_in_pages)
    app.add_directive("api", Api)
