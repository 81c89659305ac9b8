"""Every refusal of the sheet popxl.md, in its situation, at its call, with its exception class."""

from contextlib import nullcontext

import popxl
import pytest

from tests.checklist.popxl_refusals import BUILDING
from tests.checklist.popxl_refusals_running import RUNNING


@pytest.mark.parametrize("row", [*BUILDING, *RUNNING], ids=lambda row: f"{row.section} {row.situation}")
def test_refusal(row):
    ir = popxl.Ir(row.replicas)
    with ir.main_graph if row.inside else nullcontext(), pytest.raises(row.exception) as caught:
        row.program(ir)
    missing = [name for name in row.names if name not in str(caught.value)]
    assert not missing, f"the message does not name {missing}: {caught.value}"
