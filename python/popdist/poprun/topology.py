"""Which instance runs on which host and has which replicas, and the table that shows it."""

from __future__ import annotations

import re
from argparse import Namespace
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path

from popdist.poprun.options import UsageError

LOCAL_HOST = "localhost"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PART = re.compile(r"\[([^\[\]]*)\]")
_MOST_HOSTS = 65536


@dataclass(frozen=True)
class Instance:
    """One process of the job."""

    index: int
    host: str
    local_index: int  # among the instances of its host
    first_replica: int
    num_replicas: int

    def __str__(self) -> str:
        last = self.first_replica + self.num_replicas - 1
        replicas = f"replicas {self.first_replica} to {last}" if self.num_replicas > 1 else f"replica {last}"
        return f"instance {self.index} (host {self.host}, {replicas})"


@dataclass(frozen=True)
class Topology:
    """All instances, host by host."""

    hosts: tuple[str, ...]
    num_ilds: int
    instances: tuple[Instance, ...]

    @property
    def num_replicas(self) -> int:
        """Replicas of all instances."""
        return sum(instance.num_replicas for instance in self.instances)


def expand_hosts(text: str) -> tuple[str, ...]:
    """Names of a list such as ``a,node[08-10,12]``, in its order; numbers keep the width of the first one."""
    names = []
    for entry in re.split(r",(?![^\[]*\])", text):
        parts = _PART.split(entry)  # texts between brackets, and in brackets, in turn
        choices = [_numbers(part, text) if i % 2 else [part] for i, part in enumerate(parts)]
        _check_number(len(names) + prod(map(len, choices)), text)
        names += ["".join(choice) for choice in product(*choices)]
    for name in names:
        if not _NAME.fullmatch(name):
            raise UsageError(f"--host: got '{name}' in '{text}', expected names such as a,b or node[0-2,4]")
    return _distinct(names, "--host")


def _numbers(text: str, whole: str) -> list[str]:
    """The numbers of ``0-2,4``."""
    found = []
    for item in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", item, re.ASCII)
        if not match or int(match[2] or match[1]) < int(match[1]):
            raise UsageError(f"--host: got '[{text}]' in '{whole}', expected numbers and ranges such as [0-2,4]")
        first, last = int(match[1]), int(match[2] or match[1])
        _check_number(last - first, whole)
        found += [f"{number:0{len(match[1])}}" for number in range(first, last + 1)]
    return found


def _check_number(number: int, whole: str) -> None:
    if number > _MOST_HOSTS:
        raise UsageError(f"--host: got more than {_MOST_HOSTS} hosts in '{whole}', expected fewer")


def read_hosts(file: str) -> tuple[str, ...]:
    """Names of a file with one on each line; blank lines and text after ``#`` are ignored."""
    try:
        lines = Path(file).read_text().splitlines()
    except (OSError, ValueError) as problem:
        raise UsageError(f"--hostfile: file '{file}' cannot be read: {problem}") from None
    names = []
    for number, line in enumerate(lines, 1):
        name = line.partition("#")[0].strip()
        if name and not _NAME.fullmatch(name):
            raise UsageError(f"--hostfile: got '{name}' on line {number} of '{file}', expected one name of a host")
        names += [name] if name else []
    if not names:
        raise UsageError(f"--hostfile: got no host in '{file}', expected one on each line")
    return _distinct(names, "--hostfile")


def _distinct(names: list[str], option: str) -> tuple[str, ...]:
    twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    if twice:
        raise UsageError(f"{option}: got host '{twice}' twice, expected each once. Instances are divided evenly")
    return tuple(names)


def divide(options: Namespace) -> Topology:
    """Divide replicas among instances, and instances among hosts, evenly and in order."""
    replicas, instances, ilds = options.num_replicas, options.num_instances, options.num_ilds
    if options.host and options.hostfile:
        raise UsageError("--host, --hostfile: got both, expected one of them")
    hosts = (LOCAL_HOST,)
    if options.host or options.hostfile:
        hosts = expand_hosts(options.host) if options.host else read_hosts(options.hostfile)
    if replicas % instances:
        raise UsageError(
            f"--num-replicas: got {replicas}, expected a multiple of --num-instances, which is {instances}"
        )
    if instances % len(hosts):
        raise UsageError(f"--num-instances: got {instances}, expected a multiple of the hosts, which are {len(hosts)}")
    if instances % ilds:
        raise UsageError(f"--num-ilds: got {ilds}, expected a divisor of --num-instances, which is {instances}")
    local, of_host = replicas // instances, instances // len(hosts)
    return Topology(
        hosts, ilds, tuple(Instance(i, hosts[i // of_host], i % of_host, i * local, local) for i in range(instances))
    )


def table(topology: Topology) -> str:
    """The table of ``--print-topology``. A name too wide for its cell is replaced by ``[index]``, and shown below."""
    replicas = topology.num_replicas
    cell = len(str(replicas - 1)) + 2
    columns = replicas * (cell + 1) - 1
    legend = []

    def row(title: str, names: list[str]) -> str:
        width = (columns + 1) // len(names) - 1
        cells = []
        for i, name in enumerate(names):
            if len(name) + 2 > width and title == "hosts":
                legend.append(f" [{i}] {name}")
                name = f"[{i}]"
            cells.append(f"{name:^{width}}")
        return f"| {title:<9} |{'|'.join(cells)}|"

    def numbers(count: int) -> list[str]:
        return [str(i) for i in range(count)]

    whole = columns + 12
    rows = [
        row("hosts", list(topology.hosts)),
        row("ILDs", numbers(topology.num_ilds)),
        row("instances", numbers(len(topology.instances))),
        row("replicas", numbers(replicas)),
    ]
    between = f"\n|{'-' * 11}|{'-' * columns}|\n"
    top = [f" {'=' * whole}", f"|{'poprun topology':^{whole}}|", f"|{'=' * whole}|"]
    return "\n".join([*top, between.join(rows), f" {'-' * whole}", *legend])
