"""The communicator of a job of several instances: on Open MPI, by libpopart."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import popart_core

from popdist._communicator import HostCommunicator
from popdist._job import job, seconds

DEFAULT_TIMEOUT = 1800.0


class Processes(HostCommunicator):
    """Processes of this job.

    Raises:
        popart_exception: a method is called with numbers that are not members.
        popart_runtime_error: members do not come within ``POPDIST_TIMEOUT`` seconds, or communication has ended. All
            methods raise it, and communication of all instances ends.
    """

    def __init__(self, group: popart_core._HostGroup) -> None:
        self._group: popart_core._HostGroup | None = group
        self.rank, self.size = group.member, group.members

    def exchange(self, parts: Sequence[bytes], call: str) -> list[bytes]:
        """Give each member its part, by member. Returns what each gave this one; lengths may differ."""
        return self._open().exchange(list(parts), f"popdist: {call}")

    def subset(self, members: Sequence[int]) -> Processes | None:
        """Return a communicator of some members (ascending numbers of this one), on those; None on the others."""
        group = self._open().subset(list(members))
        return None if group is None else Processes(group)

    def close(self) -> None:
        """End communication of this process. It stays in its job until it ends."""
        self._group = None

    def _open(self) -> popart_core._HostGroup:
        if self._group is None:
            raise RuntimeError("popdist: communication was ended by finalizeBackend(). Call init() again.")
        return self._group


def load() -> None:
    """Load Open MPI, which is not initialised yet.

    Raises:
        popart_exception: it is missing, in one line that says what to install.
    """
    popart_core._load_mpi()


def join() -> Processes:
    """Join the job; all instances do.

    Returns:
        All its instances.

    Raises:
        popart_exception: as `load`; or the instances disagree about the replicas of the job.
        popart_runtime_error: some instances do not come within ``POPDIST_TIMEOUT`` seconds.
    """
    found = job()
    instances = found.instances or (found.total // found.local if found.uniform else 0)
    timeout = seconds("POPDIST_TIMEOUT", DEFAULT_TIMEOUT)
    others = "mpi4py" in sys.modules
    return Processes(popart_core._join_host_group(instances, others, found.total, found.local, found.offset, timeout))
