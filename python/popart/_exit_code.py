"""The exit code of a process whose MPI is finalised by another library, such as mpi4py.

That library finalises MPI while Python ends, before the C library knows the exit code. Finalising MPI waits for the
other processes of the job, and a process that fails must not wait: the others wait for it. So the exit code is recorded
when the interpreter reads it: from the attribute `code` of the SystemExit that ends the program. That may be raised
anywhere.
"""

import ctypes
import functools
import gc
import sys
from typing import Any

import popart_core


def _read(exit_: SystemExit) -> Any:
    """The attribute `code`. When the interpreter reads it no Python code runs; other readers are Python code."""
    code = _plain_code.__get__(exit_)
    if sys._getframe().f_back is None:
        popart_core._popdist.noteExitCode(0 if code is None else code & 0xFF if isinstance(code, int) else 1)
    return code


_plain_code: Any = vars(SystemExit)["code"]
_plain_exit = sys.exit


@functools.wraps(_plain_exit)
def _exit(*args: Any, **kwargs: Any) -> Any:
    try:
        _plain_exit(*args, **kwargs)
    except SystemExit:
        raise  # as an object: until Python 3.11 an uncaught exception is its type and arguments


@functools.cache
def watch() -> None:
    """Record the exit code with which the program ends. libpopart calls this."""
    (attributes,) = gc.get_referents(vars(SystemExit))  # built-in classes give read-only access to their attributes
    attributes["code"] = property(_read, _plain_code.__set__, _plain_code.__delete__, _plain_code.__doc__)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(SystemExit))
    sys.exit = _exit
