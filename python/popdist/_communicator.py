"""What popdist needs of the hosts of a job: the interface of a communicator, and the one of a single process.

A communicator of several processes stands on MPI; it is the only part of popdist that does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


class HostCommunicator(ABC):
    """Processes that exchange values, numbered 0 to `size` - 1. All of them call each method, in the same order."""

    rank: int  # number of this process
    size: int

    @abstractmethod
    def barrier(self) -> None:
        """Return when all members have called it."""

    @abstractmethod
    def gather(self, data: bytes) -> list[bytes]:
        """Return what each member gave, in member order, on every member; lengths may differ."""

    @abstractmethod
    def sum(self, array: np.ndarray) -> np.ndarray:
        """Return a new array, the element-wise sum over all members, the same bits on every member.

        The order of additions depends on `size` alone. The members' arrays have one element type and shape.
        """

    @abstractmethod
    def subset(self, members: Sequence[int]) -> HostCommunicator | None:
        """Return a communicator of some members (ascending numbers of this one), on those; None on the others."""

    @abstractmethod
    def close(self) -> None:
        """End communication; no method is called afterwards."""


class OneProcess(HostCommunicator):
    """The communicator of a job of one instance."""

    rank, size = 0, 1

    def barrier(self) -> None:
        """Return at once."""

    def gather(self, data: bytes) -> list[bytes]:
        """Return what this process gave."""
        return [data]

    def sum(self, array: np.ndarray) -> np.ndarray:
        """Return a copy."""
        return array.copy()

    def subset(self, members: Sequence[int]) -> OneProcess | None:
        """Return this communicator, unless there are no members."""
        return self if members else None

    def close(self) -> None:
        """Do nothing: a process by itself has nothing open."""
