"""Every refusal of the reference sheet, in its situation, at its call, with its exception class."""

import pytest

from tests.checklist.popart_python_refusals import REFUSALS


def refuses(row):
    with pytest.raises(row.exception) as caught:
        row.program()
    missing = [name for name in row.names if name not in str(caught.value)]
    assert not missing, f"the message does not name {missing}: {caught.value}"


@pytest.mark.parametrize("row", REFUSALS, ids=lambda row: f"{row.section} {row.situation}")
def test_refusal(row):
    if not row.open:
        return refuses(row)
    try:
        refuses(row)
    except (Exception, pytest.fail.Exception):
        return None
    pytest.fail(f"{row.situation}: it is refused as documented: take away `open`")
