"""The check of the order of popxl accepts imports of lower files at the top, and names every other kind."""

from pathlib import Path

import pytest

from tools.checks.python_order import check_sources, main

LOWER = {"popxl": "from popxl.session import Session\n", "popxl.utils": "", "popxl.dtypes": ""}


def problems(module, text, **more):
    return check_sources({**LOWER, **{f"popxl.{name}": source for name, source in more.items()}, module: text})


def test_the_package_is_in_order():
    assert main([str(Path(__file__).parents[2])]) == 0


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("popxl.ops.call", "from popxl.utils import table_to_string\nimport popxl.dtypes"),
        ("popxl.ops.call", "from popxl import dtypes, utils"),
        ("popxl.context", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from popxl.session import Session"),
        ("popxl.dtypes", "def as_torch():\n    import torch"),
        ("popxl.utils", "import numpy as np\nfrom popxl.dtypes import dtype"),
    ],
)
def test_downward_import_is_accepted(module, text):
    assert problems(module, text) == []


@pytest.mark.parametrize(
    ("module", "text", "expected"),
    [
        ("popxl.utils", "def f():\n    from popxl import dtypes", "in a function"),
        ("popxl.ops.call", "def f():\n    from popart_core import popart_exception", "in a function"),
        ("popxl.utils", "import popxl.ops.call as call", "layer values is below ops"),
        ("popxl.utils", "from popxl.ops import call", "layer values is below ops"),
        ("popxl.ops.io", "from popxl import Session", "the package that it is a part of"),
        ("popxl.odd", "", "in no layer"),
    ],
)
def test_other_import_is_named(module, text, expected):
    (problem,) = problems(module, text, **{"ops": "", "ops.call": ""})
    assert expected in problem


def test_a_circle_is_named():
    found = problems("popxl.dtypes", "from popxl.utils import to_numpy", utils="from popxl.dtypes import dtype")
    assert any(problem.startswith("circle: popxl.") for problem in found)
