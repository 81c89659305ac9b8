"""ONNX's own operator and model cases: every case passes or is refused with a reason; none gives wrong values."""

import json

import pytest

from tests.python.onnx.node_suite import KINDS, REFUSED, outcomes, refused_by_reason, table


def test_no_case_fails(capsys):
    """Values are right wherever a model is taken; refusals are typed."""
    failed = [f"{r.name}: {r.reason[:200]}" for r in outcomes().values() if r.outcome == "fail"]
    with capsys.disabled():
        print("\n" + table(outcomes()))
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("kind", KINDS)
def test_refusals_are_those_on_record(kind):
    """refused.json lists the refusals: a case that passes now, or no longer does, has to be noted there (--update)."""
    noted = {name: reason for reason, names in json.loads(REFUSED.read_text()).items() for name in names}
    results = {name: result for name, result in outcomes().items() if result.kind == kind}
    refused = {name: reason for reason, names in refused_by_reason(results).items() for name in names}
    noted = {name: reason for name, reason in noted.items() if name in results}
    assert refused == noted


def test_refusals_say_what_to_do_about_which_node():
    """A reason names what is wrong in full sentences, never an empty text."""
    for result in outcomes().values():
        if result.outcome == "refused":
            assert len(result.reason) > 20, result.name
