"""``popart COMMAND``: one front door for the commands; ``popart-COMMAND`` is the same."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import NoReturn

from popart_commands.modules import MODULES
from popart_commands.programs import run_program

from popart._names import nearest_names
from popart.tools.command import Command, UsageError, plain_parser, run_as_process

COMMANDS = {  # and what they do
    "run": "run an ONNX model: time it, check it, compare it",
    "inspect": "show what a model holds, its layers, and the program it becomes",
    "convert": "convert a model: inference form, operator set, 16 bits, constants",
    "opt": "run compiler passes over a program and show the result",
    "cache": "list, prune or clear a folder of compiled programs",
    "profile": "show where time and memory of a model go: a page, a trace, two runs compared",
    "info": "print versions, processor, threads, memory and devices",
}
DESCRIPTION = "Commands of PopART. `popart COMMAND --help` describes one; `popart-COMMAND` is the same command."


def command(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the first argument names; the exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if not given or given[0].startswith("-"):
        parser = plain_parser("popart", DESCRIPTION)
        width = max(len(name) for name in COMMANDS)
        lines = [f"  {name.ljust(width)}  {meaning}" for name, meaning in COMMANDS.items()]
        parser.usage = "popart COMMAND [ARGUMENT ...]"
        parser.description = "\n".join([DESCRIPTION, "", "commands:", *lines])
        parser.parse_args(given)
        raise UsageError(f"there is no command given, expected one of {', '.join(COMMANDS)}. See popart --help")
    name, rest = given[0], given[1:]
    if name not in COMMANDS:
        near = nearest_names(name, COMMANDS) or f". There are {', '.join(COMMANDS)}"
        raise UsageError(f"there is no command '{name}'{near}. See popart --help")
    module = MODULES.get(f"popart_{name}")
    if module is None:
        run_program(f"popart-{name}", rest)
    run: Command = importlib.import_module(module).command
    return run(rest)


def main() -> NoReturn:
    """The command ``popart`` of the wheel."""
    name = sys.argv[1] if len(sys.argv) > 1 and sys.argv[1] in COMMANDS else None
    run_as_process(f"popart-{name}" if name else "popart", command)


if __name__ == "__main__":
    main()
