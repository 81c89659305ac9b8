"""tools/bisect_passes.py names the pass whose absence makes a command succeed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TOOL = ROOT / "build" / os.environ.get("POPART_PRESET", "dev") / "bin" / "popart-opt"
CHECK = "import os, sys; sys.exit(not {0} <= set(os.environ['POPART_DISABLE_PASSES'].split(',')))"


def bisect(check):
    command = [sys.executable, ROOT / "tools/bisect_passes.py", "--tool", TOOL, "--", sys.executable, "-c", check]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True)


@pytest.mark.parametrize("name", ["prune", "readViews", "chainDepthFirst"])
def test_one_pass_is_to_blame(name):
    result = bisect(CHECK.format({name}))
    assert (result.returncode, result.stdout) == (0, f"{name}\n"), result.stderr
    assert result.stderr.count("\n") < 20


def test_passes_that_break_it_together_stay_together():
    result = bisect(CHECK.format({"prune", "chainDepthFirst"}))
    assert result.returncode == 0 and {"prune", "chainDepthFirst"} <= set(result.stdout.split())


@pytest.mark.parametrize(
    ("check", "message"), [("0", "right with all passes on"), ("raise SystemExit(1)", "wrong with all passes off")]
)
def test_nothing_to_find(check, message):
    result = bisect(check)
    assert result.returncode == 1 and message in result.stderr
