"""What every command shares: its parser, ``--version``, the exit codes, and how errors and signals end it.

An error is printed once, as ``program: what is wrong. What to do``; ``--debug`` shows the traceback instead.
"""

from __future__ import annotations

import argparse
import enum
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import popart_core
from popart_commands.modules import end_interrupted

from popart.tools.versions import version_text

Command = Callable[[Sequence[str] | None], int]


class ExitCode(enum.IntEnum):
    """The exit codes of the commands."""

    DONE = 0, "done"
    DIFFERENT = 1, "done, and the answer is no: results differ, or a part of the model is refused"
    REFUSED = 2, "wrong command line, or a file, model or setting that cannot be used"
    FAULT = 3, "a fault of PopART"
    INTERRUPTED = 130, "interrupted (Ctrl-C)"
    PIPE_CLOSED = 141, "the reader of the output is gone, as with head"

    meaning: str

    def __new__(cls, code: int, meaning: str) -> ExitCode:
        """Make a member of its code and of what the code means."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member


class UsageError(Exception):
    """What the user can mend on the command line or in a file; the command ends with `ExitCode.REFUSED`."""


class _Version(argparse.Action):
    """``--version``; the commit is looked up only when it is asked for."""

    def __init__(self, option_strings: Sequence[str], dest: str, **settings: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **settings)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        print(version_text(parser.prog))
        parser.exit(ExitCode.DONE)


def plain_parser(program: str, description: str) -> argparse.ArgumentParser:
    """A parser with what every command takes: ``--version`` and ``--debug``; the help ends with the exit codes."""
    codes = "\n".join(f"  {code.value:3}  {code.meaning}" for code in ExitCode)
    made = argparse.ArgumentParser(
        program,
        description=description,
        epilog=f"exit codes:\n{codes}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--version", action=_Version, help="print the versions and stop")
    made.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return made


def model_parser(program: str, description: str) -> argparse.ArgumentParser:
    """A parser of a command that reads a model: `plain_parser` with the model and ``--json``."""
    made = plain_parser(program, description)
    made.add_argument("model", type=Path, help="ONNX file")
    made.add_argument("--json", action="store_true", help="print a JSON object; numbers that are not finite are null")
    return made


def exit_code_of(program: str, command: Command, arguments: Sequence[str]) -> int:
    """Run a command.

    Args:
        program: Its name, in front of what goes to stderr.
        command: Returns the exit code, or raises.
        arguments: Of the command line.

    Returns:
        The exit code. Errors are one message on stderr.
    """
    popart_core._expect_errors(True)  # otherwise the log has each error as well
    try:
        code = command(arguments)
        sys.stdout.flush()
        return code
    except Exception as problem:
        code, text = _outcome(problem)
        if "--debug" in arguments:
            import traceback

            traceback.print_exc()
        print(f"{program}: {text}", file=sys.stderr)
        return code
    finally:
        popart_core._expect_errors(False)


def _outcome(problem: Exception) -> tuple[ExitCode, str]:
    """The exit code of an exception, and its message."""
    if isinstance(problem, MemoryError) and not isinstance(problem, popart_core.popart_exception):
        return ExitCode.REFUSED, f"there is not enough memory: {problem}. Use a smaller --dim, --shape or model"
    known = (UsageError, popart_core.popart_exception, popart_core.poplar_exception, OSError)
    if isinstance(problem, known) and not isinstance(problem, popart_core.popart_internal_exception):
        return ExitCode.REFUSED, str(problem)
    text = " ".join(str(problem).split()) or "no message"
    return ExitCode.FAULT, (
        f"fault of PopART: {type(problem).__name__}: {text}. Report it with the output of popart-info"
        " and of this command with --debug"
    )


def run_as_process(program: str, command: Command, arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command as this process, which ends with its exit code; signals end it as they end other programs.

    Args:
        program: Its name.
        command: Returns the exit code, or raises.
        arguments: Of the command line; None: those of the process.
    """
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and raises BrokenPipeError instead
    try:
        code = exit_code_of(program, command, sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        end_interrupted()
    sys.exit(int(code))
