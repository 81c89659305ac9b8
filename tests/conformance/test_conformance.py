"""Puts every backend through the conformance suite, and every case through text and ONNX (see conformance.py)."""

import pytest

from tests.cases.run_cases import load_cases
from tests.conformance import conformance

CASES = [case for case in load_cases() if case.refuses is None and case.fails is None]
FIRST_OF_TYPE = list({case.type: case for case in reversed(CASES)}.values())


@pytest.mark.parametrize("backend", conformance.BACKENDS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_case(case, backend):
    for check in conformance.CHECKS.values():
        check(case, backend)


@pytest.mark.parametrize("backend", conformance.BACKENDS)
@pytest.mark.parametrize("case", CASES[:: conformance.REPEATED], ids=lambda case: case.label)
def test_repetition(case, backend):
    conformance.check_repetition(case, backend)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_text(case):
    conformance.check_text(case)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_onnx(case):
    conformance.check_onnx(case)


def test_most_public_operators_have_an_onnx_form():
    public = [case for case in FIRST_OF_TYPE if not case.type.endswith("Grad")]
    without = [case.type for case in public if conformance.results_through_onnx(case, case.types[0]) is None]
    assert len(without) < len(public) / 4, f"{len(without)} of {len(public)} have no ONNX form: {sorted(without)}"
