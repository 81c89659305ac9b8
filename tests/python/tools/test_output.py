"""Tables, sizes and times of commands: units, widths and colours."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest
from popart.tools.output import bytes_text, flops_text, table, time_text

PROGRAM = """
from popart.tools.output import styled, table
print(table([["a" * 70, 12345], ["[red]b[/red] :smile:", 7]], ["name", "count"], ["total", 12352]))
print(styled("wrong", "bold red"))
"""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.000 KiB"),
        (134353524, "128.1 MiB"),
        (2**40, "1.000 TiB"),
        (1234.5 * 2**40, "1,234.5 TiB"),
        (1e18, "909,494.7 TiB"),
    ],
)
def test_sizes(value, text):
    assert bytes_text(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 us"), (7.5e-7, "0.75 us"), (0.0125, "12.50 ms"), (0.9999, "999.9 ms"), (3, "3.000 s")],
)
def test_times(seconds, text):
    assert time_text(seconds) == text


def test_operations():
    assert [flops_text(n) for n in (12, 1500, 3633039848)] == ["12 FLOP", "1.500 kFLOP", "3.633 GFLOP"]


def test_a_table_into_a_pipe_is_plain_and_as_wide_as_its_cells():
    result = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == [
        "name" + " " * 68 + " count",
        "a" * 70 + "  12,345",
        "[red]b[/red] :smile:" + " " * 50 + "       7",
        "total" + " " * 65 + "  12,352",
        "wrong",
    ]


def test_wide_letters_take_two_columns():
    assert table([["\u4e2d\u6587", "x"], ["abcdef", "y"]], ["name", "z"]).splitlines() == [
        "name    z", "\u4e2d\u6587    x", "abcdef  y"
    ]  # fmt: skip


def test_names_cannot_steer_the_terminal():
    assert table([["a\x1b[2Jb\nc"]], ["name"]).splitlines() == ["name", r"a\x1b[2Jb\nc"]


def on_terminal(columns: int, **env: str) -> str:
    """What the program prints on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    hidden = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")
    variables = {name: value for name, value in os.environ.items() if name not in hidden}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=theirs, stdout=theirs, env={**variables, "TERM": "xterm", **env}
    )
    os.close(theirs)
    text = b""
    try:
        while part := os.read(ours, 4096):
            text += part
    except OSError:  # the terminal is closed
        pass
    os.close(ours)
    assert process.wait(timeout=60) == 0
    return text.decode().replace("\r\n", "\n")


def test_a_table_on_a_terminal_folds_at_its_width():
    lines = re.sub(r"\x1b\[[\d;]*m", "", on_terminal(40)).splitlines()
    assert max(map(len, lines)) <= 40 and lines[-1] == "wrong"
    assert "".join(line.split()[0] for line in lines[1:4]).startswith("a" * 60)


def test_colours_are_for_terminals_without_no_color():
    assert "\x1b[1;31mwrong" in on_terminal(80)
    plain = on_terminal(80, NO_COLOR="1")
    assert "31m" not in plain and "wrong" in plain
