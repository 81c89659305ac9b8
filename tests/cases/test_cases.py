"""Runs every check of every operator case (see run_cases.py), one test each."""

import pytest

from tests.cases import run_cases

PARAMETERS = [
    pytest.param(case, check, id=f"{case.label}-{name}")
    for case in run_cases.load_cases()
    for name, check in run_cases.checks_of(case)
]


@pytest.mark.parametrize(("case", "check"), PARAMETERS)
def test_case(case, check):
    check(case)


def test_every_row_with_a_gradient_or_kernel_is_in_a_case_or_served_by_one():
    """Each operator of the catalog that programs can name has a case; gradient rows are reached through their operator."""
    covered = {case.type for case in run_cases.load_cases()}
    assert covered <= set(run_cases.testing.op_types()), covered - set(run_cases.testing.op_types())
