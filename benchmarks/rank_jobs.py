"""Jobs of several processes (`rank_worker.py`).

They answer over a socket, because Open MPI passes stdin to only one process.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from processes import HERE, WorkerFailed
from two_hosts import SUBNET, TwoHosts

ON_LOOPBACK = "--mca btl_tcp_if_include lo --mca oob_tcp_if_include lo"
LAUNCHERS = ("POPDIST_", "OMPI_", "PMIX_", "SLURM_")
OWN_LAUNCHER = ("linked", "profiled")  # kinds that poprun starts


def free_port() -> int:
    """An unused port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class RankJob:
    """The processes of one job.

    Attributes:
        first: The first answer of each process, by rank: losses, memory, seconds of building.
        started_s: Seconds from the start of the job to the last of these.
        pids: Process ids, by rank.
    """

    def __init__(
        self,
        kind: str,
        name: str,
        folder: Path,
        processes: int,
        seconds: float,
        *,
        shares: int = 0,
        hosts: TwoHosts | None = None,
        by_messages: bool = False,
    ) -> None:
        """Start the job, on this host or on two others, and wait for the first answers.

        `shares`: number of parts of the batch, one for each process; 0: as many as processes. `by_messages`: processes
        of one host do not share memory.

        Raises:
            WorkerFailed: A process answered with an error, or not within `seconds`, or the job ended.
        """
        self.kind, self._deadline = kind, time.monotonic() + seconds
        self._folder = tempfile.TemporaryDirectory()
        self._output = Path(self._folder.name, "output")
        path = str(Path(self._folder.name, "socket"))
        begin = time.monotonic()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen(processes)
            words = [
                sys.executable,
                str(HERE / "rank_worker.py"),
                kind,
                name,
                str(folder),
                str(shares or processes),
                path,
            ]
            self.launched = self._start(words, processes, hosts, by_messages)
            self._streams: list[Any] = [None] * processes
            self.pids = [0] * processes
            try:
                self._accept(listener)
                self.first = self._answers()
            except BaseException:
                self.close()
                raise
        self.started_s = time.monotonic() - begin

    def _start(
        self, words: list[str], processes: int, hosts: TwoHosts | None, by_messages: bool
    ) -> list[subprocess.Popen[bytes]]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
        if by_messages:
            environment["POPLAR_ENGINE_OPTIONS"] = json.dumps({"replicas.sharedMemory": "false"})

        def start(command: list[str], **further: str) -> subprocess.Popen[bytes]:
            with self._output.open("ab") as output:
                return subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    env=environment | further,
                )

        if self.kind not in OWN_LAUNCHER:
            shared = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
            shared |= {"GLOO_SOCKET_IFNAME": "lo"}
            return [start(words, RANK=str(number), **shared) for number in range(processes)]
        poprun = [sys.executable, "-m", "popdist.poprun", f"--num-instances={processes}", f"--num-replicas={processes}"]
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        network = ON_LOOPBACK
        if hosts:
            poprun = [*hosts.prefix(0), *poprun, f"--host={','.join(hosts.names)}", f"--host-subnet={SUBNET}"]
            network = f"--mca plm_rsh_agent {hosts.agent}"
        return [start([*poprun, f"--mpi-global-args=--bind-to none {network}", *words], **root)]

    def _accept(self, listener: socket.socket) -> None:
        while None in self._streams:
            listener.settimeout(0.2)
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                self._look_at_time()
                continue
            stream = connection.makefile("rw")
            hello = self._line(connection, stream)
            self._streams[hello["rank"]], self.pids[hello["rank"]] = (connection, stream), hello["pid"]

    def _look_at_time(self) -> None:
        if any(process.poll() is not None for process in self.launched):
            raise WorkerFailed(f"{self.kind}: the job ended: {self.output()[-600:]}")
        if time.monotonic() > self._deadline:
            raise WorkerFailed(f"{self.kind}: no result within its time")

    def _line(self, connection: socket.socket, stream: Any) -> dict[str, Any]:
        connection.settimeout(max(0.1, self._deadline - time.monotonic()))
        try:
            line = stream.readline()
        except TimeoutError:
            raise WorkerFailed(f"{self.kind}: no result within its time") from None
        if not line:
            raise WorkerFailed(f"{self.kind}: a process ended: {self.output()[-600:]}")
        message = json.loads(line)
        if "error" in message:
            raise WorkerFailed(message["error"])
        return message

    def _answers(self) -> list[dict[str, Any]]:
        return [self._line(connection, stream) for connection, stream in self._streams]

    def send(self, calls: int, warm_up: int) -> None:
        """Let all processes make `warm_up` steps and time `calls` others."""
        for _, stream in self._streams:
            stream.write(json.dumps({"calls": calls, "warm_up": warm_up}) + "\n")
            stream.flush()

    def times_ms(self, calls: int, warm_up: int, seconds: float) -> list[list[float]]:
        """Times of `calls` steps after `warm_up` others, by rank. Raises WorkerFailed as the constructor."""
        self._deadline = time.monotonic() + seconds
        self.send(calls, warm_up)
        return [answer["times_ms"] for answer in self._answers()]

    def output(self) -> str:
        """The output of the processes and their launcher."""
        return self._output.read_text(errors="replace").strip()

    def close(self) -> None:
        """End the job: its processes leave when their socket is closed, or are killed."""
        for pair in self._streams:
            if pair:
                pair[1].close()
                pair[0].close()
        for process in self.launched:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        self._folder.cleanup()
