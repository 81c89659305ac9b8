"""The options of poprun: one table, from which the command line, its help and the files of options are made.

Mistakes of the user raise `UsageError`, here and in the other files of this folder.
"""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn


class UsageError(Exception):
    """A mistake on the command line or in a file; poprun ends with exit code 2."""


def _switch(text: str) -> bool:
    known = {"yes": True, "1": True, "true": True, "no": False, "0": False, "false": False}
    if text.lower() not in known:
        raise argparse.ArgumentTypeError(f"got '{text}', expected yes or no (or 1, 0, true, false)")
    return known[text.lower()]


def _at_least(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        # Only digits: int() also takes signs, blanks and underlines.
        if not (text.isascii() and text.isdigit()) or int(text) < least:
            raise argparse.ArgumentTypeError(f"got '{text}', expected a whole number of {least} or more")
        return int(text)

    return parse


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(f"got '{text}', whose quotes do not match: {problem}") from None


def _one_of(*known: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in known:
            raise argparse.ArgumentTypeError(f"got '{text}', expected one of {', '.join(known)}")
        return text

    return parse


_COUNT, _NUMBER = _at_least(1), _at_least(0)


@dataclass(frozen=True)
class Option:
    """An option that takes a value."""

    name: str  # without dashes
    parse: Callable[[str], Any]
    default: Any
    value: str  # name of its value in the help
    help: str
    short: str = ""
    has_effect: bool = True
    repeats: bool = False  # may be given several times; the values, which are lists, are concatenated

    @property
    def key(self) -> str:
        """Name of the parsed value."""
        return self.name.replace("-", "_")


def _unused(name: str, parse: Callable[[str], Any], default: Any, value: str) -> Option:
    return Option(name, parse, default, value, "accepted, no effect here", has_effect=False)


_FORMATS = ("text", "full-text", "full-json")
OPTIONS = (
    Option("version-format", _one_of(*_FORMATS), "text", "FORMAT", f"of --version: {', '.join(_FORMATS)}"),
    Option("import-config", str, "", "FILE", "read options from a file; those of the command line come before them"),
    Option("export-config", str, "", "FILE", "write the options to a file"),
    Option("overwrite-config", _switch, False, "SWITCH", "whether --export-config replaces a file that is there"),
    Option("host", str, "", "LIST", "hosts, such as a,b or node[0-2,4], which get equally many instances", short="H"),
    Option("hostfile", str, "", "FILE", "hosts from a file, one on each line, instead of --host"),
    Option("num-replicas", _COUNT, 1, "N", "replicas of all instances together"),
    Option("num-instances", _COUNT, 1, "N", "processes; divides the replicas"),
    Option("ipus-per-replica", _COUNT, 1, "N", "IPUs of each replica"),
    Option("num-ilds", _COUNT, 1, "N", "IPU-Link domains that the table shows"),
    Option("executable-cache-path", str, "", "DIR", "folder of compiled programs, of all instances"),
    Option("mpi-global-args", _words, [], "ARGS", "options of mpirun as a whole", repeats=True),
    Option("mpi-local-args", _words, [], "ARGS", "options of mpirun for each instance: '-x NAME'", repeats=True),
    Option("host-subnet", str, "", "NET", "network between the hosts, such as 192.0.2.0/24"),
    Option("allow-run-as-root", _switch, False, "SWITCH", "whether mpirun may be run by root"),
    Option("numa-aware", _switch, False, "SWITCH", "bind instances to NUMA nodes, in turn"),
    Option("print-topology", _switch, False, "SWITCH", "print a table of hosts, instances and replicas; so does -v"),
    Option("only-output-from-instance", _NUMBER, None, "I", "hide what others write; show its end after a failure"),
    Option("max-restarts", _NUMBER, 0, "N", "start a job that failed again, so many times at most"),
    _unused("offline-mode", _switch, False, "SWITCH"),
    _unused("vipu-server-host", str, "localhost", "HOST"),
    _unused("vipu-server-port", _COUNT, 8090, "PORT"),
    _unused("vipu-server-timeout", _COUNT, 120, "SECONDS"),
    _unused("vipu-partition", str, "", "NAME"),
    _unused("vipu-partition-attempts", _COUNT, 1, "N"),
    _unused("update-partition", _switch, False, "SWITCH"),
    _unused("reset-partition", _switch, False, "SWITCH"),
    _unused("remove-partition", _switch, True, "SWITCH"),
    _unused("vipu-allocation", str, "", "NAME"),
    _unused("vipu-cluster", str, "", "NAME"),
)  # fmt: skip

_NOT_IN_FILES = ("import-config", "export-config", "overwrite-config", "version-format")
_FLAGS = ("-h", "--help", "--version", "-v", "--verbose", "-vv", "--vv")
_BY_WORD = {word: option for option in OPTIONS for word in (f"--{option.name}", f"-{option.short}") if word != "-"}


@dataclass(frozen=True)
class CommandLine:
    """The parsed command line."""

    options: argparse.Namespace  # a value for each of OPTIONS, by its key
    given: tuple[Option, ...]  # those that the command line or a file of options has
    verbosity: int  # 0, 1, 2
    version: bool
    program: tuple[str, ...]  # with its arguments


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message.removeprefix("argument "))


def _parser() -> _Parser:
    made = _Parser(
        "poprun",
        usage="poprun [options] program [arguments]",
        description="Starts a program as the instances of one job, by Open MPI's mpirun.",
        epilog="Switches take yes or no (or 1, 0, true, false). The first word that is not an option is the program; "
        "what follows are its arguments. The exit code is mpirun's: that of the first instance that failed. It is 2 if "
        "the job cannot be started, and 128 + N after signal N.",
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    made.add_argument("--version", action="store_true", help="print the version")
    made.add_argument("-v", "--verbose", action="count", help="log what is started, and print the table; -vv logs more")
    made.add_argument("--vv", dest="verbose", action="store_const", const=2, help="as -vv")
    for option in OPTIONS:
        words = ([f"-{option.short}"] if option.short else []) + [f"--{option.name}"]
        action = "extend" if option.repeats else "store"
        made.add_argument(
            *words, dest=option.key, type=option.parse, action=action, metavar=option.value, help=option.help
        )
    return made


def parse(words: Sequence[str]) -> CommandLine:
    """Parse a command line, without the name of the command, and the file of options that it names."""
    own, program = _split(words)
    found = vars(_parser().parse_args(own))
    verbosity, version = found.pop("verbose", 0), found.pop("version", False)
    if file := found.get("import_config"):
        found = read_file(file) | found
    values = {option.key: option.default for option in OPTIONS} | found
    given = tuple(option for option in OPTIONS if option.key in found)
    return CommandLine(argparse.Namespace(**values), given, min(verbosity, 2), version, tuple(program))


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Options, each one word with its value, and the rest. argparse would read a value with two dashes as an option."""
    own, rest = [], list(words)
    while rest and rest[0].startswith("-") and rest[0] not in ("-", "--"):
        word = rest.pop(0)
        name, equals, _ = word.partition("=")
        if word in _FLAGS:
            own.append(word)
            continue
        if name not in _BY_WORD:
            from popart._names import nearest_names

            raise UsageError(f"there is no option '{name}'{nearest_names(name, [*_BY_WORD, *_FLAGS])}")
        if not equals and not rest:
            raise UsageError(f"{name}: the value is missing, expected {_BY_WORD[name].value}")
        own.append(f"--{_BY_WORD[name].name}={word[len(name) + 1 :] if equals else rest.pop(0)}")
    return own, rest[1:] if rest[:1] == ["--"] else rest


def read_file(file: str) -> dict[str, Any]:
    """Values by key of a file that `write_file` wrote, or that was written by hand: a JSON object by option names."""
    try:
        content = json.loads(Path(file).read_text())
    except (OSError, ValueError) as problem:
        raise UsageError(f"--import-config: file '{file}' cannot be read: {problem}") from None
    if not isinstance(content, dict):
        raise UsageError(f"--import-config: got a {type(content).__name__} in '{file}', expected a JSON object")
    known = {option.name: option for option in OPTIONS if option.name not in _NOT_IN_FILES}
    values = {}
    for name, value in content.items():
        if name not in known:
            from popart._names import nearest_names

            raise UsageError(
                f"--import-config: '{file}' has no option that is called '{name}'{nearest_names(name, known)}"
            )
        try:
            values[known[name].key] = _value(known[name], value)
        except argparse.ArgumentTypeError as problem:
            raise UsageError(f"--import-config: {name} in '{file}': {problem}") from None
    return values


def _value(option: Option, value: Any) -> Any:
    """A value of a file: text as on the command line, or JSON's own number, boolean or list of words."""
    if option.repeats and isinstance(value, list) and all(isinstance(word, str) for word in value):
        return value
    if isinstance(value, bool):
        value = "yes" if value else "no"
    if not isinstance(value, str | int):
        raise argparse.ArgumentTypeError(f"got {json.dumps(value)}, expected a text, number or boolean")
    return option.parse(str(value))


def write_file(line: CommandLine) -> None:
    """Write the options that were given to the file that ``--export-config`` names."""
    file = line.options.export_config
    values = {o.name: getattr(line.options, o.key) for o in line.given if o.name not in _NOT_IN_FILES}
    try:
        with open(file, "w" if line.options.overwrite_config else "x") as stream:
            stream.write(json.dumps(values, indent=2) + "\n")
    except FileExistsError:
        raise UsageError(f"--export-config: file '{file}' is there. Add --overwrite-config=yes to replace it") from None
    except OSError as problem:
        raise UsageError(f"--export-config: file '{file}' cannot be written: {problem}") from None
