"""Worker processes: each runs one implementation (`worker.py`) and answers with JSON lines."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
_START = time.monotonic()


def progress(text: str) -> None:
    """Print the current activity to stderr, with the seconds since the start."""
    print(f"[{time.monotonic() - _START:7.1f}s] {text}", file=sys.stderr, flush=True)


def packages_of(checkout: Path) -> dict[str, str]:
    """The environment in which Python imports the packages of another built checkout."""
    preset = os.environ.get("POPART_PRESET", "release")
    return {"PYTHONPATH": f"{checkout}/python:{checkout}/build/{preset}/python"}


class WorkerFailed(Exception):
    """A worker answered with an error, ended, or exceeded its time."""


class Worker:
    """A process of `worker.py` and its answers."""

    def __init__(
        self, *arguments: str, environment: dict[str, str] | None = None, checkout: Path | None = None
    ) -> None:
        """Start ``worker.py`` with `arguments` and additions to the environment; of another built checkout if given."""
        folder = HERE
        if checkout:
            folder, environment = checkout / "benchmarks", (environment or {}) | packages_of(checkout)
        command = [sys.executable, str(folder / "worker.py"), *arguments]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=os.environ | (environment or {}),
        )
        self._pending = bytearray()
        self._errors = b""

    def receive(self, seconds: float) -> dict[str, Any]:
        """Return the next answer.

        Raises:
            WorkerFailed: An error answer, no answer in time, or the end of the process.
        """
        deadline = time.monotonic() + seconds
        assert self._process.stdout and self._process.stderr
        out, err = self._process.stdout.fileno(), self._process.stderr.fileno()
        complete = b"\n" in self._pending
        while not complete:
            ready, _, _ = select.select([out, err], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise WorkerFailed(f"no result within its {seconds:.0f} s")
            if err in ready:
                self._errors = (self._errors + os.read(err, 1 << 16))[-4000:]
            if out in ready:
                piece = os.read(out, 1 << 20)
                if not piece:
                    raise WorkerFailed(self._ending())
                self._pending += piece
                complete = b"\n" in piece
        line, _, self._pending = self._pending.partition(b"\n")
        message = json.loads(line)
        if "error" in message:
            raise WorkerFailed(message["error"])
        return message

    def _ending(self) -> str:
        code = self._process.wait()
        last = self._errors.decode(errors="replace").strip().splitlines() or [""]
        return f"ended with exit code {code}: {last[-1][:300]}"

    def send(self, message: Any) -> None:
        """Send one request."""
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise WorkerFailed(self._ending()) from None

    def pause(self) -> None:
        """Stop the process with all its threads, so that none of them spins while others are measured."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it continue."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGCONT)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe:
                pipe.close()


def ask_once(
    seconds: float, *arguments: str, environment: dict[str, str] | None = None, checkout: Path | None = None
) -> dict[str, Any]:
    """The one answer of a worker that measures by itself."""
    worker = Worker(*arguments, environment=environment, checkout=checkout)
    try:
        return worker.receive(seconds)
    finally:
        worker.close()
