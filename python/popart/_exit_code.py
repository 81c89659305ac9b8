"""The exit code of a process whose MPI is finalised by another library, such as mpi4py.

That library finalises MPI while Python ends, before the C library knows the exit code. Finalising MPI waits for the
other processes of the job, and a process that fails must not wait: the others wait for it. So the exit code is recorded
when the interpreter reads it: `sys.exit`, `exit` and `quit` raise a SystemExit whose attribute `code` records it.
"""

import builtins
import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

import popart_core


class _NotedExit(SystemExit):
    """A SystemExit that records when `code` is read. The interpreter does so after all Python code of the program."""

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
    """Wrap `end` so that its SystemExit is recorded. A SystemExit in another thread does not end the program."""

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
    """Record the exit code that the program passes to `sys.exit`, `exit` or `quit`. libpopart calls this."""
    sys.exit = _noted(sys.exit)
    quitter = type(getattr(builtins, "exit", None))  # of both functions
    if quitter.__module__ == "_sitebuiltins":
        quitter.__call__ = _noted(quitter.__call__)
