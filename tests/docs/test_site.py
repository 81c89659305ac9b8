"""The documentation site is made without a warning, is complete, and needs nothing from the network."""

import re
import subprocess
import sys

import pytest

from tests.docs.pages import DOCS, ROOT

for package in ("sphinx", "myst_parser", "furo"):
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
