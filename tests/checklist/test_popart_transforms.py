"""Every row of the reference sheet popart-transforms.md: statements, tests that exist, refusals."""

from pathlib import Path

import pytest

from tests.checklist.popart_transforms import REFUSALS, TESTED
from tests.checklist.popart_transforms_programs import STATEMENTS
from tests.checklist.test_popart_python_refusals import refuses

TESTS = Path(__file__).resolve().parents[1] / "python" / "popart"


@pytest.mark.parametrize("row", STATEMENTS, ids=lambda row: f"{row.section} {row.statement}")
def test_statement(row):
    assert bool(row.program()) != bool(row.open), row.open and "it holds: take away `open`"


@pytest.mark.parametrize("row", REFUSALS, ids=lambda row: f"{row.section} {row.situation}")
def test_refusal(row):
    if not row.open:
        return refuses(row)
    row.program()  # as it is said to be, until it is refused


def test_what_is_said_to_be_tested_is():
    missing = []
    for section, statement, place in TESTED:
        file, test = place.split("::")
        if f"def {test}(" not in (TESTS / file).read_text():
            missing.append(f"{section} {statement}: {place}")
    assert missing == []
