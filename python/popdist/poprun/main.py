"""The command: options, table, one job or, with ``--max-restarts``, several, and the exit code.

poprun writes its own lines to stderr: stdout belongs to the program.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import shlex
import signal
import sys
from collections.abc import Sequence

from popdist.poprun.command import check_program, command, find_mpirun, instance_environment
from popdist.poprun.launch import Job
from popdist.poprun.options import CommandLine, UsageError, parse, write_file
from popdist.poprun.topology import Topology, divide, table

_log = logging.getLogger("poprun")


def main() -> None:
    """The command of the wheel."""
    sys.exit(run(sys.argv[1:]))


def run(words: Sequence[str]) -> int:
    """Run a command line, without the name of the command. Returns the exit code."""
    try:
        line = parse(words)
        if line.version:
            print(version_text(line.options.version_format))
            return 0
        _start_log(line.verbosity)
        return _run_job(line)
    except UsageError as problem:
        print(f"poprun: {problem}", file=sys.stderr)
        return 2


def _run_job(line: CommandLine) -> int:
    options, topology = line.options, divide(line.options)
    only = options.only_output_from_instance
    if only is not None and only >= options.num_instances:
        raise UsageError(
            f"--only-output-from-instance: got {only}, expected a number below --num-instances, which is "
            f"{options.num_instances}"
        )
    if not line.program and not options.export_config and not options.print_topology:
        raise UsageError("the program is missing, expected poprun [options] program [arguments]")
    words = []
    if line.program:
        check_program(topology, line.program)
        mpirun = find_mpirun()
        _log.debug("%s is Open MPI %s", mpirun.path, ".".join(map(str, mpirun.version)))
        words = command(mpirun, topology, options, line.program, os.environ)
    if options.export_config:
        write_file(line)
    _show(line, topology)
    return _run_until_it_ends_well(words, line, topology) if words else 0


def _show(line: CommandLine, topology: Topology) -> None:
    if line.options.print_topology or line.verbosity:
        print(table(topology), file=sys.stderr, flush=True)
    if unused := [f"--{option.name}" for option in line.given if not option.has_effect]:
        _log.info("options without effect here: %s", ", ".join(unused))
    for instance in topology.instances:
        variables = instance_environment(topology, instance, line.options)
        _log.debug("%s: %s", instance, " ".join(f"{name}={value}" for name, value in variables.items()))


def _run_until_it_ends_well(words: list[str], line: CommandLine, topology: Topology) -> int:
    restarts = line.options.max_restarts
    for restart in range(restarts + 1):
        job = Job(words, line.options.only_output_from_instance)
        with job.signals():
            _log.info("running: %s", shlex.join(words))
            job.start()
            _log.info("waiting for mpirun (PID %d)", job.pid)
            code = job.wait()
        if job.signal is not None:
            _log.warning("%s ended the job", signal.Signals(job.signal).name)
            return code
        if code == 0:
            break
        _report(job, topology, code)
        if restart < restarts:
            _log.warning("starting the job again (%d of %d)", restart + 1, restarts)
    _log.info("mpirun ended with exit code %d", code)
    return code


def _report(job: Job, topology: Topology, code: int) -> None:
    """Say which instance ended the job, and show the hidden output of the instances."""
    failed = job.failed_instance()
    if failed is None or failed >= len(topology.instances):
        _log.error("the job ended with exit code %d", code)
    else:
        _log.error("%s ended the job, with exit code %d", topology.instances[failed], code)
    for number, lines in job.hidden_lines().items():
        _log.error("last lines of instance %d:", number)
        sys.stderr.buffer.write(b"".join(lines))
        sys.stderr.buffer.flush()


def _start_log(verbosity: int) -> None:
    """Lines ``HH:MM:SS.mmm PID POPRUN [I] text`` on stderr: warnings and errors, and the lines that -v and -vv add."""
    handler = logging.StreamHandler()
    handler.setFormatter(
        logging.Formatter("%(asctime)s.%(msecs)03d %(process)d POPRUN [%(levelname).1s] %(message)s", "%H:%M:%S")
    )
    _log.handlers = [handler]
    _log.propagate = False
    _log.setLevel((logging.WARNING, logging.INFO, logging.DEBUG)[verbosity])


def version_text(form: str) -> str:
    """The output of ``--version``; the full forms add the versions of the libraries that poprun uses."""
    import popart
    from popart.tools import versions as ours

    if form == "text":
        return ours.version_text("poprun")
    try:
        open_mpi = ".".join(map(str, find_mpirun().version))
    except UsageError:
        open_mpi = None
    versions = {
        "poprun": popart.__openpopart_version__,
        "PopART": popart.__version__,
        "Open MPI": open_mpi,
        "Python": platform.python_version(),
    }
    if form == "full-json":
        return json.dumps(versions)
    return "\n".join(f"{name} {version or 'not found'}" for name, version in versions.items())
