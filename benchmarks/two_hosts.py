"""Two hosts on this machine: network namespaces with separate names, connected by a line of 1 Gbit/s.

Needs root and the commands ``ip`` and ``tc`` (package iproute2). Nothing outside the two namespaces is changed, and
no traffic leaves them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

from processes import WorkerFailed

LINE_BITS_PER_S = 1e9
SUBNET = "10.213.77.0/24"
ADDRESSES = ("10.213.77.1", "10.213.77.2")


def run(*words: str) -> None:
    """Run a command. Raises WorkerFailed with its text."""
    result = subprocess.run(words, capture_output=True, text=True)
    if result.returncode:
        raise WorkerFailed(
            f"two hosts: '{' '.join(words)}' failed: {result.stderr.strip() or result.returncode}. Network namespaces "
            "need root, the capabilities NET_ADMIN and SYS_ADMIN, and the kernel's veth and tbf"
        )


class TwoHosts:
    """The two namespaces, while the ``with`` block runs.

    Attributes:
        names: Names of the hosts.
        agent: A command like ssh, which starts a command on one of them, for mpirun's plm_rsh_agent.
    """

    def __init__(self) -> None:
        if missing := [command for command in ("ip", "tc", "unshare") if not shutil.which(command)]:
            raise WorkerFailed(f"two hosts: {', '.join(missing)} is not there. Install iproute2 and util-linux")
        self.names = tuple(f"popart{os.getpid()}{letter}" for letter in "ab")
        self._folder = tempfile.TemporaryDirectory()
        self.agent = Path(self._folder.name, "agent")

    def prefix(self, host: int) -> list[str]:
        """The words before a command that runs on a host."""
        name = self.names[host]
        # The name is that of a separate namespace, so that the machine keeps its name.
        return ["ip", "netns", "exec", name, "unshare", "--uts", "sh", "-c", f'hostname {name}; exec "$@"', "sh"]

    def __enter__(self) -> TwoHosts:
        try:
            for name in self.names:
                run("ip", "netns", "add", name)
            first, second = self.names
            # Names of devices have 15 letters at most.
            run("ip", "-n", first, "link", "add", "line", "type", "veth", "peer", "name", "line", "netns", second)
            for name, address in zip(self.names, ADDRESSES, strict=True):
                run("ip", "-n", name, "address", "add", f"{address}/24", "dev", "line")
                for device in ("lo", "line"):
                    run("ip", "-n", name, "link", "set", device, "up")
                shape = f"rate {LINE_BITS_PER_S / 1e6:.0f}mbit burst 256kb latency 50ms"
                run("tc", "-n", name, "qdisc", "add", "dev", "line", "root", "tbf", *shape.split())
        except BaseException:
            self.__exit__(None, None, None)
            raise
        # mpirun calls the agent with the host, then with words for a shell, as ssh takes them.
        self.agent.write_text(
            '#!/bin/sh\nhost=$1; shift\nexec ip netns exec "$host" unshare --uts sh -c "hostname $host; $*"\n'
        )
        self.agent.chmod(0o755)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)
        self._folder.cleanup()
