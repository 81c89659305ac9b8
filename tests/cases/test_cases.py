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


def test_labels_are_unique():
    labels = [case.label for case in run_cases.load_cases()]
    assert len(labels) == len(set(labels)), sorted({label for label in labels if labels.count(label) > 1})
