"""Pages for newcomers are programs: each runs from its first block to its last and prints what it shows."""

import pytest

from tests.corpus.conversions import check_conversions
from tests.docs.pages import DOCS, check_page, same_text

GUIDES = [DOCS / "index.md", DOCS / "installation.md", DOCS / "tour.md", *sorted((DOCS / "guides").glob("*.md"))]


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_page_runs(page, tmp_path):
    check_page(page, tmp_path)
    for model in sorted(tmp_path.glob("*.onnx")):
        check_conversions(model, tmp_path / "converted")


@pytest.mark.parametrize(
    "printed, shown, same",
    [
        ("loss 0.781", "loss 0.780", True),
        ("loss 0.781", "loss 0.770", False),
        ("16 points", "17 points", False),
        ("a\nb\nc", "a\n...", True),
        ("a\nb\nc", "...\nb", False),
        ("at 0x7f, done", "at ..., done", True),
        ("at 0x7f, done", "at ..., gone", False),
        ("3.1e-05", "3.0e-05", True),
        ("", "...", True),
        ("text", "", False),
    ],
)
def test_what_counts_as_the_same_text(printed, shown, same):
    assert same_text(printed.splitlines(), shown.splitlines()) is same
