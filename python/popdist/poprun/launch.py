"""Runs ``mpirun``: its output, signals to poprun, and its end. Signals end all processes of the job on this host."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import BinaryIO

GRACE_SECONDS = 5  # between SIGTERM and SIGKILL
LAST_LINES = 20
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TAG = re.compile(rb"\[\d+,(\d+)\]<(?:stdout|stderr)>:")  # before each line of an instance
# How mpirun names the instance that ended the job. Its lines are wrapped.
_FAILED = re.compile(
    rb"Process name:\s+\[.*,(\d+)\]|process\s+rank\s+(\d+)\s+with\s+PID|was\s+invoked\s+on\s+rank\s+(\d+)"
    rb"|first\s+reported\s+for\s+process\s+rank\s+(\d+)"
)


class Output:
    """Passes on a stream of mpirun as it arrives: lines of instance `only` (None: of all), and lines of no instance."""

    def __init__(self, target: BinaryIO, only: int | None) -> None:
        self._target, self._only = target, only
        self._begun = b""  # a line without its end
        self._continues = False  # the last text has no end of line: the next piece of the instance gets no tag
        self.hidden: dict[int, deque[bytes]] = defaultdict(lambda: deque(maxlen=LAST_LINES))
        self.of_mpirun: deque[bytes] = deque(maxlen=3 * LAST_LINES)

    def read(self, source: BinaryIO) -> None:
        """Pass on all of a stream."""
        while chunk := os.read(source.fileno(), 1 << 16):
            self._take(chunk)
            if self._only is None:
                self._write(chunk)
        if self._begun:
            self._line(self._begun)

    def _take(self, chunk: bytes) -> None:
        *lines, self._begun = (self._begun + chunk).split(b"\n")
        for line in lines:
            self._line(line + b"\n")

    def _line(self, line: bytes) -> None:
        # mpirun 4 concatenates texts of instances without an end of line.
        begins = [found.start() for found in _TAG.finditer(line) if found.start()]
        for begin, end in pairwise([0, *begins, len(line)]):
            self._piece(line[begin:end])

    def _piece(self, piece: bytes) -> None:
        tag = _TAG.match(piece)
        if tag is None:
            self.of_mpirun.append(piece)
        if self._only is None:
            return
        if tag is None or int(tag[1]) == self._only:
            self._write(piece[tag.end() :] if tag and self._continues else piece)
            self._continues = not piece.endswith(b"\n")
            return
        lines = self.hidden[int(tag[1])]
        if lines and not lines[-1].endswith(b"\n"):
            lines[-1] += piece[tag.end() :]
        else:
            lines.append(piece)

    def _write(self, data: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):  # the reader closed the stream; the job continues
            self._target.write(data)
            self._target.flush()


class Job:
    """One run of mpirun. `only`: number of the instance whose output is shown; None: all."""

    def __init__(self, command: Sequence[str], only: int | None) -> None:
        self._command = command
        self._outputs = Output(sys.stdout.buffer, only), Output(sys.stderr.buffer, only)
        self._process: subprocess.Popen | None = None
        self.pid = 0  # of mpirun, once it runs
        self.signal: int | None = None  # the first one that ended the job

    def start(self) -> None:
        """Start mpirun in a separate session.

        So only poprun gets signals of a terminal, and the number of the session identifies all processes of the job.
        """
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        self.pid = self._process.pid
        if self.signal is not None:
            self._end()

    def wait(self) -> int:
        """Wait for the end of mpirun. Returns its exit code; 128 + N after signal N."""
        process = self._process
        assert process and process.stdout and process.stderr
        readers = [
            Thread(target=output.read, args=(source,), daemon=True)
            for output, source in zip(self._outputs, (process.stdout, process.stderr))
        ]
        for reader in readers:
            reader.start()
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)  # its number is kept until process.wait()
        signal.alarm(0)
        if self.signal is not None or (ended and ended.si_code != os.CLD_EXITED):
            kill_session(self.pid)
        code = process.wait()
        for reader in readers:  # a process that a program left running may hold a stream open
            reader.join(timeout=GRACE_SECONDS)
        if self.signal is not None:
            return 128 + self.signal
        return 128 - code if code < 0 else code

    def failed_instance(self) -> int | None:
        """Number of the instance that ended the job, if mpirun said so."""
        found = _FAILED.search(b"".join(self._outputs[1].of_mpirun))
        return next(int(number) for number in found.groups() if number) if found else None

    def hidden_lines(self) -> dict[int, list[bytes]]:
        """The last lines of each instance whose output was hidden, on stdout and then on stderr."""
        numbers = sorted({number for output in self._outputs for number in output.hidden})
        return {n: [line for output in self._outputs for line in output.hidden.get(n, ())] for n in numbers}

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
        """While the body runs, signals end the job: SIGTERM, and after 5 seconds, or at the second signal, SIGKILL."""
        before = {number: signal.signal(number, self._on_signal) for number in (*_SIGNALS, signal.SIGALRM)}
        try:
            yield
        finally:
            signal.alarm(0)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self.signal is None:
            self.signal = number
            self._end()
        elif self.pid:
            kill_session(self.pid)

    def _end(self) -> None:
        if self._process and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            signal.alarm(GRACE_SECONDS)


def kill_session(session: int) -> None:
    """Kill every process of a session, again while new ones are found; for 5 seconds at most."""
    until = time.monotonic() + GRACE_SECONDS
    while (processes := processes_of_session(session)) and time.monotonic() < until:
        for process in processes:
            with contextlib.suppress(OSError):  # it has ended, or is another user's
                os.kill(process, signal.SIGKILL)
        time.sleep(0.01)


def processes_of_session(session: int) -> list[int]:
    """Numbers of the processes of a session that run."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # After the name, which may have any characters: state, parent, group, session.
            state, _, _, number = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(number) == session and state not in "ZX":
                found.append(int(folder.name))
    return found
