"""Programs that must be refused: the type of the exception and a part of its message, one test per row."""

import popart
import pytest

from tests.errors import builder_cases, model_cases, node_cases, popxl_cases, session_cases
from tests.errors.failure import Failure

FAILURES: list[Failure] = [
    *model_cases.FAILURES,
    *node_cases.FAILURES,
    *builder_cases.FAILURES,
    *session_cases.FAILURES,
    *popxl_cases.FAILURES,
]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: failure.name)
def test_program_is_refused(failure: Failure) -> None:
    """The exception has the stated type, says what is wrong, and is not an internal error."""
    with pytest.raises(failure.exception) as caught:
        failure.program()
    message = str(caught.value)
    assert failure.fragment in message
    assert len(message) > 15 and "\n" not in message.strip()
    assert failure.exception is popart.popart_internal_exception or not isinstance(
        caught.value, popart.popart_internal_exception
    )


def test_cases_are_many_and_have_different_names() -> None:
    """A table that shrinks or repeats itself is a mistake."""
    names = [failure.name for failure in FAILURES]
    assert len(set(names)) == len(names)
    assert len(names) >= 150
