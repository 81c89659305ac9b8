"""The target that compiles the bindings with the limited API refuses what a wheel of the stable ABI cannot use.

`./dev lint` builds the target; here its command compiles single names.
"""

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / os.environ.get("POPART_PRESET", "dev")
PROGRAM = "#include <nanobind/nanobind.h>\nauto *name = &{};\n"


@pytest.fixture(scope="module")
def command():
    """What compiles a file of the target, without its last words: the object and the source."""
    entries = json.loads((BUILD / "compile_commands.json").read_text())
    commands = [entry["command"] for entry in entries if "popart_limited_api.dir" in entry["command"]]
    words = shlex.split(commands[0])
    return [*words[: words.index("-o")], "-fsyntax-only"]


def compiles(command, folder, name) -> bool:
    (folder / "name.cpp").write_text(PROGRAM.format(name))
    result = subprocess.run([*command, folder / "name.cpp"], cwd=BUILD, capture_output=True, text=True)
    assert result.returncode == 0 or name in result.stderr, result.stderr
    return result.returncode == 0


@pytest.mark.parametrize("name", ["PyTuple_SetItem", "PyFrame_GetCode", "PyObject_GetBuffer", "PyObject_Vectorcall"])
def test_names_of_the_limited_api_compile(command, tmp_path, name):
    assert compiles(command, tmp_path, name)


@pytest.mark.parametrize("name", ["PyTuple_SET_ITEM", "PyFrame_GetBack", "PyUnicode_AsUTF8", "PyList_GET_ITEM"])
def test_other_names_are_refused(command, tmp_path, name):
    """The third joins the limited API in Python 3.13."""
    assert not compiles(command, tmp_path, name)
