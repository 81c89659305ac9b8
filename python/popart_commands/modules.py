"""The commands that are modules of Python, and how Ctrl-C ends commands.

Importing a command takes a quarter of a second, in which Ctrl-C would print a traceback of whatever is imported.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

MODULES = {  # by the name of the command, with _ for -
    "gc_info": "popart.tools.gc_info",
    "popart": "popart.tools.front",
    "popart_convert": "popart.tools.convert",
    "popart_info": "popart.tools.info",
    "popart_inspect": "popart.tools.inspect",
    "popart_profile": "popart.tools.profile",
    "popart_run": "popart.tools.run",
    "poprun": "popdist.poprun.main",
}


def run_module(name: str) -> None:
    """Import a command and call its ``main``; Ctrl-C ends the process without a traceback, from now on.

    Args:
        name: Of the module.
    """
    handler = signal.getsignal(signal.SIGINT)
    # A program in the background of a shell may ignore the signal.
    outside = signal.SIG_DFL if handler is signal.default_int_handler else handler
    signal.signal(signal.SIGINT, outside)
    main = importlib.import_module(name).main
    try:
        try:
            signal.signal(signal.SIGINT, handler)
            main()
        finally:
            signal.signal(signal.SIGINT, outside)  # the interpreter that ends would print a traceback
    except KeyboardInterrupt:
        end_interrupted()


def end_interrupted() -> NoReturn:
    """End the process by SIGINT, so that a shell sees that the user ended it."""
    sys.stderr.flush()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
    sys.exit(128 + signal.SIGINT)  # where the signal has not ended it yet


def __getattr__(name: str) -> Callable[[], None]:
    if name not in MODULES:
        raise AttributeError(f"popart_commands.modules: there is no command '{name.replace('_', '-')}'")
    return lambda: run_module(MODULES[name])
