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


# Another sum than the kernel's where all scores of a row are far from zero.
OPEN = {("attention", "fuseAttention"), ("attention_lowest", "fuseAttention")}


def test_every_pass_may_be_off_in_some_programs():
    left = dict.fromkeys(switchable_passes(), OFTEN)
    problems = []
    for name, program in PROGRAMS.items():
        texts, tried = problems_of(program, {p for p, times in left.items() if times > 0 and (name, p) not in OPEN})
        problems += [f"{name} {text}" for text in texts]
        for p in tried:
            left[p] -= 1
    assert not problems, "\n".join(problems)
    assert {p for p, times in left.items() if times == OFTEN} == set(SILENT)


@pytest.mark.xfail(reason="the gradients of fused attention in rows that are masked whole", strict=False)
@pytest.mark.parametrize(("name", "off"), sorted(OPEN))
def test_what_is_open(name, off):
    problems, _ = problems_of(PROGRAMS[name], {off})
    assert not problems, "\n".join(problems)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_pass_may_be_off(name):
    problems, _ = problems_of(PROGRAMS[name], {p for p in switchable_passes() if (name, p) not in OPEN})
    assert not problems, "\n".join(problems)
