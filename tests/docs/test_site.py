"""The documentation site is made without a warning, is complete, and needs nothing from the network."""

import importlib
import json
import re
import subprocess
import sys

import pytest

from tests.docs.pages import DOCS, ROOT

for package in ("sphinx", "myst_parser", "furo", "sphinx_copybutton"):
    pytest.importorskip(package, reason=f"{package} is not installed: ./dev setup installs requirements-docs.txt")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Folder of the site."""
    folder = tmp_path_factory.mktemp("site")
    words = ["-q", "-W", "--keep-going", "-j", "2", "-d", str(folder / "cache"), str(DOCS), str(folder / "html")]
    result = subprocess.run([sys.executable, "-m", "sphinx", *words], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return folder / "html"


def test_every_page_is_there(site):
    for page in DOCS.rglob("*.md"):
        assert (site / page.relative_to(DOCS).with_suffix(".html")).is_file()


def test_reading_needs_no_network(site):
    """No page, style or script loads anything by an address."""
    loads = re.compile(
        r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//[^>]*"""
        r"""|<link\b[^>]*\bhref=["']?(?:https?:)?//[^>]*|@import\s+(?:url\()?["']?(?:https?:)?//\S*|url\(["']?(?:https?:)?//[^)]*"""
    )
    found = {
        str(path.relative_to(site)): match[0]
        for path in site.rglob("*")
        if path.suffix in (".html", ".css", ".js") and (match := loads.search(path.read_text()))
    }
    assert not found


def test_the_search_has_guides_and_classes_but_no_decisions(site):
    text = (site / "searchindex.js").read_text()
    names = json.loads(text[text.index("{") : text.rindex("}") + 1])["docnames"]
    assert {"index", "guides/serving", "options", "api/classes/popart.TrainingSession"} <= set(names)
    assert [name for name in names if name.startswith(("decisions", "design"))] == []
    menu = re.findall(
        r'href="([^"]+)"',
        re.search(r'<div class="sidebar-tree">.*?</div>', (site / "index.html").read_text(), re.DOTALL)[0],
    )
    assert "guides/serving.html" in menu and not any("decisions" in link for link in menu)


def test_code_has_a_copy_button_and_output_has_none(site):
    """The selector of the buttons leaves out what programs print."""
    page = (site / "index.html").read_text()
    assert 'class="highlight-output' in page and 'class="highlight-python' in page
    assert "copybutton.js" in page and "filter.js" not in page
    assert "div:not(.highlight-output)" in (site / "_static/copybutton.js").read_text()
    assert all("filter.js" in (site / f"{name}.html").read_text() for name in ("options", "environment"))


def test_a_class_shows_the_arguments_of_its_constructor(site):
    page = (site / "api/classes/popart.Trainer.html").read_text()
    assert "accumulation" in page and "Micro-batches for each update" in page
    assert "classes/popart.Trainer.html" in (site / "api/popart.html").read_text()


# Families of names that pages describe as a whole: prefixes of tensor names, versions of operator sets, element types.
FAMILIES = re.compile(r"reserved\w+Prefix|Ai(Onnx|Graphcore)\w*|default\w+Opset")
PACKAGES = (
    "popart",
    "popxl",
    "popxl.ops",
    "popxl.ops.collectives",
    "popxl.transforms",
    "popxl_addons",
    "popdist",
    "pva",
)


def own_names(module):
    """Public classes and functions of a package that it does not only import from others."""
    listed = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    for name in listed:
        item = getattr(module, name)
        of = getattr(item, "__module__", None) or ""
        if callable(item) and of.split(".")[0] in (module.__name__.split(".")[0], "popart_core"):
            yield name


@pytest.mark.parametrize("package", PACKAGES)
def test_the_reference_lists_every_public_name(package):
    blocks = "".join(page.read_text() for page in (DOCS / "api").glob("*.md"))
    listed = {name for names in re.findall(r"\.\. api:: \S+\n(.*?)```", blocks, re.DOTALL) for name in names.split()}
    names = {name for name in own_names(importlib.import_module(package)) if not FAMILIES.fullmatch(name)}
    assert names
    assert names - listed == set()


def test_pictures_are_parts_of_their_pages(site):
    """Their ink follows the theme of the page, and parts of two pictures have different names."""
    text = (site / "guides/making-it-fit.html").read_text()
    drawn = re.findall(r"<svg [^>]*aria-label=.*?</svg>", text, re.DOTALL)
    assert len(drawn) == 2 and all("currentColor" in svg and 'class="alone"' not in svg for svg in drawn)
    names = [name for svg in drawn for name in re.findall(r'\bid="([^"]+)"', svg)]
    assert len(set(names)) == len(names)
