"""What popdist needs of the hosts of a job: the interface of a communicator, and the one of a single process.

A communicator of several processes needs MPI (`_processes`); it is the only part of popdist that does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np


class HostCommunicator(ABC):
    """Processes that exchange values, numbered 0 to `size` - 1. All of them call each method, in the same order.

    `call` is what the program called, for messages.
    """

    rank: int  # number of this process
    size: int

    @abstractmethod
    def exchange(self, parts: Sequence[bytes], call: str) -> list[bytes]:
        """Give each member its part, by member. Returns what each gave this one; lengths may differ."""

    @abstractmethod
    def subset(self, members: Sequence[int]) -> HostCommunicator | None:
        """Return a communicator of some members (ascending numbers of this one), on those; None on the others."""

    @abstractmethod
    def close(self) -> None:
        """End communication; no method is called afterwards."""

    def gather(self, data: bytes, call: str) -> list[bytes]:
        """Return what each member gave, in member order, on every member; lengths may differ."""
        return self.exchange([data] * self.size, call)

    def broadcast(self, data: bytes, root: int, call: str) -> bytes:
        """Return what member `root` gave, on every member.

        The root sends a part to each, and each sends its part to all.
        """
        bounds = [len(data) * i // self.size for i in range(self.size + 1)]
        parts = [data[begin:end] if self.rank == root else b"" for begin, end in pairwise(bounds)]
        return b"".join(self.gather(self.exchange(parts, call)[root], call))

    def reduce(self, array: np.ndarray, join: Callable[..., np.ndarray], call: str) -> np.ndarray:
        """Return a new array, the members' arrays joined element by element; the same bits on every member.

        Each member joins a part of the elements, by a balanced binary tree over the members, and sends it to all.
        Sums of 16 bits are rounded once. The members' arrays have one element type and shape.
        """
        parts = [part.tobytes() for part in np.array_split(array.reshape(-1), self.size)]
        terms = [np.frombuffer(data, array.dtype) for data in self.exchange(parts, call)]
        if array.dtype.name in ("float16", "bfloat16"):
            terms = [term.astype(np.float32) for term in terms]
        while len(terms) > 1:
            pairs = [terms[i : i + 2] for i in range(0, len(terms), 2)]
            terms = [join(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
        joined = self.gather(terms[0].astype(array.dtype).tobytes(), call)
        return np.frombuffer(bytearray().join(joined), array.dtype).reshape(array.shape)


class OneProcess(HostCommunicator):
    """The communicator of a job of one instance."""

    rank, size = 0, 1

    def exchange(self, parts: Sequence[bytes], call: str) -> list[bytes]:
        """Return what this process gave."""
        return list(parts)

    def subset(self, members: Sequence[int]) -> OneProcess | None:
        """Return this communicator, unless there are no members."""
        return self if members else None

    def close(self) -> None:
        """Do nothing: a process by itself has nothing open."""
