"""Programs give equal numbers with any pass off that may be: forward values, gradients, updated weights and state."""

import pytest

from tests.differential.programs import PROGRAMS
from tests.differential.runs import problems_of, switchable_passes

# Each pass is tried on so many of the programs that it changes.
OFTEN = 3
# What changes no text of a program, with the reason.
SILENT = {
    "warnAboutLocations": "it writes to the log",
    "listSpareMemory": "what it lists is chosen from when a program does not fit into memory",
}


def test_every_pass_may_be_off_in_some_programs():
    left = dict.fromkeys(switchable_passes(), OFTEN)
    problems = []
    for name, program in PROGRAMS.items():
        texts, tried = problems_of(program, {p for p, times in left.items() if times > 0})
        problems += [f"{name} {text}" for text in texts]
        for p in tried:
            left[p] -= 1
    assert not problems, "\n".join(problems)
    assert {p for p, times in left.items() if times == OFTEN} == set(SILENT)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_pass_may_be_off(name):
    problems, _ = problems_of(PROGRAMS[name], set(switchable_passes()))
    assert not problems, "\n".join(problems)
