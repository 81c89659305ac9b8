"""Every refusal of the sheet popxl-addons.md but those of sections 19 to 21, in its situation."""

from contextlib import nullcontext

import popxl
import pytest

from tests.checklist.popxl_addons_refusals import REFUSALS


@pytest.mark.parametrize("row", REFUSALS, ids=lambda row: f"{row.section} {row.situation}")
def test_refusal(row):
    ir = popxl.Ir(row.replicas)
    with ir.main_graph if row.inside else nullcontext(), pytest.raises(row.exception) as caught:
        row.program(ir)
    if row.exception is Exception:
        assert type(caught.value) is Exception
    missing = [name for name in row.names if name not in str(caught.value)]
    assert not missing, f"the message does not name {missing}: {caught.value}"
