"""Checks that bindings use the stable ABI of Python alone. Usage: stable_abi.py [ROOT].

One wheel serves Python 3.12 and all newer versions (`cp312-abi3`). It is compiled with `Py_LIMITED_API`, the
development build is not: a name that is outside of the stable ABI compiles there and breaks the wheel.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

# What is in use, each looked up in https://docs.python.org/3.12/c-api/stable.html#contents-of-limited-api.
IN_USE = """
    PyBUF_C_CONTIGUOUS PyBUF_FORMAT PyBUF_STRIDES PyBUF_WRITABLE PyBool_Check PyBuffer_IsContiguous PyBuffer_Release
    PyBytes_AsString PyBytes_Check PyBytes_Size PyDict_Check PyErr_CheckSignals PyErr_Clear PyErr_ExceptionMatches
    PyErr_NewExceptionWithDoc PyErr_SetObject PyErr_SetString PyEval_GetFrame PyEval_RestoreThread PyEval_SaveThread
    PyExc_Exception PyExc_RuntimeError PyFloat_AsDouble PyFloat_Check PyFrame_GetCode PyFrame_GetLineNumber
    PyGILState_Ensure PyGILState_Release PyGILState_STATE PyLong_Check PyNumber_Float PyObject_CallObject
    PyObject_GetBuffer PyObject_IsTrue PyObject_Repr PyObject_Str PyTuple_Check PyTuple_GetItem PyTuple_New
    PyTuple_SetItem PyTuple_Size PyUnicode_Check
"""
STABLE = frozenset(IN_USE.split())
NAME = re.compile(r"\bPy[A-Z]\w*_\w+")


def check_file(name: str, text: str) -> list[str]:
    """Names of Python's C interface in one file that are not known to be stable.

    Args:
        name: Path relative to the repository.
        text: Content of the file.

    Returns:
        One line per name and place.
    """
    return [
        f"{name}:{number}: {used} is not known to be in the stable ABI of Python 3.12. Use another, or look it up "
        "and add it to tools/checks/stable_abi.py."
        for number, line in enumerate(text.splitlines(), 1)
        for used in NAME.findall(line.split("//")[0])
        if used not in STABLE
    ]


def main() -> int:
    """Print all problems; returns 1 when there is one."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2]
    listed = subprocess.run(
        ["git", "ls-files", "python/bindings"], cwd=root, capture_output=True, text=True, check=True
    ).stdout.split()
    problems = [problem for name in listed for problem in check_file(name, (root / name).read_text())]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
