"""The exit code of a process of a job in which another library, as mpi4py, finalises MPI.

That library does so while Python ends, before the C library gets the exit code. Finalising MPI waits for the other
processes of the job, and a process that fails must not wait for those that wait for it. So the code is noted where the
interpreter reads it: `sys.exit`, `exit` and `quit` raise a kind of SystemExit whose attribute `code` tells.
"""

import builtins
import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

import popart_core


class _NotedExit(SystemExit):
    """As SystemExit. The interpreter reads `code` when the exception has left the program: then no Python code runs."""

    @property
    def code(self) -> Any:  # type: ignore[override]
        code = SystemExit.code.__get__(self)  # type: ignore[attr-defined]
        if sys._getframe().f_back is None:
            popart_core._note_exit_code(0 if code is None else code & 0xFF if isinstance(code, int) else 1)
        return code

    @code.setter
    def code(self, code: Any) -> None:
        SystemExit.code.__set__(self, code)  # type: ignore[attr-defined]


def _noted(end: Callable[..., Any]) -> Callable[..., Any]:
    """`end`, whose SystemExit is noted. In threads it ends no program."""

    @functools.wraps(end)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return end(*args, **kwargs)
        except SystemExit as e:
            if threading.current_thread() is not threading.main_thread():
                raise
            raise _NotedExit(*e.args) from None

    return wrapped


@functools.cache
def watch() -> None:
    """Note the exit code that the program gives to `sys.exit`, `exit` or `quit` from now on. libpopart calls it."""
    sys.exit = _noted(sys.exit)
    quitter = type(getattr(builtins, "exit", None))  # of both functions
    if quitter.__module__ == "_sitebuiltins":
        quitter.__call__ = _noted(quitter.__call__)
