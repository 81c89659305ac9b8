"""Pages for newcomers are programs: each runs from its first block to its last and prints what it shows."""

from pathlib import Path

import pytest
from popart.tools import convert
from popart.tools.files import UsageError

import onnx
from tests.docs.pages import DOCS, check_page, same_text

GUIDES = [DOCS / "index.md", DOCS / "installation.md", DOCS / "tour.md", *sorted((DOCS / "guides").glob("*.md"))]


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_page_runs(page, tmp_path):
    check_page(page, tmp_path)
    for model in sorted(tmp_path.glob("*.onnx")):
        check_conversions(model, tmp_path / "converted")


CONVERSIONS = [
    *(
        [kind, *keep, *fold]
        for kind in ("--float16", "--bfloat16")
        for keep in ([], ["--keep-io"])
        for fold in ([], ["--fold"])
    ),
    ["--fold"],
    ["--inference"],
    ["--inference", "--fold-batch-norm", "--bfloat16", "--keep-io"],
    ["--external", "values.bin"],
    ["--opset", str(onnx.defs.onnx_opset_version())],
]


def check_conversions(model: Path, folder: Path) -> None:
    """popart-convert writes each of its forms of a model, and PopART and the checker of onnx read them."""
    for options in CONVERSIONS:
        try:
            assert convert.command([str(model), str(folder / model.name), *options]) == 0, options
        except UsageError as refusal:
            # limits of onnx: operators that it does not bring to a newer set, or compute in an old one
            assert "onnx does not" in str(refusal), options
            continue
        names = {entry.domain for entry in onnx.load(folder / model.name, load_external_data=False).opset_import}
        if names <= {"", "ai.onnx"}:
            onnx.checker.check_model(folder / model.name)


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
