"""Names and text of popxl are as its sheet of printed forms says."""

import popxl
import pytest
from popart_core import _ir as core

from tests.checklist.popxl_printed import FORMS, OP_TYPES


@pytest.mark.parametrize("row", FORMS, ids=lambda row: f"{row.section} {row.what}")
def test_printed_form(row):
    ir = popxl.Ir(row.replicas)
    with ir.main_graph:
        got = row.program(ir)
    if row.text is None:
        assert repr(got) == object.__repr__(got)
    else:
        assert got == row.text


@pytest.mark.parametrize("name", OP_TYPES.split())
def test_type_of_an_operator(name):
    assert core.hasOperator(name)
