"""The pictures of the documentation show what the programs of the pages do, and are readable on light and on dark."""

import importlib.util
import re
from xml.etree import ElementTree

import pytest

from tests.docs.pages import DOCS, ROOT, blocks

FOLDER = DOCS / "pictures"


@pytest.fixture(scope="module")
def pictures():
    """The program that draws them."""
    spec = importlib.util.spec_from_file_location("make_pictures", ROOT / "tools/make_pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def letters(svg):
    """What is written in a picture."""
    return [element.text for element in ElementTree.fromstring(svg).iter() if element.tag.endswith("}text")]


def test_files_are_what_the_program_draws(pictures):
    assert {path.name for path in FOLDER.iterdir()} == set(pictures.PICTURES)
    for name in pictures.PICTURES:
        svg = (FOLDER / name).read_text()
        assert letters(svg) == letters(pictures.as_svg(name)), f"{name}: ./dev docs draws it anew"


def test_ink_has_the_colour_of_the_text():
    """No black or white lines; a file that stands alone chooses by the reader's setting."""
    for path in FOLDER.iterdir():
        svg = path.read_text()
        style = re.search(r'<style class="alone">(.*?)</style>', svg)[1]
        assert "prefers-color-scheme: dark" in style
        plain = svg.replace(style, "")
        assert "currentColor" in plain and not re.search(r"(?:fill|stroke): ?(?:black|#000000)", plain)
        for text in re.findall(r"<text style=\"([^\"]*)\"", plain):
            assert "fill:" in text, "letters without a colour are black"


def test_every_picture_is_shown(pictures):
    shown = {
        name for page in DOCS.rglob("*.md") for name in re.findall(r"!\[[^]]+\]\(\S*?([\w-]+\.svg)\)", page.read_text())
    }
    assert shown == set(pictures.PICTURES)


@pytest.mark.parametrize("stages, micro_batches", [(1, 3), (2, 4), (3, 7), (4, 8)])
def test_cycles_of_a_pipeline(pictures, stages, micro_batches):
    """Stage s works on micro-batch m in cycle m + s."""
    cycles = pictures.pipeline_cycles(pictures.pipeline_program(stages, micro_batches))
    assert cycles == [
        [s for s in range(stages) if 0 <= cycle - s < micro_batches] for cycle in range(micro_batches + stages - 1)
    ]


def test_losses_are_those_of_the_tour(pictures):
    (shown,) = [found.text for found in blocks(DOCS / "tour.md") if found.text.startswith("step 0: loss")]
    means = pictures.tour_losses().mean(axis=1)
    assert [f"{mean:.2f}" for mean in means] == re.findall(r"loss (\S+)", shown)


def test_memory_is_that_of_the_guide(pictures):
    """The hills are as high as the alternative text says."""
    page = (DOCS / "guides/making-it-fit.md").read_text()
    said = re.search(r"a hill of (\d+) KiB when plain, three lower hills of at most (\d+) KiB", page).groups()
    sizes = pictures.memory_over_programs().values()
    assert [round(max(bytes_) / 1024) for bytes_ in sizes] == [int(kib) for kib in said]
